package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// Options are the settings of a [Runner]. The zero value is fine.
type Options[S any] struct {
	// Service keeps the sessions; nil means one in memory, of the runner's own.
	Service Service

	// Description says what the agent is for; see [Runner.Description].
	Description string

	// InitialState writes to the graph's state when its thread begins; without
	// a checkpointer that is in each run.
	InitialState func(s *S) error

	// Before is called before the graph runs. If it returns a response, that is
	// the answer and the graph doesn't run.
	Before func(ctx context.Context, call Call) (*chat.Message, error)

	// After is called when the graph, or Before, is done, with the answer, which
	// is nil if there is none, or the error of the run. It returns what replaces
	// them: nil and nil leave them as they are. A response in the place of an
	// error makes the run succeed; what has failed stays pending on the thread.
	// It is not called when the thread waits for an answer.
	After func(ctx context.Context, call Call, response *chat.Message, err error) (*chat.Message, error)

	// OnEvent is called with each event before it is yielded, also with those
	// that come after the caller has left the loop.
	OnEvent func(Event)

	// Buffer is how many events may wait for a slow caller before the graph
	// waits for it.
	Buffer int

	// Queue makes a run wait while another one works in its session. Without it
	// there is a [*BusyError]. The runs of one Runner come to their turn in the
	// order of their calls; those of others, if the graph has a checkpointer, in
	// any order. Without a checkpointer nothing keeps two Runners apart.
	Queue bool

	// LastEvents, if positive, bounds from how many of the newest events the
	// conversation is put together where there is no checkpoint of it.
	LastEvents int

	// Graph are options for all runs of the graph, such as a checkpointer.
	Graph []graph.ThreadOption
}

// Call is a call of [Runner.Run], for callbacks.
type Call struct {
	Key     Key
	Run     string
	Message chat.Message // as it was given
	State   *State
}

// Runner runs a graph for users in sessions. It is made by [NewRunner], and safe
// for concurrent use.
type Runner[S any] struct {
	app   string
	graph *graph.Graph[S]
	of    func(s *S, use func(*agent.State) error) error
	turns graph.RunOption // a message after a failure starts a turn
	o     Options[S]
	lines queues
}

// NewRunner returns a runner that runs g for the users of an app. At most one
// Options may be given.
func NewRunner[S any, P agent.Stateful[S]](app string, g *graph.Graph[S], opts ...Options[S]) (*Runner[S], error) {
	return newRunner(app, g, func(s *S, use func(*agent.State) error) error { return use(P(s).AgentState()) }, agent.Turns[S, P](), opts)
}

// NewSchemaRunner is [NewRunner] for a graph whose state is a map, with the fields of
// [agent.MessagesSchema].
func NewSchemaRunner(app string, g *graph.Graph[graph.SchemaState], opts ...Options[graph.SchemaState]) (*Runner[graph.SchemaState], error) {
	return newRunner(app, g, agent.OnSchema, agent.SchemaTurns(), opts)
}

func newRunner[S any](app string, g *graph.Graph[S], of func(*S, func(*agent.State) error) error, turns graph.RunOption, opts []Options[S]) (*Runner[S], error) {
	r := &Runner[S]{app: app, graph: g, of: of, turns: turns}
	switch {
	case len(opts) > 1:
		return nil, fmt.Errorf("%w: more than one Options", ErrInvalid)
	case len(opts) == 1:
		r.o = opts[0]
	}
	if err := (Key{app, "any", "any"}).Check(); err != nil {
		return nil, err
	}
	if g == nil {
		return nil, fmt.Errorf("%w: the graph is nil", ErrInvalid)
	}
	if r.o.Buffer < 0 || r.o.LastEvents < 0 {
		return nil, fmt.Errorf("%w: Options.Buffer and Options.LastEvents must not be negative", ErrInvalid)
	}
	settings := slices.Clip(r.o.Graph)
	if r.o.Queue {
		settings = append(settings, graph.WhenBusy(graph.BusyQueue))
	}
	var err error
	if r.graph, err = g.With(settings...); err != nil {
		return nil, err
	}
	if r.o.Service == nil {
		r.o.Service = NewMemory()
	}
	return r, nil
}

// App returns the name of the app.
func (r *Runner[S]) App() string { return r.app }

// Name returns the name of the agent: that of its graph.
func (r *Runner[S]) Name() string { return r.graph.Name() }

// Description returns what the agent is for.
func (r *Runner[S]) Description() string { return r.o.Description }

