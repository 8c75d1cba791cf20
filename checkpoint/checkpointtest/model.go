package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Model does the same random writes, rewrites, copies and deletions to a store
// and to [checkpoint.Memory], and wants both to say the same of it. It needs a
// [checkpoint.Lister] that is a [checkpoint.Rewriter] and a [checkpoint.Copier]. With
// Options.Another it writes through two stores in turn; with Options.Reopen it
// closes and opens them now and then.
func Model(t *testing.T, open Opener, o Options) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			m := &model{
				t: t, rnd: rand.New(rand.NewPCG(seed, 1)), want: checkpoint.NewMemory(), o: o, ahead: map[checkpoint.ThreadID]checkpoint.Fence{},
			}
			m.stores = []checkpoint.Store{open(t)}
			closeLater(t, m.stores[0])
			m.again()
			for m.step = range 200 {
				m.act()
				if m.step%10 == 9 {
					m.compare()
				}
				if o.Reopen != nil && m.rnd.IntN(60) == 0 {
					for _, s := range m.stores[1:] {
						if err := s.Close(); err != nil {
							t.Fatal(err)
						}
					}
					m.stores = []checkpoint.Store{o.Reopen(t, m.stores[0])}
					closeLater(t, m.stores[0])
					m.again()
				}
			}
			m.compare()
		})
	}
}

type model struct {
	t      *testing.T
	o      Options
	rnd    *rand.Rand
	want   checkpoint.Store
	stores []checkpoint.Store
	step   int
	run    checkpoint.ID
	n      uint32
	gone   []checkpoint.ID
	did    []string

	// By how much the store's fences of a thread are ahead of those in memory:
	// where they begin is each store's own matter.
	ahead map[checkpoint.ThreadID]checkpoint.Fence
}

// again opens the second store.
func (m *model) again() {
	if m.o.Another != nil {
		m.stores = append(m.stores, m.o.Another(m.t, m.stores[0]))
		closeLater(m.t, m.stores[1])
	}
}

func (m *model) fatal(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("step %d: %s\nlast steps:\n%s", m.step, fmt.Sprintf(format, args...), strings.Join(m.did[max(0, len(m.did)-12):], "\n"))
}

func (m *model) store() checkpoint.Store { return m.stores[m.rnd.IntN(len(m.stores))] }

func (m *model) thread() checkpoint.ThreadID {
	return checkpoint.ThreadID([]string{"a", "b", "c"}[m.rnd.IntN(3)])
}

func (m *model) log() checkpoint.Log {
	return checkpoint.Log{Thread: m.thread(), Namespace: []string{"", "", "n", "m"}[m.rnd.IntN(4)]}
}

func (m *model) records(log checkpoint.Log) []*checkpoint.Record {
	return mustCollect(m.t, m.want, checkpoint.Query{Log: log, AllBranches: true})
}

func (m *model) chance(n int) bool { return m.rnd.IntN(n) == 0 }

// both does the same with both stores and wants the same kind of error.
func (m *model) both(what string, f func(s checkpoint.Store) error) {
	m.t.Helper()
	got, want := f(m.store()), f(m.want)
	m.did = append(m.did, fmt.Sprintf("%d: %s: %v", m.step, what, want))
	for _, kind := range []error{
		checkpoint.ErrNotFound, checkpoint.ErrConflict, checkpoint.ErrFenced, checkpoint.ErrBusy, checkpoint.ErrInvalid,
	} {
		if errors.Is(got, kind) != errors.Is(want, kind) {
			m.fatal("%s: got error %v, want %v", what, got, want)
		}
	}
	if (got == nil) != (want == nil) {
		m.fatal("%s: got error %v, want %v", what, got, want)
	}
}

