package dialoguetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/internal/yamlvalue"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// Actions run actions and validators: an [action.Set], for example.
type Actions interface {
	Do(ctx context.Context, call dialogue.ActionCall) dialogue.Result
	Validate(ctx context.Context, v dialogue.Validation) dialogue.Validated
}

// Runner runs scenarios, one at a time.
type Runner struct {
	// Assistant returns the files of an assistant by the name that scenarios give it,
	// which is empty where they give none.
	Assistant func(name string) ([]program.File, error)
	// Actions are those of the assistants: they are run where a scenario has neither a
	// program of its own nor a stub. They find the user in [action.CallOf].
	Actions Actions
	// Restart has every state leave memory: it is written as JSON and read again after
	// each input.
	Restart bool
	// Twice delivers every message twice.
	Twice bool
	// Beside has a second user say the same things in between.
	Beside bool
	// Program returns the program that takes an input of the conversation, the nth from 0,
	// given the one with which it began and its files. Nil leaves that one.
	Program func(n int, p *program.Program, files []program.File) (*program.Program, error)

	// Open opens the conversation of a thread, as it is kept, where it isn't to be held
	// in memory alone. It is opened anew for each input.
	Open func(thread string, p *program.Program, w World) (Conversation, error)

	// Coverage, if it isn't nil, notes what scenarios reach of the assistant that they
	// don't name.
	Coverage *Coverage

	compiled map[string]assistant // as they are, by name
}

// assistant is a program with its files.
type assistant struct {
	program *program.Program
	files   []program.File
}

// Conversation is where the conversation with one user is held.
type Conversation interface {
	// Take takes an input and does what follows until the turn ends.
	Take(in dialogue.Input) (dialogue.Reply, error)
	State() (dialogue.State, error)
}

// World does what a conversation asks for, as the scenario says.
type World interface {
	Now() time.Time
	// Read understands a message without a model, and Understand with one.
	Read(p *program.Program, s dialogue.State, in dialogue.Message) ([]dialogue.Command, bool)
	Understand(u dialogue.Understand) ([]dialogue.Command, error)
	// Do makes one attempt.
	Do(call dialogue.ActionCall) dialogue.Result
	Validate(v dialogue.Validation) dialogue.Validated
	Generate(call dialogue.ModelCall) dialogue.Answer
}

// clock is the time at which scenarios begin.
var clock = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// Run runs one scenario and returns what it should have seen and didn't. The others are
// those that it may name as its setup.
func (r *Runner) Run(s Scenario, others []Scenario) []string {
	if s.Check != nil {
		return r.check(s)
	}
	run := &run{runner: r, scenario: s, start: clock}
	run.now = run.start
	if err := run.compile(); err != nil {
		return []string{err.Error()}
	}
	if s.Setup != "" {
		id, span, _ := strings.Cut(s.Setup, " ")
		i := slices.IndexFunc(others, func(o Scenario) bool { return o.ID == id })
		if i < 0 {
			return []string{fmt.Sprintf("setup: there is no scenario %q", id)}
		}
		turns := others[i].Turns
		if span != "" {
			from, to, _ := strings.Cut(span, "-")
			a, errA := strconv.Atoi(from)
			b, errB := strconv.Atoi(to)
			if errA != nil || errB != nil || a < 1 || b > len(turns) || a > b {
				return []string{fmt.Sprintf("setup: %q is no span of turns of %s", span, id)}
			}
			turns = turns[a-1 : b]
		}
		for i, t := range turns {
			run.turn(fmt.Sprintf("setup turn %d", i+1), t)
		}
		if len(run.failures) > 0 {
			return run.failures
		}
	}
	for i, t := range s.Turns {
		run.turn(fmt.Sprintf("turn %d", i+1), t)
	}
	return run.failures
}

// Compile returns the program and the files that a scenario is about.
func (r *Runner) Compile(s Scenario) (*program.Program, []program.File, error) {
	run := &run{runner: r, scenario: s}
	err := run.compile()
	return run.program, run.files, err
}

func (r *Runner) check(s Scenario) []string {
	var files []program.File
	for name, text := range s.Check.Files {
		files = append(files, program.File{Name: name, Text: []byte(text)})
	}
	_, err := program.Compile(files...)
	var findings program.Findings
	errors.As(err, &findings)
	var lines, out []string
	for _, f := range findings.Errors() {
		lines = append(lines, f.String())
	}
	for _, want := range s.Check.Errors {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, want) })
		if i < 0 {
			out = append(out, "no finding: "+want)
			continue
		}
		lines = slices.Delete(lines, i, i+1)
	}
	for _, l := range lines {
		out = append(out, "unexpected finding: "+l)
	}
	return out
}

