package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// target is a graph whose state type was erased.
type target interface {
	info() about
	served() server.Option
	nodes() []string
	warnings() []graph.Problem
	replay(ctx context.Context, rec *recording.Recording, opts []graph.Option) iter.Seq2[graph.Difference, error]

	// check reports what is wrong with an update in JSON.
	check(update json.RawMessage) error
	start(ctx context.Context, input json.RawMessage, opts []graph.Option) iter.Seq2[graph.Event, error]
	resume(ctx context.Context, answer any, update json.RawMessage, opts []graph.Option) iter.Seq2[graph.Event, error]

	eventState(ev graph.Event) (json.RawMessage, error) // nil if it has none

	state(ctx context.Context, opts []graph.Option) (*snapshot, error)
	history(ctx context.Context, opts []graph.Option) ([]*entry, error)
	update(ctx context.Context, edit json.RawMessage, opts []graph.Option) (*snapshot, error)
	fork(ctx context.Context, at string, opts []graph.Option) (*snapshot, error)
	copyThread(ctx context.Context, from, to string, opts []graph.Option) error
	prune(ctx context.Context, keep graph.Keep, opts []graph.Option) (graph.Pruned, error)
	sendEvent(ctx context.Context, name string, value json.RawMessage, opts []graph.Option) error
	runnable() graph.Runnable
	drawing(ctx context.Context, depth int, overlay bool, opts []graph.Option) (*draw.Graph, error)
}

// snapshot is a thread at one moment, as the commands print it.
type snapshot struct {
	Graph      string            `json:"graph"`
	Thread     string            `json:"thread"`
	Status     string            `json:"status"` // "done", "interrupted", "waiting", "failed" or "pending"
	Checkpoint string            `json:"checkpoint,omitempty"`
	Parent     string            `json:"parent,omitempty"`
	Step       int               `json:"step"`
	Source     string            `json:"source,omitempty"`
	CreatedAt  *time.Time        `json:"created_at,omitempty"`
	State      json.RawMessage   `json:"state"`
	Next       []string          `json:"next"`
	Interrupts []question        `json:"interrupts"`
	Waits      []wait            `json:"waits,omitempty"`
	Tasks      []task            `json:"tasks,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	Error      string            `json:"error,omitempty"`
}

// question is something the thread waits for.
type question struct {
	ID     string          `json:"id"`
	Key    string          `json:"key"`
	Node   string          `json:"node"`
	Path   []string        `json:"path,omitempty"`
	When   string          `json:"when"`
	Value  json.RawMessage `json:"value,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
}

// wait is a sleep, or an event that the thread waits for.
type wait struct {
	Node  string     `json:"node"`
	Path  []string   `json:"path,omitempty"`
	Key   string     `json:"key"`
	Event string     `json:"event,omitempty"`
	Until *time.Time `json:"until,omitempty"`

	text string
}

// task is a task of the open superstep.
type task struct {
	ID        string            `json:"id"`
	Node      string            `json:"node"`
	Status    string            `json:"status"`
	Error     string            `json:"error,omitempty"`
	Input     json.RawMessage   `json:"input,omitempty"`
	Subgraphs map[string]string `json:"subgraphs,omitempty"`
}

