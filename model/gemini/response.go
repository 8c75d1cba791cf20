package gemini

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/plainjson"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// response is an answer, or a piece of a streamed one.
type response struct {
	Candidates []*candidate `json:"candidates"`
	Feedback   *struct {
		BlockReason        string `json:"blockReason"`
		BlockReasonMessage string `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
	Usage *struct {
		Prompt     int `json:"promptTokenCount"`
		ToolUse    int `json:"toolUsePromptTokenCount"`
		Cached     int `json:"cachedContentTokenCount"`
		Candidates int `json:"candidatesTokenCount"`
		Thoughts   int `json:"thoughtsTokenCount"`
	} `json:"usageMetadata"`
	ModelVersion string          `json:"modelVersion"`
	ResponseID   string          `json:"responseId"`
	Error        json.RawMessage `json:"error"`
}

type candidate struct {
	Index   int `json:"index"`
	Content *struct {
		Parts []json.RawMessage `json:"parts"` // saidPart
	} `json:"content"`
	FinishReason string          `json:"finishReason"`
	LogProbs     json.RawMessage `json:"logprobsResult"`
	Grounding    *grounding      `json:"groundingMetadata"`
}

// grounding says what an answer rests on: pages, and which of them which piece of the
// text rests on.
type grounding struct {
	Chunks []struct {
		Web     *page `json:"web"`
		Context *page `json:"retrievedContext"`
	} `json:"groundingChunks"`
	Supports []struct {
		Segment struct {
			Start int    `json:"startIndex"`
			End   int    `json:"endIndex"`
			Text  string `json:"text"`
		} `json:"segment"`
		Chunks []int `json:"groundingChunkIndices"`
	} `json:"groundingSupports"`
}

type page struct {
	URI   string `json:"uri"`
	Title string `json:"title"`
}

// citations are the pages that pieces of the text rest on, and then the others.
func (g *grounding) citations() []chat.Part {
	if g == nil {
		return nil
	}
	var list []chat.Part
	of := func(i int) (chat.Citation, bool) {
		if i < 0 || i >= len(g.Chunks) {
			return chat.Citation{}, false
		}
		for _, p := range []*page{g.Chunks[i].Web, g.Chunks[i].Context} {
			if p != nil {
				return chat.Citation{URL: p.URI, Title: p.Title, Provider: provider}, true
			}
		}
		return chat.Citation{}, false
	}
	used := map[int]bool{}
	for _, s := range g.Supports {
		for _, i := range s.Chunks {
			if c, ok := of(i); ok {
				used[i] = true
				c.Start, c.End, c.Text = s.Segment.Start, s.Segment.End, s.Segment.Text
				list = append(list, c)
			}
		}
	}
	for i := range g.Chunks {
		if c, ok := of(i); ok && !used[i] {
			list = append(list, c)
		}
	}
	return list
}

// saidPart is a part with what only the model says.
type saidPart struct {
	part
	ExecutableCode      json.RawMessage `json:"executableCode"`
	CodeExecutionResult json.RawMessage `json:"codeExecutionResult"`
	ToolCall            json.RawMessage `json:"toolCall"`
	ToolResponse        json.RawMessage `json:"toolResponse"`
}

// decoder turns responses, of which a stream has many, into chunks.
type decoder struct {
	started  bool // something came
	answered bool // a candidate did
	id       string
	calls    int // seen so far
	reason   string
	usage    *chat.Usage
	probs    []json.RawMessage
	ground   *grounding
}

// answer reads a whole answer. It goes the way of chunks, so that it is what the
// chunks of the same message add up to.
func answer(body []byte) (chat.Message, error) {
	var c chat.Collector
	var d decoder
	chunks, _, err := d.Event(vendor.Event{Data: body})
	if err != nil {
		return chat.Message{}, err
	}
	for _, k := range chunks {
		c.Add(k)
	}
	if !d.answered {
		return chat.Message{}, unreadable("the answer has no candidate")
	}
	c.Add(d.last())
	return c.Message(), nil
}

// End implements [vendor.Stream].
func (d *decoder) End() ([]chat.Chunk, bool) {
	if d.reason == "" || d.reason == unspecified {
		return nil, false
	}
	return []chat.Chunk{d.last()}, true
}

// Event implements [vendor.Stream].
func (d *decoder) Event(ev vendor.Event) (chunks []chat.Chunk, done bool, err error) {
	var r response
	if err := json.Unmarshal(ev.Data, &r); err != nil {
		return nil, false, unreadable("the answer is not the API's JSON: %w", err)
	}
	if r.Error != nil {
		return nil, false, failure(0, ev.Data)
	}
	chunks, err = d.response(&r)
	return chunks, false, err
}

// response returns the chunks that a response leads to.
func (d *decoder) response(r *response) ([]chat.Chunk, error) {
	if f := r.Feedback; f != nil && f.BlockReason != "" {
		message := "the prompt was blocked: " + f.BlockReason
		if f.BlockReasonMessage != "" {
			message += ": " + f.BlockReasonMessage
		}
		return nil, &model.Error{Provider: provider, Kind: model.ErrorFilter, Code: f.BlockReason, Message: message}
	}
	if u := r.Usage; u != nil {
		d.usage = &chat.Usage{
			Input:     u.Prompt + u.ToolUse,
			Output:    u.Candidates + u.Thoughts,
			CacheRead: u.Cached,
			Reasoning: u.Thoughts,
		}
	}
	var chunks []chat.Chunk
	if !d.started {
		d.started = true
		d.id = r.ResponseID
		chunks = append(chunks, chat.Chunk{ID: r.ResponseID, Role: chat.RoleAssistant, Model: r.ModelVersion})
	}
	for _, c := range r.Candidates {
		if c == nil || c.Index != 0 {
			continue
		}
		d.answered = true
		if c.FinishReason != "" {
			d.reason = c.FinishReason
		}
		if c.LogProbs != nil {
			d.probs = append(d.probs, c.LogProbs)
		}
		if c.Grounding != nil {
			d.ground = c.Grounding // of all that came so far
		}
		if c.Content == nil {
			continue
		}
		for _, data := range c.Content.Parts {
			k, err := d.part(data)
			if err != nil {
				return nil, err
			}
			chunks = append(chunks, k...)
		}
	}
	return chunks, nil
}

func (d *decoder) part(data json.RawMessage) ([]chat.Chunk, error) {
	var p *saidPart
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, unreadable("a part is not the API's JSON: %w", err)
	}
	if p == nil { // null
		return nil, nil
	}
	for _, own := range []struct {
		kind string
		said json.RawMessage
	}{
		{"executableCode", p.ExecutableCode}, {"codeExecutionResult", p.CodeExecutionResult}, {"toolCall", p.ToolCall}, {"toolResponse", p.ToolResponse},
	} {
		if own.said != nil {
			return []chat.Chunk{{Parts: []chat.Part{chat.Native{Provider: provider, Type: own.kind, Data: string(data)}}}}, nil
		}
	}
	var chunks []chat.Chunk
	signature := base64.StdEncoding.EncodeToString(p.ThoughtSignature)
	switch {
	case p.FunctionCall != nil:
		call, err := d.call(p.FunctionCall)
		if err != nil {
			return nil, err
		}
		call.Signature = signature
		return []chat.Chunk{{ToolCalls: []chat.ToolCallChunk{call}}}, nil
	case p.InlineData != nil:
		source := chat.Source{Data: p.InlineData.Data, MIME: p.InlineData.MIMEType}
		var media chat.Part = chat.File{Source: source, Name: p.InlineData.DisplayName}
		switch {
		case p.Thought: // a sketch that the answer doesn't have
			return nil, nil
		case strings.HasPrefix(source.MIME, "image/"):
			media = chat.Image{Source: source}
		case strings.HasPrefix(source.MIME, "audio/"):
			media = chat.Audio{Source: source}
		}
		chunks = append(chunks, chat.Chunk{Parts: []chat.Part{media}})
	case p.FileData != nil:
		return nil, unreadable("a part with data of a file")
	case p.FunctionResponse != nil:
		return nil, unreadable("a part with the result of a function")
	case p.Thought:
		if p.Text != nil && *p.Text != "" {
			chunks = append(chunks, chat.Chunk{Reasoning: *p.Text})
		}
		if signature != "" {
			chunks = append(chunks, chat.Chunk{Parts: []chat.Part{chat.Reasoning{Signature: signature}}})
		}
		return chunks, nil
	case p.Text != nil && *p.Text != "":
		chunks = append(chunks, chat.Chunk{Text: *p.Text})
	}
	if signature != "" {
		chunks = append(chunks, chat.Chunk{Parts: []chat.Part{chat.Text{Signature: signature}}})
	}
	return chunks, nil
}

func (d *decoder) call(f *functionCall) (chat.ToolCallChunk, error) {
	if len(f.PartialArgs) > 0 || f.WillContinue {
		return chat.ToolCallChunk{}, unreadable("a part of a function call")
	}
	c := chat.ToolCallChunk{Index: d.calls, ID: f.ID, Name: f.Name, Args: "{}"}
	d.calls++
	if len(f.Args) > 0 && string(f.Args) != "null" {
		var b bytes.Buffer
		if err := json.Compact(&b, f.Args); err != nil {
			return c, unreadable("arguments of a call of %q: %w", f.Name, err)
		}
		c.Args = b.String()
	}
	if c.ID == "" {
		if d.id == "" {
			d.id = rand.Text() // IDs of calls must differ from those of other answers
		}
		c.ID = fmt.Sprintf("call_%s_%d", d.id, c.Index)
	}
	return c, nil
}

func (d *decoder) last() chat.Chunk {
	k := chat.Chunk{Finish: finish(d.reason, d.calls > 0), Usage: d.usage, Parts: d.ground.citations()}
	if len(d.probs) > 0 {
		probs := d.probs[0]
		if len(d.probs) > 1 { // of a stream
			probs, _ = plainjson.Marshal(d.probs) // which were read as JSON
		}
		k.Metadata = map[string]string{chat.MetadataLogProbs: string(probs)}
	}
	return k
}

const unspecified = "FINISH_REASON_UNSPECIFIED"

// finish returns the reason to stop. The API has none for calls.
func finish(reason string, calls bool) chat.FinishReason {
	switch reason {
	case "", unspecified:
		return ""
	case "STOP":
		if calls {
			return chat.FinishToolCalls
		}
		return chat.FinishStop
	case "MAX_TOKENS", "CONTINUATION":
		return chat.FinishLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return chat.FinishFilter
	}
	return chat.FinishOther
}
