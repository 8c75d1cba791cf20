// Package openapi describes the server in OpenAPI 3.1. The description is made of
// the routes of the server and two tables: operations, which says what each request
// does, and schemas, which says what bodies look like. Tests of package server compare
// both with what the server does.
package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Route is a line of the server's table.
type Route struct {
	Pattern   string // of http.ServeMux, with a method
	Operation string // its ID: generated clients name a function by it
	Open      bool   // it needs no credentials
}

// operation describes what the server does for a route.
type operation struct {
	route   Route
	summary string
	about   string // more, if there is more to say
	query   []parameter
	headers []parameter // that a request may have
	in      *jsonschema.Schema
	takes   string    // the type of in; application/json if it is empty
	inputs  []example // of in
	out     answer
	fails   []int // statuses of errors besides those that follow from the rest, as failures says
}

// parameter is a parameter of a query, or a header of a request.
type parameter struct {
	name    string
	schema  *jsonschema.Schema // with the description
	example string             // as it is written in the query; empty for none
}

// example is a body of a request that works, given the things that the constants below name.
type example struct {
	name string
	body string // JSON
}

// answer is what comes of a request that works.
type answer struct {
	status int // 200 if it is 0
	about  string
	media  string // application/json if it is empty
	schema *jsonschema.Schema
	paged  bool // it has the headers of a list that is shown in pages
	cursor bool // it has the header of a list whose pages have a cursor
	places bool // its headers say where the run is, and where it goes on after the connection was lost
	calls  bool // it waits for nothing, so that nothing goes on
}

// What examples speak of. Whoever tries them makes these first, and puts the IDs
// that the server has chosen in their place.
const (
	ExampleAssistant  = "0b2a7e8c-3c35-4f1e-9f0a-6a4d1d2b7c01"
	ExampleThread     = "0198f3c2-5b7a-7d10-8e21-4c3b2a190001"
	ExampleRun        = "0198f3c2-5b7a-7d10-8e21-4c3b2a190002"
	ExampleCall       = "0198f3c2-5b7a-7d10-8e21-4c3b00000000"
	ExampleFeedback   = "0198f3c2-5b7a-7d10-8e21-4c3b0000000f"
	ExampleCheckpoint = "0198f3c2-5b7a-7d10-8e21-4c3b2a190003"
	ExampleUser       = "customer-7"
	ExampleCron       = "0198f3c2-5b7a-7d10-8e21-4c3b2a190004"
)

// places are the parameters that paths have.
func places() map[string]parameter {
	return map[string]parameter{
		"assistant":  {"assistant", text("The ID of an assistant, or the name of a graph, which stands for the graph's own assistant."), ExampleAssistant},
		"thread":     {"thread", text("The ID of a thread: a UUID, or the name by which a node has spawned it."), ExampleThread},
		"run":        {"run", id("The ID of a run."), ExampleRun},
		"checkpoint": {"checkpoint", id("The ID of a checkpoint of the thread."), ExampleCheckpoint},
		"call":       {"call", id("The ID of a call of a model."), ExampleCall},
		"feedback":   {"feedback", id("The ID of feedback on the thread."), ExampleFeedback},
		"model":      {"model", text("The name of a graph, or the ID of an assistant, that takes messages."), "helper"},
		"cron":       {"cron", id("The ID of a cron."), ExampleCron},
		"user_id":    {"user_id", text("Whose conversation it is."), ExampleUser},
		"flow":       {"flow", text("The name of a flow."), "greet"},
		"namespace":  {"namespace", text("The path of a subgraph: names of nodes with | between them."), "research"},
	}
}

// JSON returns the description of a server of some version with its routes, and with
// credentials if it asks for them. A route whose operation isn't described is an error.
func JSON(version string, credentials bool, routes []Route) ([]byte, error) {
	d, err := describe(version, credentials, routes)
	if err != nil {
		return nil, err
	}
	return json.Marshal(d)
}

// object is an object of the document.
type object = map[string]any