// Service returns the service that keeps the sessions.
func (r *Runner[S]) Service() Service { return r.o.Service }

// Thread returns the thread on which the graph runs for a session. Different
// sessions have different threads.
func Thread(key Key) string {
	return "session/" + url.PathEscape(key.App) + "/" + url.PathEscape(key.User) + "/" + url.PathEscape(key.ID)
}

// RunOption is a setting of one run.
type RunOption func(*runSettings)

type runSettings struct {
	resume     bool
	answer     any
	checkpoint string
	values     map[string]json.RawMessage
	err        error
}

// Resume answers what the thread waits for: a single value if it is one question,
// or [graph.Answers]. The run's message, if there is one, is only written down.
func Resume(answer any) RunOption {
	return func(s *runSettings) { s.resume, s.answer = true, answer }
}

// Checkpoint makes the run start from a checkpoint of the thread, on a new
// branch. What was planned there runs, unless the graph decides otherwise
// ([graph.OnInput]).
func Checkpoint(id string) RunOption { return func(s *runSettings) { s.checkpoint = id } }

// WithValue sets a value of the session's state for this run, before the
// callbacks. A key with another scope than "temp:" is stored.
func WithValue(key string, value any) RunOption {
	return func(s *runSettings) {
		data, err := json.Marshal(value)
		if err != nil {
			s.err = errors.Join(s.err, fmt.Errorf("%w: the value of state key %q: %w", ErrInvalid, key, err))
			return
		}
		if s.values == nil {
			s.values = map[string]json.RawMessage{}
		}
		s.values[key] = data
	}
}

// ResumeWord is the text of a message that lets a thread go on which waits or has
// failed. It is never input: when nothing is pending there is
// [graph.ErrNothingToResume].
const ResumeWord = "resume"

// Run says something to the graph in a session, which is made if it doesn't
// exist, and yields what happens. The last pair is a [KindCompletion] with the
// error of the run, if it has one; a run that could not begin yields a zero Event
// with its error. Each range over the result is a run of its own.
//
// Breaking out of the loop cancels the run and waits for its end. What the graph
// has recorded by then is written to the session.
//
// What the message does depends on the thread:
//
//   - It waits for an answer: the message is the answer. If the question doesn't
//     take a text, but JSON, the text is read as that. An answer that is
//     refused is a [*graph.AnswerError] and changes nothing; breakpoints without
//     a schema take none, [ResumeWord] passes them.
//   - Otherwise it is the input of a new turn, also where the last turn failed or
//     was killed. What that has recorded stays; input of it that no model has
//     answered and no agent inside has begun with is replaced. See [agent.Turns].
//
// Text becomes UserInput of the [agent.State]; a message with other parts, a name,
// an ID or metadata is added to Messages. A zero message lets the thread go on, as
// [ResumeWord] does, but a finished thread then does nothing.
//
// A process that is killed between the record of a superstep and that of its
// messages leaves these out of the session's events; the thread has them.
func (r *Runner[S]) Run(ctx context.Context, user, sessionID string, message chat.Message, opts ...RunOption) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		u := &run[S]{r: r, key: Key{r.app, user, sessionID}, message: message, id: "run_" + uuid.NewString(), yield: yield}
		for _, o := range opts {
			o(&u.set)
		}
		if err := u.run(ctx); err != nil {
			yield(Event{}, err)
		}
	}
}

// saveTimeout bounds each write of an event when the run has been cancelled.
const saveTimeout = 10 * time.Second

// run is one call of Run.
type run[S any] struct {
	r       *Runner[S]
	key     Key
	id      string
	message chat.Message
	set     runSettings
	yield   func(Event, error) bool
	left    bool // the caller has left the loop
	cancel  context.CancelFunc
	ctx     context.Context
	failed  error // to write to the session

	state   *State
	session *Session
	input   *Event // to be written when the graph has taken it
	durable bool   // the graph has a checkpointer
	plan    plan[S]
	watch   watcher
	last    *S // the newest state of the graph
}

// plan is what the graph is to do.
type plan[S any] struct {
	thread  *graph.Thread[S]
	request graph.Request[S]
	quiet   bool // the request is no input
	asked   []graph.Interrupted
	text    bool // the message becomes UserInput
}

