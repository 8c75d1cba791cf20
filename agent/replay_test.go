package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// A recorded conversation is a regression test: it is replayed without a model
// and without tools, with approvals and agents inside.
func TestAConversationIsReplayed(t *testing.T) {
	build := func(m, inner model.Model, live bool, opts ...graph.Option) *graph.Graph[state] {
		gone := errors.New("nothing external is called in a replay")
		mul := tool.New("multiply", "", func(_ context.Context, in pair) (int, error) {
			if !live {
				return 0, gone
			}
			return in.A * in.B, nil
		})
		note := agent.NewStateTool("note", "", func(_ context.Context, s *state, _ struct{}) (string, graph.Command, error) {
			s.Notes.Add("noted")
			return "ok", graph.Command{}, nil
		})
		sub, err := agent.New(agent.ReAct[agent.State]{Name: "inner", Model: inner, Tools: []tool.Tool{mul}})
		if err != nil {
			t.Fatal(err)
		}
		return react(t, agent.ReAct[state]{
			Model: m, Tools: []tool.Tool{mul, note, agent.AsTool(agent.Of(sub, ""))}, Approve: agent.Approve("multiply"), OnError: agent.TellModel,
		}, opts...)
	}
	store := checkpoint.NewMemory()
	m := script(
		calls(call("1", "multiply", `{"a":6,"b":7}`), call("2", "note", "{}")),
		calls(call("3", "inner", `{"task":"x"}`)),
		scripted.Text("done"), scripted.Text("again"),
	)
	inner := script(calls(call("i1", "multiply", `{"a":2,"b":2}`)), scripted.Text("four"))
	g := build(m, inner, true, graph.WithCheckpointer(store), graph.RecordOnce())
	thread := g.Thread("t")
	if _, err := thread.Invoke(t.Context(), thread.Input(ask("go"))); err != nil {
		t.Fatal(err)
	}
	if _, err := thread.Invoke(t.Context(), thread.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}})); err != nil {
		t.Fatal(err)
	}
	snap, err := thread.Invoke(t.Context(), thread.Input(ask("more")))
	if err != nil || snap.State.LastResponse.Get() != "again" || snap.State.Messages.Len() != 9 {
		t.Fatalf("%v\n%s", err, messages(snap))
	}
	path := filepath.Join(t.TempDir(), "t.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := recording.Export(t.Context(), store, "t", f); err != nil {
		t.Fatal(err)
	}
	silent := model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		return nil, fmt.Errorf("the model was called in a replay")
	})
	graphtest.Replay(t, build(silent, silent, false), path)
}
