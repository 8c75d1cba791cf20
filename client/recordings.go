package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// ExportThread writes a thread with its whole history to w, as package checkpoint/recording
// reads it. It is Superstep's own, as what follows.
func (c *Client) ExportThread(ctx context.Context, thread string, w io.Writer) error {
	q := call{method: http.MethodGet, path: path("/threads/%s/recording", thread)}
	resp, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	from := &source{r: resp.Body}
	switch n, err := io.Copy(w, io.LimitReader(from, maxAnswer+1)); {
	case from.err != nil:
		return c.unreachable(ctx, from.err)
	case err != nil: // of w
		return err
	case n > maxAnswer:
		return &ProtocolError{URL: c.URL(), Err: fmt.Errorf("%s %s: the answer is longer than %d MB", q.method, q.path, maxAnswer>>20)}
	}
	return nil
}

// source tells errors of reading from those of writing.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (n int, err error) {
	if n, err = s.r.Read(p); err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// ImportThread makes a thread of what [Client.ExportThread] wrote, there or elsewhere, under
// an ID of its own. It is of a graph that the server has: of the one that was recorded if
// graph is empty, or, if it hasn't that, of none until its first run.
func (c *Client) ImportThread(ctx context.Context, r io.Reader, graph string) (*Thread, error) {
	q := call{method: http.MethodPost, path: "/threads/import", raw: r, header: http.Header{"Content-Type": {"application/x-ndjson"}}}
	if graph != "" {
		q.query = url.Values{"graph_id": {graph}}
	}
	return one[Thread](ctx, c, q)
}

// ReplayOptions are the settings of a replay; the zero value is fine. Nodes and fields of a
// subgraph are named with its path, as in "research/search".
type ReplayOptions struct {
	TakeRecorded []string `json:"take_recorded,omitempty"` // nodes whose recorded changes stand for them
	IgnoreFields []string `json:"ignore_fields,omitempty"` // of the state, that are not compared
	IgnoreEntry  bool     `json:"ignore_entry,omitempty"`  // where inputs lead is not compared
	Limit        int      `json:"limit,omitempty"`         // how many differences at most, to 1000; 0: 50
}

// Replay is what came of a replay.
type Replay struct {
	Differences []Difference `json:"differences"`
	More        bool         `json:"more"`       // than the limit
	Supersteps  int          `json:"supersteps"` // that the recording has to compare

	// Failure is why the replay ended before all was compared; nil if nothing kept it.
	Failure *Failure `json:"error"`
}

// Difference says where a thread's graph, as the server has it now, parts from what was
// recorded of the thread.
type Difference struct {
	Kind         string   `json:"kind"` // state, routing, question, once or error
	Step         int      `json:"step"` // 0: the input before the first
	CheckpointID string   `json:"checkpoint"`
	Branch       string   `json:"branch"`    // of the thread; empty for its first line
	Namespace    string   `json:"namespace"` // of the log it is in
	Path         []string `json:"path"`      // nodes from the graph down to the subgraph it is in
	Node         string   `json:"node"`      // empty: the graph's start, or several
	Field        string   `json:"field"`     // of the state, if it is about one
	SubStep      int      `json:"substep"`   // the superstep of the subgraph; 0: its input
	Want         string   `json:"want"`      // recorded
	Got          string   `json:"got"`       // now
}

// ReplayThread runs a thread's graph, as the server has it now, against what was recorded of
// the thread. Nothing is stored; what nodes do outside of Once and Do they do again. The error is
// an [ErrBusy] if the thread has a run.
func (c *Client) ReplayThread(ctx context.Context, thread string, o ReplayOptions) (*Replay, error) {
	return one[Replay](ctx, c, call{method: http.MethodPost, path: path("/threads/%s/replay", thread), body: o})
}
