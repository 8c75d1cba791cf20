package openai_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func ptr[T any](v T) *T { return &v }

var (
	weather = chat.ToolSpec{
		Name: "get_weather", Description: "The weather of a city.",
		Schema: json.RawMessage(`{"type":"object","properties":{"unit":{"type":"string"},"city":{"type":"string"}},"required":["city"]}`),
	}
	now   = chat.ToolSpec{Name: "now", Strict: true}
	ping  = chat.ToolSpec{Name: "ping"}
	paris = chat.ToolCall{ID: "call_1", Name: "get_weather", Args: `{"city":"Paris"}`}
	rome  = chat.ToolCall{ID: "call_2", Name: "get_weather", Args: `{"city":"Rome"}`}
	clock = chat.ToolCall{ID: "call_3", Name: "now"}
	png   = chat.Source{Data: []byte("png"), MIME: "image/png"}
)

func userParts(parts ...chat.Part) chat.Message {
	return chat.Message{Role: chat.RoleUser, Parts: parts}
}

// TestRequestsAreSentAs compares what arrives at a server with testdata/request.
func TestRequestsAreSentAs(t *testing.T) { // W5-25
	for _, tt := range []struct {
		name   string
		req    *model.Request
		opts   []openai.Option
		stream bool
	}{
		{name: "plain", req: ask(chat.User("Hello <you> & \"all\" – 你好"))},
		{name: "roles_and_names", req: ask(
			chat.System("Be brief."),
			chat.Message{Role: chat.RoleUser, Name: "ann", Parts: []chat.Part{chat.Text{Text: "Hi"}}},
			chat.Message{Role: chat.RoleAssistant, Name: "bot", ID: "m1", Model: "other", Metadata: map[string]string{"k": "v"}, Parts: []chat.Part{
				chat.Reasoning{Text: "A greeting.", Signature: "sig"}, chat.Text{Text: "Hello", Signature: "sig"}, chat.Text{Text: "!"},
			}},
			chat.System("Be briefer."),
			chat.Message{Role: chat.RoleSystem, Parts: []chat.Part{chat.Text{Text: "a"}, chat.Text{Text: "b"}}},
			chat.Message{Role: chat.RoleUser},
			chat.Message{Role: chat.RoleAssistant},
		)},
		{name: "tools", req: &model.Request{
			Messages: []chat.Message{chat.User("Weather?")},
			Tools:    []chat.ToolSpec{weather, now, ping},
			Config:   model.Config{ParallelTools: ptr(false)},
		}},
		{name: "tool_choice_none", req: &model.Request{Messages: []chat.Message{chat.User("Hi")}, Tools: []chat.ToolSpec{now}, ToolChoice: model.ToolNone}},
		{name: "tool_choice_required", req: &model.Request{Messages: []chat.Message{chat.User("Hi")}, Tools: []chat.ToolSpec{now}, ToolChoice: model.ToolRequired}},
		{name: "tool_choice_one", req: &model.Request{Messages: []chat.Message{chat.User("Hi")}, Tools: []chat.ToolSpec{weather, now}, ToolChoice: "now"}},
		{name: "tool_choice_none_without_tools", req: &model.Request{
			Messages: []chat.Message{chat.User("Hi")}, ToolChoice: model.ToolNone, Config: model.Config{ParallelTools: ptr(true)},
		}},
		{name: "tool_messages", req: ask(
			chat.User("Weather in Paris?"),
			chat.Assistant("", paris),
			chat.ResultText(paris, "sunny"),
			chat.AI("It is sunny."),
			chat.User("And the time?"),
			chat.AI("Let me see.", clock),
			chat.Message{Role: chat.RoleTool, Parts: []chat.Part{chat.ToolResult{CallID: "call_3", IsError: true, Artifact: json.RawMessage(`{"a":1}`), Content: []chat.Part{
				chat.Text{Text: "no clock"}, chat.Text{Text: "try later"},
			}}}},
		)},
		{name: "parallel_calls", req: ask(
			chat.User("Weather in Paris and Rome?"),
			chat.AI("", paris, rome),
			chat.ResultText(paris, "sunny"),
			chat.Result(rome),
		)},
		{name: "tool_media", opts: []openai.Option{openai.ToolMedia()}, req: ask(
			chat.User("Screenshots of both?"),
			chat.AI("", paris, rome),
			chat.Result(paris, chat.Image{Source: png}),
			chat.Result(rome, chat.Text{Text: "Here:"}, chat.Image{Source: png}, chat.File{Source: chat.Source{FileID: "file-1"}}),
			chat.User("And?"),
		)},
		{name: "media", req: ask(userParts(
			chat.Text{Text: "What is this?"},
			chat.Image{Source: chat.Source{URL: "https://example.com/cat.png"}, Detail: "low"},
			chat.Image{Source: png},
			chat.Image{Source: chat.Source{URL: "data:image/gif;base64,Z2lm"}},
			chat.Audio{Source: chat.Source{Data: []byte("wav"), MIME: "audio/x-wav"}},
			chat.Audio{Source: chat.Source{URL: "data:audio/mpeg;base64,bXAz"}},
			chat.Audio{Source: chat.Source{Data: []byte("flac"), MIME: "audio/flac; rate=8000"}},
			chat.File{Source: chat.Source{Data: []byte("%PDF"), MIME: "application/pdf"}, Name: "a.pdf"},
			chat.File{Source: chat.Source{URL: "data:text/plain;base64,YQ=="}},
			chat.File{Source: chat.Source{FileID: "file-1"}},
		))},
		{name: "output_strict", req: &model.Request{Messages: []chat.Message{chat.User("Hi")}, Output: &model.Schema{
			Name: "person", Description: "Somebody.",
			Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":["integer","null"]}},"required":["name","age"],"additionalProperties":false}`),
		}}},
		{name: "output_as_a_hint", req: &model.Request{Messages: []chat.Message{chat.User("Hi")}, Output: &model.Schema{
			Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`),
		}}},
		{name: "config", req: &model.Request{Messages: []chat.Message{chat.User("Hi")}, Config: model.Config{
			Model: "another", Temperature: ptr(0.0), TopP: ptr(0.9), FrequencyPenalty: ptr(-0.5), PresencePenalty: ptr(1.5),
			MaxTokens: 100, Stop: []string{"END", "\n"}, Seed: ptr(int64(7)), Reasoning: "low",
			Extra: map[string]any{"top_k": 40, "user": nil, "provider.order": []string{"a"}, "options": map[string]any{"num_ctx": 8192}},
		}}},
		{name: "defaults", req: &model.Request{Messages: []chat.Message{chat.User("Hi")}, Config: model.Config{
			Temperature: ptr(0.0), Stop: []string{}, Extra: map[string]any{"top_k": 1},
		}}, opts: []openai.Option{openai.Defaults(model.Config{
			Model: "default", Temperature: ptr(1.0), MaxTokens: 5, Stop: []string{"x"}, Extra: map[string]any{"top_k": 40, "min_p": 0.1},
		})}},
		{name: "max_tokens", req: &model.Request{Messages: []chat.Message{chat.User("Hi")}, Config: model.Config{MaxTokens: 9}}, opts: []openai.Option{openai.MaxTokensField()}},
		{name: "stream", req: ask(chat.User("Hi")), stream: true},
		{name: "stream_without_usage", req: ask(chat.User("Hi")), stream: true, opts: []openai.Option{openai.NoStreamUsage()}},
		{name: "stream_with_own_options", stream: true, req: &model.Request{
			Messages: []chat.Message{chat.User("Hi")},
			Config:   model.Config{Extra: map[string]any{"stream_options": map[string]any{"include_obfuscation": false}}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := clone(t, tt.req)
			s := serve(t, replies(200, hello))
			if tt.stream {
				stream(t, s.model(tt.opts...), tt.req)
			} else {
				generate(t, s.model(tt.opts...), tt.req)
			}
			if after := clone(t, tt.req); !bytes.Equal(before, after) {
				t.Errorf("the request was altered:\n%s\n%s", before, after)
			}
			r := s.last(t)
			if r.path != "POST /v1/chat/completions" {
				t.Errorf("it was sent to %s", r.path)
			}
			golden(t, filepath.Join("testdata", "request", tt.name+".json"), r.body)
		})
	}
}

func clone(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// golden compares JSON with a file, as values.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		var b bytes.Buffer
		if err := json.Indent(&b, got, "", "  "); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A model reads the properties of a schema in their order.
func TestSchemasKeepTheOrderOfTheirProperties(t *testing.T) {
	s := serve(t, replies(200, hello))
	generate(t, s.model(), &model.Request{
		Messages: []chat.Message{chat.User("Hi")},
		Tools:    []chat.ToolSpec{weather},
		Output:   &model.Schema{Schema: json.RawMessage(`{"type":"object","properties":{"why":{"type":"string"},"verdict":{"type":"string"}}}`)},
	})
	for _, pair := range [][2]string{{`"unit"`, `"city"`}, {`"why"`, `"verdict"`}} {
		body := string(s.last(t).body)
		if i, j := strings.Index(body, pair[0]), strings.Index(body, pair[1]); i < 0 || i > j {
			t.Errorf("%s does not come before %s in %s", pair[0], pair[1], body)
		}
	}
}

func TestStrictOutputIsAskedForWhenTheSchemaAllowsIt(t *testing.T) {
	for _, tt := range []struct {
		name, schema string
		strict       string
	}{
		{"all closed and required", `{"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#/$defs/b"}}},"required":["a"],"additionalProperties":false,"$defs":{"b":{"type":"object","properties":{},"additionalProperties":false}}}`, "true"},
		{"a choice and a known format", `{"type":"object","properties":{"a":{"anyOf":[{"type":"null"},{"type":"string","format":"date"}]},"b":{"enum":[1,2]}},"required":["b","a"],"additionalProperties":false}`, "true"},
		{"an open object", `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, "false"},
		{"an optional property", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, "false"},
		{"an open object within", `{"type":"object","properties":{"a":{"type":"object"}},"required":["a"],"additionalProperties":false}`, "false"},
		{"an open object in a choice", `{"type":"object","properties":{"a":{"anyOf":[{"type":"object"}]}},"required":["a"],"additionalProperties":false}`, "false"},
		{"a property of any type", `{"type":"object","properties":{"a":true},"required":["a"],"additionalProperties":false}`, "false"},
		{"a property without a type", `{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}`, "false"},
		{"an unknown keyword", `{"type":"object","properties":{"a":{"type":"string","default":"x"}},"required":["a"],"additionalProperties":false}`, "false"},
		{"an unknown format", `{"type":"object","properties":{"a":{"type":"string","format":"color"}},"required":["a"],"additionalProperties":false}`, "false"},
		{"no object at the root", `{"type":"array","items":{"type":"string"}}`, "false"},
		{"items of any type", `{"type":"object","properties":{"a":{"type":"array","items":{}}},"required":["a"],"additionalProperties":false}`, "false"},
		{"an open object among the definitions", `{"type":"object","properties":{},"additionalProperties":false,"$defs":{"b":{"type":"object"}}}`, "false"},
		{"a choice at the root", `{"anyOf":[{"type":"object","properties":{},"additionalProperties":false}]}`, "false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, replies(200, hello))
			generate(t, s.model(), &model.Request{Messages: []chat.Message{chat.User("Hi")}, Output: &model.Schema{Schema: json.RawMessage(tt.schema)}})
			var format struct {
				JSONSchema struct{ Strict json.RawMessage } `json:"json_schema"`
			}
			if err := json.Unmarshal([]byte(s.field(t, "response_format")), &format); err != nil {
				t.Fatal(err)
			}
			if got := string(format.JSONSchema.Strict); got != tt.strict {
				t.Errorf("strict is %s, want %s", got, tt.strict)
			}
		})
	}
}

