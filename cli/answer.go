package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
)

// questions prints what a thread waits for and how to answer.
func (a *app) questions(s *snapshot) {
	w := a.console.Out
	asks, breakpoints := 0, 0
	for _, q := range s.Interrupts {
		if q.When != "inside" {
			breakpoints++
			fmt.Fprintf(w, "Stopped %s node %s.\n", q.When, oneLine(path(q)))
			continue
		}
		asks++
		fmt.Fprintf(w, "%s:\n", oneLine(title(q)))
		r := renderer{w: w, width: a.console.Width()}
		if q.Value != nil {
			r.value(q.Value, "  ")
		}
		if k := kindOf(q.Schema); k.text != "" {
			fmt.Fprintf(w, "  (answer: %s)\n", k.text)
		}
	}
	cmd := fmt.Sprintf("%s resume %s%s --thread %s", a.name, quote(s.Graph), a.placeArg(), quote(s.Thread))
	switch {
	case asks == 0:
		fmt.Fprintf(w, "Go on with:\n  %s\n", a.continuing(s.Graph, s.Thread))
	case len(s.Interrupts) == 1:
		fmt.Fprintf(w, "Answer with:\n  %s --answer %s\n", cmd, quote(kindOf(s.Interrupts[0].Schema).example))
	default:
		for _, q := range s.Interrupts {
			if q.When == "inside" {
				cmd += " --answer " + quote(reference(s.Interrupts, q)+"="+kindOf(q.Schema).example)
			}
		}
		fmt.Fprintf(w, "Answer with:\n  %s\n", cmd)
	}
}

// storeArg returns the flag that names the store, if it was given. A password is
// not repeated; where the environment has the store, no flag is needed for it.
func (a *app) storeArg() string {
	shown := stores.Redact(a.storeFlag)
	if a.storeFlag == "" || shown != a.storeFlag && a.storeFlag == os.Getenv(storeEnv) {
		return ""
	}
	return " --store " + quote(shown)
}

// reference returns what a question is to be answered by: its key if that is
// unambiguous.
func reference(all []question, q question) string {
	n := 0
	for _, o := range all {
		if o.Key == q.Key {
			n++
		}
	}
	if n == 1 && q.Key != "" {
		return q.Key
	}
	return q.ID
}

// title names a question.
func title(q question) string {
	if q.Key == "" {
		return "Question of node " + path(q)
	}
	return fmt.Sprintf("Question %q of node %s", q.Key, path(q))
}

func path(q question) string {
	return strings.Join(append(q.Path[:len(q.Path):len(q.Path)], q.Node), "/")
}

