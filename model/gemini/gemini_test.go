package gemini_test

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
	"github.com/superstep-dev/superstep/model/gemini"
)

var update = flag.Bool("update", false, "rewrite the requests in testdata")

const key = "sk-secret"

var _ model.Model = (*gemini.Model)(nil)

// serve returns a model whose provider is the handler.
func serve(t *testing.T, h http.HandlerFunc, opts ...gemini.Option) *gemini.Model {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return gemini.New("gemini-test", append([]gemini.Option{gemini.APIKey(key), gemini.BaseURL(s.URL), gemini.HTTPClient(s.Client())}, opts...)...)
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
		Config: model.Config{Model: "gemini-other", Temperature: ptr(0.0), TopP: ptr(0.9), TopK: ptr(40), MaxTokens: 100,
			FrequencyPenalty: ptr(0.1), PresencePenalty: ptr(-0.2), Seed: ptr(int64(7)), ParallelTools: ptr(true),
			Stop: []string{"END"}, Reasoning: "high",
			Extra: map[string]any{"generationConfig": map[string]any{"candidateCount": 1, "thinkingConfig": map[string]any{"includeThoughts": false}}, "labels": map[string]string{"a.b": "c"}}},
	}},
	{name: "defaults", defaults: model.Config{Temperature: ptr(0.5), MaxTokens: 7, Stop: []string{"a"}, Extra: map[string]any{"serviceTier": "flex", "store": false}},
		req: model.Request{Messages: []chat.Message{chat.User("Hello")}, Config: model.Config{MaxTokens: 8, Extra: map[string]any{"store": true}}}},
	{name: "reasoning_none", req: model.Request{Messages: []chat.Message{chat.User("Hello")}, Config: model.Config{Reasoning: "none"}}},
	{name: "reasoning_tokens", req: model.Request{Messages: []chat.Message{chat.User("Hello")}, Config: model.Config{ReasoningTokens: 2048}}},
	{name: "output", req: model.Request{Messages: []chat.Message{chat.User("Hello")},
		Output: &model.Schema{Name: "city", Description: "A city.", Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"country":{"type":"string"}},"required":["name","country"]}`)}}},
	{name: "tools", req: model.Request{
		Messages: []chat.Message{chat.User("Hello")},
		Tools: []chat.ToolSpec{
			{Name: "weather", Description: "Tells the weather.", Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)},
			{Name: "now"},
		},
		ToolChoice: "weather",
	}},
	{name: "tools_required", req: model.Request{Messages: []chat.Message{chat.User("Hello")}, Tools: []chat.ToolSpec{{Name: "now"}}, ToolChoice: model.ToolRequired}},
	{name: "tools_none", req: model.Request{Messages: []chat.Message{chat.User("Hello")}, Tools: []chat.ToolSpec{{Name: "now"}}, ToolChoice: model.ToolNone}},
	{name: "tools_strict", req: model.Request{Messages: []chat.Message{chat.User("Hello")}, Tools: []chat.ToolSpec{{Name: "now", Strict: true}}}},
	{name: "media", req: model.Request{Messages: []chat.Message{{Role: chat.RoleUser, Parts: []chat.Part{
		chat.Image{Source: chat.Source{Data: []byte("jpeg"), MIME: "image/jpeg"}, Detail: "low"},
		chat.Image{Source: chat.Source{URL: "https://example.com/a.png", MIME: "image/png"}},
		chat.Image{Source: chat.Source{URL: "data:image/gif;base64,R0lG"}},
		chat.Audio{Source: chat.Source{Data: []byte("wav"), MIME: "audio/wav"}, Transcript: "hello"},
		chat.File{Name: "a.pdf", Source: chat.Source{Data: []byte("%PDF"), MIME: "application/pdf"}},
		chat.File{Source: chat.Source{URL: "data:,a%20b"}},
		chat.File{Source: chat.Source{FileID: "files/1"}},
		chat.File{Source: chat.Source{FileID: "2", MIME: "application/pdf"}},
		chat.File{Source: chat.Source{FileID: "gs://bucket/3"}},
		chat.Text{Text: "What is this?"},
	}}}}},
	{name: "conversation", req: model.Request{Messages: []chat.Message{
		chat.System("Be brief."),
		chat.User("Hello."),
		chat.User("Weather in Rome and Oslo?"),
		{Role: chat.RoleAssistant, Model: "gemini-test", Parts: []chat.Part{
			chat.Reasoning{Text: "Two calls."},
			chat.Text{Text: "I look."},
			chat.Text{Signature: "c2lnMQ=="},
			chat.ToolCall{ID: "c1", Name: "weather", Args: `{"city":"Rome"}`, Signature: "c2lnMg=="},
			chat.ToolCall{ID: "c2", Name: "weather", Args: `{"city":`},
			chat.ToolCall{ID: "c3", Name: "now"},
			chat.Text{Signature: "c2lnMw=="},
		}},
		chat.User("Hurry."),
		chat.ResultText(chat.ToolCall{ID: "c1", Name: "weather"}, "sunny"),
		chat.System("The user is in a hurry."),
		{Role: chat.RoleTool, Parts: []chat.Part{chat.ToolResult{CallID: "c2", IsError: true, Content: []chat.Part{
			chat.Text{Text: "bad "}, chat.Text{Text: "city"},
			chat.Image{Source: chat.Source{Data: []byte("png"), MIME: "image/png"}},
			chat.File{Source: chat.Source{FileID: "files/4"}},
		}}}},
		{Role: chat.RoleTool, Name: "now", Parts: []chat.Part{chat.ToolResult{CallID: "other"}}},
		{Role: chat.RoleAssistant, Parts: []chat.Part{chat.Reasoning{Text: "unsigned"}, chat.Text{Text: "Sunny"}, chat.Text{}}},
		{Role: chat.RoleAssistant, Parts: []chat.Part{chat.Reasoning{Text: "OpenAI's", ID: "rs_1", Signature: "x"}, chat.Text{Text: "in Rome."}}},
		{Role: chat.RoleAssistant, Model: "claude-x", Parts: []chat.Part{chat.Reasoning{Text: "Anthropic's", Signature: "c2ln"}, chat.Reasoning{Redacted: true, Signature: "c2ln"}}},
		{Role: chat.RoleAssistant, Parts: []chat.Part{chat.Reasoning{Text: "signed", Signature: "c2lnNA=="}, chat.Image{Source: chat.Source{Data: []byte("png"), MIME: "image/png"}}, chat.Text{Signature: "c2lnNQ=="}}},
		chat.User("Thanks"),
	}}},
}

func TestARequestIsSentAsTheAPIWantsIt(t *testing.T) {
	for _, c := range requests {
		t.Run(c.name, func(t *testing.T) {
			var body []byte
			var header http.Header
			m := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ = io.ReadAll(r.Body)
				header = r.Header
				if r.Method != http.MethodPost || !strings.HasPrefix(r.URL.Path, "/v1beta/models/gemini-") || !strings.HasSuffix(r.URL.Path, ":generateContent") {
					t.Errorf("%s %s", r.Method, r.URL.Path)
				}
				w.Header().Set("Content-Type", "application/json")
				w.Write(read(t, "answer.json"))
			}, gemini.Defaults(c.defaults), gemini.Header("x-some", "header"))
			if _, err := m.Generate(t.Context(), &c.req); err != nil {
				t.Fatal(err)
			}
			if header.Get("X-Goog-Api-Key") != key || header.Get("X-Some") != "header" {
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
		{"a seed of 64 bits", with(model.Config{Seed: ptr(int64(1) << 40)}), "Seed"},
		{"one call at a time", with(model.Config{ParallelTools: ptr(false)}), "ParallelTools"},
		{"another effort", with(model.Config{Reasoning: "max"}), `"max"`},
		{"two kinds of reasoning", with(model.Config{Reasoning: "low", ReasoningTokens: 1}), "ReasoningTokens"},
		{"a number that is none", with(model.Config{Temperature: ptr(math.NaN())}), "Temperature"},
		{"a result of an unknown tool", &model.Request{Messages: []chat.Message{chat.ResultText(chat.ToolCall{ID: "c9"}, "x")}}, `"c9"`},
		{"a signature of a text that is none", &model.Request{Messages: []chat.Message{{Role: chat.RoleAssistant, Parts: []chat.Part{chat.Text{Signature: "?"}}}}}, "signature"},
		{"a signature of a call that is none", &model.Request{Messages: []chat.Message{{Role: chat.RoleAssistant, Parts: []chat.Part{chat.ToolCall{ID: "c8", Signature: "?"}}}}}, `"c8"`},
		{"a result in a result", &model.Request{Messages: []chat.Message{chat.Result(chat.ToolCall{Name: "x"}, chat.ToolResult{})}}, "tool result"},
		{"a result of the assistant's", &model.Request{Messages: []chat.Message{{Role: chat.RoleAssistant, Parts: []chat.Part{chat.ToolResult{}}}}}, "tool result"},
		{"a negative limit", with(model.Config{MaxTokens: -1}), "MaxTokens"},
		{"a negative budget", with(model.Config{ReasoningTokens: -1}), "ReasoningTokens"},
		{"an extra that is not JSON", with(model.Config{Extra: map[string]any{"x": make(chan int)}}), "chan int"},
		{"no messages", &model.Request{Messages: []chat.Message{chat.System("x")}}, "Messages"},
		{"another role", &model.Request{Messages: []chat.Message{{Role: "robot"}}}, `"robot"`},
		{"a call of the user's", user(chat.ToolCall{}), "tool call"},
		{"a result of the user's", user(chat.ToolResult{}), "tool result"},
		{"reasoning of the user's", user(chat.Reasoning{}), "reasoning"},
		{"a file of the system's", &model.Request{Messages: []chat.Message{{Role: chat.RoleSystem, Parts: []chat.Part{chat.File{}}}}}, "file"},
		{"text of a tool", &model.Request{Messages: []chat.Message{{Role: chat.RoleTool, Parts: []chat.Part{chat.Text{}}}}}, "text"},
		{"a picture without source", user(chat.Image{}), "0 of Data, URL and FileID"},
		{"a picture with two sources", user(chat.Image{Source: chat.Source{URL: "https://x", FileID: "x"}}), "2 of Data, URL and FileID"},
		{"a picture without type", user(chat.Image{Source: chat.Source{Data: []byte("x")}}), "media type"},
		{"a picture at another kind of URL", user(chat.Image{Source: chat.Source{URL: "ftp://x"}}), "URL"},
		{"a bad data URL", user(chat.Image{Source: chat.Source{URL: "data:image/png;base64,?"}}), "data URL"},
		{"a schema that is none", &model.Request{Messages: hello().Messages, Output: &model.Schema{}}, "Output.Schema"},
		{"a tool's schema that is none", &model.Request{Messages: hello().Messages, Tools: []chat.ToolSpec{{Name: "now", Schema: json.RawMessage("[]")}}}, `"now"`},
		{"a choice of no tools", &model.Request{Messages: hello().Messages, ToolChoice: model.ToolRequired}, "ToolChoice"},
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
	if e.Kind != kind || e.Provider != "gemini" || !strings.Contains(e.Error(), text) {
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
		ID: "resp_1", Role: chat.RoleAssistant, Model: "gemini-test-1", Finish: chat.FinishStop,
		Parts: []chat.Part{chat.Text{Text: "Hello there"}},
		Usage: &chat.Usage{Input: 10, Output: 2},
	}},
	{"thinking", chat.Message{
		ID: "resp_2", Role: chat.RoleAssistant, Model: "gemini-test-1", Finish: chat.FinishToolCalls,
		Parts: []chat.Part{
			chat.Reasoning{Text: "Two cities.", Signature: "c2lnMA=="},
			chat.Text{Text: "I look."},
			chat.Text{Signature: "c2lnMQ=="},
			chat.ToolCall{ID: "call_resp_2_0", Name: "weather", Args: `{"city":"Rome"}`, Signature: "c2lnMg=="},
			chat.ToolCall{ID: "own", Name: "weather", Args: `{"city":"Oslo"}`},
			chat.ToolCall{ID: "call_resp_2_2", Name: "now", Args: `{}`},
		},
		Usage: &chat.Usage{Input: 145, Output: 80, CacheRead: 100, Reasoning: 30},
	}},
	{"picture", chat.Message{
		ID: "resp_3", Role: chat.RoleAssistant, Model: "gemini-test-1", Finish: chat.FinishLength,
		Parts: []chat.Part{
			chat.Image{Source: chat.Source{Data: []byte("png"), MIME: "image/png"}},
			chat.Text{Signature: "c2lnMQ=="},
			chat.Audio{Source: chat.Source{Data: []byte("wav"), MIME: "audio/wav"}},
			chat.File{Source: chat.Source{Data: []byte("pdf"), MIME: "application/pdf"}},
		},
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
	for name, change := range map[string]func(parts []any){
		"thinking": func(parts []any) { // the IDs stay
			for _, i := range []int{2, 4} {
				parts[i].(map[string]any)["functionCall"].(map[string]any)["id"] = fmt.Sprintf("call_resp_2_%d", i-2)
			}
		},
		"picture": func([]any) {},
	} {
		t.Run(name, func(t *testing.T) {
			var body struct{ Contents []struct{ Parts []any } }
			m := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
					t.Error(err)
				}
				w.Header().Set("Content-Type", "application/json")
				w.Write(read(t, name+".json"))
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
			var answer struct {
				Candidates []struct{ Content struct{ Parts []any } }
			}
			if err := json.Unmarshal(read(t, name+".json"), &answer); err != nil {
				t.Fatal(err)
			}
			came := answer.Candidates[0].Content.Parts
			change(came)
			if sent := body.Contents[1].Parts; !reflect.DeepEqual(sent, came) {
				t.Errorf("sent %v\ncame %v", sent, came)
			}
		})
	}
}

func TestACallGetsAnIDWithoutThatOfAMessage(t *testing.T) {
	m := serve(t, reply(200, "application/json", []byte(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"a"}},{"functionCall":{"name":"b"}}]},"finishReason":"STOP"}]}`)))
	ids := map[string]bool{}
	for range 2 {
		resp, err := m.Generate(t.Context(), hello())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range resp.Message.ToolCalls() {
			ids[c.ID] = true
		}
	}
	if len(ids) != 4 {
		t.Errorf("IDs %v of four calls", ids)
	}
}

