package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

func TestToolsOfAServerAreToolsLikeAnyOther(t *testing.T) {
	everyWay(t, func(t *testing.T, cfg mcp.Config) {
		cfg.Prefix = "box_"
		c := connect(t, cfg)
		echo := get(t, c, "box_echo")
		spec := echo.Spec()
		if spec.Description != "Says it again." {
			t.Errorf("description is %q", spec.Description)
		}
		var schema struct {
			Type       string
			Required   []string
			Properties map[string]struct {
				Type, Description string
				Default           any
			}
		}
		if err := json.Unmarshal(spec.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		if schema.Type != "object" || !slices.Equal(schema.Required, []string{"text"}) ||
			schema.Properties["text"].Description != "what to say" || schema.Properties["times"].Default != 1. {
			t.Errorf("schema is %s", spec.Schema)
		}
		if got := text(t, echo, `{"text":"ho","times":2}`); got != "hoho" {
			t.Errorf("got %q", got)
		}
		if got := text(t, get(t, c, "box_big"), ""); len(got) < 1<<20-3 || strings.Trim(got, "€") != "" {
			t.Errorf("the megabyte has %d bytes", len(got))
		}
		long := strings.Repeat("x", 1<<20)
		if got := text(t, echo, `{"text":"`+long+`"}`); got != long {
			t.Errorf("a megabyte comes back with %d bytes", len(got))
		}
	})
}

func TestPartsPassBothWays(t *testing.T) {
	everyWay(t, func(t *testing.T, cfg mcp.Config) {
		c := connect(t, cfg)
		r, err := get(t, c, "parts").Call(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := tool.Result{Artifact: json.RawMessage(`{"rows":[1,2]}`), Content: []chat.Part{
			chat.Text{Text: "a text"},
			chat.Image{Source: chat.Source{Data: picture, MIME: "image/png"}},
			chat.Audio{Source: chat.Source{Data: []byte("la"), MIME: "audio/wav"}, Transcript: "la la"},
			chat.File{Source: chat.Source{Data: []byte("%PDF"), MIME: "application/pdf"}, Name: "a file.pdf"},
			chat.Text{Text: "[resource link https://example.com/i.png image image/png]"},
		}}
		if !reflect.DeepEqual(r, want) {
			t.Errorf("got  %+v\nwant %+v", r, want)
		}
		r, err = get(t, c, "list").Call(t.Context(), nil)
		artifact := `[1,2]`
		if cfg.Protocol == old { // which knows objects alone
			artifact = `{"result":[1,2]}`
		}
		if err != nil || string(r.Artifact) != artifact || len(r.Content) != 1 || r.Content[0] != (chat.Text{Text: artifact}) {
			t.Errorf("list gives %+v, %v", r, err)
		}
	})
}

func TestFailuresAreForTheModel(t *testing.T) {
	everyWay(t, func(t *testing.T, cfg mcp.Config) {
		c := connect(t, cfg)
		for _, k := range []struct{ tool, args, want string }{
			{"fail", ``, `tool "fail": the disk is full`},
			{"panic", ``, `tool "panic": panic: oh no`},
			{"raw_panic", ``, `tool "raw_panic": panic: raw`},
			{"wrong", ``, `tool "wrong": not for the model`},
			{"uploaded", ``, `tool "uploaded": part 0 of the result: it has neither data nor a URL; a file that was uploaded to a provider can't be passed on`},
			{"echo", `{"text":5}`, `tool "echo": invalid arguments: text: must be a string, not 5`},
			{"echo", `{"text`, `tool "echo": invalid arguments: they aren't valid JSON: unexpected end of JSON input`},
			{"echo", `[]`, `tool "echo": invalid arguments: they must be a JSON object, not a JSON array`},
		} {
			_, err := get(t, c, k.tool).Call(t.Context(), json.RawMessage(k.args))
			var e *tool.Error
			if !errors.As(err, &e) || e.Tool != k.tool || err.Error() != k.want {
				t.Errorf("%s: got %v, want %s", k.tool, err, k.want)
			}
			if err != nil && strings.Contains(err.Error(), ".go:") {
				t.Errorf("the stack went to the client: %v", err)
			}
		}
		if got := text(t, get(t, c, "echo"), `{"text":"alive"}`); got != "alive" {
			t.Errorf("after the panics: %q", got)
		}
	})
}

func TestACancelledCallIsCancelledOnTheServer(t *testing.T) {
	everyWay(t, func(t *testing.T, cfg mcp.Config) {
		c := connect(t, cfg)
		slow, started, ended := get(t, c, "slow"), get(t, c, "wait_started"), get(t, c, "wait_ended")
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := slow.Call(ctx, nil)
				failed <- err
			}()
			text(t, started, "")
			cancel()
			err := <-failed
			var e *tool.Error
			if !errors.Is(err, context.Canceled) || errors.As(err, &e) {
				t.Errorf("error is %v", err)
			}
			if got := text(t, ended, ""); got != "yes" {
				t.Errorf("got %q", got)
			}
		}
	})
}

