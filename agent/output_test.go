package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

type amount struct{ Amount int }

// asked says of each request what of it asks for a form.
func asked(m *scripted.Model) string {
	var out []string
	for _, r := range m.Requests() {
		var how []string
		if r.Output != nil {
			how = append(how, "schema")
		}
		for _, t := range r.Tools {
			how = append(how, t.Name)
		}
		if r.ToolChoice != "" {
			how = append(how, "must "+string(r.ToolChoice))
		}
		out = append(out, strings.Join(how, "+"))
	}
	return strings.Join(out, ", ")
}

// An answer comes in the form that is asked for in the way that the model has, and
// with no call more than that takes.
func TestTheFormOfAnAnswerIsAskedForInTheWayThatTheModelHas(t *testing.T) {
	form, err := model.OutputOf[amount]()
	if err != nil {
		t.Fatal(err)
	}
	x := scripted.Call("x", "{}")
	final := func(args string) scripted.Reply { return scripted.Call(agent.AnswerTool, args) }
	all := &model.Capabilities{Tools: true, Schema: true, SchemaWithTools: true}
	apart := &model.Capabilities{Tools: true, Schema: true}
	old := &model.Capabilities{Tools: true}
	for name, c := range map[string]struct {
		has     *model.Capabilities // nil: it doesn't say
		tools   bool
		replies []scripted.Reply
		asked   string
		last    string // LastResponse
	}{
		"a schema beside tools":        {all, true, []scripted.Reply{x, scripted.Text(`{"Amount":7}`)}, "schema+x, schema+x", `{"Amount":7}`},
		"a schema, without tools":      {apart, false, []scripted.Reply{scripted.Text(`{"Amount":7}`)}, "schema", `{"Amount":7}`},
		"a schema not beside tools":    {apart, true, []scripted.Reply{x, final(`{"Amount":7}`)}, "x+final_answer, x+final_answer", `{"Amount":7}`},
		"tools, and the answer a text": {apart, true, []scripted.Reply{x, scripted.Text("It is 7."), final(`{"Amount":7}`)}, "x+final_answer, x+final_answer, final_answer+must final_answer", "It is 7."},
		"tools alone":                  {old, false, []scripted.Reply{final(`{"Amount":7}`)}, "final_answer+must final_answer", `{"Amount":7}`},
		"it doesn't say":               {nil, true, []scripted.Reply{x, scripted.Text("It is 7."), scripted.Text(`{"Amount":7}`)}, "x, x, schema", "It is 7."},
		"nor does it have to":          {nil, true, []scripted.Reply{x, scripted.Text(`{"Amount":7}`)}, "x, x", `{"Amount":7}`},
		"and there are no tools":       {nil, false, []scripted.Reply{scripted.Text(`{"Amount":7}`)}, "schema", `{"Amount":7}`},
		"another form, and then that":  {all, false, []scripted.Reply{scripted.Text("7"), scripted.Text("seven"), scripted.Text(`{"Amount":7}`)}, "schema, schema, schema", "7"},
		"another form in a tool":       {old, true, []scripted.Reply{final(`{"Amount":"7"}`), final(`{"Amount":7}`)}, "x+final_answer, x+final_answer", `{"Amount":7}`},
	} {
		m := scripted.New(c.replies...)
		a := agent.ReAct[S]{Model: m, Output: form, Approve: []agent.Approval{{Tool: "*", When: func(c chat.ToolCall) bool { return c.Name != "x" }}}}
		if c.has != nil {
			a.Model = model.WithCapabilities(m, *c.has)
		}
		if c.tools {
			a.Tools = []tool.Tool{logs("x", new([]string))}
		}
		g, err := agent.New(a, mem())
		s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("how much?"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := agent.Structured[amount](&s.State)
		if err != nil || got.Amount != 7 || !s.Done() || s.State.Stopped.Get() != agent.StopAnswer || s.State.LastResponse.Get() != c.last {
			t.Errorf("%s: %+v, %v, stopped %q, last %q", name, got, err, s.State.Stopped.Get(), s.State.LastResponse.Get())
		}
		if got := asked(m); got != c.asked {
			t.Errorf("%s: asked for %s, want %s", name, got, c.asked)
		}
		if err := sound(s.State.Messages.Slice()); err != nil || m.Left() > 0 {
			t.Errorf("%s: %v, %d replies left\n%s", name, err, m.Left(), s.State.Messages)
		}
	}
}

// It is asked for with the instruction and the callbacks of the agent.
func TestTheFormIsAskedForWithTheInstructionAndTheCallbacks(t *testing.T) {
	form, _ := model.OutputOf[amount]()
	m := scripted.New(scripted.Call("x", "{}"), scripted.Text("7"), scripted.Text("still 7"), scripted.Text(`{"Amount":7}`))
	var before, after int
	g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{logs("x", new([]string))}, Output: form, Instruction: "Be terse.",
		Use: aroundModel(func(_ context.Context, _ *S, req *model.Request) (*model.Response, error) {
			before++
			req.Config.Headers = map[string]string{"X-User": "anna"}
			return nil, nil
		}, func(_ context.Context, _ *S, _ *model.Request, resp *model.Response, err error) (*model.Response, error) {
			after++
			return nil, err
		})})
	if _, err := ok(t, g, err).Invoke(t.Context(), agent.Ask[S]("how much?")); err != nil {
		t.Fatal(err)
	}
	if before != 4 || after != 4 {
		t.Errorf("called %d times before and %d times after 4 calls", before, after)
	}
	for i, r := range m.Requests() {
		if r.Messages[0].Role != chat.RoleSystem || r.Messages[0].Text() != "Be terse." || r.Config.Headers["X-User"] != "anna" {
			t.Errorf("request %d begins with %v and has the headers %v", i, r.Messages[0], r.Config.Headers)
		}
	}
	last := m.Last().Messages
	if text := last[len(last)-1].Text(); !strings.Contains(text, "not JSON") {
		t.Errorf("the model is not told what is wrong: %q", text)
	}
}

