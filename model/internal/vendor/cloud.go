package vendor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/superstep-dev/superstep/model"
)

// Cloud is a service that runs a vendor's models at an endpoint and with credentials of
// its own.
type Cloud struct {
	Name    string // of its package, and in errors
	BaseURL string

	// Prepare makes a request the cloud's: it may alter the URL and the header, puts the
	// credentials in, and returns what is sent as the body. It is called last, once for
	// each request.
	Prepare func(r *http.Request, body []byte) ([]byte, error)

	// Answer makes an answer the vendor's; nil if it is.
	Answer func(r *http.Response)

	// Refused alters the error of an answer that isn't a success by what the cloud says in
	// its own way; nil if it says it as the vendor does.
	Refused func(e *model.Error, header http.Header, body []byte)

	// Mend says what to do about credentials that are missing or that the cloud refuses.
	Mend string

	Err *model.Error // what is wrong with the settings, or nil
}

// prepare gives a request its body.
func (c *Cloud) prepare(r *http.Request, body []byte) error {
	body, err := c.Prepare(r, body)
	if err != nil {
		return err
	}
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, err = r.GetBody()
	return err
}

// NoCredentials is the error of credentials that can't be had. Status is what the server
// that gives them has answered, 0 if it gave no answer or there is none.
func (c *Cloud) NoCredentials(err error, status int) *model.Error {
	text := Shorten([]byte(err.Error()))
	e := &model.Error{Provider: c.Name, Kind: KindOf(status), Message: "the credentials can't be had: " + text, Err: err}
	if _, unreached := errors.AsType[*url.Error](err); status == 0 && unreached {
		e.Kind = model.ErrorConnection
	} else if status == 0 || !e.Temporary() {
		e.Kind, e.Message = model.ErrorAuth, "no credentials: "+text+"; "+c.Mend
	}
	return e
}

// Wait calls a function that knows no context, and doesn't wait for it longer than that
// lasts.
func Wait[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// Take takes members out of the JSON of a request, and returns their values by name.
func Take(body []byte, names ...string) (rest []byte, taken map[string]json.RawMessage, err error) {
	members, err := membersOf(body)
	if err != nil {
		return nil, nil, err
	}
	taken = map[string]json.RawMessage{}
	members = slices.DeleteFunc(members, func(m member) bool {
		if !slices.Contains(names, m.name) {
			return false
		}
		taken[m.name] = m.value
		return true
	})
	rest, err = objectOf(members)
	return rest, taken, err
}

// TakeText takes a member that is a text.
func TakeText(body []byte, name string) (text string, rest []byte, err error) {
	rest, taken, err := Take(body, name)
	if err == nil {
		err = json.Unmarshal(taken[name], &text)
	}
	return text, rest, err
}
