package a2a

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/graph"
)

// Agent is an agent that is elsewhere, as a node of a graph with the state S: see
// [AddAgent].
type Agent[S any] struct {
	// Client calls the agent; a2aclient.NewFromCard makes one. An http.Client of its
	// own is best without a timeout, which would cut streams, though these go on.
	Client *a2aclient.Client

	// Message returns what the agent is sent. It is called whenever the node runs, so
	// it must return the same for the same state.
	Message func(ctx context.Context, s *S) ([]*proto.Part, error)

	// Output writes what the agent has made, the artifacts of the task. An agent that
	// answers without a task has made its answer: a task with that as its only artifact.
	Output func(ctx context.Context, s *S, t *proto.Task) error

	// KeepState gives the node one context for all of the thread's life, so that the
	// agent knows what was said at earlier visits. Without it every task of the node has
	// a context of its own.
	KeepState bool
}

// AddAgent adds a node that has a task done by an agent.
//
// The agent's task is that of the node: after a question, a crash or an error the node
// goes on with it, in whatever process. What the agent asks (input-required) is asked
// here, and answered there: with the key and schema of each question if the agent is one
// of this package's [Handler], else with the key "answer" and any JSON, of which a string
// is sent as text. Texts of artifacts are streamed on as pieces of messages
// ([graph.ModeMessages]), data of a status as custom events ([graph.ModeCustom]).
//
// When the node's context ends the task is cancelled, which may take up to five seconds,
// unless the local run goes on in another process. A task that fails, is rejected or
// cancelled is an [*Error]; when the node runs again, the agent is sent the message
// again, for a new task in the same context.
//
// A process can die between sending and recording that. The node sends again then: the
// same message, with the same messageId, to the same context, unless the agent lists a
// task there. An agent that neither lists tasks nor knows messages by their ID may begin
// a second task.
func AddAgent[S any](b *graph.Builder[S], name string, a Agent[S], opts ...graph.NodeOption) {
	b.Mistake(name, a.check())
	b.AddNode(name, a.run, opts...)
}

func (a Agent[S]) check() error {
	var errs []error
	for _, c := range []struct {
		missing bool
		what    string
	}{{a.Client == nil, "a Client"}, {a.Message == nil, "a Message"}, {a.Output == nil, "an Output"}} {
		if c.missing {
			errs = append(errs, fmt.Errorf("an agent needs %s", c.what))
		}
	}
	return errors.Join(errs...)
}

func (a Agent[S]) run(ctx context.Context, s *S) error {
	parts, err := a.Message(ctx, s)
	if err != nil {
		return err
	}
	c := &call{client: a.Client, keep: a.KeepState, unfollow: func() {}}
	defer func() { c.unfollow() }()
	t, err := c.run(ctx, parts)
	if err != nil {
		return err
	}
	return a.Output(ctx, s, t)
}

