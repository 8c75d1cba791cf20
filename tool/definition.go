package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/superstep-dev/superstep/internal/goschema"
)

// DefinitionError says what is wrong with how one or several tools are defined:
// everything that is wrong, in order.
type DefinitionError struct{ Mistakes []Mistake }

// Mistake is one thing that is wrong with a tool's definition.
type Mistake struct {
	Tool string // name, which may be what is wrong
	Err  error
}

func (m Mistake) Error() string { return fmt.Sprintf("tool %q: %v", m.Tool, m.Err) }

// Unwrap returns the cause.
func (m Mistake) Unwrap() error { return m.Err }

func (e *DefinitionError) Error() string {
	if len(e.Mistakes) == 1 {
		return e.Mistakes[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d mistakes in the definition of tools:", len(e.Mistakes))
	for _, m := range e.Mistakes {
		b.WriteString("\n\t")
		b.WriteString(m.Error())
	}
	return b.String()
}

// Unwrap returns the mistakes.
func (e *DefinitionError) Unwrap() []error {
	errs := make([]error, len(e.Mistakes))
	for i, m := range e.Mistakes {
		errs[i] = m
	}
	return errs
}

// add notes mistakes of a tool. Those that are a *DefinitionError themselves are
// taken over one by one.
func (e *DefinitionError) add(tool string, errs ...error) {
	for _, err := range errs {
		var d *DefinitionError
		switch {
		case err == nil:
		case errors.As(err, &d):
			e.Mistakes = append(e.Mistakes, d.Mistakes...)
		default:
			e.Mistakes = append(e.Mistakes, Mistake{Tool: tool, Err: err})
		}
	}
}

// err returns e if it has mistakes.
func (e *DefinitionError) err() error {
	if len(e.Mistakes) == 0 {
		return nil
	}
	return e
}

// Check returns what is wrong with a tool's definition as a [*DefinitionError],
// or nil: its name, its schema, and what its own Check method says if it has one.
// A nil tool is a mistake too.
func Check(t Tool) error {
	var d DefinitionError
	if isNil(t) {
		d.add("", errors.New("the tool is nil"))
		return d.err()
	}
	if c, ok := t.(interface{ Check() error }); ok {
		d.add(t.Spec().Name, c.Check())
		if len(d.Mistakes) > 0 {
			return d.err()
		}
	}
	spec := t.Spec()
	d.add(spec.Name, checkName(spec.Name))
	if spec.Schema != nil {
		d.add(spec.Name, CheckSchema(spec.Name, spec.Schema))
	}
	return d.err()
}

// isNil sees nil pointers too, which aren't equal to a nil interface.
func isNil(t Tool) bool {
	if t == nil {
		return true
	}
	v := reflect.ValueOf(t)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// CheckSchema returns a [*DefinitionError] unless schema is a JSON Schema whose
// root says that its type is "object". Nothing else about the schema is checked.
func CheckSchema(name string, schema json.RawMessage) error {
	var d DefinitionError
	d.add(name, checkRoot(schema))
	return d.err()
}

func checkRoot(schema json.RawMessage) error {
	s := bytes.TrimSpace(schema)
	if len(s) == 0 || s[0] != '{' {
		if !json.Valid(s) {
			return errors.New("the schema isn't JSON")
		}
		return fmt.Errorf("the schema must be a JSON object, not %s", goschema.Abbreviate(string(s)))
	}
	var root struct {
		Type json.RawMessage `json:"type"`
	}
	if err := json.Unmarshal(s, &root); err != nil {
		return fmt.Errorf("the schema isn't JSON: %w", err)
	}
	switch {
	case root.Type == nil:
		return errors.New(`the schema's root must have "type": "object", but has no type`)
	case string(root.Type) != `"object"`:
		return fmt.Errorf(`the schema's root must have "type": "object", not %s`, goschema.Abbreviate(string(root.Type)))
	}
	return nil
}

const maxName = 64

// checkName reports names that a provider of models would refuse.
func checkName(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	if len(name) > maxName {
		return fmt.Errorf("the name has %d characters, %d are allowed", len(name), maxName)
	}
	for _, r := range name {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
		default:
			return fmt.Errorf("the name has %q, but may only have letters, digits, _ and -", r)
		}
	}
	return nil
}
