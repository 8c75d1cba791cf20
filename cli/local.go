package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
	engine "github.com/superstep-dev/superstep/internal/local"
)

// local is a store with the graphs of this program.
type local struct {
	a     *app
	store checkpoint.Store     // nil until it is opened
	items graph.SubgraphOption // the runs' long-term memory; nil until then
}

func (l *local) label() string { return l.a.storeName() }
func (l *local) arg() string   { return l.a.storeArg() }

func (l *local) open(ctx context.Context, create bool) (err error) {
	if l.store != nil {
		return nil
	}
	items, err := l.a.memories()
	if err != nil {
		return err
	}
	store, err := l.a.open(ctx, create)
	if err != nil {
		return err
	}
	l.store, l.items = store, items
	return nil
}

// at returns a graph of this program as it is here.
func (l *local) at(g *compiled) target { return &localGraph{compiled: g, l: l} }

func (l *local) graphs(context.Context) ([]graphRow, error) {
	list := []graphRow{}
	for _, g := range l.a.graphs {
		o := graphRow{Name: g.name, Description: g.description, Nodes: g.Nodes(), Example: g.example}
		for _, w := range g.Warnings() {
			o.Warnings = append(o.Warnings, w.String())
		}
		list = append(list, o)
	}
	return list, nil
}

func (l *local) graph(_ context.Context, name string) (target, error) {
	g, err := l.a.find(name)
	if err != nil {
		return nil, err
	}
	return l.at(g), nil
}

func (l *local) thread(ctx context.Context, id string) (of ownership, err error) {
	rec, _, err := l.store.Head(ctx, checkpoint.Log{Thread: checkpoint.ThreadID(id)})
	if err != nil {
		return of, err
	}
	g := l.a.owner(rec.Graph)
	switch {
	case g != nil:
		of.own, of.name = g.own, g.name
	}
	of.graph = func() (target, error) {
		if g != nil {
			return l.at(g), nil
		}
		hint := "use a program that has it: cli.Main(cli.Graph(g))"
		switch names, err := l.reading(ctx, id); {
		case err != nil:
			return nil, err
		case len(names) == 1 && len(l.a.graphs) == 1:
			return l.at(l.a.graphs[0]), nil
		case len(names) > 0:
			hint += "; or, if it has another name now, name it: " + strings.Join(names, ", ")
		}
		return nil, &usageError{fmt.Errorf("thread %q belongs to graph %q, which this program does not have", id, rec.Graph), hint}
	}
	return of, nil
}

// reading returns which graphs have one of the fields that a thread has: the others would
// show nothing of it.
func (l *local) reading(ctx context.Context, thread string) (names []string, err error) {
	lister, err := l.a.lister(l.store)
	if err != nil {
		return nil, err
	}
	fields := map[[2]string]*fieldStats{}
	if _, err := measure(ctx, l.store, lister, checkpoint.ThreadID(thread), fields); err != nil {
		return nil, err
	}
	for _, g := range l.a.graphs {
		schema, err := g.JSONSchema(graph.JSONState)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) { // its fields are known at run time only
			return nil, err
		}
		known := fieldsOf(schema)
		for f := range fields {
			if known == nil || known[f[1]] != nil {
				names = append(names, g.name)
				break
			}
		}
	}
	return names, nil
}

func (l *local) newest(ctx context.Context, n int) (names []string, err error) {
	lister, ok := l.store.(checkpoint.Lister)
	if !ok {
		return nil, Usage("name the thread with --thread")
	}
	for info, err := range lister.Threads(ctx, checkpoint.ThreadFilter{Limit: n}) {
		if err != nil {
			return names, err
		}
		names = append(names, string(info.Thread))
	}
	return names, nil
}

func (l *local) newThread(context.Context, target) (string, error) {
	return string(checkpoint.NewRunID()), nil
}

func (l *local) copyThread(ctx context.Context, from, to string) (string, error) {
	c, ok := l.store.(checkpoint.Copier)
	if !ok {
		return "", fmt.Errorf("the store %s cannot copy threads", l.label())
	}
	if to == "" {
		return "", Usage("the ID of the copy is missing")
	}
	if from == to {
		return "", Usage("a thread cannot be copied to itself")
	}
	if _, err := known(ctx, l, from); err != nil {
		return "", err
	}
	switch err := c.Copy(ctx, checkpoint.ThreadID(from), checkpoint.ThreadID(to)); {
	case errors.Is(err, checkpoint.ErrConflict):
		return "", Hint(fmt.Errorf("thread %q exists already", to), "choose another ID")
	case err != nil:
		return "", err
	}
	return to, nil
}

