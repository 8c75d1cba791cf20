package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/strict"
	"github.com/superstep-dev/superstep/model/openai"
)

// responder returns a model on a strict server of the Responses API.
func responder(name string, answers []string, opts ...openai.Option) (*openai.Model, *strict.Server) {
	s := &strict.Server{Check: strict.Responses, Answers: answers}
	return openai.New(name, append([]openai.Option{
		openai.Responses(), openai.APIKey("k"), openai.BaseURL("https://api.openai.com/v1"), openai.HTTPClient(&http.Client{Transport: s}),
	}, opts...)...), s
}

// responded is an answer with items, whole.
func responded(items ...string) string {
	return `{"id":"resp_000000000000000001","object":"response","status":"completed","model":"gpt-5-1","service_tier":"default","error":null,"incomplete_details":null,"output":[` + strings.Join(items, ",") + `],` +
		`"usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":20},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":39}}`
}

// streamed is a whole answer as the API streams it: in events of every kind.
func streamed(t *testing.T, whole string) string {
	t.Helper()
	var b strings.Builder
	n := 0
	emit := func(kind string, fields map[string]any) {
		fields["type"], fields["sequence_number"] = kind, n
		n++
		fmt.Fprintf(&b, "event: %s\ndata: ", kind)
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(fields); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
	}
	var r map[string]any
	dec := json.NewDecoder(strings.NewReader(whole))
	dec.UseNumber()
	if err := dec.Decode(&r); err != nil {
		t.Fatal(err)
	}
	without := func(of map[string]any, names ...string) map[string]any {
		m := map[string]any{}
		for k, v := range of {
			m[k] = v
		}
		for i := 0; i < len(names); i += 2 {
			m[names[i]] = json.RawMessage(names[i+1])
		}
		return m
	}
	start := without(r, "output", "[]", "usage", "null", "status", `"in_progress"`, "incomplete_details", "null", "error", "null")
	emit("response.created", map[string]any{"response": start})
	emit("response.in_progress", map[string]any{"response": start})
	emit("response.something_new", map[string]any{"delta": map[string]any{"a": 1}, "text": "b"})
	pieces := func(text string, give func(string)) {
		for runes := []rune(text); len(runes) > 0; {
			n := min(3, len(runes))
			give(string(runes[:n]))
			runes = runes[n:]
		}
	}
	list := func(v any) []any { l, _ := v.([]any); return l }
	for i, v := range list(r["output"]) {
		item := v.(map[string]any)
		at := func(more map[string]any) map[string]any {
			more["output_index"], more["item_id"] = i, item["id"]
			return more
		}
		added := item
		switch item["type"] {
		case "message":
			added = without(item, "content", "[]", "status", `"in_progress"`)
		case "reasoning":
			added = without(item, "summary", "[]", "encrypted_content", `"early"`)
		case "function_call":
			added = without(item, "arguments", `""`, "status", `"in_progress"`)
		}
		emit("response.output_item.added", at(map[string]any{"item": added}))
		switch item["type"] {
		case "message":
			for j, v := range list(item["content"]) {
				part := v.(map[string]any)
				in := func(more map[string]any) map[string]any {
					more["content_index"] = j
					return at(more)
				}
				emit("response.content_part.added", in(map[string]any{"part": without(part, "text", `""`, "annotations", "[]")}))
				switch part["type"] {
				case "output_text":
					pieces(part["text"].(string), func(s string) { emit("response.output_text.delta", in(map[string]any{"delta": s})) })
					for k, a := range list(part["annotations"]) {
						emit("response.output_text.annotation.added", in(map[string]any{"annotation_index": k, "annotation": a}))
					}
					emit("response.output_text.done", in(map[string]any{"text": part["text"]}))
				case "refusal":
					pieces(part["refusal"].(string), func(s string) { emit("response.refusal.delta", in(map[string]any{"delta": s})) })
					emit("response.refusal.done", in(map[string]any{"refusal": part["refusal"]}))
				}
				emit("response.content_part.done", in(map[string]any{"part": part}))
			}
		case "reasoning":
			for j, v := range list(item["summary"]) {
				in := func(more map[string]any) map[string]any {
					more["summary_index"] = j
					return at(more)
				}
				emit("response.reasoning_summary_part.added", in(map[string]any{"part": map[string]any{"type": "summary_text", "text": ""}}))
				said := v.(map[string]any)["text"].(string)
				pieces(said, func(s string) { emit("response.reasoning_summary_text.delta", in(map[string]any{"delta": s})) })
				emit("response.reasoning_summary_text.done", in(map[string]any{"text": said}))
				emit("response.reasoning_summary_part.done", in(map[string]any{"part": v}))
			}
			for j, v := range list(item["content"]) {
				pieces(v.(map[string]any)["text"].(string), func(s string) {
					emit("response.reasoning_text.delta", at(map[string]any{"content_index": j, "delta": s}))
				})
				emit("response.content_part.done", at(map[string]any{"content_index": j, "part": v}))
			}
		case "function_call":
			pieces(item["arguments"].(string), func(s string) { emit("response.function_call_arguments.delta", at(map[string]any{"delta": s})) })
			emit("response.function_call_arguments.done", at(map[string]any{"arguments": item["arguments"]}))
		case "web_search_call":
			emit("response.web_search_call.searching", at(map[string]any{}))
		}
		emit("response.output_item.done", at(map[string]any{"item": item}))
	}
	emit("response."+fmt.Sprint(r["status"]), map[string]any{"response": r})
	return b.String()
}

