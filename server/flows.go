package server

import (
	"errors"
	"math"
	"net/http"
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/diagram"
	"github.com/superstep-dev/superstep/dialogue/dialoguetest"
	flows "github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
	spelling "github.com/superstep-dev/superstep/internal/plan"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// shownFlows are the flows of the dialogue, and the calls between them.
type shownFlows struct {
	Name        string      `json:"name"`
	Description string      `json:"description"`
	Languages   []string    `json:"languages"` // the first is the default
	Flows       []shownFlow `json:"flows"`
	Graph       drawn       `json:"graph"`
}

type shownFlow struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Internal    bool   `json:"internal"` // users can't start it
	Version     string `json:"version"`
}

// listFlows shows the flows of the dialogue.
func (s *conversations) listFlows(w http.ResponseWriter, r *http.Request) (any, error) {
	p, err := s.programOf(r)
	if err != nil {
		return nil, err
	}
	out := shownFlows{Name: p.Name, Description: p.Description, Languages: append([]string{p.Languages.Default}, p.Languages.Also...), Flows: []shownFlow{}}
	for _, name := range p.Order {
		f := p.Flows[name]
		out.Flows = append(out.Flows, shownFlow{f.Name, f.Description, f.Internal, f.Hash})
	}
	d := diagram.Program(p)
	closeAllBut(d, nil, "")
	if out.Graph, err = laidOut(r, d); err != nil {
		return nil, err
	}
	return out, nil
}

// showFlow draws a flow, also one that is built in, as it is or as it was at a version.
func (s *conversations) showFlow(w http.ResponseWriter, r *http.Request) (any, error) {
	p, err := s.programOf(r)
	if err != nil {
		return nil, err
	}
	name, version := r.PathValue("flow"), r.URL.Query().Get("version")
	f, ok := p.Flow(name)
	if version != "" {
		f, _, ok = p.FlowAt(name, version)
	}
	switch near := spelling.Nearest(name, p.Order); {
	case ok:
	case version != "" && p.Flows[name] != nil:
		return nil, notFound("Flow %q is not known as it was at version %.80q: that program is not served", name, version)
	case near != "":
		return nil, notFound("There is no flow %.80q; did you mean %s?", name, near)
	default:
		return nil, notFound("There is no flow %.80q", name)
	}
	return laidOut(r, diagram.Flow(f))
}

// programOf returns the program of an assistant of the dialogue's graph.
func (s *conversations) programOf(r *http.Request) (*flows.Program, error) {
	_, g, err := s.findAssistant(r.Context(), r.PathValue("assistant"))
	if err != nil {
		return nil, err
	}
	if g != s.dialogue.served {
		return nil, notFound("Graph %q has no flows: it is not the dialogue that the server speaks for", g.name)
	}
	return s.dialogue.assistant.Program(), nil
}

// laidOut is a graph as clients draw it, with places if they ask for them.
func laidOut(r *http.Request, d *draw.Graph) (drawn, error) {
	out := drawingOf(d)
	switch direction := draw.Direction(r.URL.Query().Get("layout")); direction {
	case "":
	case draw.TopDown, draw.LeftToRight:
		out.Layout = draw.NewLayout(d, &draw.LayoutOptions{Direction: direction})
	default:
		return drawn{}, invalid("layout must be TB or LR, not %.80q", direction)
	}
	return out, nil
}

// conversationOf returns the thread of a conversation with the dialogue; one on which
// nothing was said is one.
func (s *conversations) conversationOf(r *http.Request) (*db.Thread, *graph.Thread[assistant.State], error) {
	t, err := s.threadOf(r)
	if err != nil {
		return nil, nil, err
	}
	g := s.dialogue.assistant.Graph()
	head, err := s.head(r.Context(), t.ID)
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		return nil, nil, err
	}
	if head != nil && head.Graph != g.Name() {
		return nil, nil, conflict("Thread %s is no conversation with the dialogue: graph %q ran on it", t.ID, head.Graph)
	}
	return t, g.Thread(t.ID, graph.WithCheckpointer(s.store)), nil
}

// Turns of a conversation that are shown at once.
const (
	usualTurns = 50
	mostTurns  = 1000
)

// shownTurns are turns of a conversation, the oldest first.
type shownTurns struct {
	ThreadID string           `json:"thread_id"`
	Turns    []assistant.Turn `json:"turns"`
	More     bool             `json:"more"` // there are older ones
}

// showTurns says why a conversation went as it did, with sensitive values masked.
func (s *conversations) showTurns(w http.ResponseWriter, r *http.Request) (any, error) {
	t, thread, err := s.conversationOf(r)
	if err != nil {
		return nil, err
	}
	last, err := number(r, "limit", usualTurns, 1, mostTurns)
	if err != nil {
		return nil, err
	}
	before, err := number(r, "before", 0, 1, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	q := assistant.TurnQuery{Last: last, Before: before}
	turns, err := assistant.Turns(r.Context(), thread, s.dialogue.assistant.Program(), q)
	if err != nil {
		return nil, err
	}
	return shownTurns{t.ID, append([]assistant.Turn{}, turns...), len(turns) > 0 && turns[0].Number > 1}, nil
}

// showTest shows a conversation as a test.
func (s *conversations) showTest(w http.ResponseWriter, r *http.Request) error {
	t, thread, err := s.conversationOf(r)
	if err != nil {
		return err
	}
	p := s.dialogue.assistant.Program()
	turns, err := assistant.Turns(r.Context(), thread, p, assistant.TurnQuery{})
	if err != nil {
		return err
	}
	if len(turns) == 0 || !slices.ContainsFunc(turns, func(t assistant.Turn) bool { return t.Ended }) {
		return conflict("Nothing was said on thread %s: there is nothing to test", t.ID)
	}
	test, err := dialoguetest.Export(t.ID, p, turns)
	if err != nil {
		return conflict("%v", err)
	}
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Content-Disposition", `attachment; filename="`+t.ID+`.yaml"`)
	_, err = w.Write([]byte(test.Text))
	return err
}
