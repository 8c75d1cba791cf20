package checkpoint

import (
	"encoding/json"
	"strings"
	"testing"
)

func FuzzValid(f *testing.F) {
	for _, s := range []string{
		``, ` `, `{}`, `[]`, ` { } `, `[1,2]`, `[1,]`, `[,1]`, `{"a":1}`, `{"a":1,}`, `{"a" : [ true , false, null ] }`, `{a:1}`, `{"a"}`, `{"a":}`, `{1:2}`,
		`"x"`, `"x`, `"`, `"\u00e4"`, `"\u00g0"`, `"\u00"`, `"\x"`, `"\"`, `"\\"`, "\"a\nb\"", "\"\x7f\"", "\"\xff\xfe\"", `"äöü"`,
		`"12345678"`, `"1234567\"90123456789"`, "\"1234567890123\t567\"", `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"`,
		`0`, `-0`, `01`, `-`, `1.`, `.1`, `1.0`, `1e5`, `1E+5`, `1e`, `1e-`, `-1.25e-10`, `1 2`, `+1`, `truth`, `tru`, `nul`, `[1}`, `{"a":1]`, `]`, `}`,
		`[[[[]]]]`, `{"a":{"b":{"c":[{}]}}}`, "\ufeff{}", `1]`, `{} x`,
		strings.Repeat("[", 10000) + strings.Repeat("]", 10000), strings.Repeat("[", 10001) + strings.Repeat("]", 10001),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := valid(b), json.Valid(b); got != want {
			t.Fatalf("valid(%q) = %v, want %v", b, got, want)
		}
	})
}
