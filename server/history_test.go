package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// curious is a graph whose nodes ask one after the other, several times, at once and
// inside of a subgraph.
func curious(t testing.TB) *graph.Graph[trip] {
	t.Helper()
	asks := func(questions ...string) func(context.Context, *trip) error {
		return func(ctx context.Context, s *trip) error {
			for _, q := range questions {
				city, err := graph.Interrupt[string](ctx, q, q)
				if err != nil {
					return err
				}
				s.City = city
			}
			return nil
		}
	}
	in := graph.New[trip]("inside")
	in.AddNode("c", asks("c1")).AddNode("d", asks("d1", "d2"))
	in.AddEdge(graph.Start, "c").AddEdge("c", "d")
	b := graph.New[trip]("asking")
	b.AddNode("begin", func(context.Context, *trip) error { return nil })
	b.AddNode("a", asks("a1", "a2")).AddNode("b", asks("b1"))
	graph.AddSubgraph(b, "sub", in.MustCompile(), graph.Mapping[trip, trip]{})
	b.AddNode("e", func(ctx context.Context, s *trip) error {
		_, err := graph.Interrupt[string](ctx, "e1", "e1")
		return err
	}).AddNode("f", func(ctx context.Context, s *trip) error {
		_, err := graph.Interrupt[string](ctx, "f1", "f1")
		return err
	})
	b.AddEdge(graph.Start, "begin").AddEdge("begin", "a").AddEdge("a", "b").AddEdge("b", "sub")
	b.AddEdge("sub", "e").AddEdge("sub", "f")
	return b.MustCompile()
}

func checkpointID(ref any) string {
	o, _ := ref.(object)
	id, _ := o["checkpoint_id"].(string)
	return id
}

// checkHistory checks that each parent that a thread's history names is in it, also
// when it is read in pages, and that the newest entries lead to a beginning.
func (c client) checkHistory(thread string, at object) {
	c.t.Helper()
	path := "/threads/" + thread + "/history"
	all := call[[]object](c, "POST", path, object{"limit": 1000, "checkpoint": at})
	parents := map[string]string{}
	for _, h := range all {
		parents[checkpointID(h["checkpoint"])] = checkpointID(h["parent_checkpoint"])
	}
	for id, parent := range parents {
		if _, ok := parents[parent]; parent != "" && !ok {
			c.t.Errorf("the parent of %s, %s, is none of %d entries", id, parent, len(all))
		}
		for n := 0; id != ""; n++ {
			if id = parents[id]; n > len(all) {
				c.t.Fatalf("the parents of %s go round", id)
			}
		}
	}
	var paged []object
	for before := object(nil); ; {
		some := call[[]object](c, "POST", path, object{"limit": 2, "checkpoint": at, "before": before})
		if len(some) == 0 {
			break
		}
		paged = append(paged, some...)
		before = some[len(some)-1]["checkpoint"].(object)
	}
	same := slices.EqualFunc(all, paged, func(a, b object) bool {
		return fmt.Sprint(a["checkpoint"], a["parent_checkpoint"]) == fmt.Sprint(b["checkpoint"], b["parent_checkpoint"])
	})
	if !same {
		c.t.Errorf("in pages the history is\n%v\nwhole\n%v", paged, all)
	}
}

// One question follows on another: the second's parent is the first, which stands
// for its superstep. LangGraph's useStream goes back from the newest entry by the
// parents, and shows the first one that has none that it knows.
func TestTheParentOfAQuestionAfterAQuestionIsThatQuestion(t *testing.T) {
	c := start(t, server.Graph(curious(t)), quiet())
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	at := "/threads/" + thread
	call[any](c, "POST", at+"/runs/wait", object{"assistant_id": "asking", "input": object{}})
	for range 3 {
		call[any](c, "POST", at+"/runs/wait", object{"assistant_id": "asking", "command": object{"resume": "x"}})
	}
	history := call[[]object](c, "POST", at+"/history", object{})
	for i, h := range history {
		parent := ""
		if i+1 < len(history) {
			parent = checkpointID(history[i+1]["checkpoint"])
		}
		if got := checkpointID(h["parent_checkpoint"]); got != parent {
			t.Errorf("the parent of %d, %v, is %s, not %s", i, h["next"], got, parent)
		}
	}
	if len(history) != 5 { // before begin, begin, a, b, sub
		t.Errorf("there are %d entries", len(history))
	}
}

