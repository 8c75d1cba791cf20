package engine

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/checkpoint"
)

func TestAHeaderIsReadAsItWasWritten(t *testing.T) {
	text := rapid.StringN(0, 12, 20)
	at := rapid.Custom(func(t *rapid.T) time.Time { return FromMicroseconds(rapid.Int64Range(-1<<50, 1<<50).Draw(t, "us")) })
	rapid.Check(t, func(t *rapid.T) {
		thread := checkpoint.ThreadID(text.Draw(t, "thread"))
		h := Header{
			Version: rapid.Int64().Draw(t, "version"), Fence: checkpoint.Fence(rapid.Int64().Draw(t, "fence")),
			Lease: checkpoint.Lease{Holder: text.Draw(t, "holder"), Until: at.Draw(t, "until"), TTL: time.Duration(rapid.Int64().Draw(t, "ttl"))},
			Woken: at.Draw(t, "woken"), HeadDue: at.Draw(t, "due"),
		}
		if rapid.Bool().Draw(t, "listed") {
			h.Listed, h.Minute, h.Labels = true, rapid.Int64().Draw(t, "minute"), rapid.SliceOfN(text, 1, 3).Draw(t, "labels")
		}
		b := AppendHeader(nil, thread, &h)
		got, err := ParseHeader(thread, b)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := AppendHeader(nil, thread, &got), b; string(a) != string(b) {
			t.Fatalf("%+v became %+v", h, got)
		}
		var damaged *checkpoint.CorruptError
		if _, err := ParseHeader(thread+"x", b); !errors.As(err, &damaged) || damaged.Thread != thread+"x" {
			t.Fatalf("the header of another thread: %v", err)
		}
		i := rapid.IntRange(0, len(b)-1).Draw(t, "place")
		b[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := ParseHeader(thread, b); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatalf("a changed header: %v", err)
		}
	})
}

func TestARowIsReadAsItWasWritten(t *testing.T) {
	text := rapid.StringN(0, 12, 20)
	id := rapid.OneOf(text, rapid.Just(string(checkpoint.NewRunID())))
	count := rapid.Int64Range(0, 1<<62)
	rapid.Check(t, func(t *rapid.T) {
		r := Row{
			Namespace: text.Draw(t, "namespace"), Place: count.Draw(t, "place"),
			ID: checkpoint.ID(id.Draw(t, "id")), Top: checkpoint.ID(id.Draw(t, "top")), Branch: checkpoint.Branch(id.Draw(t, "branch")),
			Seq: count.Draw(t, "seq"), At: rapid.Int64().Draw(t, "at"), Count: count.Draw(t, "count"), Bytes: count.Draw(t, "bytes"),
			Sum: rapid.Uint64Range(0, 1<<48-1).Draw(t, "sum"),
		}
		n := rapid.IntRange(0, len(AppendRow(nil, &r))-1).Draw(t, "cut")
		r.Meta = []byte(strings.Join(rapid.SliceOf(rapid.OneOf(text, rapid.SampledFrom(words[:]), rapid.Just("\"*AaIbbpmHeTOJyDgFAAAAAg\""),
			rapid.Just("\"*AaIbbpmHeTOJyDgFAAAAAh\""), rapid.Just(`,"x":["AAEC",3`), rapid.Just("\x01"), rapid.Just("\xf8"), rapid.Just(`"`))).Draw(t, "meta"), ""))
		b := AppendRow(nil, &r)
		got, err := ParseRow("t", r.Namespace, r.Place, b)
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("%+v became %+v, %v", r, got, err)
		}
		if _, err := ParseRow("t", r.Namespace, r.Place, b[:n]); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatalf("a row that is cut off: %v", err)
		}
		b[0]++ // the form is what is lowest in it
		if _, err := ParseRow("t", r.Namespace, r.Place, b); !errors.Is(err, checkpoint.ErrVersion) || errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatalf("a row of another form: %v", err)
		}
	})
}

func TestARowIsOfItsPlaceAlone(t *testing.T) {
	rec := &checkpoint.Record{
		ID: checkpoint.NewRunID().Checkpoint(1), Log: checkpoint.Log{Thread: "t", Namespace: "n"}, Seq: 1, Graph: "g", CreatedAt: time.Unix(7, 0),
		Changes: []checkpoint.Change{{Node: "a", Data: []byte(`{"x":1}`)}},
	}
	row, err := rowOf(rec)
	if err != nil {
		t.Fatal(err)
	}
	row.Place, row.Count, row.Bytes = 1, 1, row.size()
	row.Sum = row.sums("t")
	again, err := ParseRow("t", row.Namespace, row.Place, AppendRow(nil, &row))
	if again.Data = row.Data; err != nil || !reflect.DeepEqual(again, row) {
		t.Fatalf("%+v became %+v, %v", row, again, err)
	}
	for _, d := range []depth{whole, metaOnly, folding} {
		if _, err := row.record("t", d); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		change func(r *Row)
		thread checkpoint.ThreadID
		says   string
	}{
		"another thread":    {func(*Row) {}, "u", "its row has"},
		"another namespace": {func(r *Row) { r.Namespace = "m" }, "t", "its row has"},
		"another place":     {func(r *Row) { r.Place++ }, "t", "its row has"},
		"another number":    {func(r *Row) { r.Seq++ }, "t", "its row has"},
		"another time":      {func(r *Row) { r.At++ }, "t", "its row has"},
		"another branch":    {func(r *Row) { r.Branch = "b" }, "t", "its row has"},
		"another ID":        {func(r *Row) { r.ID = "x" }, "t", "its row has"},
		"another order":     {func(r *Row) { r.Top += "x" }, "t", "its row has"},
		"other counts":      {func(r *Row) { r.Count, r.Bytes = 2, 2 }, "t", "its row has"},
		"other meta":        {func(r *Row) { r.Meta = append([]byte(" "), r.Meta...) }, "t", "its row has"},
		"other data":        {func(r *Row) { r.Data = append([]byte(" "), r.Data...) }, "t", "its data has"},
	} {
		r := row
		c.change(&r)
		if _, err := r.record(c.thread, whole); !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	row.Meta = []byte(`{"v":200}`) // as a newer version would write it
	row.Sum = row.sums("t")
	if _, err := row.record("t", whole); !errors.Is(err, checkpoint.ErrVersion) {
		t.Errorf("a record of a newer version: %v", err)
	}
}

func TestKeysAreShortWhateverIsNamed(t *testing.T) {
	long := strings.Repeat("x", 5000)
	r := checkpoint.Result{Branch: checkpoint.Branch(long), Epoch: checkpoint.ID(long), Task: 7, Gen: 3, Kind: checkpoint.ResultKind(long), Name: long, Data: []byte(`1`), Replace: true}
	p := resultPut("t", long, &r, false)
	if len(p.Key) > MaxKey {
		t.Errorf("a key of %d bytes", len(p.Key))
	}
	d := checkpoint.Drop{Branch: r.Branch, Epoch: r.Epoch}
	got, err := parseResult("t", stepKey(long, d), d, &SideRow{Key: p.Key, Value: p.Value})
	if err != nil || got.Name != r.Name || got.Kind != r.Kind || got.Task != 7 || got.Gen != 3 || !got.Replace || string(got.Data) != "1" {
		t.Errorf("%+v, %v", got, err)
	}
	other := r
	other.Name += "y"
	if string(resultPut("t", long, &other, false).Key) == string(p.Key) {
		t.Error("two names have one key")
	}
}