// run is one scenario under way.
type run struct {
	runner   *Runner
	scenario Scenario
	assistant
	inputs   int // so far
	start    time.Time
	now      time.Time
	talks    map[string]*talk
	failures []string
	messages int
	mu       sync.Mutex
}

// talk is the conversation with one user.
type talk struct {
	user    string
	thread  string
	state   dialogue.State
	ledger  map[string]string // action by key
	first   string            // the first question's id
	last    string
	replies []dialogue.Reply
	prompts []string
	stubs   map[string]int // answers given so far
}

// seen is what one turn showed.
type seen struct {
	reply    dialogue.Reply
	text     []string
	says     []string
	calls    []dialogue.ActionCall
	nluCalls int
	err      error
	before   int // turns when it began
}

func (r *run) failf(where, format string, args ...any) {
	r.failures = append(r.failures, where+": "+fmt.Sprintf(format, args...))
}

func (r *run) compile() error {
	s := r.scenario
	var files []program.File
	if !s.Program.IsZero() {
		text, err := yaml.Marshal(&s.Program)
		if err != nil {
			return err
		}
		files = []program.File{{Name: s.ID + ".yaml", Text: text}}
	} else {
		name := s.Assistant
		if r.runner.Assistant == nil {
			return fmt.Errorf("there is no assistant %q", name)
		}
		plain := s.Config.IsZero()
		if known, ok := r.runner.compiled[name]; ok && plain {
			r.assistant = known
			return nil
		}
		var err error
		if files, err = r.runner.Assistant(name); err != nil {
			return err
		}
		if plain {
			defer func() {
				if r.runner.compiled == nil {
					r.runner.compiled = map[string]assistant{}
				}
				r.runner.compiled[name] = r.assistant
			}()
		}
	}
	if !s.Config.IsZero() {
		var err error
		if files, err = overlay(files, &s.Config); err != nil {
			return err
		}
	}
	p, err := program.Compile(files...)
	if err == nil && r.runner.Coverage != nil { // the whole of a turn is looked at
		all := *p
		all.Settings.TraceEvents = math.MaxInt32
		p = &all
	}
	r.assistant = assistant{p, files}
	return err
}

// overlay lays a map over the top level of the files: maps are merged, everything else
// is replaced where it is written.
func overlay(files []program.File, over *yaml.Node) ([]program.File, error) {
	files = slices.Clone(files)
	roots := make([]yaml.Node, len(files))
	for i, f := range files {
		if err := yaml.Unmarshal(f.Text, &roots[i]); err != nil {
			return nil, err
		}
	}
	for key, value := range yamlvalue.Pairs(yamlvalue.Follow(over)) {
		placed := false
		for i := range roots {
			if root := rootOf(&roots[i]); root != nil && get(root, key.Value) != nil {
				merge(root, key, value)
				placed = true
				break
			}
		}
		for i := 0; i < len(roots) && !placed; i++ {
			if root := rootOf(&roots[i]); root != nil {
				merge(root, key, value)
				placed = true
			}
		}
		if !placed {
			return nil, errors.New("config: the assistant has no file with a map to lay it over")
		}
	}
	for i := range roots {
		text, err := yaml.Marshal(&roots[i])
		if err != nil {
			return nil, err
		}
		files[i].Text = text
	}
	return files, nil
}

// rootOf returns the map that a file is, nil if it is none.
func rootOf(doc *yaml.Node) *yaml.Node {
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	return doc.Content[0]
}