func TestToolsThatChangeWhileConnected(t *testing.T) {
	everyWay(t, func(t *testing.T, cfg mcp.Config) {
		changed := make(chan struct{}, 100)
		cfg.OnToolsChanged = func() { changed <- struct{}{} }
		c := connect(t, cfg)
		before, err := c.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		swap := get(t, c, "swap")
		name := text(t, swap, "")
		for told := false; !told; { // a notice before the subscription is lost
			select {
			case <-changed:
				told = true
			case <-time.After(time.Second):
				name = text(t, swap, "")
			}
		}
		added := get(t, c, name)
		after, err := c.Tools(t.Context())
		if err != nil || len(after) != len(before)+1 {
			t.Fatalf("%d tools before, %d after: %v", len(before), len(after), err)
		}
		text(t, added, "")
		text(t, swap, "") // takes it away
		_, err = added.Call(t.Context(), nil)
		var e *tool.Error
		if !errors.As(err, &e) || e.Kind != tool.ErrorUnknown || !strings.Contains(err.Error(), `the nearest of 16 tools are "new_`) {
			t.Errorf("a tool that is gone gives %v", err)
		}
	})
}

func TestAProcessThatDiesIsStartedAgain(t *testing.T) {
	for _, protocol := range []string{"", old} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			var changed atomic.Int32
			c := connect(t, mcp.Config{Transport: command("ours"), Protocol: protocol, OnToolsChanged: func() { changed.Add(1) }})
			slow, pid := get(t, c, "slow"), get(t, c, "pid")
			first := text(t, pid, "")
			failed := make(chan error, 1)
			go func() {
				_, err := slow.Call(t.Context(), nil)
				failed <- err
			}()
			text(t, get(t, c, "wait_started"), "")
			_, err := get(t, c, "die").Call(t.Context(), nil)
			for name, err := range map[string]error{"die": err, "slow": <-failed} {
				var ce *mcp.ConnectionError
				var e *tool.Error
				if !errors.As(err, &ce) || ce.Tool != name || errors.As(err, &e) {
					t.Errorf("%s: error is %v", name, err)
				}
			}
			if second := text(t, pid, ""); second == first {
				t.Errorf("it is still process %s", second)
			}
			if changed.Load() == 0 {
				t.Error("nobody was told that the tools may be others")
			}
		})
	}
}

func TestWhatAProcessWroteBeforeItDiedIsInTheError(t *testing.T) {
	var stderr lockedBuilder
	cmd := command("nonsense")
	cmd.Stderr = &stderr
	_, err := mcp.Connect(t.Context(), mcp.Config{Transport: cmd})
	var ce *mcp.ConnectionError
	if !errors.As(err, &ce) || !strings.Contains(err.Error(), "no such server as nonsense") || !strings.Contains(stderr.String(), "nonsense") {
		t.Errorf("error is %v, standard error %q", err, stderr.String())
	}
}

