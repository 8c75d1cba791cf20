package nlg

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/language"

	"github.com/superstep-dev/superstep/internal/lazyregexp"
)

// Keeps says what is missing in, or was added to, a text that is worded anew; "" if nothing
// is. The values are the texts that were put into the original, in their order. It compares:
//
//   - the values, each whole and in the same order, with the same words before it if
//     they are ones like "from", "to" or "not", and the same sign
//   - all other numbers, sign by sign and in the same order, and number words
//   - links, addresses of mail, signs of currencies, and signs of markup
//   - names: words in capitals or with digits, and, outside of German, words that begin
//     with a capital inside of a sentence
//   - days, months and words like "tomorrow"
//   - negations, and words like "only", "until" or "more"
//   - whether it asks
//   - what it is about: half of the words that carry the meaning are still there
//   - the language, and the length, which may grow by a half, or 60 characters
//
// What the text means it can't know; where it isn't sure, it refuses. Texts can be compared
// in German, English, Spanish, French, Italian, Dutch and Portuguese; in other languages
// every change is refused.
func Keeps(original, worded string, values []string, tag string) string {
	if worded == original {
		return ""
	}
	t, err := language.Parse(tag)
	if err != nil {
		return fmt.Sprintf("the language %q is not known", tag)
	}
	base, _ := t.Base()
	words, ok := languages[base.String()]
	switch n := len([]rune(original)); {
	case !ok:
		return fmt.Sprintf("texts in the language %q can't be compared", tag)
	case strings.TrimSpace(worded) == "":
		return "it is empty"
	case len([]rune(worded)) > max(n+n/2, n+60):
		return "it is much longer"
	}
	a, okA := cut(original, values, false)
	b, okB := cut(worded, values, true)
	switch {
	case !okA:
		return "the values are not those of the text"
	case !okB:
		return "a value is missing or stands elsewhere"
	}
	for i := range values {
		if role(a[i], words) != role(b[i], words) {
			return "there is another word before a value"
		}
	}
	// The values are the same; what is left is compared without them.
	restA, restB := strings.Join(a, blank), strings.Join(b, blank)
	for _, c := range []struct {
		what string
		find func(string) []string
	}{
		{"a link or an address", func(s string) []string { return sorted(links().FindAllString(s, -1)) }},
		{"a number", func(s string) []string { return numbers().FindAllString(links().ReplaceAllString(s, " "), -1) }},
		{"a number word", words.numbers.in},
		{"a sign", signs},
		{"a name", acronyms},
		{"a day or a month", words.dates.in},
		{"a negation", words.negations},
		{"a word that limits what is said", func(s string) []string { return sorted(words.limits.in(s)) }},
	} {
		if !slices.Equal(c.find(restA), c.find(restB)) {
			return c.what + " is missing, changed or new"
		}
	}
	if !words.capitals {
		was, is := names(restA, false), names(restB, false)
		anywhereA, anywhereB := names(restA, true), names(restB, true)
		for n := range was {
			if !anywhereB[n] {
				return "a name is missing"
			}
		}
		for n := range is {
			if !anywhereA[n] {
				return "a name is new"
			}
		}
	}
	if strings.ContainsAny(original, "?¿") != strings.ContainsAny(worded, "?¿") {
		return "a question is missing or new"
	}
	if !about(restA, restB, words) {
		return "it is about something else"
	}
	if !speaks(base.String(), restA, restB) || scripts(restA) != scripts(restB) {
		return "it is in another language"
	}
	return ""
}

// blank stands where a value stood. No text of a program has it.
const blank = " \uFFFC "

// cut returns the texts around the values, which stand in their order. Whole values are not
// part of a longer word or number.
func cut(text string, values []string, whole bool) ([]string, bool) {
	var parts []string
	for _, v := range values {
		if v == "" {
			parts = append(parts, "")
			continue
		}
		i := index(text, v, whole)
		if i < 0 {
			return nil, false
		}
		parts = append(parts, text[:i])
		text = text[i+len(v):]
	}
	return append(parts, text), true
}

func index(text, v string, whole bool) int {
	for from := 0; ; {
		i := strings.Index(text[from:], v)
		if i < 0 {
			return -1
		}
		i += from
		if !whole || bounded(text, i, i+len(v)) {
			return i
		}
		from = i + 1
	}
}

// bounded says whether what stands between two places is no part of a longer word or
// number.
func bounded(text string, from, to int) bool {
	before, after := []rune(text[:from]), []rune(text[to:])
	inner := []rune(text[from:to])
	solid := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	if n := len(before); n > 0 && solid(inner[0]) {
		if solid(before[n-1]) || n > 1 && strings.ContainsRune(".,:'/", before[n-1]) && unicode.IsDigit(before[n-2]) && unicode.IsDigit(inner[0]) {
			return false
		}
	}
	if last := inner[len(inner)-1]; len(after) > 0 && solid(last) {
		if solid(after[0]) || len(after) > 1 && strings.ContainsRune(".,:'/", after[0]) && unicode.IsDigit(after[1]) && unicode.IsDigit(last) {
			return false
		}
	}
	return true
}

