package graph

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// SubgraphOption is a [RunOption] that can also be aimed at a graph inside, with [For].
type SubgraphOption interface {
	RunOption
	ofSubgraph()
}

type subgraphSetting func(s *settings)

func (f subgraphSetting) apply(s *settings) { f(s) }
func (subgraphSetting) ofGraph()            {}
func (subgraphSetting) ofThread()           {}
func (subgraphSetting) ofStream()           {}
func (subgraphSetting) ofRun()              {}
func (subgraphSetting) ofSubgraph()         {}

// For aims options at the graph inside a node: they hold for each of its runs there, and
// what it was compiled with holds where they say nothing. The path is the node's name,
// or the names of the nodes that lead to it, as in "research/ask"; a node that runs a
// graph with [Call] is meant if it [Contains] one; of several, it is the node's name and the
// graph's. Breakpoints come on top of the
// graph's own; a limit is that of the graph and not of what is inside it; dependencies
// and configuration hold for what is inside it, too, and those of the run are seen where
// it has no others.
//
// A path that leads to no subgraph makes Compile, or the call, fail with an
// [InvalidEdgeError] that has the nearest one. Of a thread that goes on, a subgraph
// that was interrupted goes on with the options of the new call.
func For(path string, opts ...SubgraphOption) SubgraphOption {
	opts = slices.Clone(opts)
	return subgraphSetting(func(s *settings) {
		s.inside = append(slices.Clip(s.inside), aimed{path, opts})
	})
}

// aimed are options for a graph inside.
type aimed struct {
	path string
	opts []SubgraphOption
}

// below returns what of the options is for the graph inside a node, and for those inside
// of that.
func below(all []aimed, node string) (opts []SubgraphOption, inside []aimed) {
	for _, a := range all {
		if a.path == node {
			opts = append(opts, a.opts...)
		} else if rest, ok := strings.CutPrefix(a.path, node+"/"); ok {
			inside = append(inside, aimed{rest, a.opts})
		}
	}
	return opts, inside
}

// checkAimed reports what is wrong with options for graphs inside.
func (e *engine) checkAimed(set *settings) error {
	for _, a := range set.inside {
		child, err := e.target(a.path)
		if err != nil {
			return err
		}
		s, err := with(&child.settings, a.opts)
		if err != nil {
			return fmt.Errorf("graph.For(%q): %w", a.path, err)
		}
		if s.inside = s.inside[len(child.settings.inside):]; len(s.inside) > 0 {
			if err := child.checkAimed(s); err != nil {
				return fmt.Errorf("graph.For(%q): %w", a.path, err)
			}
		}
		for option, names := range map[string][]string{"InterruptBefore": s.before, "InterruptAfter": s.after} {
			if _, unknown := child.prog.Plan.Breakpoints(names); unknown != nil {
				return fmt.Errorf("graph.For(%q): %w", a.path, child.misnamed(option, "interrupt", unknown[0]))
			}
			if len(names) > 0 && set.store == nil && !set.compiling {
				return fmt.Errorf("graph.For(%q): a breakpoint %w", a.path, ErrNoCheckpointer)
			}
		}
	}
	return nil
}

// target returns the graph inside the node that a path leads to.
func (e *engine) target(path string) (*engine, error) {
	names, graphs := e.inside()
	for i, name := range names {
		child := graphs[i]
		if name == path {
			return child, nil
		}
		if rest, ok := strings.CutPrefix(path, name+"/"); ok {
			if found, err := child.target(rest); err == nil {
				return found, nil
			}
		}
	}
	return nil, &misnamedError{option: "For", what: "subgraph", err: &InvalidEdgeError{Source: "For", Target: path, Near: plan.Nearest(path, e.insidePaths(""))}}
}

// insidePaths lists the paths of the graphs inside.
func (e *engine) insidePaths(prefix string) (paths []string) {
	names, graphs := e.inside()
	for i, name := range names {
		child := graphs[i]
		paths = append(append(paths, prefix+name), child.insidePaths(prefix+name+"/")...)
	}
	return paths
}

// call runs e in a node, by a function of that name.
func (e *engine) call(ctx context.Context, name string, call local.Call) (*local.Called, error) {
	t, err := task(ctx, name)
	if err != nil {
		return nil, err
	}
	set := &e.settings
	call.Program = e.program(set, taskEmitter(t))
	if around, _ := t.Deps().(*deps); set.inside != nil || around != nil && around.inside != nil {
		if around == nil {
			around = &deps{}
		}
		node := t.Info().Node
		if t.Several() {
			node += "/" + e.prog.Plan.Name
		}
		opts, inside := below(around.inside, node)
		own := *set
		own.deps, own.configure = nil, nil
		if set, err = with(&own, opts); err != nil {
			return nil, err
		}
		d := &deps{around: around, inside: slices.Concat(set.inside, inside), replay: around.replay}
		if err := d.provide(ctx, set); err != nil {
			return nil, err
		}
		call.Options.Deps = d
		if !d.replay {
			p := e.prog.Plan
			call.Options.Before, _ = p.Breakpoints(set.before)
			call.Options.After, _ = p.Breakpoints(set.after)
		}
	}
	call.Options.Bounds = set.Bounds
	return t.Subgraph(ctx, call)
}

// provide calls the factories of dependencies, and configures.
func (d *deps) provide(ctx context.Context, set *settings) error {
	for t, factory := range set.deps {
		var v any
		if err := local.Safely(func() (err error) { v, err = factory(ctx); return err }); err != nil {
			return fmt.Errorf("dependency %v: %w", t, err)
		}
		if d.byType == nil {
			d.byType = map[reflect.Type]any{}
		}
		d.byType[t] = v
	}
	if len(set.configure) == 0 && d.around != nil {
		return nil
	}
	d.config = set.config
	if d.config != nil {
		d.configured = d.config.defaults
	}
	// A graph goes on with the configuration around it.
	for o := d.around; o != nil; o = o.around {
		if o.config != nil && (d.config == nil || o.config.typ == d.config.typ) {
			d.config, d.configured = o.config, o.configured
			break
		}
	}
	for _, edit := range set.configure {
		err := local.Safely(func() (err error) { d.configured, err = edit(d.config, d.configured); return err })
		if panicked, ok := errors.AsType[*PanicError](err); ok {
			return fmt.Errorf("graph.Configure of %v: %w", d.config.typ, panicked)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