// get returns a value as it is written: what an alias stands for is laid over nowhere else.
func get(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

func merge(m, key, value *yaml.Node) {
	old := get(m, key.Value)
	value = yamlvalue.Follow(value)
	switch {
	case old == nil:
		m.Content = append(m.Content, key, value)
	case old.Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
		for k, v := range yamlvalue.Pairs(value) {
			merge(old, k, v)
		}
	default:
		*old = *value
	}
}

// first is the user of turns that name none.
const first = "alice"

func (r *run) talk(user string) *talk {
	if user == "" {
		user = first
	}
	if r.talks == nil {
		r.talks = map[string]*talk{}
	}
	t := r.talks[user]
	if t == nil {
		thread := r.scenario.ID + "/" + user
		if given := r.scenario.Thread; given != "" {
			if thread = given; user != first {
				thread += "/" + user
			}
		}
		t = &talk{user: user, thread: thread, state: dialogue.New(thread), ledger: map[string]string{}}
		r.talks[user] = t
	}
	return t
}

// turn plays one turn and compares it with what is expected.
func (r *run) turn(where string, t Turn) {
	if p := get(&t.Restart, "program"); p != nil {
		old := r.program
		r.scenario.Program = *p
		if err := r.compile(); err != nil {
			r.failf(where, "%v", err)
			return
		}
		if stored := get(&t.Restart, "stored"); stored != nil && stored.Value == "true" {
			r.program = r.program.With(old)
		}
	}
	if t.Clock != "" {
		d, err := duration(t.Clock)
		if err != nil {
			r.failf(where, "clock: %v", err)
			return
		}
		r.now = r.now.Add(d)
	}
	r.now = r.now.Add(time.Second)
	if r.runner.Beside && t.By == "" {
		other := t
		other.By = "std-beside"
		r.play(where, other, r.talk(other.By))
	}
	user := r.talk(t.By)
	s := r.play(where, t, user)
	user.replies = append(user.replies, s.reply)
	r.compare(where, t, user, s)
}

// play makes the turn happen.
func (r *run) play(where string, t Turn, user *talk) *seen {
	s := &seen{before: user.state.TurnCount}
	for { // what is due fires first
		due, ok := user.state.Due()
		if !ok || due.After(r.now) {
			break
		}
		if !r.advance(where, user, dialogue.Wake{Time: due}, t, s) {
			return s
		}
	}
	switch {
	case t.Event != nil:
		for name, fields := range t.Event {
			values := map[string]expr.Value{}
			v := yamlvalue.Of(&fields)
			for _, k := range v.Keys() {
				values[k], _ = v.Get(k)
			}
			var in dialogue.Input = dialogue.Event{Name: name, Fields: values, Time: r.now}
			if name == "release" {
				slots := map[string]expr.Value{}
				for _, k := range values["slots"].Keys() {
					slots[k], _ = values["slots"].Get(k)
				}
				in = dialogue.Release{Summary: values["summary"].String(), Slots: slots, Time: r.now}
			}
			if name == "operator" {
				in = dialogue.Operator{Text: values["text"].String(), Time: r.now}
			}
			r.advance(where, user, in, t, s)
		}
	case t.U != nil:
		r.messages++
		in := dialogue.Message{ID: t.ID, Text: *t.U, Language: t.Lang, Channel: t.Channel, Time: r.now}
		if in.ID == "" {
			in.ID = fmt.Sprintf("m-%d", r.messages)
		}
		if t.Button != "" {
			switch t.Button {
			case "last":
				in.Question = user.last
			case "first":
				in.Question = user.first
			case "none":
			default:
				in.Question = t.Button
			}
			cmds, given, err := t.commands()
			if err != nil {
				r.failf(where, "%v", err)
				return s
			}
			if in.Commands = cmds; !given {
				in.Commands, _ = dialogue.Read(r.program, user.state, in)
			}
		}
		if !r.advance(where, user, in, t, s) || !r.runner.Twice {
			return s
		}
		again := &seen{}
		r.advance(where, user, in, t, again)
		if again.reply.Text != s.reply.Text || len(again.calls) > 0 {
			r.failf(where, "the message delivered twice was answered %q, then %q, with %d calls", s.reply.Text, again.reply.Text, len(again.calls))
		}
	}
	return s
}

// advance gives one input and does what follows until the turn ends.
func (r *run) advance(where string, user *talk, in dialogue.Input, t Turn, s *seen) bool {
	w := &world{r, where, user, t, s}
	var c Conversation = &inMemory{w, s}
	if r.runner.Open != nil {
		var err error
		if c, err = r.runner.Open(user.thread, r.program, w); err != nil {
			r.failf(where, "the conversation can't be opened: %v", err)
			return false
		}
	}
	reply, err := c.Take(in)
	state, failed := c.State()
	if failed != nil {
		r.failf(where, "the conversation can't be read: %v", failed)
		return false
	}
	user.state = state
	if r.runner.Coverage != nil && r.scenario.Program.IsZero() && r.scenario.Assistant == "" {
		r.runner.Coverage.see(state.Trace, reply)
	}
	if s.err = err; err != nil {
		return false
	}
	s.replied(reply)
	if w := reply.Waiting; w != nil {
		if user.last = w.ID; user.first == "" {
			user.first = w.ID
		}
	}
	return true
}

func (s *seen) replied(r dialogue.Reply) {
	s.reply = r
	if r.Text != "" {
		s.text = append(s.text, r.Text)
	}
	for _, m := range r.Messages {
		if m.Response != "" {
			s.says = append(s.says, m.Response)
		}
	}
}

// inMemory is a conversation that no more than a variable holds.
type inMemory struct {
	*world
	s *seen
}

func (c *inMemory) State() (dialogue.State, error) { return c.user.state, nil }

func (c *inMemory) Take(in dialogue.Input) (reply dialogue.Reply, err error) {
	r, user := c.r, c.user
	inputs := []dialogue.Input{in}
	for n := 0; len(inputs) > 0; n++ {
		if n > 10_000 {
			return reply, errors.New("the turn doesn't end")
		}
		in, inputs = inputs[0], inputs[1:]
		p := r.program
		if r.runner.Program != nil {
			changed, err := r.runner.Program(r.inputs, r.program, r.files)
			if err != nil {
				return reply, err
			}
			p = cmp.Or(changed, p)
		}
		r.inputs++
		state, effects, err := dialogue.Advance(p, user.state, in)
		if err != nil {
			user.state = state
			return reply, err
		}
		user.state = r.stored(c.where, state)
		for _, e := range effects {
			switch {
			case e.Understand != nil:
				u := dialogue.Understood{}
				cmds, ok := c.Read(p, user.state, e.Understand.Message)
				if u.Commands = cmds; !ok {
					u.Time = r.now
					u.Commands, u.Err = c.Understand(*e.Understand)
				}
				inputs = append(inputs, u)
			case e.Action != nil:
				inputs = append(inputs, c.act(*e.Action))
			case e.Validate != nil:
				inputs = append(inputs, c.Validate(*e.Validate))
			case e.Model != nil:
				inputs = append(inputs, c.Generate(*e.Model))
			case e.Reply != nil:
				reply = *e.Reply
			}
		}
	}
	return reply, nil
}

// world is what the scenario says in one of its turns.
type world struct {
	r     *run
	where string
	user  *talk
	t     Turn
	s     *seen
}

func (w *world) Now() time.Time { return w.r.now }

func (w *world) Read(p *program.Program, s dialogue.State, in dialogue.Message) ([]dialogue.Command, bool) {
	cmds, ok := dialogue.Read(p, s, in)
	if !ok || w.t.Cmd != nil && w.t.Cmd.Fails {
		return nil, false
	}
	// Where the scenario says something else, its model is asked.
	want, given, err := w.t.commands()
	if err != nil || !given {
		return cmds, err == nil
	}
	a, errA := json.Marshal(want)
	b, errB := json.Marshal(cmds)
	return cmds, errA == nil && errB == nil && string(a) == string(b)
}

func (w *world) Understand(u dialogue.Understand) ([]dialogue.Command, error) {
	w.s.nluCalls++
	w.prompt(u)
	if w.t.Cmd != nil && w.t.Cmd.Fails {
		return nil, errors.New("the model can't be reached")
	}
	cmds, given, err := w.t.commands()
	switch {
	case err != nil:
		w.r.failf(w.where, "%v", err)
	case !given && u.Asked != nil && u.Asked.Kind == dialogue.AskCollect:
		cmds = []dialogue.Command{{Type: dialogue.SetSlot, Slot: u.Asked.Slot, Value: expr.Str(u.Message.Text)}}
	}
	return cmds, err
}

func (w *world) prompt(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		w.r.failf(w.where, "%v", err)
	}
	w.user.prompts = append(w.user.prompts, string(text))
}

