// Package dialoguetest runs conversations that are written down as data against an
// assistant: in one process, with stubs for its actions, a clock and scripted
// understanding. No model is called and nothing waits.
package dialoguetest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/internal/yamlvalue"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Scenario is one conversation and what must be seen in it.
type Scenario struct {
	ID        string                 `yaml:"id"`
	About     string                 `yaml:"about"`
	Assistant string                 `yaml:"assistant"`
	Program   yaml.Node              `yaml:"program"`
	Config    yaml.Node              `yaml:"config"`
	Thread    string                 `yaml:"thread"` // of the first user, by which variations are chosen
	Stub      map[string][]yaml.Node `yaml:"stub"`
	Setup     string                 `yaml:"setup"`
	Turns     []Turn                 `yaml:"turns"`
	Check     *Check                 `yaml:"check"`
}

// Check is an assistant with mistakes, and the findings it must have.
type Check struct {
	Files  map[string]string `yaml:"files"`
	Errors []string          `yaml:"errors"`
}

// Turn is one thing that happens, and what must be seen after it.
type Turn struct {
	U       *string              `yaml:"u"`
	By      string               `yaml:"by"`
	Cmd     *Commands            `yaml:"cmd"`
	Raw     yaml.Node            `yaml:"raw"`
	Button  string               `yaml:"button"`
	Lang    string               `yaml:"lang"`
	Channel string               `yaml:"channel"`
	ID      string               `yaml:"id"`
	Clock   string               `yaml:"clock"`
	Event   map[string]yaml.Node `yaml:"event"`
	Restart yaml.Node            `yaml:"restart"`

	Has         []string                        `yaml:"has"`
	Not         []string                        `yaml:"not"`
	HasAny      []string                        `yaml:"has_any"`
	InOrder     bool                            `yaml:"in_order"`
	Says        *[]string                       `yaml:"says"`
	Silent      bool                            `yaml:"silent"`
	SameReplyAs int                             `yaml:"same_reply_as"`
	Stack       *[]string                       `yaml:"stack"`
	StackStates *[]string                       `yaml:"stack_states"`
	Wait        yaml.Node                       `yaml:"wait"`
	Options     *[]yaml.Node                    `yaml:"options"`
	State       string                          `yaml:"state"`
	Depth       *int                            `yaml:"depth"`
	Slots       map[string]yaml.Node            `yaml:"slots"`
	SlotsAbsent []string                        `yaml:"slots_absent"`
	Session     map[string]yaml.Node            `yaml:"session"`
	Calls       *[]string                       `yaml:"calls"`
	CallsCount  map[string]int                  `yaml:"calls_count"`
	NotCalled   []string                        `yaml:"not_called"`
	CallArgs    map[string]map[string]yaml.Node `yaml:"call_args"`
	Ledger      map[string]int                  `yaml:"ledger"`
	ArchiveLast string                          `yaml:"archive_last"`
	ArchiveSt   string                          `yaml:"archive_state"`
	Outputs     map[string]yaml.Node            `yaml:"outputs"`
	Events      []string                        `yaml:"events"`
	Ignored     []string                        `yaml:"ignored"`
	NLUCalls    *int                            `yaml:"nlu_calls"`
	Hidden      []string                        `yaml:"hidden"`
	Error       string                          `yaml:"error"`
}

// Commands are what understanding returns for a message; Fails makes it fail.
type Commands struct {
	List  []string
	Fails bool
}

// UnmarshalYAML reads a command, a list of commands, or error.
func (c *Commands) UnmarshalYAML(n *yaml.Node) error {
	n = yamlvalue.Follow(n)
	if n.Kind == yaml.ScalarNode {
		n = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}}
	}
	for _, x := range n.Content {
		x = yamlvalue.Follow(x)
		if x.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: a command is written as one text", x.Line)
		}
		if x.Value == "error" {
			c.Fails = true
			continue
		}
		c.List = append(c.List, x.Value)
	}
	return nil
}

