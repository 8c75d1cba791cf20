package server

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// mostImported bounds what is written of a recording, record by record.
const mostImported = 20_000

// importThread makes a thread of a recording, under an ID of its own. It is of the graph that
// was recorded if that is served, of the one that the client names, or of none.
func (s *threads) importThread(w http.ResponseWriter, r *http.Request) (any, error) {
	ctx := r.Context()
	name := r.URL.Query().Get("graph_id")
	if name != "" && s.graphs[name] == nil {
		return nil, notFound("Graph %q not found", name)
	}
	rec, err := readRecording(r)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = s.servedAs(rec.Header.Graph)
	}
	var metadata object
	if name != "" {
		metadata = object{"graph_id": jsonText(name)}
	}
	id := uuid.Must(uuid.NewV7()).String()
	metadata, mine, err := s.access.stamp(ctx, &Action{Resource: Threads, Verb: Create, ID: id}, metadata)
	if err != nil {
		return nil, err
	}
	edits, err := s.access.ask(ctx, &Action{Resource: Threads, Verb: Update, ID: id}) // of the state
	if err != nil {
		return nil, err
	}
	if err := errors.Join(within(mine, metadata.raw()), within(edits, metadata.raw())); err != nil {
		return nil, err
	}
	if err := s.detach(ctx, rec); err != nil {
		return nil, err
	}
	t := s.newThread(id, metadata, false)
	note(ctx, "thread", id)
	// What is there in part, since a process has died, is no thread.
	err = s.put(ctx, t, rec)
	if err == nil {
		err = s.addThread(ctx, t)
	}
	if err != nil {
		if derr := s.store.Delete(background(r), checkpoint.ThreadID(id)); !errors.Is(derr, checkpoint.ErrNotFound) {
			err = errors.Join(err, derr)
		}
		return nil, err
	}
	return s.view(ctx, t, true)
}

// readRecording reads a recording that a client sends.
func readRecording(r *http.Request) (*recording.Recording, error) {
	data, err := receive(r.Context(), clientOf(userOf(r.Context()), r), r.Body)
	if err != nil {
		return nil, err
	}
	if err := checkJSON(data, limitsOf(r.Context())); err != nil {
		return nil, err
	}
	rec, err := recording.Read(bytes.NewReader(data))
	if err == nil {
		err = rec.Check()
	}
	if err != nil {
		return nil, invalid("body: %s", plainly(err))
	}
	if n := rec.Writes(); n > mostImported {
		return nil, invalid("The recording comes to %d records and results, of at most %d that are imported here: import it where the server's store is, with superstep import", n, mostImported)
	}
	return rec, nil
}

// servedAs returns as what a graph is served that has a name of its own; empty if it isn't,
// or as several.
func (s *base) servedAs(name string) string {
	if s.graphs[name] != nil {
		return name
	}
	as := ""
	for known, g := range s.graphs {
		switch {
		case g.Name() != name:
		case as != "":
			return ""
		default:
			as = known
		}
	}
	return as
}

// detach parts a recording from other threads. Nobody waits for the end of the thread that it
// becomes; that waits for no thread that the user doesn't see.
func (s *threads) detach(ctx context.Context, rec *recording.Recording) error {
	for _, l := range rec.Logs {
		for _, r := range l.Records {
			r.Caller = ""
		}
	}
	for _, other := range rec.Others() {
		refused := invalid("The recording waits, or has waited, for the end of thread %.80q, which isn't there, or isn't yours: such a thread can't be imported without it", other)
		id, err := threadID(string(other))
		if err != nil || id != string(other) {
			return refused
		}
		t, err := s.db.Thread(ctx, id)
		if err = s.access.askThread(ctx, &Action{Resource: Threads, Verb: Read, ID: id}, t, err); isNotFound(err) {
			return refused
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put stores what was recorded as that of a thread which is to be added, and notes in it what
// its state says. What the thread's graph can't read is refused.
func (s *threads) put(ctx context.Context, t *db.Thread, rec *recording.Recording) error {
	switch err := rec.Put(ctx, s.store, checkpoint.ThreadID(t.ID)); {
	case errors.Is(err, checkpoint.ErrInvalid), errors.Is(err, checkpoint.ErrConflict), errors.Is(err, checkpoint.ErrCorrupt):
		return invalid("The recording is damaged: %v", err)
	case errors.Is(err, errors.ErrUnsupported):
		return &fault{http.StatusNotImplemented, "The server's store can't take a thread of which a part was pruned"}
	case err != nil:
		return err
	}
	g := s.graphOf(t)
	if g == nil {
		return nil
	}
	thread := s.on(g, t.ID)
	snap, err := thread.Nested(ctx)
	if err == nil {
		for _, err = range thread.History(ctx, graph.HistoryQuery{AllBranches: true}) {
			if err != nil {
				break
			}
		}
	}
	if err != nil {
		return unreadable(err)
	}
	settledSaying(g, snap, settled(snap, nil))(t)
	if t.Status == db.Busy { // it has had no run here that the server could go on with
		t.Status = db.Interrupted
	}
	return nil
}

// unreadable returns what to tell a client whose recording the thread's graph can't read; an
// error of the server's own stays as it is.
func unreadable(err error) error {
	if text, ok := misfit(err); ok {
		return invalid("The recording can't be read: %s", text)
	}
	if errors.Is(err, checkpoint.ErrCorrupt) || errors.Is(err, checkpoint.ErrNotFound) {
		return invalid("The recording is damaged: %v", err)
	}
	return err
}