func TestReasonsToStop(t *testing.T) {
	for reason, want := range map[string]chat.FinishReason{
		"STOP": chat.FinishStop, "MAX_TOKENS": chat.FinishLength, "CONTINUATION": chat.FinishLength,
		"SAFETY": chat.FinishFilter, "RECITATION": chat.FinishFilter, "IMAGE_SAFETY": chat.FinishFilter,
		"OTHER": chat.FinishOther, "MALFORMED_FUNCTION_CALL": chat.FinishOther, "SOMETHING_NEW": chat.FinishOther,
		"FINISH_REASON_UNSPECIFIED": "",
	} {
		m := serve(t, reply(200, "application/json", fmt.Appendf(nil, `{"candidates":[{"finishReason":%q}]}`, reason)))
		resp, err := m.Generate(t.Context(), hello())
		if err != nil {
			t.Fatal(err)
		}
		if resp.Message.Finish != want {
			t.Errorf("%s is %q, want %q", reason, resp.Message.Finish, want)
		}
	}
}

func TestABlockedPromptIsAnError(t *testing.T) {
	body := `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":1}}`
	_, err := serve(t, reply(200, "application/json", []byte(body))).Generate(t.Context(), hello())
	if e := check(t, err, model.ErrorFilter, "PROHIBITED_CONTENT"); e.Code != "PROHIBITED_CONTENT" {
		t.Errorf("code %q", e.Code)
	}
	_, err = model.Collect(serve(t, reply(200, "text/event-stream", []byte("data: "+body+"\n\n"))).Stream(t.Context(), hello()))
	check(t, err, model.ErrorFilter, "PROHIBITED_CONTENT")
}

