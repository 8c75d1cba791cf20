package memorytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/memory"
)

func testItems(t *testing.T, open Opener, _ Options) {
	t.Run("an item is there until it is deleted, and keeps when it was created", func(t *testing.T) {
		c := newClock()
		s := open(t, memory.Config{Now: c.Now})
		user := ns("users", "ann")
		missing(t, s, user, "k")

		first := put(t, s, user, "k", object(`{"n": 1}`))
		want := memory.Item{Namespace: user, Key: "k", Value: object(`{"n":1}`), CreatedAt: c.stamp(), UpdatedAt: c.stamp(), Version: first.Version}
		sameItem(t, first, want)
		sameItem(t, get(t, s, user, "k"), want)
		if first.Version <= 0 {
			t.Fatalf("version %d", first.Version)
		}

		c.advance(time.Second)
		second := put(t, s, user, "k", object(`{"m": 2}`))
		want.Value, want.UpdatedAt, want.Version = object(`{"m":2}`), c.stamp(), second.Version
		sameItem(t, second, want)
		sameItem(t, get(t, s, user, "k"), want)
		if second.Version == first.Version {
			t.Fatal("the version is the same")
		}

		for range 2 { // what isn't there is no error
			if err := s.Delete(t.Context(), user, "k"); err != nil {
				t.Fatal(err)
			}
			missing(t, s, user, "k")
		}

		c.advance(time.Second)
		third := put(t, s, user, "k", object(`{}`))
		if !third.CreatedAt.Equal(c.stamp()) || third.Version == first.Version || third.Version == second.Version {
			t.Fatalf("the new item is like the old one: %+v", third)
		}
	})

	t.Run("items with other keys or namespaces are other items", func(t *testing.T) {
		s := open(t, memory.Config{})
		places := []struct {
			ns  []string
			key string
		}{{ns("a"), "k"}, {ns("a"), "K"}, {ns("A"), "k"}, {ns("a", "k"), "k"}, {ns("a"), "a.k"}, {ns("a", "b"), "k"}, {ns("ä"), "%"}, {ns("ä"), "_"}, {ns("*"), "*"}, {ns("a b"), " "}}
		for i, p := range places {
			put(t, s, p.ns, p.key, object(`{"n":%d}`, i))
		}
		for i, p := range places {
			sameJSON(t, get(t, s, p.ns, p.key).Value, object(`{"n":%d}`, i))
		}
		if err := s.Delete(t.Context(), ns("a"), "k"); err != nil {
			t.Fatal(err)
		}
		missing(t, s, ns("a"), "k")
		if n := len(search(t, s, nil, memory.Query{Limit: memory.Unlimited})); n != len(places)-1 {
			t.Fatalf("%d items are left", n)
		}
	})

	t.Run("who changes what was given or returned changes no item", func(t *testing.T) {
		s := open(t, memory.Config{})
		user, value := ns("users", "ann"), object(`{"n":1}`)
		item := put(t, s, user, "k", value)
		copy(value, `{"n":2}`)
		copy(item.Value, `{"n":3}`)
		user[1], item.Namespace[0] = "bob", "x"
		got := get(t, s, ns("users", "ann"), "k")
		copy(got.Value, `{"n":4}`)
		got.Namespace[0] = "x"
		for _, found := range search(t, s, nil, memory.Query{}) {
			copy(found.Value, `{"n":5}`)
			found.Namespace[0] = "x"
		}
		got = get(t, s, ns("users", "ann"), "k")
		sameJSON(t, got.Value, object(`{"n":1}`))
		if got.Namespace[0] != "users" {
			t.Fatal(got.Namespace)
		}
	})

	t.Run("without a clock times are those of now", func(t *testing.T) {
		s := open(t, memory.Config{})
		a := put(t, s, ns("a"), "k", object(`{}`))
		if a.CreatedAt.IsZero() || a.CreatedAt != a.UpdatedAt || a.CreatedAt.Location() != time.UTC || !a.ExpiresAt.IsZero() {
			t.Fatalf("%+v", a)
		}
		sameItem(t, get(t, s, ns("a"), "k"), a)
		b := put(t, s, ns("a"), "k", object(`{}`), memory.PutOptions{TTL: time.Hour})
		if b.CreatedAt != a.CreatedAt || b.UpdatedAt.Before(a.UpdatedAt) || b.ExpiresAt.Sub(b.UpdatedAt) != time.Hour {
			t.Fatalf("%+v after %+v", b, a)
		}
		sameItem(t, get(t, s, ns("a"), "k"), b)
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		sameItem(t, get(t, s, ns("a"), "k", memory.GetOptions{Refresh: memory.RefreshNever}), b)
		if r := get(t, s, ns("a"), "k", memory.GetOptions{Refresh: memory.RefreshAlways}); r.ExpiresAt.Before(b.ExpiresAt) {
			t.Fatalf("%+v", r)
		}
	})
}

