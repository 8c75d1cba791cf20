package graph

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/goschema"
	"github.com/superstep-dev/superstep/internal/local"
)

// task returns the task that a node was called for.
func task(ctx context.Context, what string) (*local.Task, error) {
	t, ok := local.FromContext(ctx)
	if !ok {
		return nil, fmt.Errorf("graph.%s %w", what, ErrNotInNode)
	}
	return t, nil
}

// AskOption is a setting of one question.
type AskOption func(*askConfig)

type askConfig struct {
	schema json.RawMessage
	check  func() error // of schema
	in     time.Duration
}

func askedWith(opts []AskOption) (c askConfig) {
	for _, o := range opts {
		o(&c)
	}
	return c
}

// AnswerSchema sets the JSON Schema that the answer is checked against, in
// place of the one that follows from its type. An option that is kept for several
// questions reads it once.
func AnswerSchema(schema json.RawMessage) AskOption {
	check := sync.OnceValue(func() error {
		_, err := goschema.Parse(schema)
		return err
	})
	return func(c *askConfig) { c.schema, c.check = schema, check }
}

// Deadline makes the clock answer when nobody has for so long, counted from the
// first time that the question was asked or the event waited for: the call then
// returns a [DeadlineError]. Like [Sleep] it needs somebody to wake the thread
// when the time has come: a [Runner].
func Deadline(d time.Duration) AskOption {
	return func(c *askConfig) { c.in = max(d, 1) }
}

// Interrupt asks a question and returns its answer. The first time it returns
// an error, which the node must return: the run pauses, and the question is
// part of its snapshot. When the thread is resumed with an answer, be it months
// later and in another process, the node runs again from its beginning and
// Interrupt returns the answer.
//
// What the node did before the question it does again: put what must not be
// repeated into [Once] or into a node of its own. While a question is open the
// node's writes are dropped, whatever it returns.
//
// The key tells the questions of a node apart, so that an answer reaches its
// question even if the code changes in between; using one twice in one
// execution is an error. An empty key stands for the question's position among
// those without a key; the answer then only fits if the value is the same.
// Several questions may be asked at once, from several goroutines or one after
// the other, collecting the errors.
//
// The value is encoded as JSON. The answer must have the type T: its schema, or
// that of [AnswerSchema], is what answers are checked against, and one that passes
// and yet can't be decoded into a T is refused when the node runs. The run then
// ends with an [AnswerError], and the question waits as before.
func Interrupt[T any](ctx context.Context, key string, value any, opts ...AskOption) (T, error) {
	var zero T
	t, err := task(ctx, "Interrupt")
	if err != nil {
		return zero, err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return zero, fmt.Errorf("value of interrupt %q: %w", key, err)
	}
	return ask[T](ctx, t, opts, local.Asking{Key: key, Value: raw})
}

// Once runs a named sub-step of a node and records its result: when the node
// runs again, after a question, an error or a crash, the recorded result is
// returned and fn isn't called. Only success is recorded. The name stands for the
// result within the task: whoever calls Once with it again, later or at the same
// time, gets the one result. In a loop each round needs a name of its own. So does
// an effect that depends on an answer: the name stands for it on forks, too, and
// where an earlier checkpoint is gone on from.
//
// Fn is given a key that is the same whenever this sub-step runs for this task:
// pass it to services that take idempotency keys, for the case that the process
// dies after the effect and before the record. Fn must not write to the state:
// the first time such a write counts like any other of the node, but when the
// recorded result is returned it isn't made. Write what Once returned.
//
// The result is encoded as JSON.
func Once[T any](ctx context.Context, name string, fn func(ctx context.Context, idempotencyKey string) (T, error)) (T, error) {
	var zero T
	t, err := task(ctx, "Once")
	if err != nil {
		return zero, err
	}
	if fn == nil {
		_, err := t.Once(ctx, name, nil)
		return zero, err
	}
	data, err := t.Once(ctx, name, func(ctx context.Context, key string) (json.RawMessage, error) {
		v, err := fn(ctx, key)
		return result("Once", name, v, err)
	})
	return recorded[T]("Once", name, data, err)
}

// result encodes what a sub-step came to.
func result(call, name string, v any, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("result of %s %q: %w", call, name, err)
	}
	return raw, nil
}

// recorded decodes what result returned.
func recorded[T any](call, name string, data json.RawMessage, err error) (v T, _ error) {
	if err == nil {
		if err = json.Unmarshal(data, &v); err != nil {
			err = fmt.Errorf("recorded result of %s %q: %w", call, name, err)
		}
	}
	if err != nil {
		return *new(T), err
	}
	return v, nil
}

// Scope returns a context in which the names of [Once], the keys and positions of
// questions and waits, and the keys of [Call] are told from those of other
// scopes: for code that a node runs several times, such as a tool, and that
// chooses them by itself. People see the keys as they are; two questions with
// one key that are open at once are answered by their IDs. The name must be the
// same when the node runs again. Scopes may stand in each other.
func Scope(ctx context.Context, name string) context.Context { return local.WithScope(ctx, name) }