func (m *model) act() {
	ctx := m.t.Context()
	switch n := m.rnd.IntN(40); {
	case n == 0:
		id := m.thread()
		m.both(fmt.Sprint("delete ", id), func(s checkpoint.Store) error { return s.Delete(ctx, id) })
		delete(m.ahead, id)
	case n == 1:
		from, to := m.thread(), m.thread()
		m.both(fmt.Sprint("copy ", from, to), func(s checkpoint.Store) error { return s.(checkpoint.Copier).Copy(ctx, from, to) })
	case n < 8:
		r := m.rewrite()
		m.both(fmt.Sprintf("rewrite %v remove %v replace %d", r.Log, r.Remove, len(r.Replace)), func(s checkpoint.Store) error {
			return s.(checkpoint.Rewriter).Rewrite(ctx, r)
		})
		_, got, _ := m.store().Head(ctx, r.Log)
		_, want, _ := m.want.Head(ctx, r.Log)
		ahead, known := m.ahead[r.Log.Thread]
		if !known && want != checkpoint.Unclaimed {
			ahead = got - want
			m.ahead[r.Log.Thread] = ahead
		}
		if got -= ahead; got != want {
			m.fatal("fence %d after a rewrite, want %d", got, want)
		}
	default:
		w := m.write()
		var out []checkpoint.Written
		m.both(fmt.Sprintf("write %+v", *w), func(s checkpoint.Store) error {
			c := *w
			if s != m.want && w.Fence > 0 {
				c.Fence += m.ahead[w.Log.Thread]
			}
			o, err := s.Write(ctx, &c)
			if err == nil {
				out = append(out, o)
			}
			return err
		})
		if len(out) == 2 {
			ahead, known := m.ahead[w.Log.Thread]
			if !known && w.Claim {
				ahead = out[0].Fence - out[1].Fence
				m.ahead[w.Log.Thread] = ahead
			}
			out[0].Fence -= ahead
		}
		if len(out) == 2 && out[0] != out[1] {
			m.fatal("wrote %+v, want %+v", out[0], out[1])
		}
		if w.Lease == time.Millisecond {
			time.Sleep(3 * time.Millisecond)
		}
	}
}

func (m *model) write() *checkpoint.Write {
	w := &checkpoint.Write{Log: m.log()}
	all := m.records(w.Log)
	epoch := checkpoint.ID([]string{"e", "f"}[m.rnd.IntN(2)])
	if !m.chance(4) {
		w.Record = m.record(w.Log, all)
		if n := len(all); n > 0 {
			w.Head = all[n-1].ID
			if m.chance(12) {
				w.Head = all[m.rnd.IntN(n)].ID
			}
		}
		if m.chance(3) {
			w.Drop = &checkpoint.Drop{Epoch: epoch}
		}
	}
	for range m.rnd.IntN(3) {
		if m.chance(2) {
			r := result(checkpoint.ID([]string{"e", "f"}[m.rnd.IntN(2)]), m.rnd.IntN(2), checkpoint.KindEvent, fmt.Sprint(m.step))
			r.Replace = m.chance(3)
			w.Results = append(w.Results, r)
		}
	}
	if m.chance(6) {
		r := result(epoch, m.rnd.IntN(2), checkpoint.KindEvent, "")
		w.Remove = append(w.Remove, r.Key())
	}
	holder := []string{"x", "y"}[m.rnd.IntN(2)]
	fence := func() checkpoint.Fence {
		o, err := m.want.Write(m.t.Context(), &checkpoint.Write{Log: w.Log}) // tells the fence
		if err != nil {
			m.fatal("%v", err)
		}
		return o.Fence
	}
	switch m.rnd.IntN(16) {
	case 0:
		w.Claim, w.Holder, w.Lease = true, holder, long
	case 1:
		w.Claim, w.Holder, w.Lease = true, holder, time.Millisecond
	case 2:
		w.Claim, w.Steal = true, holder
		w.Fence = (fence() - checkpoint.Fence(m.rnd.IntN(2))).Read()
	case 3, 4, 5:
		if w.Fence = fence(); w.Fence != 0 {
			w.Release = true
		}
	case 6:
		if w.Fence = fence(); w.Fence != 0 {
			w.Lease, w.Holder = long, holder
		}
	case 7, 8:
		w.Fence = fence()
	case 9:
		w.Fence = 99
	}
	w.Wake = m.chance(15)
	return w
}

