package openai

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/plainjson"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// saidResponse is an answer, or what events say of one.
type saidResponse struct {
	ID                string            `json:"id"`
	Model             string            `json:"model"`
	Status            string            `json:"status"`
	ServiceTier       string            `json:"service_tier"`
	Output            []json.RawMessage `json:"output"`
	Error             json.RawMessage   `json:"error"`
	IncompleteDetails struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage *responsesUsage `json:"usage"`
}

type responsesUsage struct {
	InputTokens        int `json:"input_tokens"`
	OutputTokens       int `json:"output_tokens"`
	InputTokensDetails struct {
		CachedTokens     int `json:"cached_tokens"`
		CacheWriteTokens int `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputTokensDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

func (u *responsesUsage) usage() *model.Usage {
	if u == nil {
		return nil
	}
	return &model.Usage{
		Input:      u.InputTokens,
		Output:     u.OutputTokens,
		CacheRead:  u.InputTokensDetails.CachedTokens,
		CacheWrite: u.InputTokensDetails.CacheWriteTokens,
		Reasoning:  u.OutputTokensDetails.ReasoningTokens,
	}
}

func (r saidResponse) finish(calls, refused bool) chat.FinishReason {
	switch reason := r.IncompleteDetails.Reason; {
	case reason == "max_output_tokens":
		return chat.FinishLength
	case reason == "content_filter":
		return chat.FinishFilter
	case reason != "", r.Status == "incomplete":
		return chat.FinishOther
	case calls:
		return chat.FinishToolCalls
	case refused:
		return chat.FinishFilter
	}
	return chat.FinishStop
}

// saidPart is a part of a message's content, or of thoughts.
type saidPart struct {
	Type        string            `json:"type"`
	Text        string            `json:"text"`
	Refusal     string            `json:"refusal"`
	Annotations []json.RawMessage `json:"annotations"`
	LogProbs    []json.RawMessage `json:"logprobs"`
}

// responsesEvent is an event of a stream. Its fields are those of the events that are
// read.
type responsesEvent struct {
	Type         string          `json:"type"`
	Response     json.RawMessage `json:"response"`
	OutputIndex  int             `json:"output_index"`
	ContentIndex int             `json:"content_index"`
	SummaryIndex int             `json:"summary_index"`
	Item         json.RawMessage `json:"item"`
	Part         json.RawMessage `json:"part"`
	Delta        json.RawMessage `json:"delta"`
	Annotation   json.RawMessage `json:"annotation"`
}

// response reads an answer of the Responses API that isn't streamed: it says all that
// the last event of a stream says.
func response(body []byte) (chat.Message, error) {
	o := newOutput()
	if err := o.finish(body); err != nil {
		return chat.Message{}, err
	}
	var c chat.Collector
	for _, k := range o.said {
		c.Add(k)
	}
	return c.Message(), nil
}

// output reads an answer of the Responses API, item by item. It is a [vendor.Stream].
type output struct {
	said    []chat.Chunk // that weren't given out
	id      string       // the message's
	model   string
	begun   bool // a chunk was said
	items   map[int]*item
	closed  map[string]bool // the IDs of items that are whole
	calls   int
	refused bool
	ended   bool
	before  json.RawMessage // the head of the message before, if that was only texts
	probs   []json.RawMessage
}

// item is what is known of an item of the answer.
type item struct {
	kind  string
	done  bool
	call  int            // the place among the calls
	named bool           // the call's ID and name were said
	said  bool           // thoughts or arguments were
	last  string         // which piece of the thoughts was
	cited bool           // the message has citations
	parts map[int]*piece // of a message
}

// piece is a part of a message.
type piece struct {
	said, cited bool
	notes       []json.RawMessage // annotations that came by themselves
}

func newOutput() *output {
	return &output{items: map[int]*item{}, closed: map[string]bool{}}
}

// End implements [vendor.Stream].
func (o *output) End() ([]chat.Chunk, bool) { return nil, o.ended }

// Event implements [vendor.Stream].
func (o *output) Event(ev vendor.Event) ([]chat.Chunk, bool, error) {
	data := bytes.TrimSpace(ev.Data)
	switch {
	case bytes.Equal(data, []byte("[DONE]")): // of some servers
		return nil, true, nil
	case ev.Name == "error":
		return nil, false, failure(0, data)
	}
	var e responsesEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, false, unreadable("an event is not the API's JSON: %w", err)
	}
	var err error
	switch kind := cmp.Or(e.Type, ev.Name); kind {
	case "error":
		err = failure(0, data)
	case "response.created", "response.in_progress":
		_, err = o.about(e.Response)
	case "response.completed", "response.incomplete", "response.failed":
		err = o.finish(e.Response)
	case "response.output_item.added":
		err = o.added(e.OutputIndex, e.Item)
	case "response.output_item.done":
		err = o.whole(e.OutputIndex, e.Item)
	case "response.output_text.delta", "response.refusal.delta":
		o.text(o.open(e.OutputIndex, itemMessage).part(e.ContentIndex), text(e.Delta))
		o.refused = o.refused || kind == "response.refusal.delta"
	case "response.output_text.annotation.added":
		p := o.open(e.OutputIndex, itemMessage).part(e.ContentIndex)
		p.notes = append(p.notes, e.Annotation)
	case "response.content_part.done":
		var p saidPart
		// Others, such as those of thoughts, wait for their item's end.
		if json.Unmarshal(e.Part, &p) == nil && (p.Type == "output_text" || p.Type == "refusal") {
			err = o.part(o.open(e.OutputIndex, itemMessage), e.ContentIndex, e.Part)
		}
	case "response.reasoning_summary_text.delta":
		o.thought(o.open(e.OutputIndex, itemReasoning), fmt.Sprint("summary ", e.SummaryIndex), text(e.Delta))
	case "response.reasoning_text.delta":
		o.thought(o.open(e.OutputIndex, itemReasoning), fmt.Sprint("content ", e.ContentIndex), text(e.Delta))
	case "response.function_call_arguments.delta":
		o.arguments(o.open(e.OutputIndex, itemCall), text(e.Delta))
	}
	// Events that only repeat what others say, and those that nobody knows yet, are
	// passed over.
	chunks := o.said
	o.said = nil
	return chunks, o.ended, err
}

// say gives a chunk out.
func (o *output) say(k chat.Chunk) {
	if !o.begun {
		o.begun = true
		o.id = messageID(cmp.Or(o.id, "resp_"+rand.Text()))
		k.Role = chat.RoleAssistant
	}
	k.ID, k.Model = o.id, o.model
	o.said = append(o.said, k)
}

func (o *output) native(kind string, data json.RawMessage) {
	o.say(chat.Chunk{Parts: []chat.Part{chat.Native{Provider: provider, Type: kind, Data: string(data)}}})
}

// about notes what is said of the answer as a whole.
func (o *output) about(data json.RawMessage) (r saidResponse, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return r, unreadable("the answer is not the API's JSON: %w", err)
	}
	o.id, o.model = cmp.Or(o.id, r.ID), cmp.Or(r.Model, o.model)
	return r, nil
}

// finish reads the whole answer: what wasn't said of it yet, and how it ended.
func (o *output) finish(data json.RawMessage) error {
	r, err := o.about(data)
	if err != nil {
		return err
	}
	switch {
	case r.Status == "failed", plain(r.Error) != "":
		return failure(0, data)
	case r.Status == "" && r.Output == nil:
		return unreadable("the answer has no output")
	case r.Status != "" && r.Status != "completed" && r.Status != "incomplete":
		return unreadable("the answer isn't finished: its status is %q", r.Status)
	}
	for i, raw := range r.Output {
		if err := o.whole(i, raw); err != nil {
			return err
		}
	}
	k := chat.Chunk{Finish: r.finish(o.calls > 0, o.refused), Usage: r.Usage.usage(), Metadata: map[string]string{}}
	if r.ServiceTier != "" {
		k.Metadata[chat.MetadataServiceTier] = r.ServiceTier
	}
	if len(o.probs) > 0 {
		probs, err := plainjson.Marshal(map[string][]json.RawMessage{"content": o.probs})
		if err == nil { // they were read as JSON
			k.Metadata[chat.MetadataLogProbs] = string(probs)
		}
	}
	o.say(k)
	o.ended = true
	return nil
}

// open returns the item at a place, and begins it if it is new.
func (o *output) open(index int, kind string) *item {
	it := o.items[index]
	if it == nil {
		it = &item{kind: kind, parts: map[int]*piece{}}
		o.items[index] = it
		if kind == itemMessage && o.before != nil {
			o.native(itemMessage, o.before) // for two messages to stay two
		}
		o.before = nil
		if kind == itemCall {
			it.call = o.calls
			o.calls++
		}
	}
	return it
}

func (it *item) part(index int) *piece {
	p := it.parts[index]
	if p == nil {
		p = &piece{}
		it.parts[index] = p
	}
	return p
}

func (o *output) text(p *piece, text string) {
	if text != "" {
		p.said = true
		o.say(chat.Chunk{Text: text})
	}
}

// thought says a piece of thoughts. Pieces of several stand apart.
func (o *output) thought(it *item, which, text string) {
	if text == "" {
		return
	}
	if it.said && it.last != which {
		text = "\n\n" + text
	}
	it.said, it.last = true, which
	o.say(chat.Chunk{Reasoning: text})
}

func (o *output) arguments(it *item, args string) {
	if args != "" {
		it.said = true
		o.say(chat.Chunk{ToolCalls: []chat.ToolCallChunk{{Index: it.call, Args: args}}})
	}
}

// kindOfItem returns the type of an item, and its ID if it has one.
func kindOfItem(raw json.RawMessage) (kind, id string, err error) {
	var i struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	if err := json.Unmarshal(raw, &i); err != nil {
		return "", "", unreadable("an item of the answer is not the API's JSON: %w", err)
	}
	if i.Type == "" {
		return "", "", unreadable("an item of the answer has no type")
	}
	return i.Type, i.ID, nil
}

// added begins an item.
func (o *output) added(index int, raw json.RawMessage) error {
	kind, _, err := kindOfItem(raw)
	if err != nil {
		return err
	}
	if it := o.open(index, kind); kind == itemCall {
		return o.called(it, raw)
	}
	return nil
}

// called says which tool is called. The arguments that come with that are said once.
func (o *output) called(it *item, raw json.RawMessage) error {
	var c struct {
		CallID    string          `json:"call_id"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // a text; some servers send the object
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return unreadable("a call of the answer is not the API's JSON: %w", err)
	}
	if !it.named {
		it.named = true
		o.say(chat.Chunk{ToolCalls: []chat.ToolCallChunk{{Index: it.call, ID: cmp.Or(c.CallID, callID()), Name: c.Name}}})
	}
	if !it.said {
		o.arguments(it, plain(c.Arguments))
	}
	return nil
}

