// Package core is the step machine: a synchronous, single-threaded state
// machine that decides what a run of a graph does next. It has no context,
// clock, goroutine, lock, random number or I/O, and it doesn't know the type of
// the state.
//
// A shell drives it. The shell's duties, for each [Ready]:
//
//  1. Cancel the contexts of running tasks if Cancel is set.
//  2. Store Write. If that fails, the run is over and the machine is dropped.
//  3. Show what was committed (Commit).
//  4. Call Advance.
//  5. Start the tasks in Start; or, if Done is set, end the run.
//
// Then it waits for a task to end, reports it with Ended, and asks for the next
// Ready:
//
//	for {
//		rd := m.Ready()
//		save(rd.Write)
//		show(rd.Commit)
//		m.Advance()
//		if rd.Done {
//			return m.Outcome()
//		}
//		start(rd.Start)
//		for i, end := range wait() {
//			m.Ended(i, end)
//		}
//	}
//
// The machine decides; what it knows stands in types of its own: the open
// superstep with its tasks, what follows it (successors), how far the run has come
// (course), the end of the log and what is to be written to it (tail), and how
// records speak of tasks (codec).
//
// A superstep has an epoch, the record that planned it. A task is known by the
// epoch and its index in the plan. Plan order (sends in the order sent, then
// nodes in the order declared) decides every merge and every list.
package core
