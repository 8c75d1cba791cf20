package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Assistant is a graph with a configuration. Each graph has one of its own, whose
// metadata say that it was created by the system.
type Assistant struct {
	ID          string          `json:"assistant_id"`
	GraphID     string          `json:"graph_id"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Version     int             `json:"version"`
	Config      json.RawMessage `json:"config"`
	Context     json.RawMessage `json:"context"`
	Metadata    map[string]any  `json:"metadata"`
	CreatedAt   time.Time       `json:"created_at"`
	UpdatedAt   time.Time       `json:"updated_at"`
}

// AssistantSearch selects assistants; the zero value all of them.
type AssistantSearch struct {
	GraphID  string         `json:"graph_id,omitempty"`
	Name     string         `json:"name,omitempty"`     // part of the name, in any case
	Metadata map[string]any `json:"metadata,omitempty"` // that they have at least
	Limit    int            `json:"-"`                  // how many at most; 0 means all
}

// Assistants yields the assistants of the server, newest first. They are asked for
// in pages while the loop goes on.
func (c *Client) Assistants(ctx context.Context, s AssistantSearch) iter.Seq2[*Assistant, error] {
	return pages(c, s.Limit, func(w window) ([]*Assistant, error) {
		body := struct {
			AssistantSearch
			window
		}{s, w}
		return list[Assistant](ctx, c, call{method: http.MethodPost, path: "/assistants/search", body: body, reads: true})
	})
}

// Assistant returns an assistant by its ID or that of its graph.
func (c *Client) Assistant(ctx context.Context, id string) (*Assistant, error) {
	return one[Assistant](ctx, c, call{method: http.MethodGet, path: path("/assistants/%s", id)})
}

// Drawing is the graph of an assistant, to be drawn.
type Drawing struct {
	Nodes []DrawingNode `json:"nodes"`
	Edges []DrawingEdge `json:"edges"`
}

// DrawingNode is a node. Those of a subgraph that was opened have an ID that
// begins with the subgraph's and a colon.
type DrawingNode struct {
	ID   string          `json:"id"`
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"` // an object with a name, as a rule
}

// DrawingEdge leads from one node to another.
type DrawingEdge struct {
	Source      string `json:"source"`
	Target      string `json:"target"`
	Conditional bool   `json:"conditional"`
	Data        string `json:"data"` // the edge's label, if it has one
}

// Drawing returns the graph of an assistant, with the subgraphs opened to a depth:
// 0 opens none, a negative one all of them.
func (c *Client) Drawing(ctx context.Context, assistant string, depth int) (*Drawing, error) {
	q := url.Values{}
	switch {
	case depth < 0:
		q.Set("xray", "true")
	case depth > 0:
		q.Set("xray", number(depth))
	}
	return one[Drawing](ctx, c, call{method: http.MethodGet, path: path("/assistants/%s/graph", assistant), query: q})
}

// Schemas are the JSON Schemas of a graph. Any of them may be missing or say
// nothing.
type Schemas struct {
	GraphID string          `json:"graph_id"`
	Input   json.RawMessage `json:"input_schema"`
	Output  json.RawMessage `json:"output_schema"`
	State   json.RawMessage `json:"state_schema"`
	Config  json.RawMessage `json:"config_schema"`
	Context json.RawMessage `json:"context_schema"`
}

// Schemas returns what the graph of an assistant takes and gives.
func (c *Client) Schemas(ctx context.Context, assistant string) (*Schemas, error) {
	return one[Schemas](ctx, c, call{method: http.MethodGet, path: path("/assistants/%s/schemas", assistant)})
}
