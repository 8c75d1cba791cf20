package redis

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/backend"
)

// decoder is a store without a server.
var decoder = &Store{prefix: defaultPrefix, server: "nowhere"}

var fuzzedLog = checkpoint.Log{Thread: "t", Namespace: "/n"}

const (
	fuzzedID    = checkpoint.ID("01a20281-baab-79f2-8065-fc7c00000002")
	fuzzedToken = "\x00\xff;1;2;3"
)

// refused checks that an error tells of damage or of a newer format.
func refused(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, checkpoint.ErrCorrupt) && !errors.Is(err, checkpoint.ErrVersion) {
		t.Fatalf("an error of no kind: %v", err)
	}
}

// before is what the scripts write before an entry and before a result.
var before = regexp.MustCompile(`^\d+;\d+;`)

// scripted checks that the scripts, which change some of it, can read what stands
// after the token.
func scripted(t *testing.T, stored string) {
	t.Helper()
	if !before.MatchString(stored[tokenLen:]) {
		t.Fatalf("%q is read, though no script can read it", stored)
	}
}

func encoded(t testing.TB, r *checkpoint.Record) (stored, data string) {
	t.Helper()
	meta, body, err := checkpoint.MarshalBody(r)
	if err != nil {
		t.Fatal(err)
	}
	return fuzzedToken + "1763820000000001;2;" + string(appendEntry(r, meta, body)), string(body)
}

// FuzzRecord: a record that can be read can be stored, and read again as the same.
func FuzzRecord(f *testing.F) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	var entries []string
	for _, r := range []*checkpoint.Record{
		{
			ID: fuzzedID, Seq: 2, Parent: "01a20281-baab-79f2-8065-fc7c00000001", Epoch: fuzzedID, Step: 1, Source: checkpoint.SourceLoop, CreatedAt: at, Graph: "g",
			Changes: []checkpoint.Change{{Node: "a", Task: 0, Data: json.RawMessage(`{"x":[1,"\""]}`)}}, Due: at.Add(time.Hour),
		},
		{ID: "first", Seq: 1, Epoch: "first", Branch: "first", CreatedAt: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), Metadata: map[string]string{"k": "v"}},
		{ID: fuzzedID, Seq: 1 << 40, Epoch: "e", CreatedAt: at, Sealed: &checkpoint.Sealed{Meta: []byte{0, 1}, Data: []byte{2}}},
	} {
		stored, data := encoded(f, r)
		entries = append(entries, stored)
		f.Add(stored, data)
	}
	for i, e := range entries {
		// Without what is sealed by checksums and the length of the data.
		_, body, _ := strings.Cut(e[tokenLen:], ";2;")
		_, n := binary.Uvarint([]byte(body[9:]))
		f.Add(body[9+n:], []string{`{"x":[1,"\""]}`, "", "\x02"}[i])
	}
	f.Add(fuzzedToken+";;", "")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, stored, data string) {
		check := func(stored string) {
			_, _ = decoder.decode(fuzzedLog, "2", stored, "", false)
			r, err := decoder.decode(fuzzedLog, "2", stored, data, true)
			if err != nil {
				refused(t, err)
				return
			}
			scripted(t, stored)
			meta, body, err := checkpoint.MarshalBody(r)
			if err != nil {
				return // values that are no JSON: whoever decodes them finds it
			}
			again, err := decoder.decode(fuzzedLog, "2", fuzzedToken+"1;0;"+string(appendEntry(r, meta, body)), string(body), true)
			if err != nil {
				t.Fatalf("%q %q, stored again, can't be read: %v", stored, data, err)
			}
			if again.Log != r.Log || again.ID != r.ID || again.Branch != r.Branch || again.Seq != r.Seq || !again.CreatedAt.Equal(r.CreatedAt) {
				t.Fatalf("%+v became %+v", r, again)
			}
			meta2, body2, err := checkpoint.MarshalBody(again)
			if err != nil || string(meta2) != string(meta) || string(body2) != string(body) {
				t.Fatalf("%s %s became %s %s, %v", meta, body, meta2, body2, err)
			}
		}
		check(stored)
		// Behind good checksums anything may stand.
		b := binary.BigEndian.AppendUint32([]byte{entryVersion, 0, 0, 0, 0}, crc32.Checksum([]byte(data), backend.Castagnoli))
		b = append(binary.AppendUvarint(b, uint64(len(data))), stored...)
		binary.BigEndian.PutUint32(b[1:], crc32.Checksum(b[5:], backend.Castagnoli))
		check(fuzzedToken + "1;0;" + string(b))
	})
}

