package openaiapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/server/internal/turn"
)

// responsesParameters are those of responses.
var responsesParameters = func() map[string]parameter {
	out := used("model", "input", "instructions", "stream", "store", "metadata", "previous_response_id", "conversation", "tools", "tool_choice",
		// Ignored: the graph decides how its models are called, and what is streamed.
		"temperature", "top_p", "max_output_tokens", "reasoning", "user", "service_tier", "parallel_tool_calls", "prompt_cache_key",
		"prompt_cache_retention", "safety_identifier", "stream_options")
	maps.Copy(out, map[string]parameter{
		"background": unless("false"), "truncation": unless(`"disabled"`), "include": unless("[]", `["reasoning.encrypted_content"]`), "max_tool_calls": unless(),
		"prompt": unless(), "top_logprobs": unless("0"), "text": unless("{}", `{"format":{"type":"text"}}`), "context_management": unless(),
	})
	return out
}()

const responsePrefix, conversationPrefix = "resp_", "conv_"

type response struct {
	ID           string            `json:"id"`
	Object       string            `json:"object"`
	Created      int64             `json:"created_at"`
	Status       string            `json:"status"`
	Error        object            `json:"error"`
	Incomplete   map[string]string `json:"incomplete_details"`
	Instructions *string           `json:"instructions"`
	Model        string            `json:"model"`
	Output       []any             `json:"output"`
	Parallel     bool              `json:"parallel_tool_calls"`
	Previous     *string           `json:"previous_response_id"`
	Conversation map[string]string `json:"conversation,omitempty"`
	Store        bool              `json:"store"`
	Temperature  *float64          `json:"temperature"`
	TopP         *float64          `json:"top_p"`
	Choice       string            `json:"tool_choice"`
	Tools        json.RawMessage   `json:"tools"`
	Truncation   string            `json:"truncation"`
	Usage        object            `json:"usage"`
	Metadata     map[string]string `json:"metadata"`
}

// Responses answers POST /v1/responses.
func (a API) Responses(w http.ResponseWriter, r *http.Request) (any, error) {
	var body map[string]json.RawMessage
	if err := a.Server.Read(r, &body); err != nil {
		return nil, err
	}
	if err := check(body, responsesParameters); err != nil {
		return nil, err
	}
	c := &conversation{}
	store, streams, previous := true, false, ""
	var instructions *string
	err := decode(body, map[string]any{
		"model": &c.model, "stream": &streams, "store": &store, "metadata": &c.metadata, "previous_response_id": &previous, "instructions": &instructions,
	})
	if err != nil {
		return nil, err
	}
	if c.asks, err = asks(body["tools"], body["tool_choice"]); err != nil {
		return nil, err
	}
	if c.messages, err = inputOf(body["input"]); err != nil {
		return nil, err
	}
	inConversation, err := a.place(r, c, body["conversation"], previous)
	if err != nil {
		return nil, err
	}
	c.keep, c.whole = store, c.thread == ""
	if err := a.instruct(r, c, instructions); err != nil {
		return nil, err
	}
	run, err := a.begin(w, r, c)
	if err != nil {
		return nil, err
	}
	out := response{
		ID: responsePrefix + run.ID(), Object: "response", Created: time.Now().Unix(), Status: "in_progress", Instructions: instructions, Model: c.model, Output: []any{},
		Parallel: true, Previous: orNull(previous), Store: run.Thread() != "", Choice: "auto", Tools: body["tools"], Truncation: "disabled", Metadata: c.metadata,
	}
	if inConversation {
		out.Conversation = map[string]string{"id": conversationPrefix + run.Thread()}
	}
	if out.Tools == nil || string(out.Tools) == "null" {
		out.Tools = json.RawMessage("[]")
	}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	return attend(r, run, func() (any, error) {
		if streams {
			return nil, a.streamResponse(w, r, c, run, &out)
		}
		var s speech
		if err := listen(r, c, run, &s, nil, func(string, string) error { return nil }); err != nil {
			noRetry(w)
			return nil, err
		}
		if s.text.Len() > 0 {
			out.Output = append(out.Output, itemOf(run, "completed", partOf(s.text.String())))
		}
		for _, call := range s.calls {
			out.Output = append(out.Output, callItemOf(call, call.args, "completed"))
		}
		out.end(&s)
		return out, nil
	})
}

