package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/session"
	"github.com/superstep-dev/superstep/tool"
)

type state struct {
	agent.State
	Init int
	Ok   bool
}

var key = session.Key{App: "app", User: "ann", ID: "s1"}

// echo answers with everything that the user has said.
func echo() model.Model {
	return model.Func(func(_ context.Context, req *model.Request) (*model.Response, error) {
		var said []string
		for _, m := range req.Messages {
			if m.Role == chat.RoleUser {
				said = append(said, m.Text())
			}
		}
		return &model.Response{Message: chat.Assistant(strings.Join(said, "; "))}, nil
	})
}

func asks(t *testing.T, l agent.LLM[state], opts ...graph.Option) *graph.Graph[state] {
	t.Helper()
	b := graph.New[state]("talk")
	agent.AddLLM(b, "ask", l)
	b.AddEdge(graph.Start, "ask")
	return compile(t, b, opts...)
}

func compile(t *testing.T, b *graph.Builder[state], opts ...graph.Option) *graph.Graph[state] {
	t.Helper()
	g, err := b.Compile(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func runner(t *testing.T, g *graph.Graph[state], o session.Options[state]) *session.Runner[state] {
	t.Helper()
	r, err := session.NewRunner("app", g, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func memory() graph.ThreadOption { return graph.WithCheckpointer(checkpoint.NewMemory()) }

// run collects the events of a run.
func run(t *testing.T, r *session.Runner[state], id, text string, opts ...session.RunOption) ([]session.Event, error) {
	t.Helper()
	var events []session.Event
	m := chat.User(text)
	if text == "" {
		m = chat.Message{}
	}
	for ev, err := range r.Run(t.Context(), "ann", id, m, opts...) {
		if err != nil {
			if ev.Kind != "" && ev.Kind != session.KindCompletion {
				t.Errorf("an error comes with %s", ev.Kind)
			}
			return append(events, ev), err
		}
		events = append(events, ev)
	}
	if len(events) == 0 || events[len(events)-1].Kind != session.KindCompletion {
		t.Errorf("the run has no completion")
	}
	return events, nil
}

// reply runs and returns the text of the answer.
func reply(t *testing.T, r *session.Runner[state], id, text string, opts ...session.RunOption) string {
	t.Helper()
	events, err := run(t, r, id, text, opts...)
	if err != nil {
		t.Fatal(err)
	}
	if m := events[len(events)-1].Message; m != nil {
		return m.Text()
	}
	return ""
}

func only(events []session.Event, kinds ...session.Kind) []session.Event {
	var out []session.Event
	for _, e := range events {
		if slices.Contains(kinds, e.Kind) {
			out = append(out, e)
		}
	}
	return out
}

// logOf returns what the session has, in one line.
func logOf(t *testing.T, r *session.Runner[state], id string) string {
	t.Helper()
	sess, err := r.Service().Get(t.Context(), session.Key{App: "app", User: "ann", ID: id})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range sess.Events {
		s := string(e.Kind)
		if e.Message != nil {
			s = e.Author + "=" + e.Message.Text()
		}
		out = append(out, s)
	}
	return strings.Join(out, " | ")
}

func TestAGraphRunsAloneThroughARunnerAndAsANode(t *testing.T) { // TRPC-01
	g := asks(t, agent.LLM[state]{Model: echo()})
	snap, err := g.Invoke(t.Context(), agent.Ask[state]("alone"))
	if err != nil || snap.State.LastResponse.Get() != "alone" {
		t.Errorf("alone: %v, %q", err, snap.State.LastResponse.Get())
	}
	if got := reply(t, runner(t, g, session.Options[state]{}), "s1", "runner"); got != "runner" {
		t.Errorf("runner: %q", got)
	}
	b := graph.New[state]("outer")
	graph.AddShared(b, "inner", g, func(s *state) *state { return s })
	b.AddEdge(graph.Start, "inner")
	r := runner(t, compile(t, b), session.Options[state]{})
	events, err := run(t, r, "s1", "node")
	if err != nil {
		t.Fatal(err)
	}
	answers := only(events, session.KindModel)
	if len(answers) != 1 || answers[0].Author != "ask" || !slices.Equal(answers[0].Path, []string{"inner"}) || events[len(events)-1].Message.Text() != "node" {
		t.Errorf("a node: %+v", answers)
	}
	if got := logOf(t, r, "s1"); got != "user=node | inner=node" {
		t.Errorf("the session has %s", got)
	}
	if got := reply(t, r, "s1", "again"); got != "node; again" {
		t.Errorf("a second turn: %q", got)
	}
}

// The members of a chain are told apart by their path, and see the session.
func TestAChainRunsThroughARunner(t *testing.T) { // TRPC-01
	member := func(name, suffix string) *agent.Agent {
		b := graph.New[state](name)
		agent.AddLLM(b, "ask", agent.LLM[state]{
			Instruction: "{temp:greeting}",
			Model: model.Func(func(_ context.Context, req *model.Request) (*model.Response, error) {
				return &model.Response{Message: chat.Assistant(req.Messages[0].Text() + suffix + req.Messages[len(req.Messages)-1].Text())}, nil
			}),
		})
		b.AddEdge(graph.Start, "ask")
		return agent.Of(compile(t, b), "")
	}
	g, err := agent.Chain("chain", []*agent.Agent{member("first", "1 "), member("second", "2 ")}, memory())
	if err != nil {
		t.Fatal(err)
	}
	r, err := session.NewRunner("app", g)
	if err != nil {
		t.Fatal(err)
	}
	var paths, sent []string
	for ev, err := range r.Run(t.Context(), "ann", "s1", chat.User("x"), session.WithValue("temp:greeting", "hi")) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == session.KindDelta && ev.Delta.Content != "" {
			paths = append(paths, strings.Join(append(ev.Path, ev.Author), "/"))
		}
		if ev.Kind == session.KindModel && len(ev.Path) == 0 || ev.Kind == session.KindCompletion {
			sent = append(sent, ev.Author+"="+ev.Message.Text())
		}
	}
	if got := strings.Join(paths, " "); got != "first/ask second/ask" {
		t.Errorf("pieces by %s", got)
	}
	if got := strings.Join(sent, " | "); !strings.HasSuffix(got, "graph-executor=hi2 hi1 x") {
		t.Errorf("answers %s", got)
	}
	sess, err := r.Service().Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range only(sess.Events, session.KindInput, session.KindModel) {
		said = append(said, m.Author+"="+m.Message.Text())
	}
	if got := strings.Join(said, " | "); got != "user=x | first=hi1 x | second=hi2 hi1 x" {
		t.Errorf("the log: %s", got)
	}
}

func TestARunYieldsEventsAndEnds(t *testing.T) { // TRPC-06
	for _, buffer := range []int{0, 1, 256} { // TRPC-09: the buffer
		m := scripted.New(scripted.Text("Hello Ann, how are you?"))
		r := runner(t, asks(t, agent.LLM[state]{Model: m}), session.Options[state]{Buffer: buffer})
		events, err := run(t, r, "s1", "hi")
		if err != nil {
			t.Fatal(err)
		}
		if only(events, session.KindInput)[0].Author != session.AuthorUser || len(only(events, session.KindDelta)) < 2 {
			t.Errorf("buffer %d: %d events", buffer, len(events))
		}
	}
}

func TestLeavingTheLoopEndsTheRun(t *testing.T) { // TRPC-06
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	entered, ended := make(chan struct{}), make(chan struct{})
	b := graph.New[state]("slow")
	b.AddNode("quick", func(_ context.Context, s *state) error { s.Messages.Add(chat.Assistant("done")); return nil })
	b.AddNode("wait", func(ctx context.Context, _ *state) error {
		close(entered)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	})
	b.AddSequence(graph.Start, "quick", "wait")
	var last session.Event
	r := runner(t, compile(t, b, memory()), session.Options[state]{OnEvent: func(ev session.Event) { last = ev }})
	for ev, err := range r.Run(t.Context(), "ann", "s1", chat.User("go")) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == session.KindNodeStart && ev.Node == "wait" {
			<-entered
			break
		}
	}
	<-ended
	if last.Kind != session.KindCompletion || !errors.Is(last.Err, context.Canceled) {
		t.Errorf("the last event: %s, %v", last.Kind, last.Err)
	}
	if got := logOf(t, r, "s1"); got != "user=go | quick=done" {
		t.Errorf("the session has %s", got)
	}
	// The session is free again.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range r.Run(ctx, "ann", "s1", chat.User("go")) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
	}
}

func TestASlowConsumerDoesNotHoldUpOthers(t *testing.T) { // TRPC-06
	r := runner(t, asks(t, agent.LLM[state]{Model: echo()}), session.Options[state]{})
	for ev, err := range r.Run(t.Context(), "ann", "slow", chat.User("x")) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == session.KindDelta {
			if got := reply(t, r, "quick", "y"); got != "y" {
				t.Error(got)
			}
		}
	}
}

