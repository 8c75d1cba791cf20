package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/internal/console"
	"github.com/superstep-dev/superstep/model"
)

// finding is what the command doctor found out about one thing.
type finding struct {
	Check string `json:"check"`
	Level string `json:"level"` // ok, note or bad
	Says  string `json:"says"`
	Mend  string `json:"mend,omitempty"`
}

// The levels of findings: all is well; something that others may need is missing; it
// does not work.
const (
	levelOK   = "ok"
	levelNote = "note"
	levelBad  = "bad"
)

// doctor is the command doctor.
type doctor struct {
	a     *app
	host  string
	port  int
	check bool
	found []finding
}

func (d *doctor) say(check, level, says, mend string) {
	d.found = append(d.found, finding{check, level, says, mend})
}

// fail notes an error with what to do about it.
func (d *doctor) fail(check string, err error, mend string) {
	d.say(check, levelBad, err.Error(), cmp.Or(hintOf(err), mend))
}

// patience is how long doctor waits for others: servers and programs.
const patience = 5 * time.Second

func (a *app) doctorCommand() *cobra.Command {
	d := &doctor{a: a}
	checks := []struct {
		name string
		look func(context.Context)
	}{{"versions", d.versions}, {"store", d.store}, {"server", d.server}, {"model", d.model}, {"terminal", d.terminal}}
	var names []string
	for _, c := range checks {
		names = append(names, c.name)
	}
	cmd := &cobra.Command{
		Use: "doctor [CHECK...]", GroupID: "look", Short: "Find out what is wrong with the set-up, and what to do about it",
		Long: `Look at what the commands need, and say what is wrong and what to do:

  versions  this program, and the Go that builds programs
  store     does it open, can it be written
  server    does the one of --url answer, or is the port of "serve" free
  model     is one named, is its key set; --check asks it something
  terminal  is there one, and can it show what is printed

The exit code is 1 if something is bad that was asked for: a check that is named here, the
store of --store, the server of --url or --port, the model with --check. Nothing is changed
but that stores are made ready as any command does.`,
		Example:   fmt.Sprintf("  %[1]s doctor\n  %[1]s doctor store --store postgres://localhost/agents\n  %[1]s doctor model --check", a.name),
		ValidArgs: names,
		Args: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				if !slices.Contains(names, arg) {
					return &usageError{fmt.Errorf("there is no check %q", arg), "checks: " + strings.Join(names, ", ")}
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			asked := slices.Clone(args)
			for flag, name := range map[string]string{"store": "store", "url": "server", "port": "server", "host": "server", "check": "model"} {
				if cmd.Flags().Changed(flag) {
					asked = append(asked, name)
				}
			}
			for _, c := range checks {
				if len(args) == 0 || slices.Contains(asked, c.name) {
					c.look(cmd.Context())
				}
			}
			if err := d.print(); err != nil {
				return err
			}
			if slices.ContainsFunc(d.found, func(f finding) bool { return f.Level == levelBad && slices.Contains(asked, f.Check) }) {
				return ExitCode(ExitError)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.host, "host", "127.0.0.1", "the address that the server would listen at")
	f.IntVarP(&d.port, "port", "p", defaultPort, "the port that the server would listen at")
	f.BoolVar(&d.check, "check", false, "ask the model something, which may cost a little")
	return OverServer(cmd)
}

func (d *doctor) print() error {
	if d.a.json {
		return writeJSON(d.a.console.Out, d.found, true)
	}
	for _, f := range d.found {
		if _, err := fmt.Fprintf(d.a.console.Out, "%-5s %-9s %s\n", f.Level, f.Check, strings.ReplaceAll(foreign(f.Says), "\n", "\n              ")); err != nil {
			return err
		}
		if f.Mend != "" {
			if _, err := fmt.Fprintln(d.a.console.Out, console.Clean(indent("-> "+f.Mend, "                "))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *doctor) versions(ctx context.Context) {
	d.say("versions", levelOK, fmt.Sprintf("%s %s, built with %s for %s/%s", d.a.name, cmp.Or(d.a.version, "without a version"), runtime.Version(), runtime.GOOS, runtime.GOARCH), "")
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		d.say("versions", levelNote, fmt.Sprintf("Go can't be run: %v", err), "only building programs needs it: https://go.dev/dl")
		return
	}
	d.say("versions", levelOK, "Go is "+strings.TrimSpace(string(out)), "")
}

func (d *doctor) store(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name := d.a.storeName()
	path := ""
	if d.a.storeFlag != "" || d.a.store == nil {
		if c, err := storeConfig(d.a.storeURL(), true); err == nil {
			path = c.Path
		}
	}
	store, err := d.a.open(ctx, false)
	switch {
	case errors.Is(err, errNoStore):
		if err := writable(path); err != nil {
			d.fail("store", fmt.Errorf("%s can't be made: %w", name, err), "choose another place with --store")
			return
		}
		d.say("store", levelOK, name+": there is none yet; the first run makes it", "")
		return
	case errors.Is(err, fs.ErrPermission):
		d.fail("store", fmt.Errorf("%s: %w", name, err), "give this user access, or choose another place with --store")
		return
	case err != nil:
		d.fail("store", fmt.Errorf("%s doesn't open: %w", name, err), "is it running, and does --store name it rightly?")
		return
	}
	if l, ok := store.(checkpoint.Lister); ok {
		for info, err := range l.Threads(ctx, checkpoint.ThreadFilter{Limit: 1}) {
			if err == nil {
				_, _, err = store.Head(ctx, checkpoint.Log{Thread: info.Thread})
			}
			if err != nil {
				d.fail("store", fmt.Errorf("%s can't be read: %w", name, err), "")
				return
			}
		}
	}
	if err := writable(path); err != nil {
		d.fail("store", fmt.Errorf("%s can be read, but not written: %w", name, err), "give this user write access")
		return
	}
	d.say("store", levelOK, name+" opens and can be read and written", "")
}

// writable reports why a file or a folder can't be written, or made. The empty path is
// that of no file.
func writable(path string) error {
	if path == "" || path == ":memory:" {
		return nil
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		f.Close()
		path = filepath.Dir(path) // SQLite writes files beside it
	}
	for errors.Is(err, fs.ErrNotExist) { // it and the folders above it would be made
		path = filepath.Dir(path)
		_, err = os.Stat(path)
	}
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(path, ".superstep-doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (d *doctor) server(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if url := d.a.serverURL(); url != "" {
		r, err := d.a.server(url)
		if err != nil {
			d.fail("server", err, "")
			return
		}
		info, err := r.c.Info(ctx)
		if err != nil {
			d.fail("server", err, "is the server running, and does --url name it rightly?")
			return
		}
		d.say("server", levelOK, fmt.Sprintf("%s answers, version %s", r.c.URL(), info.Version), "")
		if _, _, err := r.threads(ctx, threadQuery{limit: 1}); err != nil {
			d.fail("server", err, "")
		}
		return
	}
	at := net.JoinHostPort(d.host, strconv.Itoa(d.port))
	l, err := net.Listen("tcp", at)
	switch {
	case err == nil:
		l.Close()
		d.say("server", levelOK, at+" is free for "+d.a.name+" serve", "")
	case errors.Is(err, syscall.EADDRINUSE):
		says, mend := at+" is taken by a program that is no such server", "choose another port: "+d.a.name+" serve --port "+strconv.Itoa(d.port+1)
		if c, err := client.New("http://" + at); err == nil {
			if info, err := c.Info(ctx); err == nil {
				says, mend = fmt.Sprintf("%s is taken by a server, version %s", at, info.Version), "use it with --url http://"+at+", or "+mend
			}
		}
		d.say("server", levelBad, says, mend)
	default:
		d.fail("server", err, "choose an address of this machine with --host, and a port above 1023 with --port")
	}
	if _, err := (&serving{keysEnv: keysVariable}).apiKeys(); err != nil {
		d.fail("server", err, "")
	}
}

// keysOf are the variables that have the keys of models, by the beginning of their names.
var keysOf = map[string][]string{
	"openai": {"OPENAI_API_KEY"}, "openai-responses": {"OPENAI_API_KEY"},
	"anthropic": {"ANTHROPIC_API_KEY"}, "gemini": {"GOOGLE_API_KEY", "GEMINI_API_KEY"},
}

func (d *doctor) model(ctx context.Context) {
	open, variable := d.a.dialogues.Model, d.a.dialogues.Variable
	if open == nil || variable == "" {
		d.say("model", levelNote, "this program says itself which models it uses", "")
		return
	}
	name := os.Getenv(variable)
	if name == "" {
		level := levelNote
		if d.check {
			level = levelBad
		}
		d.say("model", level, variable+" is not set", "export "+variable+"=openai:gpt-5, for one, and the vendor's key; \"chat --model demo\" needs none")
		return
	}
	m, err := open(name)
	if err != nil {
		d.fail("model", err, "")
		return
	}
	provider, _, _ := strings.Cut(name, ":")
	keys := keysOf[provider]
	if len(keys) > 0 && !strings.Contains(name, "@") && !slices.ContainsFunc(keys, func(k string) bool { return os.Getenv(k) != "" }) {
		d.say("model", levelBad, fmt.Sprintf("%s is %s, and %s is not set", variable, name, strings.Join(keys, " or ")), "export "+keys[0]+"=…, the key that the vendor gave you")
		return
	}
	if !d.check {
		d.say("model", levelOK, fmt.Sprintf("%s is %s; --check asks it something", variable, name), "")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 12*patience)
	defer cancel()
	began := time.Now()
	answer, err := m.Generate(ctx, &model.Request{Messages: []chat.Message{chat.User("Answer with one word: ok")}})
	if err != nil {
		d.fail("model", err, "is the key right, the model's name, and the way to its server?")
		return
	}
	d.say("model", levelOK, fmt.Sprintf("%s answers after %v: %s", name, time.Since(began).Round(time.Millisecond), console.Fit(strings.Join(strings.Fields(answer.Message.Text()), " "), 40)), "")
}

func (d *doctor) terminal(context.Context) {
	c := d.a.console
	switch {
	case !c.CanAsk():
		d.say("terminal", levelNote, "there is none to ask questions at", "answer with flags: --answer, --yes, --reject")
	case c.Width() < 60:
		d.say("terminal", levelNote, fmt.Sprintf("it is %d columns wide: tables and drawings need 60 or more", c.Width()), "make it wider")
	default:
		d.say("terminal", levelOK, fmt.Sprintf("%d by %d", c.Width(), c.Height()), "")
	}
	locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG"))
	if small := strings.ToLower(locale); runtime.GOOS != "windows" && !strings.Contains(small, "utf-8") && !strings.Contains(small, "utf8") {
		d.say("terminal", levelNote, fmt.Sprintf("the locale %q may not show what is not ASCII", locale), "export LC_ALL=C.UTF-8")
	}
}
