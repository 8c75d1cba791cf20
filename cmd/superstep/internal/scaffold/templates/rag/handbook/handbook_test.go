package handbook

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agenttest"
)

func TestAnswersAreFromTheRightPage(t *testing.T) {
	for question, want := range map[string][]string{
		"When is the library open on Saturdays?": {"ten to four", "pages/hours.md"},
		"What does a lost card cost?":            {"five euros", "pages/cards.md"},
		"Xyzzy?":                                 {"The handbook doesn't say it."},
	} {
		a, err := New(t.Context(), Offline())
		if err != nil {
			t.Fatal(err)
		}
		snap, err := a.Invoke(t.Context(), agent.Ask[agent.State](question))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if answer := snap.State.LastResponse.Get(); !strings.Contains(answer, part) {
				t.Errorf("%s\n%s\ndoesn't say %q", question, answer, part)
			}
		}
		agenttest.CheckConversation(t, snap.State.Messages.Slice())
	}
}