// run does all of it. It returns an error if it could not begin.
func (u *run[S]) run(ctx context.Context) error {
	if u.set.err != nil {
		return u.set.err
	}
	if err := u.check(); err != nil {
		return err
	}
	if err := u.r.lines.enter(ctx, u.key, u.r.o.Queue); err != nil {
		return err
	}
	defer u.r.lines.done(u.key)
	u.ctx, u.cancel = context.WithCancel(ctx)
	defer u.cancel()
	if err := u.open(); err != nil {
		return err
	}
	call := Call{Key: u.key, Run: u.id, Message: u.message, State: u.state}
	response, waits, err := u.answer(call)
	if errors.Is(err, graph.ErrThreadBusy) {
		err = &BusyError{Key: u.key, Err: err}
	}
	if u.r.o.After != nil && !waits {
		replaced, afterErr := u.r.o.After(context.WithoutCancel(u.ctx), call, response, err)
		switch {
		case afterErr != nil:
			response, err = nil, afterErr
		case replaced != nil:
			m := *replaced
			if m.ID == "" && response != nil {
				m.ID = response.ID // it replaces that one in the conversation
			}
			response, err = u.respond(m, false), nil
		}
	}
	if err = errors.Join(err, u.failed); u.left && err == nil {
		err = context.Canceled // nobody hears of it but OnEvent
	}
	done := Event{Kind: KindCompletion, Author: AuthorExecutor, Message: response, Open: u.watch.open, Err: err}
	u.emit(done, true)
	return nil
}

func (u *run[S]) check() error {
	if err := u.key.Check(); err != nil {
		return err
	}
	m := &u.message
	if m.Role == "" && len(m.Parts) > 0 {
		m.Role = chat.RoleUser
	}
	*m = m.ValidUTF8()
	if m.Role != chat.RoleUser && len(m.Parts) > 0 {
		return fmt.Errorf("%w: the message is one of role %q, want the user's", ErrInvalid, m.Role)
	}
	return nil
}

func (u *run[S]) said() bool { return len(u.message.Parts) > 0 }

// open finds or makes the session.
func (u *run[S]) open() (err error) {
	service := u.r.o.Service
	u.session, err = service.Get(u.ctx, u.key, Window{Last: -1})
	if errors.Is(err, ErrNotFound) {
		if u.session, err = service.Create(u.ctx, u.key, nil); errors.Is(err, ErrExists) {
			u.session, err = service.Get(u.ctx, u.key, Window{Last: -1})
		}
	}
	if err != nil {
		return err
	}
	u.state = newState(service, u.key, u.id, u.r.Name(), u.session.State)
	if len(u.set.values) == 0 {
		return nil
	}
	return u.state.set(u.ctx, u.set.values)
}

// answer gets the answer, from a callback or from the graph. Waits says that the
// thread waits for one itself.
func (u *run[S]) answer(call Call) (response *chat.Message, waits bool, err error) {
	if u.r.o.Before != nil {
		m, err := u.r.o.Before(u.ctx, call)
		if err != nil {
			return nil, false, err
		}
		if m != nil {
			if u.said() {
				u.input = u.inputEvent(u.message, false)
				u.accept()
			}
			return u.respond(*m, false), false, nil
		}
	}
	if err := u.prepare(); err != nil {
		return nil, false, err
	}
	err = u.stream()
	if len(u.plan.asked) > 0 || len(u.watch.open) > 0 {
		u.look()
	}
	if len(u.watch.open) > 0 && err == nil {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	return u.response(), false, nil
}

// response returns the answer of the graph.
func (u *run[S]) response() *chat.Message {
	final := u.watch.final
	if u.last == nil || !u.watch.answered {
		return final
	}
	text := ""
	if err := u.r.of(u.last, func(st *agent.State) error { text = st.LastResponse.Get(); return nil }); err != nil {
		u.failed = errors.Join(u.failed, err)
	}
	if text == "" || final != nil && final.Text() == text {
		return final
	}
	// A node gave it that asked no model. It is no message of the thread.
	return u.respond(chat.Assistant(text), u.durable)
}

// respond writes down an answer that no model gave.
func (u *run[S]) respond(m chat.Message, inThread bool) *chat.Message {
	if m.Role == "" {
		m.Role = chat.RoleAssistant
	}
	ev := Event{Kind: KindAgent, Author: u.r.Name(), Message: &m, InThread: inThread}
	return u.keep(ev).Message
}

// look finds out what the thread waits for when the run has ended.
func (u *run[S]) look() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), saveTimeout)
	defer cancel()
	snap, err := u.r.graph.Thread(Thread(u.key)).State(ctx)
	if err != nil {
		u.failed = errors.Join(u.failed, err)
		return
	}
	u.watch.open = nil
	for i := range snap.Interrupts {
		u.watch.open = append(u.watch.open, questionOf(&snap.Interrupts[i]))
	}
}

