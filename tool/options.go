package tool

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/superstep-dev/superstep/internal/goschema"
)

// Option is a setting of [New].
type Option func(*settings)

type settings struct {
	schema    json.RawMessage
	hasSchema bool
	strict    bool
	edits     []func(*jsonschema.Schema) error
}

// Schema sets the JSON Schema of the arguments instead of having it inferred.
// Arguments that match it must decode into the function's In type. References
// must lead into the schema itself.
func Schema(schema json.RawMessage) Option {
	return func(s *settings) { s.schema, s.hasSchema = schema, true }
}

// Strict asks the provider to keep the model to the schema, where it can. It sets
// the field of the same name in the tool's chat.ToolSpec.
func Strict() Option { return func(s *settings) { s.strict = true } }

// Enum limits a field of the arguments to some values, for values that are only
// known when the program runs or that have commas; others go into an enum tag.
// Field is the field's name in JSON; a nested field's is joined by points, as
// in "address.country". For a list or map it limits the elements.
func Enum[T any](field string, values ...T) Option {
	return func(s *settings) {
		s.edits = append(s.edits, func(root *jsonschema.Schema) error {
			return goschema.Enum(root, field, values)
		})
	}
}
