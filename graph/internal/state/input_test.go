package state_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/internal/state"
	"github.com/superstep-dev/superstep/internal/goschema"
)

type (
	part1 struct {
		Name  string  `json:"name"`
		Price float64 `json:"price,omitempty"`
		Size  [2]int8 `json:"size"`
		Tags  []string
		More  map[string]int
		Next  *part2 `json:"next"`
		part2
	}
	part2 struct {
		Count uint16     `json:"count"`
		When  *time.Time `json:"when,omitzero"`
		Code  int        `json:",string"`
		Flag  *bool      `json:"flag,string"`
		Data  []byte
	}
	flat struct {
		Name  string   `json:"name"`
		Trio  [3]uint8 `json:"trio"`
		Inner struct {
			At    time.Time
			Ratio float32
			On    bool `json:",string"`
		}
	}
	tagged string // an embedded type that is no struct
	odd    struct {
		tagged2 `json:"sub"`
		Tagged  tagged
		N       int
	}
	tagged2 struct{ M int }
	hiding  struct {
		Hidden
		Name string `json:"outer"`
	}
	Hidden struct {
		Name string `json:"inner"`
	}
	pointing struct {
		*Hidden
		N int
	}
	// level reads words as well as numbers.
	level int
	// celsius writes itself as text.
	celsius float64
	keyed   map[int]map[string]*bool
	lists   [][]celsius
)

func (l *level) UnmarshalJSON(data []byte) error {
	if string(data) == `"high"` {
		*l = 9
		return nil
	}
	return json.Unmarshal(data, (*int)(l))
}

func (c celsius) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%g°", float64(c)), nil }
func (c *celsius) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "%g°", (*float64)(c))
	return err
}

// holder has a field of each kind for a T.
type holder[T any] struct {
	List  graph.List[T]           `json:"list"`
	Map   graph.Map[string, T]    `json:"map"`
	Value graph.Value[T]          `json:"value"`
	Last  graph.Ephemeral[T]      `json:"last"`
	Live  graph.Untracked[T]      `json:"live"`
	Sub   graph.Value[*T]         `json:"sub"`
	Deep  graph.List[map[int][]T] `json:"deep"`
}

type plainState struct {
	Flat   flat
	Pair   [2]flat
	When   time.Time
	Temp   celsius
	Quoted int `json:",string"`
	Level  level
	Sum    graph.Sum[int8]
	Set    graph.Set[string]
	Merge  graph.MergeMap[string, int, maximum]
}

// verdicts checks that a document is refused when the published schema refuses it,
// and as a part of the input only then.
type verdicts[S any] struct {
	typ    *state.Type
	schema *jsonschema.Resolved
}

func judge[S any](t *testing.T) verdicts[S] {
	t.Helper()
	typ := typeOf[S](t)
	s, err := typ.Schema(true)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var read jsonschema.Schema
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	r, err := read.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return verdicts[S]{typ, r}
}

func (j verdicts[S]) of(t rapid.TB, doc any) (published, update error) {
	t.Helper()
	data, v := tree(t, doc)
	published, update = j.schema.Validate(v), j.typ.Update(new(S), data)
	var input *goschema.InputError
	var unknown *state.UnknownFieldError
	switch refused := errors.As(update, &input) || errors.As(update, &unknown); {
	case published != nil && !refused:
		t.Fatalf("%s\nthe schema refuses it: %v\nthe update: %v", data, published, update)
	case published == nil && refused:
		t.Fatalf("%s\nthe schema takes it; the update is refused: %v", data, update)
	}
	return published, update
}

// agree draws documents with values of a T, as they are and altered somewhere.
func agree[T any](t *testing.T) {
	t.Run(reflect.TypeFor[T]().String(), func(t *testing.T) {
		j := judge[holder[T]](t)
		values := generated[T]()
		rapid.Check(t, func(rt *rapid.T) {
			v := values.Draw(rt, "value")
			doc := map[string]any{
				"list": []T{v}, "map": map[string]T{"k": v}, "value": v, "last": v, "live": v, "sub": &v,
				"deep": []map[int][]T{{-1: {v}, 2: nil}},
			}
			if rapid.Bool().Draw(rt, "overwrite") {
				doc["list"] = map[string]any{"$overwrite": doc["list"]}
				doc["map"] = map[string]any{"$overwrite": doc["map"], "$delete": []string{"x"}, "$$k": v}
				doc["value"] = map[string]any{"$overwrite": v}
			}
			if published, update := j.of(rt, doc); published != nil || update != nil {
				data, _ := json.Marshal(doc)
				rt.Fatalf("%s is refused: %v, %v", data, published, update)
			}
			for range 3 {
				_, v := tree(rt, doc)
				j.of(rt, alter(rt, v))
			}
		})
	})
}

