package redis_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/redis"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// A long log is shortened piece by piece, and goes from what it was to what it is to
// be at once: no script does something for each record that goes.
func TestALongLogIsShortenedInPieces(t *testing.T) {
	for _, ttl := range []time.Duration{0, time.Hour} {
		t.Run(fmt.Sprint("TTL ", ttl), func(t *testing.T) {
			server := servertest.OwnRedis(t)
			s, err := redis.Open(t.Context(), server.URL(), redis.Options{TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			m := checkpoint.NewMemory()
			log := checkpoint.Log{Thread: "t"}
			run := checkpoint.NewRunID()
			var rs []*checkpoint.Record
			var head checkpoint.ID
			const n = 2000
			for i := range n {
				r := &checkpoint.Record{
					ID: run.Checkpoint(uint32(i + 1)), Parent: head, Log: log, Seq: int64(i + 1), Source: checkpoint.SourceLoop,
					CreatedAt: time.Unix(int64(i), 0).UTC(), Graph: "g", Epoch: "e",
				}
				if i%3 > 0 {
					r.Changes = []checkpoint.Change{{Node: "n", Data: fmt.Appendf(nil, "%d", i)}}
				}
				for _, s := range []checkpoint.Store{s, m} {
					logtest.Write(t, s, &checkpoint.Write{Log: log, Record: r, Head: head})
				}
				rs, head = append(rs, r), r.ID
			}
			rw := &checkpoint.Rewrite{Log: log, Head: head}
			for i, r := range rs[:n-1] {
				switch {
				case i%3 != 1:
					rw.Remove = append(rw.Remove, r.ID)
				case i%9 == 1:
					c := *r
					c.Parent, c.Snapshot = "", &checkpoint.Snapshot{Full: true, Values: fmt.Appendf(nil, "%d", i)}
					rw.Replace = append(rw.Replace, &c)
				}
			}
			c := client(t, server.URL())
			staged := func() {
				t.Helper()
				for _, k := range keys(t, c, "") {
					if strings.Contains(k, "~") {
						t.Errorf("key %q is left", k)
					}
				}
			}
			holder := &checkpoint.Write{Log: log, Claim: true, Holder: "a run", Lease: time.Hour}
			fence := logtest.Write(t, s, holder).Fence
			if err := s.Rewrite(t.Context(), rw); !errors.Is(err, checkpoint.ErrBusy) {
				t.Fatalf("got error %v", err)
			}
			staged()
			logtest.Write(t, s, &checkpoint.Write{Log: log, Fence: fence, Release: true})
			for _, s := range []checkpoint.Rewriter{s, m} {
				if err := s.Rewrite(t.Context(), rw); err != nil {
					t.Fatal(err)
				}
			}
			staged()
			for _, q := range []checkpoint.Query{{Log: log, AllBranches: true}, {Log: log, Desc: true}, {Log: log, From: 700, To: 900}} {
				var got, want []*checkpoint.Record
				for r, err := range s.Records(t.Context(), q) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, r)
				}
				for r := range m.Records(t.Context(), q) {
					want = append(want, r)
				}
				if len(got) != len(want) {
					t.Fatalf("%d records, want %d", len(got), len(want))
				}
				for i := range got {
					if got[i].ID != want[i].ID || !reflect.DeepEqual(got[i].Snapshot, want[i].Snapshot) || len(got[i].Changes) != len(want[i].Changes) {
						t.Fatalf("record %d is %+v, want %+v", i, got[i], want[i])
					}
				}
			}
			if _, err := s.Get(t.Context(), log, rw.Remove[900]); !errors.Is(err, checkpoint.ErrNotFound) {
				t.Errorf("got error %v for a record that was removed", err)
			}
			// All but a few of what is left: nothing is done for what goes.
			var most []checkpoint.ID
			for r := range m.Records(t.Context(), checkpoint.Query{Log: log, To: n - 100, Meta: true}) {
				most = append(most, r.ID)
			}
			if len(most) < 600 {
				t.Fatalf("%d records", len(most))
			}
			stats(t, c)
			if err := s.Rewrite(t.Context(), &checkpoint.Rewrite{Log: log, Head: head, Remove: most}); err != nil {
				t.Fatal(err)
			}
			if _, commands := stats(t, c); commands > n+len(most) { // one to read each place
				t.Errorf("%d commands to remove %d records", commands, len(most))
			}
			next := *rs[n-1]
			next.ID, next.Seq, next.Parent = run.Checkpoint(n+1), n+1, head
			logtest.Write(t, s, &checkpoint.Write{Log: log, Record: &next, Head: head})
			for d, err := range s.Verify(t.Context(), "") {
				t.Error(d, err)
			}
			for _, k := range keys(t, c, "t:") {
				if lasts := c.PTTL(t.Context(), k).Val() < 0; lasts != (ttl == 0) {
					t.Errorf("key %q lasts: %v, with a TTL of %v", k, lasts, ttl)
				}
			}
		})
	}
}

