package models

import (
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/gemini"
	"github.com/superstep-dev/superstep/model/openai"
)

// EmbedderUsage lists what [OpenEmbedder] takes, in half a sentence.
const EmbedderUsage = "openai:MODEL, gemini:MODEL or ollama:MODEL, with @URL after it for a server of one's own"

// NoEmbeddingsError says that a provider has language models, but no embeddings.
type NoEmbeddingsError struct {
	Provider string
}

func (e *NoEmbeddingsError) Error() string {
	return fmt.Sprintf("%s has no embeddings: use %s", e.Provider, EmbedderUsage)
}

// OpenEmbedder returns the embedding model of a name, whose vectors have a length:
//
//	openai:text-embedding-3-small
//	gemini:gemini-embedding-001
//	ollama:nomic-embed-text
//
// Names, servers and keys are those of the package. Whether the model is told the
// length or must have it anyway is said by [openai.NewEmbedder], which is ollama's
// too, and [gemini.NewEmbedder].
//
// What is wrong with the name is an [*UnknownProviderError], a [*NameError] or, as
// for anthropic, a [*NoEmbeddingsError]. Nothing is connected yet: a model that the
// vendor doesn't know, a missing key or a length below 1 is the error of the first
// call.
func OpenEmbedder(name string, dimensions int) (model.Embedder, error) {
	provider, rest, _ := strings.Cut(name, ":")
	switch provider {
	case "openai", "gemini", "ollama":
	case "anthropic":
		return nil, &NoEmbeddingsError{provider}
	default:
		return nil, &UnknownProviderError{provider}
	}
	name, server, err := split(provider, rest)
	if err != nil {
		return nil, err
	}
	switch provider {
	case "gemini":
		return gemini.NewEmbedder(name, dimensions, gemini.BaseURL(server)), nil
	case "ollama":
		opts, err := ollama(server)
		if err != nil {
			return nil, err
		}
		return openai.NewEmbedder(name, dimensions, opts...), nil
	}
	return openai.NewEmbedder(name, dimensions, openai.BaseURL(server)), nil
}
