package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// runFilter selects runs of all threads that a user sees.
type runFilter struct {
	Status        []string   `json:"status"`
	AssistantID   string     `json:"assistant_id"`
	GraphID       string     `json:"graph_id"`
	ThreadID      string     `json:"thread_id"`
	UserID        string     `json:"user_id"`
	Error         string     `json:"error"`
	CreatedAfter  *time.Time `json:"created_after"`
	CreatedBefore *time.Time `json:"created_before"`
	MinTokens     int64      `json:"min_tokens"`
	MinCost       float64    `json:"min_cost"`
}

type runSearch struct {
	runFilter
	Limit  *int     `json:"limit"`
	Cursor string   `json:"cursor"`
	Select []string `json:"select"`
}

type runFigures struct {
	runFilter
	Bucket float64 `json:"bucket_seconds"`
}

// runFound is a run of any thread as a search shows it.
type runFound struct {
	runShown
	GraphID   string       `json:"graph_id,omitempty"`
	UserID    string       `json:"user_id,omitempty"`
	StartedAt instant      `json:"run_started_at,omitzero"`
	EndedAt   instant      `json:"run_ended_at,omitzero"`
	Error     *db.RunError `json:"error,omitempty"`
	Usage     *db.Usage    `json:"usage,omitempty"`
	Cost      *float64     `json:"cost,omitempty"`
}

// figuresShown are what the runs of a time came to.
type figuresShown struct {
	From   instant  `json:"from"`
	Runs   int      `json:"runs"`
	Errors int      `json:"errors"`
	P50    *float64 `json:"p50"`
	P95    *float64 `json:"p95"`
	Input  *int64   `json:"input_tokens"`
	Output *int64   `json:"output_tokens"`
	Cost   *float64 `json:"cost"`
}

var runStatuses = []string{db.Pending, db.Running, db.Success, db.Failed, db.Timeout, db.Interrupted}

// filter returns what the database is asked for, and which threads the user sees.
func (s *runs) filter(ctx context.Context, q *runFilter) (f db.RunFilter, mine Filter, err error) {
	for _, status := range q.Status {
		if status == "" {
			return f, mine, invalid("status must have no empty text")
		}
		if err := oneOf("status", status, runStatuses...); err != nil {
			return f, mine, err
		}
	}
	if q.ThreadID, err = threadID(q.ThreadID); err != nil {
		return f, mine, err
	}
	if _, ok := s.graphs[q.AssistantID]; ok {
		q.AssistantID = assistantOfGraph(q.AssistantID)
	}
	err = errors.Join(s.checkList("status", len(q.Status)), checkName("assistant_id", q.AssistantID), checkName("graph_id", q.GraphID), checkName("user_id", q.UserID), checkName("error", q.Error))
	if err != nil {
		return f, mine, err
	}
	if q.MinTokens < 0 || q.MinCost < 0 {
		return f, mine, invalid("min_tokens and min_cost must not be negative")
	}
	mine, err = s.access.ask(ctx, &Action{Resource: Runs, Verb: Search, ID: q.ThreadID})
	f = db.RunFilter{Statuses: q.Status, Graph: q.GraphID, Assistant: q.AssistantID, User: q.UserID, Thread: q.ThreadID, Error: q.Error, ThreadOwner: mine.owner(), MinTokens: q.MinTokens, MinCost: q.MinCost}
	if q.CreatedAfter != nil {
		f.From = *q.CreatedAfter
	}
	if q.CreatedBefore != nil {
		f.Until = *q.CreatedBefore
	}
	return f, mine, err
}

func (s *runs) searchRuns(w http.ResponseWriter, r *http.Request, q *runSearch) (any, error) {
	p, err := paging{Limit: q.Limit}.page(10)
	if err != nil {
		return nil, err
	}
	if err := checkSelect(q.Select, foundMembers); err != nil {
		return nil, err
	}
	f, mine, err := s.filter(r.Context(), &q.runFilter)
	if err != nil {
		return nil, err
	}
	found, next, err := s.db.FindRuns(r.Context(), f, q.Cursor, p.Limit, func(t *db.Thread) bool { return mine.allows(t.Metadata) })
	if errors.Is(err, db.ErrCursor) {
		return nil, invalid("cursor must be what the header X-Pagination-Next of an answer said")
	}
	if err != nil {
		return nil, err
	}
	if next != "" {
		w.Header().Set("X-Pagination-Next", next)
	}
	out := make([]runFound, len(found))
	for i, run := range found {
		out[i] = runFound{runView(run), textOf(objectOf(run.Metadata)["graph_id"]), run.Owner, instant(run.StartedAt), instant(run.EndedAt), run.Error, run.Usage, run.Cost}
	}
	return selected(out, q.Select)
}

func (s *runs) showFigures(w http.ResponseWriter, r *http.Request, q *runFigures) (any, error) {
	if !(q.Bucket >= 0.001 && q.Bucket <= 1e9) {
		return nil, invalid("bucket_seconds must be between 0.001 and 1e9")
	}
	f, mine, err := s.filter(r.Context(), &q.runFilter)
	if err != nil {
		return nil, err
	}
	var accepts func(*db.Thread) bool
	if !mine.all() {
		accepts = func(t *db.Thread) bool { return mine.allows(t.Metadata) }
	}
	figures, err := s.db.RunFigures(r.Context(), f, time.Duration(q.Bucket*float64(time.Second)), maxPage, accepts)
	if errors.Is(err, db.ErrTooFine) {
		return nil, invalid("bucket_seconds is too small: there are more than %d buckets with runs", maxPage)
	}
	if err != nil {
		return nil, err
	}
	seconds := func(d time.Duration) *float64 {
		if d < 0 {
			return nil
		}
		return new(d.Seconds())
	}
	out := make([]figuresShown, len(figures))
	for i, f := range figures {
		out[i] = figuresShown{instant(f.From), f.Runs, f.Failed, seconds(f.P50), seconds(f.P95), f.Input, f.Output, f.Cost}
	}
	return out, nil
}
