package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/graph/internal/state"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/goschema"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// plainSizeWarning is the size of plain state above which Compile advises to
// use merging fields: every task copies it.
const plainSizeWarning = 4 << 10

// Graph is a compiled graph. It is immutable and safe for concurrent use; later
// changes to its builder don't affect it.
type Graph[S any] struct {
	Requests[S]
	e    *engine
	form form[S]
}

// engine is a compiled graph, whatever the type of its state.
type engine struct {
	prog      *local.Program
	state     values // without what reads former records
	evolution *evolution
	nodes     []nodeConfig
	settings  settings
	warnings  []Problem
	kept      *local.Kept
	input     *inputType  // nil: an update
	output    *outputType // nil: the state
}

// values is what an engine knows of its state's type: how the core handles states, and
// what input from outside looks like. A state is a *S.
type values interface {
	core.Values
	FieldNames() []string
	Update(state any, data []byte) error
	Hash(state any) (map[string]uint64, error)
	Write(dst, changes any, over bool) error
	Schema(input bool) (*jsonschema.Schema, error)
}

// Compile checks the graph and returns it ready to run. Everything that is
// wrong is reported at once, in a [CompileError]: fields of S that are neither
// plain nor merging, missing, duplicate, reserved and unknown nodes, unreachable
// nodes, joins that cannot complete, breakpoints that name no node, two entry
// points. The options are defaults for all calls.
func (b *Builder[S]) Compile(opts ...Option) (*Graph[S], error) {
	d := b.made()
	var e *engine
	var err error
	if d.schema != nil {
		e, err = d.compileSchema(opts)
	} else {
		t, problems := state.Of[S]()
		e, err = d.compileStruct(t, problems, opts)
	}
	if err != nil {
		return nil, err
	}
	return &Graph[S]{e: e, form: typed[S]()}, nil
}

// compileStruct is Compile for states that are structs, whose plain fields have a size.
func (d *draft) compileStruct(t *state.Type, problems []Problem, opts []Option) (*engine, error) {
	if t == nil {
		return d.compile(nil, problems, opts)
	}
	e, err := d.compile(t, problems, opts)
	if size := t.Size(); err == nil && size > plainSizeWarning {
		e.warnings = append(e.warnings, Problem{Kind: "state size",
			Text: fmt.Sprintf("the state holds %d bytes of plain fields, which every task copies", size),
			Fix:  "put what is large in a Value, List or Map"})
	}
	return e, err
}

// compile returns the engine. Without values the type can't be that of a state.
func (d *draft) compile(v values, problems []Problem, opts []Option) (*engine, error) {
	problems = append(problems, d.unnamed()...)
	base := d.settings
	base.MaxSteps, base.CycleWindow = DefaultMaxSteps, defaultCycleWindow
	schema, isSchema := v.(schemaValues)
	if isSchema {
		base.renamed = slices.Concat(schema.t.renamed, base.renamed)
	}
	set, err := with(&base, opts)
	if set.onWarning == nil {
		warn := logWarnings(d.spec.Name)
		set.onWarning = &warn
	}
	if isSchema {
		v = schema.warning(*set.onWarning)
	}
	if err != nil {
		problems = append(problems, Problem{Kind: "option", Text: err.Error()})
	}
	spec := d.spec
	spec.Former, spec.Before, spec.After = set.former, set.before, set.after
	p, wrong, warnings := plan.Compile(spec)
	problems = slices.Concat(problems, d.problems, wrong)
	nodes := slices.Clone(d.nodes)
	for i := range nodes {
		nodes[i].inherit(&d.defaults)
	}
	if !utf8.ValidString(d.spec.Name) {
		problems = append(problems, Problem{Kind: plan.BadName, Text: fmt.Sprintf("the graph's name %q is not valid UTF-8", d.spec.Name), Fix: "choose another: records bear it"})
	}
	for _, name := range slices.Sorted(maps.Keys(set.schemas)) {
		if _, err := goschema.Parse(set.schemas[name]); err != nil && set.schemas[name] != nil {
			problems = append(problems, Problem{Kind: "option", Name: name, Text: fmt.Sprintf("the InputSchema of %q is no JSON Schema: %v", name, err)})
		}
		if p != nil {
			if _, ok := p.Node(name); !ok {
				problems = append(problems, Problem{Kind: plan.BadBreakpoint, Name: name, Text: fmt.Sprintf("InputSchema names %q, which is not a node", name)})
			}
		}
	}
	var fields []string
	if v != nil {
		fields = v.FieldNames()
	}
	evo, evoProblems := newEvolution(set, fields)
	problems = append(problems, evoProblems...)
	if p == nil || len(problems) > 0 || v == nil {
		return nil, &CompileError{Graph: d.spec.Name, Problems: problems}
	}
	e := &engine{state: v, settings: *set, kept: local.NewKept(), warnings: warnings, nodes: nodes, input: d.input, output: d.output}
	// The plan holds the graph's breakpoints; those of a call come on top.
	e.settings.before, e.settings.after = nil, nil
	e.evolution = evo
	e.prog = &local.Program{Plan: p}
	set.compiling = true
	if err := e.checkAimed(set); err != nil {
		return nil, &CompileError{Graph: d.spec.Name, Problems: []Problem{{Kind: "option", Text: err.Error()}}}
	}
	prog := &local.Program{Plan: p, Values: evo.of(v), Nodes: make([]local.Node, len(p.Nodes)), Start: local.Node{Name: Start}, Version: set.version, Alone: local.Alone(p), Flights: new(sync.Pool)}
	if set.config != nil {
		prog.Config = set.config
	}
	if d.output != nil {
		prog.Output = d.output.json
	}
	prog.Check = v.Hash
	for i := range nodes {
		n := nodes[i].local
		n.Retry, n.Timeout = retrier(nodes[i].retries), nodes[i].timeout
		if c := nodes[i].cache; c != nil {
			n.Cache = c.compile(d.spec.Name, n.Name, func(s any) (json.RawMessage, error) { return v.Snapshot(s, true) })
		}
		prog.Nodes[i], prog.First = n, prog.First || n.First != nil
	}
	isNode := func(name string) bool {
		_, ok := p.Node(name)
		return ok || name == End
	}
	for _, r := range d.routers {
		if r.labelled != nil {
			r.router = r.labelled(isNode)
		}
		if r.from == Start {
			prog.Start.Routers = append(prog.Start.Routers, r.router)
			continue
		}
		if i, ok := p.Node(r.from); ok {
			prog.Nodes[i].Routers = append(prog.Nodes[i].Routers, r.router)
		}
	}
	e.prog = prog
	return e, nil
}

