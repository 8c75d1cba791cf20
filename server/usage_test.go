package server_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/server"
)

// priced is a model that costs 2.25 for each of its answers.
func priced(name string) model.Model {
	return model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		m := chat.Assistant("Oslo")
		m.Model, m.Usage = name, &chat.Usage{Input: 1_000_000, Output: 100_000}
		return &model.Response{Message: m}, nil
	})
}

type asksModels struct {
	agent.State
	Wait bool   `json:"wait"`
	Fail bool   `json:"fail"`
	Name string `json:"name"`
}

// spender asks a model five times: in a node that fails at first, in a subgraph, in a node
// that waits for the gate if it is to, and after that.
func spender(t *testing.T) (*graph.Graph[asksModels], *gate) {
	t.Helper()
	shut := make(chan struct{})
	w := &gate{make(chan struct{}, 10), func() { close(shut) }}
	ask := func(ctx context.Context, s *asksModels) error {
		_, err := model.Ask(calls.Recording(ctx), priced(s.Name), &model.Request{Messages: []chat.Message{chat.User("Where?")}})
		return err
	}
	poet, err := agent.New(agent.ReAct[agent.State]{Name: "poet", Model: priced("gpt-5")})
	if err != nil {
		t.Fatal(err)
	}
	b := graph.New[asksModels]("spender")
	b.AddNode("own", func(ctx context.Context, s *asksModels) error {
		if err := ask(ctx, s); err != nil || graph.Info(ctx).Attempt > 1 {
			return err
		}
		return errors.New("not yet")
	}, graph.Retry(graph.RetryPolicy{MaxAttempts: 2, Initial: 1}))
	agent.AddAgent(b, "poet", agent.Of(poet, "poet"), agent.SubAgent[asksModels]{})
	b.AddNode("wait", func(ctx context.Context, s *asksModels) error {
		if s.Wait {
			w.reached <- struct{}{}
			select {
			case <-shut:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return ask(ctx, s)
	})
	b.AddNode("last", func(ctx context.Context, s *asksModels) error {
		if err := ask(ctx, s); err != nil || !s.Fail {
			return err
		}
		return errors.New("no")
	})
	for _, e := range [][2]string{{graph.Start, "own"}, {"own", "poet"}, {"poet", "wait"}, {"wait", "last"}} {
		b.AddEdge(e[0], e[1])
	}
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g, w
}

// A run's row has what all of its models used, in subgraphs and in attempts that failed as
// well, however it ended and whoever had it before; and nothing of other runs.
func TestARunHasWhatItsModelsUsed(t *testing.T) {
	g, w := spender(t)
	opts := []server.Option{server.Data("sqlite:" + filepath.Join(t.TempDir(), "threads.db")), server.Graph(g), server.Graph(booking(t)), quiet()}
	first, h, c := program(t, opts...)
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	at := "/threads/" + thread + "/runs"
	run := func(c client, assistant string, input object) object {
		c.do("POST", at+"/wait", object{"assistant_id": assistant, "input": input})
		return call[[]object](c, "POST", "/runs/search", object{"limit": 1})[0]
	}
	is := func(what string, r object, status string, input, output float64, cost any) {
		t.Helper()
		u, _ := r["usage"].(object)
		if u == nil || r["status"] != status || u["input_tokens"] != input || u["output_tokens"] != output || r["cost"] != cost {
			t.Errorf("%s: %v", what, r)
		}
	}
	call[any](c, "POST", "/threads/"+call[object](c, "POST", "/threads", object{})["thread_id"].(string)+"/runs/wait", object{"assistant_id": "booking", "input": object{"city": "Ulm"}})
	is("one without models", call[[]object](c, "POST", "/runs/search", object{})[0], "interrupted", 0, 0, 0.0)
	is("one in this process", run(c, "spender", object{"user_input": "x", "name": "gpt-5"}), "success", 5e6, 5e5, 11.25)
	is("one that failed", run(c, "spender", object{"fail": true}), "error", 5e6, 5e5, 11.25)
	is("one that goes on after that", run(c, "spender", nil), "error", 1e6, 1e5, 2.25)
	is("one of models without a price", run(c, "spender", object{"fail": false, "name": "ours"}), "success", 5e6, 5e5, nil)

	// Another process ends what this one has begun.
	id := call[object](c, "POST", at, object{"assistant_id": "spender", "input": object{"wait": true, "name": "gpt-5"}})["run_id"].(string)
	within(t, "the run waits", w.reached)
	if r := call[[]object](c, "POST", "/runs/search", object{"limit": 1})[0]; r["usage"] != nil || r["cost"] != nil {
		t.Errorf("before its end: %v", r)
	}
	drained := make(chan struct{})
	go func() { defer close(drained); first.Drain(t.Context()) }()
	waitFor(t, "the server drains", func() bool {
		status, _, _ := c.do("GET", "/ready", nil)
		return status == http.StatusServiceUnavailable
	})
	w.open()
	within(t, "the server has drained", drained)
	h.Close()
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, _, c = program(t, opts...)
	call[any](c, "GET", at+"/"+id+"/join", nil)
	is("one in two processes", call[[]object](c, "POST", "/runs/search", object{"limit": 1})[0], "success", 5e6, 5e5, 11.25)

	for body, want := range map[string]int{
		`{}`: 6, `{"min_cost":2.25}`: 4, `{"min_cost":2.26}`: 3, `{"min_cost":12}`: 0, `{"min_tokens":1}`: 5, `{"min_tokens":5500000}`: 4,
		`{"min_tokens":1,"status":["error"]}`: 2, `{"min_cost":1,"graph_id":"spender"}`: 4, `{"min_cost":1,"graph_id":"booking"}`: 0,
	} {
		if got := call[[]object](c, "POST", "/runs/search", body); len(got) != want {
			t.Errorf("%s finds %d, not %d", body, len(got), want)
		}
	}
	f := call[[]object](c, "POST", "/runs/figures", object{"bucket_seconds": 1e9})[0]
	if f["input_tokens"] != 21e6 || f["output_tokens"] != 21e5 || f["cost"] != 36.0 {
		t.Errorf("the figures are %v", f)
	}
	if f := call[[]object](c, "POST", "/runs/figures", object{"bucket_seconds": 1e9, "min_tokens": 1, "status": []string{"pending", "success"}})[0]; f["runs"] != 3.0 || f["cost"] != 22.5 {
		t.Errorf("the figures of some are %v", f)
	}
	for _, body := range []string{`{"min_cost":-1}`, `{"min_tokens":-1}`, `{"min_tokens":0.5}`, `{"min_cost":"x"}`} {
		if status, _, text := c.do("POST", "/runs/search", body); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

func TestARunByADispatcherHasWhatItsModelsUsed(t *testing.T) {
	g, _ := spender(t)
	c := start(t, server.Graph(g), quiet(), server.Dispatch(func(w *fleet.Worker) (fleet.Dispatcher, error) { return fleet.NewLocal(w, fleet.LocalOptions{}) }))
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	for range 2 {
		call[any](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "spender", "input": object{"user_input": "x", "name": "gpt-5"}})
	}
	for _, r := range call[[]object](c, "POST", "/runs/search", object{}) {
		if r["cost"] != 11.25 {
			t.Errorf("it has %v", r)
		}
	}
}
