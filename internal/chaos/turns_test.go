//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// turns says how a worker takes turns on the one thread that all share.
type turns struct {
	Name  string
	Count int
	Queue bool
	Skew  time.Duration // its clock is wrong by
}

const oneThread = "one"

type ledger struct {
	Turns graph.List[string]
	Count int // read, and written a step later: a lost update would show
	Read  int
}

func ledgerGraph(s *store, opts ...graph.Option) (*graph.Graph[ledger], error) {
	b := graph.New[ledger]("ledger")
	b.AddNode("read", func(_ context.Context, l *ledger) error { l.Read = l.Count; return nil })
	b.AddNode("think", func(context.Context, *ledger) error { pace(); return nil })
	b.AddNode("write", func(_ context.Context, l *ledger) error { l.Count = l.Read + 1; return nil })
	b.AddEdge(graph.Start, "read").AddSequence("read", "think", "write")
	return b.Compile(append(opts, graph.WithCheckpointer(s))...)
}

// takeTurns makes a worker's turns.
func takeTurns(ctx context.Context, j *job, s *store) error {
	s.skew = j.Turns.Skew
	busy := graph.BusyReject
	if j.Turns.Queue {
		busy = graph.BusyQueue
	}
	g, err := ledgerGraph(s, graph.LeaseTTL(j.Lease), graph.WhenBusy(busy))
	if err != nil {
		return err
	}
	t := g.Thread(oneThread)
	refused := 0
	for i := range j.Turns.Count {
		for {
			snap, err := t.Invoke(ctx, t.Input(func(l *ledger) error {
				l.Turns.Add(fmt.Sprintf("%s-%d", j.Turns.Name, i))
				return nil
			}))
			if errors.Is(err, graph.ErrThreadBusy) && !j.Turns.Queue {
				refused++
				time.Sleep(3 * time.Millisecond)
				continue
			}
			if err != nil {
				return fmt.Errorf("turn %d: %w", i, err)
			}
			if !snap.Done() {
				return fmt.Errorf("turn %d returned before its end, at step %d", i, snap.Step)
			}
			break
		}
	}
	s.j.note(line{Kind: kDone, Thread: oneThread, Fence: int64(refused)})
	return nil
}

// W1: many processes with clocks of their own, one thread. (Clocks can't be set
// for a process alone, so the times that it gives to its records are shifted. The
// times within the IDs of runs are not, and nobody sleeps here. Leases are timed
// by the server; for stores in files, by the one clock of the machine.)
func TestW1ChaosManyProcessesOneThread(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	for _, name := range []string{"postgres", "redis", "sqlite", "file"} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, name)
			for _, queue := range []bool{true, false} {
				t.Run(map[bool]string{true: "queue", false: "reject"}[queue], func(t *testing.T) { competeForOne(t, l, queue) })
			}
		})
	}
}

func competeForOne(t *testing.T, l *lab, queue bool) {
	const processes = 8
	count := setting(t, "CHAOS_TURNS", 5)
	skews := []time.Duration{0, -10 * time.Second, 10 * time.Second, -time.Hour, time.Hour, 48 * time.Hour, -20 * 365 * 24 * time.Hour, time.Millisecond}
	dir := t.TempDir()
	at, direct := l.at, l.direct
	switch {
	case l.proxy == nil:
		at += map[bool]string{true: ".queue", false: ".reject"}[queue]
		direct = at
	case l.store == "redis":
		at = at[:len(at)-1] + map[bool]string{true: "1", false: "2"}[queue]
		direct = direct[:len(direct)-1] + at[len(at)-1:]
	}
	b, err := openPatiently(t.Context(), l.store, direct)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if l.store == "postgres" {
		if err := b.Delete(t.Context(), oneThread); err != nil {
			t.Fatal(err)
		}
	}
	var workers []*worker
	defer func() {
		for _, w := range workers {
			_ = w.cmd.Process.Kill()
			<-w.ended
		}
	}()
	began := time.Now()
	for i := range processes {
		w, err := startWorker(&job{
			Store: l.store, At: at, Dir: dir, Lease: 10 * time.Second,
			Turns: &turns{Name: fmt.Sprint("p", i), Count: count, Queue: queue, Skew: skews[i]},
		})
		if err != nil {
			t.Fatal(err)
		}
		workers = append(workers, w)
	}
	for i, w := range workers {
		select {
		case <-w.ended:
		case <-time.After(2 * time.Minute):
			t.Fatalf("process %d does not end", i)
		}
		if w.err != nil || strings.Contains(w.stderr.String(), "DATA RACE") {
			t.Errorf("process %d: %v\n%s", i, w.err, w.stderr)
		}
	}
	took := time.Since(began)
	jn := tail{path: (&job{Dir: dir}).journal()}
	lines, err := jn.lines()
	if err != nil {
		t.Fatal(err)
	}
	refused := int64(0)
	acked := map[string]bool{}
	for _, l := range lines {
		switch l.Kind {
		case kDone:
			refused += l.Fence
		case kAcked:
			acked[l.Record] = true
		case kWrong:
			t.Error(l.Text)
		}
	}
	g, err := ledgerGraph(newStore(b, nil))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := g.Thread(oneThread).State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, turn := range snap.State.Turns.Slice() {
		seen[turn]++
	}
	for i := range processes {
		for k := range count {
			if turn := fmt.Sprintf("p%d-%d", i, k); seen[turn] != 1 {
				t.Errorf("turn %s is there %d times", turn, seen[turn])
			}
		}
	}
	if snap.State.Count != processes*count || len(seen) != processes*count || snap.Step != 3*processes*count {
		t.Errorf("%d turns of %d processes counted %d, left %d entries and %d supersteps", count, processes, snap.State.Count, len(seen), snap.Step)
	}
	var head *checkpoint.Record
	runs, back := map[checkpoint.ID]bool{}, 0
	for r, err := range b.Records(t.Context(), checkpoint.Query{Log: checkpoint.Log{Thread: oneThread}, AllBranches: true, Meta: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if head != nil {
			if r.Seq != head.Seq+1 || r.Parent != head.ID || r.Branch != "" {
				t.Errorf("record %d (parent %s) follows record %d (%s)", r.Seq, r.Parent, head.Seq, head.ID)
			}
			if r.ID.Run() != head.ID.Run() && runs[r.ID.Run()] {
				t.Errorf("record %d is of run %s, and others wrote in between", r.Seq, r.ID.Run())
			}
			if r.CreatedAt.Before(head.CreatedAt) {
				back++
			}
		}
		runs[r.ID.Run()] = true
		delete(acked, string(r.ID))
		head = r
	}
	for id := range acked {
		t.Errorf("record %s was acknowledged and is lost", id)
	}
	if back == 0 && processes*count > processes {
		t.Log("the processes took their turns one after the other: times never go back from record to record")
	}
	t.Logf("%s: %d turns of %d processes in %v; %d calls were refused; %d records are older than the one before", l.store, processes*count, processes, took.Round(10*time.Millisecond), refused, back)
}