func testArguments(t *testing.T, open Opener, _ Options) {
	s := open(t, memory.Config{})
	ctx := t.Context()
	ok := object(`{}`)
	_, putErr := s.Put(ctx, ns("a"), "k", ok)
	if putErr != nil {
		t.Fatal(putErr)
	}
	put := func(namespace []string, key string, value string, o ...memory.PutOptions) error {
		_, err := s.Put(ctx, namespace, key, json.RawMessage(value), o...)
		return err
	}
	find := func(prefix []string, q memory.Query) error {
		_, err := s.Search(ctx, prefix, q)
		return err
	}
	list := func(q memory.NamespaceQuery) error {
		_, err := s.Namespaces(ctx, q)
		return err
	}
	read := func(namespace []string, key string, o ...memory.GetOptions) error {
		_, err := s.Get(ctx, namespace, key, o...)
		return err
	}
	long := strings.Repeat("x", memory.MaxKey+1)
	for _, c := range []struct {
		name string
		err  error
		kind error
	}{
		{"a put without a namespace", put(nil, "k", `{}`), memory.ErrEmptyNamespace},
		{"a get without a namespace", read(ns(), "k"), memory.ErrEmptyNamespace},
		{"a delete without a namespace", s.Delete(ctx, nil, "k"), memory.ErrEmptyNamespace},
		{"an exact search without a namespace", find(nil, memory.Query{Exact: true}), memory.ErrEmptyNamespace},
		{"an empty label", put(ns("a", ""), "k", `{}`), memory.ErrLabel},
		{"a label with a point", put(ns("a", "b.c"), "k", `{}`), memory.ErrLabel},
		{"a label with a zero byte", put(ns("a\x00"), "k", `{}`), memory.ErrLabel},
		{"a label that isn't UTF-8", put(ns("a\xff"), "k", `{}`), memory.ErrLabel},
		{"a namespace that is too long", put(ns("a", long), "k", `{}`), memory.ErrLabel},
		{"a label with a point in a get", read(ns("a.b"), "k"), memory.ErrLabel},
		{"an empty label in a delete", s.Delete(ctx, ns(""), "k"), memory.ErrLabel},
		{"an empty label in a search", find(ns(""), memory.Query{}), memory.ErrLabel},
		{"a label with a point in a search", find(ns("a.b"), memory.Query{}), memory.ErrLabel},
		{"an empty label in a listing", list(memory.NamespaceQuery{Prefix: ns("")}), memory.ErrLabel},
		{"a label with a point in a listing", list(memory.NamespaceQuery{Suffix: ns("a.b")}), memory.ErrLabel},
		{"an empty key", put(ns("a"), "", `{}`), memory.ErrKey},
		{"a key that is too long", put(ns("a"), long, `{}`), memory.ErrKey},
		{"a key with a zero byte", put(ns("a"), "\x00", `{}`), memory.ErrKey},
		{"a key that isn't UTF-8", read(ns("a"), "\xff"), memory.ErrKey},
		{"an empty key in a delete", s.Delete(ctx, ns("a"), ""), memory.ErrKey},
		{"no value", put(ns("a"), "k", ``), memory.ErrValue},
		{"a value that isn't JSON", put(ns("a"), "k", `{"a":}`), memory.ErrValue},
		{"two values", put(ns("a"), "k", `{} {}`), memory.ErrValue},
		{"a list", put(ns("a"), "k", `[]`), memory.ErrValue},
		{"a text", put(ns("a"), "k", `"{}"`), memory.ErrValue},
		{"null", put(ns("a"), "k", `null`), memory.ErrValue},
		{"a value with a zero character", put(ns("a"), "k", `{"a":"\u0000"}`), memory.ErrValue},
		{"a value that isn't UTF-8", put(ns("a"), "k", "{\"a\":\"\xff\"}"), memory.ErrValue},
		{"half a surrogate pair", put(ns("a"), "k", `{"a":"\ud83d x"}`), memory.ErrValue},
		{"the other half", put(ns("a"), "k", `{"\ude00":1}`), memory.ErrValue},
		{"two first halves", put(ns("a"), "k", `{"a":"\ud83d\ud83d"}`), memory.ErrValue},
		{"a number that is too big", put(ns("a"), "k", `{"a":1e400}`), memory.ErrValue},
		{"a number that is too small", put(ns("a"), "k", `{"a":[-1e-400]}`), memory.ErrValue},
		{"a number of too many digits", put(ns("a"), "k", `{"a":0.`+strings.Repeat("1", 1000)+`}`), memory.ErrValue},
		{"a mantissa of too many digits", put(ns("a"), "k", `{"a":1.`+strings.Repeat("1", 400)+`e-5}`), memory.ErrValue},
		{"a value that is too deep", put(ns("a"), "k", `{"a":`+strings.Repeat("[", memory.MaxDepth)+strings.Repeat("]", memory.MaxDepth)+`}`), memory.ErrValue},
		{"a value that is deeper still", put(ns("a"), "k", strings.Repeat(`{"a":`, 9000)+"1"+strings.Repeat("}", 9000)), memory.ErrValue},
		{"a negative TTL", put(ns("a"), "k", `{}`, memory.PutOptions{TTL: -time.Second}), memory.ErrOption},
		{"a negative version", put(ns("a"), "k", `{}`, memory.PutOptions{IfVersion: -1}), memory.ErrOption},
		{"two conditions", put(ns("a"), "k", `{}`, memory.PutOptions{IfVersion: 1, IfAbsent: true}), memory.ErrOption},
		{"fields and no index", put(ns("a"), "k", `{}`, memory.PutOptions{Fields: ns("a"), NoIndex: true}), memory.ErrOption},
		{"options twice", put(ns("a"), "k", `{}`, memory.PutOptions{}, memory.PutOptions{}), memory.ErrOption},
		{"an unknown refresh", read(ns("a"), "k", memory.GetOptions{Refresh: 7}), memory.ErrOption},
		{"an unknown refresh of a search", find(nil, memory.Query{Refresh: -1}), memory.ErrOption},
		{"a negative version in a delete", s.Delete(ctx, ns("a"), "k", memory.DeleteOptions{IfVersion: -1}), memory.ErrOption},
		{"a negative limit", find(nil, memory.Query{Limit: -2}), memory.ErrOption},
		{"a negative offset", find(nil, memory.Query{Offset: -1}), memory.ErrOption},
		{"a negative limit of a listing", list(memory.NamespaceQuery{Limit: -2}), memory.ErrOption},
		{"a negative depth", list(memory.NamespaceQuery{MaxDepth: -1}), memory.ErrOption},
		{"an unknown operator", find(nil, memory.Query{Filter: memory.Filter{{Field: "a", Op: "$in", Value: object(`1`)}}}), memory.ErrFilter},
		{"a filter without a field", find(nil, memory.Query{Filter: memory.Filter{memory.Eq("", 1)}}), memory.ErrFilter},
		{"a filter of a value without JSON", find(nil, memory.Query{Filter: memory.Filter{memory.Eq("a", func() {})}}), memory.ErrFilter},
		{"a filter of a value that is too deep", find(nil, memory.Query{Filter: memory.Filter{{Field: "a", Op: memory.OpNe, Value: json.RawMessage(strings.Repeat("[", 9000) + strings.Repeat("]", 9000))}}}), memory.ErrFilter},
		{"a filter of a field that is too deep", find(nil, memory.Query{Filter: memory.Filter{memory.Ne("a"+strings.Repeat(".a", 9000), 1)}}), memory.ErrFilter},
		{"a filter with a space that JSON hasn't", find(nil, memory.Query{Filter: memory.Filter{{Field: "a", Op: memory.OpNe, Value: object("\u00a05\u2003")}}}), memory.ErrFilter},
		{"fields without an index", put(ns("a"), "k", `{}`, memory.PutOptions{Fields: ns("a")}), memory.ErrNoIndex},
		{"a text without an index", find(nil, memory.Query{Text: "x"}), memory.ErrNoIndex},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !errors.Is(c.err, c.kind) {
				t.Fatalf("got error %v, want %v", c.err, c.kind)
			}
			if _, ok := errors.AsType[*memory.InvalidError](c.err); c.kind != memory.ErrNoIndex && (!ok || !errors.Is(c.err, memory.ErrInvalid)) {
				t.Fatalf("%T is no InvalidError", c.err)
			}
		})
	}
	wantKeys(t, search(t, s, nil, memory.Query{}), "k")
}