type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestConnectingEndsWithItsContext(t *testing.T) {
	for _, kind := range []string{"mute", "stubborn"} {
		t.Run(kind, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			cmd := command(kind)
			cmd.Grace = time.Hour // it is killed instead
			_, err := mcp.Connect(ctx, mcp.Config{Transport: cmd})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestConfigurationsThatCannotWork(t *testing.T) {
	for _, c := range []struct {
		cfg  mcp.Config
		want string
	}{
		{mcp.Config{}, "mcp: the configuration has no transport"},
		{mcp.Config{Transport: mcp.Command{}}, `mcp: server ".": the command has no path`},
		{mcp.Config{Transport: mcp.HTTP{URL: "example.com"}}, `mcp: server "://example.com": its URL must begin with http:// or https:// and have a host`},
		{mcp.Config{Transport: mcp.HTTP{URL: "http://example.com/x?key=secret", Client: &http.Client{Timeout: 1}}},
			`mcp: server "http://example.com/x": its HTTP client has a timeout, which would break streams; give each call a context with one`},
		{mcp.Config{Transport: command("mute"), LogLevel: "loud"}, `mcp: unknown log level "loud"; the levels are debug, info, notice, warning, error, critical, alert, emergency`},
		{mcp.Config{Transport: command("mute"), Protocol: "1"}, `mcp: unknown protocol version "1"; the versions are `},
	} {
		if _, err := mcp.Connect(t.Context(), c.cfg); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	_, err := mcp.Connect(t.Context(), mcp.Config{Transport: mcp.Command{Path: "/nowhere/to/be/found"}})
	var ce *mcp.ConnectionError
	if !errors.As(err, &ce) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no program gives %v", err)
	}
}

func TestOnlyAllowedToolsAreUsed(t *testing.T) {
	s := closing(t, toolbox().server)
	c := connect(t, mcp.Config{Transport: s.Local(), Allow: []string{"pid", "echo"}})
	tools, err := c.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tl := range tools {
		names = append(names, tl.Spec().Name)
	}
	if !slices.Equal(names, []string{"echo", "pid"}) {
		t.Errorf("tools are %q", names)
	}
	c = connect(t, mcp.Config{Transport: s.Local(), Allow: []string{"ehco"}})
	_, err = c.Tools(t.Context())
	var e *tool.Error
	if !errors.As(err, &e) || e.Kind != tool.ErrorUnknown || !strings.Contains(err.Error(), `allowed tool "ehco": unknown tool: the nearest of 15 tools are "echo"`) {
		t.Errorf("error is %v", err)
	}
}

// over runs a test over a server that the SDK alone makes.
func over(t *testing.T, test func(t *testing.T, cfg mcp.Config)) {
	handler := func(stateless bool) http.Handler {
		s := sdkServer()
		return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: stateless})
	}
	t.Run("stdio", func(t *testing.T) { test(t, mcp.Config{Transport: command("sdk")}) })
	t.Run("stdio "+old, func(t *testing.T) { test(t, mcp.Config{Transport: command("sdk"), Protocol: old}) })
	t.Run("http with sessions", func(t *testing.T) { test(t, mcp.Config{Transport: web(t, handler(false))}) })
	t.Run("http without sessions", func(t *testing.T) { test(t, mcp.Config{Transport: web(t, handler(true))}) })
}

func TestContentOfOtherServers(t *testing.T) {
	over(t, func(t *testing.T, cfg mcp.Config) {
		c := connect(t, cfg)
		tools, err := c.Tools(t.Context()) // in pages of two
		if err != nil || len(tools) != 8 {
			t.Fatalf("%d tools: %v", len(tools), err)
		}
		r, err := get(t, c, "resources").Call(t.Context(), nil)
		want := []chat.Part{
			chat.Text{Text: "[resource link file:///a.txt a text/plain] the letter a"},
			chat.Text{Text: "[resource file:///b.txt text/plain]\nbbb"},
			chat.Image{Source: chat.Source{Data: picture, MIME: "image/png"}},
			chat.File{Source: chat.Source{Data: []byte("%PDF"), MIME: "application/pdf"}, Name: "d.pdf"},
		}
		if err != nil || !reflect.DeepEqual(r.Content, want) {
			t.Errorf("got %+v, %v", r.Content, err)
		}
		r, err = get(t, c, "structured").Call(t.Context(), nil)
		if err != nil || string(r.Artifact) != `{"n":1}` || !reflect.DeepEqual(r.Content, []chat.Part{chat.Text{Text: `{"n":1}`}}) {
			t.Errorf("got %+v, %v", r, err)
		}
		if got := text(t, get(t, c, "dotted_name"), ""); got != "dotted" {
			t.Errorf("got %q", got)
		}
		for name, want := range map[string]string{
			"error":        "tool \"error\": no such city\n[image]",
			"silent_error": `tool "silent_error": the server says that it failed, and not why`,
		} {
			_, err := get(t, c, name).Call(t.Context(), nil)
			var e *tool.Error
			if !errors.As(err, &e) || e.Kind != tool.ErrorFailed || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})
}

type key struct{}

func TestProgressComesWithTheCallsContext(t *testing.T) {
	over(t, func(t *testing.T, cfg mcp.Config) {
		var got []mcp.Progress
		third := make(chan struct{})
		cfg.OnProgress = func(ctx context.Context, p mcp.Progress) {
			if ctx.Value(key{}) != "mine" {
				t.Errorf("progress %v has another context", p)
			}
			if got = append(got, p); len(got) == 3 {
				close(third)
			}
		}
		c := connect(t, cfg)
		progress, release := get(t, c, "progress"), get(t, c, "release")
		done := make(chan error, 1)
		go func() {
			_, err := progress.Call(context.WithValue(t.Context(), key{}, "mine"), nil)
			done <- err
		}()
		<-third
		text(t, release, "")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		want := []mcp.Progress{{"progress", 1, 3, "step 1"}, {"progress", 2, 3, "step 2"}, {"progress", 3, 3, "step 3"}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %v", got)
		}
	})
}

func TestLogsOfTheServerFromALevelUp(t *testing.T) {
	over(t, func(t *testing.T, cfg mcp.Config) {
		logs := make(chan mcp.Log, 10)
		cfg.OnLog, cfg.LogLevel = func(l mcp.Log) { logs <- l }, "notice"
		c := connect(t, cfg)
		text(t, get(t, c, "log"), "")
		if l := <-logs; l.Level != "warning" || l.Logger != "l" || string(l.Data) != `{"level":"warning"}` {
			t.Errorf("log is %+v", l)
		}
	})
}

func TestHeadersGoToTheServerAlone(t *testing.T) {
	s := closing(t, toolbox().server)
	var away atomic.Int32
	other := web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the header went to another host")
		}
		away.Add(1)
		s.Handler().ServeHTTP(w, r)
	}))
	h := web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer x" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	_, err := mcp.Connect(t.Context(), mcp.Config{Transport: h})
	var ce *mcp.ConnectionError
	if !errors.As(err, &ce) || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("without the header: %v", err)
	}
	h.Header = http.Header{"Authorization": {"Bearer x"}}
	c := connect(t, mcp.Config{Transport: h})
	if got := text(t, get(t, c, "echo"), `{"text":"in"}`); got != "in" || away.Load() == 0 {
		t.Errorf("got %q after %d redirects", got, away.Load())
	}
}

