package checkpointtest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/checkpoint"
)

// fullRecord fills every field of r that is not its place.
func fullRecord(r *checkpoint.Record) *checkpoint.Record {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	r.Step, r.Graph, r.Version, r.Source = 7, "jokes", 3, checkpoint.SourceUpdate
	r.Metadata = map[string]string{"user": "u <&> \u2028", "": "empty key"}
	r.Changes = []checkpoint.Change{
		{Node: "write", Task: 0, Data: raw(`{"a":1.50,"b":"<&>\u2028","c":[null,true]}`)},
		{Data: raw(`{}`)},
		{Node: "write", Task: 12, Data: raw(`null`), Routing: &checkpoint.Routing{Goto: []string{"review", "plain"}}},
		{Node: "write", Task: 13, Routing: &checkpoint.Routing{Sent: 2, Stop: true, Parent: &checkpoint.Routing{Goto: []string{"up"}}}},
	}
	r.Snapshot = &checkpoint.Snapshot{Values: raw(`{"topic":"cats"}`), Ranges: map[string][][2]int64{"jokes": {{1, 3}, {5, 5}}, "none": {}}}
	r.Once = []checkpoint.OnceResult{
		{Task: 0, Name: "ask the model", Data: raw(`{"text":"<&>","tokens":12}`)},
		{Task: 3, Name: "", Data: raw(`null`)},
		{Task: 3, Name: "pay", Error: "card\nrefused"},
	}
	r.Tasks = []checkpoint.Task{
		{Node: "worker", Payload: raw(`{"n":1}`), Sent: true, From: "write", Overlay: raw(`{"o":1}`)},
		{Node: "worker", Payload: raw(`null`), Sent: true, From: "write"},
		{Node: "review", From: "write"},
		{Node: "plain", Overlay: raw(`[]`)},
	}
	r.Open = []checkpoint.OpenTask{
		{Task: 1, Gen: 2, Error: "two writers\nof Topic", Passed: true},
		{
			Task: 2, Folded: true,
			Routing: &checkpoint.Routing{
				Goto: []string{"a", "__end__"}, Static: true,
				Sends:  []checkpoint.Task{{Node: "w", Payload: raw(`5`), Sent: true}},
				Parent: &checkpoint.Routing{Goto: []string{"up"}},
			},
			Questions: []checkpoint.Question{
				{ID: "q1", Key: "review", Node: "review", Path: []string{"sub"}, When: "inside", Value: raw(`"joke"`), Schema: raw(`{"type":"boolean"}`), Answer: raw(`false`), Answered: true},
				{ID: "q2", Key: "", Node: "review", When: "before"},
				{ID: "q3", Key: "nap", Node: "review", When: "inside", Due: epochStart.Add(time.Hour), Wait: true},
				{ID: "q4", Key: "paid", Node: "review", When: "inside", Due: epochStart.Add(-time.Hour), Wait: true, Event: "payment", Answered: true, Expired: true},
				{ID: "q5", Key: "work", Node: "review", When: "inside", Wait: true, Turn: &checkpoint.Turn{Thread: "other", Record: r.ID, Branch: checkpoint.Branch(r.ID), Seq: 3}},
			},
			Children: map[string]checkpoint.ID{"call": r.ID},
		},
	}
	r.Joins = []checkpoint.Arrival{{Join: "c<-a,b", Sources: []string{"a"}}}
	r.Deferred = []string{"last"}
	r.Caller = "who \"waits\""
	r.Children = map[string]checkpoint.ID{"sub": r.ID}
	r.Recent = []string{"a", "b", "a", "b,c", ""}
	r.Paused = []checkpoint.Pause{{ID: "p1", Node: "review"}}
	r.Begun, r.Ran, r.Due = 4, 9, epochStart.Add(48*time.Hour+1)
	return r
}

// sealedRecord makes r one of which the store understands only where it stands.
func sealedRecord(r *checkpoint.Record, meta, data []byte) *checkpoint.Record {
	r.Source, r.Due = checkpoint.SourceLoop, epochStart.Add(time.Hour)
	r.Sealed = &checkpoint.Sealed{Meta: meta, Data: data}
	return r
}

