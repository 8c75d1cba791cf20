package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
)

// Graph is a graph that a [Server] serves as a tool: the arguments are the input of a
// run, and those of a thread whose ID is the argument "thread" ("thread_id" for a graph
// whose input has such a field); without it the run is on a new thread. The result's structured
// content is a [ThreadResult].
//
// What the graph asks the client's user is asked, where the client can and the answer
// is a form of one level: a text, a number, a yes or no, or an object of these. What
// can't be asked, or isn't answered, waits: the result says so, and the tool
// [AnswerTool] takes the answers, be it days later. A client that wants to know is told
// the progress after each node.
type Graph struct {
	Graph       *graph.Graph[json.RawMessage] // of [graph.JSON], with a checkpointer unless Runner runs it
	Name        string                        // of the tool; empty: that of the graph
	Description string                        // for models
	Runner      Runner                        // nil: runs are in this process, on the graph's checkpointer
}

// Runner runs a graph on threads that it knows by their IDs, wherever they are kept.
type Runner interface {
	// Run begins a thread, or has it go on, and returns how it stands when the run is
	// over. Each node that has ended is told, if told isn't nil. The run need not outlive
	// the context.
	Run(ctx context.Context, thread string, ask Request, told func(node string)) (*graph.Snapshot[json.RawMessage], error)

	// State returns how a thread stands.
	State(ctx context.Context, thread string) (*graph.Snapshot[json.RawMessage], error)
}

// Request is what a client asks of a [Runner]: an input, or answers. The zero Request lets
// a thread go on that failed or was stopped.
type Request struct {
	Input   json.RawMessage
	Answers graph.Answers // by the IDs of questions, or their keys
}

// checkpointed runs a graph in this process.
type checkpointed struct{ *graph.Graph[json.RawMessage] }

func (g checkpointed) State(ctx context.Context, thread string) (*graph.Snapshot[json.RawMessage], error) {
	return g.Thread(thread).State(ctx)
}

func (g checkpointed) Run(ctx context.Context, thread string, ask Request, told func(node string)) (*graph.Snapshot[json.RawMessage], error) {
	th := g.Thread(thread)
	request := th.Continue()
	switch {
	case ask.Input != nil:
		request = th.Input(graph.UpdateWith(ask.Input))
	case len(ask.Answers) > 0:
		request = th.Answer(ask.Answers)
	}
	if told == nil {
		return th.Invoke(ctx, request)
	}
	for ev, err := range th.Stream(ctx, request) {
		if err != nil {
			return nil, err
		}
		if ev.Interrupt == nil {
			told(ev.Node)
		}
	}
	return th.State(ctx)
}

// AnswerTool is the name of the tool that answers threads, which a server with graphs
// has beside them.
const AnswerTool = "answer_thread"

// ThreadResult is the result of a tool that is a [Graph].
type ThreadResult struct {
	Thread string `json:"thread" jsonschema:"ID of the thread"`

	// Status is "done", "asks" when questions wait for answers, or "waits" when the
	// thread waits for a time or an event.
	Status string `json:"status"`

	Output    json.RawMessage  `json:"output,omitempty"` // what the run gave
	Questions []ThreadQuestion `json:"questions,omitempty"`
	Waits     []string         `json:"waits,omitempty"`
}

// ThreadQuestion is a question that waits.
type ThreadQuestion struct {
	ID     string          `json:"id"`
	Key    string          `json:"key,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`  // what is asked
	Schema json.RawMessage `json:"schema,omitempty"` // of the answer
}

// SetGraphs replaces the graphs that are served, and tells the clients. On an error, a
// [*tool.DefinitionError], nothing changes.
func (s *Server) SetGraphs(graphs ...Graph) error {
	var entries []entry
	byName := map[string]*servedGraph{}
	for _, g := range graphs {
		if g.Graph == nil {
			return &tool.DefinitionError{Mistakes: []tool.Mistake{{Tool: g.Name, Err: errors.New("there is no graph")}}}
		}
		name := ToolName(cmp.Or(g.Name, g.Graph.Name()))
		sg := &servedGraph{Graph: g.Graph, runner: g.Runner, name: name}
		if sg.runner == nil {
			sg.runner = checkpointed{g.Graph}
		}
		e, err := sg.entry(g.Description)
		if err != nil {
			return &tool.DefinitionError{Mistakes: []tool.Mistake{{Tool: name, Err: err}}}
		}
		byName[name] = sg
		entries = append(entries, e)
	}
	if len(entries) > 0 {
		schema := fmt.Sprintf(`{"type":"object","required":["graph","thread"],"additionalProperties":false,"properties":{
			"graph":{"enum":%s},"thread":{"type":"string"},
			"answers":{"type":"object","description":"the answers by the keys or IDs of the questions; without it a thread that failed or was stopped goes on"}}}`,
			mustJSON(slices.Sorted(maps.Keys(byName))))
		t := &sdk.Tool{Name: AnswerTool, Description: "Answers the questions of a thread that waits, and lets it go on.", InputSchema: json.RawMessage(schema)}
		entries = append(entries, entry{t, answers(byName)})
	}
	return s.replace(&s.graphs, entries)
}