// record returns a record that fits mostly.
func (m *model) record(log checkpoint.Log, all []*checkpoint.Record) *checkpoint.Record {
	if m.run == "" || m.chance(15) {
		m.run, m.n = checkpoint.NewRunID(), uint32(m.rnd.IntN(3))
	}
	m.n++
	id := m.run.Checkpoint(m.n)
	switch {
	case m.chance(25):
		id = checkpoint.ID(fmt.Sprint("odd", m.step))
	case m.chance(12) && len(m.gone) > 0:
		id = m.gone[m.rnd.IntN(len(m.gone))]
	}
	r := &checkpoint.Record{
		ID: id, Log: log, Seq: 1, Epoch: id, Step: m.step, Source: checkpoint.SourceLoop, Graph: []string{"g", "g", "g", "h"}[m.rnd.IntN(4)],
		CreatedAt: epochStart.Add(time.Duration(m.step) * 20 * time.Second),
		Changes:   []checkpoint.Change{{Node: "n", Data: text(m.rnd.IntN(300))}},
	}
	if m.chance(8) {
		r.Due = epochStart.Add(time.Duration(m.rnd.IntN(100)) * time.Hour)
	}
	if m.chance(10) {
		r.Graph, r.Changes = "", nil
		r.Sealed = &checkpoint.Sealed{Meta: []byte{1, 2}, Data: []byte("x")}
	}
	if len(all) == 0 {
		return r
	}
	from := all[len(all)-1]
	r.Parent, r.Branch, r.Seq = from.ID, from.Branch, from.Seq+1
	switch {
	case m.chance(8):
		from = all[m.rnd.IntN(len(all))]
		r.Parent, r.Branch, r.Seq = from.ID, checkpoint.Branch(id), from.Seq+1
	case m.chance(8):
		b := all[m.rnd.IntN(len(all))].Branch
		for _, o := range all {
			if o.Branch == b {
				r.Parent, r.Branch, r.Seq = o.ID, b, o.Seq+1
			}
		}
	case m.chance(20):
		r.Branch, r.Seq, r.Parent = "", 1, "" // fits if the first branch is gone
	}
	return r
}

// rewrite returns a rewrite that fits mostly.
func (m *model) rewrite() *checkpoint.Rewrite {
	r := &checkpoint.Rewrite{Log: m.log()}
	all := m.records(r.Log)
	if len(all) == 0 {
		return r
	}
	r.Head = all[len(all)-1].ID
	if m.chance(15) {
		r.Head = all[0].ID
	}
	gone := map[checkpoint.ID]bool{}
	first, last := map[checkpoint.Branch]checkpoint.ID{}, map[checkpoint.Branch]checkpoint.ID{}
	for _, rec := range all {
		if first[rec.Branch] == "" && rec.Branch != "" {
			first[rec.Branch] = rec.ID
		}
		last[rec.Branch] = rec.ID
	}
	head := all[len(all)-1].Branch
	whole := all[m.rnd.IntN(len(all))].Branch
	switch m.rnd.IntN(8) {
	case 0, 1, 2: // the oldest
		for _, rec := range all[:m.rnd.IntN(len(all))] {
			gone[rec.ID] = rec.ID != first[rec.Branch] && rec.ID != last[rec.Branch]
		}
	case 3, 4: // any
		for _, rec := range all {
			gone[rec.ID] = m.chance(3) && rec.ID != first[rec.Branch] && rec.ID != last[rec.Branch]
		}
	case 5: // a branch
		for _, rec := range all {
			gone[rec.ID] = rec.Branch == whole && whole != head
		}
	case 6: // all
		for _, rec := range all {
			gone[rec.ID] = m.chance(20) || m.step%2 == 0
		}
	case 7: // any, which may not fit
		for _, rec := range all {
			gone[rec.ID] = m.chance(4)
		}
	}
	for _, rec := range all {
		if gone[rec.ID] {
			r.Remove = append(r.Remove, rec.ID)
			m.gone = append(m.gone, rec.ID)
			continue
		}
		if m.chance(6) {
			c := *rec
			c.Parent, c.Changes = "", nil
			c.Snapshot = &checkpoint.Snapshot{Values: text(m.rnd.IntN(500))}
			c.Sealed = nil
			if m.chance(8) {
				c.Seq++
			}
			if m.chance(4) {
				c.Due = epochStart
			}
			r.Replace = append(r.Replace, &c)
		}
	}
	if m.chance(20) {
		r.Remove = append(r.Remove, m.run.Checkpoint(9999))
	}
	return r
}

