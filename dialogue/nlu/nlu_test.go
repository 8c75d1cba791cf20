package nlu_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/nlu"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

var update = flag.Bool("update", false, "rewrite the prompt in testdata")

// trip has a slot of each type, one that may be skipped and one with a choice out of a list.
const trip = `
version: "2.0"
languages: {default: en, also: [de]}
slots:
  name:   {type: string, ask: {text: "Name?"}}
  seats:  {type: integer, ask: {text: "Seats?"}}
  price:  {type: number, ask: {text: "Price?"}}
  day:    {type: date, ask: {text: "Day?"}}
  hour:   {type: time, ask: {text: "Hour?"}}
  direct: {type: boolean, ask: {text: "Direct?"}}
  class:  {type: string, options: [first, second], ask: {text: "Class?"}}
  stops:  {type: list, items: string, ask: {text: "Stops?"}}
  notes:  {type: string, required: false, ask: {text: "Notes?"}}
  train:  {type: string, ask: {text: "Which train?"}}
  code:   {type: string, format: digits, sensitive: true, eager: false, ask: {text: "Code?"}}
  fee:    {type: number}
actions:
  find: {effect: read, outputs: {trains: list}}
  book: {effect: irreversible, inputs: [name, seats], outputs: {ticket: string}}
flows:
  ask_all:
    description: All questions.
    steps:
    - collect: [direct, name, seats, price, day, hour, class, stops]
    - {collect: notes}
    - set: {fee: 3}
  choose:
    description: Choose a train.
    steps:
    - action: find
    - {collect: train, options_from: trains, page_size: 2}
  book:
    description: Book a train.
    steps:
    - collect: [name, seats]
    - {confirm: [name, seats], ask: {text: "{seats} for {name}?"}}
    - action: book
  secret:
    description: Enter a code.
    steps:
    - collect: code
    - collect: name
  staff:
    description: For staff only.
    guard: session.staff
    steps:
    - say: {text: "Hello."}
  inner:
    description: Part of another.
    internal: true
    steps:
    - collect: fee_code
session:
  staff: {type: boolean, default: false}
`

func trips(t testing.TB) string {
	t.Helper()
	return strings.Replace(trip, "    - collect: fee_code\n", "    - say: {text: \"x\"}\n", 1)
}

func init() {
	outputs["find"] = map[string]expr.Value{"trains": expr.ListOf(expr.Str("7:15"), expr.Str("8:15"), expr.Str("9:15"))}
}

