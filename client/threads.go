package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Thread is what runs add to, one after the other.
type Thread struct {
	ID        string         `json:"thread_id"`
	Status    ThreadStatus   `json:"status"`
	Metadata  map[string]any `json:"metadata"` // graph_id and assistant_id after the first run
	CreatedAt time.Time      `json:"created_at"`
	UpdatedAt time.Time      `json:"updated_at"`
	Title     string         `json:"title"` // Superstep's own; empty if it has none, or was not selected

	// Values is the state, null if there is none or it was not selected.
	Values json.RawMessage `json:"values"`

	// Failure is why the last run failed; nil if it didn't, or that was not selected ("error").
	Failure *Failure `json:"error"`

	// Interrupts are the open questions, by the ID of the task that asks.
	Interrupts map[string][]Interrupt `json:"interrupts"`

	// DueAt is Superstep's own: since when a thread is due that was searched for by
	// [ThreadSearch.DueBefore].
	DueAt time.Time `json:"due_at"`
}

// GraphID returns the graph of the thread's runs, empty if it has had none.
func (t *Thread) GraphID() string {
	id, _ := t.Metadata["graph_id"].(string)
	return id
}

// ThreadStatus says what is the matter with a thread.
type ThreadStatus string

// What threads are.
const (
	ThreadIdle        ThreadStatus = "idle"        // its last run has ended
	ThreadBusy        ThreadStatus = "busy"        // a run works or waits for its turn
	ThreadInterrupted ThreadStatus = "interrupted" // it waits for somebody or something
	ThreadError       ThreadStatus = "error"       // its last run failed
)

// Interrupt is a question that a thread waits for an answer to.
type Interrupt struct {
	ID    string          `json:"id"`
	Value json.RawMessage `json:"value"` // what is asked

	// Key is the question's own name and Schema the JSON Schema of the answer,
	// where the server tells them. LangGraph's doesn't.
	Key    string          `json:"key,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
}

// Checkpoint names a state of a thread.
type Checkpoint struct {
	ThreadID  string `json:"thread_id,omitempty"`
	Namespace string `json:"checkpoint_ns"` // of a subgraph; empty for the graph itself
	ID        string `json:"checkpoint_id,omitempty"`
}

// BeforeInput reports whether the checkpoint is one that a server of this program shows
// before an input is taken in, and stores nowhere: a UUID of version 8. An edit of the input,
// which is a run from there, begins where the input did.
func (c *Checkpoint) BeforeInput() bool { return c != nil && len(c.ID) == 36 && c.ID[14] == '8' }

// State is a thread at a checkpoint.
type State struct {
	Values     json.RawMessage `json:"values"`
	Next       []string        `json:"next"` // nodes
	Tasks      []Task          `json:"tasks"`
	Metadata   map[string]any  `json:"metadata"`
	CreatedAt  time.Time       `json:"created_at"`
	Checkpoint *Checkpoint     `json:"checkpoint"` // nil if there is none yet
	Parent     *Checkpoint     `json:"parent_checkpoint"`
	Interrupts []Interrupt     `json:"interrupts"` // see [State.Questions]
}

// Step returns how many supersteps led here; -1 for an input on LangGraph's
// server.
func (s *State) Step() int {
	n, _ := s.Metadata["step"].(float64)
	return int(n)
}

// Source says why the checkpoint was written: input, loop, update or fork.
func (s *State) Source() string {
	text, _ := s.Metadata["source"].(string)
	return text
}

// Questions returns the open questions of all tasks, in their order.
func (s *State) Questions() []Interrupt {
	var out []Interrupt
	for _, t := range s.Tasks {
		out = append(out, t.Interrupts...)
	}
	if len(out) == 0 {
		return s.Interrupts
	}
	return out
}

// Task is a node that runs next, or is not done.
type Task struct {
	ID         string      `json:"id"`
	Name       string      `json:"name"`
	Error      Text        `json:"error"`
	Interrupts []Interrupt `json:"interrupts"`
	Checkpoint *Checkpoint `json:"checkpoint"` // where its subgraph is
	State      *State      `json:"state"`      // of its subgraph, if that was asked for
}

// Text is a text that some servers write as another JSON value.
type Text string

// UnmarshalJSON takes a string, or what there is as it stands.
func (t *Text) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var s string
	if json.Unmarshal(data, &s) != nil {
		s = string(data)
	}
	*t = Text(s)
	return nil
}

// NewThread says what a thread begins with.
type NewThread struct {
	ID         string         `json:"thread_id,omitempty"` // a UUID; empty: one is made
	Metadata   map[string]any `json:"metadata,omitempty"`  // graph_id lets the state be written before the first run
	IfExists   string         `json:"if_exists,omitempty"` // "raise", the default, or "do_nothing", which returns the thread
	Supersteps []Superstep    `json:"supersteps,omitempty"`
}

// Superstep is a step of a history that a thread begins with.
type Superstep struct {
	Updates []Update `json:"updates"`
}

// CreateThread makes a thread. The error is an [ErrConflict] if there is one of
// that ID.
func (c *Client) CreateThread(ctx context.Context, t NewThread) (*Thread, error) {
	return one[Thread](ctx, c, call{method: http.MethodPost, path: "/threads", body: t})
}

// Thread returns a thread with its state.
func (c *Client) Thread(ctx context.Context, id string) (*Thread, error) {
	return one[Thread](ctx, c, call{method: http.MethodGet, path: path("/threads/%s", id)})
}

// ThreadSearch selects threads; the zero value all of them.
type ThreadSearch struct {
	Status    ThreadStatus   `json:"status,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`  // that they have at least
	Values    map[string]any `json:"values,omitempty"`    // that their states have at least
	Query     string         `json:"query,omitempty"`     // Superstep's own: words of their titles or of what their states say
	DueBefore time.Time      `json:"due_before,omitzero"` // Superstep's own: due since before a time, and taken by no run; zero: whether due or not
	Select    []string       `json:"select,omitempty"`    // members that are wanted, such as "thread_id"; none: all
	Limit     int            `json:"-"`                   // how many at most; 0 means all
	SortBy    string         `json:"sort_by,omitempty"`   // created_at, the default, updated_at, status or thread_id
	Oldest    bool           `json:"-"`                   // ascending order
}