func (w *world) Do(call dialogue.ActionCall) dialogue.Result {
	w.r.mu.Lock() // actions may run at once
	defer w.r.mu.Unlock()
	w.s.calls = append(w.s.calls, call)
	res := w.r.once(w.where, w.user, call)
	res.ID = call.ID
	if res.Error == nil && call.Effect != program.Read {
		w.user.ledger[call.ID] = call.Action
	}
	return res
}

// validating stands before the names of validators in stubs.
const validating = "validate "

func (w *world) Validate(v dialogue.Validation) dialogue.Validated {
	out := dialogue.Validated{ID: v.ID, Value: v.Value}
	name := validating + v.Validator
	if list := w.r.scenario.Stub[name]; len(list) > 0 {
		n := w.user.stub(name, list)
		a, err := answerOf(n)
		if err != nil {
			w.r.failf(w.where, "stub %s: %v", name, err)
		}
		if kept, ok := a.outputs["keep"]; ok {
			out.Value = kept
		}
		out.Reason, out.Error = a.outputs["refuse"].String(), a.failure
		return out
	}
	if w.r.coded() {
		out = w.r.runner.Actions.Validate(of(w.user), v)
	}
	return out
}

func (w *world) Generate(call dialogue.ModelCall) dialogue.Answer {
	w.prompt(call)
	return w.r.model(w.where, w.user, call)
}

