package memorytest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/memory"
)

// known is an item as a naive model keeps it.
type known struct {
	ns      []string
	key     string
	value   map[string]any
	created time.Time
	updated time.Time
	expires time.Time
	ttl     time.Duration
	version int64
}

// naive is a store as simple as can be, to compare with.
type naive struct {
	items map[string]*known
	clock *clock
}

func (m *naive) live() []*known {
	var out []*known
	for _, k := range m.items {
		if k.expires.IsZero() || m.clock.stamp().Before(k.expires) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b *known) int { return cmp.Compare(b.version, a.version) })
	return out
}

func (m *naive) find(ns []string, key string) *known {
	for _, k := range m.live() {
		if slices.Equal(k.ns, ns) && k.key == key {
			return k
		}
	}
	return nil
}

// holds evaluates a condition on values that are texts, small integers, booleans,
// null or an object o of such.
func holds(value map[string]any, c cond) bool {
	one := func(c cond) bool { return holds(value, c) }
	other := func(c cond) bool { return !holds(value, c) }
	switch c.op {
	case memory.OpAnd:
		return !slices.ContainsFunc(c.of, other)
	case memory.OpOr:
		return slices.ContainsFunc(c.of, one)
	case memory.OpNot:
		return slices.ContainsFunc(c.of, other)
	}
	v := value[c.field]
	if rest, ok := strings.CutPrefix(c.field, "o."); ok {
		o, _ := value["o"].(map[string]any)
		v = o[rest]
	}
	switch c.op {
	case memory.OpEq:
		return v == c.value
	case memory.OpNe:
		return v != c.value
	case memory.OpIn:
		return slices.Contains(c.value.([]any), v)
	case memory.OpNotIn:
		return !slices.Contains(c.value.([]any), v)
	}
	var n int
	switch want := c.value.(type) {
	case int:
		have, ok := v.(int)
		if !ok {
			return false
		}
		n = have - want
	case string:
		have, ok := v.(string)
		if !ok {
			return false
		}
		n = strings.Compare(have, want)
	}
	return map[memory.Op]bool{memory.OpGt: n > 0, memory.OpGte: n >= 0, memory.OpLt: n < 0, memory.OpLte: n <= 0}[c.op]
}

type cond struct {
	field string
	op    memory.Op
	value any
	of    []cond
}

// condition is the store's form of it.
func (c cond) condition(rt *rapid.T) memory.Condition {
	out := memory.Condition{Field: c.field, Op: c.op}
	for _, one := range c.of {
		out.Of = append(out.Of, one.condition(rt))
	}
	if c.op.Joins() {
		return out
	}
	raw, err := json.Marshal(c.value)
	if err != nil {
		rt.Fatal(err)
	}
	out.Value = raw
	return out
}

var (
	labels = rapid.SampledFrom([]string{"a", "b", "a-", "é"})
	spaces = rapid.SliceOfN(labels, 0, 3)
	names  = rapid.SampledFrom([]string{"k", "K", "k.1"})
	scalar = rapid.OneOf(rapid.IntRange(-2, 2).AsAny(), rapid.SampledFrom([]string{"", "a", "B", "ä", "1"}).AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil))
	values = rapid.Custom(func(t *rapid.T) map[string]any {
		v := map[string]any{}
		for _, f := range []string{"x", "y"} {
			if rapid.Bool().Draw(t, "has") {
				v[f] = scalar.Draw(t, f)
			}
		}
		if rapid.Bool().Draw(t, "has") {
			v["o"] = map[string]any{"x": scalar.Draw(t, "o.x")}
		}
		return v
	})
	compared = rapid.Custom(func(t *rapid.T) cond {
		c := cond{field: rapid.SampledFrom([]string{"x", "y", "o.x", "o.y", "x.y"}).Draw(t, "field")}
		c.op = rapid.SampledFrom([]memory.Op{memory.OpEq, memory.OpNe, memory.OpGt, memory.OpGte, memory.OpLt, memory.OpLte, memory.OpIn, memory.OpNotIn}).Draw(t, "op")
		switch c.op {
		case memory.OpEq, memory.OpNe:
			c.value = scalar.Draw(t, "value")
		case memory.OpIn, memory.OpNotIn:
			c.value = rapid.SliceOfN(scalar, 0, 3).Draw(t, "values")
		default:
			c.value = rapid.OneOf(rapid.IntRange(-2, 2).AsAny(), rapid.SampledFrom([]string{"", "a", "b"}).AsAny()).Draw(t, "value")
		}
		return c
	})
	joined = rapid.Custom(func(t *rapid.T) cond {
		return cond{op: rapid.SampledFrom([]memory.Op{memory.OpAnd, memory.OpOr, memory.OpNot}).Draw(t, "join"), of: rapid.SliceOfN(compared, 0, 2).Draw(t, "of")}
	})
	conds     = rapid.OneOf(compared, joined, rapid.Custom(func(t *rapid.T) cond { return cond{op: memory.OpNot, of: []cond{joined.Draw(t, "not")}} }))
	ttls      = rapid.SampledFrom([]time.Duration{0, memory.Forever, time.Second, 3 * time.Second})
	refreshes = rapid.SampledFrom([]memory.Refresh{memory.RefreshDefault, memory.RefreshAlways, memory.RefreshNever})
)

