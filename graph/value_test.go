package graph_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/internal/state"
)

// fieldPtr is a pointer to a field type F.
type fieldPtr[F any] interface {
	*F
	field.Merging
}

// forkField returns a copy of base as a task gets it.
func forkField[F any, P fieldPtr[F]](base *F) P {
	c := *base
	P(&c).Merger().Bind()
	return &c
}

// changeOf returns what f's task wrote.
func changeOf(t testing.TB, f field.Merging) field.Change {
	t.Helper()
	c, err := f.Merger().Change()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// conflict returns why changes of two tasks to f can't follow one another.
func conflict(f field.Merging, earlier, later field.Change) error {
	c, ok := f.Merger().(field.Checker)
	if !ok { // they always can
		return nil
	}
	_, _, err := c.Check([]field.Change{earlier, later})
	return err
}

// keeps reports whether c leaves f as it is.
func keeps(f field.Merging, c field.Change) bool {
	if h, ok := f.Merger().(state.Hashing); ok {
		if was, ok := h.Hash(); ok {
			to := reflect.New(reflect.TypeOf(f).Elem())
			to.Elem().Set(reflect.ValueOf(f).Elem())
			after := to.Interface().(field.Merging).Merger()
			err := after.Apply(c)
			is, _ := after.(state.Hashing).Hash()
			return err == nil && is == was
		}
	}
	return f.Merger().(field.Keeping).Keeps(c)
}

func fieldJSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// commitField folds what one task writes into base, by way of the log.
func commitField[F any, P fieldPtr[F]](t testing.TB, base P, write func(P)) {
	t.Helper()
	fork := forkField[F, P]((*F)(base))
	write(fork)
	c := changeOf(t, fork)
	if c == nil {
		return
	}
	data := fieldJSON(t, c)
	back, err := P(new(F)).Merger().DecodeChange([]byte(data))
	if err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	if again := fieldJSON(t, back); again != data {
		t.Fatalf("change %s came back as %s", data, again)
	}
	want := fieldJSON(t, fork)
	if err := base.Merger().Apply(back); err != nil {
		t.Fatal(err)
	}
	if s, ok := base.Merger().(field.Stepped); ok {
		s.EndStep()
	}
	if got := fieldJSON(t, base); got != want {
		t.Fatalf("the task saw %s, committed was %s", want, got)
	}
	restored := P(new(F))
	if err := json.Unmarshal([]byte(want), restored); err != nil {
		t.Fatal(err)
	}
	if got := fieldJSON(t, restored); got != want {
		t.Fatalf("%s was restored as %s", want, got)
	}
}

// box is cloned at the field's boundary.
type box struct{ N []int }

func (b *box) Clone() *box { return &box{append([]int(nil), b.N...)} }

// shape is an interface type with a method Clone.
type shape interface {
	Clone() shape
	Area() int
}

type square struct{ Side int }

func (s *square) Clone() shape { c := *s; return &c }
func (s *square) Area() int    { return s.Side * s.Side }

// plainBox clones by its pointer's method.
type plainBox struct{ N []int }

func (b *plainBox) Clone() plainBox { return plainBox{append([]int(nil), b.N...)} }

func TestValue(t *testing.T) {
	var v graph.Value[[]string]
	if v.Get() != nil || !v.IsZero() || fieldJSON(t, v) != "null" {
		t.Error("zero value")
	}
	commitField(t, &v, func(v *graph.Value[[]string]) {
		v.Set([]string{"a"})
		if v.Get()[0] != "a" {
			t.Error("own write")
		}
	})
	if fieldJSON(t, v) != `["a"]` || v.String() != "[a]" || v.IsZero() {
		t.Errorf("got %v", v)
	}
	fork := forkField(&v)
	fork.Set([]string{"a"})
	if changeOf(t, fork) != nil {
		t.Error("an equal value is a write")
	}
	commitField(t, &v, func(v *graph.Value[[]string]) { v.Set(nil) })
	if v.Get() != nil {
		t.Error("nil was not set")
	}
}

func TestValueEquality(t *testing.T) {
	berlin := time.FixedZone("Berlin", 3600)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, berlin)
	for name, same := range map[string]bool{
		"zeros":       sameValue(t, 0.0, math.Copysign(0, -1)),
		"zeros in":    sameValue(t, []float64{0}, []float64{math.Copysign(0, -1)}),
		"zeros any":   sameValue[any](t, 0.0, math.Copysign(0, -1)),
		"nil slice":   sameValue(t, []int(nil), []int{}),
		"other zone":  sameValue(t, at, at.UTC()),
		"equal ints":  !sameValue(t, 3, 3),
		"equal float": !sameValue(t, 3.5, 3.5),
		"equal any":   !sameValue[any](t, map[string]any{"a": 1.5}, map[string]any{"a": 1.5}),
		"equal times": !sameValue(t, at, at.In(time.FixedZone("CET", 3600))),
	} {
		if same {
			t.Error(name)
		}
	}
}

