package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/goschema"
)

// FormatError says that an answer is not in the form that [Generate] asked for.
type FormatError struct {
	Text string // the answer's, as it came
	Err  error  // what is wrong with it
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("the answer is not in the form asked for: %v", e.Err)
}

// Unwrap returns what is wrong with the answer.
func (e *FormatError) Unwrap() error { return e.Err }

// The causes of a [FormatError] which asking again would not help.
var (
	ErrToolCalls = errors.New("the model calls tools instead")
	ErrTruncated = errors.New("the answer was cut at the limit of tokens")
	ErrFiltered  = errors.New("the provider refused the content")
)

// GenerateOption is an option of [Generate].
type GenerateOption func(*generation)

type generation struct{ repairs int }

// Repair lets the model try again up to n times when its answer isn't in the
// form asked for: it is told what is wrong. The default is not to.
func Repair(n int) GenerateOption { return func(g *generation) { g.repairs = n } }

// Generate asks m for an answer in the form of a T, and returns it with the
// response that it was read from, the last of several.
//
// The request's Output is the JSON Schema of T. It follows from the type as that of a
// tool's arguments does: jsonschema tags describe fields to the model, others limit them
// (enum, minimum, pattern, ...). A T that isn't an object
// in JSON, such as a slice, is asked for as the member "value" of one. An Output
// that req has is kept; if it has a Schema, that is used instead of T's.
//
// The answer is checked against the schema and, if T or *T has a method
// Validate() error, by it. An answer of another form is a [*FormatError], which
// comes with the response; [Repair] has the model correct it. JSON inside of a
// Markdown fence is taken out of it. The request isn't altered.
func Generate[T any](ctx context.Context, m Model, req *Request, opts ...GenerateOption) (T, *Response, error) {
	var none T
	var g generation
	for _, o := range opts {
		o(&g)
	}
	f, err := formOf(reflect.TypeFor[T](), req.Output)
	if err != nil {
		return none, nil, err
	}
	r := *req
	r.Output = &f.output
	for n := 0; ; n++ {
		resp, err := Ask(ctx, m, &r)
		if err != nil {
			return none, nil, err
		}
		Count(ctx, "", resp)
		var v T
		err = f.read(resp.Message, &v)
		if err == nil {
			return v, resp, nil
		}
		if n >= g.repairs || errors.Is(err, ErrToolCalls) || errors.Is(err, ErrTruncated) || errors.Is(err, ErrFiltered) {
			return none, resp, &FormatError{Text: resp.Message.Text(), Err: err}
		}
		messages := append([]chat.Message(nil), r.Messages...)
		if len(resp.Message.Parts) > 0 { // providers refuse messages that say nothing
			messages = append(messages, resp.Message)
		}
		r.Messages = append(messages, chat.User(fmt.Sprintf("This answer can't be used: %v. Answer again, with JSON that follows the schema and nothing else.", err)))
	}
}

// form is how an answer must look.
type form struct {
	output  Schema
	schema  *goschema.Schema
	wrapped bool // it is the member "value"
}

const wrapper = "value"

var rawJSON = reflect.TypeFor[json.RawMessage]()

func formOf(t reflect.Type, asked *Schema) (*form, error) {
	for t.Kind() == reflect.Pointer { // there is an answer, so it isn't nil
		t = t.Elem()
	}
	f := &form{}
	if asked != nil {
		f.output = *asked
	}
	inferred, err := goschema.Of(t, goschema.Output)
	var s *jsonschema.Schema
	switch {
	case len(f.output.Schema) > 0:
		s = new(jsonschema.Schema)
		if err := json.Unmarshal(f.output.Schema, s); err != nil {
			return nil, fmt.Errorf("the schema of the request's Output: %w", err)
		}
		// A wrapped schema may come back from where it was kept.
		f.wrapped = err == nil && t != rawJSON && t.Kind() != reflect.Interface && inferred.Type != "object" &&
			len(s.Properties) == 1 && s.Properties[wrapper] != nil
	case err != nil:
		return nil, fmt.Errorf("no JSON Schema for %v: %w", t, err)
	default:
		if s = inferred; s.Type != "object" {
			f.wrapped = true
			s = &jsonschema.Schema{
				Type:                 "object",
				Properties:           map[string]*jsonschema.Schema{wrapper: s},
				Required:             []string{wrapper},
				AdditionalProperties: goschema.Nothing(),
			}
		}
		if f.output.Schema, err = json.Marshal(s); err != nil {
			return nil, fmt.Errorf("no JSON Schema for %v: %w", t, err)
		}
	}
	if f.schema, err = goschema.Parse(f.output.Schema); err != nil {
		return nil, fmt.Errorf("the JSON Schema for %v: %w", t, err)
	}
	return f, nil
}

// read decodes and checks an answer. The target is a pointer to T.
func (f *form) read(m chat.Message, target any) error {
	if len(m.ToolCalls()) > 0 {
		return ErrToolCalls
	}
	switch m.Finish {
	case chat.FinishLength:
		return ErrTruncated
	case chat.FinishFilter:
		return ErrFiltered
	}
	data := unfence(m.Text())
	if data == "" {
		return errors.New("it has no text")
	}
	if !json.Valid([]byte(data)) {
		return fmt.Errorf("it is not JSON: %w", json.Unmarshal([]byte(data), new(any)))
	}
	if err := f.schema.Check([]byte(data)); err != nil {
		return fmt.Errorf("it doesn't follow the schema: %w", err)
	}
	raw := json.RawMessage(data)
	if f.wrapped {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil {
			return err
		}
		raw = object[wrapper]
	}
	if err := json.Unmarshal(raw, target); err != nil {
		return fmt.Errorf("it can't be read: %w", err)
	}
	if c, ok := target.(interface{ Validate() error }); ok {
		return c.Validate()
	}
	return nil
}

// unfence returns the JSON of a text that may have it in a Markdown fence, with
// or without words around that.
func unfence(text string) string {
	text = strings.TrimSpace(text)
	if json.Valid([]byte(text)) {
		return text
	}
	_, rest, ok := strings.Cut(text, "```")
	if !ok {
		return text
	}
	line, body, ok := strings.Cut(rest, "\n")
	if !ok || strings.ContainsAny(line, "{[\"") { // all in one line
		body = strings.TrimPrefix(strings.TrimPrefix(rest, "json"), "JSON")
	}
	end := len(body)
	for i := 0; ; { // a string inside may have a fence too
		n := strings.Index(body[i:], "```")
		if n < 0 {
			return strings.TrimSpace(body[:end])
		}
		end = i + n
		if json.Valid([]byte(body[:end])) {
			return strings.TrimSpace(body[:end])
		}
		i = end + len("```")
	}
}
