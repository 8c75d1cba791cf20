package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/tool"
)

var update = flag.Bool("update", false, "rewrite the golden files")

type hex [2]byte

func (h *hex) UnmarshalText(text []byte) error {
	if len(text) != 2 {
		return errors.New("a hex has two characters")
	}
	copy(h[:], text)
	return nil
}

type place struct {
	City    string `json:"city" jsonschema:"name of the city"`
	Country string `json:"country,omitempty" enum:"de,fr,it" default:"de"`
}

type paging struct {
	Limit int `json:"limit" minimum:"1" maximum:"100" default:"10"`
	Page  int `json:"page,omitempty"`
}

type everything struct {
	paging
	Query  string             `json:"query" jsonschema:"what to look for" minLength:"1" maxLength:"200"`
	Units  string             `json:"units,omitempty" enum:"metric,imperial" jsonschema:"units of the answer"`
	Level  int                `json:"level,omitempty" enum:"1,2,3"`
	Tags   []string           `json:"tags,omitempty" enum:"hot,cold" minItems:"1" maxItems:"3"`
	Place  place              `json:"place"`
	Others []place            `json:"others,omitempty"`
	Maybe  *place             `json:"maybe,omitempty"`
	Scores map[string]float64 `json:"scores,omitempty"`
	Exact  bool               `json:"exact,omitempty"`
	Ratio  float64            `json:"ratio,omitempty"`
	Small  int8               `json:"small,omitempty"`
	Since  time.Time          `json:"since,omitzero"`
	Day    string             `json:"day,omitempty" format:"date" pattern:"^[0-9-]+$"`
	Code   hex                `json:"code,omitempty"`
	Data   []byte             `json:"data,omitempty"`
	Any    json.RawMessage    `json:"any,omitempty"`
	Other  any                `json:"other,omitempty"`
	Lazy   *json.RawMessage   `json:"lazy,omitempty" jsonschema:"as you like"`
	Number int64              `json:"number,omitempty,string"`
	NoName string
	Hidden string `json:"-"`
	unseen string
}

func nop[In any](context.Context, In) (string, error) { return "", nil }

func TestSchemaComesFromTheStruct(t *testing.T) { // TRPC-05, W5-02
	_ = everything{}.unseen
	for name, tl := range map[string]tool.Tool{
		"everything":   tool.New("everything", "", nop[everything]),
		"no arguments": tool.New("none", "", nop[struct{}]),
		"a map":        tool.New("map", "", nop[map[string]int]),
		"a pointer":    tool.New("pointer", "", nop[*place]),
		"enum option": tool.New("enum", "", nop[everything], tool.Enum("units", "a,b", "c"),
			tool.Enum("others.country", "ch", "de"), tool.Enum("level", 7), tool.Enum("scores", 0.5)),
	} {
		t.Run(name, func(t *testing.T) {
			if err := tool.Check(tl); err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := json.Indent(&got, tl.Spec().Schema, "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			file := filepath.Join("testdata", strings.ReplaceAll(name, " ", "_")+".json")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != string(want) {
				t.Errorf("schema is\n%s\nwant\n%s", got.String(), want)
			}
		})
	}
}

func TestSchemaOptionIsTakenToTheLetter(t *testing.T) {
	raw := json.RawMessage(`{ "type":"object", "properties":{"n":{"type":"integer","default":4}}, "x-mine": 1 }`)
	f := tool.New("f", "", func(_ context.Context, in map[string]int) (int, error) { return in["n"], nil }, tool.Schema(raw), tool.Strict())
	if got := f.Spec(); string(got.Schema) != string(raw) || !got.Strict {
		t.Errorf("spec is %+v", got)
	}
	if got := text(t, f, ``); got != "4" {
		t.Errorf("default gives %q", got)
	}
}

// text calls a tool that must succeed.
func text(t *testing.T, tl tool.Tool, args string) string {
	t.Helper()
	r, err := tl.Call(t.Context(), json.RawMessage(args))
	if err != nil {
		t.Fatalf("call with %s: %v", args, err)
	}
	return chat.ToolResult{Content: r.Content}.Text()
}

