package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// called calls a tool of a server of MCP.
func called(t *testing.T, c *mcp.Client, name, args string) (tool.Result, mcp.ThreadResult) {
	t.Helper()
	tools, err := c.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := set.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	res, err := tl.Call(t.Context(), json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	var r mcp.ThreadResult
	if err := json.Unmarshal(res.Artifact, &r); res.Artifact != nil && err != nil {
		t.Fatal(err)
	}
	return res, r
}

func reached(t *testing.T, cfg mcp.Config) *mcp.Client {
	t.Helper()
	c, err := mcp.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestAGraphServedOverStdioIsAnsweredInAnotherProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	flow := filepath.Join(dir, "flow") // by its name it is the program of the scripts
	if err := os.Symlink(self, flow); err != nil {
		t.Skip(err)
	}
	cfg := mcp.Config{Transport: mcp.Command{Path: flow, Args: []string{"mcp", "--store", "file:" + dir}, Env: append(os.Environ(), "GORACE=atexit_sleep_ms=0"), Dir: dir}}
	res, r := called(t, reached(t, cfg), "jokes", `{"topic":"cats","thread":"t"}`)
	if r.Status != "asks" || len(r.Questions) != 1 || !strings.Contains(res.Text(), `"cats no. 1"`) {
		t.Fatalf("%+v: %s", r, res.Text())
	}
	_, r = called(t, reached(t, cfg), mcp.AnswerTool, `{"graph":"jokes","thread":"t","answers":{"like":true}}`)
	if r.Status != "done" || string(r.Output) != `{"jokes":["cats no. 1"],"liked":true,"topic":"cats"}` {
		t.Errorf("%+v, output %s", r, r.Output)
	}
}

func TestMCPOverHTTPLetsInWhoHasAKey(t *testing.T) {
	const key = "a-long-key-0123456789"
	t.Setenv("SUPERSTEP_API_KEYS", "ada="+key)
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var notes bytes.Buffer
	code := make(chan int, 1)
	hello := tool.New("hello", "Greets.", func(context.Context, struct{}) (string, error) { return "hello", nil })
	go func() {
		code <- cli.Run(ctx, []string{"mcp", "--http", "127.0.0.1:0", "--json", "--store", "memory"}, strings.NewReader(""), in, &notes, cli.Graph(jokes()), cli.Graph(pair(), cli.Unserved()), cli.Tools(hello))
		in.Close()
	}()
	var said struct{ URL string }
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		t.Fatalf("%v: %s", err, notes.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	at := mcp.HTTP{URL: said.URL, Client: &http.Client{Transport: transport}}
	for _, wrong := range []string{"", "Bearer x", "Bearer ada=" + key} {
		at.Header = http.Header{"Authorization": {wrong}}
		if _, err := mcp.Connect(t.Context(), mcp.Config{Transport: at}); err == nil {
			t.Errorf("%q gets in", wrong)
		}
	}
	at.Header = http.Header{"Authorization": {"Bearer " + key}}
	c, err := mcp.Connect(t.Context(), mcp.Config{Transport: at, Elicit: func(context.Context, mcp.Elicitation) (mcp.ElicitationAnswer, error) {
		return mcp.ElicitationAnswer{Action: mcp.Accept, Content: json.RawMessage(`{"answer":true}`)}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if tools, err := c.Tools(t.Context()); err != nil || len(tools) != 3 {
		t.Errorf("%d tools, %v", len(tools), err)
	}
	if _, r := called(t, c, "jokes", `{"topic":"dogs"}`); r.Status != "done" || !strings.Contains(string(r.Output), `"liked":true`) {
		t.Errorf("%+v, output %s", r, r.Output)
	}
	if res, _ := called(t, c, "hello", `{}`); res.Text() != "hello" {
		t.Errorf("hello says %q", res.Text())
	}
	stop()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d: %s", got, notes.String())
	}
	_ = c.Close() // the server is gone
}
