package model

import (
	"context"
	"fmt"
	"math"
)

// Embedder turns texts into vectors, such that texts of like meaning have like
// directions. It is safe for concurrent use.
type Embedder interface {
	// Embed returns a vector for each text, in the order of the texts. It
	// returns promptly when the context ends, with an error that wraps the
	// context's. Failures of a provider are an [*Error]. No texts are no vectors
	// and no call of the provider.
	Embed(ctx context.Context, texts []string) ([][]float32, error)

	// Dimensions is the length of every vector, and always the same.
	Dimensions() int
}

// EmbedFunc makes a function an embedder with vectors of a length.
func EmbedFunc(dimensions int, f func(ctx context.Context, texts []string) ([][]float32, error)) Embedder {
	return embedFunc{dimensions, f}
}

type embedFunc struct {
	dimensions int
	f          func(ctx context.Context, texts []string) ([][]float32, error)
}

func (e embedFunc) Dimensions() int { return e.dimensions }

func (e embedFunc) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	return e.f(ctx, texts)
}

// Embed calls an embedder and checks what it returns: as many vectors as texts,
// all of its length, of finite numbers. What isn't so is an [*EmbeddingError].
func Embed(ctx context.Context, e Embedder, texts []string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	vectors, err := e.Embed(ctx, texts)
	if err != nil {
		return nil, err
	}
	if len(vectors) != len(texts) {
		return nil, &EmbeddingError{Text: -1, Reason: fmt.Sprintf("%d vectors for %d texts", len(vectors), len(texts))}
	}
	for i, v := range vectors {
		if len(v) != e.Dimensions() {
			return nil, &EmbeddingError{Text: i, Reason: fmt.Sprintf("a vector of length %d, the embedder says %d", len(v), e.Dimensions())}
		}
		for _, x := range v {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				return nil, &EmbeddingError{Text: i, Reason: fmt.Sprintf("a vector with %v in it", x)}
			}
		}
	}
	return vectors, nil
}

// EmbeddingError says that what an embedder returned isn't what [Embedder] asks
// for.
type EmbeddingError struct {
	Text   int // index of the text; -1 if it is about all of them
	Reason string
}

func (e *EmbeddingError) Error() string {
	if e.Text < 0 {
		return "model: the embedder returned " + e.Reason
	}
	return fmt.Sprintf("model: the embedder returned for the text at index %d %s", e.Text, e.Reason)
}
