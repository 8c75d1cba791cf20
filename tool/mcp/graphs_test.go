package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

type trip struct {
	To     string             `json:"to"`
	Days   int                `json:"days,omitempty"`
	Sure   bool               `json:"sure,omitempty"`
	Visits graph.List[string] `json:"visits,omitzero"`
}

type answered struct {
	Days int    `json:"days"`
	Note string `json:"note,omitempty"`
}

// travel returns a server with a graph that asks what its destination says.
func travel(t *testing.T) *mcp.Server {
	fails := true
	b := graph.New[trip]("trip")
	b.AddNode("plan", func(ctx context.Context, s *trip) (err error) {
		switch s.To {
		case "Bern": // two questions, one after the other
			a, err := graph.Interrupt[answered](ctx, "days", "How long?")
			if err != nil {
				return err
			}
			if s.Sure, err = graph.Interrupt[bool](ctx, "sure", map[string]any{"days": a.Days}); err != nil {
				return err
			}
			s.Days = a.Days
		case "Rome": // an answer that is no form
			list, err := graph.Interrupt[[]string](ctx, "stops", "Where else?")
			if err != nil {
				return err
			}
			s.Visits.Add(list...)
		case "nowhere":
			if fails {
				fails = false
				return errors.New("there is no such place")
			}
		}
		s.Visits.Add(s.To)
		return nil
	})
	b.AddEdge(graph.Start, "plan")
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	s, err := mcp.NewServer("travel", "1", tool.New("now", "", func(context.Context, none) (string, error) { return "12:00", nil }))
	if err == nil {
		err = s.SetGraphs(mcp.Graph{Graph: graph.JSON(g), Name: "plan trip", Description: "Plans a trip."})
	}
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, s)
}

