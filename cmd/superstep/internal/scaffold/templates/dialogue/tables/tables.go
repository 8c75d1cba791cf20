// Package tables has the code of the assistant whose dialogues are in the YAML files
// beside it.
package tables

import (
	"context"
	"embed"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// Files are the dialogues.
//
//go:embed *.yaml
var Files embed.FS

// Booking is what the action is given, and Booked what it returns.
type (
	Booking struct {
		Guests int `json:"guests"`
	}
	Booked struct {
		Table int `json:"table"`
	}
)

// Book returns the action that books a table. Your reservations come here.
func Book() *action.Action {
	return action.New("book", func(_ context.Context, b Booking) (Booked, error) {
		if b.Guests > 6 {
			return Booked{}, &dialogue.Failure{Type: "full", Message: "We have no table for so many."}
		}
		return Booked{Table: 10 + b.Guests}, nil
	}, action.Effect(program.Irreversible))
}
