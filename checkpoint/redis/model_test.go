package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

var kinds = []error{
	checkpoint.ErrNotFound, checkpoint.ErrConflict, checkpoint.ErrFenced, checkpoint.ErrBusy, checkpoint.ErrInvalid, checkpoint.ErrNoThread,
}

func kindOf(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k) {
			return k.Error()
		}
	}
	return fmt.Sprint(err)
}

// all is what the model and the store are compared by.
type all interface {
	checkpoint.Store
	checkpoint.Lister
	checkpoint.Copier
	checkpoint.Rewriter
	checkpoint.Scheduler
}

// TestTheSameAsInMemory does the same at random to this store and to the one in
// memory, and compares what each says and has.
func TestTheSameAsInMemory(t *testing.T) {
	for round := range 12 {
		seed := uint64(round) + 1
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := openAt(t, newPrefix(t))
			defer s.Close()
			m := checkpoint.NewMemory()
			defer m.Close()
			g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), run: checkpoint.NewRunID(), first: map[place]checkpoint.Fence{}}
			for i := range 150 {
				what, op := g.next(t, m)
				a, errA := op(m)
				b, errB := op(s)
				if kindOf(errA) != kindOf(errB) || !reflect.DeepEqual(a, b) {
					t.Fatalf("%d, %s: memory says %v, %v; the store %v, %v", i, what, a, errA, b, errB)
				}
				if i%5 == 0 {
					x, y := g.state(t, m), g.state(t, s)
					if x != y {
						t.Fatalf("%d, %s: memory has\n%s\nthe store has\n%s", i, what, x, y)
					}
				}
			}
			for d, err := range s.Verify(t.Context(), "") {
				t.Fatal(d, err)
			}
		})
	}
}

type generator struct {
	*rand.Rand
	run checkpoint.ID
	n   uint32

	first map[place]checkpoint.Fence // what was before the first fence, which is each store's own matter
}

type place struct {
	store  all
	thread checkpoint.ThreadID
}

// write counts fences from the first one.
func (g *generator) write(ctx context.Context, s all, w checkpoint.Write) (checkpoint.Written, error) {
	at := place{s, w.Log.Thread}
	if w.Fence != 0 {
		w.Fence += g.first[at]
	}
	out, err := s.Write(ctx, &w)
	if _, known := g.first[at]; err == nil && w.Claim && !known {
		g.first[at] = out.Fence - 1
	}
	if err == nil && out.Fence != 0 {
		out.Fence -= g.first[at]
	}
	return out, err
}

func (g *generator) oneOf(n int) bool { return g.IntN(n) == 0 }

func (g *generator) log() checkpoint.Log {
	return checkpoint.Log{Thread: checkpoint.ThreadID([]string{"a", "b"}[g.IntN(2)]), Namespace: []string{"", "", "n"}[g.IntN(3)]}
}

func (g *generator) result() checkpoint.Result {
	return checkpoint.Result{
		Epoch: []checkpoint.ID{"e", "f"}[g.IntN(2)], Task: g.IntN(3), Kind: checkpoint.KindOnce, Name: []string{"", "x"}[g.IntN(2)],
		Data: fmt.Appendf(nil, `%d`, g.IntN(1000)), Replace: g.oneOf(3),
	}
}

