package models

import (
	"fmt"
	"os"
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
	name, server := split(rest)
	if name == "" {
		return nil, &NameError{provider, "its name is missing: write " + provider + ":MODEL"}
	}
	if server != "" {
		if _, err := parse(provider, server); err != nil {
			return nil, err
		}
	}
	switch provider {
	case "ollama":
		return ollamaEmbedder(name, server, dimensions)
	case "gemini":
		var opts []gemini.Option
		if server != "" {
			opts = append(opts, gemini.BaseURL(server))
		}
		return gemini.NewEmbedder(name, dimensions, opts...), nil
	}
	var opts []openai.Option
	if server != "" {
		opts = append(opts, openai.BaseURL(server))
	}
	return openai.NewEmbedder(name, dimensions, opts...), nil
}

// ollamaEmbedder returns an embedding model of Ollama, found as its language
// models are.
func ollamaEmbedder(name, server string, dimensions int) (model.Embedder, error) {
	var opts []openai.Option
	if server == "" {
		server = ollamaHost(os.Getenv("OLLAMA_HOST"))
		if key := os.Getenv("OLLAMA_API_KEY"); key != "" {
			opts = append(opts, openai.APIKey(key))
		}
	}
	u, err := parse("ollama", server)
	if err != nil {
		return nil, err
	}
	u.Path = strings.TrimRight(u.Path, "/")
	if !strings.HasSuffix(u.Path, "/v1") {
		u.Path += "/v1"
	}
	return openai.NewEmbedder(name, dimensions, append(opts, openai.BaseURL(u.String()))...), nil
}