// unnamed reports that the graph has no name.
func (d *draft) unnamed() []Problem {
	if d.spec.Name != "" {
		return nil
	}
	return []Problem{{Kind: plan.BadName, Text: "the graph has no name", Fix: "give graph.New one: records, events and drawings bear it"}}
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

// engine returns the graph's engine, or an error for a graph that was never compiled:
// nothing can be done with one.
func (g *Graph[S]) engine() (*engine, error) {
	if g == nil || g.e == nil {
		return nil, ErrNotCompiled
	}
	return g.e, nil
}

// made returns the graph's engine, for methods that return no error: it panics on a
// graph that was never compiled.
func (g *Graph[S]) made() *engine {
	e, err := g.engine()
	if err != nil {
		panic(err.Error())
	}
	return e
}

// Name returns the graph's name.
func (g *Graph[S]) Name() string { return g.made().prog.Plan.Name }

// Nodes returns the names of the nodes in the order declared.
func (g *Graph[S]) Nodes() []string { return g.made().prog.Plan.Names() }

// Warnings returns remarks about the graph that don't keep it from running.
func (g *Graph[S]) Warnings() []Problem { return slices.Clone(g.made().warnings) }

// With returns a graph with other defaults. g stays as it is.
func (g *Graph[S]) With(opts ...ThreadOption) (*Graph[S], error) {
	e, err := g.engine()
	if err != nil {
		return nil, err
	}
	if e, err = e.with(opts); err != nil {
		return nil, err
	}
	return &Graph[S]{e: e, form: g.form}, nil
}

func (e *engine) with(opts []ThreadOption) (*engine, error) {
	c := *e
	set, err := with(&e.settings, opts)
	c.settings = *set
	return &c, err
}

// JSON returns a graph as one whose inputs and states are JSON, for programs that
// serve graphs they don't know. It is the same graph: threads may be used by both.
// Its State is the state's JSON. A function over it is given null and writes what
// [UpdateWith] says: an update, as [Graph.UpdateJSON] takes it, or of a graph with
// [SetInput] the input of a run. [Snapshot.OutputJSON] is what a run gives.
func JSON[S any](g *Graph[S]) *Graph[json.RawMessage] {
	return &Graph[json.RawMessage]{e: g.made(), form: inJSON}
}

// inJSON is the form of a graph whose states are JSON.
var inJSON = form[json.RawMessage]{
	edit: func(e *engine, f func(*json.RawMessage) error) func(any) error {
		return writing(f, func(data []byte) (func(any) error, error) {
			return func(state any) error { return e.state.Update(state, data) }, nil
		})
	},
	input: func(e *engine, f func(*json.RawMessage) error) func(any) error { return writing(f, e.readInput) },
	read:  func(state any) (json.RawMessage, error) { return json.Marshal(state) },
}

// writing returns what writes the JSON that f gives to a state, as read says.
func writing(f func(*json.RawMessage) error, read func(data []byte) (write func(state any) error, err error)) func(state any) error {
	return func(state any) error {
		var data json.RawMessage
		if err := f(&data); err != nil || data == nil {
			return err
		}
		write, err := read(data)
		if err != nil {
			return err
		}
		return write(state)
	}
}

// UpdateWith is the input or edit that a graph from [JSON] takes for an update, or for
// what [SetInput] has made the input of its runs; nil for none.
func UpdateWith(data json.RawMessage) func(*json.RawMessage) error {
	if data == nil {
		return nil
	}
	return func(u *json.RawMessage) error {
		*u = data
		return nil
	}
}

// UpdateJSON applies an update in JSON to a state: input from outside. An
// object names fields; plain fields are set, lists are added to, maps and sets
// merged, numbers of a Sum added, and {"$overwrite": v} replaces a value.
// What the schema of updates refuses ([Graph.JSONSchema]) is refused, with an
// [InputError] for each part that is wrong, or an [UnknownFieldError]; so are text
// that isn't UTF-8 and names that an object has twice. Nothing is applied if
// anything is wrong, and the errors name the fields.
func (g *Graph[S]) UpdateJSON(s *S, data []byte) error {
	e, err := g.engine()
	if err != nil {
		return err
	}
	if s == nil {
		return errors.New("graph: UpdateJSON: the state is nil")
	}
	if _, ok := any(s).(*json.RawMessage); ok {
		return errors.New("graph: UpdateJSON: the state of a graph from graph.JSON is JSON already: give the update as input, or use CheckJSON")
	}
	return e.state.Update(s, data)
}