func TestAPictureAmongTheThoughtsIsLeftOut(t *testing.T) {
	body := `{"candidates":[{"content":{"parts":[{"thought":true,"inlineData":{"data":"cG5n","mimeType":"image/png"}},{"text":"yes"}]},"finishReason":"STOP"}]}`
	resp, err := serve(t, reply(200, "application/json", []byte(body))).Generate(t.Context(), hello())
	if err != nil || len(resp.Message.Parts) != 1 || resp.Message.Text() != "yes" {
		t.Errorf("%+v, %v", resp, err)
	}
}

func TestOnlyTheFirstCandidateIsRead(t *testing.T) {
	body := `{"candidates":[{"index":1,"content":{"parts":[{"text":"no"}]},"finishReason":"STOP"},{"content":{"parts":[{"text":"yes"}]},"finishReason":"STOP"}]}`
	resp, err := serve(t, reply(200, "application/json", []byte(body))).Generate(t.Context(), hello())
	if err != nil || resp.Message.Text() != "yes" {
		t.Errorf("%+v, %v", resp, err)
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
	want := []string{`0 {"city":"Rome"}`, `1 {"city":"Oslo"}`, "2 {}"}
	if !reflect.DeepEqual(args, want) {
		t.Errorf("fragments %q, want %q", args, want)
	}
}

func TestErrorsOfTheAPI(t *testing.T) {
	typed := func(code int, status, message string, details ...string) string {
		return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"status":%q,"details":[%s]}}`, code, message, status, strings.Join(details, ","))
	}
	for _, c := range []struct {
		status int
		body   string
		kind   model.ErrorKind
		text   string
	}{
		{400, typed(400, "INVALID_ARGUMENT", "topK is too big"), model.ErrorInvalid, "topK"},
		{400, typed(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)."), model.ErrorContextLength, "token count"},
		{400, typed(400, "INVALID_ARGUMENT", "API key not valid: "+key), model.ErrorAuth, "[redacted]; check the key, which is of gemini.APIKey, GOOGLE_API_KEY or GEMINI_API_KEY"},
		{400, typed(400, "INVALID_ARGUMENT", "Renew", `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}`), model.ErrorAuth, "Renew"},
		{401, typed(401, "UNAUTHENTICATED", "who"), model.ErrorAuth, "who"},
		{403, typed(403, "PERMISSION_DENIED", "no"), model.ErrorAuth, "no"},
		{404, typed(404, "NOT_FOUND", "models/x"), model.ErrorNotFound, "models/x"},
		{429, typed(429, "RESOURCE_EXHAUSTED", "slow"), model.ErrorRateLimit, "slow"},
		{429, typed(429, "RESOURCE_EXHAUSTED", "slow", `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProject"}]}`), model.ErrorRateLimit, "slow"},
		{429, typed(429, "RESOURCE_EXHAUSTED", "done", `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProject"}]}`), model.ErrorQuota, "done"},
		{499, typed(499, "CANCELLED", "gone"), model.ErrorServer, "gone"},
		{500, typed(500, "INTERNAL", "oops"), model.ErrorServer, "oops"},
		{503, typed(503, "UNAVAILABLE", "busy"), model.ErrorOverloaded, "busy"},
		{504, typed(504, "DEADLINE_EXCEEDED", "late"), model.ErrorTimeout, "late"},
		{401, "no JSON, and " + key, model.ErrorAuth, "no JSON"},
		{402, "", model.ErrorQuota, "402"},
		{403, "", model.ErrorAuth, "403"},
		{404, "[]", model.ErrorNotFound, "404"},
		{408, "", model.ErrorTimeout, "408"},
		{413, "<html>" + strings.Repeat("ä", 1000), model.ErrorContextLength, "…"},
		{418, "{}", model.ErrorInvalid, "418"},
		{429, "", model.ErrorRateLimit, "429"},
		{502, "bad gateway", model.ErrorServer, "bad gateway"},
		{503, "", model.ErrorOverloaded, "503"},
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
			delay, header string
			want          time.Duration
		}{
			{"34.5s", "", 34500 * time.Millisecond},
			{"34s", "7", 34 * time.Second},
			{"", "7", 7 * time.Second},
			{"", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), time.Minute},
			{"", time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat), 0},
			{"soon", "soon", 0},
			{"-1s", "-1", 0},
			{"", "1e400", math.MaxInt64},
		} {
			// Without a network, so that the bubble's clock rules.
			client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
				h := http.Header{"Content-Type": {"application/json"}, "Retry-After": {c.header}}
				return &http.Response{StatusCode: 429, Header: h, Request: r, Body: io.NopCloser(strings.NewReader(fmt.Sprintf(
					`{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":%q}]}}`, c.delay)))}, nil
			})}
			m := gemini.New("gemini-test", gemini.APIKey(key), gemini.BaseURL("http://localhost"), gemini.HTTPClient(client))
			_, err := m.Generate(t.Context(), hello())
			if e := check(t, err, model.ErrorRateLimit, "slow down"); e.RetryAfter != c.want || e.Code != "RESOURCE_EXHAUSTED" {
				t.Errorf("%q %q: wait %v, code %q", c.delay, c.header, e.RetryAfter, e.Code)
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
			io.WriteString(w, all[0]+"data: {\"candi")
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
			w.WriteHeader(503)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		_, err := m.Generate(t.Context(), hello())
		check(t, err, model.ErrorOverloaded, "503")
	})
}

