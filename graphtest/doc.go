// Package graphtest tests graphs: it runs them with scripted answers, injects
// faults into nodes and stores, runs nodes a second time to see whether that
// makes a difference, crashes runs at every write, and compares runs with one
// another and with golden files.
//
//	func TestReview(t *testing.T) {
//		script := graphtest.Script{"approve": {true}}
//		graphtest.CheckIdempotent(t, build, input, script)
//		graphtest.CheckRecovery(t, build, input, script)
//		graphtest.CheckDeterministic(t, 20, build, input, script)
//	}
//
// Build is the function of the program under test that returns its builder; the
// checks compile it anew for each run, with stores in memory. All of them turn
// [graph.CheckMutations] on.
package graphtest
