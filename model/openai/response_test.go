package openai_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// TestAnswersAreReadAs reads testdata/answer/*.json and the same answers as
// streams, testdata/stream/*.sse: both give the same message.
func TestAnswersAreReadAs(t *testing.T) {
	for _, tt := range []struct {
		name string
		want chat.Message
	}{
		{"text", chat.Message{
			ID: "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT", Model: "gpt-5-mini-2025-08-07", Finish: chat.FinishStop,
			Parts:    []chat.Part{chat.Text{Text: "Hello!"}},
			Usage:    &chat.Usage{Input: 1200, Output: 110, CacheRead: 1024, CacheWrite: 64, Reasoning: 100},
			Metadata: map[string]string{chat.MetadataServiceTier: "default"},
		}},
		{"tool_calls", chat.Message{
			ID: "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcU", Model: "gpt-5-mini", Finish: chat.FinishToolCalls,
			Parts: []chat.Part{paris, rome},
			Usage: &chat.Usage{Input: 82, Output: 17},
		}},
		{"reasoning", chat.Message{
			ID: "0f2d3c1c-4b0e-4a57-9c68-6f1fd5d2b1aa", Model: "deepseek-reasoner", Finish: chat.FinishStop,
			Parts: []chat.Part{chat.Reasoning{Text: "Nine is less."}, chat.Text{Text: "9.8"}},
		}},
		{"refusal", chat.Message{
			ID: "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcV", Model: "gpt-5-mini", Finish: chat.FinishFilter,
			Parts: []chat.Part{chat.Text{Text: "I can't help with that."}},
		}},
		// Content in parts, arguments as an object, no index or 0 for all calls,
		// "stop" in spite of calls, no end of the stream.
		{"whole_calls", chat.Message{
			ID: "chatcmpl-00000000000000000001", Model: "local", Finish: chat.FinishToolCalls,
			Parts: []chat.Part{
				chat.Reasoning{Text: "Two cities."}, chat.Text{Text: "Looking."},
				chat.ToolCall{ID: "a", Name: "get_weather", Args: `{"city": "Paris"}`},
				chat.ToolCall{ID: "b", Name: "get_weather", Args: `{"city": "Rome"}`},
			},
		}},
		{"length", chat.Message{
			ID: "chatcmpl-00000000000000000001", Model: "m", Finish: chat.FinishLength,
			Parts: []chat.Part{chat.Text{Text: "and so"}},
		}},
	} {
		tt.want.Role = chat.RoleAssistant
		read := func(dir, ext string) string {
			b, err := os.ReadFile(filepath.Join("testdata", dir, tt.name+ext))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		check := func(t *testing.T, got chat.Message) {
			t.Helper()
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %#v\nwant %#v\nusage %v, want %v", got, tt.want, got.Usage, tt.want.Usage)
			}
		}
		t.Run(tt.name+" whole", func(t *testing.T) {
			check(t, generate(t, serve(t, replies(200, read("answer", ".json"))).model(), ask()))
		})
		t.Run(tt.name+" streamed", func(t *testing.T) {
			check(t, stream(t, serve(t, streams(read("stream", ".sse"))).model(), ask()))
		})
		t.Run(tt.name+" whole where a stream was asked for", func(t *testing.T) {
			check(t, stream(t, serve(t, replies(200, read("answer", ".json"))).model(), ask()))
		})
	}
}

