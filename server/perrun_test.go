package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// errands compiles a graph that plans in the words of whoever made it, and asks; with
// extras it has a node more.
func errands(words string, extras bool) (*graph.Graph[trip], error) {
	b := graph.New[trip]("errands")
	b.AddNode("plan", func(_ context.Context, s *trip) error {
		s.City += words
		return nil
	})
	b.AddNode("book", func(ctx context.Context, s *trip) error {
		yes, err := graph.Interrupt[bool](ctx, "sure", "Shall I?")
		s.Booked = yes
		return err
	})
	b.AddNode("close", func(_ context.Context, s *trip) error {
		s.City += " closed by " + words
		return nil
	})
	b.AddEdge(graph.Start, "plan")
	b.AddEdge("book", "close")
	if extras {
		b.AddNode("insure", func(_ context.Context, s *trip) error {
			s.City += " insured"
			return nil
		})
		b.AddEdge("plan", "insure").AddEdge("insure", "book")
	} else {
		b.AddEdge("plan", "book")
	}
	return b.Compile(graph.Configurable(errand{}))
}

type errand struct {
	Extras bool   `json:"extras"`
	Case   string `json:"case"`
}

func TestEachRunIsOfTheGraphThatIsMadeForIt(t *testing.T) {
	served, err := errands("nobody", true)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var asked []server.RunRequest
	c := start(t, quiet(), server.APIKeys("anna="+newKey, "ben="+oldKey), server.GraphPerRun(served, func(_ context.Context, r server.RunRequest) (*graph.Graph[trip], error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r)
		var of errand
		if err := json.Unmarshal(r.Config, &of); err != nil {
			return nil, err
		}
		return errands(r.User.DisplayName, of.Extras)
	}, server.Describe("Runs errands.")))
	for _, tt := range []struct {
		user   string
		key    string
		config object
		asks   string
		says   string
	}{
		{"anna", newKey, object{}, "anna", "anna closed by anna"},
		{"ben", oldKey, object{"extras": true}, "ben insured", "ben insured closed by ben"},
	} {
		c := c.as(tt.key)
		thread := newThread()
		body := object{"assistant_id": "errands", "input": object{}, "config": object{"configurable": tt.config}, "if_not_exists": "create"}
		if got := call[object](c, "POST", "/threads/"+thread+"/runs/wait", body)["city"]; got != tt.asks {
			t.Errorf("%s: %v", tt.user, got)
		}
		if got := call[object](c, "GET", "/threads/"+thread+"/state", nil); len(got["next"].([]any)) != 1 {
			t.Errorf("%s: %v", tt.user, got)
		}
		// The thread keeps what its runs are configured with.
		body = object{"assistant_id": "errands", "command": object{"resume": true}}
		if got := call[object](c, "POST", "/threads/"+thread+"/runs/wait", body); got["city"] != tt.says || got["booked"] != true {
			t.Errorf("%s: %v", tt.user, got)
		}
		if got := call[[]any](c, "GET", "/threads/"+thread+"/history", nil); len(got) < 4 {
			t.Errorf("%s: %v", tt.user, got)
		}
		mu.Lock()
		for _, r := range asked {
			if r.Thread != thread || r.Run == "" || r.Assistant == "" || r.User.ID != "api-key:"+tt.user {
				t.Errorf("asked for %+v", r)
			}
		}
		if len(asked) != 2 || asked[0].Run == asked[1].Run {
			t.Errorf("%d runs of two", len(asked))
		}
		asked = nil
		mu.Unlock()
	}
}

func TestARunWhoseGraphCanNotBeMadeFails(t *testing.T) {
	served, err := errands("nobody", false)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]func() (*graph.Graph[trip], error){
		"no model for you":         func() (*graph.Graph[trip], error) { return nil, errors.New("no model for you") },
		"no graph":                 func() (*graph.Graph[trip], error) { return nil, nil },
		`it has the node "insure"`: func() (*graph.Graph[trip], error) { return errands("x", true) },
		`it is named "booking"`:    func() (*graph.Graph[trip], error) { return booking(t), nil },
		"panic: out of tools":      func() (*graph.Graph[trip], error) { panic("out of tools") },
	}
	c := start(t, quiet(), server.GraphPerRun(served, func(_ context.Context, r server.RunRequest) (*graph.Graph[trip], error) {
		var of errand
		if err := json.Unmarshal(r.Config, &of); err != nil {
			return nil, err
		}
		if f := made[of.Case]; f != nil {
			return f()
		}
		return errands("well", false)
	}))
	thread := newThread()
	for want := range made {
		body := object{"assistant_id": "errands", "input": object{}, "config": object{"configurable": object{"case": want}}, "if_not_exists": "create"}
		_, _, answer := c.do("POST", "/threads/"+thread+"/runs/wait", body)
		if !strings.Contains(string(answer), `of \"errands\"`) || !strings.Contains(string(answer), strings.ReplaceAll(want, `"`, `\"`)) {
			t.Errorf("%s: %s", want, answer)
		}
	}
	body := object{"assistant_id": "errands", "input": object{}, "config": object{"configurable": object{"case": ""}}}
	if got := call[object](c, "POST", "/threads/"+thread+"/runs/wait", body)["city"]; got != "well" {
		t.Errorf("afterwards: %v", got)
	}
	if _, err := server.New(t.Context(), server.GraphPerRun[trip](served, nil)); err == nil || !strings.Contains(err.Error(), "server.Graph") {
		t.Errorf("without a function: %v", err)
	}
}
