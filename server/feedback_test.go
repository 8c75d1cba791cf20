package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/server"
)

// What people think of a thread is listed with who said so, for those who see the thread, and
// goes with it.
func TestFeedbackIsGivenOnThreadsAndRuns(t *testing.T) {
	for name, data := range map[string]func(testing.TB) string{"memory": func(testing.TB) string { return "memory" }, "postgres": ownSchema} {
		t.Run(name, func(t *testing.T) {
			th := newTheatre(t, server.Data(data(t)))
			ada := th.as("ada")
			id := ada.json("POST", "/threads", `{}`).(object)["thread_id"].(string)
			at := "/threads/" + id + "/feedback"
			ada.json("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"booking","input":{"city":"Ulm"}}`)
			run := ada.json("GET", "/threads/"+id+"/runs", "").([]any)[0].(object)["run_id"].(string)
			first := ada.json("POST", at, `{"comment":"Ask Kim."}`).(object)
			if first["user_id"] != "ada" || first["run_id"] != nil || first["score"] != nil || first["key"] != "" || first["thread_id"] != id {
				t.Errorf("the note is %v", first)
			}
			ada.json("POST", at, `{"run_id":"`+run+`","key":"correctness","score":0,"comment":"no"}`)
			all := ada.json("GET", at, "").([]any)
			if len(all) != 2 || all[0].(object)["score"] != 0.0 || all[0].(object)["run_id"] != run || all[1].(object)["comment"] != "Ask Kim." {
				t.Errorf("there is %v", all)
			}
			for query, want := range map[string]int{"?limit=1": 1, "?run_id=" + run: 1, "?run_id=" + newThread(): 0} {
				if got := ada.json("GET", at+query, "").([]any); len(got) != want {
					t.Errorf("%s: %v", query, got)
				}
			}
			for _, tt := range []struct {
				user, method, path, body string
				status                   int
			}{
				{"ada", "POST", at, `{}`, 422}, {"ada", "POST", at, `{"score":1}`, 422}, {"ada", "POST", at, `{"key":"k"}`, 422}, {"ada", "POST", at, `{"key":"k","score":"x"}`, 422},
				{"ada", "POST", at, `{"comment":"` + strings.Repeat("x", 10_001) + `"}`, 422}, {"ada", "POST", at, `{"comment":"x","run_id":"x"}`, 422},
				{"ada", "POST", at, `{"comment":"x","run_id":"` + newThread() + `"}`, 404}, {"ada", "GET", at + "?limit=1001", "", 422}, {"ada", "GET", at + "?run_id=x", "", 422},
				{"ada", "DELETE", at + "/x", "", 422}, {"ada", "DELETE", at + "/" + newThread(), "", 404},
				{"bea", "GET", at, "", 404}, {"bea", "POST", at, `{"comment":"x"}`, 404}, {"bea", "DELETE", at + "/" + first["feedback_id"].(string), "", 404},
			} {
				if status, text := th.as(tt.user).send(tt.method, tt.path, tt.body); status != tt.status {
					t.Errorf("%s: %s %s %.60s: %d %s", tt.user, tt.method, tt.path, tt.body, status, text)
				}
			}
			if status, text := ada.send("DELETE", at+"/"+first["feedback_id"].(string), ""); status != http.StatusNoContent {
				t.Errorf("it isn't removed: %d %s", status, text)
			}
			if got := ada.json("GET", at, "").([]any); len(got) != 1 {
				t.Errorf("left is %v", got)
			}
			// Another thread of that ID has none of it.
			ada.send("DELETE", "/threads/"+id, "")
			ada.json("POST", "/threads", `{"thread_id":"`+id+`"}`)
			if got := ada.json("GET", at, "").([]any); len(got) != 0 {
				t.Errorf("of the thread before: %v", got)
			}
		})
	}
}
