package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/graph/internal/state"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// plainSizeWarning is the size of plain state above which Compile advises to
// use merging fields: every task copies it.
const plainSizeWarning = 4 << 10

// Graph is a compiled graph. It is immutable and safe for concurrent use; later
// changes to its builder don't affect it.
type Graph[S any] struct {
	prog   *local.Program
	values values[S]

	evolution *evolution
	nodes     []nodeConfig
	settings  settings
	warnings  []Problem
	kept      *local.Kept
}

// values is what a graph knows of its state type: how the core handles it, and
// what input from outside looks like.
type values[S any] interface {
	core.Values
	FieldNames() []string
	Update(s *S, data []byte) error
	Hash(s *S) (map[string]uint64, error)
	Write(dst *S, changes any) error
	Schema(input bool) (*jsonschema.Schema, error)
}

// Compile checks the graph and returns it ready to run. Everything that is
// wrong is reported at once, in a [CompileError]: fields of S that are neither
// plain nor merging, missing, duplicate, reserved and unknown nodes, unreachable
// nodes, joins that cannot complete, breakpoints that name no node, two entry
// points. The options are defaults for all calls.
func (b *Builder[S]) Compile(opts ...Option) (*Graph[S], error) {
	b.made()
	if b.source != nil {
		return b.compileFrom(opts)
	}
	typ, stateProblems := state.Of[S]()
	var problems []Problem
	for _, p := range stateProblems {
		problems = append(problems, Problem{Kind: "field type", Name: p.Field, Text: p.String()})
	}
	var v values[S]
	if typ != nil {
		v = typ
	}
	g, err := b.compile(v, problems, opts)
	if err != nil {
		return nil, err
	}
	if size := typ.Size(); size > plainSizeWarning {
		g.warnings = append(g.warnings, Problem{Kind: "state size",
			Text: fmt.Sprintf("the state holds %d bytes of plain fields, which every task copies", size),
			Fix:  "put what is large in a Value, List or Map"})
	}
	return g, nil
}

func (b *Builder[S]) compile(v values[S], problems []Problem, opts []Option) (*Graph[S], error) {
	problems = append(problems, b.unnamed()...)
	base := b.settings
	base.maxSteps, base.cycleWindow = DefaultMaxSteps, defaultCycleWindow
	set, err := base.with(opts)
	if err != nil {
		problems = append(problems, Problem{Kind: "option", Text: err.Error()})
	}
	spec := b.spec
	spec.Before, spec.After = set.before, set.after
	p, planProblems := plan.Compile(spec)
	var warnings []Problem
	for _, pp := range slices.Concat(b.problems, planProblems) {
		if pp.Advice {
			warnings = append(warnings, problemOf(pp))
		} else {
			problems = append(problems, problemOf(pp))
		}
	}
	for i, n := range b.nodes {
		if c := n.cache; c != nil && c.TTL < 0 {
			problems = append(problems, Problem{Kind: "option", Name: n.name, Text: fmt.Sprintf("node %q has a cache policy with a TTL of %v", n.name, c.TTL), Fix: "use 0 to keep results for ever"})
		}
		if c := n.cache; c != nil && c.Store == nil {
			problems = append(problems, Problem{Kind: "option", Name: b.spec.Nodes[i].Name,
				Text: fmt.Sprintf("node %q has a cache policy without a store", b.spec.Nodes[i].Name), Fix: "set CachePolicy.Store, for example to a *graph.MemoryCache"})
		}
	}
	if !utf8.ValidString(b.spec.Name) {
		problems = append(problems, Problem{Kind: string(plan.BadName), Text: fmt.Sprintf("the graph's name %q is not valid UTF-8", b.spec.Name), Fix: "choose another: records bear it"})
	}
	for _, name := range slices.Sorted(maps.Keys(set.schemas)) {
		if _, err := resolve(set.schemas[name]); err != nil && set.schemas[name] != nil {
			problems = append(problems, Problem{Kind: "option", Name: name, Text: fmt.Sprintf("the InputSchema of %q is no JSON Schema: %v", name, err)})
		}
		if p != nil {
			if _, ok := p.Node(name); !ok {
				problems = append(problems, Problem{Kind: string(plan.BadBreakpoint), Name: name, Text: fmt.Sprintf("InputSchema names %q, which is not a node", name)})
			}
		}
	}
	var fields []string
	if v != nil {
		fields = v.FieldNames()
	}
	evo, evoProblems := newEvolution(&set, fields)
	problems = append(problems, evoProblems...)
	if p == nil || len(problems) > 0 || v == nil {
		return nil, &CompileError{Graph: b.spec.Name, Problems: problems}
	}
	g := &Graph[S]{values: v, settings: set, kept: local.NewKept(), warnings: warnings, nodes: slices.Clone(b.nodes)}
	// The plan holds the graph's breakpoints; those of a call come on top.
	g.settings.before, g.settings.after = nil, nil
	g.evolution = evo
	if g.settings.onWarning == nil {
		if s, ok := any(v).(schemaValues); ok {
			g.settings.onWarning = s.warn
		} else {
			g.settings.onWarning = logWarnings(b.spec.Name)
		}
	}
	prog := &local.Program{Plan: p, Values: evo.of(v), Nodes: make([]local.Node, len(p.Nodes)), Version: set.version}
	prog.Check = func(s any) (map[string]uint64, error) { return v.Hash(s.(*S)) }
	for i := range b.nodes {
		n := b.nodes[i].local
		n.Before, n.After = slices.Clone(n.Before), slices.Clone(n.After)
		n.Retry = retrier(b.nodes[i].retries)
		if c := b.nodes[i].cache; c != nil {
			n.Cache = c.compile(b.spec.Name, n.Name, func(s any) (json.RawMessage, error) { return v.Snapshot(s, true) })
		}
		for _, add := range slices.Backward(set.callbacks) {
			add(&n)
		}
		prog.Nodes[i] = n
	}
	isNode := func(name string) bool {
		_, ok := p.Node(name)
		return ok || name == End
	}
	for _, r := range b.routers {
		if r.labelled != nil {
			r.router = r.labelled(isNode)
		}
		if r.from == Start {
			prog.Entry = append(prog.Entry, r.router)
			continue
		}
		if i, ok := p.Node(r.from); ok {
			prog.Nodes[i].Routers = append(prog.Nodes[i].Routers, r.router)
		}
	}
	g.prog = prog
	return g, nil
}

