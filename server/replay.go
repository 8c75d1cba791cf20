package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// The bounds of replays, which run nodes while their clients wait.
const (
	replayTime       = time.Minute
	mostReplays      = 16
	replaysPerClient = 4
	mostDifferences  = 1000
	someDifferences  = 50
	mostCompared     = 4 << 20 // bytes of what differences say
)

// errReplayTime says that a replay took too long.
func errReplayTime(after time.Duration) error {
	return fmt.Errorf("the replay was not at its end after %v, which is as long as one may take here: replay a recording of the thread with superstep replay", after)
}

// replayBody says how a thread is to be replayed.
type replayBody struct {
	TakeRecorded []string `json:"take_recorded"`
	IgnoreFields []string `json:"ignore_fields"`
	IgnoreEntry  bool     `json:"ignore_entry"`
	Limit        *int     `json:"limit"`
}

// shownReplay is what a replay has come to, as clients see it.
type shownReplay struct {
	Differences []graph.Difference `json:"differences"`
	More        bool               `json:"more"`
	Supersteps  int                `json:"supersteps"` // that the recording has to compare
	Error       *db.RunError       `json:"error"`      // by which it ended; null: it came to its end
}

// replayThread runs a thread's graph, as it is served now, against what was recorded of the
// thread, and answers with where they part. Nothing is stored.
func (s *runs) replayThread(w http.ResponseWriter, r *http.Request, t *db.Thread) (any, error) {
	if err := s.access.askThread(r.Context(), &Action{Resource: Threads, Verb: Read, ID: t.ID}, t, nil); err != nil {
		return nil, err
	}
	var b replayBody
	if err := read(r, &b); err != nil {
		return nil, err
	}
	if b.Limit == nil {
		b.Limit = new(someDifferences)
	}
	if *b.Limit < 1 || *b.Limit > mostDifferences {
		return nil, invalid("limit must be from 1 to %d", mostDifferences)
	}
	if err := errors.Join(s.checkList("take_recorded", len(b.TakeRecorded)), s.checkList("ignore_fields", len(b.IgnoreFields))); err != nil {
		return nil, err
	}
	name := textOf(objectOf(t.Metadata)["graph_id"])
	g := s.graphs[name]
	switch {
	case name == "":
		return nil, conflict("Thread with ID %s has no graph: run one on it first", t.ID)
	case g == nil:
		return nil, conflict("Thread with ID %s is of graph %q, which is not served; graphs are %s", t.ID, name, strings.Join(s.names, ", "))
	}
	leave, err := s.replays.enter(clientOf(userOf(r.Context()), r))
	if err != nil {
		return nil, err
	}
	defer leave()
	if busy, err := s.db.AnyOpen(r.Context(), t.ID); err != nil {
		return nil, err
	} else if busy {
		return nil, conflict("Thread is busy")
	}
	rec, err := s.states.recordingOf(r.Context(), t)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeoutCause(r.Context(), s.replayTime, errReplayTime(s.replayTime))
	defer stop()
	defer context.AfterFunc(s.besideCtx, stop)()
	out := &shownReplay{Differences: []graph.Difference{}}
	own, err := s.forReplay(ctx, r, t, g)
	if err == nil {
		err = out.replay(ctx, own, rec, t, &b)
	}
	switch refused := b.misnamed(g, err); {
	case err == nil:
	case refused != nil:
		return nil, refused
	case r.Context().Err() != nil:
		return nil, r.Context().Err()
	case s.besideCtx.Err() != nil:
		return nil, errEnding
	case db.Outage(err):
		return nil, err
	case ctx.Err() != nil:
		out.Error = errorOf(context.Cause(ctx))
	default:
		if f, ok := errors.AsType[*fault](err); ok {
			return nil, f
		}
		out.Error = errorOf(err)
	}
	return out, nil
}