// stored returns the state as it comes back from where it is kept.
func (r *run) stored(where string, s dialogue.State) dialogue.State {
	if !r.runner.Restart {
		return s
	}
	text, err := json.Marshal(s)
	if err != nil {
		r.failf(where, "the state can't be written: %v", err)
		return s
	}
	var back dialogue.State
	if err := json.Unmarshal(text, &back); err != nil {
		r.failf(where, "the state can't be read: %v", err)
		return s
	}
	return back
}

// commands are what the turn says that understanding returns, if it says so.
func (t *Turn) commands() (cmds []dialogue.Command, given bool, err error) {
	switch {
	case !t.Raw.IsZero():
		text, err := json.Marshal(yamlvalue.Of(&t.Raw))
		if err != nil {
			return nil, true, err
		}
		err = json.Unmarshal(text, &cmds)
		return cmds, true, err
	case t.Cmd != nil:
		for _, text := range t.Cmd.List {
			c, ok, err := Command(text)
			if err != nil {
				return nil, true, err
			}
			if ok {
				cmds = append(cmds, c)
			}
		}
		return cmds, true, nil
	}
	return nil, false, nil
}

// act runs an action with its retries.
func (w *world) act(call dialogue.ActionCall) dialogue.Result {
	for attempt := 1; ; attempt++ {
		res := w.Do(call)
		if res.Error == nil || !call.Retry.Applies(res.Error.Type, attempt) {
			return res
		}
	}
}

func (r *run) once(where string, user *talk, call dialogue.ActionCall) dialogue.Result {
	if list := r.scenario.Stub[call.Action]; len(list) > 0 {
		a, err := answerOf(user.stub(call.Action, list))
		if err != nil {
			r.failf(where, "stub %s: %v", call.Action, err)
		}
		if a.late > 0 && a.late >= call.Timeout {
			return dialogue.Result{Error: &dialogue.Failure{Type: "timeout"}}
		}
		return dialogue.Result{Outputs: a.outputs, Error: a.failure}
	}
	if r.coded() {
		return r.runner.Actions.Do(of(user), call)
	}
	r.failf(where, "action %s was called, and the scenario has no answer of it; write stub: {%s: [{…}]}", call.Action, call.Action)
	return dialogue.Result{Error: &dialogue.Failure{Type: "action_not_found"}}
}

// coded says whether the scenario's assistant has code.
func (r *run) coded() bool { return r.runner.Actions != nil && r.scenario.Program.IsZero() }

// of returns the context of a user's actions.
func of(user *talk) context.Context {
	return action.WithCaller(context.Background(), action.Caller{User: user.user})
}

// stub returns the next answer; the last one repeats.
func (t *talk) stub(name string, list []yaml.Node) yaml.Node {
	if t.stubs == nil {
		t.stubs = map[string]int{}
	}
	n := min(t.stubs[name], len(list)-1)
	t.stubs[name]++
	return list[n]
}

// model answers for the model.
func (r *run) model(where string, user *talk, call dialogue.ModelCall) dialogue.Answer {
	list := r.scenario.Stub["model"]
	if len(list) == 0 {
		r.failf(where, "a model was asked, and the scenario has no answer of it; write stub: {model: [{text: …}]}")
		return dialogue.Answer{ID: call.ID, Error: &dialogue.Failure{Type: "unavailable", Message: "no model"}}
	}
	n := user.stub("model", list)
	v := yamlvalue.Of(&n)
	text, _ := v.Get("text")
	tool, _ := v.Get("tool")
	a := dialogue.Answer{ID: call.ID, Text: text.String(), Tool: tool.String(), Args: map[string]expr.Value{}}
	if kind, failed := v.Get("error"); failed {
		message, _ := v.Get("message")
		a.Error = &dialogue.Failure{Type: kind.String(), Message: message.String()}
	}
	args, _ := v.Get("args")
	for _, k := range args.Keys() {
		a.Args[k], _ = args.Get(k)
	}
	return a
}