func TestPiecesOfToolCallsFindTogether(t *testing.T) {
	const f, args = `"function":{"name":"f"}`, `"function":{"arguments":"{}"}`
	for _, tt := range []struct {
		name   string
		deltas []string
		want   []chat.ToolCall // an empty ID stands for one that was made
	}{
		{"by their index, in any order", []string{
			`{"index":0,"id":"a","function":{"name":"f","arguments":"1"}},{"index":1,"id":"b","function":{"name":"g","arguments":"2"}}`,
			`{"index":1,"function":{"arguments":"2"}}`, `{"index":0,"function":{"arguments":"1"}}`,
		}, []chat.ToolCall{{ID: "a", Name: "f", Args: "11"}, {ID: "b", Name: "g", Args: "22"}}},
		{"by an index that does not begin at 0", []string{`{"index":1,"id":"a",` + f + `}`, `{"index":1,` + args + `}`}, []chat.ToolCall{{ID: "a", Name: "f", Args: "{}"}}},
		{"without an index", []string{`{"id":"a",` + f + `}`, `{` + args + `}`, `{"id":"b",` + f + `}`, `{` + args + `}`}, []chat.ToolCall{{ID: "a", Name: "f", Args: "{}"}, {ID: "b", Name: "f", Args: "{}"}}},
		{"without an index and an ID", []string{`{` + f + `}`, `{` + args + `}`, `{` + f + `}`}, []chat.ToolCall{{Name: "f", Args: "{}"}, {Name: "f"}}},
		{"without an ID", []string{`{"index":0,` + f + `}`, `{"index":0,` + args + `}`, `{"index":1,` + f + `}`}, []chat.ToolCall{{Name: "f", Args: "{}"}, {Name: "f"}}},
		{"with the index 0 for all", []string{`{"index":0,"id":"a",` + f + `}`, `{"index":0,"id":"b",` + f + `}`, `{"index":0,` + args + `}`}, []chat.ToolCall{{ID: "a", Name: "f"}, {ID: "b", Name: "f", Args: "{}"}}},
		{"with the index 0 for all and no ID", []string{`{"index":0,` + f + `}`, `{"index":0,"function":{"name":"g"}}`}, []chat.ToolCall{{Name: "f"}, {Name: "g"}}},
		{"with ID and name in each", []string{`{"index":0,"id":"a",` + f + `}`, `{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`}, []chat.ToolCall{{ID: "a", Name: "f", Args: "{}"}}},
		{"with a new ID in each", []string{`{"index":0,"id":"a",` + f + `}`, `{"index":0,"id":"z",` + args + `}`}, []chat.ToolCall{{ID: "a", Name: "f", Args: "{}"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var data []string
			for _, d := range tt.deltas {
				data = append(data, delta(`{"tool_calls":[`+d+`]}`, ""))
			}
			data = append(data, delta(`{}`, `"stop"`))
			m := stream(t, serve(t, streams(events(data...))).model(), ask())
			calls := m.ToolCalls()
			seen := map[string]bool{}
			for i, c := range calls {
				if c.ID == "" || seen[c.ID] {
					t.Errorf("the ID %q is empty or not the only one", c.ID)
				}
				seen[c.ID] = true
				if i < len(tt.want) && tt.want[i].ID == "" {
					calls[i].ID = ""
				}
			}
			if !reflect.DeepEqual(calls, tt.want) {
				t.Errorf("got %+v, want %+v", calls, tt.want)
			}
			if m.Finish != chat.FinishToolCalls {
				t.Errorf("it stopped for %q", m.Finish)
			}
		})
	}
}

// A conversation takes a message with an ID that it knows for a new version of
// the known one, so answers may not share one.
func TestAnswersOfServersWithPoorIDsHaveTheirOwn(t *testing.T) {
	for _, id := range []string{"", "chatcmpl-1"} {
		whole := serve(t, replies(200, strings.Replace(hello, "chatcmpl-00000000000000000001", id, 1))).model()
		streamed := serve(t, streams(events(strings.Replace(delta(`{"content":"a"}`, ""), "chatcmpl-00000000000000000001", id, 1), delta(`{}`, `"stop"`)))).model()
		seen := map[string]bool{}
		for range 3 {
			seen[generate(t, whole, ask()).ID] = true
			seen[stream(t, streamed, ask()).ID] = true
		}
		if len(seen) != 6 {
			t.Errorf("6 answers have the IDs %v", seen)
		}
		for got := range seen {
			if !strings.HasPrefix(got, "chatcmpl-") || !strings.HasPrefix(got, id) {
				t.Errorf("the ID is %q", got)
			}
		}
	}
	// One answer has one ID, in all its chunks.
	ids := map[string]bool{}
	for k, err := range serve(t, streams(events(`{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}`))).model().Stream(t.Context(), ask()) {
		if err != nil {
			t.Fatal(err)
		}
		ids[k.ID] = true
	}
	if len(ids) != 1 {
		t.Errorf("one answer has the IDs %v", ids)
	}
}

func TestToolCallsWithoutAnIDGetOne(t *testing.T) {
	body := `{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"function":{"name":"f","arguments":"{}"}}]}}]}`
	calls := generate(t, serve(t, replies(200, body)).model(), ask()).ToolCalls()
	if len(calls) != 2 || calls[0].ID == "" || calls[0].ID == calls[1].ID {
		t.Errorf("got %+v", calls)
	}
}

func TestReasonsToStop(t *testing.T) {
	for reason, want := range map[string]chat.FinishReason{
		`"stop"`: chat.FinishStop, `"length"`: chat.FinishLength, `"tool_calls"`: chat.FinishToolCalls, `"function_call"`: chat.FinishToolCalls,
		`"content_filter"`: chat.FinishFilter, `"eos"`: chat.FinishOther, `null`: "", `""`: "",
	} {
		whole := generate(t, serve(t, replies(200, strings.Replace(hello, `"stop"`, reason, 1))).model(), ask())
		streamed := stream(t, serve(t, streams(events(delta(`{"content":"hello"}`, reason)))).model(), ask())
		if whole.Finish != want || streamed.Finish != want {
			t.Errorf("%s is read as %q and, streamed, as %q; want %q", reason, whole.Finish, streamed.Finish, want)
		}
	}
}

func TestThoughtsHaveTwoNamesAndAreReadOnce(t *testing.T) {
	for extra, want := range map[string]string{
		`"reasoning":"hm"`: "hm", `"reasoning_content":"hm"`: "hm", `"reasoning":"hm","reasoning_content":"hm"`: "hm",
		`"reasoning":{"a":1}`: "", `"reasoning":null,"reasoning_content":""`: "",
	} {
		m := stream(t, serve(t, streams(events(delta(`{`+extra+`,"content":"a"}`, `"stop"`)))).model(), ask())
		if m.Reasoning() != want || m.Text() != "a" {
			t.Errorf("%s: got %q and %q", extra, m.Reasoning(), m.Text())
		}
	}
}

func TestOnlyChunksThatSaySomethingAreGivenOut(t *testing.T) {
	n := 0
	for k, err := range serve(t, streams(events(
		delta(`{"role":"assistant","content":""}`, ""), `{"choices":[]}`, delta(`{"content":"a"}`, ""), delta(`{"content":""}`, ""), delta(`{}`, `"stop"`),
	))).model().Stream(t.Context(), ask()) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 && (k.Text != "a" || k.Role != chat.RoleAssistant || k.ID == "" || k.Model != "m-1") {
			t.Errorf("the first chunk is %+v", k)
		}
	}
	if n != 2 {
		t.Errorf("%d chunks, want the text and the end", n)
	}
}

