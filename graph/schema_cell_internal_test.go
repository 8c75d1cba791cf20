package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/core"
)

type shape struct {
	Name string
	Tags []string
	At   *time.Time
	Any  any
}

type dollar struct {
	Type string `json:"$type"`
}

func cellValues(t testing.TB, s *Schema) schemaValues {
	t.Helper()
	typ, err := s.typ()
	if err != nil {
		t.Fatal(err)
	}
	return schemaValues{typ.values, typ, func(Warning) {}}
}

// cells returns the values of a schema with a field of each kind.
func cellsOfEachKind(t testing.TB) schemaValues {
	t.Helper()
	of := func(v any, r FieldReducer) Field { return Field{Type: reflect.TypeOf(v), Reducer: r} }
	return cellValues(t, NewSchema().
		AddField("int", of(0, nil)).AddField("sum", of(0.0, SumReducer)).AddField("list", of([]string(nil), AppendReducer)).
		AddField("shapes", of([]shape(nil), AppendReducer)).AddField("map", of(map[string]any(nil), MergeReducer)).
		AddField("any", Field{Type: reflect.TypeFor[any]()}).AddField("shape", of((*shape)(nil), nil)).AddField("dollar", of(dollar{}, nil)).
		AddField("func", of("", ReducerOf(func(a string, b any) string { return fmt.Sprint(a, text(b)) }))).
		AddField("over", of(int8(0), OverrideReducer)).AddField("time", of(time.Time{}, nil)))
}

// text says what v is, without addresses.
func text(v any) string {
	data, err := json.Marshal(v)
	return fmt.Sprintf("%T %s %v", v, data, err)
}

// written returns what a task on base writes.
func written(t testing.TB, v schemaValues, base any, updates ...MapState) any {
	t.Helper()
	f := v.Fork(base).(*SchemaState)
	for _, u := range updates {
		if err := u.Into(f); err != nil {
			t.Fatal(err)
		}
	}
	c, err := v.Changes(base, f, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mapOf(s any) MapState { return s.(*SchemaState).Map() }

func drawValue(t *rapid.T) any {
	text := rapid.StringMatching(`\$?[a-z<é]{0,4}`)
	return rapid.SampledFrom([]func() any{
		func() any { return nil },
		func() any { return text.Draw(t, "s") },
		func() any { return rapid.Int().Draw(t, "i") },
		func() any { return rapid.SliceOfN(text, 0, 3).Draw(t, "ss") },
		func() any { return shape{Name: text.Draw(t, "name"), Any: text.Draw(t, "any")} },
		func() any { return map[string]any{text.Draw(t, "k"): rapid.Float32Range(-9, 9).Draw(t, "f32")} },
		func() any { return []any{text.Draw(t, "e"), []any(nil)} },
	}).Draw(t, "value")()
}

func drawUpdate(t *rapid.T) MapState {
	text := rapid.StringMatching(`[a-z]{0,3}`)
	all := map[string]func() any{
		"int": func() any { return rapid.Int().Draw(t, "int") }, "sum": func() any { return rapid.Float64Range(-9, 9).Draw(t, "sum") },
		"list": func() any { return rapid.SliceOfN(text, 0, 3).Draw(t, "list") },
		"map": func() any {
			return map[string]any{rapid.StringMatching(`\$?[a-z]{0,2}`).Draw(t, "k"): drawValue(t)}
		},
		"any": func() any { return drawValue(t) }, "func": func() any { return drawValue(t) }, "extra": func() any { return drawValue(t) },
		"dollar": func() any { return dollar{text.Draw(t, "dollar")} }, "over": func() any { return int8(rapid.IntRange(-9, 9).Draw(t, "over")) },
		"shapes": func() any { return shape{Name: text.Draw(t, "shape")} },
		"time":   func() any { return time.Unix(rapid.Int64Range(0, 1e9).Draw(t, "sec"), 5).In(time.FixedZone("X", 3600)) },
	}
	u := MapState{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"int", "sum", "list", "map", "any", "func", "extra", "dollar", "over", "shapes", "time",
	}), 0, 5, rapid.ID[string]).Draw(t, "names") {
		u[name] = all[name]()
		over := name != "extra" && name != "func" && name != "shapes"
		if over && rapid.IntRange(0, 4).Draw(t, "overwrite") == 0 {
			u[name] = Overwrite(u[name])
		}
	}
	return u
}

