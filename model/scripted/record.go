package scripted

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/jsondiff"
	"github.com/superstep-dev/superstep/internal/plainjson"
	"github.com/superstep-dev/superstep/model"
)

// format is the version of the lines of a recording.
const format = 2

// line is a call in a recording.
type line struct {
	Format   int             `json:"v"`
	Request  json.RawMessage `json:"request,omitempty"` // canonical
	Chunks   []chat.Chunk    `json:"chunks,omitempty"`  // of a stream
	Response *chat.Message   `json:"response,omitempty"`
	Error    *wireError      `json:"error,omitempty"`
	Left     bool            `json:"left,omitempty"` // the caller left the stream here
}

type wireError struct {
	Text    string `json:"text,omitempty"`    // of the error, or of a provider's error's cause
	Context string `json:"context,omitempty"` // what it wraps: "canceled" or "deadline exceeded"

	// Of a model.Error:
	Provider     string          `json:"provider,omitempty"`
	Kind         model.ErrorKind `json:"kind,omitempty"`
	Status       int             `json:"status,omitempty"`
	Code         string          `json:"code,omitempty"`
	Message      string          `json:"message,omitempty"`
	RequestID    string          `json:"request_id,omitempty"`
	RetryAfterMS int64           `json:"retry_after_ms,omitempty"`
}

// Recorder is a model that writes down what another answers; see [Record].
type Recorder struct {
	m model.Model

	mu  sync.Mutex
	w   io.Writer
	err error
}

var _ model.Model = (*Recorder)(nil)

// Record returns a model that passes calls on to m and writes each with its
// answer to w when it ends: one line of JSON, in one Write. [Load] reads them.
// Streams are recorded with their chunks, failures as failures. It is safe for
// concurrent use; calls that end at the same time are written one after the
// other.
//
// The lines hold the whole contents of requests and answers. The keys of
// providers are no part of a request, so they aren't among them.
//
// A call that can't be written fails, and so do all calls after it.
func Record(m model.Model, w io.Writer) *Recorder { return &Recorder{m: m, w: w} }

// Err returns the failure to write that ended the recording, which is the only
// place to learn of it for a stream that its caller left.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Capabilities implements [model.Capable].
func (r *Recorder) Capabilities(name string) (model.Capabilities, bool) {
	return model.CapabilitiesOf(r.m, name)
}

// Generate calls the model and writes its answer down.
func (r *Recorder) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	l, err := r.begin(req)
	if err != nil {
		return nil, err
	}
	resp, err := r.m.Generate(ctx, req)
	if err != nil {
		l.Error = errorOut(err)
	} else {
		l.Response = messageOut(resp.Message)
	}
	if failed := r.write(l); failed != nil {
		return nil, errors.Join(err, failed)
	}
	return resp, err
}

// Stream streams from the model and writes the chunks down at the end.
func (r *Recorder) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		l, err := r.begin(req)
		if err != nil {
			yield(chat.Chunk{}, err)
			return
		}
		var sum chat.Collector
		for chunk, err := range r.m.Stream(ctx, req) {
			if err != nil {
				l.Error = errorOut(err)
				if failed := r.write(l); failed != nil {
					err = errors.Join(err, failed)
				}
				yield(chat.Chunk{}, err)
				return
			}
			sum.Add(chunk)
			kept := chunk
			kept.ToolCalls = slices.Clone(chunk.ToolCalls) // the model may use them again
			l.Chunks = append(l.Chunks, kept)
			if !yield(chunk, nil) {
				l.Left = true
				_ = r.write(l) // kept for Err; nobody listens here any more
				return
			}
		}
		l.Response = messageOut(sum.Message())
		if err := r.write(l); err != nil {
			yield(chat.Chunk{}, err)
		}
	}
}

func (r *Recorder) begin(req *model.Request) (*line, error) {
	if err := r.Err(); err != nil {
		return nil, err
	}
	canonical, err := model.Canonical(req)
	if err != nil {
		return nil, fmt.Errorf("scripted: record: %w", err)
	}
	return &line{Format: format, Request: canonical}, nil
}

func (r *Recorder) write(l *line) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(l)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	if err == nil {
		_, err = r.w.Write(b.Bytes())
	}
	if err != nil {
		r.err = fmt.Errorf("scripted: record: %w", err)
	}
	return r.err
}

// PlayOption is an option of [Play] and [Load].
type PlayOption func(*player)

type player struct{ anyRequest bool }

// AnyRequest gives the recorded answers in their order, whatever is asked.
func AnyRequest() PlayOption { return func(p *player) { p.anyRequest = true } }

