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

func (s *threads) giveFeedback(w http.ResponseWriter, r *http.Request) error {
	t, err := s.threadOf(r)
	if err != nil {
		return err
	}
	var b struct {
		RunID   string   `json:"run_id"`
		Key     string   `json:"key"`
		Score   *float64 `json:"score"`
		Comment string   `json:"comment"`
	}
	if err := read(r, &b); err != nil {
		return err
	}
	if err := checkName("key", b.Key); err != nil {
		return err
	}
	switch {
	case b.Score == nil && b.Comment == "":
		return invalid("feedback needs a score, a comment or both")
	case b.Score != nil && b.Key == "":
		return invalid("a score needs a key: what is scored, such as correctness")
	case len(b.Comment) > mostComment:
		return invalid("comment is longer than %d bytes", mostComment)
	}
	f := &db.Feedback{ID: uuid.Must(uuid.NewV7()).String(), ThreadID: t.ID, Key: b.Key, Score: b.Score, Comment: b.Comment, CreatedAt: now()}
	if b.RunID != "" {
		id, err := checkID("run", b.RunID)
		if err != nil {
			return err
		}
		f.RunID = &id
	}
	if u := userOf(r.Context()); u != nil {
		f.UserID = &u.ID
	}
	switch err := s.db.AddFeedback(r.Context(), f, mostFeedback); {
	case errors.Is(err, db.ErrFull):
		return conflict("Thread %s has feedback %d times, which is the most: delete some", t.ID, mostFeedback)
	case errors.Is(err, db.ErrNotFound) && f.RunID != nil:
		return notFound("Thread %s has no run with ID %s", t.ID, *f.RunID)
	case errors.Is(err, db.ErrNotFound):
		return notFound("Thread with ID %s not found", t.ID)
	case err != nil:
		return err
	}
	return write(w, shownFeedback(f))
}

func (s *threads) listFeedback(w http.ResponseWriter, r *http.Request) error {
	t, err := s.threadOf(r)
	if err != nil {
		return err
	}
	limit, err := number(r, "limit", 100)
	if err != nil {
		return err
	}
	if limit < 1 || limit > mostFeedback {
		return invalid("limit must be from 1 to %d", mostFeedback)
	}
	run := r.URL.Query().Get("run_id")
	if run != "" {
		if run, err = checkID("run", run); err != nil {
			return err
		}
	}
	found, err := s.db.Feedback(r.Context(), t.ID, run, limit)
	if err != nil {
		return err
	}
	out := make([]feedbackShown, len(found))
	for i, f := range found {
		out[i] = shownFeedback(f)
	}
	return write(w, out)
}

func (s *threads) deleteFeedback(w http.ResponseWriter, r *http.Request) error {
	t, err := s.threadOf(r)
	if err != nil {
		return err
	}
	id, err := pathID(r, "feedback")
	if err != nil {
		return err
	}
	err = s.db.DeleteFeedback(r.Context(), t.ID, id)
	if errors.Is(err, db.ErrNotFound) {
		return notFound("Thread %s has no feedback with ID %s", t.ID, id)
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
