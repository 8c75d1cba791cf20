package recording_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/internal/process"
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

var at = time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC)

// sample is a recording with every field of a record, two logs, a branch, a gap
// and results.
func sample() *recording.Recording {
	run := checkpoint.NewRunID()
	root, sub := checkpoint.Log{Thread: "t <&>"}, checkpoint.Log{Thread: "t <&>", Namespace: "/sub:1"}
	one := &checkpoint.Record{
		ID: run.Checkpoint(1), Log: root, Seq: 1, Epoch: run.Checkpoint(1), Step: 1, Source: checkpoint.SourceLoop, CreatedAt: at, Due: at,
		Graph: "g", Version: 2, Metadata: map[string]string{"a": "<\u2028>"},
		Changes:  []checkpoint.Change{{Node: "n", Task: 1, Data: raw(`{"a":1.50,"b":"<&>"}`), Began: at.UnixMicro(), Took: 1500, Failed: 2}, {Node: "none"}, {Data: raw(`null`)}},
		Once:     []checkpoint.OnceResult{{Name: "model", Data: raw(`null`)}, {Task: 1, Name: "tool", Error: "refused"}},
		Snapshot: &checkpoint.Snapshot{Values: raw(`{"b":1}`), Ranges: map[string][][2]int64{"a": {{1, 2}}}, Full: true},
		Tasks:    []checkpoint.Task{{Node: "w", From: "n", Sent: true, Payload: raw(`null`), Overlay: raw(`{}`)}},
		Open: []checkpoint.OpenTask{{Gen: 1, Error: "e", Passed: true, Folded: true, Node: "n",
			Routing:   &checkpoint.Routing{Goto: []string{"x"}, Static: true, Stop: true, Parent: &checkpoint.Routing{}, Sends: []checkpoint.Task{{Node: "y"}}},
			Questions: []checkpoint.Question{{ID: "q", Key: "k", Node: "n", Path: []string{"p"}, When: "inside", Value: raw(`null`), Schema: raw(`{}`), Answer: raw(`null`), Answered: true, Due: at, Expired: true, Wait: true, Event: "e", Turn: &checkpoint.Turn{Thread: "o", Record: run, Branch: "b", Seq: 1}}},
			Children:  map[string]checkpoint.ID{"c": run.Checkpoint(1)}}},
		Joins: []checkpoint.Arrival{{Join: "a->b", Sources: []string{"a"}}}, Deferred: []string{"d"}, Children: map[string]checkpoint.ID{"c": run.Checkpoint(1)},
		Recent: []string{"a", ""}, Paused: []checkpoint.Pause{{ID: "p", Node: "n"}}, Begun: 1, Ran: 2, Caller: "c",
	}
	two := &checkpoint.Record{ID: run.Checkpoint(2), Parent: one.ID, Log: root, Seq: 2, Epoch: one.ID, CreatedAt: at}
	fork := run.Checkpoint(3)
	three := &checkpoint.Record{ID: fork, Parent: one.ID, Log: root, Branch: checkpoint.Branch(fork), Seq: 2, Lineage: []checkpoint.Span{{To: 1}}, Epoch: fork, CreatedAt: at}
	four := &checkpoint.Record{ID: run.Checkpoint(5), Parent: fork, Log: root, Branch: checkpoint.Branch(fork), Seq: 5, Lineage: three.Lineage, Epoch: fork, CreatedAt: at, Graph: "g", Version: 2}
	inner := &checkpoint.Record{ID: run.Checkpoint(6), Log: sub, Seq: 4, Epoch: run.Checkpoint(6), CreatedAt: at, Metadata: map[string]string{"superstep.task": "|1.0.0"}}
	return &recording.Recording{
		Header: recording.Header{Thread: "t <&>", Graph: "g", Version: 2, ExportedAt: at.Truncate(time.Second)},
		Logs: []*recording.Log{
			{Records: []*checkpoint.Record{one, two, three, four}, Results: []checkpoint.Result{
				{Epoch: one.ID, Task: 1, Gen: 1, Kind: checkpoint.KindOnce, Name: "n", Data: raw(`"<v>"`), Replace: true},
				{Epoch: checkpoint.EventsEpoch, Kind: checkpoint.KindEvent, Name: "e", Data: raw(`1`)},
			}},
			{Namespace: "/sub:1", Records: []*checkpoint.Record{inner}},
		},
	}
}

