// Package chaos disturbs several processes that share a store, and checks that
// the promises of runs on threads hold. It holds tests only.
//
// The test binary starts itself as the workers. Each worker runs a graph.Runner
// and calls of its own over the store that all share; the nodes leave their
// effects in a journal, a file that outlives them. The test itself answers
// questions, sends events, and disturbs: it kills workers, stops them for longer
// than a lease, ends and starts the database server, and cuts connections. In the
// end, and as far as possible meanwhile, it compares the journal with the store:
//
//   - The records of every log are one chain without gaps, and those of one run
//     stand together. No record is gone that was acknowledged or once seen as the
//     head.
//   - A Once has one key for ever. Its function is not called by a run that took
//     the thread over after the result was recorded, nor twice by one run. A run
//     that stalled may still call it, having read the thread before: no engine
//     can take that back, and what it writes then is refused. That a run came
//     before or after is told by its fence.
//   - No call returns success whose run had a write refused, or with a checkpoint
//     that is not stored.
//   - What a stopped worker writes when it goes on is refused, if its thread was
//     taken over.
//   - Every thread ends, with the state of an undisturbed run.
//
// The short form is part of go test; -short skips it. The long form is run by
// hand:
//
//	CHAOS_FAULTS=2000 CHAOS_THREADS=200 CHAOS_WORKERS=4 go test -run Chaos -v -timeout 60m ./internal/chaos
//
// TestChaosOfActs does all that can be done with a thread at once, by several callers
// over a store that fails: runs under each busy policy, edits, forks from older
// checkpoints, prunes and readers. TestChaosOfRunners begins threads over a store that
// is away from some moment on; runners alone, over one that fails now and then, bring
// each to its end. CHAOS_ACTS and CHAOS_RUNS say how many, for each store:
//
//	CHAOS_ACTS=10000 CHAOS_RUNS=2000 go test -run 'ChaosOf(Acts|Runners)' -v -timeout 60m ./internal/chaos
//
// CHAOS_STORE names stores (memory, postgres, redis, sqlite, file; several with commas),
// CHAOS_SEED the seed of the faults, CHAOS_PAUSE the mean time between two of
// them. A seed repeats the faults, not their effect, which depends on timing.
// CHAOS_MEASURE=1 runs the measurements; see TestMeasureParkedThreads.
package chaos
