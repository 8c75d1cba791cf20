package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	flows "github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/server/internal/openapi"
)

// travel is the state of trips, which has the input and the question of the graph
// that superstep serve --demo has by that name.
type travel struct {
	Days   int                    `json:"days"`
	Costs  graph.Map[string, int] `json:"costs"`
	Choice string                 `json:"choice"`
	Booked string                 `json:"booked"`
}

func trips(t testing.TB) *graph.Graph[travel] {
	t.Helper()
	b := graph.New[travel]("trip")
	b.AddNode("plan", func(ctx context.Context, s *travel) error {
		for _, city := range []string{"Oslo", "Lisbon"} {
			s.Costs.Put(city, s.Days*60)
		}
		adviser := model.Func(func(context.Context, *model.Request) (*model.Response, error) {
			return &model.Response{Message: chat.Assistant("Lisbon")}, nil
		})
		_, err := model.Ask(calls.Recording(ctx), adviser, &model.Request{Messages: []chat.Message{chat.User("Oslo or Lisbon?")}})
		return err
	})
	b.AddNode("choose", func(ctx context.Context, s *travel) (err error) {
		s.Choice, err = graph.Interrupt[string](ctx, "city", "Which city shall it be?")
		return err
	})
	b.AddNode("book", func(_ context.Context, s *travel) error {
		s.Booked = fmt.Sprintf("%d days in %s", s.Days, s.Choice)
		return nil
	})
	b.AddEdge(graph.Start, "plan").AddEdge("plan", "choose").AddEdge("choose", "book")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// helper is a graph that says what it was told.
func helper(t testing.TB) *graph.Graph[helped] {
	t.Helper()
	b := graph.New[helped]("helper")
	b.AddNode("echo", func(_ context.Context, s *helped) error {
		s.Messages.Add(chat.Assistant("You said: " + s.Messages.Last().Text()))
		return nil
	})
	b.AddEdge(graph.Start, "echo")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

type helped struct {
	Messages chat.History `json:"messages"`
}

// greeter is an assistant that understands nothing.
func greeter(t testing.TB) *assistant.Assistant {
	t.Helper()
	p, err := flows.Compile(flows.File{Name: "greeter.yaml", Text: []byte(`{version: "2.0", flows: {greet: {description: Greet., steps: [{say: {text: Hello.}}]}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := assistant.New(assistant.Config{Program: p})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// described is the description as a client reads it.
type described struct {
	Paths map[string]map[string]struct {
		ID         string `json:"operationId"`
		Summary    string
		Parameters []struct {
			Name, In, Example string
			Schema            json.RawMessage
		}
		Body *struct {
			Content map[string]struct {
				Schema   json.RawMessage
				Examples map[string]struct{ Value json.RawMessage }
			}
		} `json:"requestBody"`
		Responses map[string]struct {
			Ref     string `json:"$ref"`
			Headers map[string]any
			Content map[string]struct{ Schema json.RawMessage }
		}
		Security *[]map[string][]string
	}
	Components struct {
		Schemas         map[string]json.RawMessage
		Responses       map[string]struct{ Content map[string]any }
		SecuritySchemes map[string]object
	}
	Security []map[string][]string
}

func descriptionOf(t *testing.T, credentials bool) (d described) {
	t.Helper()
	data, err := describe("v1.2.3", credentials, everyRoute(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEveryRouteIsDescribedOnceAndSaysWhoMayUseIt(t *testing.T) {
	ids := map[string]string{}
	described := descriptionOf(t, false).Paths
	for _, r := range everyRoute(t) {
		method, path, _ := strings.Cut(r.pattern, " ")
		if o, ok := described[path][strings.ToLower(method)]; !ok || o.ID != r.operation || ids[o.ID] != "" {
			t.Errorf("%s is described as %q, as %q is", r.pattern, o.ID, ids[o.ID])
		}
		ids[r.operation] = r.pattern
		if asks := r.rule.how == byPath || r.rule.how == byHandler; asks != (r.rule.resource != "" && r.rule.verb != "") {
			t.Errorf("%s: it isn't said what the authoriser is asked", r.pattern)
		}
	}
}

// checker validates against schemas of the description. Objects may have no
// members but those described.
type checker struct{ schemas map[string]json.RawMessage }

func (c checker) check(schema json.RawMessage, value []byte) error {
	defs := map[string]json.RawMessage{}
	c.gather(schema, defs)
	text, err := json.Marshal(map[string]any{"$defs": defs, "allOf": []json.RawMessage{schema}})
	if err != nil {
		return err
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(bytes.ReplaceAll(text, []byte("#/components/schemas/"), []byte("#/$defs/")), &s); err != nil {
		return err
	}
	for name, def := range s.Defs {
		if name != "Config" { // which keeps what it doesn't know
			closeAll(def)
		}
	}
	closeAll(s.AllOf[0])
	r, err := s.Resolve(nil)
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	return r.Validate(v)
}

// gather finds the schemas that a schema refers to.
func (c checker) gather(schema json.RawMessage, into map[string]json.RawMessage) {
	for _, m := range reference.FindAllSubmatch(schema, -1) {
		if name := string(m[1]); into[name] == nil {
			into[name] = c.schemas[name]
			c.gather(c.schemas[name], into)
		}
	}
}

var reference = regexp.MustCompile(`"#/components/schemas/(\w+)"`)

// closeAll forbids members that are not described.
func closeAll(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Properties != nil && s.AdditionalProperties == nil {
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	for _, p := range s.Properties {
		closeAll(p)
	}
	for _, p := range slices.Concat(s.AnyOf, s.AllOf) {
		closeAll(p)
	}
	closeAll(s.Items)
}

// made are the things that examples speak of, by the IDs that they use.
func made(t *testing.T, url, pattern string) *strings.Replacer {
	t.Helper()
	post := func(path, body string) (object, http.Header) {
		t.Helper()
		answer, err := http.Post(url+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		data, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode >= 300 {
			t.Fatalf("POST %s: %s: %s %v", path, answer.Status, data, err)
		}
		return objectOf(data), answer.Header
	}
	assistant, thread := uuid.NewString(), uuid.NewString()
	post("/assistants", `{"graph_id": "trip", "assistant_id": "`+assistant+`", "metadata": {"team": "travel"}}`)
	post("/threads", `{"thread_id": "`+thread+`"}`)
	_, header := post("/threads/"+thread+"/runs/wait", `{"assistant_id": "`+assistant+`", "input": {"days": 2}}`)
	state, _ := post("/threads/"+thread+"/state/checkpoint", `{}`)
	user := "customer " + uuid.NewString()
	post("/chat", `{"user_id": "`+user+`", "message": "hello"}`)
	ids := []string{
		openapi.ExampleAssistant, assistant, openapi.ExampleThread, thread, openapi.ExampleRun, path.Base(header.Get("Content-Location")),
		openapi.ExampleUser, user, openapi.ExampleCheckpoint, textOf(objectOf(state["checkpoint"])["checkpoint_id"]),
	}
	listed, err := http.Get(url + "/threads/" + thread + "/model_calls")
	if err != nil {
		t.Fatal(err)
	}
	defer listed.Body.Close()
	var made []struct {
		ID string `json:"call_id"`
	}
	if err := json.NewDecoder(listed.Body).Decode(&made); err != nil || len(made) == 0 {
		t.Fatalf("%d calls of models: %v", len(made), err)
	}
	given, _ := post("/threads/"+thread+"/feedback", `{"comment": "fine"}`)
	ids = append(ids, openapi.ExampleCall, made[0].ID, openapi.ExampleFeedback, textOf(given["feedback_id"]))
	if strings.Contains(pattern, "{cron}") {
		cron, _ := post("/runs/crons", `{"assistant_id": "trip", "schedule": "@yearly"}`)
		ids = append(ids, openapi.ExampleCron, textOf(cron["cron_id"]))
	}
	return strings.NewReplacer(ids...)
}

// fetched is the answer to a GET.
func fetched(t *testing.T, url string) []byte {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s: %s %v", url, answer.Status, data, err)
	}
	return data
}

// talked are the assistant and the thread of a conversation, in the place of those of a graph.
func talked(t *testing.T, url string) *strings.Replacer {
	t.Helper()
	user := uuid.NewString()
	answer, err := http.Post(url+"/chat", "application/json", strings.NewReader(`{"user_id": "`+user+`", "message": "hello"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status, err)
	}
	state, err := http.Get(url + "/state/" + user)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Body.Close()
	data, err := io.ReadAll(state.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(openapi.ExampleAssistant, "assistant", openapi.ExampleThread, textOf(objectOf(data)["thread_id"]))
}

// Each example of the description is sent to a server, and the answer is as the
// description says.
func TestExamplesOfTheDescriptionWork(t *testing.T) {
	s, err := New(t.Context(), Graph(trips(t)), Graph(helper(t)), Dialogue(greeter(t)), AskAgain(func(context.Context, *calls.Call) (model.Model, error) {
		return scripted.New(scripted.Text("Lisbon").Repeat()), nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	d := descriptionOf(t, false)
	c := checker{d.Components.Schemas}
	shared := made(t, h.URL, "{cron}")
	for route, operations := range d.Paths {
		for method, o := range operations {
			pattern := strings.ToUpper(method) + " " + route
			bodies := map[string]json.RawMessage{"": nil}
			if o.Body != nil {
				media := o.Body.Content["application/json"]
				bodies = map[string]json.RawMessage{}
				for name, e := range media.Examples {
					bodies[name] = e.Value
					if err := c.check(media.Schema, e.Value); err != nil {
						t.Errorf("%s: example %s is not as described: %v", pattern, name, err)
					}
				}
				if _, lines := o.Body.Content["application/x-ndjson"]; lines {
					bodies["recording"] = nil
				}
				if len(bodies) == 0 {
					t.Errorf("%s has no example", pattern)
				}
			}
			for name, body := range bodies {
				t.Run(o.ID+"/"+name, func(t *testing.T) {
					ids := shared // what only reads leaves things as they are
					if method != "get" && !strings.HasSuffix(route, "/search") && !strings.HasSuffix(route, "/count") {
						ids = made(t, h.URL, pattern)
					}
					if strings.Contains(route, "/flows") || strings.HasSuffix(route, "/turns") || strings.HasSuffix(route, "/test") {
						ids = talked(t, h.URL)
					}
					if name == "recording" {
						body = fetched(t, h.URL+"/threads/"+ids.Replace(openapi.ExampleThread)+"/recording")
					}
					query, at := url.Values{}, route
					r, err := http.NewRequest(strings.ToUpper(method), h.URL, strings.NewReader(ids.Replace(string(body))))
					if err != nil {
						t.Fatal(err)
					}
					for _, p := range o.Parameters {
						value := ids.Replace(p.Example)
						switch {
						case p.In == "path":
							at = strings.ReplaceAll(at, "{"+p.Name+"}", url.PathEscape(value))
						case value == "":
						case p.In == "query":
							query.Set(p.Name, value)
						case p.In == "header":
							r.Header.Set(p.Name, value)
						}
					}
					to, err := url.Parse(h.URL + at + "?" + query.Encode())
					if err != nil {
						t.Fatal(err)
					}
					r.URL = to
					if o.ID == "openSocket" {
						for k, v := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "c3VwZXJzdGVwIHNvY2tldA=="} {
							r.Header.Set(k, v)
						}
					}
					ctx, stop := context.WithCancel(t.Context())
					defer stop()
					answer, err := http.DefaultClient.Do(r.WithContext(ctx))
					if err != nil {
						t.Fatal(err)
					}
					defer answer.Body.Close()
					want, ok := o.Responses[fmt.Sprint(answer.StatusCode)]
					if !ok {
						text, _ := io.ReadAll(answer.Body)
						t.Fatalf("%s %s %s: %s: %s", r.Method, to, body, answer.Status, text)
					}
					for name := range want.Headers {
						if answer.Header.Get(name) == "" && name != "X-Pagination-Next" {
							t.Errorf("the answer lacks the header %s", name)
						}
					}
					media, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
					content, ok := want.Content[media]
					switch {
					case len(want.Content) == 0 && answer.StatusCode != http.StatusSwitchingProtocols:
						if text, _ := io.ReadAll(answer.Body); len(text) > 0 {
							t.Errorf("the answer is not empty: %s", text)
						}
					case len(want.Content) > 0 && !ok:
						t.Errorf("the answer is %s", media)
					case content.Schema != nil:
						text, err := io.ReadAll(answer.Body)
						if err != nil {
							t.Fatal(err)
						}
						if err := c.check(content.Schema, text); err != nil {
							t.Errorf("the answer is not as server/internal/openapi describes it: %v\n%s", err, text)
						}
						if o.ID == "command" && textOf(objectOf(text)["type"]) != "success" {
							t.Errorf("the command is refused: %s", text)
						}
					}
				})
			}
		}
	}
}

// Each error that these requests meet is described: of nobody, of things that there
// aren't, of IDs that are none and of bodies that are of no use.
func TestErrorsAreDescribed(t *testing.T) {
	s, err := New(t.Context(), Graph(trips(t)), Graph(helper(t)), Dialogue(greeter(t)), APIKeys("key"), Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	d := descriptionOf(t, true)
	if len(d.Security) != 2 || d.Components.SecuritySchemes["key"]["name"] == nil || textOf(d.Components.SecuritySchemes["bearer"]["scheme"]) != "bearer" {
		t.Errorf("credentials: %v %v", d.Security, d.Components.SecuritySchemes)
	}
	if d := descriptionOf(t, false); d.Security != nil || d.Components.SecuritySchemes != nil {
		t.Errorf("without authentication: %v %v", d.Security, d.Components.SecuritySchemes)
	}
	free := map[string]bool{}
	for _, r := range everyRoute(t) {
		free[r.pattern] = r.rule.how == open
	}
	met := map[string]bool{}
	for route, operations := range d.Paths {
		for method, o := range operations {
			pattern := strings.ToUpper(method) + " " + route
			if free[pattern] != (o.Security != nil && len(*o.Security) == 0) {
				t.Errorf("%s: whether it needs credentials is described as %v", pattern, o.Security)
			}
			for status, r := range o.Responses {
				if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); r.Ref != "" && (!ok || d.Components.Responses[name].Content["text/plain"] == nil) {
					t.Errorf("%s: %s is %s, which isn't there", pattern, status, r.Ref)
				}
			}
			for _, key := range []string{"", "key"} {
				for _, id := range []string{uuid.NewString(), "none"} {
					for _, body := range []string{"", `"text"`, `{"assistant_id": "nobody", "graph_id": "nobody", "limit": -1, "schedule": "never"}`} {
						ctx, stop := context.WithCancel(t.Context())
						at := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(route, id)
						r, err := http.NewRequestWithContext(ctx, strings.ToUpper(method), h.URL+at, strings.NewReader(body))
						if err != nil {
							t.Fatal(err)
						}
						r.Header.Set("x-api-key", key)
						answer, err := http.DefaultClient.Do(r)
						stop()
						if err != nil {
							t.Fatal(err)
						}
						answer.Body.Close()
						status := fmt.Sprint(answer.StatusCode)
						met[status] = true
						if _, ok := o.Responses[status]; !ok && status != "400" && status != "426" && answer.StatusCode >= 300 {
							t.Errorf("%s with the key %q, ID %s, body %s: %s isn't described", pattern, key, id, body, answer.Status)
						}
						if (status == "401") != (key == "" && !free[pattern]) {
							t.Errorf("%s with the key %q: %s", pattern, key, answer.Status)
						}
					}
				}
			}
		}
	}
	for _, status := range []string{"401", "404", "422"} {
		if !met[status] {
			t.Errorf("nothing answers %s", status)
		}
	}
}

// What the server reads of a body is described, and nothing else is.
func TestBodiesHaveTheMembersOfTheDescription(t *testing.T) {
	d := descriptionOf(t, false)
	for name, body := range map[string][]any{
		"AssistantBody":   {assistantBody{}},
		"AssistantSearch": {assistantSearch{}},
		"Config":          {runConfig{}},
		"Checkpoint":      {checkpointRef{}},
		"ThreadBody":      {threadBody{}},
		"ThreadSearch":    {threadSearch{}},
		"HistoryQuery":    {historyQuery{}},
		"Command":         {command{}},
		"RunBody":         {runBody{}},
		"ReplayBody":      {replayBody{}},
		"RunSearch":       {runSearch{}},
		"RunFigures":      {runFigures{}},
		"CronBody":        {cronBody{}, runBody{}},
		"CronSearch":      {cronSearch{}},
		"EventFilter":     {v2Filter{}},
		"Page":            {paging{}},
		"ChatBody":        {chatBody{}},
		"ChatReply":       {chatReply{}},
		"Conversation":    {chatState{}},
	} {
		var s jsonschema.Schema
		if err := json.Unmarshal(d.Components.Schemas[name], &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		read := map[string]bool{}
		for _, b := range body {
			taggedOf(reflect.TypeOf(b), read)
		}
		for m := range read {
			if s.Properties[m] == nil && !strings.HasPrefix(m, "__") {
				t.Errorf("%s: the server reads %s, which is not described", name, m)
			}
		}
		for m := range s.Properties {
			if !read[m] {
				t.Errorf("%s: %s is described, but the server doesn't read it", name, m)
			}
		}
	}
}

func taggedOf(t reflect.Type, members map[string]bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			taggedOf(f.Type, members)
		case name != "" && name != "-":
			members[name] = true
		}
	}
}
