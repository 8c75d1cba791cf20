package nlu

import (
	"math"
	"unicode"

	"github.com/superstep-dev/superstep/model"
)

// CountTokens returns how many tokens a request has by a function that counts those of a
// text: of its messages, with four for each one's frame, and of the schema of its answer,
// which providers put into the prompt.
func CountTokens(req *model.Request, count func(text string) int) int {
	n := 0
	for _, m := range req.Messages {
		n += count(m.Text()) + 4
	}
	if req.Output != nil {
		n += count(string(req.Output.Schema))
	}
	return n
}

// EstimateTokens returns about how many tokens a text has, rather too many than too few. It
// cuts the text as the tokenizers of OpenAI's models (cl100k_base, o200k_base) do, at words
// with the sign before them, groups of three digits and other signs, and counts a token for
// each piece, one for every four letters beyond nine, and one for each letter with an
// accent; and 8 % on top. Tests compare it with what they count.
func EstimateTokens(text string) int {
	n := 0.0
	kind, run, accents := 0, 0, 0
	end := func(next int) {
		switch kind {
		case latin:
			n += 1 + float64(max(0, run-9)/4) + float64(accents)
		case letters:
			n += 0.6 * float64(run+1)
		case digits:
			n += float64((run + 2) / 3)
		case signs:
			if next == latin {
				run-- // it belongs to the word
			}
			n += float64((run + 2) / 3)
		case ideographs:
			n += 1.3 * float64(run)
		case spaces:
			if run > 1 || next == digits || next == 0 {
				n++
			}
		}
		run, accents = 0, 0
	}
	lower := false
	for _, r := range text {
		k := kindOf(r)
		if k != kind || lower && unicode.IsUpper(r) {
			end(k)
			kind = k
		}
		run++
		if k == latin && r > unicode.MaxASCII {
			accents++
		}
		lower = unicode.IsLower(r)
	}
	end(0)
	return int(math.Ceil(1.08 * n))
}

const (
	_ = iota
	latin
	letters // of other alphabets
	digits
	signs
	ideographs // and pictures
	spaces
)

func kindOf(r rune) int {
	switch {
	case r < unicode.MaxASCII && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'):
		return latin
	case r >= '0' && r <= '9':
		return digits
	case unicode.IsSpace(r):
		return spaces
	case r <= unicode.MaxASCII:
		return signs
	case unicode.In(r, unicode.Latin):
		return latin
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.So):
		return ideographs
	case unicode.IsLetter(r) || unicode.IsMark(r):
		return letters
	}
	return signs
}
