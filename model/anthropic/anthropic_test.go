package anthropic_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
)

var update = flag.Bool("update", false, "rewrite the requests in testdata")

const key = "sk-secret"

var _ model.Model = (*anthropic.Model)(nil)

// serve returns a model whose provider is the handler.
func serve(t *testing.T, h http.HandlerFunc, opts ...anthropic.Option) *anthropic.Model {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return anthropic.New("claude-test", append([]anthropic.Option{anthropic.APIKey(key), anthropic.BaseURL(s.URL), anthropic.HTTPClient(s.Client())}, opts...)...)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// reply answers with a body.
func reply(status int, contentType string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		w.Write(body)
	}
}

func hello() *model.Request { return &model.Request{Messages: []chat.Message{chat.User("Hello")}} }

func ptr[T any](v T) *T { return &v }

var requests = []struct {
	name     string
	defaults model.Config
	req      model.Request
}{
	{name: "plain", req: model.Request{Messages: []chat.Message{chat.User("Hello")}}},
	{name: "settings", req: model.Request{
		Messages: []chat.Message{chat.User("Hello")},
		Config: model.Config{Model: "claude-other", Temperature: ptr(0.0), TopP: ptr(0.9), TopK: ptr(40), MaxTokens: 100,
			Stop: []string{"END"}, Reasoning: "high", Extra: map[string]any{"metadata": map[string]string{"user_id": "u.1"}, "a.b": 1, "thinking": map[string]any{"type": "adaptive", "display": "summarized"}}},
	}},
	{name: "defaults", defaults: model.Config{Temperature: ptr(0.5), MaxTokens: 7, Stop: []string{"a"}, Extra: map[string]any{"service_tier": "auto", "speed": "fast"}},
		req: model.Request{Messages: []chat.Message{chat.User("Hello")}, Config: model.Config{MaxTokens: 8, Extra: map[string]any{"speed": "standard"}}}},
	{name: "cache", req: model.Request{
		Messages: []chat.Message{chat.System("Be brief."), chat.User("Hello"),
			{Role: chat.RoleAssistant, Parts: []chat.Part{
				chat.Text{Text: "Cited."}, chat.Citation{Provider: "anthropic", Data: `{"type":"page_location"}`}, chat.Native{Provider: "anthropic", Type: "server_tool_use", Data: `{"type":"server_tool_use","id":"s","name":"web_search","input":{}}`}, chat.Reasoning{Text: "Hm.", Signature: "c2ln"}}},
			{Role: chat.RoleUser, Parts: []chat.Part{chat.Text{Text: "A long text."}, chat.Text{Text: "A question."}}}},
		Tools: []chat.ToolSpec{{Name: "now"}, {Name: "then"}},
		Cache: []model.CachePoint{{Tools: true, TTL: time.Hour}, {Message: 3, Parts: 1}, {Message: 2, TTL: 5 * time.Minute}, {Message: 2, Parts: 1}},
	}},
	{name: "reasoning_none", req: model.Request{Messages: []chat.Message{chat.User("Hello")}, Config: model.Config{Reasoning: "none"}}},
	{name: "reasoning_tokens", req: model.Request{Messages: []chat.Message{chat.User("Hello")}, Config: model.Config{Model: "claude-opus-4-6", Reasoning: "low", ReasoningTokens: 2048}}},
	{name: "output", req: model.Request{Messages: []chat.Message{chat.User("Hello")},
		Output: &model.Schema{Name: "city", Description: "A city.", Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"country":{"type":"string"}},"required":["name","country"],"additionalProperties":false}`)}}},
	{name: "tools", req: model.Request{
		Messages: []chat.Message{chat.User("Hello")},
		Tools: []chat.ToolSpec{
			{Name: "weather", Description: "Tells the weather.", Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`), Strict: true},
			{Name: "now"},
		},
		ToolChoice: "weather", Config: model.Config{ParallelTools: ptr(false)},
	}},
	{name: "tools_required", req: model.Request{Messages: []chat.Message{chat.User("Hello")}, Tools: []chat.ToolSpec{{Name: "now"}}, ToolChoice: model.ToolRequired}},
	{name: "tools_none", req: model.Request{Messages: []chat.Message{chat.User("Hello")}, Tools: []chat.ToolSpec{{Name: "now"}}, ToolChoice: model.ToolNone}},
	{name: "tools_serial", req: model.Request{Messages: []chat.Message{chat.User("Hello")}, Tools: []chat.ToolSpec{{Name: "now"}}, Config: model.Config{ParallelTools: ptr(false)}}},
	{name: "conversation", req: model.Request{Messages: []chat.Message{
		chat.System("Be brief."),
		chat.User("Hello."),
		chat.User("Weather in Rome and Oslo?"),
		{Role: chat.RoleAssistant, Model: "claude-test", Parts: []chat.Part{
			chat.Reasoning{Text: "Two calls.", Signature: "c2ln"},
			chat.Reasoning{Signature: "aGlkZGVu", Redacted: true},
			chat.Text{Text: "I look."},
			chat.ToolCall{ID: "t1", Name: "weather", Args: `{"city":"Rome"}`},
			chat.ToolCall{ID: "t2", Name: "weather", Args: `{"city":`},
			chat.ToolCall{ID: "t3", Name: "now"},
		}},
		chat.User("Hurry."),
		chat.ResultText(chat.ToolCall{ID: "t1", Name: "weather"}, "sunny"),
		chat.System("The user is in a hurry."),
		{Role: chat.RoleTool, Parts: []chat.Part{chat.ToolResult{CallID: "t2", IsError: true, Content: []chat.Part{
			chat.Text{Text: "bad"},
			chat.Image{Source: chat.Source{Data: []byte("png"), MIME: "image/png"}},
			chat.File{Source: chat.Source{FileID: "file_2"}},
		}}}},
		chat.ResultText(chat.ToolCall{ID: "t3"}, ""),
		{Role: chat.RoleAssistant, Parts: []chat.Part{chat.Reasoning{Text: "unsigned"}, chat.Text{Text: "Sunny"}}},
		{Role: chat.RoleAssistant, Parts: []chat.Part{chat.Reasoning{Text: "OpenAI's", ID: "rs_1", Signature: "x"}, chat.Text{Text: "in Rome."}}},
		{Role: chat.RoleAssistant, Model: "gemini-3", Parts: []chat.Part{chat.Reasoning{Text: "Gemini's", Signature: "x"}, chat.Text{Text: ""}}},
		chat.User("Thanks"),
	}}},
	{name: "media", req: model.Request{Messages: []chat.Message{{Role: chat.RoleUser, Parts: []chat.Part{
		chat.Image{Source: chat.Source{Data: []byte("jpeg"), MIME: "image/jpeg"}, Detail: "low"},
		chat.Image{Source: chat.Source{URL: "https://example.com/a.png"}},
		chat.Image{Source: chat.Source{URL: "data:image/gif;base64,R0lG"}},
		chat.Image{Source: chat.Source{FileID: "file_1"}},
		chat.File{Name: "a.pdf", Source: chat.Source{Data: []byte("%PDF"), MIME: "application/pdf"}},
		chat.File{Source: chat.Source{URL: "https://example.com/a.pdf"}},
		chat.File{Name: "a.csv", Source: chat.Source{Data: []byte("a,b"), MIME: "text/csv; charset=utf-8"}},
		chat.File{Source: chat.Source{URL: "data:,a%20b"}},
		chat.File{Source: chat.Source{FileID: "file_3"}},
		chat.Text{Text: "What is this?"},
	}}}}},
}

