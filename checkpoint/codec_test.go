package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/checkpoint"
)

func sample() *checkpoint.Record {
	run, before := checkpoint.NewRunID(), checkpoint.NewRunID()
	return &checkpoint.Record{
		ID: run.Checkpoint(2), Parent: before.Checkpoint(9), Seq: 12, Epoch: run.Checkpoint(1), Step: 3, Source: checkpoint.SourceLoop,
		CreatedAt: time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC), Graph: "chat", Version: 2,
		Changes: []checkpoint.Change{
			{Node: "agent", Task: 1, Data: json.RawMessage(`{"a":"<&>"}`)}, {Node: "none"},
			{Node: "r", Routing: &checkpoint.Routing{Goto: []string{"w", "__end__"}}, Began: 1772600767_000000, Took: 250, Failed: 2},
			{Task: 3, Routing: &checkpoint.Routing{Sent: 1, Stop: true}, Began: 1772600766_999999, Took: 3_000_000},
		},
		Snapshot: &checkpoint.Snapshot{Values: json.RawMessage(`{"b":1}`), Ranges: map[string][][2]int64{"a": {{1, 2}}}},
		Tasks:    []checkpoint.Task{{Node: "w", From: "agent", Sent: true, Payload: json.RawMessage(`[1]`)}, {Node: "x", Overlay: json.RawMessage(`{}`)}},
		Recent:   strings.Split("a b a b a b c c c c c c c c c c c c c c", " "),
	}
}

func TestARecordIsOneLine(t *testing.T) {
	r := sample()
	r.Changes[0].Data = json.RawMessage("\n{\"a\":\r\n \"<&>\"} ")
	meta, data, err := checkpoint.MarshalBody(r)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsAny(append(bytes.Clone(meta), data...), "\r\n") || !json.Valid(meta) || !bytes.HasPrefix(meta, []byte(`{"v":100,`)) {
		t.Fatalf("not one line of JSON: %s %s", meta, data)
	}
	got := &checkpoint.Record{ID: r.ID, Seq: r.Seq}
	if err := checkpoint.UnmarshalBody(got, meta, data); err != nil {
		t.Fatal(err)
	}
	if want := sample(); string(got.Changes[0].Data) != string(want.Changes[0].Data) {
		t.Fatalf("changes came back as %s", got.Changes[0].Data)
	}
}

func TestARecordComesBack(t *testing.T) {
	want := sample()
	meta, data, err := checkpoint.MarshalBody(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range [][]byte{data, nil} {
		got := &checkpoint.Record{ID: want.ID, Seq: want.Seq, Branch: want.Branch, CreatedAt: want.CreatedAt}
		if err := checkpoint.UnmarshalBody(got, meta, d); err != nil {
			t.Fatal(err)
		}
		w := want
		if d == nil {
			w = want.Meta()
		}
		if !reflect.DeepEqual(got, w) {
			t.Fatalf("got  %+v\nwant %+v", got, w)
		}
	}
	fold := &checkpoint.Record{Seq: want.Seq}
	sameFolding(t, fold, want, checkpoint.UnmarshalBodyFolding(fold, meta, data))
}

func TestWhatFollowsFromTheRestIsNotWritten(t *testing.T) {
	for want, r := range map[string]checkpoint.Record{
		`{"v":100,"h":[7,2]}`:              {Step: 9, Begun: 7, Ran: 2, Source: checkpoint.SourceLoop},
		`{"v":100,"o":0,"h":[7]}`:          {Step: 7, Begun: 7, Source: checkpoint.SourceInput},
		`{"v":100,"s":0,"o":"","h":[7]}`:   {Begun: 7},
		`{"v":100,"s":3,"o":2,"h":[1,1]}`:  {Step: 3, Begun: 1, Ran: 1, Source: checkpoint.SourceInterrupt},
		`{"v":100,"s":3,"o":"of another"}`: {Step: 3, Source: "of another"},
		`{"v":100,"o":0}`:                  {Source: checkpoint.SourceInput},
		`{"v":100}`:                        {Source: checkpoint.SourceLoop},
		`{"v":100,"c":[["a",0,-1],["b",1,-1]]}`: {
			Source: checkpoint.SourceLoop, Recent: []string{"a", "b"},
			Changes: []checkpoint.Change{{Node: "a"}, {Node: "b", Task: 1}},
		},
		`{"v":100,"c":[["a",0,-1]],"r":""}`: {Source: checkpoint.SourceLoop, Changes: []checkpoint.Change{{Node: "a"}}},
		`{"v":100,"c":[["a",0,-1]],"r":"00"}`: {
			Source: checkpoint.SourceLoop, Recent: []string{"a", "a"}, Changes: []checkpoint.Change{{Node: "a"}},
		},
	} {
		r.ID = checkpoint.NewRunID().Checkpoint(2)
		r.Parent, r.Epoch, r.CreatedAt = r.ID.Checkpoint(1), r.ID, time.Unix(1, 0).UTC()
		meta, data, err := checkpoint.MarshalBody(&r)
		if err != nil || string(meta) != want {
			t.Errorf("got %s, %v, want %s", meta, err, want)
		}
		got := checkpoint.Record{ID: r.ID, CreatedAt: r.CreatedAt}
		if err := checkpoint.UnmarshalBody(&got, meta, data); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%s came back as %+v, %v", meta, got, err)
		}
	}
}