// bothForms gives an answer whole and streamed, and the streamed one as servers do
// that send only its end.
func bothForms(t *testing.T, whole string) map[string]string {
	t.Helper()
	all := streamed(t, whole)
	return map[string]string{"whole": whole, "streamed": all, "the end alone": all[strings.LastIndex(all, "event: "):]}
}

const (
	thoughtItem  = `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"I must look."},{"type":"summary_text","text":"Twice."}],"encrypted_content":"gAAA"}`
	hiddenItem   = `{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"gBBB"}`
	parisItem    = `{"type":"function_call","id":"fc_1","status":"completed","call_id":"call_1","name":"get_weather","arguments":"{\"city\":\"Paris\"}"}`
	romeItem     = `{"type":"function_call","id":"fc_2","status":"completed","call_id":"call_2","name":"get_weather","arguments":"{\"city\":\"Rome\"}"}`
	searchItem   = `{"action":{"queries":["a <b>"],"query":"a <b>","type":"search"},"id":"ws_1","status":"completed","type":"web_search_call"}`
	filesItem    = `{"id":"fs_1","queries":["a"],"results":null,"status":"completed","type":"file_search_call"}`
	codeItem     = `{"code":"1+1","container_id":"cntr_1","id":"ci_1","outputs":null,"status":"completed","type":"code_interpreter_call"}`
	unknownItem  = `{"id":"x_1","kept":{"a":[1.50,null]},"type":"x"}`
	urlNote      = `{"end_index":3,"start_index":1,"title":"T","type":"url_citation","url":"https://example.org"}`
	fileNote     = `{"file_id":"file-1","filename":"a.pdf","index":2,"type":"file_citation"}`
	plainMessage = `{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"It is sunny – 你好.","annotations":[]}]}`
	citedMessage = `{"content":[{"annotations":[` + urlNote + `,` + fileNote + `],"text":"So it is.","type":"output_text"},{"annotations":[],"text":" And more.","type":"output_text"}],"id":"msg_2","role":"assistant","status":"completed","type":"message"}`
	phaseMessage = `{"content":[{"annotations":[],"text":"Wait.","type":"output_text"}],"id":"msg_3","phase":"commentary","role":"assistant","status":"completed","type":"message"}`
)

func head(id string) chat.Native {
	return chat.Native{Provider: "openai", Type: "message", Data: `{"id":"` + id + `","role":"assistant","status":"completed","type":"message"}`}
}

func native(kind, data string) chat.Native {
	return chat.Native{Provider: "openai", Type: kind, Data: data}
}

