package action_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

func ExampleNew() {
	type In struct {
		Guests int    `json:"guests"`
		Wish   string `json:"wish,omitempty"`
	}
	type Out struct {
		Table int `json:"table"`
	}
	book := action.New("book", func(ctx context.Context, in In) (Out, error) {
		if in.Guests > 8 {
			return Out{}, &dialogue.Failure{Type: "refused", Message: "we have no table of this size"}
		}
		fmt.Println("booked once for", action.CallOf(ctx).ID)
		return Out{Table: 12}, nil
	}, action.Effect(program.Irreversible))

	set, err := action.NewSet(book)
	if err != nil {
		fmt.Println(err)
		return
	}
	call := dialogue.ActionCall{ID: "t1/book_table_1_a0/action_3/1", Action: "book", Inputs: map[string]expr.Value{"guests": expr.Num(4)}}
	fmt.Println(set.Do(context.Background(), call).Outputs)
	call.Inputs = map[string]expr.Value{"guests": expr.Num(20)}
	fmt.Println(set.Do(context.Background(), call).Error)
	// Output:
	// booked once for t1/book_table_1_a0/action_3/1
	// map[table:12]
	// refused: we have no table of this size
}

func ExampleNewValidator() {
	name := action.NewValidator("person_name", func(_ context.Context, v string) (string, error) {
		if strings.ContainsAny(v, "0123456789") {
			return "", action.Refusal("a name has no digits")
		}
		return strings.Join(strings.Fields(v), " "), nil
	})
	set, err := action.NewSet(name)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range []string{" Bob   Ray ", "B0b"} {
		out := set.Validate(context.Background(), dialogue.Validation{Validator: "person_name", Value: expr.Str(v)})
		fmt.Printf("%q %q\n", out.Value, out.Reason)
	}
	// Output:
	// "Bob Ray" ""
	// "" "a name has no digits"
}

func ExampleSet_Check() {
	p, err := program.Compile(program.File{Name: "tables.yaml", Text: []byte(`version: "2.0"
slots: {guests: {type: integer, ask: {text: "For how many?"}}}
actions:
  book: {inputs: [guests], outputs: {table: integer}}
  cancel: {inputs: [table]}
flows:
  book_table:
    description: Book a table.
    steps: [{collect: guests}, {action: book}, {action: cancel}]
`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	type In struct {
		Guests int `json:"guest"`
	}
	type Out struct {
		Table int `json:"table"`
	}
	set, err := action.NewSet(action.New("book", func(context.Context, In) (Out, error) { return Out{Table: 12}, nil }))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(set.Check(p))
	// Output:
	// tables.yaml:4:3: error: action "book": its code has no input "guests"; did you mean "guest"?
	// tables.yaml:4:3: error: action "book": its code needs the input "guest"; add it to inputs
	// tables.yaml:5:3: error: action "cancel" has no code; known are book
}
