package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
)

type user struct{ Name string }

// What a run was not given is an error of the run, never a text for the model.
func TestAToolThatLacksConfigurationEndsTheRun(t *testing.T) {
	for _, p := range []agent.ErrorPolicy{agent.FailFast, agent.TellModel, agent.TellModelAll} {
		f := tool.New("f", "", func(ctx context.Context, _ struct{}) (json.RawMessage, error) {
			_, err := graph.Configured[user](ctx)
			return nil, err
		})
		g := tools(t, agent.Tools[state]{Tools: []tool.Tool{f}, OnError: p})
		_, err := g.Invoke(t.Context(), say(chat.User("go"), chat.Assistant("", call("1", "f", "{}"))))
		var missing *graph.ConfigError
		if !errors.As(err, &missing) || missing.Type != "agent_test.user" {
			t.Errorf("%v: %v", p, err)
		}
	}
}

func TestHowManyToolsAreCalledAtOnceIsNoOptionOfATaskPerCall(t *testing.T) {
	_, err := agent.New(agent.ReAct[S]{Model: script(), Tools: []tool.Tool{logs("x", new([]string))}, TaskPerCall: true, Parallel: 2})
	var mistakes *graph.CompileError
	if !errors.As(err, &mistakes) || len(mistakes.Problems) != 1 || !strings.Contains(err.Error(), "Parallel is 2 and has no effect with TaskPerCall") {
		t.Error(err)
	}
}
