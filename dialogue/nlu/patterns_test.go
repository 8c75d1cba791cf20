package nlu_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/nlu"
)

func patterns(t *testing.T, text string) *nlu.Patterns {
	t.Helper()
	p, err := nlu.ParsePatterns([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPatternsMeanWhatCanBeMeantNow(t *testing.T) {
	prog := compile(t, trips(t))
	p := patterns(t, `
- match: staff
  start: staff
- match: 'book(?: (?P<seats>\d+) seats)?(?: for (?P<name>\w+))?'
  start: book
- match: ['^yes', '^sure']
  asked: confirm
  commands: [{type: affirm}]
- match: 'for (?P<name>\w+) instead'
- match: 'no more'
  asked: name
  commands: [{type: cancel_flow}]
`)
	asked := [][]dialogue.Command{{start("book")}}
	confirm := [][]dialogue.Command{{start("book"), set("name", expr.Str("Ann")), set("seats", expr.Num(2))}}
	all := []dialogue.Command{start("ask_all"), set("direct", expr.Bool(true)), set("name", expr.Str("Ann")), set("seats", expr.Num(1)), set("price", expr.Num(1)), set("day", expr.Str("2026-03-02")), set("hour", expr.Str("08:00"))}
	for _, x := range []struct {
		text  string
		turns [][]dialogue.Command
		want  []dialogue.Command
	}{
		{"Book 2 seats for Ann", nil, []dialogue.Command{{Type: "start_flow", Flow: "book", Slots: map[string]expr.Value{"seats": expr.Str("2"), "name": expr.Str("Ann")}}}},
		{"I'd like to BOOK", nil, []dialogue.Command{start("book")}},
		{"I am staff, so book", nil, []dialogue.Command{start("book")}}, // its guard hides the first
		{"yes, thank you", nil, nil},
		{"yes, thank you", confirm, []dialogue.Command{{Type: "affirm"}}},
		{"for Zoe instead", confirm, []dialogue.Command{{Type: "set_slot", Slot: "name", Value: expr.Str("Zoe"), Span: "Zoe"}}},
		{"for Zoe instead", nil, nil},
		{"no more", asked, []dialogue.Command{{Type: "cancel_flow"}}},
		{"no more", nil, nil},
		{"Ann Lee", asked, []dialogue.Command{{Type: "set_slot", Slot: "name", Value: expr.Str("Ann Lee"), Span: "Ann Lee"}}},
		{"we are 3.", append(asked, []dialogue.Command{set("name", expr.Str("Ann"))}), []dialogue.Command{{Type: "set_slot", Slot: "seats", Value: expr.Str("3"), Span: "3"}}},
		{"second, I think", [][]dialogue.Command{all}, []dialogue.Command{{Type: "set_slot", Slot: "class", Value: expr.Str("second"), Span: "second"}}},
		{"purple elephants", nil, nil},
		{"  ", nil, nil},
	} {
		in := dialogue.Understand{}
		if strings.TrimSpace(x.text) != "" {
			in = after(t, prog, x.text, x.turns...)
		}
		got, err := p.Understand(t.Context(), in)
		if err != nil || !reflect.DeepEqual(got, x.want) {
			t.Errorf("%q after %d turns: %+v, %v; want %+v", x.text, len(x.turns), got, err, x.want)
		}
	}
}

func TestPatternsThatAreWrongAreErrors(t *testing.T) {
	for _, x := range []struct{ text, says string }{
		{`- {start: book}`, "pattern 1 matches nothing"},
		{`- {match: hello}`, "pattern 1 means nothing"},
		{"- {match: '(', start: book}", "missing closing )"},
		{`- {match: x, commands: [{flow: book}]}`, `no command ""`},
		{`- {match: x, commands: [{type: complete_flow}]}`, `no command "complete_flow"`},
		{`- {match: x, comands: []}`, "comands"},
		{`- {match: x, commands: 3}`, "line 1: commands are a list"},
		{`- {match: {a: b}, start: book}`, "patterns: "},
		{`hello`, "patterns: "},
		{"- {match: '('}\n- {start: x}\n- {match: y}", "pattern 3 means nothing"},
	} {
		if _, err := nlu.ParsePatterns([]byte(x.text)); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: error %v, want one that says %q", x.text, err, x.says)
		}
	}
}
