package graph_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/graph"
)

type color int

func (c color) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "color-%d", int(c)), nil }

func (c *color) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "color-%d", (*int)(c))
	return err
}

func TestMap(t *testing.T) {
	var m graph.Map[string, int]
	if _, ok := m.Get("a"); ok || m.Len() != 0 || fieldJSON(t, m) != "{}" || !m.IsZero() {
		t.Error("zero value")
	}
	commitField(t, &m, func(m *graph.Map[string, int]) { m.Put("b", 2); m.Put("$a", 1); m.Put("c", 3) })
	commitField(t, &m, func(m *graph.Map[string, int]) {
		m.Delete("c")
		m.Delete("gone")
		m.Put("$overwrite", 0)
		if _, ok := m.Get("c"); ok || m.Len() != 3 {
			t.Error("own write")
		}
	})
	if fieldJSON(t, m) != `{"$a":1,"$overwrite":0,"b":2}` || m.String() != "map[$a:1 $overwrite:0 b:2]" {
		t.Errorf("got %v", m)
	}
	fork := forkField(&m)
	fork.Put("b", 2)
	if c := changeOf(t, fork); c == nil || !keeps(&m, c) || fieldJSON(t, c) != `{"$keep":{"b":2}}` {
		t.Error("putting the same is not recorded, or progress")
	}
	fork.Delete("b")
	fork.Put("$x", 1)
	if got := fieldJSON(t, changeOf(t, fork)); got != `{"$$x":1,"$delete":["b"]}` {
		t.Error(got)
	}
	fork.Overwrite(map[string]int{"$y": 1})
	if got := fieldJSON(t, changeOf(t, fork)); got != `{"$overwrite":{"$y":1}}` {
		t.Error(got)
	}
	fork.Overwrite(map[string]int{"$a": 1, "$overwrite": 0, "b": 2})
	if c := changeOf(t, fork); c == nil || !keeps(&m, c) {
		t.Error("overwriting with the same is not recorded, or progress")
	}
	commitField(t, &m, func(m *graph.Map[string, int]) { m.Overwrite(nil); m.Put("z", 1) })
	if fieldJSON(t, m) != `{"z":1}` {
		t.Errorf("got %v", m)
	}
}

func TestMapKeys(t *testing.T) {
	var ints graph.Map[int16, string]
	commitField(t, &ints, func(m *graph.Map[int16, string]) { m.Put(10, "b"); m.Put(-2, "a"); m.Put(3, ""); m.Delete(7) })
	if fieldJSON(t, ints) != `{"-2":"a","3":"","10":"b"}` {
		t.Error(ints)
	}
	var floats graph.Map[float64, int]
	commitField(t, &floats, func(m *graph.Map[float64, int]) { m.Put(0.5, 1); m.Put(math.Inf(1), 2); m.Put(-1e300, 0) })
	if fieldJSON(t, floats) != `{"-1e+300":0,"0.5":1,"+Inf":2}` {
		t.Error(fieldJSON(t, floats))
	}
	fork := forkField(&floats)
	fork.Put(math.NaN(), 1)
	if _, err := fork.Merger().Change(); err == nil {
		t.Error("a NaN key was taken")
	}
	var colors graph.Map[color, int]
	commitField(t, &colors, func(m *graph.Map[color, int]) { m.Put(2, 1) })
	if fieldJSON(t, colors) != `{"color-2":1}` {
		t.Error(fieldJSON(t, colors))
	}
	for _, bad := range []string{`{"x":""}`, `{"70000":""}`, `{"$delete":["x"]}`, `{"$delete":[null]}`} {
		if _, err := ints.Merger().DecodeChange([]byte(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	if _, err := ints.Merger().DecodeChange([]byte(`{"$delet":[1]}`)); err == nil || !strings.Contains(err.Error(), `unknown operation "$delet"`) {
		t.Errorf("got %v", err)
	}
}

// A Map is a Go map whose keys are sorted.
func TestMapModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var base graph.Map[int, int]
		model := map[int]int{}
		for range rapid.IntRange(1, 4).Draw(rt, "steps") {
			old, oldModel := base, maps.Clone(model)
			commitField(t, &base, func(m *graph.Map[int, int]) {
				for range rapid.IntRange(0, 60).Draw(rt, "writes") {
					k, v := rapid.IntRange(0, 90).Draw(rt, "k"), rapid.IntRange(0, 3).Draw(rt, "v")
					switch rapid.IntRange(0, 20).Draw(rt, "what") {
					case 0:
						m.Overwrite(map[int]int{k: v})
						model = map[int]int{k: v}
					case 1, 2, 3, 4, 5:
						m.Delete(k)
						delete(model, k)
					default:
						m.Put(k, v)
						model[k] = v
					}
					if got, ok := m.Get(k); ok != (func() bool { _, ok := model[k]; return ok }()) || got != model[k] || m.Len() != len(model) {
						rt.Fatalf("key %d is %d, %v; length %d", k, got, ok, m.Len())
					}
				}
			})
			for m, want := range map[*graph.Map[int, int]]map[int]int{&base: model, &old: oldModel} {
				var keys []int
				for k, v := range m.All() {
					if want[k] != v {
						rt.Fatalf("key %d is %d, want %d", k, v, want[k])
					}
					keys = append(keys, k)
				}
				if !slices.Equal(keys, slices.Sorted(maps.Keys(want))) {
					rt.Fatalf("keys %v, want %v", keys, want)
				}
			}
		}
	})
}

