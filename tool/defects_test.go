package tool_test

import (
	"context"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/tool"
)

// Arguments go through the schema's eyes, which see numbers as floats, but the
// function gets what the model wrote.
func TestNumbersOfAnySizeReachTheFunction(t *testing.T) {
	type in struct {
		Big   *big.Int        `json:"big"`
		Raw   json.RawMessage `json:"raw"`
		Exact json.Number     `json:"exact"`
		Int   int             `json:"int"`
		Float float64         `json:"float"`
	}
	var got in
	f := tool.New("f", "f", func(_ context.Context, i in) (string, error) { got = i; return "", nil })
	_, err := f.Call(t.Context(), json.RawMessage(`{"big":123456789012345678901234567890,"raw":{"a":[0.12345678901234567890]},"exact":0.10,"int":3.0,"float":1e3}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.Big.String() != "123456789012345678901234567890" || string(got.Raw) != `{"a":[0.12345678901234567890]}` || got.Exact != "0.10" || got.Int != 3 || got.Float != 1000 {
		t.Errorf("got %v %s %s %d %v", got.Big, got.Raw, got.Exact, got.Int, got.Float)
	}
	if _, err := f.Call(t.Context(), json.RawMessage(`{"big":1,"raw":1,"exact":"ten","int":3,"float":1}`)); err == nil {
		t.Error("a text is taken for a number")
	}
}

// A field's name in another case is another field, which encoding/json would
// take for it: it must not get past what the schema says.
func TestANameInAnotherCaseDoesNotPassTheSchemaBy(t *testing.T) {
	type in struct {
		Path string `json:"Path"`
	}
	var got string
	f := tool.New("f", "f", func(_ context.Context, i in) (string, error) { got = i.Path; return "", nil },
		tool.Schema(json.RawMessage(`{"type":"object","properties":{"Path":{"type":"string","pattern":"^/tmp/"}}}`)))
	for _, args := range []string{`{"Path":"/tmp/a","path":"/etc/passwd"}`, `{"path":"/etc/passwd"}`} {
		got = ""
		_, err := f.Call(t.Context(), json.RawMessage(args))
		if got == "/etc/passwd" {
			t.Errorf("%s: the function got %q, %v", args, got, err)
		}
	}
}

type base struct {
	Name string `json:"name" enum:"a,b"`
}

// A schema that requires a field twice is refused by providers, and what the
// hidden field's tags say is not about the other.
func TestTwoFieldsOfOneNameAreAMistake(t *testing.T) {
	type in struct {
		base
		Title string `json:"name"`
	}
	err := tool.New("f", "f", func(context.Context, in) (string, error) { return "", nil }).Check()
	if err == nil || !strings.Contains(err.Error(), `field "name": the fields Name and Title of tool_test.in have this name`) {
		t.Errorf("got %v", err)
	}
	type hiding struct {
		base
		Name int `json:"name"`
	}
	f := tool.New("f", "f", func(_ context.Context, h hiding) (int, error) { return h.Name, nil })
	if r, err := f.Call(t.Context(), json.RawMessage(`{"name":3}`)); err != nil || r.Text() != "3" {
		t.Errorf("%s: %v, %v", f.Spec().Schema, r, err)
	}
}
