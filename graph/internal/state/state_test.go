package state_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/internal/state"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/goschema"
	"github.com/superstep-dev/superstep/internal/plan"
)

type maximum struct{}

func (maximum) Reduce(current, update int) int {
	if update == 666 {
		panic("beast")
	}
	return max(current, update)
}

type point struct {
	X int8 // followed by padding
	Y float64
	N string
}

type Embedded struct {
	Inner int `json:"inner"`
	Log   graph.List[string]
}

type sample struct {
	Topic    string `json:"topic"`
	Approved bool
	Small    int8
	Count    int
	Ratio    float64
	Where    point
	At       time.Time
	Trio     [3]string
	Quoted   int `json:",string"`
	Embedded
	Jokes  graph.List[string] `json:"jokes"`
	Score  graph.Sum[int]
	Scores graph.Map[string, int]
	Tags   graph.Set[string]
	Doc    graph.Value[map[string]any]
	Best   graph.Reduced[int, maximum]
	Hits   graph.MergeMap[string, int, maximum]
	Hint   graph.Ephemeral[string]
	Client graph.Untracked[chan int]
}

func typeOf[S any](t testing.TB) *state.Type {
	t.Helper()
	typ, problems := state.Of[S]()
	for _, p := range problems {
		t.Error(p)
	}
	if problems != nil {
		t.FailNow()
	}
	return typ
}

// step runs tasks on forks of base and folds what they wrote.
func step[S any](t testing.TB, typ *state.Type, base any, tasks ...func(*S)) (any, uint64, error) {
	t.Helper()
	cs := make([]any, len(tasks))
	for i, task := range tasks {
		fork := typ.Fork(base)
		task(fork.(*S))
		c, err := typ.Changes(base, fork, nil)
		if err != nil {
			t.Fatal(err)
		}
		cs[i] = c
	}
	return typ.Fold(base, cs, core.Committed)
}

func text(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(s *sample) {
	s.Topic = "cats"
	s.Approved = true
	s.Ratio = 1.5
	s.Where.X = 3
	s.Where.N = "n"
	s.At = time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("X", 3600))
	s.Trio[1] = "b"
	s.Quoted = 7
	s.Inner = 9
	s.Log.Add("l")
	s.Jokes.Add("a", "b")
	s.Score.Add(2)
	s.Scores.Put("$x", 1)
	s.Tags.Add("t")
	s.Doc.Set(map[string]any{"$overwrite": "odd"})
	s.Best.Add(3)
	s.Best.Add(4)
	s.Hits.Add("k", 2)
	s.Hits.Add("k", 1)
	s.Hint.Set("h")
	s.Client.Set(make(chan int))
}

const (
	goldenUpdate = `{"topic":"cats","Approved":true,"Ratio":1.5,"Where":{"X":3,"Y":0,"N":"n"},"At":"2026-01-02T03:04:05.000000006+01:00","Trio":["","b",""],"Quoted":"7","inner":9,"Log":["l"],"jokes":["a","b"],"Score":2,"Scores":{"$$x":1},"Tags":["t"],"Doc":{"$overwrite":{"$overwrite":"odd"}},"Best":{"$updates":[3,4]},"Hits":{"k":2,"$updates":{"k":[1]}},"Hint":"h"}`
	goldenState  = `{"topic":"cats","Approved":true,"Small":0,"Count":0,"Ratio":1.5,"Where":{"X":3,"Y":0,"N":"n"},"At":"2026-01-02T03:04:05.000000006+01:00","Trio":["","b",""],"Quoted":"7","inner":9,"Log":["l"],"jokes":["a","b"],"Score":2,"Scores":{"$x":1},"Tags":["t"],"Doc":{"$overwrite":"odd"},"Best":4,"Hits":{"k":2},"Hint":"h","Client":null}`
	goldenShort  = `{"topic":"cats","Approved":true,"Ratio":1.5,"Where":{"X":3,"Y":0,"N":"n"},"At":"2026-01-02T03:04:05.000000006+01:00","Trio":["","b",""],"Quoted":"7","inner":9,"Score":2,"Scores":{"$x":1},"Tags":["t"],"Doc":{"$overwrite":"odd"},"Best":4,"Hits":{"k":2},"Hint":"h"}`
)

