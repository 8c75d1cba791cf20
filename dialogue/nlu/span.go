package nlu

import (
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/language"
)

// span returns the words of a message that a value was read from, "" if none is just that.
// It is worked out from the message, so no model can make it up.
func span(text string, v expr.Value, tag string) string {
	if n, ok := v.Num(); ok {
		l := language.Of(tag)
		for _, word := range strings.FieldsFunc(text, unicode.IsSpace) {
			word = strings.Trim(word, ".,;:!?()\"'")
			if m, ok := l.ParseNumber(word); ok && m == n {
				return word
			}
		}
		return ""
	}
	want, ok := v.Str()
	if want = strings.TrimSpace(want); !ok || want == "" {
		return ""
	}
	if i := strings.Index(text, want); i >= 0 {
		return want
	}
	lower := strings.ToLower(text)
	if i := strings.Index(lower, strings.ToLower(want)); i >= 0 && len(lower) == len(text) {
		return text[i : i+len(strings.ToLower(want))]
	}
	// Without blanks, as formats are stored: DE89 3704 … for DE893704….
	start := -1
	var run strings.Builder
	for i, r := range text {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			continue
		}
		if start < 0 {
			start = i
		}
		run.WriteRune(unicode.ToUpper(r))
		got := run.String()
		upper := strings.ToUpper(want)
		if got == upper {
			return text[start : i+len(string(r))]
		}
		if !strings.HasPrefix(upper, got) {
			run.Reset()
			start = -1
			if strings.HasPrefix(upper, string(unicode.ToUpper(r))) {
				start = i
				run.WriteRune(unicode.ToUpper(r))
			}
		}
	}
	return ""
}
