package graph

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/superstep-dev/superstep/graph/internal/state"
	"github.com/superstep-dev/superstep/internal/jsonscan"
)

// The payloads of sends are JSON. What most of them are, whole numbers and plain
// text, is written and read here without encoding/json, which costs more than a
// small task; everything else is left to it, so that what is recorded and what
// is refused is the same.

// encodePayload returns the JSON of a payload.
func encodePayload[In any](in In) (json.RawMessage, error) {
	switch p := any(&in).(type) {
	case *int:
		return strconv.AppendInt(nil, int64(*p), 10), nil
	case *int64:
		return strconv.AppendInt(nil, *p, 10), nil
	case *string:
		if state.PlainText(*p) {
			b := make([]byte, 0, len(*p)+2)
			b = append(b, '"')
			b = append(b, *p...)
			return append(b, '"'), nil
		}
	}
	return json.Marshal(in)
}

// decodePayload returns a *In.
func decodePayload[In any](raw json.RawMessage) (any, error) {
	in := new(In)
	if raw == nil {
		return in, nil
	}
	switch p := any(in).(type) {
	case *int:
		if n, ok := wholeNumber(raw); ok && int64(int(n)) == n {
			*p = int(n)
			return in, nil
		}
	case *int64:
		if n, ok := wholeNumber(raw); ok {
			*p = n
			return in, nil
		}
	case *string:
		if text, ok := jsonscan.Text(raw); ok {
			*p = text
			return in, nil
		}
	}
	return in, json.Unmarshal(raw, in)
}

// wholeNumber reads a whole number as encoding/json does.
func wholeNumber(raw []byte) (n int64, ok bool) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	digits := bytes.TrimPrefix(raw, []byte("-"))
	return n, err == nil && raw[0] != '+' && (digits[0] != '0' || len(digits) == 1)
}