// FuzzResult: a result that can be read can be stored, and read again as the same,
// at the same place.
func FuzzResult(f *testing.F) {
	for _, r := range []checkpoint.Result{
		{Epoch: fuzzedID, Kind: checkpoint.KindChanges, Data: json.RawMessage(`{"a":"<"}`)},
		{Branch: "b;", Epoch: "e", Task: 3, Gen: 1, Kind: checkpoint.KindOnce, Name: "n\n", Data: json.RawMessage(`null`), Replace: true},
	} {
		body, err := checkpoint.MarshalResult(&r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(fuzzedToken + "1;17;" + string(body))
	}
	f.Add(fuzzedToken + `x;-1;{"v":100,"epoch":"e","task":0,"kind":"changes"}`)
	f.Add(fuzzedToken + "1;")
	f.Fuzz(func(t *testing.T, v string) {
		at, r, err := parseResult(v)
		if err != nil {
			return
		}
		scripted(t, v)
		body, err := checkpoint.MarshalResult(&r)
		if err != nil {
			t.Fatal(err)
		}
		place, again, err := parseResult(fuzzedToken + "1;" + strconv.FormatInt(at, 10) + ";" + string(body))
		if err != nil || place != at {
			t.Fatalf("place %d became %d, %v", at, place, err)
		}
		if second, err := checkpoint.MarshalResult(&again); err != nil || string(body) != string(second) {
			t.Fatalf("%s became %s, %v", body, second, err)
		}
	})
}

// FuzzTime: what can be read as a time is how this time is written.
func FuzzTime(f *testing.F) {
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Date(2026, 3, 4, 5, 6, 7, 999999999, time.UTC), time.Date(-300000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		f.Add(timeKey(at))
		f.Add(backKey(at))
	}
	f.Add("ffffffffffffffffffffffff")
	f.Add("800000000000000A00000000")
	f.Fuzz(func(t *testing.T, s string) {
		if at, err := fromKey(s); err == nil && timeKey(at) != s {
			t.Errorf("%q became %v, which is %q", s, at, timeKey(at))
		}
		if at, err := fromBackKey(s); err == nil && backKey(at) != s {
			t.Errorf("%q became %v, which is %q", s, at, backKey(at))
		}
	})
}

// FuzzOutline: pieces of branches that can be read can be written, and read again
// as the same. They follow one another, so what a query reads of them does as well.
func FuzzOutline(f *testing.F) {
	f.Add("9", "0", "h", "9", "1;;1;", "", int64(0), int64(0), false, false)
	f.Add("9", "1", "h", "7", "1;3;1;\n5;5;4;b;c\n6;;5;", "", int64(2), int64(6), false, true)
	f.Add("20", "1", "h", "20", "1;;1;\n5;;3;01a20281-baab-79f2-8065-fc7c00000002\n9;;5;", "01a20281-baab-79f2-8065-fc7c00000002", int64(4), int64(0), true, false)
	f.Add("1", "", "", "0", "5;;1;", "", int64(0), int64(0), false, false)
	f.Add("1", "", "", "0", "-9223372036854775808;9223372036854775807;-1;", "", int64(7), int64(9), false, false)
	f.Add("9", "", "", "0", "x", "", int64(0), int64(0), false, false)
	f.Fuzz(func(t *testing.T, last, rewrites, head, records, pieces, branch string, from, to int64, all, desc bool) {
		list := strings.Split(pieces, "\n")
		o, err := decoder.parseOutline(fuzzedLog, append([]string{last, rewrites, head, records, "1"}, list...))
		if err != nil {
			refused(t, err)
			return
		}
		var text []string
		for _, g := range o.segments {
			text = append(text, g.String())
		}
		again, err := decoder.parseOutline(fuzzedLog, append([]string{strconv.FormatInt(o.last, 10), o.rewrites, string(o.head), strconv.FormatInt(o.records, 10), "1"}, text...))
		if err != nil || !reflect.DeepEqual(o, again) {
			t.Fatalf("%+v became %+v, %v", o, again, err)
		}
		q := checkpoint.Query{Log: fuzzedLog, Branch: checkpoint.Branch(branch), From: from, To: to, AllBranches: all, Desc: desc}
		spans := o.spans(&q)
		if desc {
			slices.Reverse(spans)
		}
		reached := int64(0)
		for _, p := range spans {
			if desc {
				p[0], p[1] = p[1], p[0]
			}
			if p[0] <= reached || p[1] < p[0] || p[1] > o.last {
				t.Fatalf("of %v a query reads %v", o, spans)
			}
			reached = p[1]
		}
	})
}

// FuzzThread: what can be read of a thread is what the script said of it.
func FuzzThread(f *testing.F) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	stored, _ := encoded(f, &checkpoint.Record{ID: fuzzedID, Seq: 1, Epoch: fuzzedID, CreatedAt: at})
	f.Add(stored, "3", "4711", backKey(at), "h", "1772600767000000", "60000000000")
	f.Add(stored, "3", "4711", backKey(at), "", "", "")
	f.Add(stored, "x", "-1", "", "h", "9223372036854775807", "-9223372036854775808")
	f.Fuzz(func(t *testing.T, stored, records, bytes, created, holder, until, ttl string) {
		info, err := decoder.info([]string{"t", "1", stored, records, bytes, created, holder, until, ttl})
		if err != nil {
			refused(t, err)
			return
		}
		l := info.Lease
		again, err := decoder.info([]string{"t", "1", stored, strconv.FormatInt(info.Records, 10), strconv.FormatInt(info.Bytes, 10), backKey(info.CreatedAt),
			l.Holder, strconv.FormatInt(l.Until.UnixMicro(), 10), strconv.FormatInt(int64(l.TTL), 10)})
		if err != nil || !reflect.DeepEqual(info, again) {
			t.Fatalf("%+v became %+v, %v", info, again, err)
		}
		if holder == "" && l != (checkpoint.Lease{}) {
			t.Fatalf("nobody holds the lease %+v", l)
		}
	})
}