func TestARequestIsSentAsTheAPIWantsIt(t *testing.T) {
	for _, c := range requests {
		t.Run(c.name, func(t *testing.T) {
			var body []byte
			var header http.Header
			m := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ = io.ReadAll(r.Body)
				header = r.Header
				if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" {
					t.Errorf("%s %s", r.Method, r.URL.Path)
				}
				w.Header().Set("Content-Type", "application/json")
				w.Write(read(t, "answer.json"))
			}, anthropic.Defaults(c.defaults), anthropic.Header("anthropic-beta", "some-beta"))
			if _, err := m.Generate(t.Context(), &c.req); err != nil {
				t.Fatal(err)
			}
			if header.Get("X-Api-Key") != key || header.Get("Anthropic-Version") == "" || header.Get("Anthropic-Beta") != "some-beta" {
				t.Errorf("header %v", header)
			}
			var got bytes.Buffer
			if err := json.Indent(&got, body, "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			file := "request_" + c.name + ".json"
			if *update {
				if err := os.WriteFile(filepath.Join("testdata", file), got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := read(t, file); !bytes.Equal(got.Bytes(), want) {
				t.Errorf("got %s\nwant %s", got.Bytes(), want)
			}
		})
	}
}

func TestWhatTheAPIDoesntKnowIsNamed(t *testing.T) {
	user := func(parts ...chat.Part) *model.Request {
		return &model.Request{Messages: []chat.Message{{Role: chat.RoleUser, Parts: parts}}}
	}
	with := func(c model.Config) *model.Request {
		r := hello()
		r.Config = c
		return r
	}
	for _, c := range []struct {
		name string
		req  *model.Request
		want string
	}{
		{"a penalty of frequency", with(model.Config{FrequencyPenalty: ptr(1.0)}), "FrequencyPenalty"},
		{"a penalty of presence", with(model.Config{PresencePenalty: ptr(1.0)}), "PresencePenalty"},
		{"a seed", with(model.Config{Seed: ptr(int64(1))}), "Seed"},
		{"another effort", with(model.Config{Reasoning: "minimal"}), `"minimal"`},
		{"reasoning and none", with(model.Config{Reasoning: "none", ReasoningTokens: 1}), "ReasoningTokens"},
		{"a negative limit", with(model.Config{MaxTokens: -1}), "MaxTokens"},
		{"a negative budget", with(model.Config{ReasoningTokens: -1}), "ReasoningTokens"},
		{"streaming by hand", with(model.Config{Extra: map[string]any{"stream": true}}), "stream"},
		{"an extra that is not JSON", with(model.Config{Extra: map[string]any{"x": make(chan int)}}), "chan int"},
		{"no messages", &model.Request{Messages: []chat.Message{chat.System("x")}}, "Messages"},
		{"another role", &model.Request{Messages: []chat.Message{{Role: "robot"}}}, `"robot"`},
		{"audio", user(chat.Text{Text: "x"}, chat.Audio{}), "Messages[0]: audio"},
		{"a call of the user's", user(chat.ToolCall{}), "tool call"},
		{"a result of the user's", user(chat.ToolResult{}), "tool result"},
		{"reasoning of the user's", user(chat.Reasoning{}), "reasoning"},
		{"a file of the system's", &model.Request{Messages: []chat.Message{{Role: chat.RoleSystem, Parts: []chat.Part{chat.File{}}}}}, "file"},
		{"text of a tool", &model.Request{Messages: []chat.Message{{Role: chat.RoleTool, Parts: []chat.Part{chat.Text{}}}}}, "text"},
		{"a picture without source", user(chat.Image{}), "0 of Data, URL and FileID"},
		{"a picture with two sources", user(chat.Image{Source: chat.Source{URL: "https://x", FileID: "x"}}), "2 of Data, URL and FileID"},
		{"a picture without type", user(chat.Image{Source: chat.Source{Data: []byte("x")}}), "media type"},
		{"a picture of another type", user(chat.Image{Source: chat.Source{Data: []byte("x"), MIME: "image/tiff"}}), "image/tiff"},
		{"a picture at another kind of URL", user(chat.Image{Source: chat.Source{URL: "ftp://x"}}), "URL"},
		{"a bad data URL", user(chat.Image{Source: chat.Source{URL: "data:image/png;base64,?"}}), "data URL"},
		{"a file of another type", user(chat.File{Name: "f", Source: chat.Source{Data: []byte("x"), MIME: "application/zip"}}), "application/zip"},
		{"a text file at a URL", user(chat.File{Source: chat.Source{URL: "https://x", MIME: "text/plain"}}), "text/plain"},
		{"a text file that is none", user(chat.File{Source: chat.Source{Data: []byte{0xff}, MIME: "text/plain"}}), "UTF-8"},
		{"a schema that is none", &model.Request{Messages: hello().Messages, Output: &model.Schema{}}, "Output.Schema"},
		{"a tool's schema that is none", &model.Request{Messages: hello().Messages, Tools: []chat.ToolSpec{{Name: "now", Schema: json.RawMessage("[]")}}}, `"now"`},
		{"a choice of no tools", &model.Request{Messages: hello().Messages, ToolChoice: model.ToolRequired}, "ToolChoice"},
		{"too many points of the cache", &model.Request{Messages: hello().Messages, Cache: make([]model.CachePoint, 5)}, "5 points: the API takes 4"},
		{"a point after no tools", &model.Request{Messages: hello().Messages, Cache: []model.CachePoint{{Tools: true}}}, "Cache[0] is after the tools"},
		{"a point after two things", &model.Request{Messages: hello().Messages, Cache: []model.CachePoint{{Tools: true, Message: 1}}}, "make it two"},
		{"a point after no message", &model.Request{Messages: hello().Messages, Cache: []model.CachePoint{{}, {Message: 1}}}, "Cache[1] is after message 1, and there are 1"},
		{"a point after no part", &model.Request{Messages: hello().Messages, Cache: []model.CachePoint{{Parts: 2}}}, "which has 1"},
		{"a point for another time", &model.Request{Messages: hello().Messages, Cache: []model.CachePoint{{TTL: time.Minute}}}, "5m and 1h"},
		{"a choice of another tool", &model.Request{Messages: hello().Messages, Tools: []chat.ToolSpec{{Name: "now"}}, ToolChoice: "then"}, `"then"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
			_, err := m.Generate(t.Context(), c.req)
			check(t, err, model.ErrorInvalid, c.want)
			_, err = model.Collect(m.Stream(t.Context(), c.req))
			check(t, err, model.ErrorInvalid, c.want)
		})
	}
}

func check(t *testing.T, err error, kind model.ErrorKind, text string) *model.Error {
	t.Helper()
	var e *model.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T), want an *model.Error", err, err)
	}
	if e.Kind != kind || e.Provider != "anthropic" || !strings.Contains(e.Error(), text) {
		t.Errorf("error %q of kind %q, want %q with %q", e, e.Kind, kind, text)
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.Contains(err.Error(), key) {
			t.Errorf("the key is in %q", err)
		}
	}
	return e
}

var answers = []struct {
	name string
	want chat.Message
}{
	{"answer", chat.Message{
		ID: "msg_1", Role: chat.RoleAssistant, Model: "claude-test-1", Finish: chat.FinishStop,
		Parts: []chat.Part{chat.Text{Text: "Hello there"}},
		Usage: &chat.Usage{Input: 10, Output: 2},
	}},
	{"thinking", chat.Message{
		ID: "msg_2", Role: chat.RoleAssistant, Model: "claude-test-1", Finish: chat.FinishToolCalls,
		Parts: []chat.Part{
			chat.Reasoning{Text: "Two cities.", Signature: "c2ln"},
			chat.Reasoning{Signature: "aGlkZGVu", Redacted: true},
			chat.Reasoning{Signature: "b21pdHRlZA=="},
			chat.Text{Text: "I look."},
			chat.ToolCall{ID: "t1", Name: "weather", Args: `{"city":"Rome"}`},
			chat.ToolCall{ID: "t2", Name: "weather", Args: `{"city":"Oslo"}`},
			chat.ToolCall{ID: "t3", Name: "now", Args: `{}`},
		},
		Usage: &chat.Usage{Input: 145, Output: 50, CacheRead: 100, CacheWrite: 20, Reasoning: 30},
	}},
	{"limit", chat.Message{
		ID: "msg_3", Role: chat.RoleAssistant, Model: "claude-test-1", Finish: chat.FinishLength,
		Usage: &chat.Usage{Input: 1, Output: 2},
	}},
}

func TestAnAnswerIsTheSameWholeAndStreamed(t *testing.T) {
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			whole := serve(t, reply(200, "application/json", read(t, c.name+".json")))
			resp, err := whole.Generate(t.Context(), hello())
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(resp.Message, c.want) {
				t.Errorf("whole:\n got %+v %+v\nwant %+v %+v", resp.Message, resp.Message.Usage, c.want, c.want.Usage)
			}
			streamed := serve(t, reply(200, "text/event-stream; charset=utf-8", read(t, c.name+".sse")))
			resp, err = model.Collect(streamed.Stream(t.Context(), hello()))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(resp.Message, c.want) {
				t.Errorf("streamed:\n got %+v %+v\nwant %+v %+v", resp.Message, resp.Message.Usage, c.want, c.want.Usage)
			}
		})
	}
}

func TestAnAnswerGoesBackAsItCame(t *testing.T) {
	var body struct {
		Messages []struct{ Content json.RawMessage }
	}
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(read(t, "thinking.json"))
	})
	req := hello()
	resp, err := m.Generate(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	req.Messages = append(req.Messages, resp.Message)
	if _, err := m.Generate(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	var sent, came any
	var answer struct{ Content json.RawMessage }
	for _, err := range []error{
		json.Unmarshal(read(t, "thinking.json"), &answer),
		json.Unmarshal(answer.Content, &came),
		json.Unmarshal(body.Messages[1].Content, &sent),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(sent, came) {
		t.Errorf("sent %v\ncame %v", sent, came)
	}
}

func TestReasonsToStop(t *testing.T) {
	for reason, want := range map[string]chat.FinishReason{
		"end_turn": chat.FinishStop, "stop_sequence": chat.FinishStop, "max_tokens": chat.FinishLength,
		"model_context_window_exceeded": chat.FinishLength, "tool_use": chat.FinishToolCalls,
		"refusal": chat.FinishFilter, "pause_turn": chat.FinishOther, "something_new": chat.FinishOther,
	} {
		m := serve(t, reply(200, "application/json", fmt.Appendf(nil, `{"id":"m","type":"message","content":[],"stop_reason":%q}`, reason)))
		resp, err := m.Generate(t.Context(), hello())
		if err != nil {
			t.Fatal(err)
		}
		if resp.Message.Finish != want {
			t.Errorf("%s is %q, want %q", reason, resp.Message.Finish, want)
		}
	}
}

// events returns what the API sends for an answer, one event each.
func events(t *testing.T, name string) []string {
	var list []string
	for _, e := range strings.SplitAfter(string(read(t, name)), "\n\n") {
		if e != "" {
			list = append(list, e)
		}
	}
	return list
}

func TestChunksArriveAsTheyAreSent(t *testing.T) {
	got := make(chan string)
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events(t, "thinking.sse") {
			io.WriteString(w, e)
			w.(http.Flusher).Flush()
			if strings.Contains(e, "Two ") {
				<-got // nothing more is sent before this was read
			}
		}
	})
	var args []string
	for chunk, err := range m.Stream(t.Context(), hello()) {
		if err != nil {
			t.Fatal(err)
		}
		if chunk.Reasoning == "Two " {
			got <- chunk.Reasoning
		}
		for _, c := range chunk.ToolCalls {
			args = append(args, fmt.Sprintf("%d %s", c.Index, c.Args))
		}
	}
	want := []string{"0 ", `0 {"city"`, `0 :"Rome"}`, "1 ", `1 {"city":"Oslo"}`, "2 ", "2 {}"}
	if !reflect.DeepEqual(args, want) {
		t.Errorf("fragments %q, want %q", args, want)
	}
}

func TestErrorsOfTheAPI(t *testing.T) {
	typed := func(kind, message string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, kind, message)
	}
	for _, c := range []struct {
		status int
		body   string
		kind   model.ErrorKind
		text   string
	}{
		{400, typed("invalid_request_error", "max_tokens: required"), model.ErrorInvalid, "max_tokens: required"},
		{400, typed("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"), model.ErrorContextLength, "too long"},
		{400, typed("invalid_request_error", "input length and `max_tokens` exceed context limit"), model.ErrorContextLength, "limit"},
		{400, typed("invalid_request_error", "Your credit balance is too low to access the API"), model.ErrorQuota, "credit"},
		{400, typed("invalid_request_error", "Output blocked by content filtering policy"), model.ErrorFilter, "policy"},
		{401, typed("authentication_error", "invalid x-api-key: "+key), model.ErrorAuth, "[redacted]; check the key, which is of anthropic.APIKey or ANTHROPIC_API_KEY"},
		{402, typed("billing_error", "pay"), model.ErrorQuota, "pay"},
		{403, typed("permission_error", "no"), model.ErrorAuth, "no"},
		{404, typed("not_found_error", "model: x"), model.ErrorNotFound, "model: x"},
		{413, typed("request_too_large", "big"), model.ErrorContextLength, "big"},
		{429, typed("rate_limit_error", "slow"), model.ErrorRateLimit, "slow"},
		{500, typed("api_error", "oops"), model.ErrorServer, "oops"},
		{504, typed("timeout_error", "late"), model.ErrorTimeout, "late"},
		{529, typed("overloaded_error", "busy"), model.ErrorOverloaded, "busy"},
		{401, "no JSON, and " + key, model.ErrorAuth, "no JSON"},
		{402, "", model.ErrorQuota, "402"},
		{403, "", model.ErrorAuth, "403"},
		{404, "", model.ErrorNotFound, "404"},
		{408, "", model.ErrorTimeout, "408"},
		{413, "<html>" + strings.Repeat("ä", 1000), model.ErrorContextLength, "…"},
		{418, "", model.ErrorInvalid, "418"},
		{429, "", model.ErrorRateLimit, "429"},
		{502, "bad gateway", model.ErrorServer, "bad gateway"},
		{503, "", model.ErrorOverloaded, "503"},
		{529, "", model.ErrorOverloaded, "529"},
	} {
		t.Run(fmt.Sprint(c.status, " ", c.kind), func(t *testing.T) {
			var calls atomic.Int32
			m := serve(t, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				reply(c.status, "application/json", []byte(c.body))(w, r)
			})
			_, err := m.Generate(t.Context(), hello())
			if e := check(t, err, c.kind, c.text); e.Status != c.status {
				t.Errorf("status %d", e.Status)
			}
			_, err = model.Collect(m.Stream(t.Context(), hello()))
			check(t, err, c.kind, c.text)
			if n := calls.Load(); n != 2 {
				t.Errorf("%d requests for two calls", n)
			}
		})
	}
}

func TestTheProviderSaysHowLongToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			header, value string
			want          time.Duration
		}{
			{"Retry-After", "7", 7 * time.Second},
			{"Retry-After", "0.5", 500 * time.Millisecond},
			{"Retry-After-Ms", "20", 20 * time.Millisecond},
			{"Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), time.Minute},
			{"Retry-After", time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat), 0},
			{"Retry-After", "soon", 0},
			{"Retry-After", "-3", 0},
			{"Retry-After", "NaN", 0},
			{"Retry-After", "1e400", math.MaxInt64},
			{"Retry-After", "99999999999", math.MaxInt64},
			{"X-Other", "7", 0},
		} {
			// Without a network, so that the bubble's clock rules.
			client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
				h := http.Header{"Content-Type": {"application/json"}}
				h.Set(c.header, c.value)
				return &http.Response{StatusCode: 429, Header: h, Request: r, Body: io.NopCloser(strings.NewReader(
					`{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`))}, nil
			})}
			m := anthropic.New("claude-test", anthropic.APIKey(key), anthropic.BaseURL("http://localhost"), anthropic.HTTPClient(client))
			_, err := m.Generate(t.Context(), hello())
			if e := check(t, err, model.ErrorRateLimit, "slow down"); e.RetryAfter != c.want || e.Code != "rate_limit_error" {
				t.Errorf("%s %q: wait %v, code %q", c.header, c.value, e.RetryAfter, e.Code)
			}
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestABrokenStream(t *testing.T) {
	all := events(t, "thinking.sse")
	for n := range all {
		t.Run(fmt.Sprintf("that ends in order after %d events", n), func(t *testing.T) {
			m := serve(t, reply(200, "text/event-stream", []byte(strings.Join(all[:n], ""))))
			_, err := model.Collect(m.Stream(t.Context(), hello()))
			check(t, err, model.ErrorBrokenStream, "")
		})
	}
	t.Run("that breaks off", func(t *testing.T) {
		m := serve(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, strings.Join(all[:3], "")+"event: content_block")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		resp, err := model.Collect(m.Stream(t.Context(), hello()))
		e := check(t, err, model.ErrorBrokenStream, "")
		if !e.Temporary() || resp.Message.Reasoning() != "Two " {
			t.Errorf("got %+v before %v", resp.Message, err)
		}
	})
	t.Run("of a whole answer", func(t *testing.T) {
		m := serve(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"id"`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		_, err := m.Generate(t.Context(), hello())
		check(t, err, model.ErrorBrokenStream, "")
	})
	t.Run("of an error", func(t *testing.T) {
		m := serve(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(529)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		_, err := m.Generate(t.Context(), hello())
		check(t, err, model.ErrorOverloaded, "529")
	})
}

func TestAnErrorInTheMiddleOfAStream(t *testing.T) {
	for kind, want := range map[string]model.ErrorKind{
		"overloaded_error": model.ErrorOverloaded, "api_error": model.ErrorServer, "rate_limit_error": model.ErrorRateLimit,
		"new_error": model.ErrorServer, "invalid_request_error": model.ErrorInvalid,
	} {
		body := strings.Join(events(t, "answer.sse")[:3], "") +
			fmt.Sprintf("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":%q,\"message\":\"Overloaded\"}}\n\n", kind)
		m := serve(t, reply(200, "text/event-stream", []byte(body)))
		resp, err := model.Collect(m.Stream(t.Context(), hello()))
		if e := check(t, err, want, "Overloaded"); e.Code != kind || e.Status != 0 {
			t.Errorf("code %q, status %d", e.Code, e.Status)
		}
		if resp.Message.Text() != "Hello" {
			t.Errorf("text %q came before", resp.Message.Text())
		}
	}
}

func TestMalformedAnswers(t *testing.T) {
	for _, body := range []string{
		``, `<html>`, `{`, `[]`, `{}`, `{"type":"error","error":{"message":"no"}}`,
		`{"id":"m","type":"message","content":[{"type":"new_block","id":"s"}]}`,
	} {
		m := serve(t, reply(200, "application/json", []byte(body)))
		_, err := m.Generate(t.Context(), hello())
		check(t, err, model.ErrorResponse, "")
	}
	_, err := serve(t, reply(200, "text/html", []byte("<html>"))).Generate(t.Context(), hello())
	check(t, err, model.ErrorResponse, "")

	start := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n"
	event := func(kind, rest string) string {
		return fmt.Sprintf("event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, rest)
	}
	text := event("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`)
	for name, body := range map[string]string{
		"an event that is not JSON":        "event: message_start\ndata: {\n\n",
		"a beginning without a beginning":  text,
		"two beginnings":                   start + start,
		"a block that is unknown":          start + event("content_block_start", `"index":0,"content_block":{"type":"new_block"}`),
		"a delta of a block that isn't":    start + event("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":"x"}`),
		"an end of a block that isn't":     start + event("content_block_stop", `"index":0`),
		"a delta of another kind of block": start + text + event("content_block_delta", `"index":0,"delta":{"type":"input_json_delta","partial_json":"x"}`),
		"a delta that is unknown":          start + text + event("content_block_delta", `"index":0,"delta":{"type":"new_delta"}`),
		"a delta that is none":             start + text + event("content_block_delta", `"index":0,"delta":"x"`),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := model.Collect(serve(t, reply(200, "text/event-stream", []byte(body))).Stream(t.Context(), hello()))
			check(t, err, model.ErrorResponse, "")
		})
	}
	_, err = model.Collect(serve(t, reply(200, "application/json", []byte("{}"))).Stream(t.Context(), hello()))
	check(t, err, model.ErrorResponse, "application/json")
}

func TestNewEventsAreLeftOut(t *testing.T) {
	all := events(t, "answer.sse")
	body := strings.Join(all[:3], "") +
		"event: something_new\ndata: {\"type\":\"something_new\"}\n\n" +
		strings.Join(all[3:], "")
	resp, err := model.Collect(serve(t, reply(200, "text/event-stream", []byte(body))).Stream(t.Context(), hello()))
	if err != nil || resp.Message.Text() != "Hello there" {
		t.Errorf("%q, %v", resp.Message.Text(), err)
	}
}

func TestALongAnswerIsStreamed(t *testing.T) {
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !bytes.Contains(body, []byte(`"stream":true`)) {
			t.Errorf("not streamed: %s", body)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write(read(t, "answer.sse"))
	}, anthropic.Defaults(model.Config{MaxTokens: 64000}))
	resp, err := m.Generate(t.Context(), hello())
	if err != nil || resp.Message.Text() != "Hello there" {
		t.Errorf("%+v, %v", resp, err)
	}
}

func TestWhatIsWrongWithNewIsTheErrorOfCalls(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "")
	t.Setenv("ANTHROPIC_BASE_URL", "")
	calls := func(m *anthropic.Model, kind model.ErrorKind, text string) {
		t.Helper()
		_, err := m.Generate(t.Context(), hello())
		check(t, err, kind, text)
		_, err = model.Collect(m.Stream(t.Context(), hello()))
		check(t, err, kind, text)
	}
	calls(anthropic.New("claude-test"), model.ErrorAuth, "ANTHROPIC_API_KEY")
	calls(anthropic.New("claude-test", anthropic.APIKey(key), anthropic.BaseURL("localhost:80")), model.ErrorInvalid, "localhost:80")
	calls(anthropic.New("", anthropic.APIKey(key), anthropic.HTTPClient(nil)), model.ErrorInvalid, "no model")
}

func TestTheEnvironmentIsReadByNew(t *testing.T) {
	seen := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.URL.Path + " " + r.Header.Get("X-Api-Key") + r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		w.Write(read(t, "answer.json"))
	}))
	defer s.Close()
	t.Setenv("ANTHROPIC_API_KEY", "from-env")
	t.Setenv("ANTHROPIC_BASE_URL", s.URL+"/proxy")
	m := anthropic.New("claude-test")
	t.Setenv("ANTHROPIC_API_KEY", "")
	if _, err := m.Generate(t.Context(), hello()); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "/proxy/v1/messages from-env" {
		t.Errorf("got %q", got)
	}
	if _, err := anthropic.New("claude-test", anthropic.Header("Authorization", "Bearer x")).Generate(t.Context(), hello()); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "/proxy/v1/messages Bearer x" {
		t.Errorf("got %q", got)
	}
}

func TestCallsDontAlterTheRequest(t *testing.T) {
	c := requests[len(requests)-2]
	before := fmt.Sprintf("%#v", c.req)
	m := serve(t, reply(200, "application/json", read(t, "answer.json")))
	if _, err := m.Generate(t.Context(), &c.req); err != nil {
		t.Fatal(err)
	}
	if after := fmt.Sprintf("%#v", c.req); after != before {
		t.Errorf("before %s\nafter %s", before, after)
	}
}

func TestLive(t *testing.T) {
	const env = "SUPERSTEP_LIVE_ANTHROPIC_MODEL"
	name := os.Getenv(env)
	if name == "" {
		t.Skipf("NOT TESTED against the provider: set %s to a model's name, and ANTHROPIC_API_KEY", env)
	}
	m := anthropic.New(name, anthropic.Defaults(model.Config{MaxTokens: 2000}))
	resp, err := m.Generate(t.Context(), &model.Request{Messages: []chat.Message{chat.System("Answer in one word."), chat.User("What is the capital of France?")}})
	if err != nil || !strings.Contains(resp.Message.Text(), "Paris") {
		t.Fatalf("%+v, %v", resp, err)
	}
	req := &model.Request{
		Messages:   []chat.Message{chat.User("What is the weather in Rome and in Oslo?")},
		Tools:      []chat.ToolSpec{{Name: "weather", Description: "Tells the weather of a city.", Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}},
		ToolChoice: model.ToolRequired,
	}
	if resp, err = model.Collect(m.Stream(t.Context(), req)); err != nil || len(resp.Message.ToolCalls()) == 0 {
		t.Fatalf("%+v, %v", resp, err)
	}
	req.Messages = append(req.Messages, resp.Message)
	for _, c := range resp.Message.ToolCalls() {
		req.Messages = append(req.Messages, chat.ResultText(c, "foggy"))
	}
	req.ToolChoice = model.ToolAuto
	if resp, err = model.Collect(m.Stream(t.Context(), req)); err != nil || !strings.Contains(strings.ToLower(resp.Message.Text()), "fog") {
		t.Fatalf("%+v, %v", resp, err)
	}
}

// The API refuses a message of nothing but white space, which its models write
// at times before they call a tool or when they have nothing to say.
func TestBlankTextsAreNotSent(t *testing.T) {
	var sent struct {
		System   []any
		Messages []struct {
			Role    string
			Content []struct{ Type string }
		}
	}
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(data, &sent)
		}
		if err != nil {
			t.Error(err)
		}
		reply(200, "application/json", read(t, "answer.json"))(w, r)
	})
	call := chat.ToolCall{ID: "1", Name: "f"}
	_, err := m.Generate(t.Context(), &model.Request{Messages: []chat.Message{
		chat.System(" \n"), chat.User("go"), chat.Assistant("\n\n", call), chat.ResultText(call, "\n"), chat.Assistant("\n"), chat.User("and?"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(sent); got != "{[] [{user [{text}]} {assistant [{tool_use}]} {user [{tool_result} {text}]}]}" {
		t.Error(got)
	}
}
