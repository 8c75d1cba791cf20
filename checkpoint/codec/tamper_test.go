package codec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/internal/zip"
)

// meddler changes what is read, as somebody does who can write to the database.
type meddler struct {
	*checkpoint.Memory
	record func(r *checkpoint.Record)
	result func(r *checkpoint.Result)
}

func (m *meddler) change(r *checkpoint.Record) *checkpoint.Record {
	c := *r
	if r.Sealed != nil {
		s := checkpoint.Sealed{Meta: bytes.Clone(r.Sealed.Meta), Data: bytes.Clone(r.Sealed.Data)}
		c.Sealed = &s
	}
	if m.record != nil {
		m.record(&c)
	}
	return &c
}

func (m *meddler) Get(ctx context.Context, log checkpoint.Log, id checkpoint.ID) (*checkpoint.Record, error) {
	r, err := m.Memory.Get(ctx, log, id)
	if err != nil {
		return nil, err
	}
	return m.change(r), nil
}

func (m *meddler) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	r, fence, err := m.Memory.Head(ctx, log)
	if err != nil {
		return nil, fence, err
	}
	return m.change(r), fence, nil
}

func (m *meddler) Records(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Record, error] {
	return func(yield func(*checkpoint.Record, error) bool) {
		for r, err := range m.Memory.Records(ctx, q) {
			if err == nil {
				r = m.change(r)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (m *meddler) Results(ctx context.Context, log checkpoint.Log, b checkpoint.Branch, e checkpoint.ID) ([]checkpoint.Result, error) {
	rs, err := m.Memory.Results(ctx, log, b, e)
	for i := range rs {
		rs[i].Data = bytes.Clone(rs[i].Data)
		if m.result != nil {
			m.result(&rs[i])
		}
	}
	return rs, err
}

var log1 = checkpoint.Log{Thread: "t-1"}

// refused wants one of the typed errors, which names thread and place.
func refused(t *testing.T, err error, place string) {
	t.Helper()
	if !errors.Is(err, checkpoint.ErrCorrupt) && !errors.Is(err, ErrKey) && !errors.Is(err, ErrPlain) && !errors.Is(err, checkpoint.ErrVersion) {
		t.Fatalf("got error %v, want a typed one", err)
	}
	if !strings.Contains(err.Error(), `"t-1"`) || !strings.Contains(err.Error(), place) {
		t.Fatalf("error %q does not name thread and %s", err, place)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Fatalf("error %q tells a secret", err)
	}
}

// readers reads record r and results of its epoch in all ways there are.
func readers(t *testing.T, s *Store, r *checkpoint.Record) map[string]error {
	_, get := s.Get(t.Context(), r.Log, r.ID)
	_, _, head := s.Head(t.Context(), r.Log)
	out := map[string]error{"Get": get, "Head": head}
	for _, err := range s.Records(t.Context(), checkpoint.Query{Log: r.Log, Desc: true}) {
		out["Records"] = err
		break
	}
	return out
}

func metaError(t *testing.T, s *Store, r *checkpoint.Record) error {
	for _, err := range s.Records(t.Context(), checkpoint.Query{Log: r.Log, Desc: true, Meta: true}) {
		return err
	}
	t.Fatal("no record")
	return nil
}

func encryptedForms() []Options {
	return []Options{forms[0].Options, forms[1].Options, {Keys: testRing("k1"), Compress: true}}
}

func TestChangedBytesAreRefused(t *testing.T) {
	for _, o := range encryptedForms() {
		m := &meddler{Memory: checkpoint.NewMemory()}
		s := mustWrap(t, m, o)
		rs := fill(t, s, log1, 2)
		last := rs[1]
		logtest.Write(t, s, &checkpoint.Write{Log: log1, Results: []checkpoint.Result{once(last.ID, "secret-name", `"secret-result"`)}})
		if _, _, err := s.Head(t.Context(), log1); err != nil {
			t.Fatal(err)
		}
		raw, _, _ := m.Memory.Head(t.Context(), log1)
		for _, flip := range []byte{1, 2, 4, 8, 16, 32, 64, 128, 255} {
			for i := range raw.Sealed.Meta {
				m.record = func(r *checkpoint.Record) { r.Sealed.Meta[i] ^= flip }
				for _, err := range readers(t, s, last) {
					refused(t, err, string(last.ID))
				}
				refused(t, metaError(t, s, last), string(last.ID))
			}
			for i := range raw.Sealed.Data {
				m.record = func(r *checkpoint.Record) { r.Sealed.Data[i] ^= flip }
				for _, err := range readers(t, s, last) {
					refused(t, err, string(last.ID))
				}
			}
			m.record = nil
			rawResults, _ := m.Memory.Results(t.Context(), log1, "", last.ID)
			for i := range rawResults[0].Data {
				m.result = func(r *checkpoint.Result) { r.Data[i] ^= flip }
				_, err := s.Results(t.Context(), log1, "", last.ID)
				refused(t, err, string(checkpoint.KindOnce))
			}
			m.result = nil
		}
		for n := range raw.Sealed.Meta {
			m.record = func(r *checkpoint.Record) { r.Sealed.Meta = r.Sealed.Meta[:n] }
			refused(t, metaError(t, s, last), string(last.ID))
		}
		for n := range raw.Sealed.Data {
			m.record = func(r *checkpoint.Record) { r.Sealed.Data = r.Sealed.Data[:n] }
			refused(t, readers(t, s, last)["Get"], string(last.ID))
		}
		for what, f := range map[string]func(r *checkpoint.Record){
			"meta and data exchanged": func(r *checkpoint.Record) { r.Sealed.Meta, r.Sealed.Data = r.Sealed.Data, r.Sealed.Meta },
			"no data":                 func(r *checkpoint.Record) { r.Sealed.Data = nil },
			"nothing sealed":          func(r *checkpoint.Record) { r.Sealed = nil },
			"more meta":               func(r *checkpoint.Record) { r.Sealed.Meta = append(r.Sealed.Meta, 0) },
			"more data":               func(r *checkpoint.Record) { r.Sealed.Data = append(r.Sealed.Data, 0) },
		} {
			m.record = f
			if err := readers(t, s, last)["Get"]; err == nil {
				t.Errorf("%s: no error", what)
			} else {
				refused(t, err, string(last.ID))
			}
		}
	}
}

func TestChangedPlacesAreRefused(t *testing.T) {
	m := &meddler{Memory: checkpoint.NewMemory()}
	s := mustWrap(t, m, forms[0].Options)
	last := fill(t, s, log1, 3)[2]
	logtest.Write(t, s, &checkpoint.Write{Log: log1, Results: []checkpoint.Result{once(last.ID, "secret-name", `1`)}})
	for what, f := range map[string]func(r *checkpoint.Record){
		"ID": func(r *checkpoint.Record) { r.ID = r.ID.Checkpoint(99) }, "parent": func(r *checkpoint.Record) { r.Parent = "" },
		"thread": func(r *checkpoint.Record) { r.Log.Thread += "x" }, "namespace": func(r *checkpoint.Record) { r.Log.Namespace = "n" },
		"branch": func(r *checkpoint.Record) { r.Branch = "b" }, "number": func(r *checkpoint.Record) { r.Seq++ },
		"lineage": func(r *checkpoint.Record) { r.Lineage = []checkpoint.Span{{Branch: "", To: 1}} }, "epoch": func(r *checkpoint.Record) { r.Epoch = r.Parent },
		"source": func(r *checkpoint.Record) { r.Source = checkpoint.SourceFork }, "time": func(r *checkpoint.Record) { r.CreatedAt = r.CreatedAt.Add(1) },
		"due": func(r *checkpoint.Record) { r.Due = time.Unix(1, 0).UTC() },
	} {
		m.record = f
		if _, err := s.Get(t.Context(), log1, last.ID); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("another %s: got error %v", what, err)
		}
		if err := metaError(t, s, last); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("another %s: got error %v", what, err)
		}
	}
	m.record = nil
	for what, f := range map[string]func(r *checkpoint.Result){
		"branch": func(r *checkpoint.Result) { r.Branch = "b" }, "epoch": func(r *checkpoint.Result) { r.Epoch = "e" }, "task": func(r *checkpoint.Result) { r.Task++ },
		"generation": func(r *checkpoint.Result) { r.Gen++ }, "kind": func(r *checkpoint.Result) { r.Kind = checkpoint.KindChanges }, "name": func(r *checkpoint.Result) { r.Name += "x" },
		"replace": func(r *checkpoint.Result) { r.Replace = true },
	} {
		m.result = f
		if _, err := s.Results(t.Context(), log1, "", last.ID); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("another %s of a result: got error %v", what, err)
		}
	}
}

// What was sealed for one place is no good in another, even when the places have
// all but one thing in common.
func TestSwappedPartsAreRefused(t *testing.T) {
	m := &meddler{Memory: checkpoint.NewMemory()}
	s := mustWrap(t, m, forms[1].Options)
	logs := []checkpoint.Log{log1, {Thread: "t-1", Namespace: "n"}, {Thread: "t-2"}, {Thread: "t-", Namespace: "1n"}}
	first := sample(log1, 2)
	sealed := map[string]*checkpoint.Sealed{}
	results := map[string]checkpoint.Result{}
	for _, log := range logs {
		var head checkpoint.ID
		for _, r := range first {
			c := *r
			c.Log = log
			logtest.Write(t, s, &checkpoint.Write{Log: log, Record: &c, Head: head})
			head = c.ID
		}
		branch := *first[1]
		branch.ID = first[0].ID.Checkpoint(7)
		branch.Log, branch.Branch, branch.Lineage = log, checkpoint.Branch(branch.ID), []checkpoint.Span{{To: 1}}
		logtest.Write(t, s, &checkpoint.Write{Log: log, Record: &branch, Head: head})
		for r, err := range m.Memory.Records(t.Context(), checkpoint.Query{Log: log, AllBranches: true}) {
			if err != nil {
				t.Fatal(err)
			}
			sealed[fmt.Sprintf("%v %s", log, r.ID)] = r.Sealed
		}
		for i, name := range []string{"a", "b"} {
			for _, epoch := range []checkpoint.ID{"e1", "e2"} {
				r := once(epoch, name, fmt.Sprint(i))
				logtest.Write(t, s, &checkpoint.Write{Log: log, Results: []checkpoint.Result{r}})
				rs, _ := m.Memory.Results(t.Context(), log, "", epoch)
				results[fmt.Sprintf("%v %s %s", log, epoch, name)] = rs[i]
			}
		}
	}
	if len(sealed) != 12 || len(results) != 16 {
		t.Fatalf("%d records, %d results", len(sealed), len(results))
	}
	for _, log := range logs {
		for r := range m.Memory.Records(t.Context(), checkpoint.Query{Log: log, AllBranches: true}) {
			own := fmt.Sprintf("%v %s", log, r.ID)
			for from, other := range sealed {
				for what, swap := range map[string]checkpoint.Sealed{
					"both": *other, "meta": {Meta: other.Meta, Data: r.Sealed.Data}, "data": {Meta: r.Sealed.Meta, Data: other.Data},
				} {
					c := *r
					c.Sealed = &swap
					_, err := s.open(&c, true)
					if (err == nil) != (from == own) || err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
						t.Fatalf("%s of %s in place of %s: got %v", what, from, own, err)
					}
				}
			}
		}
		for _, epoch := range []checkpoint.ID{"e1", "e2"} {
			rs, _ := m.Memory.Results(t.Context(), log, "", epoch)
			for i, r := range rs {
				own := fmt.Sprintf("%v %s %s", log, epoch, []string{"a", "b"}[i])
				for from, other := range results {
					c := r
					c.Data = other.Data
					_, _, err := s.openResult(log, log, &c, nil)
					if (err == nil) != (from == own) || err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
						t.Fatalf("result %s in place of %s: got %v", from, own, err)
					}
				}
			}
		}
	}
	// Equal names in different places are stored as different ones.
	names := map[string]string{}
	for at, r := range results {
		if names[r.Name] != "" {
			t.Fatalf("%s and %s have the same name in the store", at, names[r.Name])
		}
		names[r.Name] = at
	}
}

