package server_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/server"
)

// isoformat is how Python writes a time in UTC, which is what LangGraph's servers
// answer with. Versions of it before 3.11 can't read a Z.
var isoformat = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$`)

func TestEveryTimeInAnAnswerHasTheSameForm(t *testing.T) {
	posted := make(chan any, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var v any
		data, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(data, &v)
		}
		if err != nil {
			t.Error(err)
		}
		posted <- v
	}))
	defer hook.Close()
	c := start(t, server.Graph(booking(t)), server.AllowPrivateWebhooks(), quiet())

	seen := map[string]bool{}
	var look func(where string, v any)
	look = func(where string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				look(where+"."+name, inner)
				if text, ok := inner.(string); ok && isoformat.MatchString(text) {
					seen[name] = true
				}
			}
		case []any:
			for _, inner := range v {
				look(where+"[]", inner)
			}
		case string:
			if _, err := time.Parse(time.RFC3339Nano, v); err == nil && !isoformat.MatchString(v) {
				t.Errorf("%s is %s", where, v)
			}
		}
	}
	ask := func(method, path string, body any) object {
		t.Helper()
		v := call[any](c, method, path, body)
		look(method+" "+path, v)
		o, _ := v.(object)
		return o
	}

	assistant := "/assistants/" + ask("POST", "/assistants", object{"graph_id": "booking"})["assistant_id"].(string)
	ask("GET", assistant, nil)
	ask("PATCH", assistant, object{"name": "b"})
	ask("POST", assistant+"/latest", object{"version": 1})
	ask("POST", assistant+"/versions", object{})
	ask("POST", "/assistants/search", object{})
	ask("POST", "/assistants/search", object{"select": []string{"created_at", "updated_at"}})

	thread := "/threads/" + ask("POST", "/threads", object{"ttl": 60})["thread_id"].(string)
	run := ask("POST", thread+"/runs", object{"assistant_id": "booking", "input": object{"city": "Rom"}, "webhook": hook.URL})["run_id"].(string)
	ask("GET", thread+"/runs/"+run+"/join", nil)
	ask("GET", thread+"/runs/"+run, nil)
	ask("GET", thread+"/runs", nil)
	ask("GET", thread+"/runs?select=created_at", nil)
	ask("POST", "/runs/batch", []any{object{"assistant_id": "booking", "input": object{}}})
	ask("POST", "/runs/search", object{})
	ask("POST", "/runs/figures", object{"bucket_seconds": 60})
	ask("GET", thread, nil)
	ask("PATCH", thread, object{"ttl": 90})
	ask("POST", thread+"/copy", nil)
	ask("POST", thread+"/feedback", object{"comment": "x"})
	ask("GET", thread+"/feedback", nil)
	ask("POST", "/threads/search", object{})
	ask("POST", "/threads/search", object{"select": []string{"updated_at", "ttl"}})
	ask("GET", thread+"/state", nil)
	ask("GET", thread+"/state?subgraphs=true", nil)
	ask("POST", thread+"/history", object{})
	look("the webhook", <-posted)

	cron := ask("POST", "/runs/crons", object{"assistant_id": "booking", "schedule": "@daily", "end_time": "2099-01-01T01:00:00.123456789+01:00"})
	if cron["end_time"] != "2099-01-01T00:00:00.123456+00:00" {
		t.Errorf("the cron ends at %v", cron["end_time"])
	}
	ask("PATCH", "/runs/crons/"+cron["cron_id"].(string), object{"end_time": "2098-01-01T00:00:00Z"})
	ask("POST", "/runs/crons/search", object{})

	ask("PUT", "/store/items", object{"namespace": []string{"a"}, "key": "k", "value": object{}})
	ask("GET", "/store/items?namespace=a&key=k", nil)
	ask("POST", "/store/items/search", object{})

	want := []string{"began_at", "created_at", "end_time", "expires_at", "from", "next_run_date", "run_ended_at", "run_started_at", "state_updated_at", "updated_at", "webhook_sent_at"}
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
		t.Errorf("the times are %v", got)
	}
}