// entry is a checkpoint of a thread's history.
type entry struct {
	Checkpoint string            `json:"checkpoint"`
	Parent     string            `json:"parent,omitempty"`
	Branch     string            `json:"branch,omitempty"`
	Step       int               `json:"step"`
	Source     string            `json:"source"`
	Nodes      []string          `json:"nodes,omitempty"`
	Next       []string          `json:"next,omitempty"`
	CreatedAt  time.Time         `json:"created_at"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	State      json.RawMessage   `json:"state,omitempty"`

	fold func(context.Context) (json.RawMessage, error)
}

// typed is the target for a state type.
type typed[S any] struct {
	about
	g *graph.Graph[S]
}

func (t *typed[S]) info() about { return t.about }
func (t *typed[S]) served() server.Option {
	return server.Graph(t.g, server.Named(t.name), server.Describe(t.description))
}
func (t *typed[S]) nodes() []string           { return t.g.Nodes() }
func (t *typed[S]) warnings() []graph.Problem { return t.g.Warnings() }

func (t *typed[S]) check(update json.RawMessage) error { return t.g.UpdateJSON(new(S), update) }

// edit returns the update as a function. It panics where the update fails,
// which the engine turns into an error of the call: what check accepted fails
// only if a field's own code does.
func (t *typed[S]) edit(update json.RawMessage) func(*S) {
	if update == nil {
		return nil
	}
	return func(s *S) {
		if err := t.g.UpdateJSON(s, update); err != nil {
			panic(err)
		}
	}
}

func (t *typed[S]) start(ctx context.Context, input json.RawMessage, opts []graph.Option) iter.Seq2[graph.Event, error] {
	return t.g.Stream(ctx, t.edit(input), opts...)
}

func (t *typed[S]) resume(ctx context.Context, answer any, update json.RawMessage, opts []graph.Option) iter.Seq2[graph.Event, error] {
	if edit := t.edit(update); edit != nil {
		opts = append(opts[:len(opts):len(opts)], graph.Update(edit))
	}
	return t.g.StreamResume(ctx, answer, opts...)
}

func (t *typed[S]) eventState(ev graph.Event) (json.RawMessage, error) {
	s, ok := graph.StateOf[S](ev)
	if !ok {
		return nil, nil
	}
	return json.Marshal(s)
}

func (t *typed[S]) state(ctx context.Context, opts []graph.Option) (*snapshot, error) {
	return t.show(t.g.State(ctx, opts...))
}

func (t *typed[S]) update(ctx context.Context, edit json.RawMessage, opts []graph.Option) (*snapshot, error) {
	return t.show(t.g.UpdateState(ctx, t.edit(edit), opts...))
}

func (t *typed[S]) fork(ctx context.Context, at string, opts []graph.Option) (*snapshot, error) {
	return t.show(t.g.Fork(ctx, at, opts...))
}

func (t *typed[S]) copyThread(ctx context.Context, from, to string, opts []graph.Option) error {
	return t.g.CopyThread(ctx, from, to, opts...)
}

func (t *typed[S]) prune(ctx context.Context, keep graph.Keep, opts []graph.Option) (graph.Pruned, error) {
	return t.g.Prune(ctx, keep, opts...)
}

func (t *typed[S]) sendEvent(ctx context.Context, name string, value json.RawMessage, opts []graph.Option) error {
	return t.g.SendEvent(ctx, name, value, opts...)
}

func (t *typed[S]) runnable() graph.Runnable { return t.g }

func (t *typed[S]) history(ctx context.Context, opts []graph.Option) ([]*entry, error) {
	out := []*entry{}
	for e, err := range t.g.History(ctx, opts...) {
		if err != nil {
			return nil, err
		}
		out = append(out, &entry{
			Checkpoint: e.Checkpoint, Parent: e.Parent, Branch: e.Branch, Step: e.Step, Source: e.Source, Nodes: e.Nodes,
			Next: e.Next, CreatedAt: e.CreatedAt, Metadata: e.Metadata,
			fold: func(ctx context.Context) (json.RawMessage, error) {
				s, err := e.State(ctx)
				if err != nil {
					return nil, err
				}
				return json.Marshal(&s)
			},
		})
	}
	return out, nil
}

func (t *typed[S]) drawing(ctx context.Context, depth int, overlay bool, opts []graph.Option) (*draw.Graph, error) {
	do := []graph.DrawOption{graph.Expand(depth)}
	if overlay {
		snap, err := t.g.State(ctx, opts...)
		if err != nil {
			return nil, err
		}
		var entries []graph.Entry[S]
		for e, err := range t.g.History(ctx, opts...) {
			if err != nil {
				return nil, err
			}
			entries = append(entries, e)
		}
		do = append(do, graph.Overlay(entries, snap))
	}
	return t.g.Drawing(do...), nil
}

func (t *typed[S]) show(s *graph.Snapshot[S], err error) (*snapshot, error) {
	if err != nil {
		return nil, err
	}
	state, err := json.Marshal(&s.State)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	out := &snapshot{
		Graph: t.name, Thread: s.Thread, Checkpoint: s.Checkpoint, Parent: s.Parent, Step: s.Step, Source: s.Source,
		State: state, Next: append([]string{}, s.Next...), Interrupts: []question{}, Metadata: s.Metadata,
	}
	if !s.CreatedAt.IsZero() {
		out.CreatedAt = &s.CreatedAt
	}
	for _, i := range s.Interrupts {
		out.Interrupts = append(out.Interrupts, question{ID: i.ID, Key: i.Key, Node: i.Node, Path: i.Path, When: i.When, Value: i.Raw, Schema: i.Schema})
	}
	for _, w := range s.Waits {
		one := wait{Node: w.Node, Path: w.Path, Key: w.Key, Event: w.Event, text: w.String()}
		if !w.Until.IsZero() {
			one.Until = &w.Until
		}
		out.Waits = append(out.Waits, one)
	}
	failed := false
	for _, ts := range s.Tasks {
		failed = failed || ts.Status == "failed" || ts.Error != "" && ts.Status != "done"
		out.Tasks = append(out.Tasks, task{ID: ts.ID, Node: ts.Node, Status: ts.Status, Error: ts.Error, Input: ts.Input, Subgraphs: ts.Subgraphs})
	}
	switch {
	case s.Interrupted():
		out.Status = "interrupted"
	case s.Done():
		out.Status = "done"
	case failed:
		out.Status = "failed"
	case len(s.Waits) > 0:
		out.Status = "waiting"
	default:
		out.Status = "pending"
	}
	return out, nil
}

// headStatus tells the status of a thread from its newest record alone.
func headStatus(r *checkpoint.Record) string {
	if len(r.Paused) > 0 {
		return "interrupted"
	}
	waits := false
	for _, t := range r.Open {
		for _, q := range t.Questions {
			if !q.Answered && !q.Wait {
				return "interrupted"
			}
			waits = waits || !q.Answered
		}
	}
	if waits {
		return "waiting"
	}
	if r.Epoch == r.ID && len(r.Tasks) == 0 {
		return "done"
	}
	return "pending"
}
