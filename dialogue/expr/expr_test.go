package expr_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/dialogue/expr"
)

var env = slots{
	"amount": expr.Num(500), "code": expr.Str("0042"), "name": expr.Str("Ann"), "empty": expr.Str(""), "zero": expr.Num(0), "yes": expr.Bool(true),
	"skipped": {}, "list": expr.ListOf(expr.Num(1), expr.Str("b")), "flight": expr.ObjectOf(map[string]expr.Value{"price": expr.Num(99.5), "legs": expr.ListOf(expr.Str("BER"))}),
	"day": expr.Str("2024-12-31"),
}

func TestExpressionsYieldWhatTheReferenceSays(t *testing.T) {
	for source, want := range map[string]string{
		"1 + 2 * 3":                           "7",
		"(1 + 2) * 3":                         "9",
		"-amount % 7":                         "-3",
		"1 / 0":                               "null",
		"'5' * 2":                             "10",
		"'a' * 2":                             "null",
		"missing + 1":                         "null",
		"amount > 10":                         "true",
		"amount > '99'":                       "true",
		"code == 42":                          "true",
		"code == '42'":                        "false",
		"'10' < '9'":                          "false",
		"'b' > 'a'":                           "true",
		"day < '2025-01-01'":                  "true",
		"yes > 1":                             "false",
		"missing > 10":                        "false",
		"not (missing > 10)":                  "false",
		"not missing":                         "true",
		"missing > 10 or true":                "true",
		"not (missing > 10 and false)":        "true",
		"(missing > 10) == false":             "true",
		"missing == none":                     "true",
		"0 == none":                           "false",
		"'' == none":                          "false",
		"not amount > 600 and yes":            "true",
		"NOT yes OR zero == 0":                "true",
		"1 if empty else 2":                   "2",
		"1 if '0' else 2":                     "1",
		"1 if 'false' else 2":                 "1",
		"1 if [] else 2":                      "2",
		"'a' if missing > 1 else 'b'":         "\"b\"",
		"'b' in list":                         "true",
		"'x' not in list":                     "true",
		"missing in list":                     "false",
		"missing not in list":                 "false",
		"'price' in flight":                   "true",
		"'nn' in name":                        "true",
		"flight.price":                        "99.5",
		"flight.legs.0":                       "\"BER\"",
		"flight.legs.7":                       "null",
		"[1, 'b'] == list":                    "true",
		"filled(skipped) and filled(zero)":    "true",
		"filled(missing)":                     "false",
		"len(name) + len(list) + len(flight)": "7",
		"upper(name)":                         "\"ANN\"",
		"round(2.5, 0)":                       "3",
		"round(-2.5, 0)":                      "-3",
		"round(1.005, 2)":                     "1.01",
		"min(3, '2', 5)":                      "\"2\"",
		"max(1, amount)":                      "500",
		"days('2024-12-24', day)":             "7",
		"date('2024-12-31T08:00:00Z')":        "\"2024-12-31\"",
		"date('soon')":                        "null",
		"today()":                             "\"1970-01-01\"",
		`'it\'s' == "it's"`:                   "true",
	} {
		e, err := expr.Parse(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		got, err := json.Marshal(e.Eval(env))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, want %s (%v)", source, got, want, err)
		}
	}
}

func TestWhatCannotBeReadIsNamedWithItsPlace(t *testing.T) {
	for source, c := range map[string]struct {
		at     int
		reason string
	}{
		"name = 'x'":                   {5, `unexpected "="; compare with "=="`},
		`1 not "in" [1]`:               {2, `unexpected "not"`},
		"1 < 2 < 3":                    {6, "comparisons don't chain"},
		"a +":                          {3, "ends where a value is expected"},
		"(a":                           {2, `expected ")"`},
		"f(a)":                         {0, `there is no function "f"`},
		"len()":                        {0, "it is written len(x)"},
		"'a":                           {0, "a text is not closed"},
		"a if b":                       {6, `expected "else"`},
		"a ? b":                        {2, "unexpected '?'"},
		"3x":                           {1, "a number ends before"},
		strings.Repeat("(", 40) + "a":  {33, "nested more than 32 deep"},
		strings.Repeat("a+", 600):      {0, "longer than 1000 characters"},
		strings.Repeat("not ", 40):     {132, "nested more than 32 deep"},
		strings.Repeat("- ", 40) + "1": {66, "nested more than 32 deep"},
	} {
		_, err := expr.Parse(source)
		var bad *expr.SyntaxError
		if !errors.As(err, &bad) || !strings.Contains(bad.Reason, c.reason) || bad.Offset != c.at {
			t.Errorf("%.30s: %v at %d, want %q at %d", source, err, bad.Offset, c.reason, c.at)
		}
	}
}

func TestAValueSurvivesJSON(t *testing.T) {
	for _, text := range []string{`null`, `true`, `0`, `1500.25`, `"0042"`, `"<a>"`, `[]`, `{}`, `[1,"b",{"a":[null]}]`, `{"a":1,"b":{"c":false}}`} {
		var v expr.Value
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		got, err := v.MarshalJSON()
		if err != nil || string(got) != text {
			t.Errorf("%s came back as %s, %v", text, got, err)
		}
	}
}

func TestNumbersAreWrittenShortest(t *testing.T) {
	for n, want := range map[float64]string{500: "500", 3847.52: "3847.52", 0.1 + 0.2: "0.3", -0.5: "-0.5", 1e21: "1000000000000000000000", 1e-7: "0.0000001"} {
		if got := expr.FormatNumber(n); got != want {
			t.Errorf("%g: %s, want %s", n, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("not (amount > 10) and len(name) in [1, 2] if flight.legs.0 else -code")
	f.Fuzz(func(t *testing.T, source string) {
		e, err := expr.Parse(source)
		if err != nil {
			var bad *expr.SyntaxError
			if !errors.As(err, &bad) || bad.Offset < 0 || bad.Offset > len(source) {
				t.Errorf("%q: an error without a place: %v", source, err)
			}
			return
		}
		e.Check(func(expr.Path) (expr.Kind, bool) { return expr.Number, true })
		if _, err := json.Marshal(e.Eval(env)); err != nil {
			t.Errorf("%q: %v", source, err)
		}
	})
}
