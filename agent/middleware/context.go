package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// Clearing says when results of tools are left out of what a model is sent.
type Clearing struct {
	Tokens int          // how many tokens a request may have before; 0 means 100,000
	Count  chat.Counter // of tokens; nil stands for [chat.EstimateTokens]
	Keep   int          // how many of the newest results stay; 0 means 3
	Except []string     // tools whose results stay
}

// ClearToolResults sends the model a note in the place of old results of tools, once a
// request is long: the oldest go first, and no more than are too many. The thread keeps
// them.
func ClearToolResults[S any](c Clearing) agent.Middleware[S] {
	count := c.Count
	if count == nil {
		count = chat.EstimateTokens
	}
	return agent.OnRequest("clear_tool_results", func(_ context.Context, _ *S, req *model.Request) error {
		sum := 0
		var at []int // of results that may go
		for i, m := range req.Messages {
			sum += count(m)
			if r, ok := m.ToolResult(); ok && !slices.Contains(c.Except, r.Name) {
				at = append(at, i)
			}
		}
		at = at[:max(0, len(at)-cmp.Or(c.Keep, 3))]
		req.Messages = slices.Clone(req.Messages)
		for _, i := range at {
			if sum <= cmp.Or(c.Tokens, 100_000) {
				return nil
			}
			m := req.Messages[i]
			r, _ := m.ToolResult()
			before := count(m)
			r.Content, r.Artifact = []chat.Part{chat.Text{Text: "[cleared: this result is too old to be shown; call the tool again if you need it]"}}, nil
			m.Parts = []chat.Part{r}
			if after := count(m); after < before {
				req.Messages[i] = m
				sum -= before - after
			}
		}
		return nil
	})
}

// Selection says how tools are chosen from many.
type Selection struct {
	Model  model.Model // asked which tools are of use: a small one will do
	Most   int         // how many are chosen; a request with no more has them all. 0 means 10
	Always []string    // tools that are there in any case, and don't count
}

// SelectTools asks a model which of many tools are of use for what the user wants, before
// each call of the agent's model, and sends that the chosen ones alone.
func SelectTools[S any](sel Selection) agent.Middleware[S] {
	type choice struct {
		Tools []string `json:"tools" jsonschema:"names of the tools, the most useful first"`
	}
	most := cmp.Or(sel.Most, 10)
	return agent.OnRequest("select_tools", func(ctx context.Context, _ *S, req *model.Request) error {
		var list string
		n := 0
		for _, t := range req.Tools {
			if !slices.Contains(sel.Always, t.Name) {
				list += fmt.Sprintf("- %s: %s\n", t.Name, t.Description)
				n++
			}
		}
		if n <= most {
			return nil
		}
		if sel.Model == nil {
			return errors.New("selecting tools: Selection.Model is nil: give it a model that chooses")
		}
		// Recorded, as an answer of the agent's model is: a node that runs again has the same.
		asked := fmt.Sprintf("select_tools %d %s", len(req.Messages), req.Messages[len(req.Messages)-1].ID)
		names, err := agent.Once(ctx, "select_tools", asked, func(ctx context.Context, _ string) ([]string, error) {
			chosen, _, err := model.Generate[choice](ctx, sel.Model, &model.Request{Messages: append([]chat.Message{chat.System(fmt.Sprintf(
				"Choose the tools that are of use for what the user wants now, at most %d. Answer with their names alone.\n\n%s", most, list))}, spoken(req.Messages)...)})
			return chosen.Tools[:min(len(chosen.Tools), most)], err
		})
		if err != nil {
			return fmt.Errorf("selecting tools: %w", err)
		}
		req.Tools = slices.DeleteFunc(slices.Clone(req.Tools), func(t chat.ToolSpec) bool {
			return !slices.Contains(sel.Always, t.Name) && !slices.Contains(names, t.Name)
		})
		return nil
	})
}

// spoken returns what was said by the user and the model, without calls and results.
func spoken(messages []chat.Message) (out []chat.Message) {
	for _, m := range messages {
		if text := m.Text(); text != "" && (m.Role == chat.RoleUser || m.Role == chat.RoleAssistant) {
			out = append(out, chat.Message{Role: m.Role, Parts: []chat.Part{chat.Text{Text: text}}})
		}
	}
	return out
}
