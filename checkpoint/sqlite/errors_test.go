package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
)

// refused opens a database that cannot be opened.
func refused(t *testing.T, path string, kind error, says ...string) {
	t.Helper()
	s, err := sqlite.Open(path, sqlite.Options{BusyTimeout: 20 * time.Millisecond})
	if err == nil {
		s.Close()
		t.Fatal("the database was opened")
	}
	wantError(t, err, kind, append(says, path)...)
}

func wantError(t *testing.T, err, kind error, says ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got error %v, want %v", err, kind)
	}
	if _, ok := errors.AsType[*sqlite.Error](err); !ok {
		t.Fatalf("error %v is not a *sqlite.Error", err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Fatalf("error %q does not say %q", err, s)
		}
	}
}

// fill makes a database with some records and returns its path.
func fill(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "threads.db")
	s := openAt(t, path)
	write(t, s, n)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, s checkpoint.Store, n int) {
	t.Helper()
	log, run := checkpoint.Log{Thread: "t"}, checkpoint.NewRunID()
	var parent checkpoint.ID
	for seq := range int64(n) {
		r := logtest.Step(log, run, parent, seq+1, message)
		if _, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Record: r, Head: parent}); err != nil {
			t.Fatal(err)
		}
		parent = r.ID
	}
}

func TestAFileThatIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	content := strings.Repeat("This is a letter, not a database.\n", 100)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, path, sqlite.ErrNotDatabase, "not a SQLite database", "another path")
	refused(t, path, checkpoint.ErrCorrupt)
	if b, err := os.ReadFile(path); err != nil || string(b) != content {
		t.Fatal("the file was changed")
	}
}

func TestAMissingDirectory(t *testing.T) {
	refused(t, filepath.Join(t.TempDir(), "no", "x.db"), sqlite.ErrCannotOpen, "does not exist: create it")
}

func TestADirectoryInsteadOfAFile(t *testing.T) {
	refused(t, t.TempDir(), sqlite.ErrCannotOpen, "directory", "name a file")
}

func TestAnEmptyPath(t *testing.T) {
	_, err := sqlite.Open("")
	wantError(t, err, sqlite.ErrCannotOpen, "path is empty")
}

func TestAReadOnlyDirectory(t *testing.T) {
	path := fill(t, 3)
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(path), 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Dir(path), 0o700) })
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
		f.Close()
		// Nothing is read-only for root: have SQLite say so instead.
		db := readOnlyDB(t, path)
		defer db.Close()
		_, err := sqlite.New(db)
		wantError(t, err, sqlite.ErrReadOnly, "writable")
		return
	}
	wantReadable(t, path)
}

func TestATruncatedDatabase(t *testing.T) {
	path := fill(t, 200)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 50, 99, 100, 1000, 4096, 4097, 8192, len(whole) / 2, len(whole) - 4096, len(whole) - 1} {
		t.Run(fmt.Sprint(n, " bytes left"), func(t *testing.T) {
			cut := filepath.Join(t.TempDir(), "cut.db")
			if err := os.WriteFile(cut, whole[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := sqlite.Open(cut)
			if err == nil {
				defer s.Close()
				_, err = readAll(s)
			}
			if err == nil {
				t.Fatal("no error")
			}
			if !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Fatalf("error %v does not say that the file is damaged", err)
			}
		})
	}
}

// Data of a page and more stand in pages of their own, which SQLite reads in another way.
func TestADatabaseThatEndsWithinData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "threads.db")
	s := openAt(t, path)
	r := logtest.Step(checkpoint.Log{Thread: "t"}, checkpoint.NewRunID(), "", 1, json.RawMessage(`"`+strings.Repeat("x", 20_000)+`"`))
	if _, err := s.Write(t.Context(), &checkpoint.Write{Log: r.Log, Record: r}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, whole[:len(whole)-4000], 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = sqlite.Open(path); err == nil {
		defer s.Close()
		_, err = readAll(s)
	}
	wantError(t, err, checkpoint.ErrCorrupt, "restore a backup")
}