// Threads yields threads, newest first. They are asked for in pages while the loop
// goes on.
func (c *Client) Threads(ctx context.Context, s ThreadSearch) iter.Seq2[*Thread, error] {
	order := "desc"
	if s.Oldest {
		order = "asc"
	}
	return pages(c, s.Limit, func(w window) ([]*Thread, error) {
		body := struct {
			ThreadSearch
			window
			Order string `json:"sort_order"`
		}{s, w, order}
		return list[Thread](ctx, c, call{method: http.MethodPost, path: "/threads/search", body: body, reads: true})
	})
}

// CopyThread makes a thread with the state and history of another.
func (c *Client) CopyThread(ctx context.Context, id string) (*Thread, error) {
	return one[Thread](ctx, c, call{method: http.MethodPost, path: path("/threads/%s/copy", id)})
}

// DeleteThread deletes a thread with its history and runs.
func (c *Client) DeleteThread(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: path("/threads/%s", id)}, nil)
	return err
}

// State returns the newest state of a thread. One that has had no run has no
// checkpoint. With subgraphs, tasks that are in one have its state.
func (c *Client) State(ctx context.Context, thread string, subgraphs bool) (*State, error) {
	return one[State](ctx, c, call{method: http.MethodGet, path: path("/threads/%s/state", thread), query: withSubgraphs(subgraphs)})
}

// StateAt returns the state of a thread at a checkpoint. One without an ID is the
// newest of its namespace.
func (c *Client) StateAt(ctx context.Context, thread string, at Checkpoint, subgraphs bool) (*State, error) {
	body := struct {
		Checkpoint Checkpoint `json:"checkpoint"`
		Subgraphs  bool       `json:"subgraphs,omitempty"`
	}{at, subgraphs}
	return one[State](ctx, c, call{method: http.MethodPost, path: path("/threads/%s/state/checkpoint", thread), body: body, reads: true})
}

func withSubgraphs(on bool) url.Values {
	if !on {
		return nil
	}
	return url.Values{"subgraphs": {"true"}}
}

// HistoryQuery selects states of a thread; the zero value all of them.
type HistoryQuery struct {
	Before    string         // ID of a checkpoint: only what was before it
	Metadata  map[string]any // that they have at least
	Namespace string         // of a subgraph
	Limit     int            // how many at most; 0 means all
}

// History yields the states of a thread, newest first, on all branches. They are
// asked for in pages while the loop goes on.
func (c *Client) History(ctx context.Context, thread string, q HistoryQuery) iter.Seq2[*State, error] {
	return linked(c, q.Before, q.Limit, 20, func(before string, n int) (states []*State, to string, err error) {
		body := struct {
			Limit      int            `json:"limit"`
			Before     *configured    `json:"before,omitempty"`
			Metadata   map[string]any `json:"metadata,omitempty"`
			Checkpoint *Checkpoint    `json:"checkpoint,omitempty"`
		}{Limit: n, Metadata: q.Metadata}
		if before != "" {
			body.Before = &configured{Checkpoint{ThreadID: thread, Namespace: q.Namespace, ID: before}}
		}
		if q.Namespace != "" {
			body.Checkpoint = &Checkpoint{Namespace: q.Namespace}
		}
		at := path("/threads/%s/history", thread)
		states, err = list[State](ctx, c, call{method: http.MethodPost, path: at, body: body, reads: true})
		if err == nil && len(states) >= n {
			if last := states[len(states)-1].Checkpoint; last != nil {
				to = last.ID
			}
			if to == "" {
				err = &ProtocolError{URL: c.URL(), Err: fmt.Errorf("POST %s: the last state of the answer has no checkpoint", at)}
			}
		}
		return states, to, err
	})
}

type configured struct {
	Configurable Checkpoint `json:"configurable"`
}

// Update is an edit of a thread's state.
type Update struct {
	Values any    `json:"values"`            // encoded as JSON; nil edits nothing
	AsNode string `json:"as_node,omitempty"` // whose output it counts as

	// Checkpoint is the one to edit, on a new branch; nil is the newest.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
}

// UpdateState edits the state of a thread and returns the checkpoint that it makes.
// Nothing runs. The error is an [ErrBusy] if the thread has a run.
func (c *Client) UpdateState(ctx context.Context, thread string, u Update) (Checkpoint, error) {
	out, err := get[struct {
		Checkpoint Checkpoint `json:"checkpoint"`
	}](ctx, c, call{method: http.MethodPost, path: path("/threads/%s/state", thread), body: u})
	return out.Checkpoint, err
}
