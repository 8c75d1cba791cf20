package redis

import (
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
)

const (
	fuzzedID    = checkpoint.ID("01a20281-baab-79f2-8065-fc7c00000002")
	fuzzedToken = "\x00\xff;1;2;3"
)

// damaged checks that an error tells of damage or of a newer format.
func damaged(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, checkpoint.ErrCorrupt) && !errors.Is(err, checkpoint.ErrVersion) {
		t.Fatalf("an error of no kind: %v", err)
	}
}

// FuzzRow: a row that can be read can be stored, and read again as the same.
func FuzzRow(f *testing.F) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	for _, r := range []engine.Row{
		{ID: fuzzedID, Seq: 2, At: at.UnixNano(), Count: 2, Bytes: 7, Sum: 1<<63 + 5, Meta: []byte(`{"x":[1,"\""]}`), Data: []byte("1")},
		{ID: "first", Branch: "first", Seq: 1 << 40, At: -1, Count: 1 << 40, Bytes: 1 << 50},
		{ID: fuzzedID, Branch: checkpoint.Branch(fuzzedID), Seq: 1, Sum: 1},
	} {
		f.Add("17", fuzzedToken+"2;"+string(engine.AppendRow(nil, &r)), string(r.Data))
	}
	f.Add("1", fuzzedToken+";", "")
	f.Add("x", "", "")
	f.Fuzz(func(t *testing.T, place, stored, data string) {
		r, err := row("t", "/n", place, stored, data)
		if err != nil {
			damaged(t, err)
			return
		}
		again, err := row("t", "/n", strconv.FormatInt(r.Place, 10), fuzzedToken+"0;"+string(engine.AppendRow(nil, &r)), string(r.Data))
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}

// FuzzSideRow: a side row that can be read is what the script wrote of it.
func FuzzSideRow(f *testing.F) {
	f.Add("r\x00k", fuzzedToken+"17;value;with;marks")
	f.Add("", fuzzedToken+";")
	f.Add("", "1;")
	f.Fuzz(func(t *testing.T, key, stored string) {
		r, err := sideRow("t", key, stored)
		if err != nil {
			damaged(t, err)
			return
		}
		again, err := sideRow("t", string(r.Key), fuzzedToken+strconv.FormatInt(r.Order, 10)+";"+string(r.Value))
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}

// FuzzListed: what can be read of a thread is what the script said of it.
func FuzzListed(f *testing.F) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	head := engine.Row{ID: fuzzedID, Seq: 1, At: at.UnixNano(), Count: 1, Meta: json.RawMessage(`{}`)}
	entry := fuzzedToken + "0;" + string(engine.AppendRow(nil, &head))
	h := engine.Header{Version: 1 << 60, Fence: 3, Lease: checkpoint.Lease{Holder: "h", Until: at, TTL: time.Minute}, Listed: true, Minute: 7, Labels: []string{"0123456789abcdef"}}
	f.Add("t", string(engine.AppendHeader(nil, "t", &h)), "1", entry, entry)
	f.Add("u", string(engine.AppendHeader(nil, "t", &h)), "x", entry, "")
	f.Fuzz(func(t *testing.T, id, header, place, newest, oldest string) {
		l, err := listed([]string{id, header, place, newest, oldest})
		if err != nil {
			damaged(t, err)
			return
		}
		again, err := listed([]string{id, string(engine.AppendHeader(nil, l.Thread, &l.Header)), place, fuzzedToken + "0;" + string(engine.AppendRow(nil, &l.Head)), oldest})
		if err != nil || !reflect.DeepEqual(l, again) {
			t.Fatalf("%+v became %+v, %v", l, again, err)
		}
	})
}

// FuzzPlaces: the places of a log that can be read are what the script wrote of them.
func FuzzPlaces(f *testing.F) {
	f.Add("9;1")
	f.Add("x")
	f.Add("9;")
	f.Fuzz(func(t *testing.T, s string) {
		p := parsePlaces(s)
		if again := parsePlaces(number(p.newest) + ";" + number(p.oldest)); again != p {
			t.Fatalf("%q is %+v, which became %+v", s, p, again)
		}
	})
}

// FuzzTime: the text forms of times are of one length, and sort as they do.
func FuzzTime(f *testing.F) {
	f.Add(int64(0), int64(-1))
	f.Add(int64(1<<63-1), int64(-1<<63))
	f.Fuzz(func(t *testing.T, a, b int64) {
		x, y := timeKey(a), timeKey(b)
		if len(x) != 16 || len(y) != 16 || (a < b) != (x < y) || strings.ContainsAny(x, ";") {
			t.Fatalf("%d and %d are %q and %q", a, b, x, y)
		}
	})
}
