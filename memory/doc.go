// Package memory is the long-term store of agents: what is to be known beyond a
// thread, such as a user's preferences, is kept in items that all threads share.
//
// A [Store] holds items: JSON objects, each under a key in a namespace. A
// namespace is a path of labels, such as {"users", "ann", "notes"}, so that a
// search can look at one user or at all of them. [Get], [Put], [Search] and
// [Update] work with Go types instead of JSON.
//
// [NewInMemory] makes a store in memory. Packages sqlite and postgres below this
// one keep items in databases. [Over] makes a store of a [Backend] of your own,
// which memorytest tests.
//
// # Searching
//
// A [Query] has conditions on fields of the values (see [Filter]), a text, or
// both. Searching by text needs an [Index], which a store is given when it is
// made: its embedder turns texts into vectors, and the items with the nearest
// ones are found.
//
// # Time to live
//
// An item that is put with a TTL, or into a store with one, expires: then it is as
// if it had been deleted. [Store].Sweep gives its space back; whoever uses TTLs
// calls it now and then. A server does so each minute.
//
// # Writing at the same time
//
// Each Put replaces the whole value. Who changes a part of it uses [Update], or
// the version of the item that was read as [PutOptions].IfVersion, so that no
// change of somebody else gets lost.
//
// # In a graph
//
// A run has one long-term memory. [Use] gives it, as a default for all runs or in a call:
//
//	g, err := b.Compile(memory.Use(store))
//
// and nodes find it with [From]:
//
//	store, err := memory.From(ctx)
//
// A server gives the runs of its graphs the memory that it serves to clients, and the
// commands of package cli the same one, so there the graph is compiled without. It is a
// dependency of type [Store], which is never saved: graph.ProvideDeps takes a function, for
// a store that is opened when a run begins. A node that is run again after a failure puts
// again: a key that follows from what is stored makes that harmless. Models save and search
// memories by themselves with [Tools].
package memory
