// Package killtest kills a process that runs a graph, again and again, and
// checks that the promises of each durability hold. It holds tests only.
//
// The test binary starts itself as the child. The child runs a graph whose nodes
// append what they do to an effects file, which outlives the child as a disk
// would. It is killed after a random number of effects, with a signal that nothing
// can catch, so that all parts of the run are hit, however fast the store is. The
// parent starts it again until the thread has ended, and compares the effects with
// the store.
//
//	KILLTEST_KILLS=500 go test -run Kill ./internal/killtest   # kills per store; else 60, 5 with -race
//	KILLTEST_KILLS_ACTS=500 go test -run "KilledPrunes|KilledSpawns" ./internal/killtest # threads are pruned, edited and forked; turns are spawned and waited for
//	KILLTEST_SEED=7 go test -run Kill ./internal/killtest
package killtest
