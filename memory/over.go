package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
)

// Backend keeps the items of a store that [Over] makes. What its methods are given was
// checked, and texts were embedded. They are safe for concurrent use, and return promptly
// when the context ends.
type Backend interface {
	// Get returns a live item, one of version 0 if there is none.
	Get(ctx context.Context, p *PreparedGet) (Item, error)

	// Put returns a new item's version and times, or a [*ConflictError].
	Put(ctx context.Context, p *PreparedPut) (Item, error)

	// Delete removes an item, if there is one, or returns a [*ConflictError].
	Delete(ctx context.Context, p *PreparedDelete) error

	// Search returns items with their scores, in order.
	Search(ctx context.Context, p *PreparedSearch) ([]Item, error)

	// Namespaces returns namespaces with live items that begin with the labels of a root,
	// as [Join] writes them; empty: all. They may come in any order and several times.
	Namespaces(ctx context.Context, root string) ([]string, error)

	// Sweep removes what has expired, and returns how many items these were.
	Sweep(ctx context.Context) (int, error)

	// Explain returns an error of the other methods as callers are to have it: what was
	// tried, such as "put into", and what to do.
	Explain(op string, err error) error

	// Close is called once. Other methods may be under way.
	Close() error
}

// Over makes a store of a back end: it checks arguments, embeds texts, and says when the
// store is closed.
func Over(b Backend, c Config) Store { return &over{b: b, config: c} }

type over struct {
	b      Backend
	config Config
	closed atomic.Bool
}

// do calls a method of the back end with what prepare returns.
func do[P, T any](ctx context.Context, s *over, op string, prepare func() (P, error), f func(context.Context, P) (T, error)) (out T, err error) {
	var none T
	if s.closed.Load() {
		return none, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	p, err := prepare()
	if err != nil {
		return none, err
	}
	if out, err = f(ctx, p); err == nil {
		return out, nil
	}
	switch {
	case Agreed(err):
		return none, err
	case ctx.Err() != nil:
		return none, ctx.Err() // however the back end put it
	case s.closed.Load():
		return none, ErrClosed
	}
	return none, s.b.Explain(op, err)
}

func (s *over) Get(ctx context.Context, namespace []string, key string, opts ...GetOptions) (Item, error) {
	item, err := do(ctx, s, "get from", func() (*PreparedGet, error) { return s.config.prepareGet(ctx, namespace, key, opts) }, s.b.Get)
	if err == nil && item.Version == 0 {
		err = &NotFoundError{Namespace: slices.Clone(namespace), Key: key}
	}
	return item, err
}

func (s *over) Put(ctx context.Context, namespace []string, key string, value json.RawMessage, opts ...PutOptions) (Item, error) {
	return do(ctx, s, "put into", func() (*PreparedPut, error) { return s.config.preparePut(ctx, namespace, key, value, opts) },
		func(ctx context.Context, p *PreparedPut) (Item, error) {
			item, err := s.b.Put(ctx, p)
			item.Namespace, item.Key, item.Value = slices.Clone(namespace), key, bytes.Clone(p.Value)
			return item, err
		})
}

func (s *over) Delete(ctx context.Context, namespace []string, key string, opts ...DeleteOptions) error {
	_, err := do(ctx, s, "delete from", func() (*PreparedDelete, error) { return s.config.prepareDelete(ctx, namespace, key, opts) },
		func(ctx context.Context, p *PreparedDelete) (struct{}, error) { return struct{}{}, s.b.Delete(ctx, p) })
	return err
}

func (s *over) Search(ctx context.Context, prefix []string, q Query) ([]Item, error) {
	items, err := do(ctx, s, "search", func() (*PreparedSearch, error) { return s.config.prepareSearch(ctx, prefix, q) }, s.b.Search)
	if err == nil && items == nil {
		items = []Item{}
	}
	return items, err
}

func (s *over) Namespaces(ctx context.Context, q NamespaceQuery) ([][]string, error) {
	joined, err := do(ctx, s, "list", func() (string, error) { return Join(q.Root()), q.Check() }, s.b.Namespaces)
	if err != nil {
		return nil, err
	}
	all := make([][]string, len(joined))
	for i, ns := range joined {
		all[i] = Split(ns)
	}
	return q.Select(all), nil
}

func (s *over) Sweep(ctx context.Context) (int, error) {
	return do(ctx, s, "sweep", func() (struct{}, error) { return struct{}{}, nil },
		func(ctx context.Context, _ struct{}) (int, error) { return s.b.Sweep(ctx) })
}

func (s *over) Close() error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	return s.b.Close()
}
