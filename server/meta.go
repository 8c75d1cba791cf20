package server

import (
	"net/http"
	"runtime/debug"
)

func (s *Server) ok(w http.ResponseWriter, r *http.Request) error {
	return write(w, map[string]bool{"ok": true})
}

func (s *Server) info(w http.ResponseWriter, r *http.Request) error {
	about := map[string]any{
		"version": s.version,
		"context": "go",
		"flags":   map[string]bool{"assistants": true, "crons": true, "langsmith": false, "langsmith_tracing_replicas": false},
	}
	if s.dialogue != nil {
		about["dialogue"] = s.dialogue.served.name // the graph
	}
	return write(w, about)
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
