package client

import (
	"context"
	"encoding/json"
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

// Item returns an entry, nil if there is none.
func (c *Client) Item(ctx context.Context, namespace []string, key string) (*Item, error) {
	q := url.Values{"namespace": {strings.Join(namespace, ".")}, "key": {key}}
	return get[*Item](ctx, c, call{method: http.MethodGet, path: "/store/items", query: q})
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

// ItemSearch selects entries of the long-term memory.
type ItemSearch struct {
	Prefix []string       `json:"namespace_prefix"` // of their namespaces
	Filter map[string]any `json:"filter,omitempty"` // on members of their values
	Query  string         `json:"query,omitempty"`  // what they are to be near to in meaning
	Limit  int            `json:"limit,omitempty"`  // how many at most; 0 means 10
	Offset int            `json:"offset,omitempty"` // how many to pass over
}

// SearchItems returns entries of the long-term memory.
func (c *Client) SearchItems(ctx context.Context, s ItemSearch) ([]Item, error) {
	if s.Prefix == nil {
		s.Prefix = []string{}
	}
	out, err := get[struct {
		Items []Item `json:"items"`
	}](ctx, c, call{method: http.MethodPost, path: "/store/items/search", body: s})
	return out.Items, err
}

// Namespaces returns the namespaces of the long-term memory that begin with a
// prefix, at most 1000.
func (c *Client) Namespaces(ctx context.Context, prefix ...string) ([][]string, error) {
	body := struct {
		Prefix []string `json:"prefix,omitempty"`
		Limit  int      `json:"limit"`
	}{prefix, 1000}
	out, err := get[struct {
		Namespaces [][]string `json:"namespaces"`
	}](ctx, c, call{method: http.MethodPost, path: "/store/namespaces", body: body})
	return out.Namespaces, err
}