func TestTheSchemaListsWhatCanBeMeantNow(t *testing.T) {
	p := compile(t, trips(t))
	idle := offers(t, after(t, p, "Hello there"))
	if want := []string{"ask_all", "choose", "book", "secret"}; !slices.Equal(idle.Flows, want) {
		t.Errorf("the flows are %q, want %q: neither the guarded nor the internal one", idle.Flows, want)
	}
	for slot, want := range map[string]string{
		"name": `{"type":"string"}`, "seats": `{"type":"integer"}`, "price": `{"type":"number"}`, "day": `{"type":"string","format":"date"}`,
		"hour": `{"type":"string"}`, "direct": `{"type":"boolean"}`, "class": `{"type":"string","enum":["first","second"]}`,
		"stops": `{"type":"array","items":{"type":"string"}}`, "notes": `{"type":"string"}`,
		"code": "", "fee": "", // taken only when it is asked; never told by users
	} {
		if got := idle.Values[slot]; got != want {
			t.Errorf("a value of %s has the form %s, want %s", slot, got, want)
		}
	}
	for _, x := range []struct {
		name  string
		turns [][]dialogue.Command
		has   map[string]string
		hasnt []string
	}{
		{"idle", nil, map[string]string{"start_flow": `flow {"$ref":"#/$defs/flow"} slots {"type":"array","items":{"$ref":"#/$defs/value"}}`,
			"set_language": `language {"type":"string","enum":["en","de"]}`, "cancel_flow": "", "handoff": "", "out_of_scope": "", "chitchat": ""},
			[]string{"affirm", "deny", "select", "skip", "next_option", "repeat", "resume", "set_slot", "clear_slot", "complete_flow"}},
		{"a yes or no is asked", [][]dialogue.Command{{start("ask_all")}}, map[string]string{"affirm": "", "deny": "", "repeat": "", "set_slot": `slots {"type":"array","items":{"$ref":"#/$defs/value"}}`},
			[]string{"select", "skip", "next_option", "resume", "clear_slot"}},
		{"a name is asked", [][]dialogue.Command{{start("book")}}, nil, []string{"affirm", "deny", "select", "skip"}},
		{"a choice is asked", [][]dialogue.Command{{start("choose")}}, map[string]string{"select": `option {"type":"string","enum":["0","1"]}`, "next_option": ""}, []string{"affirm"}},
		{"at a confirm", [][]dialogue.Command{{start("book"), set("name", expr.Str("Ann")), set("seats", expr.Num(2))}},
			map[string]string{"affirm": "", "deny": `slot {"anyOf":[{"type":"string","enum":["name","seats"]},{"type":"null"}]}`, "clear_slot": `slot {"type":"string","enum":["name","seats"]}`}, []string{"skip"}},
		{"beside a paused flow", [][]dialogue.Command{{start("book")}, {start("choose")}}, map[string]string{"resume": `flow {"type":"string","enum":["book"]}`}, nil},
		{"a slot that may be skipped", [][]dialogue.Command{{start("ask_all"), set("direct", expr.Bool(true)), set("name", expr.Str("Ann")), set("seats", expr.Num(1)), set("price", expr.Num(1)),
			set("day", expr.Str("2026-03-02")), set("hour", expr.Str("08:00")), set("class", expr.Str("first")), set("stops", expr.ListOf(expr.Str("Bonn")))}}, map[string]string{"skip": ""}, nil},
	} {
		got := offers(t, after(t, p, "Well, what about it", x.turns...)).Commands
		for c, want := range x.has {
			if form, ok := got[c]; !ok || !strings.Contains(form, want) {
				t.Errorf("%s: the form of %s is %q (there: %v), want %q", x.name, c, form, ok, want)
			}
		}
		for _, c := range x.hasnt {
			if _, ok := got[c]; ok {
				t.Errorf("%s: %s can be answered", x.name, c)
			}
		}
	}
	if got := offers(t, after(t, p, "1234", []dialogue.Command{start("secret")})).Values["code"]; got != `{"type":"string"}` {
		t.Errorf("the code that is asked for has the form %q", got)
	}
}

// A command of the program's own has its inputs for slots.
func TestAProgramsOwnCommandsAreOffered(t *testing.T) {
	p := compile(t, strings.Replace(trips(t), "actions:\n", "actions:\n  find_office: {command: \"The user asks where an office is.\", effect: read, inputs: {city: string, \"floor?\": integer}, outputs: {address: string}}\n", 1)+"responses:\n  find_office: \"At {address}.\"\n")
	in := after(t, p, "Where is the office in Bonn?")
	if got := offers(t, in).Commands["find_office"]; got != `slots {"type":"object","properties":{"city":{"type":"string"},"floor":{"anyOf":[{"type":"integer"},{"type":"null"}]}},"required":["city","floor"],"additionalProperties":false}` {
		t.Errorf("its form is %s", got)
	}
	if text := request(t, in, nlu.Options{}).Messages[1].Text(); !strings.Contains(text, `"commands":[{"type":"find_office","about":"The user asks where an office is.","slots":["city","floor"]}]`) {
		t.Errorf("the prompt is %s", text)
	}
	want := []dialogue.Command{{Type: "find_office", Slots: map[string]expr.Value{"city": expr.Str("Bonn")}}}
	got, err := nlu.New(says(`{"commands":[{"type":"find_office","slots":{"city":"Bonn","floor":null}}]}`), nlu.Options{}).Understand(t.Context(), in)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	matched, err := patterns(t, `- {match: 'office in (?P<city>\w+)', commands: [{type: find_office}]}`).Understand(t.Context(), in)
	if err != nil || !reflect.DeepEqual(matched, want) {
		t.Errorf("%+v, %v", matched, err)
	}
	for answer, says1 := range map[string]string{
		`{"commands":[{"type":"find_office","slots":{}}]}`:                           `"city" has no value`,
		`{"commands":[{"type":"find_office","slots":{"city":"Bonn","street":"x"}}]}`: `no slot "street"`,
		`{"commands":[{"type":"find","slots":{}}]}`:                                  `"find" can't be given now`,
		`{"commands":[{"type":"T","slots":{}}]}`:                                     `"T" can't be given now`,
	} {
		if _, err := nlu.New(says(answer), nlu.Options{}).Understand(t.Context(), in); err == nil || !strings.Contains(err.Error(), says1) {
			t.Errorf("%s: error %v", answer, err)
		}
	}
}

