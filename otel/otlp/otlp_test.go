package otlp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/superstep-dev/superstep/otel/otlp"
)

// collector takes what is sent by the definitions of OTLP, in which IDs of JSON are
// hexadecimal where Protocol Buffers have base64.
type collector struct {
	url string

	mu      sync.Mutex
	answers []func(w http.ResponseWriter) // the last one for ever
	heads   []http.Header
	got     []*tracepb.TracesData
}

func collect(t *testing.T, answers ...func(w http.ResponseWriter)) *collector {
	t.Helper()
	c := &collector{answers: answers}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		data, err := io.ReadAll(body)
		var got tracepb.TracesData
		if err = errors.Join(err, protojson.Unmarshal(data, &got)); err != nil {
			t.Errorf("%v: %s", err, data)
		}
		c.got, c.heads = append(c.got, &got), append(c.heads, r.Header)
		if len(c.answers) == 0 {
			_, _ = io.WriteString(w, "{}")
			return
		}
		c.answers[0](w)
		c.answers = c.answers[min(1, len(c.answers)-1):]
	}))
	t.Cleanup(s.Close)
	c.url = s.URL + "/v1/traces"
	return c
}

func says(status int, text string, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

func id(b []byte) string {
	text := base64.StdEncoding.EncodeToString(b)
	if _, err := hex.DecodeString(text); err != nil {
		return "not hexadecimal: " + text
	}
	return text
}

// exported ends a few spans, and returns what sending them came to.
func exported(t *testing.T, o otlp.Options) error {
	t.Helper()
	e, err := otlp.New(o)
	if err != nil {
		t.Fatal(err)
	}
	kept := &keep{}
	provider := sdk.NewTracerProvider(sdk.WithSyncer(kept), sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "tests"))))
	tracer := provider.Tracer("scope", trace.WithInstrumentationVersion("1.2"))
	ctx, run := tracer.Start(t.Context(), "run", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(time.Unix(1, 5)))
	_, node := tracer.Start(ctx, "node", trace.WithLinks(trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true})}))
	node.SetAttributes(
		attribute.Bool("yes", true), attribute.Int64("large", math.MaxInt64), attribute.Float64("half", .5), attribute.Float64("none", math.NaN()),
		attribute.String("text", "ä\x00"), attribute.StringSlice("texts", []string{"a", "b"}), attribute.Int64Slice("numbers", []int64{1}),
		attribute.BoolSlice("yeses", nil), attribute.Float64Slice("halves", []float64{math.Inf(1)}),
		attribute.KeyValue{Key: "bytes", Value: attribute.ByteSliceValue([]byte{0, 255})},
		attribute.KeyValue{Key: "mixed", Value: attribute.SliceValue(attribute.StringValue("a"), attribute.BoolValue(true))},
		attribute.KeyValue{Key: "map", Value: attribute.MapValue(attribute.String("a", "b"))},
		attribute.KeyValue{Key: "nothing", Value: attribute.Value{}},
	)
	node.AddEvent("interrupt", trace.WithAttributes(attribute.String("id", "7")))
	node.SetStatus(codes.Error, "it broke")
	node.End()
	run.SetStatus(codes.Ok, "")
	run.End(trace.WithTimestamp(time.Unix(2, 7)))
	return e.ExportSpans(t.Context(), kept.spans)
}

type keep struct{ spans []sdk.ReadOnlySpan }

func (k *keep) ExportSpans(_ context.Context, s []sdk.ReadOnlySpan) error {
	k.spans = append(k.spans, s...)
	return nil
}
func (k *keep) Shutdown(context.Context) error { return nil }

