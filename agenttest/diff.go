package agenttest

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

// decode reads one value of JSON, with numbers as they are written.
func decode(text string) (any, error) {
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

// encode writes a value of decode, with the keys in order.
func encode(v any, indent string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err.Error() // what was decoded can be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func indented(v any) string { return encode(v, "  ") }

// maxDiffs bounds how many differences are told.
const maxDiffs = 8

// shown is how many bytes of a value a difference shows.
const shown = 120

// differences says where something differs from what was recorded.
type differences []difference

type difference struct {
	text  string
	bytes int // of what differs
}

func (d *differences) add(at, recorded, now string, bytes int) {
	*d = append(*d, difference{fmt.Sprintf("%s: %s, %s", at, recorded, now), bytes})
}

// weight tells near from far.
func (d differences) weight() int {
	n := 0
	for _, one := range d {
		n += one.bytes
	}
	return n
}

func (d differences) texts() []string {
	var out []string
	for _, one := range d[:min(len(d), maxDiffs)] {
		out = append(out, one.text)
	}
	if len(d) > maxDiffs {
		out = append(out, fmt.Sprintf("and %d more", len(d)-maxDiffs))
	}
	return out
}

// compare adds where two values of decode differ.
func (d *differences) compare(path string, a, b any) {
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
			d.changed(path, a, b)
			return
		}
	default:
		if a == b { // numbers, bools and null
			return
		}
	}
	d.replaced(path, a, b)
}

func (d *differences) replaced(path string, a, b any) {
	x, y := encode(a, ""), encode(b, "")
	d.add(path, "recorded "+short(x), "now "+short(y), len(x)+len(y))
}

func (d *differences) missing(path string, a any) {
	x := encode(a, "")
	d.add(path, "recorded "+short(x), "now missing", len(x))
}

func (d *differences) added(path string, b any) {
	y := encode(b, "")
	d.add(path, "not recorded", "now "+short(y), len(y))
}

func (d *differences) objects(path string, a, b map[string]any) {
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
			d.compare(at, av, bv)
		}
	}
}

func (d *differences) lists(path string, a, b []any) {
	n := min(len(a), len(b))
	for i := range n {
		d.compare(fmt.Sprintf("%s[%d]", path, i), a[i], b[i])
	}
	for i, v := range a[n:] {
		d.missing(fmt.Sprintf("%s[%d]", path, n+i), v)
	}
	for i, v := range b[n:] {
		d.added(fmt.Sprintf("%s[%d]", path, n+i), v)
	}
}

// changed adds how two texts differ, if they do: of long ones from a little before
// where they part.
func (d *differences) changed(path, a, b string) {
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

// short cuts JSON to a length for people.
func short(s string) string {
	if len(s) <= shown {
		return s
	}
	n := shown
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
