package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/tool"
)

// Retry says which failures of tools are tried again, and when.
type Retry struct {
	Tools []string // names; none stands for all

	// Tries is how often a tool is called at most; 0 means 3.
	Tries int

	// Pause is how long to wait before the second try; 0 means 200 ms. Each further pause
	// is twice as long, up to LongestPause; 0 means 10 s.
	Pause, LongestPause time.Duration

	// When says which errors are tried again; nil stands for all but arguments that the
	// tool doesn't take.
	When func(err error) bool
}

// RetryTools calls a tool again that failed. All tries of a call have the same idempotency
// key. What fails at last is the error of the last try.
func RetryTools[S any](r Retry) agent.Middleware[S] {
	return agent.Middleware[S]{Name: "retry_tools", WrapTool: func(ctx context.Context, c chat.ToolCall, call agent.CallTool) (*tool.Result, error) {
		if len(r.Tools) > 0 && !slices.Contains(r.Tools, c.Name) {
			return call(ctx, c)
		}
		pause := cmp.Or(r.Pause, 200*time.Millisecond)
		for try := 1; ; try++ {
			res, err := call(ctx, c)
			if err == nil || try >= cmp.Or(r.Tries, 3) || !r.again(err) {
				return res, err
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil, err
			}
			pause = min(2*pause, cmp.Or(r.LongestPause, 10*time.Second))
		}
	}}
}

func (r *Retry) again(err error) bool {
	if r.When != nil {
		return r.When(err)
	}
	e, ok := errors.AsType[*tool.Error](err)
	return !ok || e.Kind == tool.ErrorFailed
}

// Limit is how many calls there may be. 0 means no limit.
type Limit struct {
	PerTurn   int // since the user spoke
	PerThread int // ever
}

func (l Limit) over(turn, thread int) string {
	switch {
	case l.PerTurn > 0 && turn >= l.PerTurn:
		return fmt.Sprintf("the limit of %d calls in a turn was reached", l.PerTurn)
	case l.PerThread > 0 && thread >= l.PerThread:
		return fmt.Sprintf("the limit of %d calls in a conversation was reached", l.PerThread)
	}
	return ""
}

// counted are calls by name: of a turn, which is named by what the user said, and ever.
type counted struct {
	Since  string         `json:"since,omitempty"`
	Turn   map[string]int `json:"turn,omitempty"`
	Thread map[string]int `json:"thread,omitempty"`
}

// countedIn reads what a middleware has counted.
func countedIn(st *agent.State, name string) (counted, error) {
	c, err := agent.Kept[counted](st, name)
	since := ""
	for m := range st.Messages.Backward() {
		if m.Role == chat.RoleUser {
			since = m.ID
			break
		}
	}
	if c.Since != since || c.Turn == nil {
		c.Since, c.Turn = since, map[string]int{}
	}
	if c.Thread == nil {
		c.Thread = map[string]int{}
	}
	return c, err
}

// LimitModel ends a turn that would ask the model too often, with an answer that says so.
// [agent.ReAct.MaxIterations] holds as well.
func LimitModel[S any, P agent.Stateful[S]](l Limit) agent.Middleware[S] {
	const name, what = "limit_model", "model"
	return agent.Middleware[S]{
		Name: name,
		BeforeModel: func(_ context.Context, s *S) (agent.Next, error) {
			st := P(s).AgentState()
			c, err := countedIn(st, name)
			turn := c.Turn[what]
			if st.UserInput != "" { // which begins the turn
				turn = 0
			}
			if why := l.over(turn, c.Thread[what]); err == nil && why != "" {
				st.Reply("I can't go on: " + why + ".")
				return agent.ToEnd, nil
			}
			return agent.Onward, err
		},
		AfterModel: func(_ context.Context, s *S) (agent.Next, error) {
			st := P(s).AgentState()
			c, err := countedIn(st, name)
			if err != nil {
				return agent.Onward, err
			}
			c.Turn[what]++
			c.Thread[what]++
			return agent.Onward, agent.Keep(st, name, c)
		},
	}
}

// LimitTool answers calls of a tool that are too many with a result that says so, and the
// model goes on. An empty name stands for all tools together.
func LimitTool[S any, P agent.Stateful[S]](toolName string, l Limit) agent.Middleware[S] {
	name := "limit_tools"
	if toolName != "" {
		name = "limit_tool_" + toolName
	}
	return agent.Middleware[S]{Name: name, AfterModel: func(_ context.Context, s *S) (agent.Next, error) {
		st := P(s).AgentState()
		_, calls := agent.Pending(&st.Messages)
		c, err := countedIn(st, name)
		if err != nil || len(calls) == 0 {
			return agent.Onward, err
		}
		refused := 0
		for _, call := range calls {
			if toolName != "" && call.Name != toolName {
				continue
			}
			if why := l.over(c.Turn[toolName], c.Thread[toolName]); why != "" {
				st.Messages.Add(chat.Message{Role: chat.RoleTool, Name: call.Name, Parts: []chat.Part{
					chat.ToolResult{CallID: call.ID, Name: call.Name, IsError: true, Content: []chat.Part{chat.Text{Text: "not called: " + why + "; go on without it"}}},
				}})
				refused++
				continue
			}
			c.Turn[toolName]++
			c.Thread[toolName]++
		}
		if err := agent.Keep(st, name, c); err != nil {
			return agent.Onward, err
		}
		if refused == len(calls) { // the model is to hear of it
			return agent.ToModel, nil
		}
		return agent.Onward, nil
	}}
}