// compare wants the stores to say the same.
func (m *model) compare() {
	t, ctx := m.t, m.t.Context()
	t.Helper()
	s := m.store()
	same := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			m.fatal("%s:\ngot  %+v\nwant %+v", what, got, want)
		}
	}
	for _, thread := range []checkpoint.ThreadID{"a", "b", "c"} {
		for _, ns := range []string{"", "n", "m"} {
			log := checkpoint.Log{Thread: thread, Namespace: ns}
			all := m.records(log)
			got, err := collect(ctx, s, checkpoint.Query{Log: log, AllBranches: true})
			if err != nil {
				m.fatal("records of %v: %v", log, err)
			}
			wantRecords(t, got, all)
			branches := map[checkpoint.Branch]int64{"": 0}
			for _, r := range all {
				branches[r.Branch] = r.Seq
				g, err := s.Get(ctx, log, r.ID)
				if err != nil {
					m.fatal("record %s of %v: %v", r.ID, log, err)
				}
				wantRecord(t, g, r)
			}
			for _, id := range m.gone {
				_, err := s.Get(ctx, log, id)
				_, want := m.want.Get(ctx, log, id)
				if errors.Is(err, checkpoint.ErrNotFound) != errors.Is(want, checkpoint.ErrNotFound) {
					m.fatal("record %s of %v: got %v, want %v", id, log, err, want)
				}
			}
			for b, n := range branches {
				for range 3 {
					q := checkpoint.Query{Log: log, Branch: b, From: m.rnd.Int64N(n + 2), Desc: m.chance(2), Meta: m.chance(2), Limit: m.rnd.IntN(4)}
					if m.chance(2) {
						q.To = q.From + m.rnd.Int64N(n+2)
					}
					got, err := collect(ctx, s, q)
					if err != nil {
						m.fatal("%+v: %v", q, err)
					}
					want := mustCollect(t, m.want, q)
					if len(got) != len(want) {
						m.fatal("%+v: got %d records, want %d", q, len(got), len(want))
					}
					wantRecords(t, got, want)
				}
			}
			for _, e := range []checkpoint.ID{"e", "f"} {
				wantResults(t, mustResults(t, s, log, "", e), mustResults(t, m.want, log, "", e))
			}
		}
		same("logs", m.logs(ctx, s, thread), m.logs(ctx, m.want, thread))
	}
	same("threads", m.threads(ctx, s), m.threads(ctx, m.want))
	same("due", m.waiting(s, true), m.waiting(m.want, true))
	same("abandoned", m.waiting(s, false), m.waiting(m.want, false))
	if v, ok := s.(checkpoint.Verifier); ok {
		for c, err := range v.Verify(ctx, "") {
			m.fatal("damage: %v, %v", c, err)
		}
	}
}

func (m *model) logs(ctx context.Context, s checkpoint.Store, thread checkpoint.ThreadID) (out []checkpoint.LogInfo) {
	for info, err := range s.(checkpoint.Lister).Logs(ctx, thread) {
		if err != nil {
			m.fatal("%v", err)
		}
		if info.Bytes < 0 {
			m.fatal("%+v", info)
		}
		info.Bytes = 0
		out = append(out, info)
	}
	return out
}

func (m *model) threads(ctx context.Context, s checkpoint.Store) (out []string) {
	for info, err := range s.(checkpoint.Lister).Threads(ctx, checkpoint.ThreadFilter{}) {
		if err != nil {
			m.fatal("%v", err)
		}
		out = append(out, fmt.Sprint(info.Thread, info.Head.ID, info.Head.CreatedAt, info.CreatedAt, info.Records, info.Lease.Holder, info.Lease.TTL))
	}
	return out
}

func (m *model) waiting(s checkpoint.Store, due bool) (out []string) {
	sch, ok := s.(checkpoint.Scheduler)
	if !ok {
		return nil
	}
	list := sch.Abandoned(m.t.Context(), 0)
	if due {
		list = sch.Due(m.t.Context(), time.Time{}, 0)
	}
	for w, err := range list {
		if err != nil {
			m.fatal("%v", err)
		}
		d := w.Due.Format(time.RFC3339)
		if w.Due.After(epochStart.Add(1000 * time.Hour)) {
			d = "woken"
		}
		if due {
			w.Lease = checkpoint.Lease{}
		}
		out = append(out, fmt.Sprint(w.Thread, d, w.Lease.Holder, w.Lease.TTL))
	}
	slices.Sort(out)
	return out
}
