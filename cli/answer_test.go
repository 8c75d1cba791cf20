package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
)

func TestParseAnswer(t *testing.T) {
	for _, tt := range []struct{ schema, text, want string }{
		{`{"type":"boolean"}`, "Yes", `true`},
		{`{"type":"boolean"}`, "false", `false`},
		{`{"type":"boolean"}`, "maybe", ""},
		{`{"type":"string"}`, "no quotes: 3 = 4", `"no quotes: 3 = 4"`},
		{`{"type":"string"}`, `"quotes"`, `"quotes"`},
		{`{"type":"string"}`, "12", `"12"`},
		{`{"type":"string"}`, "", `""`},
		{`{"type":["null","string"]}`, "x", `"x"`},
		{`{"type":"integer"}`, "12", `12`},
		{`{"type":"integer"}`, "twelve", ""},
		{`{"type":"string","enum":["red","green"]}`, "GREEN", `"green"`},
		{`{"enum":[1,2]}`, "2", `2`},
		{`{"type":"object"}`, `{"a": 1}`, `{"a": 1}`},
		{``, `[1]`, `[1]`},
		{``, `bare`, ""},
		{`not a schema`, `true`, `true`},
	} {
		got, err := kindOf(json.RawMessage(tt.schema)).parse(tt.text)
		if string(got) != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q gives %s, %v; want %s", tt.schema, tt.text, got, err, tt.want)
		}
	}
}

func TestExampleAnswersFitTheirSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"boolean"}`: `true`, `{"type":"string"}`: `"text"`, `{"type":"number"}`: `1`, `{"type":"array"}`: `[]`, `{}`: `JSON`,
		`{"type":"object","properties":{"ok":{"type":"boolean"},"why":{"type":"string"}},"required":["ok"]}`: `{"ok":true}`,
	} {
		if got := kindOf(json.RawMessage(schema)).example; got != want {
			t.Errorf("%s: example %s, want %s", schema, got, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	text, number := json.RawMessage(`{"type":"string"}`), json.RawMessage(`{"type":"number"}`)
	two := []question{{ID: "1", Key: "note", Schema: text}, {ID: "2", Key: "price", Schema: number}}
	same := []question{{ID: "1", Key: "k", Schema: text}, {ID: "2", Key: "k", Schema: number}}
	for _, tt := range []struct {
		given []string
		open  []question
		want  any
	}{
		{[]string{"true"}, nil, json.RawMessage("true")},
		{[]string{"a=b"}, two[:1], json.RawMessage(`"a=b"`)},
		{[]string{"note=a=b", "2=3"}, two, graph.Answers{"1": json.RawMessage(`"a=b"`), "2": json.RawMessage("3")}},
		{[]string{"1=x", "2=3"}, same, graph.Answers{"1": json.RawMessage(`"x"`), "2": json.RawMessage("3")}},
		{[]string{"k=3"}, same, graph.Answers{"k": json.RawMessage("3")}}, // refused by the engine, which names the IDs
		{[]string{"x"}, two, nil},
		{[]string{"price=x"}, two, nil},
	} {
		got, err := answers(tt.given, tt.open)
		var usage *usageError
		if tt.want == nil {
			if !errors.As(err, &usage) {
				t.Errorf("%q: %v, %v; want a usage error", tt.given, got, err)
			}
		} else if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: %v, %v; want %v", tt.given, got, err, tt.want)
		}
	}
}

func TestQuote(t *testing.T) {
	for s, want := range map[string]string{"t-1": "t-1", "": "''", "it's": `'it'\''s'`, "a b": "'a b'", "$HOME": "'$HOME'"} {
		if got := quote(s); got != want {
			t.Errorf("quote(%q) = %s, want %s", s, got, want)
		}
	}
}

func TestRender(t *testing.T) {
	var b bytes.Buffer
	r := renderer{w: &b, width: 60}
	r.value(json.RawMessage(`{"z":1e3,"name":"Ada","none":null,"empty":[],"map":{},"text":"two\nlines","list":["a","b"],
		"deep":{"x":[{"y":true,"z":"s"},[1,2]]},"esc":"\u001b[31m"}`), "")
	want := "z      1e3\nname   Ada\nnone   null\nempty  []\nmap    {}\ntext\n  two\n  lines\nlist   a, b\ndeep\n  x\n    - y  true\n      z  s\n    - 1, 2\nesc    \ufffd[31m\n"
	if b.String() != want || r.cut {
		t.Errorf("rendered, cut %v:\n%s\nwant:\n%s", r.cut, b.String(), want)
	}
}

func TestOpenURL(t *testing.T) {
	dir := t.TempDir()
	for _, url := range []string{
		"memory", "sqlite:" + filepath.Join(dir, "a.x"), "sqlite://" + filepath.Join(dir, "b.x"), filepath.Join(dir, "c.db"),
		"file:" + filepath.Join(dir, "d"), filepath.Join(dir, "d"),
	} {
		s, err := OpenURL(t.Context(), url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		s.Close()
	}
	for _, url := range []string{"", "sqlite:", "postgres:x", "nothing"} {
		if s, err := OpenURL(t.Context(), url); Code(err) != ExitUsage {
			t.Errorf("%q: %v, %v; want a usage error", url, s, err)
		}
	}
}

func TestBadRegistration(t *testing.T) {
	g := graph.New[struct{ N int }]("g").AddNode("n", nil)
	if _, err := g.Compile(); err == nil {
		t.Fatal("a node without a function compiles")
	}
	var out, errs bytes.Buffer
	if code := Run(t.Context(), []string{"graphs"}, nil, &out, &errs, Graph[int](nil)); code != ExitError || !bytes.Contains(errs.Bytes(), []byte("no graph")) {
		t.Errorf("code %d, %s", code, errs.String())
	}
	if c := console.New(nil, &out, &errs); c.CanAsk() {
		t.Error("no input is taken for a terminal")
	}
}
