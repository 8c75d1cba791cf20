// Package models opens whatever language model a text names, so that the choice
// is a setting:
//
//	m, err := models.Open("anthropic:claude-sonnet-4-5")
//	m, err := models.FromEnv() // SUPERSTEP_MODEL
//
// A program that knows whose models it uses imports that package alone; libraries
// take a [model.Model].
//
// # Names
//
//	openai:gpt-5
//	openai-responses:gpt-5
//	anthropic:claude-sonnet-4-5
//	gemini:gemini-2.5-pro
//	ollama:llama3.2
//
// A server of one's own follows after an @, which may stand in the model's name
// too, since only one before http:// or https:// begins a server:
//
//	openai:qwen3@http://localhost:8000/v1
//	anthropic:claude-sonnet-4-5@https://proxy.example.com
//
// The openai package speaks with most servers: vLLM, llama.cpp, LM Studio and
// others. Under openai-responses it does so by OpenAI's Responses API.
//
// # Keys
//
// They come from the environment, as each vendor's package says. A server that
// is named after an @ gets no key under openai, openai-responses and ollama; for one that wants a
// key, set OPENAI_BASE_URL and OPENAI_API_KEY. Under anthropic and gemini it gets
// that of the vendor, which its API can't do without: name only servers that may
// have it.
//
// Ollama is sought where OLLAMA_HOST says, in the forms that its own programs
// take, or else at localhost:11434. It needs no key; if OLLAMA_API_KEY is set,
// that is sent.
package models

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/gemini"
	"github.com/superstep-dev/superstep/model/openai"
)

// Variable is the environment variable that [FromEnv] reads.
const Variable = "SUPERSTEP_MODEL"

// Usage lists what [Open] takes, in half a sentence.
const Usage = "openai:MODEL, openai-responses:MODEL, anthropic:MODEL, gemini:MODEL or ollama:MODEL, with @URL after it for a server of one's own"

// ErrUnset says that SUPERSTEP_MODEL is not set.
var ErrUnset = errors.New(Variable + " is not set: it names a language model as " + Usage)

// UnknownProviderError says that a name begins with no provider that there is.
type UnknownProviderError struct {
	Provider string
}

func (e *UnknownProviderError) Error() string {
	return fmt.Sprintf("unknown provider %q: use %s", e.Provider, Usage)
}

// NameError says what is wrong with the rest of a name.
type NameError struct {
	Provider string
	What     string
}

func (e *NameError) Error() string { return fmt.Sprintf("model of %s: %s", e.Provider, e.What) }

// FromEnv returns the model that SUPERSTEP_MODEL names. If that is empty the error
// is [ErrUnset].
func FromEnv() (model.Model, error) {
	name := os.Getenv(Variable)
	if name == "" {
		return nil, ErrUnset
	}
	m, err := Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Variable, err)
	}
	return m, nil
}

// Open returns the model of a name. What is wrong with the name is an
// [*UnknownProviderError] or a [*NameError]. Nothing is connected yet: a model
// that the vendor doesn't know, or a missing key, is the error of the first call.
func Open(name string) (model.Model, error) {
	provider, rest, _ := strings.Cut(name, ":")
	open := map[string]func(name, server string) (model.Model, error){
		"openai": func(name, server string) (model.Model, error) {
			return openai.New(name, openai.BaseURL(server)), nil
		},
		"openai-responses": func(name, server string) (model.Model, error) {
			return openai.New(name, openai.Responses(), openai.BaseURL(server)), nil
		},
		"anthropic": func(name, server string) (model.Model, error) {
			return anthropic.New(name, anthropic.BaseURL(server)), nil
		},
		"gemini": func(name, server string) (model.Model, error) {
			return gemini.New(name, gemini.BaseURL(server)), nil
		},
		"ollama": func(name, server string) (model.Model, error) {
			// It takes the newer name of the limit and doesn't keep it.
			opts, err := ollama(server)
			if err != nil {
				return nil, err
			}
			return openai.New(name, append(opts, openai.MaxTokensField())...), nil
		},
	}[provider]
	if open == nil {
		return nil, &UnknownProviderError{provider}
	}
	name, server, err := split(provider, rest)
	if err != nil {
		return nil, err
	}
	return open(name, server)
}

// split takes the server off a model's name, and checks both. The server is empty if it
// isn't named: then it is the provider's own.
func split(provider, s string) (name, server string, err error) {
	name = s
	for i := range s {
		if after := s[i:]; strings.HasPrefix(after, "@http://") || strings.HasPrefix(after, "@https://") {
			name, server = s[:i], s[i+1:]
			break
		}
	}
	if name == "" {
		return "", "", &NameError{provider, "its name is missing: write " + provider + ":MODEL"}
	}
	if server != "" {
		_, err = parse(provider, server)
	}
	return name, server, err
}

// parse checks the URL of a server. Its errors show no password.
func parse(provider, server string) (*url.URL, error) {
	u, err := url.Parse(server)
	switch {
	case err != nil:
		return nil, &NameError{provider, "the URL of its server can't be read"}
	case u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, &NameError{provider, fmt.Sprintf("its server %q is not an http or https URL", u.Redacted())}
	case u.RawQuery != "" || u.Fragment != "":
		return nil, &NameError{provider, fmt.Sprintf("its server %q has something after the path", u.Redacted())}
	}
	return u, nil
}

// ollama are the options for Ollama, over the part of OpenAI's API that it has.
func ollama(server string) ([]openai.Option, error) {
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
	return append(opts, openai.BaseURL(u.String())), nil
}

// ollamaHost returns the URL that OLLAMA_HOST stands for: a URL or a host, with
// or without a port.
func ollamaHost(host string) string {
	host = strings.Trim(strings.TrimSpace(host), `"'`)
	if strings.Contains(host, "://") {
		return host // its port is that of the scheme unless it has one
	}
	host, path, _ := strings.Cut(host, "/")
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), "11434"
	}
	switch name {
	case "", "0.0.0.0", "::": // where a server listens, which nobody can call
		name = "localhost"
	}
	return "http://" + net.JoinHostPort(name, port) + "/" + path
}