// prepare decides what the message does; see Run.
func (u *run[S]) prepare() error {
	opts := []graph.ThreadOption{graph.UseDeps(u.state), graph.UseDeps[agent.Values](u.state)}
	if u.set.checkpoint == "" {
		opts = append(opts, u.r.turns)
	}
	t := u.r.graph.Thread(Thread(u.key), opts...).At(u.set.checkpoint)
	word := u.said() && plain(u.message) && u.message.Text() == ResumeWord && !u.set.resume
	snap, err := t.State(u.ctx)
	known := err == nil
	switch {
	case errors.Is(err, graph.ErrNoCheckpointer):
		if u.set.resume || u.set.checkpoint != "" || word || !u.said() {
			return fmt.Errorf("%w: the graph has no checkpointer: %w", graph.ErrNothingToResume, graph.ErrNoCheckpointer)
		}
	case errors.Is(err, checkpoint.ErrNotFound) && u.set.checkpoint == "":
		u.durable = true
	case err != nil:
		return err
	default:
		u.durable = true
		u.plan.asked = snap.Interrupts
		if err := u.r.of(&snap.State, func(st *agent.State) error {
			u.watch.said = append(u.watch.said, st.UserInput) // of a run that failed
			return nil
		}); err != nil {
			return err
		}
	}
	if word && (!known || snap.Done() && u.set.checkpoint == "") {
		return fmt.Errorf("%w: %q in session %v, where nothing is pending", graph.ErrNothingToResume, ResumeWord, u.key)
	}
	missing, err := u.missing(known)
	if err != nil {
		return err
	}
	add := func(s *S) error {
		if !known && u.r.o.InitialState != nil {
			if err := u.r.o.InitialState(s); err != nil {
				return err
			}
		}
		if len(missing) == 0 {
			return nil
		}
		return u.r.of(s, func(st *agent.State) error {
			st.Messages.Add(missing...)
			return nil
		})
	}
	p := &u.plan
	p.thread = t
	var late []func(*S) error // what an answer adds
	if len(missing) > 0 {
		late = append(late, add)
	}
	switch {
	case u.set.resume:
		p.quiet, p.request = true, t.Answer(u.set.answer, late...)
		said := u.message
		if !u.said() {
			if said, err = spoken(u.set.answer); err != nil {
				return err
			}
		}
		u.input = u.inputEvent(said, true)
	case known && len(snap.Interrupts) > 0 && u.said() && !word:
		p.quiet, p.request = true, t.Answer(answerOf(u.message, snap.Interrupts), late...)
		u.input = u.inputEvent(u.message, true)
	case !u.said() || word:
		p.quiet = len(missing) == 0 || snapDone(snap)
		if !p.quiet {
			p.request = t.Input(add)
		}
	default:
		u.input = u.inputEvent(u.message, u.durable)
		m := u.message
		p.text = plain(m)
		m.ID = u.input.Message.ID
		p.request = t.Input(func(s *S) error {
			if err := add(s); err != nil {
				return err
			}
			return u.r.of(s, func(st *agent.State) error {
				if p.text {
					st.UserInput = m.Text()
					return nil
				}
				st.UserInput = "" // of a turn that failed
				st.Messages.Add(m)
				return nil
			})
		})
	}
	return nil
}

func snapDone[S any](snap *graph.Snapshot[S]) bool { return snap == nil || snap.Done() }

// inputEvent returns the event that says what the user said.
func (u *run[S]) inputEvent(m chat.Message, inThread bool) *Event {
	ev := &Event{ID: NewID(), Kind: KindInput, Author: AuthorUser, InThread: inThread}
	if m.ID == "" {
		m.ID = "msg_" + ev.ID
	}
	ev.Message = &m
	if inThread {
		ev.Synced = u.session.Seq
	}
	return ev
}

