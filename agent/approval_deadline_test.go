package agent_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// A decision that nobody takes is the default, when its time is over; calls that may wait
// for longer are asked about by themselves.
func TestADecisionThatNobodyTakesIsTheDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var called []string
		m := scripted.New(scripted.Calls(call("1", "a", "{}"), call("2", "b", "{}"), call("3", "c", "{}"), call("4", "d", "{}")), scripted.Text("ok"))
		g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{logs("a", &called), logs("b", &called), logs("c", &called), logs("d", &called)}, Approve: []agent.Approval{
			{Tool: "a", Within: time.Hour},
			{Tool: "b", Within: time.Hour, Default: agent.Decision{Type: agent.ApproveCall}},
			{Tool: "c", Within: 2 * time.Hour, Default: agent.Decision{Type: agent.RespondCall, Message: "42"}},
			{Tool: "d"},
		}}, mem())
		th := ok(t, g, err).Thread(th)
		questions := func(want int) {
			t.Helper()
			s, err := th.Invoke(t.Context(), th.Continue())
			if err != nil || len(s.Interrupts) != 1 {
				t.Fatalf("%v, asks %v", err, s.Interrupts)
			}
			var req agent.ApprovalRequest
			if err := json.Unmarshal(s.Interrupts[0].Raw, &req); err != nil || len(req.Actions) != want {
				t.Errorf("asked about %d calls (%v), want %d", len(req.Actions), err, want)
			}
		}
		if _, err := th.Invoke(t.Context(), input("go")); err != nil {
			t.Fatal(err)
		}
		questions(4)
		time.Sleep(time.Hour)
		questions(2) // c and d
		time.Sleep(2 * time.Hour)
		questions(1) // d
		if len(called) != 0 {
			t.Errorf("called %v before all was decided", called)
		}
		s, err := th.Invoke(t.Context(), th.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}))
		want := "tool: The call of a was not approved within 1h0m0s.\ntool: b done\ntool: 42\ntool: d done\nassistant: ok\n"
		if got := s.State.Messages.String(); err != nil || !strings.HasSuffix(got, want) {
			t.Errorf("%v\n%s\nwant at its end\n%s", err, got, want)
		}
	})
}

func TestMistakesInADefaultDecision(t *testing.T) {
	for want, a := range map[string]agent.Approval{
		"Within is -1s": {Tool: "a", Within: -time.Second},
		"a Default needs Within, after which it holds":           {Tool: "a", Default: agent.Decision{Type: agent.ApproveCall}},
		`the Default is "edit": want approve, reject or respond`: {Tool: "a", Within: time.Second, Default: agent.Decision{Type: agent.EditCall}},
	} {
		_, err := agent.New(agent.ReAct[S]{Model: scripted.New(), Tools: []tool.Tool{logs("a", new([]string))}, Approve: []agent.Approval{a}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
