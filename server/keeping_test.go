package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/server"
)

func TestThreadsAndItemsAreKeptAsLongAsTheServerSays(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.Graph(slow(t)), server.KeepThreads(90*time.Minute), server.MemoryConfig(memory.Config{TTL: time.Millisecond}), quiet())
	kept := func(path string, body object) any {
		v, _ := call[object](c, "POST", path, body)["ttl"].(object)
		return v["ttl_minutes"]
	}
	if got := kept("/threads", object{}); got != 90. {
		t.Errorf("a thread is kept %v minutes", got)
	}
	if got := kept("/threads", object{"ttl": 5}); got != 5. {
		t.Errorf("one whose client says how long is kept %v minutes", got)
	}
	thread := newThread()
	call[object](c, "POST", "/threads/"+thread+"/runs", object{"assistant_id": "booking", "input": object{}, "if_not_exists": "create"})
	if v := call[object](c, "GET", "/threads/"+thread, nil)["ttl"]; v == nil {
		t.Error("a thread that a run made is kept for ever")
	}
	alone := call[object](c, "POST", "/runs", object{"assistant_id": "slow", "input": object{"todo": 20}})["thread_id"].(string)
	if v, there := call[object](c, "GET", "/threads/"+alone, nil)["ttl"]; there {
		t.Errorf("a thread that ends with its run is kept for %v", v)
	}
	c.do("PUT", "/store/items", object{"namespace": []string{"notes"}, "key": "k", "value": object{"a": 1}})
	time.Sleep(5 * time.Millisecond)
	if status, _, text := c.do("GET", "/store/items?namespace=notes&key=k", nil); strings.TrimSpace(text) != "null" {
		t.Errorf("an item whose time is over: %d %s", status, text)
	}
	if _, err := server.New(t.Context(), server.Graph(booking(t)), server.KeepThreads(-time.Second)); err == nil || !strings.Contains(err.Error(), "KeepThreads") {
		t.Errorf("a negative time: %v", err)
	}
}
