package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Feedback is what somebody thinks of a thread, or of a run of it. It is Superstep's own.
type Feedback struct {
	ID        string    `json:"feedback_id"`
	ThreadID  string    `json:"thread_id"`
	RunID     string    `json:"run_id"` // empty: it is about the thread
	Key       string    `json:"key"`    // what is scored
	Score     *float64  `json:"score"`
	Comment   string    `json:"comment"`
	UserID    string    `json:"user_id"` // who gave it; empty if the server doesn't know users
	CreatedAt time.Time `json:"created_at"`
}

// NewFeedback is feedback to be given: a score under a key, a comment or both.
type NewFeedback struct {
	RunID   string   `json:"run_id,omitempty"` // empty: about the thread
	Key     string   `json:"key,omitempty"`
	Score   *float64 `json:"score,omitempty"`
	Comment string   `json:"comment,omitempty"`
}

// GiveFeedback leaves feedback on a thread.
func (c *Client) GiveFeedback(ctx context.Context, thread string, f NewFeedback) (*Feedback, error) {
	return one[Feedback](ctx, c, call{method: http.MethodPost, path: path("/threads/%s/feedback", thread), body: f})
}

// Feedback returns the feedback on a thread, the newest first, of a run alone if one is
// named: all of it, or the newest limit if that is positive.
func (c *Client) Feedback(ctx context.Context, thread, run string, limit int) ([]*Feedback, error) {
	if limit <= 0 {
		limit = mostFeedback
	}
	q := url.Values{"limit": {number(limit)}}
	if run != "" {
		q.Set("run_id", run)
	}
	return list[Feedback](ctx, c, call{method: http.MethodGet, path: path("/threads/%s/feedback", thread), query: q})
}

// mostFeedback is how much a thread may have.
const mostFeedback = 1000

// DeleteFeedback removes feedback from a thread.
func (c *Client) DeleteFeedback(ctx context.Context, thread, feedback string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: path("/threads/%s/feedback/%s", thread, feedback)}, nil)
	return err
}
