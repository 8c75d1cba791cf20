package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/server"
)

// A pooler gives each transaction whichever connection is free, and carries no notes.
func TestInstancesBehindAPooler(t *testing.T) {
	t.Parallel()
	direct := servertest.OwnPostgres(t)
	url := servertest.OwnPgBouncer(t, direct).URL() + "&default_query_exec_mode=exec&schema=pooled"
	opts := []server.Option{server.Data(url), server.Graph(booking(t)), server.Graph(slow(t)), quiet()}
	a, b := start(t, opts...), start(t, opts...)

	t.Run("a run is followed, and joined, at the other instance", func(t *testing.T) {
		thread := newThread()
		s := b.follow(thread, everything)
		a.must(thread, "run.start", object{"assistant_id": "slow", "input": object{"todo": 5}})
		list := s.until(told.ending)
		increasing(t, list)
		counted(t, list, 5)

		run := call[object](a, "POST", "/threads/"+thread+"/runs", object{"assistant_id": "slow", "input": object{"todo": 20}})
		joined := call[object](b, "GET", fmt.Sprintf("/threads/%s/runs/%v/join", thread, run["run_id"]), nil)
		if joined["done"] != 25.0 {
			t.Errorf("joined, it ends with %v", joined)
		}
	})
	t.Run("a run is stopped from the other instance", func(t *testing.T) {
		thread := call[object](a, "POST", "/threads", object{})["thread_id"].(string)
		run := call[object](a, "POST", "/threads/"+thread+"/runs", object{"assistant_id": "slow", "input": object{"todo": 1_000_000}})
		path := fmt.Sprintf("/threads/%s/runs/%v", thread, run["run_id"])
		if status, _, text := b.do("POST", path+"/cancel?wait=true", nil); status >= 300 {
			t.Fatalf("%d %s", status, text)
		}
		if got := call[object](a, "GET", path, nil)["status"]; got != "interrupted" {
			t.Errorf("the run is %v", got)
		}
	})
	t.Run("a question is answered at the other instance", func(t *testing.T) {
		thread := call[object](a, "POST", "/threads", object{})["thread_id"].(string)
		call[any](a, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "booking", "input": object{"city": "Bonn"}})
		call[any](b, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "booking", "command": object{"resume": true}})
		if values := b.values(thread); values["booked"] != true {
			t.Errorf("it ends with %v", values)
		}
	})
	t.Run("what is remembered at one is found at the other", func(t *testing.T) {
		a.do("PUT", "/store/items", object{"namespace": []string{"pooled"}, "key": "k", "value": object{"n": 1}})
		_, _, text := b.do("GET", "/store/items?namespace=pooled&key=k", nil)
		if !strings.Contains(text, `"n":1`) {
			t.Errorf("found is %s", text)
		}
	})
}

// The error says what to add, or else the pooler lets it be.
func TestAPoolerThatRefusesSettingsIsNamed(t *testing.T) {
	t.Parallel()
	direct := servertest.OwnPostgres(t)
	_, err := server.New(t.Context(), server.Data(servertest.OwnPgBouncer(t, direct).URL()), server.Graph(booking(t)), quiet())
	if err == nil || !strings.Contains(err.Error(), "default_query_exec_mode=exec") {
		t.Errorf("the error is %v", err)
	}
	// As docs/deploy.md has it.
	sessions := servertest.OwnPgBouncer(t, direct, "pool_mode = session", "default_pool_size = 40",
		"ignore_startup_parameters = lock_timeout,enable_seqscan,enable_bitmapscan,idle_in_transaction_session_timeout")
	c := start(t, server.Data(sessions.URL()), server.Graph(booking(t)), quiet())
	call[any](c, "POST", "/runs/wait", object{"assistant_id": "booking", "input": object{"city": "Bonn"}})
}
