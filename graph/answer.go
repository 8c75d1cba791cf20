package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/goschema"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// find returns the open question with that ID or key.
func find(open []checkpoint.Question, m *core.Machine, key string, keys []string) (*checkpoint.Question, error) {
	var found *checkpoint.Question
	for i := range open {
		if open[i].ID == key {
			return &open[i], nil
		}
		if open[i].Key == key {
			if found != nil {
				return nil, &AnswerError{Key: key, Reason: "several questions have this key: answer by ID", Open: []string{found.ID, open[i].ID}}
			}
			found = &open[i]
		}
	}
	if found != nil {
		return found, nil
	}
	for i := range m.Tasks() {
		for _, q := range m.Task(i).Questions {
			if q.Answered && (q.Key == key || q.ID == key) {
				return nil, &AnswerError{Key: key, Reason: "the question was answered before", Open: keys}
			}
		}
	}
	reason := "no question with this key or ID is open"
	if near := plan.Nearest(key, keys); near != "" {
		reason += fmt.Sprintf("; did you mean %q?", near)
	}
	return nil, &AnswerError{Key: key, Reason: reason, Open: keys}
}

// AskFirst says that the node begins with a question: with the [Interrupt] that has the
// key, which is not empty. F is given the state that the node would be, and returns what
// Interrupt would be given; ask is false if the node won't ask. The question is recorded
// with the superstep before the node, or the input that leads to it, where the node would
// first run to ask and then be recorded: one record for two. The node runs when the
// question is answered, and Interrupt returns the answer.
//
// F only reads the state, and is called while the superstep is committed: it has to be
// quick. What f can't say, because it panics or the value is not to be encoded, the node
// asks when it runs; so do nodes in subgraphs, and tasks of a [Send].
func AskFirst[S, T any](key string, f func(s *S) (value any, opts []AskOption, ask bool)) NodeOption {
	return nodeSetting(func(_ *plan.NodeSpec, n *nodeConfig) {
		if key == "" || f == nil {
			n.mistake("give the key of the Interrupt, and a function", "AskFirst(%q)", key)
		}
		n.stateType = reflect.TypeFor[S]()
		n.local.First = func(s any) *local.Asking {
			value, opts, asks := f(s.(*S))
			raw, err := json.Marshal(value)
			c := askedWith(opts)
			if !asks || err != nil || c.schema != nil && c.check() != nil {
				return nil
			}
			if c.schema == nil {
				c.schema = schemaFor[T]()
			}
			return &local.Asking{Key: key, Value: raw, Schema: c.schema, For: c.in}
		}
	})
}

// ask asks what a says and decodes the answer. Which type that is, is known where
// the question is asked alone: whoever answers has only its schema. An answer that
// the schema lets pass and the type does not is refused here, and the question
// waits again.
func ask[T any](ctx context.Context, t *local.Task, opts []AskOption, a local.Asking) (T, error) {
	var answer T
	c := askedWith(opts)
	a.Schema, a.For = c.schema, c.in
	if a.Schema == nil {
		a.Schema = schemaFor[T]()
	} else if err := c.check(); err != nil {
		return answer, &CallError{Call: a.Call(), Node: t.Info().Node, Key: a.Key, Reason: "its graph.AnswerSchema is no JSON Schema", Err: err}
	}
	a.Accept = func(q *checkpoint.Question) error {
		v, err := decode[T](q.Answer)
		if err != nil {
			given := string(q.Answer)
			if len(given) > maxGiven {
				given = strings.ToValidUTF8(given[:maxGiven], "") + "…"
			}
			reason := fmt.Sprintf("%s is no %v", given, reflect.TypeFor[T]())
			if q.Event != "" {
				reason = fmt.Sprintf("event %q: %s", q.Event, reason)
			}
			return &AnswerError{Key: q.Key, Reason: reason, Err: err}
		}
		answer = v
		return nil
	}
	if _, err := t.Ask(ctx, a); err != nil {
		var zero T
		return zero, err
	}
	return answer, nil
}

// decode decodes an answer. A method of T that panics refuses it.
func decode[T any](data json.RawMessage) (v T, err error) {
	err = local.Safely(func() error { return json.Unmarshal(data, &v) })
	return v, err
}

// maxGiven is how much of a refused answer its error shows, in bytes.
const maxGiven = 100

// answerSchemas remembers the schemas of answer types: inferring one costs far
// more than a node does.
var answerSchemas sync.Map // reflect.Type to json.RawMessage

// schemaFor returns the JSON Schema of T, nil if it can't be described.
func schemaFor[T any]() json.RawMessage {
	t := reflect.TypeFor[T]()
	if s, ok := answerSchemas.Load(t); ok {
		return s.(json.RawMessage)
	}
	var raw json.RawMessage
	if s, err := goschema.Of(t, goschema.Answer); err == nil {
		if data, err := json.Marshal(s); err == nil && string(data) != "true" && string(data) != "{}" {
			raw = data
		}
	}
	answerSchemas.Store(t, raw)
	return raw
}
