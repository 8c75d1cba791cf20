package sqlite_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
)

// message is what one record of a conversation holds.
var message = json.RawMessage(`{"messages":[{"role":"assistant","content":"` + strings.Repeat("x", 440) + `"}]}`)

// BenchmarkAppend appends to one thread; compare it with BenchmarkBareInsert.
func BenchmarkAppend(b *testing.B) {
	s := openAt(b, filepath.Join(b.TempDir(), "threads.db"))
	defer s.Close()
	log, run := checkpoint.Log{Thread: "t"}, checkpoint.NewRunID()
	var parent checkpoint.ID
	var seq int64
	b.ReportAllocs()
	for b.Loop() {
		seq++
		r := logtest.Step(log, run, parent, seq, message)
		w := &checkpoint.Write{Log: log, Record: r, Head: parent}
		if parent != "" {
			w.Drop = &checkpoint.Drop{Epoch: parent}
			w.Results = []checkpoint.Result{{Epoch: parent, Kind: checkpoint.KindChanges, Data: message}, {Epoch: parent, Kind: checkpoint.KindRouting, Data: []byte(`{"static":true}`)}}
		}
		if _, err := s.Write(b.Context(), w); err != nil {
			b.Fatal(err)
		}
		parent = r.ID
	}
}

// BenchmarkBareInsert is the loop to compare with: one row a commit, prepared,
// the same driver, settings and bytes.
func BenchmarkBareInsert(b *testing.B) {
	db := rawDB(b, filepath.Join(b.TempDir(), "bare.db"))
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, q := range []string{
		`PRAGMA journal_mode = WAL`, `PRAGMA synchronous = NORMAL`, `PRAGMA cache_size = -16384`, `PRAGMA wal_autocheckpoint = 4000`,
		`CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB NOT NULL)`,
	} {
		if _, err := db.Exec(q); err != nil {
			b.Fatal(err)
		}
	}
	st, err := db.Prepare(`INSERT INTO rows (body) VALUES (?)`)
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	meta, data, err := checkpoint.MarshalBody(logtest.Step(checkpoint.Log{Thread: "t"}, checkpoint.NewRunID(), "", 1, message))
	if err != nil {
		b.Fatal(err)
	}
	body := append(meta, data...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := st.Exec(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStore(b *testing.B) {
	checkpointtest.Benchmark(b, func(b *testing.B) checkpoint.Store {
		return openAt(b, filepath.Join(b.TempDir(), "threads.db"))
	})
}

// BenchmarkFull syncs every commit: here sharing commits pays most.
func BenchmarkFull(b *testing.B) {
	checkpointtest.Benchmark(b, func(b *testing.B) checkpoint.Store {
		s, err := sqlite.Open(filepath.Join(b.TempDir(), "threads.db"), sqlite.Options{Full: true})
		if err != nil {
			b.Fatal(err)
		}
		return s
	})
}