func TestASessionRemembers(t *testing.T) { // TRPC-07, C-46
	for name, opts := range map[string][]graph.Option{"from its events": nil, "from the thread": {memory()}} {
		t.Run(name, func(t *testing.T) {
			r := runner(t, asks(t, agent.LLM[state]{Model: echo()}, opts...), session.Options[state]{})
			reply(t, r, "s1", "my name is Ann")
			if got := reply(t, r, "s1", "what is my name?"); got != "my name is Ann; what is my name?" {
				t.Errorf("the same session: %q", got)
			}
			if got := reply(t, r, "s2", "what is my name?"); got != "what is my name?" {
				t.Errorf("another session: %q", got)
			}
			if got := logOf(t, r, "s1"); got != "user=my name is Ann | ask=my name is Ann | user=what is my name? | ask=my name is Ann; what is my name?" {
				t.Errorf("the log: %s", got)
			}
		})
	}
}

func TestOnlyTheNewestEventsCanBeTheConversation(t *testing.T) {
	r := runner(t, asks(t, agent.LLM[state]{Model: echo()}), session.Options[state]{LastEvents: 2})
	for _, text := range []string{"a", "b", "c"} {
		reply(t, r, "s1", text)
	}
	if got := reply(t, r, "s1", "d"); got != "c; d" {
		t.Error(got)
	}
}

// A result of a tool is not shown without its call.
func TestACutConversationBeginsWithNoResult(t *testing.T) {
	m := scripted.New(scripted.Call("multiply", `{"A":6,"B":7}`), scripted.Text("42"), scripted.Text("ok"))
	g, err := agent.New(agent.ReAct[state]{Model: m, Tools: []tool.Tool{multiply()}})
	if err != nil {
		t.Fatal(err)
	}
	r := runner(t, g, session.Options[state]{LastEvents: 2})
	reply(t, r, "s1", "6*7?")
	reply(t, r, "s1", "thanks")
	got := slices.DeleteFunc(m.Last().Messages, func(m chat.Message) bool { return m.Role == chat.RoleSystem })
	if len(got) != 2 || got[0].Text() != "42" {
		t.Errorf("%v", got)
	}
}

