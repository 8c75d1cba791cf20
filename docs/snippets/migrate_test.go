package snippets_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/superstep-dev/superstep/cache"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

//snippet:state

type Agent struct {
	Question string             // a plain key: last value wins
	Messages graph.List[string] // Annotated[list, operator.add]
	Calls    graph.Sum[int]     // Annotated[int, operator.add]
}

func think(_ context.Context, s *Agent) error {
	s.Messages.Add("thinking about " + s.Question)
	s.Calls.Add(1)
	return nil
}

//snippet:end

func act(_ context.Context, s *Agent) error {
	s.Messages.Add("acting")
	return nil
}

func enough(_ context.Context, s *Agent) (string, error) {
	if s.Calls.Get() < 2 {
		return "again", nil
	}
	return "done", nil
}

func Example_build() {
	store := checkpoint.NewMemory()
	//snippet:build
	b := graph.New[Agent]("agent")
	b.AddNode("think", think)
	b.AddNode("act", act)
	b.AddEdge(graph.Start, "think")
	b.AddRoutes("think", enough, map[string]string{"again": "act", "done": graph.End})
	b.AddEdge("act", "think")
	g, err := b.Compile(
		graph.WithCheckpointer(store),
		graph.InterruptBefore("act"))
	if err != nil {
		log.Fatal(err)
	}
	//snippet:end

	//snippet:invoke
	t := g.Thread("t-1")
	snap, err := t.Invoke(ctx, t.Input(func(s *Agent) error {
		s.Question = "why"
		return nil
	}))
	fmt.Println(snap.Next, snap.Err(), err)

	snap, err = t.Invoke(ctx, t.Answer(nil)) // a breakpoint is passed by nil
	fmt.Println(snap.State.Messages, err)
	//snippet:end

	//snippet:threads
	snap, err = t.State(ctx)
	for entry, err := range t.History(ctx, graph.HistoryQuery{Limit: 2}) {
		fmt.Println(entry.Step, entry.Nodes, err)
	}
	snap, err = t.EditAs(ctx, "act", func(s *Agent) error {
		s.Messages.Add("by hand")
		return nil
	})
	fmt.Println(snap.Next, err)
	//snippet:end
	// Output:
	// [act] interrupted before node 'act' <nil>
	// [thinking about why acting thinking about why] <nil>
	// 3 [think] <nil>
	// 2 [act] <nil>
	// [think] <nil>
}

func Example_migrateCommand() {
	b := graph.New[Agent]("command")
	//snippet:command
	decide := func(_ context.Context, s *Agent) (graph.Command, error) {
		s.Messages.Add("decided")     // update
		return graph.Goto("act"), nil // goto
	}
	b.AddCommandNode("decide", decide, graph.Destinations("act"))
	//snippet:end
	b.AddNode("act", act)
	b.AddEdge(graph.Start, "decide")
	snap, err := b.MustCompile().Invoke(ctx, nil)
	fmt.Println(snap.State.Messages, err)
	// Output: [decided acting] <nil>
}

func Example_migrateSend() {
	b := graph.New[Agent]("send")
	//snippet:send
	joke := graph.AddTask(b, "joke", func(_ context.Context, s *Agent, subject string) error {
		s.Messages.Add("a joke about " + subject)
		return nil
	})
	b.AddConditionalEdges(graph.Start, func(_ context.Context, s *Agent) (graph.Command, error) {
		return graph.Dispatch(joke.Send("cats"), joke.Send("dogs")), nil
	}, "joke")
	//snippet:end
	snap, err := b.MustCompile().Invoke(ctx, nil)
	fmt.Println(snap.State.Messages, err)
	// Output: [a joke about cats a joke about dogs] <nil>
}

func Example_migrateInterrupt() {
	b := graph.New[Agent]("interrupt")
	//snippet:interrupt
	approve := func(ctx context.Context, s *Agent) error {
		answer, err := graph.Interrupt[string](ctx, "approve", map[string]string{"question": s.Question})
		if err != nil {
			return err
		}
		s.Messages.Add(answer)
		return nil
	}
	//snippet:end
	b.AddNode("approve", approve)
	b.AddEdge(graph.Start, "approve")
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	t := g.Thread("t-1")
	snap, _ := t.Invoke(ctx, t.Input(func(s *Agent) error {
		s.Question = "why"
		return nil
	}))
	//snippet:resume
	snap, err := t.Invoke(ctx, t.Answer("yes"))
	//snippet:end
	fmt.Println(snap.State.Messages, err)
	// Output: [yes] <nil>
}

func Example_migrateStream() {
	b := graph.New[Agent]("stream")
	b.AddNode("think", think)
	b.AddEdge(graph.Start, "think")
	g := b.MustCompile()
	//snippet:stream
	modes := graph.Modes(graph.ModeUpdates, graph.ModeValues)
	ask := func(s *Agent) error {
		s.Question = "why"
		return nil
	}
	for ev, err := range g.Stream(ctx, ask, modes) {
		if err != nil {
			log.Fatal(err)
		}
		switch ev.Type {
		case graph.EventUpdate:
			fmt.Println(ev.Node, string(ev.Update))
		case graph.EventValues:
			s, _ := graph.StateOf[Agent](ev)
			fmt.Println(ev.Step, s.Messages)
		}
	}
	//snippet:end
	// Output:
	// 0 []
	// think {"Messages":["thinking about why"],"Calls":1}
	// 1 [thinking about why]
}

func Example_migrateSubgraph() {
	child := graph.New[Agent]("child")
	child.AddNode("think", think)
	child.AddEdge(graph.Start, "think")
	b := graph.New[Ticket]("parent")
	//snippet:subgraph
	graph.AddSubgraph(b, "agent", child.MustCompile(), graph.Mapping[Ticket, Agent]{
		In:  func(parent *Ticket, child *Agent) { child.Question = parent.Text },
		Out: func(child *Agent, parent *Ticket) { parent.Trail.Add(child.Messages.Last()) },
	})
	//snippet:end
	b.AddEdge(graph.Start, "agent")
	snap, err := b.MustCompile().Invoke(ctx, func(s *Ticket) error {
		s.Text = "why"
		return nil
	})
	fmt.Println(snap.State.Trail, err)
	// Output: [thinking about why] <nil>
}

func Example_migrateRetry() {
	b := graph.New[Agent]("retry")
	//snippet:retry
	b.AddNode("think", think,
		graph.Retry(graph.RetryPolicy{MaxAttempts: 5, Initial: time.Second, If: isTemporary}),
		graph.Timeout(30*time.Second),
		graph.Cache(graph.CachePolicy{Store: &cache.Memory{}, TTL: time.Minute, Version: "1"}),
		graph.OnError(func(_ context.Context, s *Agent, err *graph.NodeError) (graph.Command, error) {
			s.Messages.Add("no luck: " + err.Error())
			return graph.Goto("act"), nil
		}),
		graph.Destinations("act"))
	//snippet:end
	b.AddNode("act", act)
	b.AddEdge(graph.Start, "think")
	snap, err := b.MustCompile().Invoke(ctx, func(s *Agent) error {
		s.Question = "why"
		return nil
	})
	fmt.Println(snap.State.Messages, err)
	// Output: [thinking about why] <nil>
}

func isTemporary(error) bool { return true }
