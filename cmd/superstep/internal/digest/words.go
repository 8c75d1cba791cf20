package digest

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Reading speeds.
const (
	// ReadingWordsPerMinute is the average rate of silent reading of English
	// non-fiction by adults: M. Brysbaert, "How many words do we read per
	// minute? A review and meta-analysis of reading rate", Journal of Memory
	// and Language 109 (2019), 104047. Most adults fall between 175 and 300.
	ReadingWordsPerMinute = 238
	// ReadingCharactersPerMinute is the rate for scripts that do not separate
	// words, of which each character counts as a word here. It is the rate for
	// Chinese read aloud, so it is on the slow side: S. Trauzettel-Klosinski
	// and K. Dietz, "Standardized Assessment of Reading Performance: The New
	// International Reading Speed Texts IReST", Investigative Ophthalmology &
	// Visual Science 53 (2012), 5452-5461, table 2.
	ReadingCharactersPerMinute = 255
)

// readingSeconds returns the time to read so many words and characters, rounded
// up, so that it is zero only for no text.
func readingSeconds(words, characters int) int {
	const num = 60
	a := words * num * ReadingCharactersPerMinute
	b := characters * num * ReadingWordsPerMinute
	const den = ReadingWordsPerMinute * ReadingCharactersPerMinute
	return (a + b + den - 1) / den
}

// ideographic reports whether r is of a script that is written without spaces
// and whose characters are taken one by one.
func ideographic(r rune) bool {
	if r < 0x2e80 {
		return false
	}
	return scriptOf(r) != nil
}

// scriptOf returns the table of an ideographic character's script, or nil.
func scriptOf(r rune) *unicode.RangeTable {
	switch {
	case unicode.Is(unicode.Han, r):
		return unicode.Han
	case unicode.Is(unicode.Hiragana, r):
		return unicode.Hiragana
	case unicode.Is(unicode.Katakana, r), r == 'ー': // the long vowel mark, which Unicode counts as common
		return unicode.Katakana
	}
	return nil
}

func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
}

// startsWord reports whether a word can start with r. A mark alone is no word.
func startsWord(r rune) bool { return isWord(r) && !unicode.IsMark(r) }

func isSpace(r rune) bool {
	if r < utf8.RuneSelf {
		return r == ' ' || r >= '\t' && r <= '\r'
	}
	return unicode.IsSpace(r)
}

// hidden reports whether r is a control or an invisible formatting character
// that has no place in a line of text, such as one that turns the direction of
// what follows.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u200d' && r != '\u200c' || r == '\u2028' || r == '\u2029'
}

// joins reports whether r between two word characters is part of the word. It
// is the gist of the rules WB6, WB7, WB11, WB12, WB13a and WB13b of Unicode
// Standard Annex 29, "Unicode Text Segmentation": don't, l'eau, 3.14, max_files.
// Hyphens separate words, as there.
func joins(before, r, after rune) bool {
	switch r {
	case '\'', '’', '·':
		return unicode.IsLetter(before) && unicode.IsLetter(after)
	case '_':
		return true
	case '.', ',':
		return isDigit(before) && isDigit(after)
	}
	// Soft hyphens, joiners and other formatting (rule WB4).
	return r >= utf8.RuneSelf && unicode.Is(unicode.Cf, r)
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

// words calls yield for each word of text, in lower case, and where it is in
// text. Each ideographic
// character is a word. Thai, Lao, Khmer and Burmese, which would need a
// dictionary, give one word for each run of letters.
func words(text string, yield func(word string, at int, ideograph bool)) {
	start := -1 // of the current word
	var last rune
	flush := func(end int) {
		if start >= 0 {
			yield(strings.ToLower(text[start:end]), start, false)
			start = -1
		}
	}
	for i := 0; i < len(text); {
		r, n := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(text[i:])
		}
		switch {
		case ideographic(r) && unicode.IsLetter(r):
			flush(i)
			yield(text[i:i+n], i, true)
		case isWord(r):
			if start < 0 {
				if !startsWord(r) {
					break
				}
				start = i
			}
		case start >= 0:
			next, _ := utf8.DecodeRuneInString(text[i+n:])
			if !isWord(next) || ideographic(next) || !joins(last, r, next) {
				flush(i)
			}
		}
		last = r
		i += n
	}
	flush(len(text))
}