// Whatever was asked, answered, edited, stopped at and forked from.
func TestEveryParentThatHistoryNamesIsInIt(t *testing.T) {
	c := start(t, server.Graph(curious(t)), quiet())
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 1))
		thread := call[object](c, "POST", "/threads", object{"graph_id": "asking"})["thread_id"].(string)
		at := "/threads/" + thread
		run := func(body object) {
			body["assistant_id"] = "asking"
			if random.IntN(5) == 0 {
				body["interrupt_before"] = []string{"*"}
			}
			c.do("POST", at+"/runs/wait", body) // which may be refused
		}
		run(object{"input": object{}})
		for range 25 {
			history := call[[]object](c, "POST", at+"/history", object{"limit": 100})
			one := history[random.IntN(min(len(history), 6))]["checkpoint"].(object)
			state := call[object](c, "GET", at+"/state?subgraphs=true", nil)
			answers := object{}
			for _, q := range state["interrupts"].([]any) {
				if id := q.(object)["id"].(string); len(answers) == 0 || random.IntN(2) == 0 {
					answers[id] = fmt.Sprint(random.IntN(100))
				}
			}
			for _, h := range history {
				if checkpointID(h["checkpoint"]) != checkpointID(state["checkpoint"]) {
					continue
				}
				for _, what := range []string{"parent_checkpoint", "metadata", "next"} {
					if got, want := fmt.Sprint(state[what]), fmt.Sprint(h[what]); got != want {
						t.Errorf("seed %d: the state's %s is\n%s\nthe history says\n%s", seed, what, got, want)
					}
				}
			}
			switch random.IntN(15) {
			case 13, 14: // one of the moments before an input
				before := slices.DeleteFunc(slices.Clone(history), func(h object) bool { return fmt.Sprint(h["next"]) != "[__start__]" })
				if len(before) == 0 {
					continue
				}
				from := before[random.IntN(len(before))]["checkpoint"]
				switch random.IntN(4) {
				case 0:
					c.do("POST", at+"/state", object{"values": object{"city": "Ulm"}, "checkpoint": from})
				case 1:
					run(object{"command": object{"update": object{"city": "Ulm"}}, "checkpoint": from})
				case 2:
					run(object{"command": object{"goto": "a"}, "checkpoint": from})
				default:
					run(object{"input": object{}, "checkpoint": from})
				}
			case 12:
				run(object{"input": object{}, "checkpoint": history[len(history)-1]["checkpoint"]}) // the one before the first input, if it is there
			case 0:
				run(object{"input": object{}, "checkpoint": one})
			case 1:
				run(object{"input": nil, "checkpoint": one})
			case 2:
				run(object{"command": object{"resume": "again"}, "checkpoint": one})
			case 3:
				c.do("POST", at+"/state", object{"values": object{"city": "Ulm"}})
			case 4:
				c.do("POST", at+"/state", object{"values": object{"city": "Ulm"}, "checkpoint": one})
			case 5:
				c.do("POST", at+"/state", object{"values": object{"city": "Ulm"}, "as_node": []string{"begin", "a", "b", "sub"}[random.IntN(4)]})
			case 6:
				run(object{"command": object{"goto": []string{"a", "b", "sub"}[random.IntN(3)]}})
			default:
				run(object{"command": object{"resume": answers}})
			}
		}
		c.checkHistory(thread, nil)
		for _, h := range call[[]object](c, "POST", at+"/history", object{"limit": 100}) {
			state := call[object](c, "GET", at+"/state/"+checkpointID(h["checkpoint"]), nil)
			if got, want := fmt.Sprint(state["parent_checkpoint"]), fmt.Sprint(h["parent_checkpoint"]); got != want {
				t.Errorf("seed %d: the parent of %v is %s, the history says %s", seed, h["checkpoint"], got, want)
			}
		}
		for _, h := range call[[]object](c, "POST", at+"/history", object{"limit": 100}) {
			for _, task := range h["tasks"].([]any) {
				if ref, ok := task.(object)["checkpoint"].(object); ok {
					c.checkHistory(thread, object{"checkpoint_ns": ref["checkpoint_ns"]})
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// LangGraph has one checkpoint for an edit as a node: with where the node leads.
func TestAnEditAsANodeIsOneEntryOfTheHistory(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet())
	at := "/threads/" + call[object](c, "POST", "/threads", object{"graph_id": "booking"})["thread_id"].(string)
	call[any](c, "POST", at+"/runs/wait", object{"assistant_id": "booking", "input": object{"city": "Bonn"}})
	before := call[[]object](c, "GET", at+"/history", nil)
	edited := call[object](c, "POST", at+"/state", object{"values": object{"city": "Rom"}, "as_node": "plan"})
	history := call[[]object](c, "GET", at+"/history", nil)
	if len(history) != len(before)+1 {
		t.Fatalf("%d entries became %d", len(before), len(history))
	}
	h := history[0]
	if checkpointID(h["checkpoint"]) != checkpointID(edited["checkpoint"]) || h["metadata"].(object)["source"] != "update" || fmt.Sprint(h["next"]) != "[book]" {
		t.Errorf("the edit %v is %v", edited, h)
	}
	if state := call[object](c, "GET", at+"/state", nil); fmt.Sprint(state["parent_checkpoint"], state["metadata"]) != fmt.Sprint(h["parent_checkpoint"], h["metadata"]) {
		t.Errorf("the state is\n%v\nthe history says\n%v", state, h)
	}
	if got := call[[]object](c, "POST", at+"/history", object{"metadata": object{"source": "update"}}); len(got) != 1 {
		t.Errorf("%d edits are found", len(got))
	}
}

func TestAHistorySaysWhenTheTasksRan(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet())
	thread := "/threads/" + newThread()
	call[object](c, "POST", thread+"/runs/wait", object{"assistant_id": "booking", "input": object{}, "if_not_exists": "create"})
	var ran []string
	for _, state := range call[[]object](c, "GET", thread+"/history", nil) {
		tasks, _ := state["ran"].([]any)
		for _, r := range tasks {
			task := r.(object)
			began, err := time.Parse(time.RFC3339, task["began_at"].(string))
			if took, ok := task["took"].(float64); err != nil || !ok || took < 0 || took > 60 || time.Since(began) > time.Hour || time.Since(began) < 0 {
				t.Errorf("%v began at %v: %v", task, began, err)
			}
			ran = append(ran, task["name"].(string))
		}
	}
	if !slices.Equal(ran, []string{"plan"}) { // the other one asks
		t.Errorf("%q ran", ran)
	}
}

// Clients find the task that made a call of a tool by the result that it wrote, and else by
// its place among what was sent.
func TestTheTasksOfAHistorySayWhatTheyWroteAndWhereTheyWereSent(t *testing.T) {
	for _, asks := range []bool{false, true} {
		t.Run(fmt.Sprintf("asks=%t", asks), func(t *testing.T) {
			b := graph.New[trip]("both")
			nothing := func(context.Context, *trip) error { return nil }
			b.AddNode("begin", nothing).AddNode("wait", nothing)
			b.AddNode("choose", func(ctx context.Context, s *trip) (err error) {
				if s.City = "Rom"; asks {
					s.City, err = graph.Interrupt[string](ctx, "city", "city?")
				}
				return err
			})
			book := graph.AddTask(b, "book", func(_ context.Context, s *trip, what string) error {
				s.Messages.Add(chat.Assistant(what))
				return nil
			})
			b.AddEdge(graph.Start, "begin").AddEdge(graph.Start, "wait").AddEdge("wait", "choose")
			b.AddConditionalEdges("begin", func(context.Context, *trip) (graph.Command, error) {
				return graph.Dispatch(book.Send("flight"), book.Send("hotel")), nil
			}, "book")
			c := start(t, server.Graph(b.MustCompile()), quiet())
			thread := "/threads/" + newThread()
			call[object](c, "POST", thread+"/runs/wait", object{"assistant_id": "both", "input": object{}, "if_not_exists": "create"})
			want := []string{"begin[__pregel_pull begin] null", "book[__pregel_push 0] flight", "book[__pregel_push 1] hotel", "choose[__pregel_pull choose] Rom", "wait[__pregel_pull wait] null"}
			if asks {
				call[object](c, "POST", thread+"/runs/wait", object{"assistant_id": "both", "command": object{"resume": "Rom"}})
			}
			for _, limit := range []int{100, 1} {
				var got []string
				query := object{"limit": limit}
				for {
					page := call[[]object](c, "POST", thread+"/history", query)
					for _, state := range page {
						for _, task := range state["tasks"].([]any) {
							task := task.(object)
							if task["name"] == graph.Start {
								continue
							}
							result, _ := task["result"].(object)
							what := result["city"]
							if messages, _ := result["messages"].([]any); len(messages) == 1 {
								what = messages[0].(object)["content"]
							}
							if what == nil {
								what = "null"
							}
							got = append(got, fmt.Sprint(task["name"], task["path"], " ", what))
						}
					}
					if len(page) < limit {
						break
					}
					query["before"] = object{"configurable": object{"checkpoint_id": checkpointID(page[limit-1]["checkpoint"])}}
				}
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("in pages of %d: %q\nwant %q", limit, got, want)
				}
			}
		})
	}
}