// next makes up something to do, which mostly succeeds, by what the model has.
func (g *generator) next(t *testing.T, m all) (string, func(all) (any, error)) {
	log := g.log()
	have, ctx := g.records(t, m, log), t.Context()
	switch g.IntN(12) {
	case 0:
		if g.oneOf(4) {
			return "delete", func(s all) (any, error) {
				delete(g.first, place{s, log.Thread})
				return nil, s.Delete(ctx, log.Thread)
			}
		}
		return "copy", func(s all) (any, error) {
			err := s.Copy(ctx, "a", "b")
			if errors.Is(err, checkpoint.ErrConflict) || errors.Is(err, checkpoint.ErrNotFound) {
				return "refused", nil // where both hold, each store may say either
			}
			return nil, err
		}
	case 1, 2:
		r := &checkpoint.Rewrite{Log: log}
		if len(have) > 0 {
			r.Head = have[len(have)-1].ID
		}
		rate := 1 + g.IntN(4)
		for _, rec := range have {
			switch {
			case g.oneOf(rate) || rate == 4 && rec.ID != r.Head && rec.Branch == "" && rec.Seq < 4:
				if rate == 1 || rec.ID != r.Head {
					r.Remove = append(r.Remove, rec.ID)
				}
			case g.oneOf(3):
				c := *rec
				c.Graph, c.Due = "replaced", time.Time{}
				r.Replace = append(r.Replace, &c)
			}
		}
		if g.oneOf(10) {
			r.Remove = append(r.Remove, "unknown")
		}
		return fmt.Sprintf("rewrite %+v", r), func(s all) (any, error) {
			err := s.Rewrite(ctx, r)
			at := place{s, r.Log.Thread}
			if _, known := g.first[at]; err == nil && !known {
				if _, f, _ := s.Head(ctx, r.Log); f != checkpoint.Unclaimed {
					g.first[at] = f - 1
				}
			}
			return nil, err
		}
	}
	w := &checkpoint.Write{Log: log, Wake: g.oneOf(8)}
	holder := []string{"x", "y"}[g.IntN(2)]
	switch g.IntN(6) {
	case 0:
		w.Claim, w.Holder = true, holder
		if g.oneOf(2) {
			w.Lease = time.Hour
		}
		if g.oneOf(2) {
			w.Steal = "x"
		}
	case 1, 2:
		w.Fence = checkpoint.Fence(1 + g.IntN(4))
		switch g.IntN(3) {
		case 0:
			w.Release = true
		case 1:
			w.Lease, w.Holder = time.Hour, holder
		}
	}
	for range g.IntN(4) {
		w.Results = append(w.Results, g.result())
	}
	for range g.IntN(2) {
		r := g.result()
		w.Remove = append(w.Remove, r.Key())
	}
	if g.oneOf(4) {
		w.Drop = &checkpoint.Drop{Epoch: "e"}
	}
	if !g.oneOf(4) {
		g.n++
		r := &checkpoint.Record{
			ID: g.run.Checkpoint(g.n), Log: log, Seq: 1, Epoch: g.run.Checkpoint(g.n), Source: checkpoint.SourceLoop,
			CreatedAt: time.Unix(int64(g.IntN(1000)), int64(g.IntN(2))).UTC(), Changes: []checkpoint.Change{{Data: fmt.Appendf(nil, "%d", g.n)}},
		}
		if g.oneOf(2) {
			r.Due = time.Unix(int64(g.IntN(1000)), 5000).UTC() // to the microsecond
		}
		if len(have) > 0 {
			head := have[len(have)-1]
			w.Head = head.ID
			last := have[g.IntN(len(have))] // of any branch
			if g.oneOf(2) {
				last = head
			}
			r.Branch = last.Branch
			for _, o := range have {
				if o.Branch == last.Branch {
					r.Seq = o.Seq + 1
				}
			}
			if g.oneOf(6) {
				r.Branch, r.Seq = checkpoint.Branch(r.ID), last.Seq+1
			}
			if g.oneOf(12) {
				r.ID = last.ID
			}
		}
		if g.oneOf(12) {
			r.Seq++
		}
		w.Record = r
	}
	if w.Record == nil {
		// Results that are dropped by the write that brings them leave nothing:
		// whether that begins a thread is for each store to say.
		w.Drop = nil
	}
	return fmt.Sprintf("write %+v %+v", w, w.Record), func(s all) (any, error) { return g.write(ctx, s, *w) }
}

func (g *generator) records(t *testing.T, s checkpoint.Store, log checkpoint.Log) (out []*checkpoint.Record) {
	for r, err := range s.Records(t.Context(), checkpoint.Query{Log: log, AllBranches: true}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// state describes all that a store has.
func (g *generator) state(t *testing.T, s all) string {
	ctx := context.Background()
	var out []byte
	add := func(format string, args ...any) { out = fmt.Appendf(out, format+"\n", args...) }
	for info, err := range s.Threads(ctx, checkpoint.ThreadFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		add("thread %s: head %s, %v, %d records, held by %q", info.Thread, info.Head.ID, info.CreatedAt.UnixNano(), info.Records, info.Lease.Holder)
	}
	var due []string
	for w, err := range s.Due(ctx, time.Time{}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		at := "woken"
		if w.Due.Before(time.Unix(2000, 0)) {
			at = fmt.Sprint(w.Due.UnixNano())
		}
		due = append(due, fmt.Sprint(w.Thread, " ", at))
	}
	slices.Sort(due)
	add("due %q", due)
	for _, thread := range []checkpoint.ThreadID{"a", "b"} {
		for l, err := range s.Logs(ctx, thread) {
			add("log %v: head %s, %d records, %v", l.Log, l.Head, l.Records, err)
		}
		for _, ns := range []string{"", "n"} {
			log := checkpoint.Log{Thread: thread, Namespace: ns}
			head, _, err := s.Head(ctx, log)
			add("%v head %v %s", log, head != nil, kindOf(err))
			branches := map[checkpoint.Branch]bool{"": true}
			for _, r := range g.records(t, s, log) {
				add("%v %s %d %s", r.ID, r.Branch, r.Seq, r.Changes[0].Data)
				branches[r.Branch] = true
			}
			var sorted []string
			for b := range branches {
				sorted = append(sorted, string(b))
			}
			slices.Sort(sorted)
			for _, b := range sorted {
				for _, q := range []checkpoint.Query{{}, {Desc: true, Limit: 3}, {From: 2, To: 5}, {To: 3, Desc: true}} {
					q.Log, q.Branch = log, checkpoint.Branch(b)
					for r, err := range s.Records(ctx, q) {
						if err != nil {
							t.Fatal(err)
						}
						add("%s ", r.ID)
					}
				}
			}
			for _, e := range []checkpoint.ID{"e", "f"} {
				rs, err := s.Results(ctx, log, "", e)
				add("%v results of %s: %+v %v", log, e, rs, err)
			}
		}
	}
	return string(out)
}
