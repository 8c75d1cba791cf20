package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
)

func rawDB(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	return db
}

const (
	childEnv     = "SUPERSTEP_SQLITE_CHILD"
	childThreads = 4
)

// child writes to a few threads until it is killed and prints each record after
// the store has acknowledged it.
func child() {
	s, err := sqlite.Open(os.Getenv(childEnv))
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range childThreads {
		wg.Go(func() {
			if err := grow(s, threadName(i), func(id checkpoint.ID) {
				mu.Lock()
				fmt.Println("ack", i, id)
				mu.Unlock()
			}); err != nil {
				fmt.Println("error", err)
				os.Exit(1)
			}
		})
	}
	wg.Wait()
}

func threadName(i int) checkpoint.ThreadID { return checkpoint.ThreadID(fmt.Sprint("t", i)) }

// grow continues a thread for ever: a result, then the record that drops it.
func grow(s checkpoint.Store, thread checkpoint.ThreadID, ack func(checkpoint.ID)) error {
	ctx, log := context.Background(), checkpoint.Log{Thread: thread}
	var parent checkpoint.ID
	var seq int64
	head, _, err := s.Head(ctx, log)
	if err == nil {
		parent, seq = head.ID, head.Seq
	} else if !errors.Is(err, checkpoint.ErrNotFound) {
		return err
	}
	w, err := s.Write(ctx, &checkpoint.Write{Log: log, Claim: true, Holder: "child", Lease: time.Hour})
	if err != nil {
		return err
	}
	run := checkpoint.NewRunID()
	for n := uint32(1); ; n++ {
		id := run.Checkpoint(n)
		seq++
		r := &checkpoint.Record{
			ID: id, Parent: parent, Log: log, Seq: seq, Epoch: id, CreatedAt: time.Now().UTC(), Source: checkpoint.SourceLoop,
			Changes: []checkpoint.Change{{Node: "n", Data: fmt.Appendf(nil, `{"seq":%d,"text":%q}`, seq, strings.Repeat("x", rand.IntN(3000)))}},
		}
		write := &checkpoint.Write{Log: log, Fence: w.Fence, Record: r, Head: parent, Drop: &checkpoint.Drop{Epoch: parent}}
		if parent == "" {
			write.Drop = nil
		} else if n%3 == 0 {
			res := checkpoint.Result{Epoch: parent, Kind: checkpoint.KindChanges, Data: []byte(`{}`)}
			if _, err := s.Write(ctx, &checkpoint.Write{Log: log, Fence: w.Fence, Results: []checkpoint.Result{res}}); err != nil {
				return err
			}
		}
		if _, err := s.Write(ctx, write); err != nil {
			return err
		}
		ack(id)
		parent = id
		if n%8 == 0 {
			if err := shorten(s, checkpoint.Log{Thread: thread + "-short"}); err != nil {
				return err
			}
		}
	}
}

// shorten appends to a log and removes all but its newest records.
func shorten(s checkpoint.Store, log checkpoint.Log) error {
	ctx := context.Background()
	var ids []checkpoint.ID
	var seq int64
	for r, err := range s.Records(ctx, checkpoint.Query{Log: log}) {
		if err != nil {
			return err
		}
		if seq != 0 && r.Seq != seq+1 {
			return fmt.Errorf("record %d of %v after %d", r.Seq, log, seq)
		}
		ids, seq = append(ids, r.ID), r.Seq
	}
	run := checkpoint.NewRunID()
	w, err := s.Write(ctx, &checkpoint.Write{Log: log, Claim: true, Holder: "child", Lease: time.Hour})
	if err != nil {
		return err
	}
	for i := range 5 {
		var head checkpoint.ID
		if len(ids) > 0 {
			head = ids[len(ids)-1]
		}
		seq++
		r := logtest.Step(log, run, head, int64(i)+1, message)
		r.Seq = seq
		if _, err := s.Write(ctx, &checkpoint.Write{Log: log, Fence: w.Fence, Record: r, Head: head, Release: i == 4}); err != nil {
			return err
		}
		ids = append(ids, r.ID)
	}
	return s.(checkpoint.Rewriter).Rewrite(ctx, &checkpoint.Rewrite{Log: log, Head: ids[len(ids)-1], Remove: ids[:len(ids)-2]})
}

func TestAKilledWriterLosesNothingItAcknowledged(t *testing.T) { // SONI-31
	path := filepath.Join(t.TempDir(), "threads.db")
	acked := make([]map[checkpoint.ID]bool, childThreads)
	for i := range acked {
		acked[i] = map[checkpoint.ID]bool{}
	}
	total := 0
	for round := range 12 {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), childEnv+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Killed after some records, then a moment later, wherever it is.
		acks, stop := 0, 1+rand.IntN(150)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var i int
			var id checkpoint.ID
			if _, err := fmt.Sscanf(lines.Text(), "ack %d %s", &i, &id); err != nil {
				if strings.HasPrefix(lines.Text(), "error") {
					t.Fatalf("round %d: %s", round, lines.Text())
				}
				continue // the last line may be cut off
			}
			if id.Valid() {
				acked[i][id] = true
			}
			if acks++; acks == stop {
				go func() {
					time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
					_ = cmd.Process.Kill()
				}()
			}
		}
		_ = cmd.Wait()
		total += acks

		s := openAt(t, path)
		for i := range childThreads {
			have := map[checkpoint.ID]bool{}
			var parent checkpoint.ID
			var seq int64
			for r, err := range s.Records(t.Context(), checkpoint.Query{Log: checkpoint.Log{Thread: threadName(i)}}) {
				if err != nil {
					t.Fatal(err)
				}
				if seq++; r.Seq != seq || r.Parent != parent {
					t.Fatalf("round %d: record %d follows %s, want %d and %s", round, r.Seq, r.Parent, seq, parent)
				}
				parent = r.ID
				have[r.ID] = true
			}
			for id := range acked[i] {
				if !have[id] {
					t.Fatalf("round %d: record %s of thread %d was acknowledged and is gone", round, id, i)
				}
			}
		}
		for c, err := range s.(checkpoint.Verifier).Verify(t.Context(), "") {
			t.Fatalf("round %d: %v, %v", round, c, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if total < 12 {
		t.Fatalf("the children acknowledged %d records", total)
	}
	db := rawDB(t, path)
	defer db.Close()
	var ok string
	if err := db.QueryRow(`PRAGMA integrity_check`).Scan(&ok); err != nil || ok != "ok" {
		t.Fatalf("integrity check: %s %v", ok, err)
	}
}
