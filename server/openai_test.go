package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/server"
	"github.com/superstep-dev/superstep/tool"
)

type user = map[string]any

func says(text string) user { return user{"role": "user", "content": text} }

// tells returns what a chat completion or a response says, and why it ended.
func tells(o object) (text, finish string) {
	if list, ok := o["choices"].([]any); ok {
		one := list[0].(object)
		text, _ = one["message"].(object)["content"].(string)
		return text, one["finish_reason"].(string)
	}
	for _, item := range o["output"].([]any) {
		if parts, ok := item.(object)["content"].([]any); ok {
			text += parts[0].(object)["text"].(string)
		}
	}
	return text, o["status"].(string)
}

// refusedAs checks that a request is refused in OpenAI's form.
func (c client) refusedAs(path string, body any, status int, code string, headers ...string) string {
	c.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	got, _, text := c.ask(c.t.Context(), "POST", path, string(data), headers...)
	var e struct {
		Error struct {
			Message, Type string
			Code          *string
		}
	}
	if err := json.Unmarshal([]byte(text), &e); err != nil || got != status || e.Error.Code == nil || *e.Error.Code != code || e.Error.Message == "" || e.Error.Type == "" {
		c.t.Errorf("%s %s: %d %s, want %d %s", path, data, got, text, status, code)
	}
	return e.Error.Message
}

func TestAChatCompletionIsOneTurnOfAGraphAndIsNotKept(t *testing.T) {
	c := start(t, server.Graph(answering(t)), server.Graph(slow(t)), quiet())
	models := call[object](c, "GET", "/v1/models", nil)["data"].([]any)
	if len(models) != 1 || models[0].(object)["id"] != "agent" {
		t.Errorf("the models are %v: slow has no messages", models)
	}
	if got := call[object](c, "GET", "/v1/models/agent", nil)["object"]; got != "model" {
		t.Errorf("the model is %v", got)
	}
	body := object{"model": "agent", "messages": []any{says("What is 6 times 7?")}, "temperature": 0.2, "n": 1, "user": "u", "stop": nil}
	out := call[object](c, "POST", "/v1/chat/completions", body)
	if text, finish := tells(out); text != "The answer is 42." || finish != "stop" || out["object"] != "chat.completion" {
		t.Errorf("the answer is %v", out)
	}
	body["stream"], body["stream_options"] = true, object{"include_usage": true}
	_, header, text := c.do("POST", "/v1/chat/completions", body)
	streamed, last := "", ""
	for line := range strings.SplitSeq(text, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		last = data
		var k struct {
			Object  string
			Choices []struct{ Delta struct{ Content string } }
		}
		if data != "[DONE]" && (json.Unmarshal([]byte(data), &k) != nil || k.Object != "chat.completion.chunk") {
			t.Errorf("chunk %s", data)
		}
		for _, one := range k.Choices {
			streamed += one.Delta.Content
		}
	}
	if streamed != "The answer is 42." || last != "[DONE]" || !strings.Contains(text, `"total_tokens"`) || header.Get("X-Thread-Id") != "" {
		t.Errorf("the stream is %s", text)
	}
	if n := call[float64](c, "POST", "/threads/count", object{}); n != 0 {
		t.Errorf("%v threads are left", n)
	}
}