func TestArgumentsAreDecoded(t *testing.T) {
	f := tool.New("f", "", func(_ context.Context, in everything) (everything, error) { return in, nil })
	for _, c := range []struct{ name, args, want string }{
		{"defaults fill what is missing, in lists too", `{"query":"q","place":{"city":"x"},"NoName":"","others":[{"city":"y"}]}`,
			`{"limit":10,"query":"q","place":{"city":"x","country":"de"},"others":[{"city":"y","country":"de"}],"code":[0,0],"NoName":""}`},
		{"null for an optional field is its absence", `{"query":"q","place":{"city":"x","country":null},"NoName":"","units":null,"tags":null,"maybe":null}`,
			`{"limit":10,"query":"q","place":{"city":"x","country":"de"},"code":[0,0],"NoName":""}`},
		{"integers are exact and may be written as 3.0", `{"limit":3.0,"page":9007199254740993,"query":"q","place":{"city":"x"},"NoName":"","small":1e1,"number":"5"}`,
			`{"limit":3,"page":9007199254740993,"query":"q","place":{"city":"x","country":"de"},"small":10,"code":[0,0],"number":"5","NoName":""}`},
		{"the last of a key that stands twice counts alone", `{"query":"q","place":{"city":"x","country":"fr"},"place":{"city":"z"},"NoName":""}`,
			`{"limit":10,"query":"q","place":{"city":"z","country":"de"},"code":[0,0],"NoName":""}`},
		{"texts, bytes, times and raw JSON", `{"query":"q","place":{"city":"x"},"NoName":"","code":"ab","data":"aGk=","since":"2026-01-02T03:04:05Z","any":[1,{"a":2}],"other":{"x":1},"lazy":2}`,
			`{"limit":10,"query":"q","place":{"city":"x","country":"de"},"since":"2026-01-02T03:04:05Z","code":[97,98],"data":"aGk=","any":[1,{"a":2}],"other":{"x":1},"lazy":2,"NoName":""}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := text(t, f, c.args); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	none := tool.New("none", "", func(context.Context, struct{}) (string, error) { return "ok", nil })
	for _, args := range []string{"", " ", "null", "{}"} {
		if got := text(t, none, args); got != "ok" {
			t.Errorf("%q gives %q", args, got)
		}
	}
}

func TestBadArgumentsAreExplainedToTheModel(t *testing.T) { // TRPC-05
	called := false
	f := tool.New("f", "", func(context.Context, everything) (string, error) { called = true; return "", nil })
	rest := `"query":"q","NoName":"","place":{"city":"x"}`
	for _, c := range []struct{ name, args, want string }{
		{"no JSON", `{"query":`, `they aren't valid JSON: unexpected EOF: something is cut off or not closed`},
		{"broken JSON", `{"query": q}`, `they aren't valid JSON: invalid character 'q' looking for beginning of value, after "{\"query\": q"`},
		{"two objects", `{} {}`, `they aren't valid JSON: there is more after the end of the object`},
		{"a list", `[1,2]`, `they must be a JSON object, not [1,2]`},
		{"a text", `"x"`, `they must be a JSON object, not "x"`},
		{"wrong types, several", `{"query":5,"NoName":"","place":"Rome","exact":"yes","ratio":"1"}`,
			`query: must be a string, not 5; place: must be an object, not "Rome"; exact: must be a boolean, not "yes"; ratio: must be a number, not "1"`},
		{"missing fields", `{"place":{}}`, `place.city: is missing, a string; query: is missing, a string; NoName: is missing, a string`},
		{"null for a required field", `{"query":null,"NoName":"","place":{"city":"x"}}`, `query: must be a string, not null`},
		{"not in the enum", `{` + rest + `,"units":"kelvin"}`, `units: must be one of "metric", "imperial", not "kelvin"`},
		{"not in the enum of integers", `{` + rest + `,"level":4}`, `level: must be one of 1, 2, 3, not 4`},
		{"an element of a list", `{` + rest + `,"tags":["hot","warm"]}`, `tags[1]: must be one of "hot", "cold", not "warm"`},
		{"a field of an element", `{` + rest + `,"others":[{"city":"a"},{"city":1}]}`, `others[1].city: must be a string, not 1`},
		{"an unknown field", `{` + rest + `,"unit":"metric"}`, `unit: unknown field; did you mean "units"?`},
		{"an unknown field like none", `{` + rest + `,"zzzzzzzzzz":1}`, `zzzzzzzzzz: unknown field; remove it`},
		{"too big", `{` + rest + `,"limit":101}`, `limit: must be at most 100, not 101`},
		{"too small", `{` + rest + `,"limit":0}`, `limit: must be at least 1, not 0`},
		{"a fraction for an integer", `{` + rest + `,"limit":1.5}`, `limit: must be an integer, not 1.5`},
		{"beyond an int8", `{` + rest + `,"small":200}`, `small: must be at most 127, not 200`},
		{"beyond an int64", `{` + rest + `,"page":1e30}`, `page: number 1e30 doesn't fit a Go int`},
		{"beyond a float64", `{` + rest + `,"ratio":1e999}`, `ratio: number 1e999 is out of range`},
		{"too short", `{"query":"","NoName":"","place":{"city":"x"}}`, `query: must have at least 1 characters, not 0`},
		{"too many", `{` + rest + `,"tags":["hot","hot","hot","hot"]}`, `tags: must have at most 3 items, not 4`},
		{"pattern", `{` + rest + `,"day":"today"}`, `day: must match the regular expression ^[0-9-]+$, not "today"`},
		{"map values", `{` + rest + `,"scores":{"b":"x","a":true}}`, `scores.a: must be a number, not true; scores.b: must be a number, not "x"`},
		{"a long value is shortened", `{` + rest + `,"level":"` + strings.Repeat("ü", 100) + `"}`, `level: must be an integer, not "` + strings.Repeat("ü", 29) + `…`},
		{"a type's own decoding", `{` + rest + `,"code":"abc"}`, `a hex has two characters`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := f.Call(t.Context(), json.RawMessage(c.args))
			var e *tool.Error
			if !errors.As(err, &e) || e.Kind != tool.ErrorArguments || e.Tool != "f" {
				t.Fatalf("error is %v", err)
			}
			if got := e.Err.Error(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	if called {
		t.Error("the function was called")
	}
	var many strings.Builder
	many.WriteString(`{` + rest)
	for i := range 15 {
		many.WriteString(`,"x` + string(rune('a'+i)) + `":1`)
	}
	many.WriteString("}")
	_, err := f.Call(t.Context(), json.RawMessage(many.String()))
	if err == nil || !strings.HasSuffix(err.Error(), "; and more") {
		t.Errorf("15 problems give %v", err)
	}
}

func TestReferencesAndRulesThatOnlyTheLibraryKnows(t *testing.T) {
	f := tool.New("f", "", nop[map[string]any], tool.Schema(json.RawMessage(`{"type":"object",
		"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/n","default":{}}}}},
		"properties":{"list":{"$ref":"#/$defs/n"},"one":{"anyOf":[{"type":"string"},{"type":"integer"}]},"even":{"multipleOf":2}}}`)))
	for args, want := range map[string]string{
		`{"list":{"next":{"v":"x"}}}`: `list.next.v: must be an integer, not "x"`,
		`{"one":true}`:                "one: has none of the forms that are allowed here",
		`{"even":3}`:                  "multipleOf",
	} {
		_, err := f.Call(t.Context(), json.RawMessage(args))
		var e *tool.Error
		if !errors.As(err, &e) || e.Kind != tool.ErrorArguments || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v", args, err)
		}
	}
	if got := text(t, f, `{"list":{"v":1},"one":"a"}`); got != "" {
		t.Errorf("got %q", got)
	}
}

type holder struct{ Next []holder }

func TestMistakesInADefinitionDoNotPanic(t *testing.T) {
	for _, c := range []struct {
		name string
		tool tool.Tool
		want string
	}{
		{"no name", tool.New("", "", nop[place]), `tool "": the name is empty`},
		{"a name with a space", tool.New("a b", "", nop[place]), `tool "a b": the name has ' ', but may only have letters, digits, _ and -`},
		{"a long name", tool.New(strings.Repeat("x", 65), "", nop[place]), `tool "` + strings.Repeat("x", 65) + `": the name has 65 characters, 64 are allowed`},
		{"no function", tool.New[place, string]("f", "", nil), `tool "f": the function is nil`},
		{"a text as arguments", tool.New("f", "", nop[string]), `tool "f": the arguments must be a JSON object, which string isn't; use a struct or the option Schema`},
		{"a list as arguments", tool.New("f", "", nop[[]place]), `tool "f": the arguments must be a JSON object, which []tool_test.place isn't; use a struct or the option Schema`},
		{"anything as arguments", tool.New("f", "", nop[any]), `tool "f": the arguments must be a JSON object, which interface {} isn't; use a struct or the option Schema`},
		{"a type that holds itself", tool.New("f", "", nop[holder]), `tool "f": no schema can be inferred from tool_test.holder: field "Next": type tool_test.holder holds itself; give the schema with the option Schema`},
		{"a function as a field", tool.New("f", "", nop[struct{ F func() }]), `tool "f": no schema can be inferred from struct { F func() }: field "F": JSON doesn't decode into a func()`},
		{"an interface as a field", tool.New("f", "", nop[struct{ E error }]), `tool "f": no schema can be inferred from struct { E error }: field "E": JSON doesn't decode into an interface with methods: error`},
		{"an enum of wrong type", tool.New("f", "", nop[struct {
			N int `json:"n" enum:"1,x"`
		}]), `field "n": tag enum:"1,x": "x" isn't JSON`},
		{"a default outside of the enum", tool.New("f", "", nop[struct {
			S string `json:"s" enum:"a,b" default:"c"`
		}]), `the schema is wrong: `},
		{"a minimum of a text", tool.New("f", "", nop[struct {
			S string `json:"s" minimum:"1"`
		}]), `field "s": tag minimum:"1": the field isn't a number`},
		{"a broken pattern", tool.New("f", "", nop[struct {
			S string `json:"s" pattern:"("`
		}]), `field "s": tag pattern:"(": error parsing regexp`},
		{"a description like an assignment", tool.New("f", "", nop[struct {
			S string `json:"s" jsonschema:"description=x"`
		}]), `tag must not begin with 'WORD='`},
		{"an enum for an unknown field", tool.New("f", "", nop[place], tool.Enum("ctiy", "x")), `tool "f": unknown field "ctiy"; did you mean "city"?`},
		{"an enum without values", tool.New("f", "", nop[place], tool.Enum[string]("city")), `tool "f": field "city": an enum needs values`},
		{"a schema that isn't JSON", tool.New("f", "", nop[place], tool.Schema(json.RawMessage(`{`))), `tool "f": the schema isn't JSON`},
		{"a schema of a text", tool.New("f", "", nop[place], tool.Schema(json.RawMessage(`{"type":"string"}`))), `tool "f": the schema's root must have "type": "object", not "string"`},
		{"a nil schema", tool.New("f", "", nop[place], tool.Schema(nil)), `tool "f": the schema isn't JSON`},
		{"a schema that leads to itself", tool.New("f", "", nop[place], tool.Schema(json.RawMessage(`{"type":"object","allOf":[{"$ref":"#"}]}`))), `the schema is wrong: it leads to itself`},
		{"a schema with a remote reference", tool.New("f", "", nop[place], tool.Schema(json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"http://example.com/x"}}}`))), `the schema is wrong: `},
		{"a limit of nothing", tool.Limit(tool.New("f", "", nop[place]), 0), `tool "f": a limit of 0 bytes: it must be positive`},
		{"no time", tool.WithTimeout(tool.New("f", "", nop[place]), 0), `tool "f": a timeout of 0s: it must be positive`},
		{"nil in a wrapper", tool.Limit(nil, 5), `tool "": the tool is nil`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := tool.Check(c.tool)
			var d *tool.DefinitionError
			if !errors.As(err, &d) || len(d.Mistakes) != 1 {
				t.Fatalf("check gives %v", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if _, e := c.tool.Call(t.Context(), json.RawMessage(`{"city":"x"}`)); e == nil || e.Error() != err.Error() {
				t.Errorf("call gives %v, want what check gives", e)
			}
		})
	}
	err := tool.Check(tool.New[string, string]("a b", "", nil))
	if err == nil || strings.Count(err.Error(), "\n\t") != 3 {
		t.Errorf("three mistakes give %v", err)
	}
}

func TestWhatAFunctionReturnsBecomesParts(t *testing.T) {
	png := chat.Image{Source: chat.Source{Data: []byte{1}, MIME: "image/png"}}
	call := func(t *testing.T, tl tool.Tool, want tool.Result) {
		t.Helper()
		got, err := tl.Call(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	type page struct {
		Title string   `json:"title"`
		Links []string `json:"links"`
	}
	call(t, returns("a <b>\n"), tool.Text("a <b>\n"))
	call(t, returns(page{"<a> & b", nil}), tool.Text(`{"title":"<a> & b","links":null}`))
	call(t, returns(3), tool.Text("3"))
	call(t, returns(json.RawMessage(` { "a" : 1 } `)), tool.Text(`{"a":1}`))
	call(t, returns[chat.Part](png), tool.Result{Content: []chat.Part{png}})
	call(t, returns(png), tool.Result{Content: []chat.Part{png}})
	call(t, returns([]chat.Part{chat.Text{Text: "x"}, png}), tool.Result{Content: []chat.Part{chat.Text{Text: "x"}, png}})
	call(t, returns(tool.Result{Artifact: json.RawMessage(`{"rows":3}`)}), tool.Result{Artifact: json.RawMessage(`{"rows":3}`)})

	for _, c := range []struct {
		tool tool.Tool
		want string
	}{
		{returns(math.NaN()), "the result has no JSON"},
		{returns([]chat.Part{chat.Text{}, nil}), "part 1 of the result is nil"},
		{returns[chat.Part](chat.ToolCall{}), "part 0 of the result is a chat.ToolCall"},
		{returns(tool.Result{Artifact: json.RawMessage(`{`)}), "artifact isn't JSON"},
	} {
		_, err := c.tool.Call(t.Context(), nil)
		var e *tool.Error
		if !errors.As(err, &e) || e.Kind != tool.ErrorFailed || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want %s", err, c.want)
		}
	}
}

func returns[Out any](out Out) tool.Tool {
	return tool.New("f", "", func(context.Context, struct{}) (Out, error) { return out, nil })
}

func fails(err error) tool.Tool {
	return tool.New("f", "", func(context.Context, struct{}) (string, error) { return "lost", err })
}

func TestErrorsOfTheFunctionAreWrapped(t *testing.T) { // W5-04
	cause := errors.New("no network")
	for name, err := range map[string]error{"an error": cause, "a cancelled context": context.Canceled, "a deadline": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			r, got := fails(err).Call(t.Context(), nil)
			var e *tool.Error
			if !errors.As(got, &e) || e.Kind != tool.ErrorFailed || e.Tool != "f" || !errors.Is(got, err) {
				t.Errorf("error is %#v", got)
			}
			if r.Content != nil {
				t.Errorf("result is %v", r)
			}
		})
	}
	own := &tool.Error{Tool: "f", Kind: tool.ErrorArguments, Err: cause}
	if _, got := fails(own).Call(t.Context(), nil); got != own {
		t.Errorf("the tool's own error became %#v", got)
	}
}

type rude struct{}

func (rude) MarshalJSON() ([]byte, error) { panic("rude") }

func TestPanicsAreErrorsWithTheStack(t *testing.T) {
	for _, c := range []struct {
		tool  tool.Tool
		text  string
		stack string
	}{
		{tool.New("f", "", func(context.Context, struct{}) (string, error) { panicsHere(); return "", nil }), `tool "f": panic: index 5`, "panicsHere"},
		{returns(rude{}), `tool "f": panic: rude`, "MarshalJSON"},
		{tool.WithTimeout(user{}, time.Hour), `tool "user": panic: as users do`, "user"},
	} {
		_, err := c.tool.Call(t.Context(), nil)
		var e *tool.Error
		var p *tool.PanicError
		if !errors.As(err, &e) || e.Kind != tool.ErrorPanic || !errors.As(err, &p) {
			t.Fatalf("error is %v", err)
		}
		if err.Error() != c.text || !strings.Contains(string(p.Stack), c.stack) {
			t.Errorf("error is %v with stack\n%s", err, p.Stack)
		}
	}
	cause := errors.New("cause")
	if _, err := tool.New("f", "", func(context.Context, struct{}) (string, error) { panic(cause) }).Call(t.Context(), nil); !errors.Is(err, cause) {
		t.Errorf("error is %v", err)
	}
}

func panicsHere() { panic("index 5") }

// user is a tool of a user's own that panics.
type user struct{}

func (user) Spec() chat.ToolSpec { return chat.ToolSpec{Name: "user"} }

func (user) Call(context.Context, json.RawMessage) (tool.Result, error) { panic("as users do") }

func TestCheckSchemaWantsAnObject(t *testing.T) { // W5-03
	for _, c := range []struct{ schema, want string }{
		{`{"type":"object"}`, ""},
		{` {"type":"object","properties":{}}`, ""},
		{`{"type":"string"}`, `tool "calc": the schema's root must have "type": "object", not "string"`},
		{`{"type":["object"]}`, `tool "calc": the schema's root must have "type": "object", not ["object"]`},
		{`{}`, `tool "calc": the schema's root must have "type": "object", but has no type`},
		{`[]`, `tool "calc": the schema must be a JSON object, not []`},
		{`true`, `tool "calc": the schema must be a JSON object, not true`},
		{``, `tool "calc": the schema isn't JSON`},
		{`{"type":"object"`, `tool "calc": the schema isn't JSON: unexpected end of JSON input`},
	} {
		err := tool.CheckSchema("calc", json.RawMessage(c.schema))
		var d *tool.DefinitionError
		switch {
		case c.want == "":
			if err != nil {
				t.Errorf("%s gives %v", c.schema, err)
			}
		case !errors.As(err, &d) || err.Error() != c.want || d.Mistakes[0].Tool != "calc":
			t.Errorf("%s gives %v, want %s", c.schema, err, c.want)
		}
	}
}

func FuzzCall(f *testing.F) {
	for _, s := range []string{
		``, `null`, `{}`, `{"query":"q","place":{"city":"x"},"NoName":""}`, `{"query":1e999}`, `{"a":{"a":{"a":[]}}}`, `[[[`, `{"query":"\ud800"}`,
		`{"query":"q","place":{"city":"x"},"NoName":"","limit":1e400,"page":1e-400000000,"tags":["hot",null]}`,
	} {
		f.Add([]byte(s))
	}
	tl := tool.New("f", "", func(_ context.Context, in everything) (everything, error) { return in, nil })
	f.Fuzz(func(t *testing.T, args []byte) {
		r, err := tl.Call(t.Context(), args)
		if err != nil {
			var e *tool.Error
			if !errors.As(err, &e) || e.Kind != tool.ErrorArguments {
				t.Fatalf("%q gives %v", args, err)
			}
			return
		}
		var in everything
		if err := json.Unmarshal([]byte(chat.ToolResult{Content: r.Content}.Text()), &struct {
			*everything
			Code any `json:"code"`
		}{everything: &in}); err != nil {
			t.Fatal(err)
		}
		if in.Limit < 1 || in.Limit > 100 || in.Query == "" || in.Place.Country == "" || in.Level < 0 || in.Level > 3 || len(in.Tags) > 3 {
			t.Fatalf("%q passed as %+v", args, in)
		}
	})
}

func BenchmarkCall(b *testing.B) {
	tl := tool.New("f", "", func(_ context.Context, in place) (string, error) { return in.City, nil })
	args := json.RawMessage(`{"city":"Rome","country":"it"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tl.Call(b.Context(), args); err != nil {
			b.Fatal(err)
		}
	}
}

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

type other struct {
	Title string `json:"name"`
}

// A schema that requires a field twice is refused by providers, and what the
// hidden field's tags say is not about the other.
func TestOfTwoFieldsOfOneNameTheOuterCounts(t *testing.T) {
	type twins struct {
		base
		*other
	}
	err := tool.New("f", "f", func(context.Context, twins) (string, error) { return "", nil }).Check()
	if err == nil || !strings.Contains(err.Error(), `field "name": the fields Name and Title of tool_test.twins have this name`) {
		t.Errorf("got %v", err)
	}
	type in struct {
		base
		Title string `json:"name"`
	}
	g := tool.New("f", "f", func(_ context.Context, in in) (string, error) { return in.Title + in.Name, nil })
	if r, err := g.Call(t.Context(), json.RawMessage(`{"name":"z"}`)); err != nil || r.Text() != "z" {
		t.Errorf("%s: %v, %v", g.Spec().Schema, r, err)
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