// whole says what wasn't said of an item before it was whole.
func (o *output) whole(index int, raw json.RawMessage) error {
	kind, id, err := kindOfItem(raw)
	if err != nil || o.closed[id] {
		return err
	}
	it := o.open(index, kind)
	if it.done {
		return nil
	}
	it.done = true
	if id != "" {
		o.closed[id] = true
	}
	switch kind {
	case itemMessage:
		return o.message(it, raw)
	case itemReasoning:
		return o.reasoning(it, raw)
	case itemCall:
		return o.called(it, raw)
	}
	o.native(kind, raw)
	return nil
}

func (o *output) message(it *item, raw json.RawMessage) error {
	var m struct {
		Content []json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return unreadable("a message of the answer is not the API's JSON: %w", err)
	}
	for i, p := range m.Content {
		if err := o.part(it, i, p); err != nil {
			return err
		}
	}
	head, more, err := headOf(raw)
	if err != nil {
		return err
	}
	if more || it.cited {
		o.native(itemMessage, head)
	} else {
		o.before = head
	}
	return nil
}

// part says what wasn't said of a part of a message. What nobody knows yet is kept as
// a message of its own.
func (o *output) part(it *item, index int, raw json.RawMessage) error {
	var c saidPart
	if err := json.Unmarshal(raw, &c); err != nil {
		return unreadable("a part of a message is not the API's JSON: %w", err)
	}
	p := it.part(index)
	switch c.Type {
	case "output_text":
	case "refusal":
		o.refused = true
		c.Text = c.Refusal
	default:
		data, err := plainjson.Marshal(map[string]any{"type": itemMessage, "role": chat.RoleAssistant, "content": []json.RawMessage{raw}})
		if err != nil {
			return unreadable("a part of a message is not JSON: %w", err)
		}
		o.native(c.Type, data)
		return nil
	}
	if !p.said {
		o.text(p, c.Text)
	}
	if it.done { // they come with the last of several events
		o.probs = append(o.probs, c.LogProbs...)
	}
	notes := c.Annotations
	if len(notes) == 0 {
		notes = p.notes
	}
	if !p.cited && len(notes) > 0 {
		p.cited, it.cited = true, true
		k := chat.Chunk{}
		for _, n := range notes {
			k.Parts = append(k.Parts, citation(n))
		}
		o.say(k)
	}
	return nil
}

