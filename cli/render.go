package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/console"
	"github.com/superstep-dev/superstep/internal/jsondiff"
	"github.com/superstep-dev/superstep/internal/jsonscan"
)

// member is one member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// object is a JSON object with its members in the order written.
type object []member

// list is a JSON array.
type list []json.RawMessage

// open decodes one level of a JSON value: into nil, bool, json.Number, string,
// list or object. What isn't shown need not be decoded.
func open(data json.RawMessage) (any, error) {
	l, o := list{}, object{}
	if jsonscan.Elements(data, func(v []byte) bool { l = append(l, v); return true }) {
		return l, nil
	}
	if jsonscan.Members(data, func(name, v []byte) bool { o = append(o, member{string(name), v}); return true }) {
		return o, nil
	}
	return jsondiff.Decode(string(data))
}

// The bounds of what is shown unless all is asked for.
const (
	shownItems = 10
	shownLines = 24
	shownRunes = 1200
)

// renderer writes values for people: one line each where they fit, indented
// below their name where not.
type renderer struct {
	w     io.Writer
	width int
	full  bool // show everything
	cut   bool // something was left out
}

// value writes a JSON value, indented.
func (r *renderer) value(data json.RawMessage, indent string) {
	v, err := open(data)
	if err != nil {
		fmt.Fprintf(r.w, "%s%s\n", indent, console.Clean(string(data)))
		return
	}
	switch v := v.(type) {
	case object:
		if len(v) == 0 {
			fmt.Fprintf(r.w, "%s{}\n", indent)
		}
		shown := v
		if limit := 5 * shownItems; !r.full && len(v) > limit {
			shown = v[:limit]
		}
		widest := 0
		for _, m := range shown {
			if n := utf8.RuneCountInString(m.name); n <= 24 {
				widest = max(widest, n)
			}
		}
		for _, m := range shown {
			name := oneLine(m.name)
			if s, ok := r.inline(m.value, r.width-len(indent)-widest-2); ok {
				fmt.Fprintf(r.w, "%s%s%s  %s\n", indent, name, strings.Repeat(" ", max(0, widest-utf8.RuneCountInString(name))), s)
				continue
			}
			fmt.Fprintf(r.w, "%s%s\n", indent, name)
			r.value(m.value, indent+"  ")
		}
		r.more(len(v)-len(shown), indent)
	case list:
		shown := v
		if !r.full && len(v) > shownItems {
			shown = v[:shownItems]
		}
		for _, x := range shown {
			if s, ok := r.inline(x, r.width-len(indent)-2); ok {
				fmt.Fprintf(r.w, "%s- %s\n", indent, s)
				continue
			}
			var b strings.Builder
			sub := renderer{w: &b, width: r.width, full: r.full}
			sub.value(x, indent+"  ")
			r.cut = r.cut || sub.cut
			fmt.Fprintf(r.w, "%s- %s", indent, strings.TrimPrefix(b.String(), indent+"  "))
		}
		r.more(len(v)-len(shown), indent)
	case string:
		r.text(v, indent)
	default:
		s, _ := r.inline(data, 1<<30)
		fmt.Fprintf(r.w, "%s%s\n", indent, s)
	}
}

func (r *renderer) more(n int, indent string) {
	if n > 0 {
		r.cut = true
		fmt.Fprintf(r.w, "%s… %d more\n", indent, n)
	}
}

// text writes a string of several lines.
func (r *renderer) text(s, indent string) {
	s = console.Clean(strings.TrimRight(s, "\n"))
	lines := strings.Split(s, "\n")
	cut := 0
	if !r.full && len(lines) > shownLines {
		cut, lines = len(lines)-shownLines, lines[:shownLines]
	}
	runes := 0
	for i, l := range lines {
		n := utf8.RuneCountInString(l)
		if !r.full && runes+n > shownRunes {
			rest := []rune(l)[:shownRunes-runes]
			fmt.Fprintf(r.w, "%s%s…\n", indent, string(rest))
			r.cut = true
			cut += len(lines) - i - 1
			break
		}
		runes += n
		fmt.Fprintf(r.w, "%s%s\n", indent, l)
	}
	if cut > 0 {
		r.cut = true
		fmt.Fprintf(r.w, "%s… %d more lines\n", indent, cut)
	}
}

