package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/graph"
)

// Graph is an assistant of a server of LangGraph's protocol, as a node of a graph with
// the state S: see [AddGraph]. In and Out are what it is given and what it leads to;
// both are encoded as JSON, so that json.RawMessage leaves them as they are.
type Graph[S, In, Out any] struct {
	// Client calls the server. Assistant is the ID of an assistant there, or of a graph.
	Client    *client.Client
	Assistant string

	// Input returns the input of a run. It is called whenever the node runs, so it must
	// return the same for the same state.
	Input func(ctx context.Context, s *S) (In, error)

	// Output writes what the run has led to: the values of the remote state, or the
	// output that its graph declares.
	Output func(ctx context.Context, s *S, out Out) error

	Config client.Config // of the runs there

	// KeepState gives the node one remote thread for all of the local thread's life,
	// whose state the next visit of the node goes on from. Only one task of the node may
	// be at work at a time then. Without it every task has a remote thread of its own.
	KeepState bool
}

// AddGraph adds a node that runs a remote graph.
//
// The remote thread and its runs belong to the node's task: after a question, a crash or
// an error the task goes on with those that it has, in whatever process. What the remote
// graph asks is asked here, with its key and schema, and the answers are passed on by the
// IDs of the remote questions. Pieces of messages and custom events are streamed on as
// if the node had sent them ([graph.ModeMessages], [graph.ModeCustom]); when the task
// begins anew while a remote run is at work, that run is told from its beginning, as far
// as the server has it. While the remote thread sleeps or waits for an event, the
// local one sleeps, too, and looks again at growing intervals of up to ten minutes.
//
// When the node's context ends, the remote run is cancelled, which may take up to five
// seconds, unless the local run goes on in another process: it was drained, or has lost
// its thread. A task that goes on after that lets the remote thread go on from where it
// was.
//
// Everything that the server does not do is an [*Error]. The remote run that failed is
// over then; when the task runs again, by a [graph.RetryPolicy] or because the thread is
// continued, the remote thread goes on from its last checkpoint.
func AddGraph[S, In, Out any](b *graph.Builder[S], name string, g Graph[S, In, Out], opts ...graph.NodeOption) {
	b.Mistake(name, g.check())
	b.AddNode(name, g.run, opts...)
}

func (g Graph[S, In, Out]) check() error {
	var errs []error
	for _, c := range []struct {
		missing bool
		what    string
	}{{g.Client == nil, "a Client"}, {g.Assistant == "", "an Assistant"}, {g.Input == nil, "an Input"}, {g.Output == nil, "an Output"}} {
		if c.missing {
			errs = append(errs, fmt.Errorf("a remote graph needs %s", c.what))
		}
	}
	return errors.Join(errs...)
}

func (g Graph[S, In, Out]) run(ctx context.Context, s *S) error {
	in, err := g.Input(ctx, s)
	if err != nil {
		return err
	}
	data, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("the input of assistant %q is not JSON: %w", g.Assistant, err)
	}
	c := &call{client: g.Client, assistant: g.Assistant, config: g.Config, input: data, keep: g.KeepState}
	values, err := c.run(ctx)
	if err != nil {
		return err
	}
	var out Out
	if err := json.Unmarshal(values, &out); err != nil {
		return c.fail(fmt.Errorf("what it has led to does not fit %T: %w", out, err))
	}
	return g.Output(ctx, s, out)
}

// place is where a run is.
type place struct {
	Thread string `json:"thread"`
	Run    string `json:"run"`
}

// end is how a run ended, as it is recorded. The zero value is a run that is done.
type end struct {
	Failed    *client.RunError   `json:"failed,omitempty"`
	Questions []client.Interrupt `json:"questions,omitempty"`
	Rests     bool               `json:"rests,omitempty"`   // it goes on by itself
	Stopped   bool               `json:"stopped,omitempty"` // it doesn't, and isn't done
}

// call is one execution of a node. A task follows one remote run after the other, the
// same ones in each execution: where a run is and how it ended is recorded.
type call struct {
	client    *client.Client
	assistant string
	config    client.Config
	input     json.RawMessage
	keep      bool

	at      place // of the newest run
	working bool  // it may be at work
}

func (c *call) fail(err error) error {
	return &Error{Server: c.client.URL(), Assistant: c.assistant, Thread: c.at.Thread, Run: c.at.Run, Err: err}
}

