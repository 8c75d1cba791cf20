// Package a2a speaks the Agent2Agent protocol, version 1.0, on the protocol's own Go
// library: [Handler] gives the assistants of a server to agents that speak it, and
// [AddAgent] makes a node of a graph out of an agent that is elsewhere.
//
//	s, err := server.New(ctx, server.Graph(trips), server.Data("sqlite:superstep.db"))
//	...
//	err = http.ListenAndServe("127.0.0.1:8123", a2a.Handler(s, a2a.Options{}))
//
// In the protocol's words an assistant is an agent, a thread is a context, and what
// begins with a message and ends when the graph does is a task: one run, or several if
// it asks in between. A question is the state input-required, and the next message of
// the task is its answer.
package a2a
