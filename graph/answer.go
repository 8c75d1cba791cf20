package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph/internal/state"
	"github.com/superstep-dev/superstep/internal/acyclic"
	"github.com/superstep-dev/superstep/internal/core"
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

// validate checks data against a JSON Schema.
func validate(schema, data json.RawMessage) error {
	resolved, err := resolve(schema)
	if err != nil {
		return fmt.Errorf("the schema itself is wrong: %w", err)
	}
	if !utf8.Valid(data) {
		return errors.New("a string in it is not valid UTF-8")
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	if err := resolved.Validate(v); err != nil {
		return mismatch(err)
	}
	return nil
}

// resolve reads a JSON Schema.
func resolve(schema json.RawMessage) (*jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, err
	}
	if err := acyclic.Check(schema); errors.Is(err, acyclic.ErrCircular) {
		return nil, err
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, err
	}
	return resolved, knownTypes(&s)
}

// knownTypes reports a type that JSON doesn't have, which the library lets pass.
func knownTypes(s *jsonschema.Schema) error {
	if s == nil {
		return nil
	}
	for _, t := range append([]string{s.Type}, s.Types...) {
		switch t {
		case "", "null", "boolean", "integer", "number", "string", "array", "object":
		default:
			return fmt.Errorf("there is no type %q", t)
		}
	}
	below := slices.Concat(s.PrefixItems, s.ItemsArray, s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{
		s.Items, s.AdditionalItems, s.Contains, s.UnevaluatedItems, s.AdditionalProperties, s.PropertyNames,
		s.UnevaluatedProperties, s.Not, s.If, s.Then, s.Else,
	})
	for _, named := range []map[string]*jsonschema.Schema{s.Defs, s.Definitions, s.Properties, s.PatternProperties, s.DependentSchemas, s.DependencySchemas} {
		below = slices.AppendSeq(below, maps.Values(named))
	}
	for _, one := range below {
		if err := knownTypes(one); err != nil {
			return err
		}
	}
	return nil
}

// typeMismatch is how the library says that a value has another type; it prints
// the value as Go does.
var typeMismatch = regexp.MustCompile(`(?s)^type: .* has type "(\w+)", want (?:one of )?(.+)$`)

// mismatch says in a sentence what the library says with the paths of all schemas
// on the way there.
func mismatch(err error) error {
	at, text := "", err.Error()
	for strings.HasPrefix(text, "validating ") {
		path, rest, ok := strings.Cut(strings.TrimPrefix(text, "validating "), ": ")
		if !ok {
			return err
		}
		at, text = path, rest
	}
	switch m := typeMismatch.FindStringSubmatch(text); {
	case m != nil:
		text = fmt.Sprintf("it is of type %s, not %s", m[1], strings.Trim(m[2], `"`))
	case strings.Contains(text, state.TimePattern):
		text = "it is no time as RFC 3339 has it, such as " + time.RFC3339[:19] + "Z"
	case strings.Contains(text, state.Base64Pattern):
		text = "it is not written in base64"
	case strings.HasPrefix(text, "anyOf: "), strings.HasPrefix(text, "oneOf: did not"):
		text = "it has none of the forms that are allowed here"
	}
	var where strings.Builder
	for path := at; ; {
		_, rest, ok := strings.Cut(path, "/properties/")
		if !ok {
			break
		}
		name, _, _ := strings.Cut(rest, "/")
		if where.Len() > 0 {
			where.WriteByte('.')
		}
		where.WriteString(name)
		path = rest[len(name):]
	}
	if where.Len() == 0 {
		return errors.New(text)
	}
	return fmt.Errorf("%s: %s", where.String(), text)
}

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
	if s, err := state.AnswerSchema(t); err == nil {
		if data, err := json.Marshal(s); err == nil && string(data) != "true" && string(data) != "{}" {
			raw = data
		}
	}
	answerSchemas.Store(t, raw)
	return raw
}
