package digest

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func allWords(text string) []string {
	var out []string
	words(text, func(w string, at int, _ bool) {
		if at < 0 || at >= len(text) {
			panic("place of a word outside the text")
		}
		out = append(out, w)
	})
	return out
}

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                             nil,
		" -- ":                         nil,
		"Hello, World!":                {"hello", "world"},
		"don't l’eau o'":               {"don't", "l’eau", "o"},
		"3.14 and 1,000. 5":            {"3.14", "and", "1,000", "5"},
		"well-known max_files a.b":     {"well", "known", "max_files", "a", "b"},
		"Straße ÜBER naïve":            {"straße", "über", "naïve"},
		"cafe\u0301 x":                 {"cafe\u0301", "x"},
		"日本語 text":                     {"日", "本", "語", "text"},
		"Go言語":                         {"go", "言", "語"},
		"データ":                          {"デ", "ー", "タ"},
		"한국어 문서":                       {"한국어", "문서"},
		"привет, мир":                  {"привет", "мир"},
		"مرحبا بالعالم":                {"مرحبا", "بالعالم"},
		"हिन्दी में":                   {"हिन्दी", "में"},
		"a\xffb":                       {"a", "b"},
		"_emph_ __x__":                 {"emph", "x"},
		"\u0301lone mark":              {"lone", "mark"},
		"x'":                           {"x"},
		"soft\u00adhyphen":             {"soft\u00adhyphen"},
		"rock'n'roll 90's":             {"rock'n'roll", "90", "s"},
		strings.Repeat("ab ", 3) + "c": {"ab", "ab", "ab", "c"},
	} {
		if got := allWords(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestBaseTerm(t *testing.T) {
	for w, want := range map[string]string{
		"word": "word", "a": "", "42": "", "3.14": "", "x2": "x2", "bank's": "bank", "bank’s": "bank", "a's": "", "soft\u00adhyphen": "softhyphen",
		"über": "über", "é": "", strings.Repeat("x", 41): "", strings.Repeat("x", 40): strings.Repeat("x", 40), "don’t": "don't",
	} {
		if got := baseTerm(w); got != want {
			t.Errorf("%q: got %q, want %q", w, got, want)
		}
	}
}

func TestFold(t *testing.T) {
	vocabulary := set("service class box query process status new bus movie database horse goods")
	for w, want := range map[string]string{
		"services": "service", "classes": "class", "boxes": "box", "queries": "query", "processes": "process", "movies": "movie",
		"databases": "database", "horses": "horse", "status": "status", "process": "process", "news": "news", "things": "things",
		"buses": "bus", "is": "is", "": "", "s": "s",
	} {
		if got := fold(w, func(s string) bool { return vocabulary[s] }); got != want {
			t.Errorf("%q: got %q, want %q", w, got, want)
		}
	}
}

func TestSentences(t *testing.T) {
	for _, tc := range []struct {
		text  string
		first string
		count int
	}{
		{"", "", 0},
		{"...", "...", 0},
		{"One. Two! Three?", "One.", 3},
		{"No end", "No end", 1},
		{"Mr. Smith met Dr. Jones. They spoke.", "Mr. Smith met Dr. Jones.", 2},
		{"Use e.g. Go or C. Then stop.", "Use e.g. Go or C. Then stop.", 1},
		{"Version 1.2 is out. Get it.", "Version 1.2 is out.", 2},
		{"See main.go for it. Yes.", "See main.go for it.", 2},
		{"Wait... what? No.", "Wait... what?", 2},
		{"“It works.” She left.", "“It works.”", 2},
		{"(All of it.) Really?!  Yes", "(All of it.)", 3},
		{"J. R. Tolkien wrote. We read.", "J. R. Tolkien wrote.", 2},
		{"Es geht, z. B. Bäume. Gut.", "Es geht, z. B. Bäume.", 2},
		{"So am I. You too.", "So am I.", 2},
		{"これは文です。次の文。", "これは文です。", 2},
		{"पहला वाक्य। दूसरा।", "पहला वाक्य।", 2},
		{"Line\nbreak. Next\nline.", "Line\nbreak.", 2},
	} {
		if got := tc.text[:sentenceEnd(tc.text)]; got != tc.first {
			t.Errorf("%q: first sentence %q, want %q", tc.text, got, tc.first)
		}
		if got := countSentences(tc.text); got != tc.count {
			t.Errorf("%q: %d sentences, want %d", tc.text, got, tc.count)
		}
	}
}

func TestSummarise(t *testing.T) {
	for _, tc := range []struct {
		text string
		n    int
		want string
	}{
		{"Short.", 20, "Short."},
		{"One two. Three four. Five six.", 21, "One two. Three four."},
		{"One two three four five six seven", 20, "One two three four…"},
		{"abcdefghijklmnopqrstuvwxyz", 10, "abcdefghi…"},
		{"a\n  b\u202e\x07c", 9, "a bc"},
	} {
		if got := summarise(tc.text, tc.n); got != tc.want {
			t.Errorf("%q to %d: got %q, want %q", tc.text, tc.n, got, tc.want)
		}
	}
}

func TestReadingSeconds(t *testing.T) {
	for _, tc := range []struct{ words, chars, want int }{{0, 0, 0}, {1, 0, 1}, {238, 0, 60}, {0, 255, 60}, {238, 255, 120}, {2380, 0, 600}} {
		if got := readingSeconds(tc.words, tc.chars); got != tc.want {
			t.Errorf("%d words, %d characters: %d s, want %d", tc.words, tc.chars, got, tc.want)
		}
	}
}

func TestGuessLanguage(t *testing.T) {
	for text, want := range map[string]string{
		"The cat sat on the mat and it was not happy about the dog":         "en",
		"Die Katze sitzt auf der Matte und ist nicht froh über den Hund":    "de",
		"Le chat est sur le tapis et il n'est pas content avec le chien":    "fr",
		"El gato está sobre la alfombra y no le gusta que el perro lo mire": "es",
		"lorem ipsum dolor sit amet":                                        "",
		"":                                                                  "",
	} {
		counts := make(map[string]int)
		for _, w := range allWords(text) {
			counts[w]++
		}
		if got := guessLanguage(counts); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestDecode(t *testing.T) {
	utf16le := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune("Zoë 😀\r\n")) {
		utf16le = append(utf16le, byte(u), byte(u>>8))
	}
	for _, tc := range []struct{ data, text, encoding string }{
		{"", "", "UTF-8"},
		{"\ufeffa\r\nb\rc\n", "a\nb\nc\n", "UTF-8"},
		{string(utf16le), "Zoë 😀\n", "UTF-16"},
		{"\xfe\xff\x00h\x00i\x00", "hi", "UTF-16"},
		{"caf\xe9 \x80 \x93q\x94", "café € “q”", "Windows-1252"},
	} {
		text, encoding := decode([]byte(tc.data))
		if text != tc.text || encoding != tc.encoding {
			t.Errorf("%q: got %q, %s", tc.data, text, encoding)
		}
	}
}

// Latin text is the same however it is encoded.
func TestDecodeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := "x" + rapid.StringOf(rapid.RuneFrom(latin1)).Draw(t, "text") + "é" // x, lest it look like a byte order mark
		var wide, narrow []byte
		wide = append(wide, 0xfe, 0xff)
		for _, r := range text {
			wide = append(wide, byte(r>>8), byte(r))
			narrow = append(narrow, byte(r))
		}
		want, _ := decode([]byte(text))
		for _, data := range [][]byte{wide, narrow} {
			got, _ := decode(data)
			if got != want && !utf8.Valid(data) {
				t.Fatalf("%x: got %q, want %q", data, got, want)
			}
		}
	})
}

func TestWordsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		last := -1
		words(text, func(w string, at int, _ bool) {
			if w == "" || at <= last || !strings.HasPrefix(strings.ToLower(text[at:]), w) {
				t.Fatalf("word %q at %d after %d", w, at, last)
			}
			last = at
		})
		a := allWords(text)
		if b := allWords(strings.Join(a, " ")); !reflect.DeepEqual(a, b) && len(strings.Join(a, "")) > 0 {
			t.Fatalf("%q, again %q", a, b)
		}
		if end := sentenceEnd(text); end < 0 || end > len(text) || end == 0 && text != "" {
			t.Fatalf("sentence end %d of %d", end, len(text))
		}
		s := clean(text)
		if clean(s) != s || !utf8.ValidString(s) {
			t.Fatalf("clean %q, again %q", s, clean(s))
		}
		if got := cut(text, 10); utf8.RuneCountInString(got) > 10 {
			t.Fatalf("cut to %q", got)
		}
	})
}

// latin1 are the characters that Windows-1252 and ISO 8859-1 share, without
// line ends.
var latin1 = func() (out []rune) {
	for r := ' '; r < 0x7f; r++ {
		out = append(out, r)
	}
	for r := rune(0xa0); r <= 0xff; r++ {
		out = append(out, r)
	}
	return out
}()
