package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/graph"
)

// The program as it was when the threads under testdata/evolution/1 were
// written. They are kept for ever; -record writes those of a new version beside
// them.
var record = flag.Bool("record", false, "write the threads under testdata/evolution that are missing")

type articleV1 struct {
	Title string
	Count string // of words, as text
	Notes graph.List[string]
	Gone  int
	Tags  graph.Map[string, int]
}

func articlesV1(t testing.TB, store checkpoint.Store) *graph.Graph[articleV1] {
	t.Helper()
	b := graph.New[articleV1]("article")
	b.AddNode("draft", func(_ context.Context, s *articleV1) error {
		s.Count, s.Gone = "120", 7
		s.Notes.Add("drafted")
		s.Tags.Put("draft", 1)
		return nil
	})
	b.AddNode("approve", func(ctx context.Context, s *articleV1) error {
		ok, err := graph.Interrupt[bool](ctx, "approve", s.Title)
		if err == nil {
			s.Notes.Add("approved: " + strconv.FormatBool(ok))
		}
		return err
	})
	b.AddNode("check", func(_ context.Context, s *articleV1) error { s.Notes.Add("checked"); return nil })
	b.AddNode("publish", func(_ context.Context, s *articleV1) error { s.Notes.Add("published"); return nil })
	b.AddEdge(graph.Start, "draft").AddEdge("draft", "approve").AddEdge("draft", "check")
	b.AddJoin([]string{"approve", "check"}, "publish")
	return compile(t, b, graph.WithCheckpointer(store), graph.SchemaVersion(1))
}

// note is what a note became in version 3.
type note struct {
	Text   string `json:"text"`
	Author string `json:"author"`
}

type articleV3 struct {
	Subject string
	Count   int
	Notes   graph.List[note]
	Tags    graph.Map[string, int]
	New     bool
}

func articlesV3(t testing.TB, store checkpoint.Store, opts ...graph.Option) *graph.Graph[articleV3] {
	t.Helper()
	b := graph.New[articleV3]("article")
	b.AddNode("write", func(_ context.Context, s *articleV3) error { s.Notes.Add(note{"written", "v3"}); return nil }, graph.Formerly("draft"))
	b.AddNode("review", func(ctx context.Context, s *articleV3) error {
		ok, err := graph.Interrupt[bool](ctx, "approve", s.Subject)
		if err == nil {
			s.Notes.Add(note{"reviewed: " + strconv.FormatBool(ok), "v3"})
		}
		return err
	}, graph.Formerly("approve"))
	b.AddNode("verify", func(_ context.Context, s *articleV3) error { s.Notes.Add(note{"verified", "v3"}); return nil }, graph.Formerly("check"))
	b.AddNode("publish", func(_ context.Context, s *articleV3) error { s.New = true; return nil })
	b.AddEdge(graph.Start, "write").AddEdge("write", "review").AddEdge("write", "verify")
	b.AddJoin([]string{"review", "verify"}, "publish")
	return compile(t, b, append([]graph.Option{graph.WithCheckpointer(store)}, opts...)...)
}

