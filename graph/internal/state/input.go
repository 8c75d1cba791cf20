package state

import (
	"regexp"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/goschema"
)

// operation is what the names of a merging field's operations look like. A name
// that begins with two "$" is that of a key.
const operation = `^\$([^$]|$)`

var isOperation = regexp.MustCompile(operation).MatchString

// forms are the schemas of what a field takes: its value or, if the field merges,
// an object of operations.
type forms struct {
	value, operations *jsonschema.Schema
	open              bool // and whatever else the field reads
}

// check returns what is wrong with the value v of an update's field.
func (f forms) check(name string, v any) []error {
	switch {
	case f.open || f.value == nil:
		return nil
	case f.operations == nil, !operates(v):
		return goschema.Mismatches(f.value, v, name)
	}
	errs := goschema.Mismatches(f.operations, v, name)
	if errs != nil && goschema.Mismatches(f.value, v, name) == nil {
		return nil
	}
	return errs
}

// operates reports whether v is an object with an operation.
func operates(v any) bool {
	object, _ := v.(map[string]any)
	for name := range object {
		if isOperation(name) {
			return true
		}
	}
	return false
}