func citation(raw json.RawMessage) chat.Citation {
	var a struct {
		URL      string `json:"url"`
		Title    string `json:"title"`
		Filename string `json:"filename"`
		Start    int    `json:"start_index"`
		End      int    `json:"end_index"`
	}
	// What can't be read is kept all the same.
	_ = json.Unmarshal(raw, &a)
	return chat.Citation{
		URL: a.URL, Title: cmp.Or(a.Title, a.Filename), Start: a.Start, End: a.End,
		Provider: provider, Data: string(raw),
	}
}

// headOf returns what a message is beside its content, and whether that says more than
// that it is one.
func headOf(raw json.RawMessage) (head json.RawMessage, more bool, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, false, unreadable("a message of the answer is not the API's JSON: %w", err)
	}
	for name, v := range fields {
		switch {
		case name == "content", string(v) == "null":
			delete(fields, name)
		case name != "type" && name != "id" && name != "role" && name != "status":
			more = true
		}
	}
	if head, err = plainjson.Marshal(fields); err != nil {
		return nil, false, unreadable("a message of the answer is not JSON: %w", err)
	}
	return head, more, nil
}

// reasoning says what wasn't said of thoughts: their text, and what they are known by.
func (o *output) reasoning(it *item, raw json.RawMessage) error {
	var r struct {
		ID               string     `json:"id"`
		Summary          []saidPart `json:"summary"`
		Content          []saidPart `json:"content"`
		EncryptedContent string     `json:"encrypted_content"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return unreadable("reasoning of the answer is not the API's JSON: %w", err)
	}
	if !it.said {
		for i, p := range r.Summary {
			o.thought(it, fmt.Sprint("summary ", i), p.Text)
		}
		for i, p := range r.Content {
			o.thought(it, fmt.Sprint("content ", i), p.Text)
		}
	}
	if it.said && r.ID != "" || r.EncryptedContent != "" {
		o.say(chat.Chunk{Parts: []chat.Part{chat.Reasoning{ID: r.ID, Signature: r.EncryptedContent, Redacted: !it.said}}})
	}
	return nil
}
