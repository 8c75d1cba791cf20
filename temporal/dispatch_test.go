package temporal

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/superstep-dev/superstep/chat"
	httpclient "github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/dispatchtest"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/server"
)

func TestAServersRunsGoByTemporal(t *testing.T) {
	t.Parallel()
	s := onServer(t)
	dispatchtest.Run(t, dispatchtest.Suite{Begin: func(t *testing.T) func(*fleet.Worker) (fleet.Dispatcher, error) {
		queue := fmt.Sprintf("%s %d", t.Name(), time.Now().UnixNano())
		return Begin(s.c, Options{TaskQueue: queue, Prefix: queue + "/", Heartbeat: 3 * time.Second}, worker.Options{MaxHeartbeatThrottleInterval: 500 * time.Millisecond})
	}})
}

// talks is a graph whose node sends tokens, and waits in between for a file.
func talks() (*graph.Graph[talk], error) {
	b := graph.New[talk]("talks")
	b.AddNode("say", func(ctx context.Context, s *talk) error {
		if err := graph.EmitMessage(ctx, chat.Chunk{ID: "m", Text: fmt.Sprintf("process %d ", os.Getpid())}); err != nil {
			return err
		}
		for {
			if _, err := os.Stat(s.Heard); err == nil {
				return graph.EmitMessage(ctx, chat.Chunk{ID: "m", Text: "was heard"})
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	return b.AddEdge(graph.Start, "say").Compile()
}

type talk struct{ Heard string }

// serveTalks is a process that does a server's runs, and has no clients.
func serveTalks(c client.Client, queue, url string) error {
	g, err := talks()
	if err != nil {
		return err
	}
	if _, err := server.New(context.Background(), server.Data(url), server.Graph(g), server.Dispatch(Begin(c, Options{TaskQueue: queue}, worker.Options{}))); err != nil {
		return err
	}
	select {}
}

// A client sees a token of a worker in another process while the node is at work: it waits
// for that.
func TestAClientSeesTokensOfAnotherProcessLive(t *testing.T) {
	t.Parallel()
	s := onServer(t)
	url := servertest.Postgres(t)
	join := "?"
	if strings.Contains(url, "?") {
		join = "&"
	}
	url += fmt.Sprintf("%sschema=talks_%d", join, os.Getpid())
	d := s.dispatcher(t, Options{Heartbeat: 3 * time.Second})
	process := s.worker(d, url, "talks")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	g, err := talks()
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(t.Context(), server.Data(url), server.Graph(g), server.Dispatch(func(*fleet.Worker) (fleet.Dispatcher, error) { return d, nil }))
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(srv)
	t.Cleanup(func() {
		if err := srv.Close(context.Background()); err != nil {
			t.Error(err)
		}
		h.Close()
	})
	c, err := httpclient.New(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	thread, err := c.CreateThread(t.Context(), httpclient.NewThread{})
	if err != nil {
		t.Fatal(err)
	}
	heard := filepath.Join(t.TempDir(), "heard")
	r := httpclient.RunRequest{Assistant: "talks", Input: map[string]any{"Heard": heard}, Modes: []httpclient.Mode{httpclient.ModeMessages}}
	said := ""
	for ev, err := range c.Stream(t.Context(), thread.ID, r) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Name != "messages" {
			continue
		}
		var piece []struct{ Content string }
		if err := json.Unmarshal(ev.Data, &piece); err != nil || len(piece) == 0 {
			t.Fatalf("%s: %v", ev.Data, err)
		}
		said += piece[0].Content
		if err := os.WriteFile(heard, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want := fmt.Sprintf("process %d was heard", process.Process.Pid); said != want {
		t.Errorf("heard %q, want %q", said, want)
	}
}
