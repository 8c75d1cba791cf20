package s3_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/s3"
	"github.com/superstep-dev/superstep/internal/race"
)

// costs counts requests, and the bytes of those that put.
type costs struct {
	mu       sync.Mutex
	requests map[string]int
	put      int64
}

func (c *costs) tap(next http.Handler, w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	if r.Method == http.MethodPut {
		c.put += r.ContentLength
	}
	c.requests[r.Method]++
	c.mu.Unlock()
	next.ServeHTTP(w, r)
}

func (c *costs) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests, c.put = map[string]int{}, 0
}

func TestWhatAnAppendCostsDoesNotGrowWithTheHistory(t *testing.T) {
	records := 5000
	if race.Enabled || testing.Short() {
		records = 1500
	}
	srv := serve(t, s3mem.New())
	s := open(t, srv.url("x"))
	defer s.Close()
	c := &costs{requests: map[string]int{}}
	srv.through(c.tap)
	log, run, head := checkpoint.Log{Thread: "t"}, checkpoint.NewRunID(), checkpoint.ID("")
	const some = 500
	var early int64
	for seq := range int64(records) {
		if seq%some == 0 {
			c.reset()
		}
		r := logtest.Step(log, run, head, seq+1, logtest.Message)
		logtest.Write(t, s, &checkpoint.Write{Log: log, Head: head, Record: r})
		if head = r.ID; (seq+1)%some != 0 {
			continue
		}
		c.mu.Lock()
		t.Logf("records %d to %d: %v, %d bytes put for each", seq+2-some, seq+1, c.requests, c.put/some)
		if puts := c.requests[http.MethodPut]; puts > some+some/10 {
			t.Errorf("%d objects were put for %d records", puts, some)
		}
		if gets := c.requests[http.MethodGet]; gets > some/50 {
			t.Errorf("%d objects were read for %d records", gets, some)
		}
		switch {
		case seq < some:
			early = c.put
		case c.put > early+early/4:
			t.Errorf("%d bytes were put for %d records, of the first ones %d", c.put, some, early)
		}
		c.mu.Unlock()
	}
	if n := logtest.Count(t, s, log); n != records {
		t.Fatalf("%d records, want %d", n, records)
	}
	sound(t, s)
}