// NoStream is the tag of nodes and calls of models whose tokens stay out of streams:
// what is sent with [EmitMessage] is dropped. A message that such a node writes to the
// state is a part of that as ever.
const NoStream = "nostream"

// WithTags returns a context with which what a node sends ([EmitMessage], [Emit], and
// what package agent tells of tools) has tags beside those of the node, such as
// [NoStream] for one call of a model.
func WithTags(ctx context.Context, tags ...string) context.Context {
	return local.WithTags(ctx, tags...)
}

// Emit sends a value to those who stream the run with [ModeCustom]. It blocks
// while they are slow, and returns the context's error.
func Emit(ctx context.Context, value any) error {
	t, err := task(ctx, "Emit")
	if err != nil {
		return err
	}
	return t.Emit(ctx, local.Custom, value)
}

// EmitMessage sends a part of a message, such as a token, to those who stream
// the run with [ModeMessages]. Under the tag [NoStream] it is a sign of life only.
func EmitMessage(ctx context.Context, part any) error {
	t, err := task(ctx, "EmitMessage")
	if err != nil {
		return err
	}
	if slices.Contains(t.Tags(ctx), NoStream) {
		t.Beat()
		return ctx.Err()
	}
	return t.Emit(ctx, local.Message, part)
}

// EmitToolCall tells those who stream the run with [ModeTools], and its
// [ToolObserver], that the node calls a tool. What it returns tells the same that the
// tool has returned. Package agent sends a tool.Started and a tool.Ended.
func EmitToolCall(ctx context.Context, call any) (returned func(result any) error, err error) {
	t, err := task(ctx, "EmitToolCall")
	if err != nil {
		return nil, err
	}
	return func(result any) error { return t.Emit(ctx, local.ToolReturned, result) }, t.Emit(ctx, local.ToolCalled, call)
}

// Heartbeat is a sign of life of a node with an [IdleTimeout]. Outside of a
// node it does nothing.
func Heartbeat(ctx context.Context) {
	if t, ok := local.FromContext(ctx); ok {
		t.Beat()
	}
}

// TaskInfo says where a node's task stands in the run.
type TaskInfo struct {
	Graph, Node    string
	Path           []string // nodes from the root graph down to this graph
	Thread         string
	Namespace      string
	Run            string   // ID of this call of Invoke or Stream
	Task           string   // ID of the task, the same when it runs again
	Step           int      // the superstep, counted from 1 over the thread's life
	Attempt        int      // from 1; inside a function of [Do], its own
	RemainingSteps int      // supersteps left after this one
	Recent         []string // nodes run last since the newest input, newest last
	From           string   // node that led here; empty at the start

	// Inside a function of [Do]: its name, and a key that is the same whenever it runs
	// for this task, to be passed to services that take idempotency keys.
	Do, IdempotencyKey string
}

// Info returns where the node's task stands. Outside of a node it is zero.
func Info(ctx context.Context) TaskInfo {
	t, ok := local.FromContext(ctx)
	if !ok {
		return TaskInfo{}
	}
	in := t.Info()
	info := TaskInfo{
		Graph: in.Graph, Node: in.Node, Path: in.Path, Thread: string(in.Thread), Namespace: in.Namespace, Run: string(in.Run),
		Task: local.TaskID(in.Epoch, in.Step, in.Task), Step: in.Step, Attempt: in.Attempt, RemainingSteps: in.RemainingSteps, Recent: in.Recent, From: in.From,
	}
	if name, key, attempt, ok := local.Doing(ctx); ok {
		info.Do, info.IdempotencyKey, info.Attempt = name, key, attempt
	}
	return info
}

// Payload returns what was sent to the task that runs, as the In that its [AddTask]
// has. It is for handlers of [OnError], which are not given it.
func Payload[In any](ctx context.Context) (In, error) {
	var zero In
	t, err := task(ctx, "Payload")
	if err != nil {
		return zero, err
	}
	raw := t.Payload()
	if raw == nil {
		return zero, fmt.Errorf("graph.Payload: node %q was sent nothing", t.Info().Node)
	}
	in, err := decodePayload[In](raw)
	if err != nil {
		return zero, fmt.Errorf("payload of node %q: %w", t.Info().Node, err)
	}
	return *in.(*In), nil
}

// Deps returns the run's dependency of type D; see [ProvideDeps].
func Deps[D any](ctx context.Context) (D, error) {
	var zero D
	t, err := task(ctx, "Deps")
	if err != nil {
		return zero, err
	}
	typ := reflect.TypeFor[D]()
	d, _ := t.Deps().(*deps)
	for ; d != nil; d = d.around {
		if v, ok := d.byType[typ].(D); ok {
			return v, nil
		}
	}
	return zero, &MissingDepsError{Types: []string{typ.String()}}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
