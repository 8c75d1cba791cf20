package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/memory"
)

// item is an item of the long-term memory as clients see it.
type item struct {
	Namespace []string        `json:"namespace"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	CreatedAt instant         `json:"created_at"`
	UpdatedAt instant         `json:"updated_at"`
	Score     *float64        `json:"score,omitempty"`
}

func itemOf(i memory.Item) item {
	return item{Namespace: i.Namespace, Key: i.Key, Value: i.Value, CreatedAt: instant(i.CreatedAt), UpdatedAt: instant(i.UpdatedAt)}
}

// memoryError says what is wrong with what a client asked of the memory.
func memoryError(err error) error {
	switch {
	case errors.Is(err, memory.ErrEmptyNamespace):
		return malformed("%v", err)
	case errors.Is(err, memory.ErrInvalid):
		return invalid("%v", err)
	case errors.Is(err, memory.ErrNoIndex):
		return invalid("%v: server.MemoryConfig gives it one, or serve --store-index", err)
	case errors.Is(err, memory.ErrConflict):
		return conflict("%v", err)
	}
	return err
}

func refresh(asked *bool) memory.Refresh {
	switch {
	case asked == nil:
		return memory.RefreshDefault
	case *asked:
		return memory.RefreshAlways
	default:
		return memory.RefreshNever
	}
}

// items answers what is asked of the long-term memory.
type items struct {
	*base
	access *access
}

func (s *items) routes() []route {
	return []route{
		{"PUT /store/items", "putItem", rule{resource: Store, verb: Update, how: byHandler}, given(s.putItem)},
		{"GET /store/items", "getItem", rule{resource: Store, verb: Read, how: byHandler}, s.getItem},
		{"DELETE /store/items", "deleteItem", rule{resource: Store, verb: Delete, how: byHandler}, given(s.deleteItem)},
		{"POST /store/items/search", "searchItems", rule{resource: Store, verb: Search, how: byHandler}, given(s.searchItems)},
		{"POST /store/namespaces", "listNamespaces", rule{resource: Store, verb: Search, how: byHandler}, given(s.listNamespaces)},
	}
}

type itemBody struct {
	Namespace []string        `json:"namespace"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	Index     json.RawMessage `json:"index"`
	TTL       *float64        `json:"ttl"` // minutes
}

func (s *items) putItem(w http.ResponseWriter, r *http.Request, b *itemBody) (any, error) {
	if len(b.Namespace) == 0 {
		return nil, malformed("namespace must have at least one label")
	}
	var o memory.PutOptions
	if b.TTL != nil {
		if *b.TTL <= 0 || *b.TTL > 1e8 {
			return nil, invalid("ttl must be a positive number of minutes")
		}
		o.TTL = time.Duration(*b.TTL * float64(time.Minute))
	}
	switch text := string(b.Index); {
	case text == "" || text == "null":
	case text == "false":
		o.NoIndex = true
	default:
		if err := decode(b.Index, &o.Fields); err != nil {
			return nil, invalid("index must be false or a list of fields")
		}
	}
	if err := memory.CheckNamespace(b.Namespace); err != nil {
		return nil, memoryError(err)
	}
	namespace, _, err := s.access.askStore(r.Context(), Update, b.Namespace, b.Key)
	if err != nil {
		return nil, err
	}
	_, err = s.memory.Put(r.Context(), namespace, b.Key, b.Value, o)
	return noContent, memoryError(err)
}

func (s *items) getItem(w http.ResponseWriter, r *http.Request) (any, error) {
	q := r.URL.Query()
	namespace, err := listed(r, "namespace")
	if err != nil {
		return nil, err
	}
	if len(namespace) == 1 {
		namespace = strings.Split(namespace[0], ".")
	}
	if len(namespace) == 0 || namespace[0] == "" {
		return nil, malformed("namespace must have at least one label")
	}
	var o memory.GetOptions
	if q.Has("refresh_ttl") {
		asked, err := flag(r, "refresh_ttl")
		if err != nil {
			return nil, err
		}
		o.Refresh = refresh(&asked)
	}
	if err := memory.CheckNamespace(namespace); err != nil {
		return nil, memoryError(err)
	}
	namespace, hidden, err := s.access.askStore(r.Context(), Read, namespace, q.Get("key"))
	if err != nil {
		return nil, err
	}
	i, err := s.memory.Get(r.Context(), namespace, q.Get("key"), o)
	if errors.Is(err, memory.ErrNotFound) {
		return json.RawMessage("null"), nil
	}
	if err != nil {
		return nil, memoryError(err)
	}
	i.Namespace = i.Namespace[hidden:]
	return itemOf(i), nil
}

