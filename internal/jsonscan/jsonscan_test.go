package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/jsonscan"
)

// What is JSON is taken apart as encoding/json takes it apart, and what is an object or an
// array of JSON is JSON.
func FuzzJSONIsTakenApartAsEncodingJSONDoes(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { "a" : 1 , "b":[1,{"c":"}"}], "\u0061\"":null } `, `{"a":"x\\"}`, `{"a":1,}`, `{"a" 1}`, `{"a":}`, `{`, `{"a":1}x`,
		`[]`, ` [ 1 , "a]" , {"b":[]} , -1.5e3 ] `, `[1,]`, `[,1]`, `[1 2]`, `[`, `[1]]`, `["a\nb","ü","\ud800"]`, "[\"\x00\", \"\xff\"]", `null`, `1`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		valid := true
		whole := func(value []byte) bool { valid = valid && json.Valid(value); return true }

		members := map[string]json.RawMessage{}
		isObject := jsonscan.Members(data, func(key, value []byte) bool { members[string(key)] = value; return whole(value) })
		var object map[string]json.RawMessage
		if json.Unmarshal(data, &object) == nil && object != nil && !isObject {
			t.Errorf("%q is an object", data)
		}
		if isObject && valid {
			if json.Unmarshal(data, &object) != nil || len(object) != len(members) {
				t.Errorf("%q has %d members, want %d", data, len(members), len(object))
			}
			for name, value := range object {
				if !bytes.Equal(members[name], value) {
					t.Errorf("%q has the member %q: %s, want %s", data, name, members[name], value)
				}
			}
		}

		valid = true
		var elements []json.RawMessage
		isArray := jsonscan.Elements(data, func(value []byte) bool { elements = append(elements, value); return whole(value) })
		var array []json.RawMessage
		if json.Unmarshal(data, &array) == nil && array != nil && !isArray {
			t.Errorf("%q is an array", data)
		}
		if isArray && valid {
			if json.Unmarshal(data, &array) != nil || len(array) != len(elements) {
				t.Errorf("%q has %d elements, want %d", data, len(elements), len(array))
			}
			for i, value := range array {
				if !bytes.Equal(elements[i], value) {
					t.Errorf("%q has the element %s, want %s", data, elements[i], value)
				}
			}
		}

		var want string
		trimmed := bytes.Trim(data, " \t\r\n")
		isText := json.Unmarshal(trimmed, &want) == nil && len(trimmed) > 0 && trimmed[0] == '"'
		if got, ok := jsonscan.Text(trimmed); ok != isText || ok && got != want {
			t.Errorf("%q is the text %q, %v; want %q, %v", data, got, ok, want, isText)
		}
	})
}

func TestAMemberOrAnElementThatIsNotTakenEndsTheScan(t *testing.T) {
	n := 0
	no := func() bool { n++; return false }
	if jsonscan.Members([]byte(`{"a":1,"b":2}`), func(_, _ []byte) bool { return no() }) || jsonscan.Elements([]byte(`[1,2]`), func([]byte) bool { return no() }) || n != 2 {
		t.Errorf("the scan went on: %d calls", n)
	}
}

func FuzzValidIsThatOfEncodingJSON(f *testing.F) {
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
		if got, want := jsonscan.Valid(b), json.Valid(b); got != want {
			t.Fatalf("Valid(%q) = %v, want %v", b, got, want)
		}
	})
}
