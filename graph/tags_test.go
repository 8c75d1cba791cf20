package graph_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/graph"
)

func TestEventsTracesAndDrawingsHaveTheTagsOfNodes(t *testing.T) {
	inner := one(func(ctx context.Context, s *trail) error {
		return graph.Emit(graph.WithTags(graph.WithTags(ctx, "loud"), "late"), "hello")
	}, graph.Tags("in"))
	b := graph.New[trail]("outer").NodeDefaults(graph.Tags("all"))
	graph.AddSubgraph(b, "sub", compile(t, inner), graph.Mapping[trail, trail]{}, graph.Tags("out"), graph.Tags("out", "more"))
	b.AddNode("plain", func(_ context.Context, s *trail) error { s.N++; return nil })
	b.AddSequence(graph.Start, "sub", "plain")
	parts := map[string]string{}
	tracer := tracing(func(p graph.Part) {
		if p.Kind != graph.PartStep {
			parts[strings.Join(append(slices.Clip(p.Path), p.Node), "/")] = strings.Join(p.Tags, " ")
		}
	})
	g := compile(t, b, graph.Trace(tracer))
	var got []string
	for ev, err := range g.Stream(bg, nil, graph.Modes(graph.ModeUpdates, graph.ModeTasks, graph.ModeCustom, graph.ModeValues)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(ev.Type)+" "+strings.Join(append(slices.Clip(ev.Path), ev.Node), "/")+": "+strings.Join(ev.Tags, " "))
	}
	node := one(func(context.Context, *trail) error { return nil })
	in := "sub/" + compile(t, node).Nodes()[0]
	equalSlice(t, "events", slices.Compact(got), []string{
		"values : ", "task sub: all out more", "values sub/: all out more", "task " + in + ": all out more in", "custom " + in + ": all out more in loud late",
		"task_result " + in + ": all out more in", "updates " + in + ": all out more in", "values sub/: all out more",
		"task_result sub: all out more", "updates sub: all out more", "values : ", "task plain: all", "task_result plain: all", "updates plain: all", "values : ",
	})
	for part, want := range map[string]string{"": "", "sub": "all out more", "sub/": "all out more", in: "all out more in", "plain": "all"} {
		equal(t, "part "+part, parts[part], want)
	}
	for _, n := range g.Drawing(0).Nodes {
		if n.ID == "sub" {
			equal(t, "drawn", strings.Join(n.Tags, " "), "all out more")
		}
	}
}

// tracing is a tracer that looks at parts as they begin.
type tracing func(graph.Part)

func (f tracing) Begin(ctx context.Context, p graph.Part) (context.Context, func(graph.Outcome)) {
	f(p)
	return ctx, func(graph.Outcome) {}
}

func TestTokensUnderTheTagNoStreamStayOutOfStreams(t *testing.T) {
	say := func(ctx context.Context, s *trail) error {
		if err := graph.EmitMessage(graph.WithTags(ctx, graph.NoStream), "quiet call"); err != nil {
			return err
		}
		return graph.EmitMessage(ctx, graph.Info(ctx).Node)
	}
	b := graph.New[trail]("g")
	b.AddNode("open", say)
	b.AddNode("quiet", say, graph.Tags(graph.NoStream))
	graph.AddSubgraph(b, "sub", compile(t, one(say)), graph.Mapping[trail, trail]{}, graph.Tags(graph.NoStream))
	b.AddSequence(graph.Start, "open", "quiet", "sub")
	var got []string
	for ev, err := range compile(t, b).Stream(bg, nil, graph.Modes(graph.ModeMessages)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ev.Value.(string))
	}
	equalSlice(t, "messages", got, []string{"open"})
}

func TestWhatIsNotStreamedIsASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := one(func(ctx context.Context, s *trail) error {
			for range 10 {
				time.Sleep(time.Second)
				if err := graph.EmitMessage(ctx, "token"); err != nil {
					return err
				}
			}
			return nil
		}, graph.IdleTimeout(2*time.Second), graph.Tags(graph.NoStream))
		must[*graph.Snapshot[trail]](t)(compile(t, b).Invoke(bg, nil))
	})
}

func TestEmptyTagsAreRefused(t *testing.T) {
	_, err := one(func(context.Context, *trail) error { return nil }, graph.Tags("a", "")).Compile()
	wantErr[*graph.CompileError](t, err)
}
