package core

import (
	"hash/maphash"
	"math/bits"
)

// guard notices runs that go round without making progress.
type guard struct {
	digest uint64 // changes with the state
	count  int    // tasks noted
	seen   []sighting
	seed   maphash.Seed
}

// sighting is the last run of a node.
type sighting struct {
	digest, payload uint64
	step, count     int
	valid           bool
}

func (g *guard) init(nodes int) {
	g.seed = maphash.MakeSeed()
	if g.seen == nil {
		g.seen = make([]sighting, nodes)
	}
}

// progress notes a change that the state's digest doesn't show.
func (g *guard) progress() { g.digest += 0x9e3779b97f4a7c15 }

func (g *guard) payload(t *Task) uint64 {
	var h uint64
	if t.Raw != nil {
		h = maphash.Bytes(g.seed, t.Raw)
	}
	if t.Overlay != nil {
		h ^= bits.RotateLeft64(maphash.Bytes(g.seed, t.Overlay), 1)
	}
	return h
}

// recurs reports whether the task's node ran in an earlier superstep, within
// the window, and nothing has changed since (or, if strict, at all).
func (g *guard) recurs(t *Task, step, window int, strict bool) bool {
	s := &g.seen[t.Node]
	if !s.valid || s.step >= step || g.count-s.count >= window {
		return false
	}
	return strict || s.digest == g.digest && s.payload == g.payload(t)
}

func (g *guard) note(t *Task, step int) {
	g.count++
	g.seen[t.Node] = sighting{digest: g.digest, payload: g.payload(t), step: step, count: g.count, valid: true}
}
