package model_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

type city struct {
	Name   string `json:"name" jsonschema:"the name in English"`
	People int    `json:"people"`
	Mayor  string `json:"mayor,omitempty"`
}

func TestGenerateReadsTheFormOfAType(t *testing.T) {
	for name, answer := range map[string]string{
		"plain":           `{"name":"Oslo","people":700000}`,
		"space":           "\n {\"name\":\"Oslo\",\n\"people\":700000} \n",
		"fence":           "```json\n{\"name\":\"Oslo\",\"people\":700000}\n```",
		"fence, no name":  "```\n{\"name\":\"Oslo\",\"people\":700000}\n```",
		"fence, one line": "```json {\"name\":\"Oslo\",\"people\":700000}```",
		"fence, unclosed": "```json\n{\"name\":\"Oslo\",\"people\":700000}",
		"words around":    "Here you are:\n```json\n{\"name\":\"Oslo\",\"people\":700000}\n```\nAnd in Go:\n```go\nfunc main() {}\n```\n",
		"another order":   `{"people":700000, "name":"Oslo"}`,
	} {
		s := scripted.New(scripted.Text(answer))
		req := ask("?")
		got, resp, err := model.Generate[city](t.Context(), s, req)
		if err != nil || got != (city{Name: "Oslo", People: 700000}) {
			t.Errorf("%s: %+v, error %v", name, got, err)
			continue
		}
		if resp.Message.Text() != answer || req.Output != nil {
			t.Errorf("%s: response %+v, request %+v", name, resp, req)
		}
		const want = `{"type":"object","properties":{"name":{"type":"string","description":"the name in English"},"people":{"type":"integer"},"mayor":{"type":"string"}},"required":["name","people"],"additionalProperties":false}`
		if got := string(s.Last().Output.Schema); got != want {
			t.Errorf("schema %s", got)
		}
	}
}

func TestGenerateReadsIntoAPointer(t *testing.T) {
	s := scripted.New(scripted.Text(`{"name":"Oslo","people":1}`))
	if got, _, err := model.Generate[*city](t.Context(), s, ask("?")); err != nil || got.Name != "Oslo" {
		t.Errorf("%v, error %v", got, err)
	}
}

func TestAnOutputOfItsOwnReadsAsItIsAskedFor(t *testing.T) {
	o, err := model.OutputOf[[]int]()
	if err != nil {
		t.Fatal(err)
	}
	got, err := model.ReadOutput[[]int](o, chat.Assistant(`{"value":[1,2]}`))
	if err != nil || len(got) != 2 {
		t.Errorf("%v, error %v", got, err)
	}
	raw, err := model.ReadOutput[json.RawMessage](o, chat.Assistant(`{"value":[1]}`))
	if err != nil || string(raw) != `{"value":[1]}` {
		t.Errorf("%s, error %v", raw, err)
	}
}

func TestAFenceInsideOfAStringIsNoEnd(t *testing.T) {
	type code struct {
		Text string `json:"text"`
	}
	got, _, err := model.Generate[code](t.Context(), scripted.New(scripted.Text("```json\n{\"text\":\"```go\\nx\\n```\"}\n```")), ask("?"))
	if err != nil || got.Text != "```go\nx\n```" {
		t.Errorf("%+v, error %v", got, err)
	}
}

func TestGenerateWrapsWhatIsNoObject(t *testing.T) {
	s := scripted.New(scripted.Text(`{"value":[1,2]}`), scripted.Text(`{"value":"x"}`), scripted.Text(`{"value":{"x":[1]}}`), scripted.Text(`{"a":1}`))
	if got, _, err := model.Generate[[]int](t.Context(), s, ask("?")); err != nil || len(got) != 2 {
		t.Errorf("%v, error %v", got, err)
	}
	if want := `{"type":"object","properties":{"value":{"type":"array","items":{"type":"integer"}}},"required":["value"],"additionalProperties":false}`; string(s.Last().Output.Schema) != want {
		t.Errorf("schema %s", s.Last().Output.Schema)
	}
	if got, _, err := model.Generate[string](t.Context(), s, ask("?")); err != nil || got != "x" {
		t.Errorf("%v, error %v", got, err)
	}
	if got, _, err := model.Generate[json.RawMessage](t.Context(), s, ask("?")); err != nil || string(got) != `{"x":[1]}` {
		t.Errorf("%s, error %v", got, err)
	}
	if got, _, err := model.Generate[map[string]int](t.Context(), s, ask("?")); err != nil || got["a"] != 1 {
		t.Errorf("%v, error %v", got, err)
	}
}

type even struct{ N int }

func (e *even) Validate() error {
	if e.N%2 != 0 {
		return errors.New("N is odd")
	}
	return nil
}

type odd struct{ N int }

func (o odd) Validate() error { return errors.New("never") }