func TestTheThreadIsTheTruthAndGetsWhatOnlyTheSessionHas(t *testing.T) { // C-46
	store := checkpoint.NewMemory()
	g := asks(t, agent.LLM[state]{Model: echo()}, graph.WithCheckpointer(store))
	r := runner(t, g, session.Options[state]{})
	reply(t, r, "s1", "a")
	appended := func(text string) {
		t.Helper()
		m := chat.User(text)
		if err := r.Service().AppendEvent(t.Context(), key, &session.Event{Kind: session.KindMessage, Author: "desk", Message: &m}); err != nil {
			t.Fatal(err)
		}
	}
	appended("from outside")
	if got := reply(t, r, "s1", "b"); got != "a; from outside; b" {
		t.Errorf("an event from outside: %q", got)
	}
	if got := reply(t, r, "s1", "c"); got != "a; from outside; b; c" {
		t.Errorf("it is there once: %q", got)
	}
	// What the thread has forgotten the session does not bring back.
	if _, err := g.Thread(session.Thread(key)).Edit(t.Context(), func(s *state) error {
		s.Messages.Clear()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := reply(t, r, "s1", "d"); got != "d" {
		t.Errorf("a thread that was cleared: %q", got)
	}
	// A thread that is gone begins with what the session has.
	if err := g.Thread(session.Thread(key)).Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := reply(t, r, "s1", "e"); got != "a; from outside; b; c; d; e" {
		t.Errorf("a thread that is gone: %q", got)
	}
	if got := reply(t, r, "s1", "f"); got != "a; from outside; b; c; d; e; f" {
		t.Errorf("after that: %q", got)
	}
}

func TestOptionsOfTheRunner(t *testing.T) { // TRPC-09
	b := graph.New[state]("agent")
	b.AddNode("first", func(_ context.Context, s *state) error {
		s.LastResponse.Add(fmt.Sprint("init ", s.Init))
		s.Init++
		return nil
	})
	b.AddEdge(graph.Start, "first")
	g := compile(t, b)
	r := runner(t, g, session.Options[state]{
		Description: "Counts.", InitialState: func(s *state) error {
			s.Init = 1
			return nil
		}, Graph: []graph.ThreadOption{memory()},
	})
	if r.Name() != "agent" || r.Description() != "Counts." || r.App() != "app" {
		t.Errorf("%q, %q, %q", r.Name(), r.Description(), r.App())
	}
	// The state begins once, where a thread keeps it.
	if a, b := reply(t, r, "s1", "x"), reply(t, r, "s1", "x"); a != "init 1" || b != "init 2" {
		t.Errorf("%q, %q", a, b)
	}
	// Without a checkpointer it begins with each run.
	r = runner(t, g, session.Options[state]{InitialState: func(s *state) error {
		s.Init = 1
		return nil
	}})
	if a, b := reply(t, r, "s1", "x"), reply(t, r, "s1", "x"); a != "init 1" || b != "init 1" {
		t.Errorf("%q, %q", a, b)
	}
}

func TestWhatARunnerIsNotMadeOf(t *testing.T) {
	g := asks(t, agent.LLM[state]{Model: echo()})
	for name, make := range map[string]func() error{
		"no app":            func() error { _, err := session.NewRunner("", g); return err },
		"no graph":          func() error { _, err := session.NewRunner[state]("app", nil); return err },
		"a negative buffer": func() error { _, err := session.NewRunner("app", g, session.Options[state]{Buffer: -1}); return err },
		"two options": func() error {
			_, err := session.NewRunner("app", g, session.Options[state]{}, session.Options[state]{})
			return err
		},
	} {
		if err := make(); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := runner(t, g, session.Options[state]{})
	for name, c := range map[string]struct {
		user string
		m    chat.Message
		o    session.RunOption
	}{
		"no user":                    {"", chat.User("x"), nil},
		"a message of the assistant": {"ann", chat.Assistant("x"), nil},
		"a value that is no JSON":    {"ann", chat.User("x"), session.WithValue("temp:x", func() {})},
		"a key for events":           {"ann", chat.User("x"), session.WithValue("_x", 1)},
	} {
		var opts []session.RunOption
		if c.o != nil {
			opts = append(opts, c.o)
		}
		n := 0
		for _, err := range r.Run(t.Context(), c.user, "s1", c.m, opts...) {
			if n++; !errors.Is(err, session.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d pairs", name, n)
		}
	}
}

func system(m *scripted.Model) string { return m.Last().Messages[0].Text() }

func TestInstructionsShowTheStateOfTheSession(t *testing.T) { // TRPC-39, TRPC-40
	m := scripted.New(scripted.Text("ok").Repeat())
	store := session.NewMemory()
	r := runner(t, asks(t, agent.LLM[state]{
		Model:       m,
		Instruction: `{topic} {n} {big} {yes} {obj} {none?}! {none} {} { not a key } {"json": {"a": 1}}`,
	}), session.Options[state]{Service: store})
	if _, err := store.Create(t.Context(), key, map[string]json.RawMessage{
		"topic": json.RawMessage(`"cats \u0026 \"dogs\""`), "n": json.RawMessage(`3.50`), "big": json.RawMessage(`12345678901234567890`),
		"yes": json.RawMessage(`true`), "obj": json.RawMessage(`{"k":[1]}`),
	}); err != nil {
		t.Fatal(err)
	}
	events, err := run(t, r, "s1", "hi")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := system(m), `cats & "dogs" 3.50 12345678901234567890 true {"k":[1]} ! {none} {} { not a key } {"json": {"a": 1}}`; got != want {
		t.Errorf("the instruction:\n%s\nwant\n%s", got, want)
	}
	for _, e := range events {
		if e.Message != nil && e.Message.Role == chat.RoleSystem || strings.Contains(string(e.StateDelta["messages"]), "dogs") {
			t.Errorf("the instruction is stored: %+v", e)
		}
	}
}

func TestScopesReachAsFarAsTheyShould(t *testing.T) { // TRPC-41
	m := scripted.New(scripted.Text("ok").Repeat())
	b := graph.New[state]("talk")
	agent.AddLLM(b, "ask", agent.LLM[state]{Model: m, Instruction: "{user:u?} {app:a?} {temp:t?} {own?} {user:u} {app:a} {temp:t}"})
	b.AddEdge(graph.Start, "ask")
	r := runner(t, compile(t, b), session.Options[state]{})
	talk := func(user, id string, opts ...session.RunOption) string {
		t.Helper()
		for _, err := range r.Run(t.Context(), user, id, chat.User("x"), opts...) {
			if err != nil {
				t.Fatal(err)
			}
		}
		return system(m)
	}
	for _, c := range []struct {
		user, id, want string
		opts           []session.RunOption
	}{
		{"ann", "1", "U A T O U A T", []session.RunOption{session.WithValue("user:u", "U"), session.WithValue("app:a", "A"), session.WithValue("temp:t", "T"), session.WithValue("own", "O")}},
		{"ann", "1", "U A  O U A {temp:t}", nil},
		{"ann", "2", "U A   U A {temp:t}", nil},
		{"bob", "1", " A   {user:u} A {temp:t}", nil},
	} {
		if got := talk(c.user, c.id, c.opts...); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.user, c.id, got, c.want)
		}
	}
}

func TestNodesReadAndWriteTheSession(t *testing.T) { // TRPC-42
	m := scripted.New(scripted.Text("ok").Repeat())
	b := graph.New[state]("talk")
	b.AddNode("prepare", func(ctx context.Context, s *state) error {
		sess, err := session.From(ctx)
		if err != nil {
			return err
		}
		n, _, err := session.ValueOf[int](sess, "visits")
		if err != nil {
			return err
		}
		events, err := sess.Events(ctx, session.Window{Last: 1})
		if err != nil {
			return err
		}
		return errors.Join(
			sess.Set(ctx, "visits", n+1), sess.Set(ctx, "temp:mood", "good"), sess.Set(ctx, "user:seen", sess.Session().ID),
			sess.Set(ctx, "temp:said", events[0].Message.Text()), sess.Delete(ctx, "temp:gone"),
		)
	})
	agent.AddLLM(b, "ask", agent.LLM[state]{Model: m, Instruction: "visit {visits}, mood {temp:mood}, said {temp:said}"})
	b.AddSequence(graph.Start, "prepare", "ask")
	r := runner(t, compile(t, b), session.Options[state]{})
	reply(t, r, "s1", "hi")
	events, err := run(t, r, "s1", "again")
	if err != nil {
		t.Fatal(err)
	}
	if got := system(m); got != "visit 2, mood good, said again" {
		t.Errorf("the instruction: %q", got)
	}
	written := only(events, session.KindState)
	if len(written) != 2 || written[0].Author != "prepare" || string(written[0].StateDelta["visits"]) != "2" || written[0].Seq == 0 {
		t.Errorf("%+v", written)
	}
	sess, err := r.Service().Get(t.Context(), key)
	if err != nil || string(sess.State["visits"]) != "2" || string(sess.State["user:seen"]) != `"s1"` || sess.State["temp:mood"] != nil {
		t.Errorf("%v, state %s", err, sess.State)
	}
	if _, err := session.From(t.Context()); !errors.Is(err, graph.ErrNotInNode) {
		t.Errorf("outside of a node: %v", err)
	}
}

// question is a graph that asks for a text and says what it was told.
func question(t *testing.T, opts ...graph.Option) *graph.Graph[state] {
	b := graph.New[state]("form")
	b.AddNode("name", func(ctx context.Context, s *state) error {
		s.Ok = true
		name, err := graph.Interrupt[string](ctx, "name", "Your name?")
		if err != nil {
			return err
		}
		s.LastResponse.Add("Hello " + name + " (" + s.UserInput + ")")
		s.UserInput = ""
		return nil
	})
	b.AddEdge(graph.Start, "name")
	return compile(t, b, opts...)
}

func TestAMessageAnswersAThreadThatWaits(t *testing.T) { // C-13, TRPC-52
	r := runner(t, question(t, memory()), session.Options[state]{})
	events, err := run(t, r, "s1", "hi")
	if err != nil {
		t.Fatal(err)
	}
	asked, done := only(events, session.KindInterrupt), events[len(events)-1]
	if len(asked) != 1 || asked[0].Author != "name" || string(asked[0].Question.Value) != `"Your name?"` || asked[0].Question.Key != "name" || asked[0].Seq == 0 {
		t.Errorf("%+v", asked)
	}
	if len(done.Open) != 1 || done.Open[0].Key != "name" || done.Message != nil {
		t.Errorf("completion: %+v", done)
	}
	// "resume" is no answer and no input: the question still waits.
	events, err = run(t, r, "s1", session.ResumeWord)
	if done = events[len(events)-1]; err != nil || len(done.Open) != 1 || len(only(events, session.KindInput)) != 0 {
		t.Errorf("resume: %v, %+v", err, done)
	}
	if got := reply(t, r, "s1", "Ann"); got != "Hello Ann (hi)" {
		t.Errorf("the answer led to %q", got)
	}
	if got := logOf(t, r, "s1"); got != "user=hi | graph.interrupt | user=Ann | form=Hello Ann (hi)" {
		t.Errorf("the log: %s", got)
	}
	// The thread has ended: a message is input again, and "resume" an error.
	if _, err := run(t, r, "s1", session.ResumeWord); !errors.Is(err, graph.ErrNothingToResume) {
		t.Errorf("resume with nothing pending: %v", err)
	}
	run(t, r, "s1", "again")
	events, err = run(t, r, "s1", "", session.Resume(graph.Answers{"name": "Bea"}))
	if err != nil || events[len(events)-1].Message.Text() != "Hello Bea (again)" {
		t.Errorf("Resume: %v", err)
	}
	if got := only(events, session.KindInput)[0].Message.Text(); got != `{"name":"Bea"}` {
		t.Errorf("the answer in the log: %q", got)
	}
}

// A node may say the same in every turn.
func TestAnAnswerOfANodeIsTheAnswer(t *testing.T) {
	b := graph.New[state]("n")
	b.AddNode("n", func(_ context.Context, s *state) error { s.LastResponse.Add("ok"); return nil })
	b.AddEdge(graph.Start, "n")
	r := runner(t, compile(t, b, memory()), session.Options[state]{})
	for range 2 {
		if got := reply(t, r, "s1", "x"); got != "ok" {
			t.Errorf("%q", got)
		}
	}
}

func TestAnAnswerBringsWhatOnlyTheSessionHas(t *testing.T) { // C-46
	g := question(t, memory())
	r := runner(t, g, session.Options[state]{})
	run(t, r, "s1", "hi")
	m := chat.Assistant("from the desk")
	if err := r.Service().AppendEvent(t.Context(), key, &session.Event{Kind: session.KindMessage, Author: "desk", Message: &m}); err != nil {
		t.Fatal(err)
	}
	reply(t, r, "s1", "Ann")
	snap, err := g.Thread(session.Thread(key)).State(t.Context())
	if err != nil || snap.State.Messages.Len() != 1 || snap.State.Messages.Last().Text() != "from the desk" {
		t.Errorf("%v, %v", err, snap.State.Messages)
	}
}

func TestResumeLeadsNowhereWhereNothingIsPending(t *testing.T) { // C-13, TRPC-52
	for name, g := range map[string]*graph.Graph[state]{"a new thread": question(t, memory()), "no checkpointer": asks(t, agent.LLM[state]{Model: echo()})} {
		r := runner(t, g, session.Options[state]{})
		if _, err := run(t, r, "s1", session.ResumeWord); !errors.Is(err, graph.ErrNothingToResume) {
			t.Errorf("%s: the word: %v", name, err)
		}
		if _, err := run(t, r, "s1", "", session.Resume("x")); !errors.Is(err, graph.ErrNothingToResume) {
			t.Errorf("%s: the option: %v", name, err)
		}
		if _, err := run(t, r, "s1", ""); !errors.Is(err, graph.ErrNothingToResume) {
			t.Errorf("%s: no message: %v", name, err)
		}
		if got := logOf(t, r, "s1"); got != "" {
			t.Errorf("%s: the log: %s", name, got)
		}
	}
}

func TestAnAnswerInWordsFitsAQuestionForJSON(t *testing.T) {
	b := graph.New[state]("form")
	b.AddNode("ok", func(ctx context.Context, s *state) (err error) {
		if s.Ok, err = graph.Interrupt[bool](ctx, "ok", "Sure?"); err == nil {
			s.LastResponse.Add(fmt.Sprint("ok: ", s.Ok))
		}
		return err
	})
	b.AddEdge(graph.Start, "ok")
	r := runner(t, compile(t, b, memory()), session.Options[state]{})
	run(t, r, "s1", "hi")
	refused := new(graph.AnswerError)
	if _, err := run(t, r, "s1", "maybe"); !errors.As(err, &refused) {
		t.Errorf("maybe: %v", err)
	}
	if got := logOf(t, r, "s1"); got != "user=hi | graph.interrupt" {
		t.Errorf("a refused answer is in the log: %s", got)
	}
	if got := reply(t, r, "s1", "true"); got != "ok: true" {
		t.Error(got)
	}
}

func TestABreakpointTakesNoAnswerButResume(t *testing.T) { // C-13
	r := runner(t, asks(t, agent.LLM[state]{Model: echo()}, memory(), graph.InterruptBefore("ask")), session.Options[state]{})
	run(t, r, "s1", "hi")
	refused := new(graph.AnswerError)
	if _, err := run(t, r, "s1", "no, stop"); !errors.As(err, &refused) {
		t.Errorf("a message at a breakpoint: %v", err)
	}
	if got := reply(t, r, "s1", session.ResumeWord); got != "hi" {
		t.Errorf("resume: %q", got)
	}
}

func TestAFailedTurnGoesOn(t *testing.T) { // C-13
	m := scripted.New(scripted.Error(errors.New("down")).Times(2), scripted.Text("up"), scripted.Error(errors.New("down")), scripted.Text("up again"))
	r := runner(t, asks(t, agent.LLM[state]{Model: m}, memory()), session.Options[state]{})
	for range 2 {
		if events, err := run(t, r, "s1", "hi"); err == nil || events[len(events)-1].Error == "" {
			t.Fatal("the model is not down")
		}
	}
	if got := reply(t, r, "s1", session.ResumeWord); got != "up" {
		t.Errorf("resume: %q", got)
	}
	if got := len(m.Last().Messages); got != 1 {
		t.Errorf("%d messages", got)
	}
	run(t, r, "s1", "one")
	if got := reply(t, r, "s1", "two"); got != "up again" {
		t.Errorf("another message: %q", got)
	}
	if got := m.Last().Messages; len(got) != 3 || got[2].Text() != "two" {
		t.Errorf("%v", got)
	}
}

func TestARunStartsFromACheckpoint(t *testing.T) { // TRPC-52
	var ran []string
	b := graph.New[state]("steps")
	for _, n := range []string{"one", "two", "three"} {
		b.AddNode(n, func(_ context.Context, s *state) error {
			ran = append(ran, n)
			s.Init++
			s.LastResponse.Add(fmt.Sprintf("%s %d %s", n, s.Init, s.UserInput))
			return nil
		})
	}
	b.AddSequence(graph.Start, "one", "two", "three")
	g := compile(t, b, memory())
	r := runner(t, g, session.Options[state]{})
	events, err := run(t, r, "s1", "hi")
	if err != nil {
		t.Fatal(err)
	}
	var first, head string
	for _, e := range only(events, session.KindCheckpoint) {
		if head = e.Checkpoint; e.Step == 1 {
			first = e.Checkpoint
		}
	}
	ran = nil
	if got := reply(t, r, "s1", session.ResumeWord, session.Checkpoint(first)); got != "three 3 hi" || !slices.Equal(ran, []string{"two", "three"}) {
		t.Errorf("from step 1: %q, ran %v", got, ran)
	}
	if snap, err := g.Thread(session.Thread(key)).At(head).State(t.Context()); err != nil || snap.State.Init != 3 {
		t.Errorf("the old branch: %v", err)
	}
	if got := reply(t, r, "s1", "other", session.Checkpoint(first)); got != "three 3 other" {
		t.Errorf("with another input: %q", got)
	}
	if _, err := run(t, r, "s1", "x", session.Checkpoint("nonsense")); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("an unknown checkpoint: %v", err)
	}
}

func TestThreadsOfDifferentSessionsDiffer(t *testing.T) { // C-15
	seen := map[string]session.Key{}
	for _, k := range []session.Key{{"a/b", "c", "d"}, {"a", "b/c", "d"}, {"a", "b", "c/d"}, {"a", "b", "c%2Fd"}, {"a", "b", "c"}, {"a ", "b", "c"}, {"ä", "b", "c"}} {
		id := session.Thread(k)
		if other, ok := seen[id]; ok {
			t.Errorf("%v and %v have the thread %q", k, other, id)
		}
		seen[id] = k
	}
	// Graphs with a checkpointer need no thread named, and those without none.
	store := checkpoint.NewMemory()
	g := asks(t, agent.LLM[state]{Model: echo()}, graph.WithCheckpointer(store))
	reply(t, runner(t, g, session.Options[state]{}), "s1", "x")
	if snap, err := g.Thread(session.Thread(key)).State(t.Context()); err != nil || snap.State.Messages.Len() != 2 {
		t.Errorf("the thread: %v", err)
	}
}

func multiply() tool.Tool {
	return tool.New("multiply", "Multiplies.", func(_ context.Context, in struct{ A, B int }) (int, error) { return in.A * in.B, nil })
}

func TestEventsHaveAuthors(t *testing.T) { // TRPC-60
	m := scripted.New(scripted.Call("multiply", `{"A":6,"B":7}`), scripted.Text("It is forty-two."))
	g, err := agent.New(agent.ReAct[state]{Model: session.Watch(m), Tools: []tool.Tool{multiply()}}, memory())
	if err != nil {
		t.Fatal(err)
	}
	r := runner(t, g, session.Options[state]{})
	events, err := run(t, r, "s1", "6*7?")
	if err != nil {
		t.Fatal(err)
	}
	deltas := map[string]string{}
	kinds := map[session.Kind]string{}
	for _, e := range events {
		switch e.Author {
		case "agent", "tools", session.AuthorPregel, session.AuthorExecutor, session.AuthorUser:
		default:
			t.Errorf("%s is by %q", e.Kind, e.Author)
		}
		if before, ok := kinds[e.Kind]; ok && before != e.Author && e.Node == "" {
			t.Errorf("%s is by %q and by %q", e.Kind, before, e.Author)
		}
		kinds[e.Kind] = e.Author
		if e.ID == "" || e.Run == "" || e.Time.IsZero() {
			t.Errorf("%+v", e)
		}
		if e.Partial != (e.Kind == session.KindDelta) || e.Partial != (e.Delta != nil) {
			t.Errorf("partial: %+v", e)
		}
		if e.Delta != nil {
			deltas[e.Delta.Message] += e.Delta.Content
		}
		if _, err := json.Marshal(e); err != nil {
			t.Error(err)
		}
	}
	for kind, author := range map[session.Kind]string{
		session.KindInput: session.AuthorUser, session.KindModel: "agent", session.KindModelEnd: "agent", session.KindDelta: "agent",
		session.KindToolCall: "tools", session.KindToolEnd: "tools", session.KindTool: "tools",
		session.KindPlanning: session.AuthorPregel, session.KindExecution: session.AuthorPregel, session.KindStep: session.AuthorPregel,
		session.KindUpdate: session.AuthorExecutor, session.KindCheckpoint: session.AuthorExecutor, session.KindCompletion: session.AuthorExecutor,
	} {
		if kinds[kind] != author {
			t.Errorf("%s is by %q, want %q", kind, kinds[kind], author)
		}
	}
	answers := only(events, session.KindModel)
	if len(answers) != 2 || answers[1].Message.Text() != "It is forty-two." || deltas[answers[1].Message.ID] != "It is forty-two." || answers[1].Partial {
		t.Errorf("answers %+v, deltas %v", answers, deltas)
	}
	calls := only(events, session.KindToolCall)
	if len(calls) != 1 || calls[0].Call.Name != "multiply" || string(calls[0].Call.Args) != `{"A":6,"B":7}` {
		t.Errorf("%+v", calls)
	}
	if got := logOf(t, r, "s1"); got != "user=6*7? | agent= | tools=42 | agent=It is forty-two." {
		t.Errorf("the log: %s", got)
	}
}

func TestErrorsAreEventsOfTheEngine(t *testing.T) { // TRPC-60
	r := runner(t, asks(t, agent.LLM[state]{Model: session.Watch(scripted.New(scripted.Error(errors.New("down"))))}), session.Options[state]{})
	events, err := run(t, r, "s1", "x")
	failed := only(events, session.KindNodeError)
	if err == nil || len(failed) != 1 || failed[0].Author != session.AuthorPregel || failed[0].Node != "ask" || !strings.Contains(failed[0].Error, "down") {
		t.Errorf("%v, %+v", err, failed)
	}
	if done := events[len(events)-1]; done.Kind != session.KindCompletion || done.Error != err.Error() || !errors.Is(done.Err, err) {
		t.Errorf("%+v", done)
	}
	called := only(events, session.KindModelEnd)
	if meta, ok := session.Metadata[session.ModelExecutionMetadata](called[0]); !ok || meta.Error != "down" {
		t.Errorf("%+v", meta)
	}
}

func TestStateDeltasAreSnapshots(t *testing.T) { // TRPC-61
	m := scripted.New(scripted.Call("multiply", `{"A":6,"B":7}`), scripted.Text("42"))
	g, err := agent.New(agent.ReAct[state]{Model: session.Watch(m), Tools: []tool.Tool{multiply()}, Instruction: "Be brief."}, memory())
	if err != nil {
		t.Fatal(err)
	}
	r := runner(t, g, session.Options[state]{OnEvent: func(ev session.Event) {
		for k, v := range ev.StateDelta {
			if strings.HasPrefix(k, "__") || !json.Valid(v) {
				t.Errorf("%s has %q: %s", ev.Kind, k, v)
			}
		}
	}})
	var events []session.Event
	for ev, err := range r.Run(t.Context(), "ann", "s1", chat.User("6*7?")) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == session.KindUpdate || ev.Kind == session.KindNodeEnd {
			for _, v := range ev.StateDelta { // it is the receiver's own
				for i := range v {
					v[i] = 'x'
				}
			}
			continue
		}
		events = append(events, ev)
	}
	snap, err := g.Thread(session.Thread(key)).State(t.Context())
	if err != nil || snap.State.LastResponse.Get() != "42" || snap.State.Messages.Len() != 4 {
		t.Errorf("%v, %v", err, snap.State)
	}
	for _, e := range only(events, session.KindModelEnd) {
		meta, ok := session.Metadata[session.ModelExecutionMetadata](e)
		if !ok || meta.Duration <= 0 || meta.Node != "agent" || meta.StartTime.IsZero() || len(meta.Input) < 2 || meta.Input[0].Text() != "Be brief." || meta.Output == nil {
			t.Errorf("%+v", meta)
		}
	}
	for _, e := range only(events, session.KindModel) {
		// What is kept doesn't repeat the conversation.
		meta, ok := session.Metadata[session.ModelExecutionMetadata](e)
		if !ok || meta.Duration <= 0 || e.Duration != meta.Duration || meta.Input != nil || meta.Output != nil {
			t.Errorf("%+v", meta)
		}
	}
	ended := only(events, session.KindToolEnd)
	meta, ok := session.Metadata[session.ToolExecutionMetadata](ended[0])
	if !ok || meta.Duration <= 0 || meta.Tool != "multiply" || string(meta.Input) != `{"A":6,"B":7}` || meta.Output != "42" || meta.CallID != "call_1" {
		t.Errorf("%+v", meta)
	}
	sess, err := r.Service().Get(t.Context(), key)
	if err != nil || len(sess.State) != 0 {
		t.Errorf("%v, the session's state %s", err, sess.State)
	}
	kept := only(sess.Events, session.KindTool)
	if meta, ok := session.Metadata[session.ToolExecutionMetadata](kept[0]); !ok || meta.Duration <= 0 {
		t.Errorf("%+v", kept)
	}
}