// A model that gives no answer of the form is asked OutputTries times, and when the
// node runs again once more.
func TestTheTriesToGiveAnAnswerInItsFormAreBounded(t *testing.T) {
	form, _ := model.OutputOf[amount]()
	for name, has := range map[string]model.Capabilities{"by schema": {Tools: true, Schema: true, SchemaWithTools: true}, "by a tool": {Tools: true}} {
		wrong := scripted.Text("no")
		if name == "by a tool" {
			wrong = scripted.Call(agent.AnswerTool, `{"Amount":"no"}`)
		}
		m := scripted.New(wrong.Repeat())
		g, err := agent.New(agent.ReAct[S]{Model: model.WithCapabilities(m, has), Tools: []tool.Tool{logs("x", new([]string))}, Output: form, OutputTries: 2}, mem())
		var fe *model.FormatError
		_, err = ok(t, g, err).Thread(th).Invoke(t.Context(), input("how much?"))
		if n := len(m.Requests()); !errors.As(err, &fe) || n > 3 {
			t.Fatalf("%s: %v after %d calls", name, err, n)
		}
		before := len(m.Requests())
		if _, err = g.Thread(th).Invoke(t.Context(), g.Continue()); !errors.As(err, &fe) || len(m.Requests()) > before+1 {
			t.Errorf("%s: going on, %v after %d more", name, err, len(m.Requests())-before)
		}
	}
	_, err := agent.New(agent.ReAct[S]{Model: scripted.New(), Output: form, OutputTries: -1})
	if err == nil || !strings.Contains(err.Error(), "OutputTries") {
		t.Error(err)
	}
}

// At the limit of calls an answer still counts, and the form of the turn before is
// not that of this one.
func TestAnAnswerAtTheLimitCountsAndAnOlderOneDoesNot(t *testing.T) {
	form, _ := model.OutputOf[amount]()
	m := scripted.New(scripted.Call(agent.AnswerTool, `{"Amount":7}`), scripted.Call("x", "{}"))
	g, err := agent.New(agent.ReAct[S]{Model: model.WithCapabilities(m, model.Capabilities{Tools: true}), Tools: []tool.Tool{logs("x", new([]string))}, Output: form, MaxIterations: 1}, mem())
	s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("how much?"))
	if got, structErr := agent.Structured[amount](&s.State); err != nil || structErr != nil || got.Amount != 7 {
		t.Errorf("%+v, %v, %v", got, err, structErr)
	}
	s, err = g.Thread(th).Invoke(t.Context(), input("and now?"))
	if _, structErr := agent.Structured[amount](&s.State); err != nil || !errors.Is(structErr, agent.ErrNoStructured) || s.State.Stopped.Get() != agent.StopMaxIterations {
		t.Errorf("%v, %v, stopped %q", err, structErr, s.State.Stopped.Get())
	}
}

// Providers take a conversation that ends with the model's answer for the
// beginning of the next one, or refuse it.
func TestTheFormOfAnAnswerIsAskedForByAMessageOfTheUser(t *testing.T) {
	form, err := model.OutputOf[struct{ N int }]()
	if err != nil {
		t.Fatal(err)
	}
	m := scripted.New(scripted.Text("It is 1."), scripted.Text(`{"N":1}`))
	g, err := agent.New(agent.ReAct[S]{Model: m, Output: form})
	s, err := ok(t, g, err).Invoke(t.Context(), agent.Ask[S]("go"))
	if err != nil {
		t.Fatal(err)
	}
	if ms := m.Last().Messages; ms[len(ms)-1].Role != chat.RoleUser || len(ms) != 3 {
		t.Errorf("the request is %v", ms)
	}
	if s.State.Messages.Len() != 2 {
		t.Errorf("the conversation is\n%s", s.State.Messages)
	}
}
