package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"unicode/utf8"
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
	if string(data) == "null" {
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

// members calls f with the members of an object. It finds out where they begin
// and end and doesn't look at the values; f reports whether they will do.
func members(b []byte, f func(key, value []byte) bool) error {
	bad := func() error {
		var v map[string]json.RawMessage
		if err := json.Unmarshal(b, &v); err != nil {
			return err
		}
		return errNotObject
	}
	i := space(b, 0)
	if i == len(b) || b[i] != '{' {
		return bad()
	}
	if i = space(b, i+1); i < len(b) && b[i] == '}' {
		i++
	} else {
		for more := true; more; i++ {
			from := space(b, i)
			if i = skip(b, from); i < 0 || b[from] != '"' {
				return bad()
			}
			key := b[from+1 : i-1]
			if bytes.IndexByte(key, '\\') >= 0 || !PlainText(key) {
				var s string
				if json.Unmarshal(b[from:i], &s) != nil {
					return bad()
				}
				key = []byte(s)
			}
			if i = space(b, i); i >= len(b) || b[i] != ':' {
				return bad()
			}
			from = space(b, i+1)
			if i = skip(b, from); i < 0 || !f(key, b[from:i]) {
				return bad()
			}
			if i = space(b, i); i >= len(b) || b[i] != ',' && b[i] != '}' {
				return bad()
			}
			more = b[i] == ','
		}
	}
	if space(b, i) != len(b) {
		return bad()
	}
	return nil
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skip returns where the value ends that begins at i, if there is one; else it
// returns -1 or something that is no JSON ends there.
func skip(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			if i = endOfString(b, i+1); i < 0 {
				return -1
			}
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth < 0 {
				return -1
			}
		case depth == 0: // a number or a word
			from := i
			for i < len(b) && (b[i] == '-' || b[i] == '+' || b[i] == '.' || b[i]-'0' <= 9 || b[i]|0x20-'a' <= 25) {
				i++
			}
			if i == from {
				return -1
			}
			return i
		}
		if depth == 0 {
			return i + 1
		}
	}
	return -1
}

// endOfString returns where the quote stands that ends the string that i is in,
// -1 if there is none.
func endOfString(b []byte, i int) int {
	for {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		end := i + n
		slashes := end
		for slashes > i && b[slashes-1] == '\\' {
			slashes--
		}
		if (end-slashes)%2 == 0 {
			return end
		}
		i = end + 1
	}
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
