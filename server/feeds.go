package server

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/internal/follow"
	"github.com/superstep-dev/superstep/server/internal/db"
)

const (
	keepFeed = 5 * time.Minute // in memory, after its last reader and its last run have gone
	maxTree  = 1000            // subgraphs of a run that a feed remembers

	heartbeat = 5 * time.Second
	eventCost = 64 // bytes that an event takes beside its data
)

// feeds are what is told of threads: of each the newest events, for as long as clients
// may come for them, in one order and under numbers that only grow. All that clients
// read of runs is read there: what one run streams, what all of a thread do, and what
// the protocol's second version shows of it.
//
// A process has the feeds of its threads in memory, and what must outlive it in the
// database too. Where several instances share a database the feeds are there, and each
// instance has a copy of those that are read from it.
type feeds struct {
	limits Limits
	db     *db.DB // nil in tests of feeds alone
	shared bool
	log    *slog.Logger
	ctx    context.Context // of the copying
	copies *sync.WaitGroup
	sent   atomic.Int64 // bytes, since it was looked whether the feeds are too large

	others  *follow.Follower // instances on the database; nil: there are none
	moments [1024]atomic.Uint64
	seed    maphash.Seed
	looked  time.Time // at what is new of copies; only for whoever looks, as what follows
	checked time.Time // when it was noted that feeds are followed

	mu       sync.Mutex
	byThread map[string]*feed
	readers  map[string]int   // who read what is told as it is told, by thread
	storing  map[string]*line // of the run that this process tells of and stores, by thread
	over     bool
}

func newFeeds(l Limits) *feeds {
	return &feeds{limits: l, seed: maphash.MakeSeed(), byThread: map[string]*feed{}, readers: map[string]int{}, storing: map[string]*line{}}
}

// keptIn has feeds that outlive the process kept in the server's database.
func (f *feeds) keptIn(b *base) {
	f.ctx, f.db, f.shared, f.log, f.copies = b.besideCtx, b.db, b.db.Shared(), b.log, &b.beside
	if f.shared {
		f.others = follow.New(b.db.Wire("feeds"), feedPoll, f.check, func(note string) {
			if note == noteLook {
				signal(b.look)
			}
			f.hear(note)
		})
	}
}

var errClosing = &fault{503, "the server is closing"}

// open returns the feed of a thread, with all that was told so far. It is kept until it
// is left.
func (f *feeds) open(ctx context.Context, thread string) (*feed, error) {
	if !f.shared {
		return f.enter(ctx, db.Feed{Thread: thread})
	}
	return f.reachAsOf(ctx, thread, f.db.FeedState)
}

// attend is open for somebody who reads what is told as it is told: what this process tells
// doesn't wait to be stored. It ends with quit.
func (f *feeds) attend(ctx context.Context, thread string) (*feed, error) {
	f.enlist(ctx, thread)
	one, err := f.open(ctx, thread)
	if err != nil {
		f.dismiss(thread)
	}
	return one, err
}

func (f *feeds) quit(one *feed) {
	f.dismiss(one.thread)
	f.leave(one)
}

// enlist notes that somebody reads what is told of a thread, and has what waits to be stored
// stored before, if that doesn't take long.
func (f *feeds) enlist(ctx context.Context, thread string) {
	f.mu.Lock()
	f.readers[thread]++
	l := f.storing[thread]
	f.mu.Unlock()
	if l != nil {
		ctx, stop := context.WithTimeout(ctx, unread)
		defer stop()
		_ = l.events.flush(ctx) // it says itself what is wrong
	}
}

func (f *feeds) dismiss(thread string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers[thread]--; f.readers[thread] == 0 {
		delete(f.readers, thread)
	}
}

// read reports whether somebody reads what is told of a thread, here.
func (f *feeds) read(thread string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readers[thread] > 0
}

// stores notes what stores the events of the run that works on a thread, until it doesn't
// any more.
func (f *feeds) stores(thread string, l *line) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.storing[thread] = l
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.storing[thread] == l {
			delete(f.storing, thread)
		}
	}
}

// follow is attend for somebody who is to be told of all that happens to the thread, also
// by runs that nobody streams, wherever they work. It ends with unfollow.
func (f *feeds) follow(ctx context.Context, thread string) (*feed, error) {
	return f.attendNoted(ctx, thread, f.db.FollowFeed)
}

// join is follow for somebody who reads what a run tells that works elsewhere: whoever has it
// stores what it tells at once then. It doesn't wait for what is being stored.
func (f *feeds) join(ctx context.Context, thread string) (*feed, error) {
	return f.attendNoted(ctx, thread, f.db.JoinFeed)
}