// An earlier form of a record does not mix with a later one.
func TestPartsOfTwoWritingsAreRefused(t *testing.T) {
	s := mustWrap(t, checkpoint.NewMemory(), forms[1].Options)
	r := sample(log1, 1)[0]
	a, err := s.seal(r)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := s.seal(r)
	if bytes.Equal(a.Sealed.Meta, b.Sealed.Meta) || bytes.Equal(a.Sealed.Data, b.Sealed.Data) {
		t.Fatal("the same is sealed the same twice")
	}
	mixed := *a
	mixed.Sealed = &checkpoint.Sealed{Meta: a.Sealed.Meta, Data: b.Sealed.Data}
	if _, err := s.open(&mixed, true); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Fatalf("got error %v", err)
	}
}

func TestPlainTextIsRefused(t *testing.T) {
	for _, o := range []Options{{Encoding: CBOR, Compress: true}, {}} {
		inner := checkpoint.NewMemory()
		plain := mustWrap(t, inner, o)
		r := fill(t, plain, log1, 1)[0]
		naked := fill(t, inner, checkpoint.Log{Thread: "t-1", Namespace: "n"}, 1)[0]
		res := once(r.ID, "secret-name", `"`+strings.Repeat("secret ", 100)+`"`)
		logtest.Write(t, plain, &checkpoint.Write{Log: log1, Results: []checkpoint.Result{res}})
		s := mustWrap(t, inner, forms[0].Options)
		want := func(err error, place string) {
			t.Helper()
			refused(t, err, place)
			p, ok := errors.AsType[*PlainError](err)
			if !ok || !errors.Is(err, ErrPlain) || p.Thread != "t-1" {
				t.Fatalf("got error %v, want a PlainError", err)
			}
		}
		for _, rec := range []*checkpoint.Record{r, naked} {
			for _, err := range readers(t, s, rec) {
				want(err, string(rec.ID))
			}
			want(metaError(t, s, rec), string(rec.ID))
		}
		_, err := s.Results(t.Context(), log1, "", r.ID)
		want(err, "once")
		for info, err := range s.Threads(t.Context(), checkpoint.ThreadFilter{}) {
			want(err, string(r.ID))
			if info.Thread != "t-1" || info.Head != nil || info.Records != 1 {
				t.Fatalf("got %+v", info)
			}
		}
		_, err = s.Rewrap(t.Context(), "t-1")
		want(err, string(r.ID))
		n := 0
		for c, err := range s.Verify(t.Context(), "") {
			if n++; err != nil || !errors.Is(c, ErrPlain) {
				t.Fatalf("got %v, %v", c, err)
			}
		}
		if n != 3 {
			t.Fatalf("%d findings, want two records and a result", n)
		}
		lax := mustWrap(t, inner, Options{Keys: forms[0].Keys, AllowPlain: true})
		for _, rec := range []*checkpoint.Record{r, naked} {
			for _, err := range readers(t, lax, rec) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if rs, err := lax.Results(t.Context(), log1, "", r.ID); err != nil || string(rs[0].Data) != string(res.Data) || rs[0].Name != res.Name {
			t.Fatalf("got %v, %v", rs, err)
		}
	}
}

func TestKeysThatAreMissing(t *testing.T) {
	inner := checkpoint.NewMemory()
	s := mustWrap(t, inner, Options{Keys: testRing("k1")})
	r := fill(t, s, log1, 1)[0]
	logtest.Write(t, s, &checkpoint.Write{Log: log1, Results: []checkpoint.Result{once(r.ID, "secret-name", `1`)}})
	for _, o := range []Options{{Keys: testRing("k2")}, {}} {
		other := mustWrap(t, inner, o)
		_, err := other.Results(t.Context(), log1, "", r.ID)
		for _, err := range append([]error{err, metaError(t, other, r)}, readers(t, other, r)["Get"]) {
			refused(t, err, "")
			k, ok := errors.AsType[*KeyError](err)
			if !ok || !errors.Is(err, ErrKey) || errors.Is(err, checkpoint.ErrCorrupt) || k.Key != "k1" || k.Thread != "t-1" || k.Place == "" {
				t.Fatalf("got error %v", err)
			}
		}
	}
	// Another key of that ID.
	wrong, err := NewKey("k1", bytes.Repeat([]byte{9}, 32))
	if err != nil {
		t.Fatal(err)
	}
	other := mustWrap(t, inner, Options{Keys: &KeyRing{Current: wrong}})
	_, err = other.Results(t.Context(), log1, "", r.ID)
	for _, err := range []error{err, metaError(t, other, r), readers(t, other, r)["Head"]} {
		if !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatalf("got error %v", err)
		}
	}
	// Another key of the names.
	other = mustWrap(t, inner, Options{Keys: &KeyRing{Current: testKey("k1"), Names: wrong}})
	if _, err := other.Results(t.Context(), log1, "", r.ID); !errors.Is(err, ErrKey) {
		t.Fatalf("got error %v", err)
	}
}

