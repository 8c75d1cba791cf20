package studio_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	flows "github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/eval"
	"github.com/superstep-dev/superstep/examples/banking"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/server"
	"github.com/superstep-dev/superstep/server/studio"
	"github.com/superstep-dev/superstep/server/studio/internal/example"
)

// missing ends a test that needs a program: where everything is to be tested, by
// failing.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not installed", what)
	}
	t.Skipf("NOT TESTED: the studio in a browser, since %s is not installed", what)
}

func program(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// The studio draws graphs by the places that the server gives.
func TestTheServerGivesPlacesForAGraph(t *testing.T) {
	opts, err := example.Options()
	if err != nil {
		t.Fatal(err)
	}
	api, err := server.New(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	type drawing struct {
		Nodes  []struct{ ID string }
		Layout *draw.Layout
	}
	get := func(query string) (int, drawing) {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/assistants/report/graph?"+query, nil))
		var d drawing
		if w.Code == http.StatusOK {
			if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
				t.Fatal(err)
			}
		}
		return w.Code, d
	}
	if _, d := get("xray=true"); d.Layout != nil || len(d.Nodes) != 8 {
		t.Errorf("who doesn't ask for places gets %+v", d)
	}
	for query, boxes := range map[string]int{"layout=TB": 5, "layout=LR&open=%5B%5D": 5, "layout=TB&open=%5B%22research%22%5D": 9, "layout=TB&open=%5B%22none%22%5D": 5, "layout=TB&xray=1": 12} {
		code, d := get(query)
		if code != http.StatusOK || d.Layout == nil || len(d.Layout.Nodes) != boxes || d.Layout.Width <= 0 {
			t.Errorf("%s: %d, %+v", query, code, d.Layout)
		}
	}
	for _, query := range []string{"layout=RL", "open=research", "open=%7B%7D"} {
		if code, _ := get(query); code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", query, code)
		}
	}
}

// serve serves the example graphs with the studio, and what is around it.
func serve(t *testing.T, around func(http.Handler) http.Handler, more ...server.Option) *httptest.Server {
	t.Helper()
	opts, err := example.Options()
	if err != nil {
		t.Fatal(err)
	}
	api, err := server.New(t.Context(), append(opts, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/studio/", studio.Handler("/studio/"))
	mux.Handle("/", api)
	h := httptest.NewServer(around(mux))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
		if err := api.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// banker is the assistant of examples/banking, which needs no model.
func banker(t *testing.T) *assistant.Assistant {
	t.Helper()
	p, err := flows.Load(banking.Files)
	if err != nil {
		t.Fatal(err)
	}
	code, err := new(banking.Bank).Code()
	if err != nil {
		t.Fatal(err)
	}
	patterns, err := banking.Patterns()
	if err != nil {
		t.Fatal(err)
	}
	a, err := assistant.New(assistant.Config{Program: p, Actions: code, Understanding: patterns})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func alone(h http.Handler) http.Handler { return h }

// A gate stands before a server. While it is closed, nobody gets through, and who
// was through is cut off.
type gate struct{ closed atomic.Bool }

func (g *gate) around(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.closed.Load() {
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	})
}

// People use the studio in a browser: drive.test.mjs says how. With SCREENSHOTS
// set, pictures of it are left in that folder; with SCENARIO only those scenarios run whose
// names match it.
func TestTheStudioIsUsedInABrowser(t *testing.T) {
	chromium := program("chromium", "chromium-browser", "google-chrome")
	if chromium == "" {
		missing(t, "Chromium")
	}
	servertest.Packages(t, "the studio in a browser", ".")
	usual := serve(t, alone)
	large := serve(t, alone)
	runs := serve(t, alone)
	grader, err := eval.Grader(nil)
	if err != nil {
		t.Fatal(err)
	}
	judge, err := agent.New(agent.ReAct[agent.State]{Name: "judge", Model: model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		return &model.Response{Message: chat.Assistant(`{"reason": "It greets.", "score": 0.9}`)}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	tests := serve(t, alone, server.Graph(grader), server.Graph(judge))
	bank := serve(t, alone, server.Dialogue(banker(t)))
	keyed := serve(t, alone, server.APIKeys("open-sesame"))
	var g gate
	gated := serve(t, g.around)
	key := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.closed.Store(r.URL.Path == "/close")
		if g.closed.Load() {
			gated.CloseClientConnections()
		}
	}))
	t.Cleanup(key.Close)
	args := []string{"--test", "--test-reporter=spec"}
	if only := os.Getenv("SCENARIO"); only != "" {
		args = append(args, "--test-name-pattern="+only)
	}
	cmd := exec.CommandContext(t.Context(), "node", append(args, "drive.test.mjs")...)
	cmd.Env = append(os.Environ(), "STUDIO_URL="+usual.URL, "STUDIO_LARGE="+large.URL, "STUDIO_RUNS="+runs.URL, "STUDIO_TESTS="+tests.URL, "STUDIO_BANK="+bank.URL, "STUDIO_KEYED="+keyed.URL, "STUDIO_GATED="+gated.URL, "STUDIO_GATE="+key.URL, "CHROMIUM="+chromium)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	} else if testing.Verbose() {
		t.Logf("%s", out)
	}
}
