// Package otlp sends spans to a collector of OpenTelemetry, or to a service that takes
// OTLP, over HTTP and as JSON. It is small, where OpenTelemetry's own exporter brings
// Protocol Buffers and gRPC with it; a program that has these anyway may take that one.
//
//	o, on, err := otlp.Environment()
//	exporter, err := otlp.New(o)
//	provider := trace.NewTracerProvider(trace.WithBatcher(exporter))
//	tel, err := otel.New(otel.Options{TracerProvider: provider})
//
// The format is that of OTLP 1.9, "JSON Protobuf Encoding".
package otlp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
)

// Options say where spans go. [Environment] reads them from the variables that
// OpenTelemetry names.
type Options struct {
	// URL is that of the whole endpoint, such as http://localhost:4318/v1/traces.
	URL string

	Headers map[string]string
	Gzip    bool

	// Timeout bounds the sending of a batch, with all its repetitions; 0 means 10 seconds.
	Timeout time.Duration

	// Client sends requests; nil: one of its own, which follows no redirections.
	Client *http.Client
}

// Exporter sends spans. It is safe for concurrent use.
type Exporter struct {
	o    Options
	over atomic.Bool
}

var _ trace.SpanExporter = (*Exporter)(nil)

// New returns an exporter. It doesn't ask whether anybody is there.
func New(o Options) (*Exporter, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("otlp: Options.URL is not that of an endpoint, such as http://localhost:4318/v1/traces") // it may have a password
	case o.Timeout < 0:
		return nil, errors.New("otlp: Options.Timeout is negative")
	}
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.Headers = maps.Clone(o.Headers)
	if o.Client == nil {
		o.Client = client(nil)
	}
	return &Exporter{o: o}, nil
}

// client returns a client that follows no redirections.
func client(t http.RoundTripper) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// StatusError says that an endpoint refused spans.
type StatusError struct {
	URL    string // without its password
	Status int
	Text   string // the beginning of the answer
}

func (e *StatusError) Error() string {
	hint := ""
	switch e.Status {
	case http.StatusNotFound:
		hint = ": the path of the endpoint is most often /v1/traces"
	case http.StatusUnauthorized, http.StatusForbidden:
		hint = ": check the headers, as of OTEL_EXPORTER_OTLP_HEADERS"
	case http.StatusUnsupportedMediaType:
		hint = ": it doesn't take OTLP as JSON"
	}
	return fmt.Sprintf("otlp: %s answers %d%s: %s", e.URL, e.Status, hint, e.Text)
}

// RejectedError says that an endpoint took a batch without some of its spans.
type RejectedError struct {
	Spans int64
	Text  string
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("otlp: %d spans were rejected: %s", e.Spans, e.Text)
}

// ExportSpans sends spans. While the endpoint can't be reached, or says that it has too
// much to do, it tries again within [Options.Timeout]; the error is then that of the last
// attempt that wasn't cut short. Other refusals are a *[StatusError].
func (e *Exporter) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	if len(spans) == 0 || e.over.Load() {
		return nil
	}
	body, err := json.Marshal(request(spans))
	if err != nil {
		return fmt.Errorf("otlp: %w", err)
	}
	if e.o.Gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err = z.Write(body); err == nil {
			err = z.Close()
		}
		if err != nil {
			return fmt.Errorf("otlp: %w", err)
		}
		body = b.Bytes()
	}
	ctx, cancel := context.WithTimeout(ctx, e.o.Timeout)
	defer cancel()
	var before error // why it was tried again
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		after, err := e.post(ctx, body)
		if before != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) { // cut short: it says nothing
			return before
		}
		if before = err; err == nil || after < 0 || e.over.Load() {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(max(after, wait/2+rand.N(wait))):
		}
	}
}

// How long it is waited before another attempt.
const firstWait, lastWait = 200 * time.Millisecond, 5 * time.Second

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 10

// post sends a batch once. A negative time says that it is of no use to try again.
func (e *Exporter) post(ctx context.Context, body []byte) (after time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.o.URL, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	for name, value := range e.o.Headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/json")
	if e.o.Gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := e.o.Client.Do(r)
	if err != nil {
		return 0, fmt.Errorf("otlp: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode/100 == 2 {
		if err != nil {
			return -1, nil // it has them
		}
		return -1, rejected(text)
	}
	refused := &StatusError{r.URL.Redacted(), resp.StatusCode, strings.ToValidUTF8(string(text[:min(len(text), 300)]), "")}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return time.Duration(max(0, min(seconds, 3600))) * time.Second, refused
	}
	return -1, refused
}

// rejected returns what an answer says of spans that were not taken.
func rejected(answer []byte) error {
	var a struct {
		PartialSuccess struct {
			RejectedSpans json.RawMessage `json:"rejectedSpans"`
			ErrorMessage  string          `json:"errorMessage"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return nil // it is another encoding's, and they were taken
	}
	n, _ := strconv.ParseInt(strings.Trim(string(a.PartialSuccess.RejectedSpans), `"`), 10, 64)
	if n == 0 {
		return nil
	}
	return &RejectedError{n, a.PartialSuccess.ErrorMessage}
}

// Shutdown ends the exporter: what comes after is dropped, and what is being sent is not
// tried again.
func (e *Exporter) Shutdown(context.Context) error {
	e.over.Store(true)
	e.o.Client.CloseIdleConnections()
	return nil
}