func generated[T any]() *rapid.Generator[T] {
	return rapid.MakeCustom[T](rapid.MakeConfig{Types: map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[time.Time]():       rapid.Just[any](time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)),
		reflect.TypeFor[big.Int]():         rapid.Just[any](*big.NewInt(1)),
		reflect.TypeFor[json.Number]():     rapid.Just[any](json.Number("12.5")),
		reflect.TypeFor[json.RawMessage](): rapid.Just[any](json.RawMessage(`{"b":1,"a":[null]}`)),
		reflect.TypeFor[any]():             rapid.SampledFrom([]any{nil, "x", 1.5, []any{true}}),
	}})
}

// tree returns a document as JSON, and what this decodes to.
func tree(t rapid.TB, doc any) (data []byte, v any) {
	t.Helper()
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return data, v
}

// alter changes something in a document, at any depth.
func alter(t *rapid.T, v any) any {
	deeper := rapid.IntRange(0, 5).Draw(t, "deeper") > 0
	switch v := v.(type) {
	case map[string]any:
		if names := slices.Sorted(maps.Keys(v)); deeper && len(names) > 0 {
			name := rapid.SampledFrom(names).Draw(t, "name")
			if rapid.IntRange(0, 9).Draw(t, "drop") == 0 {
				delete(v, name)
			} else {
				v[name] = alter(t, v[name])
			}
			return v
		}
		if rapid.Bool().Draw(t, "add") {
			v[rapid.SampledFrom([]string{"x", "NAME", "$overwrite", "$", "$$a", "7", "-7"}).Draw(t, "extra")] = some(t)
			return v
		}
	case []any:
		if deeper && len(v) > 0 {
			i := rapid.IntRange(0, len(v)-1).Draw(t, "item")
			v[i] = alter(t, v[i])
			return v
		}
		if len(v) > 0 && rapid.Bool().Draw(t, "cut") {
			return v[1:]
		}
		if rapid.Bool().Draw(t, "append") {
			return append(v, some(t))
		}
	}
	return some(t)
}

func some(t *rapid.T) any {
	return rapid.SampledFrom([]any{nil, true, "text", "AAAA", 1, -1, 1.5, 300, 1e300, []any{}, []any{1, 2, 3}, map[string]any{}, map[string]any{"name": "x"}, map[string]any{"$overwrite": nil}}).Draw(t, "some")
}

func TestAnUpdateIsRefusedWhenItsSchemaRefusesIt(t *testing.T) {
	agree[string](t)
	agree[int](t)
	agree[int8](t)
	agree[uint64](t)
	agree[float32](t)
	agree[bool](t)
	agree[[]byte](t)
	agree[time.Time](t)
	agree[json.Number](t)
	agree[json.RawMessage](t)
	agree[*big.Int](t)
	agree[struct{ V any }](t)
	agree[level](t)
	agree[celsius](t)
	agree[flat](t)
	agree[part1](t)
	agree[*part2](t)
	agree[keyed](t)
	agree[lists](t)
	agree[[3]flat](t)
	agree[odd](t)
	agree[hiding](t)
	agree[pointing](t)
	agree[map[string]map[uint8]level](t)
}

func TestAnUpdateOfPlainFieldsIsRefusedWhenItsSchemaRefusesIt(t *testing.T) {
	j := judge[plainState](t)
	rapid.Check(t, func(rt *rapid.T) {
		doc := map[string]any{
			"Flat": generated[flat]().Draw(rt, "flat"), "Pair": generated[[2]flat]().Draw(rt, "pair"), "When": time.Unix(0, 0).UTC(),
			"Temp": celsius(1), "Quoted": "12", "Level": "high", "Sum": 3, "Set": []string{"a"}, "Merge": map[string]any{"a": 1, "$updates": map[string][]int{"a": {2}}},
		}
		if published, update := j.of(rt, doc); published != nil || update != nil {
			rt.Fatalf("%v is refused: %v, %v", doc, published, update)
		}
		for range 3 {
			_, v := tree(rt, doc)
			j.of(rt, alter(rt, v))
		}
	})
}

