package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/server"
	"github.com/superstep-dev/superstep/tool"
)

// weatherman is an agent that calls a tool for each question.
func weatherman(t *testing.T) server.Option {
	t.Helper()
	answer := chat.Assistant("Rain.")
	calls := chat.Assistant("", chat.ToolCall{ID: "w", Name: "weather", Args: "{}"})
	answer.Model, calls.Model = "gpt-5", "gpt-5"
	g, err := agent.New(agent.ReAct[agent.State]{
		Name:  "weatherman",
		Tools: []tool.Tool{tool.New("weather", "", func(context.Context, struct{}) (string, error) { return "rain", nil })},
		Model: scripted.New(
			scripted.Message(answer).Usage(chat.Usage{Input: 1_000_000, Output: 1000}).When(scripted.Returned("weather")).Repeat(),
			scripted.Message(calls).Usage(chat.Usage{}).Repeat(),
		),
	})
	if err != nil {
		t.Fatal(err)
	}
	return server.Graph(g)
}

func TestRunsOfAllThreadsAreFoundAndSummedUp(t *testing.T) {
	ctx := t.Context()
	c := open(t, serve(t, nil, nil, weatherman(t)))
	began := time.Now().Add(-time.Second)
	for _, city := range []string{"Bonn", "nowhere", "Rome"} {
		thread, err := c.CreateThread(ctx, client.NewThread{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Wait(ctx, thread.ID, client.RunRequest{Assistant: "booking", Input: map[string]any{"city": city}})
		if failed := errors.As(err, new(*client.RunError)); failed != (city == "nowhere") {
			t.Fatalf("%s: %v", city, err)
		}
	}
	thread, err := c.CreateThread(ctx, client.NewThread{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.Wait(ctx, thread.ID, client.RunRequest{Assistant: "weatherman", Input: map[string]any{"user_input": "How is it?"}}); err != nil {
			t.Fatal(err)
		}
	}
	newest := all(t, c.FindRuns(ctx, client.RunFilter{}, 0))
	if len(newest) != 5 || newest[0].GraphID != "weatherman" || newest[4].GraphID != "booking" || newest[0].StartedAt.Before(began) || newest[0].EndedAt.Before(newest[0].StartedAt) {
		t.Errorf("%+v", newest)
	}
	if one := newest[0]; one.Usage == nil || one.Usage.Input != 1_000_000 || one.Cost == nil || *one.Cost != 1.26 {
		t.Errorf("what it used: %+v, %v", one.Usage, one.Cost)
	}
	for name, tt := range map[string]struct {
		f     client.RunFilter
		limit int
		want  int
	}{
		"failed":            {client.RunFilter{Status: []client.RunStatus{client.RunFailed}}, 0, 1},
		"failed or asking":  {client.RunFilter{Status: []client.RunStatus{client.RunFailed, client.RunInterrupted}}, 0, 3},
		"of a thread":       {client.RunFilter{ThreadID: thread.ID}, 0, 2},
		"of a graph":        {client.RunFilter{GraphID: "booking", CreatedAfter: began}, 0, 3},
		"dear":              {client.RunFilter{MinCost: 1}, 0, 2},
		"with tokens":       {client.RunFilter{MinTokens: 2_000_000}, 0, 0},
		"before":            {client.RunFilter{CreatedBefore: began}, 0, 0},
		"the newest two":    {client.RunFilter{}, 2, 2},
		"of nobody":         {client.RunFilter{UserID: "nobody"}, 0, 0},
		"with another name": {client.RunFilter{Error: "Nothing"}, 0, 0},
	} {
		if got := all(t, c.FindRuns(ctx, tt.f, tt.limit)); len(got) != tt.want {
			t.Errorf("%s: %d runs, want %d", name, len(got), tt.want)
		}
	}
	failed := all(t, c.FindRuns(ctx, client.RunFilter{Status: []client.RunStatus{client.RunFailed}}, 0))
	if f := failed[0].Failure; f == nil || !strings.Contains(f.Message, "no such city") {
		t.Errorf("why it failed: %+v", f)
	}
	figures, err := c.RunFigures(ctx, client.RunFilter{CreatedAfter: began}, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	runs, errs := 0, 0
	for _, f := range figures {
		runs, errs = runs+f.Runs, errs+f.Errors
	}
	if runs != 5 || errs != 1 {
		t.Errorf("%d runs and %d errors", runs, errs)
	}
	if _, err := c.RunFigures(ctx, client.RunFilter{}, 0); !errors.As(err, new(*client.Error)) {
		t.Errorf("no width: %v", err)
	}
}

// Pages of a search end where the server says, and a null in one is told.
func TestASearchOfRunsFollowsItsCursors(t *testing.T) {
	pages := map[string]string{"": `[{"run_id":"a"},{"run_id":"b"}]`, "2": `[{"run_id":"c"}]`, "null": `[null]`}
	next := map[string]string{"": "2"}
	var asked []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Cursor string }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		asked = append(asked, q.Cursor)
		if to := next[q.Cursor]; to != "" {
			w.Header().Set("X-Pagination-Next", to)
		}
		_, _ = w.Write([]byte(pages[q.Cursor]))
	}))
	defer web.Close()
	c := open(t, web.URL)
	if got := all(t, c.FindRuns(t.Context(), client.RunFilter{}, 200)); len(got) != 3 || got[2].ID != "c" || len(asked) != 2 {
		t.Errorf("%v after %q", got, asked)
	}
	if got := all(t, c.FindRuns(t.Context(), client.RunFilter{}, 2)); len(got) != 2 || len(asked) != 3 {
		t.Errorf("two: %v after %q", got, asked)
	}
	for _, wrong := range []string{"null", "2"} {
		next["2"] = wrong
		var failed error
		for _, err := range c.FindRuns(t.Context(), client.RunFilter{}, 0) {
			failed = err
		}
		if !errors.As(failed, new(*client.ProtocolError)) {
			t.Errorf("%s after the second page: %v", wrong, failed)
		}
	}
}