// run returns the values that the remote graph has led to.
func (c *call) run(ctx context.Context) (values json.RawMessage, err error) {
	defer func() { err = errors.Join(err, c.leave(ctx)) }()
	next := &client.RunRequest{Input: c.input} // nil: there is a run already
	for n := 1; ; n++ {
		turn := graph.Scope(ctx, fmt.Sprint("remote run ", n))
		began := false
		if next != nil {
			if began, err = c.begin(turn, *next); err != nil {
				return nil, err
			}
		}
		e, told, err := c.follow(turn, began)
		if err != nil {
			return nil, err
		}
		switch {
		case e.Failed != nil:
			if told == news {
				return nil, c.fail(e.Failed)
			}
			next = &client.RunRequest{}
		case len(e.Questions) > 0:
			answers, err := ask(turn, e.Questions)
			if err != nil {
				return nil, err
			}
			next = &client.RunRequest{Command: &client.Command{Resume: answers}}
		case e.Rests:
			if err := c.rest(turn); err != nil {
				return nil, err
			}
			next = nil
		case e.Stopped:
			if told == news {
				return nil, c.fail(ErrStopped)
			}
			next = &client.RunRequest{}
		default:
			out, err := c.client.Join(ctx, c.at.Thread, c.at.Run)
			if err != nil {
				return nil, c.fail(err)
			}
			return out.Values, nil
		}
	}
}

// keyed is the member of a run's metadata that holds the key of the task that began it.
const keyed = "idempotency_key"

// begin starts a run, once, and reports whether it was this execution that did.
func (c *call) begin(ctx context.Context, r client.RunRequest) (began bool, err error) {
	at, err := graph.Once(ctx, "begin", func(ctx context.Context, key string) (place, error) {
		at := place{Thread: c.at.Thread}
		if at.Thread == "" {
			at.Thread = c.thread(ctx, key)
		}
		// An execution before this one may have started it without recording that.
		var err error
		if at.Run, err = c.find(ctx, at.Thread, key); err != nil || at.Run != "" {
			return at, err
		}
		if r.Input == nil && r.Command == nil {
			state, err := c.client.State(ctx, at.Thread, false)
			if err != nil {
				return at, c.fail(err)
			}
			if len(state.Next) == 0 { // the run did not even take its input
				r.Input = c.input
			}
		}
		r.Assistant, r.Config, r.CreateThread, r.Resumable = c.assistant, c.config, true, true
		r.Modes, r.Subgraphs = []client.Mode{client.ModeMessages, client.ModeCustom}, true
		r.Metadata = map[string]any{keyed: key}
		r.IfBusy = client.BusyReject
		if c.keep {
			r.IfBusy = client.BusyEnqueue
		}
		began = true
		// What is started shall not be given up before it is known what that is.
		late, drop := context.WithCancel(context.WithoutCancel(ctx))
		defer drop()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(leaving, drop) })()
		run, err := c.client.Start(late, at.Thread, r)
		if errors.Is(err, client.ErrBusy) { // perhaps with a start that was under way
			var odd error
			if at.Run, odd = c.find(ctx, at.Thread, key); odd == nil && at.Run != "" {
				err = nil
			}
		} else if err == nil {
			at.Run = run.ID
		}
		if err != nil {
			return at, c.fail(err)
		}
		c.at, c.working = at, true // to be cancelled, should it not be recorded
		return at, nil
	})
	if err == nil {
		c.at = at
	}
	return began, err
}

// namespace is that of the IDs of remote threads.
var namespace = uuid.MustParse("5b1d9f5e-6c1b-4f0a-9c57-0f1f2a7c2c1e")

// thread returns the ID of the remote thread of a task.
func (c *call) thread(ctx context.Context, key string) string {
	if info := graph.Info(ctx); c.keep && info.Thread != "" {
		data, _ := json.Marshal(append([]string{info.Thread, info.Namespace, info.Node}, info.Path...)) // of strings
		key = string(data)
	}
	return uuid.NewSHA1(namespace, []byte(c.client.URL()+"\x00"+c.assistant+"\x00"+key)).String()
}

// find returns the run of a thread that was begun with a key; empty if there is none.
func (c *call) find(ctx context.Context, thread, key string) (string, error) {
	for run, err := range c.client.Runs(ctx, thread, client.RunSearch{Limit: 100}) {
		if errors.Is(err, client.ErrNotFound) {
			return "", nil
		}
		if err != nil {
			return "", c.fail(err)
		}
		if run.Metadata[keyed] == key {
			return run.ID, nil
		}
	}
	return "", nil
}

// known says since when it is known how a run ended.
type known int

const (
	recorded known = iota // an execution before this one has told of it
	missed                // the run had ended before this execution looked, which is the first to tell
	news                  // the same, and it is to be told of
)

// follow waits for the end of the newest run, and passes on what it streams.
func (c *call) follow(ctx context.Context, began bool) (end, known, error) {
	told := recorded
	e, err := graph.Once(ctx, "end", func(ctx context.Context, _ string) (e end, err error) {
		told, c.working = news, true
		if !began {
			run, err := c.client.Run(ctx, c.at.Thread, c.at.Run)
			if err != nil {
				return e, c.fail(err)
			}
			if run.Status == client.RunInterrupted {
				told = missed
			}
		}
		for ev, err := range c.client.JoinStream(ctx, c.at.Thread, c.at.Run, client.Join{}) {
			if err != nil && !errors.As(err, &e.Failed) {
				return e, c.fail(err)
			}
			if err == nil {
				err = pass(ctx, ev)
			}
			if err != nil && e.Failed == nil {
				return e, err
			}
		}
		if e.Failed == nil {
			if e, err = c.ending(ctx); err != nil {
				return e, c.fail(err)
			}
		}
		c.working = false
		return e, nil
	})
	return e, told, err
}

