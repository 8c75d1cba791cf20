package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"
)

// RunFilter selects runs of all threads; the zero value all that the user may see. It is
// Superstep's own.
type RunFilter struct {
	Status        []RunStatus `json:"status,omitempty"` // any of them
	AssistantID   string      `json:"assistant_id,omitempty"`
	GraphID       string      `json:"graph_id,omitempty"`
	ThreadID      string      `json:"thread_id,omitempty"`
	UserID        string      `json:"user_id,omitempty"` // who started them
	Error         string      `json:"error,omitempty"`   // the name of an error, such as GraphRecursionError
	CreatedAfter  time.Time   `json:"created_after,omitzero"`
	CreatedBefore time.Time   `json:"created_before,omitzero"`
	MinTokens     int64       `json:"min_tokens,omitempty"` // that its models used, in and out
	MinCost       float64     `json:"min_cost,omitempty"`   // dollars
}

// FoundRun is a run of any thread.
type FoundRun struct {
	Run
	GraphID   string    `json:"graph_id"`
	UserID    string    `json:"user_id"`
	StartedAt time.Time `json:"run_started_at"` // zero: it hasn't begun
	EndedAt   time.Time `json:"run_ended_at"`   // zero: it hasn't ended
	Usage     *Usage    `json:"usage"`          // of its models; nil: none is known
	Cost      *float64  `json:"cost"`           // dollars; nil: a price isn't known

	// Failure is why it failed; nil if it didn't.
	Failure *Failure `json:"error"`
}

// Failure is what is known of why a run failed.
type Failure struct {
	Name    string `json:"error"` // of the kind of error
	Message string `json:"message"`
}

// UnmarshalJSON takes a text alone, as other servers may send it, for the message.
func (f *Failure) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &f.Message) == nil {
		return nil
	}
	type members Failure
	return json.Unmarshal(b, (*members)(f))
}

// FindRuns yields runs of all threads, the newest first, at most limit of them if that is
// positive. They are asked for in pages while the loop goes on.
func (c *Client) FindRuns(ctx context.Context, f RunFilter, limit int) iter.Seq2[*FoundRun, error] {
	return linked(c, "", limit, page, func(from string, n int) (found []*FoundRun, to string, err error) {
		body := struct {
			RunFilter
			Limit  int    `json:"limit"`
			Cursor string `json:"cursor,omitempty"`
		}{f, n, from}
		q := call{method: http.MethodPost, path: "/runs/search", body: body, reads: true}
		header, err := c.do(ctx, q, &found)
		if err == nil {
			err = whole(c, q, found)
		}
		return found, header.Get("X-Pagination-Next"), err
	})
}

// RunFigures are what runs came to that began within a time.
type RunFigures struct {
	From   time.Time `json:"from"`
	Runs   int       `json:"runs"`
	Errors int       `json:"errors"`
	P50    *float64  `json:"p50"` // seconds that they took; nil: none has ended
	P95    *float64  `json:"p95"`
	Input  *int64    `json:"input_tokens"` // nil: nothing is known
	Output *int64    `json:"output_tokens"`
	Cost   *float64  `json:"cost"` // dollars
}

// RunFigures returns what runs came to, of each time of a width in which there were some, in
// order. The server refuses a width of which there would be more than 1,000.
func (c *Client) RunFigures(ctx context.Context, f RunFilter, width time.Duration) ([]*RunFigures, error) {
	body := struct {
		RunFilter
		Bucket float64 `json:"bucket_seconds"`
	}{f, width.Seconds()}
	return list[RunFigures](ctx, c, call{method: http.MethodPost, path: "/runs/figures", body: body, reads: true})
}