func TestAnAnswerOfAnotherFormIsAnError(t *testing.T) {
	ctx := t.Context()
	cities := func(r scripted.Reply) (*model.Response, error) {
		_, resp, err := model.Generate[city](ctx, scripted.New(r), ask("?"))
		return resp, err
	}
	for _, tt := range []struct {
		name  string
		reply scripted.Reply
		want  string
		is    error
	}{
		{"prose", scripted.Text("Oslo, I think"), "it is not JSON: invalid character 'O'", nil},
		{"nothing", scripted.Text(""), "it has no text", nil},
		{"a field is missing", scripted.Text(`{"name":"Oslo"}`), "it doesn't follow the schema: ", nil},
		{"a field too many", scripted.Text(`{"name":"Oslo","people":1,"x":1}`), "it doesn't follow the schema: ", nil},
		{"another type", scripted.Text(`{"name":"Oslo","people":"many"}`), "it doesn't follow the schema: ", nil},
		{"too large", scripted.Text(`{"name":"Oslo","people":1e30}`), "it can't be read: ", nil},
		{"calls", scripted.Message(chat.Assistant(`{"name":"Oslo","people":1}`, chat.ToolCall{Name: "f"})), "the model calls tools instead", model.ErrToolCalls},
		{"cut", scripted.Text(`{"name":"Os`).Finish(chat.FinishLength), "the answer was cut at the limit of tokens", model.ErrTruncated},
		{"filtered", scripted.Text("I can't").Finish(chat.FinishFilter), "the provider refused the content", model.ErrFiltered},
	} {
		resp, err := cities(tt.reply)
		var e *model.FormatError
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "the answer is not in the form asked for: "+tt.want) {
			t.Errorf("%s: error %v", tt.name, err)
			continue
		}
		if resp == nil || e.Text != resp.Message.Text() || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %+v with response %+v", tt.name, e, resp)
		}
	}
	if _, _, err := model.Generate[even](ctx, scripted.New(scripted.Text(`{"N":1}`)), ask("?")); err == nil || !strings.HasSuffix(err.Error(), "N is odd") {
		t.Errorf("error %v", err)
	}
	if _, _, err := model.Generate[odd](ctx, scripted.New(scripted.Text(`{"N":1}`)), ask("?")); err == nil || !strings.HasSuffix(err.Error(), "never") {
		t.Errorf("error %v", err)
	}
}

func TestRepairTellsTheModelWhatIsWrong(t *testing.T) {
	s := scripted.New(scripted.Text(`{"N":1}`), scripted.Text(""), scripted.Text(`{"N":2}`))
	req := ask("?")
	got, _, err := model.Generate[even](t.Context(), s, req, model.Repair(2))
	if err != nil || got.N != 2 || len(req.Messages) != 1 {
		t.Fatalf("%+v, error %v", got, err)
	}
	want := []string{"?", `{"N":1}`, "This answer can't be used: N is odd. Answer again, with JSON that follows the schema and nothing else.",
		"This answer can't be used: it has no text. Answer again, with JSON that follows the schema and nothing else."}
	last := s.Last()
	if len(last.Messages) != len(want) || last.Output == nil {
		t.Fatalf("request %+v", last)
	}
	for i, m := range last.Messages {
		if m.Text() != want[i] {
			t.Errorf("message %d: %q", i, m.Text())
		}
	}
}

func TestRepairEnds(t *testing.T) {
	for _, tt := range []struct {
		reply scripted.Reply
		calls int
	}{
		{scripted.Text("no").Repeat(), 4},
		{scripted.Call("f", "{}").Repeat(), 1},
		{scripted.Text("{").Finish(chat.FinishLength).Repeat(), 1},
		{scripted.Text("{").Finish(chat.FinishFilter).Repeat(), 1},
		{scripted.Error(failure(model.ErrorServer)).Repeat(), 1},
	} {
		s := scripted.New(tt.reply)
		if _, _, err := model.Generate[city](t.Context(), s, ask("?"), model.Repair(3)); err == nil {
			t.Error("no error")
		}
		if n := len(s.Requests()); n != tt.calls {
			t.Errorf("%d calls, want %d", n, tt.calls)
		}
	}
}

func TestAnOutputThatIsGivenIsKept(t *testing.T) {
	s := scripted.New(scripted.Text(`{"name":"Oslo","people":1}`).Repeat())
	req := ask("?")
	req.Output = &model.Schema{Name: "town", Description: "a town"}
	if _, _, err := model.Generate[city](t.Context(), s, req); err != nil {
		t.Fatal(err)
	}
	if o := s.Last().Output; o.Name != "town" || o.Description != "a town" || len(o.Schema) == 0 || req.Output.Schema != nil {
		t.Errorf("output %+v", o)
	}
	req.Output.Schema = json.RawMessage(`{"type":"object","properties":{"name":{"enum":["Rome"]}}}`)
	if _, _, err := model.Generate[city](t.Context(), s, req); err == nil || !strings.Contains(err.Error(), "doesn't follow the schema") {
		t.Errorf("error %v", err)
	}
}

func TestATypeWithoutSchemaIsAnError(t *testing.T) {
	type tree struct{ Children []*tree }
	s := scripted.New(scripted.Text(`{"Children":[]}`))
	if _, _, err := model.Generate[tree](t.Context(), s, ask("?")); err == nil || !strings.HasPrefix(err.Error(), "no JSON Schema for model_test.tree: ") {
		t.Errorf("error %v", err)
	}
	req := ask("?")
	for _, schema := range []string{"{", `{"$ref":"nowhere"}`} {
		req.Output = &model.Schema{Schema: json.RawMessage(schema)}
		if _, _, err := model.Generate[tree](t.Context(), s, req); err == nil || s.Last() != nil {
			t.Errorf("error %v", err)
		}
	}
	req.Output = &model.Schema{Schema: json.RawMessage(`{"type":"object"}`)}
	if _, _, err := model.Generate[tree](t.Context(), s, req); err != nil {
		t.Error(err)
	}
}
