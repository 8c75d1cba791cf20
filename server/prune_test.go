package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/server"
)

type tally struct {
	Turns graph.Sum[int] `json:"turns"`
}

// A thread that is shortened again and again while it runs loses no turn, and no run
// fails of it.
func TestAThreadIsPrunedBesideItsRuns(t *testing.T) {
	for _, data := range []string{"memory", "sqlite:" + filepath.Join(t.TempDir(), "threads.db")} {
		t.Run(data[:6], func(t *testing.T) {
			b := graph.New[tally]("tally")
			b.AddNode("count", func(_ context.Context, s *tally) error { s.Turns.Add(1); return nil })
			b.AddNode("rest", func(context.Context, *tally) error { return nil })
			b.AddEdge(graph.Start, "count").AddEdge("count", "rest")
			c := start(t, server.Graph(b.MustCompile()), server.Data(data), quiet())
			thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
			stop := make(chan struct{})
			var beside sync.WaitGroup
			pruned := 0.0
			beside.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					status, _, text := c.do("POST", "/threads/prune", object{"thread_ids": []string{thread}, "strategy": "keep_latest"})
					var answer struct {
						Pruned float64 `json:"pruned_count"`
					}
					_ = json.Unmarshal([]byte(text), &answer)
					if pruned += answer.Pruned; status != http.StatusOK && status != http.StatusConflict {
						t.Errorf("pruning: %d %s", status, text)
						return
					}
				}
			})
			const turns = 40
			for range turns {
				if status, _, text := c.do("POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "tally", "input": object{}}); status != http.StatusOK || strings.Contains(text, "__error__") {
					t.Errorf("a run ends with %d %s", status, text)
				}
			}
			close(stop)
			beside.Wait()
			if pruned == 0 {
				t.Error("nothing was pruned: the test proves nothing")
			}
			state := call[object](c, "GET", "/threads/"+thread+"/state", nil)
			if got := state["values"].(object)["turns"]; got != float64(turns) {
				t.Errorf("%d turns were run, the thread counts %v", turns, got)
			}
		})
	}
}

// A message after a turn that failed is answered, whatever the failed one has left.
func TestAMessageAfterAFailedTurnIsAnswered(t *testing.T) {
	fails := true
	g, err := agent.New(agent.ReAct[agent.State]{
		Name: "clerk", Model: scripted.New(scripted.Text("one"), scripted.Text("two")),
		Use: []agent.Middleware[agent.State]{{Name: "check", AfterModel: func(context.Context, *agent.State) (agent.Next, error) {
			if fails {
				return agent.Onward, errors.New("the check is down")
			}
			return agent.Onward, nil
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, server.Graph(g), quiet())
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	say := func(text string) string {
		_, _, answer := c.do("POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "clerk", "input": object{
			"messages": []object{{"role": "user", "content": text}},
		}})
		return answer
	}
	if answer := say("first"); !strings.Contains(answer, "the check is down") {
		t.Fatalf("the turn that is to fail: %s", answer)
	}
	fails = false
	answer := say("second")
	content := func(text string) int { return strings.Index(answer, `"content":"`+text) }
	first, second, two := content("first"), content("second"), content("two")
	if first < 0 || second < first || two < second {
		t.Errorf("the conversation after the second message: %s", answer)
	}
}
