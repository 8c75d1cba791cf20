// Package openaiapi speaks OpenAI's chat completions and responses with assistants whose
// state has messages: it translates between what OpenAI's clients send and read, as of
// November 2026, and turns of the server. docs/protocols.md says what becomes of each
// parameter.
package openaiapi

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/server/internal/turn"
)

// API answers the routes.
type API struct{ Server turn.Server }

// ThreadHeader names the thread that a request goes on with, and in answers the one that
// it has gone on with.
const ThreadHeader = "X-Thread-Id"

// keep is how long a thread is kept that nobody has named.
const keep = 30 * 24 * time.Hour

// errorBody is an error in OpenAI's form.
type errorBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func bodyOf(f *turn.Fault) (int, errorBody) {
	status := f.Status
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest // which OpenAI has for it
	}
	e := errorBody{Message: f.Text, Type: "invalid_request_error", Param: orNull(f.Param), Code: orNull(f.Code)}
	switch {
	case status == http.StatusUnauthorized:
		e.Type, e.Code = "authentication_error", orNull("invalid_api_key")
	case status == http.StatusForbidden:
		e.Type = "permission_error"
	case status == http.StatusTooManyRequests:
		e.Type, e.Code = "rate_limit_error", orNull("rate_limit_exceeded")
	case status >= 500:
		e.Type = "server_error"
	}
	return status, e
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Refuse answers with an error.
func Refuse(w http.ResponseWriter, _ *http.Request, f *turn.Fault) {
	status, e := bodyOf(f)
	turn.Refuse(w, status, map[string]any{"error": e})
}

type modelShown struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func shown(a *turn.Assistant) modelShown {
	return modelShown{a.Name, "model", a.Created.Unix(), "superstep"}
}

// Models lists the assistants that take messages.
func (a API) Models(_ http.ResponseWriter, r *http.Request) (any, error) {
	found, err := a.Server.Assistants(r.Context())
	if err != nil {
		return nil, err
	}
	list := make([]modelShown, len(found))
	for i := range found {
		list[i] = shown(&found[i])
	}
	return map[string]any{"object": "list", "data": list}, nil
}

// Model shows an assistant, which the path names.
func (a API) Model(_ http.ResponseWriter, r *http.Request) (any, error) {
	found, err := a.talker(r, r.PathValue("model"))
	if err != nil {
		return nil, err
	}
	return shown(found), nil
}

func (a API) talker(r *http.Request, name string) (*turn.Assistant, error) {
	if name == "" {
		return nil, turn.Invalid("missing_required_parameter", "model", "model is required: the name of a graph, or the ID of an assistant.")
	}
	found, err := a.Server.Assistant(r.Context(), name)
	if err != nil {
		return nil, err
	}
	if !found.Talks {
		return nil, turn.Invalid("model_not_supported", "model", "The input of %q has no messages, so that nobody can talk with it here: GET /v1/models lists the models, and /runs takes any input.", name)
	}
	return found, nil
}

// What becomes of a parameter: it is used, or ignored, or refused unless its JSON is one
// of those values, which mean what happens anyway. Null always does.
type parameter struct {
	refused bool
	unless  []string
}

func unless(values ...string) parameter { return parameter{true, values} }

// used is for parameters that do something, or nothing as documented.
func used(names ...string) map[string]parameter {
	out := map[string]parameter{}
	for _, n := range names {
		out[n] = parameter{}
	}
	return out
}

// check reports the parameters of a body that there aren't, and those that would have to
// do something that graphs can't.
func check(body map[string]json.RawMessage, known map[string]parameter) error {
	for _, name := range slices.Sorted(maps.Keys(body)) {
		p, ok := known[name]
		if !ok {
			return turn.Invalid("unknown_parameter", fmt.Sprintf("%.80s", name), "There is no parameter %.80q: leave it out.", name)
		}
		var value bytes.Buffer
		if json.Compact(&value, body[name]) != nil || !p.refused || value.String() == "null" || slices.Contains(p.unless, value.String()) {
			continue
		}
		return turn.Invalid("unsupported_parameter", name, "%s is not supported: %s", name, cmp.Or(strings.Join(p.unless, " or "), "nothing")+" is all it can be here. The graph decides how its models are called.")
	}
	return nil
}

