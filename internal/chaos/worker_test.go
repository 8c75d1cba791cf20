//go:build unix

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// job says what a worker does.
type job struct {
	Store string
	At    string // where the store is
	Dir   string // of journal and slots
	Lease time.Duration
	Calls int // goroutines that make calls
	Turns *turns
}

func (j *job) journal() string { return filepath.Join(j.Dir, "journal") }
func (j *job) slots() string   { return filepath.Join(j.Dir, "slots") }

// threadOf names the thread of a slot: when one has ended, the next takes its
// place.
func threadOf(slot, gen int) string { return fmt.Sprintf("t-%d-%d", slot, gen) }

func inputOf(slot, gen int) int { return (slot + gen) % inputs }

// work is what a worker does, until its input ends.
func work(j *job) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	jn, err := openJournal(j.journal())
	if err != nil {
		return err
	}
	b, err := openPatiently(ctx, j.Store, j.At)
	if err != nil {
		return err
	}
	s := newStore(b, jn)
	if j.Turns != nil {
		return errors.Join(takeTurns(ctx, j, s), s.Close())
	}
	g, err := compile(s, j.Lease)
	if err != nil {
		return err
	}
	runner, err := graph.NewRunner(s, graph.RunnerOptions{
		Poll: 150 * time.Millisecond, Concurrency: 8,
		Report: func(r graph.RunnerReport) { failed(jn, r.Thread, r.Err) },
	}, g)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = runner.Run(ctx) })
	jn.note(line{Kind: kBegin})
	ended := make([]sync.Map, j.Calls)
	for i := range j.Calls {
		wg.Go(func() {
			for ctx.Err() == nil {
				step(ctx, j, s, g, &ended[i])
				time.Sleep(time.Duration(5+rand.IntN(15)) * time.Millisecond)
			}
		})
	}
	wg.Wait()
	return s.Close()
}

// openPatiently opens a store whose server may be away.
func openPatiently(ctx context.Context, name, at string) (backend, error) {
	for end := time.Now().Add(30 * time.Second); ; {
		b, err := openStore(ctx, name, at)
		if err == nil || ctx.Err() != nil {
			return b, err
		}
		if _, ok := expected(err); !ok || time.Now().After(end) {
			return nil, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// failed notes an error of a run: one that must not be is wrong.
func failed(jn *journal, thread string, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	class, ok := expected(err)
	switch {
	case ok:
	case errors.Is(err, graph.ErrThreadBusy):
		class = "busy"
	case errors.Is(err, graph.ErrNothingToResume):
		class = "nothing to resume"
	default:
		if e, is := errors.AsType[*graph.AnswerError](err); is {
			class = "answer: " + e.Reason
			break
		}
		jn.note(line{Kind: kWrong, Thread: thread, Text: "unexpected error: " + err.Error()})
		return
	}
	jn.note(line{Kind: kFailed, Thread: thread, What: class})
}

// step looks at a thread and does what nobody else has to do: it starts one that
// is new, and continues one whose run has failed. What waits for the clock or for
// an event is the runners', questions are the test's.
func step(ctx context.Context, j *job, s *store, g *graph.Graph[state], ended *sync.Map) {
	var gens []int
	data, err := os.ReadFile(j.slots())
	if err == nil {
		err = json.Unmarshal(data, &gens)
	}
	if err != nil || len(gens) == 0 {
		return
	}
	slot := rand.IntN(len(gens))
	thread := threadOf(slot, gens[slot])
	if _, known := ended.Load(thread); known {
		return
	}
	snap, err := g.Thread(thread).State(ctx)
	c := &call{}
	callCtx, cancel := context.WithTimeout(context.WithValue(ctx, callKey{}, c), 20*time.Second)
	defer cancel()
	busy := graph.WhenBusy(graph.BusyReject)
	switch rand.IntN(20) {
	case 0, 1:
		busy = graph.WhenBusy(graph.BusyQueue)
		var stop context.CancelFunc
		callCtx, stop = context.WithTimeout(callCtx, 3*time.Second)
		defer stop()
	case 2:
		busy = graph.WhenBusy(graph.BusyInterrupt)
	}
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		snap, err = g.Thread(thread).Invoke(callCtx, g.Input(input(inputOf(slot, gens[slot]))), busy)
	case err != nil:
		failed(s.j, thread, err)
		return
	case snap.Done():
		state, err := json.Marshal(snap.State)
		if err != nil {
			panic(err)
		}
		ended.Store(thread, nil)
		s.j.note(line{Kind: kDone, Thread: thread, Record: snap.Checkpoint, Text: string(state)})
		return
	case len(snap.Interrupts) > 0, len(snap.Waits) > 0:
		return
	default:
		snap, err = g.Thread(thread).Invoke(callCtx, g.Continue(), busy)
	}
	returned(s, thread, c, snap, err)
}

// returned notes how a call ended.
func returned(s *store, thread string, c *call, snap *graph.Snapshot[state], err error) {
	if err != nil {
		failed(s.j, thread, err)
		return
	}
	if c.refused.Load() {
		s.j.note(line{Kind: kWrong, Thread: thread, Text: "a call has returned success though its run was refused a write"})
	}
	s.j.note(line{Kind: kSuccess, Thread: thread, Record: snap.Checkpoint})
}