// attendNoted is attend for a follower, whom a shared database is told of by note.
func (f *feeds) attendNoted(ctx context.Context, thread string, note func(context.Context, string) (db.Feed, error)) (one *feed, err error) {
	f.enlist(ctx, thread)
	if f.shared {
		one, err = f.reachAsOf(ctx, thread, note)
	} else {
		one, err = f.reach(ctx, db.Feed{Thread: thread})
	}
	if err != nil {
		f.dismiss(thread)
		return nil, err
	}
	f.others.Tell(noteJoin + thread)
	f.mu.Lock()
	defer f.mu.Unlock()
	one.followers++
	return one, nil
}

func (f *feeds) unfollow(one *feed) {
	f.mu.Lock()
	one.followers--
	one.followed = time.Now()
	f.mu.Unlock()
	f.quit(one)
}

// reachAsOf is reach for a feed that is read in the database by a function.
func (f *feeds) reachAsOf(ctx context.Context, thread string, read func(context.Context, string) (db.Feed, error)) (*feed, error) {
	before := f.moment(thread).Load()
	state, err := read(ctx, thread)
	if err != nil {
		return nil, err
	}
	one, err := f.reach(ctx, state)
	if err == nil && f.moment(thread).Load() != before { // it wasn't copied yet, perhaps
		one.poke()
	}
	return one, err
}

// reach enters a feed and waits until all is copied that it has in the database.
func (f *feeds) reach(ctx context.Context, state db.Feed) (*feed, error) {
	one, err := f.enter(ctx, state)
	if err != nil {
		return nil, err
	}
	if err := one.reach(ctx, state); err != nil {
		f.leave(one)
		return nil, err
	}
	return one, nil
}

// enter returns the feed of a thread as this process has it.
func (f *feeds) enter(ctx context.Context, state db.Feed) (*feed, error) {
	if one, err := f.entered(state); one != nil || err != nil {
		return one, err
	}
	one := &feed{of: f, thread: state.Thread, first: state.First, changed: make(chan struct{}), kick: make(chan struct{}, 1), stop: func() {}}
	if !f.shared {
		if err := f.restore(ctx, one); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	if f.byThread[state.Thread] != nil || f.over {
		f.mu.Unlock()
		return f.enter(ctx, state)
	}
	f.byThread[state.Thread] = one
	one.users++
	if f.shared {
		ctx, stop := context.WithCancel(f.ctx)
		one.stop = stop
		f.copies.Go(func() { f.copy(ctx, one, state) })
	}
	f.mu.Unlock()
	return one, nil
}

// entered is enter for a feed that this process has; nil if it doesn't.
func (f *feeds) entered(state db.Feed) (*feed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return nil, errClosing
	}
	one := f.byThread[state.Thread]
	if one != nil && one.against(state) < 0 {
		f.remove(one)
		one = nil
	}
	if one != nil {
		one.users++
	}
	return one, nil
}

// restore fills a feed that this process doesn't have with what is stored of it.
func (f *feeds) restore(ctx context.Context, one *feed) error {
	// Numbers grow over all of a thread's runs, also those that another process or an
	// earlier feed told of: clients drop numbers that they have seen. So they begin at the
	// time, in microseconds, which a feed doesn't overtake.
	defer func() { one.at = max(one.at, time.Now().UnixMicro()) }()
	if f.db == nil {
		return nil
	}
	state, err := f.db.FeedState(ctx, one.thread)
	if err != nil || state.First == state.Next {
		return err
	}
	from, err := f.beginning(ctx, state)
	for err == nil {
		var some []db.FeedEvent
		if some, err = f.db.FeedEvents(ctx, state, from, feedPage); len(some) == 0 {
			break
		}
		one.take(some)
		from = some[len(some)-1].Seq + 1
	}
	one.at = max(one.at, state.Next)
	return err
}

// find returns a feed that this process has, to be left; nil if it doesn't.
func (f *feeds) find(thread string) *feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.byThread[thread]
	if one != nil {
		one.users++
	}
	return one
}

// leave says that a feed isn't used any more.
func (f *feeds) leave(one *feed) {
	if one == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.users--; one.users == 0 {
		one.left = time.Now()
	}
}

// grew notes that a feed has grown.
func (f *feeds) grew(n int) {
	if n > 0 && f.limits.Logs > 0 && f.sent.Add(int64(n)) > int64(f.limits.Logs/64) {
		f.sweep(time.Now())
	}
}

