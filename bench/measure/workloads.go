// Package measure holds what all peers share: the workloads and how they are
// timed. It knows none of them.
package measure

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
)

// How large the workloads are. langgraphjs/main.js has the same numbers.
const (
	LoopSteps  = 1000
	Loops      = 20 // one after the other, without a store
	ChainNodes = 10
	Chains     = 1000
	RunSteps   = 10 // of a run that is stored
	Sends      = 1000
	Fans       = 10
	Threads    = 1000 // that run at once
	FewThreads = 200  // one after the other, in memory
	FewFiles   = 50   // one after the other, on SQLite
	Message    = 500  // bytes; a turn has two
	RecordSize = 200  // bytes that a bare commit inserts
)

// A Workload is a row of the table.
type Workload struct {
	Name  string
	Title string  // in the table
	Units float64 // by which a sample is divided: steps or runs
	Goal  Goal    // what Superstep is to reach; zero means that nothing is said
}

// A Goal is the most that a unit may take.
type Goal struct {
	Ns, Allocs, Stored float64
}

// Workloads are the rows in their order. What each does is in the README.
var Workloads = []Workload{
	{"loop", "1,000 steps with a router each: a step", LoopSteps * Loops, Goal{Ns: 600, Allocs: 3}},
	{"chain", "a chain of ten: a run", Chains, Goal{Ns: 4_000, Allocs: 25}},
	{"memory", "ten steps with a router on a new thread, in memory: a run", FewThreads, Goal{Ns: 20_000, Allocs: 90}},
	{"sqlite", "the same on SQLite: a run", FewFiles, Goal{Ns: 800_000}},
	{"commits", "ten bare commits with the same driver", FewFiles, Goal{}},
	{"sends", "1,000 sends and a join: a run", Fans, Goal{Ns: 1_000_000}},
	{"many", "1,000 new threads of ten steps at once, in memory: a run", Threads, Goal{Ns: 20_000}},
	{"turns-memory", "200 turns of 1 kB in memory: the conversation", 1, Goal{}},
	{"turns-memory-400", "400 turns in memory", 1, Goal{}},
	{"turns-sqlite", "200 turns of 1 kB on SQLite: the conversation", 1, Goal{Ns: 80_000_000, Stored: 300_000}},
	{"turns-sqlite-400", "400 turns on SQLite", 1, Goal{}},
}

// Texts returns the messages of a conversation, of Message bytes each: words
// of letters drawn at random, always the same.
func Texts(turns int) []string {
	texts := make([]string, 2*turns)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range texts {
		var b strings.Builder
		for b.Len() < Message {
			for range 2 + r.IntN(9) {
				b.WriteByte(byte('a' + r.IntN(26)))
			}
			b.WriteByte(' ')
		}
		texts[i] = b.String()[:Message]
	}
	return texts
}

// Times calls do n times, or until it fails.
func Times(n int, do func(i int) error) error {
	for i := range n {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

// AtOnce calls do n times, each on a goroutine, and returns an error if one failed.
func AtOnce(n int, do func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Want returns an error unless got is what a workload has to end with, so that
// no peer is timed for work that it didn't do.
func Want[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}