func TestMergeMap(t *testing.T) {
	var m graph.MergeMap[string, []int, concat]
	if _, ok := m.Get("a"); ok || m.Len() != 0 || fieldJSON(t, m) != "{}" {
		t.Error("zero value")
	}
	write := func(m *graph.MergeMap[string, []int, concat]) { m.Add("a", []int{1}); m.Add("$b", []int{2}) }
	commitField(t, &m, write)
	commitField(t, &m, write)
	if got, ok := m.Get("a"); !ok || !slices.Equal(got, []int{1, 1}) || m.Len() != 2 {
		t.Errorf("got %v", m)
	}
	fork := forkField(&m)
	fork.Add("a", []int{3})
	fork.Delete("a")
	fork.Add("a", []int{4})
	fork.Add("a", []int{5})
	if got := fieldJSON(t, changeOf(t, fork)); got != `{"a":[4],"$delete":["a"],"$updates":{"a":[[5]]}}` {
		t.Error(got)
	}
	if got, _ := fork.Get("a"); !slices.Equal(got, []int{4, 5}) {
		t.Errorf("own write: %v", got)
	}
	commitField(t, &m, func(m *graph.MergeMap[string, []int, concat]) {
		m.Overwrite(map[string][]int{"$x": {1}})
		m.Add("$x", []int{2})
	})
	if fieldJSON(t, m) != `{"$x":[1,2]}` || m.String() != "map[$x:[1 2]]" {
		t.Errorf("got %v", m)
	}
	var last graph.MergeMap[string, int, graph.Latest[int]]
	last.Add("a", 1)
	last.Add("a", 2)
	for k, v := range last.All() {
		if k != "a" || v != 2 {
			t.Error("the last update should win")
		}
	}
}

func FuzzMap(f *testing.F) {
	fuzzField[graph.Map[int, any]](f, `{"1":2,"$delete":["1"]}`, `{"$overwrite":{"1":1},"$delete":[1],"2":0}`)
}

func FuzzMapStrings(f *testing.F) {
	fuzzField[graph.Map[string, any]](f, `{"a":2,"$$b":1,"$delete":["$c"]}`)
}

func FuzzMergeMap(f *testing.F) {
	fuzzField[graph.MergeMap[string, int, graph.Latest[int]]](f, `{"$updates":{"a":[1,2]},"a":3,"$delete":["a"]}`)
}

func TestAChangeOfAMergeMapIsNotThatOfItsCopies(t *testing.T) {
	var m graph.MergeMap[string, int, graph.Latest[int]]
	m.Merger().Bind()
	m.Add("a", 1)
	copied := m
	var wg sync.WaitGroup
	wg.Go(func() { copied.Add("b", 2) })
	if got := fieldJSON(t, changeOf(t, &m)); got != `{"a":1}` {
		t.Error(got)
	}
	wg.Wait()
}

func TestOperationsAreDoneInTheirOrder(t *testing.T) {
	for _, c := range []struct {
		field         field.Merging
		update, wants string
	}{
		{new(graph.Set[string]), `{"$overwrite":[],"$remove":["a"],"$keep":["a"]}`, `["a"]`},
		{new(graph.Set[string]), `{"$remove":["a"],"$keep":["a"]}`, `["a"]`},
		{new(graph.Map[int, string]), `{"$overwrite":{},"$delete":["1"],"$keep":{"1":"x"}}`, `{"1":"x"}`},
		{new(graph.Map[int, string]), `{"$overwrite":{"1":"x"},"$keep":{"1":"y"}}`, `{"1":"x"}`},
		{new(graph.Map[int, string]), `{"$delete":[1],"$keep":{"1":"x"},"2":"z"}`, `{"1":"x","2":"z"}`},
	} {
		m := c.field.Merger()
		change, err := m.DecodeChange([]byte(c.update))
		if err == nil {
			m.Bind()
			err = m.Apply(change)
		}
		got, _ := json.Marshal(c.field)
		if err != nil || string(got) != c.wants {
			t.Errorf("%s: %s, want %s (%v)", c.update, got, c.wants, err)
		}
	}
}

func TestAnOperationOfAnotherFormIsRefused(t *testing.T) {
	for update, want := range map[string]string{
		`{"$delete":[null]}`:     "$delete: a key must be a string or a number",
		`{"$delete":{"a":1}}`:    "$delete must be a list of keys",
		`{"$updates":[{"a":1}]}`: "$updates must be an object with a list for each key",
		`{"$overwrite":[1]}`:     "$overwrite must be an object",
	} {
		var m graph.MergeMap[string, int, graph.Latest[int]]
		if _, err := m.Merger().DecodeChange([]byte(update)); err == nil || err.Error() != want {
			t.Errorf("%s: %v", update, err)
		}
	}
	var s graph.Set[string]
	if _, err := s.Merger().DecodeChange([]byte(`{"$remove":[null]}`)); err == nil {
		t.Error("a set has null")
	}
}
