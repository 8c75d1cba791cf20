package assistant_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/graph"
)

// dying is a store of a process that dies at its nth write: before it, or after it is
// stored and before anybody knows.
type dying struct {
	*checkpoint.Memory
	mu     sync.Mutex
	left   int
	stored bool
}

var errDead = errors.New("the process is dead")

func (d *dying) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left > 0 {
		return d.Memory.Write(ctx, w)
	}
	if d.left == 0 && d.stored {
		_, _ = d.Memory.Write(ctx, w)
	}
	return checkpoint.Written{}, errDead
}

// Whatever write a process dies at: the message delivered again to another one is answered
// as if nothing had been, and what was done was done with one key.
func TestAConversationSurvivesACrashAtEveryWrite(t *testing.T) {
	messages := []string{"Book a flight", "New York", "Actually, check my booking first", "AB12", "Paris", "2", "yes"}
	type end struct {
		replies []string
		calls   []string // without repetitions of a key
		dead    bool
	}
	talk := func(t *testing.T, n int, stored bool) (e end) {
		memory := checkpoint.NewMemory()
		code := &ledger{}
		first := build(t, assistant.Config{Store: &dying{Memory: memory, left: n, stored: stored}, Actions: code})
		then := build(t, assistant.Config{Store: memory, Actions: code})
		a := first
		for i, u := range messages {
			m := dialogue.Message{ID: fmt.Sprint("m-", i), Text: u}
			r, err := a.Say(t.Context(), "anna", m)
			if err != nil && a == first {
				e.dead, a = true, then
				time.Sleep(time.Minute) // until the dead process's hold on the thread is over
				r, err = a.Say(t.Context(), "anna", m)
			}
			if err != nil {
				t.Fatalf("write %d, stored %v, %q: %v", n, stored, u, err)
			}
			e.replies = append(e.replies, r.Text)
		}
		for _, key := range code.keys {
			if !slices.Contains(e.calls, key) {
				e.calls = append(e.calls, key)
			}
		}
		return e
	}
	synctest.Test(t, func(t *testing.T) {
		whole := talk(t, 1<<30, false)
		if len(whole.calls) != 2 || whole.replies[len(messages)-1] != "Booked: SU-42." {
			t.Fatalf("undisturbed: %+v", whole)
		}
		for _, stored := range []bool{false, true} {
			n := 1
			for ; ; n++ {
				e := talk(t, n, stored)
				if !slices.Equal(e.replies, whole.replies) {
					t.Errorf("write %d, stored %v: replies %q, want %q", n, stored, e.replies, whole.replies)
				}
				if len(e.calls) != len(whole.calls) {
					t.Errorf("write %d, stored %v: effects %v, want %v", n, stored, e.calls, whole.calls)
				}
				if !e.dead {
					break
				}
			}
			if n < 4*len(messages) {
				t.Errorf("only %d writes", n)
			}
		}
	})
}

// ledger is an airline that notes the keys of what it does.
type ledger struct {
	airline
	keys []string
}

func (l *ledger) Do(ctx context.Context, call dialogue.ActionCall) dialogue.Result {
	r := l.airline.Do(ctx, call)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys = append(l.keys, call.ID)
	return r
}

func TestARunnerWakesAConversationWhoseDeadlineIsOver(t *testing.T) {
	const text = `
version: "2.0"
slots:
  code: {type: string, ask: {text: "Your code?"}}
flows:
  confirm:
    description: Confirm a payment.
    steps:
    - {collect: code, deadline: 10m, on_deadline: late}
    - {say: {text: "Thank you."}, next: end}
    - {step: late, say: {text: "Too late: nothing was paid."}}
`
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		a := build(t, assistant.Config{Program: compile(t, text), Actions: new(airline), Store: store, Understanding: hears{"pay": start("confirm")}})
		if r, _ := say(t, a, "pay"); r.Text != "Your code?" {
			t.Fatalf("reply %q", r.Text)
		}
		runner, err := graph.NewRunner(store, graph.RunnerOptions{}, a.Graph())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- runner.Run(ctx) }()
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		if s := state(t, a); s.WaitingForSlot != "code" || s.TurnCount != 1 {
			t.Errorf("before the deadline: %d turns, waiting for %q", s.TurnCount, s.WaitingForSlot)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := state(t, a); s.LastResponse != "Too late: nothing was paid." || len(s.FlowStack) != 0 {
			t.Errorf("after it: %q, stack %v", s.LastResponse, s.FlowStack)
		}
		stop()
		<-done
	})
}