func testValues(t *testing.T, open Opener, _ Options) {
	s := open(t, memory.Config{})
	for i, v := range []string{
		`{}`, " \n{ \"a\" : [ 1 , 2 ] }\t", `{"a":{"b":{"c":[{"d":null}]}},"e":true}`, `{"":""," ":" ","a.b":1,"$x":2,"ключ":"значение"}`,
		`{"a":"\ud83d\ude00 \u0001 \u2028 \" \\ \/ \b\f\n\r\t \\u0000"}`, `{"a":"😀' ; -- %s $1 ?"}`,
		`{"a":9007199254740993,"b":-123456789012345678901234567890,"c":0.1000000000000000055511151231257827}`,
		`{"l":"` + strings.Repeat("long ", 100_000) + `"}`, `{"a":` + strings.Repeat("[", memory.MaxDepth-1) + strings.Repeat("]", memory.MaxDepth-1) + `}`,
		`{"a":"[[{{[[","b":[` + strings.Repeat(`{"a":[]},`, 2*memory.MaxDepth) + `1]}`, // wide, not deep
	} {
		key := fmt.Sprint(i)
		item := put(t, s, ns("v"), key, json.RawMessage(v))
		sameJSON(t, item.Value, json.RawMessage(v))
		sameJSON(t, get(t, s, ns("v"), key).Value, json.RawMessage(v))
	}
	t.Run("what a store returns can be put again", func(t *testing.T) {
		raw := object(`{"big":1.%se308,"small":1.%se-307,"long":0.%s}`, strings.Repeat("7", 398), strings.Repeat("3", 398), strings.Repeat("1", 998))
		put(t, s, ns("again"), "k", raw)
		put(t, s, ns("again"), "k", get(t, s, ns("again"), "k").Value)
	})
	deepest := memory.Filter{{Field: "a" + strings.Repeat(".a", memory.MaxDepth-1), Op: memory.OpGt, Value: object(`0`)}}
	put(t, s, ns("deep"), "k", json.RawMessage(strings.Repeat(`{"a":`, memory.MaxDepth)+"1"+strings.Repeat("}", memory.MaxDepth)))
	wantKeys(t, search(t, s, ns("deep"), memory.Query{Filter: deepest}), "k")
	for _, v := range []string{`1e308`, `-1.5E-300`, `-0`, `0e99999`, `1.0`, `0.000`, `12345678901234567890.5`} {
		put(t, s, ns("n"), v, object(`{"n":%s}`, v))
		wantKeys(t, search(t, s, ns("n"), memory.Query{Filter: memory.Filter{{Field: "n", Op: memory.OpEq, Value: json.RawMessage(v)}}, Limit: 1}), v)
	}
}

