package db

import (
	"context"
	"errors"
	"time"
)

// Feedback is what somebody thinks of a thread, or of a run of it.
type Feedback struct {
	ID        string    `json:"feedback_id"` // the ones that are made later are greater
	ThreadID  string    `json:"thread_id"`
	RunID     *string   `json:"run_id"` // nil: it is about the thread
	Key       string    `json:"key"`
	Score     *float64  `json:"score"`
	Comment   string    `json:"comment"`
	UserID    *string   `json:"user_id"` // nil: the server doesn't know users
	CreatedAt time.Time `json:"created_at"`
}

// ErrFull says that a thread has as much feedback as it may.
var ErrFull = errors.New("the thread has as much feedback as it may")

// AddFeedback stores feedback, of which a thread has at most so many. It returns
// ErrNotFound if there is no such thread, or the run is none of its.
func (d *DB) AddFeedback(ctx context.Context, f *Feedback, most int) error {
	data, err := encode(f)
	if err != nil {
		return err
	}
	return d.tx(ctx, func(tx execer) error {
		if _, err := d.present(ctx, tx, f.ThreadID, d.forUpdate()); err != nil {
			return err
		}
		if f.RunID != nil {
			if _, err := one[Run](ctx, d, tx, `SELECT data FROM @superstep_runs WHERE id = ? AND thread = ?`, *f.RunID, f.ThreadID); err != nil {
				return err
			}
		}
		n, err := value[int](ctx, d, tx, `SELECT count(*) FROM @superstep_feedback WHERE thread = ?`, f.ThreadID)
		if err == nil && n >= most {
			err = ErrFull
		}
		if err != nil {
			return err
		}
		_, err = d.exec(ctx, tx, `INSERT INTO @superstep_feedback (id, thread, data) VALUES (?, ?, ?)`, f.ID, f.ThreadID, data)
		return err
	})
}

// Feedback returns the feedback on a thread, the newest first; of one run, if that is
// given.
func (d *DB) Feedback(ctx context.Context, thread, run string, limit int) ([]*Feedback, error) {
	found, _, err := search(ctx, d, Page{Limit: limit, uncounted: true}, func(f *Feedback) bool {
		return run == "" || f.RunID != nil && *f.RunID == run
	}, `SELECT data FROM @superstep_feedback WHERE thread = ? ORDER BY id DESC`, thread)
	return found, err
}

// DeleteFeedback removes feedback on a thread.
func (d *DB) DeleteFeedback(ctx context.Context, thread, id string) error {
	return d.remove(ctx, d.sql, `DELETE FROM @superstep_feedback WHERE id = ? AND thread = ?`, id, thread)
}
