package anthropic_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/middleware"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/internal/strict"
	"github.com/superstep-dev/superstep/tool"
)

// cachedIn returns what a request asks the API to keep: the names of tools and the texts,
// calls and results at whose end a point is.
func cachedIn(t *testing.T, body []byte) (points []string) {
	t.Helper()
	type block struct {
		Type, Name, Text string
		ToolUseID        string `json:"tool_use_id"`
		Cache            any    `json:"cache_control"`
	}
	var q struct {
		Tools, System []block
		Messages      []struct{ Content []block }
	}
	if err := json.Unmarshal(body, &q); err != nil {
		t.Fatal(err)
	}
	blocks := slices.Concat(q.Tools, q.System)
	for _, m := range q.Messages {
		blocks = append(blocks, m.Content...)
	}
	for _, b := range blocks {
		if b.Cache != nil {
			points = append(points, b.Name+b.Text+b.ToolUseID)
		}
	}
	return points
}

func TestAnAgentsPromptIsCached(t *testing.T) {
	say := func(content string) string {
		return fmt.Sprintf(`{"id":"msg","type":"message","role":"assistant","model":"claude-test","content":[%s],"stop_reason":"end_turn","usage":{"input_tokens":10,"cache_read_input_tokens":2000,"cache_creation_input_tokens":300,"output_tokens":1}}`, content)
	}
	s := &strict.Server{Check: strict.Anthropic, Answers: []string{
		say(`{"type":"text","text":"Hello."}`),
		say(`{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}`), say(`{"type":"text","text":"Sunny."}`),
	}}
	weather := tool.New("weather", "The weather.", func(context.Context, struct{}) (string, error) { return "sunny", nil })
	todo := middleware.TodoList[agent.State]()
	g, err := agent.New(agent.ReAct[agent.State]{
		Model: anthropic.New("claude-test", anthropic.APIKey(key), anthropic.BaseURL("https://localhost"), anthropic.HTTPClient(&http.Client{Transport: s})),
		Tools: []tool.Tool{weather}, Instruction: "Be brief.", Whole: true,
		Use: []agent.Middleware[agent.State]{todo, middleware.CachePrompt[agent.State](middleware.Caching{})},
	}, graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		t.Fatal(err)
	}
	var snap *graph.Snapshot[agent.State]
	for _, said := range []string{"Hi!", "Weather?"} {
		if snap, err = g.Thread("t").Invoke(t.Context(), g.Input(agent.Ask[agent.State](said))); err != nil {
			t.Fatal(err, s.Refused)
		}
	}
	want := [][]string{{"write_todos", "Be brief.", "Hi!"}, {"write_todos", "Be brief.", "Hello.", "Weather?"}, {"write_todos", "Be brief.", "Hello.", "toolu_1"}}
	for i, body := range s.Requests {
		if got := cachedIn(t, body); !slices.Equal(got, want[i]) {
			t.Errorf("request %d has points after %q, want %q", i, got, want[i])
		}
	}
	if got := snap.State.Usage.Get().Total(); len(s.Requests) != 3 || got != (chat.Usage{Input: 3 * 2310, Output: 3, CacheRead: 6000, CacheWrite: 900}) {
		t.Errorf("%d requests used %+v", len(s.Requests), got)
	}
}

// What a program has asked to be cached stays, and no more is asked than the API takes.
func TestCachePromptAddsToThePointsThatThereAre(t *testing.T) {
	long := chat.Message{Role: chat.RoleUser, Parts: []chat.Part{chat.Text{Text: "A book."}, chat.Text{Text: "Its author?"}}}
	m := middleware.CachePrompt[agent.State](middleware.Caching{})
	for name, c := range map[string]struct{ have, want []model.CachePoint }{
		"as there are":   {[]model.CachePoint{{Message: 1}}, []model.CachePoint{{Message: 1}, {Message: 3}, {}, {Tools: true}}},
		"but not twice":  {[]model.CachePoint{{Tools: true}, {Message: 3}}, []model.CachePoint{{Tools: true}, {Message: 3}, {}, {Message: 2}}},
		"parts by parts": {[]model.CachePoint{{Message: 3, Parts: 1}}, []model.CachePoint{{Message: 3, Parts: 1}, {Message: 3}, {}, {Tools: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			req := &model.Request{Messages: []chat.Message{chat.System("s"), chat.User("hi"), chat.AI("Hi."), long}, Tools: []chat.ToolSpec{{Name: "x"}}, Cache: c.have}
			_, err := m.WrapModel(t.Context(), nil, req, func(_ context.Context, sent *model.Request) (*model.Response, error) {
				if !slices.Equal(sent.Cache, c.want) {
					t.Errorf("%+v, want %+v", sent.Cache, c.want)
				}
				return &model.Response{}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