// Parse reads a file of scenarios. Unknown keys are errors, all at once.
func Parse(text []byte) ([]Scenario, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	if err := errors.Join(unknown(&root)...); err != nil {
		return nil, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var out []Scenario
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, s := range out {
		if seen[s.ID] {
			return nil, fmt.Errorf("two scenarios are called %q", s.ID)
		}
		seen[s.ID] = true
	}
	return out, nil
}

// unknown returns the keys of a file that no scenario has.
func unknown(root *yaml.Node) (errs []error) {
	keys := func(n *yaml.Node, of reflect.Type, each func(key string, v *yaml.Node)) {
		var known []string
		for i := range of.NumField() {
			known = append(known, of.Field(i).Tag.Get("yaml"))
		}
		if n = yamlvalue.Follow(n); n.Kind != yaml.MappingNode {
			return // decoding says so
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			switch near := plan.Nearest(key.Value, known); {
			case slices.Contains(known, key.Value):
				each(key.Value, yamlvalue.Follow(n.Content[i+1]))
			case key.Value == "<<": // its keys are looked at when they are decoded
			case near != "":
				errs = append(errs, fmt.Errorf("line %d: unknown key %q; did you mean %q?", key.Line, key.Value, near))
			default:
				errs = append(errs, fmt.Errorf("line %d: unknown key %q", key.Line, key.Value))
			}
		}
	}
	nothing := func(string, *yaml.Node) {}
	for _, doc := range root.Content {
		for _, s := range doc.Content {
			keys(s, reflect.TypeFor[Scenario](), func(key string, v *yaml.Node) {
				switch key {
				case "turns":
					for _, t := range v.Content {
						keys(t, reflect.TypeFor[Turn](), nothing)
					}
				case "check":
					keys(v, reflect.TypeFor[Check](), nothing)
				}
			})
		}
	}
	return errs
}

// commandWords are the words for commands.
var commandWords = map[string]dialogue.CommandType{
	"start": dialogue.StartFlow, "cancel": dialogue.CancelFlow, "complete": dialogue.CompleteFlow, "set": dialogue.SetSlot, "correct": dialogue.CorrectSlot, "clear": dialogue.ClearSlot,
	"affirm": dialogue.Affirm, "deny": dialogue.Deny, "select": dialogue.Select, "next_option": dialogue.NextOption, "repeat": dialogue.Repeat, "skip": dialogue.Skip, "resume": dialogue.ResumeFlow,
	"clarify": dialogue.Clarify, "question": dialogue.AskQuestion, "chitchat": dialogue.Chitchat, "out_of_scope": dialogue.OutOfScope, "handoff": dialogue.Handoff, "language": dialogue.SetLanguage,
}

// Command reads a command as scenarios write it; none gives no command.
func Command(text string) (dialogue.Command, bool, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	rest = strings.TrimSpace(rest)
	if word == "none" {
		return dialogue.Command{}, false, nil
	}
	c := dialogue.Command{Type: commandWords[word]}
	switch c.Type {
	case dialogue.SetSlot, dialogue.CorrectSlot:
		slot, value, ok := strings.Cut(rest, "=")
		if !ok {
			c.Type = ""
		}
		c.Slot, c.Value, rest = strings.TrimSpace(slot), expr.Str(strings.TrimSpace(value)), ""
	case dialogue.StartFlow, dialogue.ResumeFlow:
		c.Flow, rest = rest, ""
	case dialogue.ClearSlot, dialogue.Deny:
		c.Slot, rest = rest, ""
	case dialogue.CancelFlow, dialogue.Handoff:
		c.Reason, rest = rest, ""
	case dialogue.Clarify, dialogue.AskQuestion, dialogue.Chitchat, dialogue.OutOfScope:
		c.Topic, rest = rest, ""
	case dialogue.Select:
		c.Option, rest = rest, ""
	case dialogue.SetLanguage:
		c.Language, rest = rest, ""
	}
	if c.Type == "" || rest != "" {
		return dialogue.Command{}, false, fmt.Errorf("unknown command %q", text)
	}
	return c, true, nil
}

// answer is what a stub answers.
type answer struct {
	outputs map[string]expr.Value
	failure *dialogue.Failure
	late    time.Duration
}

func answerOf(n yaml.Node) (answer, error) {
	v := yamlvalue.Of(&n)
	if v.Kind() != expr.Object {
		return answer{}, fmt.Errorf("line %d: an answer is a map", n.Line)
	}
	a := answer{outputs: map[string]expr.Value{}}
	if e, ok := v.Get("error"); ok && e.Kind() == expr.Text {
		message, _ := v.Get("message")
		a.failure = &dialogue.Failure{Type: e.String(), Message: message.String()}
		return a, nil
	}
	for _, k := range v.Keys() {
		x, _ := v.Get(k)
		if k == "late" {
			d, err := duration(x.String())
			if err != nil {
				return a, fmt.Errorf("line %d: %w", n.Line, err)
			}
			a.late = d
			continue
		}
		a.outputs[k] = x
	}
	return a, nil
}

func duration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		d, err := time.ParseDuration(days + "h")
		return 24 * d, err
	}
	if s != "" && !slices.Contains([]byte("smh"), s[len(s)-1]) {
		s += "s"
	}
	return time.ParseDuration(s)
}
