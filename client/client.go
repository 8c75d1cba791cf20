package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Client calls a server. It is made by [New], and safe for concurrent use.
type Client struct {
	base    *url.URL // without a slash at the end
	http    *http.Client
	headers http.Header
	tries   int
	lost    func(err error, wait time.Duration)
}

// Option is a setting of a client.
type Option func(*Client)

// HTTPClient makes calls with h, which is not changed. A timeout of h limits whole
// streams too, so better none is set; contexts limit calls. Redirects to another
// origin are refused, whatever h does about redirects: they would be sent the key.
// The default, also for nil, is a client of its own with the standard transport.
func HTTPClient(h *http.Client) Option {
	return func(c *Client) {
		if h != nil {
			c.http = h
		}
	}
}

// APIKey sends a key as the header X-Api-Key, without white space around it, such
// as the line break of the file that it was read from. An empty one sends none.
func APIKey(key string) Option {
	return func(c *Client) {
		if key = strings.TrimSpace(key); key != "" {
			c.headers.Set("X-Api-Key", key)
		}
	}
}

// Header sends a header with each call, such as Authorization. What no header can
// hold is an error of [New].
func Header(name, value string) Option {
	return func(c *Client) { c.headers.Add(name, value) }
}

// Reconnects limits how often in a row a stream that was cut is opened again
// before it is given up; the pause before each doubles from a quarter of a second
// to four, or as long as the server says, up to a minute. The default is 5, 0
// means never.
func Reconnects(n int) Option { return func(c *Client) { c.tries = n } }

// OnReconnect has f called before each pause after which a stream that was cut is
// opened again, from the goroutine that reads the stream.
func OnReconnect(f func(err error, wait time.Duration)) Option {
	return func(c *Client) { c.lost = f }
}

// New returns a client of the server at a URL of the scheme http or https. A path
// in it is kept before those of the protocol; a user and password in it are sent
// as basic authentication. Nothing is sent yet.
func New(server string, opts ...Option) (*Client, error) {
	if !strings.Contains(server, "://") {
		shown := fmt.Sprintf("%q", server)
		if strings.Contains(server, "@") { // there may be a password
			shown = "what was given"
		}
		return nil, fmt.Errorf("client: %s is no URL of a server: use http://HOST:PORT or https://HOST", shown)
	}
	u, err := url.Parse(server)
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) { // which would repeat the URL, with its password
			err = e.Err
		}
		return nil, fmt.Errorf("client: the server's URL cannot be read: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("client: %q is no URL of a server: use http://HOST:PORT or https://HOST", u.Redacted())
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	u.RawQuery, u.Fragment = "", ""
	c := &Client{base: u, http: &http.Client{}, headers: http.Header{}, tries: 5}
	for _, o := range opts {
		o(c)
	}
	for name, values := range c.headers {
		for _, v := range values {
			if name == "" || strings.ContainsFunc(name, notInName) || strings.ContainsFunc(v, notInValue) {
				return nil, fmt.Errorf("client: the header %q cannot be sent: it holds what no header can", name)
			}
		}
	}
	h := *c.http
	follow := h.CheckRedirect
	h.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		switch {
		case r.URL.Scheme != u.Scheme || r.URL.Host != u.Host:
			return &redirectError{fmt.Sprintf("it redirects to %s://%s: give that address if it is meant", r.URL.Scheme, r.URL.Host)}
		case r.Method != via[0].Method: // what was to be sent would be lost
			return &redirectError{fmt.Sprintf("it redirects %s to %s, which %s cannot follow", via[0].URL.Path, r.URL.Path, via[0].Method)}
		case follow != nil:
			return follow(r, via)
		case len(via) >= 10:
			return &redirectError{"it redirects too often"}
		}
		return nil
	}
	c.http = &h
	return c, nil
}

// redirectError says that a redirect was not followed.
type redirectError struct{ text string }

func (e *redirectError) Error() string { return e.text }