func TestAValueThatIsNoJSONIsRefusedAndNamed(t *testing.T) {
	for name, change := range map[string]func(r *checkpoint.Record){
		`changes of node "agent"`: func(r *checkpoint.Record) { r.Changes[0].Data = json.RawMessage(`{"a":`) },
		"the snapshot":            func(r *checkpoint.Record) { r.Snapshot.Values = json.RawMessage(`nope`) },
		"payload of task 0 (w)":   func(r *checkpoint.Record) { r.Tasks[0].Payload = json.RawMessage(`1 2`) },
		"overlay of task 1 (x)":   func(r *checkpoint.Record) { r.Tasks[1].Overlay = json.RawMessage(`}`) },
		"open tasks": func(r *checkpoint.Record) {
			r.Open = []checkpoint.OpenTask{{Questions: []checkpoint.Question{{Value: json.RawMessage(`x`)}}}}
		},
	} {
		r := sample()
		change(r)
		if _, _, err := checkpoint.MarshalBody(r); err == nil || !strings.Contains(err.Error(), name) {
			t.Fatalf("error %v does not name %q", err, name)
		}
	}
}

func TestNewerFormats(t *testing.T) {
	r := sample()
	meta, data, err := checkpoint.MarshalBody(r)
	if err != nil {
		t.Fatal(err)
	}
	with := func(version, extra string) []byte {
		return []byte(strings.Replace(string(meta), `{"v":100,`, `{"v":`+version+`,`+extra, 1))
	}
	for _, c := range []struct {
		doc  []byte
		want error // nil: fine
		ok   bool
	}{
		{doc: with("101", `"new":{"x":[1]},`), ok: true},
		{doc: with("100", `"new":1,`)},
		{doc: with("200", ``), want: checkpoint.ErrVersion},
		{doc: with("200", `"new":1,`), want: checkpoint.ErrVersion},
		{doc: []byte(`{"v":300,"p":{"all":"different"}}`), want: checkpoint.ErrVersion},
		{doc: with("0", ``)},
		{doc: with("-1", ``)},
		{doc: with("99", ``)},
	} {
		err := checkpoint.UnmarshalBody(&checkpoint.Record{ID: r.ID, Seq: r.Seq}, c.doc, data)
		if c.ok != (err == nil) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%.60s: error %v", c.doc, err)
		}
		if c.want == nil && errors.Is(err, checkpoint.ErrVersion) {
			t.Errorf("%.60s: error %v is not about a newer version", c.doc, err)
		}
	}
}