// decode reads the parameters that are used.
func decode(body map[string]json.RawMessage, into map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(into)) {
		raw := body[name]
		if raw == nil || string(raw) == "null" {
			continue
		}
		if json.Unmarshal(raw, into[name]) != nil {
			return turn.Invalid("invalid_type", name, "%s is not of the type that it must be: %.80s", name, raw)
		}
	}
	return nil
}

// askTool is the tool by which a client says that it can put questions to somebody.
const askTool = "ask"

// asks returns that tool if a client has it. Others are refused: what a graph calls are
// its own tools.
func asks(raw, choice json.RawMessage) (*function, error) {
	var tools []struct {
		Type     string `json:"type"`
		function        // of responses
		Function function
	}
	if raw != nil && json.Unmarshal(raw, &tools) != nil {
		return nil, turn.Invalid("invalid_type", "tools", "tools must be a list of tools.")
	}
	var ask *function
	for _, t := range tools {
		f := &t.function
		if t.Function.Name != "" {
			f = &t.Function
		}
		if ask = f; t.Type != "function" || f.Name != askTool {
			return nil, turn.Invalid("unsupported_parameter", "tools", "The graph has tools of its own, and can't call the client's %.80q. Leave tools out, or give the one function %q, by which the graph's questions are put.", cmp.Or(f.Name, t.Type), askTool)
		}
	}
	if choice != nil && !slices.Contains([]string{"null", `"auto"`}, string(choice)) && !(len(tools) == 0 && string(choice) == `"none"`) {
		return nil, turn.Invalid("unsupported_parameter", "tool_choice", `tool_choice can only be "auto": the graph decides what it asks.`)
	}
	return ask, nil
}

// function is a tool of a client's.
type function struct {
	Name       string `json:"name"`
	Parameters struct {
		Properties map[string]json.RawMessage `json:"properties"`
	} `json:"parameters"`
}

// call is a question as a call of the client's tool.
type call struct{ id, args string }

// callOf makes a call of a question, in words, and as the graph has it where the tool has a
// place for that. Its ID says which it is of which thread.
func callOf(thread string, q turn.Question, ask *function) (call, error) {
	args := map[string]any{"question": q.Text()}
	for name, v := range map[string]json.RawMessage{"value": q.Value, "key": marshal(q.Key), "schema": q.Schema} {
		if _, wanted := ask.Parameters.Properties[name]; wanted && v != nil {
			args[name] = v
		}
	}
	id, err := CallID(thread, q.ID)
	return call{id, string(marshal(args))}, err
}

// callPrefix tells such calls from those of other tools.
const callPrefix = "q_"

// CallID names a question of a thread in the 40 characters that OpenAI allows: by the whole
// of the thread's ID and 24 of the question's 32 digits.
func CallID(thread, question string) (string, error) {
	t, err := uuid.Parse(thread)
	if err != nil {
		return "", err
	}
	q, err := hex.DecodeString(question[:min(24, len(question))])
	return callPrefix + base64.RawURLEncoding.EncodeToString(append(t[:], q...)), err
}

// questionOf returns which question a call was, by the beginning of its ID; ok is false for
// calls of other tools.
func questionOf(callID string) (thread, question string, ok bool) {
	text, ok := strings.CutPrefix(callID, callPrefix)
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !ok || err != nil || len(data) != 28 {
		return "", "", false
	}
	return uuid.UUID(data[:16]).String(), hex.EncodeToString(data[16:]), true
}

// threadID reads the ID of a thread.
func threadID(param, id string) (string, error) {
	u, err := uuid.Parse(id)
	if err != nil || len(id) != 36 {
		return "", turn.Invalid("invalid_thread_id", param, "%s: %.80q is no ID of a thread, which is a UUID.", param, id)
	}
	return u.String(), nil
}

