package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"time"
)

// Run is one execution of a graph on a thread.
type Run struct {
	ID          string         `json:"run_id"`
	ThreadID    string         `json:"thread_id"`
	AssistantID string         `json:"assistant_id"`
	Status      RunStatus      `json:"status"`
	Metadata    map[string]any `json:"metadata"`
	CreatedAt   time.Time      `json:"created_at"`
	UpdatedAt   time.Time      `json:"updated_at"`
}

// RunStatus says how far a run is.
type RunStatus string

// What runs are.
const (
	RunPending     RunStatus = "pending"
	RunRunning     RunStatus = "running"
	RunSuccess     RunStatus = "success"
	RunFailed      RunStatus = "error"
	RunTimeout     RunStatus = "timeout"
	RunInterrupted RunStatus = "interrupted" // it was cancelled, or asks something
)

// Ended reports whether the run is over.
func (s RunStatus) Ended() bool { return s != RunPending && s != RunRunning }

// Mode is a selection of a run's events.
type Mode string

// The modes. The data of their events is described in LangGraph's documentation.
const (
	ModeValues      Mode = "values"         // the state after each superstep
	ModeUpdates     Mode = "updates"        // what each task wrote
	ModeMessages    Mode = "messages-tuple" // pieces of messages as models say them; the events are named messages
	ModeCustom      Mode = "custom"         // what nodes send
	ModeTasks       Mode = "tasks"          // begin and end of tasks
	ModeCheckpoints Mode = "checkpoints"
	ModeTools       Mode = "tools" // begin and end of calls of tools
	ModeDebug       Mode = "debug"
)

// RunRequest says what is to be run. Assistant is all that is needed.
type RunRequest struct {
	Assistant string `json:"assistant_id"` // ID of an assistant, or of a graph

	// Input is an update of the state, encoded as JSON. Without it and a Command
	// the thread goes on where it was.
	Input any `json:"input"`

	// Command answers questions or changes where the thread goes on, and wins over
	// Input.
	Command *Command `json:"command,omitempty"`

	// Checkpoint is the one to begin at, on a new branch; nil is the newest.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`

	// CreateThread makes the thread if there is none. Else that is an error.
	CreateThread bool `json:"-"`

	Modes           []Mode         `json:"stream_mode,omitempty"`      // of the events; none means ModeValues
	Subgraphs       bool           `json:"stream_subgraphs,omitempty"` // their events as well
	InterruptBefore []string       `json:"interrupt_before,omitempty"` // nodes; "*" is all
	InterruptAfter  []string       `json:"interrupt_after,omitempty"`
	Config          Config         `json:"config,omitzero"`
	Context         any            `json:"context,omitempty"`  // for nodes, encoded as JSON
	Metadata        map[string]any `json:"metadata,omitempty"` // of the run and its checkpoints

	// IfBusy says what happens if the thread has a run. Empty leaves it to the
	// server.
	IfBusy IfBusy `json:"multitask_strategy,omitempty"`

	// Durability says when checkpoints are stored. Empty leaves it to the server.
	Durability Durability `json:"durability,omitempty"`

	// After delays the beginning.
	After time.Duration `json:"-"`

	// Resumable has the server keep the run's events, so that [Client.JoinStream] has
	// them from the beginning. Those of a [Client.Stream] are always kept.
	Resumable bool `json:"stream_resumable,omitempty"`

	// Webhook is sent the run when it has ended.
	Webhook string `json:"webhook,omitempty"`

	// CancelOnLeave cancels the run when the context of [Client.Stream] or
	// [Client.Wait] ends, or the loop is left, before the run is over, and waits for
	// its end, up to five seconds. Else it goes on at the server. A connection that
	// is cut cancels nothing, except for a run without a thread.
	CancelOnLeave bool `json:"-"`

	// Created, if set, is called when the server has said where the run is, before
	// its first event.
	Created func(thread, run string) `json:"-"`
}

// IfBusy says what happens to a run whose thread has another.
type IfBusy string

// What may happen.
const (
	BusyReject    IfBusy = "reject"    // it is an [ErrBusy]
	BusyEnqueue   IfBusy = "enqueue"   // it waits for the other
	BusyInterrupt IfBusy = "interrupt" // the other is stopped, and it goes on from there
	BusyRollback  IfBusy = "rollback"  // the other is stopped and undone
)

