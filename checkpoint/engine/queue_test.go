package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// gated is a driver whose commits take until they are let go.
type gated struct {
	Driver
	began chan chan struct{}
}

func (g *gated) Commit(context.Context, []*Commit) error {
	let := make(chan struct{})
	g.began <- let
	<-let
	return nil
}

func (g *gated) Delete(ctx context.Context, _ checkpoint.ThreadID) error { return g.Commit(ctx, nil) }

func (g *gated) Close() error { return nil }

// Who waits for a commit that somebody else makes does nothing meanwhile, though the driver
// takes another.
func TestWhoWaitsForAnothersCommitIsAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		g := &gated{began: make(chan chan struct{}, 4)}
		q.init(g, Options{Writers: 2})
		over := make(chan error, 4)
		submit := func() { go func() { over <- q.submit(t.Context(), &Commit{}) }() }
		submit()
		first := <-g.began
		submit()
		second := <-g.began
		submit()
		submit()
		synctest.Wait()
		close(first)
		both := <-g.began // of the two that waited
		close(second)
		synctest.Wait() // or else for ever: one of the two is not at rest
		close(both)
		for range 4 {
			if err := <-over; err != nil {
				t.Error(err)
			}
		}
		q.close()
	})
}

// A change whose caller has left goes on, and who comes to its thread next waits for it, as
// does the end of the store; other threads don't.
func TestAChangeThatWasLeftIsWaitedFor(t *testing.T) {
	for what, change := range map[string]func(ctx context.Context, e *Engine) error{
		"write": func(ctx context.Context, e *Engine) error {
			_, err := e.Write(ctx, &checkpoint.Write{Log: checkpoint.Log{Thread: "t"}, Claim: true})
			return err
		},
		"delete": func(ctx context.Context, e *Engine) error { return e.Delete(ctx, "t") },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &gated{Driver: new(Memory), began: make(chan chan struct{}, 4)}
				e := New(g, Options{Leave: time.Minute})
				ctx, leave := context.WithCancel(t.Context())
				left := make(chan error)
				go func() { left <- change(ctx, e) }()
				let := <-g.began
				leave()
				if err := <-left; !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				reads := func(thread checkpoint.ThreadID) chan error {
					over := make(chan error, 1)
					go func() {
						_, _, err := e.Head(t.Context(), checkpoint.Log{Thread: thread})
						over <- err
					}()
					return over
				}
				next, other, closed := reads("t"), reads("other"), make(chan error, 1)
				synctest.Wait()
				if err := <-other; !errors.Is(err, checkpoint.ErrNotFound) || len(next) > 0 {
					t.Fatalf("another thread: %v; %d didn't wait", err, len(next))
				}
				short, leave := context.WithCancel(t.Context())
				leave()
				if _, _, err := e.Head(short, checkpoint.Log{Thread: "t"}); !errors.Is(err, context.Canceled) {
					t.Fatal("who waits leaves too:", err)
				}
				close(let)
				if err := <-next; !errors.Is(err, checkpoint.ErrNotFound) {
					t.Fatal(err)
				}
				go func() { left <- change(t.Context(), e) }()
				let = <-g.began
				go func() { closed <- e.Close() }()
				synctest.Wait()
				if len(closed) > 0 {
					t.Fatal("the store was closed meanwhile")
				}
				close(let)
				if err := errors.Join(<-left, <-closed); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestADeleteWaitsForAWriteThatWasLeftBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{Driver: new(Memory), began: make(chan chan struct{}, 4)}
		e := New(g, Options{Leave: time.Minute, Writers: 2})
		ctx, leave := context.WithCancel(t.Context())
		left, deleted := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := e.Write(ctx, &checkpoint.Write{Log: checkpoint.Log{Thread: "t"}, Claim: true})
			left <- err
		}()
		let := <-g.began
		go func() { deleted <- e.Delete(t.Context(), "t") }() // it waits for the thread
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(g.began) > 0 {
			t.Error("the driver deletes while the write is under way")
		}
		close(let)
		close(<-g.began)
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
	})
}

func TestACommitSharedWithOthersThatWasLeftIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{Driver: new(Memory), began: make(chan chan struct{}, 8)}
		e := New(g, Options{Leave: time.Minute, Writers: 1})
		writes := func(ctx context.Context, thread checkpoint.ThreadID) chan error {
			over := make(chan error, 1)
			go func() {
				_, err := e.Write(ctx, &checkpoint.Write{Log: checkpoint.Log{Thread: thread}, Claim: true})
				over <- err
			}()
			synctest.Wait()
			return over
		}
		ctx, leave := context.WithCancel(t.Context())
		a := writes(t.Context(), "a")
		first := <-g.began
		b, c := writes(t.Context(), "b"), writes(ctx, "c")
		close(first)
		second := <-g.began
		synctest.Wait()
		leave()
		if err := <-c; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		read := make(chan error, 1)
		go func() {
			_, _, err := e.Head(t.Context(), checkpoint.Log{Thread: "c"})
			read <- err
		}()
		synctest.Wait()
		if len(read) > 0 {
			t.Error("the thread was read while it is being written to")
		}
		close(second)
		if err := errors.Join(<-a, <-b); err != nil {
			t.Fatal(err)
		}
		if err := <-read; !errors.Is(err, checkpoint.ErrNotFound) {
			t.Fatal(err)
		}
	})
}

func TestWhatIsLeftEndsAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := hanging{new(Memory), make(chan error, 1)}
		e := New(d, Options{Leave: time.Minute})
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Hour) // which no caller's wait is too long for
			leave()
		}()
		if err := e.Delete(ctx, "t"); !errors.Is(err, context.Canceled) || len(d.ended) > 0 {
			t.Fatal(err, len(d.ended))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(d.ended) == 0 {
			t.Fatal("it goes on")
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// hanging is a driver that never ends to delete.
type hanging struct {
	Driver
	ended chan error
}

func (d hanging) Delete(ctx context.Context, _ checkpoint.ThreadID) error {
	<-ctx.Done()
	d.ended <- ctx.Err()
	return ctx.Err()
}
