// Package anygraph makes one type of all compiled graphs: states and updates are
// JSON. Programs that serve graphs they don't know stand on it.
package anygraph

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
)

// Snapshot is a thread at one moment, its state in JSON.
type Snapshot = graph.Snapshot[json.RawMessage]

// Entry is a checkpoint of a thread's history.
type Entry struct {
	graph.Entry[json.RawMessage] // all but its method State
	State                        func(context.Context) (json.RawMessage, error)
}

// Graph is a compiled graph. Its methods are those of [graph.Graph]; an update
// is applied by [graph.Graph.UpdateJSON], nil is none.
type Graph interface {
	Name() string
	Nodes() []string
	Warnings() []graph.Problem
	Runnable() graph.Runnable
	JSONSchema(input bool) (json.RawMessage, error)
	Drawing(opts ...graph.DrawOption) *draw.Graph

	// Overlaid draws a thread over the graph.
	Overlaid(ctx context.Context, opts []graph.Option, draw ...graph.DrawOption) (*draw.Graph, error)

	// Check reports what is wrong with an update.
	Check(update json.RawMessage) error

	Stream(ctx context.Context, input json.RawMessage, opts ...graph.Option) iter.Seq2[graph.Event, error]
	StreamResume(ctx context.Context, answer any, update json.RawMessage, opts ...graph.Option) iter.Seq2[graph.Event, error]
	Replay(ctx context.Context, rec *recording.Recording, opts ...graph.Option) iter.Seq2[graph.Difference, error]

	// EventState returns the state that an event carries, nil if it has none or
	// that of a subgraph whose states are of another type.
	EventState(ev graph.Event) (json.RawMessage, error)

	Subgraph(path ...string) (graph.Subgraph, bool)
	SubgraphIn(namespace string) (graph.Subgraph, bool)

	State(ctx context.Context, opts ...graph.Option) (*Snapshot, error)
	History(ctx context.Context, opts ...graph.Option) iter.Seq2[Entry, error]
	UpdateState(ctx context.Context, edit json.RawMessage, opts ...graph.Option) (*Snapshot, error)
	Fork(ctx context.Context, at string, opts ...graph.Option) (*Snapshot, error)
	CopyThread(ctx context.Context, from, to string, opts ...graph.Option) error
	DeleteThread(ctx context.Context, thread string, opts ...graph.Option) error
	Prune(ctx context.Context, keep graph.Keep, opts ...graph.Option) (graph.Pruned, error)
	SendEvent(ctx context.Context, name string, value json.RawMessage, opts ...graph.Option) error
}

// Of returns a graph as a Graph.
func Of[S any](g *graph.Graph[S]) Graph { return typed[S]{g} }

type typed[S any] struct{ g *graph.Graph[S] }

func (t typed[S]) Name() string              { return t.g.Name() }
func (t typed[S]) Nodes() []string           { return t.g.Nodes() }
func (t typed[S]) Warnings() []graph.Problem { return t.g.Warnings() }
func (t typed[S]) Runnable() graph.Runnable  { return t.g }

func (t typed[S]) JSONSchema(input bool) (json.RawMessage, error) { return t.g.JSONSchema(input) }

func (t typed[S]) Drawing(opts ...graph.DrawOption) *draw.Graph { return t.g.Drawing(opts...) }

func (t typed[S]) Overlaid(ctx context.Context, opts []graph.Option, draw ...graph.DrawOption) (*draw.Graph, error) {
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
	return t.g.Drawing(append(draw[:len(draw):len(draw)], graph.Overlay(entries, snap))...), nil
}

func (t typed[S]) Check(update json.RawMessage) error { return t.g.CheckJSON(update) }

// edit returns an update as a function. It panics where the update fails, which
// the engine turns into an error of the call: what Check accepted fails only if
// a field's own code does.
func (t typed[S]) edit(update json.RawMessage) func(*S) {
	if update == nil {
		return nil
	}
	return func(s *S) {
		if err := t.g.UpdateJSON(s, update); err != nil {
			panic(err)
		}
	}
}

func (t typed[S]) Stream(ctx context.Context, input json.RawMessage, opts ...graph.Option) iter.Seq2[graph.Event, error] {
	return t.g.Stream(ctx, t.edit(input), opts...)
}

func (t typed[S]) StreamResume(ctx context.Context, answer any, update json.RawMessage, opts ...graph.Option) iter.Seq2[graph.Event, error] {
	if edit := t.edit(update); edit != nil {
		opts = append(opts[:len(opts):len(opts)], graph.Update(edit))
	}
	return t.g.StreamResume(ctx, answer, opts...)
}

func (t typed[S]) Replay(ctx context.Context, rec *recording.Recording, opts ...graph.Option) iter.Seq2[graph.Difference, error] {
	return t.g.Replay(ctx, rec, opts...)
}

func (t typed[S]) EventState(ev graph.Event) (json.RawMessage, error) {
	s, ok := graph.StateOf[S](ev)
	if !ok {
		return nil, nil
	}
	return json.Marshal(s)
}

func (t typed[S]) State(ctx context.Context, opts ...graph.Option) (*Snapshot, error) {
	return t.g.StateJSON(ctx, opts...)
}

func (t typed[S]) UpdateState(ctx context.Context, edit json.RawMessage, opts ...graph.Option) (*Snapshot, error) {
	return t.g.UpdateStateJSON(ctx, edit, opts...)
}

func (t typed[S]) Fork(ctx context.Context, at string, opts ...graph.Option) (*Snapshot, error) {
	snap, err := t.g.Fork(ctx, at, opts...)
	if err != nil {
		return nil, err
	}
	return snap.JSON()
}

func (t typed[S]) Subgraph(path ...string) (graph.Subgraph, bool) { return t.g.Subgraph(path...) }

func (t typed[S]) SubgraphIn(namespace string) (graph.Subgraph, bool) {
	return t.g.SubgraphIn(namespace)
}

func (t typed[S]) CopyThread(ctx context.Context, from, to string, opts ...graph.Option) error {
	return t.g.CopyThread(ctx, from, to, opts...)
}

func (t typed[S]) DeleteThread(ctx context.Context, thread string, opts ...graph.Option) error {
	return t.g.DeleteThread(ctx, thread, opts...)
}

func (t typed[S]) Prune(ctx context.Context, keep graph.Keep, opts ...graph.Option) (graph.Pruned, error) {
	return t.g.Prune(ctx, keep, opts...)
}

func (t typed[S]) SendEvent(ctx context.Context, name string, value json.RawMessage, opts ...graph.Option) error {
	return t.g.SendEvent(ctx, name, value, opts...)
}

func (t typed[S]) History(ctx context.Context, opts ...graph.Option) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range t.g.History(ctx, opts...) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			out := Entry{
				Entry: graph.Entry[json.RawMessage]{
					Checkpoint: e.Checkpoint, Parent: e.Parent, Branch: e.Branch, Step: e.Step, Source: e.Source, Nodes: e.Nodes,
					Next: e.Next, CreatedAt: e.CreatedAt, Metadata: e.Metadata,
				},
				State: func(ctx context.Context) (json.RawMessage, error) {
					s, err := e.State(ctx)
					if err != nil {
						return nil, err
					}
					return json.Marshal(&s)
				},
			}
			if !yield(out, nil) {
				return
			}
		}
	}
}