func TestNothingSecretOnDisk(t *testing.T) {
	for name, open := range map[string]func(*testing.T, string) checkpoint.Store{"sqlite": openSQLite, "file": openFile} {
		t.Run(name, func(t *testing.T) {
			for _, o := range append(encryptedForms(), Options{}) {
				path := filepath.Join(t.TempDir(), "threads")
				s := mustWrap(t, open(t, path), o)
				last := fill(t, s, log1, 20)[19]
				q := sample(log1, 21)[20]
				q.Parent, q.Open = last.ID, []checkpoint.OpenTask{{Questions: []checkpoint.Question{{ID: "secret-id", Key: "secret-key", Value: []byte(`"secret-question"`)}}}}
				q.Snapshot = &checkpoint.Snapshot{Values: []byte(`{"secret-field":1}`)}
				logtest.Write(t, s, &checkpoint.Write{Log: log1, Record: q, Head: last.ID, Results: []checkpoint.Result{once(q.ID, "secret-name", `"secret-result"`)}})
				logtest.Write(t, s, &checkpoint.Write{Log: log1, Drop: &checkpoint.Drop{Epoch: q.ID}, Results: []checkpoint.Result{once(q.ID, "secret-name-2", `"secret-result"`)}})
				if _, _, err := s.Head(t.Context(), log1); err != nil {
					t.Fatal(err)
				}
				live := diskBytes(t, path)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				all := append(live, diskBytes(t, path)...)
				if len(all) < 2000 {
					t.Fatalf("%d bytes on disk", len(all))
				}
				found := bytes.Contains(all, []byte("secret")) || bytes.Contains(all, []byte("confidential"))
				// Base64 has three forms of a text, by where it begins.
				for i := range 3 {
					b := base64Form.EncodeToString([]byte("xx"[:i] + "secret-"))
					found = found || bytes.Contains(all, []byte(b[2:len(b)-3]))
				}
				if o.Keys == nil {
					if !found {
						t.Fatal("the search does not find what is there in clear")
					}
					continue
				}
				secret := o.Keys.Current.k.secret()
				if found || bytes.Contains(all, secret[:16]) {
					t.Fatal("the plain text or the key is on disk")
				}
			}
		})
	}
}

