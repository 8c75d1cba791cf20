package openai_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
)

// TestLive asks a real model: the one named by SUPERSTEP_LIVE_OPENAI_MODEL, at
// OPENAI_BASE_URL or OpenAI, with the key in OPENAI_API_KEY.
func TestLive(t *testing.T) {
	name := os.Getenv("SUPERSTEP_LIVE_OPENAI_MODEL")
	if name == "" {
		t.Skip("NOT RUN: no real model was asked; set SUPERSTEP_LIVE_OPENAI_MODEL, and OPENAI_API_KEY or OPENAI_BASE_URL")
	}
	m := openai.New(name)
	t.Run("text", func(t *testing.T) {
		for _, msg := range []chat.Message{
			generate(t, m, ask(chat.User("Say hello."))),
			stream(t, m, ask(chat.User("Say hello."))),
		} {
			if msg.Text() == "" || msg.Finish != chat.FinishStop {
				t.Errorf("got %+v", msg)
			}
			t.Logf("%s: %q, usage %+v", msg.Model, msg.Text(), msg.Usage)
		}
	})
	t.Run("tools", func(t *testing.T) {
		req := &model.Request{
			Messages:   []chat.Message{chat.User("What is the weather in Paris? Call the tool.")},
			Tools:      []chat.ToolSpec{weather},
			ToolChoice: model.ToolRequired,
		}
		msg := stream(t, m, req)
		calls := msg.ToolCalls()
		if len(calls) == 0 || calls[0].Name != weather.Name || msg.Finish != chat.FinishToolCalls {
			t.Fatalf("got %+v", msg)
		}
		if _, err := calls[0].Arguments(); err != nil {
			t.Error(err)
		}
		req.ToolChoice = model.ToolAuto
		req.Messages = append(req.Messages, msg)
		for _, c := range calls {
			req.Messages = append(req.Messages, chat.ResultText(c, "sunny, 21 °C"))
		}
		if msg := generate(t, m, req); msg.Text() == "" {
			t.Errorf("got %+v", msg)
		}
	})
	t.Run("output", func(t *testing.T) {
		msg := generate(t, m, &model.Request{
			Messages: []chat.Message{chat.User("Invent a person.")},
			Output:   &model.Schema{Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"],"additionalProperties":false}`)},
		})
		var person struct {
			Name string
			Age  int
		}
		if err := json.Unmarshal([]byte(msg.Text()), &person); err != nil || person.Name == "" {
			t.Errorf("got %q, %v", msg.Text(), err)
		}
	})
	t.Run("no such model", func(t *testing.T) {
		failsAs(t, generateError(t, openai.New("no-such-model"), ask()), model.ErrorNotFound)
	})
}

// TestLiveResponses asks a real model that thinks by the Responses API: the one named
// by SUPERSTEP_LIVE_OPENAI_RESPONSES_MODEL, at OPENAI_BASE_URL or OpenAI, with the key
// in OPENAI_API_KEY. Tools of OpenAI's are asked for if
// SUPERSTEP_LIVE_OPENAI_WEB_SEARCH is set, as they cost more.
func TestLiveResponses(t *testing.T) {
	name := os.Getenv("SUPERSTEP_LIVE_OPENAI_RESPONSES_MODEL")
	if name == "" {
		t.Skip("NOT RUN: no real model was asked; set SUPERSTEP_LIVE_OPENAI_RESPONSES_MODEL, and OPENAI_API_KEY or OPENAI_BASE_URL")
	}
	m := openai.New(name, openai.Responses(), openai.Defaults(model.Config{Reasoning: "low"}))
	t.Run("text", func(t *testing.T) {
		for _, msg := range []chat.Message{
			generate(t, m, ask(chat.User("Say hello."))),
			stream(t, m, ask(chat.User("Say hello."))),
		} {
			if msg.Text() == "" || msg.Finish != chat.FinishStop || msg.Usage == nil {
				t.Errorf("got %+v", msg)
			}
			// What it said goes back.
			if next := generate(t, m, ask(chat.User("Say hello."), msg, chat.User("Again."))); next.Text() == "" {
				t.Errorf("got %+v", next)
			}
			t.Logf("%s: %q, usage %+v", msg.Model, msg.Text(), msg.Usage)
		}
	})
	t.Run("a round of two tools", func(t *testing.T) {
		req := &model.Request{
			Messages: []chat.Message{chat.System("Call the tool for both cities at once."), chat.User("What is the weather in Paris and in Rome?")},
			Tools:    []chat.ToolSpec{weather},
		}
		for range 4 {
			msg := stream(t, m, req)
			req.Messages = append(req.Messages, msg)
			calls := msg.ToolCalls()
			if len(calls) == 0 {
				break
			}
			for _, c := range calls {
				if _, err := c.Arguments(); err != nil {
					t.Error(err)
				}
				req.Messages = append(req.Messages, chat.ResultText(c, "sunny, 21 °C"))
			}
		}
		if last := req.Messages[len(req.Messages)-1]; last.Text() == "" || len(req.Messages) < 5 {
			t.Errorf("got %+v", req.Messages)
		}
	})
	t.Run("a search of the web", func(t *testing.T) {
		if os.Getenv("SUPERSTEP_LIVE_OPENAI_WEB_SEARCH") == "" {
			t.Skip("NOT RUN: set SUPERSTEP_LIVE_OPENAI_WEB_SEARCH, which costs more")
		}
		req := ask(chat.User("Search the web: which version of Go is the newest? Name your source."))
		req.Extra = map[string]any{"tools": []any{map[string]string{"type": "web_search"}}}
		msg := stream(t, m, req)
		req.Messages = append(req.Messages, msg, chat.User("And before that?"))
		if next := generate(t, m, req); msg.Text() == "" || next.Text() == "" {
			t.Errorf("got %+v and %+v", msg, next)
		}
	})
	t.Run("output", func(t *testing.T) {
		msg := generate(t, m, &model.Request{
			Messages: []chat.Message{chat.User("Invent a person.")},
			Output:   &model.Schema{Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`)},
		})
		var person struct{ Name string }
		if err := json.Unmarshal([]byte(msg.Text()), &person); err != nil || person.Name == "" {
			t.Errorf("got %q, %v", msg.Text(), err)
		}
	})
}
