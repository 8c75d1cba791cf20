package nlu_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/nlu"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/model/scripted"
)

// A message that may start a flow, as a conversation asks for it to be understood.
var tableForFour = dialogue.Understand{
	Message:  dialogue.Message{Text: "A table for four, please"},
	Language: "en",
	Flows: []dialogue.FlowOffer{{
		Name: "book_table", Description: "Book a table.",
		Slots: []dialogue.SlotOffer{{Flow: "book_table", Name: "guests", Type: program.Integer}},
	}},
}

func ExampleNew() {
	m := scripted.New(scripted.Text(`{"commands": [{"type": "start_flow", "flow": "book_table", "slots": [{"slot": "guests", "value": 4}]}]}`))
	u := nlu.New(m, nlu.Options{})
	cmds, err := u.Understand(context.Background(), tableForFour)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range cmds {
		fmt.Println(c.Type, c.Flow, c.Slots["guests"])
	}
	// Output: start_flow book_table 4
}

func ExampleUnderstander_Request() {
	req, err := nlu.New(nil, nlu.Options{}).Request(context.Background(), tableForFour)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(req.Messages[1].Text())
	// Output: {"flows":[{"flow":"book_table","about":"Book a table.","slots":["guests"]}],"slots":[{"slot":"guests","type":"integer"}],"question":null,"language":"en","message":"A table for four, please"}
}

func ExampleScript() {
	s := nlu.Script{"A table for four, please": {{Type: dialogue.StartFlow, Flow: "book_table"}}}
	cmds, err := s.Understand(context.Background(), tableForFour)
	fmt.Println(cmds[0].Flow, err)
	_, err = s.Understand(context.Background(), dialogue.Understand{Message: dialogue.Message{Text: "Hello"}})
	fmt.Println(err)
	// Output:
	// book_table <nil>
	// the script doesn't say what "Hello" means
}

func ExampleParsePatterns() {
	p, err := nlu.ParsePatterns([]byte(`
- match: 'table for (?P<guests>\w+)'
  start: book_table
- match: [cancel, never mind]
  commands: [{type: cancel_flow}]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	cmds, err := p.Understand(context.Background(), tableForFour)
	fmt.Println(cmds[0].Flow, cmds[0].Slots["guests"], err)
	// Output: book_table four <nil>
}
