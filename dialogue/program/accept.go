package program

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/language"
)

// Parse reads what a user gave for the slot and checks it. It returns the value to
// keep, or the reason why there is none.
func (s *Slot) Parse(v expr.Value, l language.Language) (kept expr.Value, reason string) {
	text, isText := v.Str()
	if isText {
		text = strings.TrimSpace(text)
		if text == "" {
			return expr.Value{}, "it is empty"
		}
		v = expr.Str(text)
	}
	if v.IsNone() {
		return expr.Value{}, "it is empty"
	}
	if len(s.Options) > 0 {
		if o, ok := s.Option(v); ok {
			return s.Check(o.Value, l)
		}
	}
	if isText {
		switch s.Type {
		case Number, Integer:
			n, ok := l.ParseNumber(text)
			if !ok {
				return expr.Value{}, "it is not a number"
			}
			v = expr.Num(n)
		case Boolean:
			b, ok := l.ParseBool(text)
			if word := strings.ToLower(text); word == "true" || word == "false" { // as models write it
				b, ok = word == "true", true
			}
			if !ok {
				return expr.Value{}, "it is neither yes nor no"
			}
			v = expr.Bool(b)
		case Date, Time, DateTime:
			parse := map[Type]func(string) (string, bool){Date: l.ParseDate, Time: l.ParseTime, DateTime: l.ParseDateTime}[s.Type]
			iso, ok := parse(text)
			if !ok {
				return expr.Value{}, "it is not a " + string(s.Type)
			}
			v = expr.Str(iso)
		case List:
			v = expr.ListOf(v)
		}
	} else if s.Type == String {
		switch v.Kind() {
		case expr.Number, expr.Boolean:
			v = expr.Str(v.String())
		}
	}
	return s.Check(v, l)
}

// Option returns the option that a value names: itself, by a label or by a synonym.
func (s *Slot) Option(v expr.Value) (Option, bool) {
	for _, o := range s.Options {
		if o.Value.Same(v) {
			return o, true
		}
	}
	folded := language.Fold(v.String())
	for _, o := range s.Options {
		if language.Fold(o.Value.String()) == folded || slices.ContainsFunc(o.Synonyms, func(w string) bool { return language.Fold(w) == folded }) {
			return o, true
		}
		for _, l := range o.Label {
			if language.Fold(l) == folded {
				return o, true
			}
		}
	}
	return Option{}, false
}

// Check checks a value that code gives: its type, options, bounds, length and format.
// It returns the value in its canonical form, or the reason why it is refused.
func (s *Slot) Check(v expr.Value, l language.Language) (kept expr.Value, reason string) {
	if v.IsNone() {
		return v, "" // empties the slot
	}
	if reason := checkType(s.Type, v); reason != "" {
		return expr.Value{}, reason
	}
	if s.Type == List && s.Items != "" {
		for i, item := range v.Items() {
			if reason := checkType(s.Items, item); reason != "" {
				return expr.Value{}, fmt.Sprintf("item %d: %s", i+1, reason)
			}
		}
	}
	if len(s.Options) > 0 && !slices.ContainsFunc(s.Options, func(o Option) bool { return o.Value.Equal(v) }) {
		return expr.Value{}, "it is not one of the choices"
	}
	for _, b := range []struct {
		bound *expr.Value
		ok    func(int) bool
		words string
	}{
		{s.Minimum, func(o int) bool { return o >= 0 }, "it has to be at least %s"},
		{s.Maximum, func(o int) bool { return o <= 0 }, "it has to be at most %s"},
		{s.ExclusiveMinimum, func(o int) bool { return o > 0 }, "it has to be above %s"},
		{s.ExclusiveMaximum, func(o int) bool { return o < 0 }, "it has to be below %s"},
	} {
		if b.bound == nil {
			continue
		}
		if o, ok := v.Order(*b.bound); !ok || !b.ok(o) {
			return expr.Value{}, fmt.Sprintf(b.words, *b.bound)
		}
	}
	if s.MinLength > 0 || s.MaxLength > 0 {
		n, ok := v.Len()
		unit := "characters"
		if v.Kind() == expr.List {
			unit = "items"
		}
		switch {
		case !ok:
			return expr.Value{}, "it has no length"
		case s.MinLength == s.MaxLength && n != s.MinLength:
			return expr.Value{}, fmt.Sprintf("it has to have exactly %d %s", s.MinLength, unit)
		case n < s.MinLength:
			return expr.Value{}, fmt.Sprintf("it has to have at least %d %s", s.MinLength, unit)
		case s.MaxLength > 0 && n > s.MaxLength:
			return expr.Value{}, fmt.Sprintf("it has to have at most %d %s", s.MaxLength, unit)
		}
	}
	if s.Format != "" {
		text, ok := v.Str()
		if !ok {
			return expr.Value{}, "it has to be a text"
		}
		canonical, reason := language.Format(s.Format, text)
		if s.Format == "date" || s.Format == "time" {
			if iso, ok := map[string]func(string) (string, bool){"date": l.ParseDate, "time": l.ParseTime}[s.Format](text); ok {
				canonical, reason = iso, ""
			}
		}
		if reason != "" {
			return expr.Value{}, reason
		}
		v = expr.Str(canonical)
	}
	return v, ""
}

// Conforms says why a value is not of a type, "" if it is.
func Conforms(t Type, v expr.Value) string { return checkType(t, v) }

func checkType(t Type, v expr.Value) string {
	want, ok := t.Kind()
	if !ok {
		return ""
	}
	if v.Kind() != want {
		return fmt.Sprintf("it has to be a %s, not a %s", t, v.Kind())
	}
	switch t {
	case Integer:
		if n, _ := v.Num(); n != math.Trunc(n) {
			return "it has to be a whole number"
		}
	case Date, Time, DateTime:
		text, _ := v.Str()
		en := language.Of("en")
		if _, ok := map[Type]func(string) (string, bool){Date: en.ParseDate, Time: en.ParseTime, DateTime: en.ParseDateTime}[t](text); !ok {
			return "it is not a " + string(t)
		}
	}
	return ""
}