func readAll(s checkpoint.Store) (n int, err error) {
	for _, err := range s.Records(context.Background(), checkpoint.Query{Log: checkpoint.Log{Thread: "t"}}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func TestRandomDamageIsAnErrorOrHarmless(t *testing.T) {
	path := fill(t, 100)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		b := append([]byte(nil), whole...)
		at := 100 + i*(len(b)-200)/60
		for j := range 64 {
			b[at+j] ^= byte(0x55 + i + j)
		}
		cut := filepath.Join(t.TempDir(), "damaged.db")
		if err := os.WriteFile(cut, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := sqlite.Open(cut)
		if err != nil {
			continue // refused is fine; it must not panic
		}
		// Whatever is yielded was written like that: damage is noticed.
		for r, err := range s.Records(t.Context(), checkpoint.Query{Log: checkpoint.Log{Thread: "t"}}) {
			if err == nil && string(r.Changes[0].Data) != string(message) {
				t.Errorf("damage at %d came back as data", at)
			}
		}
		if err := s.Close(); err != nil {
			t.Log(err)
		}
	}
}

func TestADamagedRecordSaysWhereItIs(t *testing.T) {
	for _, c := range []struct{ what, change string }{
		{"data has checksum", `UPDATE superstep_records SET data = replace(CAST(data AS TEXT), 'xxx', 'xyx') WHERE rid & 4294967295 = 3`},
		{"row has checksum", `UPDATE superstep_records SET meta = meta || x'20' WHERE rid & 4294967295 = 3`},
		{"cut off", `UPDATE superstep_records SET meta = x'04' WHERE rid & 4294967295 = 3`},
	} {
		path := fill(t, 5)
		db := rawDB(t, path)
		if _, err := db.Exec(c.change); err != nil {
			t.Fatal(err)
		}
		db.Close()
		s := openAt(t, path)
		n, err := readAll(s)
		if cerr := s.Close(); cerr != nil {
			t.Fatal(cerr)
		}
		e, ok := errors.AsType[*checkpoint.CorruptError](err)
		if n != 2 || !ok || !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatalf("%d records, error %v", n, err)
		}
		if e.Thread != "t" || !strings.Contains(strings.ReplaceAll(e.Place, "row", "record"), "record 3") || !strings.Contains(err.Error(), c.what) {
			t.Fatalf("error %q does not say where", err)
		}
	}
}

func TestANewerDatabaseIsRefused(t *testing.T) {
	path := fill(t, 1)
	db := rawDB(t, path)
	if _, err := db.Exec(`INSERT INTO superstep_meta (version) VALUES (1000)`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	refused(t, path, checkpoint.ErrVersion, "schema version 1000", "up to 5", "use a newer version")
}

func TestAFullDisk(t *testing.T) {
	path := fill(t, 1)
	db := rawDB(t, path)
	db.SetMaxOpenConns(1)
	defer db.Close()
	var pages int
	if err := db.QueryRow(`PRAGMA page_count`).Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+5)); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.New(db)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log := checkpoint.Log{Thread: "full"}
	run := checkpoint.NewRunID()
	var parent checkpoint.ID
	var seq int64
	for range 100 {
		r := logtest.Step(log, run, parent, seq+1, message)
		if _, err = s.Write(t.Context(), &checkpoint.Write{Log: log, Record: r, Head: parent}); err != nil {
			break
		}
		parent, seq = r.ID, seq+1
	}
	wantError(t, err, sqlite.ErrFull, "free disk space", path)
	head, _, err := s.Head(t.Context(), log)
	if err != nil || head.ID != parent {
		t.Fatalf("after the error the head is %v (%v), want %s", head, err, parent)
	}
	// With space again, the thread goes on.
	if err := s.Delete(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Claim: true}); err != nil {
		t.Fatal(err)
	}
}

func TestADatabaseLockedByAnotherProcess(t *testing.T) {
	path := fill(t, 2)
	s, err := sqlite.Open(path, sqlite.Options{BusyTimeout: 30 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db := rawDB(t, path)
	defer db.Close()
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ExecContext(t.Context(), `BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	refused(t, path, sqlite.ErrLocked, "end it")
	_, err = s.Write(t.Context(), &checkpoint.Write{Log: checkpoint.Log{Thread: "t"}, Claim: true})
	wantError(t, err, sqlite.ErrLocked, "BusyTimeout")
	if n, err := readAll(s); n != 2 || err != nil { // reading goes on
		t.Fatal(n, err)
	}
	// A context ends the wait.
	patient := openAt(t, filepath.Join(t.TempDir(), "other.db"))
	defer patient.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Write(ctx, &checkpoint.Write{Log: checkpoint.Log{Thread: "t"}, Claim: true}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := c.ExecContext(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), &checkpoint.Write{Log: checkpoint.Log{Thread: "t"}, Claim: true}); err != nil {
		t.Fatal(err)
	}
}

func TestAContextEndsTheWaitForALock(t *testing.T) {
	path := fill(t, 2)
	s, err := sqlite.Open(path, sqlite.Options{BusyTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db := rawDB(t, path)
	defer db.Close()
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	log := checkpoint.Log{Thread: "t"}
	before, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Claim: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ExecContext(t.Context(), `BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	errs := make(chan error)
	for range 4 {
		go func() {
			_, err := s.Write(ctx, &checkpoint.Write{Log: log, Claim: true})
			errs <- err
		}()
	}
	for range 4 {
		if err := <-errs; !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if _, err := c.ExecContext(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	w, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Claim: true})
	if err != nil || w.Fence != before.Fence+1 {
		t.Fatalf("fence %d after %d, error %v: a write whose context ended was done", w.Fence, before.Fence, err)
	}
}

func TestAConversationTakesAtMostOneAndAHalfTimesItsMessages(t *testing.T) {
	const turns, perTurn = 2000, 1000
	path := filepath.Join(t.TempDir(), "threads.db")
	s := openAt(t, path)
	log := checkpoint.Log{Thread: "conversation"}
	said := func(role string) json.RawMessage {
		m := `{"role":"` + role + `","content":"` + strings.Repeat("x", perTurn/2) + `"}`
		return json.RawMessage(`{"messages":[` + m[:perTurn/2-2] + `"}]}`)
	}
	var parent checkpoint.ID
	var seq int64
	for range turns {
		// A turn is a run of its own: the user's message, then the agent's.
		run := checkpoint.NewRunID()
		for n, r := range []*checkpoint.Record{
			{
				Source: checkpoint.SourceInput, Changes: []checkpoint.Change{{Data: said("user")}},
				Tasks: []checkpoint.Task{{Node: "agent"}},
			},
			{
				Source: checkpoint.SourceLoop, Changes: []checkpoint.Change{{Node: "agent", Data: said("assistant")}},
			},
		} {
			seq++
			r.ID, r.Parent, r.Log, r.Seq = run.Checkpoint(uint32(n+1)), parent, log, seq
			r.Epoch, r.Step, r.CreatedAt, r.Graph, r.Version = r.ID, n, time.Now().UTC(), "chat", 1
			for range 20 {
				r.Recent = append(r.Recent, "agent")
			}
			if _, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Record: r, Head: parent}); err != nil {
				t.Fatal(err)
			}
			parent = r.ID
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	factor := float64(info.Size()) / (turns * perTurn)
	t.Logf("%d bytes, %.2f times the messages", info.Size(), factor)
	if factor > 1.5 {
		t.Fatalf("%.2f times the messages", factor)
	}
}