func TestABeforeCallbackAnswersInTheGraphsPlace(t *testing.T) { // TRPC-61
	ran := 0
	counting := model.Func(func(ctx context.Context, req *model.Request) (*model.Response, error) {
		ran++
		return echo().Generate(ctx, req)
	})
	for name, opts := range map[string][]graph.Option{"with a thread": {memory()}, "without": nil} {
		ran = 0
		r := runner(t, asks(t, agent.LLM[state]{Model: counting}, opts...), session.Options[state]{
			Before: func(ctx context.Context, call session.Call) (*chat.Message, error) {
				if err := call.State.Set(ctx, "last", call.Message.Text()); err != nil {
					return nil, err
				}
				switch call.Message.Text() {
				case "stop":
					m := chat.Assistant("stopped")
					return &m, nil
				case "fail":
					return nil, errors.New("refused")
				}
				return nil, nil
			},
		})
		events, err := run(t, r, "s1", "stop")
		if err != nil || ran != 0 || events[len(events)-1].Message.Text() != "stopped" || len(only(events, session.KindNodeStart)) != 0 {
			t.Errorf("%s: %v, %d runs", name, err, ran)
		}
		if _, err := run(t, r, "s1", "fail"); err == nil || err.Error() != "refused" || ran != 0 {
			t.Errorf("%s: %v", name, err)
		}
		// What was said there is part of the conversation.
		if got := reply(t, r, "s1", "go"); got != "stop; go" {
			t.Errorf("%s: %q", name, got)
		}
		if sess, err := r.Service().Get(t.Context(), key); err != nil || string(sess.State["last"]) != `"go"` {
			t.Errorf("%s: %v, %s", name, err, sess.State)
		}
	}
}

