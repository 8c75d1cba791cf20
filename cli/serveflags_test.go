package cli_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/server"
)

// bodies gives serve a flag of its own, and notes what it is told of the server.
func bodies(told *[]cli.Service) cli.Option {
	return cli.ServeFlags(func(f *pflag.FlagSet) func(context.Context, cli.Service) ([]server.Option, error) {
		max := f.Int64P("max-body", "b", 0, "how long bodies may be")
		return func(_ context.Context, s cli.Service) ([]server.Option, error) {
			*told = append(*told, s)
			if !f.Changed("max-body") {
				return nil, nil
			}
			if *max < 1 {
				return nil, cli.Hint(cli.Usage("--max-body is %d", *max), "give a positive number")
			}
			return []server.Option{server.MaxBody(*max)}, nil
		}
	})
}

func TestAProgramGivesServeFlagsOfItsOwn(t *testing.T) {
	for args, want := range map[string]int{"": 200, "--max-body 100": 413, "-b 100": 413} {
		var told []cli.Service
		url := servedWith(t, []cli.Option{cli.Server(server.MaxBody(1 << 10)), bodies(&told)}, strings.Fields(args)...)
		answer, err := http.Post(url+"/threads", "application/json", strings.NewReader(`{"metadata":{"x":"`+strings.Repeat("x", 100)+`"}}`))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("with %q: %s, want %d", args, answer.Status, want)
		}
		if len(told) != 1 || told[0].Data != "memory" || told[0].Dispatched || told[0].Log == nil {
			t.Errorf("with %q its function is told %+v", args, told)
		}
	}
}

func TestWhatServesIsToldToFlagsOfAProgram(t *testing.T) {
	local := server.Dispatch(func(w *fleet.Worker) (fleet.Dispatcher, error) { return fleet.NewLocal(w, fleet.LocalOptions{}) })
	also := cli.ServeFlags(func(*pflag.FlagSet) func(context.Context, cli.Service) ([]server.Option, error) {
		return func(context.Context, cli.Service) ([]server.Option, error) { return []server.Option{local}, nil }
	})
	var own, before, after []cli.Service
	var out, notes bytes.Buffer
	// --max-body ends the command before it serves.
	for told, opts := range map[*[]cli.Service][]cli.Option{
		&own:    {cli.UseStore(checkpoint.NewMemory()), bodies(&own)},
		&before: {bodies(&before), also},
		&after:  {also, bodies(&after)},
	} {
		code := cli.Run(t.Context(), []string{"serve", "--port", "0", "--max-body", "-1"}, strings.NewReader(""), &out, &notes, append(opts, cli.DefaultStore("postgres://db"), cli.Graph(jokes()))...)
		if code != cli.ExitUsage || len(*told) != 1 {
			t.Fatalf("%d, it was told %+v: %s", code, *told, notes.String())
		}
	}
	if own[0].Data != "" || before[0].Data != "postgres://db" {
		t.Errorf("the data are in %q and %q", own[0].Data, before[0].Data)
	}
	if before[0].Dispatched || !after[0].Dispatched {
		t.Errorf("runs are dispatched already: %v and %v", before[0].Dispatched, after[0].Dispatched)
	}
	if !strings.Contains(notes.String(), "--max-body is -1") || !strings.Contains(notes.String(), "give a positive number") {
		t.Errorf("it says %s", notes.String())
	}
}

func TestDialogueServeHasTheFlagsOfAProgramToo(t *testing.T) {
	path, patterns := parties(t, "1h")
	var told []cli.Service
	var out, notes bytes.Buffer
	code := cli.Run(t.Context(), []string{"dialogue", "serve", path, "--patterns", patterns, "--port", "0", "--max-body", "-1"}, strings.NewReader(""), &out, &notes, bodies(&told))
	if code != cli.ExitUsage || !strings.Contains(notes.String(), "--max-body is -1") {
		t.Errorf("%d %s", code, notes.String())
	}
}

func TestFlagsThatServeHasAlreadyAreRefused(t *testing.T) {
	flag := func(name, letter string) cli.Option {
		return cli.ServeFlags(func(f *pflag.FlagSet) func(context.Context, cli.Service) ([]server.Option, error) {
			f.StringP(name, letter, "", "")
			return nil
		})
	}
	for name, opts := range map[string][]cli.Option{
		"port":    {flag("port", "")},
		"demo":    {flag("demo", ""), cli.Demo(cli.Graph(jokes()))},
		"store":   {flag("store", "")},
		"help":    {flag("help", "")},
		"high":    {flag("high", "h")},
		"short":   {flag("short", "s")},
		"workers": {flag("workers", ""), flag("workers", "")},
	} {
		var out, notes bytes.Buffer
		code := cli.Run(t.Context(), []string{"graphs"}, strings.NewReader(""), &out, &notes, opts...)
		if code != cli.ExitError || !strings.Contains(notes.String(), "cli.ServeFlags defines --"+name+", and ") {
			t.Errorf("--%s: %d %s", name, code, notes.String())
		}
	}
	var out, notes bytes.Buffer
	if code := cli.Run(t.Context(), []string{"graphs"}, strings.NewReader(""), &out, &notes, cli.ServeFlags(nil)); code != cli.ExitError || !strings.Contains(notes.String(), "was given no function") {
		t.Errorf("no function: %d %s", code, notes.String())
	}
}
