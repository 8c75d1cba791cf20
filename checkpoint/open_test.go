package checkpoint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

// The newer of a record and of what a task has left says how it stands; what it has
// finished with stands beside that.
func TestTaskStates(t *testing.T) {
	asked := []checkpoint.Question{{ID: "q", When: "inside"}}
	answered := []checkpoint.Question{{ID: "q", When: "inside", Answered: true}}
	left := func(o checkpoint.OpenTask) checkpoint.Result {
		data, _ := json.Marshal(o)
		return checkpoint.Result{Kind: checkpoint.KindOpen, Data: data, Gen: o.Gen}
	}
	changes := checkpoint.Result{Kind: checkpoint.KindChanges, Name: "2", Data: json.RawMessage(`{"x":1}`)}
	routing := checkpoint.Result{Kind: checkpoint.KindRouting, Data: json.RawMessage(`{"static":true}`)}
	for name, c := range map[string]struct {
		open    []checkpoint.OpenTask
		results []checkpoint.Result
		want    string
	}{
		"nothing":                   {want: "waiting"},
		"failed":                    {results: []checkpoint.Result{left(checkpoint.OpenTask{Error: "boom", After: 4})}, want: "failed boom"},
		"asks":                      {open: []checkpoint.OpenTask{{Questions: asked}}, want: "interrupted"},
		"asked before the record":   {open: []checkpoint.OpenTask{{Questions: answered}}, results: []checkpoint.Result{left(checkpoint.OpenTask{Questions: asked, After: 3})}, want: "waiting"},
		"failed after the answer":   {open: []checkpoint.OpenTask{{Questions: answered}}, results: []checkpoint.Result{left(checkpoint.OpenTask{Questions: answered, Error: "boom", After: 4})}, want: "failed boom"},
		"answered after the record": {open: []checkpoint.OpenTask{{Questions: asked}}, results: []checkpoint.Result{left(checkpoint.OpenTask{Error: "boom", After: 5}), changes, routing}, want: "interrupted"},
		"asks, and is cut short":    {open: []checkpoint.OpenTask{{Questions: asked, Cut: true, Error: "boom"}}, want: "failed boom"},
		"asks, and was cancelled":   {open: []checkpoint.OpenTask{{Questions: asked, Cut: true}}, want: "waiting"},
		"its router is pending":     {results: []checkpoint.Result{changes}, want: "routing, ran 2"},
		"its router failed":         {results: []checkpoint.Result{changes, left(checkpoint.OpenTask{Error: "boom", After: 4})}, want: "failed boom, ran 2"},
		"done":                      {results: []checkpoint.Result{left(checkpoint.OpenTask{Error: "boom", After: 4}), changes, routing}, want: "done, ran 2"},
		"folded":                    {open: []checkpoint.OpenTask{{Folded: true, Routing: &checkpoint.Routing{}}}, results: []checkpoint.Result{changes}, want: "done, ran 0"},
		"voided since":              {open: []checkpoint.OpenTask{{Gen: 1, Error: "conflict"}}, results: []checkpoint.Result{changes, routing}, want: "failed conflict"},
		"held":                      {open: []checkpoint.OpenTask{{Questions: []checkpoint.Question{{When: "before"}}}}, want: "held"},
	} {
		epoch := &checkpoint.Record{ID: "e", Tasks: []checkpoint.Task{{Node: "a"}}}
		rec := &checkpoint.Record{ID: "r", Epoch: "e", Seq: 4, Version: 7, Open: c.open}
		tasks, err := checkpoint.TaskStates(epoch, rec, c.results)
		if err != nil || len(tasks) != 1 {
			t.Fatal(name, err, tasks)
		}
		got := tasks[0].Status.String()
		if tasks[0].Error != "" {
			got += " " + tasks[0].Error
		}
		if tasks[0].Ran {
			got += fmt.Sprint(", ran ", tasks[0].ChangesVersion)
		}
		if got != c.want || tasks[0].Node != "a" {
			t.Errorf("%s: %q of node %s, want %q", name, got, tasks[0].Node, c.want)
		}
	}
	for name, r := range map[string]checkpoint.Result{
		"a task that is not there": {Task: 3, Kind: checkpoint.KindChanges},
		"no state":                 {Kind: checkpoint.KindOpen, Data: json.RawMessage(`[]`)},
		"no routing":               {Kind: checkpoint.KindRouting, Data: json.RawMessage(`[]`)},
	} {
		_, err := checkpoint.TaskStates(&checkpoint.Record{Tasks: []checkpoint.Task{{}}}, &checkpoint.Record{}, []checkpoint.Result{r})
		if !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
