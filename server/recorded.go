package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// getRecording answers with a thread as a recording: all its checkpoints, with what was noted
// beside them, to be replayed, imported elsewhere or kept as a test.
func (s *states) getRecording(w http.ResponseWriter, r *http.Request) error {
	t, err := s.threadOf(r)
	if err != nil {
		return err
	}
	rec, err := s.recordingOf(r.Context(), t)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", `attachment; filename="`+t.ID+`.jsonl"`)
	return rec.Write(w)
}

// recordingOf returns a thread as a recording, unless it is more than a request may read.
func (s *states) recordingOf(ctx context.Context, t *db.Thread) (*recording.Recording, error) {
	lister, ok := s.store.(checkpoint.Lister)
	if !ok {
		return nil, &fault{http.StatusNotImplemented, "The server's store can't list what a thread has"}
	}
	var bytes int64 // the thread is read as a whole
	for log, err := range lister.Logs(ctx, checkpoint.ThreadID(t.ID)) {
		if err != nil {
			return nil, err
		}
		bytes += log.Bytes
	}
	if limit := s.limits.Read; limit >= 0 && bytes > int64(limit) {
		return nil, invalid("The thread has %d bytes, more than the %d that a request may read: export it where its store is, with superstep export", bytes, limit)
	}
	rec, err := recording.Take(ctx, s.store, checkpoint.ThreadID(t.ID))
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, notFound("Thread %s has no checkpoints yet", t.ID)
	}
	return rec, err
}