// place finds the thread that the request goes on with, if it names one.
func (a API) place(r *http.Request, c *conversation, raw json.RawMessage, previous string) (inConversation bool, err error) {
	if c.thread, err = named(r, c.metadata); err != nil {
		return false, err
	}
	id := ""
	if raw != nil && json.Unmarshal(raw, &id) != nil {
		var o struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(raw, &o) != nil || o.ID == "" {
			return false, turn.Invalid("invalid_type", "conversation", "conversation must be an ID, or an object with one.")
		}
		id = o.ID
	}
	if id != "" && previous != "" {
		return false, turn.Invalid("mutually_exclusive_parameters", "previous_response_id", "conversation and previous_response_id can't be given together: a conversation goes on after its newest response.")
	}
	other, param := "", "conversation"
	switch {
	case id != "":
		if other, err = threadID(param, strings.TrimPrefix(id, conversationPrefix)); err != nil {
			return false, err
		}
	case previous != "":
		param = "previous_response_id"
		run := strings.TrimPrefix(previous, responsePrefix)
		var t *turn.Thread
		newest := false
		if u, err := uuid.Parse(run); err == nil && len(run) == 36 {
			if t, newest, err = a.Server.ThreadOf(r.Context(), u.String()); err != nil {
				return false, err
			}
		}
		if t == nil {
			return false, turn.Invalid("previous_response_not_found", param, "There is no response %.80q: it was not stored, or its thread has been removed. Send the whole conversation as the input.", previous)
		}
		if !newest {
			return false, turn.Invalid("previous_response_outdated", param, "The conversation has gone on since the response %.80q: name its newest response, or begin another with the whole conversation as the input.", previous)
		}
		other = t.ID
	default:
		return false, nil
	}
	if c.thread != "" && c.thread != other {
		return false, turn.Invalid("two_threads", param, "The request names two threads, %s and %s: name one.", c.thread, other)
	}
	c.thread = other
	return id != "", nil
}

// instruct puts the instructions before the messages. A thread that goes on has those that
// it began with.
func (a API) instruct(r *http.Request, c *conversation, instructions *string) error {
	if instructions == nil || *instructions == "" {
		return nil
	}
	if c.thread != "" {
		t, err := a.Server.Thread(r.Context(), c.thread)
		if err != nil {
			return err
		}
		if t != nil && t.Values != nil {
			said := t.Messages()
			if slices.ContainsFunc(said, func(m chat.Message) bool { return m.Role == chat.RoleSystem && m.Text() == *instructions }) {
				return nil
			}
			if len(said) > 0 {
				return turn.Invalid("instructions_changed", "instructions", "The conversation goes on with the instructions that it began with: send the same, or none, or begin another one.")
			}
		}
	}
	c.messages = append([]chat.Message{chat.System(*instructions)}, c.messages...)
	return nil
}

// inputOf reads what is said: a text, or a list of items.
func inputOf(raw json.RawMessage) ([]chat.Message, error) {
	var text string
	if raw == nil || string(raw) == "null" {
		return nil, turn.Invalid("missing_required_parameter", "input", "input is required: a text, or a list of items.")
	}
	if json.Unmarshal(raw, &text) == nil {
		return []chat.Message{chat.User(text)}, nil
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil, turn.Invalid("invalid_type", "input", "input must be a text, or a list of items.")
	}
	var out []chat.Message
	for i, one := range items {
		m, err := messageOfItem(one)
		if err != nil {
			return nil, turn.Invalid("invalid_value", "input["+strconv.Itoa(i)+"]", "input[%d]: %v", i, err)
		}
		if last := len(out) - 1; last >= 0 && m.Role == chat.RoleAssistant && out[last].Role == chat.RoleAssistant && m.Text() == "" {
			out[last].Parts = append(out[last].Parts, m.Parts...) // calls belong to what was said before
			continue
		}
		out = append(out, m)
	}
	return out, nil
}