// describe makes the description of a table of routes.
func describe(version string, credentials bool, routes []Route) (object, error) {
	bodies := schemas()
	components := object{"schemas": bodies}
	paths := map[string]object{} // by method
	tags := []object{
		tag("server", "The server itself."),
		tag("assistants", "Graphs with a configuration. Each graph has an assistant of its own."),
		tag("threads", "Conversations: a state with its history."),
		tag("runs", "Executions of an assistant, on a thread or on one made for the run."),
		tag("crons", "Runs that start at times."),
		tag("store", "The long-term memory that graphs and clients share."),
		tag("protocols", "Assistants for programs that speak other protocols, in whose form errors are."),
	}
	d := object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Superstep server", "version": version, "license": object{"name": "Apache License 2.0", "identifier": "Apache-2.0"},
			"description": "Serves compiled graphs in the protocol of LangGraph's server. Errors are plain text, which says what is wrong; who accepts JSON but no plain text gets an object.",
		},
		"servers": []object{{"url": "."}}, // beside this document, whatever a proxy puts before it
		"paths":   paths, "components": components,
	}
	failed := object{}
	for status, about := range failures() {
		failed[nameOf(status)] = failure(about)
	}
	components["responses"] = failed
	if credentials {
		components["securitySchemes"] = object{
			"key":    object{"type": "apiKey", "in": "header", "name": "x-api-key", "description": "A key, as LangGraph's clients send it."},
			"bearer": object{"type": "http", "scheme": "bearer", "description": "A key or a token in the header Authorization."},
		}
		d["security"] = []object{{"key": []string{}}, {"bearer": []string{}}}
	}
	all, talks := operations(), conversations()
	maps.Copy(all, protocols())
	if slices.ContainsFunc(routes, func(r Route) bool { _, ok := talks[r.Operation]; return ok }) {
		maps.Copy(all, talks)
		maps.Copy(bodies, conversationSchemas())
		tags = append(tags, tag("dialogue", "Conversations with the assistant that the server speaks for. Errors are objects."))
	}
	d["tags"] = tags
	for _, r := range routes {
		o, ok := all[r.Operation]
		if !ok {
			return nil, fmt.Errorf("no operation %q describes %s", r.Operation, r.Pattern)
		}
		o.route = r
		method, route, _ := strings.Cut(r.Pattern, " ")
		if paths[route] == nil {
			paths[route] = object{}
		}
		paths[route][strings.ToLower(method)] = o.describe(route, credentials)
	}
	return d, nil
}

func tag(name, about string) object { return object{"name": name, "description": about} }

// tagOf returns which group of operations a path belongs to.
func tagOf(route string) string {
	if strings.Contains(route, "/runs/crons") {
		return "crons"
	}
	if strings.Contains(route, "/runs") {
		return "runs"
	}
	switch first, _, _ := strings.Cut(route[1:], "/"); first {
	case "assistants", "threads", "store":
		return first
	case "chat", "state":
		return "dialogue"
	case "v1", "mcp":
		return "protocols"
	default:
		return "server"
	}
}

// failures says what the statuses of errors mean.
func failures() map[int]string {
	return map[int]string{
		http.StatusUnauthorized:        "There are no credentials, or wrong ones.",
		http.StatusForbidden:           "The user may not do this.",
		http.StatusNotFound:            "Something that the request names isn't there, or isn't the user's.",
		http.StatusConflict:            "It is there already, or busy.",
		http.StatusUnprocessableEntity: "The request can't work as it is.",
		http.StatusTooManyRequests:     "A limit is reached; it may be tried again later.",
		http.StatusNotImplemented:      "The server isn't set up for this.",
		http.StatusServiceUnavailable:  "The server is closing, or something it needs doesn't answer; it may be tried again.",
	}
}

// nameOf names a status among the components: NotFound.
func nameOf(status int) string { return strings.ReplaceAll(http.StatusText(status), " ", "") }

// failure describes an error.
func failure(about string) object {
	return object{"description": about, "content": object{
		"text/plain": object{"schema": text("What is wrong.")},
		mediaJSON:    object{"schema": record("", member{"detail!", text("What is wrong.")})},
	}}
}

