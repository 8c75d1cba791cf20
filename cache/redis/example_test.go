package redis_test

import (
	"context"
	"encoding/json"
	"log"
	"time"

	"github.com/superstep-dev/superstep/cache/redis"
	"github.com/superstep-dev/superstep/graph"
)

// Results of a node are kept for an hour, for all processes that reach the server.
func Example() {
	type page struct{ URL, Text string }
	results, err := redis.Open(context.Background(), "redis://localhost:6379/1")
	if err != nil {
		log.Fatal(err)
	}
	defer results.Close()
	b := graph.New[page]("pages")
	b.AddNode("fetch", func(_ context.Context, s *page) error { return nil }, graph.Cache(graph.CachePolicy{
		Store: results,
		TTL:   time.Hour,
		Key:   func(state any, _ json.RawMessage) (string, error) { return state.(*page).URL, nil },
	}))
}
