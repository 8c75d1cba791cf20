// Package server serves compiled graphs over HTTP, in the protocol of LangGraph's
// server: its JavaScript and Python clients, its React hooks, RemoteGraph and
// Agent Chat UI work with it as they are.
//
//	s, err := server.New(ctx, server.Graph(jokes), server.Graph(review), server.Data("sqlite:superstep.db"))
//	if err != nil { … }
//	defer s.Close(ctx)
//	err = http.ListenAndServe("127.0.0.1:8123", s)
//
// A [Server] is an http.Handler. Threads, with all their checkpoints, are kept in
// a checkpoint store, long-term memory in a memory store, and assistants, runs and
// crons in tables of the server's own; [Data] names a place for all three. Runs
// outlive the request that started them, and go on after the process was killed.
//
// A server lets everybody in who reaches it, until it is told how to know its
// users: with [APIKeys], [JWT] or [Authenticate]. Each of them may then do
// everything, until [Authorize] says otherwise; [OwnedByUser] keeps what is one
// user's from the others. [Limits] bound what clients can ask for, [AllowOrigins]
// says which pages may use the server, and [Audit] where changes are logged. One
// that is for its own machine and has no authentication needs [LocalHosts], lest
// pages of others reach it by a name that they have lead there.
// [HTTPServer] has the timeouts that a server on a network needs; it has no TLS,
// which is for a proxy, or for http.Server's ServeTLS.
package server