func (l *local) deleteThread(ctx context.Context, thread string, force bool) error {
	policy := engine.Reject
	if force {
		policy = engine.Interrupt
	}
	err := engine.Delete(ctx, l.store, checkpoint.ThreadID(thread), policy)
	if errors.Is(err, graph.ErrThreadBusy) {
		return Hint(err, "--force stops it and deletes the thread all the same")
	}
	return err
}

func (l *local) threads(ctx context.Context, q threadQuery) (list []threadRow, more bool, err error) {
	lister, err := l.a.lister(l.store)
	if err != nil {
		return nil, false, err
	}
	diagnose, err := l.a.diagnose(ctx, l.store)
	if err != nil {
		return nil, false, err
	}
	filter := checkpoint.ThreadFilter{Prefix: q.prefix, Metadata: map[string]string{}}
	for _, kv := range q.metadata {
		filter.Metadata[kv[0]] = kv[1]
	}
	if q.limit > 0 && q.graph == "" && q.status == "" && !q.stuck {
		filter.Limit = q.limit + 1
	}
	for t, err := range lister.Threads(ctx, filter) {
		if err != nil {
			return list, more, err // what can be read is shown nevertheless
		}
		o := threadRow{
			Thread: string(t.Thread), Graph: t.Head.Graph, Status: headStatus(t.Head), Step: &t.Head.Step, Checkpoint: string(t.Head.ID),
			Checkpoints: t.Records, Bytes: t.Bytes, CreatedAt: shownTime(t.CreatedAt), UpdatedAt: shownTime(t.Head.CreatedAt), Metadata: t.Head.Metadata,
		}
		failure := ""
		if o.Status == "pending" && !t.Lease.Live(time.Now()) || o.Status == "waiting" {
			if failure, err = failureOf(ctx, l.store, t.Head); err != nil {
				return list, more, fmt.Errorf("thread %q: %w", o.Thread, err)
			}
			if failure != "" {
				o.Status = "failed"
			}
		}
		if !t.Head.Due.IsZero() {
			o.Due = &t.Head.Due
		}
		if o.Lease = leaseOf(t.Lease); o.Lease == nil {
			o.Lease = leaseOf(diagnose.died[t.Thread])
		}
		own := o.Graph
		o.Graph = l.a.graphName(own)
		if q.graph != "" && o.Graph != q.graph || q.status != "" && o.Status != q.status {
			continue
		}
		if q.stuck {
			if failure != "" {
				o.Stuck = append(o.Stuck, "its run failed: "+failure)
			}
			o.Stuck = append(o.Stuck, diagnose.of(ctx, o.Thread, own)...)
			if o.Stuck == nil && o.Status == "pending" && o.Due == nil && o.Lease == nil {
				o.Stuck = append(o.Stuck, "nobody continues it: "+l.a.continuing(o.Graph, o.Thread))
			}
			if o.Stuck == nil {
				continue
			}
		}
		if q.limit > 0 && len(list) == q.limit {
			return list, true, nil
		}
		list = append(list, o)
	}
	return list, false, nil
}

// localGraph is a graph of this program with a store.
type localGraph struct {
	*compiled
	l *local
}

func (t *localGraph) info() about { return t.about }

func (t *localGraph) check(kind graph.JSONKind, data json.RawMessage) error {
	return t.CheckJSON(kind, data)
}

func (t *localGraph) talks(context.Context) (bool, error) {
	schema, err := t.JSONSchema(graph.JSONState)
	if errors.Is(err, errors.ErrUnsupported) { // its fields are known at run time only
		return true, nil
	}
	return hasMessages(schema), err
}

// on returns the thread at a checkpoint, which may be empty.
func (t *localGraph) on(thread, at string, opts ...graph.ThreadOption) *graph.Thread[json.RawMessage] {
	opts = append(opts, graph.WithCheckpointer(t.l.store))
	if t.l.items != nil {
		opts = append(opts, t.l.items)
	}
	return t.Thread(thread, opts...).At(at)
}

func (t *localGraph) options(c call) []graph.StreamOption {
	opts := []graph.StreamOption{graph.LiveOrder(), graph.Modes(c.modes)}
	for _, o := range t.l.a.each {
		opts = append(opts, o)
	}
	if c.drain != nil {
		opts = append(opts, graph.Drain(c.drain))
	}
	if c.maxSteps != 0 {
		opts = append(opts, graph.MaxSteps(c.maxSteps))
	}
	if c.concurrency != 0 {
		opts = append(opts, graph.Concurrency(c.concurrency))
	}
	if c.timeout > 0 {
		opts = append(opts, graph.RunTimeout(c.timeout))
	}
	switch c.durability {
	case "async":
		opts = append(opts, graph.WithDurability(graph.Async))
	case "exit":
		opts = append(opts, graph.WithDurability(graph.Exit))
	}
	if c.config != nil {
		opts = append(opts, graph.ConfigureJSON(c.config))
	}
	for _, kv := range c.metadata {
		opts = append(opts, graph.Metadata(kv[0], kv[1]))
	}
	if c.before != nil {
		opts = append(opts, graph.InterruptBefore(c.before...))
	}
	if c.after != nil {
		opts = append(opts, graph.InterruptAfter(c.after...))
	}
	return opts
}

