package recording_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
)

// whole is the sample as a thread may have recorded it.
func whole() *recording.Recording {
	r := sample()
	r.Logs[0].Records[0].Snapshot.Ranges["a"][0] = [2]int64{1, 1}
	return r
}

func TestWhatNoThreadCanHaveRecordedIsFound(t *testing.T) {
	if err := whole().Check(); err != nil {
		t.Fatalf("a whole one: %v", err)
	}
	for says, change := range map[string]func(r *recording.Recording, own *recording.Log, one *checkpoint.Record){
		"no record of the thread's own log":  func(r *recording.Recording, _ *recording.Log, _ *checkpoint.Record) { r.Logs = r.Logs[1:] },
		"its namespace has a zero character": func(r *recording.Recording, _ *recording.Log, _ *checkpoint.Record) { r.Logs[1].Namespace = "/\x00" },
		"its ID is no ID":                    func(_ *recording.Recording, _ *recording.Log, one *checkpoint.Record) { one.ID = "x" },
		"its epoch is no ID":                 func(_ *recording.Recording, _ *recording.Log, one *checkpoint.Record) { one.Epoch = "" },
		"its parent is no ID":                func(_ *recording.Recording, _ *recording.Log, one *checkpoint.Record) { one.Parent = "x" },
		"its branch is no ID":                func(_ *recording.Recording, _ *recording.Log, one *checkpoint.Record) { one.Branch = "x" },
		"it is sealed": func(_ *recording.Recording, _ *recording.Log, one *checkpoint.Record) {
			one.Sealed = new(checkpoint.Sealed)
		},
		"it stands before itself": func(_ *recording.Recording, _ *recording.Log, one *checkpoint.Record) { one.Parent = one.ID },
		"it is there twice": func(_ *recording.Recording, own *recording.Log, one *checkpoint.Record) {
			own.Records[1].ID, own.Records[1].Parent = one.ID, ""
		},
		"its sequence number is 0":          func(_ *recording.Recording, _ *recording.Log, one *checkpoint.Record) { one.Seq = 0 },
		"its sequence number is 1, after 1": func(_ *recording.Recording, own *recording.Log, _ *checkpoint.Record) { own.Records[1].Seq = 1 },
		"and that of the record before it 2": func(_ *recording.Recording, own *recording.Log, _ *checkpoint.Record) {
			own.Records[2].Parent = own.Records[1].ID
		},
		"the first of a branch that has another ID": func(_ *recording.Recording, own *recording.Log, one *checkpoint.Record) {
			own.Records[2].Branch = checkpoint.Branch(one.ID)
		},
		"it has a lineage and no branch": func(_ *recording.Recording, _ *recording.Log, one *checkpoint.Record) {
			one.Lineage = []checkpoint.Span{{To: 1}}
		},
		"its lineage is none": func(_ *recording.Recording, own *recording.Log, _ *checkpoint.Record) {
			own.Records[2].Lineage = []checkpoint.Span{{To: 2}}
		},
		"it counts -1":            func(_ *recording.Recording, _ *recording.Log, one *checkpoint.Record) { one.Open[0].Task = -1 },
		"a time before all times": func(_ *recording.Recording, _ *recording.Log, one *checkpoint.Record) { one.Changes[0].Took = -1 },
		"a time of the year 10000": func(_ *recording.Recording, _ *recording.Log, one *checkpoint.Record) {
			one.Due = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
		},
		"its snapshot refers to records 1 to 2": func(_ *recording.Recording, _ *recording.Log, one *checkpoint.Record) {
			one.Snapshot.Ranges["a"][0][1] = 2
		},
		"a name of its metadata has a zero":          func(_ *recording.Recording, _ *recording.Log, one *checkpoint.Record) { one.Metadata["\x00"] = "" },
		"the name of its graph has a zero character": func(_ *recording.Recording, _ *recording.Log, one *checkpoint.Record) { one.Graph = "\x00" },
		"result 1: its epoch is no ID":               func(_ *recording.Recording, own *recording.Log, _ *checkpoint.Record) { own.Results[0].Epoch = "x" },
		"result 1: its branch is no ID":              func(_ *recording.Recording, own *recording.Log, _ *checkpoint.Record) { own.Results[0].Branch = "x" },
		"result 2: it is of task -1":                 func(_ *recording.Recording, own *recording.Log, _ *checkpoint.Record) { own.Results[1].Task = -1 },
		"result 2: its name has a zero character":    func(_ *recording.Recording, own *recording.Log, _ *checkpoint.Record) { own.Results[1].Name = "\x00" },
	} {
		r := whole()
		change(r, r.Logs[0], r.Logs[0].Records[0])
		if err := r.Check(); !errors.Is(err, recording.ErrDamaged) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestWritesAreThoseOfAnImport(t *testing.T) {
	// Five records, one of them of a subgraph, two results, and two that stand for pruned
	// records of the branch and three for those of the subgraph.
	if n := whole().Writes(); n != 5+2+2+3 {
		t.Errorf("%d writes", n)
	}
}

func TestARecordingNamesTheThreadsThatItWaitsFor(t *testing.T) {
	r := whole()
	r.Logs[1].Results = []checkpoint.Result{
		{Kind: checkpoint.KindOnce, Name: "/1.0.a:Spawn key", Data: raw(`{"thread":"spawned","record":"x"}`)},
		{Kind: checkpoint.KindOnce, Name: "ask", Data: raw(`{"thread":"its own affair"}`)},
		{Kind: checkpoint.KindOnce, Name: "Spawn key", Data: raw(`null`)},
		{Kind: checkpoint.KindOpen, Data: raw(`{"questions":[{"turn":{"thread":"beside"}},{"turn":{"thread":"spawned"}},{}]}`)},
		{Kind: checkpoint.KindOpen, Data: raw(`{`)},
	}
	if got := r.Others(); !slices.Equal(got, []checkpoint.ThreadID{"o", "spawned", "beside"}) {
		t.Errorf("%q", got)
	}
}
