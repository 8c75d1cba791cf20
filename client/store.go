package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Item is an entry of the long-term memory.
type Item struct {
	Namespace []string        `json:"namespace"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"` // an object
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
	Score     float64         `json:"score"` // how near it is to what a search asked, if it asked
}

// PutItem stores a value, an object when encoded as JSON, in the place of what was
// there.
func (c *Client) PutItem(ctx context.Context, namespace []string, key string, value any) error {
	body := struct {
		Namespace []string `json:"namespace"`
		Key       string   `json:"key"`
		Value     any      `json:"value"`
	}{namespace, key, value}
	_, err := c.do(ctx, call{method: http.MethodPut, path: "/store/items", body: body}, nil)
	return err
}

// Item returns an entry. The error is an [ErrNotFound] if there is none.
func (c *Client) Item(ctx context.Context, namespace []string, key string) (*Item, error) {
	q := url.Values{"namespace": {strings.Join(namespace, ".")}, "key": {key}}
	const at = "/store/items"
	item, err := get[*Item](ctx, c, call{method: http.MethodGet, path: at, query: q})
	if err == nil && item == nil { // which is how some servers say it
		err = &Error{Method: http.MethodGet, Path: at, Status: http.StatusNotFound, Message: fmt.Sprintf("there is no item %q in %q", key, namespace)}
	}
	return item, err
}

// DeleteItem deletes an entry; none is there is no error.
func (c *Client) DeleteItem(ctx context.Context, namespace []string, key string) error {
	body := struct {
		Namespace []string `json:"namespace"`
		Key       string   `json:"key"`
	}{namespace, key}
	_, err := c.do(ctx, call{method: http.MethodDelete, path: "/store/items", body: body}, nil)
	return err
}

// ItemSearch selects entries of the long-term memory; the zero value all of them.
type ItemSearch struct {
	Prefix []string       `json:"namespace_prefix"`
	Filter map[string]any `json:"filter,omitempty"` // on members of their values
	Query  string         `json:"query,omitempty"`  // what they are to be near to in meaning: the nearest come first
	Limit  int            `json:"-"`                // how many at most; 0 means all
}

// SearchItems yields entries of the long-term memory. They are asked for in pages
// while the loop goes on.
func (c *Client) SearchItems(ctx context.Context, s ItemSearch) iter.Seq2[*Item, error] {
	if s.Prefix == nil {
		s.Prefix = []string{}
	}
	return pages(c, s.Limit, func(w window) ([]*Item, error) {
		body := struct {
			ItemSearch
			window
		}{s, w}
		q := call{method: http.MethodPost, path: "/store/items/search", body: body, reads: true}
		out, err := get[struct {
			Items []*Item `json:"items"`
		}](ctx, c, q)
		if err == nil {
			err = whole(c, q, out.Items)
		}
		return out.Items, err
	})
}

// Namespaces yields the namespaces of the long-term memory that begin with a
// prefix. They are asked for in pages while the loop goes on.
func (c *Client) Namespaces(ctx context.Context, prefix ...string) iter.Seq2[[]string, error] {
	return pages(c, 0, func(w window) ([][]string, error) {
		body := struct {
			Prefix []string `json:"prefix,omitempty"`
			window
		}{prefix, w}
		out, err := get[struct {
			Namespaces [][]string `json:"namespaces"`
		}](ctx, c, call{method: http.MethodPost, path: "/store/namespaces", body: body, reads: true})
		return out.Namespaces, err
	})
}