func testRoundTrip(t *testing.T, open Opener, o Options) {
	t.Run("every field of a record comes back", func(t *testing.T) {
		s, l := open(t), newLine("t")
		r := l.write(t, s, fullRecord(l.next()))
		wantRecord(t, mustHead(t, s, l.log), r)
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log}), []*checkpoint.Record{r})
	})
	t.Run("the record with every field has every field", func(t *testing.T) {
		r := reflect.ValueOf(*fullRecord(newLine("t").next()))
		for i := range r.NumField() {
			switch name := r.Type().Field(i).Name; name {
			case "Parent", "Branch", "Lineage", "Sealed": // tried elsewhere
			default:
				if r.Field(i).IsZero() {
					t.Errorf("field %s is zero", name)
				}
			}
		}
	})
	t.Run("a sealed record comes back, and without its data when asked so", func(t *testing.T) {
		s, l := open(t), newLine("t")
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		rs := []*checkpoint.Record{
			l.write(t, s, sealedRecord(l.next(), all, all)),
			l.write(t, s, sealedRecord(l.next(), []byte{0}, nil)),
			l.write(t, s, sealedRecord(l.next(), []byte("\n\"\x00"), []byte("\n\x00\xff"))),
		}
		wantRecord(t, mustHead(t, s, l.log), rs[2])
		wantRecords(t, mustCollect(t, s, checkpoint.Query{Log: l.log}), rs)
		for i, r := range mustCollect(t, s, checkpoint.Query{Log: l.log, Meta: true}) {
			wantRecord(t, r, rs[i].Meta())
		}
		for i, r := range mustCollect(t, s, checkpoint.Query{Log: l.log, Folding: true}) {
			wantFolding(t, r, rs[i])
		}
	})
	t.Run("a record with nothing in it comes back", func(t *testing.T) {
		s, l := open(t), newLine("t")
		id := l.run.Checkpoint(1)
		r := l.write(t, s, &checkpoint.Record{ID: id, Log: l.log, Seq: 1})
		wantRecord(t, mustHead(t, s, l.log), r)
	})
	t.Run("any record comes back", func(t *testing.T) {
		s := open(t)
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			l := newLine(checkpoint.ThreadID(fmt.Sprint("t", n)))
			rs := make([]*checkpoint.Record, rapid.IntRange(1, 3).Draw(rt, "records"))
			for i := range rs {
				r := l.next()
				drawRecord(rt, r)
				if _, err := s.Write(t.Context(), &checkpoint.Write{Log: l.log, Record: r, Head: l.head}); err != nil {
					rt.Fatal(err)
				}
				l.took(r)
				rs[i] = r
			}
			got, err := collect(t.Context(), s, checkpoint.Query{Log: l.log})
			if err != nil || len(got) != len(rs) {
				rt.Fatalf("%d records, error %v", len(got), err)
			}
			metas, err := collect(t.Context(), s, checkpoint.Query{Log: l.log, Meta: true})
			if err != nil || len(metas) != len(rs) {
				rt.Fatalf("%d records, error %v", len(metas), err)
			}
			folds, err := collect(t.Context(), s, checkpoint.Query{Log: l.log, Folding: true})
			if err != nil || len(folds) != len(rs) {
				rt.Fatalf("%d records, error %v", len(folds), err)
			}
			for i := range rs {
				if d := diff(folding(folds[i]), folding(rs[i])); d != "" {
					rt.Fatalf("what record %d folds: %s", i, d)
				}
				if d := diff(got[i], rs[i]); d != "" {
					rt.Fatalf("record %d: %s", i, d)
				}
				if d := diff(metas[i], rs[i].Meta()); d != "" {
					rt.Fatalf("metadata of record %d: %s", i, d)
				}
			}
		})
	})
	t.Run("any result comes back", func(t *testing.T) {
		s := open(t)
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			log := checkpoint.Log{Thread: checkpoint.ThreadID(fmt.Sprint("t", n))}
			r := checkpoint.Result{
				Epoch: checkpoint.NewRunID(), Task: rapid.IntRange(0, 1<<20).Draw(rt, "task"), Gen: rapid.IntRange(0, 9).Draw(rt, "gen"),
				Kind: checkpoint.ResultKind(name().Filter(func(s string) bool { return s != "" }).Draw(rt, "kind")), Name: name().Draw(rt, "name"),
				Data: rawJSON().Draw(rt, "data"), Replace: rapid.Bool().Draw(rt, "replace"),
			}
			if _, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Results: []checkpoint.Result{r}}); err != nil {
				rt.Fatal(err)
			}
			got, err := s.Results(t.Context(), log, "", r.Epoch)
			if err != nil || len(got) != 1 {
				rt.Fatalf("%d results, error %v", len(got), err)
			}
			if d := diff(got[0], r); d != "" {
				rt.Fatal(d)
			}
		})
	})
	t.Run("big records and results come back", func(t *testing.T) {
		s, l := open(t), newLine("t")
		big := text(o.BigRecord)
		r := l.next()
		r.Changes = []checkpoint.Change{{Node: "a", Data: big}, {Node: "b", Data: json.RawMessage(`1`)}}
		l.write(t, s, r)
		wantRecord(t, mustHead(t, s, l.log), r)
		res := checkpoint.Result{Epoch: r.ID, Kind: checkpoint.KindChanges, Data: big}
		mustWrite(t, s, &checkpoint.Write{Log: l.log, Results: []checkpoint.Result{res}})
		wantResults(t, mustResults(t, s, l.log, "", r.ID), []checkpoint.Result{res})
		l.write(t, s, l.next())
		for m, err := range s.Records(t.Context(), checkpoint.Query{Log: l.log, Meta: true, Limit: 1}) {
			if err != nil {
				t.Fatal(err)
			}
			wantRecord(t, m, r.Meta())
		}
	})
	t.Run("times keep their nanoseconds, whatever the year", func(t *testing.T) {
		s, l := open(t), newLine("t")
		for _, at := range []time.Time{
			{}, time.Unix(0, 0).UTC(), time.Unix(0, 1).UTC(), time.Date(1969, 7, 20, 20, 17, 40, 999_999_999, time.UTC),
			time.Date(2026, 12, 31, 23, 59, 59, 123_456_789, time.UTC), time.Date(2500, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC),
		} {
			r := l.next()
			r.CreatedAt = at
			l.write(t, s, r)
			wantRecord(t, mustHead(t, s, l.log), r)
		}
	})
}