// replay fills in what a replay comes to.
func (out *shownReplay) replay(ctx context.Context, g *graph.Graph[json.RawMessage], rec *recording.Recording, t *db.Thread, b *replayBody) error {
	shown := shownRecords(rec, t.RolledBack)
	out.Supersteps = shown.supersteps
	size := 0
	for d, err := range g.Replay(ctx, rec, graph.ReplayOptions{TakeRecorded: b.TakeRecorded, IgnoreFields: b.IgnoreFields, IgnoreEntry: b.IgnoreEntry}) {
		if err != nil {
			return err
		}
		at, ok := shown.moments[d.Checkpoint]
		if !ok {
			continue
		}
		d.Checkpoint = at
		if size += len(d.Want) + len(d.Got); len(out.Differences) == *b.Limit || size > mostCompared {
			out.More = true
			return nil
		}
		out.Differences = append(out.Differences, d)
	}
	return nil
}

// shownLog is what clients are shown of a thread's own log.
type shownLog struct {
	moments    map[checkpoint.ID]checkpoint.ID // as which they know a checkpoint
	supersteps int                             // that a replay compares
}

// shownRecords returns what clients are shown of a recording: nothing of the runs that were
// rolled back.
func shownRecords(rec *recording.Recording, rolledBack []string) shownLog {
	out := shownLog{moments: map[checkpoint.ID]checkpoint.ID{}}
	own := rec.Log("")
	if own == nil {
		return out
	}
	seqs := map[checkpoint.ID]int64{}
	for _, r := range own.Records {
		seqs[r.ID] = r.Seq
		if run := r.Metadata["run_id"]; run != "" && slices.Contains(rolledBack, run) {
			continue
		}
		at := r.ID
		if stands, ok := out.moments[r.Parent]; ok && inside(string(r.Source)) {
			at = stands
		}
		out.moments[r.ID] = at
		if before, ok := seqs[r.Parent]; ok && before+1 == r.Seq && r.Source == checkpoint.SourceLoop && r.Epoch == r.ID {
			out.supersteps++
		}
	}
	return out
}

// forReplay returns a thread's graph as a run that the request starts would have it,
// configured as the thread's last one was. Its long-term memory begins empty: what nodes
// write there is kept from the server's.
func (s *runs) forReplay(ctx context.Context, r *http.Request, t *db.Thread, g *served) (*graph.Graph[json.RawMessage], error) {
	b := &runBody{}
	run := &db.Run{ID: uuid.Must(uuid.NewV7()).String(), ThreadID: t.ID, AssistantID: assistantOfGraph(g.name), User: userJSON(ctx)}
	last, err := s.db.Runs(ctx, t.ID, "", db.Page{Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(last) > 0 {
		run.AssistantID, run.Metadata = last[0].AssistantID, last[0].Metadata
		if err := json.Unmarshal(last[0].Kwargs, b); err != nil {
			return nil, err
		}
	}
	b.Headers, b.Config.RecursionLimit = headersOf(r), 0
	a, _, err := s.assistants.usable(ctx, run.AssistantID)
	if err != nil {
		return nil, err
	}
	p, err := prepare(ctx, run, a, t, g, b)
	if err != nil {
		return nil, err
	}
	p.steps = 0
	items, err := memory.NewInMemory()
	if err != nil {
		return nil, err
	}
	opts := []graph.ThreadOption{memory.Use(items)}
	for _, o := range p.options(s.each) {
		opts = append(opts, o)
	}
	return p.own.With(opts...)
}

// misnamed returns what to tell a client of an error that says that there is no node or field
// of a name that the client gave.
func (b *replayBody) misnamed(g *served, err error) error {
	if e, ok := errors.AsType[*graph.UnknownFieldError](err); ok && slices.Contains(b.IgnoreFields, e.Field) {
		return invalid("ignore_fields: graph %q has no field %q; there are %s", g.name, e.Field, strings.Join(e.Valid, ", "))
	}
	if e, ok := errors.AsType[*graph.InvalidEdgeError](err); ok && slices.Contains(b.TakeRecorded, e.Target) {
		return invalid("take_recorded: graph %q has no node %q; there are %s", g.name, e.Target, strings.Join(g.Nodes(), ", "))
	}
	return nil
}
