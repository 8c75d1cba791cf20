package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/server/internal/db"
	"github.com/superstep-dev/superstep/server/internal/turn"
)

// streamRun starts a run and sends what happens in it.
func (s *runs) streamRun(w http.ResponseWriter, r *http.Request) error {
	b, run, err := s.asked(w, r)
	if err != nil {
		return err
	}
	comeBack(w, "/stream")
	return s.left(r, run, b.OnDisconnect == "cancel", s.serveStream(w, r, run, 0, nil))
}

// joinStream sends what happens in a run from now on, or from an event on that
// the client names.
func (s *runs) joinStream(w http.ResponseWriter, r *http.Request) error {
	run, err := s.findRun(r)
	if err != nil {
		return err
	}
	cancel, err := flag(r, "cancel_on_disconnect")
	if err != nil {
		return err
	}
	modes, err := listed(r, "stream_mode")
	if err != nil {
		return err
	}
	from := int64(-1) // from now on
	if last, given, err := lastEvent(r); err != nil {
		return err
	} else if given {
		from = last + 1
	}
	location(w, run, r.PathValue("thread") == "")
	comeBack(w, "/stream")
	return s.left(r, run, cancel, s.serveStream(w, r, run, from, modes))
}

// refuseStream answers who joins a run with an error. A run that isn't there, or isn't the
// user's, is an event of its stream, as LangGraph's clients expect, unless the client is strict.
func refuseStream(w http.ResponseWriter, r *http.Request, f *turn.Fault) {
	if f.Status != http.StatusNotFound || strict(r) {
		refuse(w, r, &fault{f.Status, f.Text})
		return
	}
	if out, err := turn.NewStream(w); err == nil {
		_ = out.Send("error", db.RunError{Error: "NotFound", Message: "404: " + printable(f.Text)}) // a client that has gone needs no error
	}
}

// left is called when a client of a run has been served. If it left before the end,
// however that was noticed, the run is cancelled where it asked for that.
func (s *runs) left(r *http.Request, run *db.Run, cancel bool, err error) error {
	if err != nil && cancel {
		err = errors.Join(err, s.dispatcher.cancel(background(r), run, stopInterrupt, false))
	}
	return err
}

// comeBack tells clients of a run where they come back to if they lose the
// connection.
func comeBack(w http.ResponseWriter, to string) {
	w.Header().Set("Location", w.Header().Get("Content-Location")+to)
}

// listed reads a parameter of a query that is a list: repeated, or as JSON.
func listed(r *http.Request, name string) ([]string, error) {
	values := r.URL.Query()[name]
	if len(values) != 1 {
		return values, nil
	}
	var list names
	if values[0] != "" && values[0][0] == '[' {
		if json.Unmarshal([]byte(values[0]), &list) != nil {
			return nil, invalid("%s must be a list of strings, not %.80q", name, values[0])
		}
		return list, nil
	}
	return values, nil
}

// serveStream sends a run's events from an ID on; -1 means from now on, as does what no event
// has had yet.
func (s *runs) serveStream(w http.ResponseWriter, r *http.Request, run *db.Run, from int64, modes []string) error {
	log, err := s.streamOf(r.Context(), run)
	if err != nil {
		return err
	}
	defer log.leave()
	out, err := turn.NewStream(w)
	if err != nil {
		return err
	}
	if log == nil { // nobody came in time
		return out.Put([]byte(": the run is over, and its events are not kept any more\n"))
	}
	at := int64(0)
	if from < 0 || from > log.nth() {
		at, from = log.next(), 0
	}
	for ev, err := range log.events(r.Context(), at, heartbeat, out.Beat) {
		switch {
		case errors.Is(err, errOver):
			panic(http.ErrAbortHandler) // an orderly end would say that the run is over
		case err != nil:
			return err
		case ev.Nth < from || len(modes) > 0 && !wanted(ev.Method, modes):
			continue
		}
		if err := out.Put(frame(ev.Method, ev.Data, ev.Nth)); err != nil {
			return err
		}
	}
	return nil
}

// removed is what the last event of a run says whose thread was removed: an end
// without an error would look as if the run had done all it had to.
func removed(thread string) *db.RunError {
	return &db.RunError{Error: "ThreadRemoved", Message: fmt.Sprintf("Thread with ID %s was removed", thread)}
}

// wanted reports whether an event is of one of the modes.
func wanted(event string, modes []string) bool {
	name, _, _ := strings.Cut(event, "|")
	switch {
	case name == "metadata", name == "error", name == "feedback":
		return true
	case name == "messages":
		return slices.Contains(modes, modeMessagesTuple)
	case strings.HasPrefix(name, "messages/"):
		return slices.Contains(modes, modeMessages)
	}
	return slices.Contains(modes, name)
}

// frame writes an event as clients read it. The data is one line: JSON has no
// line feeds but between its tokens, and ours has none there.
func frame(event string, data []byte, id int64) []byte {
	return fmt.Appendf(nil, "event: %s\ndata: %s\nid: %d\n\n", event, data, id)
}