// countToInt is the migration to version 2, notesToObjects the one to version 3.
func countToInt(fields map[string]json.RawMessage) error {
	raw, ok := fields["Count"]
	if !ok {
		return nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	fields["Count"] = []byte(strconv.Itoa(n))
	return nil
}

func notesToObjects(fields map[string]json.RawMessage) error {
	raw, ok := fields["Notes"]
	if !ok {
		return nil
	}
	var texts []string
	if err := json.Unmarshal(raw, &texts); err != nil {
		return err
	}
	notes := make([]note, len(texts))
	for i, text := range texts {
		notes[i] = note{text, "v1"}
	}
	var err error
	fields["Notes"], err = json.Marshal(notes)
	return err
}

func evolved(t testing.TB, store checkpoint.Store, opts ...graph.Option) *graph.Graph[articleV3] {
	return articlesV3(t, store, append(opts, graph.FieldAlias("Title", "Subject"), graph.Migrate(3, notesToObjects), graph.Migrate(2, countToInt))...)
}

// recorded opens a copy of the threads that a version wrote.
func recorded(t testing.TB, version string) checkpoint.Store {
	t.Helper()
	from := filepath.Join("testdata", "evolution", version)
	if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) && *record {
		writeRecorded(t, from)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	store, err := file.Open(dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// writeRecorded writes three threads: one that waits for its approval with the
// join partly filled, one that has ended, and one with enough history to have
// snapshots.
func writeRecorded(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	store, err := file.Open(dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	g := articlesV1(t, store)
	turn := func(thread, title string, answer bool) {
		t.Helper()
		must[*graph.Snapshot[articleV1]](t)(g.Thread(thread).Invoke(bg, g.Input(func(s *articleV1) error {
			s.Title = title
			return nil
		})))
		if answer {
			must[*graph.Snapshot[articleV1]](t)(g.Thread(thread).Invoke(bg, g.Answer(true)))
		}
	}
	turn("waiting", "cats", false)
	turn("ended", "dogs", true)
	for range 12 {
		turn("long", strings.Repeat("birds ", 100), true)
	}
	turn("long", "fish", false)
}

func TestThreadsOfOlderProgramsGoOn(t *testing.T) { // W10, Q-07, Q-08
	store := recorded(t, "1")
	g := evolved(t, store)
	notesOf := func(s *articleV3) (out []string) {
		for _, n := range s.Notes.All() {
			out = append(out, n.Text+"/"+n.Author)
		}
		return out
	}
	ended := must[*graph.Snapshot[articleV3]](t)(g.Thread("ended").State(bg))
	if s := &ended.State; s.Subject != "dogs" || s.Count != 120 || strings.Join(notesOf(s), " ") != "drafted/v1 approved: true/v1 checked/v1 published/v1" || s.Tags.Len() != 1 {
		t.Fatalf("got %+v, %v", s, notesOf(s))
	}
	waiting := must[*graph.Snapshot[articleV3]](t)(g.Thread("waiting").State(bg))
	if len(waiting.Interrupts) != 1 || !slices.Equal(waiting.Next, []string{"review"}) {
		t.Fatalf("got %+v, next %v", waiting.Interrupts, waiting.Next)
	}
	done := must[*graph.Snapshot[articleV3]](t)(g.Thread("waiting").Invoke(bg, g.Answer(true)))
	if got := strings.Join(notesOf(&done.State), " "); !done.Done() || got != "drafted/v1 reviewed: true/v3 checked/v1" || !done.State.New {
		t.Fatalf("got %s, %+v", got, done.State)
	}
	again := must[*graph.Snapshot[articleV3]](t)(g.Thread("waiting").State(bg))
	if asJSON(t, again.State) != asJSON(t, done.State) {
		t.Fatalf("read again it is %s, was %s", asJSON(t, again.State), asJSON(t, done.State))
	}
	// A thread with snapshots of both versions, read at each of its checkpoints.
	for range 12 {
		must[*graph.Snapshot[articleV3]](t)(g.Thread("long").Invoke(bg, g.Answer(false)))
		must[*graph.Snapshot[articleV3]](t)(g.Thread("long").Invoke(bg, g.Input(func(s *articleV3) error {
			s.Subject = strings.Repeat("more ", 200)
			return nil
		})))
	}
	newest := must[*graph.Snapshot[articleV3]](t)(g.Thread("long").State(bg))
	if n := newest.State.Notes.Len(); n != 12*4+1+1+12*2+11*1+1 {
		t.Errorf("%d notes: %v", n, notesOf(&newest.State))
	}
	seen := 0
	for e, err := range g.Thread("long").History(bg, graph.HistoryQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.State(bg); err != nil {
			t.Fatalf("state at %s: %v", e.Checkpoint, err)
		}
		seen++
	}
	if seen < 60 {
		t.Errorf("%d checkpoints", seen)
	}
	if _, err := g.Thread("long").Prune(bg, graph.Keep{}); err != nil {
		t.Fatal(err)
	}
	// After pruning nothing old is left to migrate.
	plain := articlesV3(t, store, graph.SchemaVersion(3))
	pruned := must[*graph.Snapshot[articleV3]](t)(plain.Thread("long").State(bg))
	if len(pruned.State.Notes.Slice()) != newest.State.Notes.Len() || pruned.State.Subject != newest.State.Subject {
		t.Fatalf("after pruning it is %+v", pruned.State)
	}
}

func TestWhatAProgramCannotReadIsAnError(t *testing.T) { // W10, Q-07
	store := recorded(t, "1")
	boom := errors.New("boom")
	for what, c := range map[string]struct {
		g    *graph.Graph[articleV3]
		want func(error) bool
	}{
		"no migration": {articlesV3(t, store, graph.SchemaVersion(3)), func(err error) bool {
			return strings.Contains(err.Error(), `"Count"`) && strings.Contains(err.Error(), "waiting")
		}},
		"a migration that fails": {evolved(t, store, graph.Migrate(1, nil2Fields), graph.Migrate(4, func(map[string]json.RawMessage) error { return boom })), func(err error) bool {
			var m *graph.VersionError
			return errors.Is(err, boom) && errors.As(err, &m) && m.Program == 4 && m.Recorded == 1
		}},
		"a migration that panics": {evolved(t, store, graph.Migrate(4, func(map[string]json.RawMessage) error { panic(boom) })), func(err error) bool {
			return errors.Is(err, boom)
		}},
		"a newer thread": {articlesV3(t, store, graph.SchemaVersion(0)), func(err error) bool {
			var v *graph.VersionError
			return errors.As(err, &v) && v.Err == nil && v.Recorded == 1 && v.Program == 0
		}},
	} {
		_, err := c.g.Thread("waiting").Invoke(bg, c.g.Answer(true))
		var ce *graph.CheckpointError
		if err == nil || !errors.As(err, &ce) || !c.want(err) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	// The thread is as it was.
	if _, err := evolved(t, store).Thread("waiting").Invoke(bg, graph.Requests[articleV3]{}.Answer(true)); err != nil {
		t.Fatal(err)
	}
}

func nil2Fields(map[string]json.RawMessage) error { return nil }

func TestThreadThatWaitsAtARemovedNode(t *testing.T) { // W10, Q-07
	store := recorded(t, "1")
	b := graph.New[articleV1]("article")
	b.AddNode("draft", func(context.Context, *articleV1) error { return nil })
	b.AddNode("approved", func(context.Context, *articleV1) error { return nil })
	b.AddEdge(graph.Start, "draft").AddEdge("draft", "approved")
	g := compile(t, b, graph.WithCheckpointer(store), graph.SchemaVersion(1))
	_, err := g.Thread("waiting").Invoke(bg, g.Answer(true))
	var unknown *graph.UnknownNodeError
	if !errors.As(err, &unknown) || unknown.Node != "approve" || unknown.Thread != "waiting" || unknown.Near != "approved" {
		t.Fatalf("got %v", err)
	}
	if _, err := g.Thread("ended").State(bg); err != nil {
		t.Errorf("a thread that doesn't wait there: %v", err)
	}
}

func TestEvolutionMisuse(t *testing.T) {
	store := checkpoint.NewMemory()
	try := func(opts ...graph.Option) error {
		b := graph.New[articleV3]("article")
		b.AddNode("a", func(context.Context, *articleV3) error { return nil }, graph.Formerly("old"))
		b.AddNode("b", func(context.Context, *articleV3) error { return nil })
		b.AddEdge(graph.Start, "a").AddEdge("a", "b")
		_, err := b.Compile(append(opts, graph.WithCheckpointer(store))...)
		return err
	}
	if err := try(graph.FieldAlias("Title", "Subject"), graph.Migrate(2, nil2Fields), graph.SchemaVersion(5)); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		`did you mean "Subject"`:               try(graph.FieldAlias("Title", "Subjekt")),
		`the state has a field "Count"`:        try(graph.FieldAlias("Count", "Subject")),
		`former name of both`:                  try(graph.FieldAlias("X", "Subject"), graph.FieldAlias("X", "Count")),
		`the function is nil`:                  try(graph.Migrate(2, nil)),
		`two migrations to version 2`:          try(graph.Migrate(2, nil2Fields), graph.Migrate(2, nil2Fields)),
		`a migration to version 0`:             try(graph.Migrate(0, nil2Fields)),
		`but the state has version 2`:          try(graph.Migrate(3, nil2Fields), graph.SchemaVersion(2)),
		`versions are not negative`:            try(graph.SchemaVersion(-1)),
		`there is a node of that name`:         formerlyError("b"),
		`both "a" and "b" were formerly "old"`: formerlyError("old"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func formerlyError(name string) error {
	b := graph.New[turns]("g")
	b.AddNode("a", func(context.Context, *turns) error { return nil }, graph.Formerly(name))
	if name == "old" {
		b.AddNode("b", func(context.Context, *turns) error { return nil }, graph.Formerly(name))
	} else {
		b.AddNode("b", func(context.Context, *turns) error { return nil })
	}
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	_, err := b.Compile()
	return err
}

func TestRenamedSubgraphNodeGoesOnWhereItWas(t *testing.T) { // W10, Q-07
	store := checkpoint.NewMemory()
	asked := 0
	inner := func() *graph.Graph[turns] {
		b := graph.New[turns]("inner")
		b.AddNode("first", func(_ context.Context, s *turns) error { asked++; s.Said.Add("first"); return nil })
		b.AddNode("ask", func(ctx context.Context, s *turns) error {
			a, err := graph.Interrupt[string](ctx, "q", nil)
			s.Said.Add(a)
			return err
		})
		b.AddEdge(graph.Start, "first").AddEdge("first", "ask")
		return compile(t, b, graph.WithCheckpointer(store))
	}
	outer := func(name string, opts ...graph.NodeOption) *graph.Graph[turns] {
		b := graph.New[turns]("outer")
		graph.AddShared(b, name, inner(), func(s *turns) *turns { return s }, opts...)
		b.AddEdge(graph.Start, name)
		return compile(t, b, graph.WithCheckpointer(store))
	}
	must[*graph.Snapshot[turns]](t)(outer("old").Thread("t").Invoke(bg, graph.Requests[turns]{}.Input(nil2)))
	snap := must[*graph.Snapshot[turns]](t)(outer("new", graph.Formerly("old")).Thread("t").Invoke(bg, graph.Requests[turns]{}.Answer("answer")))
	if asked != 1 || said(&snap.State) != "first answer" || !snap.Done() {
		t.Fatalf("ran the first node %d times, got %q", asked, said(&snap.State))
	}
}
