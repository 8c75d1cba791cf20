package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agenttest"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/server"
	"github.com/superstep-dev/superstep/session"
	"github.com/superstep-dev/superstep/tool"
)

// fate is what goes wrong in a call of an agent: at the nth thing that it does.
type fate struct {
	kind string // of fates
	at   int
}

var fates = []string{"none", "none", "model fails", "tool fails", "tool asks", "check fails", "store fails", "store fails after", "cancel", "death", "death after"}

var (
	errFate = errors.New("this goes wrong")
	callID  = regexp.MustCompile(`(?:^|[:/])(tool|call) (c\d+)$`)
)

// world is what agents of several processes do, and what the store has recorded.
type world struct {
	t        *rapid.T
	store    checkpoint.Store
	shape    string
	via      string          // how the user reaches the agent: see ways
	sessions session.Service // of a runner
	thread   string
	g        *graph.Graph[S] // of the process that lives
	up       *life
	way      way

	mu       sync.Mutex
	draw     *rand.Rand // what models say
	calls    int
	begun    map[string]bool
	recorded map[string]bool
	ran      map[string]int    // how often a call's tool was called
	keys     map[string]string // idempotency keys of calls
	wrong    []string
	accepted []string // messages that were taken
	said     int
}

// life is a process, and the store as it sees it.
type life struct {
	checkpoint.Store
	w      *world
	fate   fate
	hit    bool // it has happened
	cancel func()
	dead   bool
}

func (w *world) note(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// happens reports whether it is the time for what goes wrong.
func (l *life) happens(kinds ...string) bool {
	if !slices.Contains(kinds, l.fate.kind) {
		return false
	}
	if l.fate.at--; l.fate.at != 0 {
		return false
	}
	l.hit = true
	return true
}

func (l *life) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	switch {
	case l.dead:
		return checkpoint.Written{}, errDead
	case l.happens("store fails"):
		return checkpoint.Written{}, errFate
	case l.happens("death"):
		l.dead = true
		l.cancel()
		return checkpoint.Written{}, errDead
	case l.happens("cancel"):
		l.cancel()
	}
	out, err := l.Store.Write(ctx, w)
	if err == nil {
		for _, r := range w.Results {
			if m := callID.FindStringSubmatch(r.Name); m != nil && r.Kind == checkpoint.KindOnce {
				if m[1] == "call" {
					l.w.begun[m[2]] = true
				} else {
					l.w.recorded[m[2]] = true
				}
			}
		}
		switch {
		case l.happens("store fails after"):
			return checkpoint.Written{}, errFate
		case l.happens("death after"):
			l.dead = true
			l.cancel()
			return checkpoint.Written{}, errDead
		}
	}
	return out, err
}

// model asks, answers and fails. It refuses what a provider would, and looks at what
// it is told.
func (w *world) model(tools ...string) model.Model {
	return model.Func(func(ctx context.Context, r *model.Request) (*model.Response, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.up.dead || w.up.happens("cancel", "model fails") {
			w.up.cancelIf("cancel")
			return nil, errFate
		}
		w.look("a request", r.Messages)
		last := r.Messages[len(r.Messages)-1]
		n := w.draw.IntN(4)
		if last.Role == chat.RoleTool {
			n = w.draw.IntN(2)
		}
		if len(tools) == 0 || n == 0 {
			return &model.Response{Message: chat.Assistant("re " + last.Text())}, nil
		}
		var calls []chat.ToolCall
		for range n {
			w.calls++
			name := tools[w.draw.IntN(len(tools))]
			args := `{"task":"do it"}`
			if !slices.Contains(effects, name) && name != "sub" && name != "other" {
				args = "{}"
			}
			calls = append(calls, call(fmt.Sprint("c", w.calls), name, args))
		}
		return &model.Response{Message: chat.Assistant("", calls...)}, nil
	})
}

func (l *life) cancelIf(kind string) {
	if l.fate.kind == kind {
		l.cancel()
	}
}

