package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

func opened(t testing.TB, path string) *DB {
	t.Helper()
	d, err := OpenSQLite(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// stores calls f with an empty database of each kind.
func stores(t *testing.T, f func(*testing.T, *DB)) {
	t.Run("memory", func(t *testing.T) { f(t, opened(t, "")) })
	t.Run("sqlite", func(t *testing.T) { f(t, opened(t, t.TempDir()+"/db")) })
	t.Run("postgres", func(t *testing.T) {
		d, err := OpenPostgres(t.Context(), servertest.Postgres(t), fmt.Sprintf("t%d_%x", os.Getpid(), crc32.ChecksumIEEE([]byte(t.Name()))))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		f(t, d)
	})
}

func thread(id, owner string) *Thread {
	at := time.Now()
	return &Thread{ID: id, CreatedAt: at, UpdatedAt: at, Status: Idle, Metadata: json.RawMessage(fmt.Sprintf(`{"owner":%q}`, owner)), Config: json.RawMessage(`{}`)}
}

func all(string) int { return 1000 }

var unlimited = RunLimit{All: -1, OfOwner: -1}

// An instance whose clock is behind doesn't jump the queue.
func TestRunsTakeTurnsInTheOrderInWhichTheyWereAdded(t *testing.T) {
	stores(t, runsTakeTurnsInTheOrderInWhichTheyWereAdded)
}

func runsTakeTurnsInTheOrderInWhichTheyWereAdded(t *testing.T, d *DB) {
	if err := d.AddThread(t.Context(), thread("t", "")); err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	for i, skew := range []time.Duration{0, -time.Hour, time.Hour, -time.Hour} {
		r := &Run{ID: fmt.Sprint("r", i), ThreadID: "t", CreatedAt: at.Add(skew), UpdatedAt: at, StartsAt: at, Status: Pending, Holder: "i"}
		if err := d.AddRun(t.Context(), NewRun{Run: r, Limit: unlimited}); err != nil {
			t.Fatal(err)
		}
	}
	turns, err := d.Turns(t.Context(), "t", 10)
	if err != nil {
		t.Fatal(err)
	}
	for i, turn := range turns {
		if turn.ID != fmt.Sprint("r", i) {
			t.Errorf("turn %d is that of %s", i, turn.ID)
		}
	}
	begin := func(id string) error {
		_, _, err := d.BeginRun(t.Context(), id, "t", "i", func(r *Run, stop int) {
			if id == "r0" && stop != 2 {
				t.Errorf("%s was asked to stop with %d", id, stop)
			}
		})
		return err
	}
	if err := d.Stop(t.Context(), "r0", 2); err != nil {
		t.Fatal(err)
	}
	if err := begin("r0"); err != nil {
		t.Error(err)
	}
	if err := begin("r1"); !errors.Is(err, ErrBusy) {
		t.Errorf("a second run begins: %v", err)
	}
	end := End{Settle: func(th *Thread) { th.Status = Idle }, Webhook: &Webhook{ID: "r0", URL: "http://a.example", Data: []byte("{}")}}
	finish := func(holder string) error {
		_, _, err := d.FinishRun(t.Context(), "r0", "t", holder, end, func(r *Run) { r.Status = Success })
		return err
	}
	if err := finish("another"); !errors.Is(err, ErrTaken) {
		t.Errorf("another instance ends it: %v", err)
	}
	if due, err := d.DueWebhooks(t.Context(), time.Minute, 10, all); err != nil || len(due) != 0 {
		t.Errorf("what it would have owed is there: %v, %v", due, err)
	}
	if err := finish("i"); err != nil {
		t.Error(err)
	}
	if err := finish("i"); !errors.Is(err, ErrEnded) {
		t.Errorf("it ends again: %v", err)
	}
	for i, want := range []int{1, 0} { // then somebody makes it
		if due, err := d.DueWebhooks(t.Context(), time.Minute, 10, all); err != nil || len(due) != want {
			t.Errorf("look %d: %d calls are due, want %d: %v", i, len(due), want, err)
		}
	}
	if th, err := d.Thread(t.Context(), "t"); err != nil || th.Status != Busy {
		t.Errorf("with runs that wait the thread is %v: %v", th.Status, err)
	}
}

// A search by metadata reads the threads that have them, and those of which older
// programs left no labels.
func TestASearchByMetadataReadsThoseThatHaveThem(t *testing.T) {
	d := opened(t, filepath.Join(t.TempDir(), "server.db"))
	put := func(id, metadata string) {
		t.Helper()
		th := thread(id, "")
		th.Metadata = json.RawMessage(metadata)
		if err := d.AddThread(t.Context(), th); err != nil {
			t.Fatal(err)
		}
	}
	reads := func(metadata, want string) {
		t.Helper()
		var ids []string
		_, _, err := d.Threads(t.Context(), ThreadFilter{Labels: Labels(json.RawMessage(metadata))}, "thread_id", Page{Limit: 100, Ascending: true}, func(th *Thread) bool {
			ids = append(ids, th.ID)
			return true
		})
		if got := strings.Join(ids, " "); got != want || err != nil {
			t.Errorf("%s reads %q, %v, want %q", metadata, got, err, want)
		}
	}
	many := map[string]int{}
	for i := range maxLabels + 1 {
		many[fmt.Sprint(i)] = i
	}
	data, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	put("a", `{"user":"ann","plan":1,"on":true,"graph_id":"g","list":["x"]}`)
	put("b", `{"user":"ann","plan":2.0,"none":null,"zero":-0}`)
	put("c", `{"user":1,"on":"true","more":{"user":"ann"}}`)
	put("d", `{}`)
	put("many", string(data))
	reads(`{}`, "a b c d many")
	reads(`{"user":"ann"}`, "a b many")
	reads(`{"user":"ann","plan":1.0}`, "a many")
	reads(`{"user":"ann","plan":2}`, "b many")
	reads(`{"on":true}`, "a many")
	reads(`{"none":null}`, "b many")
	reads(`{"zero":0}`, "b many")
	reads(`{"user":"bob"}`, "many")
	reads(`{"graph_id":"g","list":["x"]}`, "a b c d many") // by a column, and by reading
	change := func(id, metadata string) {
		t.Helper()
		if _, err := d.UpdateThread(t.Context(), id, func(th *Thread) error { th.Metadata = json.RawMessage(metadata); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	change("a", `{"user":"bob"}`)
	change("many", `{"user":"bob"}`)
	reads(`{"user":"ann"}`, "b")
	reads(`{"user":"bob"}`, "a many")
	change("a", `{}`)
	reads(`{"user":"bob"}`, "many")
	// As an older program left it.
	for _, query := range []string{
		`UPDATE superstep_server_threads SET data = replace(data, '"labels"', '"other"') WHERE id = 'b'`,
		`DELETE FROM superstep_server_labels WHERE thread = 'b'`,
		`INSERT INTO superstep_server_labels (label, thread) VALUES ('', 'b')`,
	} {
		if _, err := d.sql.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	reads(`{"user":"x"}`, "b")
	change("b", `{"user":"ann"}`)
	reads(`{"user":"x"}`, "")
	reads(`{"user":"ann"}`, "b")
	if _, err := d.RemoveThread(t.Context(), "b", time.Now(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := d.DeleteThread(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	put("b", `{}`)
	reads(`{"user":"ann"}`, "")
}

// A search holds up neither those who write nor other searches.
func TestASearchHoldsNobodyUp(t *testing.T) {
	d := opened(t, filepath.Join(t.TempDir(), "server.db"))
	for i := range 10 {
		if err := d.AddThread(t.Context(), thread(fmt.Sprint("t", i), fmt.Sprint("u", i%2))); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	found, total, err := d.Threads(ctx, ThreadFilter{Owner: "u1"}, "", Page{Limit: 3}, func(th *Thread) bool {
		if _, err := d.UpdateThread(ctx, th.ID, func(th *Thread) error { th.Status = Busy; return nil }); err != nil {
			t.Fatal(err)
		}
		if now, err := d.Thread(ctx, th.ID); err != nil || now.Status != Busy {
			t.Errorf("what was written isn't read: %v", err)
		}
		return true
	})
	if err != nil || total != 5 || len(found) != 3 {
		t.Errorf("found %d of %d: %v", len(found), total, err)
	}
}

func TestFeedsNumberTheirEventsAndEndWithTheirThread(t *testing.T) {
	stores(t, feedsNumberTheirEventsAndEndWithTheirThread)
}

func feedsNumberTheirEventsAndEndWithTheirThread(t *testing.T, d *DB) {
	add := func(always, followed bool, n int) {
		t.Helper()
		events := make([]FeedEvent, n)
		for i := range events {
			events[i] = FeedEvent{Version: 2, Method: "values", Channel: "values", Namespace: []string{"a"}, Data: []byte(`{}`)}
		}
		if got, err := d.AddFeed(t.Context(), "t", "", "", always, events); err != nil || got != followed {
			t.Fatalf("somebody follows: %t, %v", got, err)
		}
	}
	add(false, false, 3)
	if f, err := d.FeedState(t.Context(), "t"); err != nil || f.Next != 0 {
		t.Errorf("without a follower there is %+v, %v", f, err)
	}
	f, err := d.FollowFeed(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	add(false, true, 150)
	add(true, true, 1)
	list, err := d.FeedEvents(t.Context(), f, f.Next, 1000)
	if err != nil || len(list) != 151 {
		t.Fatalf("%d events, %v", len(list), err)
	}
	for i, e := range list {
		if e.Seq != f.Next+int64(i) || e.Namespace[0] != "a" {
			t.Errorf("event %d is %+v", i, e)
		}
	}
	if at, err := d.NewestFeed(t.Context(), f, 20); err != nil || at != list[len(list)-11].Seq {
		t.Errorf("ten events of two bytes come after %d, %v", at, err)
	}
	remove(t, d, "t")
	if err := d.EndFeed(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	after, err := d.FeedsOf(t.Context(), []string{"t", "u"})
	if err != nil || len(after) != 1 || after[0].First <= list[150].Seq {
		t.Fatalf("afterwards there is %+v, %v", after, err)
	}
	add(true, true, 2)
	if old, err := d.FeedEvents(t.Context(), f, 0, 1000); err != nil || len(old) != 0 {
		t.Errorf("the old feed has %d events, %v", len(old), err)
	}
	if fresh, err := d.FeedEvents(t.Context(), after[0], 0, 1000); err != nil || len(fresh) != 2 {
		t.Errorf("the new feed has %+v, %v", fresh, err)
	}
	// Nothing was told of it, and still it is another one.
	first, err := d.FollowFeed(t.Context(), "v")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.EndFeed(t.Context(), "v"); err != nil {
		t.Fatal(err)
	}
	if second, err := d.FollowFeed(t.Context(), "v"); err != nil || second.First <= first.First {
		t.Errorf("after %+v there is %+v, %v", first, second, err)
	}
}

func TestOnlyWhoHoldsARunTellsOfIt(t *testing.T) { stores(t, onlyWhoHoldsARunTellsOfIt) }

func onlyWhoHoldsARunTellsOfIt(t *testing.T, d *DB) {
	at := time.Now()
	r := &Run{ID: "r", ThreadID: "t", CreatedAt: at, UpdatedAt: at, Status: Pending, Holder: "i"}
	if err := d.AddRun(t.Context(), NewRun{Run: r, Made: thread("t", ""), Limit: RunLimit{All: -1, OfOwner: -1}}); err != nil {
		t.Fatal(err)
	}
	if err := d.AddRun(t.Context(), NewRun{Run: r, Made: thread("t", ""), Limit: RunLimit{All: -1, OfOwner: -1}}); !errors.Is(err, ErrExists) {
		t.Errorf("a thread is made again: %v", err)
	}
	tell := func(run, holder string) error {
		_, err := d.AddFeed(t.Context(), "t", run, holder, true, []FeedEvent{{Run: run, Version: 1, Method: "values", Data: []byte(`{}`)}, {Run: run, Version: 1, Method: "end"}})
		return err
	}
	if err := tell("r", "other"); !errors.Is(err, ErrTaken) {
		t.Errorf("another instance tells: %v", err)
	}
	if err := tell("none", "i"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of no run is told: %v", err)
	}
	if f, err := d.FeedState(t.Context(), "t"); err != nil || f.Next != 0 {
		t.Errorf("there is %+v, %v", f, err)
	}
	if err := tell("r", "i"); err != nil {
		t.Fatal(err)
	}
	f, err := d.FeedState(t.Context(), "t")
	if err != nil || f.Next != f.First+2 {
		t.Fatalf("there is %+v, %v", f, err)
	}
	list, err := d.FeedEvents(t.Context(), f, 0, 10)
	if err != nil || len(list) != 2 || list[0].Seq != f.First || list[0].Feed != f.First || list[1].Method != "end" || list[1].Run != "r" {
		t.Errorf("of it is told %+v, %v", list, err)
	}
}

func TestWhatWasToldOfAThreadIsKeptUntilAnotherOfItsIDIsMade(t *testing.T) {
	stores(t, whatWasToldOfAThreadIsKeptUntilAnotherOfItsIDIsMade)
}

func whatWasToldOfAThreadIsKeptUntilAnotherOfItsIDIsMade(t *testing.T, d *DB) {
	tell := func(run string) {
		t.Helper()
		if _, err := d.AddFeed(t.Context(), "t", "", "", true, []FeedEvent{{Run: run, Version: 1, Method: "values", Data: []byte(`{}`), Told: run}}); err != nil {
			t.Fatal(err)
		}
	}
	left := func(f Feed) int {
		t.Helper()
		list, err := d.FeedEvents(t.Context(), f, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if _, err := d.FollowFeed(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	before, err := d.FeedState(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	remove(t, d, "t") // and makes it before
	if f, err := d.FeedState(t.Context(), "t"); err != nil || f != before {
		t.Errorf("who follows a thread that is yet to be made follows %+v, not %+v, %v", f, before, err)
	}
	tell("a")
	if told, err := d.LastTold(t.Context(), "t", "a"); err != nil || told != "a" {
		t.Errorf("run a was told up to %q, %v", told, err)
	}
	if told, err := d.LastTold(t.Context(), "t", "b"); err != nil || told != "" {
		t.Errorf("run b was told up to %q, %v", told, err)
	}
	first, err := d.FeedState(t.Context(), "t")
	if err != nil || left(first) != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	if newest, err := d.NewestTold(t.Context(), "t", 1); err != nil || newest != first.Next-1 {
		t.Errorf("the newest is %d of %+v, %v", newest, first, err)
	}
	remove(t, d, "t")
	second, err := d.FeedState(t.Context(), "t")
	if err != nil || second.First <= first.First || left(second) != 0 || left(first) != 1 {
		t.Errorf("the next thread's feed is %+v after %+v, with %d events; %v", second, first, left(second), err)
	}
	if newest, err := d.NewestTold(t.Context(), "t", 1); err != nil || newest != 0 {
		t.Errorf("the newest is %d, %v", newest, err)
	}
}

// remove makes a thread of an ID and removes it.
func remove(t *testing.T, d *DB, id string) {
	t.Helper()
	err := d.AddThread(t.Context(), thread(id, ""))
	if err == nil {
		_, err = d.RemoveThread(t.Context(), id, time.Now(), time.Time{})
	}
	if err == nil {
		err = d.DeleteThread(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A thread that is being removed is gone for all but the runs that end with it, and
// its ID isn't free. One at a time removes it.
func TestAThreadThatIsBeingRemovedIsGone(t *testing.T) { stores(t, aThreadThatIsBeingRemovedIsGone) }

func aThreadThatIsBeingRemovedIsGone(t *testing.T, d *DB) {
	ctx := t.Context()
	run := func(id string) *Run {
		return &Run{ID: id, ThreadID: "t", Status: Pending, Holder: "i", CreatedAt: time.Now(), UpdatedAt: time.Now(), StartsAt: time.Now()}
	}
	none := RunLimit{All: -1, OfOwner: -1}
	if err := errors.Join(d.AddThread(ctx, thread("t", "u")), d.AddRun(ctx, NewRun{Run: run("r"), Limit: none})); err != nil {
		t.Fatal(err)
	}
	if err := d.DeleteThread(ctx, "t"); !errors.Is(err, ErrNotFound) {
		t.Errorf("before anybody removes it: %v", err)
	}
	at := time.Now()
	until, err := d.RemoveThread(ctx, "t", at, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Thread(ctx, "t")
	_, changed := d.UpdateThread(ctx, "t", func(*Thread) error { return nil })
	_, again := d.RemoveThread(ctx, "t", at, time.Time{})
	for what, err := range map[string]error{"reading": err, "changing": changed, "removing it again": again, "adding a run": d.AddRun(ctx, NewRun{Run: run("s"), Limit: none})} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list, n, err := d.Threads(ctx, ThreadFilter{}, "", Page{Limit: 10}, nil); n != 0 || err != nil {
		t.Errorf("the list has %v, %v", list, err)
	}
	if err := d.AddThread(ctx, thread("t", "v")); !errors.Is(err, ErrExists) {
		t.Errorf("making it: %v", err)
	}
	if _, _, err := d.BeginRun(ctx, "r", "t", "i", func(*Run, int) {}); err != nil {
		t.Errorf("its run begins: %v", err)
	}
	end := End{Now: at, Settle: func(th *Thread) { th.Status = Idle }}
	if _, left, err := d.FinishRun(ctx, "r", "t", "i", end, func(r *Run) { r.Status = Success }); err != nil || !left.IsZero() {
		t.Errorf("its run ends: %v, %v", left, err)
	}
	if _, err := d.Thread(ctx, "t"); !errors.Is(err, ErrNotFound) {
		t.Errorf("after its run ended: %v", err)
	}
	// Whoever has it may go on; others may when its time is over.
	later, err := d.RemoveThread(ctx, "t", at.Add(time.Second), until)
	if err != nil || !later.After(until) {
		t.Errorf("it goes on until %v, %v", later, err)
	}
	if ids, err := d.ExpiredThreads(ctx, at.Add(time.Second), 10); err != nil || len(ids) != 0 {
		t.Errorf("meanwhile others find %v, %v", ids, err)
	}
	if ids, err := d.ExpiredThreads(ctx, later, 10); err != nil || len(ids) != 1 {
		t.Errorf("then others find %v, %v", ids, err)
	}
	if _, err := d.RemoveThread(ctx, "t", later, time.Time{}); err != nil {
		t.Errorf("then others may: %v", err)
	}
	if _, err := d.RemoveThread(ctx, "t", later, until); !errors.Is(err, ErrNotFound) {
		t.Errorf("who had it before may go on: %v", err)
	}
	if err := errors.Join(d.DeleteThread(ctx, "t"), d.AddThread(ctx, thread("t", "v"))); err != nil {
		t.Error(err)
	}
	if err := d.DeleteThread(ctx, "t"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the next thread of that ID is removed: %v", err)
	}
}

func TestWhatIsDueOfManyComesInTurns(t *testing.T) {
	d := opened(t, "")
	at := time.Now().Add(-time.Hour)
	of := func(owner string, n int) {
		for i := range n {
			next := at
			id := fmt.Sprint(owner, i)
			if err := d.AddCron(t.Context(), &Cron{ID: id, UserID: &owner, Next: &next, Enabled: true}); err != nil {
				t.Fatal(err)
			}
			if err := d.AddWebhook(t.Context(), &Webhook{ID: id, Owner: owner}); err != nil {
				t.Fatal(err)
			}
		}
	}
	of("bob", 50)
	of("", 5)
	of("ada", 2)
	crons, err := d.DueCrons(t.Context(), time.Now(), 10)
	got := map[string]int{}
	for _, c := range crons {
		got[*c.UserID]++
	}
	if err != nil || fmt.Sprint(got) != "map[:4 ada:2 bob:4]" {
		t.Errorf("crons of %v: %v", got, err)
	}
	most := func(owner string) int { return map[string]int{"": 10, "ada": 1, "bob": 3}[owner] }
	for _, want := range []string{"map[:4 ada:1 bob:3]", "map[:1 ada:1 bob:3]"} {
		hooks, err := d.DueWebhooks(t.Context(), time.Minute, 8, most)
		got := map[string]int{}
		for _, w := range hooks {
			got[w.Owner]++
		}
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("webhooks of %v, want %s: %v", got, want, err)
		}
	}
	if crons, err := d.DueCrons(t.Context(), time.Now(), 100); err != nil || len(crons) != 57 {
		t.Errorf("%d crons are due: %v", len(crons), err)
	}
}

func TestPagesThatAreFreeAreGivenBack(t *testing.T) {
	d := opened(t, filepath.Join(t.TempDir(), "server.db"))
	for i := range 200 {
		th := thread(fmt.Sprint("t", i), "")
		th.Config = json.RawMessage(`"` + strings.Repeat("a", 20_000) + `"`)
		if err := d.AddThread(t.Context(), th); err != nil {
			t.Fatal(err)
		}
	}
	pages := func(pragma string) (n int) {
		if err := d.sql.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	full := pages("page_count")
	for i := range 200 {
		if _, err := d.RemoveThread(t.Context(), fmt.Sprint("t", i), time.Now(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		if err := d.DeleteThread(t.Context(), fmt.Sprint("t", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.GiveBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if free, left := pages("freelist_count"), pages("page_count"); free > 0 || left > full/5 {
		t.Errorf("of %d pages %d are left, %d of them free", full, left, free)
	}
}

// A run begins with being stored unless another one has not ended, whichever instance that
// is of; then no other begins.
func TestARunBeginsAsItIsAddedUnlessItsThreadHasAnother(t *testing.T) {
	stores(t, aRunBeginsAsItIsAddedUnlessItsThreadHasAnother)
}

func aRunBeginsAsItIsAddedUnlessItsThreadHasAnother(t *testing.T, d *DB) {
	ctx := t.Context()
	begun := map[string]string{}
	add := func(id, holder string, made *Thread) *Run {
		t.Helper()
		at := time.Now().UTC().Truncate(time.Millisecond)
		r := NewRun{Run: &Run{ID: id, ThreadID: "t", Status: Pending, Holder: holder, CreatedAt: at, UpdatedAt: at, StartsAt: at}, Made: made, Limit: unlimited}
		r.Begin = func(r *Run, th *Thread) { r.Begun, r.StartedAt, begun[r.ID] = true, at, th.ID }
		if err := d.AddRun(ctx, r); err != nil {
			t.Fatal(err)
		}
		stored, err := d.Run(ctx, id)
		if err != nil || stored.Status != r.Status || stored.Holder != holder || !stored.StartedAt.Equal(r.StartedAt) {
			t.Errorf("%s is stored as %+v, %v", id, stored, err)
		}
		return stored
	}
	if r := add("r0", "i", thread("t", "")); r.Status != Running || !r.Begun {
		t.Errorf("the first is %s", r.Status)
	}
	if r := add("r1", "other", nil); r.Status != Pending || r.Begun {
		t.Errorf("the second is %s", r.Status)
	}
	if _, _, err := d.BeginRun(ctx, "r1", "t", "other", func(*Run, int) {}); !errors.Is(err, ErrBusy) {
		t.Errorf("the second begins: %v", err)
	}
	for i, holder := range []string{"i", "other"} {
		id := fmt.Sprint("r", i)
		if i == 1 {
			if _, _, err := d.BeginRun(ctx, id, "t", holder, func(*Run, int) {}); err != nil {
				t.Errorf("after the first, the second begins: %v", err)
			}
		}
		if _, _, err := d.FinishRun(ctx, id, "t", holder, End{Settle: func(th *Thread) { th.Status = Idle }}, func(r *Run) { r.Status = Success }); err != nil {
			t.Fatal(err)
		}
	}
	if r := add("r2", "i", nil); r.Status != Running {
		t.Errorf("when all have ended the next is %s", r.Status)
	}
	if want := map[string]string{"r0": "t", "r2": "t"}; !maps.Equal(begun, want) {
		t.Errorf("begun are %v", begun)
	}
}
