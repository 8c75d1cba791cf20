package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
)

// thoughts are what a round of tools is: the model thought, called, and was told.
func thoughts() *model.Request {
	return ask(chat.User("Weather in Paris?"),
		chat.Message{Role: chat.RoleAssistant, Parts: []chat.Part{chat.Reasoning{Text: "I must "}, chat.Reasoning{Text: "look."}, paris}},
		chat.ResultText(paris, "sunny"), chat.AI("", rome), chat.ResultText(rome, "rain"))
}

// Servers fail on the first round of tools if they don't get back what the model
// thought, and OpenAI's and others refuse it.
func TestThoughtsGoBackToServersThatWantThem(t *testing.T) {
	for _, c := range []struct {
		base string
		opts []openai.Option
		want string // the field
	}{
		{"https://api.openai.com/v1", nil, ""},
		{"http://localhost:11434/v1", nil, ""},
		{"https://api.deepseek.com", nil, "reasoning_content"},
		{"https://api.deepseek.com/beta", nil, "reasoning_content"},
		{"https://api.moonshot.ai/v1", nil, "reasoning_content"},
		{"https://api.moonshot.cn/v1", nil, "reasoning_content"},
		{"https://api.z.ai/api/paas/v4", nil, "reasoning_content"},
		{"https://open.bigmodel.cn/api/paas/v4", nil, "reasoning_content"},
		{"https://openrouter.ai/api/v1", nil, "reasoning"},
		{"http://localhost:8000/v1", []openai.Option{openai.ReasoningField("reasoning_content")}, "reasoning_content"},
		{"http://localhost:8000/v1", []openai.Option{openai.ReasoningField("reasoning")}, "reasoning"},
		{"https://api.deepseek.com", []openai.Option{openai.ReasoningField("")}, ""},
	} {
		var sent struct{ Messages []map[string]any }
		m := openai.New("m", append(c.opts, openai.BaseURL(c.base), inMemory(func(r *http.Request) (*http.Response, error) {
			if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
				t.Error(err)
			}
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(hello)), Request: r}, nil
		}))...)
		generate(t, m, thoughts())
		for i, msg := range sent.Messages {
			for _, field := range []string{"reasoning_content", "reasoning"} {
				got, has := msg[field]
				if has != (field == c.want && slices.Contains([]int{1, 3}, i)) {
					t.Errorf("%s: %s of message %d is %v", c.base, field, i, got)
				}
				if want := map[int]string{1: "I must look.", 3: " "}[i]; has && got != want {
					t.Errorf("%s: %s of message %d is %q, want %q", c.base, field, i, got, want)
				}
			}
		}
	}
	failsAs(t, generateError(t, openai.New("m", openai.BaseURL("http://localhost"), openai.ReasoningField("thoughts")), ask()), model.ErrorInvalid, `ReasoningField("thoughts")`)
}

// A server that wants its thoughts back gets those of an answer as they were, whole
// or streamed.
func TestAnswersWithThoughtsGoBackAsTheyCame(t *testing.T) {
	const said = `"content":"Wait.","reasoning_content":"I must look.","tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"get_weather","arguments":"{}"}}]`
	whole := replies(200, `{"id":"x","choices":[{"index":0,"message":{"role":"assistant",`+said+`},"finish_reason":"tool_calls"}]}`)
	streamed := streams(events(delta(`{"role":"assistant",`+said+`}`, ""), delta(`{}`, `"tool_calls"`)))
	for name, h := range map[string]http.HandlerFunc{"whole": whole, "streamed": streamed} {
		s := serve(t, h)
		m := s.model(openai.ReasoningField("reasoning_content"))
		first := stream(t, m, ask())
		generate := func(msgs ...chat.Message) {
			for range m.Stream(t.Context(), ask(msgs...)) {
			}
		}
		generate(chat.User("hi"), first, chat.ResultText(first.ToolCalls()[0], "sunny"))
		var messages []map[string]any
		if err := json.Unmarshal([]byte(s.field(t, "messages")), &messages); err != nil {
			t.Fatal(err)
		}
		if got := messages[1]["reasoning_content"]; got != "I must look." || messages[1]["content"] != "Wait." {
			t.Errorf("%s: sent %v", name, messages[1])
		}
	}
}

func TestPagesThatATextCitesFollowIt(t *testing.T) {
	const cites = `"annotations":[{"type":"url_citation","url_citation":{"url":"https://example.org","title":"T","start_index":1,"end_index":3}},{"type":"else"}]`
	want := chat.Citation{URL: "https://example.org", Title: "T", Start: 1, End: 3, Provider: "openai"}
	for name, h := range map[string]http.HandlerFunc{
		"whole":    replies(200, `{"choices":[{"message":{"content":"So.",`+cites+`},"finish_reason":"stop"}]}`),
		"streamed": streams(events(delta(`{"content":"So",`+cites+`}`, ""), delta(`{"content":"."}`, ""), delta(`{}`, `"stop"`))),
	} {
		s := serve(t, h)
		got := stream(t, s.model(), ask())
		if len(got.Parts) != 2 || got.Text() != "So." || got.Parts[1] != chat.Part(want) {
			t.Errorf("%s: got %+v", name, got.Parts)
		}
		// It isn't sent back, nor what other providers' servers said.
		got.Parts = append(got.Parts, chat.Native{Provider: "anthropic", Type: "x", Data: "{}"})
		stream(t, s.model(), ask(chat.User("hi"), got, chat.User("and?")))
		if sent := s.field(t, "messages"); !strings.Contains(sent, `{"role":"assistant","content":"So."}`) {
			t.Errorf("%s: sent %s", name, sent)
		}
	}
}