func TestThePromptIsWhatItWas(t *testing.T) {
	req := request(t, after(t, load(t), "no, make it 200", toConfirm...), nlu.Options{})
	got := req.Messages[0].Text() + "\n" + req.Messages[1].Text() + "\n\n" + string(req.Output.Schema) + "\n"
	const file = "testdata/prompt.golden"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the prompt differs from %s; run with -update and look at the diff", file)
	}
}

func TestAnswersBecomeCommands(t *testing.T) {
	p := compile(t, trips(t))
	idle := after(t, p, "Book 2 seats for Ann Lee, please")
	named := after(t, p, "No, for Bob Ray, and 1.500 of them", []dialogue.Command{start("book"), set("name", expr.Str("Ann"))})
	confirm := after(t, p, "Not that many", []dialogue.Command{start("book"), set("name", expr.Str("Ann")), set("seats", expr.Num(2))})
	for _, x := range []struct {
		name   string
		in     dialogue.Understand
		answer string
		want   []dialogue.Command
	}{
		{"a start with values", idle, `{"commands":[{"type":"start_flow","flow":"book","slots":[{"slot":"name","value":"Ann Lee"},{"slot":"seats","value":2}]}]}`,
			[]dialogue.Command{{Type: "start_flow", Flow: "book", Slots: map[string]expr.Value{"name": expr.Str("Ann Lee"), "seats": expr.Num(2)}}}},
		{"a start without", idle, `{"commands":[{"type":"start_flow","flow":"book","slots":[]}]}`, []dialogue.Command{start("book")}},
		{"a start as commands are written", idle, `{"commands":[{"type":"start_flow","flow":"book","slots":{"seats":2}}]}`,
			[]dialogue.Command{{Type: "start_flow", Flow: "book", Slots: map[string]expr.Value{"seats": expr.Num(2)}}}},
		{"in a Markdown fence", idle, "Sure:\n```json\n{\"commands\":[{\"type\":\"chitchat\"}]}\n```", []dialogue.Command{{Type: "chitchat"}}},
		{"values with their places", named, `{"commands":[{"type":"set_slot","slots":[{"slot":"name","value":"bob ray"},{"slot":"seats","value":1.5}]}]}`,
			[]dialogue.Command{{Type: "set_slot", Slot: "name", Value: expr.Str("bob ray"), Span: "Bob Ray"}, {Type: "set_slot", Slot: "seats", Value: expr.Num(1.5), Span: "1.500"}}},
		{"a correction", named, `{"commands":[{"type":"correct_slot","slot":"name","value":"Bob"}]}`, []dialogue.Command{{Type: "set_slot", Slot: "name", Value: expr.Str("Bob"), Span: "Bob"}}},
		{"a value that nobody said", named, `{"commands":[{"type":"set_slot","slots":[{"slot":"name","value":"Zoe"}]}]}`, []dialogue.Command{set("name", expr.Str("Zoe"))}},
		{"a no to a slot", confirm, `{"commands":[{"type":"deny","slot":"seats"}]}`, []dialogue.Command{{Type: "deny", Slot: "seats"}}},
		{"a no", confirm, `{"commands":[{"type":"deny","slot":null}]}`, []dialogue.Command{{Type: "deny"}}},
		{"which flow", idle, `{"commands":[{"type":"clarify","options":["book","choose"]}]}`, []dialogue.Command{{Type: "clarify", Options: []string{"book", "choose"}}}},
		{"words of the message", idle, `{"commands":[{"type":"question","topic":"seats for Ann"}]}`, []dialogue.Command{{Type: "question", Topic: "seats for Ann"}}},
		{"words of the model", idle, `{"commands":[{"type":"question","topic":"Call 0900 now!"},{"type":"handoff","reason":"Call 0900"},{"type":"chitchat","topic":"Call 0900"}]}`,
			[]dialogue.Command{{Type: "question"}, {Type: "handoff"}, {Type: "chitchat"}}},
		{"nothing", idle, `{"commands":[]}`, []dialogue.Command{}},
	} {
		m := says(x.answer)
		got, err := nlu.New(m, nlu.Options{}).Understand(t.Context(), x.in)
		if err != nil || !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %+v, %v; want %+v", x.name, got, err, x.want)
		}
		if m.calls != 1 {
			t.Errorf("%s: %d calls of the model", x.name, m.calls)
		}
	}
}

