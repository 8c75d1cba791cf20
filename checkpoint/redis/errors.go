package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/internal/backend"
)

// Kinds of [Error], beside [checkpoint.ErrVersion].
var (
	ErrURL         = errors.New("URL is not valid")
	ErrUnreachable = errors.New("server cannot be reached")
	ErrDenied      = errors.New("server denies access")
	ErrReadOnly    = errors.New("server does not take writes")
	ErrFull        = errors.New("server is out of memory")
	ErrLoading     = errors.New("server is loading its data")
	ErrCluster     = errors.New("clusters are not supported")
	ErrEviction    = errors.New("server may evict threads")
	ErrForeign     = errors.New("a key belongs to something else")

	// ErrUncertain: a write was sent and no answer came. It happened as a whole
	// or not at all; the head of the log tells.
	ErrUncertain = errors.New("outcome of the write is unknown")
)

// Error says what went wrong with a server and what to do about it. It never
// holds a password. Its fields: what
// was tried (Op), the host:port/database (Place), one of the errors of this package or of package
// checkpoint (Kind), what is wrong if that does not say it all (What), what to do (Fix), and
// the client's or the server's error, which may be nil (Err).
type Error = backend.Error

// answered reports whether err is an answer of the server.
func answered(err error) bool {
	_, ok := errors.AsType[goredis.Error](err)
	return ok
}

// unsent reports whether err means that nothing was sent.
func unsent(err error) bool {
	if errors.Is(err, goredis.ErrClosed) || errors.Is(err, goredis.ErrPoolTimeout) || errors.Is(err, goredis.ErrPoolExhausted) {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// says reports whether the server answered with an error of a kind, be it of a
// command or of one within a script.
func says(err error, code string) bool {
	s := err.Error()
	return strings.HasPrefix(s, code) || strings.Contains(s, ": "+code+" ") || strings.Contains(s, ": -"+code+" ")
}

// passing reports whether trying again may help.
func passing(err error) bool {
	if !answered(err) {
		if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() && !unsent(err) {
			return false // who set the time to wait for an answer meant it
		}
		return !errors.Is(err, goredis.ErrClosed) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
	for _, code := range []string{"LOADING", "MASTERDOWN", "TRYAGAIN", "ERR max number of clients"} {
		if says(err, code) {
			return true
		}
	}
	return false
}

// explain turns an error of the client into one that says what to do. Uncertain
// says that a write was sent that may have been done.
func (d *driver) explain(op string, err error, uncertain bool) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	e := &Error{Package: "redis", Op: op, Place: d.server, Err: err}
	if !answered(err) {
		e.Kind = ErrUnreachable
		e.Fix = "start the server, or check host, port, TLS and firewalls"
		if errors.Is(err, goredis.ErrPoolTimeout) || errors.Is(err, goredis.ErrPoolExhausted) {
			e.What, e.Fix = "all connections are in use", "raise pool_size, or run fewer threads at once"
		}
	} else {
		d.translate(e)
	}
	if e.Kind == nil && !uncertain {
		return fmt.Errorf("redis: %s %s: %w", op, d.server, err)
	}
	if uncertain {
		if e.Kind != nil {
			err = errors.Join(e.Kind, err)
		}
		what := "the connection was lost before the answer came: whether the write happened is unknown"
		if errors.Is(err, io.EOF) {
			what = "the server closed the connection before it answered: whether the write happened is unknown"
		}
		return &Error{
			Package: "redis", Op: op, Place: d.server, Kind: ErrUncertain, What: what, Err: err,
			Fix: "read the thread's head when the server is back: the write is there as a whole or not at all",
		}
	}
	return e
}

// translate finds what an error answered by the server means.
func (d *driver) translate(e *Error) {
	for _, k := range []struct {
		codes     []string
		kind      error
		what, fix string
	}{
		{[]string{"WRONGPASS", "NOAUTH", "ERR AUTH", "ERR invalid password", "ERR Client sent AUTH"}, ErrDenied, "user name or password is wrong or missing", "put them into the URL: redis://user:password@host"},
		{[]string{"NOPERM", "ERR The user executing the script"}, ErrDenied, "the user may not do this", "allow it the keys " + d.prefix + "* and the commands of scripts, hashes and sorted sets, and get, setnx, exists, unlink, rename, persist, pexpire, pexpireat, time"},
		{[]string{"READONLY"}, ErrReadOnly, "the server is a read-only replica", "connect to the primary"},
		{[]string{"MISCONF"}, ErrReadOnly, "the server takes no writes since it cannot save its data", "see its log: a disk may be full; nothing was written"},
		{[]string{"NOREPLICAS"}, ErrReadOnly, "the server takes no writes as it has too few replicas", "bring the replicas back, or lower min-replicas-to-write; nothing was written"},
		{[]string{"OOM"}, ErrFull, "", "raise maxmemory, prune or delete threads, or set Options.TTL; nothing was written"},
		{[]string{"LOADING"}, ErrLoading, "", "try again when it is done"},
		{[]string{"BUSY"}, ErrLoading, "the server is busy with a script", "try again, or end the script with SCRIPT KILL"},
		{[]string{"MASTERDOWN"}, ErrUnreachable, "the replica has lost its primary", "connect to the primary"},
		{[]string{"ERR max number of clients"}, ErrUnreachable, "the server has too many clients", "raise maxclients, or open fewer stores"},
		{[]string{"WRONGTYPE"}, ErrForeign, fmt.Sprintf("a key that begins with %q holds something of another program", d.prefix), "choose another Options.Prefix or database; nothing was written"},
		{[]string{"MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN"}, ErrCluster, "the server is part of a cluster", "use a single server or one with replicas"},
	} {
		for _, c := range k.codes {
			if says(e.Err, c) {
				e.Kind, e.What, e.Fix = k.kind, k.what, k.fix
				return
			}
		}
	}
}
