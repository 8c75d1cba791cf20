package a2a

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// inside carries requests to a handler in this process. They come from whoever sent the
// outer one: with the same address and credentials, so that the handler's rules hold.
type inside struct {
	h     http.Handler
	outer *http.Request
}

// own are headers of the outer request that are about its own body and answer.
var own = []string{"Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Keep-Alive", "Last-Event-Id", "Range", "If-None-Match", "If-Modified-Since"}

// RoundTrip answers when the handler has begun to.
func (t inside) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	in := r.Clone(ctx)
	for name, values := range t.outer.Header {
		if in.Header[name] == nil && !slices.Contains(own, name) && !strings.HasPrefix(name, "Content-") && !strings.HasPrefix(name, "Accept") {
			in.Header[name] = values
		}
	}
	in.Host, in.RemoteAddr, in.TLS, in.RequestURI = t.outer.Host, t.outer.RemoteAddr, t.outer.TLS, in.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	body, w := io.Pipe()
	a := &answer{header: http.Header{}, begun: make(chan struct{}), w: w}
	go func() {
		defer cancel()
		err := io.ErrUnexpectedEOF // of a handler that panics, as net/http does
		defer func() {
			if p := recover(); p == nil || p == http.ErrAbortHandler {
				a.WriteHeader(http.StatusOK)
				w.CloseWithError(err)
			} else {
				a.WriteHeader(http.StatusInternalServerError)
				w.CloseWithError(err)
			}
		}()
		t.h.ServeHTTP(a, in)
		err = io.EOF
	}()
	select {
	case <-a.begun:
	case <-r.Context().Done(): // ctx ends with the handler, too, which may have answered
		body.CloseWithError(r.Context().Err())
		return nil, r.Context().Err()
	}
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.sent, Body: &content{body, cancel}, ContentLength: -1, Request: r,
	}, nil
}

// answer is what a handler writes to.
type answer struct {
	header http.Header
	once   sync.Once
	status int
	sent   http.Header
	begun  chan struct{}
	w      *io.PipeWriter
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	a.once.Do(func() {
		a.status, a.sent = status, a.header.Clone()
		close(a.begun)
	})
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.w.Write(p)
}

// Flush does nothing: what is written is read at once.
func (a *answer) Flush() { a.WriteHeader(http.StatusOK) }

// content is the body of an answer; closing it ends the request.
type content struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (c *content) Close() error {
	c.cancel()
	return c.PipeReader.Close()
}