func TestAnAfterCallbackReplacesTheAnswer(t *testing.T) { // TRPC-61
	var seen error
	failing := errors.New("down")
	m := scripted.New(scripted.Text("draft"), scripted.Error(failing), scripted.Text("x"), scripted.Text("y"))
	r := runner(t, asks(t, agent.LLM[state]{Model: m}, memory()), session.Options[state]{
		After: func(_ context.Context, call session.Call, response *chat.Message, err error) (*chat.Message, error) {
			if seen = err; err != nil {
				m := chat.Assistant("sorry")
				return &m, nil
			}
			switch response.Text() {
			case "draft":
				m := chat.Assistant("final")
				return &m, nil
			case "x":
				return nil, errors.New("not x")
			}
			return nil, nil
		},
	})
	if got := reply(t, r, "s1", "a"); got != "final" {
		t.Errorf("replaced: %q", got)
	}
	if got := reply(t, r, "s1", "b"); got != "sorry" || !errors.Is(seen, failing) {
		t.Errorf("an error: %q, %v", got, seen)
	}
	if _, err := run(t, r, "s1", "c"); err == nil || err.Error() != "not x" {
		t.Errorf("its own error: %v", err)
	}
	if got := reply(t, r, "s1", "d"); got != "y" {
		t.Errorf("left alone: %q", got)
	}
	var said []string
	for _, m := range m.Last().Messages {
		said = append(said, m.Text())
	}
	// The replacement stands where the answer stood.
	if got := strings.Join(said, " "); got != "a final sorry c x d" {
		t.Errorf("the conversation: %s", got)
	}
}

