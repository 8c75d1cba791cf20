package local

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/process"
)

// DefaultLease is for how long a run holds its thread without giving a sign of
// life.
const DefaultLease = 15 * time.Second

// BusyPolicy says what a run does when another one holds the thread.
type BusyPolicy uint8

// The policies.
const (
	Reject    BusyPolicy = iota // fail
	Queue                       // wait until it has ended
	Interrupt                   // stop it and go on from what it has recorded
	Rollback                    // stop it and go on as if it had not been
)

// lock returns what the policy asks of a [checkpoint.Locker].
func (p BusyPolicy) lock() checkpoint.LockMode {
	switch p {
	case Queue:
		return checkpoint.WaitLock
	case Interrupt, Rollback:
		return checkpoint.EvictLock
	}
	return checkpoint.TryLock
}

// lease is a run's hold on its thread: it is renewed while the run goes on, so
// that others know that the run's process lives.
type lease struct {
	ttl    time.Duration // 0: none is held
	holder string
	lost   func(error) // is called when another run has the thread
	shared bool        // by the sessions of one run

	// closing makes the release a claim as well, by which the run's other sessions have
	// the thread no more: else one that is still at work would renew the lease.
	closing bool

	mu    sync.Mutex // held while the lease is renewed or released
	held  bool
	timer *time.Timer
}

// living are the holders of the leases that runs of this process hold. What a
// lease of this process says is checked against it: a run whose last write
// failed has ended all the same.
var living sync.Map

// holderOf names a run and its process, so that those who find the lease can tell
// whether the run lives.
func holderOf(run checkpoint.ID) string { return string(run) + " " + process.Self() }

// runOf returns the run that a holder names.
func runOf(holder string) checkpoint.ID {
	run, _, _ := strings.Cut(holder, " ")
	if id := checkpoint.ID(run); id.Valid() {
		return id
	}
	return ""
}

// dead reports whether the run that holder names has certainly ended.
func dead(holder string) bool {
	_, where, ok := strings.Cut(holder, " ")
	if !ok {
		return false
	}
	if where == process.Self() {
		_, lives := living.Load(holder)
		return !lives
	}
	return process.Gone(where)
}

// begin notes that the lease was granted, and sees to it that it is renewed.
func (l *lease) begin(s *saver) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
	living.Store(l.holder, nil)
	l.timer = time.AfterFunc(l.ttl/3, func() { l.renew(s) })
}

// renew is called by the timer.
func (l *lease) renew(s *saver) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(s.timeout, l.ttl))
	defer cancel()
	s.mu.Lock()
	fence := s.fence
	s.mu.Unlock()
	_, err := s.store.Write(ctx, &checkpoint.Write{Log: checkpoint.Log{Thread: s.thread}, Fence: fence, Lease: l.ttl, Holder: l.holder})
	if errors.Is(err, checkpoint.ErrFenced) {
		l.end()
		l.lost(&busyError{s.thread, err})
		return
	}
	// After any other failure the next attempt may do better; until the lease
	// has run out nobody minds, and then somebody may take over.
	l.timer.Reset(l.ttl / 3)
}

// end stops renewing. It is called with l.mu held.
func (l *lease) end() {
	l.held = false
	l.timer.Stop()
	living.Delete(l.holder)
}