func TestAStreamThatEndsInAnEvent(t *testing.T) {
	m := serve(t, reply(200, "text/event-stream", []byte(events(t, "answer.sse")[0]+"data: {\"candi")))
	_, err := model.Collect(m.Stream(t.Context(), hello()))
	check(t, err, model.ErrorBrokenStream, "")
}

func TestAConnectionThatBreaksAfterTheEndOfTheMessage(t *testing.T) {
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write(read(t, "answer.sse"))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	resp, err := model.Collect(m.Stream(t.Context(), hello()))
	if err != nil || resp.Message.Text() != "Hello there" {
		t.Errorf("%+v, %v", resp, err)
	}
}

func TestAnErrorInTheMiddleOfAStream(t *testing.T) {
	for _, form := range []string{"data: %s\n\n", "%s\n\n"} {
		body := events(t, "answer.sse")[0] + fmt.Sprintf(form, `{"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}`)
		resp, err := model.Collect(serve(t, reply(200, "text/event-stream", []byte(body))).Stream(t.Context(), hello()))
		if e := check(t, err, model.ErrorOverloaded, "Overloaded"); e.Code != "UNAVAILABLE" || e.Status != 0 {
			t.Errorf("code %q, status %d", e.Code, e.Status)
		}
		if resp.Message.Text() != "Hello" {
			t.Errorf("text %q came before", resp.Message.Text())
		}
	}
}