func TestRunsOfOneSessionComeOneAfterTheOther(t *testing.T) {
	for name, opts := range map[string][]graph.Option{"with a thread": {memory()}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			inside, leave := make(chan string, 8), make(chan struct{})
			b := graph.New[state]("slow")
			b.AddNode("n", func(_ context.Context, s *state) error {
				inside <- s.UserInput
				<-leave
				s.Messages.Add(chat.Assistant(s.UserInput))
				return nil
			})
			b.AddEdge(graph.Start, "n")
			g := compile(t, b, opts...)
			busy := runner(t, g, session.Options[state]{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for _, err := range busy.Run(context.Background(), "ann", "s1", chat.User("first")) {
					if err != nil {
						t.Error(err)
					}
				}
			})
			<-inside
			e := new(session.BusyError)
			if _, err := run(t, busy, "s1", "second"); !errors.Is(err, session.ErrBusy) || !errors.As(err, &e) || e.Key != key {
				t.Errorf("a second run: %v", err)
			}
			if opts != nil { // another runner, as in another process
				other := runner(t, g, session.Options[state]{Service: busy.Service()})
				if _, err := run(t, other, "s1", "second"); !errors.Is(err, session.ErrBusy) || !errors.Is(err, graph.ErrThreadBusy) {
					t.Errorf("a run of another runner: %v", err)
				}
			}
			close(leave)
			wg.Wait()
			if got := logOf(t, busy, "s1"); got != "user=first | n=first" {
				t.Errorf("the log: %s", got)
			}
			queue := runner(t, g, session.Options[state]{Queue: true, Service: busy.Service()})
			for i := range 6 {
				wg.Go(func() {
					for _, err := range queue.Run(context.Background(), "ann", "s2", chat.User(fmt.Sprint(i))) {
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			parts := strings.Split(logOf(t, queue, "s2"), " | ")
			if len(parts) != 12 {
				t.Fatalf("the log: %v", parts)
			}
			for i := 0; i < 12; i += 2 {
				if strings.TrimPrefix(parts[i], "user=") != strings.TrimPrefix(parts[i+1], "n=") {
					t.Errorf("runs are mixed: %v", parts)
				}
			}
		})
	}
}

func TestAPictureIsAMessageOfItsOwn(t *testing.T) {
	m := scripted.New(scripted.Text("a cat"))
	r := runner(t, asks(t, agent.LLM[state]{Model: m}, memory()), session.Options[state]{})
	picture := chat.Message{Role: chat.RoleUser, Parts: []chat.Part{chat.Text{Text: "what?"}, chat.Image{Source: chat.Source{URL: "https://x/cat.png"}}}}
	for _, err := range r.Run(t.Context(), "ann", "s1", picture) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := m.Last().Messages; len(got) != 1 || len(got[0].Parts) != 2 {
		t.Errorf("%+v", got)
	}
	if got := logOf(t, r, "s1"); got != "user=what? | ask=a cat" {
		t.Errorf("the log: %s", got)
	}
}

// lossy is a service that fails to append after a while.
type lossy struct {
	session.Service
	left int
}

func (l *lossy) AppendEvent(ctx context.Context, key session.Key, ev *session.Event) error {
	if l.left--; l.left < 0 {
		return errors.New("disk full")
	}
	return l.Service.AppendEvent(ctx, key, ev)
}

func TestAServiceThatFailsEndsTheRun(t *testing.T) {
	for left := range 2 {
		r := runner(t, asks(t, agent.LLM[state]{Model: echo()}), session.Options[state]{Service: &lossy{session.NewMemory(), left}})
		if _, err := run(t, r, "s1", "x"); err == nil || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("after %d events: %v", left, err)
		}
	}
}

func TestAnEventCallbackHearsEverything(t *testing.T) {
	var heard []session.Kind
	r := runner(t, asks(t, agent.LLM[state]{Model: echo()}), session.Options[state]{OnEvent: func(ev session.Event) { heard = append(heard, ev.Kind) }})
	events, err := run(t, r, "s1", "x")
	if err != nil {
		t.Fatal(err)
	}
	var yielded []session.Kind
	for _, e := range events {
		yielded = append(yielded, e.Kind)
	}
	if !slices.Equal(heard, yielded) {
		t.Errorf("heard %v\nyielded %v", heard, yielded)
	}
}

func TestWhatNodesEmitIsYielded(t *testing.T) {
	b := graph.New[state]("emits")
	b.AddNode("n", func(ctx context.Context, _ *state) error {
		return errors.Join(graph.Emit(ctx, map[string]int{"done": 50}), graph.EmitMessage(ctx, "piece"))
	})
	b.AddEdge(graph.Start, "n")
	events, err := run(t, runner(t, compile(t, b), session.Options[state]{}), "s1", "x")
	if err != nil {
		t.Fatal(err)
	}
	custom, pieces := only(events, session.KindCustom), only(events, session.KindDelta)
	if len(custom) != 1 || custom[0].Author != "n" || custom[0].Custom.(map[string]int)["done"] != 50 || len(pieces) != 1 || pieces[0].Delta.Content != "piece" {
		t.Errorf("%+v, %+v", custom, pieces)
	}
}

// Nodes of one superstep that answer the same input say it once.
func TestParallelAnswersHaveTheirQuestionOnce(t *testing.T) {
	for name, opts := range map[string][]graph.Option{"with a thread": {memory()}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			b := graph.New[state]("both")
			agent.AddLLM(b, "one", agent.LLM[state]{Model: echo()})
			agent.AddLLM(b, "two", agent.LLM[state]{Model: echo()})
			b.AddEdge(graph.Start, "one")
			b.AddEdge(graph.Start, "two")
			r := runner(t, compile(t, b, opts...), session.Options[state]{})
			reply(t, r, "s1", "hi")
			if got := logOf(t, r, "s1"); got != "user=hi | one=hi | two=hi" {
				t.Errorf("the log: %s", got)
			}
			if got := reply(t, r, "s1", "ho"); got != "hi; ho" {
				t.Errorf("a second turn: %q", got)
			}
		})
	}
}