// servedGraph is a graph that is a tool.
type servedGraph struct {
	*graph.Graph[json.RawMessage]
	runner Runner
	name   string
	thread string // the argument with the thread's ID
}

func (g *servedGraph) entry(description string) (entry, error) {
	input, defs, err := g.schema(graph.JSONInput)
	if err != nil {
		return entry{}, err
	}
	properties, _ := input["properties"].(map[string]any)
	if properties == nil {
		properties = map[string]any{}
		input["properties"] = properties
	}
	for _, g.thread = range []string{"thread", "thread_id", "superstep_thread_id"} {
		if properties[g.thread] == nil {
			break
		}
	}
	properties[g.thread] = map[string]any{"type": "string", "description": "ID of the thread to go on with; leave it out for a new one"}
	if defs != nil {
		input["$defs"] = defs
	}
	output, defs, err := g.schema(graph.JSONOutput)
	if err != nil {
		return entry{}, err
	}
	object := func(properties map[string]any, required ...string) map[string]any {
		return map[string]any{"type": "object", "properties": properties, "required": required}
	}
	text, anything := map[string]any{"type": "string"}, map[string]any{}
	result := object(map[string]any{
		"thread": text, "status": map[string]any{"enum": []string{"done", "asks", "waits"}}, "output": output,
		"questions": map[string]any{"type": "array", "items": object(map[string]any{"id": text, "key": text, "value": anything, "schema": anything}, "id")},
		"waits":     map[string]any{"type": "array", "items": text},
	}, "thread", "status")
	if defs != nil {
		result["$defs"] = defs
	}
	t := &sdk.Tool{Name: g.name, Description: description, InputSchema: json.RawMessage(mustJSON(input)), OutputSchema: json.RawMessage(mustJSON(result))}
	return entry{t, g.call}, nil
}

// schema returns a JSON Schema of the graph's as an object's, and its definitions by
// themselves, so that it can be a part of another.
func (g *servedGraph) schema(kind graph.JSONKind) (schema, defs map[string]any, err error) {
	raw, err := g.JSONSchema(kind)
	if errors.Is(err, errors.ErrUnsupported) { // its fields are known at run time only
		return map[string]any{"type": "object"}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, nil, err
	}
	defs, _ = schema["$defs"].(map[string]any)
	delete(schema, "$defs")
	if name, ok := strings.CutPrefix(fmt.Sprint(schema["$ref"]), "#/$defs/"); ok { // the whole is a reference
		if whole, ok := defs[name].(map[string]any); ok {
			schema = maps.Clone(whole)
		}
	}
	if schema["type"] == nil {
		schema["type"] = "object"
	}
	return schema, defs, nil
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps and texts
	}
	return data
}

// call runs the graph.
func (g *servedGraph) call(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	if id := req.Params.RequestState; id != "" {
		return g.proceed(ctx, req, id)
	}
	args := map[string]json.RawMessage{}
	if len(req.Params.Arguments) > 0 {
		if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
			return failed("", fmt.Errorf("%s: they must be a JSON object: %w", tool.ErrorArguments, err)), nil
		}
	}
	id := string(checkpoint.NewRunID())
	if given := args[g.thread]; given != nil && string(given) != "null" {
		if err := json.Unmarshal(given, &id); err != nil || id == "" {
			return failed("", fmt.Errorf("%s: %s must be the ID of a thread", tool.ErrorArguments, g.thread)), nil
		}
	}
	delete(args, g.thread)
	input, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	if err := g.CheckJSON(graph.JSONInput, input); err != nil {
		return failed("", fmt.Errorf("%s: %w", tool.ErrorArguments, err)), nil
	}
	snap, err := g.run(ctx, req, id, Request{Input: input})
	return g.reply(ctx, req, id, snap, err)
}