func written(t *testing.T, r *recording.Recording) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestARecordingComesBack(t *testing.T) {
	want := sample()
	text := written(t, want)
	got, err := recording.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("came back as\n%s\nwas\n%s", written(t, got), text)
	}
	for i := range reflect.TypeFor[checkpoint.Record]().NumField() {
		f := reflect.TypeFor[checkpoint.Record]().Field(i)
		if slices.Contains([]string{"Parent", "Branch", "Lineage", "Sealed"}, f.Name) {
			continue
		}
		if reflect.ValueOf(*want.Logs[0].Records[0]).Field(i).IsZero() {
			t.Errorf("the sample has no %s", f.Name)
		}
	}
}

func TestAThreadIsTheSameAfterImport(t *testing.T) {
	want := sample()
	store := checkpoint.NewMemory()
	if _, err := recording.Import(t.Context(), store, strings.NewReader(written(t, want)), ""); err != nil {
		t.Fatal(err)
	}
	got, err := recording.Take(t.Context(), store, want.Header.Thread)
	if err != nil {
		t.Fatal(err)
	}
	got.Header.ExportedAt = want.Header.ExportedAt
	// Results of an epoch that no branch stands at are of no use to anybody; the
	// sample's is that of a branch.
	if !reflect.DeepEqual(got, want) {
		t.Errorf("came back as\n%s\nwas\n%s", written(t, got), written(t, want))
	}
	if info := leases(t, store); info != "" {
		t.Errorf("the thread is held by %s", info)
	}
	if err := want.Put(t.Context(), store, ""); !errors.Is(err, recording.ErrExists) {
		t.Errorf("a second import: %v", err)
	}
	if err := want.Put(t.Context(), store, "other"); err != nil {
		t.Error(err)
	}
}

func leases(t *testing.T, store checkpoint.Lister) string {
	for info, err := range store.Threads(t.Context(), checkpoint.ThreadFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if info.Lease.Holder != "" {
			return info.Lease.Holder
		}
	}
	return ""
}

func TestDamagedFilesAreNamedWithTheirLine(t *testing.T) {
	text := written(t, sample())
	lines := strings.SplitAfter(text, "\n")
	header := lines[0]
	line := func(n int, with string) string {
		ls := slices.Clone(lines)
		ls[n-1] = with + "\n"
		return strings.Join(ls, "")
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "not a recording: it is empty"},
		"something else":    {"hello\n", "not a recording"},
		"other JSON":        {"{}\n", "not a recording"},
		"newer":             {`{"superstep":"recording","format":200,"more":1}` + "\n", "the recording has format 2.0"},
		"no format":         {`{"superstep":"recording"}` + "\n", "the recording has format 0.0"},
		"not JSON":          {line(3, `{"record":`), "line 3: unexpected EOF"},
		"empty line":        {line(3, ``), "line 3: the line is empty"},
		"two on one line":   {line(3, lines[2][:len(lines[2])-1]+`{}`), "line 3: 2 bytes follow the object"},
		"unknown field":     {line(3, `{"recrod":{}}`), `line 3: json: unknown field "recrod"`},
		"nothing":           {line(3, `{}`), "line 3: neither a record nor a result"},
		"no ID":             {line(3, `{"record":{}}`), "line 3: the record has no ID"},
		"no kind":           {line(3, `{"result":{}}`), "line 3: the result has no kind"},
		"cut at a line":     {strings.Join(lines[:3], ""), "line 4: the recording is cut off"},
		"cut in a line":     {header + lines[1][:40], "line 2: the recording is cut off"},
		"a line is gone":    {header + strings.Join(lines[2:], ""), "the recording is cut off: it holds 4 records and 2 results, 5 and 2 were written"},
		"header and no end": {header, "line 2: the recording is cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := recording.Read(strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %s", err, c.want)
			}
			if _, newer := errors.AsType[*recording.VersionError](err); newer != strings.Contains(c.want, "has format") || newer != errors.Is(err, checkpoint.ErrVersion) {
				t.Errorf("%v is a version error: %v", err, newer)
			}
		})
	}
	t.Run("a newer minor format may have more", func(t *testing.T) {
		newer := strings.Replace(text, `"format":100`, `"format":101,"colour":"red"`, 1)
		newer = strings.Replace(newer, `"seq":2`, `"seq":2,"colour":"red"`, 1)
		_, err := recording.Read(strings.NewReader(newer))
		if err != nil {
			t.Error(err)
		}
	})
}