func sameValue[T any](t *testing.T, a, b T) bool {
	var v graph.Value[T]
	v.Set(a)
	fork := forkField(&v)
	fork.Set(b)
	return changeOf(t, fork) == nil
}

func TestClonesAreHandedOut(t *testing.T) {
	in := &box{[]int{1}}
	var v graph.Value[*box]
	v.Set(in)
	in.N[0] = 2
	v.Get().N[0] = 3
	if got := v.Get().N[0]; got != 1 {
		t.Errorf("value is %d", got)
	}
	var l graph.List[*box]
	l.Add(&box{[]int{1}}, nil)
	l.At(0).N[0] = 2
	l.Slice()[0].N[0] = 2
	for _, b := range l.All() {
		if b != nil {
			b.N[0] = 2
		}
	}
	if l.At(0).N[0] != 1 || l.Last() != nil {
		t.Error("list")
	}
	var m graph.Map[string, plainBox]
	m.Put("a", plainBox{[]int{1}})
	got, _ := m.Get("a")
	got.N[0] = 2
	for _, b := range m.All() {
		b.N[0] = 2
	}
	if got, _ := m.Get("a"); got.N[0] != 1 {
		t.Error("map")
	}
	var s graph.List[shape]
	s.Add(&square{2}, nil)
	s.At(0).(*square).Side = 3
	if s.At(0).Area() != 4 || s.At(1) != nil {
		t.Error("interface")
	}
}

// Appending to what was handed out writes behind nobody's value.
func TestSlicesAreClipped(t *testing.T) {
	var v graph.Value[[]int]
	v.Set(make([]int, 1, 10))
	a, b := append(v.Get(), 1), append(v.Get(), 2)
	if a[1] != 1 || b[1] != 2 {
		t.Error("value")
	}
	var l graph.List[[]int]
	l.Add(make([]int, 1, 10))
	if a, b := append(l.Last(), 1), append(l.Last(), 2); a[1] != 1 || b[1] != 2 {
		t.Error("list")
	}
}

func TestRebindingSettlesWrites(t *testing.T) {
	// A state that was written to before the engine got it.
	var v graph.Value[int]
	v.Set(1)
	var l graph.List[int]
	l.Add(1)
	var m graph.Map[int, int]
	m.Put(1, 1)
	var s graph.Sum[int]
	s.Add(1)
	var r graph.Reduced[int, graph.Latest[int]]
	r.Add(1)
	var e graph.Ephemeral[int]
	e.Set(1)
	var u graph.Untracked[int]
	u.Set(1)
	var mm graph.MergeMap[int, int, graph.Latest[int]]
	mm.Add(1, 1)
	var set graph.Set[int]
	set.Add(1)
	for _, f := range []field.Merging{&v, &l, &m, &s, &r, &e, &u, &mm, &set} {
		before := fieldJSON(t, f)
		if _, err := f.Merger().Change(); !errors.Is(err, field.ErrReplaced) {
			t.Errorf("%T: unbound, got %v", f, err)
		}
		f.Merger().Bind()
		if c := changeOf(t, f); c != nil {
			t.Errorf("%T: change %s", f, fieldJSON(t, c))
		}
		if after := fieldJSON(t, f); after != before {
			t.Errorf("%T: %s became %s", f, before, after)
		}
	}
}

func TestWrongChange(t *testing.T) {
	var v graph.Value[int]
	var l graph.List[int]
	c, _ := v.Merger().DecodeChange([]byte("1"))
	if l.Merger().Apply(c) == nil || l.Merger().Write(c) == nil {
		t.Error("a list took the change of a value")
	}
}

// fuzzField checks that a field type reads whatever comes without a panic, and
// reads back what it wrote.
func fuzzField[F any, P fieldPtr[F]](f *testing.F, seeds ...string) {
	for _, s := range append(seeds, `null`, `{}`, `[]`, `0`, `""`, `{"$overwrite":null}`, `{"$overwrite":{"$overwrite":1}}`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		restored := P(new(F))
		if restored.UnmarshalJSON(data) == nil {
			if _, err := json.Marshal(restored); err != nil {
				t.Fatal(err)
			}
		}
		c, err := P(new(F)).Merger().DecodeChange(data)
		if err != nil {
			return
		}
		text, err := json.Marshal(c)
		if err != nil {
			return
		}
		d, err := P(new(F)).Merger().DecodeChange(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if again := fieldJSON(t, d); again != string(text) {
			t.Fatalf("%s came back as %s", text, again)
		}
		if err := conflict(P(new(F)), c, d); err != nil {
			t.Fatalf("%s conflicts with itself: %v", text, err)
		}
		base := P(new(F))
		if base.Merger().Apply(c) != nil {
			return
		}
		fork := forkField[F, P]((*F)(base))
		if fork.Merger().Write(d) == nil {
			if _, err := fork.Merger().Change(); err != nil && !json.Valid(text) {
				t.Fatal(err)
			}
		}
	})
}

func FuzzValue(f *testing.F) {
	fuzzField[graph.Value[any]](f, `{"$overwrite":{"a":1}}`)
}
