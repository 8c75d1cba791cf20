// Package jsondiff says where two values of JSON differ.
package jsondiff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Decode reads one value of JSON, with numbers as they are written.
func Decode(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one value of JSON")
	}
	return v, nil
}

// Encode writes a value of [Decode], with the keys in order.
func Encode(v any, indent string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err.Error() // what was decoded can be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Change is one place at which two values differ.
type Change struct {
	Op       string // "add", "remove" or "replace"
	Path     []any  // names of members, and indexes of elements, which are ints
	Old, New any    // nil where there is none
}

// Changes returns where two values of [Decode] differ, member by member and element by
// element. A list that grew or shrank at an end, or in one place, differs there alone. As
// those of a JSON Patch, the changes make one of the other when they are done in turn: what
// went from a list goes from its end on.
func Changes(a, b any) []Change { return appendChanges(nil, nil, a, b) }

func appendChanges(to []Change, path []any, a, b any) []Change {
	below := func(step any) []any { return append(slices.Clip(path), step) }
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		both := maps.Clone(x)
		maps.Copy(both, y)
		for _, name := range slices.Sorted(maps.Keys(both)) {
			was, had := x[name]
			is, has := y[name]
			switch {
			case !has:
				to = append(to, Change{Op: "remove", Path: below(name), Old: was})
			case !had:
				to = append(to, Change{Op: "add", Path: below(name), New: is})
			default:
				to = appendChanges(to, below(name), was, is)
			}
		}
		return to
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		begin, end := 0, 0 // that are the same
		for begin < min(len(x), len(y)) && reflect.DeepEqual(x[begin], y[begin]) {
			begin++
		}
		for end < min(len(x), len(y))-begin && reflect.DeepEqual(x[len(x)-1-end], y[len(y)-1-end]) {
			end++
		}
		shared := min(len(x), len(y)) - end
		for i := begin; i < shared; i++ {
			to = appendChanges(to, below(i), x[i], y[i])
		}
		for i := len(x) - end - 1; i >= shared; i-- {
			to = append(to, Change{Op: "remove", Path: below(i), Old: x[i]})
		}
		for i := shared; i < len(y)-end; i++ {
			to = append(to, Change{Op: "add", Path: below(i), New: y[i]})
		}
		return to
	}
	if !reflect.DeepEqual(a, b) {
		to = append(to, Change{Op: "replace", Path: path, Old: a, New: b})
	}
	return to
}

// maxDiffs bounds how many differences are told.
const maxDiffs = 8

// shown is how many bytes of a value a difference shows.
const shown = 120

// Differences says where something differs from what was recorded.
type Differences []difference

type difference struct {
	text  string
	bytes int // of what differs
}

func (d *Differences) add(at, recorded, now string, bytes int) {
	*d = append(*d, difference{fmt.Sprintf("%s: %s, %s", at, recorded, now), bytes})
}

// Weight tells near from far.
func (d Differences) Weight() int {
	n := 0
	for _, one := range d {
		n += one.bytes
	}
	return n
}

// Texts returns the differences for people, not all if there are many.
func (d Differences) Texts() []string {
	var out []string
	for _, one := range d[:min(len(d), maxDiffs)] {
		out = append(out, one.text)
	}
	if len(d) > maxDiffs {
		out = append(out, fmt.Sprintf("and %d more", len(d)-maxDiffs))
	}
	return out
}

// Compare adds where two values of [Decode] differ.
func (d *Differences) Compare(a, b any) {
	for _, c := range Changes(a, b) {
		at := ""
		for _, step := range c.Path {
			if i, ok := step.(int); ok {
				at += fmt.Sprintf("[%d]", i)
				continue
			}
			at = strings.TrimPrefix(fmt.Sprint(at, ".", step), ".")
		}
		was, before := c.Old.(string)
		is, after := c.New.(string)
		switch {
		case before && after:
			d.Changed(at, was, is)
		case c.Op == "add":
			y := Encode(c.New, "")
			d.add(at, "not recorded", "now "+Short(y), len(y))
		case c.Op == "remove":
			x := Encode(c.Old, "")
			d.add(at, "recorded "+Short(x), "now missing", len(x))
		default:
			d.replaced(at, c.Old, c.New)
		}
	}
}

func (d *Differences) replaced(path string, a, b any) {
	x, y := Encode(a, ""), Encode(b, "")
	d.add(path, "recorded "+Short(x), "now "+Short(y), len(x)+len(y))
}

// Changed adds how two texts differ, if they do: of long ones from a little before
// where they part.
func (d *Differences) Changed(path, a, b string) {
	if a == b {
		return
	}
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	if len(a) > shown || len(b) > shown {
		from := max(0, n-shown/4)
		for from > 0 && !utf8.RuneStart(a[from]) {
			from--
		}
		if from > 0 {
			path += fmt.Sprintf(" from byte %d", from)
			a, b = a[from:], b[from:]
		}
	}
	d.replaced(path, a, b)
}

// Short cuts JSON to a length for people.
func Short(s string) string {
	if len(s) <= shown {
		return s
	}
	n := shown
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
