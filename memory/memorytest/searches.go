package memorytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/model"
)

func testSearches(t *testing.T, open Opener, _ Options) {
	s := open(t, memory.Config{})
	for i, p := range [][]string{ns("a"), ns("a", "b"), ns("a", "b", "c"), ns("ab"), ns("a-"), ns("a0"), ns("b", "a"), ns("a", "b")} {
		put(t, s, p, fmt.Sprint(i), object(`{"n":%d}`, i))
	}
	put(t, s, ns("a"), "0", object(`{"n":0}`)) // the last one now
	for _, c := range []struct {
		name   string
		prefix []string
		q      memory.Query
		want   string
	}{
		{"all, the last one first", nil, memory.Query{}, "0 7 6 5 4 3 2 1"},
		{"a prefix of whole labels", ns("a"), memory.Query{}, "0 7 2 1"},
		{"a longer prefix", ns("a", "b"), memory.Query{}, "7 2 1"},
		{"a whole namespace", ns("a", "b", "c"), memory.Query{}, "2"},
		{"a prefix that nothing has", ns("a", "c"), memory.Query{}, ""},
		{"exactly a namespace", ns("a"), memory.Query{Exact: true}, "0"},
		{"exactly a longer one", ns("a", "b"), memory.Query{Exact: true}, "7 1"},
		{"the first ones", nil, memory.Query{Limit: 3}, "0 7 6"},
		{"the next ones", nil, memory.Query{Limit: 3, Offset: 3}, "5 4 3"},
		{"the last page", nil, memory.Query{Limit: 3, Offset: 6}, "2 1"},
		{"behind the end", nil, memory.Query{Limit: 3, Offset: 9}, ""},
		{"all but the first", nil, memory.Query{Limit: memory.Unlimited, Offset: 1}, "7 6 5 4 3 2 1"},
		{"pages of what a filter leaves", nil, memory.Query{Filter: memory.Filter{memory.Gt("n", 1)}, Limit: 2, Offset: 1}, "6 5"},
		{"pages of what a filter leaves below a prefix", ns("a"), memory.Query{Filter: memory.Filter{memory.Gt("n", 0)}, Limit: memory.Unlimited, Offset: 1}, "2 1"},
	} {
		t.Run(c.name, func(t *testing.T) { wantKeys(t, search(t, s, c.prefix, c.q), c.want) })
	}
	t.Run("ten if nothing else is said", func(t *testing.T) {
		for i := range 5 {
			put(t, s, ns("z"), fmt.Sprint("z", i), object(`{}`))
		}
		if n := len(search(t, s, nil, memory.Query{})); n != memory.DefaultLimit {
			t.Fatal(n)
		}
	})
	t.Run("what is found is what Get returns", func(t *testing.T) {
		for _, item := range search(t, s, nil, memory.Query{Limit: memory.Unlimited}) {
			sameItem(t, get(t, s, item.Namespace, item.Key), item)
		}
	})
}

