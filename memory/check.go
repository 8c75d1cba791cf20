package memory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// CheckNamespace reports what is wrong with the namespace of an item: it has no
// labels, or one that is empty, contains the [Separator] or is no text.
func CheckNamespace(namespace []string) error {
	if len(namespace) == 0 {
		return &InvalidError{Kind: ErrEmptyNamespace}
	}
	return checkLabels(namespace)
}

func checkLabels(labels []string) error {
	size := -1
	for i, l := range labels {
		size += len(l) + 1
		switch {
		case l == "":
			return invalid(ErrLabel, "", "the label at index %d is empty", i)
		case strings.Contains(l, Separator):
			return invalid(ErrLabel, l, "it contains %q, which separates labels", Separator)
		case !plain(l):
			return invalid(ErrLabel, l, "it is no text: it has a zero byte or is not UTF-8")
		}
	}
	if size > MaxNamespace {
		return invalid(ErrLabel, "", "the namespace has %d bytes; the longest has %d", size, MaxNamespace)
	}
	return nil
}

func checkKey(key string) error {
	switch {
	case key == "":
		return invalid(ErrKey, "", "it is empty")
	case len(key) > MaxKey:
		return invalid(ErrKey, "", "it has %d bytes; the longest has %d", len(key), MaxKey)
	case !plain(key):
		return invalid(ErrKey, key, "it is no text: it has a zero byte or is not UTF-8")
	}
	return nil
}

// plain reports whether every back end can hold a text.
func plain(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// checkValue returns a JSON object without white space. All back ends take the
// same values: what one of the databases can't hold is refused by all.
func checkValue(value json.RawMessage) (json.RawMessage, error) {
	var b bytes.Buffer
	b.Grow(len(value))
	if err := json.Compact(&b, value); err != nil {
		return nil, invalid(ErrValue, "", "it is not JSON: %v", err)
	}
	out := b.Bytes()
	if out[0] != '{' {
		return nil, invalid(ErrValue, "", "it is %s; a value is a JSON object", kindOf(out))
	}
	if why := holdable(out); why != "" {
		return nil, invalid(ErrValue, "", "%s", why)
	}
	return out, nil
}

// Limits of a number, in characters. Databases may write out the exponent, and
// what they return must be within the limits too.
const (
	maxNumber   = 1000
	maxMantissa = 400 // if there is an exponent
)

// holdable returns why some back end can't hold a JSON text, or "".
func holdable(b []byte) string {
	if !utf8.Valid(b) {
		return "it is not UTF-8"
	}
	inString, depth := false, 0
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case !inString && (c == '-' || '0' <= c && c <= '9'):
			end := i + 1
			for end < len(b) && strings.IndexByte("+-.eE0123456789", b[end]) >= 0 {
				end++
			}
			if !inRange(string(b[i:end])) {
				return "the number " + strings.ToValidUTF8(string(b[i:min(end, i+40)]), "") + " is out of the range of a float64 or has too many digits"
			}
			i = end - 1
		case c == '"':
			inString = !inString
		case !inString && (c == '{' || c == '['):
			if depth++; depth > MaxDepth {
				return fmt.Sprintf("it is deeper than %d objects and arrays in one another", MaxDepth)
			}
		case !inString && (c == '}' || c == ']'):
			depth--
		case c == '\\':
			i++
			if b[i] != 'u' {
				continue
			}
			switch r := hex4(b[i+1:]); {
			case r == 0:
				return `a text in it has the character \u0000`
			case 0xd800 <= r && r < 0xdc00 && i+10 < len(b) && b[i+5] == '\\' && b[i+6] == 'u' && hex4(b[i+7:])>>10 == 0xdc00>>10:
				i += 10
			case 0xd800 <= r && r < 0xe000:
				return "a text in it has half a surrogate pair"
			default:
				i += 4
			}
		}
	}
	return ""
}

func hex4(b []byte) uint64 {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 16) // the JSON is valid
	return n
}

// inRange reports whether a number of JSON fits a float64, whatever its digits.
func inRange(s string) bool {
	if len(s) > maxNumber {
		return false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return false
	}
	mantissa, _, exponent := strings.Cut(strings.ToLower(s), "e")
	if exponent && len(mantissa) > maxMantissa {
		return false
	}
	return f != 0 || !strings.ContainsAny(mantissa, "123456789")
}

// trim removes what JSON takes for space.
func trim(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }

func kindOf(b []byte) string {
	switch b[0] {
	case '[':
		return "an array"
	case '"':
		return "a text"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	case '{':
		return "an object"
	}
	return "a number"
}

// one returns the one element of options that were given, or zero ones.
func one[O any](opts []O) (o O, err error) {
	switch len(opts) {
	case 0:
		return o, nil
	case 1:
		return opts[0], nil
	}
	return o, invalid(ErrOption, "", "%d of them; at most one is taken", len(opts))
}

func (r Refresh) check() error {
	if r < RefreshDefault || r > RefreshNever {
		return invalid(ErrOption, "Refresh", "%d is none of RefreshDefault, RefreshAlways and RefreshNever", r)
	}
	return nil
}

func checkPage(limit, offset int) error {
	if limit < Unlimited {
		return invalid(ErrOption, "Limit", "it is %d", limit)
	}
	if offset < 0 {
		return invalid(ErrOption, "Offset", "it is %d", offset)
	}
	return nil
}

// page returns the part of a list that a query asks for.
func page[T any](list []T, limit, offset int) []T {
	list = list[min(offset, len(list)):]
	if limit >= 0 && limit < len(list) {
		list = list[:limit]
	}
	return slices.Clip(list)
}