// quote returns s as a word for a shell, which is shown.
func quote(s string) string {
	if oneLine(s) != s {
		var b strings.Builder
		for len(s) > 0 {
			r, n := utf8.DecodeRuneInString(s)
			switch {
			case r == utf8.RuneError && n == 1:
				fmt.Fprintf(&b, "\\x%02x", s[0])
			case r == '\\' || r == '\'':
				b.WriteString("\\" + string(r))
			case r == '\n':
				b.WriteString(`\n`)
			case oneLine(string(r)) != string(r):
				fmt.Fprintf(&b, "\\u%04x", r)
			default:
				b.WriteRune(r)
			}
			s = s[n:]
		}
		return "$'" + b.String() + "'"
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// kind is the shape of an answer, as far as the prompt cares.
type kind struct {
	typ     string // "boolean", "string", ... or empty
	enum    []json.RawMessage
	text    string // for people
	example string // in JSON
}

func kindOf(schema json.RawMessage) kind {
	var s struct {
		Type  any               `json:"type"`
		Types []string          `json:"types"`
		Enum  []json.RawMessage `json:"enum"`
		Props map[string]any    `json:"properties"`
		Need  []string          `json:"required"`
	}
	k := kind{example: "JSON"}
	if len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return k
	}
	k.typ, _ = s.Type.(string)
	if list, ok := s.Type.([]any); ok {
		// A type that may also be null.
		for _, t := range list {
			if name, _ := t.(string); name != "null" && k.typ == "" {
				k.typ = name
			}
		}
	}
	if len(s.Enum) > 0 {
		k.enum = s.Enum
		var names []string
		for _, e := range s.Enum {
			names = append(names, string(e))
		}
		k.text, k.example = oneLine("one of "+strings.Join(names, ", ")), names[0]
		return k
	}
	switch k.typ {
	case "boolean":
		k.text, k.example = "true or false", "true"
	case "string":
		k.text, k.example = "a text", `"text"`
	case "integer", "number":
		k.text, k.example = "a number", "1"
	case "array":
		k.text, k.example = "a list in JSON", "[]"
	case "object":
		k.text = "an object in JSON"
		if len(s.Need) > 0 {
			k.text += oneLine(" with " + strings.Join(s.Need, ", "))
		}
		example := map[string]any{}
		for _, name := range s.Need {
			p, _ := json.Marshal(s.Props[name])
			example[name] = json.RawMessage(kindOf(p).example)
		}
		if data, err := json.Marshal(example); err == nil {
			k.example = string(data)
		} else {
			k.example = "{}"
		}
	}
	return k
}

// parse turns what a person wrote into JSON.
func (k kind) parse(text string) (json.RawMessage, error) {
	text = strings.TrimSpace(text)
	if k.typ == "boolean" {
		if yes, ok := console.YesNo(text); ok {
			return json.Marshal(yes)
		}
	}
	for _, e := range k.enum {
		var s string
		if json.Unmarshal(e, &s) == nil && strings.EqualFold(s, text) {
			return e, nil
		}
	}
	if json.Valid([]byte(text)) {
		if k.typ == "string" && !strings.HasPrefix(text, `"`) {
			return json.Marshal(text)
		}
		return json.RawMessage(text), nil
	}
	if k.typ == "string" {
		return json.Marshal(text)
	}
	want := "JSON"
	if k.text != "" {
		want = k.text
	}
	return nil, fmt.Errorf("%q is not %s", text, want)
}

// answers turns the values of --answer into what graph.Requests.Answer takes.
func answers(given []string, open []question) (any, error) {
	byKey := graph.Answers{}
	var single json.RawMessage
	for _, text := range given {
		q, rest, ok := cutKey(text, open)
		if ok {
			v, err := kindOf(q.Schema).parse(rest)
			if err != nil {
				return nil, &usageError{fmt.Errorf("answer to %q: %w", q.Key, err), "strings are quoted in JSON: --answer '" + q.Key + `="text"'`}
			}
			if _, twice := byKey[q.ID]; twice {
				return nil, Usage("question %q is answered twice", q.Key)
			}
			byKey[q.ID] = v
			continue
		}
		if single != nil {
			return nil, &usageError{errors.New("two answers without a key"), "say which question each is for: --answer KEY=JSON"}
		}
		k := kind{}
		if len(open) == 1 {
			k = kindOf(open[0].Schema)
		}
		v, err := k.parse(text)
		if key, value, isKey := strings.Cut(text, "="); err != nil && isKey && json.Valid([]byte(value)) {
			// The engine names the questions that are open.
			byKey[key] = json.RawMessage(value)
			continue
		}
		if err != nil {
			return nil, &usageError{fmt.Errorf("answer: %w", err), `strings are quoted in JSON: --answer '"text"'`}
		}
		single = v
	}
	switch {
	case single == nil:
		return byKey, nil
	case len(byKey) > 0:
		return nil, &usageError{errors.New("answers with and without a key"), "say which question each is for: --answer KEY=JSON"}
	}
	return single, nil
}

// cutKey splits KEY=JSON where KEY is an open question.
func cutKey(text string, open []question) (q question, rest string, ok bool) {
	for _, q := range open {
		for _, name := range []string{q.ID, q.Key} {
			if after, found := strings.CutPrefix(text, name+"="); found && name != "" && (name == q.ID || reference(open, q) == q.Key) {
				return q, after, true
			}
		}
	}
	return question{}, "", false
}

// prompt asks the person at the terminal everything that the thread waits for.
func (a *app) prompt(ctx context.Context, s *snapshot) (graph.Answers, error) {
	out := graph.Answers{}
	for i, q := range s.Interrupts {
		if q.When != "inside" {
			out[q.ID] = nil
			continue
		}
		v, err := a.askOne(ctx, q, nth(i, len(s.Interrupts)))
		if err != nil {
			return nil, err
		}
		out[q.ID] = v
	}
	return out, nil
}

// noteQuestion shows a question.
func (a *app) noteQuestion(q question, nth string) {
	a.console.Notef("%s", oneLine(nth+title(q)+":"))
	if q.Value != nil {
		var b strings.Builder
		r := renderer{w: &b, width: a.console.Width()}
		r.value(q.Value, "  ")
		a.console.Notef("%s", strings.TrimRight(b.String(), "\n"))
	}
}

// askOne asks the person at the terminal a question until the answer fits.
func (a *app) askOne(ctx context.Context, q question, nth string) (json.RawMessage, error) {
	a.noteQuestion(q, nth)
	k := kindOf(q.Schema)
	ask := "Answer in JSON: "
	switch {
	case k.typ == "boolean":
		ask = "Yes or no? [y/n] "
	case k.typ == "string" && k.enum == nil:
		ask = "Answer: "
	case k.text != "":
		ask = fmt.Sprintf("Answer (%s): ", k.text)
	}
	for {
		text, err := a.console.Ask(ctx, ask)
		if err != nil {
			return nil, err
		}
		if text == "" && k.typ != "string" {
			continue
		}
		v, err := k.parse(text)
		if err == nil {
			return v, nil
		}
		a.console.Notef("%s", foreign(err.Error()))
	}
}
