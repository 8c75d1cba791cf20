package checkpointtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// epochStart is when the test records begin; each is a second later.
var epochStart = time.Date(2026, 3, 4, 5, 6, 7, 89_000_001, time.UTC)

// line makes the records of one log, each a child of the one before.
type line struct {
	log     checkpoint.Log
	run     checkpoint.ID
	n       uint32
	branch  checkpoint.Branch
	lineage []checkpoint.Span
	seq     int64
	tip     checkpoint.ID // newest record of the line
	head    checkpoint.ID // newest record of the log
	clock   time.Time
}

func newLine(thread checkpoint.ThreadID) *line {
	return newLineIn(checkpoint.Log{Thread: thread})
}

func newLineIn(log checkpoint.Log) *line {
	return &line{log: log, run: checkpoint.NewRunID(), clock: epochStart}
}

// next makes the next record without writing it.
func (l *line) next() *checkpoint.Record {
	id := l.run.Checkpoint(l.n + 1)
	seq := l.seq + 1
	src := checkpoint.SourceLoop
	if seq == 1 {
		src = checkpoint.SourceInput
	}
	r := &checkpoint.Record{
		ID: id, Parent: l.tip, Log: l.log, Branch: l.branch, Lineage: l.lineage, Seq: seq,
		Epoch: id, Step: int(seq) - 1, Source: src, CreatedAt: l.clock.Add(time.Duration(seq) * time.Second),
		Graph: "test", Version: 1,
		Changes: []checkpoint.Change{{Node: "work", Data: fmt.Appendf(nil, `{"n":%d}`, seq)}},
		Tasks:   []checkpoint.Task{{Node: "work", From: "work"}},
	}
	return r
}

// took moves the line after r was appended.
func (l *line) took(r *checkpoint.Record) {
	l.n, l.seq, l.branch, l.lineage = l.n+1, r.Seq, r.Branch, r.Lineage
	l.tip, l.head = r.ID, r.ID
}

// fork returns a record that starts a branch after record at of line l.
func (l *line) fork(at *checkpoint.Record) *checkpoint.Record {
	r := l.next()
	r.Parent, r.Seq, r.Step, r.Source = at.ID, at.Seq+1, at.Step, checkpoint.SourceFork
	r.Branch = checkpoint.Branch(r.ID)
	r.Lineage = append(append([]checkpoint.Span(nil), at.Lineage...), checkpoint.Span{Branch: at.Branch, To: at.Seq})
	return r
}

// write appends r, whatever it is.
func (l *line) write(t *testing.T, s checkpoint.Store, r *checkpoint.Record) *checkpoint.Record {
	t.Helper()
	if _, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Record: r, Head: l.head}); err != nil {
		t.Fatalf("appending record %d: %v", r.Seq, err)
	}
	l.took(r)
	return r
}

// add appends the next n records and returns them.
func (l *line) add(t *testing.T, s checkpoint.Store, n int) []*checkpoint.Record {
	t.Helper()
	out := make([]*checkpoint.Record, n)
	for i := range out {
		out[i] = l.write(t, s, l.next())
	}
	return out
}

// able returns a store with an optional ability, and skips the tests of one without.
func able[A any](t *testing.T, s checkpoint.Store) A {
	t.Helper()
	a, ok := s.(A)
	if !ok {
		t.Skipf("%T is no %v", s, reflect.TypeFor[A]())
	}
	return a
}

// wantAll wants an error of every method of a store, about a log with a record.
func wantAll(t *testing.T, ctx context.Context, s checkpoint.Store, l *line, want error) {
	t.Helper()
	_, err := s.Write(ctx, &checkpoint.Write{Log: l.log, Record: l.next(), Head: l.head})
	wantErr(t, err, want, "Write")
	_, _, err = s.Head(ctx, l.log)
	wantErr(t, err, want, "Head")
	_, err = s.Get(ctx, l.log, l.head)
	wantErr(t, err, want, "Get")
	_, err = collect(ctx, s, checkpoint.Query{Log: l.log})
	wantErr(t, err, want, "Records")
	_, err = s.Results(ctx, l.log, "", l.head)
	wantErr(t, err, want, "Results")
	wantErr(t, s.Delete(ctx, l.log.Thread), want, "Delete")
	if c, ok := s.(checkpoint.Copier); ok {
		wantErr(t, c.Copy(ctx, l.log.Thread, "u"), want, "Copy")
	}
	if c, ok := s.(checkpoint.Lister); ok {
		n := 0
		for _, err := range c.Threads(ctx, checkpoint.ThreadFilter{}) {
			wantErr(t, err, want, "Threads")
			n++
		}
		if n != 1 {
			t.Fatalf("Threads yielded %d times, want the error alone", n)
		}
	}
}

func mustWrite(t *testing.T, s checkpoint.Store, w *checkpoint.Write) checkpoint.Written {
	t.Helper()
	out, err := s.Write(t.Context(), w)
	if err != nil {
		t.Fatalf("write: %v", err)
	}
	return out
}

func mustHead(t *testing.T, s checkpoint.Store, log checkpoint.Log) *checkpoint.Record {
	t.Helper()
	r, _, err := s.Head(t.Context(), log)
	if err != nil {
		t.Fatalf("head of %v: %v", log, err)
	}
	return r
}

