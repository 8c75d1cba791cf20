package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

// manner is what a graph may be configured with.
type manner struct {
	Tone  string            `json:"tone"`
	Limit int8              `json:"limit"`
	Words map[string]string `json:"words"`
	Voice struct {
		Pitch int  `json:"pitch"`
		Soft  bool `json:"soft"`
	} `json:"voice"`
}

func plainly() manner {
	m := manner{Tone: "plain", Limit: 3, Words: map[string]string{"hi": "hello"}}
	m.Voice.Pitch = 440
	return m
}

// told notes the configuration.
func told(ctx context.Context, s *trail) error {
	m, err := graph.Configured[manner](ctx)
	if err != nil {
		return err
	}
	s.Ran.Add(fmt.Sprint(m.Tone, m.Limit, m.Words, m.Voice))
	m.Words["spoiled"] = "yes" // of this copy
	return nil
}

func TestARunIsConfiguredOverTheDefaults(t *testing.T) {
	b := graph.New[trail]("g")
	b.AddNode("a", told).AddNode("b", told).AddSequence(graph.Start, "a", "b")
	defaults := plainly()
	g := compile(t, b, graph.Configurable(defaults), graph.Configure(func(m *manner) { m.Limit++ }))
	run := func(opts ...graph.RunOption) string {
		t.Helper()
		all := must[*graph.Snapshot[trail]](t)(g.Invoke(bg, nil, opts...)).State.Ran.All()
		first := ""
		for _, one := range all {
			if first != "" {
				equal(t, "both nodes", one, first)
			}
			first = one
		}
		return first
	}
	equal(t, "defaults", run(), "plain4 map[hi:hello] {440 false}")
	equal(t, "in Go", run(graph.Configure(func(m *manner) { m.Tone, m.Words["hi"] = "dry "+m.Tone, "hey" })), "dry plain4 map[hi:hey] {440 false}")
	equal(t, "in JSON", run(graph.ConfigureJSON(json.RawMessage(`{"tone": "loud", "voice": {"soft": true}, "words": {"yo": "you"}}`))), "loud4 map[hi:hello yo:you] {440 true}")
	equal(t, "both", run(graph.ConfigureJSON(json.RawMessage(`{"limit": 7}`)), graph.Configure(func(m *manner) { m.Limit *= 2 }), graph.Configure[manner](nil)), "plain14 map[hi:hello] {440 false}")
	equal(t, "afterwards", run(), "plain4 map[hi:hello] {440 false}")
}

func TestAConfigurationThatDoesNotFitIsRefused(t *testing.T) {
	ran := false
	b := one(func(context.Context, *trail) error { ran = true; return nil })
	g := compile(t, b, graph.Configurable(plainly()))
	for data, want := range map[string]string{
		`{"tnoe": "dry"}`:            `field "tnoe": unknown field; did you mean "tone"?`,
		`{"tone": 5}`:                `field "tone": must be a string`,
		`{"limit": 500}`:             `field "limit": must be at most 127`,
		`{"voice": {"pich": 5}}`:     `field "voice.pich": unknown field; did you mean "pitch"?`,
		`{"tone": "a", "tone": "b"}`: `field "tone": it is there twice`,
		`"dry"`:                      `configuration: must be an object`,
		`{`:                          `configuration: unexpected end`,
	} {
		_, err := g.Invoke(bg, nil, graph.ConfigureJSON(json.RawMessage(data)))
		if e := wantErr[*graph.ConfigError](t, err); e.Type != "graph_test.manner" || !strings.Contains(e.Error(), want) {
			t.Errorf("%s: %v", data, e)
		}
		if err := g.CheckJSON(graph.JSONConfig, []byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("check of %s: %v", data, err)
		}
	}
	_, err := g.Invoke(bg, nil, graph.ConfigureJSON(json.RawMessage(`{"tnoe": "dry"}`)))
	equal(t, "path", wantErr[*graph.InputError](t, err).Path, "tnoe")
	_, err = g.Invoke(bg, nil, graph.Configure(func(*form) {}))
	equal(t, "another type", wantErr[*graph.ConfigError](t, err).Type, "graph_test.form")
	none := compile(t, b)
	for _, o := range []graph.RunOption{graph.Configure(func(*manner) {}), graph.ConfigureJSON(json.RawMessage(`{}`))} {
		_, err = none.Invoke(bg, nil, o)
		wantErr[*graph.ConfigError](t, err)
	}
	if ran {
		t.Error("a run was not refused")
	}
	if err := none.CheckJSON(graph.JSONConfig, []byte(`{}`)); err == nil {
		t.Error("a graph without a configuration takes one")
	}
}