// The state that comes of folding changes as they were made, all at once, is the
// one that comes of recorded ones, one by one, and of a snapshot on the way.
func TestLiveAndReplayedSchemaStatesAreTheSame(t *testing.T) {
	v := cellsOfEachKind(t)
	rapid.Check(t, func(t *rapid.T) {
		live, replayed := v.New(), v.New()
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			seen := v.Fork(live)
			before := mapOf(seen)
			var cs []any
			for range rapid.IntRange(1, 3).Draw(t, "tasks") {
				f := v.Fork(live).(*SchemaState)
				for range rapid.IntRange(0, 2).Draw(t, "writes") {
					if err := drawUpdate(t).Into(f); err != nil {
						t.Fatal(err)
					}
				}
				if rapid.Bool().Draw(t, "read") {
					f.Map()
				}
				c, err := v.Changes(live, f, nil)
				if err != nil {
					t.Fatal(err)
				}
				if c != nil {
					cs = append(cs, c)
				}
			}
			if len(cs) == 0 {
				continue
			}
			var err error
			if live, _, err = v.Fold(live, cs, core.Committed); err != nil {
				t.Fatal(err)
			}
			if after := mapOf(seen); !reflect.DeepEqual(before, after) {
				t.Fatalf("folding altered what a task sees: %v to %v", before, after)
			}
			for _, c := range cs {
				data, err := v.Encode(c)
				if err != nil {
					t.Fatal(err)
				}
				if !json.Valid(data) {
					t.Fatalf("not JSON: %s", data)
				}
				decoded, err := v.Decode(data, nil)
				if err != nil {
					t.Fatalf("%s: %v", data, err)
				}
				again, err := v.Encode(decoded)
				if err != nil || !bytes.Equal(data, again) {
					t.Fatalf("%s decodes to what is %s (%v)", data, again, err)
				}
				if replayed, _, err = v.Fold(replayed, []any{decoded}, core.Written); err != nil {
					t.Fatal(err)
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "snapshot") == 0 {
				data, err := v.Snapshot(replayed, true)
				if err != nil {
					t.Fatal(err)
				}
				if replayed, err = v.Restore(nil, data); err != nil {
					t.Fatalf("%s: %v", data, err)
				}
			}
			if a, b := mapOf(live), mapOf(replayed); !reflect.DeepEqual(a, b) {
				t.Fatalf("live is\n%#v, replayed\n%#v", a, b)
			}
		}
	})
}

func TestSchemaSnapshotLeavesGrowingFieldsOut(t *testing.T) {
	v := cellsOfEachKind(t)
	s := v.New()
	c := written(t, v, s, MapState{"list": []string{"a"}, "int": 1})
	if growth := v.Growth(c); !slices.Equal(growth, []core.Growth{{Field: "list"}}) {
		t.Fatal(growth)
	}
	growth := v.Growth(written(t, v, s, MapState{"list": Overwrite([]string{"a"})}, MapState{"list": "b"}))
	if !slices.Equal(growth, []core.Growth{{Field: "list", Reset: true}}) {
		t.Error(growth)
	}
	s, _, err := v.Fold(s, []any{c}, core.Committed)
	if err != nil {
		t.Fatal(err)
	}
	data, err := v.Snapshot(s, false)
	if err != nil || string(data) != `{"int":1}` {
		t.Errorf("%s %v", data, err)
	}
	only, err := v.Decode(json.RawMessage(`{"int":1,"list":["a"]}`), []string{"list"})
	if err != nil {
		t.Fatal(err)
	}
	if data, _ := v.Encode(only); string(data) != `{"list":["a"]}` {
		t.Errorf("%s", data)
	}
}