// missing returns the messages of the session that the thread doesn't have: all
// of them if there is no thread.
func (u *run[S]) missing(known bool) ([]chat.Message, error) {
	w := Window{After: u.session.Synced}
	if !known {
		w = Window{Last: u.r.o.LastEvents}
	}
	if w.After >= u.session.Seq {
		return nil, nil
	}
	sess, err := u.r.o.Service.Get(u.ctx, u.key, w)
	if err != nil {
		return nil, err
	}
	u.session.Seq = sess.Seq
	var out []chat.Message
	for _, e := range sess.Events {
		if e.Message != nil && !(known && e.InThread) {
			out = append(out, *e.Message)
		}
	}
	for !known && len(out) > 0 && out[0].Role == chat.RoleTool {
		out = out[1:] // LastEvents has cut off the call that it answers
	}
	return out, nil
}

// plain reports whether a message is no more than a text.
func plain(m chat.Message) bool {
	for _, p := range m.Parts {
		if t, ok := p.(chat.Text); !ok || t.Signature != "" {
			return false
		}
	}
	return m.ID == "" && m.Name == "" && len(m.Metadata) == 0
}

// answerOf makes a message the answer to a question: its text, or the JSON in it
// if a text is not what is asked for.
func answerOf(m chat.Message, asked []graph.Interrupted) any {
	if !plain(m) {
		return m
	}
	text := m.Text()
	if len(asked) == 1 && len(asked[0].Schema) > 0 && !takesText(asked[0].Schema) && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

// takesText reports whether a schema may allow texts.
func takesText(schema json.RawMessage) bool {
	var s struct {
		Type any `json:"type"` // a name, or several
	}
	err := json.Unmarshal(schema, &s)
	return err != nil || s.Type == nil || strings.Contains(fmt.Sprint(s.Type), "string")
}

// spoken is what the session has of an answer that was not given as a message.
func spoken(answer any) (chat.Message, error) {
	if text, ok := answer.(string); ok {
		return chat.User(text), nil
	}
	data, err := json.Marshal(answer)
	if err != nil {
		return chat.Message{}, fmt.Errorf("%w: the answer: %w", ErrInvalid, err)
	}
	return chat.User(string(data)), nil
}

// stream runs the graph.
func (u *run[S]) stream() error {
	events := u.plan.thread.Stream(u.ctx, u.plan.request, graph.Buffer(u.r.o.Buffer),
		graph.Modes(graph.ModeUpdates, graph.ModeValues, graph.ModeMessages, graph.ModeCustom, graph.ModeTools, graph.ModeTasks, graph.ModeCheckpoints))
	u.watch.skipUser = u.plan.text || u.plan.quiet
	if u.input != nil {
		u.watch.said = append(u.watch.said, u.input.Message.Text())
	}
	for ev, err := range events {
		if err != nil {
			return err
		}
		u.accept()
		if s, ok := graph.StateOf[S](ev); ok && len(ev.Path) == 0 {
			u.last = s
		}
		for _, e := range u.watch.events(ev, u.durable) {
			switch {
			case e.Seq > 0 || !e.kept:
				u.emit(e.Event, false)
			default:
				u.keepQuiet(e.Event, e.quiet)
			}
		}
	}
	return nil
}

// accept writes down what the user said, once the graph has taken it.
func (u *run[S]) accept() {
	if u.input != nil {
		ev := *u.input
		u.input = nil
		u.keep(ev)
	}
}

func (u *run[S]) keep(ev Event) Event { return u.keepQuiet(ev, false) }

// keepQuiet appends an event to the session and yields it, unless it is quiet. A
// failure ends the run.
func (u *run[S]) keepQuiet(ev Event, quiet bool) Event {
	ev.Run = u.id
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), saveTimeout)
	defer cancel()
	if err := u.r.o.Service.AppendEvent(ctx, u.key, &ev); err != nil {
		u.failed = errors.Join(u.failed, fmt.Errorf("writing to session %v: %w", u.key, err))
		u.cancel()
		return ev
	}
	if !quiet {
		u.emit(ev, false)
	}
	return ev
}

// emit yields an event, with its error if it is the last one.
func (u *run[S]) emit(ev Event, last bool) {
	if ev.ID == "" {
		ev.ID = NewID()
	}
	if ev.Run = u.id; ev.Time.IsZero() {
		ev.Time = time.Now()
	}
	if ev.Err != nil {
		ev.Error = ev.Err.Error()
	}
	if u.r.o.OnEvent != nil {
		u.r.o.OnEvent(ev)
	}
	if u.left {
		return
	}
	var err error
	if last {
		err = ev.Err
	}
	if !u.yield(ev, err) {
		u.left = true
		u.cancel()
	}
}
