package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// timed sees to it that no request holds anything for ever: its body has to arrive
// in time, and its client has to read what is sent to it.
func (s *gate) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.body(w, r)
		p := &patient{w, http.NewResponseController(w), s.limits.ReaderTimeout}
		defer p.wait() // the rest is sent after the handler; then net/http takes the deadline away
		next.ServeHTTP(p, r)
	})
}

// body bounds a request's body: its bytes, and the time that it may take.
func (s *gate) body(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	if s.limits.Body > 0 {
		r.Body = http.MaxBytesReader(w, r.Body, s.limits.Body)
	}
	if s.limits.BodyTimeout < 0 {
		return
	}
	c := http.NewResponseController(w)
	if c.SetReadDeadline(time.Now().Add(s.limits.BodyTimeout)) == nil {
		r.Body = &timely{r.Body, c}
	}
}

// timely is a body with a deadline, which ends with it: the connection is read on
// to see whether the client is still there.
type timely struct {
	io.ReadCloser
	conn *http.ResponseController
}

func (t *timely) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = t.conn.SetReadDeadline(time.Time{}) // it could be set
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return n, errSlowBody
	}
	return n, err
}

var errSlowBody = &fault{http.StatusRequestTimeout, "the body took too long"}

// patient is an answer whose reader may take its time for each piece of it.
type patient struct {
	http.ResponseWriter
	conn *http.ResponseController
	time time.Duration // negative: any
}

// piece is what a reader has to take in one go.
const piece = 256 << 10

func (p *patient) wait() {
	if p.time > 0 {
		_ = p.conn.SetWriteDeadline(time.Now().Add(p.time)) // what has no connection has no deadline
	}
}

func (p *patient) Write(data []byte) (n int, err error) {
	for first := true; err == nil && (first || n < len(data)); first = false {
		p.wait()
		var sent int
		sent, err = p.ResponseWriter.Write(data[n:min(n+piece, len(data))])
		n += sent
	}
	return n, err
}

// FlushError lets http.ResponseController flush.
func (p *patient) FlushError() error {
	p.wait()
	return p.conn.Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// inflow counts bytes of a body that is being read for its client.
type inflow struct {
	from   io.Reader
	g      *gauge
	client string
	held   int
}

func (i *inflow) Read(p []byte) (int, error) {
	n, err := i.from.Read(p[:min(len(p), 16<<10)]) // a message's reader waits until what it is given is full
	if failed := i.g.add(i.client, n); failed != nil {
		return n, failed
	}
	i.held += n
	return n, err
}

// receive reads a body, or a message, unless too much is being read already.
func receive(ctx context.Context, client string, from io.Reader) ([]byte, error) {
	l, ok := ctx.Value(boundsKey{}).(*bounds)
	if !ok {
		return io.ReadAll(from)
	}
	i := &inflow{from: from, g: l.bodies, client: client}
	defer func() { i.g.sub(client, i.held) }()
	return io.ReadAll(i)
}

type boundsKey struct{}

// bounds are what of a server bounds a request.
type bounds struct {
	limits Limits
	bodies *gauge // of bytes that were read of bodies and messages that are not whole
}

// limitsOf returns the limits of the server of a request.
func limitsOf(ctx context.Context) Limits {
	if l, ok := ctx.Value(boundsKey{}).(*bounds); ok {
		return l.limits
	}
	return Limits{}.withDefaults(0)
}