func TestWhatIsWrongWithAnUpdateHasItsPath(t *testing.T) {
	type order struct {
		Items graph.List[part1]         `json:"items"`
		Flat  flat                      `json:"flat"`
		By    graph.Map[string, [2]int] `json:"by"`
		Doc   graph.Value[keyed]        `json:"doc"`
	}
	const item = `{"name":"n","size":[1,2],"Tags":null,"More":null,"next":null,"count":1,"Code":"1","flag":null,"Data":null}`
	with := func(old, new string) string {
		return `{"items":[` + item + `,` + strings.Replace(item, old, new, 1) + `]}`
	}
	typ := typeOf[order](t)
	for doc, want := range map[string]string{
		with(`[1,2]`, `[1,2,3]`):                    `field "items[1].size": must have exactly 2 items, not 3`,
		with(`[1,2]`, `[1,300]`):                    `field "items[1].size[1]": must be at most 127`,
		with(`"count":1`, `"count":-1`):             `field "items[1].count": must be at least 0`,
		with(`"name":"n"`, `"name":null`):           `field "items[1].name": must be a string, not null`,
		with(`"name":"n"`, `"NAME":"n"`):            `field "items[1].name": is missing, a string` + "\n" + `field "items[1].NAME": unknown field; did you mean "name"?`,
		with(`"Tags":null`, `"Tags":"x"`):           `field "items[1].Tags": must be an array or null, not a string`,
		with(`"Code":"1"`, `"Code":1`):              `field "items[1].Code": must be a string, not a number`,
		with(`"Code":"1"`, `"Code":"1","Code":"2"`): `field "items[1].Code": it is there twice; give it once`,
		with(`"name":"n"`, "\"name\":\"\xff\""):     `field "items[1].name": a string in it is not valid UTF-8; encode text as UTF-8, and bytes in base64`,
		`{"by":{"a":[1,2.5]}}`:                      `field "by.a[1]": must be an integer, not a number with a fraction`,
		`{"by":{"a":[1,2],"b":[1]}}`:                `field "by.b": must have exactly 2 items, not 1`,
		`{"by":{"$overwrite":{"b":[1]}}}`:           `field "by.$overwrite.b": must have exactly 2 items, not 1`,
		`{"by":{"$$b":[1]}}`:                        `field "by.$$b": must have exactly 2 items, not 1`,
		`{"doc":{"1.5":{}}}`:                        `field "doc.1.5": its name must be an integer`,
		`{"flat":null}`:                             `field "flat": must be an object, not null`,
		"{\"flat\xff\":1}":                          `update: a string in it is not valid UTF-8; encode text as UTF-8, and bytes in base64`,
		`{"flat":1,"flat":1}`:                       `field "flat": it is there twice; give it once`,
		`null`:                                      `update: must be an object, not null`,
		`[1]`:                                       `update: must be an object, not an array`,
	} {
		err := typ.Update(new(order), []byte(doc))
		var input *goschema.InputError
		if !errors.As(err, &input) || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", doc, err, want)
		}
	}
	var s order
	if err := typ.Update(&s, []byte(with("", ""))); err != nil || s.Items.Len() != 2 {
		t.Error(err)
	}
	err := typ.Update(new(order), []byte(`{"items":[`+strings.Repeat(`1,`, 50)+`1]}`))
	if n := strings.Count(err.Error(), "\n"); n != 9 {
		t.Errorf("%d lines about one field", n+1)
	}
}

// words is a merging field that reads its updates itself, and describes only one
// of their forms.
type words struct{ graph.List[string] }

func (w *words) Merger() field.Merger { return (*wordsMerger)(w) }

type wordsMerger words

func (w *wordsMerger) Bind()                         { w.List.Merger().Bind() }
func (w *wordsMerger) Change() (field.Change, error) { return w.List.Merger().Change() }
func (w *wordsMerger) Write(c field.Change) error    { return w.List.Merger().Write(c) }
func (w *wordsMerger) Apply(c field.Change) error    { return w.List.Merger().Apply(c) }

func (w *wordsMerger) DecodeChange(data []byte) (field.Change, error) {
	var text string
	if json.Unmarshal(data, &text) == nil {
		data, _ = json.Marshal(strings.Fields(text))
	}
	return w.List.Merger().DecodeChange(data)
}

func (w *wordsMerger) SchemaOf() any { return []string(nil) }

func TestAFieldTypeFromElsewhereReadsWhatItReads(t *testing.T) {
	type told struct {
		Words words `json:"words"`
	}
	j := judge[told](t)
	for _, update := range []any{"one two", []string{"one", "two"}, map[string]any{"$overwrite": []string{"one", "two"}}} {
		if published, update := j.of(t, map[string]any{"words": update}); published != nil || update != nil {
			t.Error(published, update)
		}
	}
}
