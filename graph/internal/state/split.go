package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/jsonscan"
)

// part is a member of a JSON object that is a field.
type part struct {
	at   int32 // index of the field
	data []byte
}

// split returns the members of an object that are fields, in the order of the
// fields; if only is not nil, those that it names. What it returns may be no
// JSON: it is found out when it is decoded. All the rest has been looked at.
func (t *Type) split(data []byte, only []string) ([]part, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	var parts []part
	err := members(data, func(key, value []byte) bool {
		i, ok := t.byName[string(key)]
		if !ok || only != nil && !slices.Contains(only, t.fields[i].name) {
			return json.Valid(value)
		}
		if k := slices.IndexFunc(parts, func(p part) bool { return p.at == i }); k >= 0 {
			ok = json.Valid(parts[k].data)
			parts[k].data = value // the last one counts
			return ok
		}
		parts = append(parts, part{i, value})
		return true
	})
	if err != nil {
		return nil, err
	}
	sortParts(parts)
	return parts, nil
}

func sortParts(parts []part) {
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.at, b.at) })
}

var errNotObject = errors.New("not a JSON object")

// members calls f with the members of an object, as [jsonscan.Members] does.
func members(b []byte, f func(key, value []byte) bool) error {
	if jsonscan.Members(b, f) {
		return nil
	}
	var v map[string]json.RawMessage
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	return errNotObject
}

// PlainText reports whether s between quotes is what encoding/json writes for it.
func PlainText[T ~string | ~[]byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}
