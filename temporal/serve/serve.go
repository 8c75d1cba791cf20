// Package serve has the command serve of a program with package cli hand its runs to Temporal,
// if it is told: serve --temporal HOST:PORT. All else of the command is as it was.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/server"
	"github.com/superstep-dev/superstep/temporal"
)

// The flags, and the variables of the environment that stand in for them.
const (
	addressFlag   = "temporal"
	namespaceFlag = "temporal-namespace"
	queueFlag     = "task-queue"

	addressEnv = "TEMPORAL_ADDRESS"
	queueEnv   = "TASK_QUEUE"
)

// defaultQueue is that of programs that name none.
const defaultQueue = "superstep"

// OnTemporal gives the commands that serve flags by which runs are done by workers on Temporal,
// of which the server is one:
//
//	--temporal HOST:PORT       or $TEMPORAL_ADDRESS; without either this process does its runs
//	--temporal-namespace NAME  or $TEMPORAL_NAMESPACE, or default
//	--task-queue NAME          or $TASK_QUEUE, or o.TaskQueue, or superstep
//
// How else Temporal is reached (keys of its API, certificates, headers) is read as all of
// Temporal's programs read it: from the variables TEMPORAL_API_KEY, TEMPORAL_TLS and so on, and
// from the profile TEMPORAL_PROFILE of the file TEMPORAL_CONFIG_FILE; see package envconfig of
// its SDK. The rest of o and wo is for the program to say, as with [temporal.Begin].
//
// The server begins when Temporal has answered: if it doesn't within five seconds, or has no such
// namespace, the command ends with an error. The connection is closed with the server.
func OnTemporal(o temporal.Options, wo worker.Options) cli.Option {
	return cli.ServeFlags(func(f *pflag.FlagSet) func(context.Context, cli.Service) ([]server.Option, error) {
		t := &flags{set: f, options: o, worker: wo}
		f.StringVar(&t.address, addressFlag, "", "`HOST:PORT` of a server of Temporal: its workers do the runs, and this is one (default $"+addressEnv+"; without either this process does its runs)")
		f.StringVar(&t.namespace, namespaceFlag, "", "the `namespace` there (default $TEMPORAL_NAMESPACE, or \"default\")")
		f.StringVar(&t.queue, queueFlag, "", fmt.Sprintf("the `queue` of Temporal that is for servers with the same graphs (default $%s, or %q)", queueEnv, cmp.Or(o.TaskQueue, defaultQueue)))
		return t.serve
	})
}

// flags are what a command was told.
type flags struct {
	set                       *pflag.FlagSet
	address, namespace, queue string
	options                   temporal.Options
	worker                    worker.Options
}

// serve returns how a server is told to hand its runs to Temporal, if it is.
func (f *flags) serve(ctx context.Context, s cli.Service) ([]server.Option, error) {
	named, err := f.check()
	if err != nil || named == "" {
		return nil, err
	}
	if s.Dispatched {
		return nil, cli.Hint(cli.Usage("%s has Temporal do the runs, and they have a dispatcher already", named), "leave out either %s or the other, such as server.Dispatch in the program", named)
	}
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{})
	if err == nil {
		profile.Address, profile.Namespace = cmp.Or(f.address, profile.Address), cmp.Or(f.namespace, profile.Namespace)
	}
	var to client.Options
	if err == nil {
		to, err = profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	}
	if err != nil {
		return nil, cli.Hint(cli.Usage("how Temporal is reached: %w", err), "the variables TEMPORAL_… and the profile $TEMPORAL_PROFILE of $TEMPORAL_CONFIG_FILE say it")
	}
	if err := checkAddress(named, to.HostPort); err != nil {
		return nil, err
	}
	to.Logger = sdklog.NewStructuredLogger(s.Log)
	f.options.TaskQueue = cmp.Or(f.queue, os.Getenv(queueEnv), f.options.TaskQueue, defaultQueue)
	if at, err := stores.Parse(s.Data); s.Data != "" && err == nil && at.Backend != stores.Postgres {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "temporal: no other server can do runs of this one, as they can't share its store: several need --store postgres://…", slog.String("store", stores.Redact(s.Data)))
	}
	return []server.Option{server.Dispatch(func(w *fleet.Worker) (fleet.Dispatcher, error) { return f.begin(ctx, to, w) })}, nil
}

// check returns what has named a server of Temporal: the flag, the variable, or nothing.
func (f *flags) check() (named string, err error) {
	for _, name := range []string{addressFlag, namespaceFlag, queueFlag} {
		if is := f.set.Lookup(name); is.Changed && is.Value.String() == "" {
			return "", cli.Hint(cli.Usage("--%s is empty", name), "is a variable unset? Give a value, or leave the flag out")
		}
	}
	switch {
	case f.address != "":
		return "--" + addressFlag, nil
	case os.Getenv(addressEnv) != "":
		return addressEnv, nil
	}
	for _, name := range []string{namespaceFlag, queueFlag} {
		if f.set.Lookup(name).Changed {
			return "", cli.Hint(cli.Usage("--%s is for --%s, which is missing", name, addressFlag), "name a server of Temporal, such as --%s localhost:7233, or set %s", addressFlag, addressEnv)
		}
	}
	return "", nil
}

// checkAddress refuses what can't be dialled, but for what names a resolver of its own.
func checkAddress(named, address string) error {
	if strings.Contains(address, ":///") {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return cli.Hint(cli.Usage("%s is %q, which is no HOST:PORT", named, address), "for example: --%s localhost:7233", addressFlag)
	}
	return nil
}

// begin makes a dispatcher with a connection of its own.
func (f *flags) begin(ctx context.Context, to client.Options, w *fleet.Worker) (fleet.Dispatcher, error) {
	c, err := client.DialContext(ctx, to)
	if err != nil {
		return nil, cli.Hint(fmt.Errorf("dialling Temporal at %s: %w", to.HostPort, err), "does it run there? One with TLS needs TEMPORAL_TLS=true, or a key in TEMPORAL_API_KEY")
	}
	d, err := temporal.Begin(c, f.options, f.worker)(w)
	if err != nil {
		c.Close()
		if _, none := errors.AsType[*serviceerror.NamespaceNotFound](err); none {
			err = cli.Hint(err, "name another with --%s, or make it: temporal operator namespace create", namespaceFlag)
		}
		return nil, err
	}
	return &connected{d, c}, nil
}

// connected is a dispatcher that is closed with its connection.
type connected struct {
	fleet.Dispatcher
	c client.Client
}

func (d *connected) Close() error {
	defer d.c.Close()
	if c, ok := d.Dispatcher.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
