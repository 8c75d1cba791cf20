package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// full is a graph that fails, but for Ulm.
func full(t testing.TB) *graph.Graph[trip] {
	t.Helper()
	b := graph.New[trip]("full")
	b.AddNode("act", func(_ context.Context, s *trip) error {
		if s.City == "Ulm" {
			return nil
		}
		return errors.New("100% of seats_are taken in " + s.City)
	})
	b.AddEdge(graph.Start, "act")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func parsed[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err, text)
	}
	return v
}

func TestRunsOfAllThreadsAreFoundByThoseWhoSeeTheThreads(t *testing.T) {
	for name, data := range map[string]func(testing.TB) string{"memory": func(testing.TB) string { return "memory" }, "postgres": ownSchema} {
		t.Run(name, func(t *testing.T) { foundRuns(t, data(t)) })
	}
}

func foundRuns(t *testing.T, data string) {
	th := newTheatre(t, server.Data(data), server.Graph(full(t)))
	names := map[string]string{} // of runs
	run := func(user, thread, name, body string) {
		v := th.as(user)
		v.json("POST", "/threads/"+thread+"/runs/wait", body)
		names[v.json("GET", "/threads/"+thread+"/runs", "").([]any)[0].(object)["run_id"].(string)] = name
	}
	made := func(user string) string {
		return th.as(user).json("POST", "/threads", "{}").(object)["thread_id"].(string)
	}
	one, two, hers := made("ada"), made("ada"), made("bea")
	assistant := th.as("ada").json("POST", "/assistants", `{"graph_id":"full"}`).(object)["assistant_id"].(string)
	run("ada", one, "asks", `{"assistant_id":"booking","input":{"city":"Ulm"}}`)
	run("ada", one, "books", `{"assistant_id":"booking","command":{"resume":true}}`)
	run("ada", two, "fails", `{"assistant_id":"full","input":{"city":"Bonn"}}`)
	run("ada", two, "works", `{"assistant_id":"`+assistant+`","input":{"city":"Ulm"}}`)
	run("bea", hers, "of bea", `{"assistant_id":"full","input":{"city":"Bonn"}}`)

	found := func(user, body string) (got []string, next string) {
		t.Helper()
		status, header, text := th.ask(t.Context(), "POST", "/runs/search", body, "X-Test-User", user)
		if status != 200 {
			t.Fatalf("%s: %d %s", body, status, text)
		}
		for _, r := range parsed[[]object](t, text) {
			got = append(got, names[r["run_id"].(string)])
		}
		return got, header.Get("X-Pagination-Next")
	}
	for body, want := range map[string][]string{
		`{}`:                                                 {"works", "fails", "books", "asks"},
		`{"status":["error"]}`:                               {"fails"},
		`{"status":["interrupted","error"]}`:                 {"fails", "asks"},
		`{"status":["success"]}`:                             {"works", "books"},
		`{"status":["timeout","pending"]}`:                   nil,
		`{"graph_id":"booking"}`:                             {"books", "asks"},
		`{"assistant_id":"full"}`:                            {"fails"},
		`{"assistant_id":"` + assistant + `"}`:               {"works"},
		`{"thread_id":"` + one + `"}`:                        {"books", "asks"},
		`{"thread_id":"` + hers + `"}`:                       nil,
		`{"error":"100% OF SEATS_ARE"}`:                      {"fails"},
		`{"error":"seats are"}`:                              nil,
		`{"user_id":"ada","status":["error"]}`:               {"fails"},
		`{"user_id":"bea"}`:                                  nil,
		`{"created_after":"2001-01-01T00:00:00Z","limit":1}`: {"works"},
		`{"created_before":"2001-01-01T00:00:00Z"}`:          nil,
	} {
		if got, _ := found("ada", body); !slices.Equal(got, want) {
			t.Errorf("%s finds %q, not %q", body, got, want)
		}
	}
	if got, _ := found("bea", `{}`); !slices.Equal(got, []string{"of bea"}) {
		t.Errorf("bea finds %q", got)
	}
	if got, _ := found("eve", `{}`); got != nil {
		t.Errorf("eve finds %q", got)
	}
	var all []string
	next := ""
	for {
		page, more := found("ada", `{"limit":3,"cursor":"`+next+`"}`)
		all = append(all, page...)
		if next = more; next == "" {
			break
		}
	}
	if !slices.Equal(all, []string{"works", "fails", "books", "asks"}) {
		t.Errorf("the pages have %q", all)
	}
	r := th.as("ada").json("POST", "/runs/search", `{"status":["error"],"select":["error","graph_id","user_id","run_started_at","run_ended_at"]}`).([]any)[0].(object)
	if r["graph_id"] != "full" || r["user_id"] != "ada" || r["error"].(object)["message"] != "100% of seats_are taken in Bonn" || r["run_started_at"].(string) > r["run_ended_at"].(string) || len(r) != 5 {
		t.Errorf("the run that failed is %v", r)
	}

	for user, want := range map[string][2]float64{"ada": {4, 1}, "bea": {1, 1}, "eve": {}} {
		var got [2]float64
		for _, one := range th.as(user).json("POST", "/runs/figures", `{"bucket_seconds":3600}`).([]any) {
			f := one.(object)
			got[0], got[1] = got[0]+f["runs"].(float64), got[1]+f["errors"].(float64)
			if f["p50"].(float64) > f["p95"].(float64) {
				t.Errorf("%s: the figures are %v", user, f)
			}
		}
		if got != want {
			t.Errorf("%s: runs and errors are %v, not %v", user, got, want)
		}
	}
	for path, bodies := range map[string][]string{
		"/runs/search":  {`{"status":["odd"]}`, `{"cursor":"x"}`, `{"limit":1001}`, `{"select":["user"]}`, `{"thread_id":"\u0000"}`},
		"/runs/figures": {`{}`, `{"bucket_seconds":0}`, `{"bucket_seconds":1e10}`},
	} {
		for _, body := range bodies {
			if status, text := th.as("ada").send("POST", path, body); status != http.StatusUnprocessableEntity {
				t.Errorf("%s %s: %d %s", path, body, status, text)
			}
		}
	}
}

