package testingagents_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agenttest"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

type place struct {
	City string `json:"city"`
}

// forecast is a tool of the agent.
func forecast(_ context.Context, p place) (string, error) {
	return "snow in " + p.City, nil
}

// adviser returns the agent under test.
func adviser(m model.Model, forecast tool.Tool, opts ...graph.Option) (*graph.Graph[agent.State], error) {
	return agent.New(agent.ReAct[agent.State]{
		Model:       m,
		Tools:       []tool.Tool{tool.Limit(forecast, 2000)},
		Instruction: "You advise people what to wear.",
		OnError:     agent.TellModel,
	}, opts...)
}

func weather() tool.Tool { return tool.New("forecast", "Tells the weather.", forecast) }

// kept returns options for a thread that is kept in memory.
func kept() []graph.Option {
	return []graph.Option{graph.WithCheckpointer(checkpoint.NewMemory()), graph.CheckMutations()}
}

var question = agent.Ask[agent.State]("Do I need a coat in Bern?")

//snippet:script
func TestAdviserLooksAtTheWeather(t *testing.T) {
	m := scripted.New(
		scripted.Call("forecast", `{"city":"Bern"}`),
		scripted.Text("Yes, a warm one.").When(scripted.Returned("forecast")),
	)
	a, err := adviser(m, weather())
	if err != nil {
		t.Fatal(err)
	}
	snap, err := a.Invoke(t.Context(), question)
	if err != nil || snap.State.LastResponse.Get() != "Yes, a warm one." {
		t.Errorf("the answer is %q, %v", snap.State.LastResponse.Get(), err)
	}
	if m.Left() > 0 {
		t.Errorf("%d replies were not asked for", m.Left())
	}
	graphtest.Golden(t, "adviser", agenttest.FormatRequests(m.Requests()))
	agenttest.CheckRequests(t, m.Requests())
	agenttest.CheckConversation(t, snap.State.Messages.Slice())
}

//snippet:end

// The tape was recorded from a server that stands in for the provider's.
//
//snippet:tape
func TestAdviserOnATape(t *testing.T) {
	m := openai.New("gpt-5-mini",
		openai.BaseURL("https://api.openai.com/v1"), // whatever the environment says
		openai.APIKey(agenttest.Key(t, "OPENAI_API_KEY")),
		openai.HTTPClient(agenttest.Tape(t, "testdata/adviser.yaml")))
	a, err := adviser(m, weather())
	if err != nil {
		t.Fatal(err)
	}
	snap, err := a.Invoke(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(agenttest.Transcript(snap.State.Messages.Slice()))
	if snap.State.Messages.Len() != 4 {
		t.Error("it did not look at the weather, or more than once")
	}
}

//snippet:end

//snippet:broken
func TestAdviserGoesOnAfterABrokenStream(t *testing.T) {
	yes := scripted.Text("Yes, a warm one.")
	m := agenttest.Faulty(
		scripted.New(scripted.Call("forecast", `{"city":"Bern"}`), yes, yes),
		agenttest.BreakStream(2).At(2))
	f := agenttest.FaultyTool(weather())
	a, err := adviser(m, f, kept()...)
	if err != nil {
		t.Fatal(err)
	}
	thread := a.Thread("t-1")
	_, err = thread.Invoke(t.Context(), thread.Input(question))
	if e, ok := errors.AsType[*model.Error](err); !ok || e.Kind != model.ErrorBrokenStream {
		t.Fatalf("got %v", err)
	}
	snap, err := thread.Invoke(t.Context(), thread.Continue())
	if err != nil || snap.State.LastResponse.Get() != "Yes, a warm one." || f.Calls() != 1 {
		t.Errorf("%q, %v; the tool was called %d times", snap.State.LastResponse.Get(), err, f.Calls())
	}
	m.CheckFired(t) // every fault happened
}

//snippet:end

//snippet:limit
func TestAdviserWaitsForTheRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := agenttest.Faulty(scripted.New(scripted.Text("Yes.")), agenttest.RateLimit(20*time.Second).At(1))
		a, err := adviser(model.Retry(m, model.RetryPolicy{}), weather())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := a.Invoke(t.Context(), question); err != nil || time.Since(start) != 20*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

//snippet:end

//snippet:tool
func TestAdviserIsToldThatItsToolPanics(t *testing.T) {
	m := scripted.New(scripted.Call("forecast", `{"city":"Bern"}`), scripted.Text("I can't say."))
	a, err := adviser(m, agenttest.FaultyTool(weather(), agenttest.PanicTool("index out of range")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Invoke(t.Context(), question); err != nil {
		t.Fatal(err)
	}
	result := m.Last().Messages[3]
	if result.Text() != "[TOOL ERROR] forecast: panic: index out of range" {
		t.Errorf("the model is told %q", result.Text())
	}
}

//snippet:end
