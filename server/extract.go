package server

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/internal/jsonscan"
)

// maxExtract is how many values of each thread a search may ask for.
const maxExtract = 10

// paths are the values of threads that a search asks for, by the names that it
// gives them: names of members joined by points, places of lists in brackets,
// negative ones from the end, as in values.messages[-1].content.
type paths map[string][]string

func parsePaths(said map[string]string) (paths, error) {
	if len(said) > maxExtract {
		return nil, invalid("extract has more than %d paths", maxExtract)
	}
	out := paths{}
	for alias, path := range said {
		if err := checkName("a path of extract", path); err != nil {
			return nil, err
		}
		out[alias] = stepsOf(path)
	}
	return out, nil
}

func stepsOf(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

// extract returns what is at the paths in a thread, which is written as JSON once.
func (p paths) extract(v *threadView, b *budget) (object, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out := object{}
	for alias, steps := range p {
		if out[alias] = at(data, steps); out[alias] == nil {
			out[alias] = json.RawMessage("null")
		}
		if err := b.spend(len(out[alias])); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// at returns what is at a path in JSON, nil if nothing is.
func at(v json.RawMessage, path []string) json.RawMessage {
	for _, step := range path {
		var next json.RawMessage
		index, err := strconv.Atoi(step)
		if !jsonscan.Members(v, func(key, value []byte) bool {
			if string(key) == step {
				next = value
			}
			return true
		}) && err == nil {
			var all []json.RawMessage
			jsonscan.Elements(v, func(value []byte) bool { all = append(all, value); return true })
			if index < 0 {
				index += len(all)
			}
			if index >= 0 && index < len(all) {
				next = all[index]
			}
		}
		v = next
	}
	return v
}
