package snippets_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint/codec"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

type Note struct {
	Text string
	By   string
}

func noteGraph() *graph.Graph[Note] {
	b := graph.New[Note]("notes")
	//snippet:user
	type Config struct {
		User server.User `json:"langgraph_auth_user"`
	}
	b.AddNode("sign", func(ctx context.Context, s *Note) error {
		c, err := graph.Configured[Config](ctx)
		s.By = c.User.ID
		return err
	})
	b.AddEdge(graph.Start, "sign")
	g := b.MustCompile(graph.Configurable(Config{}))
	//snippet:end
	return g
}

// ask sends a request and says what came of it.
func ask(h http.Handler, method, path, key, body string) string {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return fmt.Sprint(w.Code)
}

func TestSecuritySnippets(t *testing.T) {
	ctx, g := t.Context(), noteGraph()
	keys := map[string]string{"anna": strings.Repeat("a", 64), "ben": strings.Repeat("b", 64)}

	//snippet:owned
	s, err := server.New(ctx,
		server.Graph(g),
		server.NamedAPIKeys(server.APIKey{Name: "anna", Key: keys["anna"]}, server.APIKey{Name: "ben", Key: keys["ben"]}),
		server.Authorize(server.OwnedByUser()),
		server.AllowOrigins("https://chat.example.com"),
		server.WithLimits(server.Limits{OpenRunsPerUser: 20, StreamsPerClient: 50}),
	)
	//snippet:end
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	if got := ask(s, "POST", "/threads", keys["anna"], `{"thread_id":"5f9e1f0e-94d8-4a5e-8a2e-3f2f0c6f2b11"}`); got != "200" {
		t.Error("anna's thread:", got)
	}
	thread := "/threads/5f9e1f0e-94d8-4a5e-8a2e-3f2f0c6f2b11"
	for who, want := range map[string]string{keys["anna"]: "200", keys["ben"]: "404", "": "401", "guess": "401"} {
		if got := ask(s, "GET", thread, who, ""); got != want {
			t.Errorf("%.4s gets %s, want %s", who, got, want)
		}
	}

	//snippet:authorize
	readers := server.Authorize(func(_ context.Context, u *server.User, a *server.Action) (server.Filter, error) {
		if a.Resource == server.Store {
			return server.Filter{}, fmt.Errorf("%w: the store is for nodes", server.ErrForbidden)
		}
		if a.Verb != server.Read && a.Verb != server.Search && u.ID != "api-key:editor" {
			return server.Filter{}, fmt.Errorf("%w: %s may only read", server.ErrForbidden, u.ID)
		}
		a.Set("team", "support") // on what is written
		return server.Where("team", "support"), nil
	})
	//snippet:end
	s2, err := server.New(ctx, server.Graph(g), readers, server.APIKeys("editor="+keys["anna"], "reader="+keys["ben"]))
	if err != nil {
		t.Fatal(err)
	}
	defer s2.Close(ctx)
	for who, want := range map[string]string{keys["anna"]: "200", keys["ben"]: "403"} {
		if got := ask(s2, "POST", "/threads", who, `{}`); got != want {
			t.Errorf("%.4s gets %s, want %s", who, got, want)
		}
	}

	dir := t.TempDir()
	key, err := codec.ParseKey(newKey("2026-11"))
	if err != nil {
		t.Fatal(err)
	}
	//snippet:encrypted
	database, err := sqlite.Open(filepath.Join(dir, "threads.db"))
	if err != nil {
		log.Fatal(err)
	}
	threads, err := codec.Wrap(database, codec.Options{Keys: &codec.KeyRing{Current: key}})
	if err != nil {
		log.Fatal(err)
	}
	s, err = server.New(ctx, server.Graph(g), server.UseStore(threads), server.Data("sqlite:"+filepath.Join(dir, "server.db")))
	//snippet:end
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(ctx), threads.Close()); err != nil {
		t.Fatal(err)
	}
}
