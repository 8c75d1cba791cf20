package nlu_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/nlu"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/examples/banking"
	"github.com/superstep-dev/superstep/model"
)

var monday = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func load(t testing.TB) *program.Program {
	t.Helper()
	p, err := program.Load(banking.Files)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func compile(t testing.TB, text string) *program.Program {
	t.Helper()
	p, err := program.Compile(program.File{Name: "assistant.yaml", Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// after returns what understanding is asked about a message that comes after others, whose
// commands are given.
func after(t testing.TB, p *program.Program, text string, turns ...[]dialogue.Command) dialogue.Understand {
	t.Helper()
	s := dialogue.New("thread")
	take := func(in dialogue.Input) []dialogue.Effect {
		next, effects, err := dialogue.Advance(p, s, in)
		if err != nil {
			t.Fatal(err)
		}
		s = next
		return effects
	}
	for i, cmds := range turns {
		take(dialogue.Message{Text: fmt.Sprintf("turn %d", i+1), Time: monday})
		for effects := take(dialogue.Understood{Commands: cmds}); len(effects) > 0; {
			e := effects[0]
			effects = effects[1:]
			switch {
			case e.Action != nil:
				effects = append(effects, take(dialogue.Result{ID: e.Action.ID, Outputs: outputs[e.Action.Action]})...)
			case e.Validate != nil:
				effects = append(effects, take(dialogue.Validated{ID: e.Validate.ID, Value: e.Validate.Value})...)
			}
		}
	}
	for _, e := range take(dialogue.Message{Text: text, Time: monday}) {
		if e.Understand != nil {
			return *e.Understand
		}
	}
	t.Fatalf("%q is not to be understood", text)
	return dialogue.Understand{}
}

var outputs = map[string]map[string]expr.Value{
	"lookup_iban":           {"bank_name": expr.Str("ES-2100")},
	"check_transfer_limits": {"code_required": expr.Bool(false)},
	"load_profile":          {"customer_name": expr.Str("Alice Johnson"), "tier": expr.Str("premium")},
}

func start(flow string) dialogue.Command {
	return dialogue.Command{Type: dialogue.StartFlow, Flow: flow}
}

func set(slot string, v expr.Value) dialogue.Command {
	return dialogue.Command{Type: dialogue.SetSlot, Slot: slot, Value: v}
}

func str(s string) expr.Value { return expr.Str(s) }

// values are an output that is a list of texts.
func values(output string, texts ...string) map[string]expr.Value {
	var items []expr.Value
	for _, t := range texts {
		items = append(items, expr.Str(t))
	}
	return map[string]expr.Value{output: expr.ListOf(items...)}
}

// The turns that lead to the question whether a transfer is to be sent.
var toConfirm = [][]dialogue.Command{
	{start("transfer_funds")},
	{set("beneficiary_name", expr.Str("John Doe")), set("iban", expr.Str("ES9121000418450200051332")), set("amount", expr.Num(500)),
		set("transfer_concept", expr.Str("Rent")), set("source_account", expr.Str("checking"))},
}

// counting counts the calls of a model.
type counting struct {
	model.Model
	calls int
}

func (c *counting) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	c.calls++
	return c.Model.Generate(ctx, req)
}

// says is a model that always gives one answer.
func says(text string) *counting {
	return &counting{Model: model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		return &model.Response{Message: chat.Assistant(text)}, nil
	})}
}

func request(t testing.TB, in dialogue.Understand, o nlu.Options) *model.Request {
	t.Helper()
	req, err := nlu.New(nil, o).Request(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func tokens(t testing.TB, in dialogue.Understand) int {
	t.Helper()
	return nlu.CountTokens(request(t, in, nlu.Options{}), nlu.EstimateTokens)
}

// offered returns what a schema lists.
type offered struct {
	Flows    []string
	Values   map[string]string // of slots: the JSON of their forms
	Commands map[string]string // of types: the JSON of their other members
}

func offers(t testing.TB, in dialogue.Understand) offered {
	t.Helper()
	type node struct {
		Enum       []string
		AnyOf      []json.RawMessage
		Properties map[string]json.RawMessage
	}
	var root struct {
		Defs       map[string]json.RawMessage `json:"$defs"`
		Properties struct {
			Commands struct{ Items node }
		}
	}
	read := func(raw json.RawMessage) (n node) {
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &n); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	if err := json.Unmarshal(request(t, in, nlu.Options{}).Output.Schema, &root); err != nil {
		t.Fatal(err)
	}
	o := offered{Flows: read(root.Defs["flow"]).Enum, Values: map[string]string{}, Commands: map[string]string{}}
	if raw := root.Defs["value"]; raw != nil {
		forms := read(raw).AnyOf
		if forms == nil {
			forms = []json.RawMessage{raw}
		}
		for _, f := range forms {
			p := read(f).Properties
			for _, slot := range read(p["slot"]).Enum {
				o.Values[slot] += string(p["value"])
			}
		}
	}
	for _, f := range root.Properties.Commands.Items.AnyOf {
		p := read(f).Properties
		for _, c := range read(p["type"]).Enum {
			var rest strings.Builder
			for _, name := range []string{"flow", "slots", "slot", "option", "options", "topic", "language"} {
				if v, ok := p[name]; ok {
					fmt.Fprintf(&rest, "%s %s ", name, v)
				}
			}
			o.Commands[c] += strings.TrimSpace(rest.String())
		}
	}
	return o
}

// many returns an assistant of n flows, whose names and purposes are all different.
func many(n int) string {
	verbs := []string{"order", "cancel", "change", "check", "renew", "return", "report", "book", "upgrade", "explain"}
	things := []string{"parcel", "ticket", "invoice", "contract", "insurance", "passport", "subscription", "appointment", "loan", "phone",
		"mortgage", "garage", "visa", "library card", "hotel room", "rental car", "gym membership", "prescription", "warranty", "donation"}
	places := []string{"at home", "abroad", "for a company", "for a child", "in a branch"}
	var b strings.Builder
	b.WriteString("version: \"2.0\"\nslots:\n")
	types := []string{"string", "number", "date", "boolean"}
	for i := range 40 {
		fmt.Fprintf(&b, "  value_%d: {type: %s, description: \"value %d that is asked for\", ask: {text: \"Which?\"}}\n", i, types[i%4], i)
	}
	b.WriteString("flows:\n")
	for i := range n {
		verb, thing, place := verbs[i%len(verbs)], things[i/len(verbs)%len(things)], places[i/len(verbs)/len(things)%len(places)]
		fmt.Fprintf(&b, "  %s_%s_%s:\n    description: The customer wants to %s a %s %s.\n    examples: [\"I want to %s a %s %s\", \"%s my %s, please\"]\n    steps:\n    - collect: [value_%d, value_%d]\n    - say: {text: \"Done.\"}\n",
			verb, strings.ReplaceAll(thing, " ", "_"), strings.ReplaceAll(place, " ", "_"), verb, thing, place, verb, thing, place, verb, thing, i%40, (i+7)%40)
	}
	return b.String()
}