// messageOfItem makes a message of an item.
func messageOfItem(raw json.RawMessage) (chat.Message, error) {
	var item struct {
		Type    string          `json:"type"`
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		CallID  string          `json:"call_id"`
		Name    string          `json:"name"`
		Args    string          `json:"arguments"`
		Output  json.RawMessage `json:"output"`
	}
	if json.Unmarshal(raw, &item) != nil {
		return chat.Message{}, errors.New("it is not an item as OpenAI describes it")
	}
	switch item.Type {
	case "", "message":
		content, err := partsOf(item.Content)
		if err != nil {
			return chat.Message{}, err
		}
		return messageOf(marshal(map[string]any{"role": item.Role, "content": content}))
	case "function_call":
		return chat.Assistant("", chat.ToolCall{ID: item.CallID, Name: item.Name, Args: item.Args}), nil
	case "function_call_output":
		content, err := partsOf(item.Output)
		if err != nil {
			return chat.Message{}, err
		}
		return messageOf(marshal(map[string]any{"role": "tool", "tool_call_id": item.CallID, "content": content}))
	}
	return chat.Message{}, fmt.Errorf("items of the type %.80q can't be read: there are message, function_call and function_call_output", item.Type)
}

func marshal(v any) json.RawMessage {
	data, _ := json.Marshal(v) // of JSON and texts
	return data
}

// partsOf makes content of chat completions of that of an item.
func partsOf(raw json.RawMessage) (any, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	type part struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Refusal  string          `json:"refusal"`
		ImageURL string          `json:"image_url"`
		Detail   string          `json:"detail"`
		FileID   string          `json:"file_id"`
		FileURL  string          `json:"file_url"`
		FileData string          `json:"file_data"`
		Filename string          `json:"filename"`
		Audio    json.RawMessage `json:"input_audio"`
	}
	var parts []part
	if json.Unmarshal(raw, &parts) != nil {
		return nil, errors.New("content must be a text, or a list of parts")
	}
	out := []any{}
	for _, p := range parts {
		switch p.Type {
		case "input_text", "output_text", "text":
			out = append(out, map[string]string{"type": "text", "text": p.Text})
		case "refusal":
			out = append(out, map[string]string{"type": "text", "text": p.Refusal})
		case "input_image":
			if p.ImageURL == "" {
				return nil, errors.New("an image must have an image_url, which may have its data")
			}
			out = append(out, map[string]any{"type": "image_url", "image_url": map[string]string{"url": p.ImageURL, "detail": cmp.Or(p.Detail, "auto")}})
		case "input_file":
			if p.FileURL != "" || p.FileData == "" && p.FileID == "" {
				return nil, errors.New("a file must have file_data, or a file_id that the graph's models know")
			}
			file := map[string]string{}
			for name, v := range map[string]string{"file_data": p.FileData, "file_id": p.FileID, "filename": p.Filename} {
				if v != "" {
					file[name] = v
				}
			}
			out = append(out, map[string]any{"type": "file", "file": file})
		case "input_audio":
			out = append(out, map[string]any{"type": "input_audio", "input_audio": p.Audio})
		default:
			return nil, fmt.Errorf("parts of the type %.80q can't be read: there are input_text, input_image, input_file, input_audio, output_text and refusal", p.Type)
		}
	}
	return out, nil
}

func itemOf(run turn.Run, status string, content ...object) object {
	return object{"type": "message", "id": "msg_" + run.ID(), "status": status, "role": "assistant", "content": append([]object{}, content...)}
}

func partOf(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []string{}}
}