func TestFailures(t *testing.T) {
	const longText = "This model's maximum context length is 4096 tokens."
	for _, tt := range []struct {
		name   string
		status int
		body   string
		kind   model.ErrorKind
		code   string
		says   string
	}{
		{"a wrong key", 401, `{"error":{"message":"Incorrect API key","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, model.ErrorAuth, "invalid_api_key", "(HTTP 401): Incorrect API key"},
		{"no right", 403, `{"error":{"message":"Country not supported","type":"request_forbidden"}}`, model.ErrorAuth, "request_forbidden", "Country"},
		{"no such model", 404, `{"error":{"message":"model \"x\" not found","type":"api_error","code":null}}`, model.ErrorNotFound, "api_error", `model "x" not found`},
		{"no such path", 404, `404 page not found`, model.ErrorNotFound, "", "404 page not found; the base URL must have the path before /chat/completions, which often is /v1"},
		{"too many requests", 429, `{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}`, model.ErrorRateLimit, "rate_limit_exceeded", "Rate limit"},
		{"no money left", 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, model.ErrorQuota, "insufficient_quota", "quota"},
		{"payment required", 402, `{"error":{"message":"Insufficient credits","code":402}}`, model.ErrorQuota, "", "credits"},
		{"too long", 400, `{"error":{"message":"Too long","type":"invalid_request_error","code":"context_length_exceeded"}}`, model.ErrorContextLength, "context_length_exceeded", "Too long"},
		{"too long for llama.cpp", 400, `{"error":{"code":400,"message":"exceeds","type":"exceed_context_size_error","n_ctx":4096}}`, model.ErrorContextLength, "exceed_context_size_error", "exceeds"},
		{"too long for vLLM", 400, `{"object":"error","message":"` + longText + `","type":"BadRequestError","param":null,"code":400}`, model.ErrorContextLength, "BadRequestError", longText},
		{"content that is refused", 400, `{"error":{"message":"Filtered","code":"content_filter"}}`, model.ErrorFilter, "content_filter", "Filtered"},
		{"a wrong request", 400, `{"error":{"message":"Unknown parameter","type":"invalid_request_error","code":"unknown_parameter"}}`, model.ErrorInvalid, "unknown_parameter", "Unknown"},
		{"a wrong request, in detail", 422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, model.ErrorInvalid, "", "field required"},
		{"a text for an error", 400, `{"error":"model is required"}`, model.ErrorInvalid, "", "(HTTP 400): model is required"},
		{"a timeout of the server", 408, `{}`, model.ErrorTimeout, "", "{}"},
		{"a timeout of a gateway", 504, "", model.ErrorTimeout, "", "Gateway Timeout"},
		{"a failure of the server", 500, `{"error":{"message":"The server had an error","type":"server_error"}}`, model.ErrorServer, "server_error", "had an error"},
		{"a page of a proxy", 502, "<html>\n<body>  Bad\n gateway </body>" + strings.Repeat("é", 1000), model.ErrorServer, "", "<html> <body> Bad gateway </body>é"},
		{"no capacity", 503, `{"error":{"message":"Overloaded"}}`, model.ErrorOverloaded, "", "Overloaded"},
		{"no capacity, by another status", 529, `{"error":{"message":"Overloaded"}}`, model.ErrorOverloaded, "", "Overloaded"},
		{"a redirect to nowhere", 304, "", model.ErrorResponse, "", "Not Modified"},
		{"an error in a success", 200, `{"error":{"message":"Rate limited upstream","code":429}}`, model.ErrorRateLimit, "", "upstream"},
		{"no JSON", 200, `{"choices":[`, model.ErrorResponse, "", "not the API's JSON"},
		{"a JSON of something else", 200, `[1]`, model.ErrorResponse, "", "not the API's JSON"},
		{"no choices", 200, `{"choices":[]}`, model.ErrorResponse, "", "no choices"},
		{"content that is no text", 200, `{"choices":[{"message":{"content":{"a":1}}}]}`, model.ErrorResponse, "", "neither a text nor parts"},
		{"content of an unknown type", 200, `{"choices":[{"message":{"content":[{"type":"smell"}]}}]}`, model.ErrorResponse, "", `"smell"`},
		{"a tool of an unknown type", 200, `{"choices":[{"message":{"tool_calls":[{"id":"a","type":"custom","custom":{"name":"f","input":"x"}}]}}]}`, model.ErrorResponse, "", `"custom"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := serve(t, replies(tt.status, tt.body)).model()
			for _, err := range []error{generateError(t, m, ask()), streamError(t, m)} {
				e := failsAs(t, err, tt.kind, tt.says)
				if e.Code != tt.code {
					t.Errorf("the code is %q, want %q", e.Code, tt.code)
				}
				if tt.status != 200 && e.Status != tt.status {
					t.Errorf("the status is %d, want %d", e.Status, tt.status)
				}
				if len(e.Message) > 600 || strings.ContainsRune(e.Message, '\uFFFD') {
					t.Errorf("the message is %q", e.Message)
				}
			}
		})
	}
}

func TestARefusedKeyThatWasNotSentIsExplained(t *testing.T) {
	s := serve(t, replies(401, `{"error":"Unauthorized"}`))
	failsAs(t, generateError(t, s.model(), ask()), model.ErrorAuth, "no key was sent")
}

func TestFailuresInTheMiddleOfAStream(t *testing.T) {
	begin := "data: " + delta(`{"role":"assistant","content":"a"}`, "") + "\n\n"
	for _, tt := range []struct {
		name, rest string
		kind       model.ErrorKind
		says       string
	}{
		{"it ends", "", model.ErrorBrokenStream, "unexpected EOF"},
		{"it ends within an event", `data: {"choices":[{"delta":{"cont`, model.ErrorBrokenStream, ""},
		{"it ends before the reason to stop", "data: " + delta(`{"content":"b"}`, "") + "\n\n", model.ErrorBrokenStream, ""},
		{"an error of the server", `data: {"error":{"message":"oops","type":"server_error"}}` + "\n\n", model.ErrorServer, "oops"},
		{"an error with a status", `data: {"id":"x","error":{"code":503,"message":"busy"},"choices":[{"delta":{},"finish_reason":"error"}]}` + "\n\n", model.ErrorOverloaded, "busy"},
		{"an error with a type", `data: {"error":{"message":"slow","type":"rate_limit_error"}}` + "\n\n", model.ErrorRateLimit, "slow"},
		{"an error without a form", `data: {"error":"out of memory"}` + "\n\n", model.ErrorServer, "out of memory"},
		{"an event that is an error", "event: error\ndata: {\"message\":\"oops\"}\n\n", model.ErrorServer, "oops"},
		{"malformed JSON", "data: {\"choices\n\n", model.ErrorResponse, "a chunk of the stream is not the API's JSON"},
		{"a tool of an unknown type", "data: " + delta(`{"tool_calls":[{"index":0,"type":"custom"}]}`, "") + "\n\n", model.ErrorResponse, `"custom"`},
		{"content that is no text", "data: " + delta(`{"content":{"a":1}}`, "") + "\n\n", model.ErrorResponse, "neither"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := model.Collect(serve(t, streams(begin+tt.rest)).model().Stream(t.Context(), ask()))
			failsAs(t, err, tt.kind, tt.says)
			if !strings.HasPrefix(resp.Message.Text(), "a") {
				t.Errorf("what came before is %q", resp.Message.Text())
			}
		})
	}
	t.Run("the connection breaks", func(t *testing.T) {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, begin)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		e := failsAs(t, streamError(t, s.model()), model.ErrorBrokenStream)
		if e.Err == nil || !e.Temporary() {
			t.Errorf("error %v has the cause %v", e, e.Err)
		}
	})
	t.Run("the connection breaks in an answer that is whole", func(t *testing.T) {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", fmt.Sprint(len(hello)))
			io.WriteString(w, hello[:20])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		failsAs(t, generateError(t, s.model(), ask()), model.ErrorBrokenStream)
	})
}

