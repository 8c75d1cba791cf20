package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// Dispatch has the supersteps of runs done by a dispatcher of package fleet, which begin
// makes for a worker: one that has the server's graphs, its store and its long-term memory,
// and does each operation as the run's client asked. All servers on a database are to have
// the same graphs and dispatchers: any of them does what there is to do of any run, and the
// one that was asked for a run, or the next if it dies, tells of it and notes how it ends.
// A dispatcher that is an io.Closer is closed with the server, after [Server.Drain].
//
// What is told of a run is what fleet.Stream yields; what is not recorded comes over a bus
// in the server's database, if that is PostgreSQL, and else from workers of this process. By
// default runs are done here, by the server that was asked for them or takes them over.
func Dispatch(begin func(*fleet.Worker) (fleet.Dispatcher, error)) Option {
	return func(c *config) {
		switch {
		case begin == nil:
			c.problems = append(c.problems, errors.New("server.Dispatch was given no function: leave it out for runs in this process"))
		case c.dispatch != nil:
			c.problems = append(c.problems, errors.New("server.Dispatch was given twice"))
		}
		c.dispatch = begin
	}
}

// Dispatches reports whether options have runs done by a dispatcher: [Dispatch] is one of them.
func Dispatches(opts ...Option) bool {
	return config{}.with(opts).dispatch != nil
}

// dispatch has runs done by a dispatcher.
func (s *Server) dispatch(ctx context.Context, begin func(*fleet.Worker) (fleet.Dispatcher, error)) (err error) {
	if len(s.names) == 0 {
		return errors.New("server.Dispatch needs a graph that is served")
	}
	var programs []fleet.Program
	for _, name := range s.names {
		programs = append(programs, fleet.Program{Graph: s.graphs[name].Graph, Version: name})
	}
	e := s.dispatcher.executor
	if e.bus, err = s.db.Bus(ctx); err != nil {
		return err
	}
	if c, ok := e.bus.(io.Closer); ok {
		s.closers = append(s.closers, c)
	}
	w, err := fleet.NewWorker(s.store, fleet.Options{Run: e.operation, Bus: e.bus, Log: s.log}, programs...)
	if err != nil {
		return err
	}
	if e.fleet, err = begin(w); err != nil {
		return fmt.Errorf("the dispatcher: %w", err)
	}
	if e.fleet == nil {
		return errors.New("the function that was given to server.Dispatch returned no dispatcher")
	}
	if c, ok := e.fleet.(io.Closer); ok {
		s.closers = append(s.closers, c)
	}
	return nil
}

// via is by whom threads of a graph are run: the dispatcher, or this process.
type via struct {
	*served
	fleet *fleet.Client // nil: here
}

// by returns by whom runs of a graph are done, which is to tell of its subgraphs as well, or
// not. Threads that sleep are woken as all of the server are, by a run of their own.
func (s *executor) by(g *served, subgraphs bool) via {
	if s.fleet == nil {
		return via{served: g}
	}
	return via{g, &fleet.Client{
		Dispatcher: s.fleet, Store: s.store, Version: func(string) string { return g.name }, Watched: true, Bus: s.bus, Log: s.log, TopOnly: !subgraphs,
	}}
}

// stream begins a run of a thread.
func (v via) stream(ctx context.Context, t *graph.Thread[json.RawMessage], req graph.Request[json.RawMessage], opts []graph.StreamOption) iter.Seq2[graph.Event, error] {
	if v.fleet == nil {
		return t.Stream(ctx, req, opts...)
	}
	return fleet.Stream(ctx, v.fleet, t, req, opts...)
}

// resume has a run of a thread go on that was begun by another process.
func (v via) resume(ctx context.Context, t *graph.Thread[json.RawMessage], opts []graph.StreamOption) iter.Seq2[graph.Event, error] {
	if v.fleet == nil {
		return t.Stream(ctx, v.Continue(), opts...)
	}
	return fleet.Follow(ctx, v.fleet, t, opts...)
}

// operation says how one is done of the run that works on a thread.
func (s *executor) operation(ctx context.Context, ref fleet.Ref, _ graph.Runnable) (graph.Runnable, []graph.RunOption, error) {
	g, opts, err := s.options(ctx, ref.Thread)
	switch {
	case db.Outage(err):
		return nil, nil, &graph.CheckpointError{Thread: checkpoint.ThreadID(ref.Thread), Op: "load", Err: err}
	case err != nil:
		return nil, nil, err
	}
	return g.Graph, opts, nil
}

func (s *executor) options(ctx context.Context, thread string) (*served, []graph.RunOption, error) {
	turns, err := s.db.Turns(ctx, thread, 1)
	if err != nil {
		return nil, nil, err
	}
	if len(turns) == 0 || !turns[0].Running {
		return nil, nil, fmt.Errorf("no run of the server works on thread %q", thread)
	}
	run, err := s.db.Run(ctx, turns[0].ID)
	if err != nil {
		return nil, nil, err
	}
	t, err := s.db.Thread(ctx, thread)
	if err != nil {
		return nil, nil, err
	}
	a, g, err := s.findAssistant(ctx, run.AssistantID)
	if err != nil {
		return nil, nil, err
	}
	var b runBody
	if err := json.Unmarshal(run.Kwargs, &b); err != nil {
		return nil, nil, err
	}
	p, err := prepare(ctx, run, a, t, g, &b)
	if err != nil {
		return nil, nil, err
	}
	return p.own, append(p.options(s.each), memory.Use(s.memory)), nil
}
