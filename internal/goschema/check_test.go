package goschema_test

import (
	"encoding/json"
	"log/slog"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/goschema"
)

func TestAnErrorOfASchemaFromOutsideNamesTheField(t *testing.T) {
	for _, c := range []struct{ schema, data, want string }{
		{`{"type":"number","maximum":5}`, `1e400`, "number 1e400 is out of range"},
		{`{}`, `1e400`, "number 1e400 is out of range"},
		{`{"properties":{"a":{"type":"array"}}}`, `{"a":[1,-1e999]}`, "a[1]: number -1e999 is out of range"},
		{`{"properties":{"a":{"allOf":[{"type":"integer"},{"minimum":3}]}}}`, `{"a":1}`, "a: must be at least 3, not 1"},
		{`{"properties":{"a":{"allOf":[{"not":{"type":"integer"}}]}}}`, `{"a":1}`, "a: has a form that is not allowed here"},
		{`{"properties":{"a":{"items":{"oneOf":[{"type":"integer"},{"type":"number"}]}}}}`, `{"a":[1]}`, "a[]: has more than one of the forms that are allowed here"},
		{`{"$defs":{"n":{"properties":{"x/y":{"multipleOf":2}}}},"properties":{"a":{"$ref":"#/$defs/n"}}}`, `{"a":{"x/y":1}}`, "a.x/y: multipleOf: 1/1 is not a multiple of 2.000000"},
		{`{"$id":"http://x/y","properties":{"a":{"contains":{"type":"string"}}}}`, `{"a":[1]}`, "a: has no item of the form that one must have"},
		{`{"properties":{"a":{"minProperties":2}}}`, `{"a":{}}`, "a: must have at least 2 members, not 0"},
		{`{"type":"object"}`, ` `, "nothing was given"},
	} {
		if err := goschema.Check(json.RawMessage(c.schema), json.RawMessage(c.data)); err == nil || err.Error() != c.want {
			t.Errorf("%s of %s: %v, want %s", c.data, c.schema, err, c.want)
		}
	}
}

// With two walks on each level the test doesn't end.
func TestWhatMayBeNullIsWalkedOnce(t *testing.T) {
	const schema = `{"$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}}}},"$ref":"#/$defs/node"}`
	const deep = 60
	data := strings.Repeat(`{"v":1,"next":`, deep) + `{"v":"x"}` + strings.Repeat("}", deep)
	want := strings.Repeat("next.", deep) + `v: must be an integer, not "x"`
	if err := goschema.Check(json.RawMessage(schema), json.RawMessage(data)); err == nil || err.Error() != want {
		t.Error(err)
	}
}

func TestAValueOfAStateIsNotInItsErrors(t *testing.T) {
	type in struct {
		Key   string `enum:"a,b"`
		Count int8
		Kind  string
		List  []string
	}
	s, err := goschema.Of(reflect.TypeFor[in](), goschema.State)
	if err != nil {
		t.Fatal(err)
	}
	err = goschema.Decode("in", []byte(`{"Key":"hunter2","Count":1234,"Kind":5678,"List":"hunter2"}`), s, new(in))
	const want = `field "Key": must be one of "a", "b"
field "Count": must be at most 127
field "Kind": must be a string, not a number
field "List": must be an array or null, not a string`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestANumberMayBeAsLargeAsItsTypeTakes(t *testing.T) {
	type in struct{ Big *big.Int }
	s, err := goschema.Of(reflect.TypeFor[in](), goschema.State)
	if err != nil {
		t.Fatal(err)
	}
	var v in
	if err := goschema.Decode("in", []byte(`{"Big":`+strings.Repeat("7", 617)+`}`), s, &v); err != nil || len(v.Big.String()) != 617 {
		t.Error(err)
	}
}

type (
	priority int
	written  struct{ X int }
)

func (priority) MarshalText() ([]byte, error) { return []byte("high"), nil }
func (written) MarshalJSON() ([]byte, error)  { return []byte("1"), nil }

func TestOfATypeThatIsOnlyReadHowItWritesItselfDoesNotCount(t *testing.T) {
	type in struct {
		P priority
		W written
		L slog.Level
	}
	for kind, want := range map[goschema.Kind]string{
		goschema.State:     `{"P":{"type":"string"},"W":true,"L":{"type":"string"}}`,
		goschema.Output:    `{"P":{"type":"integer"},"W":{"type":"object","properties":{"X":{"type":"integer"}},"required":["X"],"additionalProperties":false},"L":{"type":"string"}}`,
		goschema.Arguments: `{"P":{"type":"integer"},"W":{"type":"object","properties":{"X":{"type":"integer"}},"required":["X"],"additionalProperties":false},"L":{"type":"string"}}`,
	} {
		s, err := goschema.Of(reflect.TypeFor[in](), kind)
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(s.Properties)
		var got, wanted any
		if err != nil || json.Unmarshal(data, &got) != nil || json.Unmarshal([]byte(want), &wanted) != nil || !reflect.DeepEqual(got, wanted) {
			t.Errorf("kind %d: %s, want %s (%v)", kind, data, want, err)
		}
	}
}
