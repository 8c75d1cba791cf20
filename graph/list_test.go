package graph_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/graph"
)

func TestList(t *testing.T) {
	var l graph.List[int]
	if l.Len() != 0 || l.Last() != 0 || l.Slice() != nil || fieldJSON(t, l) != "[]" || !l.IsZero() {
		t.Error("zero value")
	}
	commitField(t, &l, func(l *graph.List[int]) {
		args := []int{1, 2}
		l.Add(args...)
		args[0] = 9
		l.Add(3)
	})
	commitField(t, &l, func(l *graph.List[int]) {
		l.Add(4)
		if l.Len() != 4 || l.At(2) != 3 || l.At(3) != 4 || l.Last() != 4 {
			t.Error("own write")
		}
	})
	if fieldJSON(t, l) != "[1,2,3,4]" || l.String() != "[1 2 3 4]" || !slices.Equal(l.Slice(), []int{1, 2, 3, 4}) {
		t.Errorf("got %v", l)
	}
	var seen []int
	for i, v := range l.All() {
		if i == 3 {
			break
		}
		l.Add(v) // an iteration doesn't see it
		seen = append(seen, i, v)
	}
	if !slices.Equal(seen, []int{0, 1, 1, 2, 2, 3}) {
		t.Errorf("saw %v", seen)
	}
	commitField(t, &l, func(l *graph.List[int]) { l.Overwrite(5); l.Add(6) })
	if fieldJSON(t, l) != "[5,6]" {
		t.Errorf("got %v", l)
	}
	fork := forkField(&l)
	fork.Overwrite(7)
	if c := changeOf(t, fork); fieldJSON(t, c) != `{"$overwrite":[7]}` || !l.Merger().(field.Growing).Resets(c) {
		t.Error("overwrite")
	}
	commitField(t, &l, func(l *graph.List[int]) { l.Overwrite() })
	if l.Len() != 0 {
		t.Errorf("got %v", l)
	}
}

func TestListAtPanics(t *testing.T) {
	for _, i := range []int{-1, 1} {
		func() {
			defer func() {
				if got, want := fmt.Sprint(recover()), fmt.Sprintf("graph: List index %d out of range with length 1", i); got != want {
					t.Errorf("got %s", got)
				}
			}()
			var l graph.List[int]
			l.Add(1)
			l.At(i)
		}()
	}
}

// Copies are as independent as copies of a slice's content, whichever is written
// to, in whatever order.
func TestListCopies(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lists := make([]graph.List[int], 1)
		models := [][]int{slices.Repeat([]int{-1}, rapid.IntRange(0, 100).Draw(rt, "length"))}
		lists[0].Add(models[0]...)
		lists[0].Merger().Bind()
		for n := range rapid.IntRange(1, 40).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(lists)-1).Draw(rt, "which")
			l := lists[i]
			model := slices.Clone(models[i])
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				l.Add(n)
				model = append(model, n)
			case 1:
				l.Merger().Bind()
			case 2:
				l.Overwrite(n)
				model = []int{n}
			case 3:
				more := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 12).Draw(rt, "more")
				data, err := json.Marshal(more)
				if err != nil {
					rt.Fatal(err)
				}
				c, err := l.Merger().DecodeChange(data)
				if err == nil {
					err = l.Merger().Apply(c)
				}
				if err != nil {
					rt.Fatal(err)
				}
				model = append(model, more...)
			}
			lists, models = append(lists, l), append(models, model)
		}
		for i := range lists {
			l, n := &lists[i], 0
			for at, v := range l.All() {
				if at != n || v != models[i][n] || l.At(n) != v {
					rt.Fatalf("copy %d has %d (%d) at %d, want %d", i, v, l.At(n), at, models[i][n])
				}
				n++
			}
			if !slices.Equal(l.Slice(), models[i]) || l.Len() != len(models[i]) || l.String() != fmt.Sprint(models[i]) {
				rt.Fatalf("copy %d is %v, want %v", i, l.Slice(), models[i])
			}
		}
	})
}

// Readers of old copies are not disturbed by appending to the newest. Run with
// -race.
func TestListConcurrentCopies(t *testing.T) {
	var base graph.List[int]
	var wg sync.WaitGroup
	for n := range 200 {
		c := base
		wg.Go(func() {
			c.Merger().Bind()
			c.Add(-1)
			sum := 0
			for _, v := range c.All() {
				sum += v
			}
			if want := n*(n-1)/2 - 1; sum != want || c.Len() != n+1 {
				t.Errorf("copy of length %d sums up to %d, want %d", c.Len(), sum, want)
			}
		})
		ch, err := base.Merger().DecodeChange(fmt.Append(nil, "[", n, "]"))
		if err == nil {
			err = base.Merger().Apply(ch)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

func FuzzList(f *testing.F) {
	fuzzField[graph.List[string]](f, `["a"]`, `{"$overwrite":["a"]}`)
}

// A list of strings is read as encoding/json reads it.
func TestListReadsStrings(t *testing.T) {
	for _, data := range []string{
		`[]`, `[""]`, `["a"]`, `["a","b c"]`, `["a" , "b"]`, ` ["a"]`, `["\u00e4"]`, `["ä"]`, "[\"\xff\"]", "[\"a\nb\"]", "[\"\x7f\"]", `["a\\"]`, `["a\""]`,
		`["a",]`, `[,"a"]`, `["a"`, `["a]`, `["a""b"]`, `["a",1]`, `[null]`, `null`, `["a"],`, `["a"]]`, `"a"`, `["a",["b"]]`, `["]`, `[`, `]`, `[,]`,
	} {
		var want []string
		werr := json.Unmarshal([]byte(data), &want)
		var l graph.List[string]
		err := l.UnmarshalJSON([]byte(data))
		if (err == nil) != (werr == nil) {
			t.Errorf("%s: %v, want %v", data, err, werr)
			continue
		}
		if err == nil && !slices.Equal(l.Slice(), want) {
			t.Errorf("%s: %q, want %q", data, l.Slice(), want)
		}
	}
}
