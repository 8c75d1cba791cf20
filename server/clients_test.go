package server_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/server"
	"github.com/superstep-dev/superstep/tool"
)

type ticks struct {
	Todo int `json:"todo"`
	Done int `json:"done"`
	Left int `json:"left"`
}

func TestMain(m *testing.M) {
	if data := os.Getenv(serveEnv); data != "" {
		serveAlone(data)
		return
	}
	servertest.Main(m)
}

// slow counts, a superstep of some time for each count.
func slow(t testing.TB) *graph.Graph[ticks] {
	t.Helper()
	b := graph.New[ticks]("slow")
	b.AddNode("tick", func(ctx context.Context, s *ticks) error {
		if s.Left == 0 {
			s.Left = s.Todo
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		s.Left--
		s.Done++
		return graph.Emit(ctx, map[string]int{"tick": s.Done})
	})
	b.AddEdge(graph.Start, "tick")
	b.AddRoutes("tick", func(ctx context.Context, s *ticks) (string, error) {
		if s.Left > 0 {
			return "tick", nil
		}
		return graph.End, nil
	}, map[string]string{"tick": "tick", graph.End: graph.End})
	g, err := b.Compile(graph.MaxSteps(5000))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

type TeapotError struct{}

func (TeapotError) Error() string { return "I am a teapot" }

func boom(t testing.TB) *graph.Graph[ticks] {
	t.Helper()
	b := graph.New[ticks]("boom")
	b.AddNode("boom", func(ctx context.Context, s *ticks) error { return TeapotError{} })
	b.AddEdge(graph.Start, "boom")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

type factors struct {
	A int `json:"a"`
	B int `json:"b"`
}

// answering is an agent that calls a tool and then answers, again for every
// question.
func answering(t testing.TB) *graph.Graph[agent.State] {
	t.Helper()
	multiply := tool.New("multiply", "Multiplies two numbers.", func(_ context.Context, in factors) (int, error) { return in.A * in.B, nil })
	g, err := agent.New(agent.ReAct[agent.State]{
		Name: "agent", Tools: []tool.Tool{multiply},
		Model: scripted.New(
			scripted.Text("The answer is 42.").When(scripted.Returned("multiply")).Repeat(),
			scripted.Call("multiply", `{"a":6,"b":7}`).Repeat(),
		),
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// briefing is the argument of the tool by which deep agents call others.
type briefing struct {
	Description string `json:"description"`
	Type        string `json:"subagent_type"`
}

// team is an agent that lets another do two tasks at once, by the tool "task" of deep agents.
func team(t testing.TB) *graph.Graph[agent.State] {
	t.Helper()
	worker, err := agent.New(agent.ReAct[agent.State]{
		Name: "task", Model: model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
			return &model.Response{Message: chat.Assistant("done: " + r.Messages[len(r.Messages)-1].Text())}, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	do := agent.GraphTool(worker, "Lets an agent do a task.", func(s *agent.State, in briefing) { s.UserInput = in.Description },
		func(s *agent.State) (string, error) { return s.LastResponse.Get(), nil })
	g, err := agent.New(agent.ReAct[agent.State]{
		Name: "team", Tools: []tool.Tool{do}, TaskPerCall: true,
		Model: scripted.New(
			scripted.Text("Both are done.").When(scripted.Returned("task")).Repeat(),
			scripted.Calls(
				chat.ToolCall{ID: "call_1", Name: "task", Args: `{"description":"find flights","subagent_type":"scout"}`},
				chat.ToolCall{ID: "call_2", Name: "task", Args: `{"description":"find hotels","subagent_type":"scout"}`},
			).Repeat(),
		),
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

type desktop struct {
	Messages chat.History               `json:"messages"`
	Tools    graph.Value[[]clientsTool] `json:"tools,omitzero"`
}

type clientsTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// desk calls the tool that a client brings, and says what it returned.
func desk(t testing.TB) *graph.Graph[desktop] {
	t.Helper()
	b := graph.New[desktop]("desk")
	b.AddNode("desk", func(_ context.Context, s *desktop) error {
		if last := s.Messages.Last(); last.Role == chat.RoleTool {
			s.Messages.Add(chat.Assistant("The page says: " + last.Text()))
			return nil
		}
		for _, one := range s.Tools.Get() {
			s.Messages.Add(chat.Assistant("", chat.ToolCall{ID: "call-1", Name: one.Name, Args: `{"tint":"blue"}`}))
		}
		return nil
	})
	b.AddEdge(graph.Start, "desk")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// LangGraph's published packages work with the server as they are, and so do OpenAI's.
func TestLangGraphsClients(t *testing.T) {
	servertest.Packages(t, "LangGraph's clients", "clients")
	for name, data := range map[string]func(t *testing.T) []string{
		"one server in memory":          func(*testing.T) []string { return []string{"memory"} },
		"one server over SQLite":        func(t *testing.T) []string { return []string{"sqlite:" + filepath.Join(t.TempDir(), "threads.db")} },
		"two servers on one PostgreSQL": func(t *testing.T) []string { url := ownSchema(t); return []string{url, url} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var urls []string
			stores := data(t)
			for _, url := range stores {
				urls = append(urls, start(t, server.Data(url), server.Graph(booking(t)), server.Graph(slow(t)), server.Graph(boom(t)), server.Graph(answering(t)), server.Graph(team(t)), server.Graph(desk(t)), server.Dialogue(new(boxOffice).assistant(t))).url)
			}
			locked := start(t, server.APIKeys("right"), server.Graph(slow(t)), quiet())
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
			defer cancel()
			// A program that hangs is told by name, and leaves nothing that goes on.
			cmd := exec.CommandContext(ctx, "node", "--test", "--test-reporter=spec", "--test-timeout=200000", "--test-force-exit", "clients/")
			cmd.Env, cmd.WaitDelay = append(os.Environ(), "SUPERSTEP_URL="+balance(t, urls), "SUPERSTEP_LOCKED_URL="+locked.url, "SUPERSTEP_OVERDUE="+timekeeper(t, stores[0])), 5*time.Second
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// timekeeper returns a URL at which crons are made due, empty for a store whose
// times can't be changed from outside.
func timekeeper(t *testing.T, data string) string {
	if data == "memory" {
		return ""
	}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path, ok := strings.CutPrefix(data, "sqlite:"); ok {
			overdue(t, strings.TrimSuffix(path, ".db")+".server.db")
		} else {
			due(t, data)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(h.Close)
	return h.URL
}

// proxyTo returns a proxy that sends what comes at once. It keeps no connection: when a
// client leaves while an answer without a body arrives, net/http gives the connection to
// the next request, and then closes it (Transport of Go 1.26).
func proxyTo(to *url.URL) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1,
		Transport: &http.Transport{DisableKeepAlives: true}, ErrorLog: log.New(io.Discard, "", 0),
	}
}

// balance returns the URL of a proxy that sends requests to servers in turn.
func balance(t *testing.T, urls []string) string {
	if len(urls) == 1 {
		return urls[0]
	}
	var proxies []*httputil.ReverseProxy
	for _, u := range urls {
		to, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		proxies = append(proxies, proxyTo(to))
	}
	var n atomic.Int64
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { proxies[n.Add(1)%int64(len(proxies))].ServeHTTP(w, r) }))
	t.Cleanup(h.Close)
	return h.URL
}