func testFilters(t *testing.T, open Opener, _ Options) {
	s := open(t, memory.Config{})
	for key, v := range map[string]string{
		"int":    `{"x":5}`,
		"float":  `{"x":5.5}`,
		"equal":  `{"x":5.0}`,
		"neg":    `{"x":-7}`,
		"big":    `{"x":9007199254740993}`,
		"text":   `{"x":"5"}`,
		"word":   `{"x":"banana"}`,
		"upper":  `{"x":"Banana"}`,
		"uni":    `{"x":"ä"}`,
		"empty":  `{"x":""}`,
		"true":   `{"x":true}`,
		"null":   `{"x":null}`,
		"none":   `{"y":5}`,
		"list":   `{"x":[1,"a",{"b":2.0}]}`,
		"nested": `{"x":{"y":{"z":5}}}`,
		"other":  `{"x":{"y":{"z":"five"},"w":1}}`,
		"obj":    `{"x":{}}`,
		"name":   `{"x.y":5,"x y":6}`,
	} {
		put(t, s, ns("f"), key, json.RawMessage(v))
	}
	const all = "big empty equal float int list name neg nested none null obj other text true uni upper word"
	without := func(names string) string {
		return strings.Join(slices.DeleteFunc(strings.Fields(all), func(k string) bool { return slices.Contains(strings.Fields(names), k) }), " ")
	}
	type object = map[string]any
	for _, c := range []struct {
		json   string
		filter memory.Filter
		want   string
	}{
		{`{}`, nil, all},
		{`{"x":5}`, memory.Filter{memory.Eq("x", 5)}, "equal int"},
		{`{"x":{"$eq":5.00}}`, memory.Filter{memory.Eq("x", 5.0)}, "equal int"},
		{`{"x":50e-1}`, memory.Filter{memory.Eq("x", json.Number("50e-1"))}, "equal int"},
		{`{"x":"5"}`, memory.Filter{memory.Eq("x", "5")}, "text"},
		{`{"x":""}`, memory.Filter{memory.Eq("x", "")}, "empty"},
		{`{"x":true}`, memory.Filter{memory.Eq("x", true)}, "true"},
		{`{"x":false}`, memory.Filter{memory.Eq("x", false)}, ""},
		{`{"x":null}`, memory.Filter{memory.Eq[any]("x", nil)}, "name none null"},
		{`{"x":{"$ne":null}}`, memory.Filter{memory.Ne[any]("x", nil)}, without("name none null")},
		{`{"x":{"$ne":5}}`, memory.Filter{memory.Ne("x", 5)}, without("equal int")},
		{`{"x":{"$ne":"banana"}}`, memory.Filter{memory.Ne("x", "banana")}, without("word")},
		{`{"x":[1.0,"a",{"b":2}]}`, memory.Filter{memory.Eq("x", []any{1, "a", object{"b": 2}})}, "list"},
		{`{"x":[1,"a"]}`, memory.Filter{memory.Eq("x", []any{1, "a"})}, ""},
		{`{"x":{"$eq":{"y":{"z":5}}}}`, memory.Filter{memory.Eq("x", object{"y": object{"z": 5}})}, "nested"},
		{`{"x":{"$eq":{"w":1,"y":{"z":"five"}}}}`, memory.Filter{memory.Eq("x", object{"y": object{"z": "five"}, "w": 1})}, "other"},
		{`{"x":{"$ne":{}}}`, memory.Filter{memory.Ne("x", object{})}, without("obj")},
		{`{"x":{}}`, memory.Filter{memory.Eq("x", object{})}, "obj"},
		{`{"x.y.z":5}`, memory.Filter{memory.Eq("x.y.z", 5)}, "nested"},
		{`{"x":{"y":{"z":5}}}`, memory.Filter{memory.Eq("x.y.z", 5)}, "nested"},
		{`{"x.y":{"z":{"$ne":5}}}`, memory.Filter{memory.Ne("x.y.z", 5)}, without("nested")},
		{`{"x":{"w":1,"y":{"z":"five"}}}`, memory.Filter{memory.Eq("x.w", 1), memory.Eq("x.y.z", "five")}, "other"},
		{`{"x.y":5}`, memory.Filter{memory.Eq("x.y", 5)}, ""},
		{`{"x y":6}`, memory.Filter{memory.Eq("x y", 6)}, "name"},
		{`{"x.0":1}`, memory.Filter{memory.Eq("x.0", 1)}, ""},
		{`{"x.a":"a"}`, memory.Filter{memory.Eq("x.a", "a")}, ""},
		{`{"x":{"$gt":5}}`, memory.Filter{memory.Gt("x", 5)}, "big float"},
		{`{"x":{"$gte":5}}`, memory.Filter{memory.Gte("x", 5)}, "big equal float int"},
		{`{"x":{"$lt":5.25}}`, memory.Filter{memory.Lt("x", 5.25)}, "equal int neg"},
		{`{"x":{"$lte":5}}`, memory.Filter{memory.Lte("x", int8(5))}, "equal int neg"},
		{`{"x":{"$lt":0}}`, memory.Filter{memory.Lt("x", 0)}, "neg"},
		{`{"x":{"$gt":9007199254740992}}`, memory.Filter{memory.Gt("x", 9007199254740992)}, "big"},
		{`{"x":{"$gt":9007199254740992.9}}`, memory.Filter{{Field: "x", Op: memory.OpGt, Value: json.RawMessage(`9007199254740992.9`)}}, "big"},
		{`{"x":{"$gte":9007199254740994}}`, memory.Filter{memory.Gte("x", uint64(9007199254740994))}, ""},
		{`{"x":{"$gt":"banana"}}`, memory.Filter{memory.Gt("x", "banana")}, "uni"},
		{`{"x":{"$gte":"Banana"}}`, memory.Filter{memory.Gte("x", "Banana")}, "uni upper word"},
		{`{"x":{"$lt":"a"}}`, memory.Filter{memory.Lt("x", "a")}, "empty text upper"},
		{`{"x":{"$gte":""}}`, memory.Filter{memory.Gte("x", "")}, "empty text uni upper word"},
		{`{"x":{"$gt":0,"$lt":5.5}}`, memory.Filter{memory.Gt("x", 0), memory.Lt("x", 5.5)}, "equal int"},
		{`{"x":{"$gt":0},"y":{"$gt":0}}`, memory.Filter{memory.Gt("x", 0), memory.Gt("y", 0)}, ""},
		{`{"x":{"$in":[5,"banana",null,[1,"a",{"b":2}]]}}`, memory.Filter{memory.In[any]("x", 5, "banana", nil, []any{1, "a", object{"b": 2}})}, "equal int list name none null word"},
		{`{"x":{"$in":[]}}`, memory.Filter{memory.In[int]("x")}, ""},
		{`{"x":{"$nin":[]}}`, memory.Filter{memory.NotIn[int]("x")}, all},
		{`{"x":{"$nin":[5,null]}}`, memory.Filter{memory.NotIn[any]("x", 5, nil)}, without("equal int name none null")},
		{`{"x.y.z":{"$in":["five",5.0]}}`, memory.Filter{memory.In[any]("x.y.z", "five", 5)}, "nested other"},
		{`{"$or":[{"x":5},{"x":"5"}]}`, memory.Filter{memory.Or(memory.Eq("x", 5), memory.Eq("x", "5"))}, "equal int text"},
		{`{"$or":[]}`, memory.Filter{memory.Or()}, ""},
		{`{"$and":[]}`, memory.Filter{memory.And()}, all},
		{`{"$or":[{"x":{"$gt":5,"$lt":6}},{"x":{"y":{"z":5}}},{}],"x":{"$ne":null}}`, memory.Filter{
			memory.Or(memory.And(memory.Gt("x", 5), memory.Lt("x", 6)), memory.Eq("x.y.z", 5), memory.And()), memory.Ne[any]("x", nil),
		}, without("name none null")},
		{`{"x":{"$gte":0,"$not":{"$gt":5}}}`, memory.Filter{memory.Gte("x", 0), memory.Not(memory.Gt("x", 5))}, "equal int"},
		{`{"$not":{"x":{"$gt":5}}}`, memory.Filter{memory.Not(memory.Gt("x", 5))}, without("big float")},
		{`{"$not":{"x":{"$gte":""}}}`, memory.Filter{memory.Not(memory.Gte("x", ""))}, without("empty text uni upper word")},
		{`{"$not":{"x":{"$lte":5},"y":null}}`, memory.Filter{memory.Not(memory.Lte("x", 5), memory.Eq[any]("y", nil))}, without("equal int neg")},
		{`{"$not":{}}`, memory.Filter{memory.Not()}, ""},
		{`{"x":{"$or":[{"$lt":0},{"$gt":6},{"y":{"z":5}},{}]}}`, memory.Filter{
			memory.Or(memory.Lt("x", 0), memory.Gt("x", 6), memory.Eq("x.y.z", 5), memory.Eq("x", object{})),
		}, "big neg nested obj"},
		{`{"x":{"y":{"$not":{"z":5}},"w":1}}`, memory.Filter{memory.Not(memory.Eq("x.y.z", 5)), memory.Eq("x.w", 1)}, "other"},
		{`{"$and":[{"$or":[{"x":5},{"y":5}]},{"$not":{"$or":[{"x":5.0},{"x":6}]}}]}`, memory.Filter{
			memory.And(memory.Or(memory.Eq("x", 5), memory.Eq("y", 5)), memory.Not(memory.Or(memory.Eq("x", 5), memory.Eq("x", 6)))),
		}, "none"},
		{`{"q'; DROP TABLE x; --":{"$ne":"'"}}`, memory.Filter{memory.Ne("q'; DROP TABLE x; --", "'")}, all},
	} {
		t.Run(c.json, func(t *testing.T) {
			parsed, err := memory.ParseFilter(json.RawMessage(c.json))
			if err != nil {
				t.Fatal(err)
			}
			for name, f := range map[string]memory.Filter{"typed": c.filter, "JSON": parsed} {
				found := strings.Fields(keys(search(t, s, ns("f"), memory.Query{Filter: f, Limit: memory.Unlimited})))
				slices.Sort(found)
				if got := strings.Join(found, " "); got != c.want {
					t.Errorf("%s: found %q, want %q", name, got, c.want)
				}
			}
		})
	}
}

