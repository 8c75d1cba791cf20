package server

import (
	"encoding/json"
	"strconv"
	"strings"
)

// maxExtract is how many values of each thread a search may ask for.
const maxExtract = 10

// extract returns values of a thread by their paths: names of members joined by
// points, places of lists in brackets, negative ones from the end, as in
// values.messages[-1].content.
func extract(v *threadView, paths map[string]string) (object, error) {
	if len(paths) > maxExtract {
		return nil, invalid("extract has more than %d paths", maxExtract)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out := object{}
	for alias, path := range paths {
		out[alias] = follow(data, path)
	}
	return out, nil
}

// follow returns what is at a path, null if nothing is.
func follow(data json.RawMessage, path string) json.RawMessage {
	for _, step := range strings.FieldsFunc(strings.ReplaceAll(path, "[", "."), func(r rune) bool { return r == '.' || r == ']' }) {
		var list []json.RawMessage
		if json.Unmarshal(data, &list) == nil {
			i, err := strconv.Atoi(step)
			if i < 0 {
				i += len(list)
			}
			if err != nil || i < 0 || i >= len(list) {
				return json.RawMessage("null")
			}
			data = list[i]
			continue
		}
		var o object
		if json.Unmarshal(data, &o) != nil || o[step] == nil {
			return json.RawMessage("null")
		}
		data = o[step]
	}
	return data
}