func testContexts(t *testing.T, open Opener, _ Options) {
	s := open(t, memory.Config{Index: &memory.Index{Embedder: coordinates, Fields: ns("at")}})
	put(t, s, ns("a"), "k", object(`{"at":"1 0"}`))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(s) {
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got error %v, want that the context is cancelled", name, err)
		}
	}
	get(t, s, ns("a"), "k")
	missing(t, s, ns("a"), "new")
}

// Whatever moment a call ends at, it leaves no transaction open.
func testCutShort(t *testing.T, open Opener, o Options) {
	c := memory.Config{Index: &memory.Index{Embedder: coordinates, Fields: ns("at")}, TTL: time.Hour}
	s := open(t, c)
	other := s
	if o.Another != nil {
		other = closeLater(t, o.Another(t, s, c))
	}
	n := 50
	if testing.Short() {
		n = 10
	}
	put(t, s, ns("a"), "k", object(`{"at":"1 0"}`))
	for i := range n {
		all := calls(s)
		all["Search by text"] = func(ctx context.Context) error {
			_, err := s.Search(ctx, nil, memory.Query{Text: "1 0", Refresh: memory.RefreshAlways})
			return err
		}
		for name, call := range all {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*500/n)*time.Microsecond)
			err := call(ctx)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, memory.ErrNotFound) {
				t.Fatalf("round %d: %s: %v", i, name, err)
			}
		}
		put(t, other, ns("a"), "k", object(`{"at":"1 0","n":%d}`, i))
		wantKeys(t, search(t, s, nil, memory.Query{Text: "1 0"}), "k")
	}
}