// A log that another process appends to while it is shortened keeps what was appended,
// whether it is shortened at once or in pieces.
func TestWhatIsAppendedWhileALogIsShortenedStays(t *testing.T) {
	for _, n := range []int{20, 1200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			server := servertest.OwnRedis(t)
			open := func() *redis.Store {
				s, err := redis.Open(t.Context(), server.URL())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				return s
			}
			s, other := open(), open()
			log := checkpoint.Log{Thread: "t"}
			run := checkpoint.NewRunID()
			var ids []checkpoint.ID
			add := func(s checkpoint.Store) {
				var head checkpoint.ID
				if len(ids) > 0 {
					head = ids[len(ids)-1]
				}
				r := logtest.Step(log, run, head, int64(len(ids)+1), []byte(`1`))
				logtest.Write(t, s, &checkpoint.Write{Log: log, Head: head, Record: r})
				ids = append(ids, r.ID)
			}
			for range n {
				add(s)
			}
			remove := slices.Clone(ids[:n-10])
			stop, added := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(added)
				for {
					select {
					case <-stop:
						return
					default:
						add(other)
					}
				}
			}()
			for {
				head, _, err := s.Head(t.Context(), log)
				if err != nil {
					t.Fatal(err)
				}
				err = s.Rewrite(t.Context(), &checkpoint.Rewrite{Log: log, Head: head.ID, Remove: remove})
				if err == nil {
					break
				}
				if !errors.Is(err, checkpoint.ErrConflict) {
					t.Fatal(err)
				}
				select {
				case <-stop:
				default:
					if head.Seq > int64(n+50) { // nobody else has a chance any more
						close(stop)
						<-added
					}
				}
			}
			select {
			case <-stop:
			default:
				close(stop)
				<-added
			}
			if left := logtest.Count(t, s, log); left != len(ids)-len(remove) {
				t.Errorf("%d records, want %d", left, len(ids)-len(remove))
			}
			for d, err := range s.Verify(t.Context(), "") {
				t.Error(d, err)
			}
		})
	}
}

// A long thread is copied in pieces.
func TestALongThreadIsCopiedInPieces(t *testing.T) {
	for _, ttl := range []time.Duration{0, time.Hour} {
		p := newPrefix(t)
		s := openAt(t, p, redis.Options{TTL: ttl})
		defer s.Close()
		for _, ns := range []string{"", "n"} {
			logtest.Begin(t, s, checkpoint.Log{Thread: "t", Namespace: ns}, 1100)
		}
		if err := s.Copy(t.Context(), "t", "u"); err != nil {
			t.Fatal(err)
		}
		if err := s.Copy(t.Context(), "t", "u"); !errors.Is(err, checkpoint.ErrConflict) {
			t.Fatalf("got %v where there is a thread", err)
		}
		c := client(t, servertest.Redis(t))
		for _, k := range keys(t, c, p+"t:") {
			if strings.Contains(k, "~") {
				t.Errorf("key %q is left", k)
			}
			if lasts := c.PTTL(t.Context(), k).Val() < 0; lasts != (ttl == 0) {
				t.Errorf("key %q lasts: %v, with a TTL of %v", k, lasts, ttl)
			}
		}
		for _, ns := range []string{"", "n"} {
			log := checkpoint.Log{Thread: "u", Namespace: ns}
			if n := logtest.Count(t, s, log); n != 1100 {
				t.Errorf("%d records", n)
			}
			head, _, err := s.Head(t.Context(), log)
			if err != nil {
				t.Fatal(err)
			}
			logtest.Write(t, s, &checkpoint.Write{Log: log, Head: head.ID, Record: logtest.Step(log, checkpoint.NewRunID(), head.ID, 1101, logtest.Message)})
		}
		for d, err := range s.Verify(t.Context(), "") {
			t.Error(d, err)
		}
	}
}
