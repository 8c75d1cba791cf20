// Package language provides what a dialogue has to know of a language: its signs of
// numbers, its words for yes and no, its plural forms and its short forms of dates.
// Everything here is a table and a pure function; relative words like "tomorrow" are
// left to a model.
package language

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/currency"
	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"

	"github.com/superstep-dev/superstep/dialogue/expr"
)

// Language is one language, by its tag.
type Language struct {
	tag   language.Tag
	table *table
}

type table struct {
	decimal, group string
	yes, no        []string // the first is what a reply says
	date           string   // short form, in the layout of package time
}

var tables = map[string]*table{
	"en": {".", ",", words("yes, y, yeah, yep, yup, sure, ok, okay, correct, right, of course, yes please, please do, go ahead, that's right, true"), words("no, n, nope, nah, no thanks, no thank you, don't, do not, wrong, false"), "2006-01-02"},
	"de": {",", ".", words("ja, j, jawohl, klar, gerne, genau, richtig, ok, okay, stimmt, ja bitte, natürlich"), words("nein, n, nö, nee, falsch, nein danke, lieber nicht"), "02.01.2006"},
	"es": {",", ".", words("sí, si, s, claro, vale, correcto, de acuerdo, por supuesto, ok"), words("no, n, no gracias, incorrecto"), "02/01/2006"},
	"fr": {",", " ", words("oui, o, d'accord, bien sûr, exact, ok, ouais"), words("non, n, non merci, pas du tout"), "02/01/2006"},
	"it": {",", ".", words("sì, si, s, certo, va bene, esatto, d'accordo, ok"), words("no, n, no grazie, sbagliato"), "02/01/2006"},
	"pt": {",", ".", words("sim, s, claro, certo, correto, ok, está bem"), words("não, nao, n, não obrigado, errado"), "02/01/2006"},
	"nl": {",", ".", words("ja, j, jazeker, klopt, graag, oké, ok, prima"), words("nee, n, neen, nee bedankt"), "02-01-2006"},
	"sv": {",", " ", words("ja, j, japp, visst, okej, ok, stämmer"), words("nej, n, nej tack"), "2006-01-02"},
	"pl": {",", " ", words("tak, t, jasne, oczywiście, zgadza się, ok"), words("nie, n, nie dziękuję"), "02.01.2006"},
}

func words(list string) []string { return strings.Split(list, ", ") }

// Valid says whether tag is a BCP-47 tag.
func Valid(tag string) bool {
	_, err := language.Parse(tag)
	return err == nil
}

// Of returns the language of a BCP-47 tag. One whose tables are not here has those of
// English, with its own plural forms.
func Of(tag string) Language {
	t, err := language.Parse(tag)
	if err != nil {
		t = language.English
	}
	base, _ := t.Base()
	tbl, ok := tables[base.String()]
	if !ok {
		tbl = tables["en"]
	}
	return Language{tag: t, table: tbl}
}

// Fold returns a text as it is compared with words and options: without case, accents,
// outer punctuation and repeated blanks.
func Fold(s string) string {
	s = strings.TrimFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsPunct(r)
	})
	var b strings.Builder
	for _, r := range norm.NFKD.String(strings.ToLower(s)) {
		if !unicode.Is(unicode.Mn, r) {
			b.WriteRune(r)
		}
	}
	folded := strings.ReplaceAll(b.String(), "ß", "ss")
	return strings.Join(strings.Fields(folded), " ")
}

// ParseBool reads a word for yes or no.
func (l Language) ParseBool(text string) (value, ok bool) {
	f := Fold(text)
	for i, list := range [][]string{l.table.yes, l.table.no} {
		for _, w := range list {
			if Fold(w) == f {
				return i == 0, true
			}
		}
	}
	return false, false
}

// FormatBool returns the language's yes or no.
func (l Language) FormatBool(b bool) string {
	if b {
		return l.table.yes[0]
	}
	return l.table.no[0]
}

// ParseNumber reads a number with the language's signs, or plainly written (1500.00).
// A currency's sign or code before or after it is dropped.
func (l Language) ParseNumber(text string) (float64, bool) {
	s := strings.Map(func(r rune) rune {
		switch r {
		case '\u00a0', '\u202f', '\u2009', '\t':
			return ' '
		case '\u2212':
			return '-'
		}
		return r
	}, strings.TrimSpace(text))
	s = trimCurrency(s)
	sign := 1.0
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		sign, s = -1, trimCurrency(strings.TrimSpace(rest))
	} else {
		s = strings.TrimPrefix(s, "+")
	}
	plain, ok := l.plain(s)
	if !ok {
		plain = s
	}
	if !isPlain(plain) || len(plain) > 40 {
		return 0, false
	}
	n, err := strconv.ParseFloat(plain, 64)
	return sign * n, err == nil
}