func mustResults(t *testing.T, s checkpoint.Store, log checkpoint.Log, b checkpoint.Branch, epoch checkpoint.ID) []checkpoint.Result {
	t.Helper()
	rs, err := s.Results(t.Context(), log, b, epoch)
	if err != nil {
		t.Fatalf("results: %v", err)
	}
	return rs
}

// collect reads all records of a query.
func collect(ctx context.Context, s checkpoint.Store, q checkpoint.Query) ([]*checkpoint.Record, error) {
	var out []*checkpoint.Record
	for r, err := range s.Records(ctx, q) {
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
	return out, nil
}

func mustCollect(t *testing.T, s checkpoint.Store, q checkpoint.Query) []*checkpoint.Record {
	t.Helper()
	rs, err := collect(t.Context(), s, q)
	if err != nil {
		t.Fatalf("records of %+v: %v", q, err)
	}
	return rs
}

func wantErr(t *testing.T, err, want error, doing string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got error %v, want %v", doing, err, want)
	}
}

func wantSeqs(t *testing.T, rs []*checkpoint.Record, want ...int64) {
	t.Helper()
	got := make([]int64, len(rs))
	for i, r := range rs {
		got[i] = r.Seq
	}
	if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
		t.Fatalf("got records %v, want %v", got, want)
	}
}

func wantRecord(t *testing.T, got, want *checkpoint.Record) {
	t.Helper()
	if d := diff(got, want); d != "" {
		t.Fatalf("record %s came back different: %s", want.ID, d)
	}
}

// folding returns of a record what a query with Folding asks for.
func folding(r *checkpoint.Record) *checkpoint.Record {
	changes := slices.Clone(r.Changes)
	for i := range changes { // a store may leave out when tasks ran
		changes[i].Began, changes[i].Took, changes[i].Failed = 0, 0, 0
	}
	return &checkpoint.Record{Seq: r.Seq, Source: r.Source, Version: r.Version, Sealed: r.Sealed, Changes: changes}
}

func wantFolding(t *testing.T, got, want *checkpoint.Record) {
	t.Helper()
	if d := diff(folding(got), folding(want)); d != "" {
		t.Fatalf("what record %s folds came back different: %s", want.ID, d)
	}
}

func wantRecords(t *testing.T, got, want []*checkpoint.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d records, want %d", len(got), len(want))
	}
	for i := range got {
		wantRecord(t, got[i], want[i])
	}
}

func wantResults(t *testing.T, got, want []checkpoint.Result) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d results, want %d:\n%+v\n%+v", len(got), len(want), got, want)
	}
	for i := range got {
		if d := diff(got[i], want[i]); d != "" {
			t.Fatalf("result %d came back different: %s", i, d)
		}
	}
}

// diff says where two values part, "" if nowhere. Nil and empty slices and maps
// are the same, and so is JSON with other white space.
func diff(got, want any) string {
	return diffValue("", reflect.ValueOf(got), reflect.ValueOf(want))
}

var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	timeType = reflect.TypeFor[time.Time]()
)

func diffValue(at string, a, b reflect.Value) string {
	switch {
	case a.Type() == rawType:
		x, y := compact(a.Bytes()), compact(b.Bytes())
		if !bytes.Equal(x, y) {
			return fmt.Sprintf("%s is %s, want %s", at, clip(x), clip(y))
		}
		return ""
	case a.Type() == timeType:
		x, y := a.Interface().(time.Time), b.Interface().(time.Time)
		if !x.Equal(y) || x.Location() != y.Location() {
			return fmt.Sprintf("%s is %v, want %v", at, x, y)
		}
		return ""
	}
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				return fmt.Sprintf("%s is nil: %v, want %v", at, a.IsNil(), b.IsNil())
			}
			return ""
		}
		return diffValue(at, a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if d := diffValue(at+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i)); d != "" {
				return d
			}
		}
		return ""
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return fmt.Sprintf("%s has %d elements, want %d", at, a.Len(), b.Len())
		}
		for i := range a.Len() {
			if d := diffValue(fmt.Sprintf("%s[%d]", at, i), a.Index(i), b.Index(i)); d != "" {
				return d
			}
		}
		return ""
	case reflect.Map:
		if a.Len() != b.Len() {
			return fmt.Sprintf("%s has %d keys, want %d", at, a.Len(), b.Len())
		}
		for _, k := range b.MapKeys() {
			v := a.MapIndex(k)
			if !v.IsValid() {
				return fmt.Sprintf("%s has no key %v", at, k)
			}
			if d := diffValue(fmt.Sprintf("%s[%v]", at, k), v, b.MapIndex(k)); d != "" {
				return d
			}
		}
		return ""
	}
	if !a.Equal(b) {
		return fmt.Sprintf("%s is %#v, want %#v", at, a.Interface(), b.Interface())
	}
	return ""
}

func compact(b []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, b) != nil {
		return b
	}
	return out.Bytes()
}

func clip(b []byte) string {
	const most = 200
	if len(b) > most {
		return string(b[:most]) + "..."
	}
	return string(b)
}

// text returns a JSON string of n bytes, quotes included.
func text(n int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", max(n-2, 0)) + `"`)
}