// baseTerm prepares a word to be a term: without a possessive 's, with straight
// apostrophes and without soft hyphens and the like. It is empty for what is no term: numbers,
// single letters and words that are too long.
func baseTerm(word string) string {
	if len(word) > maxTerm {
		return ""
	}
	letter, plain, runes := false, true, 0
	for _, r := range word {
		runes++
		if r >= utf8.RuneSelf {
			plain = plain && r != '’' && !unicode.Is(unicode.Cf, r)
			letter = letter || unicode.IsLetter(r)
			continue
		}
		letter = letter || r >= 'a' && r <= 'z'
	}
	if !letter || runes < 2 {
		return ""
	}
	if !plain {
		word = strings.Map(func(r rune) rune {
			switch {
			case r == '’':
				return '\''
			case unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d': // these change letters
				return -1
			}
			return r
		}, word)
	}
	word = strings.TrimSuffix(word, "'s")
	if utf8.RuneCountInString(word) < 2 {
		return ""
	}
	return word
}

// singulars returns the words of which word may be the plural, in the order of
// preference. The rules are those of the S stemmer of D. Harman, "How effective
// is suffixing?", Journal of the American Society for Information Science 42
// (1991), 7-15, but a caller only takes a candidate that occurs as a word, so
// that no stems are shown that are not words.
func singulars(word string) []string {
	n := len(word)
	if n < 5 || word[n-1] != 's' {
		return nil
	}
	switch {
	case strings.HasSuffix(word, "ss"), strings.HasSuffix(word, "us"), strings.HasSuffix(word, "is"), strings.HasSuffix(word, "'s"):
		return nil
	case strings.HasSuffix(word, "ies"):
		return []string{word[:n-3] + "y", word[:n-1]}
	case strings.HasSuffix(word, "es"):
		return []string{word[:n-1], word[:n-2]}
	}
	return []string{word[:n-1]}
}

// fold returns the term that word counts as among the words for which known
// holds: its singular, if that is one of them, else word itself.
func fold(word string, known func(string) bool) string {
	for _, s := range singulars(word) {
		if known(s) {
			return s
		}
	}
	return word
}

// abbreviations do not end a sentence even before a capital letter.
var abbreviations = set(`mr mrs ms dr prof st vs fig no nr vol approx ca cf e.g i.e eg ie etc al jr sr inc ltd bzw z.b d.h p.ex art sec ch pp`)

func set(list string) map[string]bool {
	out := make(map[string]bool)
	for w := range strings.FieldsSeq(list) {
		out[w] = true
	}
	return out
}

// sentenceEnd returns the length of the first sentence of text, with its
// closing marks but without the space behind it, or len(text) if no other
// sentence follows. A full stop ends a sentence if it is followed by white
// space and not by a lower case letter, as in rule SB8 of Unicode Standard
// Annex 29, and the word before it is neither an abbreviation nor a single letter.
func sentenceEnd(text string) int {
	wordStart := 0
	for i := 0; i < len(text); {
		r, n := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(text[i:])
		}
		at := i
		i += n
		switch r {
		case '。', '！', '？', '｡':
			return skipClosing(text, i)
		case '.', '!', '?', '…', '؟', '।', '۔':
		default:
			if isSpace(r) {
				wordStart = i
			}
			continue
		}
		end := skipClosing(text, i)
		for end < len(text) && strings.IndexByte(".!?", text[end]) >= 0 {
			end = skipClosing(text, end+1)
		}
		next, size := utf8.DecodeRuneInString(text[end:])
		if size > 0 && !isSpace(next) {
			i = max(i, end)
			continue
		}
		rest := strings.TrimLeftFunc(text[end:], isSpace)
		first, size := utf8.DecodeRuneInString(strings.TrimLeft(rest, "\"'“‘«([*_"))
		if size > 0 && r == '.' {
			before := strings.ToLower(strings.TrimLeft(text[wordStart:at], "(\"'“‘["))
			initial := utf8.RuneCountInString(before) == 1 && unicode.IsLetter(firstRune(before)) && before != "i"
			if unicode.IsLower(first) || abbreviations[before] || initial {
				i = end
				continue
			}
		}
		return end
	}
	return len(text)
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// skipClosing returns the index behind quotes and brackets that close at i.
func skipClosing(text string, i int) int {
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		if !strings.ContainsRune("\"'”’»)]」』）", r) {
			break
		}
		i += n
	}
	return i
}

// countSentences counts the sentences of a paragraph.
func countSentences(text string) int {
	count := 0
	for {
		text = strings.TrimLeftFunc(text, isSpace)
		if text == "" {
			return count
		}
		end := sentenceEnd(text)
		if strings.ContainsFunc(text[:end], startsWord) {
			count++
		}
		text = text[end:]
	}
}

// summarise cuts a paragraph to at most n runes, after a sentence if one ends
// there.
func summarise(text string, n int) string {
	text = clean(text)
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	end := 0
	for end < len(text) {
		skip := len(text[end:]) - len(strings.TrimLeftFunc(text[end:], isSpace))
		next := end + skip + sentenceEnd(text[end+skip:])
		if utf8.RuneCountInString(text[:next]) > n {
			break
		}
		end = next
	}
	if end > 0 {
		return text[:end]
	}
	return cut(text, n)
}