func (t *localGraph) start(ctx context.Context, c call, input json.RawMessage) iter.Seq2[event, error] {
	req := t.Input(graph.UpdateWith(input))
	if c.restart {
		req = t.Restart(graph.UpdateWith(input))
	}
	return t.events(t.on(c.thread, c.at).Stream(ctx, req, t.options(c)...))
}

func (t *localGraph) resume(ctx context.Context, c call, answer any, update json.RawMessage) iter.Seq2[event, error] {
	return t.events(t.on(c.thread, c.at).Stream(ctx, t.Answer(answer, graph.UpdateWith(update)), t.options(c)...))
}

func (t *localGraph) events(seq iter.Seq2[graph.Event, error]) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		for ev, err := range seq {
			e := event{Event: ev}
			if ev.Type == graph.EventValues {
				e.values = ev.OutputJSON
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (t *localGraph) state(ctx context.Context, thread, at string) (*snapshot, error) {
	return t.show(t.on(thread, at).State(ctx))
}

func (t *localGraph) update(ctx context.Context, e edit) (*snapshot, error) {
	var opts []graph.ThreadOption
	for _, kv := range e.metadata {
		opts = append(opts, graph.Metadata(kv[0], kv[1]))
	}
	edit := graph.Edit[json.RawMessage]{Apply: graph.UpdateWith(e.values), AsNode: e.node}
	return t.show(t.on(e.thread, e.at, opts...).BulkEdit(ctx, []graph.Edit[json.RawMessage]{edit}))
}

func (t *localGraph) fork(ctx context.Context, thread, at string) (*snapshot, error) {
	return t.show(t.on(thread, at).Fork(ctx))
}

func (t *localGraph) drawing(ctx context.Context, depth int, thread string) (*draw.Graph, error) {
	if thread == "" {
		return t.Drawing(depth), nil
	}
	return t.on(thread, "").Drawing(ctx, depth)
}

func (t *localGraph) history(ctx context.Context, q historyQuery) ([]*entry, error) {
	query := graph.HistoryQuery{Limit: max(q.limit, 0), OldestFirst: q.oldest, AllBranches: q.all, Source: q.source}
	out := []*entry{}
	for e, err := range t.on(q.thread, q.at).History(ctx, query) {
		if err != nil {
			return nil, err
		}
		out = append(out, &entry{
			Checkpoint: e.Checkpoint, Parent: e.Parent, Branch: e.Branch, Step: e.Step, Source: e.Source, Nodes: e.Nodes, Did: e.Did,
			Next: e.Next, CreatedAt: shownTime(e.CreatedAt), Metadata: e.Metadata, fold: e.State,
		})
	}
	return out, nil
}

func (t *localGraph) show(s *graph.Snapshot[json.RawMessage], err error) (*snapshot, error) {
	if err != nil {
		return nil, err
	}
	out := &snapshot{
		Graph: t.name, Thread: s.Thread, Checkpoint: s.Checkpoint, Parent: s.Parent, Step: s.Step, Source: s.Source,
		State: s.State, Next: append([]string{}, s.Next...), Interrupts: []question{}, Metadata: s.Metadata,
	}
	if output, err := s.OutputJSON(); err != nil {
		return nil, err
	} else if !bytes.Equal(output, s.State) {
		out.Output = output
	}
	if !s.CreatedAt.IsZero() {
		at := shownTime(s.CreatedAt)
		out.CreatedAt = &at
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
	case len(s.Interrupts) > 0:
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

// hasMessages reports whether the states that a JSON Schema describes have
// messages. One that says nothing of its members may.
func hasMessages(schema json.RawMessage) bool {
	fields := fieldsOf(schema)
	return fields == nil || fields["messages"] != nil
}

// fieldsOf returns the schemas of a state's fields; nil if its own says nothing of them.
func fieldsOf(schema json.RawMessage) map[string]json.RawMessage {
	var s struct {
		Ref        string `json:"$ref"`
		Properties map[string]json.RawMessage
		Defs       map[string]struct {
			Properties map[string]json.RawMessage
		} `json:"$defs"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok && s.Properties == nil {
		s.Properties = s.Defs[name].Properties
	}
	return s.Properties
}

// shownTime is a time as it is shown, and as servers tell it: to the microsecond.
func shownTime(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
