package server

import (
	"net/http"
	"runtime/debug"
)

// meta tells of the server itself.
type meta struct {
	*base
	dispatcher  *dispatcher
	description func() ([]byte, error) // in OpenAPI
	asksAgain   bool                   // models, on behalf of clients
}

func (s *meta) routes() []route {
	return []route{
		{"GET /ok", "ok", rule{how: open}, s.ok},
		{"GET /ready", "ready", rule{how: open}, s.ready},
		{"GET /info", "info", rule{how: open}, s.info},
		{"GET /metrics", "metrics", rule{resource: Counters, verb: Read}, itself(s.showMetrics)},
		{"GET /openapi.json", "openapi", rule{how: signedIn}, itself(s.openAPI)},
	}
}

func (s *meta) openAPI(w http.ResponseWriter, r *http.Request) error {
	data, err := s.description()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(data)
	return err
}

func (s *meta) ok(w http.ResponseWriter, r *http.Request) (any, error) {
	return map[string]bool{"ok": true}, nil
}

func (s *meta) info(w http.ResponseWriter, r *http.Request) (any, error) {
	about := map[string]any{
		"version": s.version,
		"context": "go",
		"flags":   map[string]bool{"assistants": true, "crons": true, "langsmith": false, "langsmith_tracing_replicas": false, "ask_again": s.asksAgain},
	}
	if s.dialogue != nil {
		about["dialogue"] = s.dialogue.served.name // the graph
	}
	return about, nil
}

// modulePath is this module's.
const modulePath = "github.com/superstep-dev/superstep"

// moduleVersion is the version of this module in the program.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if info.Main.Path == modulePath {
		return info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == modulePath {
			return d.Version
		}
	}
	return "unknown"
}
