package snippets_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
)

// understandOnce asks the model at most once for each message.
func understandOnce(ctx context.Context, s *Booking) error {
	intent, err := graph.Once(ctx, "classify", func(ctx context.Context, _ string) (string, error) {
		model, err := graph.Deps[Model](ctx)
		if err != nil {
			return "", err
		}
		return model.Classify(ctx, s.Message)
	})
	s.Intent = intent
	return err
}

func assistant(opts ...graph.Option) *graph.Graph[Booking] {
	b := graph.New[Booking]("booking")
	b.AddNode("understand", understandOnce)
	b.AddNode("ask origin", askOrigin)
	b.AddNode("note", note)
	b.AddEdge(graph.Start, "understand")
	b.AddConditionalEdges("understand", byIntent, "ask origin", "note")
	b.AddEdge("ask origin", "note")
	return b.MustCompile(opts...)
}

// keep writes a thread to a file.
func keep(ctx context.Context, store checkpoint.Store, thread checkpoint.ThreadID, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return recording.Export(ctx, store, thread, f)
}

// TestBookingConversations replays every conversation that was kept.
func TestBookingConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/conversations/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) { graphtest.Replay(t, assistant(), path) })
	}
}

func TestKeepAndReplay(t *testing.T) {
	store := checkpoint.NewMemory()
	model := scripted{"Book a flight": "book_flight"}
	//snippet:record
	g := assistant(graph.WithCheckpointer(store), graph.UseDeps[Model](model), graph.RecordOnce())
	//snippet:end
	talk := g.Thread("t-1")
	if _, err := talk.Invoke(t.Context(), talk.Input(says("Book a flight"))); err != nil {
		t.Fatal(err)
	}
	if _, err := talk.Invoke(t.Context(), talk.Answer("Oslo")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "t-1.jsonl")
	if err := keep(t.Context(), store, "t-1", path); err != nil {
		t.Fatal(err)
	}
	graphtest.Replay(t, assistant(), path) // no model is there
	rec, err := recording.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := checkpoint.NewMemory()
	if err := rec.Put(t.Context(), copied, "t-2"); err != nil {
		t.Fatal(err)
	}
	snap, err := assistant(graph.WithCheckpointer(copied)).Thread("t-2").State(t.Context())
	if err != nil || snap.State.Log.Last() != "book_flight from Oslo" {
		t.Errorf("state is %v, %v", snap, err)
	}
}
