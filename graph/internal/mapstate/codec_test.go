package mapstate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

type node struct {
	Next  *node
	Value int
}

type dollar struct {
	Type string `json:"$type"`
}

func testType(t testing.TB, strict bool) *Type {
	t.Helper()
	of := func(name string, v any, r Reducer) Field {
		return Field{Name: name, Type: reflect.TypeOf(v), Reducer: r}
	}
	typ, problems := New([]Field{
		of("int", 0, Reducer{}), of("sum", 0.0, Reducer{Kind: Sum}), of("list", []string(nil), Reducer{Kind: Append}),
		of("shapes", []shape(nil), Reducer{Kind: Append}), of("map", map[string]any(nil), Reducer{Kind: Merge}),
		{Name: "any", Type: anyType}, of("node", (*node)(nil), Reducer{}), of("dollar", dollar{}, Reducer{}),
		of("func", "", Reducer{Kind: Func, Fn: func(a, b any) any { return fmt.Sprint(a, text(b)) }}),
		of("over", int8(0), Reducer{Kind: Override}), of("time", time.Time{}, Reducer{}),
	}, nil, strict)
	if problems != nil {
		t.Fatal(problems)
	}
	return typ
}

// text says what v is, without addresses.
func text(v any) string {
	data, err := json.Marshal(v)
	return fmt.Sprintf("%T %s %v", v, data, err)
}

func change(t testing.TB, typ *Type, base *State, updates ...map[string]any) *Changes {
	t.Helper()
	f := typ.Fork(base)
	for _, u := range updates {
		if err := f.Write(u); err != nil {
			t.Fatal(err)
		}
	}
	c, err := typ.Changes(&f, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// drawAny draws a value of any storable type that the schema knows.
func drawAny(t *rapid.T, depth int) any {
	text := rapid.StringMatching(`\$?[a-z<é]{0,4}`)
	kinds := 14
	if depth > 0 {
		kinds += 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return text.Draw(t, "s")
	case 2:
		return rapid.Bool().Draw(t, "b")
	case 3:
		return rapid.Float64Range(-1e9, 1e9).Draw(t, "f")
	case 4:
		return rapid.Int().Draw(t, "i")
	case 5:
		return rapid.Uint64().Draw(t, "u")
	case 6:
		return rapid.Float32Range(-10, 10).Draw(t, "f32")
	case 7:
		return []byte(text.Draw(t, "bytes"))
	case 8:
		return rapid.SliceOfN(text, 0, 3).Draw(t, "ss")
	case 9:
		return shape{Name: text.Draw(t, "name"), Any: text.Draw(t, "any")}
	case 10:
		return &node{Value: rapid.Int().Draw(t, "i"), Next: &node{}}
	case 11:
		return map[string]int{text.Draw(t, "k"): 1}
	case 12:
		return []any(nil)
	case 13:
		return [2]int16{1, 2}
	case 14, 15:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			list = append(list, drawAny(t, depth-1))
		}
		return list
	case 16:
		return []map[string]any{{text.Draw(t, "k"): drawAny(t, depth-1)}}
	}
	m := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "n") {
		m[text.Draw(t, "k")] = drawAny(t, depth-1)
	}
	return m
}

func drawUpdate(t *rapid.T) map[string]any {
	text := rapid.StringMatching(`[a-z]{0,3}`)
	all := map[string]func() any{
		"int": func() any { return rapid.Int().Draw(t, "int") }, "sum": func() any { return rapid.Float64Range(-9, 9).Draw(t, "sum") },
		"list": func() any { return rapid.SliceOfN(text, 0, 3).Draw(t, "list") },
		"map": func() any {
			return map[string]any{rapid.StringMatching(`\$?[a-z]{0,2}`).Draw(t, "k"): drawAny(t, 1)}
		},
		"any": func() any { return drawAny(t, 3) }, "func": func() any { return drawAny(t, 1) }, "extra": func() any { return drawAny(t, 2) },
		"dollar": func() any { return dollar{text.Draw(t, "dollar")} }, "over": func() any { return int8(rapid.IntRange(-9, 9).Draw(t, "over")) },
		"shapes": func() any { return shape{Name: text.Draw(t, "shape")} },
		"time":   func() any { return time.Unix(rapid.Int64Range(0, 1e9).Draw(t, "sec"), 5).In(time.FixedZone("X", 3600)) },
	}
	u := map[string]any{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"int", "sum", "list", "map", "any", "func", "extra", "dollar", "over", "shapes", "time",
	}), 0, 5, rapid.ID[string]).Draw(t, "names") {
		u[name] = all[name]()
		over := name != "extra" && name != "func" && name != "shapes"
		if over && rapid.IntRange(0, 4).Draw(t, "overwrite") == 0 {
			u[name] = Overwriting{u[name]}
		}
	}
	return u
}