func TestSpansAreSentAsOTLPDefinesThem(t *testing.T) {
	c := collect(t)
	if err := exported(t, otlp.Options{URL: c.url, Gzip: true, Headers: map[string]string{"Authorization": "Bearer x"}}); err != nil {
		t.Fatal(err)
	}
	if h := c.heads[0]; h.Get("Content-Type") != "application/json" || h.Get("Authorization") != "Bearer x" {
		t.Errorf("headers %v", h)
	}
	if len(c.got) != 1 || len(c.got[0].ResourceSpans) != 1 || len(c.got[0].ResourceSpans[0].ScopeSpans) != 1 {
		t.Fatalf("got %v", c.got)
	}
	of := c.got[0].ResourceSpans[0]
	if a := of.Resource.Attributes; len(a) != 1 || a[0].Key != "service.name" || a[0].Value.GetStringValue() != "tests" {
		t.Errorf("resource %v", of.Resource)
	}
	in := of.ScopeSpans[0]
	if in.Scope.Name != "scope" || in.Scope.Version != "1.2" || len(in.Spans) != 2 {
		t.Fatalf("scope %v", in)
	}
	node, run := in.Spans[0], in.Spans[1]
	if run.Name != "run" || run.Kind != tracepb.Span_SPAN_KIND_SERVER || run.StartTimeUnixNano != 1e9+5 || run.EndTimeUnixNano != 2e9+7 ||
		run.Status.Code != tracepb.Status_STATUS_CODE_OK || len(run.ParentSpanId) != 0 || run.Flags != 0x101 {
		t.Errorf("run %v", run)
	}
	if node.Name != "node" || node.Kind != tracepb.Span_SPAN_KIND_INTERNAL || id(node.TraceId) != id(run.TraceId) || len(id(run.TraceId)) != 32 ||
		len(id(node.SpanId)) != 16 || id(node.ParentSpanId) != id(run.SpanId) || node.Status.Code != tracepb.Status_STATUS_CODE_ERROR || node.Status.Message != "it broke" {
		t.Errorf("node %v", node)
	}
	if e := node.Events; len(e) != 1 || e[0].Name != "interrupt" || e[0].TimeUnixNano == 0 || e[0].Attributes[0].Value.GetStringValue() != "7" {
		t.Errorf("events %v", e)
	}
	if l := node.Links; len(l) != 1 || id(l[0].TraceId) != "01000000000000000000000000000000" || id(l[0].SpanId) != "0200000000000000" || l[0].Flags != 0x300 {
		t.Errorf("links %v", l)
	}
	var attributes []string
	for _, a := range node.Attributes {
		attributes = append(attributes, strings.ReplaceAll(fmt.Sprintf("%s %v", a.Key, a.Value), "  ", " "))
	}
	want := []string{
		"yes bool_value:true", "large int_value:9223372036854775807", "half double_value:0.5", "none double_value:nan", `text string_value:"ä\x00"`,
		`texts array_value:{values:{string_value:"a"} values:{string_value:"b"}}`, "numbers array_value:{values:{int_value:1}}", "yeses array_value:{}",
		"halves array_value:{values:{double_value:inf}}", `bytes bytes_value:"\x00\xff"`, `mixed array_value:{values:{string_value:"a"} values:{bool_value:true}}`,
		`map kvlist_value:{values:{key:"a" value:{string_value:"b"}}}`, "nothing ",
	}
	if got := strings.Join(attributes, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("attributes are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestWhatAnEndpointAnswersIsHeeded(t *testing.T) {
	status := func(code int, hint string) func(error) bool {
		return func(err error) bool {
			var e *otlp.StatusError
			return errors.As(err, &e) && e.Status == code && strings.Contains(err.Error(), hint)
		}
	}
	well := func(err error) bool { return err == nil }
	for name, tt := range map[string]struct {
		answers []func(http.ResponseWriter)
		want    func(error) bool
		asked   int
	}{
		"it has too much to do": {[]func(http.ResponseWriter){says(503, "", "Retry-After", "0"), says(429, ""), says(200, "{}")}, well, 3},
		"it takes some": {[]func(http.ResponseWriter){says(200, `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}`)}, func(err error) bool {
			var e *otlp.RejectedError
			return errors.As(err, &e) && e.Spans == 1 && e.Text == "too old"
		}, 1},
		"it has a remark":           {[]func(http.ResponseWriter){says(200, `{"partialSuccess":{"errorMessage":"use batches"}}`)}, well, 1},
		"it answers in another way": {[]func(http.ResponseWriter){says(202, "\x0a\x00")}, well, 1},
		"it isn't there":            {[]func(http.ResponseWriter){says(404, "no")}, status(404, "/v1/traces"), 1},
		"it wants a key":            {[]func(http.ResponseWriter){says(401, "no")}, status(401, "HEADERS"), 1},
		"it knows no JSON":          {[]func(http.ResponseWriter){says(415, "no")}, status(415, "JSON"), 1},
		"it is elsewhere":           {[]func(http.ResponseWriter){says(307, "", "Location", "http://127.0.0.1:1/")}, status(307, ""), 1},
	} {
		c := collect(t, tt.answers...)
		if err := exported(t, otlp.Options{URL: c.url, Headers: map[string]string{"k": "v"}}); !tt.want(err) || len(c.got) != tt.asked {
			t.Errorf("%s: %v, asked %d times", name, err, len(c.got))
		}
	}
	c := collect(t)
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		full := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if asked++; asked == 3 { // and the third isn't answered
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			w := httptest.NewRecorder()
			says(503, "full")(w)
			return w.Result(), nil
		})}
		if err := exported(t, otlp.Options{URL: c.url, Client: full}); !status(503, "full")(err) || asked != 3 {
			t.Errorf("for ever: %v, asked %d times", err, asked)
		}
	})
	if err := exported(t, otlp.Options{URL: "http://127.0.0.1:1/v1/traces", Timeout: 50 * time.Millisecond}); err == nil {
		t.Error("nobody is there, and nothing is said")
	}
	e, err := otlp.New(otlp.Options{URL: c.url})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Shutdown(t.Context()), e.ExportSpans(t.Context(), make([]sdk.ReadOnlySpan, 1))); err != nil {
		t.Errorf("after its end: %v", err)
	}
	for _, o := range []otlp.Options{{}, {URL: "localhost:4318"}, {URL: "ftp://x/"}, {URL: c.url, Timeout: -1}} {
		if _, err := otlp.New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTheEnvironmentSaysWhereSpansGo(t *testing.T) {
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "{}") }))
	secure.Config.ErrorLog = nil
	defer secure.Close()
	pem := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(pem, certificate(secure), 0o600); err != nil {
		t.Fatal(err)
	}
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318"
	for _, tt := range []struct {
		env  []string
		want string // URL and more; "off", or what the error says
	}{
		{nil, "off"},
		{[]string{endpoint}, "http://c:4318/v1/traces"},
		{[]string{endpoint + "/"}, "http://c:4318/v1/traces"},
		{[]string{endpoint, "OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"}, "http://c:4318/v1/traces"},
		{[]string{endpoint, "OTEL_TRACES_EXPORTER=none"}, "off"},
		{[]string{endpoint, "OTEL_SDK_DISABLED=TRUE"}, "off"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://d/x"}, "http://d/x"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_HEADERS= a=1, b=x%20y%2C ,", "OTEL_EXPORTER_OTLP_TIMEOUT=1500", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip"}, `http://c:4318/v1/traces map[a:1 b:x y,] 1.5s gzip`},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=2", "OTEL_EXPORTER_OTLP_HEADERS=a=1"}, `http://c:4318/v1/traces map[a:2]`},
		{[]string{endpoint, "OTEL_TRACES_EXPORTER=zipkin"}, "it can be otlp or none"},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=c:4318"}, "must be a URL"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, "http/json"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_COMPRESSION=zstd"}, "gzip or none"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_TIMEOUT=1s"}, "milliseconds"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_HEADERS=secret"}, "name=value"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_CLIENT_KEY=k.pem"}, "certificates of clients"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_CERTIFICATE=" + pem + "x"}, "no such file"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_CERTIFICATE=otlp_test.go"}, "no certificate in it"},
	} {
		t.Run(strings.Join(tt.env, " "), func(t *testing.T) {
			for _, kv := range os.Environ() {
				if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
					t.Setenv(name, "")
				}
			}
			for _, kv := range tt.env {
				name, value, _ := strings.Cut(kv, "=")
				t.Setenv(name, value)
			}
			o, on, err := otlp.Environment()
			got := o.URL
			if o.Headers != nil {
				got += fmt.Sprint(" ", o.Headers)
			}
			if o.Timeout != 0 {
				got += fmt.Sprint(" ", o.Timeout)
			}
			if o.Gzip {
				got += " gzip"
			}
			switch {
			case err != nil:
				if on || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "OTEL_") || strings.Contains(err.Error(), "secret") {
					t.Errorf("got %v", err)
				}
			case !on && tt.want != "off" || on && got != tt.want:
				t.Errorf("got %v, %q", on, got)
			}
		})
	}
	t.Run("a certificate", func(t *testing.T) {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", secure.URL)
		o, _, err := otlp.Environment()
		if err != nil {
			t.Fatal(err)
		}
		o.Timeout = 5 * time.Second // it is tried again, until the end of which it is told
		if err := exported(t, o); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("without it: %v", err)
		}
		t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", pem)
		if o, _, err = otlp.Environment(); err != nil {
			t.Fatal(err)
		}
		if err := exported(t, o); err != nil {
			t.Errorf("with it: %v", err)
		}
	})
}

func certificate(s *httptest.Server) []byte {
	var b bytes.Buffer
	b.WriteString("-----BEGIN CERTIFICATE-----\n")
	text := base64.StdEncoding.EncodeToString(s.Certificate().Raw)
	for len(text) > 0 {
		n := min(64, len(text))
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	b.WriteString("-----END CERTIFICATE-----\n")
	return b.Bytes()
}