func TestBombs(t *testing.T) {
	e, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true))
	if err != nil {
		t.Fatal(err)
	}
	bomb := e.EncodeAll(make([]byte, 64<<20), nil)
	stream, _ := zstd.NewWriter(nil)
	var unsized bytes.Buffer
	stream.Reset(&unsized)
	_, _ = stream.Write(make([]byte, 1<<20))
	_ = stream.Close()
	lie := bytes.Clone(e.EncodeAll(bytes.Repeat([]byte("abcdefgh"), 1000), nil))
	lie[5], lie[6] = 10, 0 // the size
	s := mustWrap(t, checkpoint.NewMemory(), Options{MaxSize: 1 << 20})
	for what, b := range map[string][]byte{
		"too large": bomb, "no size": unsized.Bytes(), "two frames": append(e.EncodeAll([]byte("1"), nil), bomb...), "no frame": []byte("xxxxxxxxxx"), "nothing": {},
		"a false size": lie, "a skippable frame": {0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, "a size out of nothing": {0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0xf, 0, 1, 0, 0},
	} {
		if out, err := zip.Expand(b, s.maxSize); err == nil {
			t.Errorf("%s: got %d bytes and no error", what, len(out))
		}
	}
	if _, err := zip.Expand(bomb, s.maxSize); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got error %v, want ErrTooLarge", err)
	}
	rec := sample(log1, 1)[0]
	rec = clear(rec)
	rec.Sealed = &checkpoint.Sealed{Meta: append([]byte{version | flagZstd}, bomb...)}
	_, err = s.open(rec, true)
	refused(t, err, string(rec.ID))
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("got error %v, want ErrTooLarge", err)
	}
	// What is larger than what may be read is not compressed.
	small := mustWrap(t, checkpoint.NewMemory(), Options{MaxSize: 1000, Compress: true, Encoding: CBOR})
	big := sample(log1, 1)[0]
	big.Changes[0].Data = []byte(`"` + strings.Repeat("x", 5000) + `"`)
	logtest.Write(t, small, &checkpoint.Write{Log: log1, Record: big})
	if got, _, err := small.Head(t.Context(), log1); err != nil || len(got.Changes[0].Data) != 5002 {
		t.Errorf("got %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	keys := testRing("k1")
	seed := func(o Options) {
		s, _ := Wrap(checkpoint.NewMemory(), o)
		r, _ := s.seal(fixed())
		res, _ := s.sealResult(log1, &checkpoint.Result{Epoch: "e", Kind: "once", Name: "n", Data: []byte(`"` + strings.Repeat("x", 100) + `"`)})
		f.Add(r.Sealed.Meta, r.Sealed.Data, []byte(res.Data))
	}
	for _, form := range forms {
		seed(form.Options)
	}
	seed(Options{Keys: keys, Compress: true})
	f.Fuzz(func(t *testing.T, meta, data, result []byte) {
		for _, o := range []Options{{Keys: keys, MaxSize: 1 << 20}, {MaxSize: 1 << 20}, {Keys: keys, AllowPlain: true, MaxSize: 1 << 20}} {
			s := mustWrap(t, checkpoint.NewMemory(), o)
			r := clear(fixed())
			r.Sealed = &checkpoint.Sealed{Meta: meta, Data: data}
			for _, all := range []bool{true, false} {
				if got, err := s.open(r, all); err == nil && o.Keys != nil && !o.AllowPlain {
					if want := fixed(); got.Graph != want.Graph || got.Metadata["secret-key"] != "secret-metadata" {
						t.Fatal("forged")
					}
				}
			}
			_, _, _ = s.openResult(log1, log1, &checkpoint.Result{Epoch: "e", Kind: "once", Data: result}, nil)
		}
	})
}

// fixed is a record that is the same each time.
func fixed() *checkpoint.Record {
	r := sample(log1, 1)[0]
	r.ID, r.Epoch = "0198c0de-0000-7000-8000-000000000001", "0198c0de-0000-7000-8000-000000000001"
	return r
}
