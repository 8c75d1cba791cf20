package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/server"
)

// python sends what LangGraph's client for Python (langgraph-sdk 0.4.3) sends, and
// reads answers as it does: _sync/http.py, errors.py and sse.py are the model.
type python struct {
	t   testing.TB
	url string
	key string
}

// pythonError is what the client raises.
type pythonError struct {
	status  int
	message string
}

func (e *pythonError) Error() string { return e.message }

// send sends a request with the headers of all requests and of this one.
func (p python) send(method, path string, body []byte, headers ...string) *http.Response {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Accept", "*/*")
	r.Header.Set("Connection", "keep-alive")
	r.Header.Set("User-Agent", "langgraph-sdk-py/0.4.3")
	if p.key != "" {
		r.Header.Set("x-api-key", p.key)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp
}

// given is a body without the members that the client leaves out.
func given(body object) []byte {
	kept := object{}
	for k, v := range body {
		if v != nil {
			kept[k] = v
		}
	}
	return encoded(kept)
}

func encoded(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// raised is the error of an answer: its message is a member of an object, or else
// nothing but the status.
func raised(resp *http.Response) error {
	if resp.StatusCode < 400 {
		return nil
	}
	data, _ := io.ReadAll(resp.Body)
	e := &pythonError{resp.StatusCode, resp.Status}
	var o object
	if json.Unmarshal(data, &o) != nil {
		return e
	}
	for _, name := range []string{"message", "detail", "error"} {
		if text, ok := o[name].(string); ok && text != "" {
			e.message = text
			break
		}
	}
	return e
}

// try is a request other than one that waits or streams.
func (p python) try(method, path string, body any) (json.RawMessage, error) {
	p.t.Helper()
	var data []byte
	var headers []string
	switch b := body.(type) {
	case nil:
	case object:
		data, headers = given(b), []string{"Content-Type", "application/json"}
	default:
		data, headers = encoded(b), []string{"Content-Type", "application/json"}
	}
	resp := p.send(method, path, data, headers...)
	defer resp.Body.Close()
	if err := raised(resp); err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	return answer, err
}

// ask is try for what must succeed.
func (p python) ask(method, path string, body any) any {
	p.t.Helper()
	answer, err := p.try(method, path, body)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
	if len(answer) == 0 || method == "DELETE" { // whose answer isn't looked at
		return nil
	}
	var v any
	if err := json.Unmarshal(answer, &v); err != nil {
		p.t.Fatalf("%s %s: %v: %s", method, path, err, answer)
	}
	return v
}

// wait is request_reconnect: if the connection is cut, the client goes where the
// header Location says. Requests without a body have null.
func (p python) wait(method, path string, body object, limit int) (answer any, reconnected int) {
	p.t.Helper()
	data := []byte("null")
	if body != nil {
		data = given(body)
	}
	resp := p.send(method, path, data, "Content-Type", "application/json")
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		p.t.Fatalf("%s %s: %v", method, path, raised(resp))
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		to := resp.Header.Get("Location")
		if limit == 0 || to == "" {
			p.t.Fatalf("%s %s: %v, and the client doesn't know where to come back to", method, path, err)
		}
		answer, n := p.wait("GET", p.here(to), nil, limit-1)
		return answer, n + 1
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &answer); err != nil {
			p.t.Fatalf("%s %s: %v: %s", method, path, err, text)
		}
	}
	return answer, 0
}

// here is a place that the client accepts: a path, or one of the same origin.
func (p python) here(location string) string {
	p.t.Helper()
	to, err := url.Parse(location)
	if err != nil || to.Host != "" && to.Scheme+"://"+to.Host != p.url {
		p.t.Fatalf("the client refuses to follow %q (%v)", location, err)
	}
	return to.RequestURI()
}

// pythonPart is a part of a stream.
type pythonPart struct {
	event, id string
	data      any
}

// stream reads a stream to its end, and comes back by Location and Last-Event-ID
// when it is cut.
func (p python) stream(method, path string, body object, headers ...string) (parts []pythonPart, created *http.Response) {
	p.t.Helper()
	var data []byte
	if body != nil {
		data = given(body)
		headers = append(headers, "Content-Type", "application/json")
	}
	headers = append(headers, "Accept", "text/event-stream", "Cache-Control", "no-store")
	last, back := "", ""
	for try := 0; ; try++ {
		if try > 5 {
			p.t.Fatal("Exceeded maximum SSE reconnection attempts")
		}
		now := headers
		if last != "" {
			now = append(slices.Clone(headers), "Last-Event-ID", last)
		}
		resp := p.send(method, path, data, now...)
		if created == nil {
			created = resp
		}
		if err := raised(resp); err != nil {
			p.t.Fatalf("%s %s: %v", method, path, err)
		}
		if kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); !strings.Contains(kind, "text/event-stream") {
			p.t.Fatalf("Expected response header Content-Type to contain 'text/event-stream', got %q", kind)
		}
		if to := resp.Header.Get("Location"); to != "" {
			back = p.here(to)
		}
		some, seen, err := p.decode(resp.Body)
		resp.Body.Close()
		parts = append(parts, some...)
		if seen != "" {
			last = seen
		}
		if err == nil {
			return parts, created
		}
		if back == "" {
			p.t.Fatalf("%s %s: %v, and the client doesn't know where to come back to", method, path, err)
		}
		method, path, data = "GET", back, nil
		headers = slices.Clone(headers)
		for i := 0; i < len(headers); i += 2 {
			if headers[i] == "Content-Type" {
				headers = slices.Delete(headers, i, i+2)
				break
			}
		}
	}
}

// decode is SSEDecoder: an empty line ends an event if there is anything of one,
// and an ID that was seen is something. Data of several lines are joined without a
// line feed.
func (p python) decode(r io.Reader) (parts []pythonPart, last string, err error) {
	p.t.Helper()
	event, data := "", ""
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if err != nil && err != io.EOF {
			return parts, last, err
		}
		text := strings.TrimRight(line, "\r\n")
		if text == "" && (event != "" || data != "" || last != "") {
			part := pythonPart{event: event, id: last}
			if data != "" {
				if err := json.Unmarshal([]byte(data), &part.data); err != nil {
					p.t.Fatalf("data of event %q: %v: %s", event, err, data)
				}
			}
			if event != "" || part.data != nil {
				parts = append(parts, part)
			}
			event, data = "", ""
		}
		field, value, _ := strings.Cut(text, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			event = value
		case "data":
			data += value
		case "id":
			if !strings.Contains(value, "\x00") {
				last = value
			}
		}
		if err == io.EOF {
			return parts, last, nil
		}
	}
}

func eventsOf(parts []pythonPart) string {
	var names []string
	for _, p := range parts {
		names = append(names, p.event)
	}
	return strings.Join(names, " ")
}

// raises checks the message of the exception.
func (p python) raises(status int, message, method, path string, body any) {
	p.t.Helper()
	_, err := p.try(method, path, body)
	if e, ok := errors.AsType[*pythonError](err); !ok || e.status != status || !strings.Contains(e.message, message) {
		p.t.Errorf("%s %s raises %+v, want %d %s", method, path, err, status, message)
	}
}

func pythonTo(t *testing.T, opts ...server.Option) python {
	t.Helper()
	c := start(t, append(opts, server.Graph(booking(t)), server.Graph(slow(t)), server.Graph(boom(t)), server.Graph(answering(t)), quiet())...)
	return python{t: t, url: c.url}
}

func TestThePythonClientManagesAssistants(t *testing.T) {
	p := pythonTo(t)
	made := p.ask("POST", "/assistants", object{"graph_id": "booking", "metadata": object{"team": "a"}, "name": "Mine"}).(object)
	at := "/assistants/" + made["assistant_id"].(string)
	if made["version"] != 1.0 || p.ask("GET", at, nil).(object)["name"] != "Mine" {
		t.Errorf("made: %v", made)
	}
	if v := p.ask("PATCH", at, object{"config": object{"recursion_limit": 7}, "description": "d"}).(object)["version"]; v != 2.0 {
		t.Errorf("changed, it has the version %v", v)
	}
	search := object{"limit": 10, "offset": 0, "metadata": object{"team": "a"}, "sort_by": "created_at", "sort_order": "asc", "select": []string{"assistant_id", "version"}}
	if found := p.ask("POST", "/assistants/search", search).([]any); len(found) != 1 || len(found[0].(object)) != 2 {
		t.Errorf("found %v", found)
	}
	if n := p.ask("POST", "/assistants/count", object{"graph_id": "booking"}); n != 2.0 {
		t.Errorf("there are %v", n)
	}
	if list := p.ask("POST", at+"/versions", object{"limit": 10, "offset": 0}).([]any); len(list) != 2 {
		t.Errorf("%d versions", len(list))
	}
	if v := p.ask("POST", at+"/latest", object{"version": 1}).(object)["version"]; v != 1.0 {
		t.Errorf("the version is %v", v)
	}
	for _, path := range []string{"/graph?xray=false", "/graph?xray=true", "/graph?xray=2", "/schemas", "/subgraphs?recurse=false"} {
		if _, ok := p.ask("GET", at+path, nil).(object); !ok {
			t.Errorf("%s isn't an object", path)
		}
	}
	p.raises(409, "Assistant already exists", "POST", "/assistants", object{"graph_id": "booking", "assistant_id": made["assistant_id"], "if_exists": "raise"})
	p.ask("DELETE", at+"?delete_threads=true", nil)
	p.raises(404, "Assistant not found", "GET", at, nil)
}

func TestThePythonClientManagesThreads(t *testing.T) {
	p := pythonTo(t)
	made := p.ask("POST", "/threads", object{
		"metadata": object{"kind": "x", "graph_id": "booking"}, "ttl": object{"ttl": 5, "strategy": "delete"},
		"supersteps": []object{{"updates": []object{{"values": object{"city": "Bonn"}, "command": nil, "as_node": "plan"}}}},
	}).(object)
	id := made["thread_id"].(string)
	at := "/threads/" + id
	if found := p.ask("GET", at+"?include=ttl", nil).(object); found["values"].(object)["city"] != "Bonn" {
		t.Errorf("found %v", found)
	}
	if got := p.ask("PATCH", at, object{"metadata": object{"more": 1}, "ttl": object{"ttl": 5, "strategy": "delete"}}).(object)["metadata"].(object)["more"]; got != 1.0 {
		t.Errorf("more is %v", got)
	}
	minimal := p.send("PATCH", at, encoded(object{"metadata": object{"more": 2}}), "Content-Type", "application/json", "Prefer", "return=minimal")
	if body, _ := io.ReadAll(minimal.Body); minimal.StatusCode != http.StatusNoContent || len(body) > 0 {
		t.Errorf("return=minimal: %s %s", minimal.Status, body)
	}
	search := object{"limit": 10, "offset": 0, "metadata": object{"kind": "x"}, "ids": []string{id}, "status": "idle", "sort_by": "updated_at", "sort_order": "desc", "extract": object{"city": "values.city"}}
	search["status"] = p.ask("GET", at, nil).(object)["status"]
	if found := p.ask("POST", "/threads/search", search).([]any); len(found) != 1 || found[0].(object)["extracted"].(object)["city"] != "Bonn" {
		t.Errorf("found %v", found)
	}
	if n := p.ask("POST", "/threads/count", object{"metadata": object{"kind": "x"}, "values": object{"city": "Bonn"}}); n != 1.0 {
		t.Errorf("there are %v", n)
	}
	state := p.ask("GET", at+"/state?subgraphs=false", nil).(object)
	checkpoint := state["checkpoint"].(object)
	if got := p.ask("POST", at+"/state/checkpoint", object{"checkpoint": checkpoint, "subgraphs": false}).(object); fmt.Sprint(got["values"]) != fmt.Sprint(state["values"]) {
		t.Errorf("by its checkpoint: %v, want %v", got["values"], state["values"])
	}
	if got := p.ask("GET", at+"/state/"+checkpoint["checkpoint_id"].(string)+"?subgraphs=true", nil).(object); fmt.Sprint(got["next"]) != "[book]" {
		t.Errorf("next is %v", got["next"])
	}
	edited := p.ask("POST", at+"/state", object{"values": object{"city": "Rom"}, "as_node": "plan", "checkpoint": checkpoint}).(object)["checkpoint"].(object)
	if edited["checkpoint_id"] == checkpoint["checkpoint_id"] {
		t.Error("an edit makes no checkpoint")
	}
	for name, before := range map[string]any{"an ID": edited["checkpoint_id"], "a checkpoint": edited, "a configuration": object{"configurable": edited}} {
		if list := p.ask("POST", at+"/history", object{"limit": 1, "before": before}).([]any); len(list) != 1 || list[0].(object)["checkpoint"].(object)["checkpoint_id"] == edited["checkpoint_id"] {
			t.Errorf("before %s there is %v", name, list)
		}
	}
	if other := p.ask("POST", at+"/copy", nil).(object)["thread_id"]; other == id {
		t.Error("the copy is the thread itself")
	}
	if n := p.ask("POST", "/threads/prune", object{"thread_ids": []string{id}, "strategy": "keep_latest"}).(object)["pruned_count"]; n != 1.0 {
		t.Errorf("pruned %v", n)
	}
	p.raises(409, "Thread already exists", "POST", "/threads", object{"thread_id": id, "if_exists": "raise"})
	p.ask("DELETE", at, nil)
	p.raises(404, "Thread with ID "+id+" not found", "GET", at, nil)
}

func TestThePythonClientStreamsRuns(t *testing.T) {
	p := pythonTo(t)
	thread := p.ask("POST", "/threads", object{}).(object)["thread_id"].(string)
	at := "/threads/" + thread + "/runs"
	parts, created := p.stream("POST", at+"/stream", object{
		"input": object{"city": "Bonn"}, "stream_mode": []string{"updates", "values"}, "stream_subgraphs": false, "stream_resumable": false, "assistant_id": "booking",
		"on_disconnect": nil, "multitask_strategy": nil, "if_not_exists": "create",
	})
	if got, want := eventsOf(parts), "metadata values updates values values updates"; got != want {
		t.Errorf("events are %s, want %s", got, want)
	}
	if got, want := created.Header.Get("Content-Location"), at+"/"+parts[0].data.(object)["run_id"].(string); got != want {
		t.Errorf("Content-Location is %s, want %s", got, want)
	}
	asked := parts[len(parts)-1].data.(object)["__interrupt__"].([]any)
	parts, _ = p.stream("POST", at+"/stream", object{"command": object{"resume": true}, "stream_mode": "values", "stream_subgraphs": false, "stream_resumable": true, "assistant_id": "booking"})
	if got := parts[len(parts)-1].data.(object)["booked"]; len(asked) != 1 || got != true {
		t.Errorf("the end is %v", parts)
	}
	run := parts[0].data.(object)["run_id"].(string)
	again, _ := p.stream("GET", at+"/"+run+"/stream?stream_mode=values&cancel_on_disconnect=false", nil, "Last-Event-ID", "-1")
	if fmt.Sprint(again) != fmt.Sprint(parts) {
		t.Errorf("joined again, the stream is %v, want %v", again, parts)
	}
	failing, _ := p.stream("POST", "/runs/stream", object{"input": object{}, "stream_mode": "values", "stream_subgraphs": false, "stream_resumable": false, "assistant_id": "boom"})
	if last := failing[len(failing)-1]; last.event != "error" || fmt.Sprint(last.data) != "map[error:TeapotError message:I am a teapot]" {
		t.Errorf("the end is %v", last)
	}
}

func TestThePythonClientWaitsJoinsListsAndCancels(t *testing.T) {
	p := pythonTo(t)
	thread := p.ask("POST", "/threads", object{}).(object)["thread_id"].(string)
	at := "/threads/" + thread + "/runs"
	body := object{"input": object{"todo": 2}, "assistant_id": "slow", "raise_error": true, "config": object{"tags": []string{"a"}}, "metadata": object{"m": 1}}
	if got, _ := p.wait("POST", at+"/wait", body, 5); got.(object)["done"] != 2.0 {
		t.Errorf("it comes to %v", got)
	}
	if got, _ := p.wait("POST", "/runs/wait", body, 5); got.(object)["done"] != 2.0 {
		t.Errorf("without a thread it comes to %v", got)
	}
	failed, _ := p.wait("POST", "/runs/wait", object{"input": object{}, "assistant_id": "boom", "raise_error": true}, 5)
	if got := failed.(object)["__error__"].(object)["message"]; got != "I am a teapot" {
		t.Errorf("the error is %v", failed)
	}
	run := p.ask("POST", at, object{"input": object{"todo": 2}, "stream_mode": "values", "stream_subgraphs": false, "stream_resumable": false, "assistant_id": "slow", "after_seconds": nil}).(object)["run_id"].(string)
	if got, _ := p.wait("GET", at+"/"+run+"/join", nil, 5); got.(object)["done"] != 4.0 {
		t.Errorf("joined, it comes to %v", got)
	}
	if list := p.ask("GET", at+"?limit=10&offset=0&status=success&select=run_id&select=status", nil).([]any); len(list) != 2 || len(list[0].(object)) != 2 {
		t.Errorf("the runs are %v", list)
	}
	for _, wait := range []string{"0", "1"} {
		run := p.ask("POST", at, object{"input": object{"todo": 1000, "left": 1000}, "assistant_id": "slow"}).(object)["run_id"].(string)
		cancel := at + "/" + run + "/cancel?wait=" + wait + "&action=interrupt"
		if wait == "1" {
			if got, _ := p.wait("POST", cancel, nil, 5); got != nil {
				t.Errorf("cancelling answers %v", got)
			}
		} else if got := p.ask("POST", cancel, nil); got != nil {
			t.Errorf("cancelling answers %v", got)
		}
		waitFor(t, "the run is cancelled", func() bool { return p.ask("GET", at+"/"+run, nil).(object)["status"] == "interrupted" })
		p.ask("DELETE", at+"/"+run, nil)
		p.raises(404, "Run not found", "GET", at+"/"+run, nil)
	}
	if got := p.ask("POST", "/runs/batch", []object{{"assistant_id": "slow", "input": object{"todo": 1}}}).([]any); len(got) != 1 {
		t.Errorf("the batch is %v", got)
	}
	p.raises(404, "Run not found", "POST", "/runs/cancel?action=rollback", object{"thread_id": thread, "run_ids": []string{uuid.NewString()}})
}

func TestThePythonClientManagesCrons(t *testing.T) {
	p := pythonTo(t)
	thread := p.ask("POST", "/threads", object{}).(object)["thread_id"].(string)
	body := object{
		"schedule": "0 9 * * *", "input": object{"todo": 1}, "assistant_id": "slow", "end_time": "2031-01-01T00:00:00+00:00", "enabled": true, "timezone": "Europe/Berlin",
		"stream_mode": "values", "stream_subgraphs": false, "stream_resumable": false, "metadata": object{"m": 1}, "webhook": nil,
	}
	made := p.ask("POST", "/threads/"+thread+"/runs/crons", body).(object)
	id := made["cron_id"].(string)
	body["on_run_completed"] = "keep"
	p.ask("POST", "/runs/crons", body)
	changed := p.ask("PATCH", "/runs/crons/"+id, json.RawMessage(`{"schedule":"@daily","enabled":false,"end_time":null}`)).(object)
	if changed["schedule"] != "@daily" || changed["enabled"] != false || changed["end_time"] != nil {
		t.Errorf("changed: %v", changed)
	}
	if found := p.ask("POST", "/runs/crons/search", object{"thread_id": thread, "limit": 10, "offset": 0, "sort_by": "next_run_date", "sort_order": "asc", "select": []string{"cron_id"}}).([]any); len(found) != 1 {
		t.Errorf("found %v", found)
	}
	if n := p.ask("POST", "/runs/crons/count", object{"metadata": object{"m": 1}}); n != 2.0 {
		t.Errorf("there are %v", n)
	}
	p.raises(422, "schedule", "POST", "/runs/crons", object{"schedule": "every day", "assistant_id": "slow"})
	p.ask("DELETE", "/runs/crons/"+id, nil)
	p.raises(404, "", "DELETE", "/runs/crons/"+id, nil)
}

func TestThePythonClientUsesTheStore(t *testing.T) {
	p := pythonTo(t)
	p.ask("PUT", "/store/items", object{"namespace": []string{"users", "kim"}, "key": "tea", "value": object{"cups": 2}, "index": nil, "ttl": nil})
	if item := p.ask("GET", "/store/items?key=tea&namespace=users.kim&refresh_ttl=true", nil).(object); fmt.Sprint(item["value"]) != "map[cups:2]" {
		t.Errorf("the item is %v", item)
	}
	if found := p.ask("POST", "/store/items/search", object{"namespace_prefix": []string{"users"}, "filter": object{"cups": 2}, "limit": 10, "offset": 0}).(object)["items"].([]any); len(found) != 1 {
		t.Errorf("found %v", found)
	}
	if list := p.ask("POST", "/store/namespaces", object{"prefix": []string{"users"}, "max_depth": 1, "limit": 100, "offset": 0}).(object)["namespaces"]; fmt.Sprint(list) != "[[users]]" {
		t.Errorf("the namespaces are %v", list)
	}
	p.ask("DELETE", "/store/items", object{"key": "tea", "namespace": []string{"users", "kim"}})
	if item := p.ask("GET", "/store/items?key=tea&namespace=users.kim", nil); item != nil {
		t.Errorf("the item is %v", item)
	}
}

// What is wrong is the message of the exception in Python, and the body in
// JavaScript.
func TestErrorsAreToldInTheWordsOfEachClient(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.APIKeys("right"))
	python{t: t, url: c.url}.raises(401, "credentials are required", "POST", "/threads/search", object{"limit": 10})
	python{t: t, url: c.url, key: "wrong"}.raises(401, "credentials are not valid", "POST", "/threads/search", object{"limit": 10})
	p := python{t: t, url: c.url, key: "right"}
	p.raises(422, "limit must be between 0 and 1000", "POST", "/threads/search", object{"limit": -1})
	p.raises(422, "body must not be a JSON string", "POST", "/threads", "x")
	for _, one := range []struct{ agent, accept, media string }{
		{"langgraph-sdk-py/0.4.3", "*/*", "application/json"},
		{"langgraph-sdk-py/1.0", "text/event-stream", "application/json"},
		{"node", "*/*", "text/plain"},
		{"node", "", "text/plain"},
		{"curl/8", "application/json", "application/json"},
		{"curl/8", "application/json, text/plain, */*", "text/plain"},
		{"curl/8", "application/json, text/plain;q=0", "application/json"},
		{"Mozilla/5.0", "text/html,application/xhtml+xml,*/*;q=0.8", "text/plain"},
		{"node", "text/event-stream", "text/plain"},
	} {
		r, err := http.NewRequest("GET", c.url+"/assistants/nobody", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("x-api-key", "right")
		r.Header.Set("User-Agent", one.agent)
		r.Header.Set("Accept", one.accept)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		want := "Assistant not found\n"
		if one.media == "application/json" {
			want = `{"detail":"Assistant not found"}`
		}
		if media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); err != nil || media != one.media || string(body) != want || resp.StatusCode != 404 {
			t.Errorf("%s, which accepts %q: %s %s %q %v", one.agent, one.accept, resp.Status, media, body, err)
		}
	}
}