func testNamespaces(t *testing.T, open Opener, _ Options) {
	s := open(t, memory.Config{})
	for i, p := range [][]string{
		ns("users", "ann", "notes"), ns("users", "ann", "facts"), ns("users", "bob", "notes"), ns("users"), ns("docs", "v1", "drafts", "ann"), ns("docs-x"), ns("users", "ann", "notes"),
	} {
		put(t, s, p, fmt.Sprint(i), object(`{}`))
	}
	for _, c := range []struct {
		name string
		q    memory.NamespaceQuery
		want string
	}{
		{"all of them, sorted", memory.NamespaceQuery{}, "docs.v1.drafts.ann docs-x users users.ann.facts users.ann.notes users.bob.notes"},
		{"a prefix", memory.NamespaceQuery{Prefix: ns("users")}, "users users.ann.facts users.ann.notes users.bob.notes"},
		{"a longer prefix", memory.NamespaceQuery{Prefix: ns("users", "ann")}, "users.ann.facts users.ann.notes"},
		{"part of a label", memory.NamespaceQuery{Prefix: ns("user")}, ""},
		{"a suffix", memory.NamespaceQuery{Suffix: ns("notes")}, "users.ann.notes users.bob.notes"},
		{"a prefix and a suffix", memory.NamespaceQuery{Prefix: ns("users"), Suffix: ns("ann", "notes")}, "users.ann.notes"},
		{"both longer than the namespace", memory.NamespaceQuery{Prefix: ns("users"), Suffix: ns("users")}, "users"},
		{"any label in a prefix", memory.NamespaceQuery{Prefix: ns("users", "*", "notes")}, "users.ann.notes users.bob.notes"},
		{"any label first", memory.NamespaceQuery{Prefix: ns("*", "ann")}, "users.ann.facts users.ann.notes"},
		{"any label in a suffix", memory.NamespaceQuery{Suffix: ns("ann", "*")}, "users.ann.facts users.ann.notes"},
		{"cut to a depth", memory.NamespaceQuery{MaxDepth: 2}, "docs.v1 docs-x users users.ann users.bob"},
		{"cut to the prefix", memory.NamespaceQuery{Prefix: ns("users", "*"), MaxDepth: 1}, "users"},
		{"a page of what was cut", memory.NamespaceQuery{MaxDepth: 2, Limit: 2, Offset: 1}, "docs-x users"},
		{"the rest", memory.NamespaceQuery{Limit: memory.Unlimited, Offset: 4}, "users.ann.notes users.bob.notes"},
		{"behind the end", memory.NamespaceQuery{Offset: 40}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, err := s.Namespaces(t.Context(), c.q)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range list {
				got = append(got, memory.Join(n))
			}
			if strings.Join(got, " ") != c.want {
				t.Fatalf("got %q, want %q", got, c.want)
			}
		})
	}
	t.Run("a namespace is gone with its last item", func(t *testing.T) {
		for _, key := range []string{"0", "6"} {
			if err := s.Delete(t.Context(), ns("users", "ann", "notes"), key); err != nil {
				t.Fatal(err)
			}
			list, err := s.Namespaces(t.Context(), memory.NamespaceQuery{Prefix: ns("users", "ann", "notes")})
			if err != nil || len(list) != map[string]int{"0": 1, "6": 0}[key] {
				t.Fatal(list, err)
			}
		}
	})
}

