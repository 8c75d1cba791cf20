// A command line for the assistant of the tutorial of dialogues, with its code.
//
//snippet:program
package main

import (
	"context"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/program"
)

type Booking struct {
	Guests int `json:"guests"`
}

type Booked struct {
	Table int `json:"table"`
}

func book(_ context.Context, b Booking) (Booked, error) {
	if b.Guests > 6 {
		return Booked{}, &dialogue.Failure{Type: "full", Message: "We have no table for so many."}
	}
	return Booked{Table: 10 + b.Guests}, nil
}

func main() {
	cli.Main(cli.Program("tables", "Books tables."), cli.Dialogue(cli.Dialogues{
		Code: []action.Part{action.New("book", book, action.Effect(program.Irreversible))},
	}))
}

//snippet:end
