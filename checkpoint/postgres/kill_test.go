package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// gone reports whether an error is one that a server may cause that goes away.
func gone(err error) bool {
	return errors.Is(err, postgres.ErrUnknownOutcome) || errors.Is(err, postgres.ErrUnavailable)
}

// patient reads a log's head as soon as the server is back.
func patient(ctx context.Context, s checkpoint.Store, log checkpoint.Log) (*checkpoint.Record, error) {
	for {
		r, _, err := s.Head(ctx, log)
		if err == nil || !gone(err) {
			return r, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// disturbed has many threads written to while disturb does what it does, and
// checks that nothing which was acknowledged is lost, and nothing is torn.
func disturbed(t *testing.T, s *postgres.Store, disturb func()) {
	t.Helper()
	stop := make(chan struct{})
	var mu sync.Mutex
	unknown, happened := 0, 0
	var wg sync.WaitGroup
	acked := make([]int64, 24)
	for i := range acked {
		wg.Go(func() {
			log, run := checkpoint.Log{Thread: checkpoint.ThreadID(fmt.Sprint("t", i))}, checkpoint.NewRunID()
			var parent checkpoint.ID
			seq := int64(1)
			var open checkpoint.ID // whose outcome was unknown: it may still be on its way
			for {
				select {
				case <-stop:
					return
				default:
				}
				r := logtest.Step(log, run, parent, seq, message)
				w := &checkpoint.Write{Log: log, Record: r, Head: parent, Results: []checkpoint.Result{{Epoch: r.ID, Kind: checkpoint.KindOnce, Data: message}}}
				if parent != "" {
					w.Drop = &checkpoint.Drop{Epoch: parent}
				}
				_, err := s.Write(context.Background(), w)
				if err != nil {
					if !gone(err) && (!errors.Is(err, checkpoint.ErrConflict) || open != r.ID) {
						t.Errorf("writing: %v", err)
						return
					}
					head, herr := patient(context.Background(), s, log)
					if herr != nil && !errors.Is(herr, checkpoint.ErrNotFound) {
						t.Errorf("reading the head: %v", herr)
						return
					}
					happens := head != nil && head.ID == r.ID
					if happens && !errors.Is(err, postgres.ErrUnknownOutcome) && open != r.ID {
						t.Errorf("a write happened though its error was %v", err)
					}
					mu.Lock()
					if errors.Is(err, postgres.ErrUnknownOutcome) {
						unknown++
						open = r.ID
					}
					if happens {
						happened++
					}
					mu.Unlock()
					if !happens {
						if head != nil && head.ID != parent {
							t.Errorf("the head is %s, it should be %s", head.ID, parent)
							return
						}
						continue
					}
				}
				acked[i] = seq
				parent = r.ID
				seq++
			}
		})
	}
	disturb()
	close(stop)
	wg.Wait()
	for i, n := range acked {
		log := checkpoint.Log{Thread: checkpoint.ThreadID(fmt.Sprint("t", i))}
		var seq int64
		var last checkpoint.ID
		for r, err := range s.Records(t.Context(), checkpoint.Query{Log: log}) {
			if err != nil {
				t.Fatal(err)
			}
			if seq++; r.Seq != seq || r.Parent != last {
				t.Fatalf("thread %d: record %d has number %d and parent %s", i, seq, r.Seq, r.Parent)
			}
			last = r.ID
		}
		if seq != n {
			t.Fatalf("thread %d has %d records, %d were acknowledged", i, seq, n)
		}
		if n == 0 {
			continue
		}
		// A record and its results come together.
		rs, err := s.Results(t.Context(), log, "", last)
		if err != nil || len(rs) != 1 {
			t.Fatalf("thread %d: got results %v, %v", i, rs, err)
		}
	}
	undamaged(t, s)
	t.Logf("%d writes had an unknown outcome, of which %d happened", unknown, happened)
}

func undamaged(t *testing.T, s *postgres.Store) {
	t.Helper()
	for bad, err := range s.Verify(t.Context(), "") {
		t.Fatal(bad, err)
	}
}

func TestAServerThatIsKilled(t *testing.T) {
	p := servertest.OwnPostgres(t)
	s := open(t, p.URL(), postgres.Options{Schema: "threads"})
	defer s.Close()
	disturbed(t, s, func() {
		for range 3 {
			time.Sleep(300 * time.Millisecond)
			p.Kill()
			if err := p.Start(); err != nil {
				t.Error(err)
			}
		}
		p.Stop()
		time.Sleep(100 * time.Millisecond)
		if err := p.Start(); err != nil {
			t.Error(err)
		}
		time.Sleep(200 * time.Millisecond)
	})
}

func TestAServerThatIsAway(t *testing.T) {
	p := servertest.OwnPostgres(t)
	s := open(t, p.URL(), postgres.Options{Schema: "threads"})
	defer s.Close()
	head := write(t, s, "t", 2)
	p.Stop()
	log := checkpoint.Log{Thread: "t"}
	var err error
	for range 20 { // a connection that broke may be met first
		if _, err = s.Write(t.Context(), &checkpoint.Write{Log: log, Record: logtest.Step(log, head.Run(), head, 3, message), Head: head}); errors.Is(err, postgres.ErrUnavailable) {
			break
		}
	}
	wantError(t, err, postgres.ErrUnavailable, "goes on by itself")
	_, _, err = s.Head(t.Context(), log)
	wantError(t, err, postgres.ErrUnavailable)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if r, _, err := s.Head(t.Context(), log); err != nil || r.ID != head {
		t.Fatalf("got %v, %v", r, err)
	}
	write(t, s, "u", 2)
}

func TestConnectionsThatTheServerEnds(t *testing.T) {
	url := servertest.Postgres(t)
	for name, open := range map[string]func(t *testing.T) *postgres.Store{
		"own pool": func(t *testing.T) *postgres.Store { return open(t, url, postgres.Options{}) },
		"another's pool": func(t *testing.T) *postgres.Store {
			schema := newSchema(t, url)
			pool := poolOf(t, url, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "superstep" })
			t.Cleanup(pool.Close)
			s, err := postgres.New(t.Context(), pool, postgres.Options{Schema: schema})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			defer s.Close()
			c := connect(t, url)
			defer c.Close(context.Background())
			disturbed(t, s, func() {
				for range 20 {
					time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
					if _, err := c.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'superstep'`); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

func TestConnectionsThatBreak(t *testing.T) {
	p, url := through(t, servertest.Postgres(t))
	s := open(t, url, postgres.Options{})
	defer s.Close()
	disturbed(t, s, func() {
		for range 30 {
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
			p.Cut()
		}
	})
}

// Programs that write to the same threads in batches lock them in one order.
func TestTwoProgramsOnTheSameThreads(t *testing.T) {
	url := servertest.Postgres(t)
	a := open(t, url, postgres.Options{})
	defer a.Close()
	b := open(t, url, postgres.Options{Schema: sameSchema(t, a)})
	defer b.Close()
	const threads, writers, records = 12, 4, 15
	var wg sync.WaitGroup
	for i := range threads * writers {
		s := []*postgres.Store{a, b}[i/threads%2]
		log := checkpoint.Log{Thread: checkpoint.ThreadID(fmt.Sprint("t", i%threads))}
		wg.Go(func() {
			run, n := checkpoint.NewRunID(), uint32(0)
			for done := 0; done < records; {
				var parent checkpoint.ID
				seq := int64(0)
				head, _, err := s.Head(t.Context(), log)
				if err == nil {
					parent, seq = head.ID, head.Seq
				} else if !errors.Is(err, checkpoint.ErrNotFound) {
					t.Error(err)
					return
				}
				r := logtest.Step(log, run, parent, seq+1, message)
				n++
				r.ID = run.Checkpoint(n)
				r.Epoch = r.ID
				if i%2 == 0 && done%4 == 3 { // a transaction with two threads now and then
					if err := s.Copy(t.Context(), log.Thread, checkpoint.ThreadID(fmt.Sprint("copy", i, n))); err != nil {
						t.Error(err)
					}
				}
				_, err = s.Write(t.Context(), &checkpoint.Write{Log: log, Record: r, Head: parent})
				if err == nil {
					done++
				} else if !errors.Is(err, checkpoint.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for i := range threads {
		if n := count(t, a, checkpoint.ThreadID(fmt.Sprint("t", i))); n != writers*records {
			t.Fatalf("thread %d has %d records, want %d", i, n, writers*records)
		}
	}
	undamaged(t, b)
}

func TestNamesOfAnyLengthAndBytes(t *testing.T) {
	url := servertest.Postgres(t)
	s := open(t, url, postgres.Options{})
	defer s.Close()
	names := []string{"\xff", "\xff\xfe\x00", strings.Repeat("x", 1000), strings.Repeat("x", 1001), strings.Repeat("x", 20_000) + "a", strings.Repeat("x", 20_000) + "b"}
	for _, thread := range names {
		for _, ns := range append(names, "") {
			log, run := checkpoint.Log{Thread: checkpoint.ThreadID(thread), Namespace: ns}, checkpoint.NewRunID()
			r := logtest.Step(log, run, "", 1, message)
			w := &checkpoint.Write{Log: log, Record: r}
			for _, name := range names {
				w.Results = append(w.Results, checkpoint.Result{Epoch: r.ID, Kind: checkpoint.ResultKind(name), Name: name, Data: []byte(`1`)})
			}
			for _, ignored := range []int{0, len(names)} {
				out, err := s.Write(t.Context(), w)
				if err != nil || out.Ignored != ignored {
					t.Fatalf("%d results ignored, %v; want %d", out.Ignored, err, ignored)
				}
				w.Record = nil
			}
			if head, _, err := s.Head(t.Context(), log); err != nil || head.ID != r.ID || head.Log != log {
				t.Fatalf("got %v, %v", head, err)
			}
			rs, err := s.Results(t.Context(), log, "", r.ID)
			if err != nil || len(rs) != len(names) {
				t.Fatalf("%d results, %v", len(rs), err)
			}
			for i, x := range rs {
				if x.Name != names[i] || string(x.Kind) != names[i] {
					t.Fatalf("result %d has another name", i)
				}
			}
		}
		n := 0
		for info, err := range s.Logs(t.Context(), checkpoint.ThreadID(thread)) {
			if err != nil {
				t.Fatal(err)
			}
			if want := append([]string{""}, names[2], names[3], names[4], names[5], names[0], names[1])[n]; info.Log.Namespace != want {
				t.Fatalf("log %d is %.20q…", n, info.Log.Namespace)
			}
			n++
		}
		if n != len(names)+1 {
			t.Fatalf("%d logs, want %d", n, len(names)+1)
		}
	}
	for prefix, want := range map[string]int{"": 6, "\xff": 2, strings.Repeat("x", 999): 4, strings.Repeat("x", 1001): 3, strings.Repeat("x", 20_000): 2, strings.Repeat("x", 20_000) + "b": 1} {
		n := 0
		for info, err := range s.Threads(t.Context(), checkpoint.ThreadFilter{Prefix: prefix}) {
			if err != nil || !strings.HasPrefix(string(info.Thread), prefix) {
				t.Fatalf("got %.20q, %v", info.Thread, err)
			}
			n++
		}
		if n != want {
			t.Fatalf("%d threads begin with %.20q…, want %d", n, prefix, want)
		}
	}
	undamaged(t, s)
}

// IDs are stored in fewer bytes; no two may meet.
func TestIDsThatAreNoUUIDs(t *testing.T) {
	url := servertest.Postgres(t)
	s := open(t, url, postgres.Options{})
	defer s.Close()
	log := checkpoint.Log{Thread: "t"}
	base := strings.Repeat("i", 14)
	ids := []checkpoint.ID{"a", "\x00", checkpoint.ID(base), checkpoint.ID(base + "x"), checkpoint.ID(base + "x\x00"), checkpoint.ID(base + "xy"), checkpoint.ID(base + "x\x00\x01"), checkpoint.ID(strings.Repeat("z", 400))}
	var head checkpoint.ID
	for i, id := range ids {
		r := &checkpoint.Record{ID: id, Parent: head, Log: log, Seq: int64(i + 1), Epoch: id}
		if _, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Record: r, Head: head}); err != nil {
			t.Fatal(err)
		}
		head = id
	}
	for i, id := range ids {
		r, err := s.Get(t.Context(), log, id)
		if err != nil || r.ID != id || r.Seq != int64(i+1) {
			t.Fatalf("%q: got %+v, %v", id, r, err)
		}
	}
	undamaged(t, s)
}

func TestDamageIsFound(t *testing.T) {
	url := servertest.Postgres(t)
	for what, c := range map[string]struct{ query, says string }{
		"a changed record": {`UPDATE @.superstep_records SET data = data || '\x20' WHERE rid & 268435455 = 3`, "data has checksum"},
		"a changed meta":   {`UPDATE @.superstep_records SET meta = meta || '\x20' WHERE rid & 268435455 = 3`, "row has checksum"},
		"a missing record": {`DELETE FROM @.superstep_records WHERE rid & 268435455 = 3`, "there are 4"},
		"a moved record":   {`UPDATE @.superstep_records SET meta = set_byte(meta, 12, get_byte(meta, 12) # 1) WHERE rid & 268435455 = 3`, "row has checksum"},
		"a wrong minute":   {`UPDATE @.superstep_threads SET minute = NULL`, "minute"},
		"a wrong key":      {`UPDATE @.superstep_side SET key = '\x00' WHERE substr(key, 1, 1) = 'r'`, "side row"},
		"a changed header": {`UPDATE @.superstep_threads SET header = header || '\x00' WHERE key = 't'`, "header"},
		"a record cut":     {`UPDATE @.superstep_records SET meta = substr(meta, 1, 20) WHERE rid & 268435455 = 3`, "cut off"},
	} {
		t.Run(what, func(t *testing.T) {
			s := open(t, url, postgres.Options{})
			defer s.Close()
			head := write(t, s, "t", 5)
			write(t, s, "whole", 3)
			if _, err := s.Write(t.Context(), &checkpoint.Write{Log: checkpoint.Log{Thread: "t"}, Results: []checkpoint.Result{{Epoch: head, Kind: "k"}}}); err != nil {
				t.Fatal(err)
			}
			undamaged(t, s)
			query := strings.ReplaceAll(c.query, "@", quote(sameSchema(t, s)))
			for table, of := range map[string]string{"records": "rid >> 28 = (SELECT l.lid", "side": "tid = (SELECT l.tid"} {
				if strings.Contains(query, "superstep_"+table) {
					where := " WHERE "
					if strings.Contains(query, where) {
						where = " AND "
					}
					query += where + of + ` FROM ` + quote(sameSchema(t, s)) + `.superstep_logs l JOIN ` +
						quote(sameSchema(t, s)) + `.superstep_threads t USING (tid) WHERE t.key = 't')`
				}
			}
			exec(t, url, query)
			n := 0
			for bad, err := range s.Verify(t.Context(), "t") {
				if err != nil {
					t.Fatal(err)
				}
				if bad.Thread != "t" {
					t.Fatalf("thread %q is damaged", bad.Thread)
				}
				if n == 0 && !strings.Contains(bad.Error(), c.says) {
					t.Fatalf("error %q does not say %q", bad, c.says)
				}
				n++
			}
			if n == 0 {
				t.Fatal("the damage was not found")
			}
			for bad, err := range s.Verify(t.Context(), "whole") {
				if !strings.Contains(what, "minute") {
					t.Fatal(bad, err)
				}
			}
		})
	}
}

// Plans made while the tables are small stay good when they grow.
func TestEveryQueryUsesAnIndex(t *testing.T) {
	url := servertest.Postgres(t)
	made := open(t, url, postgres.Options{})
	schema := sameSchema(t, made)
	write(t, made, "t", 3)
	made.Close()
	s := open(t, url, postgres.Options{MaxConns: 2, Schema: schema})
	defer func() { s.Close() }()
	for _, table := range []string{"threads", "logs", "records", "side"} {
		exec(t, url, `VACUUM ANALYZE `+quote(schema)+`.superstep_`+table)
	}
	scans := func() (n int64, of string) {
		c := connect(t, url)
		defer c.Close(context.Background())
		time.Sleep(1100 * time.Millisecond) // connections report once a second
		if err := c.QueryRow(t.Context(), `SELECT sum(seq_scan)::bigint, string_agg(relname || ' ' || seq_scan, ', ') FROM pg_stat_user_tables
			WHERE schemaname = $1::text AND relname <> 'superstep_meta'`, schema).Scan(&n, &of); err != nil {
			t.Fatal(err)
		}
		return n, of
	}
	before, _ := scans()
	log := checkpoint.Log{Thread: "t"}
	for i := range 12 {
		head, _, err := s.Head(t.Context(), log)
		if err != nil {
			t.Fatal(err)
		}
		r := logtest.Step(log, checkpoint.NewRunID(), head.ID, head.Seq+1, message)
		out, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Record: r, Head: head.ID, Claim: true, Holder: "me", Lease: time.Hour, Drop: &checkpoint.Drop{Epoch: head.ID}})
		if err != nil {
			t.Fatal(err)
		}
		key := checkpoint.Result{Epoch: r.ID, Kind: "k"}
		for _, w := range []*checkpoint.Write{
			{Log: log, Fence: out.Fence, Results: []checkpoint.Result{key}, Wake: true}, {Log: log, Remove: []checkpoint.ResultKey{key.Key()}}, {Log: log, Fence: out.Fence, Release: true},
		} {
			if _, err := s.Write(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Get(t.Context(), log, r.ID); err != nil {
			t.Fatal(err)
		}
		for _, q := range []checkpoint.Query{{Log: log}, {Log: log, Desc: true, Meta: true}, {Log: log, AllBranches: true}, {Log: log, AllBranches: true, Desc: true}} {
			for _, err := range s.Records(t.Context(), q) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := s.Results(t.Context(), log, "", r.ID); err != nil {
			t.Fatal(err)
		}
		for _, f := range []checkpoint.ThreadFilter{{}, {Prefix: "t"}} {
			for _, err := range s.Threads(t.Context(), f) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, err := range s.Logs(t.Context(), "t") {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, it := range []func(func(checkpoint.Waiting, error) bool){s.Due(t.Context(), time.Time{}, 0), s.Abandoned(t.Context(), 0)} {
			for _, err := range it {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		to := checkpoint.ThreadID(fmt.Sprint("copy", i))
		if err := s.Copy(t.Context(), "t", to); err != nil {
			t.Fatal(err)
		}
		if err := s.Rewrite(t.Context(), &checkpoint.Rewrite{Log: checkpoint.Log{Thread: to}, Head: r.ID, Remove: []checkpoint.ID{head.ID}}); err != nil {
			t.Fatal(err)
		}
		undamaged(t, s)
		if err := s.Delete(t.Context(), to); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if n, of := scans(); n != before {
		t.Fatalf("%d sequential scans: %s", n-before, of)
	}
}