// inline returns a value on one line, if it fits there.
func (r *renderer) inline(data json.RawMessage, width int) (string, bool) {
	if len(data) > 8*max(width, 20)+64 {
		return "", false
	}
	v, err := open(data)
	if err != nil {
		return "", false
	}
	switch v := v.(type) {
	case nil:
		return "null", true
	case string:
		if v == "" {
			return `""`, true
		}
		if strings.ContainsAny(v, "\n\r") || utf8.RuneCountInString(v) > max(width, 20) {
			return "", false
		}
		return console.Clean(v), true
	case object:
		return "{}", len(v) == 0
	case list:
		if len(v) == 0 {
			return "[]", true
		}
		if len(v) > shownItems {
			return "", false
		}
		var parts []string
		for _, x := range v {
			s, ok := r.inline(x, width)
			if !ok || x[0] == '{' || x[0] == '[' || len(s) > 30 || strings.ContainsAny(s, ",\n") {
				return "", false
			}
			parts = append(parts, s)
		}
		s := strings.Join(parts, ", ")
		return s, utf8.RuneCountInString(s) <= width
	}
	return fmt.Sprint(v), true
}

// table writes rows in columns, the first row being the head. Nothing is
// written when there are no other rows.
func (a *app) table(rows [][]string) {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = oneLine(cell)
		}
	}
	a.console.Table(rows, statusColours)
}

// statusColours are those of the statuses of threads, in tables.
var statusColours = map[string]console.Colour{
	"done": console.Green, "interrupted": console.Yellow, "waiting": console.Yellow, "failed": console.Red,
}

// when formats a time for people, in their zone.
func when(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

func bytesText(n int64) string {
	switch {
	case n <= 0:
		return "-"
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f kB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
}

// show prints a snapshot. Whatever the thread waits for comes last, where a
// person looks first.
func (a *app) show(s *snapshot, full bool) error {
	w := a.console.Out
	if a.json {
		return writeJSON(w, s, true)
	}
	head := fmt.Sprintf("thread %s of graph %s: %s after %s", s.Thread, s.Graph, s.Status, console.Count(s.Step, "step"))
	fmt.Fprintln(w, oneLine(head))
	if s.Checkpoint != "" {
		fmt.Fprintf(w, "checkpoint %s\n", oneLine(s.Checkpoint))
	}
	if len(s.Next) > 0 {
		fmt.Fprintf(w, "next: %s\n", oneLine(strings.Join(collapse(s.Next), ", ")))
	}
	for _, t := range s.Tasks {
		if t.Error != "" {
			fmt.Fprintf(w, "error in %s: %s\n", oneLine(t.Node), foreign(t.Error))
		}
	}
	r := renderer{w: w, width: a.console.Width(), full: full}
	fmt.Fprintln(w)
	r.value(s.State, "")
	if r.cut {
		fmt.Fprintf(w, "\n(Shortened. --full shows everything.)\n")
	}
	if len(s.Waits) > 0 {
		fmt.Fprintln(w)
		for _, wait := range s.Waits {
			fmt.Fprintf(w, "Waits: %s\n", console.Clean(wait.text))
		}
	}
	if len(s.Interrupts) > 0 {
		fmt.Fprintln(w)
		a.questions(s)
	}
	return nil
}

// oneLine makes text safe to show as a part of a line: control characters, line
// breaks among them, are replaced.
func oneLine(text string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(clean(text))
}

// collapse counts names that follow each other.
func collapse(names []string) []string {
	var out []string
	for i := 0; i < len(names); {
		n := 1
		for i+n < len(names) && names[i+n] == names[i] {
			n++
		}
		if n > 1 {
			out = append(out, fmt.Sprintf("%s ×%d", names[i], n))
		} else {
			out = append(out, names[i])
		}
		i += n
	}
	return out
}

// ran lists the nodes that ran, with what each has recorded.
func (e *entry) ran() []string {
	if e.Did == nil {
		return e.Nodes
	}
	names := slices.Clone(e.Nodes)
	for i, did := range e.Did {
		if len(did) > 0 {
			names[i] += " (" + strings.Join(collapse(did), ", ") + ")"
		}
	}
	return names
}
