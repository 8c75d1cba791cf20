package assistant_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

const tables = `
version: "2.0"
slots:
  guests: {type: integer, minimum: 1, maximum: 8, ask: {text: "For how many?"}}
actions:
  book: {effect: irreversible, inputs: [guests], outputs: {table: integer}}
flows:
  book_table:
    description: Book a table.
    steps:
    - collect: guests
    - {confirm: [guests], ask: {text: "A table for {guests}?"}}
    - action: book
    - say: {text: "You have table {table}."}
`

type desk struct{ booked []string }

func (d *desk) Do(_ context.Context, call dialogue.ActionCall) dialogue.Result {
	d.booked = append(d.booked, call.ID)
	return dialogue.Result{Outputs: map[string]expr.Value{"table": expr.Num(12)}}
}

func (d *desk) Validate(context.Context, dialogue.Validation) dialogue.Validated {
	return dialogue.Validated{}
}

func (d *desk) Check(*program.Program) error { return nil }

type hears map[string][]dialogue.Command

func (h hears) Understand(_ context.Context, in dialogue.Understand) ([]dialogue.Command, error) {
	cmds, ok := h[in.Message.Text]
	if !ok {
		return nil, fmt.Errorf("nobody understands %q", in.Message.Text)
	}
	return cmds, nil
}

func compile(t *testing.T, text string) *program.Program {
	t.Helper()
	p, err := program.Compile(program.File{Name: "tables.yaml", Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestATableIsBooked(t *testing.T) {
	d := &desk{}
	a, err := assistant.New(assistant.Config{
		Program: compile(t, tables), Actions: d,
		Understanding: hears{"a table, please": {{Type: dialogue.StartFlow, Flow: "book_table"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range []struct{ u, says string }{
		{"a table, please", "For how many?"},
		{"nine hundred", ""},
		{"4", "A table for 4?"},
		{"yes", "You have table 12."},
	} {
		r, err := a.Say(t.Context(), "anna", dialogue.Message{Text: turn.u})
		fmt.Println(turn.u, "->", r.Text, err)
		s, err := a.Graph().Thread("anna").State(t.Context())
		fmt.Println("   ", s.Next, len(s.Interrupts), s.Step, s.Recent, err)
	}
	fmt.Println(d.booked)
}