func TestAFailedFoldOfCellsLeavesTheBase(t *testing.T) {
	v := cellValues(t, NewSchema().
		AddField("list", Field{Type: reflect.TypeFor[[]string](), Reducer: AppendReducer}).
		AddField("bad", Field{Type: reflect.TypeFor[int](), Reducer: ReducerOf(func(_ int, u any) int {
			if u == true {
				panic("no")
			}
			n, _ := u.(int)
			return n
		})}))
	s := v.New()
	base, _, err := v.Fold(s, []any{written(t, v, s, MapState{"list": []string{"a", "b", "c"}})}, core.Committed)
	if err != nil {
		t.Fatal(err)
	}
	good := written(t, v, base, MapState{"list": "d"})
	bad := written(t, v, base, MapState{"list": "x", "bad": true})
	_, _, err = v.Fold(base, []any{good, nil, bad}, core.Committed)
	var fe *core.FoldError
	if !errors.As(err, &fe) || fe.Index != 2 || fe.Field != "bad" || fe.With != -1 {
		t.Fatal(err)
	}
	for range 2 { // both results stand side by side
		next, digest, err := v.Fold(v.Fork(base), []any{good}, core.Committed)
		if err != nil || digest == 0 {
			t.Fatal(digest, err)
		}
		if got := mapOf(next)["list"]; fmt.Sprint(got) != "[a b c d]" {
			t.Error(got)
		}
	}
	if got := mapOf(base)["list"]; fmt.Sprint(got) != "[a b c]" {
		t.Error(got)
	}
}

func TestAppendingToACellDoesNotCopyEachTime(t *testing.T) {
	v := cellsOfEachKind(t)
	s := v.New()
	strings, shapes := map[*string]bool{}, map[*shape]bool{}
	for range 1000 {
		var err error
		if s, _, err = v.Fold(s, []any{written(t, v, s, MapState{"list": "x", "shapes": shape{}})}, core.Committed); err != nil {
			t.Fatal(err)
		}
		cells := s.(*SchemaState).cells
		strings[&cells[v.t.index["list"]].v.([]string)[0]] = true
		shapes[&cells[v.t.index["shapes"]].v.([]shape)[0]] = true
	}
	if len(strings) > 30 || len(shapes) > 30 {
		t.Errorf("the lists moved %d and %d times", len(strings), len(shapes))
	}
}

func TestMergingFromManyTasksCopiesTheMapOnce(t *testing.T) {
	v := cellsOfEachKind(t)
	s := v.New()
	cs := make([]any, 5000)
	for i := range cs {
		cs[i] = written(t, v, s, MapState{"map": map[string]any{fmt.Sprint(i): i}})
	}
	start := time.Now()
	next, _, err := v.Fold(s, cs, core.Committed)
	if err != nil || len(mapOf(next)["map"].(map[string]any)) != len(cs) {
		t.Fatal(err)
	}
	if d := time.Since(start); d > 5*time.Second { // 25 million entries take longer
		t.Errorf("it took %v", d)
	}
	seen := v.Fork(next)
	if _, _, err = v.Fold(next, []any{written(t, v, next, MapState{"map": map[string]any{"more": 1}})}, core.Committed); err != nil {
		t.Fatal(err)
	}
	if got := len(mapOf(seen)["map"].(map[string]any)); got != len(cs) {
		t.Errorf("a task sees %d entries", got)
	}
}

func TestSchemaStatesAreCopiedByAssignment(t *testing.T) {
	v := cellsOfEachKind(t)
	s := v.Fork(v.New()).(*SchemaState)
	if err := (MapState{"list": "a", "map": map[string]any{"a": 1}}).Into(s); err != nil {
		t.Fatal(err)
	}
	c := *s
	for _, of := range []*SchemaState{&c, s} {
		if err := (MapState{"list": "b", "map": map[string]any{"b": 2}, "int": 3}).Into(of); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(of.Map()); got != "map[int:3 list:[a b] map:map[a:1 b:2]]" {
			t.Error(got)
		}
	}
	*s = c
	if _, err := v.Changes(v.New(), s, nil); err == nil {
		t.Error("a state that was replaced has changes")
	}
}

