package sqlite_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
)

// logOf is what testdata/version1.json says of a log.
type logOf struct {
	Log     checkpoint.Log
	Records []json.RawMessage
	Results []checkpoint.Result
}

// Databases of schema version 1 stay readable for ever.
func TestADatabaseOfVersion1(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "version1.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "threads.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err = os.ReadFile(filepath.Join("testdata", "version1.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want []logOf
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	check := func(s checkpoint.Store) {
		t.Helper()
		for _, l := range want {
			var n int
			for r, err := range s.Records(ctx, checkpoint.Query{Log: l.Log, AllBranches: true}) {
				if err != nil {
					t.Fatal(err)
				}
				if n == len(l.Records) {
					break
				}
				got, err := json.Marshal(r)
				if err != nil {
					t.Fatal(err)
				}
				var wanted bytes.Buffer
				if err := json.Compact(&wanted, l.Records[n]); err != nil {
					t.Fatal(err)
				}
				if string(got) != wanted.String() {
					t.Fatalf("got  %s\nwant %s", got, &wanted)
				}
				n++
			}
			if n < len(l.Records) {
				t.Fatalf("%d records of %v, want %d", n, l.Log, len(l.Records))
			}
			for _, r := range l.Results {
				got, err := s.Results(ctx, l.Log, r.Branch, r.Epoch)
				if err != nil || len(got) == 0 {
					t.Fatalf("results of %s: %v, %v", r.Epoch, got, err)
				}
			}
		}
		for c, err := range s.(checkpoint.Verifier).Verify(ctx, "") {
			t.Fatalf("%v, %v", c, err)
		}
	}
	s := openAt(t, path)
	check(s)
	for w, err := range s.(checkpoint.Scheduler).Due(ctx, never, 0) {
		t.Fatalf("%+v, %v", w, err)
	}
	// It can be written to, and what is new works.
	head, _, err := s.Head(ctx, want[0].Log)
	if err != nil {
		t.Fatal(err)
	}
	next := *head
	next.ID, next.Parent, next.Seq, next.Due = checkpoint.NewRunID().Checkpoint(1), head.ID, head.Seq+1, next.CreatedAt
	w := &checkpoint.Write{Log: head.Log, Claim: true, Holder: "run", Lease: hour, Record: &next, Head: head.ID}
	out, err := s.Write(ctx, w)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path)
	defer s.Close()
	check(s)
	if _, err := s.Write(ctx, &checkpoint.Write{Log: head.Log, Fence: out.Fence, Release: true}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range s.(checkpoint.Scheduler).Due(ctx, never, 0) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Fatalf("%d threads are due, want 1", n)
	}
}

// Threads whose labels nobody wrote, as an older program left them, are found by what
// they have, and so they are once they were written to.
func TestThreadsWithoutLabelsAreFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "threads.db")
	s := openAt(t, path)
	defer s.Close()
	checkpointtest.Unlabelled(t, s, func() {
		db, err := sql.Open("sqlite", path)
		if err == nil {
			_, err = db.ExecContext(t.Context(), `UPDATE superstep_logs SET labels = NULL`)
			err = errors.Join(err, db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