// FuzzWaiting: what can be read of a thread that waits is what the script said of
// it.
func FuzzWaiting(f *testing.F) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	f.Add("t", timeKey(at), "", "", "")
	f.Add("{t}", "", "h", "1772600767000000", "60000000000")
	f.Add("t", "abc", "h", "x", "1")
	f.Fuzz(func(t *testing.T, id, due, holder, until, ttl string) {
		w, err := decoder.waits([]string{id, due, holder, until, ttl})
		if err != nil {
			refused(t, err)
			return
		}
		key := ""
		if due != "" {
			key = timeKey(w.Due)
		}
		again, err := decoder.waits([]string{id, key, w.Lease.Holder, strconv.FormatInt(w.Lease.Until.UnixMicro(), 10), strconv.FormatInt(int64(w.Lease.TTL), 10)})
		if err != nil || again != w {
			t.Fatalf("%+v became %+v, %v", w, again, err)
		}
	})
}

// FuzzLog: what can be read of a log is what the script said of it.
func FuzzLog(f *testing.F) {
	f.Add("/n", string(fuzzedID), "3", "4711")
	f.Add("", "", "", "x")
	f.Fuzz(func(t *testing.T, namespace, head, records, bytes string) {
		l, err := decoder.logInfo("t", []string{namespace, head, records, bytes})
		if err != nil {
			refused(t, err)
			return
		}
		again, err := decoder.logInfo("t", []string{l.Log.Namespace, string(l.Head), strconv.FormatInt(l.Records, 10), strconv.FormatInt(l.Bytes, 10)})
		if err != nil || again != l {
			t.Fatalf("%+v became %+v, %v", l, again, err)
		}
	})
}

// FuzzPage: after a page, what is left is some of what was asked for.
func FuzzPage(f *testing.F) {
	f.Add(uint8(3), uint8(2), "", "")
	f.Add(uint8(3), uint8(3), "1", "17")
	f.Add(uint8(1), uint8(1), "-1", "0")
	f.Add(uint8(1), uint8(1), "0", "x")
	f.Fuzz(func(t *testing.T, n, asked uint8, which, place string) {
		spans := make([]span, n)
		for i := range spans {
			spans[i] = span{int64(10*i + 1), int64(10*i + 9)}
		}
		if asked > n {
			return
		}
		left, err := rest(slices.Clone(spans), int(asked), []string{which, place})
		if err != nil {
			return
		}
		gone := len(spans) - len(left)
		if gone < 0 || gone > int(asked) || len(left) > 1 && !slices.Equal(left[1:], spans[gone+1:]) || len(left) > 0 && left[0][1] != spans[gone][1] {
			t.Fatalf("of %v, %v are left", spans, left)
		}
	})
}
