package assistant_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/dialoguetest"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/examples/banking"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/race"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// kept are conversations on threads of a store that is opened anew for each input.
type kept struct {
	t     *testing.T
	open  func() (checkpoint.Store, error)
	stays bool // the process isn't another for each input
	store checkpoint.Store

	talks map[string]*talk      // by thread
	read  map[string]understood // what was read without a model, by message
}

type understood struct {
	commands []dialogue.Command
	ok       bool
}

type talk struct {
	k      *kept
	thread string
	p      *program.Program
	w      dialoguetest.World

	changed bool // the program, in between

	a     *assistant.Assistant
	store checkpoint.Store // that it is of
}

func (k *kept) conversation(thread string, p *program.Program, w dialoguetest.World) (dialoguetest.Conversation, error) {
	c := &talk{k: k, thread: thread, p: p, w: w}
	if k.talks == nil {
		k.talks, k.read = map[string]*talk{}, map[string]understood{}
	}
	if was := k.talks[thread]; was != nil {
		c.changed = was.changed || was.p != p
	}
	k.talks[thread] = c
	return c, nil
}

// scripted does for an assistant what a scenario says.
type scripted struct{ dialoguetest.World }

func (s scripted) Understand(_ context.Context, in dialogue.Understand) ([]dialogue.Command, error) {
	return s.World.Understand(in)
}
func (s scripted) Do(_ context.Context, call dialogue.ActionCall) dialogue.Result {
	return s.World.Do(call)
}
func (s scripted) Validate(_ context.Context, v dialogue.Validation) dialogue.Validated {
	return s.World.Validate(v)
}
func (s scripted) Check(*program.Program) error { return nil }
func (s scripted) Generate(_ context.Context, call dialogue.ModelCall) dialogue.Answer {
	return s.World.Generate(call)
}

func (c *talk) assistant(store checkpoint.Store) (*assistant.Assistant, error) {
	s := scripted{c.w}
	return assistant.New(assistant.Config{
		Program: c.p, Understanding: s, Actions: s, Generation: s, Now: s.Now, Store: store,
		Read: func(p *program.Program, d dialogue.State, in dialogue.Message) ([]dialogue.Command, bool) {
			cmds, ok := s.Read(p, d, in)
			c.k.read[c.message(in)] = understood{cmds, ok}
			return cmds, ok
		},
	}, graph.RecordOnce())
}

func (c *talk) message(in dialogue.Message) string { return fmt.Sprint(c.thread, in.Time, in.Text) }

// again is an assistant that has nothing but what was recorded.
func (c *talk) again() (*assistant.Assistant, error) {
	return assistant.New(assistant.Config{
		Program: c.p, Understanding: nothing{}, Actions: nothing{}, Generation: nothing{}, Now: c.w.Now,
		Read: func(_ *program.Program, _ dialogue.State, in dialogue.Message) ([]dialogue.Command, bool) {
			h := c.k.read[c.message(in)]
			return h.commands, h.ok
		},
	})
}

// nothing is there in a replay: neither a model nor an action.
type nothing struct{}

var errNothing = errors.New("called in a replay")

func (nothing) Understand(context.Context, dialogue.Understand) ([]dialogue.Command, error) {
	return nil, errNothing
}
func (nothing) Do(context.Context, dialogue.ActionCall) dialogue.Result {
	return dialogue.Result{Error: &dialogue.Failure{Type: "replayed", Message: errNothing.Error()}}
}
func (nothing) Validate(context.Context, dialogue.Validation) dialogue.Validated {
	return dialogue.Validated{Error: &dialogue.Failure{Type: "replayed", Message: errNothing.Error()}}
}
func (nothing) Check(*program.Program) error { return nil }
func (nothing) Generate(context.Context, dialogue.ModelCall) dialogue.Answer {
	return dialogue.Answer{Error: &dialogue.Failure{Type: "replayed", Message: errNothing.Error()}}
}

// restart ends the process.
func (k *kept) restart() error {
	if k.stays || k.store == nil {
		return nil
	}
	err := k.store.Close()
	k.store = nil
	return err
}

