package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
)

const hour = time.Hour

// Whoever knows the head of a log that another process emptied meets a conflict.
func TestALogEmptiedByAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "threads.db")
	a, b := openAt(t, path), openAt(t, path)
	defer a.Close()
	defer b.Close()
	log, run := checkpoint.Log{Thread: "t"}, checkpoint.NewRunID()
	var head checkpoint.ID
	var all []checkpoint.ID
	for seq := int64(1); seq <= 3; seq++ {
		r := logtest.Step(log, run, head, seq, message)
		if _, err := a.Write(t.Context(), &checkpoint.Write{Log: log, Record: r, Head: head}); err != nil {
			t.Fatal(err)
		}
		head, all = r.ID, append(all, r.ID)
	}
	if err := b.(checkpoint.Rewriter).Rewrite(t.Context(), &checkpoint.Rewrite{Log: log, Head: head, Remove: all}); err != nil {
		t.Fatal(err)
	}
	_, err := a.Write(t.Context(), &checkpoint.Write{Log: log, Record: logtest.Step(log, run, head, 4, message), Head: head})
	if !errors.Is(err, checkpoint.ErrConflict) {
		t.Fatalf("append to a log that is gone: %v", err)
	}
	if _, err := a.Write(t.Context(), &checkpoint.Write{Log: log, Record: logtest.Step(log, run, "", 1, message)}); err != nil {
		t.Fatal(err)
	}
}

// A clock that was set back does not make a lease last for years.
func TestALeaseFromTheFutureHasRunOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "threads.db")
	s := openAt(t, path)
	defer s.Close()
	log := checkpoint.Log{Thread: "t"}
	if _, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Claim: true, Holder: "a", Lease: hour}); err != nil {
		t.Fatal(err)
	}
	var busy *checkpoint.BusyError
	claim := &checkpoint.Write{Log: log, Claim: true, Holder: "b", Lease: hour}
	if _, err := s.Write(t.Context(), claim); !errors.As(err, &busy) || busy.Lease.Holder != "a" {
		t.Fatal(err)
	}
	db := rawDB(t, path)
	defer db.Close()
	alter(t, db, func(h *engine.Header) { h.Lease.Until = h.Lease.Until.Add(hour) })
	n := 0
	for w, err := range s.(checkpoint.Scheduler).Abandoned(t.Context(), 0) {
		if n++; err != nil || w.Lease.Holder != "a" {
			t.Fatal(w, err)
		}
	}
	if n != 1 {
		t.Fatalf("%d abandoned threads, want 1", n)
	}
	if _, err := s.Write(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
}

// alter changes the header of thread t behind the store's back.
func alter(t *testing.T, db *sql.DB, f func(h *engine.Header)) {
	t.Helper()
	var b []byte
	if err := db.QueryRow(`SELECT header FROM superstep_threads WHERE thread = 't'`).Scan(&b); err != nil {
		t.Fatal(err)
	}
	h, err := engine.ParseHeader("t", b)
	if err != nil {
		t.Fatal(err)
	}
	f(&h)
	h.Version++
	if _, err := db.Exec(`UPDATE superstep_threads SET version = ?, header = ? WHERE thread = 't'`, h.Version, engine.AppendHeader(nil, "t", &h)); err != nil {
		t.Fatal(err)
	}
}

