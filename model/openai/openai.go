// Package openai has models behind OpenAI's Chat Completions API. It is the API
// that most servers of language models speak: besides OpenAI's own Ollama, vLLM,
// llama.cpp, LM Studio, OpenRouter and others.
//
//	m := openai.New("gpt-5-mini")
//	local := openai.New("qwen3:8b", openai.BaseURL("http://localhost:11434/v1"))
//
// # Requests
//
// Text goes everywhere. Images, by URL or data, sounds, by data, and files, by
// data or file ID, go into messages of the user. A tool's result holds text only;
// with [ToolMedia] the rest of it follows in a message of the user. Several texts
// in an assistant's message are joined. Reasoning, signatures, artifacts, metadata
// and the mark of a failed tool result have no place in the API and are left
// out. In a speaker's name, white space and the other characters that the API
// refuses there become underscores; IDs of tool calls that are longer than it takes
// are replaced. Any other part at a place that the API doesn't know is an error of kind
// [model.ErrorInvalid], and so are the settings TopK and ReasoningTokens: a server
// that knows them takes them by Config.Extra. An extra field can't replace a
// setting that is set as well.
//
// A request's output schema is sent as strict, so that the answer is sure to
// follow it, if it keeps OpenAI's rules for that: every object is closed, requires
// all its properties, and only keywords of the permitted ones are used. Otherwise
// it is sent as a hint.
//
// # Answers
//
// The thoughts that compatible servers send as reasoning_content or reasoning are
// [chat.Reasoning]. A refusal is a text, and the answer's Finish is
// [chat.FinishFilter]. An answer with tool calls that is said to have stopped has
// [chat.FinishToolCalls]. Tool calls without an ID get one. The message's ID is
// the completion's, with a random part where servers count their answers.
//
// # Errors
//
// Failures are [*model.Error]. If the context ended, the error wraps the
// context's instead. The SDK's own retries are off: see [Retries] and
// [model.Retry]. No error text holds a key.
package openai

import (
	"context"
	"errors"
	"io"
	"iter"
	"mime"
	"net/http"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// Model is a language model behind the Chat Completions API. It is safe for
// concurrent use.
type Model struct {
	name        string
	defaults    model.Config
	maxTokens   bool // the field is max_tokens
	noUsage     bool // streams don't ask for usage
	toolMedia   bool
	completions sdk.ChatCompletionService
	secrets     []string     // that no error may tell
	noKey       bool         // none is sent
	err         *model.Error // of the options; nil if they are fine
}

var _ model.Model = (*Model)(nil)

// New returns the model of a name.
//
// What the options leave open is read from the environment now: the key from
// OPENAI_API_KEY, the server from OPENAI_BASE_URL, organization and project from
// OPENAI_ORG_ID and OPENAI_PROJECT_ID. If [BaseURL] is given, none of these is
// read, so that no key reaches a server that it isn't for. Without any base URL
// the server is OpenAI's.
//
// New doesn't connect. What is wrong with the options is the error of every
// call: a missing key, if the server is OpenAI's by default, has the kind
// [model.ErrorAuth].
func New(modelName string, opts ...Option) *Model {
	return newModel(modelName, collect(opts))
}

// Generate implements [model.Model].
func (m *Model) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	resp, err := m.send(ctx, req, false)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return m.whole(ctx, resp)
}

// Stream implements [model.Model]. A server that answers whole though it was
// asked to stream yields one chunk.
func (m *Model) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		resp, err := m.send(ctx, req, true)
		if err != nil {
			yield(chat.Chunk{}, err)
			return
		}
		defer resp.Body.Close() // ends the request if it is still under way
		if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t == "application/json" {
			answer, err := m.whole(ctx, resp)
			if err != nil {
				yield(chat.Chunk{}, err)
				return
			}
			yield(chat.ChunkOf(answer.Message), nil)
			return
		}
		var s stream
		events := ssestream.NewDecoder(resp)
		for !s.done && events.Next() {
			chunk, some, err := s.event(events.Event())
			if err != nil {
				yield(chat.Chunk{}, m.failed(ctx, err))
				return
			}
			if some && !yield(chunk, nil) {
				return
			}
		}
		if s.complete() {
			return
		}
		err = events.Err()
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		yield(chat.Chunk{}, m.failed(ctx, &model.Error{Provider: provider, Kind: model.ErrorBrokenStream, Status: resp.StatusCode, Err: err}))
	}
}

// send sends a request and returns the response of a server that accepted it.
func (m *Model) send(ctx context.Context, req *model.Request, streaming bool) (*http.Response, error) {
	if m.err != nil {
		e := *m.err
		return nil, &e
	}
	body, err := m.body(req, streaming)
	if err != nil {
		return nil, err
	}
	var resp *http.Response
	opts := []option.RequestOption{option.WithRequestBody("application/json", body), option.WithResponseBodyInto(&resp)}
	if streaming {
		opts = append(opts, option.WithHeader("Accept", "text/event-stream"))
	}
	_, err = m.completions.New(ctx, sdk.ChatCompletionNewParams{}, opts...)
	switch {
	case resp != nil && (resp.StatusCode < 200 || resp.StatusCode > 299):
		defer resp.Body.Close()
		return nil, m.failed(ctx, m.refused(resp))
	case err != nil:
		return nil, m.failed(ctx, unreachable(err))
	}
	return resp, nil
}

// whole reads an answer that isn't streamed.
func (m *Model) whole(ctx context.Context, resp *http.Response) (*model.Response, error) {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, m.failed(ctx, &model.Error{Provider: provider, Kind: model.ErrorBrokenStream, Status: resp.StatusCode, Err: err})
	}
	message, err := answer(body)
	if err != nil {
		return nil, m.failed(ctx, err)
	}
	return &model.Response{Message: message}, nil
}

// failed makes the error that the caller gets of one that came up: the context's
// if it ended, and one without keys otherwise.
func (m *Model) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &ended{err: ctx.Err(), cause: context.Cause(ctx)}
	}
	var e *model.Error
	if errors.As(err, &e) {
		e.Message = m.redact(e.Message)
		e.Code = m.redact(e.Code)
		if text := m.redact(errorText(e.Err)); text != errorText(e.Err) {
			e.Err = &redacted{text: text, err: e.Err}
		}
	}
	return err
}