// calls are those of every method but Close.
func calls(s memory.Store) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Delete": func(ctx context.Context) error { return s.Delete(ctx, ns("a"), "k") },
		"Get": func(ctx context.Context) error {
			_, err := s.Get(ctx, ns("a"), "k")
			return err
		},
		"Get and refresh": func(ctx context.Context) error {
			_, err := s.Get(ctx, ns("a"), "k", memory.GetOptions{Refresh: memory.RefreshAlways})
			return err
		},
		"Put": func(ctx context.Context) error {
			_, err := s.Put(ctx, ns("a"), "new", object(`{}`))
			return err
		},
		"Search": func(ctx context.Context) error {
			_, err := s.Search(ctx, nil, memory.Query{})
			return err
		},
		"Search and refresh": func(ctx context.Context) error {
			_, err := s.Search(ctx, nil, memory.Query{Refresh: memory.RefreshAlways})
			return err
		},
		"Namespaces": func(ctx context.Context) error {
			_, err := s.Namespaces(ctx, memory.NamespaceQuery{})
			return err
		},
		"Sweep": func(ctx context.Context) error {
			_, err := s.Sweep(ctx)
			return err
		},
	}
}

func testClosing(t *testing.T, open Opener, _ Options) {
	s := open(t, memory.Config{})
	put(t, s, ns("a"), "k", object(`{}`))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	all := calls(s)
	all["Close"] = func(context.Context) error { return s.Close() }
	for name, call := range all {
		if err := call(t.Context()); !errors.Is(err, memory.ErrClosed) {
			t.Errorf("%s: got error %v, want that the store is closed", name, err)
		}
	}
}

