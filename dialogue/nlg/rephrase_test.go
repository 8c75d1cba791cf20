package nlg_test

import (
	"bytes"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/nlg"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

func compile(t testing.TB, text string) *program.Program {
	t.Helper()
	p, err := program.Compile(program.File{Name: "assistant.yaml", Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const friendly = `
version: "2.0"
settings: {rephrase: {enabled: true, tone: professional}}
flows: {hello: {description: Greets., steps: [{say: {text: Hello.}}]}}
`

// reply has a text of each kind.
func reply() dialogue.Reply {
	r := dialogue.Reply{Language: "en", Turn: 3, Waiting: &dialogue.Waiting{ID: "q1"}, Messages: []dialogue.Said{
		{Type: "text", Text: "You have 500 EUR in Ann's account.", Values: []string{"500", "EUR", "Ann"}, Rephrase: true, Response: "balance"},
		{Type: "text", Text: "The rate is 5 %.", Response: "rate"},
		{Type: "text", Text: "Once upon a time.", Rephrase: true, Generated: true},
		{Type: "text", Text: "Sorry, something went wrong. Please try again.", Rephrase: true, Response: "error_unknown"},
		{Type: "media", Rephrase: true},
		{Type: "buttons", Text: "Shall I go on?", Rephrase: true, Options: []dialogue.Option{{ID: "0", Label: "Yes"}}},
	}}
	var texts []string
	for _, m := range r.Messages {
		if m.Text != "" {
			texts = append(texts, m.Text)
		}
	}
	r.Text = strings.Join(texts, "\n")
	return r
}

func TestAReplyHasNewWordsAndItsOldValues(t *testing.T) {
	m := scripted.New(scripted.Text(`{"messages":["There are {1} {2} in {3}'s account for you.","Shall I go on with it?"]}`))
	got, err := nlg.NewRephraser(m, compile(t, friendly), model.Config{}).Rephrase(t.Context(), reply())
	if err != nil {
		t.Fatal(err)
	}
	want := reply()
	want.Messages[0].Text = "There are 500 EUR in Ann's account for you."
	want.Messages[5].Text = "Shall I go on with it?"
	want.Text = "There are 500 EUR in Ann's account for you.\nThe rate is 5 %.\nOnce upon a time.\nSorry, something went wrong. Please try again.\nShall I go on with it?"
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	asked := m.Last()
	if sent := asked.Messages[1].Text(); sent != `{"messages":["You have {1} {2} in {3}'s account.","Shall I go on?"]}` {
		t.Errorf("the model is shown %s", sent)
	}
	if rules := asked.Messages[0].Text(); !strings.Contains(rules, `tone "professional"`) || !strings.Contains(rules, `"en"`) {
		t.Errorf("the rules are %s", rules)
	}
}

func TestEachMessageWhoseWordsLoseSomethingStaysAsItIs(t *testing.T) {
	for _, x := range []struct{ first, reason string }{
		{"There are {1} {2} in the account.", "a value is missing"},
		{"There are {2} {1} in {3}'s account.", "stands elsewhere"},
		{"There are {1} {1} {2} in {3}'s account.", "stands elsewhere"},
		{"There are {1} {2} in {3}'s account, {4}.", "stands elsewhere"},
		{"There are {1}0 {2} in {3}'s account.", "a value is missing"},
		{"There are 500 EUR in Ann's account.", "a value is missing"},
		{"There are not {1} {2} in {3}'s account.", "another word before a value"},
		{"Are there {1} {2} in {3}'s account?", "a question"},
		{"There are {1} {2} in {3}'s account. Call 0900 1234.", "a number"},
		{"", "a value is missing"},
	} {
		var log bytes.Buffer
		r := nlg.NewRephraser(scripted.New(scripted.Text(`{"messages":["`+x.first+`","Shall I go on with it?"]}`)), compile(t, friendly), model.Config{})
		r.Log = slog.New(slog.NewTextHandler(&log, nil))
		got, err := r.Rephrase(t.Context(), reply())
		if err != nil {
			t.Fatal(err)
		}
		if got.Messages[0].Text != "You have 500 EUR in Ann's account." || got.Messages[5].Text != "Shall I go on with it?" || !strings.HasPrefix(got.Text, "You have 500 EUR in Ann's account.\n") {
			t.Errorf("%q gives %q", x.first, got.Text)
		}
		if !strings.Contains(log.String(), x.reason) || !strings.Contains(log.String(), "balance") || strings.Contains(log.String(), "500") {
			t.Errorf("%q is logged as %s, want %q and no value", x.first, &log, x.reason)
		}
	}
}

func TestARephraserThatFailsLeavesTheReply(t *testing.T) {
	down := &model.Error{Kind: model.ErrorOverloaded}
	for name, x := range map[string]scripted.Reply{
		"the provider is down":  scripted.Error(down),
		"no JSON":               scripted.Text("Sure!"),
		"one message too few":   scripted.Text(`{"messages":["Shall I go on?"]}`),
		"one message too many":  scripted.Text(`{"messages":["a","b","c"]}`),
		"messages are no texts": scripted.Text(`{"messages":[1,2]}`),
	} {
		got, err := nlg.NewRephraser(scripted.New(x), compile(t, friendly), model.Config{}).Rephrase(t.Context(), reply())
		if err == nil || !reflect.DeepEqual(got, reply()) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if name == "the provider is down" && !errors.Is(err, down) {
			t.Errorf("%s: the error %v doesn't wrap the provider's", name, err)
		}
	}
}

func TestAReplyWithNothingToWordAnewNeedsNoModel(t *testing.T) {
	r := dialogue.Reply{Language: "en", Text: "Hello.", Messages: []dialogue.Said{
		{Type: "text", Text: "Hello."},
		{Type: "text", Text: "It is {1}.", Rephrase: true},
		{Type: "text", Text: "It is 5.", Rephrase: true, Values: []string{"6"}},
	}}
	got, err := nlg.NewRephraser(scripted.New(), compile(t, friendly), model.Config{}).Rephrase(t.Context(), r)
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("%+v, %v", got, err)
	}
}
