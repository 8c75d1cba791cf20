// Package retrieval holds the code of docs/retrieval.md.
package retrieval

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/remember"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/memory/postgres"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/retrieval"
	"github.com/superstep-dev/superstep/retrieval/pdf"
)

// follow makes an index what a folder has now.
func follow(ctx context.Context, x *retrieval.Index, dir string) error {
	files := retrieval.LoadFS(ctx, os.DirFS(dir), retrieval.Loaders{".pdf": pdf.Load})
	var there []string
	report, err := x.Add(ctx, func(yield func(retrieval.Document, error) bool) {
		for d, err := range files {
			if err == nil {
				there = append(there, d.Source)
			}
			if !yield(d, err) {
				return
			}
		}
	})
	if err != nil {
		return err // each document that can't be read, by its name; the others are added
	}
	slog.Info("added", "new", report.Added, "unchanged", report.Unchanged, "embedded", report.Embedded)
	docs, err := x.Documents(ctx)
	if err != nil {
		return err
	}
	for _, d := range docs {
		if !slices.Contains(there, d.ID) {
			if err := x.Delete(ctx, d.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// userKey is where a program keeps who is logged in.
type userKey struct{}

func retriever(x *retrieval.Index, m model.Model) *retrieval.Retriever {
	return &retrieval.Retriever{
		Index:  x,
		K:      5,
		By:     retrieval.ByBoth,
		Filter: memory.Filter{memory.In("metadata.kind", "manual", "notice"), memory.Not(memory.Eq("metadata.draft", true))},
		Scope: func(ctx context.Context) (memory.Filter, error) { // what this run's user may read
			user, _ := ctx.Value(userKey{}).(string)
			return memory.Filter{memory.Or(memory.Eq("metadata.public", true), memory.Eq("metadata.owner", user))}, nil
		},
		Queries:  retrieval.Rephrase(m, 3),
		Reranker: retrieval.ModelReranker{Model: m},
		OnRerankError: func(ctx context.Context, err error) { // the order of the search will do
			slog.WarnContext(ctx, "reranking failed", "error", err)
		},
	}
}

// open opens a store with an approximate index.
func open(ctx context.Context, url string, embedder model.Embedder) (*postgres.Store, error) {
	return postgres.Open(ctx, url, postgres.Options{
		Config: memory.Config{Index: &memory.Index{Embedder: embedder, Name: "text-embedding-3-small"}},
		HNSW:   &postgres.HNSW{EfSearch: 100},
	})
}

// keepUp extracts memories of the threads that have changed since a time.
func keepUp(ctx context.Context, g *graph.Graph[agent.State], threads checkpoint.Lister, e *remember.Extractor, since time.Time) {
	user := func(_ context.Context, snap *graph.Snapshot[agent.State]) ([]string, error) {
		return []string{"users", snap.Metadata["user"]}, nil
	}
	for x, err := range remember.Threads(ctx, g, threads, checkpoint.ThreadFilter{}, e, user) {
		if err != nil {
			slog.ErrorContext(ctx, "extracting memories", "thread", x.Thread, "error", err)
			continue
		}
		if x.Head.CreatedAt.Before(since) {
			return // the threads that follow are older
		}
	}
}

func TestTheSnippetsDoWhatThePageSays(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, fstest.MapFS{
		"manual.md": {Data: []byte("---\nkind: manual\npublic: true\n---\n# Brakes\n\nBrakes are tested twice a day.")},
		"draft.md":  {Data: []byte("---\nkind: manual\npublic: true\ndraft: true\n---\n# Brakes\n\nBrakes are never tested.")},
		"diary.md":  {Data: []byte("---\nkind: notice\nowner: ann\n---\n# Diary\n\nThe brakes failed today.")},
	}); err != nil {
		t.Fatal(err)
	}
	e := memory.HashEmbedder(64)
	s, err := memory.NewInMemory(memory.Config{Index: &memory.Index{Embedder: e}})
	if err != nil {
		t.Fatal(err)
	}
	x := &retrieval.Index{Store: s, Namespace: []string{"docs"}, Embedder: e}
	if err := follow(t.Context(), x, dir); err != nil {
		t.Fatal(err)
	}
	m := scripted.New(scripted.Text(`{"queries": []}`).When(scripted.Says("brakes")).Repeat())
	for user, want := range map[string]int{"ann": 2, "bob": 1} {
		found, err := retriever(x, m).Retrieve(context.WithValue(t.Context(), userKey{}, user), "brakes")
		if err != nil || len(found) != want {
			t.Errorf("%s finds %+v, %v", user, found, err)
		}
	}
	if err := os.Remove(dir + "/diary.md"); err != nil {
		t.Fatal(err)
	}
	if err := follow(t.Context(), x, dir); err != nil {
		t.Fatal(err)
	}
	if docs, err := x.Documents(t.Context()); err != nil || len(docs) != 2 {
		t.Error(docs, err)
	}
	if _, err := open(t.Context(), "postgres://u:p@127.0.0.1:1/db?sslmode=disable", e); err == nil {
		t.Error("nobody listens")
	}
	threads := checkpoint.NewMemory()
	g, err := agent.New(agent.ReAct[agent.State]{Model: scripted.New(scripted.Text("Hello!"))}, graph.WithCheckpointer(threads))
	if err != nil {
		t.Fatal(err)
	}
	th := g.Thread("t")
	if _, err := th.Invoke(t.Context(), th.Input(agent.Ask[agent.State]("I ski.")), graph.Metadata("user", "ann")); err != nil {
		t.Fatal(err)
	}
	keepUp(t.Context(), g, threads, &remember.Extractor{Store: s, Model: scripted.New(scripted.Text(`{"changes": [{"action": "add", "memory": 0, "content": "Ann skis."}]}`))}, time.Time{})
	if items, err := s.Search(t.Context(), []string{"users", "ann"}, memory.Query{Exact: true}); err != nil || len(items) != 1 {
		t.Error(items, err)
	}
}