func TestEveryCutIsDamage(t *testing.T) {
	r := sample()
	meta, data, err := checkpoint.MarshalBody(r)
	if err != nil {
		t.Fatal(err)
	}
	read := func(meta, data []byte) error {
		return checkpoint.UnmarshalBody(&checkpoint.Record{ID: r.ID, Seq: 1}, meta, data)
	}
	for n := range meta {
		if err := read(meta[:n], data); err == nil {
			t.Fatalf("%d of %d bytes were taken for a record", n, len(meta))
		}
	}
	for _, more := range []string{"x", "{}", "]"} {
		if err := read(append(bytes.Clone(meta), more...), data); err == nil {
			t.Fatalf("%q after a record was overlooked", more)
		}
	}
	for n := range data {
		if err := read(meta, data[:n:n]); err == nil {
			t.Fatalf("%d of %d bytes of data were enough", n, len(data))
		}
	}
	if err := read(meta, append(data, ' ')); err == nil {
		t.Fatal("more data than was written was overlooked")
	}
}

// A store may keep the meta as JSON, and give it back in another form.
func TestMetaInAnotherOrderAndWithWhiteSpaceIsRead(t *testing.T) {
	r := sample()
	meta, data, err := checkpoint.MarshalBody(r)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(meta))
	d.UseNumber()
	if err := d.Decode(&members); err != nil {
		t.Fatal(err)
	}
	other, err := json.MarshalIndent(members, "", " ") // by their names
	if err != nil {
		t.Fatal(err)
	}
	read := func(meta []byte) (whole, fold checkpoint.Record) {
		whole, fold = checkpoint.Record{ID: r.ID, Seq: 3, CreatedAt: r.CreatedAt}, checkpoint.Record{Seq: 3}
		if err := errors.Join(checkpoint.UnmarshalBody(&whole, meta, data), checkpoint.UnmarshalBodyFolding(&fold, meta, data)); err != nil {
			t.Fatalf("%s: %v", meta, err)
		}
		return whole, fold
	}
	want, wantFold := read(meta)
	got, gotFold := read(other)
	if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(gotFold, wantFold) {
		t.Errorf("%s was read as\n%+v\nand folding\n%+v, want\n%+v\n%+v", other, got, gotFold, want, wantFold)
	}
	if err := checkpoint.UnmarshalBody(&checkpoint.Record{ID: r.ID, Seq: 3}, bytes.Replace(other, []byte("{"), []byte(`{"s": 1, "s": 2,`), 1), data); err == nil {
		t.Error("a member that is there twice was overlooked")
	}
}

func TestAnEmptyValueIsNone(t *testing.T) {
	r := &checkpoint.Record{ID: sample().ID, Seq: 1, Source: checkpoint.SourceLoop, Changes: []checkpoint.Change{{Node: "a", Task: 3, Data: json.RawMessage{}}, {Node: "b", Data: json.RawMessage("1")}}}
	meta, data, err := checkpoint.MarshalBody(r)
	got := checkpoint.Record{ID: r.ID, Seq: 1}
	if err = errors.Join(err, checkpoint.UnmarshalBody(&got, meta, data)); err != nil || got.Changes[0].Data != nil {
		t.Errorf("%s was read as %+v, %v", meta, got.Changes, err)
	}
}

// sameFolding: reading what a record folds alone gives the same.
func sameFolding(t *testing.T, got, want *checkpoint.Record, err error) {
	t.Helper()
	if err != nil {
		t.Fatal("what is folded can't be read:", err)
	}
	changes := slices.Clone(want.Changes)
	for i := range changes {
		changes[i].Began, changes[i].Took, changes[i].Failed = 0, 0, 0
	}
	if got.Seq != want.Seq || got.Source != want.Source || got.Version != want.Version ||
		!reflect.DeepEqual(got.Sealed, want.Sealed) || !reflect.DeepEqual(got.Changes, changes) {
		t.Fatalf("what is folded: %+v, want that of %+v", got, want)
	}
}

