package calls_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// ran returns the calls of tools on a thread, the oldest first.
func ran(t *testing.T, store checkpoint.Store, q calls.Query) (all []*calls.ToolCall) {
	t.Helper()
	for c, err := range calls.ListTools(t.Context(), store, "t", q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	slices.Reverse(all)
	return all
}

func TestWhenToolsRanIsRecordedOnceForEachRunOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := 0
		tools := []tool.Tool{
			tool.New("slow", "", func(ctx context.Context, _ struct{}) (string, error) { time.Sleep(3 * time.Second); return "done", nil }),
			tool.New("broken", "", func(context.Context, struct{}) (string, error) { return "", errors.New("no") }),
			tool.New("asks", "", func(ctx context.Context, _ struct{}) (string, error) {
				asks++
				return graph.Interrupt[string](ctx, "ok", "Really?")
			}),
		}
		m := scripted.New(
			scripted.Calls(chat.ToolCall{Name: "slow", Args: "{}"}, chat.ToolCall{Name: "broken", Args: "{}"}, chat.ToolCall{Name: "asks", Args: "{}"}),
			scripted.Text("Done."),
		)
		store := checkpoint.NewMemory()
		g, err := agent.New(agent.ReAct[S]{Model: m, Tools: tools, OnError: agent.TellModel}, graph.WithCheckpointer(store))
		if err != nil {
			t.Fatal(err)
		}
		th, began := g.Thread("t"), time.Now()
		if err := say(t, th, "Go"); !errors.Is(err, graph.ErrInterrupted) && err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := th.Invoke(t.Context(), th.Answer("yes")); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range ran(t, store, calls.Query{}) {
			if c.Node != agent.NodeTools || c.Call == "" || c.Attempt != 1 || c.Checkpoint == "" || c.Step != 2 {
				t.Errorf("%+v", c)
			}
			got = append(got, fmt.Sprintf("%s after %v took %v failed %v", c.Tool, c.Began.Sub(began), c.Took, c.Failed))
		}
		slices.Sort(got)
		want := []string{"asks after 1h0m3s took 0s failed false", "broken after 3s took 0s failed true", "slow after 0s took 3s failed false"}
		if !slices.Equal(got, want) || asks != 2 {
			t.Errorf("%d calls of the tool that asks, recorded:\n%s", asks, strings.Join(got, "\n"))
		}
		if n := len(ran(t, store, calls.Query{Limit: 2})); n != 2 {
			t.Errorf("a limit of two: %d", n)
		}
		if n := len(list(t, store, "t")); n != 2 {
			t.Errorf("%d calls of models beside them, want 2", n)
		}
	})
}

func TestToolsAreNotRecordedWhereModelsAreNot(t *testing.T) {
	store := checkpoint.NewMemory()
	g := react(t, scripted.New(scripted.Call("weather", `{"City":"Bonn"}`), scripted.Text("Rain.")), graph.WithCheckpointer(store), calls.Off())
	if err := say(t, g.Thread("t"), "How is Bonn?"); err != nil {
		t.Fatal(err)
	}
	if got := ran(t, store, calls.Query{}); len(got) != 0 {
		t.Errorf("%d calls", len(got))
	}
	for _, err := range calls.ListTools(t.Context(), store, "t", calls.Query{Before: "x"}) {
		if err == nil {
			t.Error("an ID that is none")
		}
	}
}