// look checks that a conversation is one that a provider takes, and true.
func (w *world) look(where string, messages []chat.Message) {
	if err := agenttest.Sound(messages); err != nil {
		w.note("%s: %v", where, err)
	}
	for _, m := range messages {
		r, ok := m.ToolResult()
		if !ok {
			continue
		}
		text, id := r.Text(), r.CallID
		switch {
		case strings.HasPrefix(text, "not called"), strings.HasPrefix(text, "The user rejected"):
			if w.ran[id] > 0 || w.begun[id] {
				w.note("%s: %s %s was called %d times, begun %v, and is told as %q", where, r.Name, id, w.ran[id], w.begun[id], text)
			}
		case text == unknown:
			if !w.begun[id] || w.recorded[id] {
				w.note("%s: %s %s has begun %v, is recorded %v, and told as unknown", where, r.Name, id, w.begun[id], w.recorded[id])
			}
		case w.ran[id] == 0 && slices.Contains(effects, r.Name):
			w.note("%s: %s %s was not called, and is told as %q", where, r.Name, id, text)
		}
	}
}

// effects are the tools that count how often they are called; others are agents, and
// hand over.
var effects = []string{"pay", "book", "ask"}

// tool is one with an effect, which must not be made once it is recorded.
func (w *world) tool(name string) tool.Tool {
	return tool.New(name, name, func(ctx context.Context, _ struct {
		Task string `json:"task"`
	}) (string, error) {
		in := tool.InfoOf(ctx)
		w.mu.Lock()
		asks := w.up.fate.kind == "tool asks"
		w.mu.Unlock()
		if asks || name == "ask" {
			if _, err := graph.Interrupt[bool](ctx, "sure", "sure?"); err != nil {
				return "", err
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.up.dead {
			return "", errDead
		}
		id := in.CallID
		if !w.begun[id] {
			w.note("%s %s is called, and no record says that it began", name, id)
		}
		if w.recorded[id] {
			w.note("%s %s is called again, though its result is recorded", name, id)
		}
		if key := w.keys[id]; key != "" && key != in.IdempotencyKey {
			w.note("%s %s has another idempotency key", name, id)
		}
		w.keys[id] = in.IdempotencyKey
		w.ran[id]++
		if w.up.happens("tool fails", "cancel") {
			w.up.cancelIf("cancel")
			return "", errFate
		}
		return "done " + id, nil
	})
}

func (w *world) check(context.Context, *S) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.up.happens("check fails") {
		return errFate
	}
	return nil
}

// note is a tool that takes the state.
var note = agent.NewStateTool("note", "notes", func(_ context.Context, s *S, _ struct{}) (string, graph.Command, error) {
	s.Rounds++
	return "noted", graph.Command{}, nil
})

// many is how often a model may be called in a turn: with the default limit, chance lets
// one call tools until it may no more.
const many = 100

// shapes are the agents.
var shapes = map[string]func(w *world, opts ...graph.Option) (*graph.Graph[S], error){
	"react": func(w *world, opts ...graph.Option) (*graph.Graph[S], error) {
		return agent.New(agent.ReAct[S]{Model: w.model("pay", "book", "ask"), Tools: []tool.Tool{w.tool("pay"), w.tool("book"), w.tool("ask")},
			Approve: agent.Approve("pay"), Use: nodes(nil, w.check), MaxIterations: many}, opts...)
	},
	"parallel tools": func(w *world, opts ...graph.Option) (*graph.Graph[S], error) {
		return agent.New(agent.ReAct[S]{Model: w.model("pay", "book", "sub"), Tools: []tool.Tool{w.tool("pay"), w.tool("book"), agent.AsTool(w.sub("sub", "pay"))},
			Parallel: 3, OnError: agent.TellModel, MaxIterations: many}, opts...)
	},
	"a task per call": func(w *world, opts ...graph.Option) (*graph.Graph[S], error) {
		return agent.New(agent.ReAct[S]{Model: w.model("pay", "book", "ask", "note"), Tools: []tool.Tool{w.tool("pay"), w.tool("book"), w.tool("ask"), note},
			Approve: agent.Approve("pay"), Use: nodes(nil, w.check), MaxIterations: many, TaskPerCall: true}, opts...)
	},
	"a task per call, agents among the tools": func(w *world, opts ...graph.Option) (*graph.Graph[S], error) {
		return agent.New(agent.ReAct[S]{Model: w.model("pay", "book", "sub", "other"), Tools: []tool.Tool{w.tool("pay"), w.tool("book"), agent.AsTool(w.sub("sub", "ask")), agent.AsTool(w.sub("other", "pay"))},
			OnError: agent.TellModel, MaxIterations: many, TaskPerCall: true}, opts...)
	},
	"a task per call in a swarm": func(w *world, opts ...graph.Option) (*graph.Graph[S], error) {
		member := func(name, other string) agent.SwarmAgent {
			return agent.SwarmAgent{ReAct: agent.ReAct[S]{Name: name, Model: w.model("pay", "book", agent.HandOffTool(other)), Tools: []tool.Tool{w.tool("pay"), w.tool("book")}, TaskPerCall: true}}
		}
		return agent.NewSwarm(agent.Swarm{Agents: []agent.SwarmAgent{member("a", "b"), member("b", "a")}, MaxIterations: many}, opts...)
	},
	"supervisor": func(w *world, opts ...graph.Option) (*graph.Graph[S], error) {
		return agent.NewSupervisor(agent.Supervisor{Model: w.model("book", "sub", "sub"), Tools: []tool.Tool{w.tool("book")}, Approve: agent.Approve("book"),
			Agents: []*agent.Agent{w.sub("sub", "pay")}, MaxIterations: many}, opts...)
	},
	"swarm": func(w *world, opts ...graph.Option) (*graph.Graph[S], error) {
		member := func(name, other string) agent.SwarmAgent {
			return agent.SwarmAgent{ReAct: agent.ReAct[S]{Name: name, Model: w.model("pay", "book", agent.HandOffTool(other)), Tools: []tool.Tool{w.tool("pay"), w.tool("book")}}}
		}
		return agent.NewSwarm(agent.Swarm{Agents: []agent.SwarmAgent{member("a", "b"), member("b", "a")}, MaxIterations: many}, opts...)
	},
	"chain": func(w *world, opts ...graph.Option) (*graph.Graph[S], error) {
		return agent.Chain("chain", []*agent.Agent{w.sub("one", "pay"), w.sub("two", "book")}, opts...)
	},
	"parallel": func(w *world, opts ...graph.Option) (*graph.Graph[S], error) {
		return agent.Parallel("parallel", []*agent.Agent{w.sub("one", "pay"), w.sub("two", "ask")}, opts...)
	},
	"cycle": func(w *world, opts ...graph.Option) (*graph.Graph[S], error) {
		return agent.NewCycle(agent.Cycle{Name: "cycle", Agents: []*agent.Agent{w.sub("one", "pay"), w.sub("two", "ask")}, MaxRounds: 2}, opts...)
	},
	"agent as a tool": func(w *world, opts ...graph.Option) (*graph.Graph[S], error) {
		return agent.New(agent.ReAct[S]{Model: w.model("sub", "book"), Tools: []tool.Tool{agent.AsTool(w.sub("sub", "ask")), w.tool("book")},
			Approve: agent.Approve("sub"), MaxIterations: many}, opts...)
	},
	"node": func(w *world, opts ...graph.Option) (*graph.Graph[S], error) {
		b := graph.New[S]("node")
		agent.AddAgent(b, "one", w.sub("one", "pay"), agent.SubAgent[S]{})
		b.AddNode("check", w.check)
		return b.AddEdge(graph.Start, "one").AddEdge("one", "check").Compile(opts...)
	},
}

// sub is an agent that calls a tool.
func (w *world) sub(name, uses string) *agent.Agent {
	g, err := agent.New(agent.ReAct[S]{Name: name, Model: w.model(uses), Tools: []tool.Tool{w.tool(uses)}, MaxIterations: many})
	if err != nil {
		w.t.Fatal(err)
	}
	return agent.Of(g, name)
}

// way is how what the user does reaches the agent, in one process.
type way interface {
	// say says something; anew gives up what waits, where it can.
	say(ctx context.Context, text string, anew bool) error
	answer(ctx context.Context, answers graph.Answers) error
	goOn(ctx context.Context) error
	end()
}

var ways = map[string]func(w *world) way{
	"thread": func(w *world) way { return threadWay{w} },
	"runner": func(w *world) way {
		r, err := session.NewRunner("app", w.g, session.Options[S]{Service: w.sessions})
		if err != nil {
			w.t.Fatal(err)
		}
		w.thread = session.Thread(session.Key{App: "app", User: "anna", ID: "s"})
		return runnerWay{r}
	},
	"server": func(w *world) way {
		s, err := server.New(context.Background(), server.Graph(w.g, server.Named("agent")), server.UseStore(w.up), server.WithoutStudio(), server.Logger(slog.New(slog.DiscardHandler)))
		if err != nil {
			w.t.Fatal(err)
		}
		h := httptest.NewServer(s)
		c, err := client.New(h.URL)
		if err != nil {
			w.t.Fatal(err)
		}
		w.thread = "6a0f3e86-7f2c-4d8a-9d53-2f6c1f3b7a11"
		return serverWay{w, s, h, c}
	},
}

type threadWay struct{ w *world }

// invoke waits for the thread if a tool is at work that an earlier call has left behind:
// until its result is recorded the thread is busy. A lease that nobody gave up lasts longer.
func (t threadWay) invoke(ctx context.Context, r graph.Request[S]) error {
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		_, err := t.w.g.Thread(t.w.thread).Invoke(ctx, r)
		if !errors.Is(err, graph.ErrThreadBusy) || time.Now().After(until) {
			return err
		}
	}
}

