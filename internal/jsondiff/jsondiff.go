// Package jsondiff says where JSON differs from what was recorded.
package jsondiff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
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
func (d *Differences) Compare(path string, a, b any) {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			d.objects(path, a, b)
			return
		}
	case []any:
		if b, ok := b.([]any); ok {
			d.lists(path, a, b)
			return
		}
	case string:
		if b, ok := b.(string); ok {
			d.Changed(path, a, b)
			return
		}
	default:
		if a == b { // numbers, bools and null
			return
		}
	}
	d.replaced(path, a, b)
}

func (d *Differences) replaced(path string, a, b any) {
	x, y := Encode(a, ""), Encode(b, "")
	d.add(path, "recorded "+Short(x), "now "+Short(y), len(x)+len(y))
}

func (d *Differences) missing(path string, a any) {
	x := Encode(a, "")
	d.add(path, "recorded "+Short(x), "now missing", len(x))
}

func (d *Differences) added(path string, b any) {
	y := Encode(b, "")
	d.add(path, "not recorded", "now "+Short(y), len(y))
}

func (d *Differences) objects(path string, a, b map[string]any) {
	names := slices.Collect(maps.Keys(a))
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		at := strings.TrimPrefix(path+"."+name, ".")
		av, inA := a[name]
		bv, inB := b[name]
		switch {
		case !inA:
			d.added(at, bv)
		case !inB:
			d.missing(at, av)
		default:
			d.Compare(at, av, bv)
		}
	}
}

func (d *Differences) lists(path string, a, b []any) {
	n := min(len(a), len(b))
	for i := range n {
		d.Compare(fmt.Sprintf("%s[%d]", path, i), a[i], b[i])
	}
	for i, v := range a[n:] {
		d.missing(fmt.Sprintf("%s[%d]", path, n+i), v)
	}
	for i, v := range b[n:] {
		d.added(fmt.Sprintf("%s[%d]", path, n+i), v)
	}
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
