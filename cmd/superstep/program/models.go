package program

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/cmd/superstep/internal/demomodel"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/models"
)

// demoModel is the name of the model that needs no key and no network.
const demoModel = "demo"

// modelFlag adds the flag --model.
func modelFlag(cmd *cobra.Command, name *string, usage string) {
	cmd.Flags().StringVar(name, "model", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("model", cobra.FixedCompletions([]string{demoModel, "openai:", "anthropic:", "gemini:", "ollama:"}, cobra.ShellCompDirectiveNoSpace))
}

// checkModel reports what is wrong with the name of a model. Names are stored
// with the threads that use them, so that other commands can let these go on.
func checkModel(name string) error {
	if _, err := openModel(name); err != nil {
		return err
	}
	for _, scheme := range []string{"@http://", "@https://"} {
		_, server, ok := strings.Cut(name, scheme)
		if !ok {
			continue
		}
		if u, err := url.Parse("http://" + server); err == nil && u.User != nil {
			return cli.Hint(cli.Usage("the server of the model has a password, which would be stored with the thread"),
				"set OPENAI_BASE_URL to the server and OPENAI_API_KEY to its key, and leave it out of the model's name")
		}
	}
	return nil
}

// openModel opens a model by its name.
func openModel(name string) (model.Model, error) {
	switch name {
	case "":
		return nil, cli.Hint(cli.Usage("no model was chosen"), `try it without a key:      --model demo
name one with --model:    openai:gpt-5, anthropic:claude-sonnet-4-5, gemini:gemini-2.5-pro, ollama:llama3.2
or once for all commands: export %s=openai:gpt-5
The keys are OPENAI_API_KEY, ANTHROPIC_API_KEY and GEMINI_API_KEY; Ollama needs none.
A graph needs its name:   --graph NAME, with the URL of its server before it if it has one`, models.Variable)
	case demoModel:
		return demomodel.Model{}, nil
	}
	m, err := models.Open(name)
	if err != nil {
		return nil, cli.Hint(cli.Usage("model %q: %w", name, err), "the demonstration model, which needs no key, is --model demo")
	}
	return m, nil
}

// judge opens the model that judges runs of an evaluation.
func judge(name string) (model.Model, error) {
	if name == demoModel {
		return nil, cli.Usage("the demonstration model can't judge")
	}
	m, err := openModel(name)
	if err != nil {
		return nil, err
	}
	return model.Retry(m, model.RetryPolicy{}), nil
}

// named is a model that asks the one that the request names, or else
// SUPERSTEP_MODEL. It waits and asks again after failures that may pass.
type named struct {
	traces *traces

	mu     sync.Mutex
	opened map[string]model.Model
}

func (n *named) open(req *model.Request) (model.Model, *model.Request, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := *req
	name := r.Model
	r.Model = ""
	if name == "" {
		name = os.Getenv(models.Variable)
	}
	if m := n.opened[name]; m != nil {
		return m, &r, nil
	}
	m, err := openModel(name)
	if err != nil {
		return nil, nil, err
	}
	m = model.Retry(m, model.RetryPolicy{OnRetry: func(ctx context.Context, attempt int, err error, wait time.Duration) {
		// Whoever follows the run is told why nothing comes. If that fails the
		// context has ended, and the wait with it.
		_ = graph.Emit(ctx, retrying{Retrying: fmt.Sprintf("trying again in %v: %v", wait.Round(time.Millisecond), err)})
	}})
	m = n.traces.model(name, m)
	if n.opened == nil {
		n.opened = map[string]model.Model{}
	}
	n.opened[name] = m
	return m, &r, nil
}

// retrying is what a run tells of a model that failed and is asked again.
type retrying struct {
	Retrying string `json:"retrying"`
}

// Generate implements [model.Model].
func (n *named) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	m, req, err := n.open(req)
	if err != nil {
		return nil, err
	}
	return m.Generate(ctx, req)
}

// Stream implements [model.Model].
func (n *named) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	m, req, err := n.open(req)
	if err != nil {
		return func(yield func(chat.Chunk, error) bool) { yield(chat.Chunk{}, err) }
	}
	return m.Stream(ctx, req)
}

// modelHint says what to do about the failure of a model, if there is something
// to say.
func modelHint(err error) string {
	var e *model.Error
	if !errors.As(err, &e) {
		return ""
	}
	switch e.Kind {
	case model.ErrorAuth:
		return "check the key: OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY"
	case model.ErrorNotFound:
		return "check the model's name: --model chooses another"
	case model.ErrorConnection:
		return "check that the server runs and can be reached, or choose another model with --model"
	case model.ErrorQuota:
		return "the account has nothing left; choose another model with --model"
	}
	return ""
}