func TestWhatTheAPIDoesNotTakeIsAnError(t *testing.T) {
	config := func(c model.Config) *model.Request {
		r := ask()
		r.Config = c
		return r
	}
	extra := func(name string, v any) *model.Request { return config(model.Config{Extra: map[string]any{name: v}}) }
	image := chat.Image{Source: png}
	for _, tt := range []struct {
		name string
		req  *model.Request
		says string
	}{
		{"TopK", config(model.Config{TopK: ptr(1)}), "TopK; a server that does takes it as Extra"},
		{"a count of reasoning tokens", config(model.Config{ReasoningTokens: 1}), "ReasoningTokens"},
		{"a number that JSON doesn't have", config(model.Config{Temperature: ptr(nan())}), "NaN"},
		{"an extra field that JSON doesn't have", extra("x", nan()), `"x" has no JSON`},
		{"an extra field in place of the messages", extra("messages", 1), `"messages" is given by Request.Messages`},
		{"an extra field in place of a method", extra("stream", true), `"stream" is given by the method Stream`},
		{"an extra field in place of a setting", config(model.Config{Seed: ptr(int64(1)), Extra: map[string]any{"seed": 2}}), `"seed" is given by Config.Seed`},
		{"several answers", extra("n", 2), "several answers"},
		{"an answer in sound", extra("audio", map[string]any{}), "sound"},
		{"an image of the system", ask(chat.Message{Role: chat.RoleSystem, Parts: []chat.Part{image}}), `message 0, of role "system": the API takes nothing but text there, not an image`},
		{"a tool call of the user", ask(userParts(paris)), "a tool call"},
		{"a tool result of the user", ask(userParts(chat.ToolResult{})), "a tool result"},
		{"reasoning of the user", ask(userParts(chat.Text{}, chat.Reasoning{})), "reasoning"},
		{"a tool call in a tool result", ask(chat.Result(paris, rome)), "a tool call"},
		{"a tool's message that is text", ask(chat.Message{Role: chat.RoleTool, Parts: []chat.Part{chat.Text{}}}), "a text can't stand beside a tool's result"},
		{"a tool's message without a result", ask(chat.Message{Role: chat.RoleTool}), "no tool result"},
		{"an unknown role", ask(chat.Message{Role: "narrator"}), `"narrator": the roles are`},
		{"an image by its file ID", ask(userParts(chat.Image{Source: chat.Source{FileID: "f"}})), "an image is given by a file ID"},
		{"an image without a type", ask(userParts(chat.Image{Source: chat.Source{Data: []byte("x")}})), "without a MIME type"},
		{"an image that is nowhere", ask(userParts(chat.Image{})), "it has 0"},
		{"an image that is at two places", ask(userParts(chat.Image{Source: chat.Source{Data: []byte("x"), MIME: "image/png", URL: "http://x"}})), "it has 2"},
		{"a sound by URL", ask(userParts(chat.Audio{Source: chat.Source{URL: "http://x"}})), "a sound is not given by data"},
		{"a file by URL", ask(userParts(chat.File{Source: chat.Source{URL: "http://x"}})), "a file is given by a URL"},
		{"a tool whose schema is no object", &model.Request{Tools: []chat.ToolSpec{{Name: "t", Schema: json.RawMessage(`[1]`)}}}, `the schema of tool "t"`},
		{"an output without a schema", &model.Request{Output: &model.Schema{}}, "the schema of the output"},
		{"a required tool where there is none", &model.Request{ToolChoice: model.ToolRequired}, "without tools"},
		{"a choice that is no tool", &model.Request{Tools: []chat.ToolSpec{weather, now}, ToolChoice: "weather"}, `"weather" is none of the tools get_weather, now`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, replies(200, hello))
			failsAs(t, generateError(t, s.model(), tt.req), model.ErrorInvalid, tt.says)
			if n := len(s.all()); n != 0 {
				t.Errorf("it was sent")
			}
		})
	}
	failsAs(t, generateError(t, openai.New("", openai.BaseURL("http://localhost")), ask()), model.ErrorInvalid, "no name")
}