func TestCallsAndFeedbackOfAThread(t *testing.T) {
	ctx := t.Context()
	c := open(t, serve(t, nil, nil, weatherman(t)))
	thread, err := c.CreateThread(ctx, client.NewThread{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.Wait(ctx, thread.ID, client.RunRequest{Assistant: "weatherman", Input: map[string]any{"user_input": "How is it?"}}); err != nil {
			t.Fatal(err)
		}
	}
	models, tools := all(t, c.ModelCalls(ctx, thread.ID, 0)), all(t, c.ToolCalls(ctx, thread.ID, 0))
	if len(models) != 6 || models[0].Model != "gpt-5" || models[0].Usage == nil || models[0].Cost == nil || models[0].Node != agent.NodeModel || models[0].BeganAt.IsZero() || models[0].Request != nil {
		t.Errorf("calls of models: %d, %+v", len(models), models[0])
	}
	if len(tools) != 3 || tools[0].Tool != "weather" || tools[0].Node != agent.NodeTools || tools[0].Failed || tools[0].RunID == "" || tools[0].Attempt != 1 {
		t.Errorf("calls of tools: %d, %+v", len(tools), tools[0])
	}
	if got := all(t, c.ToolCalls(ctx, thread.ID, 2)); len(got) != 2 || got[1].ID != tools[1].ID {
		t.Errorf("the newest two: %v", got)
	}
	whole, err := c.ModelCall(ctx, thread.ID, models[0].ID)
	if err != nil || !strings.Contains(string(whole.Request), "How is it?") || !strings.Contains(string(whole.Answer), "Rain.") {
		t.Errorf("a call: %+v, %v", whole, err)
	}

	score := 0.5
	given, err := c.GiveFeedback(ctx, thread.ID, client.NewFeedback{RunID: tools[0].RunID, Key: "correctness", Score: &score, Comment: "So so."})
	if err != nil || given.ID == "" || given.ThreadID != thread.ID || given.RunID != tools[0].RunID || given.CreatedAt.IsZero() {
		t.Fatalf("%+v, %v", given, err)
	}
	if _, err := c.GiveFeedback(ctx, thread.ID, client.NewFeedback{Comment: "Fine."}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GiveFeedback(ctx, thread.ID, client.NewFeedback{}); !errors.As(err, new(*client.Error)) {
		t.Errorf("nothing: %v", err)
	}
	list, err := c.Feedback(ctx, thread.ID, "", 0)
	if err != nil || len(list) != 2 || list[0].Comment != "Fine." || list[0].Score != nil || *list[1].Score != 0.5 {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err = c.Feedback(ctx, thread.ID, tools[0].RunID, 5); err != nil || len(list) != 1 {
		t.Errorf("of a run: %+v, %v", list, err)
	}
	if err := c.DeleteFeedback(ctx, thread.ID, given.ID); err != nil {
		t.Error(err)
	}
	if err := c.DeleteFeedback(ctx, thread.ID, given.ID); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
}
