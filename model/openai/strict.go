package openai

import (
	"encoding/json"
	"slices"
)

// strict reports whether a schema keeps the rules of OpenAI's strict mode, which
// refuses any other: every object is closed and requires all its properties, and
// there are no keywords but the permitted ones.
func strict(schema json.RawMessage) bool {
	var root map[string]json.RawMessage
	if json.Unmarshal(schema, &root) != nil {
		return false
	}
	if _, ok := root["anyOf"]; ok {
		return false
	}
	return slices.Equal(types(root["type"]), []string{"object"}) && strictNode(schema)
}

func strictNode(schema json.RawMessage) bool {
	var node map[string]json.RawMessage
	if json.Unmarshal(schema, &node) != nil || node == nil {
		return false // true and false are schemas, too
	}
	typed := false
	for keyword, v := range node {
		switch keyword {
		case "type", "enum", "const", "$ref":
			typed = true
		case "anyOf":
			typed = true
			var choices []json.RawMessage
			if json.Unmarshal(v, &choices) != nil || !allStrict(choices) {
				return false
			}
		case "items":
			if !strictNode(v) {
				return false
			}
		case "properties", "$defs", "definitions":
			var named map[string]json.RawMessage
			if json.Unmarshal(v, &named) != nil {
				return false
			}
			for _, n := range named {
				if !strictNode(n) {
					return false
				}
			}
		case "format":
			switch text(v) {
			case "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid":
			default:
				return false
			}
		case "required", "additionalProperties": // below
		case "title", "description", "pattern", "multipleOf", "minimum", "maximum",
			"exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems":
		default:
			return false
		}
	}
	if !typed {
		return false
	}
	if !slices.Contains(types(node["type"]), "object") {
		return true
	}
	var properties map[string]json.RawMessage
	var required []string
	if v, ok := node["properties"]; ok && json.Unmarshal(v, &properties) != nil {
		return false
	}
	if v, ok := node["required"]; ok && json.Unmarshal(v, &required) != nil {
		return false
	}
	for name := range properties {
		if !slices.Contains(required, name) {
			return false
		}
	}
	return string(node["additionalProperties"]) == "false"
}

func allStrict(schemas []json.RawMessage) bool {
	return !slices.ContainsFunc(schemas, func(s json.RawMessage) bool { return !strictNode(s) })
}

// types returns the value of the keyword type: one name or several.
func types(v json.RawMessage) []string {
	var several []string
	if json.Unmarshal(v, &several) == nil && several != nil {
		return several
	}
	if t := text(v); t != "" {
		return []string{t}
	}
	return nil
}