// Error says that an agent did not do its part.
type Error struct {
	Task, Context string // there; empty if it didn't come to one
	State         proto.TaskState
	Message       string // what the agent says about it
	Err           error  // of a call; nil if the agent has ended the task
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("agent")
	if e.Task != "" {
		fmt.Fprintf(&b, ", task %s", e.Task)
	}
	if e.State != "" {
		fmt.Fprintf(&b, ": %s", e.State)
	}
	if e.Message != "" {
		fmt.Fprintf(&b, ": %s", e.Message)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// place is where a task is, or the answer of an agent that made none.
type place struct {
	Task    proto.TaskID   `json:"task,omitempty"`
	Context string         `json:"context,omitempty"`
	Reply   *proto.Message `json:"reply,omitempty"`
}

// call is one execution of a node.
type call struct {
	client *a2aclient.Client
	keep   bool

	at      place
	working bool // the task may be at work

	next     func() (proto.Event, error, bool) // of the stream of what was sent; nil: there is none
	unfollow func()                            // ends it
}

func (c *call) fail(err error) error {
	return &Error{Task: string(c.at.Task), Context: c.at.Context, Err: err}
}

// run returns the task when it is done.
func (c *call) run(ctx context.Context, message []*proto.Part) (done *proto.Task, err error) {
	defer func() { err = errors.Join(err, c.leave(ctx)) }()
	parts, answers := message, "" // ID of the message whose questions the parts answer
	for n := 1; ; n++ {
		turn := graph.Scope(ctx, fmt.Sprint("agent's turn ", n))
		began, err := c.send(turn, parts, answers)
		if err != nil {
			return nil, err
		}
		if m := c.at.Reply; m != nil {
			return &proto.Task{ContextID: m.ContextID, Status: proto.TaskStatus{State: proto.TaskStateCompleted}, Artifacts: []*proto.Artifact{{ID: proto.ArtifactID(m.ID), Parts: m.Parts}}}, nil
		}
		status, told, err := c.follow(turn, began, answers)
		if err != nil {
			return nil, err
		}
		switch status.State {
		case proto.TaskStateCompleted:
			t, err := c.client.GetTask(ctx, &proto.GetTaskRequest{ID: c.at.Task})
			if err != nil {
				return nil, c.fail(err)
			}
			return t, nil
		case proto.TaskStateInputRequired:
			given, err := relay(turn, status.Message)
			if err != nil {
				return nil, err
			}
			if parts, answers = given, "none"; status.Message != nil {
				answers = status.Message.ID
			}
		default: // it failed, was rejected or cancelled
			if told {
				e := &Error{Task: string(c.at.Task), Context: c.at.Context, State: status.State}
				if status.Message != nil {
					e.Message = textOf(status.Message.Parts)
				}
				return nil, e
			}
			c.at.Task, parts = "", message
		}
	}
}

// send sends a message, once, and reports whether it was this execution that did. It
// answers the questions of a message of the agent, or begins a task.
func (c *call) send(ctx context.Context, parts []*proto.Part, answers string) (began bool, err error) {
	at, err := graph.Once(ctx, "send", func(ctx context.Context, key string) (place, error) {
		at := c.at
		id := func(of string) string { return uuid.NewSHA1(uuid.NameSpaceOID, []byte("a2a "+of)).String() }
		if at.Context == "" {
			at.Context = id(key)
			if info := graph.Info(ctx); c.keep && info.Thread != "" {
				data, _ := json.Marshal(append([]string{info.Thread, info.Namespace, info.Node}, info.Path...)) // of strings
				at.Context = id(string(data))
			}
		}
		if at.Task != "" {
			// An execution before this one may have answered.
			t, err := c.client.GetTask(ctx, &proto.GetTaskRequest{ID: at.Task})
			if err != nil {
				return at, c.fail(err)
			}
			if t.Status.State != proto.TaskStateInputRequired || t.Status.Message != nil && asks(t, answers) {
				return at, nil
			}
		}
		m := proto.NewMessage(proto.MessageRoleUser, parts...)
		m.ID, m.ContextID, m.TaskID = id("message "+key), at.Context, at.Task
		if t := c.listed(ctx, at, m); t != nil {
			at.Task = t.ID
			return at, nil
		}
		began = true
		if err := c.start(ctx, &at, m); err != nil {
			return at, c.fail(err)
		}
		c.at, c.working = at, at.Reply == nil // to be cancelled, should it not be recorded
		return at, nil
	})
	if err == nil {
		c.at = at
	}
	return began, err
}

// start sends a message, and leaves the stream of what comes of it to follow. What is
// sent is not given up before it is known what it has begun.
func (c *call) start(ctx context.Context, at *place, m *proto.Message) error {
	late, drop := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(leaving, drop) })
	next, end := iter.Pull2(c.client.SendStreamingMessage(late, &proto.SendMessageRequest{Message: m}))
	c.unfollow()
	c.next, c.unfollow = next, func() { drop(); end() }
	ev, err, _ := next()
	stop()
	context.AfterFunc(ctx, drop)
	if errors.Is(err, proto.ErrUnsupportedOperation) { // it does not stream
		ev, err = c.client.SendMessage(late, &proto.SendMessageRequest{Message: m, Config: &proto.SendMessageConfig{ReturnImmediately: true}})
	}
	switch r := ev.(type) {
	case nil:
		return cmp.Or(err, errors.New("it sends nothing"))
	case *proto.Message:
		at.Reply = r
	default:
		info := r.TaskInfo()
		at.Task, at.Context = info.TaskID, cmp.Or(info.ContextID, at.Context)
	}
	return err
}