// failing fails at its n-th write.
type failing struct {
	*checkpoint.Memory
	left int
	err  error
}

func (f *failing) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if f.left--; f.left == 0 {
		return checkpoint.Written{}, f.err
	}
	return f.Memory.Write(ctx, w)
}

func TestAFailedImportLeavesNothing(t *testing.T) {
	broken := errors.New("disk full")
	for n := 1; ; n++ {
		store := &failing{checkpoint.NewMemory(), n, broken}
		err := sample().Put(t.Context(), store, "t")
		if store.left > 0 {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if !errors.Is(err, broken) {
			t.Errorf("write %d failed, the error is %v", n, err)
		}
		for l := range store.Logs(t.Context(), "t") {
			t.Errorf("write %d failed, and log %v is there", n, l)
		}
		for l := range store.Threads(t.Context(), checkpoint.ThreadFilter{}) {
			t.Errorf("write %d failed, and thread %q is there", n, l.Thread)
		}
	}
}

// dying is a store of a process that dies before a call.
type dying struct {
	*checkpoint.Memory
	left int
}

var errDead = errors.New("the process is dead")

func (d *dying) alive() error {
	if d.left--; d.left < 0 {
		return errDead
	}
	return nil
}

func (d *dying) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if err := d.alive(); err != nil {
		return checkpoint.Written{}, err
	}
	return d.Memory.Write(ctx, w)
}

func (d *dying) Rewrite(ctx context.Context, r *checkpoint.Rewrite) error {
	return errors.Join(d.alive(), d.Memory.Rewrite(ctx, r))
}

func (d *dying) Copy(ctx context.Context, from, to checkpoint.ThreadID) error {
	if err := d.alive(); err != nil {
		return err
	}
	return d.Memory.Copy(ctx, from, to)
}

func (d *dying) Delete(ctx context.Context, thread checkpoint.ThreadID) error {
	if err := d.alive(); err != nil {
		return err
	}
	return d.Memory.Delete(ctx, thread)
}

