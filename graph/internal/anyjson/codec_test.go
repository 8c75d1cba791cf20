package anyjson

import (
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