// A message that a node adds in the user's name isn't taken for the input.
func TestWhatANodeAddsForTheUserIsKept(t *testing.T) {
	for name, opts := range map[string][]graph.Option{"with a thread": {memory()}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			b := graph.New[state]("context")
			b.AddNode("look", func(_ context.Context, s *state) error {
				if s.Messages.Len() == 0 {
					s.Messages.Add(chat.User("Context: rain."))
				}
				return nil
			})
			agent.AddLLM(b, "ask", agent.LLM[state]{Model: echo()})
			b.AddSequence(graph.Start, "look", "ask")
			r := runner(t, compile(t, b, opts...), session.Options[state]{})
			if got := reply(t, r, "s1", "hi"); got != "Context: rain.; hi" {
				t.Errorf("%q", got)
			}
			if got := logOf(t, r, "s1"); got != "user=hi | look=Context: rain. | ask=Context: rain.; hi" {
				t.Errorf("the log: %s", got)
			}
			if got := reply(t, r, "s1", "ho"); !strings.Contains(got, "Context: rain.") || strings.Count(got, "hi") != 1 {
				t.Errorf("a second turn: %q", got)
			}
		})
	}
}

// An input that a node has rewritten is still the one input.
func TestARewrittenInputIsInTheLogAsItWasSaid(t *testing.T) {
	b := graph.New[state]("rewrite")
	b.AddNode("look", func(_ context.Context, s *state) error { s.UserInput = "Q: " + s.UserInput; return nil })
	agent.AddLLM(b, "ask", agent.LLM[state]{Model: echo()})
	b.AddSequence(graph.Start, "look", "ask")
	r := runner(t, compile(t, b), session.Options[state]{})
	reply(t, r, "s1", "hi")
	if got := logOf(t, r, "s1"); got != "user=hi | ask=Q: hi" {
		t.Errorf("the log: %s", got)
	}
}

