package checkpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

func TestLatest(t *testing.T) { // TRPC-53
	s := checkpoint.NewMemory()
	ctx := context.Background()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	write := func(ns string, age time.Duration) checkpoint.ID {
		id := checkpoint.NewRunID().Checkpoint(1)
		log := checkpoint.Log{Thread: "t", Namespace: ns}
		r := &checkpoint.Record{ID: id, Log: log, Seq: 1, Epoch: id, CreatedAt: at.Add(-age)}
		if _, err := s.Write(ctx, &checkpoint.Write{Log: log, Record: r}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	latest := func(thread checkpoint.ThreadID, ns string) checkpoint.ID {
		t.Helper()
		r, err := checkpoint.Latest(ctx, s, checkpoint.Log{Thread: thread, Namespace: ns})
		if err != nil {
			t.Fatal(err)
		}
		if r == nil {
			return ""
		}
		return r.ID
	}
	if id := latest("t", ""); id != "" {
		t.Fatalf("got %s of an unknown thread", id)
	}
	a := write("a", time.Hour)
	b := write("b", time.Minute)
	root := write("", 2*time.Hour)
	if got := latest("t", "a"); got != a {
		t.Errorf("newest of a: %s, want %s", got, a)
	}
	if got := latest("t", ""); got != b || got == root {
		t.Errorf("newest of all namespaces: %s, want %s", got, b)
	}
	if got := latest("t", "c"); got != "" {
		t.Errorf("newest of an unknown namespace: %s", got)
	}
	if _, err := checkpoint.Latest(ctx, s, checkpoint.Log{}); !errors.Is(err, checkpoint.ErrNoThread) {
		t.Errorf("no thread: %v", err)
	}
}
