package openapi

import (
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schemas in few words. Descriptions may be empty.

func text(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Description: about}
}

func id(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Format: "uuid", Description: about}
}

func at(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Format: "date-time", Description: about}
}

func oneOf(about string, values ...string) *jsonschema.Schema {
	s := text(about)
	for _, v := range values {
		s.Enum = append(s.Enum, v)
	}
	return s
}

func whole(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Description: about}
}

func fraction(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "number", Description: about}
}

func yesno(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "boolean", Description: about}
}

// anything is a schema that says nothing.
func anything(about string) *jsonschema.Schema { return &jsonschema.Schema{Description: about} }

func list(about string, of *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "array", Description: about, Items: of}
}

// named are objects whose members have any name.
func named(about string, of *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Description: about, AdditionalProperties: of}
}

// free is an object of which nothing is known.
func free(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Description: about}
}

// ref refers to one of schemas.
func ref(name, about string) *jsonschema.Schema {
	return &jsonschema.Schema{Ref: "#/components/schemas/" + name, Description: about}
}

// nullable returns a schema of the same, or null.
func nullable(s *jsonschema.Schema) *jsonschema.Schema {
	if s.Ref != "" {
		about := s.Description
		s.Description = ""
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, {Type: "null"}}, Description: about}
	}
	s.Types, s.Type = []string{s.Type, "null"}, ""
	return s
}

// either is what has one of several forms.
func either(about string, forms ...*jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: forms, Description: about}
}

// member is a member of an object. A name that ends in ! is always there.
type member struct {
	name   string
	schema *jsonschema.Schema
}

func record(about string, members ...member) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Description: about, Properties: map[string]*jsonschema.Schema{}}
	for _, m := range members {
		name, must := strings.CutSuffix(m.name, "!")
		if must {
			s.Required = append(s.Required, name)
		}
		s.Properties[name] = m.schema
		s.PropertyOrder = append(s.PropertyOrder, name)
	}
	return s
}
