package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
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

// validate checks data against a JSON Schema.
func validate(schema, data json.RawMessage) error {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return fmt.Errorf("the schema itself is wrong: %w", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return fmt.Errorf("the schema itself is wrong: %w", err)
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
	if s, err := jsonschema.For[T](nil); err == nil {
		if data, err := json.Marshal(s); err == nil && string(data) != "true" && string(data) != "{}" {
			raw = data
		}
	}
	answerSchemas.Store(t, raw)
	return raw
}
