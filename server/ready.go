package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// readyWithin is how long the database may take to answer until the server counts
// as not ready.
const readyWithin = 2 * time.Second

// ready answers whether requests should be sent here: not while the server drains,
// and not while its database doesn't answer.
func (s *meta) ready(w http.ResponseWriter, r *http.Request) (any, error) {
	if s.dispatcher.stopping() {
		return nil, &fault{http.StatusServiceUnavailable, "the server is draining"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyWithin)
	defer cancel()
	if err := s.db.Ping(ctx); err != nil {
		s.log.LogAttrs(r.Context(), slog.LevelError, "server: the database doesn't answer", slog.Any("error", err))
		return nil, &fault{http.StatusServiceUnavailable, "the database doesn't answer"}
	}
	return map[string]bool{"ready": true}, nil
}