func nan() float64 {
	var zero float64
	return zero / zero
}

// A conversation may have begun with another provider, and an agent may be named
// as people are: the API refuses IDs of more than 40 bytes and some characters.
func TestWhatOthersNamedIsSentAsTheAPITakesIt(t *testing.T) {
	s := serve(t, replies(200, hello))
	long := "call_msg_1530e5f0-44b2-4db6-b713-84dfcf0e1b5f_0"
	a, b := chat.ToolCall{ID: long, Name: "f", Args: "{}"}, chat.ToolCall{ID: long + "1", Name: "f", Args: "{}"}
	said := chat.Assistant("", a, b)
	said.Name = "Ann <x>\\/ Lee|Müller"
	_, err := s.model().Generate(t.Context(), &model.Request{Messages: []chat.Message{chat.User("go"), said, chat.ResultText(b, "2"), chat.ResultText(a, "1")}})
	if err != nil {
		t.Fatal(err)
	}
	var sent []struct {
		Name       string
		ToolCallID string                `json:"tool_call_id"`
		ToolCalls  []struct{ ID string } `json:"tool_calls"`
	}
	if err := json.Unmarshal([]byte(s.field(t, "messages")), &sent); err != nil {
		t.Fatal(err)
	}
	if sent[1].Name != "Ann__x____Lee_Müller" {
		t.Errorf("the name is %q", sent[1].Name)
	}
	ids := sent[1].ToolCalls
	if len(ids[0].ID) > 40 || ids[0].ID == ids[1].ID || sent[2].ToolCallID != ids[1].ID || sent[3].ToolCallID != ids[0].ID {
		t.Errorf("sent %+v", sent)
	}
}
