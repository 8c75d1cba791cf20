package local

import (
	"sync"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
)

// findings are what was noticed in the tasks of a run, those of its subgraphs included.
type findings struct {
	mu      sync.Mutex
	refused []refusal      // of answers, by the nodes that asked
	after   []writtenState // states of tasks that have ended, if they are checked
}

// refusal is an answer that a node could not decode.
type refusal struct {
	question string // its ID
	err      error
}

// writtenState is the state of a task as it was when its node returned.
type writtenState struct {
	prog  *Program
	node  string // with those above it
	state any
	was   map[string]uint64 // hashes of its fields
}

// keep notes what a node has written.
func (f *findings) keep(prog *Program, node string, state any) error {
	was, err := prog.Check(state)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = append(f.after, writtenState{prog, node, state, was})
	return nil
}

// lateWrites returns which nodes wrote to their state after they had returned.
func (f *findings) lateWrites() (errs []error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.after {
		fields, err := w.prog.differing(w.state, w.was)
		if err != nil {
			errs = append(errs, err)
		}
		for _, field := range fields {
			errs = append(errs, &MutationError{Node: w.node, Field: field, Kind: "late"})
		}
	}
	f.after = nil
	return errs
}

// refuse notes that a node could not decode the answer to a question.
func (f *findings) refuse(question string, err error) {
	f.mu.Lock()
	f.refused = append(f.refused, refusal{question, err})
	f.mu.Unlock()
}

// refusals returns why answers were refused to questions that are still open.
func (f *findings) refusals(open []checkpoint.Question) (errs []error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range open {
		for i := len(f.refused) - 1; i >= 0; i-- {
			if f.refused[i].question == q.ID {
				errs = append(errs, f.refused[i].err)
				break
			}
		}
	}
	return errs
}

// claims says which tasks use which subgraphs that keep their state.
type claims struct {
	mu sync.Mutex
	of map[childClaim]int
}

type childClaim struct {
	ns    string
	epoch checkpoint.ID
	step  int
}

// claim notes that a task of the open superstep uses a subgraph.
func (c *claims) claim(m *core.Machine, ns string, task int) (other int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := childClaim{ns, m.Epoch(), m.Step()}
	if other, taken := c.of[key]; taken && other != task {
		return other, false
	}
	if c.of == nil {
		c.of = map[childClaim]int{}
	}
	c.of[key] = task
	return task, true
}
