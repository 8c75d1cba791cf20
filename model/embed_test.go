package model_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/superstep-dev/superstep/model"
)

func ExampleEmbedFunc() {
	lengths := model.EmbedFunc(2, func(_ context.Context, texts []string) ([][]float32, error) {
		var out [][]float32
		for _, t := range texts {
			out = append(out, []float32{float32(len(t)), 1})
		}
		return out, nil
	})
	vectors, err := model.Embed(context.Background(), lengths, []string{"one", "three"})
	fmt.Println(lengths.Dimensions(), vectors, err)
	// Output: 2 [[3 1] [5 1]] <nil>
}

func TestEmbedRefusesWhatAnEmbedderMustNotReturn(t *testing.T) {
	failure := errors.New("down")
	for name, c := range map[string]struct {
		vectors [][]float32
		err     error
		text    int
		says    string
	}{
		"too few vectors":          {[][]float32{{1, 2}}, nil, -1, "model: the embedder returned 1 vectors for 2 texts"},
		"a vector of wrong length": {[][]float32{{1, 2}, {1}}, nil, 1, "model: the embedder returned for the text at index 1 a vector of length 1, the embedder says 2"},
		"not a number":             {[][]float32{{float32(math.NaN()), 2}, {1, 2}}, nil, 0, "model: the embedder returned for the text at index 0 a vector with NaN in it"},
		"infinity":                 {[][]float32{{1, 2}, {1, float32(math.Inf(-1))}}, nil, 1, "model: the embedder returned for the text at index 1 a vector with -Inf in it"},
		"an error":                 {nil, failure, 0, "down"},
	} {
		t.Run(name, func(t *testing.T) {
			e := model.EmbedFunc(2, func(context.Context, []string) ([][]float32, error) { return c.vectors, c.err })
			vectors, err := model.Embed(t.Context(), e, []string{"a", "b"})
			if vectors != nil || err == nil || err.Error() != c.says {
				t.Fatalf("got %v, error %v", vectors, err)
			}
			if c.err != nil {
				if !errors.Is(err, c.err) {
					t.Fatal(err)
				}
				return
			}
			if e, ok := errors.AsType[*model.EmbeddingError](err); !ok || e.Text != c.text {
				t.Fatalf("got %#v", err)
			}
		})
	}
}

func TestNoTextsAreNoCall(t *testing.T) {
	e := model.EmbedFunc(2, func(context.Context, []string) ([][]float32, error) {
		t.Error("called")
		return nil, nil
	})
	for _, embed := range []func() ([][]float32, error){
		func() ([][]float32, error) { return model.Embed(t.Context(), e, nil) },
		func() ([][]float32, error) { return e.Embed(t.Context(), nil) },
	} {
		if v, err := embed(); len(v) != 0 || err != nil {
			t.Fatal(v, err)
		}
	}
}