// ending returns how the newest run, which is over, has ended.
func (c *call) ending(ctx context.Context) (e end, err error) {
	if _, err := c.client.Join(ctx, c.at.Thread, c.at.Run); err != nil && !errors.As(err, &e.Failed) || e.Failed != nil {
		if e.Failed != nil {
			err = nil
		}
		return e, err
	}
	run, err := c.client.Run(ctx, c.at.Thread, c.at.Run)
	if err != nil {
		return e, err
	}
	switch run.Status {
	case client.RunFailed, client.RunTimeout:
		e.Failed = &client.RunError{Thread: c.at.Thread, Run: c.at.Run, Name: string(run.Status)}
		return e, nil
	case client.RunPending, client.RunRunning:
		return e, fmt.Errorf("its stream ended while the run is %s", run.Status)
	}
	state, err := c.client.State(ctx, c.at.Thread, false)
	if err != nil {
		return e, err
	}
	if e.Questions = state.Questions(); len(e.Questions) > 0 || len(state.Next) == 0 {
		return e, nil
	}
	t, err := c.client.Thread(ctx, c.at.Thread)
	if err != nil {
		return e, err
	}
	e.Rests = t.Status == client.ThreadBusy
	e.Stopped = !e.Rests
	return e, nil
}

// ask asks what the remote graph asks, and returns the answers as it takes them.
func ask(ctx context.Context, questions []client.Interrupt) (json.RawMessage, error) {
	answers := map[string]json.RawMessage{}
	var errs []error
	for _, q := range questions {
		var opts []graph.AskOption
		if len(q.Schema) > 0 && string(q.Schema) != "null" {
			opts = append(opts, graph.AnswerSchema(q.Schema))
		} else {
			opts = append(opts, graph.AnswerSchema(json.RawMessage(`{}`)))
		}
		if q.Value == nil {
			q.Value = json.RawMessage("null")
		}
		// Two may have one key.
		answer, err := graph.Interrupt[json.RawMessage](graph.Scope(ctx, q.ID), cmp.Or(q.Key, q.ID, "answer"), q.Value, opts...)
		answers[q.ID] = answer
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if one, unnamed := answers[""]; unnamed && len(questions) == 1 {
		return one, nil
	}
	return json.Marshal(answers)
}

// rest lets the thread sleep until the remote one has gone on by itself.
func (c *call) rest(ctx context.Context) error {
	for n := 0; ; n++ {
		if err := graph.Sleep(ctx, fmt.Sprint("rest ", n), min(time.Second<<min(n, 20), 10*time.Minute)); err != nil {
			return err
		}
		newest, err := graph.Once(ctx, fmt.Sprint("look ", n), func(ctx context.Context, _ string) (string, error) {
			for run, err := range c.client.Runs(ctx, c.at.Thread, client.RunSearch{Limit: 1}) {
				if err != nil {
					return "", c.fail(err)
				}
				return run.ID, nil
			}
			return c.at.Run, nil
		})
		if err != nil {
			return err
		}
		if newest != c.at.Run {
			c.at.Run = newest
			return nil
		}
	}
}

// leaving is how long what is cancelled here may take to be cancelled there.
const leaving = 5 * time.Second

// leave cancels a run that is at work when the node's context has ended.
func (c *call) leave(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == nil || !c.working || errors.Is(cause, graph.ErrDrained) || errors.Is(cause, graph.ErrThreadBusy) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	err := c.client.Cancel(ctx, c.at.Thread, c.at.Run, true)
	if err == nil || errors.Is(err, client.ErrNotFound) || errors.Is(err, client.ErrConflict) { // it is over
		return nil
	}
	return c.fail(fmt.Errorf("the run was left and could not be cancelled: %w", err))
}

// Error says that a remote graph did not do its part. It wraps a [*client.RunError] if a
// run failed, [ErrStopped], or an error of the call, such as a [*client.LostError] or a
// [*client.Error].
type Error struct {
	Server, Assistant string
	Thread, Run       string // there; empty if it didn't come to one
	Err               error
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "assistant %q of %s", e.Assistant, e.Server)
	if e.Run != "" {
		fmt.Fprintf(&b, ", run %s of thread %s", e.Run, e.Thread)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// ErrStopped says that a remote run ended without an end of its graph and without a
// question: somebody has cancelled it, or a breakpoint holds it.
var ErrStopped = errors.New("the run was stopped there; continue the thread here, and it goes on there")

// pass streams an event on.
func pass(ctx context.Context, ev client.Event) error {
	graph.Heartbeat(ctx)
	switch ev.Name {
	case "custom":
		return graph.Emit(ctx, slices.Clone(ev.Data))
	case "messages":
		if chunk, ok := ChunkOf(ev.Data); ok {
			return graph.EmitMessage(ctx, chunk)
		}
	}
	return nil
}
