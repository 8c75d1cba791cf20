package memory

import (
	"context"
	"encoding/json"
	"errors"
)

// Entry is an item with its value as a Go type.
type Entry[T any] struct {
	Item  // Item.Value is the JSON
	Value T
}

func entryOf[T any](item Item) (Entry[T], error) {
	e := Entry[T]{Item: item}
	if err := json.Unmarshal(item.Value, &e.Value); err != nil {
		return Entry[T]{}, &DecodeError{Namespace: item.Namespace, Key: item.Key, Err: err}
	}
	return e, nil
}

// Get is [Store].Get for values of a Go type. A value that doesn't fit it is a
// [*DecodeError].
func Get[T any](ctx context.Context, s Store, namespace []string, key string, opts ...GetOptions) (Entry[T], error) {
	item, err := s.Get(ctx, namespace, key, opts...)
	if err != nil {
		return Entry[T]{}, err
	}
	return entryOf[T](item)
}

// Put is [Store].Put for values of a Go type, whose JSON must be an object.
func Put[T any](ctx context.Context, s Store, namespace []string, key string, value T, opts ...PutOptions) (Item, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return Item{}, invalid(ErrValue, "", "%T has no JSON: %v", value, err)
	}
	return s.Put(ctx, namespace, key, raw, opts...)
}

// Search is [Store].Search for values of a Go type. A value that doesn't fit it is
// a [*DecodeError].
func Search[T any](ctx context.Context, s Store, prefix []string, q Query) ([]Entry[T], error) {
	items, err := s.Search(ctx, prefix, q)
	if err != nil {
		return nil, err
	}
	out := make([]Entry[T], len(items))
	for i, item := range items {
		if out[i], err = entryOf[T](item); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Update changes a value of a Go type such that no change of another writer gets
// lost: change is called with the value that is there, or the zero value, and
// once more with the newer one if somebody else was faster. An error of change
// ends Update with it. The conditions of the options must not be set.
func Update[T any](ctx context.Context, s Store, namespace []string, key string, change func(value *T) error, opts ...PutOptions) (Item, error) {
	o, err := one(opts)
	if err != nil {
		return Item{}, err
	}
	if o.IfAbsent || o.IfVersion != 0 {
		return Item{}, invalid(ErrOption, "", "Update sets IfVersion and IfAbsent itself")
	}
	for {
		e, err := Get[T](ctx, s, namespace, key, GetOptions{Refresh: RefreshNever})
		missing := errors.Is(err, ErrNotFound)
		if err != nil && !missing {
			return Item{}, err
		}
		if err := change(&e.Value); err != nil {
			return Item{}, err
		}
		o.IfAbsent, o.IfVersion = missing, e.Version
		item, err := Put(ctx, s, namespace, key, e.Value, o)
		if !errors.Is(err, ErrConflict) {
			return item, err
		}
	}
}
