package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// An operator is told of runs that fail: loudly, and where, of those in which a node
// panics; not at all of those that ask or are cancelled.
func TestFailuresOfRunsAreLoggedAsLoudAsTheyAre(t *testing.T) {
	var mu sync.Mutex
	var logged []object
	log := slog.New(slog.NewJSONHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		var o object
		if err := json.Unmarshal(p, &o); err != nil {
			t.Error(err)
		}
		logged = append(logged, o)
		return len(p), nil
	}), nil))
	b := graph.New[trip]("failing")
	b.AddNode("act", func(ctx context.Context, s *trip) error {
		switch s.City {
		case "fail":
			return errors.New("no seats")
		case "panic":
			explode()
		}
		return nil
	})
	b.AddEdge(graph.Start, "act")
	c := start(t, server.Graph(b.MustCompile()), server.Graph(booking(t)), server.Graph(slow(t)), server.Logger(log))
	run := func(assistant, city string) []object {
		t.Helper()
		mu.Lock()
		logged = nil
		mu.Unlock()
		call[object](c, "POST", "/runs/wait", object{"assistant_id": assistant, "input": object{"city": city}, "on_completion": "keep"})
		mu.Lock()
		defer mu.Unlock()
		return logged
	}
	for city, want := range map[string]string{"fail": "WARN", "panic": "ERROR"} {
		got := run("failing", city)
		if len(got) != 1 {
			t.Errorf("%s: logged is %v", city, got)
			continue
		}
		l := got[0]
		if l["level"] != want || l["graph"] != "failing" || l["node"] != "act" || l["run"] == "" || l["thread"] == "" || l["error"] == "" {
			t.Errorf("%s: logged is %v", city, l)
		}
		if stack, _ := l["stack"].(string); strings.Contains(stack, "explode") != (city == "panic") {
			t.Errorf("%s: the stack is %q", city, stack)
		}
	}
	if got := run("booking", "Ulm"); len(got) != 0 {
		t.Errorf("of a run that asks is logged %v", got)
	}
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	id := call[object](c, "POST", "/threads/"+thread+"/runs", object{"assistant_id": "slow", "input": object{"todo": 1000}})["run_id"].(string)
	waitFor(t, "the run works", func() bool { n, _ := c.values(thread)["done"].(float64); return n > 0 })
	call[any](c, "POST", "/threads/"+thread+"/runs/"+id+"/cancel?wait=1", nil)
	mu.Lock()
	defer mu.Unlock()
	if len(logged) != 0 {
		t.Errorf("of a run that is cancelled is logged %v", logged)
	}
}

func explode() { panic("nobody thought of this") }
