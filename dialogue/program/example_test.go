package program_test

import (
	"fmt"

	"github.com/superstep-dev/superstep/dialogue/program"
)

func ExampleCompile() {
	_, err := program.Compile(program.File{Name: "bot.yaml", Text: []byte(`version: "2.0"
flows:
  greet:
    description: Greet the user.
    steps:
    - {say: {text: "Hello {nmae}!"}, jmup_to: end}
slots:
  name: {ask: {text: "Your name?"}}
`)})
	fmt.Println(err)
	// Output:
	// bot.yaml:6:28: error: flow "greet", step "say_1": slot "nmae" does not exist; did you mean "name"?
	// bot.yaml:6:38: error: flow "greet", step "say_1": unknown key "jmup_to"; did you mean "jump_to"?
}