// The state that comes of folding changes as they were made, all at once, is the
// one that comes of recorded ones, one by one, and of a snapshot on the way.
func TestLiveAndReplayedStatesAreTheSame(t *testing.T) {
	typ := testType(t, false)
	rapid.Check(t, func(t *rapid.T) {
		live, replayed := typ.New(), typ.New()
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			var cs []*Changes
			for range rapid.IntRange(1, 3).Draw(t, "tasks") {
				f := typ.Fork(&live)
				for range rapid.IntRange(0, 2).Draw(t, "writes") {
					if err := f.Write(drawUpdate(t)); err != nil {
						t.Fatal(err)
					}
				}
				if rapid.Bool().Draw(t, "read") {
					if _, err := f.Map(nil); err != nil {
						t.Fatal(err)
					}
				}
				c, err := typ.Changes(&f, nil)
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
			before, _ := live.Map(nil)
			next, _, err := typ.Fold(&live, cs, true, func(Warning) {})
			if err != nil {
				t.Fatal(err)
			}
			if after, _ := live.Map(nil); !reflect.DeepEqual(before, after) {
				t.Fatalf("folding altered the base: %v to %v", before, after)
			}
			live = next
			for _, c := range cs {
				data, _, err := typ.Encode(c)
				if err != nil {
					t.Fatal(err)
				}
				if !json.Valid(data) {
					t.Fatalf("not JSON: %s", data)
				}
				decoded, err := typ.Decode(data, nil)
				if err != nil {
					t.Fatalf("%s: %v", data, err)
				}
				again, _, err := typ.Encode(decoded)
				if err != nil || !bytes.Equal(data, again) {
					t.Fatalf("%s decodes to what is %s (%v)", data, again, err)
				}
				if replayed, _, err = typ.Fold(&replayed, []*Changes{decoded}, false, nil); err != nil {
					t.Fatal(err)
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "snapshot") == 0 {
				data, err := typ.Snapshot(&replayed, true)
				if err != nil {
					t.Fatal(err)
				}
				if replayed, err = typ.Restore(nil, data); err != nil {
					t.Fatalf("%s: %v", data, err)
				}
			}
			a, _ := live.Map(nil)
			b, _ := replayed.Map(nil)
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("live is\n%#v, replayed\n%#v", a, b)
			}
		}
	})
}

