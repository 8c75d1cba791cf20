// Package calls records what models are asked on a thread and what they answer, and when
// tools ran, and reads it back.
//
// The calls of agents, of agent.Generate, of what asks models on their behalf by
// model.Generate or model.Ask, are recorded beside the thread's checkpoints ([note.Add]) if
// there is a checkpointer: see [Recording]. Dialogues do so with [Redact] alone. [List] reads
// them:
//
//	for c, err := range calls.List(ctx, store, "t-1", calls.Query{}) {
//		fmt.Println(c.Began, c.Node, c.Model, c.Usage, c.Took)
//		err = c.Load(ctx) // reads c.Request and c.Answer
//	}
//
// Messages, tools and settings that calls of a thread have in common are stored once. [Redact]
// alters calls before they are stored, or leaves them out; [Off] records none. [ListTools] reads
// when tools ran that agents called.
package calls

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/note"
	"github.com/superstep-dev/superstep/model"
)

// Call is a call of a model that was made on a thread.
type Call struct {
	Place

	Provider string        // whose API was asked, or "" if the model doesn't say
	Model    string        // that answered, as its provider names it; else the one that was asked, if it is known
	Attempt  int           // of the node, from 1
	Began    time.Time     // UTC
	Took     time.Duration // with the retries that the model makes itself

	// FirstToken is how long it took until the first token of a stream; 0: it wasn't
	// streamed, or there was none.
	FirstToken time.Duration

	Finish chat.FinishReason
	Usage  *chat.Usage // nil: the provider doesn't say
	Cached bool        // the answer comes from a cache of model.Cached

	Error     string          // why there is no answer; "" if there is
	ErrorKind model.ErrorKind // "" if it is no [model.Error]

	// Request is what was sent, without headers, and Answer what was answered, or came
	// before the error; nil: nothing. [Call.Load] reads them.
	Request *model.Request
	Answer  *chat.Message

	entry *note.Entry
	has   bool // an answer
}

// Place is where a call was made.
type Place struct {
	ID         string            `json:"id"` // of the call: a UUID
	Node       string            `json:"node"`
	Namespace  string            `json:"namespace"` // of the graph that the node is in; "" for the thread's own
	Step       int               `json:"step"`      // of that graph
	Task       int               `json:"task"`      // plan index in the superstep
	Checkpoint string            `json:"checkpoint_id,omitempty"`
	Metadata   map[string]string `json:"-"` // of that checkpoint
}

// Kind is that of the notes by which calls are recorded; see [note.Note].
const Kind = "model_call"

// stored is the Data of a note. Its lists are the messages, behind which the answer is if
// there is one, and the rest of the request.
type stored struct {
	Provider string            `json:"provider,omitempty"`
	Model    string            `json:"model,omitempty"`
	Attempt  int               `json:"attempt,omitempty"` // if it isn't the first
	Began    int64             `json:"began"`             // microseconds since 1970
	Took     int64             `json:"took"`              // microseconds, like First
	First    int64             `json:"first,omitempty"`
	Finish   chat.FinishReason `json:"finish,omitempty"`
	Usage    *chat.Usage       `json:"usage,omitempty"`
	Cached   bool              `json:"cached,omitempty"`
	Error    string            `json:"error,omitempty"`
	Kind     model.ErrorKind   `json:"error_kind,omitempty"`
	Answer   bool              `json:"answer,omitempty"`
}

type policy struct {
	off    bool
	redact func(ctx context.Context, c *Call) bool
}

// Redact has a function see each call before it is stored; an option that comes later wins. It may change the call, which is
// a copy, and returns false for one that isn't to be stored. What it returns has no effect on the
// node. It may be called by several goroutines at once.
func Redact(f func(ctx context.Context, c *Call) bool) graph.SubgraphOption {
	return graph.UseDeps(policy{redact: f, off: f == nil})
}

type heardKey struct{}

// Heard returns a context for runs of graphs in this process: heard is given each call that is
// recorded there, maybe by several goroutines at once, and must not alter it.
func Heard(ctx context.Context, heard func(*Call)) context.Context {
	return context.WithValue(ctx, heardKey{}, heard)
}

// Off has no calls recorded.
func Off() graph.SubgraphOption { return graph.UseDeps(policy{off: true}) }

