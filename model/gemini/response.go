package gemini

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// decoder turns responses, of which a stream has many, into chunks.
type decoder struct {
	started  bool // something came
	answered bool // a candidate did
	id       string
	calls    int // seen so far
	reason   genai.FinishReason
	usage    *chat.Usage
}

func (d *decoder) finished() bool {
	return d.reason != "" && d.reason != genai.FinishReasonUnspecified
}

// response returns the chunks that a response leads to.
func (d *decoder) response(r *genai.GenerateContentResponse) ([]chat.Chunk, error) {
	if f := r.PromptFeedback; f != nil && f.BlockReason != "" {
		message := "the prompt was blocked: " + string(f.BlockReason)
		if f.BlockReasonMessage != "" {
			message += ": " + f.BlockReasonMessage
		}
		return nil, &model.Error{Provider: provider, Kind: model.ErrorFilter, Code: string(f.BlockReason), Message: message}
	}
	if u := r.UsageMetadata; u != nil {
		d.usage = &chat.Usage{
			Input:     int(u.PromptTokenCount + u.ToolUsePromptTokenCount),
			Output:    int(u.CandidatesTokenCount + u.ThoughtsTokenCount),
			CacheRead: int(u.CachedContentTokenCount),
			Reasoning: int(u.ThoughtsTokenCount),
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
		if c.Content == nil {
			continue
		}
		for _, p := range c.Content.Parts {
			k, err := d.part(p)
			if err != nil {
				return nil, err
			}
			chunks = append(chunks, k...)
		}
	}
	return chunks, nil
}

func (d *decoder) part(p *genai.Part) ([]chat.Chunk, error) {
	if p == nil { // null
		return nil, nil
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
	case p.ExecutableCode != nil, p.CodeExecutionResult != nil:
		return nil, unreadable("a part with code that the server ran, or its result")
	case p.ToolCall != nil, p.ToolResponse != nil, p.FunctionResponse != nil:
		return nil, unreadable("a part with a tool that the server ran")
	case p.Thought:
		if p.Text != "" {
			chunks = append(chunks, chat.Chunk{Reasoning: p.Text})
		}
		if signature != "" {
			chunks = append(chunks, chat.Chunk{Parts: []chat.Part{chat.Reasoning{Signature: signature}}})
		}
		return chunks, nil
	case p.Text != "":
		chunks = append(chunks, chat.Chunk{Text: p.Text})
	}
	if signature != "" {
		chunks = append(chunks, chat.Chunk{Parts: []chat.Part{chat.Text{Signature: signature}}})
	}
	return chunks, nil
}

func (d *decoder) call(f *genai.FunctionCall) (chat.ToolCallChunk, error) {
	if len(f.PartialArgs) > 0 || f.WillContinue != nil && *f.WillContinue {
		return chat.ToolCallChunk{}, unreadable("a part of a function call")
	}
	c := chat.ToolCallChunk{Index: d.calls, ID: f.ID, Name: f.Name, Args: "{}"}
	d.calls++
	if f.Args != nil {
		args, err := json.Marshal(f.Args)
		if err != nil {
			return c, unreadable("arguments of a call of %q: %v", f.Name, err)
		}
		c.Args = string(args)
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
	return chat.Chunk{Finish: finish(d.reason, d.calls > 0), Usage: d.usage}
}

// finish returns the reason to stop. The API has none for calls.
func finish(r genai.FinishReason, calls bool) chat.FinishReason {
	switch r {
	case "", genai.FinishReasonUnspecified:
		return ""
	case genai.FinishReasonStop:
		if calls {
			return chat.FinishToolCalls
		}
		return chat.FinishStop
	case genai.FinishReasonMaxTokens, genai.FinishReasonContinuation:
		return chat.FinishLength
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonBlocklist,
		genai.FinishReasonProhibitedContent, genai.FinishReasonSPII, genai.FinishReasonImageSafety,
		genai.FinishReasonImageProhibitedContent, genai.FinishReasonImageRecitation:
		return chat.FinishFilter
	}
	return chat.FinishOther
}
