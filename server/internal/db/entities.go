package db

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint/postgres"
)

// Assistant is a graph with a configuration, as clients see it.
type Assistant struct {
	ID          string          `json:"assistant_id"`
	GraphID     string          `json:"graph_id"`
	Config      json.RawMessage `json:"config"`
	Context     json.RawMessage `json:"context"`
	Metadata    json.RawMessage `json:"metadata"`
	CreatedAt   time.Time       `json:"created_at"`
	UpdatedAt   time.Time       `json:"updated_at"`
	Version     int64           `json:"version"`
	Name        string          `json:"name"`
	Description *string         `json:"description"`
}

// PutAssistant stores a new assistant, or a new version of one, which becomes the
// latest. A version that is there already is ErrExists.
func (d *DB) PutAssistant(ctx context.Context, a *Assistant) error {
	data, err := encode(a)
	if err != nil {
		return err
	}
	return d.tx(ctx, func(tx execer) error {
		n, err := d.exec(ctx, tx, `INSERT INTO @superstep_assistant_versions (id, version, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, a.ID, a.Version, data)
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrExists
		}
		return d.latest(ctx, tx, a, data)
	})
}

func (d *DB) latest(ctx context.Context, e execer, a *Assistant, data string) error {
	_, err := d.exec(ctx, e, `INSERT INTO @superstep_assistants (id, graph, version, created, updated, data) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET graph = excluded.graph, version = excluded.version, updated = excluded.updated, data = excluded.data`,
		a.ID, a.GraphID, a.Version, a.CreatedAt.UnixMicro(), a.UpdatedAt.UnixMicro(), data)
	return err
}

// Assistant returns the latest version of an assistant.
func (d *DB) Assistant(ctx context.Context, id string) (*Assistant, error) {
	return one[Assistant](ctx, d, d.reads, `SELECT data FROM @superstep_assistants WHERE id = ?`, id)
}

// NewestVersion returns the highest version of an assistant, whichever is its
// latest.
func (d *DB) NewestVersion(ctx context.Context, id string) (int64, error) {
	return value[int64](ctx, d, d.reads, `SELECT coalesce(max(version), 0) FROM @superstep_assistant_versions WHERE id = ?`, id)
}

// SetLatest makes a version that exists the latest.
func (d *DB) SetLatest(ctx context.Context, id string, version int64, now time.Time) (*Assistant, error) {
	var out *Assistant
	err := d.tx(ctx, func(tx execer) error {
		a, err := one[Assistant](ctx, d, tx, `SELECT data FROM @superstep_assistant_versions WHERE id = ? AND version = ?`, id, version)
		if err != nil {
			return err
		}
		a.UpdatedAt = now
		data, err := encode(a)
		if err != nil {
			return err
		}
		out = a
		return d.latest(ctx, tx, a, data)
	})
	return out, err
}

// Assistants returns assistants, newest first unless the page says otherwise.
// An empty graph means all. By is created, updated, assistant_id, graph_id or name.
func (d *DB) Assistants(ctx context.Context, graph, by string, p Page, accepts func(*Assistant) bool) ([]*Assistant, int, error) {
	query, args := equal(`SELECT data FROM @superstep_assistants WHERE 1 = 1`, nil, "graph", graph)
	if by == "name" {
		return ranked(ctx, d, p, accepts, func(a, b *Assistant) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
		}, query, args...)
	}
	return search(ctx, d, p, accepts, query+order(p, by, map[string]string{"assistant_id": "id", "graph_id": "graph"}), args...)
}

// equal adds to a query that columns have values: pairs of the two, of which those of an
// empty value say nothing.
func equal(query string, args []any, pairs ...string) (string, []any) {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			query, args = query+` AND `+pair[0]+` = ?`, append(args, pair[1])
		}
	}
	return query, args
}

// order writes ORDER BY for a table that has the columns id, created and updated,
// and others by the names that clients have for them. What is alike in a column is
// in the order of the IDs: pages don't overlap.
func order(p Page, by string, others map[string]string) string {
	column := "created"
	if by == "updated" {
		column = by
	} else if other := others[by]; other != "" {
		column = other
	}
	return ` ORDER BY ` + column + ` ` + direction(p) + `, id ` + direction(p)
}

// Versions returns the versions of an assistant, highest first.
func (d *DB) Versions(ctx context.Context, id string, p Page, accepts func(*Assistant) bool) ([]*Assistant, error) {
	p.uncounted = true
	found, _, err := search(ctx, d, p, accepts, `SELECT data FROM @superstep_assistant_versions WHERE id = ? ORDER BY version DESC`, id)
	return found, err
}

// DeleteAssistant removes an assistant with its versions.
func (d *DB) DeleteAssistant(ctx context.Context, id string) error {
	return d.tx(ctx, func(tx execer) error {
		if _, err := d.exec(ctx, tx, `DELETE FROM @superstep_assistant_versions WHERE id = ?`, id); err != nil {
			return err
		}
		return d.remove(ctx, tx, `DELETE FROM @superstep_assistants WHERE id = ?`, id)
	})
}

// The statuses of threads and runs.
const (
	Idle        = "idle"
	Busy        = "busy"
	Interrupted = "interrupted"
	Failed      = "error"

	// removed is a thread that is being removed. It counts as gone but for the runs
	// that end with it, and its ID isn't free yet.
	removed = "removed"

	Pending = "pending"
	Running = "running"
	Success = "success"
	Timeout = "timeout"
)

// Thread is what is known of a thread beside its checkpoints.
type Thread struct {
	ID        string          `json:"thread_id"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
	Metadata  json.RawMessage `json:"metadata"`
	Config    json.RawMessage `json:"config"`
	Status    string          `json:"status"`
	Error     json.RawMessage `json:"error,omitempty"`

	// ChangedAt is when its state changed last.
	ChangedAt time.Time `json:"state_updated_at,omitzero"`

	// ExpiresAt is when the thread is deleted; zero: never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	TTL       float64   `json:"ttl_minutes,omitempty"`

	// RolledBack are runs whose checkpoints are not to be seen.
	RolledBack []string `json:"rolled_back,omitempty"`

	// Temporary says that the thread was made for one run.
	Temporary bool `json:"temporary,omitempty"`

	// Labels are those that a search finds it by.
	Labels []string `json:"labels,omitempty"`

	// Title is what its state gives it as a title, nil if that was never noted.
	Title *string `json:"title,omitempty"`

	// Says is what its state says, for searches; nil leaves it as it is stored.
	Says *string `json:"-"`
}

// Titled returns the title that the metadata give the thread, or else its state.
func (t *Thread) Titled() string {
	var m struct {
		Title any `json:"title"`
	}
	_ = json.Unmarshal(t.Metadata, &m)
	if title, _ := m.Title.(string); title != "" || t.Title == nil {
		return title
	}
	return *t.Title
}

// folded returns the title as searches know it.
func (t *Thread) folded() string { return fold(t.Titled(), maxError) }

// says returns what searches know of the state; nil leaves it as it is.
func (t *Thread) says() any {
	if t.Says == nil {
		return nil
	}
	return fold(*t.Says, len(*t.Says))
}

// fold returns the beginning of a text in small letters.
func fold(text string, most int) string {
	text = strings.ReplaceAll(strings.ToLower(text), "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// labels returns what of a thread's metadata has columns.
func (t *Thread) labels() (graph, assistant, owner string) {
	var m struct {
		Graph     any `json:"graph_id"`
		Assistant any `json:"assistant_id"`
		Owner     any `json:"owner"`
	}
	_ = json.Unmarshal(t.Metadata, &m)
	graph, _ = m.Graph.(string)
	assistant, _ = m.Assistant.(string)
	owner, _ = m.Owner.(string)
	return graph, assistant, owner
}

// AddThread stores a new thread. It returns ErrExists if there is one of the ID.
func (d *DB) AddThread(ctx context.Context, t *Thread) error {
	return d.tx(ctx, func(tx execer) error { return d.addThread(ctx, tx, t) })
}

func (d *DB) addThread(ctx context.Context, e execer, t *Thread) error {
	t.relabel()
	data, err := encode(t)
	if err != nil {
		return err
	}
	g, a, o := t.labels()
	n, err := d.exec(ctx, e, `INSERT INTO @superstep_server_threads (id, graph, assistant, owner, status, created, updated, expires, data, title, says)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		t.ID, g, a, o, t.Status, t.CreatedAt.UnixMicro(), t.UpdatedAt.UnixMicro(), micros(t.ExpiresAt), data, t.folded(), t.says())
	if err == nil && n == 0 {
		return ErrExists
	}
	if err != nil {
		return err
	}
	// What was told of another thread of that ID isn't told of this one, which may be
	// followed already.
	if err := d.endFeed(ctx, e, t.ID, ` AND next > first`); err != nil || len(t.Labels) == 0 {
		return err
	}
	return d.putLabels(ctx, e, t)
}

// Thread returns a thread.
func (d *DB) Thread(ctx context.Context, id string) (*Thread, error) {
	return d.present(ctx, d.reads, id, "")
}

// present reads a thread that isn't being removed.
func (d *DB) present(ctx context.Context, e execer, id, lock string) (*Thread, error) {
	t, err := one[Thread](ctx, d, e, `SELECT data FROM @superstep_server_threads WHERE id = ?`+lock, id)
	if err == nil && t.Status == removed {
		return nil, ErrNotFound
	}
	return t, err
}

// UpdateThread changes a thread.
func (d *DB) UpdateThread(ctx context.Context, id string, change func(*Thread) error) (*Thread, error) {
	var out *Thread
	err := d.tx(ctx, func(tx execer) (err error) {
		out, err = d.present(ctx, tx, id, d.forUpdate())
		if err != nil {
			return err
		}
		had := out.owner()
		if err := change(out); err != nil {
			return err
		}
		if has := out.owner(); has != had {
			if _, err := d.exec(ctx, tx, `UPDATE @superstep_runs SET thread_owner = ? WHERE thread = ?`, has, id); err != nil {
				return err
			}
		}
		return d.putThread(ctx, tx, out)
	})
	return out, err
}

func (d *DB) putThread(ctx context.Context, e execer, t *Thread) error {
	changed := t.relabel()
	data, err := encode(t)
	if err != nil {
		return err
	}
	g, a, o := t.labels()
	_, err = d.exec(ctx, e, `UPDATE @superstep_server_threads SET graph = ?, assistant = ?, owner = ?, status = ?, updated = ?, expires = ?, data = ?, title = ?, says = coalesce(?, says) WHERE id = ?`,
		g, a, o, t.Status, t.UpdatedAt.UnixMicro(), micros(t.ExpiresAt), data, t.folded(), t.says(), t.ID)
	if err != nil || !changed {
		return err
	}
	return d.putLabels(ctx, e, t)
}

// forUpdate locks the rows read where transactions don't take turns anyway.
func (d *DB) forUpdate() string {
	if d.pg == nil {
		return ""
	}
	return " FOR UPDATE"
}

// ThreadFilter selects threads: empty fields select all. An Owner selects some
// that are not the owner's as well: those whose owner is no text, but a list.
type ThreadFilter struct {
	Graph, Assistant, Status, Owner string
	IDs                             []string // nil for all

	// Labels are of what the metadata have, see [Labels]. Some threads that don't have
	// it are selected as well.
	Labels []string

	// Words are parts of the title, of what the state says, of the graph's name or, if
	// they are 8 bytes or longer, of the ID, in any case: all of them.
	Words []string
}

// Threads returns threads, newest first unless the page says otherwise. By is
// created, updated, state_updated, status or thread_id.
func (d *DB) Threads(ctx context.Context, f ThreadFilter, by string, p Page, accepts func(*Thread) bool) ([]*Thread, int, error) {
	query, args := equal(`SELECT data FROM @superstep_server_threads WHERE status <> ?`, []any{removed}, "graph", f.Graph, "assistant", f.Assistant, "status", f.Status)
	if f.Owner != "" {
		query += ` AND owner IN (?, '')`
		args = append(args, f.Owner)
	}
	if f.IDs != nil {
		ids := padded(append(slices.Clone(f.IDs), ``))
		query += ` AND id IN (?` + strings.Repeat(`, ?`, len(ids)-1) + `)`
		args = append(args, anys(ids)...)
	}
	for _, l := range f.Labels {
		query += ` AND id IN (SELECT thread FROM @superstep_server_labels WHERE label IN (?, ?))`
		args = append(args, l, unknown)
	}
	for _, w := range f.Words {
		query += ` AND (says LIKE ? ESCAPE '\' OR title LIKE ? ESCAPE '\' OR lower(graph) LIKE ? ESCAPE '\'`
		args = append(args, containing(w), containing(w), containing(w))
		if len(w) >= 8 { // what is shorter is in most of them
			query, args = query+` OR id LIKE ? ESCAPE '\'`, append(args, containing(w))
		}
		query += `)`
	}
	if by == "state_updated" {
		return ranked(ctx, d, p, accepts, func(a, b *Thread) int {
			return cmp.Or(a.ChangedAt.Compare(b.ChangedAt), cmp.Compare(a.ID, b.ID))
		}, query, args...)
	}
	return search(ctx, d, p, accepts, query+order(p, by, map[string]string{"thread_id": "id", "status": "status"}), args...)
}

// padded repeats the last of some values until they are 8, 64 and so on: lists in
// statements have few lengths, so that there are few statements.
func padded[T any](list []T) []T {
	size := 8
	for size < len(list) {
		size *= 8
	}
	return append(list, slices.Repeat(list[len(list)-1:], size-len(list))...)
}

// ExpiredThreads returns the IDs of threads whose time is over.
func (d *DB) ExpiredThreads(ctx context.Context, now time.Time, limit int) ([]string, error) {
	return d.texts(ctx, d.reads, `SELECT id FROM @superstep_server_threads WHERE expires <= ? ORDER BY expires LIMIT ?`, now.UnixMicro(), limit)
}

// RemoveWithin is how long who removes a thread has for it, until others try.
const RemoveWithin = time.Minute

// RemoveThread notes that a thread is being removed: from now on it counts as gone,
// and no run is added to it, but its ID isn't free until [DB.DeleteThread]. The
// thread is the caller's to remove for a time; had is what the call before returned,
// if it is to be longer. ErrNotFound says that the thread is gone, or somebody else's
// to remove. If nobody ends it, [DB.ExpiredThreads] finds it.
func (d *DB) RemoveThread(ctx context.Context, id string, now, had time.Time) (until time.Time, err error) {
	err = d.tx(ctx, func(tx execer) error {
		t, err := one[Thread](ctx, d, tx, `SELECT data FROM @superstep_server_threads WHERE id = ?`+d.forUpdate(), id)
		if err != nil {
			return err
		}
		if t.Status == removed && t.ExpiresAt.After(now) && !t.ExpiresAt.Equal(had) {
			return ErrNotFound
		}
		t.remove(now)
		until = t.ExpiresAt
		return d.putThread(ctx, tx, t)
	})
	return until, err
}

func (t *Thread) remove(now time.Time) { t.Status, t.ExpiresAt = removed, now.Add(RemoveWithin) }

// DeleteThread removes a thread that [DB.RemoveThread] was called for, with its runs.
// What they have told is there for those who read it until it is swept, or
// [DB.EndFeed] is called, or another thread of that ID is made.
func (d *DB) DeleteThread(ctx context.Context, id string) error {
	return d.tx(ctx, func(tx execer) error {
		if err := d.remove(ctx, tx, `DELETE FROM @superstep_server_threads WHERE id = ? AND status = ?`, id, removed); err != nil {
			return err
		}
		_, err := d.exec(ctx, tx, `DELETE FROM @superstep_runs WHERE thread = ?`, id)
		return err
	})
}

// Run is a run of an assistant on a thread.
type Run struct {
	ID          string          `json:"run_id"`
	ThreadID    string          `json:"thread_id"`
	AssistantID string          `json:"assistant_id"`
	CreatedAt   time.Time       `json:"created_at"`
	UpdatedAt   time.Time       `json:"updated_at"`
	Status      string          `json:"status"`
	Metadata    json.RawMessage `json:"metadata"`
	Kwargs      json.RawMessage `json:"kwargs"`
	Strategy    string          `json:"multitask_strategy"`

	// Error is why the run failed; it is not shown as part of the run.
	Error *RunError `json:"error,omitempty"`

	// StartsAt is when the run may begin.
	StartsAt time.Time `json:"starts_at,omitzero"`

	// Base is the thread's newest checkpoint before the run, to which a rollback
	// returns. Begun is set when it was noted.
	Base    string `json:"base,omitempty"`
	Begun   bool   `json:"begun,omitempty"`
	Attempt int    `json:"attempt,omitempty"`

	// User is for whom the run works, as the server knows users.
	User json.RawMessage `json:"user,omitempty"`

	StartedAt time.Time `json:"run_started_at,omitzero"`
	EndedAt   time.Time `json:"run_ended_at,omitzero"`

	// Usage is what the models used that the run called, and Cost what that cost; nil: it
	// isn't known.
	Usage *Usage   `json:"usage,omitempty"`
	Cost  *float64 `json:"cost,omitempty"`

	// Holder is the instance that runs it, where AddRun, Run and OpenRuns say so.
	Holder string `json:"-"`

	// Owner is the ID of the user who started it, where FindRuns says so.
	Owner string `json:"-"`
}

// Usage counts the tokens of calls of models: it is chat.Usage, as clients see it.
type Usage struct {
	Input      int `json:"input_tokens"`
	Output     int `json:"output_tokens"`
	CacheRead  int `json:"cache_read_tokens"`
	CacheWrite int `json:"cache_write_tokens"`
	Reasoning  int `json:"reasoning_tokens"`
}

// Ended reports whether the run is over.
func (r *Run) Ended() bool { return r.Status != Pending && r.Status != Running }

// RunError says why a run failed.
type RunError struct {
	Error   string `json:"error"`
	Message string `json:"message"`
}

// ErrBusy says that a thread has a run that has not ended.
var ErrBusy = errors.New("thread has a run that has not ended")

// RunLimit is how many runs that have not ended there may be, in all and of one
// owner. Negative numbers are no limit.
type RunLimit struct {
	All     int
	Owner   string
	OfOwner int
}

// ErrTooMany says that a limit of runs is reached.
var ErrTooMany = errors.New("too many runs have not ended")

// NewRun is a run to be added.
type NewRun struct {
	*Run
	Made  *Thread // made for it, with it; nil if its thread is there
	Alone bool    // the thread must have no run that has not ended
	Limit RunLimit

	// Change, if it isn't nil, changes the thread; it may add to the run.
	Change func(*Thread) error

	// Begin, if it isn't nil, has the run begin with this, unless its thread has others that
	// have not ended: it is stored as one that works, with what Begin changes, as
	// [DB.BeginRun] would note it afterwards.
	Begin func(*Run, *Thread)
}

// AddRun stores a new run and makes its thread busy. It returns ErrExists if the thread
// was to be made and is there, ErrBusy if the run isn't alone and is to be, and
// ErrTooMany over the limit. (In PostgreSQL, runs that are added at the same moment may
// exceed it by as many as there are connections.)
func (d *DB) AddRun(ctx context.Context, r NewRun) error {
	return d.tx(ctx, func(tx execer) error { return d.addRun(ctx, tx, r) })
}

func (d *DB) addRun(ctx context.Context, tx execer, r NewRun) (err error) {
	t := r.Made
	if t == nil {
		// The thread's row is what two requests meet at.
		if t, err = d.present(ctx, tx, r.ThreadID, d.forUpdate()); err != nil {
			return err
		}
	}
	open := false
	if r.Made == nil && (r.Alone || r.Begin != nil) {
		if open, err = d.anyOpen(ctx, tx, r.ThreadID); err != nil {
			return err
		}
		if open && r.Alone {
			return ErrBusy
		}
	}
	if err := d.room(ctx, tx, r.Limit); err != nil {
		return err
	}
	if r.Change != nil {
		if err := r.Change(t); err != nil {
			return err
		}
	}
	if r.Begin != nil && !open {
		r.Status = Running
		r.Begin(r.Run, t)
	}
	t.Status, t.UpdatedAt = Busy, r.CreatedAt
	put := d.putThread
	if r.Made != nil {
		put = d.addThread
	}
	if err := put(ctx, tx, t); err != nil {
		return err
	}
	data, err := encode(r.Run)
	if err != nil {
		return err
	}
	// The runs of a thread take turns in the order in which they were added,
	// whatever the clocks of the instances say.
	graph, _, _ := t.labels()
	_, err = d.exec(ctx, tx, `INSERT INTO @superstep_runs (id, thread, assistant, status, created, updated, starts, began, holder, owner, graph, thread_owner, data)
		SELECT ?, CAST(? AS text), ?, ?, CASE WHEN coalesce(max(created), 0) < CAST(? AS bigint) THEN ? ELSE max(created) + 1 END, ?, ?, CAST(? AS bigint), ?, ?, ?, ?, ? FROM @superstep_runs WHERE thread = ?`,
		r.ID, r.ThreadID, r.AssistantID, r.Status, r.CreatedAt.UnixMicro(), r.CreatedAt.UnixMicro(), r.UpdatedAt.UnixMicro(), r.StartsAt.UnixMicro(), micros(r.StartedAt), r.Holder, r.Limit.Owner, graph, t.owner(), data, r.ThreadID)
	return err
}

// room returns ErrTooMany if there may be no more runs.
func (d *DB) room(ctx context.Context, tx execer, limit RunLimit) error {
	count := func(most int, where string, args ...any) error {
		if most < 0 {
			return nil
		}
		open, err := value[int](ctx, d, tx, `SELECT count(*) FROM @superstep_runs WHERE status IN ('pending', 'running')`+where, args...)
		if err == nil && open >= most {
			err = fmt.Errorf("%w: %d, of at most %d", ErrTooMany, open, most)
		}
		return err
	}
	return errors.Join(count(limit.All, ``), count(limit.OfOwner, ` AND owner = ?`, limit.Owner))
}

// Run returns a run.
func (d *DB) Run(ctx context.Context, id string) (*Run, error) {
	return d.held(ctx, d.reads, id, "", "")
}

// ErrTaken says that another instance has taken a run over.
var ErrTaken = errors.New("another instance has taken the run over")

// UpdateRun changes a run. If a holder is given and isn't the run's any more, it
// returns ErrTaken.
func (d *DB) UpdateRun(ctx context.Context, id, holder string, change func(*Run) error) (*Run, error) {
	var out *Run
	err := d.tx(ctx, func(tx execer) (err error) {
		if out, err = d.held(ctx, tx, id, holder, d.forUpdate()); err != nil {
			return err
		}
		if err := change(out); err != nil {
			return err
		}
		return d.putRun(ctx, tx, out)
	})
	return out, err
}

// BeginRun notes that a run of a holder works. Only one run of a thread may: if
// another one does it returns ErrBusy, and ErrEnded if the run is over. Change is
// given what the run was asked to stop with, as [DB.Stop] noted, also if another works. It
// returns the run and
// its thread, which may be about to be removed: then it is nil.
func (d *DB) BeginRun(ctx context.Context, id, thread, holder string, change func(r *Run, stop int)) (*Run, *Thread, error) {
	out, t := new(Run), new(Thread)
	err := d.tx(ctx, func(tx execer) error {
		stop, err := d.both(ctx, tx, id, thread, holder, t, out)
		if err != nil {
			return err
		}
		if out.Ended() {
			return ErrEnded
		}
		out.Status = Running
		change(out, stop)
		n, err := d.putRunIf(ctx, tx, out, ` AND NOT EXISTS (SELECT 1 FROM @superstep_runs WHERE `+working+` AND thread = ? AND id <> ?)`, thread, id)
		if err == nil && n == 0 {
			err = ErrBusy
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if t.Status == removed {
		t = nil
	}
	return out, t, nil
}

// ErrEnded says that a run is over.
var ErrEnded = errors.New("the run is over")

func (d *DB) putRun(ctx context.Context, e execer, r *Run) error {
	_, err := d.putRunIf(ctx, e, r, "")
	return err
}

// putRunIf is putRun under a condition. It returns how many rows it changed.
func (d *DB) putRunIf(ctx context.Context, e execer, r *Run, where string, args ...any) (int64, error) {
	data, err := encode(r)
	if err != nil {
		return 0, err
	}
	var in, out, cost any
	if r.Usage != nil {
		in, out = r.Usage.Input, r.Usage.Output
	}
	if r.Cost != nil {
		cost = *r.Cost
	}
	return d.exec(ctx, e, `UPDATE @superstep_runs SET status = ?, updated = ?, error = ?, began = ?, ended = ?, tokens_in = ?, tokens_out = ?, cost = ?, data = ? WHERE id = ?`+where,
		append([]any{r.Status, r.UpdatedAt.UnixMicro(), r.Error.folded(), micros(r.StartedAt), micros(r.EndedAt), in, out, cost, data, r.ID}, args...)...)
}

// both reads a thread and a run of it and locks them, in that order. It checks the run's
// holder, and returns what the run was asked to stop with.
func (d *DB) both(ctx context.Context, tx execer, id, thread, holder string, t *Thread, r *Run) (stop int, err error) {
	var ofThread, ofRun string
	err = tx.QueryRowContext(ctx, d.bind(`SELECT t.data, r.data, r.holder, r.stop FROM @superstep_server_threads t JOIN @superstep_runs r ON r.thread = t.id WHERE t.id = ? AND r.id = ?`+d.forUpdate()), thread, id).
		Scan(&ofThread, &ofRun, &r.Holder, &stop)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, ErrNotFound
	case err != nil:
		return 0, err
	case r.Holder != holder:
		return 0, ErrTaken
	}
	return stop, errors.Join(json.Unmarshal([]byte(ofThread), t), json.Unmarshal([]byte(ofRun), r))
}

// End is what is noted together with the end of a run.
type End struct {
	// Settle notes on the thread what came of the run, if no other run is open. It
	// isn't called for a thread that was made for the run: that one is removed.
	Settle  func(*Thread)
	Now     time.Time
	Waits   bool        // the thread goes on later: one that was made for the run stays
	Webhook *Webhook    // to be called; nil if none is
	Events  []FeedEvent // the last that are told of the run

	// Last, if it isn't nil, has the run's last checkpoint stored in the transaction that it is
	// given, by [postgres.Store.WriteIn].
	Last func(context.Context, postgres.Within) error
}

// FinishRun notes that a run of a holder is over, and all that follows from it: all
// of it or nothing. It returns ErrTaken if another instance holds the run. If the
// thread was made for the run it is the caller's to remove, until the time returned.
// A run that is gone, with its thread or without, is ErrNotFound.
func (d *DB) FinishRun(ctx context.Context, id, thread, holder string, end End, change func(*Run)) (run *Run, remove time.Time, err error) {
	last := end.Last
	if last == nil {
		last = func(ctx context.Context, within postgres.Within) error {
			return within(ctx, func(postgres.Tx) error { return nil })
		}
	}
	err = last(ctx, func(ctx context.Context, store func(postgres.Tx) error) error {
		return d.tx(ctx, func(tx execer) error {
			t := new(Thread)
			run, remove = new(Run), time.Time{}
			if _, err := d.both(ctx, tx, id, thread, holder, t, run); err != nil {
				return err
			}
			if run.Ended() {
				return ErrEnded
			}
			change(run)
			if err := d.putRun(ctx, tx, run); err != nil {
				return err
			}
			alive := t.Status != removed
			if err := d.settle(ctx, tx, t, end); err != nil {
				return err
			}
			if alive && t.Status == removed {
				remove = t.ExpiresAt
			}
			if end.Webhook != nil {
				if err := d.addWebhook(ctx, tx, end.Webhook); err != nil {
					return err
				}
			}
			if _, _, err := d.addFeed(ctx, tx, thread, "", "", true, end.Events); err != nil {
				return err
			}
			return store(tx)
		})
	})
	return run, remove, err
}

// DropRun removes a run of a holder, with what follows from it: all of it or
// nothing.
func (d *DB) DropRun(ctx context.Context, id, thread, holder string, end End) error {
	return d.tx(ctx, func(tx execer) error {
		t := new(Thread)
		if _, err := d.both(ctx, tx, id, thread, holder, t, new(Run)); err != nil {
			return err
		}
		if _, err := d.exec(ctx, tx, `DELETE FROM @superstep_runs WHERE id = ?`, id); err != nil {
			return err
		}
		if err := d.settle(ctx, tx, t, end); err != nil {
			return err
		}
		_, _, err := d.addFeed(ctx, tx, thread, "", "", true, end.Events)
		return err
	})
}

// settle notes on a thread what came of its last run, if that is what it was.
func (d *DB) settle(ctx context.Context, tx execer, t *Thread, end End) error {
	if t.Status == removed {
		return nil
	}
	if t.Temporary && !end.Waits {
		t.remove(end.Now)
		return d.putThread(ctx, tx, t)
	}
	open, err := d.anyOpen(ctx, tx, t.ID)
	if err != nil || open {
		return err
	}
	end.Settle(t)
	return d.putThread(ctx, tx, t)
}

// working is the condition of a run that works, which says as well what the index of runs
// that have not ended says.
const working = `status IN ('pending', 'running') AND status = 'running'`

// Turn is a run that has not ended, as far as it matters for whose turn it is.
type Turn struct {
	ID, Holder string
	Running    bool
	Starts     time.Time
}

// Turns returns the first runs of a thread that have not ended: those that work,
// then those that wait, in their order.
func (d *DB) Turns(ctx context.Context, thread string, limit int) ([]Turn, error) {
	part := func(where string) string {
		return `SELECT * FROM (SELECT id, holder, status, starts, created FROM @superstep_runs WHERE ` + where + ` AND thread = ? ORDER BY created, id LIMIT ?) AS `
	}
	out, err := list(ctx, d, d.reads, func(r *sql.Rows, t *Turn) error {
		var status string
		var starts int64
		err := r.Scan(&t.ID, &t.Holder, &status, &starts)
		t.Running, t.Starts = status == Running, time.UnixMicro(starts)
		return err
	}, `SELECT id, holder, status, starts FROM (`+part(working)+`working UNION ALL `+
		part(`status IN ('pending', 'running') AND status <> 'running'`)+`waiting) AS turns ORDER BY status = 'running' DESC, created, id`, thread, limit, thread, limit)
	return out[:min(len(out), limit)], err
}

// AnyOpen reports whether a thread has runs that have not ended.
func (d *DB) AnyOpen(ctx context.Context, thread string) (bool, error) {
	return d.anyOpen(ctx, d.reads, thread)
}

func (d *DB) anyOpen(ctx context.Context, e execer, thread string) (bool, error) {
	n, err := value[int](ctx, d, e, `SELECT count(*) FROM (SELECT 1 FROM @superstep_runs WHERE status IN ('pending', 'running') AND thread = ? LIMIT 1) AS found`, thread)
	return n > 0, err
}

// OpenAmong returns those of some threads that have runs which have not ended.
func (d *DB) OpenAmong(ctx context.Context, threads []string) ([]string, error) {
	if len(threads) == 0 {
		return nil, nil
	}
	of := padded(slices.Clone(threads))
	return d.texts(ctx, d.reads, `SELECT DISTINCT thread FROM @superstep_runs WHERE status IN ('pending', 'running') AND thread IN (?`+strings.Repeat(`, ?`, len(of)-1)+`)`, anys(of)...)
}

// Holds reports whether an instance holds a run that has not ended.
func (d *DB) Holds(ctx context.Context, id, instance string) (bool, error) {
	n, err := value[int](ctx, d, d.reads, `SELECT count(*) FROM @superstep_runs WHERE id = ? AND holder = ? AND status IN ('pending', 'running')`, id, instance)
	return n > 0, err
}

// held reads a run and locks it, and checks its holder if one is given.
func (d *DB) held(ctx context.Context, e execer, id, holder, lock string) (*Run, error) {
	var data string
	out := new(Run)
	switch err := e.QueryRowContext(ctx, d.bind(`SELECT data, holder FROM @superstep_runs WHERE id = ?`+lock), id).Scan(&data, &out.Holder); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, ErrNotFound
	case err != nil:
		return nil, err
	case holder != "" && out.Holder != holder:
		return nil, ErrTaken
	}
	return out, json.Unmarshal([]byte(data), out)
}

// Runs returns the runs of a thread, newest first unless the page says otherwise.
func (d *DB) Runs(ctx context.Context, thread, status string, p Page) ([]*Run, error) {
	p.uncounted = true
	query, args := equal(`SELECT data FROM @superstep_runs WHERE thread = ?`, []any{thread}, "status", status)
	found, _, err := search[Run](ctx, d, p, nil, query+order(p, "created", nil), args...)
	return found, err
}

// OpenRuns returns the runs that have not ended, oldest first: those of a thread,
// or all of them if it is empty.
func (d *DB) OpenRuns(ctx context.Context, thread string) ([]*Run, error) {
	query, args := equal(`SELECT holder, data FROM @superstep_runs WHERE status IN ('pending', 'running')`, nil, "thread", thread)
	return list(ctx, d, d.reads, func(r *sql.Rows, run **Run) error {
		*run = new(Run)
		var data sql.RawBytes
		if err := r.Scan(&(*run).Holder, &data); err != nil {
			return err
		}
		return json.Unmarshal(data, *run)
	}, query+` ORDER BY created, id`, args...)
}

// DeleteRun removes a run.
func (d *DB) DeleteRun(ctx context.Context, id string) error {
	return d.remove(ctx, d.sql, `DELETE FROM @superstep_runs WHERE id = ?`, id)
}

// RunsOfAssistant returns the runs of an assistant that have not ended.
func (d *DB) RunsOfAssistant(ctx context.Context, assistant string) ([]*Run, error) {
	found, _, err := search[Run](ctx, d, Page{Limit: 1 << 30}, nil, `SELECT data FROM @superstep_runs WHERE assistant = ?`, assistant)
	return found, err
}

// Cron starts runs at times.
type Cron struct {
	ID          string          `json:"cron_id"`
	AssistantID string          `json:"assistant_id"`
	ThreadID    *string         `json:"thread_id"`
	OnCompleted string          `json:"on_run_completed"`
	EndTime     *time.Time      `json:"end_time"`
	Schedule    string          `json:"schedule"`
	Timezone    *string         `json:"timezone"`
	CreatedAt   time.Time       `json:"created_at"`
	UpdatedAt   time.Time       `json:"updated_at"`
	Payload     json.RawMessage `json:"payload"`
	UserID      *string         `json:"user_id"`
	Next        *time.Time      `json:"next_run_date"`
	Metadata    json.RawMessage `json:"metadata"`
	Enabled     bool            `json:"enabled"`

	// User is for whom the runs work, as the server knows users. It is not shown to
	// clients.
	User json.RawMessage `json:"user,omitempty"`
}

// AddCron stores a new cron.
func (d *DB) AddCron(ctx context.Context, c *Cron) error { return d.putCron(ctx, d.sql, c) }

func (d *DB) putCron(ctx context.Context, e execer, c *Cron) error {
	data, err := encode(c)
	if err != nil {
		return err
	}
	var thread, owner string
	if c.ThreadID != nil {
		thread = *c.ThreadID
	}
	if c.UserID != nil {
		owner = *c.UserID
	}
	enabled, next := 0, any(nil)
	if c.Enabled {
		enabled = 1
		if c.Next != nil {
			next = c.Next.UnixMicro()
		}
	}
	_, err = d.exec(ctx, e, `INSERT INTO @superstep_crons (id, owner, assistant, thread, enabled, created, updated, next, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET assistant = excluded.assistant, thread = excluded.thread, enabled = excluded.enabled, updated = excluded.updated, next = excluded.next, data = excluded.data`,
		c.ID, owner, c.AssistantID, thread, enabled, c.CreatedAt.UnixMicro(), c.UpdatedAt.UnixMicro(), next, data)
	return err
}

// Cron returns a cron.
func (d *DB) Cron(ctx context.Context, id string) (*Cron, error) {
	return one[Cron](ctx, d, d.reads, `SELECT data FROM @superstep_crons WHERE id = ?`, id)
}

// UpdateCron changes a cron.
func (d *DB) UpdateCron(ctx context.Context, id string, change func(*Cron) error) (*Cron, error) {
	var out *Cron
	err := d.tx(ctx, func(tx execer) (err error) {
		out, err = d.updateCron(ctx, tx, id, change)
		return err
	})
	return out, err
}

func (d *DB) updateCron(ctx context.Context, tx execer, id string, change func(*Cron) error) (*Cron, error) {
	c, err := one[Cron](ctx, d, tx, `SELECT data FROM @superstep_crons WHERE id = ?`+d.forUpdate(), id)
	if err != nil {
		return nil, err
	}
	if err := change(c); err != nil {
		return nil, err
	}
	return c, d.putCron(ctx, tx, c)
}

// Firing is a cron whose time has come.
type Firing struct {
	Cron string
	Due  time.Time         // the time that has come
	Plan func(*Cron) error // sets when it is due next
}

// ErrFired says that a cron isn't due any more: another instance has fired it, or
// it was changed or removed.
var ErrFired = errors.New("the cron is not due any more")

// FireCron moves a cron on to when it is due next and adds the run that it starts,
// as [DB.AddRun] does: both or neither. However many instances fire a cron at a time, one
// run comes of it; the others get ErrFired.
func (d *DB) FireCron(ctx context.Context, f Firing, r NewRun) error {
	return d.tx(ctx, func(tx execer) error {
		if err := d.moveCron(ctx, tx, f); err != nil {
			return err
		}
		return d.addRun(ctx, tx, r)
	})
}

// SkipCron moves a cron on without a run. It returns ErrFired as [DB.FireCron]
// does.
func (d *DB) SkipCron(ctx context.Context, f Firing) error {
	return d.tx(ctx, func(tx execer) error { return d.moveCron(ctx, tx, f) })
}

func (d *DB) moveCron(ctx context.Context, tx execer, f Firing) error {
	_, err := d.updateCron(ctx, tx, f.Cron, func(c *Cron) error {
		if c.Next == nil || !c.Next.Equal(f.Due) {
			return ErrFired
		}
		return f.Plan(c)
	})
	if errors.Is(err, ErrNotFound) {
		return ErrFired
	}
	return err
}

// DeleteCron removes a cron.
func (d *DB) DeleteCron(ctx context.Context, id string) error {
	return d.remove(ctx, d.sql, `DELETE FROM @superstep_crons WHERE id = ?`, id)
}

// Crons returns crons, newest first unless the page says otherwise. Empty strings
// select all. By is created, updated, cron_id, assistant_id, thread_id or
// next_run_date; those that aren't due any more come after those that are, or
// before them if that is the order of the page.
func (d *DB) Crons(ctx context.Context, assistant, thread, by string, p Page, accepts func(*Cron) bool) ([]*Cron, int, error) {
	query, args := equal(`SELECT data FROM @superstep_crons WHERE 1 = 1`, nil, "assistant", assistant, "thread", thread)
	return search(ctx, d, p, accepts, query+order(p, by, map[string]string{
		"cron_id": "id", "assistant_id": "assistant", "thread_id": "thread", "next_run_date": fmt.Sprintf("coalesce(next, %d)", math.MaxInt64),
	}), args...)
}

// DueCrons returns crons whose time has come, of all users in turns if there are more
// than the limit.
func (d *DB) DueCrons(ctx context.Context, now time.Time, limit int) ([]*Cron, error) {
	ids, err := d.fairly(ctx, d.reads, `@superstep_crons`, `next`, now.UnixMicro(), limit, func(string) int { return limit })
	if err != nil {
		return nil, err
	}
	var out []*Cron
	for _, id := range ids {
		switch c, err := d.Cron(ctx, id); {
		case errors.Is(err, ErrNotFound), err == nil && (c.Next == nil || c.Next.After(now)): // meanwhile, or another instance has fired it
		case err != nil:
			return nil, err
		default:
			out = append(out, c)
		}
	}
	return out, nil
}