func TestAnImportThatDiesLeavesNothingThatARunnerTakesUp(t *testing.T) {
	rec := sample()
	own := rec.Logs[0].Records
	own[len(own)-1].Due = at // each record of the thread's own log that may be the newest one
	own[1].Due, own[2].Due = at, at
	for n := 0; ; n++ {
		store := &dying{checkpoint.NewMemory(), n}
		err := rec.Put(t.Context(), store, "t")
		if store.left >= 0 {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		whole := false
		for range store.Logs(t.Context(), "t") {
			whole = true
		}
		if whole {
			got, err := recording.Take(t.Context(), store, "t")
			if err != nil || len(got.Logs) != len(rec.Logs) || len(got.Logs[0].Records) != len(own) {
				t.Errorf("dead before call %d, and a part of the thread is there: %v", n+1, err)
			}
		}
		for w, err := range store.Due(t.Context(), time.Time{}, 0) {
			if err != nil || w.Thread != "t" {
				t.Errorf("dead before call %d, and thread %q is due, %v", n+1, w.Thread, err)
			}
		}
		for w, err := range store.Abandoned(t.Context(), 0) {
			t.Errorf("dead before call %d, and thread %q is abandoned, %v", n+1, w.Thread, err)
		}
	}
}

func TestAnImportRemovesWhatOneHasLeftWhoseProcessIsGone(t *testing.T) {
	gone := logtest.Ended(t)
	rec := sample()
	store := checkpoint.NewMemory()
	for thread, holder := range map[checkpoint.ThreadID]string{
		"importing/dead":   "dead " + gone,
		"importing/living": "living " + process.Self(),
		"importing/far":    "far pid 7 on mars x.1",
		"importing/users":  "run " + gone, // whose run died
	} {
		w := &checkpoint.Write{
			Log: checkpoint.Log{Thread: thread}, Claim: true, Lease: time.Hour, Holder: holder,
			Record: &checkpoint.Record{ID: checkpoint.NewRunID().Checkpoint(1), Log: checkpoint.Log{Thread: thread}, Seq: 1, CreatedAt: at},
		}
		if _, err := store.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if err := rec.Put(t.Context(), store, "t"); err != nil {
		t.Fatal(err)
	}
	var there []string
	for l, err := range store.Threads(t.Context(), checkpoint.ThreadFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		there = append(there, string(l.Thread))
	}
	slices.Sort(there)
	if want := []string{"importing/far", "importing/living", "importing/users", "t"}; !slices.Equal(there, want) {
		t.Errorf("there are %q, want %q", there, want)
	}
}

func TestOneOfSeveralImportsWins(t *testing.T) {
	store := checkpoint.NewMemory()
	rec := sample()
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = rec.Put(t.Context(), store, "t") })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		}
	}
	got, err := recording.Take(t.Context(), store, "t")
	if won != 1 || err != nil || len(got.Logs) != 2 || len(got.Logs[0].Records) != 4 {
		t.Errorf("%d imports won, %v; errors %v", won, err, errs)
	}
}

func TestWhatCannotBeExported(t *testing.T) {
	store := checkpoint.NewMemory()
	if err := recording.Export(t.Context(), store, "none", &bytes.Buffer{}); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("an unknown thread: %v", err)
	}
	if err := recording.Export(t.Context(), store, "", &bytes.Buffer{}); !errors.Is(err, checkpoint.ErrNoThread) {
		t.Errorf("no thread: %v", err)
	}
	id := checkpoint.NewRunID().Checkpoint(1)
	log := checkpoint.Log{Thread: "s"}
	if _, err := store.Write(t.Context(), &checkpoint.Write{Log: log, Record: &checkpoint.Record{ID: id, Log: log, Seq: 1, Epoch: id, Sealed: &checkpoint.Sealed{}}}); err != nil {
		t.Fatal(err)
	}
	if err := recording.Export(t.Context(), store, "s", &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "sealed") {
		t.Errorf("a sealed thread: %v", err)
	}
	type bare struct{ checkpoint.Store }
	if err := recording.Export(t.Context(), bare{store}, "s", &bytes.Buffer{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a store that lists nothing: %v", err)
	}
	if err := sample().Put(t.Context(), bare{checkpoint.NewMemory()}, "t"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a pruned thread and a store that removes nothing: %v", err)
	}
}

func ExampleExport() {
	ctx, store := context.Background(), checkpoint.NewMemory()
	id := checkpoint.ID("0189c1f0-0000-7000-8000-000000000001")
	log := checkpoint.Log{Thread: "t-1"}
	store.Write(ctx, &checkpoint.Write{Log: log, Record: &checkpoint.Record{ID: id, Log: log, Seq: 1, Epoch: id, Source: checkpoint.SourceInput, Graph: "jokes"}})

	var b bytes.Buffer
	fmt.Println(recording.Export(ctx, store, "t-1", &b))
	rec, err := recording.Read(&b)
	fmt.Println(rec.Header.Graph, len(rec.Log("").Records), err)
	// Output:
	// <nil>
	// jokes 1 <nil>
}