func TestSnapshotLeavesGrowingFieldsOut(t *testing.T) {
	typ := testType(t, false)
	s := typ.New()
	c := change(t, typ, &s, map[string]any{"list": []string{"a"}, "int": 1})
	_, growth, err := typ.Encode(c)
	if err != nil || !slices.Equal(growth, []core.Growth{{Field: "list"}}) {
		t.Fatal(growth, err)
	}
	_, growth, _ = typ.Encode(change(t, typ, &s, map[string]any{"list": Overwriting{[]string{"a"}}}, map[string]any{"list": "b"}))
	if !slices.Equal(growth, []core.Growth{{Field: "list", Reset: true}}) {
		t.Error(growth)
	}
	next, _, err := typ.Fold(&s, []*Changes{c}, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := typ.Snapshot(&next, false)
	if err != nil || string(data) != `{"int":1}` {
		t.Errorf("%s %v", data, err)
	}
	only, err := typ.Decode(json.RawMessage(`{"int":1,"list":["a"]}`), []string{"list"})
	if err != nil || len(only.writes) != 1 {
		t.Error(only, err)
	}
}

func TestAFailedFoldLeavesTheBase(t *testing.T) {
	typ, _ := New([]Field{
		{Name: "list", Type: reflect.TypeFor[[]string](), Reducer: Reducer{Kind: Append}},
		{Name: "bad", Type: reflect.TypeFor[int](), Reducer: Reducer{Kind: Func, Fn: func(_, u any) any {
			if u == true {
				panic("no")
			}
			return u
		}}},
	}, nil, false)
	s := typ.New()
	base, _, err := typ.Fold(&s, []*Changes{change(t, typ, &s, map[string]any{"list": []string{"a", "b", "c"}})}, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	good := change(t, typ, &base, map[string]any{"list": "d"})
	bad := change(t, typ, &base, map[string]any{"list": "x", "bad": true})
	_, _, err = typ.Fold(&base, []*Changes{good, nil, bad}, true, nil)
	var fe *core.FoldError
	if !errors.As(err, &fe) || fe.Index != 2 || fe.Field != "bad" || fe.With != -1 {
		t.Fatal(err)
	}
	for range 2 { // both results stand side by side
		next, digest, err := typ.Fold(&base, []*Changes{good}, true, nil)
		if err != nil || digest == 0 {
			t.Fatal(digest, err)
		}
		if v, _, _ := next.Get("list"); fmt.Sprint(v) != "[a b c d]" {
			t.Error(v)
		}
	}
	if v, _, _ := base.Get("list"); fmt.Sprint(v) != "[a b c]" {
		t.Error(v)
	}
}

func TestAppendingDoesNotCopyEachTime(t *testing.T) {
	typ := testType(t, false)
	s := typ.New()
	arrays := map[*string]bool{}
	for range 1000 {
		var err error
		if s, _, err = typ.Fold(&s, []*Changes{change(t, typ, &s, map[string]any{"list": "x"})}, true, nil); err != nil {
			t.Fatal(err)
		}
		arrays[&s.slots[typ.index["list"]].v.([]string)[0]] = true
	}
	if len(arrays) > 30 {
		t.Errorf("the list moved %d times", len(arrays))
	}
}

func TestDigest(t *testing.T) {
	typ := testType(t, false)
	s := typ.New()
	var total uint64
	set := func(u map[string]any) uint64 {
		next, d, err := typ.Fold(&s, []*Changes{change(t, typ, &s, u)}, true, nil)
		if err != nil {
			t.Fatal(err)
		}
		s = next
		total += d
		return d
	}
	set(map[string]any{"int": 1, "any": []any{1}, "map": map[string]any{"k": 1}, "extra": "x"})
	if d := set(map[string]any{"int": 1, "any": []any{1}, "list": []string{}, "map": map[string]any{"k": 1}, "extra": "x", "over": Overwriting{int8(0)}}); d == 0 {
		t.Error("setting a field for the first time is no progress")
	}
	if d := set(map[string]any{"int": 1, "any": []any{1}, "list": []string{}, "map": map[string]any{"k": 1}, "extra": "x"}); d != 0 {
		t.Error("writing what is there is progress")
	}
	mark := total
	set(map[string]any{"int": 2})
	set(map[string]any{"int": 1})
	if total != mark {
		t.Error("a toggle is progress")
	}
	for _, u := range []map[string]any{{"any": 2}, {"list": "x"}, {"map": map[string]any{"k": 2}}, {"extra": "y"}, {"sum": 1.0}, {"func": "f"}} {
		if set(u) == 0 {
			t.Errorf("%v is no progress", u)
		}
	}
}

func TestValuesThatCannotBeStored(t *testing.T) {
	typ := testType(t, false)
	s := typ.New()
	for want, u := range map[string]map[string]any{
		"NaN":          {"sum": math.NaN()},
		"not valid U":  {"list": "\xff"},
		"would come":   {"shapes": shape{Any: 1}},
		"not known":    {"any": struct{ X int }{1}},
		"infinity":     {"any": math.Inf(1)},
		"[\"k\"]: [0]": {"map": map[string]any{"k": []any{func() {}}}},
	} {
		f := typ.Fork(&s)
		err := f.Write(u)
		if err == nil {
			c, cerr := typ.Changes(&f, nil)
			if cerr != nil {
				t.Fatal(cerr)
			}
			_, _, err = typ.Encode(c)
		}
		name := slices.Collect(func(yield func(string) bool) {
			for k := range u {
				yield(k)
			}
		})[0]
		if want == "not known" { // an unnamed struct has no name to be known by
			want = "can't be stored"
		}
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("field %q", name)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", u, err)
		}
	}
}

func TestTypeNames(t *testing.T) {
	typ := testType(t, false)
	for _, v := range []any{
		map[string]map[[2]int][]*shape{}, []any{}, [3]*node{}, map[bool]any{}, []byte{}, float32(0), (*int)(nil), dollar{}, time.Time{}, [][]map[string]*[]uint8{},
	} {
		want := reflect.TypeOf(v)
		name, err := typ.nameType(want)
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := typ.typeOf(name); got != want {
			t.Errorf("%q is %v (%v), want %v", name, got, err, want)
		}
	}
	for _, bad := range []string{"", "x", "[]x", "map[", "map[int", "map[[]int]int", "map[x]int", "map[int]x", "*", "[x]int", "[-1]int", "[9999999999]int", "[3", "error"} {
		if got, err := typ.typeOf(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"int":1,"list":["a"],"any":{"$type":"[]int","$value":[1]},"map":{"$value":{"$k":1}},"x":{"$extra":{"$type":"nil","$value":null}}}`,
		`{"list":{"$each":[["a"],{"$overwrite":["b"]}]},"func":{"$type":"int","$value":3},"node":{"Next":{"Value":1}},"time":"2026-01-01T00:00:00Z"}`,
	} {
		f.Add([]byte(s))
	}
	typ := testType(f, false)
	f.Fuzz(func(t *testing.T, data []byte) {
		s := typ.New()
		fork := typ.Fork(&s)
		if err := typ.Update(&fork, data); err == nil {
			if _, err := fork.Map(nil); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = typ.Restore(nil, data) // must not panic
		c, err := typ.Decode(data, nil)
		if err != nil || c == nil {
			return
		}
		enc, _, err := typ.Encode(c)
		if err != nil {
			t.Fatalf("%s decodes to what can't be encoded: %v", data, err)
		}
		again, err := typ.Decode(enc, nil)
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%s became %s (%v)", data, enc, err)
		}
		if _, _, err := typ.Fold(&s, []*Changes{c}, true, func(Warning) {}); err != nil {
			t.Fatal(err)
		}
	})
}