// unnamed reports that the graph has no name.
func (b *Builder[S]) unnamed() []Problem {
	if b.spec.Name != "" {
		return nil
	}
	return []Problem{{Kind: string(plan.BadName), Text: "the graph has no name", Fix: "give graph.New one: records, events and drawings bear it"}}
}

// MustCompile is Compile for graphs written down in code: it panics where
// Compile returns an error.
func (b *Builder[S]) MustCompile(opts ...Option) *Graph[S] {
	g, err := b.Compile(opts...)
	if err != nil {
		panic(err)
	}
	return g
}

// compiled returns an error for a graph that was never compiled: nothing can be
// done with one.
func (g *Graph[S]) compiled() error {
	if g == nil || g.prog == nil {
		return &NotCompiledError{Nil: g == nil}
	}
	return nil
}

// made returns g, for methods that return no error: it panics on a graph that was
// never compiled.
func (g *Graph[S]) made() *Graph[S] {
	if err := g.compiled(); err != nil {
		panic(err.Error())
	}
	return g
}

// with returns the settings of a call.
func (g *Graph[S]) with(ctx context.Context, opts []Option) (settings, error) {
	if err := g.compiled(); err != nil {
		return settings{}, err
	}
	set, err := g.settings.with(opts)
	if ctx == nil {
		err = errors.Join(errors.New("graph: nil Context"), err)
	}
	return set, err
}

// Name returns the graph's name.
func (g *Graph[S]) Name() string { return g.made().prog.Plan.Name }

// Nodes returns the names of the nodes in the order declared.
func (g *Graph[S]) Nodes() []string { return g.made().prog.Plan.Names() }

// Warnings returns remarks about the graph that don't keep it from running.
func (g *Graph[S]) Warnings() []Problem { return slices.Clone(g.made().warnings) }

// With returns a graph with other defaults. g stays as it is.
func (g *Graph[S]) With(opts ...Option) (*Graph[S], error) {
	if err := g.compiled(); err != nil {
		return nil, err
	}
	set, err := g.settings.with(opts)
	if err != nil {
		return nil, err
	}
	c := *g
	c.settings = set
	return &c, nil
}