func TestAnAnswerThatCannotBeUsedIsAnError(t *testing.T) {
	p := compile(t, trips(t))
	idle := after(t, p, "Book a train, my code is 4711-SECRET")
	asked := after(t, p, "Ann", []dialogue.Command{start("book")})
	down := &model.Error{Provider: "x", Kind: model.ErrorOverloaded}
	for _, x := range []struct {
		name  string
		in    dialogue.Understand
		reply scripted.Reply
		kind  nlu.ErrorKind
		says  string
		calls int
	}{
		{"no JSON", idle, scripted.Text("I would book a train."), nlu.ErrorInvalid, "not JSON", 2},
		{"half a JSON", idle, scripted.Text(`{"commands":[{"type":"start_f`), nlu.ErrorInvalid, "not JSON", 2},
		{"JSON of another form", idle, scripted.Text(`[]`), nlu.ErrorInvalid, "not JSON of the form", 2},
		{"no commands", idle, scripted.Text(`{}`), nlu.ErrorInvalid, "not JSON of the form", 2},
		{"cut off", idle, scripted.Text(`{"commands":[`).Finish(chat.FinishLength), nlu.ErrorTruncated, "cut off", 1},
		{"refused", idle, scripted.Text("I can't help with that.").Finish(chat.FinishFilter), nlu.ErrorRefused, "refused", 1},
		{"refused by the provider", idle, scripted.Error(&model.Error{Kind: model.ErrorFilter}), nlu.ErrorRefused, "refused", 1},
		{"empty", idle, scripted.Text(""), nlu.ErrorEmpty, "empty", 1},
		{"blank", idle, scripted.Text(" \n"), nlu.ErrorEmpty, "empty", 1},
		{"a tool", idle, scripted.Call("book", "{}"), nlu.ErrorInvalid, "tools", 1},
		{"the provider is down", idle, scripted.Error(down), nlu.ErrorModel, "overloaded", 1},
		{"an unknown command", idle, scripted.Text(`{"commands":[{"type":"chitchat"},{"type":"transfer_money"}]}`), nlu.ErrorInvalid, `command 2: "transfer_money" can't be given now`, 2},
		{"a command for callers", asked, scripted.Text(`{"commands":[{"type":"complete_flow"}]}`), nlu.ErrorInvalid, `"complete_flow" can't be given now`, 2},
		{"a yes that nobody asked for", asked, scripted.Text(`{"commands":[{"type":"affirm"}]}`), nlu.ErrorInvalid, `"affirm" can't be given now`, 2},
		{"a flow behind a guard", idle, scripted.Text(`{"commands":[{"type":"start_flow","flow":"staff","slots":[]}]}`), nlu.ErrorInvalid, `no flow "staff"`, 2},
		{"an internal flow", idle, scripted.Text(`{"commands":[{"type":"start_flow","flow":"inner","slots":[]}]}`), nlu.ErrorInvalid, `no flow "inner"`, 2},
		{"a slot of no question", asked, scripted.Text(`{"commands":[{"type":"set_slot","slots":[{"slot":"fee","value":0}]}]}`), nlu.ErrorInvalid, `no slot "fee"`, 2},
		{"a slot of another flow", idle, scripted.Text(`{"commands":[{"type":"start_flow","flow":"book","slots":[{"slot":"day","value":"2026-01-01"}]}]}`), nlu.ErrorInvalid, `no slot "day"`, 2},
		{"no value", asked, scripted.Text(`{"commands":[{"type":"set_slot","slots":[{"slot":"name","value":null}]}]}`), nlu.ErrorInvalid, `"name" has no value`, 2},
		{"an option that isn't there", after(t, p, "the fifth", []dialogue.Command{start("choose")}), scripted.Text(`{"commands":[{"type":"select","option":"5"}]}`), nlu.ErrorInvalid, `no option "5"`, 2},
		{"a language that isn't spoken", idle, scripted.Text(`{"commands":[{"type":"set_language","language":"xx"}]}`), nlu.ErrorInvalid, `language "xx"`, 2},
	} {
		m := scripted.New(x.reply.Repeat())
		got, err := nlu.New(m, nlu.Options{}).Understand(t.Context(), x.in)
		e, ok := errors.AsType[*nlu.Error](err)
		if !ok || e.Kind != x.kind || !strings.Contains(err.Error(), x.says) || got != nil {
			t.Errorf("%s: %+v, %v (%T); want an error of kind %q that says %q", x.name, got, err, err, x.kind, x.says)
		}
		if n := len(m.Requests()); n != x.calls {
			t.Errorf("%s: %d calls of the model, want %d", x.name, n, x.calls)
		}
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: the error tells what the user said: %v", x.name, err)
		}
	}
	m := scripted.New(scripted.Error(down))
	if _, err := nlu.New(m, nlu.Options{}).Understand(t.Context(), idle); !errors.Is(err, down) {
		t.Errorf("the error %v doesn't wrap the provider's", err)
	}
}