// sweep removes the feeds that nobody has come for, and what is too much of the others.
func (f *feeds) sweep(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent.Store(0)
	byUser := map[string][]*feed{}
	for _, one := range f.byThread {
		if one.users == 0 && now.Sub(one.left) > keepFeed {
			f.drop(one)
		} else if user := one.owner(); user != "" {
			byUser[user] = append(byUser[user], one)
		}
	}
	for _, some := range byUser {
		f.fit(some, f.limits.LogsPerUser)
	}
	f.fit(slices.Collect(maps.Values(f.byThread)), f.limits.Logs)
}

func (f *feeds) drop(one *feed) {
	one.stop()
	delete(f.byThread, one.thread)
}

// fit makes feeds fit into a number of bytes: those that nobody uses go, that which was
// left first before others, and then the oldest events of those that are the largest. Who
// comes later finds what came of a run in the database. The caller holds the lock.
func (f *feeds) fit(some []*feed, limit int) {
	total := 0
	size := map[*feed]int{}
	for _, one := range some {
		size[one] = one.size()
		total += size[one]
	}
	if !over(total, limit) {
		return
	}
	slices.SortFunc(some, func(a, b *feed) int {
		if (a.users == 0) != (b.users == 0) {
			return cmp.Compare(a.users, b.users) // what is used comes last
		}
		if a.users == 0 {
			return a.left.Compare(b.left)
		}
		return cmp.Compare(size[b], size[a])
	})
	for _, one := range some {
		if total <= limit {
			return
		}
		if one.users == 0 {
			f.drop(one)
			total -= size[one]
			continue
		}
		total -= one.trim(total - limit + size[one]/8)
	}
}

// forget ends the feed of a thread that was removed.
func (f *feeds) forget(ctx context.Context, thread string) error {
	err := f.db.EndFeed(ctx, thread)
	if f.shared {
		f.tellOthers(thread)
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.byThread[thread]; one != nil {
		f.remove(one)
	}
	return err
}

// renew ends what was told of a thread that is gone when another of its ID is made, which
// may be followed already. Since is when that was tried first: what has begun after that may
// be of the new one, which another request has found.
func (f *feeds) renew(thread string, since time.Time) {
	if f.shared {
		f.tellOthers(thread) // the database knows
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.byThread[thread]; one != nil && one.begunBefore(since) {
		f.remove(one)
	}
}

// remove ends a feed whose thread was removed: who reads it hears nothing of the next
// thread of that ID. The caller holds the lock.
func (f *feeds) remove(one *feed) {
	one.stop()
	one.end(errRemoved)
	if f.byThread[one.thread] == one {
		delete(f.byThread, one.thread)
	}
}

// end cuts off all readers, who get what is stored by then: the server is closing.
func (f *feeds) end(ctx context.Context) {
	f.mu.Lock()
	over := f.over
	f.over = true
	all := make(map[string]*feed, len(f.byThread))
	for thread, one := range f.byThread {
		all[thread] = one
		one.users++
	}
	f.mu.Unlock()
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	if f.shared && !over {
		states, _ := f.db.FeedsOf(ctx, slices.Collect(maps.Keys(all))) // clients come back elsewhere
		for _, state := range states {
			_ = all[state.Thread].reach(ctx, state)
		}
	}
	for _, one := range all {
		one.end(errOver)
		f.leave(one)
	}
}

// followed reports whether somebody follows a thread, or did not long ago.
func (f *feeds) followed(ctx context.Context, thread string) (bool, error) {
	if f.shared {
		return f.db.Followed(ctx, thread)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.byThread[thread]
	return one != nil && (one.followers > 0 || time.Since(one.followed) < db.KeepFeed), nil
}

// tell appends events that are of no run that works, or, unless always is set, does so if
// somebody follows the thread.
func (f *feeds) tell(ctx context.Context, thread string, always bool, events ...db.FeedEvent) error {
	if f.shared {
		_, err := f.db.AddFeed(ctx, thread, "", "", always, events)
		f.tellOthers(thread)
		return err
	}
	if one := f.find(thread); one != nil { // else nobody reads it
		defer f.leave(one)
		one.send(events...)
	}
	return nil
}

// feed is a thread's newest events. It is safe for concurrent use.
type feed struct {
	of     *feeds
	thread string

	users     int       // guarded by feeds.mu, as what follows
	left      time.Time // by the last user
	followers int       // users that follow
	followed  time.Time // until the last of them left

	kick chan struct{} // that there may be more to copy
	stop func()        // ends the copying

	order sync.Mutex // held while events get their numbers and are shown

	mu      sync.Mutex
	first   int64           // of the feed in the database; 0: it hasn't begun
	lost    int64           // number of the newest event that isn't left
	at      int64           // number that is still to come
	events  []*db.FeedEvent // which are not changed any more
	bytes   int
	changed chan struct{}  // closed at the next change
	over    error          // why nothing more comes
	tree    []*v2Node      // the graphs of the newest run
	user    string         // for whom its newest run works
	works   map[string]int // runs that this process tells of
	began   time.Time      // when something was told first, or was about to be
}

// against compares a feed with what the database has of its thread, and lets one that
// hadn't begun be that: below 0 it is over, and another one has begun.
func (f *feed) against(state db.Feed) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == 0 {
		f.first = state.First
	}
	return cmp.Compare(f.first, state.First)
}

// settle is how long after a subscription the end of a run, or a question of it, is told
// at the earliest. Clients make several one after the other, and take the end of a run,
// seen by one, for that of all that they have: those that come for what was before
// are not too late.
const settle = 100 * time.Millisecond

// send appends events, one after another.
func (f *feed) send(events ...db.FeedEvent) {
	f.order.Lock()
	defer f.order.Unlock()
	f.take(events)
}

// store has events stored by a function that numbers them from what they have on, and
// then appends them.
func (f *feed) store(events []db.FeedEvent, store func([]db.FeedEvent) error) error {
	f.order.Lock()
	defer f.order.Unlock()
	if len(events) > 0 {
		events[0].Seq = f.next()
	}
	if err := store(events); err != nil {
		return err
	}
	f.take(events)
	return nil
}

// take appends events, under their numbers or the next ones, and drops those that it has.
func (f *feed) take(events []db.FeedEvent) {
	f.of.grew(f.add(events))
}

func (f *feed) add(events []db.FeedEvent) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.bytes
	for _, ev := range events {
		switch {
		case ev.Seq == 0:
			ev.Seq = f.at
		case ev.Seq < f.at:
			continue
		}
		if ev.Version == 2 && ev.Method == "lifecycle" {
			f.note(&ev)
		}
		f.tellsNow()
		f.events = append(f.events, &ev)
		f.at = ev.Seq + 1
		f.bytes += len(ev.Data) + eventCost
	}
	grown := f.bytes - before
	if limit := f.of.limits.Log; over(f.bytes, limit) {
		f.shed(f.bytes - limit)
	}
	f.wake()
	return grown
}

// shed removes the oldest events, but not the newest. The caller holds the lock.
func (f *feed) shed(bytes int) {
	for before := f.bytes; before-f.bytes < bytes && len(f.events) > 1; {
		f.bytes -= len(f.events[0].Data) + eventCost
		f.lost = f.events[0].Seq
		f.events[0] = nil
		f.events = f.events[1:]
	}
}

// trim is shed for others. It returns how many bytes it removed.
func (f *feed) trim(bytes int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.bytes
	f.shed(bytes)
	return before - f.bytes
}

func (f *feed) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}