// role returns what says which part a value plays: a sign right before it, or the words
// before it that do, the last first.
func role(before string, w *words) string {
	if t := strings.TrimRight(before, " \u00a0"); strings.HasSuffix(t, "-") || strings.HasSuffix(t, "−") || strings.HasSuffix(t, "+") {
		return t[strings.LastIndexAny(t, "-−+"):]
	}
	var found []string
	for _, x := range slices.Backward(split(before)) {
		if x = strings.ToLower(x); !w.roles[x] && !w.limits[x] && !w.not[x] {
			break
		}
		found = append(found, x)
	}
	return strings.Join(found, " ")
}

var (
	links   = lazyregexp.New(`(?i)(?:https?://|www\.)[^\s]*[^\s.,;:!?)\]]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\b[a-z0-9-]+\.(?:com|org|net|de|eu|io|info|biz|co)\b(?:/[^\s]*[^\s.,;:!?)\]])?`)
	numbers = lazyregexp.New(`[-−+]?\d(?:[\d.,:'’/\x{a0}\x{202f}-]*\d)?(?:\s?[%‰°])?`)
	word    = lazyregexp.New(`[\p{L}\p{N}](?:[\p{L}\p{N}\p{Mn}'’-]*[\p{L}\p{N}])?`)
)

func split(text string) []string { return word().FindAllString(text, -1) }

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// signs returns the signs of currencies and of markup, sorted.
func signs(text string) []string {
	var out []string
	for _, r := range links().ReplaceAllString(text, " ") {
		if unicode.Is(unicode.Sc, r) || strings.ContainsRune("*_`#<>[]{}|\\^~=@", r) {
			out = append(out, string(r))
		}
	}
	return sorted(out)
}

// acronyms returns the words that are names by the way they are written: IBAN, eBay, A7.
func acronyms(text string) []string {
	var out []string
	for _, w := range split(links().ReplaceAllString(text, " ")) {
		upper, digits, letters := 0, 0, 0
		inside := false // of a part between hyphens
		for _, r := range w {
			if unicode.IsUpper(r) && inside {
				upper++
			}
			inside = r != '-'
			if unicode.IsDigit(r) {
				digits++
			}
			if unicode.IsLetter(r) {
				letters++
			}
		}
		if upper > 0 || digits > 0 && letters > 0 {
			out = append(out, w)
		}
	}
	return sorted(out)
}

// names returns the words that begin with a capital: inside of sentences, or anywhere.
func names(text string, anywhere bool) map[string]bool {
	out := map[string]bool{}
	for _, at := range word().FindAllStringIndex(text, -1) {
		w := text[at[0]:at[1]]
		if r := []rune(w); !unicode.IsUpper(r[0]) || strings.HasPrefix(w, "I'") || strings.HasPrefix(w, "I’") || w == "I" {
			continue
		}
		before := strings.TrimRight(text[:at[0]], " \t\"'“„‚‘(«»¿¡-–\u00a0")
		begins := before == "" || strings.HasSuffix(before, "\n") || strings.ContainsAny(before[len(before)-1:], ".!?:") || strings.HasSuffix(before, "…")
		if anywhere || !begins {
			out[w] = true
		}
	}
	return out
}

// about says whether half of the words that carry a text's meaning are in another, in some
// form.
func about(was, is string, w *words) bool {
	stem := func(x string) string {
		r := []rune(strings.ToLower(x))
		return string(r[:min(4, len(r))])
	}
	there := map[string]bool{}
	for _, x := range split(is) {
		there[stem(x)] = true
	}
	all, kept := 0, 0
	for _, x := range split(was) {
		if l := strings.ToLower(x); len(l) < 4 || w.small[l] || w.not[l] || w.roles[l] {
			continue
		}
		if all++; there[stem(x)] {
			kept++
		}
	}
	return 2*kept >= all
}

// scripts returns the alphabets of a text's letters, Latin aside.
func scripts(text string) string {
	found := map[string]bool{}
	for _, r := range text {
		if r <= unicode.MaxLatin1 || !unicode.IsLetter(r) || unicode.Is(unicode.Latin, r) {
			continue
		}
		for name, table := range unicode.Scripts {
			if unicode.Is(table, r) {
				found[name] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " ")
}

// speaks says whether a text is as much in a language as the one that it was made of, by the
// small words of each language.
func speaks(tag, was, is string) bool {
	own := len(languages[tag].small.in(is))
	if own == 0 && len(languages[tag].small.in(was)) > 0 {
		return false
	}
	for other, w := range languages {
		if n := len(w.small.in(is)); other != tag && n > own && n > len(w.small.in(was)) {
			return false
		}
	}
	return true
}