func TestGolden(t *testing.T) {
	typ := typeOf[sample](t)
	base := typ.New()
	fork := typ.Fork(base)
	write(fork.(*sample))
	c, err := typ.Changes(base, fork, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := typ.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != goldenUpdate {
		t.Errorf("update:\n got %s\nwant %s", data, goldenUpdate)
	}
	if growth, want := typ.Growth(c), []core.Growth{{Field: "Log"}, {Field: "jokes"}}; !slices.Equal(growth, want) {
		t.Errorf("growth %v, want %v", growth, want)
	}
	live, _, err := typ.Fold(base, []any{c}, core.Committed)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, live); got != goldenState {
		t.Errorf("state:\n got %s\nwant %s", got, goldenState)
	}

	decoded, err := typ.Decode(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	replayed, _, err := typ.Fold(typ.New(), []any{decoded}, core.Committed)
	if err != nil {
		t.Fatal(err)
	}
	if text(t, replayed) != goldenState {
		t.Errorf("replayed: %s", text(t, replayed))
	}
	if l, r := live.(*sample).At, replayed.(*sample).At; !reflect.DeepEqual(l, r) {
		t.Errorf("times differ: %#v and %#v", l, r)
	}

	var updated sample
	if err := typ.Update(&updated, data); err != nil {
		t.Fatal(err)
	}
	if text(t, updated) != goldenState {
		t.Errorf("updated: %s", text(t, updated))
	}

	short, err := typ.Snapshot(live, false)
	if err != nil || string(short) != goldenShort {
		t.Errorf("snapshot: %v\n got %s\nwant %s", err, short, goldenShort)
	}
	full, err := typ.Snapshot(live, true)
	if err != nil {
		t.Fatal(err)
	}
	restored, err := typ.Restore(nil, full)
	if err != nil {
		t.Fatal(err)
	}
	if text(t, restored) != goldenState {
		t.Errorf("restored: %s", text(t, restored))
	}
	// A growing field alone, read from the changes.
	only, err := typ.Decode(data, []string{"Log", "gone"})
	if err != nil {
		t.Fatal(err)
	}
	if data, _ := typ.Encode(only); string(data) != `{"Log":["l"]}` {
		t.Errorf("only: %s", data)
	}
	// The standard library reads the state's JSON too.
	var std sample
	if err := json.Unmarshal([]byte(goldenState), &std); err != nil || text(t, std) != goldenState {
		t.Errorf("encoding/json: %v, %s", err, text(t, std))
	}
}

func TestNothingWritten(t *testing.T) {
	typ := typeOf[sample](t)
	base, _, err := step(t, typ, typ.New(), write)
	if err != nil {
		t.Fatal(err)
	}
	next, digest, err := typ.Fold(base, []any{nil, nil}, core.Given)
	if next != base || digest != 0 || err != nil {
		t.Errorf("fold of nothing: digest %d, %v", digest, err)
	}
	fork := typ.Fork(base)
	s := fork.(*sample)
	s.Topic = strings.Clone("cats")
	s.At = s.At.In(time.FixedZone("other name", 3600))
	s.Score.Add(0)
	s.Jokes.Add()
	s.Doc.Set(map[string]any{"$overwrite": "odd"})
	if c, err := typ.Changes(base, fork, nil); c != nil || err != nil {
		data, _ := typ.Encode(c)
		t.Errorf("changes %s, %v", data, err)
	}

	// Overwriting with what is there, or putting it, is recorded, but no progress.
	s.Scores.Put("$x", 1)
	s.Tags.Add("t")
	s.Jokes.Overwrite("a", "b")
	s.Best.Overwrite(4)
	s.Client.Set(s.Client.Get())
	c, err := typ.Changes(base, fork, nil)
	if c == nil || err != nil {
		t.Fatalf("changes %v, %v", c, err)
	}
	if _, digest, err := typ.Fold(base, []any{c}, core.Given); digest != 0 || err != nil {
		t.Errorf("fold of the same: digest %d, %v", digest, err)
	}
}

func TestMonotonicTimeIsStripped(t *testing.T) {
	typ := typeOf[sample](t)
	next, _, err := step(t, typ, typ.New(), func(s *sample) { s.At = time.Now() })
	if err != nil {
		t.Fatal(err)
	}
	if at := next.(*sample).At; strings.Contains(at.String(), "m=") || at.IsZero() {
		t.Errorf("committed %v", at)
	}
}

func TestConflicts(t *testing.T) {
	typ := typeOf[sample](t)
	base := func() any {
		base, _, err := step(t, typ, typ.New(), func(s *sample) { s.Scores.Put("k", 1) })
		if err != nil {
			t.Fatal(err)
		}
		return base
	}
	tests := []struct {
		name  string
		field string // empty: they merge
		a, b  func(*sample)
	}{
		{"plain", "topic", func(s *sample) { s.Topic = "a" }, func(s *sample) { s.Topic = "b" }},
		{"plain equal", "", func(s *sample) { s.Topic = "a" }, func(s *sample) { s.Topic = strings.Clone("a") }},
		{"plain others", "", func(s *sample) { s.Topic = "a" }, func(s *sample) { s.Count = 1 }},
		{"nested", "Where", func(s *sample) { s.Where.X = 1 }, func(s *sample) { s.Where.N = "b" }},
		{"lists", "", func(s *sample) { s.Jokes.Add("a") }, func(s *sample) { s.Jokes.Add("b") }},
		{"overwrites", "jokes", func(s *sample) { s.Jokes.Overwrite("a") }, func(s *sample) { s.Jokes.Overwrite("b") }},
		{"overwrite and add", "", func(s *sample) { s.Jokes.Overwrite("a") }, func(s *sample) { s.Jokes.Add("b") }},
		{"sums", "Score", func(s *sample) { s.Score.Overwrite(1) }, func(s *sample) { s.Score.Overwrite(2) }},
		{"values", "Doc", func(s *sample) { s.Doc.Set(map[string]any{"a": 1}) }, func(s *sample) { s.Doc.Set(nil); s.Doc.Set(map[string]any{}) }},
		{"keys", "Scores", func(s *sample) { s.Scores.Put("k", 5) }, func(s *sample) { s.Scores.Put("k", 6) }},
		{"keys equal", "", func(s *sample) { s.Scores.Put("k", 5) }, func(s *sample) { s.Scores.Put("k", 5) }},
		{"put and delete", "Scores", func(s *sample) { s.Scores.Put("k", 5) }, func(s *sample) { s.Scores.Delete("k") }},
		{"add and remove", "Tags", func(s *sample) { s.Tags.Add("k") }, func(s *sample) { s.Tags.Remove("k") }},
		{"ephemeral", "Hint", func(s *sample) { s.Hint.Set("a") }, func(s *sample) { s.Hint.Set("b") }},
		{"untracked", "", func(s *sample) { s.Client.Set(make(chan int)) }, func(s *sample) { s.Client.Set(make(chan int)) }},
		{"reduced", "Best", func(s *sample) { s.Best.Overwrite(1) }, func(s *sample) { s.Best.Overwrite(2) }},
		{"merge map", "", func(s *sample) { s.Hits.Add("k", 5) }, func(s *sample) { s.Hits.Add("k", 6) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			base := base()
			before := text(t, base)
			nothing := func(*sample) {}
			_, _, err := step(t, typ, base, nothing, test.a, nothing, test.b)
			if test.field == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var fe *core.FoldError
			if !errors.As(err, &fe) || fe.Field != test.field || fe.Index != 3 || fe.With != 1 {
				t.Errorf("got %#v", err)
			}
			if text(t, base) != before {
				t.Errorf("base changed to %s", text(t, base))
			}
		})
	}
}

func TestReducerPanics(t *testing.T) {
	typ := typeOf[sample](t)
	base, _, err := step(t, typ, typ.New(), write)
	if err != nil {
		t.Fatal(err)
	}
	before := text(t, base)
	bad, err := typ.Decode([]byte(`{"topic":"dogs","jokes":["c"],"Best":666}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = typ.Fold(base, []any{nil, bad}, core.Committed)
	var fe *core.FoldError
	if !errors.As(err, &fe) || fe.Field != "Best" || fe.Index != 1 || fe.With != -1 || !strings.Contains(err.Error(), "beast") {
		t.Errorf("got %v", err)
	}
	if text(t, base) != before {
		t.Errorf("base changed to %s", text(t, base))
	}
}

// exclusive is a user's field type that leaves the search for conflicts to the
// engine: no two tasks may write the same number.
type exclusive struct{ base, pend int }

type exclusiveChange int

func (e exclusive) MarshalJSON() ([]byte, error)     { return json.Marshal(e.base + e.pend) }
func (e *exclusive) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &e.base) }
func (e *exclusive) Merger() field.Merger            { return e }
func (e *exclusive) Bind()                           {}
func (e *exclusive) Write(c field.Change) error      { e.pend += int(c.(exclusiveChange)); return nil }

func (e *exclusive) Change() (field.Change, error) {
	if e.pend == 0 {
		return nil, nil
	}
	return exclusiveChange(e.pend), nil
}

func (e *exclusive) Apply(c field.Change) error {
	if c.(exclusiveChange) < 0 {
		panic("negative")
	}
	e.base += int(c.(exclusiveChange))
	return nil
}

func (e *exclusive) DecodeChange(data []byte) (field.Change, error) {
	var c exclusiveChange
	err := json.Unmarshal(data, &c)
	return c, err
}

func (c exclusiveChange) MarshalJSON() ([]byte, error) { return json.Marshal(int(c)) }

func (*exclusive) Check(cs []field.Change) (later, earlier int, err error) {
	for later, c := range cs {
		if earlier := slices.Index(cs[:later], c); earlier >= 0 {
			return later, earlier, fmt.Errorf("both write %d", c)
		}
	}
	return -1, -1, nil
}

func TestUsersFieldType(t *testing.T) {
	type custom struct {
		E exclusive
		N int
		L graph.List[int]
	}
	typ := typeOf[custom](t)
	add := func(n int) func(*custom) { return func(s *custom) { s.E.pend = n } }
	base, digest, err := step(t, typ, typ.New(), add(1), add(2), add(3))
	if err != nil || digest == 0 || base.(*custom).E.base != 6 {
		t.Fatal(err, text(t, base))
	}
	var fe *core.FoldError
	if _, _, err = step(t, typ, base, add(1), add(2), add(3), add(2)); !errors.As(err, &fe) || fe.Index != 3 || fe.With != 1 {
		t.Errorf("got %v", err)
	}
	mess := func(s *custom) { s.N = 1; s.L.Add(1); s.E.pend = -1 }
	if _, _, err = step(t, typ, base, mess); !errors.As(err, &fe) || fe.Index != 0 || fe.With != -1 || fe.Field != "E" {
		t.Errorf("got %v", err)
	}
	if text(t, base) != `{"E":6,"N":0,"L":[]}` {
		t.Errorf("base is %s", text(t, base))
	}
	// Of several conflicts, the one of the earliest task is reported.
	plain := func(n int) func(*custom) { return func(s *custom) { s.N = n } }
	if _, _, err = step(t, typ, base, add(1), plain(1), add(1), plain(2)); !errors.As(err, &fe) || fe.Field != "E" || fe.Index != 2 {
		t.Errorf("got %v", err)
	}
}

func TestReplaced(t *testing.T) {
	typ := typeOf[sample](t)
	base, _, err := step(t, typ, typ.New(), write)
	if err != nil {
		t.Fatal(err)
	}
	other := typ.Fork(base).(*sample)
	for name, task := range map[string]func(*sample){
		"whole":            func(s *sample) { *s = sample{} },
		"whole then add":   func(s *sample) { *s = sample{}; s.Jokes.Add("x") },
		"sibling":          func(s *sample) { s.Jokes = s.Log },
		"sibling then add": func(s *sample) { s.Jokes = s.Log; s.Jokes.Add("x") },
		"other":            func(s *sample) { s.Scores = other.Scores },
		"literal":          func(s *sample) { s.Jokes = graph.List[string]{}; s.Jokes.Add("x") },
		"written copy":     func(s *sample) { c := s.Jokes; c.Add("x"); s.Jokes = c },
		"set":              func(s *sample) { s.Tags = graph.Set[string]{} },
		"sum":              func(s *sample) { s.Score = graph.Sum[int]{}; s.Score.Add(1) },
		"value":            func(s *sample) { s.Doc = graph.Value[map[string]any]{} },
		"reduced":          func(s *sample) { s.Best = graph.Reduced[int, maximum]{}; s.Best.Add(1) },
		"merge map":        func(s *sample) { s.Hits = other.Hits; s.Hits.Add("k", 1) },
		"ephemeral":        func(s *sample) { s.Hint = graph.Ephemeral[string]{} },
		"untracked":        func(s *sample) { s.Client = graph.Untracked[chan int]{} },
	} {
		fork := typ.Fork(base)
		task(fork.(*sample))
		if _, err := typ.Changes(base, fork, nil); !errors.Is(err, field.ErrReplaced) || !strings.Contains(err.Error(), `field "`) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestNotFinite(t *testing.T) {
	type nested struct {
		F graph.Value[float64]
		L graph.List[float64]
		S graph.Sum[float64]
		A [2]struct{ X float32 }
		B float64
	}
	typ := typeOf[nested](t)
	for name, task := range map[string]func(*nested){
		"F": func(s *nested) { s.F.Set(math.NaN()) },
		"L": func(s *nested) { s.L.Add(1, math.Inf(1)) },
		"S": func(s *nested) { s.S.Add(math.Inf(-1)) },
		"A": func(s *nested) { s.A[1].X = float32(math.Inf(1)) },
		"B": func(s *nested) { s.B = math.NaN() },
	} {
		base := typ.New()
		fork := typ.Fork(base)
		task(fork.(*nested))
		if _, err := typ.Changes(base, fork, nil); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("field %q", name)) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// Two finite floats may add up to infinity. The state stays as it was.
	base := typ.New()
	huge := func(s *nested) { s.S.Add(math.MaxFloat64); s.B = 1 }
	if _, _, err := step(t, typ, base, huge, huge); err == nil || text(t, base) != text(t, typ.New()) {
		t.Errorf("got %v, base %s", err, text(t, base))
	}
	// The sign of zero is a difference.
	fork := typ.Fork(base)
	fork.(*nested).B = math.Copysign(0, -1)
	if c, _ := typ.Changes(base, fork, nil); c == nil {
		t.Error("-0 is not seen as a write")
	}
}

func TestInvalidUTF8(t *testing.T) {
	typ := typeOf[sample](t)
	for name, task := range map[string]func(*sample){
		"topic":  func(s *sample) { s.Topic = "\xff" },
		"jokes":  func(s *sample) { s.Jokes.Add("\xff") },
		"Scores": func(s *sample) { s.Scores.Put("\xff", 1) },
		"Tags":   func(s *sample) { s.Tags.Add("\xff") },
	} {
		base := typ.New()
		fork := typ.Fork(base)
		task(fork.(*sample))
		c, err := typ.Changes(base, fork, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := typ.Encode(c); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("field %q", name)) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestDigest(t *testing.T) {
	typ := typeOf[sample](t)
	base := typ.New()
	var sum uint64
	for i, topic := range []string{"a", "b", "a", ""} {
		var digest uint64
		var err error
		if base, digest, err = step(t, typ, base, func(s *sample) { s.Topic, s.Count, s.Where.Y = topic, i%3, float64(i%3) }); err != nil || digest == 0 {
			t.Fatal(digest, err)
		}
		sum += digest
	}
	if sum != 0 {
		t.Errorf("back to the beginning, the sum is %d", sum)
	}
	if _, digest, _ := step(t, typ, base, func(s *sample) { s.Jokes.Add("x") }); digest == 0 {
		t.Error("a merging field's change is not in the digest")
	}
}

func TestEphemeralAndUntracked(t *testing.T) {
	typ := typeOf[sample](t)
	base, _, _ := step(t, typ, typ.New(), func(s *sample) { s.Hint.Set("h"); s.Client.Set(make(chan int)) })
	if s := base.(*sample); s.Hint.Get() != "h" || s.Client.Get() == nil {
		t.Fatal("not there in the next step")
	}
	// A fold that ends no superstep ends no value.
	base, digest, _ := typ.Fold(base, nil, core.Given)
	if !base.(*sample).Hint.Has() || digest != 0 {
		t.Error("gone too early")
	}
	base, digest, _ = step(t, typ, base, func(s *sample) {
		if s.Hint.Get() != "h" {
			t.Error("not readable")
		}
	})
	if base.(*sample).Hint.Has() || digest == 0 {
		t.Error("still there after two steps")
	}
	data, err := typ.Snapshot(base, true)
	if err != nil {
		t.Fatal(err)
	}
	restored, err := typ.Restore(nil, data)
	if err != nil || restored.(*sample).Client.Get() != nil {
		t.Errorf("untracked value stored: %s, %v", data, err)
	}
}

func TestReuse(t *testing.T) {
	typ := typeOf[sample](t)
	base := typ.New()
	var reuse any
	for i := range 5 {
		fork := typ.Fork(base)
		s := fork.(*sample)
		s.Count = i + 1
		if i%2 == 0 {
			s.Topic = strings.Repeat("x", i+1)
			s.Jokes.Add("j")
		}
		c, err := typ.Changes(base, fork, reuse)
		if err != nil {
			t.Fatal(err)
		}
		data, _ := typ.Encode(c)
		if got := strings.Contains(string(data), "topic"); got != (i%2 == 0) {
			t.Errorf("%d: %s", i, data)
		}
		base, _, _ = typ.Fold(base, []any{c}, core.Committed)
		reuse = c
	}
	if s := base.(*sample); s.Count != 5 || s.Topic != "xxxxx" || s.Jokes.Len() != 3 {
		t.Errorf("%s", text(t, base))
	}
}

// A goroutine that a task left behind goes on writing; nothing of that may reach
// the changes. Run with -race.
func TestLeakedWriter(t *testing.T) {
	typ := typeOf[sample](t)
	base := typ.New()
	fork := typ.Fork(base)
	s := fork.(*sample)
	write(s)
	c, err := typ.Changes(base, fork, nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 200 {
			s.Topic = strings.Repeat("z", i)
			s.Jokes.Add("leak")
			s.Scores.Put(fmt.Sprint(i), i)
			s.Tags.Add(fmt.Sprint(i))
			s.Best.Add(i)
			s.Hits.Add("k", i)
		}
	})
	next, _, err := typ.Fold(base, []any{c}, core.Committed)
	if err != nil {
		t.Fatal(err)
	}
	data, err := typ.Encode(c)
	if err != nil || string(data) != goldenUpdate {
		t.Errorf("%v, %s", err, data)
	}
	wg.Wait()
	if text(t, next) != goldenState {
		t.Errorf("%s", text(t, next))
	}
}

// Many tasks read their copies while the next state is made. Run with -race.
func TestConcurrentForks(t *testing.T) {
	typ := typeOf[sample](t)
	base, _, err := step(t, typ, typ.New(), write)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		cs := make([]any, 16)
		var wg sync.WaitGroup
		for i := range cs {
			wg.Go(func() {
				fork := typ.Fork(base)
				s := fork.(*sample)
				n := s.Jokes.Len()
				s.Jokes.Add(fmt.Sprint(round, i))
				s.Score.Add(i)
				s.Scores.Put(fmt.Sprint(i), i)
				s.Tags.Add(fmt.Sprint(i))
				s.Best.Add(i)
				s.Hits.Add("k", i)
				if s.Jokes.Len() != n+1 || !s.Tags.Has(fmt.Sprint(i)) {
					t.Error("own writes are not readable")
				}
				cs[i], _ = typ.Changes(base, fork, nil)
			})
		}
		wg.Wait()
		old := *base.(*sample)
		was := text(t, old)
		wg.Go(func() {
			for range 20 {
				if got := text(t, old); got != was {
					t.Errorf("a copy changed: %s", got)
				}
			}
		})
		if base, _, err = typ.Fold(base, cs, core.Committed); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
	if n := base.(*sample).Jokes.Len(); n != 2+5*16 {
		t.Errorf("%d jokes", n)
	}
}

func TestUpdate(t *testing.T) {
	typ := typeOf[sample](t)
	var s sample
	write(&s)
	before := text(t, s)
	for _, test := range []struct{ in, want string }{
		{`{"topik":"x","Score":1}`, `unknown field "topik"; did you mean "topic"?`},
		{`{"Score":"x","topic":1}`, `field "topic"`},
		{`{"Score":"x","topic":1}`, `field "Score"`},
		{`{"Where":{"Z":1}}`, `field "Where.Z": unknown field; remove it`},
		{`{"Scores":{"$nope":1}}`, `unknown operation "$nope"`},
		{`{"jokes":["x"],"Best":666}`, `field "Best"`},
		{`[]`, `update`},
		{`{`, `update`},
	} {
		err := typ.Update(&s, []byte(test.in))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.in, err, test.want)
		}
		if got := text(t, s); got != before {
			t.Errorf("%s: state changed to %s", test.in, got)
		}
	}
	update := `{"topic":"dogs","jokes":{"$overwrite":["z"]},"Scores":{"$overwrite":{"$q":1,"r":2},"$delete":["r"],"$$p":3},
		"Tags":{"$remove":["t"],"$add":["u"]},"Best":{"$overwrite":1,"$updates":[2]},"Score":{"$overwrite":-1},"Hits":{"$delete":["k"],"k":1}}`
	if err := typ.Update(&s, []byte(update)); err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		s.Topic: "dogs", text(t, s.Jokes): `["z"]`, text(t, s.Scores): `{"$p":3,"$q":1}`, text(t, s.Tags): `["u"]`,
		text(t, s.Best): `2`, text(t, s.Score): `-1`, text(t, s.Hits): `{"k":1}`,
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	typ := typeOf[sample](t)
	for _, data := range []string{`{"topic":1}`, `{"jokes":1}`, `{"Best":"x"}`} {
		name := strings.Split(data, `"`)[1]
		for what, err := range map[string]error{
			"decode":  second(typ.Decode([]byte(data), nil)),
			"restore": second(typ.Restore(nil, []byte(data))),
		} {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("field %q", name)) {
				t.Errorf("%s %s: got %v", what, data, err)
			}
		}
	}
}

func second(_ any, err error) error { return err }

func TestHash(t *testing.T) {
	typ := typeOf[sample](t)
	base, _, _ := step(t, typ, typ.New(), write)
	s := base.(*sample)
	before, err := typ.Hash(s)
	if err != nil {
		t.Fatal(err)
	}
	fork := typ.Fork(base).(*sample)
	fork.Jokes.Add("own")
	fork.Doc.Get()["sneaky"] = true
	after, err := typ.Hash(s)
	if err != nil {
		t.Fatal(err)
	}
	for name := range before {
		if changed := before[name] != after[name]; changed != (name == "Doc") {
			t.Errorf("%s: changed %v", name, changed)
		}
	}
}

func TestFieldsAndSize(t *testing.T) {
	typ := typeOf[struct {
		A string
		B graph.List[int] `json:"b"`
		C int8
	}](t)
	fs := typ.Fields()
	if len(fs) != 3 || fs[1].Name != "b" || fs[1].Path != "B" || !fs[1].Growing || !fs[1].Merging || fs[0].Merging {
		t.Errorf("%+v", fs)
	}
	if typ.Size() != 17 {
		t.Errorf("size %d", typ.Size())
	}
}

// State types with mistakes.
type (
	hidden  struct{ x int } //lint:ignore U1000 what Compile refuses
	jsonned struct{ A int }
	badJSON struct{ graph.Sum[int] }
	counted struct{ N graph.Sum[int] }
	noted   struct { // its note would not be merged
		graph.List[int]
		Note string
	}
	before struct { // neither would this one
		Note string
		graph.List[int]
	}
	nobody  struct{ field.Merging }
	private struct {
		A int
		b int //lint:ignore U1000 what Compile refuses
	}
)

type deep struct{ jsonned }

func (jsonned) MarshalJSON() ([]byte, error) { return nil, nil }

func (nobody) MarshalJSON() ([]byte, error) { return []byte("0"), nil }

func (b *badJSON) MarshalJSON() ([]byte, error) { return []byte("0"), nil }

type ownJSON struct {
	jsonned
	B int
}

func (ownJSON) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

type Other struct {
	O int `json:"o"`
}

type Wrapper struct{ Bad chan int }

func problemsOf[S any](t *testing.T) []plan.Problem {
	t.Helper()
	typ, problems := state.Of[S]()
	if (typ == nil) != (len(problems) > 0) {
		t.Error("a type and problems, or neither")
	}
	return problems
}

func TestProblems(t *testing.T) {
	type many struct {
		Ptr     *int
		Slice   []string
		Bytes   []byte
		Map     map[string]int
		Lookup  map[string]struct{}
		Odd     map[point]int
		Fn      func()
		Ch      chan int
		Any     any
		Err     error
		C       complex64
		U       uintptr
		Skipped int `json:"-"`
		lower   int //lint:ignore U1000 what Compile refuses
		A       int
		B       int `json:"o"`
		Other
		*Embedded
		Hidden hidden
		Nested struct{ P struct{ Q []int } }
		Inside counted
		List   *graph.List[int]
		Bad    badJSON
		Noted  noted
		Before before
		Nobody nobody
		Chan   graph.List[Wrapper]
		Func   graph.Value[func()]
		Iface  graph.Value[error]
		Empty  graph.Value[hidden]
		Fine   graph.Untracked[func()]
		When   time.Time
		Mutex  sync.Mutex
		Many   [100][]int
		Priv   private
	}
	want := []struct{ field, text string }{
		{"Ptr", "graph.Value[*int]"},
		{"Slice", "graph.List[string]"},
		{"Bytes", "graph.Value[[]uint8]"},
		{"Map", "graph.Map[string, int]"},
		{"Lookup", "graph.Set[string]"},
		{"Odd", "graph.Value[map[state_test.point]int]"},
		{"Fn", "graph.Untracked[func()]"},
		{"Ch", "graph.Untracked[chan int]"},
		{"Any", "graph.Value[interface {}]"},
		{"Err", "graph.Untracked[error]"},
		{"C", "floats"},
		{"U", "uint64"},
		{"Skipped", "graph.Untracked[int]"},
		{"lower", "export it"},
		{"Other.O", `"o" is that of field B`},
		{"Embedded", "embed state_test.Embedded itself"},
		{"Hidden.x", "graph.Untracked[state_test.hidden]"},
		{"Nested.P.Q", "graph.List[int]"},
		{"Inside.N", "embed state_test.counted"},
		{"List", "use graph.List[int]"},
		{"Bad", "value receiver"},
		{"Noted", "does not return a pointer to the field itself: let it return its receiver"},
		{"Before", "does not return a pointer to the field itself"},
		{"Nobody", "does not return a pointer to the field itself"},
		{"Chan", "chan int cannot be encoded"},
		{"Func", "graph.Untracked"},
		{"Iface", "cannot be decoded"},
		{"Empty", "no field"},
	}
	var got []string
	problems := problemsOf[many](t)
	for _, p := range problems {
		got = append(got, p.String())
	}
	all := strings.Join(got, "\n")
	for _, w := range want {
		i := slices.IndexFunc(problems, func(p plan.Problem) bool { return p.Name == w.field })
		if i < 0 || !strings.Contains(problems[i].String(), w.text) {
			t.Errorf("no problem of %s with %q", w.field, w.text)
		}
	}
	for _, name := range []string{"Fine", "When", "A"} {
		if slices.ContainsFunc(problems, func(p plan.Problem) bool { return p.Name == name }) {
			t.Errorf("%s is refused", name)
		}
	}
	if strings.Count(all, "Many") != 1 || !strings.Contains(all, "Mutex") || !strings.Contains(all, "Priv.b") {
		t.Error("Many, Mutex or Priv")
	}
	if t.Failed() {
		t.Log(all)
	}

	if ps := problemsOf[int](t); len(ps) != 1 || !strings.Contains(ps[0].Text, "struct") {
		t.Errorf("int: %v", ps)
	}
	if ps := problemsOf[struct {
		graph.List[int]
		B int
	}](t); len(ps) == 0 || !strings.Contains(ps[0].Text, "MarshalJSON") {
		t.Errorf("embedded list: %v", ps)
	}
	if ps := problemsOf[struct {
		jsonned
		B int
	}](t); len(ps) == 0 || !strings.Contains(ps[0].Text, "jsonned") {
		t.Errorf("embedded marshaler: %v", ps)
	}
	if ps := problemsOf[struct {
		time.Time
		B int
	}](t); len(ps) == 0 || !strings.Contains(ps[0].Text, "time.Time") {
		t.Errorf("embedded time: %v", ps)
	}
	if ps := problemsOf[struct {
		B int
		deep
	}](t); len(ps) == 0 || !strings.Contains(ps[0].Text, "deep") {
		t.Errorf("deeply embedded marshaler: %v", ps)
	}
	if ps := problemsOf[ownJSON](t); len(ps) != 0 {
		t.Errorf("own MarshalJSON: %v", ps)
	}
}

// Tasks of one superstep, folded at once, give what they give when folded one
// after another, live or from the log.
func TestLaws(t *testing.T) {
	typ := typeOf[sample](t)
	word := rapid.SampledFrom([]string{"", "a", "b", "$c", "$overwrite"})
	task := func(rt *rapid.T) func(*sample) {
		var verbs []func(*sample)
		for range rapid.IntRange(0, 4).Draw(rt, "verbs") {
			w, n := word.Draw(rt, "word"), rapid.IntRange(-3, 3).Draw(rt, "n")
			verbs = append(verbs, []func(*sample){
				func(s *sample) { s.Topic = w },
				func(s *sample) { s.Count, s.Trio[1] = n, w },
				func(s *sample) { s.Where = point{int8(n), float64(n), w} },
				func(s *sample) { s.Jokes.Add(w, "x") },
				func(s *sample) { s.Jokes.Overwrite(w) },
				func(s *sample) { s.Score.Add(n) },
				func(s *sample) { s.Score.Overwrite(n) },
				func(s *sample) { s.Scores.Put(w, n) },
				func(s *sample) { s.Scores.Delete(w) },
				func(s *sample) { s.Scores.Overwrite(map[string]int{w: n}) },
				func(s *sample) { s.Tags.Add(w) },
				func(s *sample) { s.Tags.Remove(w) },
				func(s *sample) { s.Tags.Overwrite(w) },
				func(s *sample) { s.Doc.Set(map[string]any{w: w}) },
				func(s *sample) { s.Best.Add(n) },
				func(s *sample) { s.Best.Overwrite(n) },
				func(s *sample) { s.Hits.Add(w, n) },
				func(s *sample) { s.Hits.Delete(w) },
				func(s *sample) { s.Hits.Overwrite(map[string]int{w: n}) },
			}[rapid.IntRange(0, 18).Draw(rt, "verb")])
		}
		return func(s *sample) {
			for _, v := range verbs {
				v(s)
			}
		}
	}
	clone := func(rt *rapid.T, s any) any {
		data, err := typ.Snapshot(s, true)
		if err != nil {
			rt.Fatal(err)
		}
		c, err := typ.Restore(nil, data)
		if err != nil {
			rt.Fatal(err)
		}
		if text(t, s) != text(t, c) {
			rt.Fatalf("snapshot\n of %s\ngave %s", text(t, s), text(t, c))
		}
		return c
	}
	rapid.Check(t, func(rt *rapid.T) {
		base := typ.New()
		for range rapid.IntRange(1, 3).Draw(rt, "steps") {
			before := text(t, base)
			var cs, logged []any
			for range rapid.IntRange(1, 3).Draw(rt, "tasks") {
				fork := typ.Fork(base)
				task(rt)(fork.(*sample))
				c, err := typ.Changes(base, fork, nil)
				if err != nil {
					rt.Fatal(err)
				}
				// A lone task's own view is what is committed.
				if alone, _, err := typ.Fold(clone(rt, base), []any{c}, core.Given); err != nil || text(t, alone) != text(t, fork) {
					rt.Fatalf("own view %s, committed %s, %v", text(t, fork), text(t, alone), err)
				}
				data, err := typ.Encode(c)
				if err != nil {
					rt.Fatal(err)
				}
				d, err := typ.Decode(data, nil)
				if err != nil {
					rt.Fatal(err)
				}
				again, err := typ.Encode(d)
				if err != nil || string(again) != string(data) {
					rt.Fatalf("%s came back as %s, %v", data, again, err)
				}
				cs, logged = append(cs, c), append(logged, d)
			}
			if text(t, base) != before {
				rt.Fatalf("tasks changed the base from %s to %s", before, text(t, base))
			}
			single, replayed := clone(rt, base), clone(rt, base)
			next, _, err := typ.Fold(base, cs, core.Committed)
			_, _, rerr := typ.Fold(replayed, logged, core.Committed)
			if (err == nil) != (rerr == nil) {
				rt.Fatalf("live %v, replayed %v", err, rerr)
			}
			if err != nil {
				if text(t, base) != before {
					rt.Fatalf("a failed fold changed the base from %s to %s", before, text(t, base))
				}
				continue
			}
			if replayed, _, err = typ.Fold(clone(rt, single), logged, core.Committed); err != nil {
				rt.Fatal(err)
			}
			for _, c := range cs {
				if single, _, err = typ.Fold(single, []any{c}, core.Written); err != nil {
					rt.Fatal(err)
				}
			}
			if single, _, err = typ.Fold(single, nil, core.Committed); err != nil {
				rt.Fatal(err)
			}
			if a, b, c := text(t, next), text(t, single), text(t, replayed); a != b || a != c {
				rt.Fatalf("at once  %s\none by one %s\nreplayed %s", a, b, c)
			}
			base = next
		}
	})
}

func TestSchema(t *testing.T) {
	typ := typeOf[sample](t)
	for _, input := range []bool{false, true} {
		s, err := typ.Schema(input)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		valid := func(doc string) error {
			var v any
			if err := json.Unmarshal([]byte(doc), &v); err != nil {
				t.Fatal(err)
			}
			return r.Validate(v)
		}
		good, bad := []string{goldenState, text(t, sample{})}, []string{`{"topic":1}`, `{}`, goldenUpdate}
		if input {
			good = []string{goldenUpdate, `{}`, `{"Scores":{"$delete":["a"],"b":1},"Tags":{"$remove":["x"]},"jokes":{"$overwrite":[]}}`}
			bad = []string{`{"topik":"x"}`, `{"jokes":{"x":[]}}`, `{"jokes":[1]}`, `{"Score":"x"}`}
		}
		for _, doc := range good {
			if err := valid(doc); err != nil {
				t.Errorf("input %v: %s: %v", input, doc, err)
			}
		}
		for _, doc := range bad {
			if valid(doc) == nil {
				t.Errorf("input %v: %s is valid", input, doc)
			}
		}
	}
}

func FuzzUpdate(f *testing.F) {
	typ, _ := state.Of[sample]()
	for _, seed := range []string{goldenUpdate, goldenState, `{}`, `null`, `{"Scores":{"$delete":[1]}}`, `{"Best":{"$updates":null}}`, `{"Hits":{"$updates":{"k":[null]}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s sample
		s.Jokes.Add("a")
		before := text(t, s)
		if err := typ.Update(&s, data); err != nil && text(t, s) != before {
			t.Errorf("refused with %v, but changed to %s", err, text(t, s))
		}
		if c, err := typ.Decode(data, nil); err == nil {
			first, err := typ.Encode(c)
			if err != nil {
				return
			}
			d, err := typ.Decode(first, nil)
			if err != nil {
				t.Fatalf("%s: %v", first, err)
			}
			if second, err := typ.Encode(d); err != nil || string(first) != string(second) {
				t.Errorf("%s came back as %s, %v", first, second, err)
			}
			if _, _, err := typ.Fold(typ.New(), []any{c, d}, core.Committed); err != nil {
				var fe *core.FoldError
				if !errors.As(err, &fe) {
					t.Error(err)
				}
			}
		}
		if s, err := typ.Restore(nil, data); err == nil {
			if _, err := typ.Snapshot(s, true); err != nil {
				var fe interface{ Unwrap() error }
				if !errors.As(err, &fe) {
					t.Error(err)
				}
			}
		}
	})
}

func TestATagThatIsNoDescriptionIsRefused(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[struct {
			A int `jsonschema:""`
		}](),
		reflect.TypeFor[struct {
			A int `jsonschema:"required=true,how many"`
		}](),
	} {
		if s, err := goschema.Of(typ, goschema.Answer); err == nil || s != nil || !strings.Contains(err.Error(), `"A"`) {
			t.Errorf("%v: %v, %v", typ, s, err)
		}
	}
}

func TestASchemaHasFieldsInTheirOrder(t *testing.T) {
	s, err := goschema.Of(reflect.TypeFor[[]struct{ B, A, C int }](), goschema.Answer)
	data, merr := json.Marshal(s)
	if err = errors.Join(err, merr); err != nil || !strings.Contains(string(data), `"properties":{"B"`) {
		t.Errorf("%s, %v", data, err)
	}
}