func TestCompactGivesSpaceBack(t *testing.T) {
	path := fill(t, 400)
	s := openAt(t, path)
	defer s.Close()
	before := size(t, s)
	var ids []checkpoint.ID
	log := checkpoint.Log{Thread: "t"}
	for r, err := range s.Records(t.Context(), checkpoint.Query{Log: log, Meta: true}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	if len(ids) < 100 {
		t.Fatalf("%d records", len(ids))
	}
	last := len(ids) - 1
	if err := s.(checkpoint.Rewriter).Rewrite(t.Context(), &checkpoint.Rewrite{Log: log, Head: ids[last], Remove: ids[:last]}); err != nil {
		t.Fatal(err)
	}
	if err := s.(*sqlite.Store).Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > before/2 {
		t.Fatalf("%d bytes after most of %d went", info.Size(), before)
	}
	if n, err := readAll(s); err != nil || n != 1 {
		t.Fatalf("%d records, %v", n, err)
	}
}

// What is wrong in a table is found, all of it, and where.
func TestVerifyFindsDamage(t *testing.T) {
	for name, c := range map[string]struct {
		do, place, says string
	}{
		"data": {`UPDATE superstep_records SET data = x'00' || data WHERE rid & 4294967295 = 3`, "row 3", "data has checksum"},
		"meta": {`UPDATE superstep_records SET meta = meta || x'20' WHERE rid & 4294967295 = 3`, "row 3", "row has checksum"},
		"ID":   {`UPDATE superstep_records SET meta = substr(meta, 1, 12) || x'0e0e' || substr(meta, 15) WHERE rid & 4294967295 = 3`, "row 3", "row has checksum"},
		"cut":  {`UPDATE superstep_records SET meta = substr(meta, 1, 20) WHERE rid & 4294967295 = 3`, "row 3", "cut off"},
		"swapped records": {`UPDATE superstep_records SET rid = -(rid + CASE rid & 4294967295 WHEN 3 THEN 1 ELSE -1 END) WHERE rid & 4294967295 IN (3, 4);
			UPDATE superstep_records SET rid = -rid WHERE rid < 0`, "row 3", "row has checksum"},
		"a record gone":   {`DELETE FROM superstep_records WHERE rid & 4294967295 = 3`, "row 5", "there are 4"},
		"a result":        {`UPDATE superstep_side SET value = x'00' || value WHERE substr(key, 1, 1) = x'72'`, "side row", "checksum"},
		"swapped results": {`UPDATE superstep_side SET value = (SELECT value FROM superstep_side ORDER BY key DESC LIMIT 1) WHERE key = (SELECT min(key) FROM superstep_side)`, "side row", "checksum"},
		"header":          {`UPDATE superstep_threads SET header = header || x'00'`, "header", "checksum"},
		"minute":          {`UPDATE superstep_threads SET minute = 1`, "superstep_threads", "minute"},
		"due":             {`UPDATE superstep_threads SET due = 1`, "superstep_threads", "due"},
		"no thread":       {`DELETE FROM superstep_threads`, "table superstep_logs", "does not exist"},
		"no log":          {`DELETE FROM superstep_logs`, "table superstep_records", "does not exist"},
		"an index":        {`PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_superstep_logs_1') WHERE name = 'superstep_threads_due'`, "threads.db", ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := fill(t, 5)
			results(t, path)
			db := rawDB(t, path)
			if _, err := db.Exec(c.do); err != nil {
				t.Fatal(err)
			}
			db.Close()
			s := openAt(t, path)
			defer s.Close()
			var all []string
			for d, err := range s.(checkpoint.Verifier).Verify(t.Context(), "") {
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(d.Place, c.place) && strings.Contains(d.Error(), c.says) && errors.Is(d, checkpoint.ErrCorrupt) {
					return
				}
				all = append(all, fmt.Sprint(d))
			}
			t.Fatalf("found only %q", all)
		})
	}
}

// results leaves a result beside the log of thread t.
func results(t *testing.T, path string) {
	t.Helper()
	s := openAt(t, path)
	defer s.Close()
	w := &checkpoint.Write{Log: checkpoint.Log{Thread: "t"}, Results: []checkpoint.Result{
		{Epoch: "e", Kind: checkpoint.KindChanges, Data: []byte(`1`)}, {Epoch: "e", Task: 1, Kind: checkpoint.KindChanges, Data: []byte(`2`)},
	}}
	if _, err := s.Write(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

// The driver reports the end of a context even where it has begun a transaction.
func TestAVerificationThatIsCutShortLeavesNoTransaction(t *testing.T) {
	s, err := sqlite.Open(filepath.Join(t.TempDir(), "x.db"), sqlite.Options{Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 300 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%100)*5*time.Microsecond)
		for _, err := range s.Verify(ctx, "") {
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		cancel()
	}
	for _, err := range s.Verify(t.Context(), "") {
		if err != nil {
			t.Error(err)
		}
	}
}
