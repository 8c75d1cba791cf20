package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/jsondiff"
	"github.com/superstep-dev/superstep/model"
)

// ErrScriptOver is what calls return for which the script has no reply. The
// error is a [*ScriptError].
var ErrScriptOver = errors.New("the script is over")

// ScriptError says that a script has no reply to a call.
type ScriptError struct {
	Call    int    // the number of the call, from 1
	Replies int    // how many the script has
	Left    int    // how many of these are not used up but for other requests
	Last    string // what the user said last in the request

	// Diff is set for a recording: how the request differs from that of the
	// next reply that is not used up.
	Diff []string
}

func (e *ScriptError) Error() string {
	replies := "replies"
	if e.Replies == 1 {
		replies = "reply"
	}
	s := fmt.Sprintf("scripted: call %d: %v: it has %d %s", e.Call, ErrScriptOver, e.Replies, replies)
	if e.Left > 0 {
		s = fmt.Sprintf("scripted: call %d: none of the %d replies left (of %d) is for this request", e.Call, e.Left, e.Replies)
	}
	if e.Last != "" {
		s += fmt.Sprintf("; the user said %q", jsondiff.Short(e.Last))
	}
	for i, d := range e.Diff {
		if i == 0 {
			s += "; against the recorded request:"
		}
		s += "\n\t" + d
	}
	return s
}

// Is reports whether target is [ErrScriptOver].
func (e *ScriptError) Is(target error) bool { return target == ErrScriptOver }

// Model is a language model that answers from a script. It is safe for
// concurrent use.
type Model struct {
	mu       sync.Mutex
	replies  []Reply
	left     []int // of each reply; -1: any number
	requests []*model.Request
	recorded bool // some reply is for a recorded request
}

var _ model.Model = (*Model)(nil)

// New returns a model that gives the replies in order; see the package's text.
func New(replies ...Reply) *Model {
	m := &Model{replies: slices.Clone(replies), left: make([]int, len(replies))}
	for i, r := range replies {
		switch {
		case r.every:
			m.left[i] = -1
		case r.times > 0:
			m.left[i] = r.times
		default:
			m.left[i] = 1
		}
		m.recorded = m.recorded || r.request != nil
	}
	return m
}

// Requests returns copies of the requests so far, in the order of their calls,
// those that the script had no reply for included. What the messages refer to
// isn't copied.
func (m *Model) Requests() []*model.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*model.Request, len(m.requests))
	for i, r := range m.requests {
		all[i] = clone(r)
	}
	return all
}

// Last returns a copy of the last request, nil if there was none.
func (m *Model) Last() *model.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.requests) == 0 {
		return nil
	}
	return clone(m.requests[len(m.requests)-1])
}

// Left returns how many calls the script still has replies for, repeating
// replies aside: 0 at the end of a test that used all of it.
func (m *Model) Left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, l := range m.left {
		n += max(l, 0)
	}
	return n
}

// Generate returns the next reply.
func (m *Model) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	r, err := m.take(ctx, req)
	if err != nil {
		return nil, err
	}
	msg, err := r.answer(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case r.broken:
		return nil, r.breakErr
	case r.failure != nil:
		return nil, r.failure
	}
	return &model.Response{Message: msg}, nil
}

// Stream yields the next reply in chunks.
func (m *Model) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		r, err := m.take(ctx, req)
		if err != nil {
			yield(chat.Chunk{}, err)
			return
		}
		msg, err := r.answer(ctx, req)
		if err != nil {
			yield(chat.Chunk{}, err)
			return
		}
		chunks, failure := r.chunks, r.failure
		if chunks == nil && failure == nil {
			chunks = r.chunksOf(msg)
		}
		if r.broken {
			chunks, failure = chunks[:min(max(r.breakAt, 0), len(chunks))], r.breakErr
		}
		for i, chunk := range chunks {
			wait := r.pause
			if i == 0 {
				wait = 0
			}
			if err := sleep(ctx, wait); err != nil {
				yield(chat.Chunk{}, err)
				return
			}
			if !yield(chunk, nil) {
				return
			}
		}
		if failure != nil {
			yield(chat.Chunk{}, failure)
		}
	}
}

// take notes the request and returns the reply to it.
func (m *Model) take(ctx context.Context, req *model.Request) (*Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, clone(req))
	var canonical json.RawMessage
	if m.recorded {
		var err error
		if canonical, err = model.Canonical(req); err != nil {
			return nil, err
		}
	}
	var next json.RawMessage // recorded request of the first reply left
	over := &ScriptError{Call: len(m.requests), Replies: len(m.replies), Last: lastUser(req)}
	for i := range m.replies {
		r := &m.replies[i]
		if m.left[i] == 0 {
			continue
		}
		if r.request != nil && string(r.request) != string(canonical) {
			if over.Left++; next == nil {
				next = r.request
			}
			continue
		}
		if r.when != nil && !r.when(req) {
			over.Left++
			continue
		}
		if m.left[i] > 0 {
			m.left[i]--
		}
		return r, nil
	}
	if next != nil {
		over.Diff = diff(next, canonical)
	}
	return nil, over
}

// answer waits and returns the whole message.
func (r *Reply) answer(ctx context.Context, req *model.Request) (chat.Message, error) {
	if err := sleep(ctx, r.delay); err != nil {
		return chat.Message{}, err
	}
	if r.message == nil {
		return chat.Message{}, errors.New("scripted: an empty Reply; make it with Text, Call, Message, Error or Func")
	}
	msg, err := r.message(ctx, req)
	if err != nil {
		return chat.Message{}, err
	}
	return r.complete(msg, req), nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

func clone(req *model.Request) *model.Request {
	c := *req
	c.Messages = slices.Clone(req.Messages)
	for i := range c.Messages {
		c.Messages[i].Parts = slices.Clone(c.Messages[i].Parts)
		c.Messages[i].Metadata = maps.Clone(c.Messages[i].Metadata)
	}
	c.Tools = slices.Clone(req.Tools)
	if req.Output != nil {
		o := *req.Output
		c.Output = &o
	}
	c.Stop = slices.Clone(req.Stop)
	c.Extra = maps.Clone(req.Extra)
	c.Temperature, c.TopP, c.TopK = copied(req.Temperature), copied(req.TopP), copied(req.TopK)
	c.FrequencyPenalty, c.PresencePenalty = copied(req.FrequencyPenalty), copied(req.PresencePenalty)
	c.Seed, c.ParallelTools = copied(req.Seed), copied(req.ParallelTools)
	return &c
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
