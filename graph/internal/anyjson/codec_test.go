package anyjson

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
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

func testTypes() *Types {
	t := NewTypes()
	for _, typ := range []reflect.Type{reflect.TypeFor[shape](), reflect.TypeFor[node](), reflect.TypeFor[dollar](), reflect.TypeFor[time.Time]()} {
		t.Know(typ)
	}
	return t
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

func TestValuesComeBackWithTheirTypes(t *testing.T) {
	types := testTypes()
	rapid.Check(t, func(t *rapid.T) {
		v := drawAny(t, 3)
		place := reflect.TypeFor[any]()
		if v != nil && rapid.Bool().Draw(t, "place of its type") {
			place = reflect.TypeOf(v)
		}
		data, err := types.Encode(place, v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := types.Decode(place, data)
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Fatalf("%#v became %s and %#v (%v)", v, data, got, err)
		}
	})
}

func TestUnknownOperationsAreRefused(t *testing.T) {
	types := testTypes()
	for _, typ := range []reflect.Type{reflect.TypeFor[any](), reflect.TypeFor[map[string]int](), reflect.TypeFor[shape]()} {
		if v, err := types.Decode(typ, []byte(`{"$put":1}`)); err == nil || !strings.Contains(err.Error(), "unknown operation $put") {
			t.Errorf("%v: %v %v", typ, v, err)
		}
	}
}

func TestATypeOfAPlaceCountsForWhatIsKeptWithAnother(t *testing.T) {
	types := testTypes()
	if v, err := types.Decode(reflect.TypeFor[int](), []byte(`{"$type":"int64","$value":5}`)); v != 5 {
		t.Error(v, err)
	}
	if v, err := types.Decode(reflect.TypeFor[int](), []byte(`{"$type":"string","$value":"x"}`)); err == nil {
		t.Error(v)
	}
}

func TestTypeNames(t *testing.T) {
	typ := testTypes()
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

type refusing struct{}

func (refusing) MarshalJSON() ([]byte, error) { return nil, errors.New("boom") }
func (*refusing) UnmarshalJSON([]byte) error  { return nil }

func TestWhatCannotBeEncodedIsSaidWithItsPlace(t *testing.T) {
	types := testTypes()
	types.Know(reflect.TypeFor[refusing]())
	deep := any(1.)
	for range 2 * maxDepth {
		deep = []any{deep}
	}
	for want, v := range map[string]any{
		`["a"]: [1]: boom`:                          map[string]any{"a": []any{1., refusing{}}},
		`["a"]: json: unsupported value: NaN`:       map[string]any{"a": math.NaN(), "b": 1.},
		`the value nests too deep, or holds itself`: deep,
	} {
		if _, err := types.Encode(anyType, v); err == nil || err.Error() != want {
			t.Errorf("got %.200v, want %s", err, want)
		}
	}
}

type tags []string

func (t tags) Clone() tags { return append(tags{}, t...) }

func TestCloneOfATypeIsCalledAlsoForNil(t *testing.T) {
	for _, v := range []any{tags(nil), map[string]tags{"a": nil}} {
		c, err := Clone(v)
		if m, ok := c.(map[string]tags); ok {
			c = m["a"]
		}
		if got, ok := c.(tags); err != nil || !ok || got == nil {
			t.Errorf("%#v, %v", c, err)
		}
	}
}

func BenchmarkClone(b *testing.B) {
	maps, structs := map[string]any{}, []shape{}
	for i := range 200 {
		maps[fmt.Sprint(i)] = map[string]any{"a": 1., "b": []any{"x", true, map[string]any{"c": 2.}}}
		structs = append(structs, shape{Name: "n", Tags: []string{"a"}, At: new(time.Time), Any: "x"})
	}
	for name, v := range map[string]any{"maps": maps, "structs": structs} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Clone(v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
