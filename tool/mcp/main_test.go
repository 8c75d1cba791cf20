//lint:file-ignore SA1019 servers log this way for years to come

package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// childVar makes the test binary a server over standard input and output.
const childVar = "SUPERSTEP_TEST_MCP_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(childVar); kind != "" {
		if err := child(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func child(kind string) error {
	switch kind {
	case "ours":
		return toolbox().server.ServeStdio(context.Background())
	case "noisy":
		box := toolbox()
		shout := tool.New("shout", "Writes to standard error.", func(context.Context, none) (string, error) {
			_, err := fmt.Fprintln(os.Stderr, "AAAH")
			return "done", err
		})
		if err := box.server.SetTools(append(box.tools, shout)...); err != nil {
			return err
		}
		return box.server.ServeStdio(context.Background())
	case "sdk":
		return sdkServer().Run(context.Background(), &sdk.StdioTransport{})
	case "conformance":
		return conform(context.Background(), os.Args[len(os.Args)-1])
	case "mute": // it never answers
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	case "stubborn": // it doesn't even end, and waits for something, or else Go would say that it can't
		for {
			time.Sleep(time.Hour)
		}
	}
	return errors.New("no such server as " + kind)
}

func command(kind string) mcp.Command {
	// The race detector would have every child sleep a second at its end.
	return mcp.Command{Path: os.Args[0], Env: append(os.Environ(), childVar+"="+kind, "GORACE=atexit_sleep_ms=0")}
}

// box is a server of ours with tools to be tested.
type box struct {
	server  *mcp.Server
	tools   []tool.Tool
	mu      sync.Mutex
	started chan struct{} // closed when slow has begun
	ended   chan struct{} // closed when slow's context has ended
	swaps   int
}

var picture = []byte{0x89, 'P', 'N', 'G', 0, 255}

type none = struct{}

func toolbox() *box {
	b := &box{started: make(chan struct{}), ended: make(chan struct{})}
	type echo struct {
		Text  string `json:"text" jsonschema:"what to say"`
		Times int    `json:"times" minimum:"1" default:"1"`
	}
	b.tools = []tool.Tool{
		tool.New("echo", "Says it again.", func(_ context.Context, in echo) (string, error) { return strings.Repeat(in.Text, in.Times), nil }),
		tool.New("fail", "Fails.", func(context.Context, none) (string, error) { return "", errors.New("the disk is full") }),
		tool.New("panic", "Panics.", func(context.Context, none) (string, error) { panic("oh no") }),
		rawTool{}, wrongTool{},
		tool.New("parts", "Returns parts.", func(context.Context, none) (tool.Result, error) {
			return tool.Result{Artifact: json.RawMessage(`{"rows":[1,2]}`), Content: []chat.Part{
				chat.Text{Text: "a text"},
				chat.Image{Source: chat.Source{Data: picture, MIME: "image/png"}},
				chat.Audio{Source: chat.Source{Data: []byte("la"), MIME: "audio/wav"}, Transcript: "la la"},
				chat.File{Source: chat.Source{Data: []byte("%PDF"), MIME: "application/pdf"}, Name: "a file.pdf"},
				chat.Image{Source: chat.Source{URL: "https://example.com/i.png", MIME: "image/png"}},
			}}, nil
		}),
		tool.New("list", "Returns a list for the program.", func(context.Context, none) (tool.Result, error) {
			return tool.Result{Artifact: json.RawMessage(`[1,2]`)}, nil
		}),
		tool.New("uploaded", "Returns what can't be passed on.", func(context.Context, none) (chat.Part, error) {
			return chat.File{Source: chat.Source{FileID: "f-1"}}, nil
		}),
		tool.New("big", "Returns a megabyte.", func(context.Context, none) (string, error) { return strings.Repeat("€", 1<<20/3), nil }),
		tool.New("slow", "Waits to be cancelled.", func(ctx context.Context, _ none) (string, error) {
			b.mu.Lock()
			started, ended := b.started, b.ended
			b.mu.Unlock()
			close(started)
			<-ctx.Done()
			close(ended)
			return "", ctx.Err()
		}),
		tool.New("wait_started", "Waits for slow to begin.", func(ctx context.Context, _ none) (string, error) { return b.wait(ctx, b.started) }),
		tool.New("wait_ended", "Waits for slow's end.", func(ctx context.Context, _ none) (string, error) {
			s, err := b.wait(ctx, b.ended)
			b.mu.Lock()
			b.started, b.ended = make(chan struct{}), make(chan struct{})
			b.mu.Unlock()
			return s, err
		}),
		tool.New("swap", "Changes the tools.", func(context.Context, none) (string, error) {
			b.mu.Lock()
			b.swaps++
			name := fmt.Sprintf("new_%d", b.swaps)
			b.mu.Unlock()
			return name, b.server.SetTools(append(b.tools[:len(b.tools):len(b.tools)], tool.New(name, "", b.nop))...)
		}),
		tool.New("pid", "The process.", func(context.Context, none) (int, error) { return os.Getpid(), nil }),
		tool.New("die", "Ends the process.", func(context.Context, none) (string, error) {
			fmt.Fprintln(os.Stderr, "I am dying")
			os.Exit(3)
			return "", nil
		}),
	}
	var err error
	if b.server, err = mcp.NewServer("box", "1", b.tools...); err != nil {
		panic(err)
	}
	return b
}

func (b *box) nop(context.Context, none) (string, error) { return "", nil }

func (b *box) wait(ctx context.Context, c chan struct{}) (string, error) {
	select {
	case <-c:
		return "yes", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// rawTool is a tool that isn't a function, and panics.
type rawTool struct{}

func (rawTool) Spec() chat.ToolSpec { return chat.ToolSpec{Name: "raw_panic"} }

func (rawTool) Call(context.Context, json.RawMessage) (tool.Result, error) { panic("raw") }

// wrongTool returns an error that isn't for the model.
type wrongTool struct{}

func (wrongTool) Spec() chat.ToolSpec { return chat.ToolSpec{Name: "wrong"} }

func (wrongTool) Call(context.Context, json.RawMessage) (tool.Result, error) {
	return tool.Result{}, errors.New("not for the model")
}

// sdkServer is a server that is made with the SDK alone.
func sdkServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, &sdk.ServerOptions{PageSize: 2})
	release := make(chan struct{})
	var once sync.Once
	add := func(name string, h sdk.ToolHandler) {
		s.AddTool(&sdk.Tool{Name: name, Description: "about " + name, InputSchema: json.RawMessage(`{"type":"object"}`)}, h)
	}
	gives := func(name string, res *sdk.CallToolResult) {
		add(name, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return res, nil })
	}
	add("progress", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := range 3 {
			err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3, Message: fmt.Sprintf("step %d", i+1),
			})
			if err != nil {
				return nil, err
			}
		}
		<-release
		return &sdk.CallToolResult{}, nil
	})
	add("release", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		once.Do(func() { close(release) })
		return &sdk.CallToolResult{}, nil
	})
	add("log", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		log := func(p sdk.LoggingMessageParams) error {
			return r.Session.Log(ctx, &p)
		}
		return &sdk.CallToolResult{}, errors.Join(
			log(sdk.LoggingMessageParams{Level: "debug", Logger: "l", Data: map[string]any{"level": "debug"}}),
			log(sdk.LoggingMessageParams{Level: "warning", Logger: "l", Data: map[string]any{"level": "warning"}}))
	})
	gives("resources", &sdk.CallToolResult{Content: []sdk.Content{
		&sdk.ResourceLink{URI: "file:///a.txt", Name: "a", MIMEType: "text/plain", Description: "the letter a"},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///b.txt", MIMEType: "text/plain", Text: "bbb"}},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///c.png", MIMEType: "image/png", Blob: picture}},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///dir/d.pdf", MIMEType: "application/pdf", Blob: []byte("%PDF")}},
	}})
	gives("structured", &sdk.CallToolResult{StructuredContent: map[string]any{"n": 1}})
	gives("error", &sdk.CallToolResult{IsError: true, Content: []sdk.Content{
		&sdk.TextContent{Text: "no such city"}, &sdk.ImageContent{Data: picture, MIMEType: "image/png"},
	}})
	gives("silent_error", &sdk.CallToolResult{IsError: true})
	gives("dotted.name", &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "dotted"}}})
	return s
}

