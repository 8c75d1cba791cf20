package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// asking is how a server answers GET.
func asking(s *Server, path string) (int, string) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func serving(t *testing.T, opts ...Option) *Server {
	t.Helper()
	s, err := New(t.Context(), append([]Option{Logger(slog.New(slog.NewTextHandler(io.Discard, nil)))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) }) // tests close the database
	return s
}

func TestAServerIsReadyUntilItDrains(t *testing.T) {
	s := serving(t, Graph(trips(t)))
	if code, text := asking(s, "/ready"); code != http.StatusOK || text != `{"ready":true}` {
		t.Errorf("before: %d %s", code, text)
	}
	s.Drain(t.Context())
	if code, text := asking(s, "/ready"); code != http.StatusServiceUnavailable || text != "the server is draining" {
		t.Errorf("while it drains: %d %s", code, text)
	}
	if code, _ := asking(s, "/ok"); code != http.StatusOK {
		t.Errorf("it doesn't answer any more: %d", code)
	}
}

func TestAServerIsNotReadyWithoutItsDatabase(t *testing.T) {
	s := serving(t, Graph(trips(t)))
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	if code, text := asking(s, "/ready"); code != http.StatusServiceUnavailable || text != "the database doesn't answer" {
		t.Errorf("without a database: %d %s", code, text)
	}
}