// switching serves by one handler after the other.
type switching struct{ h atomic.Pointer[http.Handler] }

func (s *switching) to(h http.Handler) *switching { s.h.Store(&h); return s }

func (s *switching) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*s.h.Load()).ServeHTTP(w, r)
}

func TestAServerOfHTTPThatIsStartedAgain(t *testing.T) {
	for _, protocol := range []string{"", old} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			first, second := closing(t, toolbox().server), closing(t, toolbox().server)
			down := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
			busy := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
			var s switching
			c := connect(t, mcp.Config{Transport: web(t, s.to(first.Handler())), Protocol: protocol})
			echo := get(t, c, "echo")
			says := func(want string) {
				t.Helper()
				if got := text(t, echo, `{"text":"`+want+`"}`); got != want {
					t.Errorf("got %q", got)
				}
			}
			fails := func() {
				t.Helper()
				_, err := echo.Call(t.Context(), json.RawMessage(`{"text":"x"}`))
				var ce *mcp.ConnectionError
				var e *tool.Error
				if !errors.As(err, &ce) || errors.As(err, &e) {
					t.Errorf("error is %v", err)
				}
			}
			says("one")
			s.to(second.Handler()) // which knows no session
			says("two")
			s.to(busy)
			fails()
			s.to(second.Handler())
			says("three")
			s.to(down)
			fails()
			s.to(second.Handler())
			says("four")
		})
	}
}

