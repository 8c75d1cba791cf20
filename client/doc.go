// Package client calls servers that speak the protocol of LangGraph's server:
// Superstep's own ([github.com/superstep-dev/superstep/server]) and LangGraph's.
//
//	c, err := client.New("http://localhost:8123", client.APIKey(os.Getenv("SUPERSTEP_API_KEY")))
//	...
//	for ev, err := range c.Stream(ctx, thread.ID, client.RunRequest{Assistant: "agent", Input: input}) {
//		...
//	}
//
// A graph is named by the ID of an assistant or by its own, and its state is JSON:
// the package knows nothing of the engine and depends on the standard library alone.
//
// Following a run is safe against networks: a stream whose connection is cut goes
// on after the last event that was received. Other calls are made once; those that
// only read are sent again, by the transport, if an idle connection turns out to
// be dead.
//
// Lists are sequences that ask for the next page when the loop gets there. They
// can be ranged over again, and then ask anew.
//
// What a server refuses is an [*Error] with its status and words. Where nothing
// answers, the error is an [*UnreachableError]; where something answers that isn't
// such a server, a [*ProtocolError]; a run that failed is a [*RunError].
package client