// ran calls a tool that is a graph.
func ran(t *testing.T, c *mcp.Client, name, args string) mcp.ThreadResult {
	t.Helper()
	r, err := get(t, c, name).Call(t.Context(), json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	var out mcp.ThreadResult
	if err := json.Unmarshal(r.Artifact, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func bothProtocols(t *testing.T, test func(t *testing.T, cfg mcp.Config)) {
	for _, protocol := range []string{"", old} {
		t.Run("protocol "+protocol, func(t *testing.T) { test(t, mcp.Config{Transport: travel(t).Local(), Protocol: protocol}) })
	}
}

func TestAGraphIsAToolWithThreads(t *testing.T) {
	bothProtocols(t, func(t *testing.T, cfg mcp.Config) {
		c := connect(t, cfg)
		plan := get(t, c, "plan_trip")
		if spec := plan.Spec(); spec.Description != "Plans a trip." || !strings.Contains(string(spec.Schema), `"to":`) || !strings.Contains(string(spec.Schema), `"thread":`) {
			t.Errorf("the tool is %+v", spec)
		}
		if out := plan.(interface{ OutputSchema() json.RawMessage }).OutputSchema(); !strings.Contains(string(out), `"visits":`) {
			t.Errorf("the output is %s", out)
		}
		first := ran(t, c, "plan_trip", `{"to":"Paris"}`)
		if first.Status != "done" || first.Thread == "" || string(first.Output) != `{"to":"Paris","visits":["Paris"]}` {
			t.Errorf("%+v, output %s", first, first.Output)
		}
		other := ran(t, c, "plan_trip", `{"to":"Oslo"}`)
		again := ran(t, c, "plan_trip", `{"to":"Oslo","thread":"`+first.Thread+`"}`)
		if other.Thread == first.Thread || string(again.Output) != `{"to":"Oslo","visits":["Paris","Oslo"]}` {
			t.Errorf("%+v, %s", other, again.Output)
		}
		if got := text(t, get(t, c, "now"), ``); got != "12:00" {
			t.Errorf("the tool beside it says %q", got)
		}
	})
}

func TestAGraphThatAsksAsksTheClientsUser(t *testing.T) {
	bothProtocols(t, func(t *testing.T, cfg mcp.Config) {
		var asked []string
		cfg.Elicit = func(_ context.Context, e mcp.Elicitation) (mcp.ElicitationAnswer, error) {
			asked = append(asked, e.Message)
			content := `{"days":3}`
			if strings.HasPrefix(e.Message, "sure") {
				content = `{"answer":true}`
			}
			return mcp.ElicitationAnswer{Action: mcp.Accept, Content: json.RawMessage(content)}, nil
		}
		c := connect(t, cfg)
		r := ran(t, c, "plan_trip", `{"to":"Bern"}`)
		if want := []string{"days: How long?", `sure: {"days":3}`}; !slices.Equal(asked, want) {
			t.Errorf("asked %q", asked)
		}
		if r.Status != "done" || string(r.Output) != `{"days":3,"sure":true,"to":"Bern","visits":["Bern"]}` {
			t.Errorf("%+v, output %s", r, r.Output)
		}
		if r := ran(t, c, "plan_trip", `{"to":"Rome"}`); r.Status != "asks" || len(r.Questions) != 1 {
			t.Errorf("what is no form gives %+v", r)
		}
	})
}

func TestAGraphWhoseUserDoesNotAnswerWaits(t *testing.T) {
	bothProtocols(t, func(t *testing.T, cfg mcp.Config) {
		cfg.Elicit = func(context.Context, mcp.Elicitation) (mcp.ElicitationAnswer, error) {
			return mcp.ElicitationAnswer{Action: mcp.Cancel}, nil
		}
		if r := ran(t, connect(t, cfg), "plan_trip", `{"to":"Bern"}`); r.Status != "asks" || len(r.Questions) != 1 || r.Questions[0].Key != "days" {
			t.Errorf("%+v", r)
		}
	})
}

func TestAClientThatCannotAskAnswersByATool(t *testing.T) {
	bothProtocols(t, func(t *testing.T, cfg mcp.Config) {
		c := connect(t, cfg)
		res, err := get(t, c, "plan_trip").Call(t.Context(), json.RawMessage(`{"to":"Bern","thread":"t1"}`))
		if got := res.Text(); err != nil || !strings.HasPrefix(got, `Thread "t1" of graph "plan_trip" waits for answers, which the tool answer_thread takes:`) || !strings.Contains(got, `"days" (ID `) {
			t.Errorf("the model is told %q, %v", got, err)
		}
		answer := func(args string) (mcp.ThreadResult, error) {
			r, err := get(t, c, mcp.AnswerTool).Call(t.Context(), json.RawMessage(args))
			var out mcp.ThreadResult
			if err == nil {
				err = json.Unmarshal(r.Artifact, &out)
			}
			return out, err
		}
		for args, want := range map[string]string{
			`{"graph":"plan_trip","thread":"t1","answers":{"days":"long"}}`:   "days",
			`{"graph":"plan_trip","thread":"t1","answers":{"weeks":1}}`:       "weeks",
			`{"graph":"plan","thread":"t1","answers":{"days":{"days":1}}}`:    "plan_trip",
			`{"graph":"plan_trip","thread":"t9","answers":{"days":{}}}`:       "t9",
			`{"graph":"plan_trip","thread":1}`:                                "invalid arguments",
			`{"graph":"plan_trip","thread":"","answers":{"days":{"days":1}}}`: "invalid arguments",
		} {
			_, err := answer(args)
			if e, ok := errors.AsType[*tool.Error](err); !ok || !strings.Contains(e.Error(), want) {
				t.Errorf("%s: %v", args, err)
			}
		}
		r, err := answer(`{"graph":"plan_trip","thread":"t1","answers":{"days":{"days":2}}}`)
		if err != nil || r.Status != "asks" || len(r.Questions) != 1 || r.Questions[0].Key != "sure" {
			t.Fatalf("%+v, %v", r, err)
		}
		r, err = answer(`{"graph":"plan_trip","thread":"t1","answers":{"` + r.Questions[0].ID + `":true}}`)
		if err != nil || r.Status != "done" || string(r.Output) != `{"days":2,"sure":true,"to":"Bern","visits":["Bern"]}` {
			t.Errorf("%+v, output %s, %v", r, r.Output, err)
		}
	})
}

func TestAGraphTellsItsProgress(t *testing.T) {
	bothProtocols(t, func(t *testing.T, cfg mcp.Config) {
		told := make(chan string, 10)
		cfg.OnProgress = func(_ context.Context, p mcp.Progress) { told <- fmt.Sprint(p.Tool, " ", p.Done, " ", p.Message) }
		c := connect(t, cfg)
		// What comes with the answer may be lost, so that there is a client that asks for it again.
		for {
			if r := ran(t, c, "plan_trip", `{"to":"Paris"}`); r.Status != "done" {
				t.Fatalf("%+v", r)
			}
			select {
			case got := <-told:
				if got != "plan_trip 1 plan" {
					t.Errorf("told %q", got)
				}
				return
			default:
			}
		}
	})
}

// A graph that calls a graph elsewhere, which asks, waits with its question.
func TestAQuestionOfAGraphElsewhereIsAnInterruptHere(t *testing.T) {
	bothProtocols(t, func(t *testing.T, cfg mcp.Config) {
		cfg.Elicit = mcp.Ask
		store := checkpoint.NewMemory()
		args := `{"to":"Bern","thread":"there"}`
		th := calls(t, store, cfg, "plan_trip", args).Thread("here")
		snap, err := th.Invoke(t.Context(), th.Input(start))
		for _, content := range []string{`{"days":4}`, `{"answer":true}`} {
			if err != nil || len(snap.Interrupts) != 1 {
				t.Fatalf("%+v, %v", snap, err)
			}
			th = calls(t, store, cfg, "plan_trip", args).Thread("here")
			snap, err = th.Invoke(t.Context(), th.Answer(mcp.ElicitationAnswer{Action: mcp.Accept, Content: json.RawMessage(content)}))
		}
		if err != nil || !strings.HasPrefix(snap.State.Said, `{"to":"Bern","days":4,"sure":true,"visits":["Bern"`) {
			t.Errorf("%+v, %v", snap, err)
		}
	})
}

func TestAGraphThatFailsGoesOn(t *testing.T) {
	bothProtocols(t, func(t *testing.T, cfg mcp.Config) {
		c := connect(t, cfg)
		_, err := get(t, c, "plan_trip").Call(t.Context(), json.RawMessage(`{"to":"nowhere","thread":"t"}`))
		if e, ok := errors.AsType[*tool.Error](err); !ok || !strings.Contains(e.Error(), "there is no such place") || !strings.Contains(e.Error(), mcp.AnswerTool) {
			t.Errorf("error is %v", err)
		}
		if r := ran(t, c, mcp.AnswerTool, `{"graph":"plan_trip","thread":"t"}`); r.Status != "done" {
			t.Errorf("%+v", r)
		}
		for args, want := range map[string]string{`{"too":"Bern"}`: "too", `{"to":5}`: "to", `{"to":"Bern","thread":5}`: "thread"} {
			_, err := get(t, c, "plan_trip").Call(t.Context(), json.RawMessage(args))
			if e, ok := errors.AsType[*tool.Error](err); !ok || !strings.Contains(e.Error(), "invalid arguments: ") || !strings.Contains(e.Error(), want) {
				t.Errorf("%s: %v", args, err)
			}
		}
	})
}

func TestGraphsAndToolsOfOneNameAreRefused(t *testing.T) {
	s := travel(t)
	g := graph.New[trip]("now")
	g.AddNode("n", func(context.Context, *trip) error { return nil }).AddEdge(graph.Start, "n")
	one := mcp.Graph{Graph: graph.JSON(g.MustCompile())}
	for what, err := range map[string]error{
		"a tool's":      s.SetGraphs(one),
		"twice":         s.SetGraphs(mcp.Graph{Graph: one.Graph, Name: "a"}, mcp.Graph{Graph: one.Graph, Name: "a"}),
		"none":          s.SetGraphs(mcp.Graph{Name: "a"}),
		"a graph's":     s.SetTools(tool.New("plan_trip", "", func(context.Context, none) (string, error) { return "", nil })),
		"that answers":  s.SetTools(tool.New(mcp.AnswerTool, "", func(context.Context, none) (string, error) { return "", nil })),
		"that answers2": s.SetGraphs(mcp.Graph{Graph: one.Graph, Name: mcp.AnswerTool}),
	} {
		if _, ok := errors.AsType[*tool.DefinitionError](err); !ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	c := connect(t, mcp.Config{Transport: s.Local()})
	tools, err := c.Tools(t.Context())
	if err != nil || len(tools) != 3 { // as before
		t.Errorf("%d tools, %v", len(tools), err)
	}
}
