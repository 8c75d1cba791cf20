package plainjson_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/plainjson"
)

func TestSignsOfHTMLStandAsTheyAre(t *testing.T) {
	for want, v := range map[string]any{
		`"a < b & c > d"`:      "a < b & c > d",
		`"\u003c"`:             json.RawMessage(`"\u003c"`),
		`{"<":["&"]}`:          map[string][]string{"<": {"&"}},
		`"\"\\\n\u0001\ufffd"`: "\"\\\n\x01\xff",
		`""`:                   "",
		`null`:                 nil,
	} {
		if got, err := plainjson.Marshal(v); err != nil || string(got) != want {
			t.Errorf("%#v is %s (%v), want %s", v, got, err, want)
		}
	}
	if got, err := plainjson.Marshal(func() {}); err == nil {
		t.Errorf("a function is %s", got)
	}
}

// Every string is what encoding/json makes of it, whichever way it goes.
func FuzzStringsReadBackAsTheyWere(f *testing.F) {
	for _, s := range []string{"", "plain", "<&>", "\x7f", "\u2028", "ä", "\xff", "\"\\\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := plainjson.Marshal(s)
		var back string
		if err != nil || json.Unmarshal(got, &back) != nil || utf8.ValidString(s) && back != s {
			t.Fatalf("%q is %s and reads back as %q: %v", s, got, back, err)
		}
		var escaped bytes.Buffer
		json.HTMLEscape(&escaped, got)
		if want, _ := json.Marshal(s); !bytes.Equal(escaped.Bytes(), want) { // a string marshals
			t.Fatalf("%q is %s, with escapes %s, want %s", s, got, escaped.Bytes(), want)
		}
	})
}