// named returns the thread that a request names, empty if it names none: all of the ways
// must name the same.
func named(r *http.Request, metadata map[string]string) (string, error) {
	thread := ""
	for _, by := range []struct{ param, id string }{{"header " + ThreadHeader, r.Header.Get(ThreadHeader)}, {"metadata.thread_id", metadata["thread_id"]}} {
		if by.id == "" {
			continue
		}
		id, err := threadID(by.param, by.id)
		if err != nil {
			return "", err
		}
		if thread != "" && thread != id {
			return "", turn.Invalid("two_threads", by.param, "The request names two threads, %s and %s: name one.", thread, id)
		}
		thread = id
	}
	return thread, nil
}

// conversation is what a request comes to.
type conversation struct {
	model    string
	messages []chat.Message
	whole    bool // the messages are all that was said so far, not what is new
	thread   string
	keep     bool // a thread that nobody names is kept
	asks     *function
	metadata map[string]string
}

// begin starts the turn.
func (a API) begin(w http.ResponseWriter, r *http.Request, c *conversation) (turn.Run, error) {
	talker, err := a.talker(r, c.model)
	if err != nil {
		return nil, err
	}
	request := turn.Request{Assistant: talker.ID, Thread: c.thread, Metadata: maps.Clone(c.metadata)}
	delete(request.Metadata, "thread_id")
	fresh := c.messages
	if c.whole {
		for i, m := range slices.Backward(c.messages) {
			if m.Role == chat.RoleAssistant {
				fresh = c.messages[i+1:]
				break
			}
		}
	}
	input := c.messages
	answering, err := answers(fresh, &request)
	if err != nil {
		return nil, err
	}
	var t *turn.Thread
	if request.Thread != "" {
		t, err = a.Server.Thread(r.Context(), request.Thread)
		if err != nil && !(answering && a.Server.Explain(r, err).Status == http.StatusNotFound) { // somebody else's question isn't there
			return nil, err
		}
	}
	if answering {
		if request.Answers, err = open(t, request.Answers); err != nil {
			return nil, err
		}
	} else if t != nil && t.Values != nil {
		if len(t.Questions) > 0 {
			if request.Answers, err = inWords(t.Questions, fresh); err != nil {
				return nil, err
			}
		} else if len(t.Messages()) > 0 {
			input = fresh
		}
	}
	if request.Answers == nil {
		if len(input) == 0 {
			return nil, turn.Invalid("nothing_new", "messages", "Nothing is said: the conversation needs a message after the last one of the assistant.")
		}
		data, err := json.Marshal(map[string]any{"messages": input})
		if err != nil {
			return nil, turn.Invalid("invalid_value", "messages", "messages: %v", err)
		}
		request.Input = data
	}
	if request.Thread == "" && (c.keep || c.asks != nil) {
		request.Thread, request.Keep = uuid.Must(uuid.NewV7()).String(), keep
	}
	run, err := a.Server.Start(r, request)
	if err == nil && run.Thread() != "" {
		w.Header().Set(ThreadHeader, run.Thread())
	}
	return run, err
}

// answers takes the answers to questions from what is new, and reports whether there are any.
func answers(fresh []chat.Message, request *turn.Request) (bool, error) {
	others := 0
	for _, m := range fresh {
		result, _ := m.ToolResult()
		thread, question, ok := questionOf(result.CallID)
		if !ok {
			others++
			continue
		}
		if request.Thread != "" && request.Thread != thread {
			return false, turn.Invalid("two_threads", "tool_call_id", "The answer to %s is for the thread %s, and the request for %s: send the answers of each thread in a request of its own.", result.CallID, thread, request.Thread)
		}
		if _, twice := request.Answers[question]; twice {
			return false, turn.Invalid("answered_twice", "tool_call_id", "The question %s is answered twice: send one answer.", result.CallID)
		}
		if request.Answers == nil {
			request.Answers = map[string]json.RawMessage{}
		}
		request.Thread = thread
		request.Answers[question], _ = json.Marshal(m.Text()) // of a text; open makes it what was asked for
	}
	if request.Answers != nil && others > 0 {
		return false, turn.Invalid("answers_and_messages", "messages", "Answers and other messages can't be sent at once: send the answers, and the other messages with the next request.")
	}
	return request.Answers != nil, nil
}

