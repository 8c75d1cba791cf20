// Package jsonscan finds where the parts of JSON begin and end, without looking at what is
// in them: whoever decodes those finds out whether they are JSON.
package jsonscan

import (
	"bytes"
	"encoding/json"
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
		if i = skip(b, from); i < 0 || b[from] != '"' {
			return false
		}
		key := b[from+1 : i-1]
		if !simple(key) {
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
		if i = skip(b, from); i < 0 || !f(key, b[from:i]) {
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
		if i = skip(b, from); i < 0 || !f(b[from:i]) {
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
	if simple(value[1:end]) {
		return string(value[1:end]), true
	}
	return s, json.Unmarshal(value, &s) == nil
}

// simple reports whether what is between quotes is a string that reads as it stands there.
func simple(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skip returns where the value ends that begins at i, if there is one; else it
// returns -1 or something that is no JSON ends there.
func skip(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			if i = endOfString(b, i+1); i < 0 {
				return -1
			}
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth < 0 {
				return -1
			}
		case depth == 0: // a number or a word
			from := i
			for i < len(b) && (b[i] == '-' || b[i] == '+' || b[i] == '.' || b[i]-'0' <= 9 || b[i]|0x20-'a' <= 25) {
				i++
			}
			if i == from {
				return -1
			}
			return i
		}
		if depth == 0 {
			return i + 1
		}
	}
	return -1
}

// endOfString returns where the quote stands that ends the string that i is in,
// -1 if there is none.
func endOfString(b []byte, i int) int {
	for {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		end := i + n
		slashes := end
		for slashes > i && b[slashes-1] == '\\' {
			slashes--
		}
		if (end-slashes)%2 == 0 {
			return end
		}
		i = end + 1
	}
}
