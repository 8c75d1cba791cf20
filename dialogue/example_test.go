package dialogue_test

import (
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
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

func ExampleAdvance() {
	p, err := program.Compile(program.File{Name: "tables.yaml", Text: []byte(tables)})
	if err != nil {
		fmt.Println(err)
		return
	}
	state := dialogue.New("thread-1")
	say := func(text string, commands ...dialogue.Command) {
		fmt.Println(">", text)
		inputs := []dialogue.Input{dialogue.Message{Text: text, Time: time.Unix(0, 0)}}
		for len(inputs) > 0 {
			next, effects, err := dialogue.Advance(p, state, inputs[0])
			if err != nil {
				fmt.Println(err)
				return
			}
			state, inputs = next, inputs[1:]
			for _, e := range effects {
				switch {
				case e.Understand != nil:
					read, ok := dialogue.Read(p, state, e.Understand.Message)
					if !ok {
						read = commands // here a model would be asked
					}
					inputs = append(inputs, dialogue.Understood{Commands: read})
				case e.Action != nil:
					inputs = append(inputs, dialogue.Result{ID: e.Action.ID, Outputs: map[string]expr.Value{"table": expr.Num(12)}})
				case e.Reply != nil:
					fmt.Println(e.Reply.Text)
				}
			}
		}
	}
	say("I'd like a table", dialogue.Command{Type: dialogue.StartFlow, Flow: "book_table"})
	say("4")
	say("yes")
	// Output:
	// > I'd like a table
	// For how many?
	// > 4
	// A table for 4?
	// > yes
	// You have table 12.
}
