package server

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
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

// extract returns what is at the paths in a thread, which is read as JSON once.
func (p paths) extract(v *threadView, b *budget) (object, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var whole any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // numbers stay as they are written
	if err := d.Decode(&whole); err != nil {
		return nil, err
	}
	out := object{}
	for alias, steps := range p {
		if out[alias], err = json.Marshal(at(whole, steps)); err != nil {
			return nil, err
		}
		if err := b.spend(len(out[alias])); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// at returns what is at a path, nil if nothing is.
func at(v any, path []string) any {
	for _, step := range path {
		switch of := v.(type) {
		case map[string]any:
			v = of[step]
		case []any:
			i, err := strconv.Atoi(step)
			if i < 0 {
				i += len(of)
			}
			if err != nil || i < 0 || i >= len(of) {
				return nil
			}
			v = of[i]
		default:
			return nil
		}
	}
	return v
}