func TestMalformedAnswers(t *testing.T) {
	part := func(p string) string {
		return `{"candidates":[{"content":{"parts":[` + p + `]},"finishReason":"STOP"}]}`
	}
	for _, body := range []string{
		``, `<html>`, `{"candidates"?`, `[]`, `{}`, `{"candidates":"x"}`, `{"candidates":["x"]}`, `{"candidates":[{"content":"x"}]}`, part(`"x"`), part(`{"text":1}`),
		part(`{"executableCode":{"code":"1"}, "text": 1}`), part(`{"fileData":{"fileUri":"x"}}`),
		part(`{"functionResponse":{"name":"x"}}`), part(`{"functionCall":{"name":"x","willContinue":true}}`),
	} {
		t.Run(body, func(t *testing.T) {
			_, err := serve(t, reply(200, "application/json", []byte(body))).Generate(t.Context(), hello())
			check(t, err, model.ErrorResponse, "")
			if body == "" || body == "{}" { // a stream of nothing
				return
			}
			_, err = model.Collect(serve(t, reply(200, "text/event-stream", []byte("data: "+body+"\n\n"))).Stream(t.Context(), hello()))
			check(t, err, model.ErrorResponse, "")
		})
	}
	_, err := model.Collect(serve(t, reply(200, "text/html", []byte("<html>"))).Stream(t.Context(), hello()))
	check(t, err, model.ErrorResponse, "")
}

