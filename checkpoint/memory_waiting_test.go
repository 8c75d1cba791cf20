package checkpoint

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A look for due work finds what is due at a cost that doesn't grow with the threads
// that are parked.
func TestALookForDueWorkCostsWhatIsDue(t *testing.T) { synctest.Test(t, lookForDueWork) }

func lookForDueWork(t *testing.T) {
	m, rng := NewMemory(), rand.New(rand.NewPCG(1, 2))
	const threads = 1000
	began, ids := time.Now(), make([]ID, threads)
	write := func(w *Write) {
		if _, err := m.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	seqs := make([]int64, threads)
	for range 5 * threads {
		i := rng.IntN(threads)
		log := Log{Thread: ThreadID(fmt.Sprint(i))}
		switch rng.IntN(6) {
		case 0:
			if err := m.Delete(t.Context(), log.Thread); err != nil {
				t.Fatal(err)
			}
			ids[i], seqs[i] = "", 0
		case 1:
			write(&Write{Log: log, Wake: true})
		case 2:
			write(&Write{Log: log, Claim: true, Steal: m.heldBy(log.Thread), Holder: "run", Lease: []time.Duration{time.Millisecond, time.Hour}[rng.IntN(2)]})
		case 3:
			write(&Write{Log: log, Claim: true, Steal: m.heldBy(log.Thread)})
		default:
			r := &Record{ID: NewRunID(), Log: log, Seq: seqs[i] + 1}
			if rng.IntN(3) > 0 {
				r.Due = began.Add(time.Duration(rng.IntN(200)-10) * time.Minute)
			}
			write(&Write{Log: log, Record: r, Head: ids[i]})
			ids[i], seqs[i] = r.ID, r.Seq
		}
	}
	time.Sleep(time.Second) // the short leases have run out
	for _, before := range []time.Time{time.Now(), began.Add(time.Hour), {}} {
		var want []Waiting // as one finds it who looks at each thread
		for i := range m.shards {
			for id, th := range m.shards[i].threads {
				if at := th.due(); !at.IsZero() && (before.IsZero() || !at.After(before)) && !th.lease.Live(time.Now()) {
					want = append(want, Waiting{Thread: id, Due: at, Lease: th.lease})
				}
			}
		}
		slices.SortFunc(want, func(a, b Waiting) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Thread, b.Thread)) })
		var got []Waiting
		for w, err := range m.Due(t.Context(), before, 0) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, w)
		}
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("due before %v: %d threads, want %d", before, len(got), len(want))
		}
	}
	looked, due, leased := 0, 0, 0
	for i := range m.shards {
		s := &m.shards[i]
		looked += len(s.waiting.due.until(began, 0, nil))
		for id, th := range s.threads {
			if at := th.due(); !at.IsZero() && !at.After(began) {
				due++
			}
			if (th.lease.Holder != "") != (s.waiting.leased[th] == id) {
				t.Errorf("thread %s with the lease %+v is not known by it", id, th.lease)
			}
			if th.lease.Holder != "" {
				leased++
			}
		}
		leased -= len(s.waiting.leased)
	}
	if looked != due || leased != 0 {
		t.Errorf("%d threads were looked at for %d that are due; %d leases", looked, due, leased)
	}
}

// heldBy returns who has the thread's lease.
func (m *Memory) heldBy(id ThreadID) string {
	if t := m.find(id); t != nil {
		return t.lease.Holder
	}
	return ""
}

func BenchmarkDueAmongParkedThreads(b *testing.B) {
	m := NewMemory()
	for i := range 100_000 {
		log := Log{Thread: ThreadID(fmt.Sprint(i))}
		if _, err := m.Write(b.Context(), &Write{Log: log, Record: &Record{ID: NewRunID(), Log: log, Seq: 1, Due: time.Now().Add(time.Hour)}}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		for w, err := range m.Due(b.Context(), time.Now(), 0) {
			b.Fatal(w, err)
		}
	}
}
