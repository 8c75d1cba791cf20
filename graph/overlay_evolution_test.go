package graph_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// The update that a waiting task sees is of the program that sent it, and read by a
// newer one as all that is recorded.
func TestOverlaysOfOlderProgramsAreRead(t *testing.T) {
	for name, waits := range map[string]struct {
		where string // what has failed when the older program ends
		prune bool
		edit  bool
	}{
		"of tasks that are planned":              {where: "worker"},
		"of tasks that are planned, pruned":      {where: "worker", prune: true},
		"of a node beside one that failed":       {where: "beside"},
		"of a node whose changes an edit folded": {where: "beside", edit: true},
		"of such a node, and then it was pruned": {where: "beside", edit: true, prune: true},
	} {
		t.Run(name, func(t *testing.T) {
			store := checkpoint.NewMemory()
			fails := ""
			build := func(param string, opts ...graph.Option) *graph.Graph[graph.SchemaState] {
				b := graph.NewSchemaGraph("g", graph.NewSchema().
					AddField(param, graph.Field{Type: reflect.TypeFor[string]()}).
					AddField("items", graph.Field{Type: reflect.TypeFor[[]string](), Reducer: graph.StringSliceReducer}))
				graph.AddMapNode(b, "split", func(context.Context, graph.MapState) (any, error) {
					return []*graph.MapCommand{{Update: graph.MapState{param: "x"}, Goto: graph.Goto("worker")}, {Update: graph.MapState{param: "y"}, Goto: graph.Goto("worker")}}, nil
				})
				graph.AddMapNode(b, "beside", func(context.Context, graph.MapState) (any, error) {
					if fails == "beside" {
						return nil, errors.New("boom")
					}
					return nil, nil
				})
				graph.AddMapNode(b, "worker", func(_ context.Context, s graph.MapState) (any, error) {
					if fails == "worker" {
						return nil, errors.New("boom")
					}
					return graph.MapState{"items": fmt.Sprint(s[param])}, nil
				})
				b.AddEdge(graph.Start, "split").AddEdge(graph.Start, "beside")
				return compileSchema(t, b, append(opts, graph.WithCheckpointer(store), graph.Concurrency(1))...)
			}
			fails = waits.where
			old := build("param")
			_, err := old.Thread("t").Invoke(bg, old.Input(graph.MapState{}.Into))
			wantErr[*graph.NodeError](t, err)
			if waits.edit {
				must[*graph.Snapshot[graph.SchemaState]](t)(old.Thread("t").Edit(bg, graph.MapState{"items": "edit"}.Into))
			}
			fails = ""
			g := build("word", graph.FieldAlias("param", "word"))
			if waits.prune {
				must[graph.Pruned](t)(g.Thread("t").Prune(bg, graph.Keep{Last: 1}))
				g = build("word", graph.FieldAlias("param", "word"))
			}
			snap := must[*graph.Snapshot[graph.SchemaState]](t)(g.Thread("t").Invoke(bg, g.Continue()))
			items := fmt.Sprint(snap.State.Get("items"))
			if want := "[x y]"; !waits.edit {
				equal(t, "items", items, want)
			} else {
				equal(t, "items", items, "[edit x y]")
			}
			same(t, g, taped(t, store, "t"))
		})
	}
}