func (f *feed) owner() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.user
}

// wake has readers look again. The caller holds the lock.
func (f *feed) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// begunBefore reports whether anything was told, or about to be, before a time.
func (f *feed) begunBefore(at time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.began.IsZero() && f.began.Before(at)
}

// tellsNow notes that something is told. The caller holds the lock.
func (f *feed) tellsNow() {
	if f.began.IsZero() {
		f.began = time.Now()
	}
}

// index returns the place of the first event that is left from a number on. The
// caller holds the lock.
func (f *feed) index(seq int64) int {
	i, _ := slices.BinarySearchFunc(f.events, seq, func(ev *db.FeedEvent, seq int64) int { return cmp.Compare(ev.Seq, seq) })
	return i
}

// end says why nothing more comes.
func (f *feed) end(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over == nil {
		f.over = why
		f.wake()
	}
}

// next returns a number that the next event will have, or a smaller one that no
// event has.
func (f *feed) next() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

// nextOf is next for one run, or the number of its end if that was told.
func (f *feed) nextOf(run string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ev := range slices.Backward(f.events) {
		if ev.Run == run && ev.Method == endEvent {
			return ev.Seq
		}
	}
	return f.at
}

// nthOf returns the number among what a run streams that its next event has, as far as is known.
func (f *feed) nthOf(run string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ev := range slices.Backward(f.events) {
		if ev.Run == run && ev.Version == 1 && ev.Method != endEvent {
			return ev.Nth + 1
		}
	}
	return 0
}

// since returns the number from which on to read what is left after an event.
func (f *feed) since(seq int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(max(seq, f.lost)+1, f.at)
}

