package assistant_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/examples/banking"
)

const counter = `version: "2.0"
slots: {city: {type: string, ask: {text: "Where?"}, validate: place}}
actions:
  plain: {effect: read}
  panics: {effect: read}
  hangs: {effect: read, timeout: 20ms}
  shape: {effect: read, outputs: {n: integer}}
  mega: {effect: read, outputs: {text: string}}
  busy: {effect: write, retry: {max_attempts: 3, delay: 1ms, retry_on: [unavailable]}}
  told: {effect: read}
flows:
  plain: {description: x, steps: [{action: plain}]}
  panics: {description: x, steps: [{action: panics}]}
  hangs: {description: x, steps: [{action: hangs}]}
  shape: {description: x, steps: [{action: shape}, {say: {text: "{n}"}}]}
  mega: {description: x, steps: [{action: mega}, {say: {text: "{text}"}}]}
  busy: {description: x, steps: [{action: busy}]}
  told: {description: x, steps: [{action: told, on_error: sorry}, {next: end, say: {text: "done"}}, {step: sorry, say: {text: "{error.type}: {error.message}"}}]}
  ask: {description: x, steps: [{collect: city}, {say: {text: "{city}"}}]}
`

// Whatever the code does, users are told what the program says, and nothing of an error's
// text is kept in the conversation.
func TestWhateverAnActionDoesTheConversationGoesOn(t *testing.T) {
	p, err := program.Compile(program.File{Name: "desk.yaml", Text: []byte(counter)})
	if err != nil {
		t.Fatal(err)
	}
	type none = struct{}
	outputs := func(name string, v expr.Value) *action.Action {
		return action.New(name, func(context.Context, none) (map[string]expr.Value, error) {
			return map[string]expr.Value{"n": v, "text": v}, nil
		})
	}
	release := make(chan none)
	defer close(release)
	var keys []string
	code, err := action.NewSet(
		action.New("plain", func(context.Context, none) (none, error) { return none{}, errors.New("secret of db7") }),
		action.New("panics", func(context.Context, none) (none, error) { panic("secret of db7") }),
		action.New("hangs", func(context.Context, none) (none, error) { <-release; return none{}, nil }),
		outputs("shape", expr.Str("secret of db7")),
		outputs("mega", expr.Str(strings.Repeat("secret of db7", 1<<20/13))),
		action.New("busy", func(ctx context.Context, _ none) (none, error) {
			keys = append(keys, action.CallOf(ctx).ID)
			return none{}, &dialogue.Failure{Type: "unavailable"}
		}),
		action.New("told", func(context.Context, none) (none, error) {
			return none{}, &dialogue.Failure{Type: "not_found", Message: "no such account"}
		}),
		action.NewValidator("place", func(_ context.Context, v string) (string, error) {
			switch v {
			case "Atlantis":
				return "", action.Refusal("it has sunk")
			case "db7":
				return "", errors.New("secret of db7")
			}
			return strings.ToUpper(v), nil
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	log := new(bytes.Buffer)
	code.Log = slog.New(slog.NewTextHandler(log, nil))
	a, err := assistant.New(assistant.Config{Program: p, Actions: code})
	if err != nil {
		t.Fatal(err)
	}
	say := func(thread string, c dialogue.Command) string {
		t.Helper()
		r, err := a.Say(t.Context(), thread, dialogue.Message{Text: "a", Commands: []dialogue.Command{c}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Text
	}
	for _, k := range []struct{ flow, want string }{
		{"plain", "Sorry, something went wrong. Please try again."},
		{"panics", "Sorry, something went wrong. Please try again."},
		{"hangs", "Request timed out. Would you like to try again?"},
		{"shape", "Some required information is invalid. Let's start over."},
		{"mega", "Some required information is invalid. Let's start over."},
		{"busy", "Sorry, something went wrong. Please try again."},
		{"told", "not_found: no such account"},
	} {
		if got := say(k.flow, dialogue.Command{Type: dialogue.StartFlow, Flow: k.flow}); got != k.want {
			t.Errorf("%s: %q, want %q", k.flow, got, k.want)
		}
		s, err := a.State(t.Context(), k.flow)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := json.Marshal(s); err != nil || bytes.Contains(text, []byte("secret")) {
			t.Errorf("%s: the conversation has the error's text, %v: %.2000s", k.flow, err, text)
		}
	}
	if len(keys) != 3 || len(slices.Compact(keys)) != 1 || !strings.HasPrefix(keys[0], "busy/") {
		t.Errorf("attempts have the keys %q", keys)
	}
	if !strings.Contains(log.String(), "secret of db7") {
		t.Errorf("the log lacks the error: %s", log)
	}
	say("ask", dialogue.Command{Type: dialogue.StartFlow, Flow: "ask"})
	for _, k := range []struct{ city, want string }{
		{"Atlantis", "Invalid value: it has sunk\nWhere?"},
		{"db7", "Invalid value: it can't be checked now\nWhere?"},
		{"Rome", "ROME"},
	} {
		if got := say("ask", dialogue.Command{Type: dialogue.SetSlot, Slot: "city", Value: expr.Str(k.city)}); got != k.want {
			t.Errorf("%s: %q, want %q", k.city, got, k.want)
		}
	}
}

func TestAnAssistantIsNotMadeOfCodeThatDoesNotFit(t *testing.T) {
	p, err := program.Load(banking.Files)
	if err != nil {
		t.Fatal(err)
	}
	code, err := new(banking.Bank).Code()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := assistant.New(assistant.Config{Program: p, Actions: code}); err != nil {
		t.Errorf("code that fits: %v", err)
	}
	_, err = assistant.New(assistant.Config{Program: p, Actions: new(action.Set)})
	var findings program.Findings
	if !errors.As(err, &findings) || !strings.Contains(err.Error(), `actions.yaml:12:3: error: action "get_balance" has no code; register it under this name`) {
		t.Errorf("no code: %v", err)
	}
}
