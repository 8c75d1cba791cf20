package graphtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// Script says how questions are answered: by key, the answers in the order in
// which questions with that key are asked. The key of a breakpoint is its node;
// breakpoints that the script doesn't know are passed.
type Script map[string][]any

// Drive runs a graph on a thread until that has ended, answering questions from the
// script, and returns the thread's end. The test fails if the run does, if a
// question has no answer left in the script, or if answers are left over.
//
// A graph that asks nothing needs no checkpointer, and its thread no ID.
func Drive[S any](tb testing.TB, t *graph.Thread[S], input func(s *S) error, script Script) *graph.Snapshot[S] {
	tb.Helper()
	d := driver[S]{t: t, input: input, script: script}
	snap, err := d.run(tb.Context())
	if err == nil {
		err = d.leftOver()
	}
	if err != nil {
		tb.Fatalf("graphtest: thread %q: %v", t.ID(), err)
	}
	return snap
}

// driver drives a thread to its end.
type driver[S any] struct {
	t      *graph.Thread[S]
	input  func(s *S) error
	script Script

	// recover is told of an error of a run and reports whether the thread can
	// be taken up again; nil: never.
	recover func(error) bool

	given map[string]any // answers by question ID: one that got lost is given again
	used  map[string]int // answers by key
}

func (d *driver[S]) run(ctx context.Context) (*graph.Snapshot[S], error) {
	d.given, d.used = map[string]any{}, map[string]int{}
	snap, err := d.t.Invoke(ctx, d.t.Input(d.input))
	for {
		switch {
		case err != nil && (d.recover == nil || !d.recover(err)):
			return snap, err
		case err != nil:
			snap, err = d.takeUp(ctx)
		case len(snap.Interrupts) > 0:
			var answers graph.Answers
			if answers, err = d.answers(snap.Interrupts); err != nil {
				return snap, err
			}
			snap, err = d.t.Invoke(ctx, d.t.Answer(answers))
		case snap.Done():
			return snap, nil
		default:
			return snap, fmt.Errorf("the run stopped before %s and asks nothing", strings.Join(snap.Next, ", "))
		}
	}
}

// takeUp goes on with a thread as another process would: it only knows what is
// stored.
func (d *driver[S]) takeUp(ctx context.Context) (*graph.Snapshot[S], error) {
	snap, err := d.t.State(ctx)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound): // not even the input was stored
		return d.t.Invoke(ctx, d.t.Input(d.input))
	case err != nil:
		return snap, err
	case snap.Done() || len(snap.Interrupts) > 0:
		return snap, nil
	}
	return d.t.Invoke(ctx, d.t.Continue())
}

func (d *driver[S]) answers(open []graph.Interrupted) (graph.Answers, error) {
	answers := graph.Answers{}
	for _, q := range open {
		if q.Key == againKey {
			answers[q.ID] = true
			continue
		}
		v, known := d.given[q.ID]
		if !known {
			n := d.used[q.Key]
			switch list, has := d.script[q.Key]; {
			case n < len(list):
				v = list[n]
				d.used[q.Key]++
			case !has && q.When != "inside":
			default:
				return nil, fmt.Errorf("%s, and the script has %d answers to %q, all given; the question is %s", q, len(list), q.Key, q.Raw)
			}
			d.given[q.ID] = v
		}
		answers[q.ID] = v
	}
	return answers, nil
}

// leftOver reports answers of the script that nobody asked for.
func (d *driver[S]) leftOver() error {
	var keys []string
	for key, list := range d.script {
		if n := len(list) - d.used[key]; n > 0 {
			keys = append(keys, fmt.Sprintf("%d to %q", n, key))
		}
	}
	if keys == nil {
		return nil
	}
	slices.Sort(keys)
	return fmt.Errorf("answers of the script were not asked for: %s", strings.Join(keys, ", "))
}