// held is a service whose first append returns late.
type held struct {
	session.Service
	began         atomic.Bool
	stored, leave chan struct{}
}

func (h *held) AppendEvent(ctx context.Context, key session.Key, ev *session.Event) error {
	err := h.Service.AppendEvent(ctx, key, ev)
	if ev.Kind == session.KindState && !h.began.Swap(true) {
		close(h.stored)
		select {
		case <-h.leave:
		case <-time.After(time.Second): // the other one waits for us
		}
	}
	return err
}

// Of two that set a key at once, the run shows the value that is stored.
func TestTheStateOfARunIsTheOneStored(t *testing.T) {
	synctest.Test(t, theStateOfARunIsTheOneStored)
}

func theStateOfARunIsTheOneStored(t *testing.T) {
	h := &held{Service: session.NewMemory(), stored: make(chan struct{}), leave: make(chan struct{})}
	var seen json.RawMessage
	b := graph.New[state]("two")
	b.AddNode("one", func(ctx context.Context, _ *state) error {
		s, err := session.From(ctx)
		if err != nil {
			return err
		}
		return s.Set(ctx, "k", "one")
	})
	b.AddNode("two", func(ctx context.Context, _ *state) error {
		s, err := session.From(ctx)
		if err != nil {
			return err
		}
		<-h.stored
		err = s.Set(ctx, "k", "two")
		close(h.leave)
		return err
	})
	b.AddNode("look", func(ctx context.Context, _ *state) error {
		s, err := session.From(ctx)
		if err == nil {
			seen, _ = s.Get("k")
		}
		return err
	})
	b.AddEdge(graph.Start, "one")
	b.AddEdge(graph.Start, "two")
	b.AddJoin([]string{"one", "two"}, "look")
	r := runner(t, compile(t, b), session.Options[state]{Service: h})
	run(t, r, "s1", "x")
	sess, err := h.Get(t.Context(), key)
	if err != nil || string(sess.State["k"]) != string(seen) {
		t.Errorf("%v, the run saw %s, stored is %s", err, seen, sess.State["k"])
	}
}

// A run inside of a node of another one says nothing in its stead.
func TestARunInANodeKeepsToItsSession(t *testing.T) {
	service := session.NewMemory()
	inner := runner(t, asks(t, agent.LLM[state]{Model: echo()}), session.Options[state]{Service: service})
	b := graph.New[state]("outer")
	b.AddNode("call", func(ctx context.Context, s *state) error {
		for ev, err := range inner.Run(ctx, "ann", "inner", chat.User("x"), session.WithValue("k", 1)) {
			if err != nil {
				return err
			}
			if ev.Kind == session.KindCompletion {
				s.LastResponse.Add(ev.Message.Text())
			}
		}
		return nil
	})
	b.AddEdge(graph.Start, "call")
	events, err := run(t, runner(t, compile(t, b), session.Options[state]{Service: service}), "s1", "hi")
	if err != nil {
		t.Fatal(err)
	}
	if got := only(events, session.KindState, session.KindCustom); len(got) != 0 {
		t.Errorf("the outer run yields %+v", got)
	}
	sess, err := service.Get(t.Context(), session.Key{App: "app", User: "ann", ID: "inner"})
	if err != nil {
		t.Fatal(err)
	}
	if got := only(sess.Events, session.KindState); len(got) != 1 || got[0].Author != "talk" || got[0].Node != "" {
		t.Errorf("%+v", got)
	}
}

// A message after a turn that failed starts a turn, wherever that failed, and is
// answered.
func TestAMessageAfterAFailedTurnIsAnswered(t *testing.T) {
	fail := true
	check := func(_ context.Context, s *state) error {
		if fail {
			return errors.New("the guard is down")
		}
		return nil
	}
	for name, build := range map[string]func() *graph.Graph[state]{
		"behind a model": func() *graph.Graph[state] {
			b := graph.New[state]("g")
			agent.AddLLM(b, "ask", agent.LLM[state]{Model: scripted.New(scripted.Text("a1"), scripted.Text("a2"))})
			return compile(t, b.AddNode("check", check).AddEdge(graph.Start, "ask").AddEdge("ask", "check"), memory())
		},
		"without nodes of agents": func() *graph.Graph[state] {
			b := graph.New[state]("g").AddNode("answer", func(_ context.Context, s *state) error {
				s.LastResponse.Add("a" + s.UserInput[1:])
				return nil
			})
			return compile(t, b.AddNode("check", check).AddEdge(graph.Start, "answer").AddEdge("answer", "check"), memory())
		},
	} {
		fail = true
		r := runner(t, build(), session.Options[state]{})
		if _, err := run(t, r, "s1", "q1"); err == nil {
			t.Fatal("it did not fail")
		}
		fail = false
		if got := reply(t, r, "s1", "q2"); got != "a2" {
			t.Errorf("%s: answered %q", name, got)
		}
	}
}

func TestBytesThatAreNoTextInAMessageAreReplaced(t *testing.T) {
	for name, opts := range map[string][]graph.Option{"with a thread": {memory()}, "without": nil} {
		r := runner(t, asks(t, agent.LLM[state]{Model: echo()}, opts...), session.Options[state]{})
		if got := reply(t, r, "s1", "caf\xe9"); got != "caf\ufffd" {
			t.Errorf("%s: %q", name, got)
		}
		sess, err := r.Service().Get(t.Context(), key)
		if kept := only(sess.Events, session.KindInput); err != nil || len(kept) != 1 || kept[0].Message.Text() != "caf\ufffd" {
			t.Errorf("%s: %v, kept %v", name, err, kept)
		}
	}
}