// What an authoriser selects by something else than an owner is looked for in all runs.
func TestRunsAreFoundByWhateverSelectsTheThreads(t *testing.T) {
	ofTeam := func(_ context.Context, u *server.User, a *server.Action) (server.Filter, error) {
		if a.Resource == server.Runs && a.Verb == server.Search && u.ID == "eve" {
			return server.Filter{}, server.ErrForbidden
		}
		return server.Where("team", u.ID).Or(server.Where("guests", u.ID)), nil
	}
	c := start(t, server.Graph(full(t)), server.Authenticate(byHeader), server.Authorize(ofTeam), quiet())
	for _, metadata := range []string{`{"team":"ada","guests":["bea"]}`, `{"team":"bea"}`} {
		user := parsed[object](t, metadata)["team"].(string)
		thread := (visitor{c, user}).json("POST", "/threads", `{"metadata":`+metadata+`}`).(object)["thread_id"].(string)
		for range 3 {
			(visitor{c, user}).json("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"full","input":{"city":"Ulm"}}`)
		}
	}
	for user, want := range map[string]int{"ada": 3, "bea": 6, "cem": 0} {
		v := visitor{c, user}
		if got := v.json("POST", "/runs/search", `{"limit":1000}`).([]any); len(got) != want {
			t.Errorf("%s finds %d runs, not %d", user, len(got), want)
		}
		n := 0.0
		for _, f := range v.json("POST", "/runs/figures", `{"bucket_seconds":1e9}`).([]any) {
			n += f.(object)["runs"].(float64)
		}
		if int(n) != want {
			t.Errorf("%s: the figures are of %v runs, not %d", user, n, want)
		}
	}
	for _, path := range []string{"/runs/search", "/runs/figures"} {
		if status, text := (visitor{c, "eve"}).send("POST", path, `{"bucket_seconds":1}`); status != http.StatusForbidden {
			t.Errorf("%s for somebody who may not: %d %s", path, status, text)
		}
	}
}

func TestThreadsAreFoundByTheirIDs(t *testing.T) {
	for name, data := range map[string]func(testing.TB) string{"memory": func(testing.TB) string { return "memory" }, "postgres": ownSchema} {
		t.Run(name, func(t *testing.T) {
			c := start(t, server.Data(data(t)), server.Graph(booking(t)), server.WithLimits(server.Limits{Batch: 5000}), quiet())
			var ids []string
			for range 3 {
				ids = append(ids, call[object](c, "POST", "/threads", object{})["thread_id"].(string))
			}
			for n, asked := range [][]string{{}, {ids[1]}, {ids[0], newThread(), ids[2], ids[2], "", "x", "\x00", strings.ToUpper(ids[1])}, ids} {
				if got := call[float64](c, "POST", "/threads/count", object{"ids": asked}); int(got) != n {
					t.Errorf("of %q there are %v, not %d", asked, got, n)
				}
			}
			for _, more := range []int{990, 4990} {
				many := slices.Clone(ids)
				for range more {
					many = append(many, newThread())
				}
				if got := call[float64](c, "POST", "/threads/count", object{"ids": many}); got != 3 {
					t.Errorf("with %d that there aren't: %v", more, got)
				}
			}
		})
	}
}
