// Package plainjson writes JSON in which <, > and & stand as they are, for who reads it is a
// model, a person or a program, and no page of HTML.
package plainjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Marshal is json.Marshal without the escapes for HTML. Strings that need no escapes cost
// hardly more than a copy.
func Marshal(v any) ([]byte, error) {
	if s, ok := v.(string); ok {
		return AppendString(make([]byte, 0, len(s)+2), s), nil
	}
	return encode(v)
}

// AppendString appends what Marshal returns for a string.
func AppendString(b []byte, s string) []byte {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= utf8.RuneSelf || r == '"' || r == '\\' }) {
		return append(append(append(b, '"'), s...), '"')
	}
	data, _ := encode(s) // a string cannot fail
	return append(b, data...)
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
