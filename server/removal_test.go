package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// slowToDelete is a store of which a removal can be seen in the middle.
type slowToDelete struct {
	checkpoint.Store
	begun, end chan struct{}
}

func (s *slowToDelete) Delete(ctx context.Context, thread checkpoint.ThreadID) error {
	close(s.begun)
	<-s.end
	return s.Store.Delete(ctx, thread)
}

// A thread that is being removed takes no runs any more: one that did would never
// begin, and whoever waits for it would wait for ever.
func TestWhoeverWaitsWhileAThreadIsRemovedIsAnswered(t *testing.T) {
	working, work := make(chan struct{}), make(chan struct{})
	b := graph.New[trip]("works")
	b.AddNode("work", func(context.Context, *trip) error { close(working); <-work; return nil })
	b.AddEdge(graph.Start, "work")
	store := &slowToDelete{Store: checkpoint.NewMemory(), begun: make(chan struct{}), end: make(chan struct{})}
	c := start(t, server.Graph(b.MustCompile()), server.Graph(booking(t)), server.UseStore(store), server.MaxRuns(1), quiet())
	thread := call[object](c, "POST", "/threads", object{"graph_id": "booking"})["thread_id"].(string)
	call[any](c, "POST", "/runs", object{"assistant_id": "works", "input": object{}, "on_completion": "keep"})
	<-working // so that no other run begins
	removed := make(chan struct{})
	go func() {
		defer close(removed)
		c.do("DELETE", "/threads/"+thread, nil)
	}()
	<-store.begun
	ends := make(chan string, 2)
	for _, how := range []string{"wait", "stream"} {
		go func() {
			status, _, text := c.do("POST", "/threads/"+thread+"/runs/"+how, object{"assistant_id": "booking", "input": object{}})
			ends <- fmt.Sprint(how, " ", status, " ", strings.TrimSpace(text))
		}()
	}
	// Whether they are refused at once or end with the thread.
	middle := true
	for range 2 {
		select {
		case got := <-ends:
			if !strings.Contains(got, " 404 ") && !strings.Contains(got, "ThreadRemoved") {
				t.Errorf("who waits is told %s", got)
			}
		case <-time.After(patience):
			t.Error("a request waits for ever")
		}
		if middle {
			middle = false
			status, _, _ := c.do("GET", "/threads/"+thread, nil)
			again, _, _ := c.do("POST", "/threads", object{"thread_id": thread})
			if status != http.StatusNotFound || again != http.StatusConflict {
				t.Errorf("in the middle the thread is %d, and its ID %d", status, again)
			}
			close(store.end)
		}
	}
	<-removed
	close(work)
	call[any](c, "POST", "/threads", object{"thread_id": thread})
}

func TestACopyLivesAsLongAsItsThread(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet())
	thread := call[object](c, "POST", "/threads", object{"ttl": 30})
	made := call[object](c, "POST", "/threads/"+thread["thread_id"].(string)+"/copy", nil)
	ttl, _ := made["ttl"].(object)
	if ttl["ttl_minutes"] != 30.0 || ttl["expires_at"].(string) < thread["ttl"].(object)["expires_at"].(string) {
		t.Errorf("of a thread with %v the copy has %v", thread["ttl"], made["ttl"])
	}
	if got := call[object](c, "GET", "/threads/"+made["thread_id"].(string), nil)["ttl"]; fmt.Sprint(got) != fmt.Sprint(made["ttl"]) {
		t.Errorf("the copy has %v, and said %v", got, ttl)
	}
}
