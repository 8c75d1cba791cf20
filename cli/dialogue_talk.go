package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/dialogue/action"
	assistants "github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/nlg"
	"github.com/superstep-dev/superstep/dialogue/nlu"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/model"
)

// Dialogues is what assistants that are written in YAML get from the program, for the
// commands "dialogue chat" and "dialogue serve".
type Dialogues struct {
	// Code are actions and validators, beside those of the servers that --actions names.
	Code []action.Part

	// Model opens the model of a name, for the flag --model: that of package
	// model/models, or one of the program's own. Variable is of the environment, and
	// names the model unless the flag does.
	Model    func(name string) (model.Model, error)
	Variable string

	// Demo is the assistant of the flag --demo; without it there is no such flag.
	Demo func() (assistants.Config, error)
}

// Dialogue says what assistants that are written in YAML get from the program.
func Dialogue(d Dialogues) Option { return func(a *app) { a.dialogues = d } }

// speaking is what the command line says of an assistant that is to be talked to.
type speaking struct {
	demo     bool
	model    string
	patterns string
	actions  []string
	older    []string
}

func (s *speaking) add(a *app, cmd *cobra.Command) {
	f := cmd.Flags()
	if a.dialogues.Model != nil {
		f.StringVar(&s.model, "model", "", "the model that understands messages, such as openai:gpt-5"+inVariable(a.dialogues.Variable))
	}
	f.StringVar(&s.patterns, "patterns", "", "understand messages without a model, by the patterns of this YAML file")
	f.StringArrayVar(&s.actions, "actions", nil, "the URL of a server that has actions and validators; may be repeated (its key: $"+actionsKey+")")
	f.StringArrayVar(&s.older, "older", nil, "the path of the assistant as it was before, for conversations that are pinned to it; may be repeated")
	if a.dialogues.Demo != nil {
		f.BoolVar(&s.demo, "demo", false, "take the example assistant, in the place of PATH")
	}
}

// actionsKey is the environment variable with the key that servers of actions are sent.
const actionsKey = "SUPERSTEP_ACTIONS_KEY"

func actionsHeader() http.Header {
	key := os.Getenv(actionsKey)
	if key == "" {
		return nil
	}
	return http.Header{"Authorization": {"Bearer " + key}}
}

// coded returns the actions and validators that the program has, and those of servers.
func (a *app) coded(ctx context.Context, urls []string) (*action.Set, error) {
	parts := slices.Clone(a.dialogues.Code)
	for _, url := range urls {
		more, err := action.HTTP(ctx, url, action.HTTPOptions{Header: actionsHeader()})
		if err != nil {
			return nil, fmt.Errorf("--actions: %w", err)
		}
		parts = append(parts, more...)
	}
	set, err := action.NewSet(parts...)
	if err != nil {
		return nil, fmt.Errorf("the assistant's code: %w", err)
	}
	return set, nil
}

func inVariable(name string) string {
	if name == "" {
		return ""
	}
	return " (default $" + name + ")"
}

// speaker returns the assistant that is meant.
func (a *app) speaker(ctx context.Context, s *speaking, args []string) (c assistants.Config, err error) {
	switch {
	case s.demo && len(args) > 0:
		return c, Usage("--demo and %q are two assistants", args[0])
	case s.demo && len(s.actions)+len(s.older) > 0:
		return c, Usage("--actions and --older are for an assistant of yours, and --demo has its own")
	case s.model != "" && s.patterns != "":
		return c, Usage("--model and --patterns exclude each other")
	case s.demo:
		if c, err = a.dialogues.Demo(); err != nil {
			return c, err
		}
	case len(args) == 0:
		hint := "name its folder or file"
		if a.dialogues.Demo != nil {
			hint += "; --demo is an example"
		}
		return c, &usageError{errors.New("no assistant is named"), hint}
	default:
		if c.Program, err = compileAt(args[0]); err != nil {
			return c, err
		}
		var older []*program.Program
		for _, path := range s.older {
			p, err := compileAt(path)
			if err != nil {
				return c, err
			}
			older = append(older, p)
		}
		c.Program = c.Program.With(older...)
		set, err := a.coded(ctx, s.actions)
		if err != nil {
			return c, err
		}
		if err := set.Check(c.Program); err != nil {
			return c, Hint(err, "--actions names a server that has what is missing; a program with actions in Go gives them to cli.Dialogue")
		}
		c.Actions = set
	}
	if !s.demo {
		a.keeps(c.Program.Settings.Persistence)
	}
	return c, a.understanding(s, &c)
}