// In a stream there is no status that tells what went wrong.
func TestErrorsOfAStreamAreToldApartByTheirTypes(t *testing.T) {
	for code, kind := range map[string]model.ErrorKind{
		"rate_limit_error": model.ErrorRateLimit, "overloaded_error": model.ErrorOverloaded, "service_unavailable": model.ErrorOverloaded,
		"authentication_error": model.ErrorAuth, "not_found_error": model.ErrorNotFound, "model_not_found": model.ErrorNotFound,
		"timeout": model.ErrorTimeout, "invalid_request_error": model.ErrorInvalid, "context_length_exceeded": model.ErrorContextLength,
		"insufficient_quota": model.ErrorQuota, "content_filter": model.ErrorFilter, "server_error": model.ErrorServer, "else": model.ErrorServer,
	} {
		for _, field := range []string{"type", "code"} {
			body := fmt.Sprintf(`{"error":{"message":"no",%q:%q}}`, field, code)
			e := failsAs(t, streamError(t, serve(t, streams(events(body))).model()), kind)
			if e.Code != code {
				t.Errorf("%s: the code is %q", body, e.Code)
			}
		}
	}
}

func TestAStreamIsWholeWithOneOfItsTwoEnds(t *testing.T) {
	text := "data: " + delta(`{"content":"a"}`, "") + "\n\n"
	stop := "data: " + delta(`{}`, `"stop"`) + "\n\n"
	for name, body := range map[string]string{
		"both":                    text + stop + "data: [DONE]\n\n",
		"no [DONE]":               text + stop,
		"no reason to stop":       text + "data: [DONE]\n\n",
		"no line after [DONE]":    text + stop + "data: [DONE]",
		"lines of Windows":        strings.ReplaceAll(text+stop+"data: [DONE]\n\n", "\n", "\r\n"),
		"no space after a colon":  strings.ReplaceAll(text+stop+"data: [DONE]\n\n", "data: ", "data:"),
		"something after the end": text + "data: [DONE]\n\ndata: nonsense\n\n",
	} {
		if m := stream(t, serve(t, streams(body)).model(), ask()); m.Text() != "a" {
			t.Errorf("%s: got %q", name, m.Text())
		}
	}
	failsAs(t, streamError(t, serve(t, streams("data: [DONE]\n\n")).model()), model.ErrorBrokenStream)
	failsAs(t, streamError(t, serve(t, streams("")).model()), model.ErrorBrokenStream)
}

