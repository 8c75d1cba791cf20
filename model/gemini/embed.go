package gemini

import (
	"context"
	"encoding/json"
	"math"

	"github.com/superstep-dev/superstep/internal/plainjson"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// maxTexts is how many texts the API takes in a request.
const maxTexts = 100

// Embedder is an embedding model of Google. It is a [model.Embedder], and safe for
// concurrent use.
type Embedder struct {
	name       string
	dimensions int
	model      *Model       // the connection and its errors; it is asked nothing
	err        *model.Error // why no request can be made
}

// NewEmbedder returns the embedding model with a name, such as
// "gemini-embedding-001", whose vectors have a length. The length is sent with
// every text, so that the model shortens its vectors to it. Shortened vectors may
// have any magnitude: compare them by direction.
//
// The options are those of [New], with the same environment. Of [Defaults] only
// Headers and Extra have a meaning, the latter as fields of what is sent for each
// text; the other settings
// are errors of [model.ErrorInvalid]:
//
//	gemini.Defaults(model.Config{Extra: map[string]any{"taskType": "RETRIEVAL_DOCUMENT"}})
//
// As with New, what is wrong is the error of the calls.
func NewEmbedder(modelName string, dimensions int, opts ...Option) *Embedder {
	m := New(modelName, opts...)
	e := &Embedder{name: modelName, dimensions: dimensions, model: m, err: m.err}
	if e.err == nil {
		e.err = e.check()
	}
	return e
}

// check returns what is wrong with the settings, or nil.
func (e *Embedder) check() *model.Error {
	switch {
	case e.name == "":
		return invalid("no model is named")
	case e.dimensions < 1 || e.dimensions > math.MaxInt32:
		return invalid("NewEmbedder was given %d dimensions", e.dimensions)
	}
	c := e.model.defaults
	if name := vendor.OfChat(c); name != "" {
		return invalid("an embedder doesn't know the setting %s", name)
	}
	for _, name := range []string{"content", "model", "outputDimensionality"} {
		if _, ok := c.Extra[name]; ok {
			return invalid("Extra: %q is given by the embedder", name)
		}
	}
	if _, err := json.Marshal(c.Extra); err != nil {
		return invalid("Extra: %v", err)
	}
	return nil
}

// Dimensions is the length of every vector.
func (e *Embedder) Dimensions() int { return e.dimensions }

// Embed returns a vector for each text, in the order of the texts. More than 100
// texts are sent in several requests, one after the other; if one fails there are
// no vectors. An empty text, which the API doesn't take, is an error of
// [model.ErrorInvalid] before anything is sent. Vectors that aren't what was asked
// for are an error of [model.ErrorResponse] that wraps a [*model.EmbeddingError].
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
	v := vendor.Embedding{
		Provider: provider, Dimensions: e.dimensions, API: e.model.api, Ask: e.ask, Read: read,
		Fit: func(texts []string) int { return min(len(texts), maxTexts) },
	}
	return v.Vectors(ctx, texts)
}

// embedding is the request for the vector of a text.
type embedding struct {
	Model      string  `json:"model"`
	Content    content `json:"content"`
	Dimensions int     `json:"outputDimensionality"`
}

// ask is the request for the vectors of texts.
func (e *Embedder) ask(texts []string) (call vendor.Call, err error) {
	requests := make([]json.RawMessage, len(texts))
	for i, t := range texts {
		body, err := plainjson.Marshal(embedding{resource(e.name), content{Parts: []part{{Text: &t}}}, e.dimensions})
		if err == nil {
			requests[i], err = vendor.Extend(body, e.model.defaults.Extra, nil)
		}
		if err != nil {
			return call, invalid("%w", err)
		}
	}
	call.Header = e.model.defaults.Headers
	if call.Path, err = pathOf(e.name); err != nil {
		return call, err
	}
	call.Path += ":batchEmbedContents"
	call.Body, err = vendor.Body(provider, map[string][]json.RawMessage{"requests": requests}, nil, nil)
	return call, err
}

// read returns the vectors of an answer to n texts.
func read(body []byte, start, n int) ([][]float32, error) {
	var said struct {
		Embeddings []*struct {
			Values []float32 `json:"values"`
		} `json:"embeddings"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return nil, unreadable("the answer is not the API's JSON: %w", err)
	}
	if len(said.Embeddings) != n {
		return nil, vendor.NotAsked(provider, -1, "%d vectors for the %d texts from index %d on", len(said.Embeddings), n, start)
	}
	vectors := make([][]float32, n)
	for i, v := range said.Embeddings {
		if v == nil {
			return nil, vendor.NotAsked(provider, start+i, "no vector")
		}
		vectors[i] = v.Values
	}
	return vectors, nil
}