func TestAThreadThatARequestNamesGoesOn(t *testing.T) {
	c := start(t, server.Graph(answering(t)))
	thread := newThread()
	first := []any{user{"role": "developer", "content": "Be brief."}, says("What is 6 times 7?")}
	call[object](c, "POST", "/v1/chat/completions", object{"model": "agent", "messages": first, "metadata": object{"thread_id": thread}})
	second := append(first, user{"role": "assistant", "content": "The answer is 42."}, says("Again"))
	status, header, text := c.ask(t.Context(), "POST", "/v1/chat/completions", marshalled(t, object{"model": "agent", "messages": second}), "X-Thread-Id", thread)
	if status != 200 || header.Get("X-Thread-Id") != thread {
		t.Errorf("%d %s", status, text)
	}
	call[object](c, "POST", "/v1/responses", object{"model": "agent", "input": "And again", "conversation": "conv_" + thread})
	var said []string
	values := call[object](c, "GET", "/threads/"+thread+"/state", nil)["values"].(object)
	for _, m := range values["messages"].([]any) {
		if kind := m.(object)["type"]; kind == "human" || kind == "system" {
			said = append(said, fmt.Sprint(m.(object)["content"]))
		}
	}
	if got := strings.Join(said, "; "); got != "Be brief.; What is 6 times 7?; Again; And again" {
		t.Errorf("the thread has %s", got)
	}
	c.refusedAs("/v1/chat/completions", object{"model": "agent", "messages": second[:3], "metadata": object{"thread_id": thread}}, 400, "nothing_new")
	c.refusedAs("/v1/responses", object{"model": "agent", "input": "x", "conversation": thread, "instructions": "Be long."}, 400, "instructions_changed")
	c.refusedAs("/v1/responses", object{"model": "agent", "input": "x", "conversation": thread, "metadata": object{"thread_id": newThread()}}, 400, "two_threads")
}

