package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/server"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// tools connects to a server as an MCP client does.
func tools(t *testing.T, c client, cfg mcp.Config, user string) *mcp.Client {
	t.Helper()
	cfg.Transport = mcp.HTTP{URL: c.url + "/mcp", Header: http.Header{"X-Test-User": {user}}}
	m, err := mcp.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// called calls a tool of a client's, as the structured result has it.
func called(t *testing.T, m *mcp.Client, name, args string) (r mcp.ThreadResult, err error) {
	t.Helper()
	all, err := m.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(all...)
	if err != nil {
		t.Fatal(err)
	}
	one, err := set.Get(name)
	if err != nil {
		return r, err
	}
	out, err := one.Call(t.Context(), json.RawMessage(args))
	if err == nil {
		err = json.Unmarshal(out.Artifact, &r)
	}
	return r, err
}

func TestAnAssistantIsAToolOfMCPWhoseCallsAreRuns(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.Graph(slow(t)), quiet())
	for _, protocol := range []string{"", "2025-06-18"} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			asked := 0
			nodes := make(chan string, 100)
			m := tools(t, c, mcp.Config{
				Protocol:   protocol,
				OnProgress: func(_ context.Context, p mcp.Progress) { nodes <- p.Message },
				Elicit: func(context.Context, mcp.Elicitation) (mcp.ElicitationAnswer, error) {
					asked++
					return mcp.ElicitationAnswer{Action: mcp.Accept, Content: json.RawMessage(`{"answer":true}`)}, nil
				},
			}, "")
			r, err := called(t, m, "booking", `{"city":"Bonn"}`)
			if err != nil {
				t.Fatal(err)
			}
			if protocol != "" { // a client without a session is asked by the result
				if asked > 0 || r.Status != "asks" || len(r.Questions) != 1 {
					t.Fatalf("asked %d times, and got %+v", asked, r)
				}
				if r, err = called(t, m, mcp.AnswerTool, `{"graph":"booking","thread":"`+r.Thread+`","answers":{"`+r.Questions[0].Key+`":true}}`); err != nil {
					t.Fatal(err)
				}
			} else if asked != 1 {
				t.Errorf("asked %d times", asked)
			}
			if r.Status != "done" || !strings.Contains(string(r.Output), `"booked":true`) {
				t.Errorf("it ended as %+v, %s", r, r.Output)
			}
			if runs := call[[]object](c, "GET", "/threads/"+r.Thread+"/runs", nil); len(runs) != 2 {
				t.Errorf("the thread has %d runs", len(runs))
			}
			if r, err := called(t, m, "slow", `{"todo":5}`); err != nil || r.Status != "done" {
				t.Errorf("%+v, %v", r, err)
			}
			select {
			case node := <-nodes:
				if node != "plan" && node != "book" && node != "tick" {
					t.Errorf("the progress names %q", node)
				}
			default:
				t.Error("nothing was told of the progress")
			}
		})
	}
}

func TestMCPShowsNobodyWhatIsSomebodyElses(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.Authenticate(byHeader), server.Authorize(server.OwnedByUser()), quiet())
	alice := visitor{c, "alice"}
	mine := alice.json("POST", "/assistants", `{"graph_id":"booking","name":"short trips"}`)
	r, err := called(t, tools(t, c, mcp.Config{}, "alice"), "short_trips", `{"city":"Bonn"}`)
	if err != nil || r.Status != "asks" {
		t.Fatalf("%+v, %v, of %v", r, err, mine)
	}
	bob := tools(t, c, mcp.Config{}, "bob")
	if _, err := called(t, bob, "short_trips", `{"city":"Bonn"}`); err == nil {
		t.Error("bob runs alice's assistant")
	}
	for _, args := range []string{`{"city":"Bonn","thread":"` + r.Thread + `"}`, `{"city":"Bonn","thread":"none"}`} {
		if _, err := called(t, bob, "booking", args); err == nil || strings.Contains(err.Error(), "alice") {
			t.Errorf("%s: %v", args, err)
		}
	}
	if _, err := called(t, bob, mcp.AnswerTool, `{"graph":"booking","thread":"`+r.Thread+`","answers":{"sure":true}}`); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("bob's answer to alice: %v", err)
	}
}

// Names are users' choice: none takes another's tool, or all tools away.
func TestEveryAssistantIsAToolOfMCPWhateverItsName(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.Graph(slow(t)), quiet())
	ids := map[string]bool{}
	for _, name := range []string{"short trips", "short_trips", "short-trips", mcp.AnswerTool, "slow", "東京", "大阪", strings.Repeat("long ", 60)} {
		ids[call[object](c, "POST", "/assistants", object{"graph_id": "booking", "name": name})["assistant_id"].(string)] = true
	}
	m := tools(t, c, mcp.Config{}, "")
	all, err := m.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := len(ids) + 2 + 1; len(all) != want {
		t.Errorf("there are %d tools, want %d", len(all), want)
	}
	for _, one := range all {
		if name := one.Spec().Name; len(name) > 64 {
			t.Errorf("models can't call a tool with a name of %d characters: %s", len(name), name)
		}
	}
	if r, err := called(t, m, "slow", `{"todo":1}`); err != nil || r.Status != "done" {
		t.Errorf("the name of a graph is another's: %+v, %v", r, err)
	}
}

func TestMCPTellsWhatIsWrongWithACall(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.WithLimits(server.Limits{Body: 10_000}), quiet())
	m := tools(t, c, mcp.Config{}, "")
	for args, want := range map[string]string{
		`{"days":"two"}`:                 "days",
		`{"city":"Bonn","thread":"t-1"}`: "UUID",
		`{"city":"Bonn","thread":7}`:     "thread",
		`{"city":"Bonn","thread":"` + strings.Repeat("x", 9000) + `"}`: "UUID",
	} {
		if _, err := called(t, m, "booking", args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want it to name %s", args, err, want)
		}
	}
	for body, want := range map[string]int{"": 400, "{": 400, "[]": 400, `{"jsonrpc":"2.0","id":1,"method":"tools/fly"}`: 400, `{"x":"` + strings.Repeat("x", 20_000) + `"}`: 413} {
		if status, _, text := c.ask(t.Context(), "POST", "/mcp", body, "Mcp-Protocol-Version", "2025-06-18"); status != want {
			t.Errorf("%.40q: %d %s, want %d", body, status, text, want)
		}
	}
	if status, _, _ := c.ask(t.Context(), "GET", "/mcp", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", status)
	}
}