// A store does what a naive model does.
func testModel(t *testing.T, open Opener, _ Options) {
	c := newClock()
	const ttl = 2 * time.Second
	s := open(t, memory.Config{Now: c.Now, TTL: ttl})
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		root := fmt.Sprint("r", round) // nothing of the rounds before
		m := &naive{items: map[string]*known{}, clock: c}
		at := func() []string { return append([]string{root}, spaces.Draw(rt, "namespace")...) }
		version := func(k *known) int64 {
			switch {
			case k != nil && rapid.Bool().Draw(rt, "current"):
				return k.version
			case rapid.Bool().Draw(rt, "none"):
				return 0
			}
			return 1 << 40
		}
		check := func(got memory.Item, want *known) {
			raw, err := json.Marshal(want.value)
			if err != nil {
				rt.Fatal(err)
			}
			sameItem(rt, got, memory.Item{
				Namespace: want.ns, Key: want.key, Value: raw, CreatedAt: want.created, UpdatedAt: want.updated, ExpiresAt: want.expires, Version: want.version,
			})
		}
		refresh := func(k *known, r memory.Refresh) {
			if r == memory.RefreshAlways && k.ttl > 0 {
				k.expires = c.stamp().Add(k.ttl)
			}
		}
		newest := int64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				ns, key, v := at(), names.Draw(rt, "key"), values.Draw(rt, "value")
				old := m.find(ns, key)
				o := memory.PutOptions{TTL: ttls.Draw(rt, "ttl")}
				if o.IfVersion = version(old); o.IfVersion == 0 {
					o.IfAbsent = rapid.Bool().Draw(rt, "absent")
				}
				raw, err := json.Marshal(v)
				if err != nil {
					rt.Fatal(err)
				}
				item, err := s.Put(t.Context(), ns, key, raw, o)
				if o.IfAbsent && old != nil || o.IfVersion != 0 && (old == nil || old.version != o.IfVersion) {
					if !errors.Is(err, memory.ErrConflict) {
						rt.Fatalf("got error %v, want a conflict", err)
					}
					return
				}
				if err != nil {
					rt.Fatal(err)
				}
				if item.Version <= newest {
					rt.Fatalf("version %d after %d", item.Version, newest)
				}
				newest = item.Version
				k := &known{ns: ns, key: key, value: v, created: c.stamp(), updated: c.stamp(), version: item.Version, ttl: o.TTL}
				if old != nil {
					k.created = old.created
				}
				if k.ttl == 0 {
					k.ttl = ttl
				}
				refresh(k, memory.RefreshAlways)
				m.items[fmt.Sprintf("%q %q", ns, key)] = k
				check(item, k)
			},
			"get": func(rt *rapid.T) {
				ns, key, r := at(), names.Draw(rt, "key"), refreshes.Draw(rt, "refresh")
				item, err := s.Get(t.Context(), ns, key, memory.GetOptions{Refresh: r})
				k := m.find(ns, key)
				if k == nil {
					if !errors.Is(err, memory.ErrNotFound) {
						rt.Fatalf("got %+v, error %v", item, err)
					}
					return
				}
				if err != nil {
					rt.Fatal(err)
				}
				refresh(k, r)
				check(item, k)
			},
			"delete": func(rt *rapid.T) {
				ns, key := at(), names.Draw(rt, "key")
				k := m.find(ns, key)
				o := memory.DeleteOptions{IfVersion: version(k)}
				err := s.Delete(t.Context(), ns, key, o)
				if o.IfVersion != 0 && (k == nil || k.version != o.IfVersion) {
					if !errors.Is(err, memory.ErrConflict) {
						rt.Fatalf("got error %v, want a conflict", err)
					}
					return
				}
				if err != nil {
					rt.Fatal(err)
				}
				delete(m.items, fmt.Sprintf("%q %q", ns, key))
			},
			"search": func(rt *rapid.T) {
				prefix, cs := at(), rapid.SliceOfN(conds, 0, 2).Draw(rt, "conditions")
				q := memory.Query{
					Limit: rapid.IntRange(-1, 4).Draw(rt, "limit"), Offset: rapid.IntRange(0, 3).Draw(rt, "offset"),
					Exact: rapid.Bool().Draw(rt, "exact"), Refresh: refreshes.Draw(rt, "refresh"),
				}
				for _, c := range cs {
					q.Filter = append(q.Filter, c.condition(rt))
				}
				var want []*known
				for _, k := range m.live() {
					below := len(k.ns) >= len(prefix) && slices.Equal(k.ns[:len(prefix)], prefix)
					if !below || q.Exact && len(k.ns) != len(prefix) || slices.ContainsFunc(cs, func(c cond) bool { return !holds(k.value, c) }) {
						continue
					}
					want = append(want, k)
				}
				want = want[min(q.Offset, len(want)):]
				limit := q.Limit
				if limit == 0 {
					limit = 10
				}
				if limit > 0 {
					want = want[:min(limit, len(want))]
				}
				got, err := s.Search(t.Context(), prefix, q)
				if err != nil || len(got) != len(want) {
					rt.Fatalf("found %+v, error %v, want %d", got, err, len(want))
				}
				for i, k := range want {
					refresh(k, q.Refresh)
					check(got[i], k)
				}
			},
			"list": func(rt *rapid.T) {
				q := memory.NamespaceQuery{Prefix: at(), MaxDepth: rapid.IntRange(0, 3).Draw(rt, "depth"), Limit: memory.Unlimited}
				if rapid.Bool().Draw(rt, "suffix") {
					q.Suffix = spaces.Draw(rt, "suffix")
				}
				if len(q.Prefix) > 1 && rapid.Bool().Draw(rt, "any") {
					q.Prefix[1] = "*"
				}
				fits := func(pattern, part []string) bool {
					for i := range pattern {
						if pattern[i] != "*" && pattern[i] != part[i] {
							return false
						}
					}
					return true
				}
				set := map[string][]string{}
				for _, k := range m.live() {
					n := k.ns
					if len(n) < len(q.Prefix) || len(n) < len(q.Suffix) || !fits(q.Prefix, n) || !fits(q.Suffix, n[len(n)-len(q.Suffix):]) {
						continue
					}
					if q.MaxDepth > 0 {
						n = n[:min(q.MaxDepth, len(n))]
					}
					set[fmt.Sprintf("%q", n)] = n
				}
				want := slices.SortedFunc(maps.Values(set), slices.Compare)
				got, err := s.Namespaces(t.Context(), q)
				if err != nil || len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
					rt.Fatalf("listed %q, error %v, want %q", got, err, want)
				}
			},
			"wait": func(rt *rapid.T) {
				c.advance(rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second - time.Microsecond, time.Second}).Draw(rt, "time"))
			},
			"sweep": func(rt *rapid.T) {
				if _, err := s.Sweep(t.Context()); err != nil {
					rt.Fatal(err)
				}
			},
		})
	})
}