// web serves a handler and returns how to reach it.
func web(t *testing.T, h http.Handler) mcp.HTTP {
	t.Helper()
	s := httptest.NewServer(h)
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.CloseClientConnections()
		s.Close()
	})
	return mcp.HTTP{URL: s.URL, Client: &http.Client{Transport: transport}}
}

// connect connects for the time of a test.
func connect(t *testing.T, cfg mcp.Config) *mcp.Client {
	t.Helper()
	c, err := mcp.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// get returns one of the server's tools.
func get(t *testing.T, c *mcp.Client, name string) tool.Tool {
	t.Helper()
	tools, err := c.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := s.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

func text(t *testing.T, tl tool.Tool, args string) string {
	t.Helper()
	r, err := tl.Call(t.Context(), json.RawMessage(args))
	if err != nil {
		t.Fatalf("%s: %v", tl.Spec().Name, err)
	}
	return chat.ToolResult{Content: r.Content}.Text()
}

const old = "2025-11-25"

// everyWay runs a test over all ways to reach a box, with the protocol that has
// sessions and with the one that has none.
func everyWay(t *testing.T, test func(t *testing.T, cfg mcp.Config)) {
	for name, transport := range map[string]func(t *testing.T) mcp.Transport{
		"stdio": func(*testing.T) mcp.Transport { return command("ours") },
		"http": func(t *testing.T) mcp.Transport {
			s := toolbox().server
			h := web(t, s.Handler())
			closing(t, s) // first
			return h
		},
		"local": func(t *testing.T) mcp.Transport { return closing(t, toolbox().server).Local() },
	} {
		t.Run(name, func(t *testing.T) { test(t, mcp.Config{Transport: transport(t)}) })
		t.Run(name+" "+old, func(t *testing.T) { test(t, mcp.Config{Transport: transport(t), Protocol: old}) })
	}
}

func closing(t *testing.T, s *mcp.Server) *mcp.Server {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the server: %v", err)
		}
	})
	return s
}