func marshalled(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAResponseGoesOnAfterTheNewestOneBefore(t *testing.T) {
	c := start(t, server.Graph(answering(t)))
	first := call[object](c, "POST", "/v1/responses", object{"model": "agent", "input": "What is 6 times 7?", "instructions": "Be brief."})
	if text, status := tells(first); text != "The answer is 42." || status != "completed" || first["store"] != true {
		t.Errorf("the first is %v", first)
	}
	next := object{"model": "agent", "input": []any{object{"type": "message", "role": "user", "content": []any{object{"type": "input_text", "text": "Again"}}}}, "previous_response_id": first["id"], "instructions": "Be brief."}
	second := call[object](c, "POST", "/v1/responses", next)
	if text, _ := tells(second); text != "The answer is 42." || second["previous_response_id"] != first["id"] {
		t.Errorf("the second is %v", second)
	}
	threads := call[[]object](c, "POST", "/threads/search", object{})
	if len(threads) != 1 || threads[0]["ttl"] == nil {
		t.Errorf("the threads are %v", threads)
	}
	c.refusedAs("/v1/responses", next, 400, "previous_response_outdated")
	alone := call[object](c, "POST", "/v1/responses", object{"model": "agent", "input": "What is 6 times 7?", "store": false})
	c.refusedAs("/v1/responses", object{"model": "agent", "input": "x", "previous_response_id": alone["id"]}, 400, "previous_response_not_found")
	c.refusedAs("/v1/responses", object{"model": "agent", "input": "x", "previous_response_id": first["id"], "conversation": newThread()}, 400, "mutually_exclusive_parameters")
}

func TestAStreamedResponseTellsItsItems(t *testing.T) {
	c := start(t, server.Graph(answering(t)))
	_, _, text := c.do("POST", "/v1/responses", object{"model": "agent", "input": "What is 6 times 7?", "stream": true})
	var events []string
	for line := range strings.SplitSeq(text, "\n") {
		if name, ok := strings.CutPrefix(line, "event: "); ok && (len(events) == 0 || events[len(events)-1] != name) {
			events = append(events, strings.TrimPrefix(name, "response."))
		}
	}
	want := "created in_progress output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done completed"
	if got := strings.Join(events, " "); strings.ReplaceAll(got, "output_text.delta output_text.delta", "output_text.delta") != want && !strings.HasSuffix(got, "completed") {
		t.Errorf("the events are %s", got)
	}
}

func TestAQuestionIsToldAsTextAndAnsweredByTheNextMessage(t *testing.T) {
	c := start(t, server.Graph(booking(t)))
	thread := newThread()
	said := []any{says("Book it")}
	on := object{"model": "booking", "messages": said, "metadata": object{"thread_id": thread}}
	out := call[object](c, "POST", "/v1/chat/completions", on)
	if text, finish := tells(out); text != "Off to Ulm\n\nBook Ulm?" || finish != "stop" {
		t.Errorf("the question is %v", out)
	}
	// Another program sends no message, but answers of its own.
	on["messages"] = append(said, user{"role": "assistant", "content": "Book Ulm?"}, user{"role": "system", "content": "hurry"})
	c.refusedAs("/v1/chat/completions", on, 400, "question_open")
	on["messages"] = append(said, user{"role": "assistant", "content": "Book Ulm?"}, says("maybe"))
	if status, _, text := c.do("POST", "/v1/chat/completions", on); status != 400 {
		t.Errorf("an answer of another type: %d %s", status, text)
	}
	on["messages"] = append(said, user{"role": "assistant", "content": "Book Ulm?"}, says("Yes"))
	call[object](c, "POST", "/v1/chat/completions", on)
	if booked := call[object](c, "GET", "/threads/"+thread+"/state", nil)["values"].(object)["booked"]; booked != true {
		t.Errorf("booked is %v", booked)
	}
	message := c.refusedAs("/v1/chat/completions", object{"model": "booking", "messages": said}, 400, "question_needs_thread")
	if !strings.Contains(message, "Book Ulm?") || !strings.Contains(message, "X-Thread-Id") {
		t.Errorf("it says %s", message)
	}
}

var askTool = []any{object{"type": "function", "function": object{"name": "ask", "parameters": object{"type": "object", "properties": object{"question": object{"type": "string"}, "value": object{}, "schema": object{}}}}}}

func TestAQuestionIsACallOfTheToolAskForAClientThatHasIt(t *testing.T) {
	c := start(t, server.Graph(booking(t)))
	body := object{"model": "booking", "messages": []any{says("Book it")}, "tools": askTool}
	out := call[object](c, "POST", "/v1/chat/completions", body)
	message := out["choices"].([]any)[0].(object)["message"].(object)
	if _, finish := tells(out); finish != "tool_calls" || message["content"] != "Off to Ulm" {
		t.Fatalf("the question is %v", out)
	}
	asked := message["tool_calls"].([]any)[0].(object)
	if got := asked["function"].(object); got["name"] != "ask" || got["arguments"] != `{"question":"Book Ulm?","schema":{"type":"boolean"},"value":{"question":"Book Ulm?"}}` {
		t.Errorf("the call is %v", asked)
	}
	answer := user{"role": "tool", "tool_call_id": asked["id"], "content": "yes"}
	history := []any{says("Book it"), message}
	c.refusedAs("/v1/chat/completions", object{"model": "booking", "messages": append(history, answer, answer), "tools": askTool}, 400, "answered_twice")
	c.refusedAs("/v1/chat/completions", object{"model": "booking", "messages": append(history, answer, says("and more")), "tools": askTool}, 400, "answers_and_messages")
	c.refusedAs("/v1/chat/completions", object{"model": "booking", "messages": append(history, answer), "metadata": object{"thread_id": newThread()}}, 400, "two_threads")
	done := call[object](c, "POST", "/v1/chat/completions", object{"model": "booking", "messages": append(history, answer), "tools": askTool})
	if _, finish := tells(done); finish != "stop" {
		t.Errorf("the end is %v", done)
	}
	c.refusedAs("/v1/chat/completions", object{"model": "booking", "messages": append(history, answer), "tools": askTool}, 400, "question_not_open")

	// The same by responses, answered by the newest one's ID or by the call alone.
	tools := []any{object{"type": "function", "name": "ask", "parameters": object{}, "strict": false}}
	first := call[object](c, "POST", "/v1/responses", object{"model": "booking", "input": "Book it", "tools": tools})
	items := first["output"].([]any)
	item := items[len(items)-1].(object)
	if item["type"] != "function_call" || len(item["call_id"].(string)) != 40 {
		t.Fatalf("the response asks %v", items)
	}
	call[object](c, "POST", "/v1/responses", object{"model": "booking", "previous_response_id": first["id"], "tools": tools, "input": []any{object{"type": "function_call_output", "call_id": item["call_id"], "output": "true"}}})
}

// A graph can be the model of another graph, whose people answer its questions.
func TestAGraphIsTheModelOfAnotherGraph(t *testing.T) {
	c := start(t, server.Graph(answering(t)), server.Graph(booking(t)))
	for name, opts := range map[string][]openai.Option{"chat completions": nil, "responses": {openai.Responses()}} {
		t.Run(name, func(t *testing.T) {
			ask := tool.New("ask", "Asks.", func(ctx context.Context, in struct {
				Question string `json:"question"`
			}) (string, error) {
				return graph.Interrupt[string](ctx, "ask", in.Question)
			})
			for _, tt := range []struct{ model, says, question, answer, want string }{
				{"agent", "What is 6 times 7?", "", "", "The answer is 42."},
				{"booking", "Book it", "Book Ulm?", "yes", "Off to Ulm"},
			} {
				m := openai.New(tt.model, append(opts, openai.BaseURL(c.url+"/v1"), openai.APIKey("any"))...)
				a, err := agent.New(agent.ReAct[agent.State]{Model: m, Tools: []tool.Tool{ask}})
				if err != nil {
					t.Fatal(err)
				}
				thread := a.Thread("t", graph.WithCheckpointer(checkpoint.NewMemory()))
				snap, err := thread.Invoke(t.Context(), a.Input(agent.Ask[agent.State](tt.says)))
				if err == nil && tt.question != "" {
					if len(snap.Interrupts) != 1 || snap.Interrupts[0].Value != tt.question {
						t.Fatalf("%s asks %v", tt.model, snap.Interrupts)
					}
					snap, err = thread.Invoke(t.Context(), a.Answer(tt.answer))
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := snap.State.LastResponse.Get(); got != tt.want {
					t.Errorf("%s says %q", tt.model, got)
				}
			}
			if n := call[float64](c, "POST", "/threads/count", object{"values": object{"booked": true}}); n == 0 {
				t.Errorf("the answer did not reach the question: %v", call[any](c, "POST", "/threads/search", object{}))
			}
		})
	}
}

func TestWhatAGraphCannotDoIsRefusedInOpenAIsForm(t *testing.T) {
	c := start(t, server.Graph(answering(t)), server.Graph(boom(t)), server.Graph(failing(t)), quiet())
	with := func(more object) object {
		out := object{"model": "agent", "messages": []any{says("hello")}}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	for _, tt := range []struct {
		body   object
		status int
		code   string
	}{
		{with(object{"model": "gpt-5"}), 404, "model_not_found"},
		{with(object{"model": nil}), 400, "missing_required_parameter"},
		{with(object{"model": "boom"}), 400, "model_not_supported"},
		{with(object{"n": 2}), 400, "unsupported_parameter"},
		{with(object{"logprobs": true}), 400, "unsupported_parameter"},
		{with(object{"stop": "x"}), 400, "unsupported_parameter"},
		{with(object{"response_format": object{"type": "json_object"}}), 400, "unsupported_parameter"},
		{with(object{"tools": []any{object{"type": "function", "function": object{"name": "weather"}}}}), 400, "unsupported_parameter"},
		{with(object{"tool_choice": "required"}), 400, "unsupported_parameter"},
		{with(object{"temprature": 1}), 400, "unknown_parameter"},
		{with(object{"stream": "yes"}), 400, "invalid_type"},
		{with(object{"messages": "hello"}), 400, "invalid_type"},
		{with(object{"messages": []any{}}), 400, "nothing_new"},
		{with(object{"messages": []any{user{"role": "wizard", "content": "x"}}}), 400, "invalid_value"},
		{with(object{"messages": []any{user{"content": "x"}}}), 400, "invalid_value"},
		{with(object{"messages": []any{user{"role": "user", "content": []any{object{"type": "hologram"}}}}}), 400, "invalid_value"},
		{with(object{"metadata": object{"thread_id": "mine"}}), 400, "invalid_thread_id"},
		{with(object{"messages": []any{user{"role": "tool", "tool_call_id": "q_" + strings.Repeat("A", 38), "content": "yes"}}}), 400, "question_not_open"},
		{with(object{"model": "failing"}), 500, "TeapotError"},
	} {
		c.refusedAs("/v1/chat/completions", tt.body, tt.status, tt.code)
	}
	for _, tt := range []struct {
		more object
		code string
	}{
		{object{"input": nil}, "missing_required_parameter"},
		{object{"background": true}, "unsupported_parameter"},
		{object{"text": object{"format": object{"type": "json_object"}}}, "unsupported_parameter"},
		{object{"input": []any{object{"type": "web_search_call"}}}, "invalid_value"},
		{object{"input": []any{object{"role": "user", "content": []any{object{"type": "hologram"}}}}}, "invalid_value"},
		{object{"previous_response_id": "resp_1"}, "previous_response_not_found"},
		{object{"conversation": "conv_1"}, "invalid_thread_id"},
		{object{"conversation": 1}, "invalid_type"},
	} {
		body := object{"model": "agent", "input": "hello"}
		for k, v := range tt.more {
			body[k] = v
		}
		c.refusedAs("/v1/responses", body, 400, tt.code)
	}
	_, header, _ := c.do("POST", "/v1/chat/completions", object{"model": "failing", "messages": []any{says("x")}})
	if header.Get("X-Should-Retry") != "false" {
		t.Error("clients would run a graph again that has failed")
	}
	for path, want := range map[string]string{"/v1/chat/completions": `data: {"error":{"message":"I am a teapot"`, "/v1/responses": `"status":"failed","error":{"code":"TeapotError"`} {
		_, _, text := c.do("POST", path, map[string]any{"/v1/chat/completions": with(object{"model": "failing", "stream": true}), "/v1/responses": object{"model": "failing", "input": "x", "stream": true}}[path])
		if !strings.Contains(text, want) {
			t.Errorf("%s: a stream that fails ends with %s", path, text)
		}
	}
}

// failing is a graph with messages that fails.
func failing(t testing.TB) *graph.Graph[trip] {
	t.Helper()
	b := graph.New[trip]("failing")
	b.AddNode("fail", func(context.Context, *trip) error { return TeapotError{} })
	b.AddEdge(graph.Start, "fail")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// patient is a graph with messages whose node works until it is let go.
func patient(t testing.TB, begun chan<- struct{}, let <-chan struct{}) *graph.Graph[trip] {
	t.Helper()
	b := graph.New[trip]("patient")
	b.AddNode("wait", func(ctx context.Context, s *trip) error {
		select {
		case begun <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-let:
		case <-ctx.Done():
			return ctx.Err()
		}
		s.Messages.Add(chat.AI("done"))
		return nil
	})
	b.AddEdge(graph.Start, "wait")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestARunGoesOnWithoutItsClientOnlyWhereItCanBeComeBackTo(t *testing.T) {
	begun, let := make(chan struct{}), make(chan struct{})
	c := start(t, server.Graph(patient(t, begun, let)), quiet())
	thread := newThread()
	leave := func(body object) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, _ := http.NewRequestWithContext(ctx, "POST", c.url+"/v1/chat/completions", strings.NewReader(marshalled(t, body)))
			if answer, err := http.DefaultClient.Do(r); err == nil {
				answer.Body.Close()
			}
		}()
		<-begun
		cancel()
		<-done
	}
	body := object{"model": "patient", "messages": []any{says("hello")}}
	leave(body)
	waitFor(t, "a run without a thread ends", func() bool { return call[float64](c, "POST", "/threads/count", object{}) == 0 })
	body["metadata"] = object{"thread_id": thread}
	leave(body)
	c.refusedAs("/v1/chat/completions", body, 409, "conversation_locked")
	let <- struct{}{}
	waitFor(t, "a run on a thread ends", func() bool { return call[object](c, "GET", "/threads/"+thread, nil)["status"] == "idle" })
	values := call[object](c, "GET", "/threads/"+thread+"/state", nil)["values"].(object)
	if n := len(values["messages"].([]any)); n != 2 {
		t.Errorf("the thread has %d messages", n)
	}
}
