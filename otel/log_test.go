package otel_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/otel"
)

func TestLogsNameTheirTraceAndThread(t *testing.T) {
	r := record(t, false)
	var out strings.Builder
	l := slog.New(otel.LogHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	in := graph.TaskInfo{}
	g := compile(t, graph.New[State]("g").AddNode("a", func(ctx context.Context, _ *State) error {
		in = graph.Info(ctx)
		l.InfoContext(ctx, "plain", "k", 1)
		l.With("with", 1).WithGroup("").WithGroup("group").With("in", 2).WithGroup("deep").InfoContext(ctx, "grouped", "k", 3)
		return nil
	}).AddEdge(graph.Start, "a"), r.Observe(), graph.WithCheckpointer(checkpoint.NewMemory()))
	if _, err := g.Thread("t-1").Invoke(bg, g.Input(func(*State) error { return nil })); err != nil {
		t.Fatal(err)
	}
	l.With("with", 1).WithGroup("group").Info("outside", "k", 1)
	l.DebugContext(bg, "too low")
	sc := spanOf(t, r, "node a")
	about := "trace_id=" + sc.TraceID().String() + " span_id=" + sc.SpanID().String() + " thread=t-1 run=" + in.Run + " graph=g node=a"
	want := "level=INFO msg=plain k=1 " + about + "\n" +
		"level=INFO msg=grouped with=1 " + about + " group.in=2 group.deep.k=3\n" +
		"level=INFO msg=outside with=1 group.k=1\n"
	if out.String() != want {
		t.Errorf("logged\n%s\nwant\n%s", out.String(), want)
	}
}
