package draw

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// sansWidths are the advances of the printable ASCII characters in thousandths
// of the font size. They are Helvetica's, which Arial, Liberation Sans and Go
// Regular share.
var sansWidths = [...]uint16{
	278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 584, 584, 316, 584, 316, 278,
	556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 306, 306, 584, 584, 584, 556,
	1015, 667, 667, 722, 722, 667, 611, 778, 722, 399, 496, 667, 556, 833, 722, 778,
	667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
	333, 556, 556, 500, 556, 556, 278, 556, 556, 247, 253, 500, 268, 833, 556, 556,
	556, 556, 333, 500, 283, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
}

// textWidth estimates the width of a line in a sans-serif font. It errs on the
// wide side for what the table doesn't know.
func textWidth(s string, size float64) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case ' ' <= r && r <= '~':
			w += float64(sansWidths[r-' ']) / 1000
		default:
			switch cellWidth(r) {
			case 1:
				w += 0.64
			case 2:
				w += 1
			}
		}
	}
	return w * size
}

// cellWidth is the number of terminal columns that a character takes.
func cellWidth(r rune) int {
	switch {
	case r == 0x200d || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r) || 0xfe00 <= r && r <= 0xfe0f:
		return 0
	case r < 0x1100:
		return 1
	case r <= 0x115f, // Hangul initials
		0x2e80 <= r && r <= 0x303e, 0x3041 <= r && r <= 0xa4cf, // CJK
		0xac00 <= r && r <= 0xd7a3,                             // Hangul
		0xf900 <= r && r <= 0xfaff, 0xfe30 <= r && r <= 0xfe6f, // compatibility forms
		0xff00 <= r && r <= 0xff60, 0xffe0 <= r && r <= 0xffe6, // full width
		0x1f300 <= r && r <= 0x1f64f, 0x1f680 <= r && r <= 0x1f6ff, 0x1f900 <= r && r <= 0x1f9ff, // pictures
		0x20000 <= r && r <= 0x3fffd:
		return 2
	}
	return 1
}

func cells(s string) float64 {
	n := 0
	for _, r := range s {
		n += cellWidth(r)
	}
	return float64(n)
}

// printable replaces what no drawing can show: control characters, marks that
// turn the direction of writing, and invalid UTF-8. Newlines stay.
func printable(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\u2028' || r == '\u2029' || r == '\r':
			return '\n'
		case r == '\t' || r == '\u00a0':
			return ' '
		case unicode.IsControl(r), 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069, r == 0xfffe, r == 0xffff:
			return utf8.RuneError
		}
		return r
	}, s)
}

// wrap breaks a text into at most maxLines lines of at most maxWidth, at
// spaces, after punctuation, before capitals in the middle of a word or, when
// nothing else helps, anywhere. What doesn't fit ends in an ellipsis.
func wrap(s string, maxWidth float64, maxLines int, measure func(string) float64) []string {
	var lines []string
	for para := range strings.SplitSeq(printable(s), "\n") {
		rest := strings.TrimSpace(para)
		for rest != "" {
			if measure(rest) <= maxWidth {
				lines = append(lines, rest)
				break
			}
			cut := breakAt(rest, maxWidth, measure)
			lines = append(lines, strings.TrimSpace(rest[:cut]))
			rest = strings.TrimSpace(rest[cut:])
			if len(lines) > maxLines {
				break
			}
		}
		if len(lines) > maxLines {
			break
		}
	}
	if len(lines) > maxLines {
		last := lines[maxLines-1]
		for last != "" && measure(last+"…") > maxWidth {
			_, n := utf8.DecodeLastRuneInString(last)
			last = last[:len(last)-n]
		}
		lines = append(lines[:maxLines-1], strings.TrimSpace(last)+"…")
	}
	if len(lines) == 0 {
		lines = []string{""}
	}
	return lines
}

// breakAt is the byte offset of the best break in s within maxWidth, at least
// one character in.
func breakAt(s string, maxWidth float64, measure func(string) float64) int {
	best, hard := 0, 0
	prev := rune(0)
	for i, r := range s {
		if i > 0 {
			if measure(s[:i]) > maxWidth {
				break
			}
			hard = i
			switch {
			case r == ' ', strings.ContainsRune(" _-./:,;|", prev),
				unicode.IsUpper(r) && unicode.IsLower(prev), cellWidth(r) == 2 || cellWidth(prev) == 2:
				best = i
			}
		}
		prev = r
	}
	switch {
	case best > 0 && measure(s[:best]) >= maxWidth/3:
		return best
	case hard > 0:
		return hard
	}
	_, n := utf8.DecodeRuneInString(s)
	return n
}