func TestDigestOfSchemaStates(t *testing.T) {
	v := cellsOfEachKind(t)
	s := v.New()
	var total uint64
	set := func(u MapState) uint64 {
		next, d, err := v.Fold(s, []any{written(t, v, s, u)}, core.Committed)
		if err != nil {
			t.Fatal(err)
		}
		s = next
		total += d
		return d
	}
	set(MapState{"int": 1, "any": []any{1}, "map": map[string]any{"k": 1}, "extra": "x"})
	if d := set(MapState{"int": 1, "any": []any{1}, "list": []string{}, "map": map[string]any{"k": 1}, "extra": "x", "over": Overwrite(int8(0))}); d == 0 {
		t.Error("setting a field for the first time is no progress")
	}
	if d := set(MapState{"int": 1, "any": []any{1}, "list": []string{}, "map": map[string]any{"k": 1}, "extra": "x"}); d != 0 {
		t.Error("writing what is there is progress")
	}
	mark := total
	set(MapState{"int": 2})
	set(MapState{"int": 1})
	if total != mark {
		t.Error("a toggle is progress")
	}
	for _, u := range []MapState{{"any": 2}, {"list": "x"}, {"map": map[string]any{"k": 2}}, {"extra": "y"}, {"sum": 1.0}, {"func": "f"}} {
		if set(u) == 0 {
			t.Errorf("%v is no progress", u)
		}
	}
}

func TestValuesThatASchemaCannotStore(t *testing.T) {
	v := cellsOfEachKind(t)
	s := v.New()
	for want, u := range map[string]MapState{
		"NaN":          {"sum": math.NaN()},
		"not valid U":  {"list": "\xff"},
		"would come":   {"shapes": shape{Any: 1}},
		"not known":    {"any": struct{ X int }{1}},
		"infinity":     {"any": math.Inf(1)},
		"[\"k\"]: [0]": {"map": map[string]any{"k": []any{func() {}}}},
	} {
		f := v.Fork(s).(*SchemaState)
		err := u.Into(f)
		if err == nil {
			c, cerr := v.Changes(s, f, nil)
			if cerr != nil {
				t.Fatal(cerr)
			}
			_, err = v.Encode(c)
		}
		name := slices.Collect(maps.Keys(u))[0]
		if want == "not known" { // an unnamed struct has no name to be known by
			want = "can't be stored"
		}
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("field %q", name)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", u, err)
		}
	}
}

func FuzzDecodeCells(f *testing.F) {
	for _, s := range []string{
		`{"int":1,"list":["a"],"any":{"$type":"[]int","$value":[1]},"map":{"$value":{"$k":1}},"$extra":{"x":{"$type":"nil","$value":null}}}`,
		`{"list":{"$overwrite":["b"]},"func":{"$overwrite":"a","$updates":[{"$type":"int","$value":3}]},"shape":{"Name":"x"},"time":"2026-01-01T00:00:00Z"}`,
	} {
		f.Add([]byte(s))
	}
	v := cellsOfEachKind(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		s := v.New()
		fork := v.Fork(s).(*SchemaState)
		if err := v.Update(fork, data); err == nil {
			if fork.Map(); fork.err != nil {
				t.Fatal(fork.err)
			}
		}
		_, _ = v.Restore(nil, data) // must not panic
		c, err := v.Decode(data, nil)
		if err != nil || c == nil {
			return
		}
		enc, err := v.Encode(c)
		if err != nil {
			t.Fatalf("%s decodes to what can't be encoded: %v", data, err)
		}
		again, err := v.Decode(enc, nil)
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%s became %s (%v)", data, enc, err)
		}
		if _, _, err := v.Fold(s, []any{c}, core.Committed); err != nil {
			t.Fatal(err)
		}
	})
}