func TestAConnectionOfHTTPThatBreaksInMidCall(t *testing.T) {
	b := toolbox()
	closing(t, b.server)
	inside := make(chan struct{})
	abort := make(chan struct{})
	h := b.server.Handler()
	first := true
	var mu sync.Mutex
	c := connect(t, mcp.Config{Transport: web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		hit := first && r.Header.Get("Mcp-Name") == "pid"
		if hit {
			first = false
		}
		mu.Unlock()
		if hit {
			close(inside)
			<-abort
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	}))})
	pid := get(t, c, "pid")
	failed := make(chan error, 1)
	go func() {
		_, err := pid.Call(t.Context(), nil)
		failed <- err
	}()
	<-inside
	close(abort)
	var ce *mcp.ConnectionError
	if err := <-failed; !errors.As(err, &ce) || ce.Tool != "pid" {
		t.Errorf("error is %v", err)
	}
	text(t, pid, "")
}

func TestCloseEndsCallsAndTheProcess(t *testing.T) {
	everyWay(t, func(t *testing.T, cfg mcp.Config) {
		c := connect(t, cfg)
		slow := get(t, c, "slow")
		failed := make(chan error, 1)
		go func() {
			_, err := slow.Call(t.Context(), nil)
			failed <- err
		}()
		text(t, get(t, c, "wait_started"), "")
		pid := text(t, get(t, c, "pid"), "")
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; err != mcp.ErrClosed {
			t.Errorf("the call under way gives %v", err)
		}
		if _, err := slow.Call(t.Context(), nil); err != mcp.ErrClosed {
			t.Errorf("a call afterwards gives %v", err)
		}
		if _, err := c.Tools(t.Context()); err != mcp.ErrClosed {
			t.Errorf("tools afterwards give %v", err)
		}
		if _, ok := cfg.Transport.(mcp.Command); ok {
			if out, err := exec.Command("kill", "-0", pid).CombinedOutput(); err == nil {
				t.Errorf("process %s is still there: %s", pid, out)
			}
		}
	})
}

func TestAProcessThatDoesNotEndIsKilled(t *testing.T) {
	cmd := command("ours")
	cmd.Grace = 10 * time.Millisecond
	c := connect(t, mcp.Config{Transport: cmd})
	pid := text(t, get(t, c, "pid"), "")
	if out, err := exec.Command("kill", "-STOP", pid).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if exec.Command("kill", "-0", pid).Run() == nil {
		t.Errorf("process %s is still there", pid)
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	everyWay(t, func(t *testing.T, cfg mcp.Config) {
		c := connect(t, cfg)
		echo := get(t, c, "echo")
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				s := strings.Repeat("x", i)
				r, err := echo.Call(t.Context(), json.RawMessage(`{"text":"`+s+`"}`))
				if err != nil || r.Content[0] != (chat.Text{Text: s}) {
					t.Errorf("call %d: %v, %v", i, r, err)
				}
			})
		}
		wg.Wait()
	})
}

