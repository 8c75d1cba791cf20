package assistant_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/graph"
)

type seat struct {
	Origin      string `json:"origin"`
	Destination string `json:"destination"`
	Seats       int    `json:"seats"`
}

type ticket struct {
	Reference string `json:"reference"`
}

// A turn that was cut off in the middle goes on before the next message, also if the caller
// gives it up: its action has the key that it had.
func TestATurnIsNotPassedOver(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%v", restart), func(t *testing.T) {
			ctx, cut := context.WithCancel(t.Context())
			var calls []action.Call
			code, err := action.NewSet(
				action.New("order", func(ctx context.Context, in seat) (ticket, error) {
					calls = append(calls, action.CallOf(ctx))
					cut() // which cuts off the first one
					return ticket{"SU-42"}, ctx.Err()
				}, action.Effect(program.Irreversible)),
				action.New("find", func(context.Context, struct {
					Booking string `json:"booking"`
				}) (struct {
					Status string `json:"status"`
				}, error) {
					panic("nobody asked")
				}, action.Effect(program.Read)),
			)
			if err != nil {
				t.Fatal(err)
			}
			a := build(t, assistant.Config{Actions: code})
			for _, u := range []string{"Book a flight", "New York", "Paris", "2"} {
				say(t, a, u)
			}
			if _, err := a.Say(ctx, "anna", dialogue.Message{Text: "yes", ID: "m-yes"}, assistant.User("u-1")); err == nil {
				t.Fatal("the turn was not cut off")
			}
			thread, input := graph.JSON(a.Graph()).Thread("anna"), graph.UpdateWith([]byte(`{"text": "Check my booking"}`))
			req := thread.Input(input)
			if restart {
				req = thread.Restart(input)
			}
			if _, err := thread.Invoke(t.Context(), req, assistant.User("u-1")); err != nil {
				t.Fatal(err)
			}
			if len(calls) != 2 || calls[0] != calls[1] {
				t.Fatalf("calls of the order: %+v", calls)
			}
			if want := (action.Caller{User: "u-1", Thread: "anna", Language: "en"}); calls[1].Caller != want {
				t.Errorf("the order is called for %+v", calls[1].Caller)
			}
			d := state(t, a)
			var said []string
			for _, e := range d.Messages[len(d.Messages)-4:] {
				said = append(said, e.Text)
			}
			if want := []string{"yes", "Booked: SU-42.", "Check my booking", "Which booking?"}; !slices.Equal(said, want) {
				t.Errorf("it was said: %q", said)
			}
		})
	}
}