func TestTheSchemaOfAConfigurationTellsTheDefaultsAndRequiresNothing(t *testing.T) {
	b := one(func(context.Context, *trail) error { return nil })
	var s struct {
		Required   []string
		Properties map[string]struct {
			Default    any
			Required   []string
			Properties map[string]struct{ Default any }
		}
	}
	if err := json.Unmarshal(must[json.RawMessage](t)(compile(t, b, graph.Configurable(plainly())).JSONSchema(graph.JSONConfig)), &s); err != nil {
		t.Fatal(err)
	}
	equal(t, "tone", fmt.Sprint(s.Properties["tone"].Default, s.Properties["voice"].Properties["pitch"].Default), "plain440")
	equal(t, "required", len(s.Required)+len(s.Properties["voice"].Required), 0)
	if none := must[json.RawMessage](t)(compile(t, b).JSONSchema(graph.JSONConfig)); none != nil {
		t.Errorf("without a configuration: %s", none)
	}
}

func TestASubgraphHasTheConfigurationOfTheRunOrItsOwnDefaults(t *testing.T) {
	inner := compile(t, one(told), graph.Configurable(plainly()))
	silent := compile(t, one(told))
	nest := func(child *graph.Graph[trail]) *graph.Builder[trail] {
		b := graph.New[trail]("outer")
		graph.AddSubgraph(b, "sub", child, graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.Note = c.ran() }})
		return b.AddEdge(graph.Start, "sub")
	}
	type other struct{ Level int }
	louder := graph.Configure(func(m *manner) { m.Tone = "loud" })
	for name, tt := range map[string]struct {
		g    *graph.Graph[trail]
		opts []graph.RunOption
		want string
	}{
		"the run's":                         {compile(t, nest(inner), graph.Configurable(plainly())), []graph.RunOption{louder}, "loud3"},
		"the run's, which it does not have": {compile(t, nest(silent), graph.Configurable(plainly())), []graph.RunOption{louder}, "loud3"},
		"its own":                           {compile(t, nest(inner)), nil, "plain3"},
		"its own beside another":            {compile(t, nest(inner), graph.Configurable(other{5})), nil, "plain3"},
		"that around it":                    {compile(t, nest(compile(t, nest(silent), graph.Configurable(plainly()))), graph.Configurable(other{5})), nil, ""},
	} {
		snap, err := tt.g.Invoke(bg, nil, tt.opts...)
		if err != nil || !strings.HasPrefix(snap.State.Note, tt.want) {
			t.Errorf("%s: %q, %v", name, snap.State.Note, err)
		}
	}
	_, err := compile(t, nest(silent)).Invoke(bg, nil)
	wantErr[*graph.ConfigError](t, err)
}

func TestAGraphHasOneConfigurationThatJSONCanHold(t *testing.T) {
	b := one(func(context.Context, *trail) error { return nil })
	for name, opts := range map[string][]graph.Option{
		"two types":  {graph.Configurable(plainly()), graph.Configurable(form{})},
		"a function": {graph.Configurable(struct{ F func() }{})},
		"a number":   {graph.Configurable(5)},
	} {
		_, err := b.Compile(opts...)
		var ce *graph.CompileError
		if !errors.As(err, &ce) || !strings.Contains(err.Error(), "Configurable") {
			t.Errorf("%s: %v", name, err)
		}
	}
	open := compile(t, one(func(ctx context.Context, s *trail) error {
		m, err := graph.Configured[map[string]int](ctx)
		s.N = m["a"] + m["b"]
		return err
	}), graph.Configurable(map[string]int{"a": 1}))
	equal(t, "a map", must[*graph.Snapshot[trail]](t)(open.Invoke(bg, nil, graph.ConfigureJSON(json.RawMessage(`{"b": 2}`)))).State.N, 3)
}
