package server

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// Limits of feedback.
const (
	mostFeedback = 1000   // on a thread
	mostComment  = 10_000 // bytes
)

// feedbackShown is feedback as clients see it.
type feedbackShown struct {
	*db.Feedback
	CreatedAt instant `json:"created_at"`
}

func shownFeedback(f *db.Feedback) feedbackShown { return feedbackShown{f, instant(f.CreatedAt)} }

func (s *threads) giveFeedback(w http.ResponseWriter, r *http.Request, t *db.Thread) (any, error) {
	var b struct {
		RunID   string   `json:"run_id"`
		Key     string   `json:"key"`
		Score   *float64 `json:"score"`
		Comment string   `json:"comment"`
	}
	if err := read(r, &b); err != nil {
		return nil, err
	}
	if err := checkName("key", b.Key); err != nil {
		return nil, err
	}
	switch {
	case b.Score == nil && b.Comment == "":
		return nil, invalid("feedback needs a score, a comment or both")
	case b.Score != nil && b.Key == "":
		return nil, invalid("a score needs a key: what is scored, such as correctness")
	case len(b.Comment) > mostComment:
		return nil, invalid("comment is longer than %d bytes", mostComment)
	}
	f := &db.Feedback{ID: uuid.Must(uuid.NewV7()).String(), ThreadID: t.ID, Key: b.Key, Score: b.Score, Comment: b.Comment, CreatedAt: now()}
	if b.RunID != "" {
		id, err := checkID("run", b.RunID)
		if err != nil {
			return nil, err
		}
		f.RunID = &id
	}
	if u := userOf(r.Context()); u != nil {
		f.UserID = &u.ID
	}
	switch err := s.db.AddFeedback(r.Context(), f, mostFeedback); {
	case errors.Is(err, db.ErrFull):
		return nil, conflict("Thread %s has feedback %d times, which is the most: delete some", t.ID, mostFeedback)
	case errors.Is(err, db.ErrNotFound) && f.RunID != nil:
		return nil, notFound("Thread %s has no run with ID %s", t.ID, *f.RunID)
	case errors.Is(err, db.ErrNotFound):
		return nil, noThread(t.ID)
	case err != nil:
		return nil, err
	}
	return shownFeedback(f), nil
}

func (s *threads) listFeedback(w http.ResponseWriter, r *http.Request, t *db.Thread) (any, error) {
	limit, err := number(r, "limit", 100, 1, mostFeedback)
	if err != nil {
		return nil, err
	}
	run, err := optionalID("run", r.URL.Query().Get("run_id"))
	if err != nil {
		return nil, err
	}
	found, err := s.db.Feedback(r.Context(), t.ID, run, limit)
	return views(found, shownFeedback), err
}

func (s *threads) deleteFeedback(w http.ResponseWriter, r *http.Request, t *db.Thread) (any, error) {
	id, err := pathID(r, "feedback")
	if err != nil {
		return nil, err
	}
	return noContent, missing(s.db.DeleteFeedback(r.Context(), t.ID, id), "Thread %s has no feedback with ID %s", t.ID, id)
}
