package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server/internal/db"
	"github.com/superstep-dev/superstep/server/internal/turn"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// serveMCP answers a request of the Model Context Protocol: each assistant that the user
// may run is a tool, whose calls are runs of it.
func (t turns) serveMCP(w http.ResponseWriter, r *http.Request) error {
	var body json.RawMessage
	if err := read(r, &body); err != nil {
		return err
	}
	found, err := t.seen(r.Context(), func(string) bool { return true })
	if err != nil {
		return err
	}
	s, err := mcp.NewServer("superstep", t.version)
	if err != nil {
		return err
	}
	defer s.Close() // ends what nobody waits for any more
	var tools []mcp.Graph
	names := toolNames(found)
	for i, a := range found {
		g := t.graphs[a.GraphID]
		one := mcp.Graph{Graph: g.Graph, Name: names[i], Description: g.description, Runner: &mcpRuns{t, r, a}}
		if a.Description != nil {
			one.Description = *a.Description
		}
		tools = append(tools, one)
	}
	if err := s.SetGraphs(tools...); err != nil {
		return err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Content-Type", "application/json") // it is
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.Stateless().ServeHTTP(w, r)
	return nil
}

// mostToolName is how long models take the name of a tool.
const mostToolName = 64

// toolNames names assistants as tools: by their names, but that each graph's own has the
// graph's. Names that are no tool's, or another's, get the assistant's ID at the end, which
// no others have there.
func toolNames(found []*db.Assistant) []string {
	taken := map[string]bool{mcp.AnswerTool: true}
	names := make([]string, len(found))
	for _, own := range []bool{true, false} {
		for i, a := range found {
			if own != (a.ID == assistantOfGraph(a.GraphID)) {
				continue
			}
			name := mcp.ToolName(a.Name)
			if own { // whatever it is called by now
				name = mcp.ToolName(a.GraphID)
			}
			_, err := uuid.Parse(name[max(0, len(name)-len(a.ID)):])
			if name == "" || len(name) > mostToolName || taken[name] || err == nil {
				name = name[:min(len(name), mostToolName-len(a.ID)-1)] + "_" + a.ID
			}
			names[i], taken[name] = name, true
		}
	}
	return names
}

// mcpRuns runs an assistant for the user of a request.
type mcpRuns struct {
	turns
	r *http.Request
	a *db.Assistant
}

// asking is the request with a context that ends with another one too.
func (m *mcpRuns) asking(ctx context.Context) (*http.Request, context.CancelFunc) {
	own, cancel := context.WithCancel(m.r.Context())
	stop := context.AfterFunc(ctx, cancel)
	return m.r.WithContext(own), func() { stop(); cancel() }
}

// State implements [mcp.Runner].
func (m *mcpRuns) State(ctx context.Context, thread string) (*snapshot, error) {
	r, done := m.asking(ctx)
	defer done()
	id, err := threadID(thread)
	if err != nil {
		return nil, err
	}
	exists, err := m.access.askOf(r.Context(), &Action{Resource: Runs, Verb: CreateRun, ID: id})
	if err != nil {
		return nil, m.words(r, err)
	}
	var snap *snapshot
	if exists {
		snap, _, err = m.runs.states.newest(r.Context(), id)
	}
	if err == nil && snap == nil {
		err = notFound("there is no thread %s with a run: leave the ID out for a new one", id)
	}
	return snap, m.words(r, err)
}

// words is an error as clients may be told it.
func (m *mcpRuns) words(r *http.Request, err error) error {
	if err == nil || r.Context().Err() != nil {
		return err
	}
	return errors.New(m.Explain(r, err).Text)
}

// Run implements [mcp.Runner]. A run that the client doesn't wait for any more is stopped.
func (m *mcpRuns) Run(ctx context.Context, thread string, ask mcp.Request, told func(node string)) (*snapshot, error) {
	r, done := m.asking(ctx)
	defer done()
	id, err := threadID(thread)
	if err != nil {
		return nil, err
	}
	request := turn.Request{Assistant: m.a.ID, Thread: id, Input: ask.Input, Tasks: told != nil}
	if ask.Input == nil {
		snap, err := m.State(ctx, id)
		if err != nil {
			return nil, err
		}
		if request.Answers, err = answersByID(snap, ask.Answers); err != nil {
			return nil, err
		}
	}
	run, err := m.Start(r, request)
	if err != nil {
		return nil, m.words(r, err)
	}
	end, err := run.Follow(r.Context(), nil, func(ev turn.Event) error {
		if t, ok := ev.(*turn.Task); ok && told != nil && !t.Begins && len(t.Within) == 0 {
			told(t.Node)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, errors.Join(m.words(r, err), run.Cancel(ctx))
	case end.Failure != nil:
		return nil, fmt.Errorf("%s: %s", end.Failure.Type, end.Failure.Text)
	case end.Cancelled:
		return nil, errors.New("the run was cancelled")
	}
	return m.State(ctx, id)
}

// answersByID names answers by the IDs of the questions that they are for.
func answersByID(snap *snapshot, given graph.Answers) (map[string]json.RawMessage, error) {
	if len(given) == 0 {
		return nil, nil
	}
	out := map[string]json.RawMessage{}
	for key, value := range given {
		data, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		for _, q := range snap.Interrupts {
			if q.Key == key {
				key = q.ID
				break
			}
		}
		out[key] = data
	}
	return out, nil
}