// cut is a proxy that ends the first connections, as many as told, in the middle of
// an answer: after so many empty lines or line feeds of it.
func cut(t *testing.T, to string, times int, after int, of string) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := proxyTo(target)
	var left atomic.Int64
	left.Store(int64(times))
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if left.Add(-1) < 0 {
			proxy.ServeHTTP(w, r)
			return
		}
		proxy.ServeHTTP(&cutter{w, after, of}, r)
	}))
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(h.Close)
	return h.URL
}

type cutter struct {
	http.ResponseWriter
	left int
	of   string
}

func (c *cutter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	if c.left -= strings.Count(string(p), c.of); c.left <= 0 {
		if err := http.NewResponseController(c.ResponseWriter).Flush(); err != nil {
			return n, err
		}
		panic(http.ErrAbortHandler)
	}
	return n, err
}

func (c *cutter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func TestThePythonClientComesBackToARunItWaitsFor(t *testing.T) {
	p := pythonTo(t, server.Data("sqlite:"+filepath.Join(t.TempDir(), "threads.db")))
	thread := p.ask("POST", "/threads", object{}).(object)["thread_id"].(string)
	long := object{"input": object{"todo": 80}, "assistant_id": "slow", "raise_error": true} // a line feed comes each second
	for _, path := range []string{"/threads/" + thread + "/runs/wait", "/runs/wait"} {
		through := python{t: t, url: cut(t, p.url, 1, 1, "\n")}
		got, times := through.wait("POST", path, long, 5)
		if got.(object)["done"] != 80.0 || times != 1 {
			t.Errorf("%s: after coming back %d times it is %v", path, times, got)
		}
	}
	run := p.ask("POST", "/threads/"+thread+"/runs", object{"input": object{"todo": 120, "left": 120}, "assistant_id": "slow"}).(object)["run_id"].(string)
	through := python{t: t, url: cut(t, p.url, 2, 1, "\n")}
	if got, times := through.wait("GET", "/threads/"+thread+"/runs/"+run+"/join", nil, 5); got.(object)["done"] != 200.0 || times != 2 {
		t.Errorf("joined, after coming back %d times it is %v", times, got)
	}
}

func TestThePythonClientComesBackToAStream(t *testing.T) {
	p := pythonTo(t)
	for _, path := range []string{"/threads/" + uuid.NewString() + "/runs/stream", "/runs/stream"} {
		through := python{t: t, url: cut(t, p.url, 3, 4, "\n\n")}
		parts, _ := through.stream("POST", path, object{
			"input": object{"todo": 30}, "stream_mode": "custom", "stream_subgraphs": false, "stream_resumable": true, "assistant_id": "slow", "if_not_exists": "create",
		})
		var ticks []string
		for _, one := range parts[1:] {
			ticks = append(ticks, fmt.Sprint(one.data.(object)["tick"]))
		}
		var want []string
		for i := range 30 {
			want = append(want, fmt.Sprint(i+1))
		}
		if parts[0].event != "metadata" || !slices.Equal(ticks, want) {
			t.Errorf("%s: ticks are %v", path, ticks)
		}
	}
}