// rest yields what is left of the stream that start has begun.
func (c *call) rest(yield func(proto.Event, error) bool) {
	for {
		ev, err, more := c.next()
		if !more || !yield(ev, err) {
			c.next = nil
			return
		}
	}
}

// listed returns the task that an execution before this one has begun and not recorded;
// nil if the agent tells of none. In a context that is kept there may be others.
func (c *call) listed(ctx context.Context, at place, m *proto.Message) *proto.Task {
	if c.keep || at.Task != "" || c.at.Context != "" {
		return nil
	}
	list, err := c.client.ListTasks(ctx, &proto.ListTasksRequest{ContextID: at.Context, PageSize: 1})
	if err != nil || len(list.Tasks) == 0 || list.Tasks[0].ContextID != at.Context {
		return nil // an agent need not be able to
	}
	return list.Tasks[0]
}

// tries is how often in a row a stream that ended too early is opened again.
const tries = 6

// follow waits until the task has ended or asks something else than was answered, and
// passes on what it streams. Told says that this execution is the first to know, and is
// to tell.
func (c *call) follow(ctx context.Context, began bool, answered string) (status *proto.TaskStatus, told bool, err error) {
	status, err = graph.Once(ctx, "end", func(ctx context.Context, _ string) (*proto.TaskStatus, error) {
		c.working = true
		begun := map[proto.ArtifactID]bool{}
		for n := 0; ; n++ {
			if c.next != nil {
				for ev, err := range c.rest {
					if err != nil {
						break // the task says what is the matter
					}
					if err := passOn(ctx, ev, begun); err != nil {
						return nil, err
					}
				}
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
			}
			t, err := c.client.GetTask(ctx, &proto.GetTaskRequest{ID: c.at.Task})
			switch {
			case err != nil && (n == 0 || n == tries || final(err)):
				return nil, c.fail(err)
			case err == nil && t.Status.State == proto.TaskStateAuthRequired:
				e := &Error{Task: string(c.at.Task), Context: c.at.Context, State: t.Status.State}
				if t.Status.Message != nil {
					e.Message = textOf(t.Status.Message.Parts)
				}
				return nil, e
			case err == nil && (t.Status.State.Terminal() || asks(t, answered)):
				// One that was cancelled before this execution looked goes on.
				told = began || n > 0 || t.Status.State != proto.TaskStateCanceled
				c.working = false
				return &t.Status, nil
			}
			if n > 0 { // the stream was cut, or it ended and the task rests
				select {
				case <-time.After(min(250*time.Millisecond<<n, 10*time.Second)):
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
			for ev, err := range c.client.SubscribeToTask(ctx, &proto.SubscribeToTaskRequest{ID: c.at.Task}) {
				if err != nil {
					break // the task says what is the matter
				}
				if _, whole := ev.(*proto.Task); !whole {
					n = 0
				}
				if err := passOn(ctx, ev, begun); err != nil {
					return nil, err
				}
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err == nil {
				n = min(n, tries-1) // it answers: it is waited for
			}
		}
	})
	return status, told, err
}

// asks reports whether a task asks something else than the message that was answered.
func asks(t *proto.Task, answered string) bool {
	return t.Status.State == proto.TaskStateInputRequired && (t.Status.Message == nil || t.Status.Message.ID != answered)
}

// final reports whether an error of a call stays the same when it is made again.
func final(err error) bool {
	for _, e := range []error{proto.ErrTaskNotFound, proto.ErrInvalidParams, proto.ErrMethodNotFound, proto.ErrUnauthenticated, proto.ErrUnauthorized, proto.ErrVersionNotSupported} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// passOn streams an event on.
func passOn(ctx context.Context, ev proto.Event, begun map[proto.ArtifactID]bool) error {
	graph.Heartbeat(ctx)
	switch ev := ev.(type) {
	case *proto.TaskArtifactUpdateEvent:
		if ev.Artifact == nil || begun[ev.Artifact.ID] && !ev.Append { // the whole of what was told in pieces
			return nil
		}
		begun[ev.Artifact.ID] = true
		if text := textOf(ev.Artifact.Parts); text != "" {
			return graph.EmitMessage(ctx, chat.Chunk{ID: string(ev.Artifact.ID), Text: text})
		}
	case *proto.TaskStatusUpdateEvent:
		if ev.Status.State != proto.TaskStateWorking || ev.Status.Message == nil {
			return nil
		}
		for _, p := range ev.Status.Message.Parts {
			if p == nil {
				continue
			}
			v := p.Data()
			if text := p.Text(); text != "" {
				v = text
			}
			data, err := json.Marshal(v)
			if err == nil && v != nil {
				err = graph.Emit(ctx, json.RawMessage(data))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func textOf(parts []*proto.Part) string {
	var b strings.Builder
	for _, p := range parts {
		if p != nil {
			b.WriteString(p.Text())
		}
	}
	return b.String()
}

// relay asks what an agent asks, and returns the answer as it takes it.
func relay(ctx context.Context, m *proto.Message) ([]*proto.Part, error) {
	var questions []client.Interrupt // of a Handler
	var parts []*proto.Part
	if m != nil {
		parts = m.Parts
	}
	for _, p := range parts {
		if p == nil {
			continue
		}
		o, err := membersOf(p.Data())
		if err != nil || o["id"] == nil || o["value"] == nil {
			continue
		}
		data, _ := json.Marshal(o) // of JSON
		var q client.Interrupt
		if json.Unmarshal(data, &q) == nil && q.ID != "" {
			questions = append(questions, q)
		}
	}
	anything := json.RawMessage(`{}`)
	if len(questions) == 0 {
		value := any(textOf(parts))
		if value == "" {
			value = parts
		}
		answer, err := graph.Interrupt[json.RawMessage](ctx, "answer", value, graph.AnswerSchema(anything))
		if err != nil {
			return nil, err
		}
		var text string
		if json.Unmarshal(answer, &text) == nil {
			return []*proto.Part{proto.NewTextPart(text)}, nil
		}
		return []*proto.Part{proto.NewDataPart(answer)}, nil
	}
	answers := object{}
	var errs []error
	for _, q := range questions {
		schema := q.Schema
		if len(schema) == 0 || string(schema) == "null" {
			schema = anything
		}
		answer, err := graph.Interrupt[json.RawMessage](graph.Scope(ctx, q.ID), cmp.Or(q.Key, q.ID), q.Value, graph.AnswerSchema(schema))
		answers[q.ID], errs = answer, append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return []*proto.Part{proto.NewDataPart(answers)}, nil
}

// leaving is how long what is cancelled here may take to be cancelled there.
const leaving = 5 * time.Second

// leave cancels a task that is at work when the node's context has ended.
func (c *call) leave(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == nil || !c.working || c.at.Task == "" || errors.Is(cause, graph.ErrDrained) || errors.Is(cause, graph.ErrThreadBusy) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	_, err := c.client.CancelTask(ctx, &proto.CancelTaskRequest{ID: c.at.Task})
	if err == nil || errors.Is(err, proto.ErrTaskNotCancelable) || errors.Is(err, proto.ErrTaskNotFound) { // it is over
		return nil
	}
	return c.fail(fmt.Errorf("the task was left and could not be cancelled: %w", err))
}