func (t threadWay) say(ctx context.Context, text string, anew bool) error {
	if anew {
		return t.invoke(ctx, t.w.g.Restart(agent.Ask[S](text)))
	}
	return t.invoke(ctx, input(text))
}

func (t threadWay) answer(ctx context.Context, a graph.Answers) error {
	return t.invoke(ctx, t.w.g.Answer(a))
}
func (t threadWay) goOn(ctx context.Context) error { return t.invoke(ctx, t.w.g.Continue()) }
func (t threadWay) end()                           {}

type runnerWay struct{ r *session.Runner[S] }

func (r runnerWay) run(ctx context.Context, m chat.Message, opts ...session.RunOption) (failed error) {
	for _, err := range r.r.Run(ctx, "anna", "s", m, opts...) {
		if err != nil {
			failed = err
		}
	}
	return failed
}

func (r runnerWay) say(ctx context.Context, text string, _ bool) error {
	return r.run(ctx, chat.User(text))
}

func (r runnerWay) answer(ctx context.Context, a graph.Answers) error {
	return r.run(ctx, chat.Message{}, session.Resume(a))
}
func (r runnerWay) goOn(ctx context.Context) error { return r.run(ctx, chat.Message{}) }
func (r runnerWay) end()                           {}

type serverWay struct {
	w *world
	s *server.Server
	h *httptest.Server
	c *client.Client
}

