package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// nights has a node that sleeps.
type nights struct {
	Woke bool `json:"woke"`
}

func sleeper(t *testing.T, night time.Duration) *graph.Graph[nights] {
	t.Helper()
	b := graph.New[nights]("sleeper")
	b.AddNode("sleep", func(ctx context.Context, s *nights) error {
		if err := graph.Sleep(ctx, "night", night); err != nil {
			return err
		}
		s.Woke = true
		return nil
	})
	b.AddEdge(graph.Start, "sleep").AddEdge("sleep", graph.End)
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestThreadsAreFoundByWhenTheyAreDue(t *testing.T) {
	s := calm(t, server.Graph(sleeper(t, time.Hour)))
	asleep := []string{}
	for range 2 {
		var made struct {
			ID string `json:"thread_id"`
		}
		if err := json.Unmarshal([]byte(okay(t, s, "POST", "/threads", `{"metadata": {"of": "night"}}`)), &made); err != nil {
			t.Fatal(err)
		}
		okay(t, s, "POST", "/threads/"+made.ID+"/runs/wait", `{"assistant_id": "sleeper", "input": {}}`)
		asleep = append(asleep, made.ID)
	}
	okay(t, s, "POST", "/threads", `{"metadata": {"of": "night"}}`) // waits for nothing
	began := time.Now()
	search := func(before time.Time, more string) (ids []string, due []time.Time) {
		t.Helper()
		at, err := json.Marshal(before)
		if err != nil {
			t.Fatal(err)
		}
		var found []struct {
			ID  string    `json:"thread_id"`
			Due time.Time `json:"due_at"`
		}
		if err := json.Unmarshal([]byte(okay(t, s, "POST", "/threads/search", `{"due_before": `+string(at)+`, "sort_by": "created_at", "sort_order": "asc"`+more+`}`)), &found); err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			ids, due = append(ids, f.ID), append(due, f.Due)
		}
		return ids, due
	}
	ids, due := search(began.Add(2*time.Hour), "")
	if strings.Join(ids, " ") != strings.Join(asleep, " ") {
		t.Fatalf("found %v of %v", ids, asleep)
	}
	for _, at := range due {
		if d := at.Sub(began); d < 50*time.Minute || d > 61*time.Minute {
			t.Errorf("due in %v", d)
		}
	}
	at, _ := json.Marshal(began.Add(2 * time.Hour)) // a time
	if got := okay(t, s, "POST", "/threads/search", `{"due_before": `+string(at)+`, "extract": {"when": "due_at"}, "select": ["thread_id"]}`); !strings.Contains(got, `"when":"20`) {
		t.Errorf("when they are due can't be extracted: %s", got)
	}
	if ids, _ := search(began, ""); ids != nil {
		t.Errorf("due already: %v", ids)
	}
	if ids, _ := search(began.Add(2*time.Hour), `, "ids": ["`+asleep[1]+`"]`); len(ids) != 1 || ids[0] != asleep[1] {
		t.Errorf("of one: %v", ids)
	}
	if got := okay(t, s, "POST", "/threads/search", `{"ids": ["`+asleep[0]+`"]}`); strings.Contains(got, "due_at") {
		t.Errorf("unasked: %s", got)
	}
	if w := quick(t.Context(), s, "POST", "/threads/search", `{"due_before": "soon"}`); w.Code != 400 || !strings.Contains(w.Body.String(), "soon") {
		t.Errorf("no time: %d %s", w.Code, w.Body)
	}
}