func (c *talk) with(f func(a *assistant.Assistant) error) (err error) {
	k := c.k
	if k.store == nil {
		if k.store, err = k.open(); err != nil {
			return err
		}
		k.t.Cleanup(func() { // the last one's is closed
			if err := k.restart(); err != nil {
				k.t.Error(err)
			}
		})
	}
	if c.a == nil || c.store != k.store {
		if c.a, err = c.assistant(k.store); err != nil {
			return err
		}
		c.store = k.store
	}
	return f(c.a)
}

func (c *talk) Take(in dialogue.Input) (r dialogue.Reply, err error) {
	if err := c.k.restart(); err != nil {
		return r, err
	}
	err = c.with(func(a *assistant.Assistant) (err error) {
		ctx := c.k.t.Context()
		switch in := in.(type) {
		case dialogue.Message:
			r, err = a.Say(ctx, c.thread, in)
		case dialogue.Event:
			r, err = a.Take(ctx, c.thread, assistant.Input{Event: &in})
		case dialogue.Release:
			r, err = a.Take(ctx, c.thread, assistant.Input{Release: &in})
		case dialogue.Operator:
			r, err = a.Take(ctx, c.thread, assistant.Input{Operator: &in})
		case dialogue.Wake:
			r, err = a.Wake(ctx, c.thread)
		default:
			err = fmt.Errorf("no input: %T", in)
		}
		return err
	})
	return r, err
}

func (c *talk) State() (s dialogue.State, err error) {
	err = c.with(func(a *assistant.Assistant) (err error) {
		s, err = a.State(c.k.t.Context(), c.thread)
		return err
	})
	return s, err
}

func runner(t *testing.T) *dialoguetest.Runner {
	t.Helper()
	code, err := new(banking.Bank).Code()
	if err != nil {
		t.Fatal(err)
	}
	return &dialoguetest.Runner{
		Assistant: func(name string) ([]program.File, error) {
			if name != "" {
				return nil, fmt.Errorf("there is no assistant %q", name)
			}
			return program.ReadDir(banking.Files)
		},
		Actions: code,
	}
}

func scenarios(t *testing.T, files ...string) []dialoguetest.Scenario {
	t.Helper()
	var all []dialoguetest.Scenario
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join("..", "dialoguetest", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		list, err := dialoguetest.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
	}
	return slices.DeleteFunc(all, func(s dialoguetest.Scenario) bool { return s.Check != nil })
}

// sample returns all of a list; with the race detector, under which it takes many times
// as long, only the k-th part of n.
func sample(all []dialoguetest.Scenario, k, n int) []dialoguetest.Scenario {
	if !race.Enabled {
		return all
	}
	var part []dialoguetest.Scenario
	for i, s := range all {
		if i%n == k {
			part = append(part, s)
		}
	}
	return part
}

func TestEveryScenarioHoldsOnThreads(t *testing.T) {
	memory := func(t *testing.T) *kept {
		m := checkpoint.NewMemory()
		return &kept{t: t, open: func() (checkpoint.Store, error) { return m, nil }, stays: true}
	}
	ways := []struct {
		name string
		open func(t *testing.T) *kept
		set  func(r *dialoguetest.Runner)
		few  bool // only those of the specification: opening takes long
	}{
		{name: "in memory", open: memory},
		{name: "every message twice", open: memory, set: func(r *dialoguetest.Runner) { r.Twice = true }},
		{name: "beside another user", open: memory, set: func(r *dialoguetest.Runner) { r.Beside = true }},
		{name: "sqlite, restarted before each input", open: func(t *testing.T) *kept {
			path := filepath.Join(t.TempDir(), "threads.db")
			return &kept{t: t, open: func() (checkpoint.Store, error) { return sqlite.Open(path) }}
		}},
		{name: "files, restarted before each input", open: func(t *testing.T) *kept {
			dir := t.TempDir()
			return &kept{t: t, open: func() (checkpoint.Store, error) { return file.Open(dir, file.Options{}) }}
		}},
		{name: "postgres, restarted before each input", few: true, open: func(t *testing.T) *kept {
			url := servertest.Postgres(t)
			return &kept{t: t, open: func() (checkpoint.Store, error) { return postgres.Open(t.Context(), url) }}
		}},
	}
	all := scenarios(t, "scenarios.yaml", "more.yaml")
	for w, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			list := scenarios(t, "scenarios.yaml")
			if !way.few {
				list = append(list, sample(scenarios(t, "more.yaml"), w, len(ways)-1)...)
			}
			k := way.open(t)
			r := runner(t)
			r.Open = k.conversation
			if way.set != nil {
				way.set(r)
			}
			for _, s := range list {
				t.Run(s.ID, func(t *testing.T) {
					for _, f := range r.Run(s, all) {
						t.Error(f)
					}
				})
			}
		})
	}
}