// Recording returns a context in which calls of models are recorded on the thread of the node
// whose context it is: those that [model.Ask], [model.AskStream] and [model.Generate] make. Nodes
// of package agent and dialogues have it; a node of one's own that asks a model by these needs
// it, or agent.Counted. Outside of a node, and without a thread, nothing is recorded.
//
// A call is stored with what its node records next, and costs no write of its own. A store
// that fails is the run's error, as for all that is recorded.
func Recording(ctx context.Context) context.Context {
	if graph.Info(ctx).Thread == "" {
		return ctx
	}
	p, _ := graph.Deps[policy](ctx)
	if p.off {
		return ctx
	}
	return model.Recording(ctx, p.record)
}

func (p policy) record(ctx context.Context, made model.Call) error {
	c := Of(ctx, made)
	if p.redact != nil {
		if err := c.copied(); err != nil {
			return err
		}
		if !p.redact(ctx, c) {
			return nil
		}
	}
	n, err := c.note()
	if err != nil {
		return fmt.Errorf("recording a call of a model: %w", err)
	}
	added, err := add(ctx, n)
	if heard, ok := ctx.Value(heardKey{}).(func(*Call)); ok && added {
		heard(c)
	}
	return err
}

// add adds a note, unless the context is no node's or its attempt is over.
func add(ctx context.Context, n note.Note) (added bool, err error) {
	err = note.Add(ctx, n)
	if errors.Is(err, graph.ErrLate) || errors.Is(err, graph.ErrNotInNode) {
		return false, nil
	}
	return err == nil, err
}

// Of returns a call as it is recorded, if its context is that of a node.
func Of(ctx context.Context, made model.Call) *Call {
	in := graph.Info(ctx)
	has, _ := model.CapabilitiesOf(made.Model, made.Request.Model)
	c := &Call{
		Place:    Place{Node: in.Node, Namespace: in.Namespace, Step: in.Step},
		Provider: has.Provider, Model: cmp.Or(has.Name, made.Request.Model), Attempt: in.Attempt,
		Began: made.Began.UTC(), Took: made.Took, FirstToken: made.FirstToken, Request: made.Request,
	}
	if err := made.Err; err != nil {
		c.Error = cmp.Or(err.Error(), "unknown error")
		if e, ok := errors.AsType[*model.Error](err); ok {
			c.Provider, c.ErrorKind = cmp.Or(c.Provider, e.Provider), e.Kind
		}
	}
	if r := made.Response; r != nil && (made.Err == nil || len(r.Message.Parts) > 0) {
		m := r.Message
		c.Answer, c.Cached, c.Finish, c.Usage = &m, r.Cached, m.Finish, m.Usage
		c.Model = cmp.Or(m.Model, c.Model)
	}
	return c
}

// copied makes what c refers to c's own.
func (c *Call) copied() error {
	data, err := json.Marshal(c.Request)
	if err == nil {
		c.Request = new(model.Request)
		err = json.Unmarshal(data, c.Request)
	}
	if c.Answer != nil && err == nil {
		if data, err = json.Marshal(c.Answer); err == nil {
			c.Answer = new(chat.Message)
			err = json.Unmarshal(data, c.Answer)
		}
	}
	if c.Usage != nil {
		u := *c.Usage
		c.Usage = &u
	}
	return err
}

func (c *Call) note() (note.Note, error) {
	s := stored{
		Provider: c.Provider, Model: c.Model, Began: c.Began.UnixMicro(), Took: c.Took.Microseconds(), First: max(c.FirstToken.Microseconds(), min(int64(c.FirstToken), 1)),
		Finish: c.Finish, Usage: c.Usage, Cached: c.Cached, Error: c.Error, Kind: c.ErrorKind, Answer: c.Answer != nil,
	}
	if c.Attempt > 1 {
		s.Attempt = c.Attempt
	}
	var said, rest []json.RawMessage
	if c.Request != nil {
		for i := range c.Request.Messages {
			data, err := json.Marshal(c.Request.Messages[i])
			if err != nil {
				return note.Note{}, err
			}
			said = append(said, data)
		}
		r := *c.Request
		r.Messages = nil
		data, err := json.Marshal(r)
		if err != nil {
			return note.Note{}, err
		}
		rest = []json.RawMessage{data}
	}
	if c.Answer != nil {
		data, err := json.Marshal(c.Answer)
		if err != nil {
			return note.Note{}, err
		}
		said = append(said, data)
	}
	data, err := json.Marshal(s)
	return note.Note{Kind: Kind, Data: data, Lists: [][]json.RawMessage{said, rest}}, err
}