// Play is [Load] from a file.
func Play(file string, opts ...PlayOption) (*Model, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("scripted: %w", err)
	}
	defer f.Close()
	m, err := Load(f, opts...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// Load returns a model that answers from what [Record] wrote.
//
// A call gets the first answer, not given yet, to a request that is equal by
// [model.Canonical]: so calls may come in another order than they were
// recorded in. One that was not recorded fails with a [*ScriptError] that says
// how it differs from the next recorded one. [AnyRequest] turns that off. A
// recorded stream is streamed in the same chunks, without pauses, and ends as
// it did: where its caller left it, in a failure of kind
// [model.ErrorBrokenStream].
func Load(r io.Reader, opts ...PlayOption) (*Model, error) {
	var p player
	for _, o := range opts {
		o(&p)
	}
	var replies []Reply
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		data, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("scripted: %w", err)
		}
		if len(bytes.TrimSpace(data)) > 0 {
			reply, err := p.reply(data)
			if err != nil {
				return nil, fmt.Errorf("scripted: line %d: %w", n, err)
			}
			replies = append(replies, reply)
		}
		if err == io.EOF {
			return New(replies...), nil
		}
	}
}

func (p *player) reply(data []byte) (Reply, error) {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return Reply{}, err
	}
	if l.Format != format {
		return Reply{}, fmt.Errorf("a recording of format %d; this version reads %d", l.Format, format)
	}
	var msg chat.Message
	switch {
	case l.Response != nil:
		msg = *l.Response
	case l.Error == nil && !l.Left:
		return Reply{}, errors.New("neither a response nor an error")
	}
	reply := Message(msg)
	reply.chunks = l.Chunks
	if l.Error != nil {
		failure, err := l.Error.err()
		if err != nil {
			return Reply{}, err
		}
		reply.failure = failure
	}
	if l.Left {
		reply.failure = &model.Error{Provider: "scripted", Kind: model.ErrorBrokenStream, Message: "the recording ends here: its caller left the stream"}
	}
	if !p.anyRequest && l.Request != nil {
		canonical, err := recanonical(l.Request)
		if err != nil {
			return Reply{}, fmt.Errorf("request: %w", err)
		}
		reply.request = canonical
	}
	return reply, nil
}

// recanonical brings a recorded request, which may have been edited by hand,
// into the form that requests are compared in.
func recanonical(data json.RawMessage) (json.RawMessage, error) {
	v, err := jsondiff.Decode(string(data))
	if err != nil {
		return nil, err
	}
	return plainjson.Marshal(v)
}

// diff says where a request differs from a recorded one. Both are canonical.
func diff(recorded, now json.RawMessage) []string {
	a, err := jsondiff.Decode(string(recorded))
	if err != nil {
		return []string{err.Error()}
	}
	b, err := jsondiff.Decode(string(now))
	if err != nil {
		return []string{err.Error()}
	}
	var d jsondiff.Differences
	d.Compare(a, b)
	return d.Texts()
}

func messageOut(m chat.Message) *chat.Message {
	if m.Role == "" {
		m.Role = chat.RoleAssistant
	}
	return &m
}

func errorOut(err error) *wireError {
	w := &wireError{}
	switch {
	case errors.Is(err, context.Canceled):
		w.Context = canceled
	case errors.Is(err, context.DeadlineExceeded):
		w.Context = deadlineExceeded
	}
	var e *model.Error
	if !errors.As(err, &e) {
		w.Text = err.Error()
		return w
	}
	w.Provider, w.Kind, w.Status, w.Code, w.Message = e.Provider, e.Kind, e.Status, e.Code, e.Message
	w.RequestID, w.RetryAfterMS = e.RequestID, e.RetryAfter.Milliseconds()
	if e.Err != nil {
		w.Text = e.Err.Error()
	}
	return w
}

const (
	canceled         = "canceled"
	deadlineExceeded = "deadline exceeded"
)

// recordedError has the text of an error and, of its causes, the context's.
type recordedError struct {
	text  string
	cause error
}

func (e *recordedError) Error() string { return e.text }
func (e *recordedError) Unwrap() error { return e.cause }

func (w *wireError) err() (error, error) {
	var cause error
	switch w.Context {
	case "":
	case canceled:
		cause = context.Canceled
	case deadlineExceeded:
		cause = context.DeadlineExceeded
	default:
		return nil, fmt.Errorf("error of an unknown context %q", w.Context)
	}
	var err error
	if w.Text != "" || cause != nil {
		err = &recordedError{w.Text, cause}
	}
	if w.Kind != "" {
		return &model.Error{
			Provider: w.Provider, Kind: w.Kind, Status: w.Status, Code: w.Code, Message: w.Message,
			RequestID: w.RequestID, RetryAfter: time.Duration(w.RetryAfterMS) * time.Millisecond, Err: err,
		}, nil
	}
	if err == nil {
		return nil, errors.New("an error without text or kind")
	}
	return err, nil
}