func name() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom([]string{"agent", "tools", "review", ""}), rapid.String().Filter(func(s string) bool { return !strings.ContainsRune(s, 0xFFFD) }))
}

func names() *rapid.Generator[[]string] { return rapid.SliceOfN(name(), 0, 4) }

// rawJSON draws a JSON value, or nothing.
func rawJSON() *rapid.Generator[json.RawMessage] {
	return rapid.Custom(func(t *rapid.T) json.RawMessage {
		var v any
		switch rapid.IntRange(0, 6).Draw(t, "json") {
		case 0:
			return nil
		case 1:
			return json.RawMessage(`null`)
		case 2:
			return json.RawMessage(` { "spaced" : [ 1 , 2.50e3 ],` + "\n" + `"n":12345678901234567890 } `)
		case 3:
			v = rapid.MapOfN(name(), name(), 0, 4).Draw(t, "map")
		case 4:
			v = rapid.SliceOfN(rapid.Float64Range(-1e9, 1e9), 0, 4).Draw(t, "floats")
		case 5:
			v = rapid.Int64().Draw(t, "int")
		case 6:
			v = name().Draw(t, "string")
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}

func must() *rapid.Generator[json.RawMessage] {
	return rawJSON().Filter(func(r json.RawMessage) bool { return r != nil })
}

func drawTask(t *rapid.T) checkpoint.Task {
	return checkpoint.Task{
		Node: name().Draw(t, "node"), Payload: rawJSON().Draw(t, "payload"), Sent: rapid.Bool().Draw(t, "sent"),
		From: name().Draw(t, "from"), Overlay: rawJSON().Draw(t, "overlay"),
	}
}

func drawRouting(t *rapid.T, depth int) *checkpoint.Routing {
	if depth == 0 || rapid.Bool().Draw(t, "no routing") {
		return nil
	}
	return &checkpoint.Routing{
		Goto: names().Draw(t, "goto"), Static: rapid.Bool().Draw(t, "static"),
		Stop: rapid.Bool().Draw(t, "stop"), Sent: rapid.IntRange(0, 3).Draw(t, "sent by it"),
		Sends: rapid.SliceOfN(rapid.Custom(drawTask), 0, 2).Draw(t, "sends"), Parent: drawRouting(t, depth-1),
	}
}

func drawID(t *rapid.T) checkpoint.ID {
	return checkpoint.NewRunID().Checkpoint(rapid.Uint32().Draw(t, "count"))
}

// drawRecord fills r with anything, except for what says where it stands.
func drawRecord(t *rapid.T, r *checkpoint.Record) {
	*r = checkpoint.Record{ID: r.ID, Parent: r.Parent, Log: r.Log, Branch: r.Branch, Seq: r.Seq, Lineage: r.Lineage}
	r.Epoch = rapid.OneOf(rapid.Just(r.ID), rapid.Just(r.ID.Run().Checkpoint(1)), rapid.Custom(drawID)).Draw(t, "epoch")
	r.Step = rapid.IntRange(0, 1<<30).Draw(t, "step")
	r.Source = rapid.OneOf(rapid.SampledFrom([]checkpoint.Source{
		checkpoint.SourceInput, checkpoint.SourceLoop, checkpoint.SourceInterrupt, checkpoint.SourceResume,
		checkpoint.SourceUpdate, checkpoint.SourceFork, checkpoint.SourceVoid, checkpoint.SourceInside,
	}), rapid.Map(name(), func(s string) checkpoint.Source { return checkpoint.Source(s) })).Draw(t, "source")
	r.CreatedAt = time.Unix(rapid.Int64Range(-1<<33, 1<<34).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC()
	r.Graph, r.Version = name().Draw(t, "graph"), rapid.IntRange(-1, 99).Draw(t, "version")
	r.Metadata = rapid.MapOfN(name(), name(), 0, 3).Draw(t, "metadata")
	r.Changes = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) checkpoint.Change {
		return checkpoint.Change{Node: name().Draw(t, "node"), Task: rapid.IntRange(0, 1000).Draw(t, "task"), Data: rawJSON().Draw(t, "data"), Routing: drawRouting(t, 3),
			Began: rapid.Int64Range(0, 1<<52).Draw(t, "began"), Took: rapid.Int64Range(0, 1<<42).Draw(t, "took"), Failed: rapid.IntRange(0, 9).Draw(t, "failed")}
	}), 0, 3).Draw(t, "changes")
	if rapid.Bool().Draw(t, "snapshot") {
		r.Snapshot = &checkpoint.Snapshot{Values: must().Draw(t, "values")}
		if rapid.Bool().Draw(t, "ranges") {
			r.Snapshot.Ranges = map[string][][2]int64{name().Draw(t, "field"): {{rapid.Int64Range(1, 9).Draw(t, "a"), rapid.Int64Range(9, 1<<40).Draw(t, "b")}}}
		}
	}
	r.Once = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) checkpoint.OnceResult {
		return checkpoint.OnceResult{
			Task: rapid.IntRange(0, 1000).Draw(t, "task"), Name: name().Draw(t, "name"), Data: rawJSON().Draw(t, "data"), Error: name().Draw(t, "error"),
		}
	}), 0, 3).Draw(t, "once")
	r.Tasks = rapid.SliceOfN(rapid.Custom(drawTask), 0, 3).Draw(t, "tasks")
	r.Open = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) checkpoint.OpenTask {
		return checkpoint.OpenTask{
			Task: rapid.IntRange(0, 9).Draw(t, "task"), Gen: rapid.IntRange(0, 3).Draw(t, "gen"), Error: name().Draw(t, "error"),
			Folded: rapid.Bool().Draw(t, "folded"), Passed: rapid.Bool().Draw(t, "passed"), Routing: drawRouting(t, 3),
			Children: rapid.MapOfN(name(), rapid.Custom(drawID), 0, 2).Draw(t, "calls"),
			Questions: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) checkpoint.Question {
				return checkpoint.Question{
					ID: name().Draw(t, "id"), Key: name().Draw(t, "key"), Node: name().Draw(t, "node"), Path: names().Draw(t, "path"),
					When: rapid.SampledFrom([]string{"inside", "before", "after"}).Draw(t, "when"), Value: rawJSON().Draw(t, "value"),
					Schema: rawJSON().Draw(t, "schema"), Answer: rawJSON().Draw(t, "answer"), Answered: rapid.Bool().Draw(t, "answered"),
				}
			}), 0, 2).Draw(t, "questions"),
		}
	}), 0, 2).Draw(t, "open")
	r.Joins = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) checkpoint.Arrival {
		return checkpoint.Arrival{Join: name().Draw(t, "join"), Sources: names().Draw(t, "sources"), Elsewhere: names().Draw(t, "elsewhere"), Fired: rapid.Bool().Draw(t, "fired")}
	}), 0, 2).Draw(t, "joins")
	r.Caller = checkpoint.ThreadID(name().Draw(t, "caller"))
	r.Deferred, r.Recent = names().Draw(t, "deferred"), rapid.SliceOfN(name(), 0, 24).Draw(t, "recent")
	r.Children = rapid.MapOfN(name(), rapid.Custom(drawID), 0, 2).Draw(t, "children")
	r.Paused = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) checkpoint.Pause {
		return checkpoint.Pause{ID: name().Draw(t, "id"), Node: name().Draw(t, "node")}
	}), 0, 2).Draw(t, "paused")
}