// Durability says when the checkpoints of a run are stored.
type Durability string

// When they are.
const (
	DurabilitySync  Durability = "sync"  // before the next superstep begins
	DurabilityAsync Durability = "async" // while it runs
	DurabilityExit  Durability = "exit"  // when the run ends
)

// Config is how a run is set.
type Config struct {
	Tags           []string       `json:"tags,omitempty"`
	RecursionLimit int            `json:"recursion_limit,omitempty"` // how many supersteps it may take
	Configurable   map[string]any `json:"configurable,omitempty"`    // for nodes
}

// Command says how a thread goes on.
type Command struct {
	// Resume is the answer to the open question, encoded as JSON; the answers to
	// several are a map by [Interrupt.ID]. A null is json.RawMessage("null").
	Resume any `json:"resume,omitempty"`

	Update any    `json:"update,omitempty"` // of the state
	Goto   []Goto `json:"goto,omitempty"`   // where to go on; "__end__" ends the run
}

// Goto is a node to go on at.
type Goto struct {
	Node  string
	Input any // of a task that is sent there; nil goes there plainly
}

// MarshalJSON writes it as servers read it.
func (g Goto) MarshalJSON() ([]byte, error) {
	if g.Input == nil {
		return json.Marshal(g.Node)
	}
	return json.Marshal(map[string]any{"node": g.Node, "input": g.Input})
}

// wire is a request as it is sent.
type wire struct {
	RunRequest
	IfNotExists  string  `json:"if_not_exists,omitempty"`
	AfterSeconds float64 `json:"after_seconds,omitempty"`
	OnDisconnect string  `json:"on_disconnect,omitempty"`
}

func (r RunRequest) wire(thread string, stream bool) wire {
	r.Resumable = r.Resumable || stream
	w := wire{RunRequest: r, AfterSeconds: r.After.Seconds()}
	if r.CreateThread {
		w.IfNotExists = "create"
	}
	switch {
	case thread == "" && r.CancelOnLeave:
		w.OnDisconnect = "cancel" // there is no route to do it by
	case stream:
		w.OnDisconnect = "continue" // or a cut connection would cancel
	}
	return w
}

// runPath is where runs of a thread are started; of none, those without one.
func runPath(thread, what string) string {
	if thread == "" {
		return "/runs" + what
	}
	return path("/threads/%s/runs", thread) + what
}

// Start begins a run and doesn't wait for it. Without a thread it has one of its
// own, which goes when the run has ended.
func (c *Client) Start(ctx context.Context, thread string, r RunRequest) (*Run, error) {
	r.CancelOnLeave = false // nobody stays
	run, err := one[Run](ctx, c, call{method: http.MethodPost, path: runPath(thread, ""), body: r.wire(thread, false)})
	if err == nil && run != nil && r.Created != nil {
		r.Created(run.ThreadID, run.ID)
	}
	return run, err
}

// Outcome is what a run has led to.
type Outcome struct {
	Values     json.RawMessage // the state; null if there is none
	Interrupts []Interrupt     // the questions that it asks
}

// Wait runs something and returns what it led to. If the connection is cut
// meanwhile, the run is joined again. The error of a run that failed is a
// [*RunError].
func (c *Client) Wait(ctx context.Context, thread string, r RunRequest) (*Outcome, error) {
	resp, end, err := c.start(ctx, call{method: http.MethodPost, path: runPath(thread, "/wait"), body: r.wire(thread, false)}, r.CancelOnLeave)
	defer end()
	if err != nil {
		return nil, err
	}
	onThread, run := located(resp.Header.Get("Content-Location"))
	if run != "" && r.Created != nil {
		r.Created(onThread, run)
	}
	out, err := c.outcome(ctx, resp, onThread, run)
	if ctx.Err() != nil && err != nil && r.CancelOnLeave && run != "" && onThread != "" {
		err = errors.Join(err, c.leave(ctx, onThread, run))
	}
	return out, err
}

// Join waits for a run and returns what it led to.
func (c *Client) Join(ctx context.Context, thread, run string) (*Outcome, error) {
	resp, err := c.send(ctx, joining(thread, run))
	if err != nil {
		return nil, err
	}
	return c.outcome(ctx, resp, thread, run)
}