func TestServersThatCannotBe(t *testing.T) {
	if _, err := mcp.NewServer("", "1"); err == nil {
		t.Error("a server without a name")
	}
	nop := func(context.Context, none) (string, error) { return "", nil }
	_, err := mcp.NewServer("s", "1", tool.New("a b", "", nop), nil)
	var d *tool.DefinitionError
	if !errors.As(err, &d) || len(d.Mistakes) != 2 {
		t.Errorf("error is %v", err)
	}
	header := json.RawMessage(`{"type":"object","properties":{"a":{"type":"array","x-mcp-header":"X"}}}`)
	_, err = mcp.NewServer("s", "1", tool.New("f", "", func(context.Context, map[string]any) (string, error) { return "", nil }, tool.Schema(header)))
	if !errors.As(err, &d) || d.Mistakes[0].Tool != "f" || !strings.Contains(err.Error(), "x-mcp-header") {
		t.Errorf("error is %v", err)
	}
	s, err := mcp.NewServer("s", "1", tool.New("good", "", nop))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetTools(nil); !errors.As(err, &d) {
		t.Errorf("error is %v", err)
	}
	c := connect(t, mcp.Config{Transport: s.Local()})
	get(t, c, "good") // is still there
	if err := s.SetTools(); err != nil {
		t.Fatal(err)
	}
	if tools, err := c.Tools(t.Context()); err != nil || len(tools) != 0 {
		t.Errorf("tools are %v, %v", tools, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := mcp.Connect(t.Context(), mcp.Config{Transport: s.Local()}); err == nil {
		t.Error("a closed server takes clients")
	}
}

func TestServingEndsWithItsContextAndWithTheInput(t *testing.T) {
	for name, end := range map[string]func(cancel func(), s *mcp.Server){
		"context": func(cancel func(), _ *mcp.Server) { cancel() },
		"server": func(_ func(), s *mcp.Server) {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := toolbox()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			in, inW, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			outR, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- b.server.Serve(ctx, in, out) }()
			session, err := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, nil).Connect(ctx, &sdk.IOTransport{Reader: outR, Writer: inW}, nil)
			if err != nil {
				t.Fatal(err)
			}
			called := make(chan error, 1)
			go func() {
				_, err := session.CallTool(context.Background(), &sdk.CallToolParams{Name: "slow"})
				called <- err
			}()
			<-b.started
			end(cancel, b.server)
			if err := <-served; err == nil {
				t.Error("serving ends without an error")
			}
			<-b.ended // the call that was under way too
			<-called
			_ = session.Close()
		})
	}
}

func TestAServerWithoutTools(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, &sdk.ServerOptions{Capabilities: &sdk.ServerCapabilities{}})
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method == "tools/list" {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "what tools?"}
			}
			return next(ctx, method, r)
		}
	})
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
	c := connect(t, mcp.Config{Transport: web(t, h)})
	if tools, err := c.Tools(t.Context()); err != nil || len(tools) != 0 {
		t.Errorf("tools are %v, %v", tools, err)
	}
}

func TestAListThatDoesNotEndAndNamesThatMeet(t *testing.T) {
	for name, c := range map[string]struct {
		list sdk.ListToolsResult
		want string
	}{
		"the same page again": {sdk.ListToolsResult{NextCursor: "x"}, "its list of tools doesn't end"},
		"two names become one": {sdk.ListToolsResult{Tools: []*sdk.Tool{
			{Name: "a.b", InputSchema: map[string]any{}}, {Name: "a_b"},
		}}, `tools "a.b" and "a_b" would both be called "a_b"; allow one of them`},
		"no type in a schema, no schema": {sdk.ListToolsResult{Tools: []*sdk.Tool{
			{Name: "a", InputSchema: map[string]any{"title": "x"}}, {Name: "b"},
		}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
			s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
				return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
					if method == "tools/list" {
						list := c.list
						return &list, nil
					}
					return next(ctx, method, r)
				}
			})
			h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
			client := connect(t, mcp.Config{Transport: web(t, h)})
			tools, err := client.Tools(t.Context())
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tool.NewSet(tools...); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server is closed in whatever moment a client connects to it.
func TestAServerIsClosedWhileAClientConnects(t *testing.T) {
	for n := range 100 {
		s, err := mcp.NewServer("weather", "1")
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			if c, err := mcp.Connect(t.Context(), mcp.Config{Transport: s.Local()}); err == nil {
				defer c.Close()
				_, _ = c.Tools(t.Context())
			}
		}()
		time.Sleep(time.Duration(n) * 5 * time.Microsecond)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-over
	}
}