func TestACallersPanicIsItsOwn(t *testing.T) {
	m := serve(t, reply(200, "text/event-stream", read(t, "answer.sse")))
	defer func() {
		if p := recover(); p != "mine" {
			t.Errorf("recovered %v", p)
		}
	}()
	for range m.Stream(t.Context(), hello()) {
		panic("mine")
	}
}

func TestWhatIsWrongWithNewIsTheErrorOfCalls(t *testing.T) {
	for _, env := range []string{"GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"} {
		t.Setenv(env, "")
	}
	calls := func(m *gemini.Model, kind model.ErrorKind, text string) {
		t.Helper()
		_, err := m.Generate(t.Context(), hello())
		check(t, err, kind, text)
		_, err = model.Collect(m.Stream(t.Context(), hello()))
		check(t, err, kind, text)
	}
	calls(gemini.New("gemini-test"), model.ErrorAuth, "GEMINI_API_KEY")
	calls(gemini.New("gemini-test", gemini.APIKey(key), gemini.BaseURL("localhost:80")), model.ErrorInvalid, "localhost:80")
	calls(gemini.New("", gemini.APIKey(key), gemini.HTTPClient(nil)), model.ErrorInvalid, "no model")
}

func TestTheEnvironmentIsReadByNew(t *testing.T) {
	seen := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.URL.Path + " " + r.Header.Get("X-Goog-Api-Key")
		w.Header().Set("Content-Type", "application/json")
		w.Write(read(t, "answer.json"))
	}))
	defer s.Close()
	t.Setenv("GOOGLE_GENAI_USE_VERTEXAI", "true") // not here
	t.Setenv("GOOGLE_GEMINI_BASE_URL", s.URL+"/proxy")
	for _, env := range []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"} {
		t.Setenv("GOOGLE_API_KEY", "")
		t.Setenv(env, "from-"+env)
		m := gemini.New("gemini-test")
		t.Setenv(env, "")
		if _, err := m.Generate(t.Context(), hello()); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != "/proxy/v1beta/models/gemini-test:generateContent from-"+env {
			t.Errorf("got %q", got)
		}
	}
}

func TestCallsDontAlterTheRequest(t *testing.T) {
	c := requests[len(requests)-1]
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
	const env = "SUPERSTEP_LIVE_GEMINI_MODEL"
	name := os.Getenv(env)
	if name == "" {
		t.Skipf("NOT TESTED against the provider: set %s to a model's name, and GEMINI_API_KEY", env)
	}
	m := gemini.New(name, gemini.Defaults(model.Config{MaxTokens: 2000}))
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

// A part that is null is skipped like one without content.
func TestANullPartIsNoPanic(t *testing.T) {
	body := `{"candidates":[{"content":{"role":"model","parts":[null,{"text":"hi"}]},"finishReason":"STOP"}]}`
	resp, err := serve(t, reply(200, "application/json", []byte(body))).Generate(t.Context(), hello())
	if err != nil || resp.Message.Text() != "hi" {
		t.Errorf("%+v, %v", resp, err)
	}
}