// open makes of the texts what their questions ask for, all of which must be open.
func open(t *turn.Thread, given map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for begins, raw := range given {
		i := -1
		if t != nil {
			i = slices.IndexFunc(t.Questions, func(q turn.Question) bool { return strings.HasPrefix(q.ID, begins) })
		}
		if i < 0 {
			return nil, turn.Invalid("question_not_open", "tool_call_id", "The question that is answered is not open (any more): it has been answered, a newer message has given it up, or it isn't there.")
		}
		var text string
		_ = json.Unmarshal(raw, &text) // which answers wrote
		out[t.Questions[i].ID] = t.Questions[i].Answer(text)
	}
	return out, nil
}

// inWords makes the answer to the question that a thread waits with of what the user says.
func inWords(asked []turn.Question, fresh []chat.Message) (map[string]json.RawMessage, error) {
	if len(asked) > 1 {
		return nil, turn.Invalid("several_questions", "messages", "The graph has asked %d questions, and a message can't say which it answers: give the tool %q, and answer its calls.", len(asked), askTool)
	}
	if len(fresh) != 1 || fresh[0].Role != chat.RoleUser || strings.TrimSpace(fresh[0].Text()) == "" {
		return nil, turn.Invalid("question_open", "messages", "The graph has asked %q: the next message must be the user's, with the answer as its text.", asked[0].Text())
	}
	return map[string]json.RawMessage{asked[0].ID: asked[0].Answer(fresh[0].Text())}, nil
}

// attend serves the client of a run. If it leaves, however that is noticed, a run that
// nobody can come back to ends.
func attend(r *http.Request, run turn.Run, serve func() (any, error)) (any, error) {
	answer, err := serve()
	if err != nil && run.Thread() == "" {
		_ = run.Cancel(r.Context()) // or else it ends by itself
	}
	return answer, err
}

// speech is what the assistant has said in a turn.
type speech struct {
	text   strings.Builder
	last   string // ID of the message
	usage  chat.Usage
	finish chat.FinishReason
	calls  []call
}

// hear adds a piece, and returns what is new of the text. Messages are paragraphs.
func (s *speech) hear(p *turn.Piece) (text, reasoning string) {
	if p.Role != chat.RoleAssistant {
		return "", ""
	}
	if p.Usage != nil {
		s.usage = s.usage.Add(*p.Usage)
	}
	if p.Finish != "" {
		s.finish = p.Finish
	}
	if text = p.Text(); text != "" {
		if s.text.Len() > 0 && s.last != p.ID {
			text = "\n\n" + text
		}
		s.last = p.ID
		s.text.WriteString(text)
	}
	return text, p.Reasoning()
}

// conclude adds how the run ended: its questions, which are told as a text or as calls.
// It returns what that adds to the text.
func (s *speech) conclude(c *conversation, run turn.Run, end *turn.End) (text string, err error) {
	if f := end.Failure; f != nil {
		return "", failure(f)
	}
	if len(end.Questions) == 0 {
		return "", nil
	}
	s.finish = ""
	if c.asks != nil {
		for _, q := range end.Questions {
			one, err := callOf(run.Thread(), q, c.asks)
			if err != nil {
				return "", err
			}
			s.calls = append(s.calls, one)
		}
		return "", nil
	}
	var asked []string
	for _, q := range end.Questions {
		asked = append(asked, q.Text())
	}
	text = strings.Join(asked, "\n\n")
	if run.Thread() == "" {
		return "", turn.Invalid("question_needs_thread", "messages", "The graph asks, and can't be answered without a thread: %s\nName one, with the header %s or metadata.thread_id, a UUID of your choice, or give the tool %q.", text, ThreadHeader, askTool)
	}
	if s.text.Len() > 0 {
		text = "\n\n" + text
	}
	s.text.WriteString(text)
	return text, nil
}

// failure is what a client is told of a run that failed.
func failure(f *turn.Failure) error {
	out := &turn.Fault{Status: http.StatusInternalServerError, Code: f.Type, Text: f.Text}
	if f.Type == "AnswerError" || f.Type == "InvalidRequest" {
		out.Status = http.StatusBadRequest
	}
	return out
}

// noRetry tells OpenAI's clients that they must not try again by themselves: the graph has
// run, and may have done something.
func noRetry(w http.ResponseWriter) { w.Header().Set("X-Should-Retry", "false") }
