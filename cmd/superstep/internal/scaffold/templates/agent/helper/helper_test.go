package helper

import (
	"errors"
	"os"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agenttest"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/models"
	"github.com/superstep-dev/superstep/model/scripted"
)

// recording is a conversation with a model. A change of the instruction or the tools
// makes the requests others than those of the recording: look at the difference, and
// record it anew with
//
//	HELPER_RECORD=1 SUPERSTEP_MODEL=openai:gpt-5 go test ./helper
//
// Without SUPERSTEP_MODEL, that is with what stands for a model.
const recording = "testdata/conversation.jsonl"

func recorded(t *testing.T) model.Model {
	t.Helper()
	if os.Getenv("HELPER_RECORD") == "" {
		m, err := scripted.Play(recording)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m, err := models.FromEnv()
	if errors.Is(err, models.ErrUnset) {
		m, err = Offline(), nil
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(recording)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return scripted.Record(m, f)
}

func TestItLooksOrdersUp(t *testing.T) {
	a, err := New(recorded(t))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := a.Invoke(t.Context(), agent.Ask[agent.State]("Where is order A-17?"))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(agenttest.Transcript(snap.State.Messages.Slice()))
	if snap.State.Messages.Len() != 4 { // question, call, result, answer
		t.Errorf("it did not look the order up, or more than once")
	}
	agenttest.CheckConversation(t, snap.State.Messages.Slice())
}

func TestNothingIsCancelledWithoutApproval(t *testing.T) {
	m := scripted.New(
		scripted.Call("cancel_order", `{"id": "A-17"}`),
		scripted.Text("It stays.").When(scripted.Returned("cancel_order")),
	)
	a, err := New(m, graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		t.Fatal(err)
	}
	thread := a.Thread("t-1")
	snap, err := thread.Invoke(t.Context(), thread.Input(agent.Ask[agent.State]("Cancel A-17!")))
	if err != nil || len(snap.Interrupts) != 1 {
		t.Fatalf("%d questions, %v; want one", len(snap.Interrupts), err)
	}
	no := agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.RejectCall}}}
	if snap, err = thread.Invoke(t.Context(), thread.Answer(no)); err != nil || snap.State.LastResponse.Get() != "It stays." {
		t.Errorf("%q, %v", snap.State.LastResponse.Get(), err)
	}
}
