package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// threadView is a thread as clients see it.
type threadView struct {
	ID         string                      `json:"thread_id"`
	CreatedAt  instant                     `json:"created_at"`
	UpdatedAt  instant                     `json:"updated_at"`
	ChangedAt  instant                     `json:"state_updated_at,omitzero"`
	Metadata   json.RawMessage             `json:"metadata"`
	Title      string                      `json:"title"`
	Status     string                      `json:"status"`
	Config     json.RawMessage             `json:"config"`
	Values     json.RawMessage             `json:"values"`
	Interrupts map[string][]interruptValue `json:"interrupts"`
	Error      json.RawMessage             `json:"error,omitempty"`
	TTL        *ttlView                    `json:"ttl,omitempty"`
	Due        instant                     `json:"due_at,omitzero"` // where it was searched for
	Extracted  object                      `json:"extracted,omitempty"`
}

type ttlView struct {
	Strategy  string  `json:"strategy"`
	Minutes   float64 `json:"ttl_minutes"`
	ExpiresAt instant `json:"expires_at"`
}

type interruptValue struct {
	ID    string          `json:"id"`
	Value json.RawMessage `json:"value"`

	// Key is what the node calls the question, Schema the JSON Schema of the answer,
	// where the node gave one. LangGraph's servers know nothing of the kind.
	Key    string          `json:"key,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
}

// threads answers what is asked of conversations, but for their states.
type threads struct {
	*base
	access     *access
	dispatcher *dispatcher
	states     *states
}

func (s *threads) routes() []route {
	return []route{
		{"POST /threads", "createThread", rule{resource: Threads, verb: Create, how: byHandler}, given(s.createThread)},
		{"POST /threads/search", "searchThreads", rule{resource: Threads, verb: Search, how: byHandler}, listing(s.findThreads)},
		{"POST /threads/count", "countThreads", rule{resource: Threads, verb: Search, how: byHandler}, counting(s.findThreads)},
		{"POST /threads/prune", "pruneThreads", rule{resource: Threads, verb: Delete, how: byHandler}, given(s.pruneThreads)},
		{"POST /threads/import", "importThread", rule{resource: Threads, verb: Create, how: byHandler}, s.importThread},
		{"GET /threads/{thread}", "getThread", rule{resource: Threads, verb: Read}, s.onThread(s.getThread)},
		{"PATCH /threads/{thread}", "patchThread", rule{resource: Threads, verb: Update, how: byHandler}, given(s.patchThread)},
		{"DELETE /threads/{thread}", "deleteThread", rule{resource: Threads, verb: Delete}, s.onThread(s.deleteThread)},
		{"GET /threads/{thread}/feedback", "listFeedback", rule{resource: Threads, verb: Read}, s.onThread(s.listFeedback)},
		{"POST /threads/{thread}/feedback", "giveFeedback", rule{resource: Threads, verb: Update}, s.onThread(s.giveFeedback)},
		{"DELETE /threads/{thread}/feedback/{feedback}", "deleteFeedback", rule{resource: Threads, verb: Update}, s.onThread(s.deleteFeedback)},
		{"POST /threads/{thread}/copy", "copyThread", rule{resource: Threads, verb: Create, how: byHandler}, s.onThread(s.copyThread)},
	}
}

// view returns a thread with its state, which whole asks for.
func (s *threads) view(ctx context.Context, t *db.Thread, whole bool) (*threadView, error) {
	v := &threadView{
		ID: t.ID, CreatedAt: instant(t.CreatedAt), UpdatedAt: instant(t.UpdatedAt), ChangedAt: instant(t.ChangedAt), Metadata: t.Metadata, Title: t.Titled(), Status: t.Status,
		Config: t.Config, Error: t.Error, Interrupts: map[string][]interruptValue{}, Values: json.RawMessage("null"),
	}
	if t.TTL > 0 {
		v.TTL = &ttlView{Strategy: "delete", Minutes: t.TTL, ExpiresAt: instant(t.ExpiresAt)}
	}
	g := s.graphOf(t)
	if !whole || g == nil {
		return v, nil
	}
	snap, err := s.on(g, t.ID).State(ctx)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return v, nil
	}
	if told := s.unreadable(ctx, t, err); told != nil {
		v.Status = db.Failed
		v.Error, err = json.Marshal(told)
		return v, err
	}
	if err != nil {
		return nil, err
	}
	if v.Values, err = wholeMessages(snap.State, nil); err != nil {
		return nil, err
	}
	if v.Title == "" && t.Title == nil { // it has not run since titles are noted
		v.Title, _ = g.said(snap.State)
	}
	for _, task := range snap.Tasks {
		if asked := questionsOf(task); len(asked) > 0 {
			v.Interrupts[task.ID] = asked
		}
	}
	return v, nil
}

// unreadable returns what to show of a thread whose state can't be read, though the
// database answers: one such thread must not keep others from being listed. It is
// nil for other errors.
func (s *threads) unreadable(ctx context.Context, t *db.Thread, err error) *db.RunError {
	if err == nil || ctx.Err() != nil || db.Outage(err) {
		return nil
	}
	told := errorOf(err)
	if text, ok := misfit(err); ok {
		told.Message = text
		return told
	}
	if _, failed := s.head(ctx, t.ID); failed != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
		return nil
	}
	s.log.LogAttrs(ctx, slog.LevelError, "server: a thread cannot be read", slog.String("thread", t.ID), slog.Any("error", err))
	told.Message = "what is stored of the thread cannot be read"
	return told
}

func interruptOf(q graph.Interrupted) interruptValue {
	value := q.Raw
	if value == nil {
		value = json.RawMessage("null")
	}
	return interruptValue{ID: q.ID, Value: value, Key: q.Key, Schema: q.Schema}
}

// questionsOf returns what a task asks. That it stands at a breakpoint is no
// question.
func questionsOf(t graph.TaskState) []interruptValue {
	out := []interruptValue{}
	for _, q := range t.Interrupts {
		if q.When == "inside" {
			out = append(out, interruptOf(q))
		}
	}
	return out
}

// on returns a thread of a graph.
func (s *base) on(g *served, thread string) *graph.Thread[json.RawMessage] {
	return g.Thread(thread, graph.WithCheckpointer(s.store), memory.Use(s.memory))
}

// graphOf returns the graph that a thread's runs were of; nil if it has had none
// or the graph isn't served any more.
func (s *base) graphOf(t *db.Thread) *served {
	return s.graphs[textOf(objectOf(t.Metadata)["graph_id"])]
}

func (s *base) thread(ctx context.Context, id string) (*db.Thread, error) {
	t, err := s.db.Thread(ctx, id)
	if errors.Is(err, db.ErrNotFound) {
		err = noThread(id)
	}
	return t, err
}

// threadOf returns the thread in the path.
func (s *base) threadOf(r *http.Request) (*db.Thread, error) {
	id, err := pathThread(r)
	if err != nil {
		return nil, err
	}
	return s.thread(r.Context(), id)
}

// ttl is how long a thread is kept: minutes, or an object with more.
type ttl struct {
	minutes float64
	set     bool
}

func (t *ttl) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	t.set = true
	if json.Unmarshal(data, &t.minutes) == nil {
		return t.check("delete")
	}
	var o struct {
		TTL      float64 `json:"ttl"`
		Strategy string  `json:"strategy"`
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return invalid("ttl must be a number of minutes, or an object with ttl and strategy")
	}
	t.minutes = o.TTL
	return t.check(o.Strategy)
}

func (t *ttl) check(strategy string) error {
	if strategy != "" && strategy != "delete" {
		return invalid("ttl.strategy must be delete")
	}
	if t.minutes <= 0 || t.minutes > 1e8 {
		return invalid("ttl must be a positive number of minutes")
	}
	return nil
}

func (t *ttl) apply(thread *db.Thread, at time.Time) {
	if !t.set {
		return
	}
	thread.TTL = t.minutes
	thread.ExpiresAt = at.Add(time.Duration(t.minutes * float64(time.Minute)))
}

type threadBody struct {
	ThreadID   string      `json:"thread_id"`
	Metadata   object      `json:"metadata"`
	IfExists   string      `json:"if_exists"`
	Supersteps []superstep `json:"supersteps"`
	GraphID    string      `json:"graph_id"`
	TTL        ttl         `json:"ttl"`
}

// superstep is a step of a history that a new thread begins with.
type superstep struct {
	Updates []struct {
		Values  json.RawMessage `json:"values"`
		Command *command        `json:"command"`
		AsNode  string          `json:"as_node"`
	} `json:"updates"`
}

func (s *threads) createThread(w http.ResponseWriter, r *http.Request, b *threadBody) (any, error) {
	if err := oneOf("if_exists", b.IfExists, "raise", "do_nothing"); err != nil {
		return nil, err
	}
	id, err := checkID("thread", cmp.Or(b.ThreadID, uuid.Must(uuid.NewV7()).String()))
	if err != nil {
		return nil, err
	}
	if b.GraphID != "" {
		if s.graphs[b.GraphID] == nil {
			return nil, notFound("Graph %q not found", b.GraphID)
		}
		b.Metadata = b.Metadata.with(object{"graph_id": jsonText(b.GraphID)})
	}
	if err := s.checkMetadata(b.Metadata); err != nil {
		return nil, err
	}
	var mine Filter
	if b.Metadata, mine, err = s.access.stampNew(r.Context(), &Action{Resource: Threads, Verb: Create, ID: id}, b.Metadata); err != nil {
		return nil, err
	}
	t := s.newThread(id, b.Metadata, false)
	b.TTL.apply(t, t.CreatedAt)
	if len(b.Supersteps) > 0 && s.graphOf(t) == nil {
		return nil, invalid("supersteps need graph_id, in the body or its metadata")
	}
	err = s.addThread(r.Context(), t)
	if errors.Is(err, db.ErrExists) {
		if b.IfExists != "do_nothing" {
			return nil, conflict("Thread already exists")
		}
		if t, err = s.thread(r.Context(), id); err != nil {
			return nil, err
		}
		if !mine.allows(t.Metadata) {
			return nil, conflict("Thread already exists")
		}
		return s.view(r.Context(), t, true)
	}
	if err != nil {
		return nil, err
	}
	note(r.Context(), "thread", id)
	if err := s.seed(r.Context(), t, b.Supersteps); err != nil {
		return nil, errors.Join(err, s.removeThread(background(r), id))
	}
	return s.view(r.Context(), t, true)
}

// newThread returns a thread that is kept as long as the server keeps them, or, if it is
// temporary, as its run lasts.
func (s *base) newThread(id string, metadata object, temporary bool) *db.Thread {
	at := now()
	t := &db.Thread{ID: id, CreatedAt: at, UpdatedAt: at, ChangedAt: at, Metadata: metadata.raw(), Config: object(nil).raw(), Status: db.Idle, Temporary: temporary}
	keep := ttl{set: s.keep > 0 && !temporary, minutes: s.keep.Minutes()}
	keep.apply(t, at)
	return t
}

// seed gives a new thread a history.
func (s *threads) seed(ctx context.Context, t *db.Thread, steps []superstep) error {
	g := s.graphOf(t)
	for i, step := range steps {
		if i+1 < len(steps) && as(step, inputNode) && as(steps[i+1], graph.Start) {
			continue // LangGraph's clients give an input twice: that is where it is taken in
		}
		for _, u := range step.Updates {
			if err := s.states.edit(ctx, g, t.ID, u.Values, u.Command, u.AsNode, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// as reports whether a superstep is one update, as that node.
func as(step superstep, node string) bool {
	return len(step.Updates) == 1 && step.Updates[0].AsNode == node
}

func (s *threads) getThread(w http.ResponseWriter, r *http.Request, t *db.Thread) (any, error) {
	return s.view(r.Context(), t, true)
}

func (s *threads) patchThread(w http.ResponseWriter, r *http.Request, b *threadBody) (any, error) {
	id, err := pathThread(r)
	if err != nil {
		return nil, err
	}
	var mine Filter
	if b.Metadata, mine, err = s.access.stamp(r.Context(), &Action{Resource: Threads, Verb: Update, ID: id}, b.Metadata); err != nil {
		return nil, err
	}
	t, err := s.db.UpdateThread(r.Context(), id, func(t *db.Thread) error {
		if !mine.allows(t.Metadata) {
			return db.ErrNotFound
		}
		merged := objectOf(t.Metadata).with(b.Metadata)
		t.Metadata = merged.raw()
		if err := errors.Join(s.checkMetadata(merged), within(mine, t.Metadata)); err != nil {
			return err
		}
		if t.UpdatedAt = now(); !t.UpdatedAt.After(t.ChangedAt) { // canBegin tells them apart
			t.UpdatedAt = t.ChangedAt.Add(time.Millisecond)
		}
		b.TTL.apply(t, t.UpdatedAt)
		return nil
	})
	if err != nil {
		if errors.Is(err, db.ErrNotFound) {
			err = noThread(id)
		}
		return nil, err
	}
	if r.Header.Get("Prefer") == "return=minimal" {
		return noContent, nil
	}
	return s.view(r.Context(), t, true)
}

func (s *threads) deleteThread(w http.ResponseWriter, r *http.Request, t *db.Thread) (any, error) {
	return noContent, unlessGone(s.removeThread(background(r), t.ID))
}

// addThread makes a thread. What was told of another one of its ID isn't told of it.
func (s *base) addThread(ctx context.Context, t *db.Thread) error {
	since := time.Now()
	err := s.db.AddThread(ctx, t)
	if err == nil {
		s.feeds.renew(t.ID, since)
	}
	return err
}

// removeThread stops what runs on a thread, and removes it with all it has. For
// others it is gone at once.
func (s *threads) removeThread(ctx context.Context, id string) error {
	until, err := s.db.RemoveThread(ctx, id, now(), time.Time{})
	if err != nil {
		return err
	}
	return s.eraseThread(ctx, id, until, false)
}

// eraseThread removes a thread that is this server's to remove until some time. If told
// is set, what was told of it stays for those who read it.
func (s *threads) eraseThread(ctx context.Context, id string, until time.Time, told bool) error {
	if err := s.dispatcher.cancelAll(ctx, id, stopRemoved); err != nil {
		return err
	}
	if time.Until(until) < db.RemoveWithin/2 {
		if _, err := s.db.RemoveThread(ctx, id, now(), until); err != nil {
			return err // that took long, and somebody else is at it
		}
	}
	if head, _ := s.head(ctx, id); head != nil && head.Caller != "" && s.graphs[head.Graph] != nil {
		// A thread waits for its end: it is told. What is left goes below.
		_ = s.graphs[head.Graph].Thread(id, graph.WithCheckpointer(s.store), graph.WhenBusy(graph.BusyInterrupt)).Delete(ctx)
	}
	if err := s.store.Delete(ctx, checkpoint.ThreadID(id)); err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		return err
	}
	if !told {
		if err := s.feeds.forget(ctx, id); err != nil {
			return err
		}
	}
	return s.db.DeleteThread(ctx, id)
}

func (s *threads) removeExpired(ctx context.Context) error {
	ids, err := s.db.ExpiredThreads(ctx, time.Now(), 100)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := unlessGone(s.removeThread(ctx, id)); err != nil {
			return err
		}
	}
	return nil
}

type threadSearch struct {
	searching
	IDs     []string          `json:"ids"`
	Status  string            `json:"status"`
	Values  object            `json:"values"`
	Query   string            `json:"query"`
	Extract map[string]string `json:"extract"`
	Due     *time.Time        `json:"due_before"`

	due map[string]time.Time // by thread, of those that were due by then
}

func (s *threads) findThreads(r *http.Request, q *threadSearch) (*found, error) {
	p, by, err := s.checkSearch(&q.searching, threadMembers, "thread_id", "status", "created_at", "updated_at", "state_updated_at")
	if err = errors.Join(err, oneOf("status", q.Status, db.Idle, db.Busy, db.Interrupted, db.Failed)); err != nil {
		return nil, err
	}
	said := strings.Fields(q.Query)
	if len(said) > 20 {
		return nil, invalid("query has %d words, of at most 20", len(said))
	}
	if err := errors.Join(checkName("query", q.Query), s.checkFilter("values", q.Values), s.checkList("ids", len(q.IDs))); err != nil {
		return nil, err
	}
	mine, err := s.access.ask(r.Context(), &Action{Resource: Threads, Verb: Search})
	if err != nil {
		return nil, err
	}
	// Other texts are the ID of no thread.
	q.IDs = slices.DeleteFunc(q.IDs, func(id string) bool { given, err := threadID(id); return err != nil || given != id })
	f := db.ThreadFilter{Graph: textOf(q.Metadata["graph_id"]), Assistant: textOf(q.Metadata["assistant_id"]), Status: q.Status, Owner: mine.owner(), Labels: db.Labels(q.Metadata.raw()), Words: said}
	if q.Due != nil {
		if q.due, err = s.overdue(r.Context(), *q.Due); err != nil {
			return nil, err
		}
		if q.IDs == nil {
			q.IDs = slices.Collect(maps.Keys(q.due))
		}
		q.IDs = slices.DeleteFunc(append([]string{}, q.IDs...), func(id string) bool { _, ok := q.due[id]; return !ok })
	}
	if len(q.IDs) <= maxPage { // databases limit what a statement may ask for
		f.IDs = q.IDs
	}
	b := s.budget(r)
	match, values := matching(q.Metadata, b), matching(q.Values, b)
	list, total, err := s.db.Threads(b.ctx, f, by, p, func(t *db.Thread) bool {
		if b.ctx.Err() != nil || t.Temporary || q.IDs != nil && !slices.Contains(q.IDs, t.ID) || !mine.allows(t.Metadata) || !match(t.Metadata) {
			return false
		}
		if len(q.Values) == 0 {
			return true
		}
		v, err := s.view(b.ctx, t, true)
		if err != nil {
			b.stop(err)
			return false
		}
		return b.spend(len(v.Values)) == nil && values(v.Values)
	})
	return &found{p, len(list), total, func() (any, error) { return s.shown(q, list, b) }}, b.or(err)
}

// overdue returns when threads were due that are so since a time and that no run has taken:
// the longest ones.
func (s *threads) overdue(ctx context.Context, before time.Time) (map[string]time.Time, error) {
	sched, ok := s.store.(checkpoint.Scheduler)
	if !ok {
		return nil, &fault{http.StatusNotImplemented, "The server's store can't list which threads are due"}
	}
	due := map[string]time.Time{}
	for w, err := range sched.Due(ctx, before, maxPage) {
		if err != nil {
			return nil, err
		}
		due[string(w.Thread)] = w.Due
	}
	taken, err := s.db.OpenAmong(ctx, slices.Collect(maps.Keys(due)))
	for _, thread := range taken {
		delete(due, thread)
	}
	return due, err
}

// shown shows threads as a search asks for them.
func (s *threads) shown(q *threadSearch, found []*db.Thread, b *budget) (any, error) {
	wanted, err := parsePaths(q.Extract)
	if err != nil {
		return nil, err
	}
	titles := slices.Contains(q.Select, "title")
	whole := len(q.Select) == 0 || slices.Contains(q.Select, "values") || slices.Contains(q.Select, "interrupts") || len(q.Extract) > 0
	views := make([]*threadView, len(found))
	for i, t := range found {
		if views[i], err = s.view(b.ctx, t, whole || titles && t.Title == nil); err == nil {
			views[i].Due = instant(q.due[t.ID])
			err = b.spend(len(views[i].Values))
		}
		if err == nil && len(wanted) > 0 {
			views[i].Extracted, err = wanted.extract(views[i], b)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(q.Select) > 0 && len(q.Extract) > 0 {
		q.Select = append(q.Select, "extracted")
	}
	return selected(views, q.Select)
}

type pruneBody struct {
	ThreadIDs []string `json:"thread_ids"`
	Strategy  string   `json:"strategy"`
}

func (s *threads) pruneThreads(w http.ResponseWriter, r *http.Request, b *pruneBody) (any, error) {
	if err := errors.Join(oneOf("strategy", b.Strategy, "delete", "keep_latest"), s.checkList("thread_ids", len(b.ThreadIDs))); err != nil {
		return nil, err
	}
	mine, err := s.access.ask(r.Context(), &Action{Resource: Threads, Verb: Delete})
	if err != nil {
		return nil, err
	}
	pruned := 0
	for _, id := range b.ThreadIDs {
		id, err := threadID(id)
		if err != nil {
			return nil, err
		}
		t, err := s.db.Thread(r.Context(), id)
		if errors.Is(err, db.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !mine.allows(t.Metadata) {
			continue
		}
		note(r.Context(), "thread", id)
		if b.Strategy == "keep_latest" {
			g := s.graphOf(t)
			if g == nil {
				continue
			}
			_, err = s.on(g, id).Prune(r.Context(), graph.Keep{Last: 1})
		} else {
			err = s.removeThread(r.Context(), id)
		}
		if _, unfit := misfit(err); unfit {
			continue
		}
		if err != nil && !errors.Is(err, db.ErrNotFound) && !errors.Is(err, checkpoint.ErrNotFound) {
			return nil, err
		}
		pruned++
	}
	return map[string]int{"pruned_count": pruned}, nil
}

func (s *threads) copyThread(w http.ResponseWriter, r *http.Request, t *db.Thread) (any, error) {
	id := uuid.Must(uuid.NewV7()).String()
	if err := s.access.askThread(r.Context(), &Action{Resource: Threads, Verb: Read, ID: t.ID}, t, nil); err != nil {
		return nil, err
	}
	metadata, _, err := s.access.stampNew(r.Context(), &Action{Resource: Threads, Verb: Create, ID: id}, objectOf(t.Metadata).with(object{"thread_id": jsonText(id)}))
	if err != nil {
		return nil, err
	}
	made := s.newThread(id, metadata, false)
	if t.TTL > 0 {
		ttl := ttl{minutes: t.TTL, set: true}
		ttl.apply(made, made.CreatedAt)
	}
	note(r.Context(), "thread", id)
	made.Config, made.Error, made.Title = t.Config, t.Error, t.Title
	if t.Status != db.Busy {
		made.Status = t.Status
	}
	if err := s.addThread(r.Context(), made); err != nil {
		return nil, err
	}
	if g := s.graphOf(t); g != nil {
		err := s.on(g, t.ID).Copy(r.Context(), id)
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			return nil, errors.Join(err, s.removeThread(background(r), id))
		}
		if err := s.noteSaid(r.Context(), g, made.ID); err != nil {
			return nil, err
		}
	}
	return s.view(r.Context(), made, true)
}

// noteSaid notes what the state of a thread says that got it from another.
func (s *threads) noteSaid(ctx context.Context, g *served, id string) error {
	snap, err := s.on(g, id).State(ctx)
	if errors.Is(err, checkpoint.ErrNotFound) || s.unreadable(ctx, &db.Thread{ID: id}, err) != nil {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = s.db.UpdateThread(ctx, id, func(t *db.Thread) error {
		settledSaying(g, snap, func(*db.Thread) {})(t)
		return nil
	})
	return err
}
