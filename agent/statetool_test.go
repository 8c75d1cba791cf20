package agent_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

func TestEachCallOfAToolAsksItsOwnQuestion(t *testing.T) {
	for _, key := range []string{"sure", ""} {
		asked, paid := map[string]bool{}, []int{}
		pay := tool.New("pay", "Pays.", func(ctx context.Context, in struct{ Amount int }) (string, error) {
			yes, err := graph.Interrupt[bool](ctx, key, fmt.Sprint("pay ", in.Amount, "?"))
			if err == nil && yes {
				paid = append(paid, in.Amount)
			}
			return "paid", err
		})
		g, err := agent.New(agent.ReAct[S]{Tools: []tool.Tool{pay}, Model: scripted.New(
			scripted.Calls(call("1", "pay", `{"Amount":9}`), call("2", "pay", `{"Amount":5000000}`)), scripted.Text("ok"))}, mem())
		s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
		n := 0
		for range 5 {
			if err != nil { // "raised interrupt twice in one execution"
				s, err = g.Thread(th).Invoke(t.Context(), g.Continue())
				continue
			}
			if len(s.Interrupts) == 0 {
				break
			}
			asked[string(s.Interrupts[0].Raw)] = true
			n++
			s, err = g.Thread(th).Invoke(t.Context(), g.Answer(true))
		}
		if len(asked) != 2 || n != 2 {
			t.Errorf("key %q: paid %v, asked %d times: %v", key, paid, n, asked)
		}
	}
}

func TestEachCallOfAToolHasItsOwnOnce(t *testing.T) {
	var booked []string
	book := agent.NewStateTool("book", "b", func(ctx context.Context, _ *S, in struct{ To string }) (string, graph.Command, error) {
		id, err := graph.Once(ctx, "book", func(context.Context, string) (string, error) {
			booked = append(booked, in.To)
			return "ticket to " + in.To, nil
		})
		return id, graph.Command{}, err
	})
	g, err := agent.New(agent.ReAct[S]{Tools: []tool.Tool{book}, Model: scripted.New(
		scripted.Calls(call("1", "book", `{"To":"Bern"}`), call("2", "book", `{"To":"Basel"}`)), scripted.Text("ok"))}, mem())
	s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
	if !slices.Equal(booked, []string{"Bern", "Basel"}) {
		t.Errorf("%v: booked %v\n%s", err, booked, s.State.Messages)
	}
}

type wrapped struct{ tool.Tool } // any middleware without Unwrap

func TestAStateToolInAWrapper(t *testing.T) {
	book := agent.NewStateTool("book", "b", func(_ context.Context, s *S, _ none) (string, graph.Command, error) {
		s.NodeResponses.Put("booked", "yes")
		return "booked", graph.Command{}, nil
	})
	ask := tool.New("ask", "a", func(ctx context.Context, _ none) (string, error) { return graph.Interrupt[string](ctx, "k", "?") })
	g, err := agent.New(agent.ReAct[S]{Tools: []tool.Tool{wrapped{book}, ask},
		Model: scripted.New(scripted.Calls(call("1", "book", "{}"), call("2", "ask", "{}")), scripted.Text("ok"))}, mem())
	_, _ = ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
	s, err := g.Thread(th).Invoke(t.Context(), g.Answer("yes"))
	if v, _ := s.State.NodeResponses.Get("booked"); err == nil && v != "yes" {
		t.Errorf("what the tool wrote is lost, its result is not:\n%s", s.State.Messages)
	}
}

func TestAStateToolInAWrapperInParallel(t *testing.T) { // fails under -race
	book := agent.NewStateTool("book", "b", func(_ context.Context, s *S, _ none) (string, graph.Command, error) {
		s.Rounds++
		time.Sleep(time.Millisecond)
		return "booked", graph.Command{}, nil
	})
	g, err := agent.New(agent.ReAct[S]{Tools: []tool.Tool{wrapped{book}}, Parallel: 2,
		Model: scripted.New(scripted.Calls(call("1", "book", "{}"), call("2", "book", "{}")), scripted.Text("ok"))})
	_, _ = ok(t, g, err).Invoke(t.Context(), agent.Ask[S]("go"))
}
