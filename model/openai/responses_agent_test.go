package openai_test

import (
	"context"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

type city struct {
	City string `json:"city"`
}

// An agent's round of two calls sends what the model thought back with them, also
// after the thread was stored, and the next turn sends all of it again.
func TestAnAgentsRoundGoesBackWithItsThoughts(t *testing.T) {
	answers := []string{
		responded(searchItem, phaseMessage, thoughtItem, parisItem, hiddenItem, romeItem),
		responded(unknownItem, citedMessage), responded(plainMessage),
	}
	for _, form := range []string{"whole", "streamed"} {
		t.Run(form, func(t *testing.T) {
			given := answers
			if form == "streamed" {
				given = nil
				for _, a := range answers {
					given = append(given, streamed(t, a))
				}
			}
			m, s := responder("gpt-5", given)
			weather := tool.New("get_weather", "The weather of a city.", func(_ context.Context, in city) (string, error) {
				return "sunny in " + in.City, nil
			})
			a, err := agent.New(agent.ReAct[agent.State]{
				Model: m, Tools: []tool.Tool{weather}, Instruction: "Be brief.", Whole: form == "whole",
				Config: model.Config{Extra: map[string]any{"tools": []any{map[string]string{"type": "web_search"}}}},
			}, graph.WithCheckpointer(checkpoint.NewMemory()))
			if err != nil {
				t.Fatal(err)
			}
			for _, said := range []string{"Weather in Paris and Rome?", "Thanks."} {
				if _, err := a.Thread("t").Invoke(t.Context(), a.Input(agent.Ask[agent.State](said))); err != nil {
					t.Fatal(err, s.Refused)
				}
			}
			call := func(id, city string) string {
				return `{"type":"function_call","call_id":"` + id + `","name":"get_weather","arguments":"{\"city\":\"` + city + `\"}"}`
			}
			first := []string{`{"role":"system","content":"Be brief."}`, `{"role":"user","content":"Weather in Paris and Rome?"}`}
			second := append(first,
				searchItem, phaseMessage,
				`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"I must look.\n\nTwice."}],"encrypted_content":"gAAA"}`,
				call("call_1", "Paris"), hiddenItem, call("call_2", "Rome"),
				`{"type":"function_call_output","call_id":"call_1","output":"sunny in Paris"}`, `{"type":"function_call_output","call_id":"call_2","output":"sunny in Rome"}`)
			third := append(second, unknownItem, citedMessage, `{"role":"user","content":"Thanks."}`)
			if len(s.Requests) != 3 {
				t.Fatalf("%d requests", len(s.Requests))
			}
			for i, want := range [][]string{first, second, third} {
				all := s.Requests
				s.Requests = all[:i+1]
				same(t, inputOf(t, s), want)
				s.Requests = all
				if !strings.Contains(string(all[i]), `"include":["reasoning.encrypted_content"],"store":false`) || !strings.Contains(string(all[i]), `{"type":"web_search"}`) {
					t.Errorf("sent %s", all[i])
				}
			}
		})
	}
}

// What a model of another provider says next to it leaves out what only OpenAI reads.
func TestAResponseCanBeGoneOnWithByChatCompletions(t *testing.T) {
	m, _ := responder("gpt-5", []string{responded(searchItem, thoughtItem, citedMessage, parisItem)})
	got := generate(t, m, ask())
	s := serve(t, replies(200, hello))
	generate(t, s.model(), ask(chat.User("hi"), got, chat.ResultText(paris, "sunny")))
	want := `[{"role":"user","content":"hi"},{"role":"assistant","content":"So it is. And more.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}]},{"role":"tool","content":"sunny","tool_call_id":"call_1"}]`
	if sent := s.field(t, "messages"); sent != want {
		t.Errorf("sent %s", sent)
	}
}
