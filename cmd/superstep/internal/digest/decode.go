package digest

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

func isUTF16(b []byte) bool {
	return bytes.HasPrefix(b, []byte{0xff, 0xfe}) || bytes.HasPrefix(b, []byte{0xfe, 0xff})
}

// decode returns the text of a file as UTF-8 with "\n" line ends, and the name
// of its encoding. It knows UTF-8 and, by its byte order mark, UTF-16. Bytes
// that are not UTF-8 are taken as Windows-1252, of which ISO 8859-1 text is a
// part, following the WHATWG Encoding Standard, section 9 ("windows-1252").
func decode(data []byte) (text, encoding string) {
	switch {
	case isUTF16(data):
		text, encoding = decodeUTF16(data), "UTF-16"
	case utf8.Valid(data):
		text, encoding = strings.TrimPrefix(string(data), "\uFEFF"), "UTF-8"
	default:
		text, encoding = decode1252(data), "Windows-1252"
	}
	if strings.Contains(text, "\r") {
		text = strings.ReplaceAll(text, "\r\n", "\n")
		text = strings.ReplaceAll(text, "\r", "\n")
	}
	return text, encoding
}

func decodeUTF16(data []byte) string {
	big := data[0] == 0xfe
	data = data[2:]
	units := make([]uint16, len(data)/2)
	for i := range units {
		a, b := uint16(data[2*i]), uint16(data[2*i+1])
		if big {
			units[i] = a<<8 | b
		} else {
			units[i] = b<<8 | a
		}
	}
	return string(utf16.Decode(units))
}

// high1252 are the characters 0x80 to 0x9f of Windows-1252.
var high1252 = []rune("€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ")

func decode1252(data []byte) string {
	var b strings.Builder
	b.Grow(len(data) + len(data)/8)
	for _, c := range data {
		switch {
		case c >= 0x80 && c <= 0x9f:
			b.WriteRune(high1252[c-0x80])
		default:
			b.WriteRune(rune(c))
		}
	}
	return b.String()
}

// clean makes one line of text that can be shown: runs of white space become a
// space, and control and invisible formatting characters vanish, except the
// joiners that scripts and emoji need.
func clean(s string) string {
	var b strings.Builder
	space := false
	for _, r := range s {
		switch {
		case isSpace(r):
			space = b.Len() > 0
			continue
		case hidden(r) || r == utf8.RuneError:
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

// cut shortens s to at most n runes, at a space if one is near, and marks it.
func cut(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	runes := []rune(s)[:n-1]
	for i := len(runes) - 1; i > len(runes)*2/3; i-- {
		if runes[i] == ' ' {
			runes = runes[:i]
			break
		}
	}
	return strings.TrimRight(string(runes), " ,;:–—-") + "…"
}