func TestAThreadOfManyPagesIsWhatMemorySays(t *testing.T) {
	srv := serve(t, s3mem.New())
	s := open(t, srv.url("x"), s3.Options{CacheBytes: 1 << 20})
	defer s.Close()
	m := checkpoint.NewMemory()
	rnd := rand.New(rand.NewPCG(5, 6))
	log, run := checkpoint.Log{Thread: "t"}, checkpoint.NewRunID()
	var head checkpoint.ID
	var ids []checkpoint.ID
	both := func(f func(s interface {
		checkpoint.Store
		checkpoint.Rewriter
	}) error) {
		t.Helper()
		if err := errors.Join(f(s), f(m)); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(strings.Repeat("x", 40_000))
	if err != nil {
		t.Fatal(err)
	}
	compare := func() {
		t.Helper()
		for _, desc := range []bool{false, true} {
			var got, want []checkpoint.ID
			for r, err := range s.Records(t.Context(), checkpoint.Query{Log: log, Desc: desc, Meta: true}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, r.ID)
			}
			for r, err := range m.Records(t.Context(), checkpoint.Query{Log: log, Desc: desc}) {
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, r.ID)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
		sound(t, s)
	}
	for seq := range int64(420) {
		r := logtest.Step(log, run, head, seq+1, logtest.Message)
		r.Changes[0].Data = data
		res := checkpoint.Result{Epoch: r.ID, Kind: checkpoint.KindOnce, Data: data[:rnd.IntN(2)*len(data)]}
		if len(res.Data) == 0 {
			res.Data = []byte("1")
		}
		w := &checkpoint.Write{Log: log, Head: head, Record: r, Results: []checkpoint.Result{res}}
		if head != "" && rnd.IntN(4) > 0 {
			w.Drop = &checkpoint.Drop{Epoch: head}
		}
		both(func(s interface {
			checkpoint.Store
			checkpoint.Rewriter
		}) error {
			_, err := s.Write(t.Context(), w)
			return err
		})
		head = r.ID
		ids = append(ids, head)
	}
	if n := len(srv.objects(t, "x/p/")); n < 400 {
		t.Fatalf("%d pages", n)
	}
	compare()
	for _, share := range []int{10, 2, 1} {
		rw := &checkpoint.Rewrite{Log: log, Head: head}
		left := ids[:0:0]
		for i, id := range ids {
			if i+1 < len(ids) && rnd.IntN(share) == 0 {
				rw.Remove = append(rw.Remove, id)
			} else {
				left = append(left, id)
			}
		}
		ids = left
		both(func(s interface {
			checkpoint.Store
			checkpoint.Rewriter
		}) error {
			return s.Rewrite(t.Context(), rw)
		})
		compare()
	}
	if err := s.Delete(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // what is removed behind is removed then
		t.Fatal(err)
	}
	if left := srv.objects(t, ""); len(left) != 0 {
		t.Fatalf("objects left: %v", left)
	}
}

// change changes an object behind the store's back: nil removes it.
func (s *server) change(t testing.TB, key string, f func(b []byte) []byte) {
	t.Helper()
	o, err := s.backend.GetObject(bucket, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(o.Contents)
	if err != nil {
		t.Fatal(err)
	}
	if b = f(bytes.Clone(b)); b != nil {
		s.put(t, key, b)
	} else if _, err = s.backend.DeleteObject(bucket, key); err != nil {
		t.Fatal(err)
	}
}

func TestDamageOfEveryObjectIsTold(t *testing.T) {
	fresh := func() (*server, *s3.Store) {
		srv := serve(t, s3mem.New())
		s := open(t, srv.url("x"))
		log := checkpoint.Log{Thread: "t"}
		logtest.Begin(t, s, log, 300)
		logtest.Write(t, s, &checkpoint.Write{Log: log, Claim: true, Holder: "me", Lease: time.Hour, Wake: true})
		logtest.Begin(t, s, checkpoint.Log{Thread: "u"}, 300)
		sound(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return srv, open(t, srv.url("x"))
	}
	srv, s := fresh()
	s.Close()
	kinds := map[string]int{}
	for i, key := range slices.Sorted(maps.Keys(srv.objects(t, ""))) {
		if !strings.Contains(key, "/t") {
			continue
		}
		kind := strings.Join(strings.SplitN(strings.TrimPrefix(key, "x/"), "/", 3)[:1], "")
		if strings.HasPrefix(key, "x/i/") {
			kind = key[:5]
		}
		if kinds[kind]++; kinds[kind] > 1 && kind != "p" || kinds[kind] > 3 {
			continue
		}
		changes := map[string]func(b []byte) []byte{"removed": func([]byte) []byte { return nil }}
		if !strings.HasPrefix(key, "x/i/") {
			changes["cut off"] = func(b []byte) []byte { return b[:len(b)-1] }
			changes["empty"] = func([]byte) []byte { return []byte{0} }
			changes["changed"] = func(b []byte) []byte {
				b[(i+1)*37%len(b)] ^= 1
				return b
			}
			changes["another's"] = func([]byte) []byte {
				for other := range srv.objects(t, "x/"+kind+"/u") {
					o, err := srv.backend.GetObject(bucket, other, nil)
					if err != nil {
						t.Fatal(err)
					}
					b, err := io.ReadAll(o.Contents)
					if err != nil {
						t.Fatal(err)
					}
					return b
				}
				return nil
			}
		}
		if strings.HasPrefix(key, "x/h/") {
			delete(changes, "removed") // then there is no thread
		}
		for what, f := range changes {
			t.Run(kind+" "+what, func(t *testing.T) {
				s := open(t, srv.url("x"))
				defer s.Close()
				var was []byte
				srv.change(t, key, func(b []byte) []byte {
					was = bytes.Clone(b)
					return f(b)
				})
				defer func() { srv.put(t, key, was) }()
				found := 0
				for c, err := range s.Verify(t.Context(), "") {
					if err != nil {
						t.Fatal(err)
					}
					if c.Thread != "t" || c.Place == "" {
						t.Fatalf("found %+v", c)
					}
					found++
				}
				if found == 0 {
					t.Fatal("nothing was found")
				}
				if strings.HasPrefix(key, "x/i/") {
					return
				}
				var err error
				for _, err = range s.Records(t.Context(), checkpoint.Query{Log: checkpoint.Log{Thread: "t"}}) {
				}
				if !errors.Is(err, checkpoint.ErrCorrupt) && kind == "h" {
					t.Fatalf("reading: %v", err)
				}
				if n := logtest.Count(t, s, checkpoint.Log{Thread: "u"}); n != 300 {
					t.Fatalf("%d records of another thread", n)
				}
			})
		}
	}
	if len(kinds) != 5 {
		t.Fatalf("tried %v", kinds)
	}
	srv.change(t, "x/h/t", func(b []byte) []byte { return b[1:] })
	s = open(t, srv.url("x"))
	defer s.Close()
	if err := s.Delete(t.Context(), "t"); err != nil {
		t.Fatalf("a damaged thread can't be deleted: %v", err)
	}
	sound(t, s)
	logtest.Begin(t, s, checkpoint.Log{Thread: "t"}, 3)
}

func (s *server) put(t testing.TB, key string, b []byte) {
	t.Helper()
	meta := map[string]string{"Last-Modified": time.Now().UTC().Format(http.TimeFormat)}
	if _, err := s.backend.PutObject(bucket, key, meta, bytes.NewReader(b), int64(len(b)), nil); err != nil {
		t.Fatal(err)
	}
}

func TestNamespacesMayBeLong(t *testing.T) {
	srv := serve(t, s3mem.New())
	s := open(t, srv.url("x"))
	defer s.Close()
	for i, n := range []int{3_000, 20_000, 70_000} {
		for j := range 4 {
			log := checkpoint.Log{Thread: "t", Namespace: strings.Repeat(string(rune('a'+i)), n) + string(rune('a'+j))}
			logtest.Begin(t, s, log, 3)
			if n := logtest.Count(t, s, log); n != 3 {
				t.Fatalf("%d records", n)
			}
		}
	}
	sound(t, s)
}

func TestPrefixesAreApart(t *testing.T) {
	srv := serve(t, s3mem.New())
	a, b := open(t, srv.url("a")), open(t, srv.url("b"), s3.Options{Prefix: "a"})
	defer a.Close()
	defer b.Close()
	log := checkpoint.Log{Thread: "t"}
	logtest.Begin(t, a, log, 3)
	if n := logtest.Count(t, b, log); n != 0 {
		t.Fatalf("%d records under another prefix", n)
	}
	for info, err := range b.Threads(t.Context(), checkpoint.ThreadFilter{}) {
		t.Fatalf("got %v, %v under another prefix", info, err)
	}
}

func TestDeletedThreadsLeaveNoObjects(t *testing.T) {
	srv := serve(t, s3mem.New())
	s := open(t, srv.url("x"))
	for _, ns := range []string{"", "n", "a:b"} {
		log := checkpoint.Log{Thread: "t/%", Namespace: ns}
		head := logtest.Begin(t, s, log, 70)
		r := checkpoint.Result{Epoch: head, Kind: checkpoint.KindOnce, Data: []byte(`1`)}
		logtest.Write(t, s, &checkpoint.Write{Log: log, Claim: true, Holder: "me", Lease: time.Hour, Results: []checkpoint.Result{r}, Wake: true})
	}
	if err := s.Copy(t.Context(), "t/%", "u"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []checkpoint.ThreadID{"t/%", "u"} {
		if err := s.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left := srv.objects(t, ""); len(left) != 0 {
		t.Fatalf("objects left: %v", left)
	}
}

func TestEntriesOfCommitsThatCameToNothingAreRemovedByLists(t *testing.T) {
	srv := serve(t, s3mem.New())
	s := open(t, srv.url("x"))
	defer s.Close()
	log := checkpoint.Log{Thread: "t"}
	logtest.Begin(t, s, log, 1)
	var entry string
	for key := range srv.objects(t, "x/i/m/") {
		entry = key
	}
	i := strings.LastIndex(entry, "/") + 1
	old := entry[:i] + "8000000000000001" + "GARBAGE1"
	ahead := entry[:i] + "ffffffffffffffff" + "GARBAGE2"
	srv.put(t, old, []byte("t"))
	srv.put(t, ahead, []byte("t"))
	n := 0
	for _, err := range s.Threads(t.Context(), checkpoint.ThreadFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	left := srv.objects(t, "x/i/m/")
	if _, ok := left[old]; n != 1 || ok || len(left) != 2 {
		t.Fatalf("%d threads, entries %v: the one that may be of a commit under way stays", n, left)
	}
}

func TestNamesThatAreLongerThanKeysAreInOrder(t *testing.T) {
	srv := serve(t, s3mem.New())
	s := open(t, srv.url("x"))
	defer s.Close()
	var want []checkpoint.ThreadID
	long := strings.Repeat("x", 250)
	for _, id := range []string{"a", long, long + "b", long + "c", long + "a", strings.Repeat("x", 180), strings.Repeat("x", 181), strings.Repeat("x", 179), "y"} {
		want = append(want, checkpoint.ThreadID(id))
		logtest.Begin(t, s, checkpoint.Log{Thread: checkpoint.ThreadID(id)}, 1)
	}
	slices.Sort(want)
	for most := 1; most < 12; most++ {
		var got []checkpoint.ThreadID
		for last := checkpoint.ThreadID(""); ; last = got[len(got)-1] {
			names, err := s.Beside().Names(t.Context(), last, most)
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, names...); len(names) == 0 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("by %d: got %d names, want %d:\n%v\n%v", most, len(got), len(want), got, want)
		}
	}
	n := 0
	for _, err := range s.Threads(t.Context(), checkpoint.ThreadFilter{Prefix: long}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 4 {
		t.Fatalf("%d threads with a long prefix, want 4", n)
	}
}