// failures returns the statuses of errors that the operation can have besides those
// of any request, such as of bodies that are too large.
func (o *operation) failures(route string, credentials bool) []int {
	out := slices.Clone(o.fails)
	named := strings.Contains(route, "{")
	if credentials && !o.route.Open {
		out = append(out, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable)
	}
	if named && !o.early() {
		out = append(out, http.StatusNotFound)
	}
	if named || o.in != nil || len(o.query) > 0 || len(o.headers) > 0 {
		out = append(out, http.StatusUnprocessableEntity)
	}
	if o.out.places || o.out.streams() {
		out = append(out, http.StatusTooManyRequests)
	}
	if o.out.streams() {
		out = append(out, http.StatusServiceUnavailable)
	}
	return out
}

// early reports whether the thread need not exist yet.
func (o *operation) early() bool {
	return slices.Contains([]string{"command", "streamEvents", "streamThread", "openSocket", "chatAs", "streamChat"}, o.route.Operation)
}

func (a *answer) streams() bool {
	return a.media == mediaSSE || a.status == http.StatusSwitchingProtocols
}

func (o *operation) describe(route string, credentials bool) object {
	out := object{"operationId": o.route.Operation, "tags": []string{tagOf(route)}, "summary": o.summary}
	if o.about != "" {
		out["description"] = o.about
	}
	var parameters []object
	add := func(where string, p parameter) {
		one := object{"name": p.name, "in": where, "description": p.schema.Description, "schema": bare(p.schema)}
		if where == "path" {
			one["required"] = true
		}
		if p.example != "" {
			one["example"] = p.example
		}
		parameters = append(parameters, one)
	}
	at := places()
	for _, segment := range strings.Split(route, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			add("path", at[strings.TrimSuffix(name, "}")])
		}
	}
	for _, p := range o.query {
		add("query", p)
	}
	for _, p := range o.headers {
		add("header", p)
	}
	if parameters != nil {
		out["parameters"] = parameters
	}
	if o.in != nil {
		media := object{"schema": o.in}
		if len(o.inputs) > 0 {
			examples := object{}
			for _, e := range o.inputs {
				examples[e.name] = object{"value": json.RawMessage(e.body)}
			}
			media["examples"] = examples
		}
		body := object{"content": object{cmp.Or(o.takes, mediaJSON): media}}
		if o.in.Type == "array" || len(o.in.Required) > 0 || o.takes != "" { // nearly every one may be left out
			body["required"] = true
		}
		out["requestBody"] = body
	}
	responses := object{
		strconv.Itoa(cmp.Or(o.out.status, http.StatusOK)): o.out.describe(),
		"default": failure("What is wrong, in words."),
	}
	for _, status := range o.failures(route, credentials) {
		responses[strconv.Itoa(status)] = object{"$ref": "#/components/responses/" + nameOf(status)}
	}
	out["responses"] = responses
	if credentials && o.route.Open {
		out["security"] = []object{} // instead of the document's
	}
	return out
}

// bare returns a schema without its description, which stands elsewhere.
func bare(s *jsonschema.Schema) *jsonschema.Schema {
	one := *s
	one.Description = ""
	return &one
}

const (
	mediaJSON  = "application/json"
	mediaLines = "application/x-ndjson"
	mediaSSE   = "text/event-stream"
)

func (a *answer) describe() object {
	out := object{"description": cmp.Or(a.about, "It worked.")}
	switch {
	case a.schema != nil:
		out["content"] = object{cmp.Or(a.media, mediaJSON): object{"schema": a.schema}}
	case a.media != "":
		out["content"] = object{a.media: object{}}
	}
	headers := object{}
	if a.paged {
		headers["X-Pagination-Total"] = header("How many there are in all.", whole(""))
		headers["X-Pagination-Next"] = header("The offset of the next page, if there is one.", whole(""))
	}
	if a.cursor {
		headers["X-Pagination-Next"] = header("The cursor of the next page, if there is one.", text(""))
	}
	if a.places {
		headers["Content-Location"] = header("Where the run is.", text(""))
	}
	if a.places && !a.calls {
		headers["Location"] = header("Where it goes on after the connection was lost.", text(""))
	}
	if len(headers) > 0 {
		out["headers"] = headers
	}
	return out
}

func header(about string, of *jsonschema.Schema) object {
	return object{"description": about, "schema": of}
}