// What an answer says is the same whether it is streamed or not, and goes back as it
// came.
func TestResponsesAreRead(t *testing.T) {
	thought := chat.Reasoning{ID: "rs_1", Text: "I must look.\n\nTwice.", Signature: "gAAA"}
	sunny := chat.Text{Text: "It is sunny – 你好."}
	for _, c := range []struct {
		name   string
		items  []string
		want   []chat.Part
		finish chat.FinishReason
		back   []string // the items that are sent back; nil means those that came
	}{
		{
			"a text", []string{plainMessage}, []chat.Part{sunny}, chat.FinishStop,
			[]string{`{"role":"assistant","content":"It is sunny – 你好."}`},
		},
		{
			"two messages", []string{plainMessage, strings.Replace(plainMessage, "msg_1", "msg_9", 1)}, []chat.Part{sunny, head("msg_1"), sunny}, chat.FinishStop,
			[]string{plainMessage, `{"role":"assistant","content":"It is sunny – 你好."}`},
		},
		{
			"two messages with something between", []string{plainMessage, searchItem, strings.Replace(plainMessage, "msg_1", "msg_9", 1)}, []chat.Part{sunny, native("web_search_call", searchItem), sunny}, chat.FinishStop,
			[]string{`{"role":"assistant","content":"It is sunny – 你好."}`, searchItem, `{"role":"assistant","content":"It is sunny – 你好."}`},
		},
		{
			"thoughts and calls", []string{thoughtItem, parisItem, hiddenItem, romeItem},
			[]chat.Part{thought, paris, chat.Reasoning{ID: "rs_2", Signature: "gBBB", Redacted: true}, rome}, chat.FinishToolCalls,
			[]string{
				`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"I must look.\n\nTwice."}],"encrypted_content":"gAAA"}`,
				`{"type":"function_call","call_id":"call_1","name":"get_weather","arguments":"{\"city\":\"Paris\"}"}`, hiddenItem,
				`{"type":"function_call","call_id":"call_2","name":"get_weather","arguments":"{\"city\":\"Rome\"}"}`,
			},
		},
		{
			"the vendor's tools and what is cited", []string{searchItem, filesItem, codeItem, citedMessage},
			[]chat.Part{
				native("web_search_call", searchItem), native("file_search_call", filesItem), native("code_interpreter_call", codeItem),
				chat.Text{Text: "So it is."},
				chat.Citation{URL: "https://example.org", Title: "T", Start: 1, End: 3, Provider: "openai", Data: urlNote},
				chat.Citation{Title: "a.pdf", Provider: "openai", Data: fileNote},
				chat.Text{Text: " And more."}, head("msg_2"),
			}, chat.FinishStop, nil,
		},
		{
			"a phase before a call", []string{phaseMessage, parisItem},
			[]chat.Part{chat.Text{Text: "Wait."}, native("message", `{"id":"msg_3","phase":"commentary","role":"assistant","status":"completed","type":"message"}`), paris}, chat.FinishToolCalls,
			[]string{phaseMessage, `{"type":"function_call","call_id":"call_1","name":"get_weather","arguments":"{\"city\":\"Paris\"}"}`},
		},
		{
			"what nobody knows yet", []string{unknownItem, plainMessage}, []chat.Part{native("x", unknownItem), sunny}, chat.FinishStop,
			[]string{unknownItem, `{"role":"assistant","content":"It is sunny – 你好."}`},
		},
		{
			"a part that nobody knows yet", []string{`{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"x","kept":1}]}`},
			[]chat.Part{native("x", `{"content":[{"kept":1,"type":"x"}],"role":"assistant","type":"message"}`)}, chat.FinishStop,
			[]string{`{"type":"message","role":"assistant","content":[{"type":"x","kept":1}]}`},
		},
		{
			"a refusal", []string{`{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"refusal","refusal":"I won't."}]}`},
			[]chat.Part{chat.Text{Text: "I won't."}}, chat.FinishFilter, []string{`{"role":"assistant","content":"I won't."}`},
		},
		{
			"thoughts of open models", []string{`{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]}`, plainMessage},
			[]chat.Part{chat.Reasoning{ID: "rs_1", Text: "Hm."}, sunny}, chat.FinishStop, []string{`{"role":"assistant","content":"It is sunny – 你好."}`},
		},
	} {
		for form, answer := range bothForms(t, responded(c.items...)) {
			t.Run(c.name+" "+form, func(t *testing.T) {
				m, s := responder("gpt-5", []string{answer, responded(plainMessage)})
				var got chat.Message
				if form == "whole" {
					got = generate(t, m, ask())
				} else {
					got = stream(t, m, ask())
				}
				if c.name == "a part that nobody knows yet" { // its fields' order is the test's
					got.Parts[0] = native("x", canonical(t, got.Parts[0].(chat.Native).Data))
				}
				if !reflect.DeepEqual(got.Parts, c.want) {
					t.Errorf("got  %#v\nwant %#v", got.Parts, c.want)
				}
				if got.ID != "resp_000000000000000001" || got.Model != "gpt-5-1" || got.Role != chat.RoleAssistant || got.Finish != c.finish {
					t.Errorf("got %+v", got)
				}
				if want := (chat.Usage{Input: 30, Output: 9, CacheRead: 20, Reasoning: 4}); got.Usage == nil || *got.Usage != want {
					t.Errorf("the usage is %+v", got.Usage)
				}
				if got.Metadata[chat.MetadataServiceTier] != "default" {
					t.Errorf("the metadata are %v", got.Metadata)
				}
				// Stored and read again, it goes back.
				data, err := json.Marshal(got)
				var again chat.Message
				if err == nil {
					err = json.Unmarshal(data, &again)
				}
				if err != nil {
					t.Fatal(err)
				}
				req := ask(chat.User("hi"), again)
				for _, call := range got.ToolCalls() {
					req.Messages = append(req.Messages, chat.ResultText(call, "sunny"))
				}
				req.Messages = append(req.Messages, chat.User("and?"))
				generate(t, m, req)
				want := c.back
				if want == nil {
					want = c.items
				}
				same(t, inputOf(t, s)[1:len(want)+1], want)
				if n := len(got.ToolCalls()); len(inputOf(t, s)) != len(want)+2+n {
					t.Errorf("sent %s", inputOf(t, s))
				}
			})
		}
	}
}

// inputOf returns the items of the last request.
func inputOf(t *testing.T, s *strict.Server) []string {
	t.Helper()
	var sent struct{ Input []json.RawMessage }
	if err := json.Unmarshal(s.Requests[len(s.Requests)-1], &sent); err != nil {
		t.Fatal(err)
	}
	var items []string
	for _, i := range sent.Input {
		items = append(items, string(i))
	}
	return items
}