func joining(thread, run string) call {
	return call{method: http.MethodGet, path: path("/threads/%s/runs/%s/join", thread, run)}
}

// outcome reads what a run led to, and asks again if the connection is cut.
func (c *Client) outcome(ctx context.Context, resp *http.Response, thread, run string) (*Outcome, error) {
	var data []byte
	for again := (retry{c: c}); ; {
		var err error
		if resp != nil {
			data, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
			resp.Body.Close()
			if err == nil {
				break
			}
			err = c.unreachable(ctx, err)
		}
		if thread == "" || run == "" { // runs without a thread cannot be joined
			return nil, &LostError{URL: c.URL(), Run: run, Err: err}
		}
		if resp, err = again.open(ctx, err, joining(thread, run)); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, &LostError{URL: c.URL(), Thread: thread, Run: run, Err: err}
		}
	}
	var failed struct {
		Error *struct{ Error, Message string } `json:"__error__"`
	}
	var asked struct {
		Interrupts []Interrupt `json:"__interrupt__"`
	}
	var values map[string]json.RawMessage
	if !json.Valid(data) {
		return nil, &ProtocolError{URL: c.URL(), Err: errors.New("what a run led to is not JSON")}
	}
	if json.Unmarshal(data, &failed) == nil && failed.Error != nil {
		return nil, &RunError{Thread: thread, Run: run, Name: failed.Error.Error, Message: failed.Error.Message}
	}
	if json.Unmarshal(data, &asked) == nil && asked.Interrupts != nil && json.Unmarshal(data, &values) == nil {
		delete(values, "__interrupt__")
		data, _ = json.Marshal(values) // of JSON
	}
	return &Outcome{Values: data, Interrupts: asked.Interrupts}, nil
}

// Run returns a run.
func (c *Client) Run(ctx context.Context, thread, run string) (*Run, error) {
	return one[Run](ctx, c, call{method: http.MethodGet, path: path("/threads/%s/runs/%s", thread, run)})
}

// RunSearch selects runs of a thread; the zero value all of them.
type RunSearch struct {
	Status RunStatus // empty: of any
	Limit  int       // how many at most; 0 means all
}

// Runs yields the runs of a thread, newest first. They are asked for in pages while
// the loop goes on.
func (c *Client) Runs(ctx context.Context, thread string, s RunSearch) iter.Seq2[*Run, error] {
	return pages(c, s.Limit, func(w window) ([]*Run, error) {
		q := url.Values{"limit": {number(w.Limit)}, "offset": {number(w.Offset)}}
		if s.Status != "" {
			q.Set("status", string(s.Status))
		}
		return list[Run](ctx, c, call{method: http.MethodGet, path: path("/threads/%s/runs", thread), query: q})
	})
}

// Cancel stops a run; what it has stored stays. With wait it returns when the run
// has stopped. A run that is over is left alone.
func (c *Client) Cancel(ctx context.Context, thread, run string, wait bool) error {
	q := url.Values{"wait": {"0"}, "action": {"interrupt"}}
	if wait {
		q.Set("wait", "1")
	}
	_, err := c.do(ctx, call{method: http.MethodPost, path: path("/threads/%s/runs/%s/cancel", thread, run), query: q}, nil)
	return err
}

// leaving is how long a run that is left may take to be cancelled.
const leaving = 5 * time.Second

// leave cancels a run whose context may have ended.
func (c *Client) leave(ctx context.Context, thread, run string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	err := c.Cancel(ctx, thread, run, true)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) { // it is over
		return nil
	}
	if err != nil {
		return fmt.Errorf("run %s was left and could not be cancelled: %w", run, err)
	}
	return nil
}

// DeleteRun deletes a run that is over.
func (c *Client) DeleteRun(ctx context.Context, thread, run string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: path("/threads/%s/runs/%s", thread, run)}, nil)
	return err
}

var place = regexp.MustCompile(`(?:/threads/([^/]+))?/runs/([^/]+)$`)

// located returns the thread, if it has one, and the run that the header
// Content-Location names.
func located(header string) (thread, run string) {
	m := place.FindStringSubmatch(header)
	if m == nil {
		return "", ""
	}
	return m[1], m[2]
}