func TestAnAnswerIsMendedOnce(t *testing.T) {
	in := after(t, compile(t, trips(t)), "Book a train")
	m := scripted.New(
		scripted.Text(`{"commands":[{"type":"start_flow","flow":"trains"}]}`),
		scripted.Text(`{"commands":[{"type":"start_flow","flow":"book"}]}`).When(scripted.Says(`there is no flow "trains" to start`)),
	)
	got, err := nlu.New(m, nlu.Options{}).Understand(t.Context(), in)
	if err != nil || !reflect.DeepEqual(got, []dialogue.Command{start("book")}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAnEmptyMessageNeedsNoModel(t *testing.T) {
	m := says("")
	got, err := nlu.New(m, nlu.Options{}).Understand(t.Context(), dialogue.Understand{Message: dialogue.Message{Text: " \n"}})
	if err != nil || got != nil || m.calls != 0 {
		t.Errorf("%v, %v after %d calls", got, err, m.calls)
	}
}

func TestTheEndOfTheContextIsTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := model.Func(func(ctx context.Context, _ *model.Request) (*model.Response, error) { return nil, ctx.Err() })
	if _, err := nlu.New(m, nlu.Options{}).Understand(ctx, after(t, compile(t, trips(t)), "Book a train")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestAnEmbedderFindsWhatWordsDoNot(t *testing.T) {
	in := after(t, compile(t, many(1000)), "Ich brauche einen neuen Reisepass")
	embeds := 0
	e := model.EmbedFunc(2, func(_ context.Context, texts []string) ([][]float32, error) {
		embeds += len(texts)
		out := make([][]float32, len(texts))
		for i, text := range texts {
			if out[i] = []float32{0, 1}; strings.Contains(text, "Reisepass") || strings.Contains(text, "renew passport abroad") {
				out[i] = []float32{1, 0}
			}
		}
		return out, nil
	})
	u := nlu.New(nil, nlu.Options{Embedder: e})
	for range 2 {
		req, err := u.Request(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(req.Messages[1].Text(), `{"flows":[{"flow":"renew_passport_abroad"`) {
			t.Errorf("the first flow is not the nearest: %.100s", req.Messages[1].Text())
		}
	}
	if embeds != 1002 {
		t.Errorf("%d texts were embedded, want each flow once and the message twice", embeds)
	}
	broken := errors.New("no connection")
	u = nlu.New(nil, nlu.Options{Embedder: model.EmbedFunc(2, func(context.Context, []string) ([][]float32, error) { return nil, broken })})
	_, err := u.Understand(t.Context(), in)
	if e, ok := errors.AsType[*nlu.Error](err); !ok || e.Kind != nlu.ErrorRetrieval || !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestWhatIsSensitiveIsMaskedInThePrompt(t *testing.T) {
	req := request(t, after(t, load(t), "no, make it 200", toConfirm...), nlu.Options{})
	if text := req.Messages[1].Text(); strings.Contains(text, "ES9121000418450200051332") || !strings.Contains(text, `1332"`) {
		t.Errorf("the IBAN is not masked: %s", text)
	}
}