func canonical(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// same compares lists of JSON.
func same(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || canonical(t, got[i]) != canonical(t, want[i]) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

func TestAResponseThatWasCutOffSaysWhy(t *testing.T) {
	for _, c := range []struct {
		reason string
		items  []string
		want   chat.FinishReason
	}{
		{"max_output_tokens", []string{thoughtItem, strings.Replace(plainMessage, "completed", "incomplete", 1)}, chat.FinishLength},
		{"max_output_tokens", []string{parisItem}, chat.FinishLength},
		{"max_output_tokens", []string{thoughtItem}, chat.FinishLength},
		{"content_filter", []string{plainMessage}, chat.FinishFilter},
		{"boredom", []string{plainMessage}, chat.FinishOther},
	} {
		whole := strings.NewReplacer(`"status":"completed","model"`, `"status":"incomplete","model"`, `"incomplete_details":null`, `"incomplete_details":{"reason":"`+c.reason+`"}`).Replace(responded(c.items...))
		for form, answer := range bothForms(t, whole) {
			m, s := responder("gpt-5", []string{answer, responded(plainMessage)})
			got := stream(t, m, ask())
			if got.Finish != c.want || got.Usage == nil {
				t.Errorf("%s, %s: got %+v", c.reason, form, got)
			}
			// Thoughts that led to nothing are refused, so they don't go back.
			req := ask(chat.User("hi"), got)
			for _, call := range got.ToolCalls() {
				req.Messages = append(req.Messages, chat.ResultText(call, "sunny"))
			}
			generate(t, m, req)
			if last := inputOf(t, s); len(c.items) == 1 && c.items[0] == thoughtItem && len(last) != 1 {
				t.Errorf("sent %s", last)
			}
		}
	}
}

func TestFailuresOfResponsesAreTyped(t *testing.T) {
	failed := func(code, message string) string {
		return strings.NewReplacer(`"status":"completed"`, `"status":"failed"`, `"error":null`, fmt.Sprintf(`"error":{"code":%q,"message":%q}`, code, message)).Replace(responded())
	}
	for _, c := range []struct {
		code, message string
		kind          model.ErrorKind
	}{
		{"server_error", "An error occurred.", model.ErrorServer},
		{"rate_limit_exceeded", "Slow down.", model.ErrorRateLimit},
		{"insufficient_quota", "Pay.", model.ErrorQuota},
		{"context_length_exceeded", "Too long.", model.ErrorContextLength},
		{"invalid_prompt", "Flagged.", model.ErrorFilter},
		{"image_content_policy_violation", "No.", model.ErrorFilter},
		{"invalid_image_format", "What is it?", model.ErrorInvalid},
		{"failed_to_download_image", "It isn't there.", model.ErrorInvalid},
		{"vector_store_timeout", "Too slow.", model.ErrorTimeout},
	} {
		for form, answer := range bothForms(t, failed(c.code, c.message)) {
			m, _ := responder("gpt-5", []string{answer})
			_, err := model.Collect(m.Stream(t.Context(), ask()))
			if e := failsAs(t, err, c.kind, c.message); e.Code != c.code {
				t.Errorf("%s, %s: the code is %q", c.code, form, e.Code)
			}
		}
	}
	// The same of an event, in both forms that it has, after something was said.
	begin := strings.Split(streamed(t, responded(plainMessage)), "event: response.output_text.done")[0]
	for _, event := range []string{
		`{"type":"error","sequence_number":9,"code":"rate_limit_exceeded","message":"Slow down.","param":null}`,
		`{"type":"error","error":{"type":"tokens","code":"rate_limit_exceeded","message":"Slow down.","param":null}}`,
	} {
		for _, name := range []string{"event: error\n", ""} {
			m, _ := responder("gpt-5", []string{begin + name + "data: " + event + "\n\n"})
			resp, err := model.Collect(m.Stream(t.Context(), ask()))
			if e := failsAs(t, err, model.ErrorRateLimit, "Slow down."); !e.Temporary() || resp.Message.Text() != "It is sunny – 你好." {
				t.Errorf("got %q, %v", resp.Message.Text(), err)
			}
		}
	}
}

func TestAStreamOfAResponseThatHasNoEndIsBroken(t *testing.T) {
	all := streamed(t, responded(thoughtItem, parisItem, citedMessage))
	events := strings.SplitAfter(all, "\n\n")
	for n := range len(events) - 2 {
		for name, rest := range map[string]string{"": "", "done": "data: [DONE]\n\n", "half": events[n+1][:len(events[n+1])/2]} {
			m, _ := responder("gpt-5", []string{strings.Join(events[:n+1], "") + rest})
			_, err := model.Collect(m.Stream(t.Context(), ask()))
			if e := failsAs(t, err, model.ErrorBrokenStream); !e.Temporary() {
				t.Errorf("after %d events, %s: %v", n, name, err)
			}
		}
	}
}

func TestResponsesThatCannotBeRead(t *testing.T) {
	for answer, says := range map[string]string{
		`{}`:                    "no output",
		`[]`:                    "not the API's JSON",
		responded(`{"id":"a"}`): "no type",
		responded(`1`):          "an item of the answer",
		responded(`{"type":"message","content":1}`):                                  "a message of the answer",
		responded(`{"type":"message","content":[1]}`):                                "a part of a message",
		responded(`{"type":"reasoning","summary":1}`):                                "reasoning of the answer",
		responded(`{"type":"function_call","name":1}`):                               "a call of the answer",
		strings.Replace(responded(), `"status":"completed"`, `"status":"queued"`, 1): `its status is "queued"`,
		`{"error":{"message":"odd","code":"server_error"},"choices":[]}`:             "odd",
		"data: {\n\n": "an event is not",
		`data: {"type":"response.completed"}` + "\n\n":        "not the API's JSON",
		`data: {"type":"response.output_item.done"}` + "\n\n": "an item of the answer",
	} {
		m, _ := responder("gpt-5", []string{answer})
		_, err := model.Collect(m.Stream(t.Context(), ask()))
		kind := model.ErrorResponse
		if says == "odd" {
			kind = model.ErrorServer
		}
		failsAs(t, err, kind, says)
	}
}

// Servers that leave out what the API says.
func TestResponsesOfOtherServersAreRead(t *testing.T) {
	for name, answer := range map[string]string{
		"whole": `{"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]},{"type":"function_call","name":"f","arguments":{"b":1}}]}`,
		"without beginnings": `data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"a"}]}}

data: {"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","name":"f","arguments":{"b":1}}}

data: {"type":"response.completed","response":{"status":"completed"}}

data: [DONE]

`,
		"by the events' names": `event: response.output_text.delta
data: {"delta":"a"}

event: response.output_item.added
data: {"output_index":1,"item":{"type":"function_call","name":"f","arguments":""}}

event: response.function_call_arguments.delta
data: {"output_index":1,"delta":"{\"b\":1}"}

event: response.completed
data: {"response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a"}]},{"type":"function_call","name":"f","arguments":"{\"b\":1}"}]}}

`,
	} {
		m, _ := responder("m", []string{answer})
		got := stream(t, m, ask())
		calls := got.ToolCalls()
		if got.Text() != "a" || len(calls) != 1 || calls[0].Name != "f" || calls[0].Args != `{"b":1}` || calls[0].ID == "" || got.Finish != chat.FinishToolCalls || len(got.ID) < 20 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestProbabilitiesOfAResponseAreMetadata(t *testing.T) {
	whole := responded(strings.Replace(plainMessage, `"annotations":[]`, `"annotations":[],"logprobs":[{"token":"It","logprob":-0.5}]`, 1))
	for form, answer := range bothForms(t, whole) {
		m, s := responder("gpt-4.1", []string{answer})
		req := ask()
		req.Extra = map[string]any{"include": []string{"message.output_text.logprobs"}, "top_logprobs": 2}
		got := stream(t, m, req)
		if p := got.Metadata[chat.MetadataLogProbs]; canonical(t, p) != `{"content":[{"logprob":-0.5,"token":"It"}]}` {
			t.Errorf("%s: they are %s", form, p)
		}
		if !strings.Contains(string(s.Requests[0]), `"include":["message.output_text.logprobs"]`) {
			t.Errorf("sent %s", s.Requests[0])
		}
	}
}

func TestResponsesAreAskedForAs(t *testing.T) {
	const hi = `"input":[{"role":"user","content":"Hi"}]`
	user := chat.User("Hi")
	for _, c := range []struct {
		name  string
		model string
		req   *model.Request
		want  string
	}{
		{"plain", "gpt-4.1", ask(user), `{"model":"gpt-4.1",` + hi + `,"store":false}`},
		{"a model that thinks", "gpt-5-mini", ask(user), `{"model":"gpt-5-mini",` + hi + `,"include":["reasoning.encrypted_content"],"store":false}`},
		{"a model that nobody knows", "m", ask(user), `{"model":"m",` + hi + `,"store":false}`},
		{
			"settings", "m", &model.Request{Messages: []chat.Message{user}, Config: model.Config{
				Model: "n", Temperature: ptr(0.0), TopP: ptr(0.5), MaxTokens: 100, Reasoning: "low",
				Extra: map[string]any{
					"reasoning": map[string]any{"summary": "auto"}, "service_tier": "flex", "metadata": map[string]string{"a": "b"}, "user": "u", "text": map[string]any{"verbosity": "low"},
					"include": []string{"web_search_call.action.sources"}, "prompt_cache_key": "k",
				},
			}},
			`{"model":"n",` + hi + `,"reasoning":{"effort":"low","summary":"auto"},"temperature":0,"top_p":0.5,"max_output_tokens":100,"include":["web_search_call.action.sources","reasoning.encrypted_content"],"store":false,` +
				`"metadata":{"a":"b"},"prompt_cache_key":"k","service_tier":"flex","text":{"verbosity":"low"},"user":"u"}`,
		},
		{
			"tools", "gpt-4.1", &model.Request{Messages: []chat.Message{user}, Tools: []chat.ToolSpec{weather, now}, ToolChoice: "now", Config: model.Config{
				ParallelTools: ptr(false),
				Extra:         map[string]any{"tools": []any{map[string]any{"type": "web_search"}, map[string]any{"type": "code_interpreter", "container": map[string]any{"type": "auto"}}}},
			}},
			`{"model":"gpt-4.1",` + hi + `,"tools":[{"type":"function","name":"get_weather","description":"The weather of a city.","parameters":{"type":"object","properties":{"unit":{"type":"string"},"city":{"type":"string"}},"required":["city"]},"strict":false},` +
				`{"type":"function","name":"now","parameters":{"type":"object","properties":{},"required":[],"additionalProperties":false},"strict":true},{"type":"web_search"},{"container":{"type":"auto"},"type":"code_interpreter"}],` +
				`"tool_choice":{"type":"function","name":"now"},"parallel_tool_calls":false,"store":false}`,
		},
		{
			"the vendor's tools alone", "gpt-4.1", &model.Request{Messages: []chat.Message{user}, Config: model.Config{
				Extra: map[string]any{"tools": []any{map[string]any{"type": "file_search", "vector_store_ids": []string{"vs_1"}}}, "tool_choice": map[string]any{"type": "file_search"}},
			}},
			`{"model":"gpt-4.1",` + hi + `,"store":false,"tool_choice":{"type":"file_search"},"tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]}`,
		},
		{
			"an output", "gpt-4.1", &model.Request{Messages: []chat.Message{user}, Tools: []chat.ToolSpec{now}, ToolChoice: model.ToolRequired, Output: &model.Schema{
				Name: "person", Description: "Somebody.", Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`),
			}},
			`{"model":"gpt-4.1",` + hi + `,"tools":[{"type":"function","name":"now","parameters":{"type":"object","properties":{},"required":[],"additionalProperties":false},"strict":true}],"tool_choice":"required",` +
				`"text":{"format":{"type":"json_schema","name":"person","description":"Somebody.","schema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false},"strict":true}},"store":false}`,
		},
		{
			"what the user shows", "gpt-4.1", ask(chat.System("Be brief."), userParts(
				chat.Text{Text: "Look <here>:"}, chat.Image{Source: png, Detail: "low"}, chat.Image{Source: chat.Source{URL: "https://example.org/a.png"}},
				chat.Image{Source: chat.Source{FileID: "file-1"}}, chat.File{Source: chat.Source{Data: []byte("%PDF"), MIME: "application/pdf"}, Name: "a.pdf"},
				chat.File{Source: chat.Source{URL: "https://example.org/a.pdf"}}, chat.File{Source: chat.Source{FileID: "file-2"}}, chat.File{Source: chat.Source{URL: "data:text/plain;base64,YQ=="}},
			)),
			`{"model":"gpt-4.1","input":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"input_text","text":"Look <here>:"},{"type":"input_image","detail":"low","image_url":"data:image/png;base64,cG5n"},` +
				`{"type":"input_image","detail":"auto","image_url":"https://example.org/a.png"},{"type":"input_image","detail":"auto","file_id":"file-1"},{"type":"input_file","file_data":"data:application/pdf;base64,JVBERg==","filename":"a.pdf"},` +
				`{"type":"input_file","file_url":"https://example.org/a.pdf"},{"type":"input_file","file_id":"file-2"},{"type":"input_file","file_data":"data:text/plain;base64,YQ==","filename":"file"}]}],"store":false}`,
		},
		{
			"what tools return", "gpt-4.1", ask(user, chat.AI("Wait.", paris, clock), chat.Result(paris, chat.Text{Text: "So:"}, chat.Image{Source: png}), chat.Result(clock)),
			`{"model":"gpt-4.1","input":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Wait."},{"type":"function_call","call_id":"call_1","name":"get_weather","arguments":"{\"city\":\"Paris\"}"},{"type":"function_call","call_id":"call_3","name":"now","arguments":"{}"},` +
				`{"type":"function_call_output","call_id":"call_1","output":[{"type":"input_text","text":"So:"},{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,cG5n"}]},{"type":"function_call_output","call_id":"call_3","output":""}],"store":false}`,
		},
		{
			"what others said", "gpt-5", ask(user, chat.Message{Role: chat.RoleAssistant, Name: "Ann", Model: "claude-x", Parts: []chat.Part{
				chat.Reasoning{Text: "Hm.", Signature: "c2ln"}, chat.Native{Provider: "anthropic", Type: "x", Data: `{"type":"x"}`}, chat.Text{Text: "Cited."}, chat.Citation{URL: "u", Provider: "anthropic", Data: `{"a":1}`},
				chat.Image{Source: chat.Source{Data: []byte("12345"), MIME: "image/png"}},
			}}, chat.Message{Role: chat.RoleAssistant}, user),
			`{"model":"gpt-5","input":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Cited.[Not shown: an image (image/png, 5 bytes): the API takes nothing but text of a model]"},{"role":"user","content":"Hi"}],"include":["reasoning.encrypted_content"],"store":false}`,
		},
		{ // a model that doesn't think refuses them
			"thoughts of another model", "gpt-4.1", ask(user, chat.Message{Role: chat.RoleAssistant, Parts: []chat.Part{chat.Reasoning{ID: "rs_1", Signature: "e"}, chat.Text{Text: "Ah."}}}, user),
			`{"model":"gpt-4.1","input":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ah."},{"role":"user","content":"Hi"}],"store":false}`,
		},
	} {
		for _, streaming := range []bool{false, true} {
			m, s := responder(c.model, []string{responded(plainMessage)})
			want := c.want
			if streaming {
				want = strings.Replace(want, `"store":false`, `"store":false,"stream":true`, 1)
				stream(t, m, c.req)
			} else {
				generate(t, m, c.req)
			}
			if got := string(s.Requests[0]); got != want {
				t.Errorf("%s: sent %s\nwant %s", c.name, got, want)
			}
		}
	}
}

func TestWhatTheResponsesAPICannotBeAsked(t *testing.T) {
	req := func(c model.Config) *model.Request { return &model.Request{Messages: ask().Messages, Config: c} }
	extra := func(name string, v any) *model.Request { return req(model.Config{Extra: map[string]any{name: v}}) }
	formed := extra("text", map[string]any{"format": map[string]any{"type": "text"}})
	formed.Output = &model.Schema{Schema: json.RawMessage(`{"type":"object"}`)}
	chosen := extra("tool_choice", "auto")
	chosen.Tools, chosen.ToolChoice = []chat.ToolSpec{now}, "now"
	for says, r := range map[string]*model.Request{
		"the setting Seed":                              req(model.Config{Seed: ptr(int64(1))}),
		"the setting Stop":                              req(model.Config{Stop: []string{"a"}}),
		"the setting FrequencyPenalty":                  req(model.Config{FrequencyPenalty: ptr(1.0)}),
		"the setting PresencePenalty":                   req(model.Config{PresencePenalty: ptr(1.0)}),
		"the setting TopK":                              req(model.Config{TopK: ptr(1)}),
		"set Reasoning":                                 req(model.Config{ReasoningTokens: 9}),
		`"input" is given by Request.Messages`:          extra("input", "hi"),
		`"include" is no list of texts`:                 extra("include", "all"),
		`"background" asks for`:                         extra("background", true),
		`"previous_response_id" asks for`:               extra("previous_response_id", "resp_1"),
		`"conversation" asks for`:                       extra("conversation", "conv_1"),
		`"stream" is given`:                             extra("stream", true),
		`"reasoning.effort" is given by Config`:         req(model.Config{Reasoning: "low", Extra: map[string]any{"reasoning": map[string]any{"effort": "high"}}}),
		`"text.format.type" is given by Request.Output`: formed,
		`"tool_choice" is given by Request.ToolChoice`:  chosen,
		"chat completions take sounds":                  ask(userParts(chat.Audio{Source: chat.Source{Data: []byte("a"), MIME: "audio/wav"}})),
		`is of type "image/tiff"`:                       ask(userParts(chat.Image{Source: chat.Source{Data: []byte("a"), MIME: "image/tiff"}})),
		"is at ftp://x/a.pdf":                           ask(userParts(chat.File{Source: chat.Source{URL: "ftp://x/a.pdf"}})),
		"doesn't take a tool call there":                ask(userParts(chat.ToolCall{ID: "a"})),
		"doesn't take a tool result there":              ask(chat.Message{Role: chat.RoleAssistant, Parts: []chat.Part{chat.ToolResult{}}}),
		"nothing but text there, not an image":          ask(chat.Message{Role: chat.RoleSystem, Parts: []chat.Part{chat.Image{Source: png}, chat.Text{}}}),
		"no tool result":                                ask(chat.Message{Role: chat.RoleTool}),
		"the roles are":                                 ask(chat.Message{Role: "narrator"}),
	} {
		m, s := responder("gpt-5", nil)
		failsAs(t, generateError(t, m, r), model.ErrorInvalid, says)
		if len(s.Requests) > 0 {
			t.Errorf("%s: sent %s", says, s.Requests[0])
		}
	}
	for _, o := range []openai.Option{openai.MaxTokensField(), openai.NoStreamUsage(), openai.ReasoningField("reasoning")} {
		m, _ := responder("gpt-5", nil, o)
		failsAs(t, generateError(t, m, ask()), model.ErrorInvalid, "beside Responses")
	}
}

func TestErrorsOfTheResponsesServerAreMapped(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		kind   model.ErrorKind
		says   string
	}{
		{401, `{"error":{"message":"bad key","type":"invalid_request_error","code":"invalid_api_key"}}`, model.ErrorAuth, "bad key"},
		{429, `{"error":{"message":"slow down","type":"tokens","code":"rate_limit_exceeded"}}`, model.ErrorRateLimit, "slow down"},
		{400, `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`, model.ErrorContextLength, "exceeds"},
		{400, `{"error":{"message":"Unknown parameter: 'a'.","type":"invalid_request_error","param":"a","code":"unknown_parameter"}}`, model.ErrorInvalid, "Unknown parameter"},
		{404, `nothing here`, model.ErrorNotFound, "before /responses"},
		{503, `{}`, model.ErrorOverloaded, ""},
	} {
		s := serve(t, replies(c.status, c.body, "Retry-After", "2", "X-Request-Id", "req_1"))
		m := s.model(openai.Responses())
		for _, err := range []error{generateError(t, m, ask()), streamError(t, m)} {
			if e := failsAs(t, err, c.kind, c.says); e.RetryAfter.Seconds() != 2 || e.RequestID != "req_1" || e.Status != c.status {
				t.Errorf("the error is %+v", e)
			}
		}
		if p := s.last(t).path; p != "POST /v1/responses" {
			t.Errorf("it asked %s", p)
		}
	}
}

func TestARefusedResponseIsAskedForAgain(t *testing.T) {
	n := 0
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n++; n < 3 {
			replies(429, `{"error":{"message":"slow down"}}`, "Retry-After-Ms", "1")(w, r)
			return
		}
		streams(streamed(t, responded(plainMessage)))(w, r)
	})
	if got := stream(t, s.model(openai.Responses(), openai.Retries(2)), ask()); got.Text() == "" || n != 3 {
		t.Errorf("asked %d times, got %+v", n, got)
	}
}

func TestResponsesHaveTheCapabilitiesOfTheTable(t *testing.T) {
	m, _ := responder("gpt-5-mini", nil)
	if c, known := m.Capabilities(""); !known || !c.Reasoning || c.Context != 400_000 || c.Prices.Cost(chat.Usage{Output: 1_000_000}) != 2 {
		t.Errorf("they are %+v", c)
	}
}

// Servers whose last event repeats items at other places, or without their IDs, or
// whose parts don't repeat what was noted.
func TestWhatAResponseRepeatsIsSaidOnce(t *testing.T) {
	done := func(at int, item string) string {
		return fmt.Sprintf("data: {\"type\":\"response.output_item.done\",\"output_index\":%d,\"item\":%s}\n\n", at, item)
	}
	completed := func(items ...string) string {
		return "data: {\"type\":\"response.completed\",\"response\":" + responded(items...) + "}\n\n"
	}
	nameless := strings.Replace(unknownItem, `"id":"x_1",`, "", 1)
	for name, c := range map[string]struct {
		answer string
		want   []chat.Part
	}{
		"at other places": {done(1, unknownItem) + done(3, searchItem) + completed(unknownItem, searchItem), []chat.Part{native("x", unknownItem), native("web_search_call", searchItem)}},
		"without IDs":     {done(0, nameless) + completed(nameless), []chat.Part{native("x", nameless)}},
		"noted apart": {
			`data: {"type":"response.output_text.delta","delta":"So it is."}` + "\n\n" + `data: {"type":"response.output_text.annotation.added","annotation":` + urlNote + "}\n\n" +
				completed(`{"type":"message","id":"msg_2","role":"assistant","status":"completed","content":[{"type":"output_text","text":"So it is."}]}`),
			[]chat.Part{chat.Text{Text: "So it is."}, chat.Citation{URL: "https://example.org", Title: "T", Start: 1, End: 3, Provider: "openai", Data: urlNote}, head("msg_2")},
		},
	} {
		m, _ := responder("gpt-5", []string{c.answer})
		if got := stream(t, m, ask()); !reflect.DeepEqual(got.Parts, c.want) {
			t.Errorf("%s: got %+v", name, got.Parts)
		}
	}
}

// Chunks say what they say once, and the first says who speaks.
func TestChunksOfAResponse(t *testing.T) {
	m, _ := responder("gpt-5", []string{streamed(t, responded(thoughtItem, plainMessage))})
	var texts, thoughts []string
	first := true
	for k, err := range m.Stream(t.Context(), ask()) {
		if err != nil {
			t.Fatal(err)
		}
		if first != (k.Role == chat.RoleAssistant) || k.ID != "resp_000000000000000001" || k.Model != "gpt-5-1" {
			t.Errorf("the chunk is %+v", k)
		}
		first = false
		if k.Text != "" {
			texts = append(texts, k.Text)
		}
		if k.Reasoning != "" {
			thoughts = append(thoughts, k.Reasoning)
		}
	}
	if len(texts) != 6 || strings.Join(texts, "") != "It is sunny – 你好." || !slices.Contains(thoughts, "\n\nTwi") {
		t.Errorf("got %q and %q", texts, thoughts)
	}
}
