package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// What one request to the API may hold. It counts tokens, of which a text has at
// most as many as bytes.
const (
	maxInputs     = 2048
	maxInputBytes = 300_000
)

// Embedder is an embedding model behind OpenAI's API. It is safe for concurrent
// use.
type Embedder struct {
	name       string
	dimensions int
	model      *Model         // the connection and its errors; it is asked nothing
	fields     map[string]any // of every request, but for its input
	again      model.Embedder // repeats requests; nil if they aren't
	err        *model.Error   // why no request can be made
}

var _ model.Embedder = (*Embedder)(nil)

// NewEmbedder returns the embedding model of a name, whose vectors have a length.
//
//	e := openai.NewEmbedder("text-embedding-3-small", 1536)
//	local := openai.NewEmbedder("nomic-embed-text", 768, openai.BaseURL("http://localhost:11434/v1"))
//
// The length is sent if the name, after its last slash, begins with
// text-embedding-3: such models shorten their vectors to it. Of other models,
// most of which refuse the field, the length must be their own. One that can
// shorten is asked to by an extra field:
//
//	openai.Defaults(model.Config{Extra: map[string]any{"dimensions": 256}})
//
// The options are those of [New], with the same environment. Of [Defaults] only
// Extra and Headers have a meaning; the other settings, [MaxTokensField],
// [NoStreamUsage], [ToolMedia] and [ReasoningField] are errors of kind
// [model.ErrorInvalid]. As with New, what is wrong with the options is the error of
// every call.
func NewEmbedder(modelName string, dimensions int, opts ...Option) *Embedder {
	m := New(modelName, opts...)
	e := &Embedder{name: modelName, dimensions: dimensions, model: m, err: m.err}
	if e.err == nil {
		e.fields, e.err = e.prepare()
	}
	if e.err == nil && m.retries > 0 {
		e.again = model.RetryEmbedder(model.EmbedFunc(dimensions, e.once), model.RetryPolicy{MaxAttempts: m.retries + 1})
	}
	return e
}

// Dimensions implements [model.Embedder].
func (e *Embedder) Dimensions() int { return e.dimensions }

// Embed implements [model.Embedder]. More than 2048 texts, or 300,000 bytes of
// them, are sent in several requests, one after the other; if one fails there are
// no vectors. An empty text, which the API doesn't take, is an error of kind
// [model.ErrorInvalid] before anything is sent. Vectors that aren't what was
// asked for are an error of kind [model.ErrorResponse] that wraps a
// [*model.EmbeddingError].
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	if e.err != nil {
		err := *e.err
		return nil, &err
	}
	if err := vendor.CheckTexts(provider, texts); err != nil {
		return nil, err
	}
	if e.again != nil {
		return e.again.Embed(ctx, texts)
	}
	return e.once(ctx, texts)
}

// once returns the vectors of texts that can be sent.
func (e *Embedder) once(ctx context.Context, texts []string) ([][]float32, error) {
	v := vendor.Embedding{Provider: provider, Dimensions: e.dimensions, API: e.model.api, Fit: fitting, Ask: e.ask, Read: readVectors}
	return v.Vectors(ctx, texts)
}

// fitting returns how many of the texts go into one request: at least one.
func fitting(texts []string) int {
	size := 0
	for i, t := range texts {
		size += len(t)
		if i == maxInputs || i > 0 && size > maxInputBytes {
			return i
		}
	}
	return len(texts)
}

// prepare returns the fields of every request, or what is wrong with the
// settings.
func (e *Embedder) prepare() (map[string]any, *model.Error) {
	switch {
	case e.name == "":
		return nil, invalid("the embedder has no name: give it to NewEmbedder")
	case e.dimensions < 1:
		return nil, invalid("NewEmbedder was given %d dimensions", e.dimensions)
	}
	c := e.model.defaults
	if name := vendor.OfChat(c); name != "" {
		return nil, invalid("an embedder doesn't know the setting Defaults: %s", name)
	}
	for _, s := range []struct {
		name string
		set  bool
	}{
		{"MaxTokensField", e.model.maxTokens},
		{"NoStreamUsage", e.model.noUsage},
		{"ToolMedia", e.model.toolMedia},
		{"ReasoningField", e.model.thoughts},
	} {
		if s.set {
			return nil, invalid("an embedder doesn't know the setting %s", s.name)
		}
	}
	fields := map[string]any{"model": e.name}
	if strings.HasPrefix(e.name[strings.LastIndexByte(e.name, '/')+1:], "text-embedding-3") {
		fields["dimensions"] = e.dimensions
	}
	for _, name := range slices.Sorted(maps.Keys(c.Extra)) {
		_, given := fields[name]
		switch {
		case given:
			return nil, invalid("the extra field %q is given by NewEmbedder", name)
		case name == "input":
			return nil, invalid("the extra field %q is given by Embed", name)
		case name == "encoding_format":
			return nil, invalid("the extra field %q asks for another form of vectors, which isn't read", name)
		}
		v, err := json.Marshal(c.Extra[name])
		if err != nil {
			return nil, invalid("the extra field %q has no JSON: %v", name, err)
		}
		fields[name] = json.RawMessage(v)
	}
	return fields, nil
}

// ask is the request for the vectors of texts.
func (e *Embedder) ask(texts []string) (vendor.Call, error) {
	fields := maps.Clone(e.fields)
	fields["input"] = texts
	body, err := vendor.Body(provider, fields, nil, nil)
	return vendor.Call{Path: "embeddings", Header: e.model.defaults.Headers, Body: body}, err
}

// readVectors returns the vectors of an answer to n texts, in their order. Start is the
// index of the first of them among the caller's.
func readVectors(body []byte, start, n int) ([][]float32, error) {
	var answer struct {
		Data []struct {
			Index     int             `json:"index"` // some servers leave out a 0
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, unreadable("the answer is not the API's JSON: %w", err)
	}
	if plain(answer.Error) != "" { // some send it with status 200
		return nil, failure(0, body)
	}
	if len(answer.Data) != n {
		return nil, vendor.NotAsked(provider, -1, "%d vectors for the %d texts from index %d on", len(answer.Data), n, start)
	}
	vectors := make([][]float32, n)
	for _, d := range answer.Data {
		switch {
		case d.Index < 0 || d.Index >= n:
			return nil, vendor.NotAsked(provider, -1, "a vector with the index %d for %d texts", d.Index, n)
		case vectors[d.Index] != nil:
			return nil, vendor.NotAsked(provider, start+d.Index, "two vectors")
		}
		v := []float32{}
		if err := json.Unmarshal(d.Embedding, &v); err != nil || bytes.IndexByte(d.Embedding, 'n') >= 0 { // a null would be 0
			return nil, vendor.NotAsked(provider, start+d.Index, "a vector that is not an array of numbers")
		}
		vectors[d.Index] = v
	}
	return vectors, nil
}