// release gives the thread up, if the lease was not given up with the run's last
// write, and makes it due if wakes says so. It fails if another run has taken the
// thread; any other failure is no matter.
func (s *saver) release(ctx context.Context, wakes func(context.Context) bool) error {
	defer s.slow.stop()
	l := &s.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	s.mu.Lock()
	fence, claimed := s.fence, s.claimed
	s.mu.Unlock()
	held := l.held
	if !held && (!claimed || l.ttl > 0) {
		return nil
	}
	if held {
		l.end()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	wake := wakes(ctx)
	if !held && !wake && !l.closing {
		return nil
	}
	// If it fails the lease runs out by itself, and runs that can see that
	// this one has ended don't wait for it.
	_, err := s.store.Write(ctx, &checkpoint.Write{Log: checkpoint.Log{Thread: s.thread}, Fence: fence, Claim: l.closing, Release: held, Holder: l.holder, Wake: wake})
	if errors.Is(err, checkpoint.ErrFenced) {
		return &busyError{s.thread, err}
	}
	return nil
}

// takeOver makes a claim that met somebody's lease steal it, if that run can be
// seen to have ended. It reports whether to try again.
func takeOver(w *checkpoint.Write, err error) bool {
	busy, ok := errors.AsType[*checkpoint.BusyError](err)
	if !ok || busy.Lease.Holder == w.Steal {
		return false
	}
	was := w.Steal
	if w.Steal = ""; dead(busy.Lease.Holder) {
		w.Steal = busy.Lease.Holder
	}
	return w.Steal != was
}

// acquire claims the thread before anything is read, as the policy says. It
// returns the holder that it took the thread from, and so has stopped.
func (s *saver) acquire(ctx context.Context, policy BusyPolicy) (stolen string, err error) {
	steal := ""
	for wait := firstWait; ; wait = min(wait*2, lastWait) {
		w := &checkpoint.Write{Log: checkpoint.Log{Thread: s.thread}, Steal: steal}
		err := s.write(ctx, w)
		var busy *checkpoint.BusyError
		if err == nil {
			if w.Steal != steal { // it has ended meanwhile
				steal = ""
			}
			return steal, nil
		}
		if !errors.As(err, &busy) || policy == Reject {
			return "", err
		}
		if policy != Queue {
			steal = busy.Lease.Holder
			continue
		}
		if err := pause(ctx, wait, err); err != nil {
			return "", err
		}
	}
}

// Runs of other processes are not in our line: look again and again, each at its
// own times.
const firstWait, lastWait = 5 * time.Millisecond, 500 * time.Millisecond

// pause waits before the next look at a thread that is busy, and says why.
func pause(ctx context.Context, wait time.Duration, busy error) error {
	select {
	case <-time.After(wait/2 + rand.N(wait)):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the thread: %w: %w", ctx.Err(), busy)
	}
}

// hold gets the thread for a run, as the options say, and returns the record at
// which to begin; at, unless what another run did is rolled back.
func (s *Session) hold(ctx context.Context, at checkpoint.ID) (checkpoint.ID, error) {
	l := &s.saver.lease
	l.holder, l.lost = holderOf(s.id.get()), s.halt.stop
	thread, policy := s.o.Log.Thread, s.o.Busy
	var stopped []string
	if locker, ok := s.o.Store.(checkpoint.Locker); ok {
		var err error
		s.release, stopped, err = locker.Lock(ctx, thread, l.holder, policy.lock(), func() {
			s.halt.stop(&busyError{thread, errors.New("another run has asked for it")})
		})
		if err != nil {
			return "", &busyError{thread, err}
		}
	}
	if policy != Reject { // under Exit, too
		l.ttl = s.o.Lease
	}
	if policy == Reject && !s.o.ClaimFirst || l.ttl <= 0 {
		return at, nil
	}
	stolen, err := s.saver.acquire(ctx, policy)
	if err != nil {
		return "", err
	}
	if policy != Rollback || at != "" {
		return at, nil
	}
	return s.before(ctx, append(stopped, stolen))
}

// before returns the newest record that none of the runs wrote, which were stopped:
// what a run wrote that came to its end stays. If they wrote all there ever was, the run
// begins as in an empty log, beside them. If what they began with was pruned, there is
// nothing to go back to: they are as if interrupted.
func (s *Session) before(ctx context.Context, holders []string) (checkpoint.ID, error) {
	runs := map[checkpoint.ID]bool{}
	for _, h := range holders {
		if run := runOf(h); run != "" {
			runs[run] = true
		}
	}
	failed := func(err error) (checkpoint.ID, error) {
		return "", &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: err}
	}
	head, _, err := s.o.Store.Head(ctx, s.o.Log)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound) || err == nil && !runs[head.ID.Run()]:
		return "", nil
	case err != nil:
		return failed(err)
	}
	first := head.Seq + 1 // number of their oldest record
	for r, err := range Line(ctx, s.o.Store, head, checkpoint.Query{Desc: true, Meta: true}) {
		if err != nil {
			return failed(err)
		}
		if !runs[r.ID.Run()] {
			if r.Seq < first-1 {
				return "", nil
			}
			return r.ID, nil
		}
		first = r.Seq
	}
	if first == 1 {
		return Beginning, nil
	}
	return "", nil
}

// disclaim forgets a claim.
func (s *saver) disclaim() {
	s.abandon()
	s.mu.Lock()
	s.claimed, s.fence = false, 0
	s.mu.Unlock()
}

// halt lets another goroutine stop the run.
type halt struct {
	mu     sync.Mutex
	cause  error
	cancel context.CancelCauseFunc
}

// stop ends the run as the end of its context does.
func (h *halt) stop(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause != nil {
		return
	}
	h.cause = cause
	if h.cancel != nil {
		h.cancel(cause)
	}
}

// stoppable returns a context that stop cancels.
func (h *halt) stoppable(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel = cancel
	if h.cause != nil {
		cancel(h.cause)
	}
	return ctx, cancel
}
