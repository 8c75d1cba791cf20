package dialoguetest_test

import (
	"fmt"

	"github.com/superstep-dev/superstep/dialogue/dialoguetest"
)

func ExampleRunner() {
	list, err := dialoguetest.Parse([]byte(`
- id: a-table-for-four
  program:
    version: "2.0"
    slots: {guests: {type: integer, maximum: 8, ask: {text: "For how many?"}}}
    actions: {book: {effect: irreversible, inputs: [guests], outputs: {table: integer}}}
    flows:
      book_table:
        description: Book a table.
        steps:
        - collect: guests
        - {confirm: [guests], ask: {text: "A table for {guests}?"}}
        - action: book
        - say: {text: "You have table {table}."}
  stub: {book: [{table: 12}]}
  turns:
  - {u: "A table, please", cmd: [start book_table], has: ["For how many?"], wait: guests}
  - {u: "4", has: ["A table for 4?"], wait: "confirm:confirm_2", calls: []}
  - {u: "yes", has: ["table 13"], calls: [book], call_args: {book: {guests: 4}}, stack: []}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range list {
		for _, failure := range new(dialoguetest.Runner).Run(s, list) {
			fmt.Println(failure)
		}
	}
	// Output:
	// turn 3: has: no "table 13" in "You have table 12."
}
