package file

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// turn writes what a run writes: a record that claims the thread, and one that
// gives it up unless the run dies.
func turn(t *testing.T, s *Store, w *writer, place string, ttl time.Duration, dies bool) (holder string) {
	t.Helper()
	w.run, w.n = checkpoint.NewRunID(), 0
	holder = string(w.run) + place
	r := w.next(`"in"`)
	r.CreatedAt = time.Now().UTC()
	out, err := s.Write(t.Context(), &checkpoint.Write{Log: w.log, Claim: true, Lease: ttl, Holder: holder, Record: r, Head: w.head})
	if err != nil {
		t.Fatal(err)
	}
	w.wrote(r)
	if dies {
		return holder
	}
	r = w.next(`"out"`)
	r.CreatedAt = time.Now().UTC()
	if _, err := s.Write(t.Context(), &checkpoint.Write{Log: w.log, Fence: out.Fence, Release: true, Record: r, Head: w.head}); err != nil {
		t.Fatal(err)
	}
	w.wrote(r)
	return holder
}

// wantHolder checks whom another store finds to hold the thread, in each of the
// ways to find it out.
func wantHolder(t *testing.T, dir, holder string) {
	t.Helper()
	s := mustOpen(t, dir, Options{Sync: SyncNever})
	defer s.Close()
	for i, err := range s.Threads(t.Context(), checkpoint.ThreadFilter{Prefix: "t"}) {
		if err != nil || i.Lease.Holder != holder {
			t.Fatalf("held by %q, %v; want %q", i.Lease.Holder, err, holder)
		}
	}
	_, err := s.Write(t.Context(), &checkpoint.Write{Log: checkpoint.Log{Thread: "t"}, Claim: true, Holder: "other"})
	var busy *checkpoint.BusyError
	if errors.As(err, &busy); holder == "" != (err == nil) || busy != nil && busy.Lease.Holder != holder {
		t.Fatalf("claiming: %v; held by %q", err, holder)
	}
	if busy != nil {
		if left := time.Until(busy.Lease.Until); left > busy.Lease.TTL || busy.Lease.TTL != time.Hour {
			t.Fatalf("the lease of %v has %v left", busy.Lease.TTL, left)
		}
	}
	for c, err := range s.Verify(t.Context(), "") {
		t.Fatalf("%v, %v", c, err)
	}
}

func TestALeaseSaysOnlyWhatTheLineAndTheOneBeforeDoNot(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{Sync: SyncNever})
	w := newWriter("t")
	const here, there = " pid 1 on here", " pid 2 on there"
	lines := func() [][]byte {
		return bytes.Split(bytes.TrimSpace(readFile(t, filepath.Join(dir, "t.jsonl"))), []byte("\n"))
	}
	for i, c := range []struct {
		place string
		ttl   time.Duration
		want  string // in the line
	}{
		{here, time.Hour, `,"ttl":3600000000000,"holder":"RUN pid 1 on here",`},
		{here, time.Hour, ``},
		{here, time.Minute, `,"ttl":60000000000,`},
		{there, time.Hour, `,"ttl":3600000000000,"holder":"RUN pid 2 on there",`},
		{there, time.Hour, ``},
		{"", time.Hour, `,"holder":"RUN",`},
	} {
		turn(t, s, w, c.place, c.ttl, false)
		l := lines()[2*i]
		want := strings.ReplaceAll(c.want, "RUN", string(w.run))
		_, lease, ok := bytes.Cut(l, []byte(`"lease":`))
		lease = bytes.TrimLeft(lease, "-0123456789")
		if !ok || !bytes.HasPrefix(lease, []byte(want)) || i > 0 && bytes.Contains(l, []byte("fence")) || bytes.Contains(lease, []byte(`"holder"`)) != strings.Contains(want, "holder") {
			t.Errorf("turn %d: want %s in %s", i, want, l)
		}
		if l := lines()[2*i+1]; bytes.Contains(l, []byte("version")) || bytes.Contains(l, []byte("lease")) {
			t.Errorf("turn %d says that it ends: %s", i, lines()[2*i+1])
		}
	}
	wantHolder(t, dir, "")
	wantHolder(t, dir, "") // the claim of the one before has nothing of a lease
	turn(t, s, w, there, time.Hour, false)
	wantHolder(t, dir, "")
	wantHolder(t, dir, turn(t, s, w, there, time.Hour, true))
}

func TestALeaseInShortOutlivesTheLinesThatItLeavesOut(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{Sync: SyncNever})
	w := newWriter("t")
	for range 3 {
		turn(t, s, w, " pid 1 on here", time.Hour, false)
	}
	// A copy has no leases, and its own come first.
	if err := s.Copy(t.Context(), "t", "copy"); err != nil {
		t.Fatal(err)
	}
	c := *w
	c.log.Thread = "copy"
	holder := turn(t, s, &c, " pid 1 on here", time.Hour, true)
	_, err := s.Write(t.Context(), &checkpoint.Write{Log: c.log, Claim: true, Holder: "other"})
	var busy *checkpoint.BusyError
	if !errors.As(err, &busy) || busy.Lease.Holder != holder {
		t.Fatalf("claiming the copy: %v", err)
	}
	// The first lines go, and with them the place.
	var ids []checkpoint.ID
	for r, err := range s.Records(t.Context(), checkpoint.Query{Log: w.log}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	if err := s.Rewrite(t.Context(), &checkpoint.Rewrite{Log: w.log, Head: w.head, Remove: ids[:2]}); err != nil {
		t.Fatal(err)
	}
	wantHolder(t, dir, "")
	wantHolder(t, dir, turn(t, s, w, " pid 1 on here", time.Hour, true))
	if _, err := s.Write(t.Context(), &checkpoint.Write{Log: w.log, Wake: true}); err != nil {
		t.Fatal(err)
	}
	w.add(t, s, `"held"`) // by nobody's fence
	wantHolder(t, dir, string(w.run)+" pid 1 on here")
}

// A line that leaves out what no line before says is damage.
func TestALeaseInShortNeedsOneBeforeIt(t *testing.T) {
	dir := t.TempDir()
	body := `{"seq":1,"v":8,"at":"2026-11-21T12:00:00Z","thread":"t","run":"01a20281-baab-79f2-8065-fc7c","lease":0,"bytes":1,"s":1`
	writeFile(t, filepath.Join(dir, "t.jsonl"), append(seal(seedOf("t"), []byte(body)), '\n'))
	s := mustOpen(t, dir, Options{})
	_, _, err := s.Head(t.Context(), checkpoint.Log{Thread: "t"})
	wantCorrupt(t, err, "t.jsonl, line 1", 0)
}

func TestAStoreWithoutADirectoryIsRefused(t *testing.T) {
	_, err := Open("", Options{})
	var e *Error
	if !errors.As(err, &e) || e.Fix == "" {
		t.Fatalf("got %v", err)
	}
}