// Query selects calls. The zero value is all.
type Query struct {
	Namespace string // in this log and below it; empty: all of the thread that no other namespace separates
	ID        string // the one with this ID alone
	Before    string // only those made before the one with this ID
	Limit     int    // at most that many; 0: all

	Since time.Time // only those that ended then or later, to the millisecond: earlier checkpoints aren't read
}

// List yields the calls that were made on a thread, the newest first, on all of its branches
// and in subgraphs as well, without what was sent and answered. They go with the checkpoints
// that have them when the thread is pruned. An error is yielded once, as the last pair.
func List(ctx context.Context, store checkpoint.Store, thread string, q Query) iter.Seq2[*Call, error] {
	return listed(ctx, store, thread, Kind, q, read)
}

// listed yields what is read of the notes of a kind.
func listed[C any](ctx context.Context, store checkpoint.Store, thread, kind string, q Query, read func(*note.Entry) (*C, error)) iter.Seq2[*C, error] {
	notes := note.List(ctx, store, checkpoint.Log{Thread: checkpoint.ThreadID(thread), Namespace: q.Namespace}, note.Query{Kind: kind, ID: q.ID, Before: q.Before, Limit: q.Limit, Since: q.Since})
	return func(yield func(*C, error) bool) {
		for e, err := range notes {
			var c *C
			if err == nil {
				c, err = read(&e)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

func placeOf(e *note.Entry) Place {
	return Place{ID: e.ID, Node: e.Node, Namespace: e.Namespace, Step: e.Step, Task: e.Task, Checkpoint: e.Checkpoint, Metadata: e.Metadata}
}

// Get returns a call with what was sent and answered, nil if the thread has none with that ID.
func Get(ctx context.Context, store checkpoint.Store, thread, id string) (*Call, error) {
	for c, err := range List(ctx, store, thread, Query{ID: id}) {
		if err == nil {
			err = c.Load(ctx)
		}
		return c, err
	}
	return nil, nil
}

func read(e *note.Entry) (*Call, error) {
	var s stored
	if err := json.Unmarshal(e.Data, &s); err != nil {
		return nil, fmt.Errorf("the recorded call %s of a model can't be read: %w", e.ID, err)
	}
	return &Call{
		Place:    placeOf(e),
		Provider: s.Provider, Model: s.Model, Attempt: max(s.Attempt, 1), Began: time.UnixMicro(s.Began).UTC(),
		Took: time.Duration(s.Took) * time.Microsecond, FirstToken: time.Duration(s.First) * time.Microsecond,
		Finish: s.Finish, Usage: s.Usage, Cached: s.Cached, Error: s.Error, ErrorKind: s.Kind, entry: e, has: s.Answer,
	}, nil
}

// Load reads what was sent and answered. Of calls of one [List] the first that is loaded reads
// what all have in common. It is not for concurrent use.
func (c *Call) Load(ctx context.Context) error {
	if c.entry == nil {
		return nil
	}
	lists, err := c.entry.Lists(ctx)
	if err == nil && len(lists) != 2 {
		err = fmt.Errorf("it has %d lists", len(lists))
	}
	if err != nil {
		return fmt.Errorf("the recorded call %s of a model can't be read: %w", c.ID, err)
	}
	said := make([]chat.Message, len(lists[0]))
	for i, data := range lists[0] {
		if err := json.Unmarshal(data, &said[i]); err != nil {
			return fmt.Errorf("message %d of the recorded call %s of a model: %w", i, c.ID, err)
		}
	}
	if c.has && len(said) > 0 {
		c.Answer, said = &said[len(said)-1], said[:len(said)-1]
	}
	if len(lists[1]) > 0 {
		r := new(model.Request)
		if err := json.Unmarshal(lists[1][0], r); err != nil {
			return fmt.Errorf("the recorded call %s of a model: %w", c.ID, err)
		}
		r.Messages, c.Request = said, r
	}
	c.entry = nil
	return nil
}