func testPersistence(t *testing.T, open Opener, o Options) {
	c := newClock()
	config := memory.Config{Now: c.Now, Index: &memory.Index{Embedder: coordinates, Fields: ns("at")}}
	if o.Reopen == nil {
		t.Log("nothing outlives this store")
	} else {
		t.Run("all is there when the store is opened again", func(t *testing.T) {
			s := open(t, config)
			a := put(t, s, ns("a", "b"), "k", object(`{"at":"1 0","n":1}`), memory.PutOptions{TTL: time.Hour})
			b := put(t, s, ns("a"), "l", object(`{"at":"0 1"}`))
			s = closeLater(t, o.Reopen(t, s, config))
			sameItem(t, get(t, s, ns("a", "b"), "k"), a)
			sameItem(t, get(t, s, ns("a"), "l"), b)
			wantKeys(t, search(t, s, nil, memory.Query{Text: "2 1"}), "k l")
			if next := put(t, s, ns("a"), "m", object(`{}`)); next.Version == a.Version || next.Version == b.Version {
				t.Fatalf("version %d again", next.Version)
			}
			if err := s.Delete(t.Context(), ns("a"), "m"); err != nil {
				t.Fatal(err)
			}
			s = closeLater(t, o.Reopen(t, s, config))
			wantKeys(t, search(t, s, nil, memory.Query{}), "l k")
			c.advance(2 * time.Hour)
			wantKeys(t, search(t, s, nil, memory.Query{}), "l")
		})
		t.Run("vectors of another index are not compared", func(t *testing.T) {
			s := open(t, config)
			put(t, s, ns("a"), "old", object(`{"at":"1 0"}`))
			other := config
			other.Index = &memory.Index{Embedder: coordinates, Fields: ns("at"), Name: "newer"}
			s = closeLater(t, o.Reopen(t, s, other))
			put(t, s, ns("a"), "new", object(`{"at":"1 0"}`))
			wantKeys(t, search(t, s, nil, memory.Query{Text: "1 0"}), "new")
			put(t, s, ns("a"), "old", object(`{"at":"1 0"}`))
			wantKeys(t, search(t, s, nil, memory.Query{Text: "1 0"}), "old new")

			other.Index = &memory.Index{Embedder: memory.HashEmbedder(3), Name: "newer"}
			s = closeLater(t, o.Reopen(t, s, other))
			wantKeys(t, search(t, s, nil, memory.Query{Text: "1 0"}), "")
			put(t, s, ns("a"), "long", object(`{"at":"1 0"}`))
			wantKeys(t, search(t, s, nil, memory.Query{Text: "1 0"}), "long")

			s = closeLater(t, o.Reopen(t, s, memory.Config{Now: c.Now}))
			put(t, s, ns("a"), "new", object(`{"at":"1 0"}`)) // without vectors
			s = closeLater(t, o.Reopen(t, s, config))
			wantKeys(t, search(t, s, nil, memory.Query{Text: "1 0"}), "")
		})
	}
	if o.Another != nil {
		t.Run("a second store sees what the first one wrote at once", func(t *testing.T) {
			s := open(t, config)
			other := closeLater(t, o.Another(t, s, config))
			a := put(t, s, ns("a"), "k", object(`{"n":1}`))
			sameItem(t, get(t, other, ns("a"), "k"), a)
			b, err := other.Put(t.Context(), ns("a"), "k", object(`{"n":2}`), memory.PutOptions{IfVersion: a.Version})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Put(t.Context(), ns("a"), "k", object(`{"n":3}`), memory.PutOptions{IfVersion: a.Version})
			wantConflict(t, err, a.Version, b.Version)
			if err := s.Delete(t.Context(), ns("a"), "k"); err != nil {
				t.Fatal(err)
			}
			missing(t, other, ns("a"), "k")
		})
	}
}
