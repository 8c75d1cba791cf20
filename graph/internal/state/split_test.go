package state

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
)

// What split finds is what encoding/json finds.
func FuzzSplit(f *testing.F) {
	type pair struct {
		A int `json:"a"`
		B int `json:"ü"`
	}
	for _, s := range []string{
		`{}`, ` {}`, `{ }`, `{"a":1}`, `{"a":1,"ü":2}`, `{"ü":[1,{"a":2}],"a":"x"}`, `{"\u0061":1}`, `{"a":1,"a":2}`, `{"a":1,"a":}`, `{"a":x,"a":1}`,
		`{"c":1}`, `{"c":[1}}`, `{"a":[1}}`, `{"a":1}x`, `{"a":1,}`, `{,"a":1}`, `{"a" : 1 , "ü" : 2 } `, `{"a"}`, `{"a":}`, `{a:1}`, `{1:1}`, `{"a":1 2}`,
		`{"a":"\""}`, `{"a":"\\"}`, `{"a":"\\\""}`, `{"a":"x}`, `{"a":tru}`, `{"a":-1.5e+7}`, `{"a":{}`, `{`, `null`, `[]`, `{"a":1:2}`, "{\"a\x01\":1}", "{\"a\xff\":1}",
		`{"":1}`, `{[]:1}`, `{"a":1}}`, `{"a":,}`,
	} {
		f.Add([]byte(s))
	}
	typ, problems := Of[pair]()
	if problems != nil {
		f.Fatal(problems)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		for _, only := range [][]string{nil, {}, {"a"}} {
			got, err := typ.split(b, only)
			for _, p := range got {
				if !json.Valid(p.data) { // decoding it gives an error
					err = errNotObject
				}
			}
			want, werr := splitSlowly(typ, b, only)
			if (err == nil) != (werr == nil) {
				t.Fatalf("split(%q): %v, want %v", b, err, werr)
			}
			if err == nil && !(len(got) == 0 && len(want) == 0) && !reflect.DeepEqual(got, want) {
				t.Fatalf("split(%q) = %q, want %q", b, got, want)
			}
		}
	})
}

func splitSlowly(t *Type, data []byte, only []string) (parts []part, err error) {
	var raw map[string]json.RawMessage
	err = json.Unmarshal(data, &raw)
	for name, value := range raw {
		if i, ok := t.byName[name]; ok && (only == nil || slices.Contains(only, name)) {
			parts = append(parts, part{i, value})
		}
	}
	sortParts(parts)
	return parts, err
}