func testVectors(t *testing.T, open Opener, _ Options) {
	score := func(t *testing.T, items []memory.Item, want ...float64) {
		t.Helper()
		for i, item := range items {
			if math.Abs(item.Score-want[i]) > 1e-6 {
				t.Errorf("%s has score %v, want %v", item.Key, item.Score, want[i])
			}
		}
	}
	index := func(fields ...string) memory.Config {
		return memory.Config{Index: &memory.Index{Embedder: coordinates, Fields: fields}}
	}
	t.Run("the nearest are the first, whatever the vectors' lengths", func(t *testing.T) {
		s := open(t, index("at"))
		for key, at := range map[string]string{"east": "3 0", "north": "0 0.001", "west": "-1 0", "northeast": "100 100"} {
			put(t, s, ns("a", "b"), key, object(`{"at":%q}`, at))
		}
		put(t, s, ns("a"), "nowhere", object(`{"text":"1 0"}`))
		put(t, s, ns("a"), "zero", object(`{"at":"0 0"}`))
		put(t, s, ns("a"), "empty", object(`{"at":""}`))
		put(t, s, ns("a"), "null", object(`{"at":null}`))
		put(t, s, ns("b"), "elsewhere", object(`{"at":"1 0"}`))
		items := search(t, s, ns("a"), memory.Query{Text: "0.5 0"})
		wantKeys(t, items, "east northeast north west")
		score(t, items, 1, math.Sqrt2/2, 0, -1)
		for _, item := range items {
			item.Score = 0
			sameItem(t, item, get(t, s, item.Namespace, item.Key))
		}
		wantKeys(t, search(t, s, ns("a"), memory.Query{Text: "0 1", Limit: 2}), "north northeast")
		wantKeys(t, search(t, s, ns("a"), memory.Query{Text: "1 0", Limit: 2, Offset: 1}), "northeast north")
		wantKeys(t, search(t, s, ns("a"), memory.Query{Text: "1 0", Limit: memory.Unlimited, Offset: 3}), "west")
		wantKeys(t, search(t, s, ns("a"), memory.Query{Text: "1 0", Exact: true}), "")
		wantKeys(t, search(t, s, ns("a"), memory.Query{Text: "1 0", Filter: memory.Filter{memory.Ne("at", "3 0"), memory.Gte("at", "0")}}), "northeast north")
		wantKeys(t, search(t, s, ns("a"), memory.Query{Text: "0 0"}), "")
	})

	t.Run("of items that are equally near the last one is the first", func(t *testing.T) {
		s := open(t, index("at"))
		for i := range 5 {
			put(t, s, ns("a"), fmt.Sprint(i), object(`{"at":"1 2"}`))
		}
		wantKeys(t, search(t, s, ns("a"), memory.Query{Text: "1 2"}), "4 3 2 1 0")
		wantKeys(t, search(t, s, ns("a"), memory.Query{Text: "1 2", Limit: 2, Offset: 2}), "2 1")
	})

	t.Run("an item with several texts is as near as the nearest", func(t *testing.T) {
		s := open(t, index("at", "more[*].at", "more[-1].last", "pair[0][1]"))
		put(t, s, ns("a"), "one", object(`{"at":"1 0"}`))
		put(t, s, ns("a"), "two", object(`{"at":"-1 0","more":[{"at":"1 -1"},{},5,{"at":"0 1","last":"-1 -1"}]}`))
		put(t, s, ns("a"), "three", object(`{"pair":[["1 0","0 -1"]],"more":"1 0"}`))
		for text, want := range map[string]string{"1 0": "one two three", "0 1": "two one three", "0 -1": "three two one", "-1 0": "two three one"} {
			if text == "-1 0" {
				items := search(t, s, nil, memory.Query{Text: text})
				score(t, items, 1, 0, -1)
			}
			wantKeys(t, search(t, s, nil, memory.Query{Text: text}), want)
		}
		wantKeys(t, search(t, s, nil, memory.Query{Text: "0 1", Limit: 1, Offset: 1}), "one")
	})

	t.Run("a put says which fields are embedded", func(t *testing.T) {
		s := open(t, index("at"))
		put(t, s, ns("a"), "k", object(`{"at":"1 0","to":"0 1"}`), memory.PutOptions{Fields: ns("to")})
		put(t, s, ns("a"), "no", object(`{"at":"1 0"}`), memory.PutOptions{NoIndex: true})
		items := search(t, s, nil, memory.Query{Text: "0 1"})
		wantKeys(t, items, "k")
		score(t, items, 1)
		wantKeys(t, search(t, s, nil, memory.Query{}), "no k")
		put(t, s, ns("a"), "k", object(`{"at":"1 0","to":"0 1"}`))
		score(t, search(t, s, nil, memory.Query{Text: "0 1"}), 0)
		put(t, s, ns("a"), "k", object(`{"at":"1 0"}`), memory.PutOptions{NoIndex: true})
		wantKeys(t, search(t, s, nil, memory.Query{Text: "0 1"}), "")
		for _, field := range []string{"", "a..b", "a[", "a[x]", "a[0]b", "[0]"} {
			_, err := s.Put(t.Context(), ns("a"), "bad", object(`{}`), memory.PutOptions{Fields: ns(field)})
			if !errors.Is(err, memory.ErrField) {
				t.Errorf("field %q: %v", field, err)
			}
		}
	})

	t.Run("a put brings vectors, or keeps those that are there", func(t *testing.T) {
		s := open(t, index("at"))
		first := put(t, s, ns("a"), "k", object(`{"at":"1 0"}`), memory.PutOptions{Vectors: [][]float32{{0, 2}, {0, 0}, {-3, 0}}})
		score(t, search(t, s, nil, memory.Query{Text: "0 1"}), 1)
		score(t, search(t, s, nil, memory.Query{Text: "-1 0"}), 1)
		second := put(t, s, ns("a"), "k", object(`{"at":"1 1"}`), memory.PutOptions{KeepVectors: true, IfVersion: first.Version})
		items := search(t, s, nil, memory.Query{Text: "0 1"})
		score(t, items, 1)
		sameJSON(t, items[0].Value, object(`{"at":"1 1"}`))
		_, err := s.Put(t.Context(), ns("a"), "k", object(`{}`), memory.PutOptions{KeepVectors: true, IfVersion: first.Version})
		wantConflict(t, err, first.Version, second.Version)
		put(t, s, ns("a"), "k", object(`{"at":"1 1"}`), memory.PutOptions{NoIndex: true})
		wantKeys(t, search(t, s, nil, memory.Query{Text: "0 1"}), "")
		for name, o := range map[string]memory.PutOptions{
			"keeping without a version": {KeepVectors: true},
			"keeping and bringing":      {KeepVectors: true, IfVersion: second.Version, Vectors: [][]float32{{1, 2}}},
			"bringing and embedding":    {Vectors: [][]float32{{1, 2}}, Fields: ns("at")},
		} {
			if _, err := s.Put(t.Context(), ns("a"), "k", object(`{}`), o); !errors.Is(err, memory.ErrOption) {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err = s.Put(t.Context(), ns("a"), "k", object(`{}`), memory.PutOptions{Vectors: [][]float32{{1, 2}, {1, 2, 3}}})
		if e, ok := errors.AsType[*model.EmbeddingError](err); !ok || e.Text != 1 {
			t.Error(err)
		}
		plain := open(t, memory.Config{})
		if _, err := plain.Put(t.Context(), ns("a"), "k", object(`{}`), memory.PutOptions{Vectors: [][]float32{{1, 2}}}); !errors.Is(err, memory.ErrNoIndex) {
			t.Error(err)
		}
	})

	t.Run("without fields the whole value is embedded", func(t *testing.T) {
		s := open(t, memory.Config{Index: &memory.Index{Embedder: memory.HashEmbedder(1024)}})
		put(t, s, ns("a"), "page", object(`{"text":"<b>cars</b>"}`))
		put(t, s, ns("a"), "food", object(`{"text":"likes pizza","n":{"tags":["Italian"]}}`))
		put(t, s, ns("a"), "work", object(`{"text":"works at night"}`))
		for text, want := range map[string]string{"PIZZA!": "food", "italian": "food", "night": "work", "cars": "page"} {
			wantKeys(t, search(t, s, nil, memory.Query{Text: text, Limit: 1}), want)
		}
	})

	t.Run("an item that is gone is not found", func(t *testing.T) {
		s := open(t, index("at"))
		put(t, s, ns("a"), "k", object(`{"at":"1 0"}`))
		put(t, s, ns("a"), "l", object(`{"at":"1 0"}`))
		if err := s.Delete(t.Context(), ns("a"), "k"); err != nil {
			t.Fatal(err)
		}
		wantKeys(t, search(t, s, nil, memory.Query{Text: "1 0"}), "l")
	})

	t.Run("an embedder that fails changes nothing", func(t *testing.T) {
		failure := errors.New("down")
		fail := false
		s := open(t, memory.Config{Index: &memory.Index{Fields: ns("at"), Embedder: model.EmbedFunc(2, func(ctx context.Context, texts []string) ([][]float32, error) {
			if fail {
				return nil, failure
			}
			return coordinates.Embed(ctx, texts)
		})}})
		put(t, s, ns("a"), "k", object(`{"at":"1 0"}`))
		fail = true
		_, err := s.Put(t.Context(), ns("a"), "k", object(`{"at":"0 1"}`))
		_, err2 := s.Search(t.Context(), nil, memory.Query{Text: "1 0"})
		if !errors.Is(err, failure) || !errors.Is(err2, failure) {
			t.Fatal(err, err2)
		}
		fail = false
		_, err = s.Put(t.Context(), ns("a"), "k", object(`{"at":"0 1 2"}`))
		if _, ok := errors.AsType[*model.EmbeddingError](err); !ok {
			t.Fatal(err)
		}
		score(t, search(t, s, nil, memory.Query{Text: "1 0"}), 1)
	})
}

func testManyItems(t *testing.T, open Opener, o Options) {
	n := o.ManyItems
	switch {
	case n > 0:
	case testing.Short():
		n = 500
	default:
		n = 10_000
	}
	s := open(t, memory.Config{Index: &memory.Index{Embedder: memory.HashEmbedder(64), Fields: ns("text")}})
	for i := range n {
		put(t, s, ns("users", fmt.Sprint(i%100), "notes"), fmt.Sprint(i), object(`{"n":%d,"even":%v,"text":"note number%d of topic%d"}`, i, i%2 == 0, i, i%7))
	}
	if got := len(search(t, s, nil, memory.Query{Limit: memory.Unlimited})); got != n {
		t.Fatalf("%d items", got)
	}
	last := fmt.Sprint(n-1, " ", n-2, " ", n-3)
	wantKeys(t, search(t, s, ns("users"), memory.Query{Limit: 3}), last)
	wantKeys(t, search(t, s, ns("users"), memory.Query{Limit: 3, Offset: n - 3}), "2 1 0")
	wantKeys(t, search(t, s, ns("users", "7"), memory.Query{Limit: memory.Unlimited, Filter: memory.Filter{memory.Lt("n", 300)}}), "207 107 7")
	wantKeys(t, search(t, s, nil, memory.Query{Filter: memory.Filter{memory.Eq("n", 123)}}), "123")
	if got := len(search(t, s, nil, memory.Query{Limit: memory.Unlimited, Filter: memory.Filter{memory.Eq("even", true)}})); got != n/2 {
		t.Fatalf("%d are even", got)
	}
	found := search(t, s, nil, memory.Query{Text: "note number321 of topic6", Limit: 3})
	if len(found) != 3 || found[0].Score < 0.999 || !slices.IsSortedFunc(found, func(a, b memory.Item) int { return -1 * compare(a.Score, b.Score) }) {
		t.Fatalf("%+v", found)
	}
	list, err := s.Namespaces(t.Context(), memory.NamespaceQuery{Limit: memory.Unlimited})
	if err != nil || len(list) != 100 || !reflect.DeepEqual(list[0], ns("users", "0", "notes")) {
		t.Fatal(len(list), err)
	}
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
