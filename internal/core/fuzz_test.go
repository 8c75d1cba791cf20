package core_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/plan"
)

// FuzzLoad: whatever a store returns as a record and as the results of its open
// superstep, a machine is made of it that goes on or ends, or an error says what is
// wrong.
func FuzzLoad(f *testing.F) {
	g, problems, _ := plan.Compile(plan.Spec{
		Nodes: []plan.NodeSpec{{Name: "a"}, {Name: "b"}, {Name: "c", Command: true}, {Name: "late", Defer: true}},
		Edges: []plan.EdgeSpec{{From: plan.Start, To: "a"}, {From: plan.Start, To: "b"}, {From: "c", To: "late"}},
		Joins: []plan.JoinSpec{{Sources: []string{"a", "b"}, Target: "c"}},
	})
	if g == nil {
		f.Fatal(problems)
	}
	cfg := core.Config{Plan: g, Values: toy{}, Persist: true, Log: testLog, Run: "00000000-0000-7000-8000-000000000001"}
	const id = "00000000-0000-7000-8000-000000000002"
	join := g.Joins[0].ID
	seed := func(rec checkpoint.Record, results ...checkpoint.Result) {
		rec.ID, rec.Epoch, rec.Seq, rec.Source = id, id, 1, checkpoint.SourceInput
		b, err := json.Marshal(&rec)
		if err != nil {
			f.Fatal(err)
		}
		var lines [][]byte
		for _, r := range results {
			r.Epoch = id
			line, err := json.Marshal(&r)
			if err != nil {
				f.Fatal(err)
			}
			lines = append(lines, line)
		}
		f.Add(b, bytes.Join(lines, []byte("\n")))
	}
	two := []checkpoint.Task{{Node: "a"}, {Node: "b", From: "a", Sent: true, Payload: json.RawMessage(`1`)}}
	asked := checkpoint.Question{ID: "q", Key: "k", Node: "a", When: "inside"}
	seed(checkpoint.Record{Tasks: two},
		checkpoint.Result{Kind: checkpoint.KindChanges, Data: json.RawMessage(`{"l":["x"]}`)},
		checkpoint.Result{Kind: checkpoint.KindRouting, Data: json.RawMessage(`{"static":true}`)},
		checkpoint.Result{Task: 1, Kind: checkpoint.KindOpen, Data: json.RawMessage(`{"error":"boom","failure":{"attempts":2}}`)})
	seed(checkpoint.Record{Tasks: two},
		checkpoint.Result{Task: 1, Kind: checkpoint.KindOpen, Data: json.RawMessage(`{"questions":[{"id":"q","key":"k"}],"children":{"/b":"x"}}`)},
		checkpoint.Result{Task: 0, Kind: checkpoint.KindOpen, Data: json.RawMessage(`{"kept":{"/a":"x"},"after":7}`)},
		checkpoint.Result{Kind: checkpoint.KindRouting, Data: json.RawMessage(`{"goto":["c","__end__"],"sends":[{"node":"b"}],"parent":{"goto":["p"]}}`)})
	seed(checkpoint.Record{Tasks: two, Open: []checkpoint.OpenTask{
		{Task: 0, Questions: []checkpoint.Question{asked}}, {Task: 1, Folded: true, Routing: &checkpoint.Routing{Goto: []string{"c"}}}, {Task: 2, Node: "b", Folded: true},
	}})
	seed(checkpoint.Record{Deferred: []string{"late"}, Joins: []checkpoint.Arrival{{Join: join, Sources: []string{"a"}}}, Paused: []checkpoint.Pause{{ID: "p", Node: "a"}}})
	seed(checkpoint.Record{Tasks: two, Open: []checkpoint.OpenTask{{Task: -1}}}, checkpoint.Result{Task: -1, Kind: checkpoint.KindChanges})
	seed(checkpoint.Record{Open: []checkpoint.OpenTask{{Routing: &checkpoint.Routing{Parent: &checkpoint.Routing{Goto: []string{"x"}}}}}})
	f.Fuzz(func(t *testing.T, record, results []byte) {
		rec := new(checkpoint.Record)
		if json.Unmarshal(record, rec) != nil || rec.ID == "" || rec.Seq < 1 {
			return
		}
		tip := core.Tip{Record: rec, Epoch: rec, LogHead: rec.ID, State: toy{}.New()}
		for line := range bytes.SplitSeq(results, []byte("\n")) {
			var r checkpoint.Result
			if json.Unmarshal(line, &r) == nil && r.Kind != "" && r.Epoch != "" {
				tip.Results = append(tip.Results, r)
			}
		}
		m, err := core.Load(cfg, tip)
		if err != nil {
			return
		}
		if err := m.Continue(true); err != nil {
			return
		}
		for range 10 {
			rd := m.Ready()
			m.Advance()
			if rd.Done {
				return
			}
			for _, i := range rd.Start {
				m.Ended(i, &core.End{Ran: true, Routing: &core.Routing{Static: true}})
			}
		}
	})
}