// notInName and notInValue tell what net/http would refuse with each call.
func notInName(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}
func notInValue(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// URL returns the server's URL, without a password.
func (c *Client) URL() string { return c.base.Redacted() }

// maxAnswer bounds what is read of an answer that is no stream, in bytes.
const maxAnswer = 1 << 30

// call is one request.
type call struct {
	method, path string
	query        url.Values
	body         any       // nil: none
	raw          io.Reader // in the place of body: sent as it is
	header       http.Header
	reads        bool // changes nothing, although it is a POST
}

func (c *Client) request(ctx context.Context, q call) (*http.Request, error) {
	u := *c.base
	target, err := url.Parse(q.path) // parts of it may be escaped
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	u.Path += target.Path
	u.RawPath = c.base.EscapedPath() + target.EscapedPath()
	u.RawQuery = q.query.Encode()
	body := q.raw
	if q.body != nil {
		data, err := json.Marshal(q.body)
		if err != nil {
			return nil, fmt.Errorf("client: %s %s: what is to be sent is not JSON: %w", q.method, q.path, err)
		}
		body = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, q.method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	for name, values := range c.headers {
		r.Header[name] = values
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Prefer", "handling=strict") // a misspelt field is an error
	if q.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, values := range q.header {
		r.Header[name] = values
	}
	if q.reads {
		// The transport may then send it again if an idle connection turns out to be
		// dead. The header itself is not sent.
		r.Header["X-Idempotency-Key"] = []string{}
	}
	return r, nil
}

// send sends a request and returns an answer of success, whose body is the
// caller's to close.
func (c *Client) send(ctx context.Context, q call) (*http.Response, error) {
	r, err := c.request(ctx, q)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, refusal(q, resp)
}

// do sends a request and decodes the answer into out; nil wants none.
func (c *Client) do(ctx context.Context, q call, out any) (http.Header, error) {
	resp, err := c.send(ctx, q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if len(data) > maxAnswer {
		return nil, &ProtocolError{URL: c.URL(), Err: fmt.Errorf("%s %s: the answer is longer than %d MB", q.method, q.path, maxAnswer>>20)}
	}
	if out == nil {
		return resp.Header, nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, &ProtocolError{URL: c.URL(), Err: fmt.Errorf("%s %s: the answer, of type %q, is not what it should be: %w", q.method, q.path, resp.Header.Get("Content-Type"), err)}
	}
	return resp.Header, nil
}

func get[T any](ctx context.Context, c *Client, q call) (T, error) {
	var v T
	_, err := c.do(ctx, q, &v)
	return v, err
}

// one is get for an answer that must not be null.
func one[T any](ctx context.Context, c *Client, q call) (*T, error) {
	v, err := get[*T](ctx, c, q)
	if err == nil && v == nil {
		err = &ProtocolError{URL: c.URL(), Err: fmt.Errorf("%s %s: the answer is null", q.method, q.path)}
	}
	return v, err
}

// list is get for an array, of which no element may be null.
func list[T any](ctx context.Context, c *Client, q call) ([]*T, error) {
	all, err := get[[]*T](ctx, c, q)
	if err == nil {
		err = whole(c, q, all)
	}
	return all, err
}

// whole refuses a list of which an element is null.
func whole[T any](c *Client, q call, all []*T) error {
	if slices.Contains(all, nil) {
		return &ProtocolError{URL: c.URL(), Err: fmt.Errorf("%s %s: an entry of the answer is null", q.method, q.path)}
	}
	return nil
}

// linked yields the entries of a list from a place on of which each page, of that size, says
// where the next one begins, at most limit of them if that is positive. After the last comes
// the zero value.
func linked[T any, P comparable](c *Client, from P, limit, size int, next func(from P, n int) (some []T, to P, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var end P
		for from, n := from, 0; ; {
			ask := size
			if limit > 0 {
				ask = min(size, limit-n)
			}
			some, to, err := next(from, ask)
			if err == nil && to != end && to == from {
				err = &ProtocolError{URL: c.URL(), Err: fmt.Errorf("a list goes on after %q with that again", fmt.Sprint(from))}
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, one := range some {
				if n++; !yield(one, nil) || n == limit {
					return
				}
			}
			if from = to; from == end {
				return
			}
		}
	}
}

// page is how many entries of a list are asked for at once.
const page = 100

// window is the part of a list that is asked for.
type window struct {
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
}

// pages is linked for a list of which the server gives any part: that which isn't full is
// the last.
func pages[T any](c *Client, limit int, next func(window) ([]T, error)) iter.Seq2[T, error] {
	return linked(c, 0, limit, page, func(from, n int) ([]T, int, error) {
		list, err := next(window{n, from})
		if len(list) < n {
			return list, 0, err
		}
		return list[:n], from + n, err // more than were asked for is the server's mistake
	})
}

// Info says what a server is.
type Info struct {
	Version string          `json:"version"`
	Flags   map[string]bool `json:"flags"`
}

// Info asks the server what it is, for which no key is needed. The error is a
// [*ProtocolError] if something else answers.
func (c *Client) Info(ctx context.Context) (*Info, error) {
	var raw struct {
		Version *string        `json:"version"`
		Flags   map[string]any `json:"flags"` // of which some may be no flags
	}
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/info"}, &raw)
	if e := (*Error)(nil); errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed) {
		return nil, &ProtocolError{URL: c.URL(), Err: e}
	}
	if err != nil {
		return nil, err
	}
	if raw.Version == nil && raw.Flags == nil {
		return nil, &ProtocolError{URL: c.URL(), Err: errors.New("GET /info: the answer has neither version nor flags")}
	}
	out := &Info{Flags: map[string]bool{}}
	if raw.Version != nil {
		out.Version = *raw.Version
	}
	for name, v := range raw.Flags {
		if on, ok := v.(bool); ok {
			out.Flags[name] = on
		}
	}
	return out, nil
}

// path joins the parts of a path, of which those after the format's are escaped.
func path(format string, ids ...string) string {
	escaped := make([]any, len(ids))
	for i, id := range ids {
		if id == "." || id == ".." { // would be taken for a step
			id = "%2E" + strings.TrimPrefix(id, ".")
			escaped[i] = id
			continue
		}
		escaped[i] = url.PathEscape(id)
	}
	return fmt.Sprintf(format, escaped...)
}

func number(n int) string { return strconv.Itoa(n) }
