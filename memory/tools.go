package memory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/tool"
)

// Memory is the value of the items that [Tools] keep.
type Memory struct {
	Content string `json:"content"`
}

// The names of the [Tools].
const (
	SaveTool   = "save_memory"
	SearchTool = "search_memories"
	DeleteTool = "delete_memory"
)

// Tools returns the tools with which a model keeps memories beyond the
// conversation: [SaveTool], [SearchTool] and [DeleteTool]. Each memory is an item
// with a [Memory] as its value, in the run's memory ([From]). Namespace says where
// they stand, mostly by the user that the run is for; its error is the tool's.
//
// The same content saved again is the same memory, so that a call which is
// repeated after a failure does no harm. Without an [Index] a search ranks
// memories by how many words of the query they have.
func Tools(namespace func(ctx context.Context) ([]string, error)) []tool.Tool {
	t := tools{namespace: namespace}
	return []tool.Tool{
		tool.New(SaveTool, "Remembers a fact, preference or instruction for later conversations. To correct a memory, give its key.", t.save),
		tool.New(SearchTool, "Finds memories of earlier conversations.", t.search),
		tool.New(DeleteTool, "Forgets a memory that is wrong or no longer wanted.", t.remove),
	}
}

type tools struct {
	namespace func(ctx context.Context) ([]string, error)
	store     Store // of the run
}

// begin finds the memory of a call's run, and the namespace.
func (t *tools) begin(ctx context.Context) (ns []string, err error) {
	if ns, err = t.namespace(ctx); err == nil {
		t.store, err = From(ctx)
	}
	return ns, err
}

// isMemory tells a memory from other items of the namespace.
var isMemory = Filter{Gte("content", "")}

type saveArgs struct {
	Content string `json:"content" minLength:"1" jsonschema:"what to remember, as a sentence that can be understood on its own"`
	Key     string `json:"key,omitempty" jsonschema:"key of the memory to replace; leave out for a new one"`
}

type saved struct {
	Key string `json:"key"`
}

func (t tools) save(ctx context.Context, in saveArgs) (saved, error) {
	ns, err := t.begin(ctx)
	if err != nil {
		return saved{}, err
	}
	if in.Key != "" {
		old, err := t.get(ctx, ns, in.Key)
		if err != nil {
			return saved{}, err
		}
		return saved{in.Key}, t.put(ctx, ns, in.Key, in.Content, old.Version)
	}
	if err := CheckNamespace(ns); err != nil {
		return saved{}, err
	}
	for {
		key, version, err := t.place(ctx, ns, in.Content)
		if err != nil {
			return saved{}, err
		}
		// A conflict means that somebody was faster.
		if err := t.put(ctx, ns, key, in.Content, version); !errors.Is(err, ErrConflict) {
			return saved{key}, err
		}
	}
}

// put stores a memory in the place of a version; 0 means that there must be none.
func (t tools) put(ctx context.Context, ns []string, key, content string, version int64) error {
	o := PutOptions{Fields: []string{"content"}, IfVersion: version, IfAbsent: version == 0}
	_, err := Put(ctx, t.store, ns, key, Memory{content}, o)
	if errors.Is(err, ErrNoIndex) {
		o.Fields = nil
		_, err = Put(ctx, t.store, ns, key, Memory{content}, o)
	}
	return err
}

// place returns the key of the memory that has a content, and its version. If
// there is none the key is a free one that follows from the content: those that
// save it at once choose the same.
func (t tools) place(ctx context.Context, ns []string, content string) (key string, version int64, err error) {
	same, err := t.store.Search(ctx, ns, Query{Filter: Filter{Eq("content", content)}, Exact: true, Limit: 1, Refresh: RefreshNever})
	if err != nil {
		return "", 0, err
	}
	if len(same) > 0 {
		return same[0].Key, same[0].Version, nil
	}
	sum := sha256.Sum256([]byte(content))
	for {
		key = hex.EncodeToString(sum[:8])
		_, err := t.store.Get(ctx, ns, key, GetOptions{Refresh: RefreshNever})
		if errors.Is(err, ErrNotFound) {
			return key, 0, nil
		}
		if err != nil {
			return "", 0, err
		}
		sum = sha256.Sum256(sum[:]) // a memory that was corrected since has that key
	}
}

func (t tools) get(ctx context.Context, ns []string, key string) (Item, error) {
	item, err := t.store.Get(ctx, ns, key)
	if errors.Is(err, ErrNotFound) || err == nil && !isMemory.Match(item.Value) {
		return Item{}, fmt.Errorf("there is no memory with key %q; %s lists keys: %w", key, SearchTool, ErrNotFound)
	}
	return item, err
}

type searchArgs struct {
	Query string `json:"query,omitempty" jsonschema:"what the memories are about; leave out for the latest ones"`
	Limit int    `json:"limit,omitempty" default:"10" minimum:"1" maximum:"100" jsonschema:"how many at most"`
}

type memories struct {
	Memories []foundMemory `json:"memories"`
}

type foundMemory struct {
	Key     string  `json:"key"`
	Content string  `json:"content"`
	Score   float64 `json:"score,omitzero"`
}

func (t tools) search(ctx context.Context, in searchArgs) (memories, error) {
	out := memories{[]foundMemory{}}
	ns, err := t.begin(ctx)
	if err != nil {
		return out, err
	}
	if err := CheckNamespace(ns); err != nil { // as save would say
		return out, err
	}
	q := Query{Text: in.Query, Limit: in.Limit, Exact: true, Filter: isMemory}
	found, err := Search[Memory](ctx, t.store, ns, q)
	if errors.Is(err, ErrNoIndex) {
		q.Text, q.Limit, q.Refresh = "", Unlimited, RefreshNever
		if found, err = Search[Memory](ctx, t.store, ns, q); err == nil {
			found = page(byWords(found, in.Query), in.Limit, 0)
		}
	}
	if err != nil {
		return out, err
	}
	for _, e := range found {
		out.Memories = append(out.Memories, foundMemory{e.Key, e.Value.Content, e.Score})
	}
	return out, nil
}

// byWords returns the memories that have words of a query, those with most of
// them first. Their score is the part of the query's words that they have.
func byWords(list []Entry[Memory], query string) []Entry[Memory] {
	wanted := words(query)
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	var out []Entry[Memory]
	for _, e := range list {
		has, n := words(e.Value.Content), 0
		for _, w := range wanted {
			if slices.Contains(has, w) {
				n++
			}
		}
		if n > 0 {
			e.Score = float64(n) / float64(len(wanted))
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b Entry[Memory]) int { return cmp.Compare(b.Score, a.Score) })
	return out
}

type deleteArgs struct {
	Key string `json:"key" jsonschema:"key of the memory"`
}

func (t tools) remove(ctx context.Context, in deleteArgs) (string, error) {
	ns, err := t.begin(ctx)
	if err != nil {
		return "", err
	}
	if _, err := t.get(ctx, ns, in.Key); err != nil {
		return "", err
	}
	return "deleted", t.store.Delete(ctx, ns, in.Key)
}
