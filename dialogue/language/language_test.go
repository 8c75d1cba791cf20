package language_test

import (
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/dialogue/language"
)

func TestNumbersAreReadByTheSignsOfTheLanguage(t *testing.T) {
	for _, c := range []struct {
		tag, text string
		want      float64
		ok        bool
	}{
		{"en", "1,500.00", 1500, true}, {"de", "1.500,00", 1500, true}, {"en", "1500.00", 1500, true}, {"de", "1500.00", 1500, true},
		{"de", "1.500", 1500, true}, {"en", "1.500", 1.5, true}, {"de", "12,5", 12.5, true}, {"en", "12,5", 0, false},
		{"en", "$ 20", 20, true}, {"en", "20€", 20, true}, {"de", "20 EUR", 20, true}, {"en", "eur 20.50", 20.5, true}, {"en", "-5", -5, true}, {"en", "- 5", -5, true},
		{"fr", "1 234,5", 1234.5, true}, {"en", "1,2345", 0, false}, {"en", "12,345", 12345, true}, {"en", "five", 0, false}, {"en", "1e3", 0, false}, {"en", "", 0, false},
		{"en", "20 abc", 0, false}, {"en", "0x10", 0, false}, {"xx", "1,000", 1000, true},
	} {
		n, ok := language.Of(c.tag).ParseNumber(c.text)
		if n != c.want && ok || ok != c.ok {
			t.Errorf("%s %q: %v %v, want %v %v", c.tag, c.text, n, ok, c.want, c.ok)
		}
	}
}

func TestYesAndNoAreWordsOfTheLanguage(t *testing.T) {
	for _, c := range []struct {
		tag, text string
		yes, ok   bool
	}{{"en", "Yes!", true, true}, {"en", "no.", false, true}, {"de", "JA", true, true}, {"de", "nein", false, true}, {"es", "si", true, true}, {"en", "maybe", false, false}, {"en", "yes but", false, false}, {"de-AT", "ja", true, true}} {
		yes, ok := language.Of(c.tag).ParseBool(c.text)
		if yes != c.yes || ok != c.ok {
			t.Errorf("%s %q: %v %v", c.tag, c.text, yes, ok)
		}
	}
}

func TestDatesAreReadAndWrittenInTheShortFormOfTheLanguage(t *testing.T) {
	for _, c := range [][3]string{{"de", "31.12.2024", "2024-12-31"}, {"de", "1.2.2024", "2024-02-01"}, {"en", "2024-12-31", "2024-12-31"}, {"fr", "31/12/2024", "2024-12-31"}, {"en", "31.12.2024", ""}, {"de", "30.2.2024", ""}} {
		if got, _ := language.Of(c[0]).ParseDate(c[1]); got != c[2] {
			t.Errorf("%s %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
	for tag, want := range map[string]string{"en": "2024-11-20 08:15", "de": "20.11.2024 08:15"} {
		if got := language.Of(tag).FormatDateTime("2024-11-20T08:15:00Z"); got != want {
			t.Errorf("%s: %q, want %q", tag, got, want)
		}
	}
}

func TestPluralFormsAreThoseOfTheLanguage(t *testing.T) {
	for _, c := range []struct {
		tag  string
		n    float64
		want string
	}{{"en", 1, "one"}, {"en", 0, "other"}, {"en", 1.5, "other"}, {"fr", 0, "one"}, {"pl", 2, "few"}, {"pl", 5, "many"}, {"ja", 1, "other"}, {"en", 1000001, "other"}, {"pl", 1000000022, "few"}} {
		if got := language.Of(c.tag).Plural(c.n); got != c.want {
			t.Errorf("%s %v: %s, want %s", c.tag, c.n, got, c.want)
		}
	}
}

func TestFormatsRefuseOrReturnTheCanonicalForm(t *testing.T) {
	for _, c := range [][3]string{
		{"iban", "es91 2100 0418 4502 0005 1332", "ES9121000418450200051332"}, {"iban", "ES9121000418450200051333", ""}, {"iban", "ES91", ""}, {"iban", "ÄS9121000418450200051332", ""},
		{"digits", "00 42", "0042"}, {"digits", "4a", ""}, {"email", "Ann@Example.ORG", "Ann@example.org"}, {"email", "Ann <a@b.c>", ""}, {"phone", "+49 (30) 123-456", "+4930123456"}, {"phone", "12", ""},
		{"url", "https://example.org/a", "https://example.org/a"}, {"url", "javascript:x", ""}, {"date", "2024-02-30", ""}, {"currency", "eur", "EUR"}, {"currency", "euro", ""},
		{"uuid", "123E4567-E89B-12D3-A456-426614174000", "123e4567-e89b-12d3-a456-426614174000"}, {"uuid", "x", ""},
	} {
		got, reason := language.Format(c[0], c[1])
		if got != c[2] || (reason == "") != (c[2] != "") {
			t.Errorf("%s %q: %q %q, want %q", c[0], c[1], got, reason, c[2])
		}
	}
}

func ExampleLanguage_ParseNumber() {
	for _, tag := range []string{"en", "de"} {
		n, ok := language.Of(tag).ParseNumber("1.500")
		fmt.Println(tag, n, ok)
	}
	// Output:
	// en 1.5 true
	// de 1500 true
}
