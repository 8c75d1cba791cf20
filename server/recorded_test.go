package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

func TestAThreadIsExportedAsARecordingThatReplaysAndIsImported(t *testing.T) {
	g := booking(t)
	s := calm(t)
	thread := "/threads/" + threadOn(t, s)
	id := thread[len("/threads/"):]
	if w := quick(t.Context(), s, "GET", thread+"/recording", ""); w.Code != 404 || !strings.Contains(w.Body.String(), "no checkpoints yet") {
		t.Errorf("of a new thread: %d %s", w.Code, w.Body)
	}
	okay(t, s, "POST", thread+"/runs/wait", `{"assistant_id":"booking","input":{"city":"Bonn"}}`)
	okay(t, s, "POST", thread+"/runs/wait", `{"assistant_id":"booking","command":{"resume":true}}`)
	w := quick(t.Context(), s, "GET", thread+"/recording", "")
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/x-ndjson" || !strings.Contains(w.Header().Get("Content-Disposition"), id+".jsonl") {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	text := w.Body.String()
	rec, err := recording.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for d, err := range g.Replay(t.Context(), rec, graph.ReplayOptions{}) {
		t.Errorf("replayed: %v, %v", d, err)
	}
	store := checkpoint.NewMemory()
	if _, err := recording.Import(t.Context(), store, strings.NewReader(text), "again"); err != nil {
		t.Fatal(err)
	}
	snap, err := g.Thread("again", graph.WithCheckpointer(store)).State(t.Context())
	if err != nil || !snap.Done() {
		t.Errorf("imported: %v, %v", snap, err)
	}
}

func threadOn(t *testing.T, s *server.Server) string {
	t.Helper()
	var one struct {
		ID string `json:"thread_id"`
	}
	if err := json.Unmarshal([]byte(okay(t, s, "POST", "/threads", `{}`)), &one); err != nil {
		t.Fatal(err)
	}
	return one.ID
}

func TestAThreadThatIsTooLargeIsNotExported(t *testing.T) {
	s := calm(t, server.Graph(bulky(t, 4, 10_000)), server.WithLimits(server.Limits{Read: 20_000}))
	thread := "/threads/" + threadOn(t, s)
	okay(t, s, "POST", thread+"/runs/wait", `{"assistant_id":"bulky","input":{}}`)
	if w := quick(t.Context(), s, "GET", thread+"/recording", ""); w.Code != 422 || !strings.Contains(w.Body.String(), "superstep export") {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
}
