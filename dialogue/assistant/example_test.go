package assistant_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/program"
)

func ExampleNew() {
	p, err := program.Compile(program.File{Name: "greet.yaml", Text: []byte(`
version: "2.0"
slots:
  name: {type: string, ask: {text: "Who are you?"}}
flows:
  greet:
    description: Greet the user.
    steps:
    - collect: name
    - say: {text: "Hello {name}."}
`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := assistant.New(assistant.Config{Program: p, Understanding: hears{
		"hi":   {{Type: dialogue.StartFlow, Flow: "greet"}},
		"Anna": set("name", "Anna"),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, text := range []string{"hi", "Anna"} {
		reply, err := a.Say(context.Background(), "thread-1", dialogue.Message{Text: text})
		fmt.Println(reply.Text, err)
	}
	// Output:
	// Who are you? <nil>
	// Hello Anna. <nil>
}
