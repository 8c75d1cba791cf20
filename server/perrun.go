package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// RunRequest is for whom and with what a run is, for [GraphPerRun].
type RunRequest struct {
	Run, Thread, Assistant string // IDs

	// User is who asked for the run; without an ID if nobody is asked who he is.
	User User

	// Config is what the run is configured with, by its assistant, its thread and its
	// request: a JSON object of the type that the graph was given by [graph.Configurable],
	// without what is left at its default. Unmarshal it into the defaults.
	Config json.RawMessage
}

// GraphPerRun serves a graph as [Graph] does, of which each run has one of its own: one
// with the tools of a tenant, say, or the model that a user has chosen. g is what clients
// see of it, schemas and drawings among it, and by which threads are read and edited; each
// run, also one that goes on after a question or in another process, is of what compile
// returns. That has the name of g, and no node that g doesn't have: else the run fails, as
// it does with an error of compile. It is called in the run's context, for several runs at
// once; with [Dispatch] for each operation of a run.
//
// What differs by values alone needs no graph of its own: nodes read them with
// [graph.Configured].
func GraphPerRun[S any](g *graph.Graph[S], compile func(ctx context.Context, r RunRequest) (*graph.Graph[S], error), opts ...GraphOption) Option {
	if compile == nil {
		return func(c *config) {
			c.problems = append(c.problems, errors.New("server.GraphPerRun was given no function: use server.Graph"))
		}
	}
	return Graph(g, append(slices.Clip(opts), func(s *served) {
		s.compile = func(ctx context.Context, r RunRequest) (_ *graph.Graph[json.RawMessage], err error) {
			defer func() {
				if p := recover(); p != nil {
					err = &graph.PanicError{Value: p, Stack: debug.Stack()}
				}
			}()
			own, err := compile(ctx, r)
			switch {
			case err != nil:
				return nil, err
			case own == nil:
				return nil, errors.New("no graph")
			case own.Name() != g.Name():
				return nil, fmt.Errorf("it is named %q: name it %q", own.Name(), g.Name())
			}
			known := g.Nodes()
			for _, node := range own.Nodes() {
				if !slices.Contains(known, node) {
					return nil, fmt.Errorf("it has the node %q, which the graph given to server.GraphPerRun doesn't have: add it there", node)
				}
			}
			if err := memory.CheckGraph(own); err != nil {
				return nil, err
			}
			return graph.JSON(own), nil
		}
	})...)
}

// forRun returns the graph of a run, whose configuration may be nil.
func (g *served) forRun(ctx context.Context, run *db.Run, config json.RawMessage) (*served, error) {
	if g.compile == nil {
		return g, nil
	}
	r := RunRequest{Run: run.ID, Thread: run.ThreadID, Assistant: run.AssistantID, Config: config}
	if config == nil {
		r.Config = json.RawMessage("{}")
	}
	if !isNull(run.User) {
		if err := json.Unmarshal(run.User, &r.User); err != nil {
			return nil, fmt.Errorf("the user of a run: %w", err)
		}
	}
	own, err := g.compile(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("the graph of the run, of %q: %w", g.name, err)
	}
	of := *g
	of.Graph = own
	return &of, nil
}

// prepared is a run with all that it works with.
type prepared struct {
	run       *db.Run
	assistant *db.Assistant
	thread    *db.Thread
	graph     *served // that clients know
	own       *served // the run's
	body      *runBody
	config    json.RawMessage // what the graph declares; nil if it declares nothing
	steps     int             // the limit of supersteps; 0: the graph's
}

// prepare configures a run: by its assistant, its request and the server itself, of which
// later ones win.
func prepare(ctx context.Context, run *db.Run, a *db.Assistant, t *db.Thread, g *served, b *runBody) (*prepared, error) {
	p := &prepared{run: run, assistant: a, thread: t, graph: g, body: b}
	var ofAssistant runConfig
	if err := json.Unmarshal(a.Config, &ofAssistant); err != nil {
		return nil, err
	}
	of := object{}.with(ofAssistant.Configurable, b.Config.Configurable, objectOf(a.Context), b.Context)
	maps.DeleteFunc(of, func(name string, _ json.RawMessage) bool { return ofHeader(name) })
	maps.Copy(of, b.Headers)
	of, err := configuredUser(of.with(p.marks()), run.User)
	if err != nil {
		return nil, err
	}
	if b.Talk != nil && b.Talk.User != "" {
		of["user_id"] = jsonText(b.Talk.User)
	}
	shape, err := g.config()
	if err != nil {
		return nil, err
	}
	if shape != nil {
		p.config = shape.fitted(of).raw()
	}
	p.steps = cmp.Or(b.Config.RecursionLimit, ofAssistant.RecursionLimit)
	p.own, err = g.forRun(ctx, run, p.config)
	return p, err
}

// marks are what the server itself configures a run with, and notes of it.
func (p *prepared) marks() object {
	return object{
		"run_id": jsonText(p.run.ID), "thread_id": jsonText(p.thread.ID), "graph_id": jsonText(p.graph.name), "assistant_id": jsonText(p.assistant.ID),
	}
}

// began returns the moment before an input at which the run begins; empty if it begins elsewhere.
func (p *prepared) began() string {
	if at, err := p.body.Checkpoint.id(); err == nil && takenAt(at) != "" {
		return at
	}
	return ""
}

// options returns the options of the run, after those of each run.
func (p *prepared) options(each []graph.RunOption) []graph.RunOption {
	opts, b := slices.Clone(each), p.body
	if p.config != nil {
		opts = append(opts, graph.ConfigureJSON(p.config))
	}
	opts = append(opts, metadataOptions(objectOf(p.run.Metadata).with(p.marks()))...)
	if at := p.began(); at != "" {
		opts = append(opts, graph.Metadata(beganAt, at))
	}
	if p.steps > 0 {
		opts = append(opts, graph.AtMostSteps(p.steps))
	}
	if len(b.InterruptBefore) > 0 {
		opts = append(opts, graph.InterruptBefore(b.InterruptBefore...))
	}
	if len(b.InterruptAfter) > 0 {
		opts = append(opts, graph.InterruptAfter(b.InterruptAfter...))
	}
	switch b.Durability {
	case "async":
		opts = append(opts, graph.WithDurability(graph.Async))
	case "exit":
		opts = append(opts, graph.WithDurability(graph.Exit))
	}
	return opts
}
