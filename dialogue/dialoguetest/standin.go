package dialoguetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	assistants "github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/language"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// standIn returns what stands for a value in a test: a value that the slot takes, the same
// for the same one, if the slot is sensitive. One that was refused stays as it is masked.
func (x *exporter) standIn(t *assistants.Turn, name string, v expr.Value) expr.Value {
	s := x.slot(name)
	if s == nil || !s.Sensitive || v.IsNone() {
		return v
	}
	for _, e := range t.Trace {
		if e.Kind == "value_refused" && e.Slot == name {
			x.notef("turn %d: the value of %s that was refused is masked", t.Number, name)
			return v
		}
	}
	key := [2]string{name, v.String()}
	if known, ok := x.standIns[key]; ok {
		return known
	}
	var taken []expr.Value
	for k, known := range x.standIns {
		if k[0] == name {
			taken = append(taken, known)
		}
	}
	l := language.Of(x.p.Languages.Default)
	shows := strings.Trim(v.String(), "*") != "" // the end of the value
	for _, c := range candidates(s, len([]rune(v.String()))) {
		kept, reason := s.Parse(c, l)
		if reason != "" || slices.ContainsFunc(taken, kept.Same) || shows && program.Mask(kept.String()) == v.String() { // it may be the value itself
			continue
		}
		x.standIns[key] = kept
		x.Masked = append(x.Masked, fmt.Sprintf("%s, from turn %d: %s", name, t.Number, kept))
		return kept
	}
	x.standIns[key] = v
	x.notef("turn %d: no stand-in for %s could be found; write a value that the slot takes", t.Number, name)
	return v
}

// candidates are values that a slot may take, for one of a length.
func candidates(s *program.Slot, length int) []expr.Value {
	var out []expr.Value
	text := func(list ...string) {
		for _, v := range list {
			out = append(out, expr.Str(v))
		}
	}
	for _, o := range s.Options {
		out = append(out, o.Value)
	}
	switch s.Format {
	case "iban":
		text("DE89370400440532013000", "GB33BUKB20201555555555", "FR7630006000011234567890189", "NL91ABNA0417164300")
	case "digits":
		for first := range 10 {
			digits := ""
			for i := range max(length, s.MinLength, 1) {
				digits += strconv.Itoa((first + 1 + i) % 10)
			}
			text(digits)
		}
	case "email":
		text("first@example.com", "second@example.com", "third@example.com")
	case "phone":
		text("+49301234567", "+49301234568", "+49301234569")
	case "url":
		text("https://example.com/1", "https://example.com/2", "https://example.com/3")
	case "currency":
		text("EUR", "USD", "CHF")
	case "uuid":
		for i := range 5 {
			text(fmt.Sprintf("00000000-0000-4000-8000-%012d", i+1))
		}
	}
	switch s.Type {
	case program.Boolean:
		out = append(out, expr.Bool(true), expr.Bool(false))
	case program.Number, program.Integer:
		for _, b := range []*expr.Value{s.Minimum, s.ExclusiveMinimum, s.Maximum, s.ExclusiveMaximum} {
			if b == nil {
				continue
			}
			if n, ok := b.Num(); ok {
				out = append(out, expr.Num(n), expr.Num(n+1), expr.Num(n-1), expr.Num(n+2))
			}
		}
		for i := range 10 {
			out = append(out, expr.Num(float64(i+1)), expr.Num(float64(i+1)*100))
		}
	case program.List:
		out = append(out, expr.ListOf(expr.Str("secret")), expr.ListOf(expr.Num(1)))
	case program.Object:
		out = append(out, expr.ObjectOf(map[string]expr.Value{"secret": expr.Str("secret")}))
	}
	switch {
	case s.Type == program.Date || s.Format == "date":
		for i := range 9 {
			text(fmt.Sprintf("2001-02-0%d", i+1))
		}
	case s.Type == program.Time || s.Format == "time":
		for i := range 9 {
			text(fmt.Sprintf("12:3%d", i))
		}
	case s.Type == program.DateTime:
		for i := range 9 {
			text(fmt.Sprintf("2001-02-0%dT12:30", i+1))
		}
	case s.Format == "" && (s.Type == program.String || s.Type == program.Any):
		for i := range 9 {
			word := fmt.Sprintf("secret-%d", i+1)
			for len(word) < max(length, s.MinLength) {
				word += "-" + strings.Repeat(strconv.Itoa(i+1), 3)
			}
			if s.MaxLength > 0 && len(word) > s.MaxLength {
				word = word[len(word)-s.MaxLength:]
			}
			text(word)
		}
	}
	return out
}