func (s serverWay) run(ctx context.Context, r client.RunRequest) error {
	r.Assistant, r.CreateThread, r.CancelOnLeave, r.IfBusy = "agent", true, true, client.BusyEnqueue
	_, err := s.c.Wait(ctx, s.w.thread, r)
	return err
}

func (s serverWay) say(ctx context.Context, text string, _ bool) error {
	return s.run(ctx, client.RunRequest{Input: map[string]string{"user_input": text}})
}

func (s serverWay) answer(ctx context.Context, a graph.Answers) error {
	return s.run(ctx, client.RunRequest{Command: &client.Command{Resume: a}})
}
func (s serverWay) goOn(ctx context.Context) error { return s.run(ctx, client.RunRequest{}) }
func (s serverWay) end() {
	s.h.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // its runs are over, or the process is dead
	_ = s.s.Close(ctx)
}

// start begins a process.
func (w *world) start() {
	if w.way != nil {
		w.way.end()
	}
	w.up = &life{Store: w.store, w: w}
	g, err := shapes[w.shape](w, graph.WithCheckpointer(w.up))
	if err != nil {
		w.t.Fatal(err)
	}
	w.g = g
	w.way = ways[w.via](w)
}

// do makes a call with its fate, and looks at what came of it. It returns the thread as
// it is then if the call succeeded, and nil if it failed as it had to.
func (w *world) do(f fate, what string, call func(ctx context.Context) error) (*graph.Snapshot[S], error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.mu.Lock()
	w.up.fate, w.up.hit, w.up.cancel = f, false, cancel
	w.mu.Unlock()
	err := call(ctx)
	w.mu.Lock()
	dead, hit := w.up.dead, w.up.hit
	w.up.fate = fate{}
	w.mu.Unlock()
	w.t.Logf("%s, %s at %d: %v", what, f.kind, f.at, err)
	if dead {
		w.start()
	}
	var s *graph.Snapshot[S]
	if err == nil {
		if s, err = w.g.Thread(w.thread).State(context.Background()); err != nil {
			w.t.Fatal(err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s != nil && s.Done() {
		w.look("the conversation", s.State.Messages.Slice())
		said := map[string]int{}
		for m := range s.State.Messages.All() {
			if m.Role == chat.RoleUser {
				said[m.Text()]++
			}
		}
		for _, m := range w.accepted {
			if said[m] != 1 {
				w.note("%q was taken, and is %d times in the conversation", m, said[m])
			}
		}
		if last := s.State.Messages.Last(); s.State.UserInput != "" || last.Role != chat.RoleAssistant || len(last.ToolCalls()) > 0 {
			w.note("the turn has ended with the input %q and\n%s", s.State.UserInput, s.State.Messages)
		}
	}
	if len(w.wrong) > 0 {
		w.t.Fatal(strings.Join(w.wrong, "\n"))
	}
	if err != nil && hit {
		return nil, nil // as it had to
	}
	return s, err
}

// ask says something new.
func (w *world) ask(f fate, anew bool) {
	w.said++
	text := fmt.Sprint("m", w.said)
	if anew = anew && w.via == "thread"; anew {
		w.accepted = nil // what waits is given up
	}
	s, err := w.do(f, "ask "+text, func(ctx context.Context) error { return w.way.say(ctx, text, anew) })
	switch {
	case s != nil:
		w.accepted = append(w.accepted, text)
	case err != nil && !refused(err):
		w.t.Fatalf("ask %s: %v", text, err)
	}
}

// refused reports whether an error says that a message isn't taken, as something
// else is waited for: a runner takes it for the answer.
func refused(err error) bool {
	var waits *agent.WaitingError
	var answer *graph.AnswerError
	return errors.As(err, &waits) || errors.As(err, &answer) || strings.Contains(err.Error(), "the message is not taken")
}

// goOn answers what is asked, or continues.
func (w *world) goOn(f fate) *graph.Snapshot[S] {
	s, err := w.g.Thread(w.thread).State(context.Background())
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	answers := graph.Answers{}
	for _, q := range s.Interrupts {
		if q.Key != agent.ApprovalKey {
			answers[q.ID] = true
			continue
		}
		var asked agent.ApprovalRequest
		if err := json.Unmarshal(q.Raw, &asked); err != nil {
			w.t.Fatal(err)
		}
		d := agent.Decision{Type: agent.ApproveCall}
		if w.draw.IntN(3) == 0 {
			d.Type = agent.RejectCall
		}
		answers[q.ID] = asked.Answer(d)
	}
	if len(answers) > 0 {
		s, err = w.do(f, "answer", func(ctx context.Context) error { return w.way.answer(ctx, answers) })
	} else {
		s, err = w.do(f, "continue", w.way.goOn)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// Whatever goes wrong in whatever moment, and whatever is said then, to whatever agent
// and however: each message is answered or refused with an error, no effect is repeated
// whose result is recorded, and what a model is told of each tool is what the records
// say.
func TestNoMessageIsLostNoToolRepeatedAndNothingUntrueTold(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() == checks.DefValue { // which is for one property, and here are as many as shapes
		defer func() { _ = checks.Value.Set(checks.DefValue) }()
		if err := checks.Value.Set("15"); err != nil {
			t.Fatal(err)
		}
	}
	for _, shape := range slices.Sorted(maps.Keys(shapes)) {
		t.Run(shape, func(t *testing.T) {
			dir, n := t.TempDir(), 0
			rapid.Check(t, func(t *rapid.T) {
				n++
				w := &world{t: t, shape: shape, thread: th, store: checkpoint.NewMemory(), sessions: session.NewMemory(),
					via:  rapid.SampledFrom([]string{"thread", "thread", "runner", "server"}).Draw(t, "via"),
					draw: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), begun: map[string]bool{}, recorded: map[string]bool{}, ran: map[string]int{}, keys: map[string]string{}}
				if rapid.IntRange(0, 7).Draw(t, "SQLite") == 7 {
					store, err := sqlite.Open(filepath.Join(dir, fmt.Sprint(n, ".db")), sqlite.Options{})
					if err != nil {
						t.Fatal(err)
					}
					defer store.Close()
					w.store = store
				}
				w.start()
				defer func() { w.way.end() }()
				w.live()
			})
		})
	}
}

// live is a story of calls that may go wrong, and then of some that don't.
func (w *world) live() {
	for range rapid.IntRange(2, 8).Draw(w.t, "calls") {
		f := fate{rapid.SampledFrom(fates).Draw(w.t, "fate"), rapid.IntRange(1, 9).Draw(w.t, "at")}
		switch rapid.SampledFrom([]string{"ask", "ask", "ask anew", "go on", "go on"}).Draw(w.t, "call") {
		case "ask":
			w.ask(f, false)
		case "ask anew":
			w.ask(f, true)
		case "go on":
			w.goOn(f)
		}
	}
	w.finish()
	w.ask(fate{}, false)
	w.finish()
}

// finish answers and goes on until the turn is over.
func (w *world) finish() {
	for range 30 {
		if s := w.goOn(fate{}); s == nil || s.Done() {
			return
		}
	}
	w.t.Fatal("it does not end")
}
