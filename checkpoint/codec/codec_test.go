package codec

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/internal/race"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testKey returns a key that depends on the ID alone.
func testKey(id string) Key {
	k, err := NewKey(id, bytes.Repeat([]byte(id+"."), 32)[:32])
	if err != nil {
		panic(err)
	}
	return k
}

func testRing(current string, old ...string) *KeyRing {
	r := &KeyRing{Current: testKey(current)}
	for _, id := range old {
		r.Old = append(r.Old, testKey(id))
	}
	return r
}

// forms are the option sets that are tried.
var forms = []struct {
	name string
	Options
}{
	{"encrypted, zstd, CBOR", Options{Keys: testRing("k2", "k1"), Compress: true, Encoding: CBOR}},
	{"encrypted", Options{Keys: testRing("k1")}},
	{"CBOR", Options{Encoding: CBOR}},
	{"zstd", Options{Compress: true}},
	{"for a migration", Options{Keys: testRing("k1"), AllowPlain: true}},
	{"nothing", Options{}},
}

// onDiskForms is how many of them are tried over stores on disk, where the suite
// takes its time: what depends on the form shows in memory too.
const onDiskForms = 1

func mustWrap(t testing.TB, inner checkpoint.Store, o Options) *Store {
	t.Helper()
	s, err := Wrap(inner, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStoreOverMemory(t *testing.T) { // W7-46
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			if race.Enabled && f.name != forms[0].name {
				t.Skip("a part of what another form does at once: run without -race")
			}
			checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return mustWrap(t, checkpoint.NewMemory(), f.Options) })
		})
	}
}

// The model's results stand under epochs that no record has, so encrypted ones are
// not copied: see Store.Copy.
func TestModel(t *testing.T) {
	for _, f := range forms {
		if f.Keys == nil {
			t.Run(f.name, func(t *testing.T) {
				checkpointtest.Model(t, func(t *testing.T) checkpoint.Store { return mustWrap(t, checkpoint.NewMemory(), f.Options) }, checkpointtest.Options{})
			})
		}
	}
}

// places remembers where the suite's stores stand.
var places sync.Map

func onDisk(t *testing.T, f Options, open func(t *testing.T, at string) checkpoint.Store) {
	t.Helper()
	at := func(t *testing.T, path string) checkpoint.Store {
		t.Helper()
		s := mustWrap(t, open(t, path), f)
		places.Store(s, path)
		return s
	}
	of := func(s checkpoint.Store) string {
		p, _ := places.Load(s)
		return p.(string)
	}
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return at(t, filepath.Join(t.TempDir(), "threads")) }, checkpointtest.Options{
		Reopen: func(t *testing.T, s checkpoint.Store) checkpoint.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return at(t, of(s))
		},
		Another: func(t *testing.T, s checkpoint.Store) checkpoint.Store { return at(t, of(s)) },
	})
}

func openSQLite(t *testing.T, path string) checkpoint.Store {
	t.Helper()
	s, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openFile(t *testing.T, path string) checkpoint.Store {
	t.Helper()
	s, err := file.Open(path, file.Options{Sync: file.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStoreOverSQLite(t *testing.T) {
	if race.Enabled || testing.Short() {
		t.Skip("the suite once more: run without -race and -short")
	}
	for _, f := range forms[:onDiskForms] {
		t.Run(f.name, func(t *testing.T) { t.Parallel(); onDisk(t, f.Options, openSQLite) })
	}
}

func TestStoreOverFile(t *testing.T) {
	if race.Enabled || testing.Short() {
		t.Skip("the suite once more: run without -race and -short")
	}
	for _, f := range forms[:onDiskForms] {
		t.Run(f.name, func(t *testing.T) { t.Parallel(); onDisk(t, f.Options, openFile) })
	}
}

// diskBytes returns all that stands in the files under a path, and beside it.
func diskBytes(t testing.TB, path string) []byte {
	t.Helper()
	var all []byte
	err := filepath.WalkDir(filepath.Dir(path), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		all = append(all, b...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sample returns n records of a log, with something in every part.
func sample(log checkpoint.Log, n int) []*checkpoint.Record {
	run := checkpoint.NewRunID()
	out := make([]*checkpoint.Record, n)
	for i := range out {
		id := run.Checkpoint(uint32(i + 1))
		r := &checkpoint.Record{
			ID: id, Log: log, Seq: int64(i + 1), Epoch: id, Step: i, Source: checkpoint.SourceLoop, CreatedAt: time.Unix(1e9+int64(i), 0).UTC(), Graph: "confidential-graph",
			Metadata: map[string]string{"secret-key": "secret-metadata"},
			Changes:  []checkpoint.Change{{Node: "secret-node", Data: fmt.Appendf(nil, `{"n":%d,"text":"secret-value"}`, i)}},
			Tasks:    []checkpoint.Task{{Node: "secret-node", Payload: []byte(`"secret-payload"`)}},
		}
		if i > 0 {
			r.Parent = out[i-1].ID
		}
		out[i] = r
	}
	return out
}

func fill(t testing.TB, s checkpoint.Store, log checkpoint.Log, n int) []*checkpoint.Record {
	t.Helper()
	rs := sample(log, n)
	var head checkpoint.ID
	for _, r := range rs {
		logtest.Write(t, s, &checkpoint.Write{Log: log, Record: r, Head: head})
		head = r.ID
	}
	return rs
}

func once(epoch checkpoint.ID, name, data string) checkpoint.Result {
	return checkpoint.Result{Epoch: epoch, Kind: checkpoint.KindOnce, Name: name, Data: []byte(data)}
}