type itemRef struct {
	Namespace []string `json:"namespace"`
	Key       string   `json:"key"`
}

func (s *items) deleteItem(w http.ResponseWriter, r *http.Request, b *itemRef) (any, error) {
	if err := memory.CheckNamespace(b.Namespace); err != nil {
		return nil, memoryError(err)
	}
	namespace, _, err := s.access.askStore(r.Context(), Delete, b.Namespace, b.Key)
	if err != nil {
		return nil, err
	}
	return noContent, memoryError(s.memory.Delete(r.Context(), namespace, b.Key))
}

type itemSearch struct {
	paging
	Prefix  []string        `json:"namespace_prefix"`
	Filter  json.RawMessage `json:"filter"`
	Query   string          `json:"query"`
	Refresh *bool           `json:"refresh_ttl"`
}

func (s *items) searchItems(w http.ResponseWriter, r *http.Request, b *itemSearch) (any, error) {
	p, err := b.page(memory.DefaultLimit)
	if err != nil {
		return nil, err
	}
	prefix, hidden, err := s.access.askStore(r.Context(), Search, b.Prefix, "")
	if err != nil {
		return nil, err
	}
	if err := s.checkFilter("filter", objectOf(b.Filter)); err != nil {
		return nil, err
	}
	if over(len(b.Query), s.limits.Metadata) {
		return nil, invalid("query is longer than %d bytes", s.limits.Metadata)
	}
	items := []item{}
	if p.Limit == 0 {
		return map[string]any{"items": items}, nil
	}
	filter, err := memory.ParseFilter(b.Filter)
	if err != nil {
		return nil, memoryError(err)
	}
	found, err := s.memory.Search(r.Context(), prefix, memory.Query{
		Filter: filter, Text: b.Query, Limit: p.Limit, Offset: p.Offset, Refresh: refresh(b.Refresh),
	})
	if err != nil {
		return nil, memoryError(err)
	}
	for _, f := range found {
		f.Namespace = f.Namespace[hidden:]
		i := itemOf(f)
		if b.Query != "" {
			i.Score = &f.Score
		}
		items = append(items, i)
	}
	return map[string]any{"items": items}, nil
}

type namespaceSearch struct {
	paging
	Prefix   []string `json:"prefix"`
	Suffix   []string `json:"suffix"`
	MaxDepth int      `json:"max_depth"`
}

func (s *items) listNamespaces(w http.ResponseWriter, r *http.Request, b *namespaceSearch) (any, error) {
	p, err := b.page(memory.DefaultNamespacesLimit)
	if err != nil {
		return nil, err
	}
	if b.MaxDepth < 0 {
		return nil, invalid("max_depth must not be negative")
	}
	prefix, hidden, err := s.access.askStore(r.Context(), Search, b.Prefix, "")
	if err != nil {
		return nil, err
	}
	if b.MaxDepth > 0 {
		b.MaxDepth = min(b.MaxDepth, memory.MaxNamespace) + hidden
	}
	found := [][]string{}
	if p.Limit > 0 {
		list, err := s.memory.Namespaces(r.Context(), memory.NamespaceQuery{Prefix: prefix, Suffix: b.Suffix, MaxDepth: b.MaxDepth, Limit: p.Limit, Offset: p.Offset})
		if err != nil {
			return nil, memoryError(err)
		}
		for _, one := range list {
			found = append(found, one[hidden:])
		}
	}
	return map[string]any{"namespaces": found}, nil
}

func (s *items) sweepStore(ctx context.Context) error {
	_, err := s.memory.Sweep(ctx)
	return errors.Join(err, s.db.GiveBack(ctx))
}