// FuzzUnmarshalBody: what stores in parts is read like what is stored whole.
func FuzzUnmarshalBody(f *testing.F) {
	meta, data, err := checkpoint.MarshalBody(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(meta, data)
	f.Add(meta, []byte(nil))
	f.Add([]byte(`{"c":[["a",0,-1]],"r":["0*z","a"]}`), []byte(`1`))
	f.Add([]byte(`{"t":["a",[-1]],"o":[[-1,1]]}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, meta, data []byte) {
		r := checkpoint.Record{ID: sample().ID, Seq: 3}
		if err := checkpoint.UnmarshalBody(&r, meta, data); err != nil || data == nil {
			return
		}
		fold := checkpoint.Record{Seq: 3}
		sameFolding(t, &fold, &r, checkpoint.UnmarshalBodyFolding(&fold, meta, data))
		m, d, err := checkpoint.MarshalBody(&r)
		if err != nil {
			return // values that are no JSON: whoever decodes them finds it
		}
		again := checkpoint.Record{ID: r.ID, Seq: 3}
		if err := checkpoint.UnmarshalBody(&again, m, d); err != nil {
			t.Fatalf("%s %s became %s %s, which can't be read: %v", meta, data, m, d, err)
		}
	})
}

func TestIDs(t *testing.T) {
	run := checkpoint.NewRunID()
	if !run.Valid() || run.Run() != run || run.Count() != 0 || run[14] != '7' {
		t.Fatalf("run ID %s", run)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint32().Draw(t, "n")
		id := run.Checkpoint(n)
		b, ok := id.Bytes()
		if !id.Valid() || id.Run() != run || id.Count() != n || !ok || checkpoint.IDFromBytes(b) != id {
			t.Fatalf("checkpoint %d of %s is %s", n, run, id)
		}
	})
	for _, bad := range []checkpoint.ID{"", "x", run + "0", run[1:], checkpoint.ID(strings.ToUpper(string("a" + run[1:]))), "0123456789abcdef0123456789abcdef0123", "g" + run[1:]} {
		if _, ok := bad.Bytes(); ok || bad.Valid() || bad.Run() != "" || bad.Checkpoint(1) != "" || bad.Count() != 0 {
			t.Errorf("%q passes as an ID", bad)
		}
	}
	seen := map[checkpoint.ID]bool{}
	for range 10_000 {
		seen[checkpoint.NewRunID()] = true
	}
	if len(seen) != 10_000 {
		t.Fatalf("%d different IDs of 10,000", len(seen))
	}
	if n := testing.AllocsPerRun(100, func() { _ = run.Checkpoint(7) }); n > 1 {
		t.Fatalf("Checkpoint allocates %v times", n)
	}
}

func BenchmarkMarshalBody(b *testing.B) {
	r := sample()
	r.Changes[0].Data = json.RawMessage(`{"text":"` + strings.Repeat("x", 500) + `"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := checkpoint.MarshalBody(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnmarshalBody(b *testing.B) {
	r := sample()
	r.Changes[0].Data = json.RawMessage(`{"text":"` + strings.Repeat("x", 500) + `"}`)
	meta, data, err := checkpoint.MarshalBody(r)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := checkpoint.UnmarshalBody(&checkpoint.Record{ID: r.ID, Seq: r.Seq}, meta, data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMemoryAppend is the store alone: the records are made before.
func BenchmarkMemoryAppend(b *testing.B) {
	const batch = 100_000
	log, run := checkpoint.Log{Thread: "t"}, checkpoint.NewRunID()
	rs := make([]checkpoint.Record, batch)
	var parent checkpoint.ID
	for i := range rs {
		id := run.Checkpoint(uint32(i + 1))
		rs[i] = checkpoint.Record{ID: id, Parent: parent, Log: log, Seq: int64(i + 1), Epoch: id}
		parent = id
	}
	m := checkpoint.NewMemory()
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		if i == batch {
			b.StopTimer()
			m, i = checkpoint.NewMemory(), 0
			b.StartTimer()
		}
		r := &rs[i]
		if _, err := m.Write(b.Context(), &checkpoint.Write{Log: log, Record: r, Head: r.Parent}); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// When a task ran takes few bytes, and is what it was in whatever form a record is kept.
func TestWhenATaskRanIsWrittenShort(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8999, time.UTC)
	id := checkpoint.NewRunID().Checkpoint(2)
	for what, c := range map[string]struct {
		change checkpoint.Change
		want   string
	}{
		"an only change":           {checkpoint.Change{Node: "agent", Data: json.RawMessage(`1`), Began: at.UnixMicro() - 1250, Took: 1200}, `"agent",1200,50`},
		"it ended with the record": {checkpoint.Change{Node: "agent", Data: json.RawMessage(`1`), Began: at.UnixMicro() - 1200, Took: 1200}, `"agent",1200`},
		"attempts failed then":     {checkpoint.Change{Node: "agent", Data: json.RawMessage(`1`), Began: at.UnixMicro() - 1200, Took: 1200, Failed: 1}, `"agent",1200,0,1`},
		"attempts failed":          {checkpoint.Change{Node: "agent", Data: json.RawMessage(`1`), Began: at.UnixMicro() - 1250, Took: 1200, Failed: 2}, `"agent",1200,50,2`},
		"no data":                  {checkpoint.Change{Node: "agent", Began: at.UnixMicro() + 5, Took: 0}, `["agent",0,-1],0,-5`},
		"a routing": {
			checkpoint.Change{Node: "agent", Began: at.UnixMicro() - 9, Took: 9, Routing: &checkpoint.Routing{Goto: []string{"a"}}},
			`["agent",0,-1,["a"]],9`,
		},
		"no beginning": {checkpoint.Change{Node: "agent", Data: json.RawMessage(`1`), Took: 3}, `"agent",3,null`},
		"no times":     {checkpoint.Change{Node: "agent", Data: json.RawMessage(`1`)}, `"agent"`},
	} {
		t.Run(what, func(t *testing.T) {
			r := &checkpoint.Record{ID: id, Parent: id.Checkpoint(1), Epoch: id, Seq: 2, Source: checkpoint.SourceLoop, CreatedAt: at, Changes: []checkpoint.Change{c.change}}
			meta, data, err := checkpoint.MarshalBody(r)
			if err != nil {
				t.Fatal(err)
			}
			if want := `"c":[` + c.want + `]`; !strings.Contains(string(meta), want) {
				t.Errorf("%s, want %s in it", meta, want)
			}
			got := &checkpoint.Record{ID: id, Seq: 2, CreatedAt: at}
			if err := checkpoint.UnmarshalBody(got, meta, data); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Changes, r.Changes) {
				t.Errorf("got %+v, want %+v", got.Changes, r.Changes)
			}
			if got := got.Meta().Changes[0]; got.Began != c.change.Began || got.Took != c.change.Took || got.Failed != c.change.Failed {
				t.Errorf("without data it is %+v", got)
			}
			folded := &checkpoint.Record{Seq: 2}
			if err := checkpoint.UnmarshalBodyFolding(folded, meta, data); err != nil {
				t.Fatal(err)
			}
			if f := folded.Changes[0]; f.Began != 0 || f.Took != 0 || string(f.Data) != string(c.change.Data) {
				t.Errorf("folding reads %+v", f)
			}
		})
	}
}

func TestTimesThatAreNoTimesAreDamage(t *testing.T) {
	for _, c := range []string{`"a",1,2,3,4`, `"a",null,1`, `"a",1,{}`, `"a",1.5,2`, `1,2`} {
		if err := checkpoint.UnmarshalBody(&checkpoint.Record{ID: checkpoint.NewRunID(), Seq: 1}, []byte(`{"v":100,"c":[`+c+`]}`), nil); err == nil {
			t.Errorf("%s was read", c)
		}
	}
}
