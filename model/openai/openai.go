// Package openai has models behind OpenAI's Chat Completions API. It is the API
// that most servers of language models speak: besides OpenAI's own Ollama, vLLM,
// llama.cpp, LM Studio, OpenRouter and others. The option [Responses] has them speak
// OpenAI's newer Responses API instead, which some of its models and tools need.
//
//	m := openai.New("gpt-5-mini")
//	thinker := openai.New("gpt-5-mini", openai.Responses())
//	local := openai.New("qwen3:8b", openai.BaseURL("http://localhost:11434/v1"))
//
// # Requests
//
// Text goes everywhere. Images, by URL or data, sounds, by data, and files, by
// data or file ID, go into messages of the user. A tool's result holds text only;
// with [ToolMedia] the rest of it follows in a message of the user, else it is told in
// words. Several texts
// in an assistant's message are joined. Signatures, artifacts, metadata
// and the mark of a failed tool result have no place in the API and are left
// out, as are citations, parts of other providers' own, and reasoning but for servers that want it: see [ReasoningField]. In a speaker's name, white space and the other characters that the API
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
// [chat.FinishFilter]. Pages that a text cites follow it as [chat.Citation]. An answer with tool calls that is said to have stopped has
// [chat.FinishToolCalls]. Tool calls without an ID get one. The message's ID is
// the completion's, with a random part where servers count their answers.
//
// # The Responses API
//
// With [Responses] the server keeps nothing: every request has the whole conversation
// and says store: false. What models think comes encrypted, if the table of
// capabilities says that they do or a request sets Config.Reasoning or Extra's
// reasoning, and goes back with what it led to; what comes without that form doesn't.
// Summaries of it, which reasoning: {"summary": "auto"} in Extra asks for, are the
// text of [chat.Reasoning].
//
// Tools that OpenAI runs, such as web_search, file_search and code_interpreter, are
// given by Extra's tools. What they did is a [chat.Native], as is every item that this
// package doesn't know: it goes back as it came. A call of a custom tool or a computer,
// which the program would have to run, is one, too: nobody answers it. What a text
// cites follows it as a [chat.Citation]; a [chat.Native] of the type "message" after
// that has what else the API says of the message.
//
// Images go by file ID, too, and files by URL; tools return both; sounds go nowhere.
// Speakers have no names. The settings FrequencyPenalty, PresencePenalty, Stop and
// Seed are unknown, and errors. Extra's include joins what this package asks for
// itself; previous_response_id, conversation and background are refused.
//
// # Errors
//
// Failures are [*model.Error]. If the context ended, the error wraps the
// context's instead. Nothing is repeated unless it is asked for: see [Retries] and
// [model.Retry]. No error text holds a key. A redirect to another server isn't
// followed: it would get the key.
package openai

import (
	"cmp"
	"context"
	"iter"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// Model is a language model behind the Chat Completions API or, with [Responses], the
// Responses API. It is safe for concurrent use.
type Model struct {
	name      string
	defaults  model.Config
	maxTokens bool // the field is max_tokens
	noUsage   bool // streams don't ask for usage
	toolMedia bool
	responses bool // by the Responses API
	table     model.Table
	reasoning string // the field for thoughts; "" is none
	noKey     bool   // none is sent
	api       *vendor.API
	retries   int
	thoughts  bool         // the field was chosen
	again     model.Model  // repeats requests; nil if they aren't
	err       *model.Error // of the options; nil if they are fine
}

const defaultBaseURL = "https://api.openai.com/v1"

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

// Capabilities implements [model.Capable].
func (m *Model) Capabilities(name string) (model.Capabilities, bool) {
	return m.table.Named(provider, cmp.Or(name, m.defaults.Model, m.name))
}

// Generate implements [model.Model].
func (m *Model) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	if m.again != nil {
		return m.again.Generate(ctx, req)
	}
	return once{m}.Generate(ctx, req)
}

// Stream implements [model.Model]. A server that answers whole though it was
// asked to stream yields one chunk.
func (m *Model) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	if m.again != nil {
		return m.again.Stream(ctx, req)
	}
	return once{m}.Stream(ctx, req)
}

// once is the model, which sends a request once.
type once struct{ m *Model }

func (o once) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	p := o.m.protocol()
	call, err := p.call(req, false)
	if err != nil {
		return nil, err
	}
	return o.m.api.Generate(ctx, call, p.whole)
}

func (o once) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	p := o.m.protocol()
	return o.m.api.Stream(ctx, func() (vendor.Call, error) { return p.call(req, true) }, p.whole, p.stream)
}

// protocol is how one of the two APIs is asked and answers.
type protocol struct {
	call   func(req *model.Request, streaming bool) (vendor.Call, error)
	whole  vendor.Whole
	stream func() vendor.Stream
}

func (m *Model) protocol() protocol {
	if m.responses {
		return protocol{m.responsesCall, response, func() vendor.Stream { return newOutput() }}
	}
	return protocol{m.call, answer, func() vendor.Stream { return &stream{} }}
}