func TestEveryScenarioIsReplayedFromItsRecording(t *testing.T) {
	store := checkpoint.NewMemory()
	k := &kept{t: t, open: func() (checkpoint.Store, error) { return store, nil }, stays: true}
	r := runner(t)
	r.Open = k.conversation
	all := scenarios(t, "scenarios.yaml", "more.yaml")
	list := append(scenarios(t, "scenarios.yaml"), sample(scenarios(t, "more.yaml"), 0, 2)...)
	for _, s := range list {
		r.Run(s, all)
	}
	if len(k.talks) < len(list) {
		t.Fatalf("%d conversations of %d scenarios", len(k.talks), len(list))
	}
	for thread, c := range k.talks {
		if c.changed { // what an earlier program did isn't done by the later one
			continue
		}
		t.Run(thread, func(t *testing.T) {
			var file bytes.Buffer
			if err := recording.Export(t.Context(), store, checkpoint.ThreadID(thread), &file); err != nil {
				t.Fatal(err)
			}
			rec, err := recording.Read(&file)
			if err != nil {
				t.Fatal(err)
			}
			a, err := c.again()
			if err != nil {
				t.Fatal(err)
			}
			for d, err := range a.Graph().Replay(t.Context(), rec, graph.ReplayOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				t.Errorf("%v", d)
			}
		})
	}
}

// Every conversation can be made a test, which holds and tells no secret.
func TestEveryConversationBecomesATest(t *testing.T) {
	store := checkpoint.NewMemory()
	k := &kept{t: t, open: func() (checkpoint.Store, error) { return store, nil }, stays: true}
	r := runner(t)
	r.Open = k.conversation
	all := scenarios(t, "scenarios.yaml", "more.yaml")
	list := append(scenarios(t, "scenarios.yaml"), sample(scenarios(t, "more.yaml"), 1, 2)...)
	secrets := map[string][]string{}
	for _, s := range list {
		r.Run(s, all)
		for _, turn := range s.Turns {
			secrets[s.ID] = append(secrets[s.ID], turn.Hidden...)
		}
	}
	tested := 0
	for thread, c := range k.talks {
		if c.changed { // a test has one program
			continue
		}
		t.Run(thread, func(t *testing.T) {
			a, err := c.again()
			if err != nil {
				t.Fatal(err)
			}
			turns, err := assistant.Turns(t.Context(), a.Graph().Thread(thread, graph.WithCheckpointer(store)), c.p, assistant.TurnQuery{})
			if err != nil {
				t.Fatal(err)
			}
			if len(turns) == 0 {
				return // its only message could not be understood
			}
			x, err := dialoguetest.Export(thread, c.p, turns)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range x.Failures {
				t.Error(f)
			}
			id, _, _ := strings.Cut(thread, "/")
			for _, secret := range secrets[id] {
				if strings.Contains(x.Text, secret) {
					t.Errorf("it tells %q", secret)
				}
			}
			if t.Failed() {
				t.Log("\n" + x.Text)
			}
			tested++
		})
	}
	if tested < len(list)*2/3 {
		t.Errorf("%d conversations became tests", tested)
	}
}
