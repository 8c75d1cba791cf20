package program

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// spanNames are those that a collector got.
type spanNames struct {
	mu    sync.Mutex
	names []string
}

func (s *spanNames) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var got struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []struct{ Key string } }
			ScopeSpans []struct{ Spans []struct{ Name string } }
		}
	}
	data, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(data, &got) != nil || r.URL.Path != "/v1/traces" {
		w.WriteHeader(http.StatusBadRequest)
	}
	for _, of := range got.ResourceSpans {
		for _, in := range of.ScopeSpans {
			for _, span := range in.Spans {
				s.names = append(s.names, span.Name)
			}
		}
	}
}

// take returns the names that came since it was called last.
func (s *spanNames) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := s.names
	s.names = nil
	return names
}

func TestTheEnvironmentHasCommandsTraced(t *testing.T) {
	got := &spanNames{}
	collector := httptest.NewServer(got)
	defer collector.Close()
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"a conversation": {[]string{"chat", "--model", "demo", "what is 6*7"}, []string{"invoke_workflow chat", "chat demo", "node tools"}},
		"a run":          {[]string{"run", "hello", "--input", "{}"}, []string{"invoke_workflow hello", "superstep"}},
	} {
		cmd := superstep(t, t.TempDir(), tt.args...)
		cmd.Env = append(cmd.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		names := got.take()
		for _, want := range tt.want {
			if !slices.Contains(names, want) {
				t.Errorf("%s has no span %q: %q", name, want, names)
			}
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	server, url := serving(t, t.TempDir())
	ask[m](t, "POST", url+"/runs/wait", m{"assistant_id": "trip", "input": m{"days": 2}})
	if err := server.Process.Signal(os.Interrupt); err != nil { // which sends what is left
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
	if names := got.take(); !slices.Contains(names, "invoke_workflow trip") || !slices.Contains(names, "node price") {
		t.Errorf("a server has no spans of its runs: %q", names)
	}
	cmd := superstep(t, t.TempDir(), "graphs")
	cmd.Env = append(cmd.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "http/json") {
		t.Errorf("another protocol: %v\n%s", err, out)
	}
}