var (
	errSlow = errors.New("the reader is slower than the runs") // what it had to read next is gone
	errOver = errors.New("the server is closing")
)

// read waits for the first event of a version of the protocol from a number on. If a run
// is named it is the first of those that are left of it.
func (f *feed) read(ctx context.Context, seq int64, version int, run string) (*db.FeedEvent, error) {
	for {
		f.mu.Lock()
		if run == "" && seq <= f.lost {
			f.mu.Unlock()
			return nil, errSlow
		}
		for _, ev := range f.events[f.index(seq):] {
			if ev.Version == version && (run == "" || ev.Run == run) {
				f.mu.Unlock()
				return ev, nil
			}
			seq = ev.Seq + 1
		}
		changed, over := f.changed, f.over
		f.mu.Unlock()
		if over != nil {
			return nil, over
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tells notes that this process tells of a run, until it doesn't any more.
func (f *feed) tells(run *db.Run) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.works == nil {
		f.works = map[string]int{}
	}
	f.works[run.ID]++
	f.tellsNow()
	f.user = ownerOf(run)
	return func() {
		f.mu.Lock()
		if f.works[run.ID]--; f.works[run.ID] == 0 {
			delete(f.works, run.ID)
		}
		f.mu.Unlock()
		f.of.leave(f)
	}
}

// worksFor notes for whom a run works that is read.
func (f *feed) worksFor(run *db.Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.user = ownerOf(run)
}

// ownerOf returns the ID of the user for whom a run works, empty if there is none.
func ownerOf(run *db.Run) string { return textOf(objectOf(run.User)["identity"]) }

// toldBy reports whether this process tells of a run.
func (f *feed) toldBy(run string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.works[run] > 0
}

// has reports whether something is left of what a run has sent, or still comes.
func (f *feed) has(run string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.works[run] > 0 || slices.ContainsFunc(f.events, func(ev *db.FeedEvent) bool { return ev.Run == run })
}

// through returns the number of the newest event of a thread that clients of the
// protocol's second version see; 0 if there is none.
func (f *feeds) through(ctx context.Context, thread string) int64 {
	if f.shared {
		newest, _ := f.db.NewestTold(ctx, thread, 2) // clients lose nothing by an error
		return newest
	}
	one := f.find(thread)
	if one == nil {
		return 0
	}
	defer f.leave(one)
	one.mu.Lock()
	defer one.mu.Unlock()
	for _, ev := range slices.Backward(one.events) {
		if ev.Version == 2 {
			return ev.Seq
		}
	}
	return 0
}

// look is open for whoever only looks at what was told already; nil if nothing
// was.
func (f *feeds) look(ctx context.Context, thread string) (*feed, error) {
	if !f.shared {
		return f.find(thread), nil
	}
	state, err := f.db.FeedState(ctx, thread)
	if err != nil || state.Next == state.First {
		return nil, err
	}
	return f.reach(ctx, state)
}

// tree returns what a thread's newest run consists of, nil if it isn't known.
func (f *feeds) tree(ctx context.Context, thread string) (*v2Node, error) {
	one, err := f.look(ctx, thread)
	if one == nil {
		return nil, err
	}
	defer f.leave(one)
	one.mu.Lock()
	defer one.mu.Unlock()
	var root *v2Node
	known := map[string]*v2Node{}
	for _, n := range one.tree { // parents before children
		n := *n
		known[strings.Join(n.Namespace, "\x00")] = &n
		if len(n.Namespace) == 0 {
			root = &n
		} else if parent := known[strings.Join(n.Namespace[:len(n.Namespace)-1], "\x00")]; parent != nil {
			parent.Children = append(parent.Children, &n)
		}
	}
	return root, nil
}

// state returns what a subgraph's newest events say of its state, nil if there are
// none.
func (f *feeds) state(ctx context.Context, thread string, namespace []string) (values object, at *v2CheckpointRef, err error) {
	one, err := f.look(ctx, thread)
	if one == nil {
		return nil, nil, err
	}
	defer f.leave(one)
	data := func(channel string) (object, []string) {
		one.mu.Lock()
		defer one.mu.Unlock()
		for _, ev := range slices.Backward(one.events) {
			if ev.Version == 2 && ev.Channel == channel && len(ev.Namespace) == len(namespace) && below(ev.Namespace, namespace) {
				return objectOf(objectOf(ev.Data)["data"]), ev.Namespace
			}
		}
		return nil, nil
	}
	values, _ = data("values")
	if c, ns := data("checkpoints"); values != nil && c != nil {
		at = &v2CheckpointRef{textOf(c["id"]), strings.Join(ns, "|")}
	}
	return values, at, nil
}