// run runs the graph, and tells a client that wants to know how far it is: after each
// node.
func (g *servedGraph) run(ctx context.Context, req *sdk.CallToolRequest, thread string, ask Request) (*graph.Snapshot[json.RawMessage], error) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return g.runner.Run(ctx, thread, ask, nil)
	}
	n := 0.
	return g.runner.Run(ctx, thread, ask, func(node string) {
		n++
		// A client that is gone ends the context.
		_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: n, Message: node})
	})
}

// proceed goes on with a thread whose questions the client was given.
func (g *servedGraph) proceed(ctx context.Context, req *sdk.CallToolRequest, id string) (*sdk.CallToolResult, error) {
	snap, err := g.runner.State(ctx, id)
	if err != nil {
		return failed(id, err), nil
	}
	given := graph.Answers{}
	for _, q := range snap.Interrupts {
		f, ok := formFor(q)
		res, answered := req.Params.InputResponses[q.ID].(*sdk.ElicitResult)
		if ok && answered && res.Action == string(Accept) {
			given[q.ID] = f.answer(res)
		}
	}
	if len(given) == 0 { // nobody wants to, or another has
		return g.told(id, snap)
	}
	snap, err = g.run(ctx, req, id, Request{Answers: given})
	return g.reply(ctx, req, id, snap, err)
}

// reply says what a run came to, and asks what it asks where that can be.
func (g *servedGraph) reply(ctx context.Context, req *sdk.CallToolRequest, thread string, snap *graph.Snapshot[json.RawMessage], err error) (*sdk.CallToolResult, error) {
	for {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return failed(thread, err), nil
		}
		forms, ok := formsFor(snap)
		if !ok || !elicits(req) {
			return g.told(thread, snap)
		}
		if req.ProtocolVersion() >= modern {
			requests := sdk.InputRequestMap{}
			for id, f := range forms {
				requests[id] = f.params
			}
			return &sdk.CallToolResult{InputRequests: requests, RequestState: thread}, nil
		}
		given := graph.Answers{}
		for _, q := range snap.Interrupts {
			res, err := req.Session.Elicit(ctx, forms[q.ID].params)
			if err != nil || res.Action != string(Accept) { // the user or the client can't or won't
				break
			}
			given[q.ID] = forms[q.ID].answer(res)
		}
		all := len(given) == len(snap.Interrupts)
		if len(given) > 0 {
			snap, err = g.run(ctx, req, thread, Request{Answers: given})
		}
		if !all && err == nil && ctx.Err() == nil {
			return g.told(thread, snap)
		}
	}
}

// elicits reports whether the client can have its user fill in forms.
func elicits(req *sdk.CallToolRequest) bool {
	caps := req.ClientCapabilities()
	return caps != nil && caps.Elicitation != nil && (caps.Elicitation.Form != nil || caps.Elicitation.URL == nil)
}

// told is the result that says where a thread stands.
func (g *servedGraph) told(thread string, snap *graph.Snapshot[json.RawMessage]) (*sdk.CallToolResult, error) {
	r := ThreadResult{Thread: thread, Status: "done"}
	var text strings.Builder
	switch {
	case len(snap.Interrupts) > 0:
		r.Status = "asks"
		fmt.Fprintf(&text, "Thread %q of graph %q waits for answers, which the tool %s takes:\n", r.Thread, g.name, AnswerTool)
		for _, q := range snap.Interrupts {
			one := ThreadQuestion{ID: q.ID, Key: q.Key, Value: q.Raw, Schema: q.Schema}
			if q.When != "inside" {
				one.Value = mustJSON(fmt.Sprintf("The thread stopped %s node %s: leave answers out to let it go on.", q.When, q.Node))
			}
			r.Questions = append(r.Questions, one)
			fmt.Fprintf(&text, "- %q (ID %s): %s", one.Key, one.ID, one.Value)
			if one.Schema != nil {
				fmt.Fprintf(&text, ", answered by %s", one.Schema)
			}
			text.WriteByte('\n')
		}
	case !snap.Done():
		r.Status = "waits"
		fmt.Fprintf(&text, "Thread %q of graph %q isn't done.\n", r.Thread, g.name)
		for _, w := range snap.Waits {
			r.Waits = append(r.Waits, w.String())
			fmt.Fprintf(&text, "- it waits for %s\n", w)
		}
	default:
		output, err := snap.OutputJSON()
		if err != nil {
			return failed(r.Thread, err), nil
		}
		r.Output = output
		text.Write(output)
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text.String()}}, StructuredContent: r}, nil
}

