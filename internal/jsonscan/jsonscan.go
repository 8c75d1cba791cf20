// Package jsonscan does with what is stored, or read from a store, what encoding/json does
// several times as slowly: it says whether it is JSON, and takes it apart.
package jsonscan

import (
	"encoding/binary"
	"encoding/json"
	"unicode/utf8"
)

// Members calls f with the members of an object, until f returns false. It reports whether
// b is an object, as far as it looked, of which f took all members.
func Members(b []byte, f func(key, value []byte) bool) bool {
	i := space(b, 0)
	if i == len(b) || b[i] != '{' {
		return false
	}
	if i = space(b, i+1); i < len(b) && b[i] == '}' {
		return space(b, i+1) == len(b)
	}
	for more := true; more; i++ {
		from := space(b, i)
		if from == len(b) || b[from] != '"' {
			return false
		}
		if i = endOfString(b, from); i < 0 {
			return false
		}
		key := b[from+1 : i-1]
		if !asItStands(b[from:i]) {
			var s string
			if json.Unmarshal(b[from:i], &s) != nil {
				return false
			}
			key = []byte(s)
		}
		if i = space(b, i); i >= len(b) || b[i] != ':' {
			return false
		}
		from = space(b, i+1)
		if i = endOfValue(b, from, 1); i < 0 || !f(key, b[from:i]) {
			return false
		}
		if i = space(b, i); i >= len(b) || b[i] != ',' && b[i] != '}' {
			return false
		}
		more = b[i] == ','
	}
	return space(b, i) == len(b)
}

// Elements calls f with the elements of an array, until f returns false. It reports whether
// b is an array, as far as it looked, of which f took all elements.
func Elements(b []byte, f func(value []byte) bool) bool {
	i := space(b, 0)
	if i == len(b) || b[i] != '[' {
		return false
	}
	if i = space(b, i+1); i < len(b) && b[i] == ']' {
		return space(b, i+1) == len(b)
	}
	for more := true; more; i++ {
		from := space(b, i)
		if i = endOfValue(b, from, 1); i < 0 || !f(b[from:i]) {
			return false
		}
		if i = space(b, i); i >= len(b) || b[i] != ',' && b[i] != ']' {
			return false
		}
		more = b[i] == ','
	}
	return space(b, i) == len(b)
}

// Text returns the string that a value is, if it is one.
func Text(value []byte) (s string, ok bool) {
	end := len(value) - 1
	if end < 1 || value[0] != '"' || value[end] != '"' {
		return "", false
	}
	if plain(value, 1) == end && utf8.Valid(value) {
		return string(value[1:end]), true
	}
	var text string // of its own, so that s needs no memory on the heap
	err := json.Unmarshal(value, &text)
	return text, err == nil
}

// asItStands reports whether a string reads as it stands between its quotes.
func asItStands(quoted []byte) bool { return plain(quoted, 1) == len(quoted)-1 && utf8.Valid(quoted) }

// maxDepth is how deep encoding/json lets values nest.
const maxDepth = 10000

// Valid reports whether b is one JSON value.
func Valid(b []byte) bool {
	i := endOfValue(b, space(b, 0), 0)
	return i >= 0 && space(b, i) == len(b)
}

// endOfValue returns where the value that begins at i ends, -1 if there is none.
func endOfValue(b []byte, i, depth int) int {
	if i >= len(b) {
		return -1
	}
	switch c := b[i]; c {
	case '"':
		return endOfString(b, i)
	case '{', '[':
		if depth == maxDepth {
			return -1
		}
		return endOfItems(b, i, depth+1)
	case 't':
		return word(b, i, "true")
	case 'f':
		return word(b, i, "false")
	case 'n':
		return word(b, i, "null")
	default:
		return endOfNumber(b, i)
	}
}

// endOfItems is endOfValue for an object or an array.
func endOfItems(b []byte, i, depth int) int {
	object := b[i] == '{'
	last := b[i] + 2 // the closing bracket
	if i = space(b, i+1); i < len(b) && b[i] == last {
		return i + 1
	}
	for {
		if object {
			if i >= len(b) || b[i] != '"' {
				return -1
			}
			if i = endOfString(b, i); i < 0 {
				return -1
			}
			if i = space(b, i); i >= len(b) || b[i] != ':' {
				return -1
			}
			i = space(b, i+1)
		}
		if i = endOfValue(b, i, depth); i < 0 {
			return -1
		}
		if i = space(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case last:
			return i + 1
		case ',':
			i = space(b, i+1)
		default:
			return -1
		}
	}
}

// endOfString is endOfValue for a string.
func endOfString(b []byte, i int) int {
	for i++; ; i++ {
		if i = plain(b, i); i >= len(b) {
			return -1
		}
		switch {
		case b[i] == '"':
			return i + 1
		case b[i] < ' ':
			return -1
		}
		// A backslash.
		if i++; i >= len(b) {
			return -1
		}
		switch b[i] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			for range 4 {
				if i++; i >= len(b) || !hexDigit(b[i]) {
					return -1
				}
			}
		default:
			return -1
		}
	}
}

func hexDigit(c byte) bool {
	return c-'0' <= 9 || c|0x20-'a' <= 5
}

// plain returns where, from i on, the first quote, backslash or control
// character stands, else the length of b.
func plain(b []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	// Eight bytes at a time: a byte's top bit of hit is set if it is one of
	// those, or if a byte before it is.
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote, slash := x^ones*'"', x^ones*'\\'
		hit := (x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash
		if hit&tops != 0 {
			break
		}
	}
	for ; i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\'; i++ {
	}
	return i
}

func word(b []byte, i int, w string) int {
	if end := i + len(w); end <= len(b) && string(b[i:end]) == w {
		return end
	}
	return -1
}

// endOfNumber is endOfValue for a number.
func endOfNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	from := i
	if i = decimals(b, i); i < 0 || b[from] == '0' && i > from+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i = decimals(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		i = decimals(b, i)
	}
	return i
}

// decimals returns where the digits end that begin at i, -1 if there is none.
func decimals(b []byte, i int) int {
	from := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}
