package checkpointtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

func testIsolation(t *testing.T, open Opener, _ Options) {
	t.Run("threads do not see one another", func(t *testing.T) {
		s := open(t)
		a, b := newLine("a"), newLine("b")
		var as, bs []*checkpoint.Record
		for range 5 {
			as = append(as, a.add(t, s, 1)...)
			bs = append(bs, b.add(t, s, 2)...)
		}
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: a.log}), as)
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: b.log, AllBranches: true}), bs)
		_, err := s.Get(t.Context(), a.log, bs[0].ID)
		wantErr(t, err, checkpoint.ErrNotFound, "a record of another thread")
	})
	t.Run("namespaces of a thread do not see one another", func(t *testing.T) {
		s := open(t)
		lines := map[string]*line{}
		for _, ns := range []string{"", "a", "a/b", "b"} {
			lines[ns] = newLineIn(checkpoint.Log{Thread: "t", Namespace: ns})
		}
		want := map[string][]*checkpoint.Record{}
		for i := range 3 {
			for ns, l := range lines {
				want[ns] = append(want[ns], l.add(t, s, i+1)...)
			}
		}
		for ns, l := range lines {
			wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log}), want[ns])
			wantRecord(t, mustHead(t, s, l.log), want[ns][len(want[ns])-1])
		}
		_, err := s.Get(t.Context(), lines["a"].log, want["b"][0].ID)
		wantErr(t, err, checkpoint.ErrNotFound, "a record of another namespace")
		_, _, err = s.Head(t.Context(), checkpoint.Log{Thread: "t", Namespace: "c"})
		wantErr(t, err, checkpoint.ErrNotFound, "head of an unknown namespace")
	})
	t.Run("a thread and a namespace of the same name are apart", func(t *testing.T) {
		s := open(t)
		for i, log := range []checkpoint.Log{
			{Thread: "a", Namespace: "b/c"}, {Thread: "a/b", Namespace: "c"}, {Thread: "a/b/c"},
			{Thread: "ab", Namespace: "c"}, {Thread: "a", Namespace: "bc"}, {Thread: "a\x00b", Namespace: "c"}, {Thread: "a", Namespace: "b\x00c"},
		} {
			l := newLineIn(log)
			l.add(t, s, i+1)
			if n := len(mustCollect(t, s, checkpoint.Query{Log: log})); n != i+1 {
				t.Fatalf("%q has %d records, want %d", log, n, i+1)
			}
		}
	})
	t.Run("the same record ID may stand in two logs", func(t *testing.T) {
		s := open(t)
		a, b := newLine("t"), newLineIn(checkpoint.Log{Thread: "u"})
		b.run = a.run
		ra, rb := a.add(t, s, 1)[0], b.add(t, s, 1)[0]
		wantRecord(t, mustHead(t, s, a.log), ra)
		wantRecord(t, mustHead(t, s, b.log), rb)
	})
}

// odd are names that any back end must keep apart and give back unchanged.
var odd = []string{
	"plain", "PLAIN", "Plain", "user/1", "user:1", "user_1", `user\1`, "..", ".", "../../etc/x", "/", "/abs",
	" ", "  ", " lead", "trail ", "a\tb", "a\nb", "a\r\nb", "'", `"`, "''; DROP TABLE records; --", "%", "_", "a%", "*", "?", "[a]", "{a}",
	"con", "NUL", "aux.txt", "COM1", "-rf", "~", "$HOME", "a b", "a+b", "a%2Fb", "a\x00", "a\x00b", "\x00", "\x01", "\x7f",
	"🎈", "é", "e\u0301", "ß", "SS", "漢字", "\u200b", "\u202e", "\ufeff", "\ufffd",
	"1", "01", "1.0", "null", "true", "x.jsonl", "0x1", "thread-1", "~2Fx", "=", "#", "&", "{t}:{n}", ":",
	strings.Repeat("x", 300), strings.Repeat("x", 301), strings.Repeat("漢", 300), strings.Repeat("/", 300),
}

func testNames(t *testing.T, open Opener, _ Options) {
	t.Run("any thread ID works and stays apart from all others", func(t *testing.T) {
		s := open(t)
		lines := make([]*line, len(odd))
		want := make([][]*checkpoint.Record, len(odd))
		for i, name := range odd {
			lines[i] = newLine(checkpoint.ThreadID(name))
			want[i] = lines[i].add(t, s, 1)
		}
		for i := range odd {
			want[i] = append(want[i], lines[i].add(t, s, 1)...)
		}
		for i, l := range lines {
			wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log}), want[i])
			wantRecord(t, mustHead(t, s, l.log), want[i][1])
		}
		if err := s.Delete(t.Context(), ".."); err != nil {
			t.Fatal(err)
		}
		for i, l := range lines {
			if odd[i] != ".." {
				wantRecord(t, mustHead(t, s, l.log), want[i][1])
			}
		}
	})
	t.Run("any namespace works and stays apart from all others", func(t *testing.T) {
		s := open(t)
		want := make([]*checkpoint.Record, len(odd))
		for i, name := range odd {
			want[i] = newLineIn(checkpoint.Log{Thread: "t", Namespace: name}).add(t, s, 1)[0]
		}
		for _, r := range want {
			wantRecord(t, mustHead(t, s, r.Log), r)
		}
		_, _, err := s.Head(t.Context(), checkpoint.Log{Thread: "t"})
		wantErr(t, err, checkpoint.ErrNotFound, "the empty namespace")
	})
	t.Run("an empty thread ID is refused by every method", func(t *testing.T) {
		s, ctx := open(t), t.Context()
		log := checkpoint.Log{Namespace: "n"}
		r := newLineIn(log).next()
		_, err := s.Write(ctx, &checkpoint.Write{Log: log, Record: r})
		wantErr(t, err, checkpoint.ErrNoThread, "Write")
		_, _, err = s.Head(ctx, log)
		wantErr(t, err, checkpoint.ErrNoThread, "Head")
		_, err = s.Get(ctx, log, r.ID)
		wantErr(t, err, checkpoint.ErrNoThread, "Get")
		_, err = collect(ctx, s, checkpoint.Query{Log: log})
		wantErr(t, err, checkpoint.ErrNoThread, "Records")
		_, err = s.Results(ctx, log, "", r.ID)
		wantErr(t, err, checkpoint.ErrNoThread, "Results")
		wantErr(t, s.Delete(ctx, ""), checkpoint.ErrNoThread, "Delete")
		if c, ok := s.(checkpoint.Copier); ok {
			wantErr(t, c.Copy(ctx, "", "a"), checkpoint.ErrNoThread, "Copy from")
			newLine("b").add(t, s, 1)
			wantErr(t, c.Copy(ctx, "b", ""), checkpoint.ErrNoThread, "Copy to")
		}
		if want := "thread_id is required"; !strings.Contains(fmt.Sprint(err), want) {
			t.Fatalf("error %q does not say %q", err, want)
		}
	})
}
