package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

func TestANodeOfAnyGraphAsksAModelOnceAndStreamsWhatItSays(t *testing.T) {
	type poem struct {
		agent.State
		Text string `json:"text"`
	}
	m := scripted.New(scripted.Text("roses are red").Usage(chat.Usage{Input: 3, Output: 3}), scripted.Text("asked again"))
	b := graph.New[poem]("poet")
	b.AddNode("write", agent.Counted(func(ctx context.Context, s *poem) error {
		resp, err := agent.Generate(ctx, "draft", m, &model.Request{Messages: []chat.Message{chat.User("a poem")}})
		if err != nil {
			return err
		}
		keep, err := graph.Interrupt[bool](ctx, "keep", resp.Message.Text())
		if keep {
			s.Text = resp.Message.Text()
		}
		return err
	}))
	b.AddEdge(graph.Start, "write")
	th := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t")
	var said strings.Builder
	pieces := 0
	for ev, err := range th.Stream(t.Context(), th.Input(func(*poem) error { return nil }), graph.Modes(graph.ModeMessages)) {
		if err != nil {
			t.Fatal(err)
		}
		if k, ok := ev.Value.(chat.Chunk); ok {
			said.WriteString(k.Text)
			pieces++
		}
	}
	if said.String() != "roses are red" || pieces < 2 {
		t.Errorf("%d pieces say %q", pieces, said.String())
	}
	snap, err := th.Invoke(t.Context(), th.Answer(true))
	if err != nil {
		t.Fatal(err)
	}
	if snap.State.Text != "roses are red" || len(m.Requests()) != 1 || snap.State.Usage.Get().Calls() != 1 {
		t.Errorf("the state has %q and %+v, after %d calls", snap.State.Text, snap.State.Usage.Get(), len(m.Requests()))
	}
	if _, err := agent.Generate(t.Context(), "draft", m, &model.Request{}); err == nil || errors.Is(err, scripted.ErrScriptOver) {
		t.Errorf("outside a node: %v", err)
	}
}
