package nlg_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/nlg"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

func ExampleKeeps() {
	const original = "Der Betrag ist 1.234,50 EUR."
	fmt.Printf("%q\n", nlg.Keeps(original, "Als Betrag ist 1.234,50 EUR vermerkt.", nil, "de"))
	fmt.Printf("%q\n", nlg.Keeps(original, "Der Betrag ist 1,234.50 EUR.", nil, "de"))
	fmt.Printf("%q\n", nlg.Keeps(original, "Der Betrag ist nicht 1.234,50 EUR.", nil, "de"))
	// Output:
	// ""
	// "a number is missing, changed or new"
	// "a negation is missing, changed or new"
}

func ExampleGenerator() {
	p, err := program.Compile(program.File{Name: "hotel.yaml", Text: []byte(`
version: "2.0"
flows: {bye: {description: Says goodbye., steps: [{generate: {instruction: Say goodbye., context: []}}]}}
`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	m := scripted.New(scripted.Text("Have a good trip to Rome!"))
	g := nlg.NewGenerator(m, p, model.Config{})
	answer := g.Generate(context.Background(), dialogue.ModelCall{
		Instruction: "Say goodbye.", Context: map[string]expr.Value{"city": expr.Str("Rome")}, Language: "en",
	})
	fmt.Println(answer.Text, answer.Error)
	// Output: Have a good trip to Rome! <nil>
}

func ExampleRephraser() {
	p, err := program.Compile(program.File{Name: "bank.yaml", Text: []byte(`
version: "2.0"
settings: {rephrase: {enabled: true, tone: friendly}}
flows: {hello: {description: Greets., steps: [{say: {text: Hello.}}]}}
`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	// The model is shown: Your balance is {1} {2}.
	m := scripted.New(scripted.Text(`{"messages": ["I had a look: your balance is {1} {2}."]}`))
	r := nlg.NewRephraser(m, p, model.Config{})
	reply, err := r.Rephrase(context.Background(), dialogue.Reply{Language: "en", Messages: []dialogue.Said{
		{Type: "text", Text: "Your balance is 84.30 EUR.", Rephrase: true, Values: []string{"84.30", "EUR"}},
	}})
	fmt.Println(reply.Text, err)
	// Output: I had a look: your balance is 84.30 EUR. <nil>
}
