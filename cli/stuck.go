package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// lease is the hold that a run has on a thread, or had when it died.
type lease struct {
	Holder string    `json:"holder"`
	Until  time.Time `json:"until"`
	Live   bool      `json:"live"`
}

func leaseOf(l checkpoint.Lease) *lease {
	if l.Until.IsZero() {
		return nil
	}
	return &lease{l.Holder, l.Until, l.Live(time.Now())}
}

// String names the process, without the run's ID.
func (l *lease) String() string {
	if l == nil {
		return "-"
	}
	if !l.Live {
		return shortHolder(l.Holder) + " (died)"
	}
	return shortHolder(l.Holder)
}

// shortHolder leaves out what people don't read: the run's ID and the tag of the
// machine.
func shortHolder(holder string) string {
	if f := strings.Fields(holder); len(f) == 6 && f[1] == "pid" && f[3] == "on" {
		return strings.Join(f[1:5], " ")
	}
	return holder
}

func dueText(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return when(*t)
}

// diagnosis finds out why threads are stuck.
type diagnosis struct {
	a     *app
	store checkpoint.Store
	died  map[checkpoint.ThreadID]checkpoint.Lease
}

func (a *app) diagnose(ctx context.Context, store checkpoint.Store) (*diagnosis, error) {
	d := &diagnosis{a: a, store: store, died: map[checkpoint.ThreadID]checkpoint.Lease{}}
	if s, ok := store.(checkpoint.Scheduler); ok {
		for w, err := range s.Abandoned(ctx, 0) {
			if errors.Is(err, errors.ErrUnsupported) { // by what the store wraps
				break
			}
			if err != nil {
				return nil, fmt.Errorf("looking for threads whose run died: %w", err)
			}
			d.died[w.Thread] = w.Lease
		}
	}
	return d, nil
}

// of returns why a thread is stuck; nil if it isn't. What the threads of graphs
// wait for that this program doesn't have is not known.
func (d *diagnosis) of(ctx context.Context, thread, own string) (why []string) {
	if l, ok := d.died[checkpoint.ThreadID(thread)]; ok {
		why = append(why, fmt.Sprintf("its run died: the lease of %s ran out at %s", shortHolder(l.Holder), when(l.Until)))
	}
	t := d.a.owner(own)
	if t == nil {
		return why
	}
	_, err := t.Thread(thread, graph.WithCheckpointer(d.store)).State(ctx)
	var node *graph.UnknownNodeError
	var schema *graph.VersionError
	switch {
	case err == nil || errors.Is(err, checkpoint.ErrNotFound): // it was deleted meanwhile
	case errors.As(err, &node):
		text := fmt.Sprintf("it waits at node %q, which graph %q does not have", node.Node, t.name)
		if node.Near != "" {
			text += fmt.Sprintf("; did %q replace it?", node.Near)
		}
		why = append(why, text)
	case errors.As(err, &schema):
		why = append(why, schema.Error())
	default:
		why = append(why, err.Error())
	}
	return why
}

// continuing is the command that lets a thread go on.
func (a *app) continuing(graph, thread string) string {
	return fmt.Sprintf("%s continue %s%s --thread %s", a.name, quote(graph), a.placeArg(), quote(thread))
}
