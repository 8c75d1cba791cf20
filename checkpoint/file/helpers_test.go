package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

var clock = time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC)

// writer appends records to one log.
type writer struct {
	log  checkpoint.Log
	run  checkpoint.ID
	n    uint32
	seq  int64
	head checkpoint.ID
}

func newWriter(thread string) *writer {
	return &writer{log: checkpoint.Log{Thread: checkpoint.ThreadID(thread)}, run: checkpoint.NewRunID()}
}

func (w *writer) next(data string) *checkpoint.Record {
	id := w.run.Checkpoint(w.n + 1)
	return &checkpoint.Record{
		ID: id, Parent: w.head, Log: w.log, Seq: w.seq + 1, Epoch: id, Step: int(w.seq),
		Source: checkpoint.SourceLoop, CreatedAt: clock.Add(time.Duration(w.seq) * time.Second), Graph: "chat",
		Changes: []checkpoint.Change{{Node: "agent", Data: json.RawMessage(data)}},
	}
}

func (w *writer) wrote(r *checkpoint.Record) { w.n, w.seq, w.head = w.n+1, r.Seq, r.ID }

func (w *writer) add(t testing.TB, s *Store, data string) *checkpoint.Record {
	t.Helper()
	r := w.next(data)
	if _, err := s.Write(t.Context(), &checkpoint.Write{Log: w.log, Record: r, Head: w.head}); err != nil {
		t.Fatal(err)
	}
	w.wrote(r)
	return r
}

func (w *writer) result(t testing.TB, s *Store, epoch checkpoint.ID, task int, data string) {
	t.Helper()
	_, err := s.Write(t.Context(), &checkpoint.Write{Log: w.log, Results: []checkpoint.Result{
		{Epoch: epoch, Task: task, Kind: checkpoint.KindChanges, Data: json.RawMessage(data)},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func text1k(n int) string { return `"` + strings.Repeat("x", n) + `"` }

// count reads all records of a thread and checks that they follow one another.
func count(s *Store, log checkpoint.Log) (n int64, err error) {
	for r, err := range s.Records(contextBackground, checkpoint.Query{Log: log}) {
		if err != nil {
			return n, err
		}
		if n++; r.Seq != n {
			return n, fmt.Errorf("record %d has sequence number %d", n, r.Seq)
		}
	}
	return n, nil
}

// shape is a line as a reader of the file sees it.
type shape struct {
	Seq       int64           `json:"seq"`
	CreatedAt time.Time       `json:"at"`
	Data      json.RawMessage `json:"d"`
	CRC       string          `json:"crc"`
}

// shapes reads the lines of checkpoints by the documented format alone. The others say
// what was written between them.
func shapes(t testing.TB, path string) (out []shape) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.SplitAfter(string(b), "\n") {
		if line == "" {
			continue
		}
		var s shape
		if err := json.Unmarshal([]byte(line), &s); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%s, line %d: %v: %.200q", path, i+1, err, line)
		}
		if s.Seq != int64(i)+1 || s.CreatedAt.IsZero() || len(s.CRC) != 8 {
			t.Fatalf("%s, line %d is not a line of a thread: %.200q", path, i+1, line)
		}
		if len(s.Data) > 0 {
			out = append(out, s)
		}
	}
	return out
}

func wantCorrupt(t testing.TB, err error, place string, offset int64) {
	t.Helper()
	var ce *checkpoint.CorruptError
	if !errors.As(err, &ce) || !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Fatalf("error is %v, want a CorruptError", err)
	}
	if !strings.HasSuffix(ce.Place, place) || ce.Offset != offset {
		t.Fatalf("damage is said to be at %s, byte %d; want %s, byte %d", ce.Place, ce.Offset, place, offset)
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
