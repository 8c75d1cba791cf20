// Package session keeps the sessions of agents: who said what to whom, and what
// the agents remember of it.
//
// A [Runner] runs a graph for a user in a session. It finds or makes the session,
// says to the graph what the user says, writes down what is said, and yields
// what happens as [Event]s:
//
//	r, err := session.NewRunner("support", g)
//	for ev, err := range r.Run(ctx, "ann", "s1", chat.User("My name is Ann.")) {
//		if err != nil {
//			return err
//		}
//		if ev.Kind == session.KindDelta {
//			fmt.Print(ev.Delta.Content)
//		}
//	}
//
// Events come by an iterator and not by a channel, as is the way in Go today:
// there is nothing to close or to drain, and who breaks out of the loop ends the
// run.
//
// # State
//
// A session has a state: JSON values by name. A name's scope stands before it:
// "user:lang" belongs to all sessions of the user, "app:motd" to all of the
// program, "temp:x" lives for one run and is never stored, and a name without
// scope is the session's own. Instructions of an agent's models show it as {lang},
// {user:lang} and so on, see [agent.Values]; nodes read and write it with [From].
// It is not the state of the graph, which is typed, checkpointed and each
// thread's own.
//
// # Who remembers
//
// With a checkpointer the graph's thread is the truth of a conversation, and a
// session's events are what its user saw of it: messages that only the session
// has, such as those that another program appended, are added to the thread when
// the next run starts. Without one the conversation is put together from the
// session's events; nodes that remove messages then do it for their run alone,
// and a graph can't ask questions.
//
// # Services
//
// A [Service] keeps sessions: [NewMemory] in memory, [New] in a store of threads,
// beside these. Package sessiontest has the tests that both pass.
package session
