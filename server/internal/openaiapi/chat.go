package openaiapi

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/server/internal/turn"
)

// chatParameters are those of chat completions.
var chatParameters = func() map[string]parameter {
	out := used("model", "messages", "stream", "stream_options", "metadata", "tools", "tool_choice",
		// Ignored: the graph decides how its models are called.
		"temperature", "top_p", "max_tokens", "max_completion_tokens", "presence_penalty", "frequency_penalty", "seed", "user", "store",
		"service_tier", "reasoning_effort", "verbosity", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention", "safety_identifier")
	maps.Copy(out, map[string]parameter{
		"n": unless("1"), "logprobs": unless("false"), "top_logprobs": unless("0"), "stop": unless("[]"), "logit_bias": unless("{}"),
		"response_format": unless(`{"type":"text"}`), "modalities": unless(`["text"]`), "audio": unless(), "prediction": unless(),
		"functions": unless("[]"), "function_call": unless(`"none"`, `"auto"`), "web_search_options": unless(),
	})
	return out
}()

// object is what JSON calls one.
type object = map[string]any

func chatUsageOf(u chat.Usage) object {
	return object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Total(),
		"prompt_tokens_details": object{"cached_tokens": u.CacheRead}, "completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

type chatMessage struct {
	Role      string   `json:"role,omitempty"`
	Content   *string  `json:"content,omitempty"`
	Reasoning string   `json:"reasoning_content,omitempty"`
	ToolCalls []object `json:"tool_calls,omitempty"`
}

type chatChoice struct {
	Index   int          `json:"index"`
	Message *chatMessage `json:"message,omitempty"`
	Delta   *chatMessage `json:"delta,omitempty"`
	Finish  *string      `json:"finish_reason"`
	Logs    *struct{}    `json:"logprobs"` // null
}

// chatAnswer has types, since one is made for each token.
type chatAnswer struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   object       `json:"usage,omitempty"`
}

// finish says why the answer ends, in OpenAI's words. That a model called a tool is no
// reason: the graph has gone on since.
func (s *speech) reason() *string {
	switch {
	case len(s.calls) > 0:
		return orNull("tool_calls")
	case s.finish == chat.FinishLength:
		return orNull("length")
	case s.finish == chat.FinishFilter:
		return orNull("content_filter")
	}
	return orNull("stop")
}

func (s *speech) chatCalls(pieces bool) []object {
	var out []object
	for i, c := range s.calls {
		one := object{"id": c.id, "type": "function", "function": object{"name": askTool, "arguments": c.args}}
		if pieces {
			one["index"] = i
		}
		out = append(out, one)
	}
	return out
}

// Chat answers POST /v1/chat/completions.
func (a API) Chat(w http.ResponseWriter, r *http.Request) (any, error) {
	var body map[string]json.RawMessage
	if err := a.Server.Read(r, &body); err != nil {
		return nil, err
	}
	if err := check(body, chatParameters); err != nil {
		return nil, err
	}
	c := &conversation{whole: true}
	var messages []json.RawMessage
	var streams bool
	var options struct {
		Usage bool `json:"include_usage"`
	}
	err := decode(body, map[string]any{"model": &c.model, "messages": &messages, "stream": &streams, "stream_options": &options, "metadata": &c.metadata})
	if err != nil {
		return nil, err
	}
	if c.asks, err = asks(body["tools"], body["tool_choice"]); err != nil {
		return nil, err
	}
	if c.thread, err = named(r, c.metadata); err != nil {
		return nil, err
	}
	for i, raw := range messages {
		m, err := messageOf(raw)
		if err != nil {
			return nil, turn.Invalid("invalid_value", "messages["+strconv.Itoa(i)+"]", "messages[%d]: %v", i, err)
		}
		c.messages = append(c.messages, m)
	}
	run, err := a.begin(w, r, c)
	if err != nil {
		return nil, err
	}
	one := chatAnswer{ID: "chatcmpl-" + run.ID(), Object: "chat.completion", Created: time.Now().Unix(), Model: c.model}
	return attend(r, run, func() (any, error) {
		if streams {
			return nil, a.streamChat(w, r, c, run, one, options.Usage)
		}
		return a.wholeChat(w, r, c, run, one)
	})
}

// messageOf reads a message in OpenAI's form. Threads give messages their IDs: with one of
// its own it could replace another.
func messageOf(raw json.RawMessage) (chat.Message, error) {
	var form struct {
		Role string `json:"role"`
	}
	if json.Unmarshal(raw, &form) != nil || form.Role == "" {
		return chat.Message{}, errors.New("a message must be an object with a role")
	}
	var m chat.OpenAI
	if err := json.Unmarshal(raw, &m); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return chat.Message{}, errors.New("it is not a message as OpenAI describes it: content is a text, or a list of parts")
		}
		return chat.Message{}, err
	}
	m.ID = ""
	return chat.Message(m), nil
}

// listen follows a run to its end.
func listen(r *http.Request, c *conversation, run turn.Run, s *speech, beat func() error, say func(text, reasoning string) error) error {
	end, err := run.Follow(r.Context(), beat, func(ev turn.Event) error {
		p, ok := ev.(*turn.Piece)
		if !ok {
			return nil
		}
		text, reasoning := s.hear(p)
		if text+reasoning == "" {
			return nil
		}
		return say(text, reasoning)
	})
	if err != nil {
		return err
	}
	text, err := s.conclude(c, run, end)
	if err == nil && text != "" {
		err = say(text, "")
	}
	return err
}

func (a API) wholeChat(w http.ResponseWriter, r *http.Request, c *conversation, run turn.Run, one chatAnswer) (any, error) {
	var s speech
	thought := ""
	err := listen(r, c, run, &s, nil, func(_, reasoning string) error { thought += reasoning; return nil })
	if err != nil {
		noRetry(w)
		return nil, err
	}
	text := s.text.String()
	one.Choices = []chatChoice{{Message: &chatMessage{Role: "assistant", Content: &text, Reasoning: thought, ToolCalls: s.chatCalls(false)}, Finish: s.reason()}}
	one.Usage = chatUsageOf(s.usage)
	return one, nil
}

func (a API) streamChat(w http.ResponseWriter, r *http.Request, c *conversation, run turn.Run, one chatAnswer, usage bool) error {
	one.Object = "chat.completion.chunk"
	out, err := turn.NewStream(w)
	if err != nil {
		return err
	}
	chunk := func(delta chatMessage, finish *string) error {
		one.Choices = []chatChoice{{Delta: &delta, Finish: finish}}
		return out.Send("", one)
	}
	empty := ""
	if err := chunk(chatMessage{Role: "assistant", Content: &empty}, nil); err != nil {
		return err
	}
	var s speech
	err = listen(r, c, run, &s, out.BeatAlone, func(text, reasoning string) error {
		return chunk(chatMessage{Content: orNull(text), Reasoning: reasoning}, nil)
	})
	if err != nil {
		if r.Context().Err() != nil {
			return err
		}
		_, e := bodyOf(a.Server.Explain(r, err))
		return out.Send("", object{"error": e})
	}
	if len(s.calls) > 0 {
		if err := chunk(chatMessage{ToolCalls: s.chatCalls(true)}, nil); err != nil {
			return err
		}
	}
	if err := chunk(chatMessage{}, s.reason()); err != nil {
		return err
	}
	if usage {
		one.Choices, one.Usage = []chatChoice{}, chatUsageOf(s.usage)
		if err := out.Send("", one); err != nil {
			return err
		}
	}
	return out.Put([]byte("data: [DONE]\n\n"))
}
