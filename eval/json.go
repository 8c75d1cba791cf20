package eval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/internal/plainjson"
)

// value reads JSON and keeps the digits of its numbers.
func value(data json.RawMessage) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// outputLike reads an output. If it is a text that is JSON itself, such as the answer of a
// model that was asked for it, and a text isn't what is wanted, it is that JSON.
func outputLike(output json.RawMessage, wantsText bool) (any, error) {
	v, err := value(output)
	if text, ok := v.(string); ok && !wantsText {
		if inner, err := value(json.RawMessage(text)); err == nil && json.Valid([]byte(text)) {
			return inner, nil
		}
	}
	return v, err
}

// differ returns where got isn't what is wanted, and how; both empty if it is. A partial
// comparison lets objects have more members, at any depth.
func differ(path string, want, got any, partial bool) string {
	at := func(format string, args ...any) string {
		if path != "" {
			format = path + ": " + format
		}
		return fmt.Sprintf(format, args...)
	}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(w)) {
			sub, ok := g[name]
			if !ok {
				return at("there is no %q", name)
			}
			if d := differ(strings.TrimPrefix(path+"."+name, "."), w[name], sub, partial); d != "" {
				return d
			}
		}
		for _, name := range slices.Sorted(maps.Keys(g)) {
			if _, ok := w[name]; !ok && !partial {
				return at("there is a %q that isn't expected", name)
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok {
			break
		}
		if len(w) != len(g) {
			return at("there are %d elements, not %d", len(g), len(w))
		}
		for i := range w {
			if d := differ(strings.TrimPrefix(path+"."+strconv.Itoa(i), "."), w[i], g[i], partial); d != "" {
				return d
			}
		}
		return ""
	case json.Number:
		if g, ok := got.(json.Number); ok && sameNumber(string(w), string(g)) {
			return ""
		}
	default:
		if want == got {
			return ""
		}
	}
	return at("it is %s, not %s", short(got), short(want))
}

// sameNumber compares integers by their digits, of which a float holds only some.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	if !strings.ContainsAny(a+b, ".eE") {
		return false
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y
}

// short returns a value for a sentence.
func short(v any) string {
	text, err := plainjson.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return cut(string(text))
}

// cut shortens a text for a sentence.
func cut(text string) string {
	const most = 200
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}