func callItemOf(c call, args, status string) object {
	return object{"type": "function_call", "id": "fc_" + strings.TrimPrefix(c.id, callPrefix), "call_id": c.id, "name": askTool, "arguments": args, "status": status}
}

// end completes the response.
func (out *response) end(s *speech) {
	out.Status = "completed"
	switch {
	case s.finish == chat.FinishLength:
		out.Status, out.Incomplete = "incomplete", map[string]string{"reason": "max_output_tokens"}
	case s.finish == chat.FinishFilter:
		out.Status, out.Incomplete = "incomplete", map[string]string{"reason": "content_filter"}
	}
	out.Usage = object{
		"input_tokens": s.usage.Input, "output_tokens": s.usage.Output, "total_tokens": s.usage.Total(),
		"input_tokens_details": object{"cached_tokens": s.usage.CacheRead}, "output_tokens_details": object{"reasoning_tokens": s.usage.Reasoning},
	}
}

func (a API) streamResponse(w http.ResponseWriter, r *http.Request, c *conversation, run turn.Run, out *response) error {
	to, err := turn.NewStream(w)
	if err != nil {
		return err
	}
	n := 0
	tell := func(event string, members object) error {
		members["type"], members["sequence_number"] = event, n
		n++
		return to.Send(event, members)
	}
	all := func(events ...object) error {
		for _, e := range events {
			if err := tell(e["type"].(string), e); err != nil {
				return err
			}
		}
		return nil
	}
	if err := all(object{"type": "response.created", "response": out}, object{"type": "response.in_progress", "response": out}); err != nil {
		return err
	}
	message, spoken := itemOf(run, "in_progress"), false
	id := message["id"]
	var s speech
	failed := listen(r, c, run, &s, to.BeatAlone, func(text, _ string) error {
		if text == "" {
			return nil // what a model thought isn't told
		}
		if !spoken {
			spoken = true
			err := all(
				object{"type": "response.output_item.added", "output_index": 0, "item": message},
				object{"type": "response.content_part.added", "item_id": id, "output_index": 0, "content_index": 0, "part": partOf("")},
			)
			if err != nil {
				return err
			}
		}
		return tell("response.output_text.delta", object{"item_id": id, "output_index": 0, "content_index": 0, "delta": text, "logprobs": []any{}})
	})
	if failed != nil && r.Context().Err() != nil {
		return failed
	}
	if spoken {
		text := s.text.String()
		message = itemOf(run, "completed", partOf(text))
		out.Output = append(out.Output, message)
		err := all(
			object{"type": "response.output_text.done", "item_id": id, "output_index": 0, "content_index": 0, "text": text, "logprobs": []any{}},
			object{"type": "response.content_part.done", "item_id": id, "output_index": 0, "content_index": 0, "part": partOf(text)},
			object{"type": "response.output_item.done", "output_index": 0, "item": message},
		)
		if err != nil {
			return err
		}
	}
	if failed != nil {
		_, e := bodyOf(a.Server.Explain(r, failed))
		code := e.Type
		if e.Code != nil {
			code = *e.Code
		}
		out.Status, out.Error = "failed", object{"code": code, "message": e.Message}
		return tell("response.failed", object{"response": out})
	}
	for _, call := range s.calls {
		at, done := len(out.Output), callItemOf(call, call.args, "completed")
		out.Output = append(out.Output, done)
		err := all(
			object{"type": "response.output_item.added", "output_index": at, "item": callItemOf(call, "", "in_progress")},
			object{"type": "response.function_call_arguments.delta", "item_id": done["id"], "output_index": at, "delta": call.args},
			object{"type": "response.function_call_arguments.done", "item_id": done["id"], "output_index": at, "name": askTool, "arguments": call.args},
			object{"type": "response.output_item.done", "output_index": at, "item": done},
		)
		if err != nil {
			return err
		}
	}
	out.end(&s)
	return tell("response."+out.Status, object{"response": out})
}
