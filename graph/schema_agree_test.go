package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// json is the action as an update from outside. The plain field is set to a value that
// it never had: to set the one that it has is an update of a schema graph alone.
func (a *action) json(deed int) []byte {
	u := a.update(graph.MapState{"items": []string(nil), "count": 0, "plain": 1000 * (deed + 1)})
	if _, writes := u["items"]; writes && a.fresh {
		u["items"] = map[string]any{"$overwrite": append([]string{"fresh"}, a.items...)}
	}
	if _, writes := u["scores"]; writes { // a name with $ is written in two ways
		u["scores"] = map[string]int{strings.ReplaceAll(a.key, "$", "s"): a.score}
	}
	data, _ := json.Marshal(u)
	return data
}

// A schema graph is a front end: a thread of one and that of a typed graph that does
// the same go through turns, questions, failures, edits, forks and prunes alike.
func TestSchemaAndTypedThreadsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		fails := map[string]bool{}
		typed := graph.New[twin]("g")
		mapped := graph.NewSchemaGraph("g", twinSchema())
		for i, name := range names {
			p, asks := drawAction(t, name), rapid.IntRange(0, 2).Draw(t, "asks") == 0
			p.fresh, p.plain = false, max(0, rapid.IntRange(-6, 2).Draw(t, "plain"))
			typed.AddNode(name, func(ctx context.Context, s *twin) error {
				if fails[name] {
					return errBoom
				}
				if asks {
					n, err := graph.Interrupt[int](ctx, name, s.Count.Get())
					if err != nil {
						return err
					}
					s.Items.Add(fmt.Sprint(name, n))
				}
				p.apply(s)
				return nil
			})
			graph.AddMapNode(mapped, name, func(ctx context.Context, s graph.MapState) (any, error) {
				if fails[name] {
					return nil, errBoom
				}
				u := p.update(full(s))
				if asks {
					n, err := graph.Interrupt[int](ctx, name, s["count"])
					if err != nil {
						return nil, err
					}
					items := []string{fmt.Sprint(name, n)}
					if more, ok := u["items"].([]string); ok {
						more[0] = fmt.Sprint(s["count"], len(full(s)["items"].([]string))+1)
						items = append(items, more...)
					}
					u["items"] = items
				}
				return u, nil
			})
			if i == 0 {
				typed.AddEdge(graph.Start, name)
				mapped.AddEdge(graph.Start, name)
			} else {
				from := names[rapid.IntRange(0, i-1).Draw(t, "from")]
				typed.AddEdge(from, name)
				mapped.AddEdge(from, name)
			}
		}
		tg, err := typed.Compile(graph.WithCheckpointer(checkpoint.NewMemory()), graph.Concurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		mg, err := mapped.Compile(graph.WithCheckpointer(checkpoint.NewMemory()), graph.Concurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		var tids, mids []string // of checkpoints, in the order written
		history := func(all bool) {
			var one, two []string
			tids, mids = nil, nil
			for e, err := range tg.Thread("t").History(bg, graph.HistoryQuery{OldestFirst: true, AllBranches: all}) {
				if err != nil {
					t.Fatal(err)
				}
				s, err := e.State(bg)
				if err != nil {
					t.Fatal(err)
				}
				tids = append(tids, e.Checkpoint)
				one = append(one, fmt.Sprint(e.Step, e.Source, e.Nodes, e.Next, " ", s.asMap()))
			}
			for e, err := range mg.Thread("t").History(bg, graph.HistoryQuery{OldestFirst: true, AllBranches: all}) {
				if err != nil {
					t.Fatal(err)
				}
				s, err := e.State(bg)
				if err != nil {
					t.Fatal(err)
				}
				mids = append(mids, e.Checkpoint)
				two = append(two, fmt.Sprint(e.Step, e.Source, e.Nodes, e.Next, " ", full(s.Map())))
			}
			if !reflect.DeepEqual(one, two) {
				t.Fatalf("history of the typed graph:\n%s\nof the schema graph:\n%s", strings.Join(one, "\n"), strings.Join(two, "\n"))
			}
		}
		plain := func(err error) string { // without IDs, and what to do about a conflict
			text, _, _ := strings.Cut(fmt.Sprint(err), "set different values;")
			for i := range tids {
				text = strings.ReplaceAll(strings.ReplaceAll(text, tids[i], "#"), mids[i], "#")
			}
			return text
		}
		agree := func(what string, a *graph.Snapshot[twin], aerr error, b *graph.Snapshot[graph.SchemaState], berr error) {
			if x, y := plain(aerr), plain(berr); x != y {
				t.Fatalf("%s: typed: %v\nschema: %v", what, x, y)
			}
			if (a == nil) != (b == nil) {
				t.Fatalf("%s: %v %v", what, a, b)
			}
			if a == nil {
				return
			}
			tell := func(state graph.MapState, next, recent []string, qs []graph.Interrupted, tasks []graph.TaskState, step int, source string) string {
				s := fmt.Sprintln(state) + fmt.Sprintln(next, recent, step, source)
				for _, q := range qs {
					s += fmt.Sprintln(q.Key, q.Node, q.Value)
				}
				for _, task := range tasks {
					s += fmt.Sprintln(task.Node, task.Status, plain(errors.New(task.Error)))
				}
				return s
			}
			x := tell(a.State.asMap(), a.Next, a.Recent, a.Interrupts, a.Tasks, a.Step, a.Source)
			y := tell(full(b.State.Map()), b.Next, b.Recent, b.Interrupts, b.Tasks, b.Step, b.Source)
			if x != y {
				t.Fatalf("%s: typed graph\n%s\nschema graph\n%s", what, x, y)
			}
		}
		for i := range rapid.IntRange(1, 12).Draw(t, "deeds") {
			deed := rapid.SampledFrom([]string{"turn", "json", "resume", "continue", "edit", "edit as", "edit at", "json at", "fork", "fails", "prune", "restart"}).Draw(t, "deed")
			p := drawAction(t, "deed")
			p.plain = rapid.IntRange(0, 3).Draw(t, "plain")
			if p.count == 0 { // to add nothing is an update of a schema graph alone
				p.count = 4
			}
			put := func(s *twin) error {
				p.apply(s)
				return nil
			}
			into := func(s *graph.SchemaState) error {
				_ = p.update(full(s.Map())).Into(s)
				return nil
			}
			if strings.HasPrefix(deed, "json") {
				data := p.json(i)
				put = func(s *twin) error {
					if err := tg.UpdateJSON(s, data); err != nil {
						panic(err)
					}
					return nil
				}
				into = func(s *graph.SchemaState) error {
					if err := mg.UpdateJSON(s, data); err != nil {
						panic(err)
					}
					return nil
				}
			}
			at := 0
			if len(tids) > 0 {
				at = rapid.IntRange(0, len(tids)-1).Draw(t, "at")
			} else if strings.HasSuffix(deed, " at") || deed == "fork" {
				continue
			}
			what := deed
			switch deed {
			case "turn", "json":
				a, aerr := tg.Thread("t").Invoke(bg, tg.Input(put))
				b, berr := mg.Thread("t").Invoke(bg, mg.Input(into))
				agree(what, a, aerr, b, berr)
			case "restart":
				a, aerr := tg.Thread("t").Invoke(bg, tg.Restart(put))
				b, berr := mg.Thread("t").Invoke(bg, mg.Restart(into))
				agree(what, a, aerr, b, berr)
			case "resume":
				n := rapid.IntRange(0, 9).Draw(t, "answer")
				a, aerr := tg.Thread("t").Invoke(bg, tg.Answer(n))
				b, berr := mg.Thread("t").Invoke(bg, mg.Answer(n))
				agree(what, a, aerr, b, berr)
			case "continue":
				a, aerr := tg.Thread("t").Invoke(bg, tg.Continue())
				b, berr := mg.Thread("t").Invoke(bg, mg.Continue())
				agree(what, a, aerr, b, berr)
			case "edit":
				a, aerr := tg.Thread("t").Edit(bg, put)
				b, berr := mg.Thread("t").Edit(bg, into)
				agree(what, a, aerr, b, berr)
			case "edit as":
				node := rapid.SampledFrom(names).Draw(t, "as")
				a, aerr := tg.Thread("t").EditAs(bg, node, put)
				b, berr := mg.Thread("t").EditAs(bg, node, into)
				agree(what, a, aerr, b, berr)
			case "edit at", "json at":
				a, aerr := tg.Thread("t").At(tids[at]).Edit(bg, put)
				b, berr := mg.Thread("t").At(mids[at]).Edit(bg, into)
				agree(what, a, aerr, b, berr)
			case "fork":
				a, aerr := tg.Thread("t").At(tids[at]).Fork(bg)
				b, berr := mg.Thread("t").At(mids[at]).Fork(bg)
				agree(what, a, aerr, b, berr)
			case "fails":
				name := rapid.SampledFrom(names).Draw(t, "who")
				fails[name] = !fails[name]
			case "prune":
				_, aerr := tg.Thread("t").Prune(bg, graph.Keep{Last: 3})
				_, berr := mg.Thread("t").Prune(bg, graph.Keep{Last: 3})
				agree(what, nil, aerr, nil, berr)
			}
			history(false)
			history(true)
			a, aerr := tg.Thread("t").State(bg)
			b, berr := mg.Thread("t").State(bg)
			agree("after "+what, a, aerr, b, berr)
		}
	})
}
