package vendor

import (
	"context"
	"slices"

	"github.com/superstep-dev/superstep/model"
)

// Embedding asks an API for vectors.
type Embedding struct {
	Provider   string
	Dimensions int
	API        *API
	Fit        func(texts []string) int // how many go into one request: at least one
	Ask        func(texts []string) (Call, error)

	// Read returns the vectors of an answer to n texts, in their order. Start is the index
	// of the first of them among the caller's.
	Read func(body []byte, start, n int) ([][]float32, error)
}

// CheckTexts says what is wrong with texts: no API takes an empty one.
func CheckTexts(provider string, texts []string) error {
	if i := slices.Index(texts, ""); i >= 0 {
		return Invalid(provider, "the text at index %d is empty", i)
	}
	return nil
}

// Vectors returns a vector for each text, by as many requests as it takes, one after the
// other.
func (e *Embedding) Vectors(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, 0, len(texts))
	for len(vectors) < len(texts) {
		start := len(vectors)
		batch := texts[start:]
		batch = batch[:e.Fit(batch)]
		call, err := e.Ask(batch)
		if err != nil {
			return nil, err
		}
		answer, data, err := e.API.Do(ctx, call)
		if err != nil {
			return nil, err
		}
		some, err := e.Read(data, start, len(batch))
		for i, v := range some {
			if len(v) != e.Dimensions && err == nil {
				err = NotAsked(e.Provider, start+i, "a vector of length %d, the embedder says %d", len(v), e.Dimensions)
			}
		}
		if err != nil {
			return nil, answer.Fail(err)
		}
		vectors = append(vectors, some...)
	}
	return vectors, nil
}

// OfChat names a setting that only chats have, "" if none is set.
func OfChat(c model.Config) string {
	for _, s := range []struct {
		name string
		set  bool
	}{
		{"Model", c.Model != ""},
		{"Temperature", c.Temperature != nil},
		{"TopP", c.TopP != nil},
		{"TopK", c.TopK != nil},
		{"FrequencyPenalty", c.FrequencyPenalty != nil},
		{"PresencePenalty", c.PresencePenalty != nil},
		{"MaxTokens", c.MaxTokens != 0},
		{"Stop", len(c.Stop) > 0},
		{"Seed", c.Seed != nil},
		{"Reasoning", c.Reasoning != ""},
		{"ReasoningTokens", c.ReasoningTokens != 0},
		{"ParallelTools", c.ParallelTools != nil},
	} {
		if s.set {
			return s.name
		}
	}
	return ""
}