// failed is the result that says why a run failed, and how its thread goes on.
func failed(thread string, err error) *sdk.CallToolResult {
	text := err.Error()
	if thread != "" {
		text += fmt.Sprintf("\nThe thread %q is as it was after its last step; the tool %s lets it go on.", thread, AnswerTool)
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// answers is the tool that answers threads.
func answers(graphs map[string]*servedGraph) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in struct {
			Graph, Thread string
			Answers       map[string]json.RawMessage
		}
		if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
			return failed("", fmt.Errorf("%s: %w", tool.ErrorArguments, err)), nil
		}
		g := graphs[in.Graph]
		if g == nil || in.Thread == "" {
			return failed("", fmt.Errorf("%s: graph must be one of %s, and thread the ID of a thread", tool.ErrorArguments, strings.Join(slices.Sorted(maps.Keys(graphs)), ", "))), nil
		}
		if req.Params.RequestState != "" {
			return g.proceed(ctx, req, req.Params.RequestState)
		}
		var ask Request
		if len(in.Answers) > 0 {
			ask.Answers = graph.Answers{}
			for key, a := range in.Answers {
				ask.Answers[key] = a
			}
		}
		snap, err := g.run(ctx, req, in.Thread, ask)
		return g.reply(ctx, req, in.Thread, snap, err)
	}
}

// form is a question as a client's user is asked it.
type form struct {
	params *sdk.ElicitParams
	single bool // the answer is its one field
}

// fieldAnswer is the field of a form for an answer that is no object.
const fieldAnswer = "answer"

func (f form) answer(res *sdk.ElicitResult) any {
	if f.single {
		return res.Content[fieldAnswer]
	}
	return res.Content
}

// formsFor returns the forms of all questions of a thread; false if there is none, or
// one that is no form.
func formsFor(snap *graph.Snapshot[json.RawMessage]) (map[string]form, bool) {
	forms := map[string]form{}
	for _, q := range snap.Interrupts {
		f, ok := formFor(q)
		if !ok {
			return nil, false
		}
		forms[q.ID] = f
	}
	return forms, len(forms) > 0
}

// formFor returns the form of a question whose answer can be filled into one.
func formFor(q graph.Interrupted) (form, bool) {
	var s jsonschema.Schema
	if q.When != "inside" || q.Schema == nil || json.Unmarshal(q.Schema, &s) != nil {
		return form{}, false
	}
	message := q.Key
	if text, ok := q.Value.(string); ok {
		message = strings.TrimPrefix(message+": "+text, ": ")
	} else if q.Value != nil {
		message = strings.TrimPrefix(fmt.Sprintf("%s: %s", message, q.Raw), ": ")
	}
	f := form{params: &sdk.ElicitParams{Mode: "form", Message: message}}
	shape := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	if s.Type == "object" {
		for name, p := range s.Properties {
			if shape.Properties[name] = fieldOf(p); shape.Properties[name] == nil {
				return form{}, false
			}
		}
		shape.Required = s.Required
	} else {
		f.single = true
		if shape.Properties[fieldAnswer] = fieldOf(&s); shape.Properties[fieldAnswer] == nil {
			return form{}, false
		}
		shape.Required = []string{fieldAnswer}
	}
	f.params.RequestedSchema = shape
	return f, len(shape.Properties) > 0
}

// fieldOf returns a field of a form as the protocol allows it, nil if it is none. What
// more the schema says is checked when the answer is there.
func fieldOf(s *jsonschema.Schema) *jsonschema.Schema {
	if s == nil || s.Ref != "" || s.AnyOf != nil || s.OneOf != nil {
		return nil
	}
	f := &jsonschema.Schema{Type: s.Type, Title: s.Title, Description: s.Description, Default: s.Default}
	switch s.Type {
	case "string":
		f.Enum, f.MinLength, f.MaxLength = s.Enum, s.MinLength, s.MaxLength
		if slices.Contains([]string{"email", "uri", "date", "date-time"}, s.Format) {
			f.Format = s.Format
		}
	case "number", "integer":
		f.Minimum, f.Maximum = s.Minimum, s.Maximum
	case "boolean":
	default:
		return nil
	}
	return f
}
