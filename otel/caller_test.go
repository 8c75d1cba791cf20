package otel_test

import (
	"context"
	"testing"

	api "go.opentelemetry.io/otel/trace"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/tracecontext"
)

func TestARunKnowsWhoAskedForIt(t *testing.T) {
	r := record(t, false)
	g := compile(t, visits("g", "a").AddEdge(graph.Start, "a"), r.Observe())
	caller := tracecontext.Caller{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	detached := caller
	detached.Detached = true
	inside, span := r.provider.Tracer("test").Start(bg, "inside")
	defer span.End()
	own := span.SpanContext().SpanID().String()
	for name, c := range map[string]struct {
		ctx          context.Context
		parent, link string
	}{
		"one who waits":       {tracecontext.With(bg, &caller), "b7ad6b7169203331", ""},
		"one who doesn't":     {tracecontext.With(bg, &detached), api.SpanID{}.String(), "b7ad6b7169203331"},
		"nobody":              {bg, api.SpanID{}.String(), ""},
		"a span of its own":   {tracecontext.With(inside, &caller), own, ""},
		"one who is mistaken": {tracecontext.With(bg, &tracecontext.Caller{Parent: "00-x"}), api.SpanID{}.String(), ""},
	} {
		if _, err := g.Invoke(c.ctx, nil); err != nil {
			t.Fatal(err)
		}
		for _, s := range r.spans.GetSpans() {
			if s.Name != "invoke_workflow g" {
				continue
			}
			link := ""
			if len(s.Links) > 0 {
				link = s.Links[0].SpanContext.SpanID().String()
			}
			if got := s.Parent.SpanID().String(); got != c.parent || link != c.link {
				t.Errorf("%s: the parent is %s and the link %q, want %s and %q", name, got, link, c.parent, c.link)
			}
		}
		r.spans.Reset()
	}
}
