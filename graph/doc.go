// Package graph runs stateful workflows: ordinary Go functions over one typed
// state, wired into a graph with cycles, branches and fan-out.
//
// State is one typed struct. A node is a transaction on it. A superstep runs
// every due node in parallel on private copies and commits all their changes at
// once. Everything else (routing, interrupts, time travel, streaming) follows
// from the log of those commits.
//
//	type State struct {
//		Topic string
//		Jokes graph.List[string]
//	}
//
//	b := graph.New[State]("jokes")
//	b.AddNode("write", func(ctx context.Context, s *State) error {
//		s.Jokes.Add("Why did the " + s.Topic + " cross the road?")
//		return nil
//	})
//	b.AddEdge(graph.Start, "write")
//	g, err := b.Compile()
//	snap, err := g.Invoke(ctx, func(s *State) error { s.Topic = "cats"; return nil })
//
// What is kept of a run is a [Thread]: a graph with a checkpointer is called through a
// handle to one, with a [Request] that says what the call does.
//
//	g, err := b.Compile(graph.WithCheckpointer(store))
//	t := g.Thread("t-1")
//	snap, err := t.Invoke(ctx, t.Input(func(s *State) error { s.Topic = "cats"; return nil }))
//	snap, err = t.Invoke(ctx, t.Answer(true)) // of what a node has asked, perhaps in another process
//
// A field of the state is plain (strings, numbers, bools, arrays and structs of
// them, time.Time) or one of the merging types [Value], [List], [Map], [Sum],
// [Set], [Reduced], [Ephemeral], [MergeEphemeral] and [Untracked], which say what happens when
// several nodes write to it in one superstep. See [Builder.Compile] for what is
// checked, [Requests] for how runs start and go on, and [Interrupt] for
// questions to people.
//
// A graph whose fields aren't known at compile time has a map for its state,
// with fields that a [Schema] declares, and nodes that return updates: see
// [NewSchemaGraph].
package graph
