// Package memorytest is the test suite that every [memory.Store] passes.
//
// A back end calls [Run] from a test of its own:
//
//	func TestStore(t *testing.T) {
//		memorytest.Run(t, func(t *testing.T, c memory.Config) memory.Store {
//			s, err := mystore.Open(t.TempDir(), c)
//			if err != nil {
//				t.Fatal(err)
//			}
//			return s
//		})
//	}
//
// No test depends on how fast anything is: the stores get a clock that the test
// moves.
package memorytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/model"
)

// Options says what else the suite may do with a store. All are optional.
type Options struct {
	// Reopen closes s and opens what it stored again. Nil means that nothing
	// outlives the store.
	Reopen func(t *testing.T, s memory.Store, c memory.Config) memory.Store

	// Another opens a second store on the same data as s, as another process
	// would.
	Another func(t *testing.T, s memory.Store, c memory.Config) memory.Store

	// ManyItems is how many items the test with many of them puts; 0 means
	// 10,000, or 500 with -short.
	ManyItems int
}

// Opener returns a new, empty store. The suite closes it.
type Opener = func(t *testing.T, c memory.Config) memory.Store

// Run runs the whole suite. Each test gets a store of its own from open.
func Run(t *testing.T, open Opener, opts ...Options) {
	t.Helper()
	var o Options
	switch len(opts) {
	case 0:
	case 1:
		o = opts[0]
	default:
		t.Fatal("memorytest.Run takes at most one Options")
	}
	fresh := func(t *testing.T, c memory.Config) memory.Store {
		t.Helper()
		return closeLater(t, open(t, c))
	}
	for _, topic := range []struct {
		name string
		run  func(t *testing.T, open Opener, o Options)
	}{
		{"Items", testItems},
		{"Arguments", testArguments},
		{"Values", testValues},
		{"Conditions", testConditions},
		{"Races", testRaces},
		{"TTL", testTTL},
		{"Searches", testSearches},
		{"Filters", testFilters},
		{"Namespaces", testNamespaces},
		{"Vectors", testVectors},
		{"Contexts", testContexts},
		{"CutShort", testCutShort},
		{"Closing", testClosing},
		{"Persistence", testPersistence},
		{"ManyItems", testManyItems},
		{"Model", testModel},
	} {
		t.Run(topic.name, func(t *testing.T) { topic.run(t, fresh, o) })
	}
}

// closeLater closes s at the end of the test, unless the test did.
func closeLater(t *testing.T, s memory.Store) memory.Store {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, memory.ErrClosed) {
			t.Errorf("closing the store: %v", err)
		}
	})
	return s
}

// clock is one that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// stamp is the time that an item gets now.
func (c *clock) stamp() time.Time { return c.Now().Truncate(time.Microsecond) }

func ns(labels ...string) []string { return labels }

func object(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}

func put(t testing.TB, s memory.Store, namespace []string, key string, value json.RawMessage, opts ...memory.PutOptions) memory.Item {
	t.Helper()
	item, err := s.Put(t.Context(), namespace, key, value, opts...)
	if err != nil {
		t.Fatalf("put %v %q: %v", namespace, key, err)
	}
	return item
}

func get(t testing.TB, s memory.Store, namespace []string, key string, opts ...memory.GetOptions) memory.Item {
	t.Helper()
	item, err := s.Get(t.Context(), namespace, key, opts...)
	if err != nil {
		t.Fatalf("get %v %q: %v", namespace, key, err)
	}
	return item
}

func search(t testing.TB, s memory.Store, prefix []string, q memory.Query) []memory.Item {
	t.Helper()
	items, err := s.Search(t.Context(), prefix, q)
	if err != nil {
		t.Fatalf("search %v %+v: %v", prefix, q, err)
	}
	return items
}

// keys is what a search found, as one text.
func keys(items []memory.Item) string {
	var out []string
	for _, i := range items {
		out = append(out, i.Key)
	}
	return strings.Join(out, " ")
}

func wantKeys(t testing.TB, items []memory.Item, want string) {
	t.Helper()
	if got := keys(items); got != want {
		t.Fatalf("found %q, want %q", got, want)
	}
}

func missing(t testing.TB, s memory.Store, namespace []string, key string) {
	t.Helper()
	_, err := s.Get(t.Context(), namespace, key)
	e, ok := errors.AsType[*memory.NotFoundError](err)
	if !ok || !errors.Is(err, memory.ErrNotFound) || e.Key != key || !reflect.DeepEqual(e.Namespace, namespace) {
		t.Fatalf("got error %v, want that %q isn't found", err, key)
	}
}

func wantConflict(t testing.TB, err error, want, have int64) {
	t.Helper()
	e, ok := errors.AsType[*memory.ConflictError](err)
	if !ok || !errors.Is(err, memory.ErrConflict) {
		t.Fatalf("got error %v, want a conflict", err)
	}
	if e.Want != want || e.Have != have {
		t.Fatalf("got %+v, want versions %d and %d", e, want, have)
	}
}

// tb is what tests and property tests have in common.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// sameJSON compares JSON, with the digits of numbers.
func sameJSON(t tb, got, want json.RawMessage) {
	t.Helper()
	if !reflect.DeepEqual(decode(t, got), decode(t, want)) {
		t.Fatalf("got %s, want %s", got, want)
	}
}

func decode(t tb, raw json.RawMessage) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

// sameItem compares items; their values as JSON.
func sameItem(t tb, got, want memory.Item) {
	t.Helper()
	sameJSON(t, got.Value, want.Value)
	got.Value, want.Value = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

// coordinates is an embedder whose texts are the vectors: "1 0.5".
var coordinates = model.EmbedFunc(2, func(ctx context.Context, texts []string) ([][]float32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var out [][]float32
	for _, text := range texts {
		var v []float32
		for f := range strings.FieldsSeq(text) {
			x, err := strconv.ParseFloat(f, 32)
			if err != nil {
				return nil, err
			}
			v = append(v, float32(x))
		}
		out = append(out, v)
	}
	return out, nil
})
