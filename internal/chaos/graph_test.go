//go:build unix

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// state is what the graph works on. Nothing in it depends on chance, and giving
// the input again changes nothing: who doesn't know whether a call has happened
// makes it again.
type state struct {
	Input    int
	Trail    graph.List[string]
	Loops    int
	Total    graph.Sum[int]
	Parts    graph.Map[string, int]
	Receipt  string
	Approved bool
	Word     string
	Sides    graph.Set[string]
	Ticket   string
	Blob     graph.List[string] // grows, so that snapshots are written
	Finished bool
}

type inner struct {
	Steps  graph.List[string]
	Ticket string
}

const (
	inputs  = 5 // different ones
	rounds  = 3 // of the loop
	fan     = 5
	nap     = 40 * time.Millisecond
	goEvent = "go"
)

var padding = string(make([]byte, 200))

func input(n int) func(*state) error {
	return func(s *state) error {
		s.Input = n
		return nil
	}
}

// pace is how long a node takes.
func pace() { time.Sleep(2 * time.Millisecond) }

// build returns the graph: a loop, a fan-out of sends, a join, a question beside
// a sibling, a sleep, an event and a subgraph, with a Once in most of them. S may
// be nil: then nothing is noted.
func build(s *store) *graph.Builder[state] {
	b := graph.New[state]("chaos")
	node := func(name string, fn func(ctx context.Context, s *state) error) {
		b.AddNode(name, func(ctx context.Context, st *state) error {
			pace()
			if fn != nil {
				if err := fn(ctx, st); err != nil {
					return err
				}
			}
			st.Trail.Add(name)
			return nil
		})
	}
	// A second input after the end would begin a second turn: it ends at once.
	b.AddCommandNode("enter", func(_ context.Context, st *state) (graph.Command, error) {
		if st.Finished {
			return graph.Goto(graph.End), nil
		}
		st.Trail.Add("enter")
		return graph.Goto("pay"), nil
	}, graph.Destinations("pay", graph.End))
	node("pay", func(ctx context.Context, st *state) error {
		receipt, err := once(ctx, s, "charge")
		st.Receipt = receipt
		return err
	})
	node("count", func(_ context.Context, st *state) error {
		st.Loops++
		st.Blob.Add(fmt.Sprint(st.Loops) + padding)
		return nil
	})
	part := graph.AddTask(b, "part", func(ctx context.Context, st *state, n int) error {
		pace()
		if _, err := once(ctx, s, "effect"); err != nil {
			return err
		}
		st.Total.Add(n)
		st.Parts.Put(fmt.Sprint(n), n*n)
		return nil
	})
	b.AddCommandNode("split", func(_ context.Context, st *state) (graph.Command, error) {
		sends := make([]graph.Send, fan)
		for i := range sends {
			sends[i] = part.Send(st.Input + i)
		}
		st.Trail.Add("split")
		return graph.Dispatch(sends...), nil
	}, graph.Destinations("part"))
	node("gather", nil)
	node("ask", func(ctx context.Context, st *state) error {
		if _, err := once(ctx, s, "before asking"); err != nil {
			return err
		}
		ok, err := graph.Interrupt[bool](ctx, "approve", "go on?")
		if err != nil {
			asks(ctx, s, "answer")
			return err
		}
		st.Approved = ok
		return nil
	})
	node("beside", func(_ context.Context, st *state) error { st.Sides.Add("beside"); return nil })
	node("nap", func(ctx context.Context, _ *state) error { return graph.Sleep(ctx, "nap", nap) })
	node("hear", func(ctx context.Context, st *state) error {
		word, err := graph.WaitFor[string](ctx, "", goEvent)
		if err != nil {
			asks(ctx, s, "event")
			return err
		}
		st.Word = word
		return nil
	})
	graph.AddSubgraph(b, "sub", buildInner(s).MustCompile(), graph.Mapping[state, inner]{
		Out: func(c *inner, p *state) { p.Ticket = c.Ticket + fmt.Sprint(c.Steps.Slice()) },
	})
	node("finish", func(_ context.Context, st *state) error { st.Finished = true; return nil })

	b.AddEdge(graph.Start, "enter").AddEdge("pay", "count")
	b.AddRoutes("count", func(_ context.Context, st *state) (string, error) {
		if st.Loops < rounds {
			return "again", nil
		}
		return "on", nil
	}, map[string]string{"again": "count", "on": "split"})
	b.AddEdge("part", "gather").AddEdge("gather", "ask").AddEdge("gather", "beside")
	b.AddJoin([]string{"ask", "beside"}, "nap")
	b.AddEdge("nap", "hear").AddEdge("hear", "sub").AddEdge("sub", "finish")
	return b
}

func buildInner(s *store) *graph.Builder[inner] {
	b := graph.New[inner]("inner")
	for _, name := range []string{"first", "last"} {
		b.AddNode(name, func(ctx context.Context, st *inner) (err error) {
			pace()
			if name == "first" {
				if st.Ticket, err = once(ctx, s, "ticket"); err != nil {
					return err
				}
			}
			st.Steps.Add(name)
			return nil
		})
	}
	return b.AddEdge(graph.Start, "first").AddSequence("first", "last")
}

// once notes each call of its function.
func once(ctx context.Context, s *store, name string) (string, error) {
	in := graph.Info(ctx)
	return graph.Once(ctx, name, func(_ context.Context, key string) (string, error) {
		if s != nil {
			s.j.note(line{Kind: kEffect, Thread: in.Thread, Fence: s.fence(in.Thread), Task: in.Namespace + "|" + in.Task + "|" + name, Key: key})
		}
		return name + " done", nil
	})
}

func asks(ctx context.Context, s *store, what string) {
	if s != nil {
		s.j.note(line{Kind: kAsks, Thread: graph.Info(ctx).Thread, What: what})
	}
}

func compile(s *store, lease time.Duration) (*graph.Graph[state], error) {
	return build(s).Compile(graph.WithCheckpointer(s), graph.LeaseTTL(lease))
}

// undisturbed runs the graph alone, in memory, and returns the final state for
// each input.
func undisturbed(t *testing.T) []string {
	t.Helper()
	ctx := t.Context()
	g, err := build(nil).Compile(graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	for n := range inputs {
		thread := g.Thread(fmt.Sprint(n))
		snap, err := thread.Invoke(ctx, thread.Input(input(n)))
		for turns := 0; err == nil && !snap.Done(); turns++ {
			switch {
			case turns > 100:
				t.Fatal("the graph does not end")
			case len(snap.Interrupts) > 0:
				snap, err = thread.Invoke(ctx, thread.Answer(true))
			case len(snap.Waits) > 0 && snap.Waits[0].Event == "":
				time.Sleep(time.Until(snap.Waits[0].Until))
				snap, err = thread.Invoke(ctx, thread.Continue())
			default:
				if err = thread.SendEvent(ctx, goEvent, "word"); err == nil {
					snap, err = thread.Invoke(ctx, thread.Continue())
				}
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		s := &snap.State
		if s.Input != n || s.Loops != rounds || s.Total.Get() != n*fan+fan*(fan-1)/2 || !s.Approved || s.Word != "word" || !s.Finished || s.Ticket == "" {
			t.Fatalf("the undisturbed run ends with %+v", s)
		}
		data, err := json.Marshal(snap.State)
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, string(data))
	}
	return states
}