// plain rewrites a number that is written with the language's signs.
func (l Language) plain(s string) (string, bool) {
	whole, fraction, hasFraction := strings.Cut(s, l.table.decimal)
	if hasFraction && !allDigits(fraction) {
		return "", false
	}
	groups := strings.Split(whole, l.table.group)
	for i, g := range groups {
		if !allDigits(g) || i > 0 && len(g) != 3 || len(groups) > 1 && i == 0 && len(g) > 3 {
			return "", false
		}
	}
	out := strings.Join(groups, "")
	if hasFraction {
		out += "." + fraction
	}
	return out, true
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func isPlain(s string) bool {
	whole, fraction, has := strings.Cut(s, ".")
	return allDigits(whole) && (!has || allDigits(fraction))
}

func trimCurrency(s string) string {
	s = strings.TrimFunc(s, func(r rune) bool { return unicode.Is(unicode.Sc, r) || r == ' ' })
	for _, cut := range []func() (code, rest string){
		func() (string, string) {
			if len(s) < 4 {
				return "", ""
			}
			return s[:3], s[3:]
		},
		func() (string, string) {
			if len(s) < 4 {
				return "", ""
			}
			return s[len(s)-3:], s[:len(s)-3]
		},
	} {
		if code, rest := cut(); code != "" && letters(code) {
			if _, err := currency.ParseISO(strings.ToUpper(code)); err == nil {
				return strings.TrimSpace(rest)
			}
		}
	}
	return s
}

func letters(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

// FormatNumber returns n with the language's signs and groups of thousands.
func (l Language) FormatNumber(n float64) string {
	whole, fraction, has := strings.Cut(expr.FormatNumber(math.Abs(n)), ".")
	var b strings.Builder
	if n < 0 {
		b.WriteByte('-')
	}
	for i := range len(whole) {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteString(l.table.group)
		}
		b.WriteByte(whole[i])
	}
	if has {
		b.WriteString(l.table.decimal + fraction)
	}
	return b.String()
}

// FormatMoney returns n with two decimals and the language's decimal sign, without
// groups.
func (l Language) FormatMoney(n float64) string {
	s := strconv.FormatFloat(expr.Round(n, 2), 'f', 2, 64)
	if s == "-0.00" {
		s = "0.00"
	}
	return strings.Replace(s, ".", l.table.decimal, 1)
}

// timeLayouts are the ISO forms of a time and of a date with a time.
var (
	timeLayouts     = []string{"15:04", "15:04:05", "15.04"}
	dateTimeLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"}
)

// ParseDate reads an ISO date or the language's short form and returns it as ISO.
func (l Language) ParseDate(text string) (string, bool) {
	text = strings.TrimSpace(text)
	layouts := []string{time.DateOnly, l.table.date}
	short := strings.NewReplacer("02", "2", "01", "1").Replace(l.table.date)
	for _, layout := range append(layouts, short) {
		if t, err := time.Parse(layout, text); err == nil {
			return t.Format(time.DateOnly), true
		}
	}
	return "", false
}

// ParseTime reads a time of day and returns it as ISO.
func (l Language) ParseTime(text string) (string, bool) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, strings.TrimSpace(text)); err == nil {
			if t.Second() != 0 {
				return t.Format("15:04:05"), true
			}
			return t.Format("15:04"), true
		}
	}
	return "", false
}

// ParseDateTime reads a date with a time and returns it as ISO.
func (l Language) ParseDateTime(text string) (string, bool) {
	text = strings.TrimSpace(text)
	for _, layout := range append([]string{l.table.date + " 15:04", l.table.date + " 15:04:05"}, dateTimeLayouts...) {
		if t, err := time.Parse(layout, text); err == nil {
			if layout == time.RFC3339 {
				return text, true
			}
			return t.Format("2006-01-02T15:04:05"), true
		}
	}
	return "", false
}

// FormatDate returns the language's short form of an ISO date or time, and the text
// itself if it is neither.
func (l Language) FormatDate(iso string) string { return l.format(iso, l.table.date) }

// FormatTime returns the time of day of an ISO time.
func (l Language) FormatTime(iso string) string {
	if _, err := time.Parse("15:04", iso); err == nil {
		return iso
	}
	return l.format(iso, "15:04")
}

// FormatDateTime returns the language's short form of an ISO date with a time.
func (l Language) FormatDateTime(iso string) string { return l.format(iso, l.table.date+" 15:04") }

func (l Language) format(iso, layout string) string {
	for _, from := range append([]string{time.DateOnly, "15:04:05"}, dateTimeLayouts...) {
		if t, err := time.Parse(from, iso); err == nil {
			return t.Format(layout)
		}
	}
	return iso
}

// Plural returns the language's plural form of n: zero, one, two, few, many or other.
func (l Language) Plural(n float64) string {
	s := expr.FormatNumber(math.Abs(n))
	whole, fraction, _ := strings.Cut(s, ".")
	if len(whole) > 7 { // only the last digits decide
		whole = "1" + whole[len(whole)-6:]
	}
	if len(fraction) > 7 {
		fraction = fraction[:7]
	}
	i, _ := strconv.Atoi(whole)
	f, _ := strconv.Atoi(fraction)
	t, _ := strconv.Atoi(strings.TrimRight(fraction, "0"))
	switch plural.Cardinal.MatchPlural(l.tag, i, len(fraction), len(strings.TrimRight(fraction, "0")), f, t) {
	case plural.Zero:
		return "zero"
	case plural.One:
		return "one"
	case plural.Two:
		return "two"
	case plural.Few:
		return "few"
	case plural.Many:
		return "many"
	}
	return "other"
}