// understanding finds what understands messages, and which models do the rest.
func (a *app) understanding(s *speaking, c *assistants.Config) error {
	if s.patterns != "" {
		text, err := os.ReadFile(s.patterns)
		if err != nil {
			return err
		}
		p, err := nlu.ParsePatterns(text)
		if err != nil {
			return fmt.Errorf("%s: %w", s.patterns, err)
		}
		c.Understanding = p
	}
	if m, config, err := a.modelFor(s, c, "nlu"); err != nil {
		return err
	} else if m != nil {
		c.Understanding = nlu.New(m, nlu.Options{Config: config})
	}
	if c.Understanding == nil {
		var ways []string
		if a.dialogues.Model != nil {
			ways = append(ways, "--model names one, such as openai:gpt-5 or ollama:llama3.2")
		}
		return &usageError{errors.New("nothing is there to understand what users say"), strings.Join(append(ways, "--patterns names a file with patterns, which need no model"), "; ")}
	}
	if m, config, err := a.modelFor(s, c, "generate"); err != nil {
		return err
	} else if m != nil {
		c.Generation = nlg.NewGenerator(m, c.Program, config)
	}
	if m, config, err := a.modelFor(s, c, "rephrase"); err != nil {
		return err
	} else if m != nil {
		c.Rephrasing = nlg.NewRephraser(m, c.Program, config)
	}
	return nil
}

// modelFor returns the model of a purpose: that of the command line, or else the one that
// the assistant's settings name, or else that of the environment. It is nil if there is
// none, or none is needed to understand messages.
func (a *app) modelFor(s *speaking, c *assistants.Config, purpose string) (model.Model, model.Config, error) {
	var config model.Config
	name := s.model
	set, ok := c.Program.Settings.Models[purpose]
	switch {
	case purpose == "nlu" && name == "" && c.Understanding != nil, a.dialogues.Model == nil:
		return nil, config, nil
	case name == "" && ok:
		name = set.Provider + ":" + set.Model
		if set.Temperature > 0 {
			config.Temperature = &set.Temperature
		}
	case name == "" && a.dialogues.Variable != "":
		name = os.Getenv(a.dialogues.Variable)
	}
	if name == "" {
		return nil, config, nil
	}
	m, err := a.dialogues.Model(name)
	return m, config, err
}

// keeps has conversations kept where the assistant's settings say, unless the command line
// or the environment does.
func (a *app) keeps(settings map[string]string) {
	if a.storeFlag != "" || a.store != nil || settings == nil {
		return
	}
	switch backend := settings["backend"]; backend {
	case "memory":
		a.storeFlag = backend
	case "sqlite":
		a.storeFlag = "sqlite:" + cmp.Or(settings["path"], "superstep.db")
	case "postgres", "redis":
		a.storeFlag = settings["connection"]
	}
}

// writeSlots writes values, a line each, in the order of their names.
func writeSlots(b *strings.Builder, indent string, slots map[string]expr.Value) {
	for _, name := range slices.Sorted(maps.Keys(slots)) {
		fmt.Fprintf(b, "%s%s: %s\n", indent, name, strings.ReplaceAll(cmp.Or(slots[name].String(), "none"), "\n", " "))
	}
}