func TestAStreamCanBeReadAgain(t *testing.T) {
	s := serve(t, streams(events(delta(`{"content":"a"}`, `"stop"`))))
	seq := s.model().Stream(t.Context(), ask())
	for range 2 {
		resp, err := model.Collect(seq)
		if err != nil || resp.Message.Text() != "a" {
			t.Errorf("got %q, %v", resp.Message.Text(), err)
		}
	}
	if n := len(s.all()); n != 2 {
		t.Errorf("%d requests, want one for each time", n)
	}
}

func TestLogProbabilitiesAreKept(t *testing.T) {
	const one, two = `{"token":"So","logprob":-0.1}`, `{"token":".","logprob":-0.2}`
	probs := func(chunk, list string) string {
		return strings.Replace(chunk, `"finish_reason"`, `"logprobs":{"content":[`+list+`]},"finish_reason"`, 1)
	}
	for name, h := range map[string]http.HandlerFunc{
		"whole":    replies(200, `{"choices":[{"message":{"content":"So."},"logprobs":{"content":[`+one+`,`+two+`]},"finish_reason":"stop"}]}`),
		"streamed": streams(events(probs(delta(`{"content":"So"}`, ""), one), probs(delta(`{"content":"."}`, ""), two), delta(`{}`, `"stop"`))),
	} {
		got := stream(t, serve(t, h).model(), ask()).Metadata[chat.MetadataLogProbs]
		if want := `{"content":[` + one + `,` + two + `]}`; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// Servers that send calls whole, all with the index 0 and without an ID, may send
// two of one tool.
func TestWholeCallsOfOneToolAreApart(t *testing.T) {
	piece := func(name, args string) string {
		return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":%q,"arguments":%q}}]}}]}`+"\n\n", name, args)
	}
	end := `data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
	for body, want := range map[string][]string{
		piece("f", `{"a":1}`) + piece("f", `{"a":2}`):                                  {`{"a":1}`, `{"a":2}`},
		piece("f", "{}") + piece("f", "{}") + piece("g", "{}"):                         {"{}", "{}", "{}"},
		piece("f", `{"a":`) + piece("f", `{}`) + piece("f", "}") + piece("f", ""):      {`{"a":{}}`}, // the name in each piece
		piece("f", `{"a":`) + piece("", `1`) + piece("", "}") + piece("f", `{"a":2} `): {`{"a":1}`, `{"a":2} `},
	} {
		s := serve(t, streams(body+end))
		resp, err := model.Collect(s.model().Stream(t.Context(), &model.Request{Messages: []chat.Message{chat.User("hi")}}))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range resp.Message.ToolCalls() {
			got = append(got, c.Args)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
