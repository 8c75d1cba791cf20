// Package assistants_test has the code of the page about dialogues that runs on threads.
package assistants_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/graph"
)

var files = fstest.MapFS{"tables.yaml": {Data: []byte(`version: "2.0"
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
`)}}

type Booking struct {
	Guests int `json:"guests"`
}

type Table struct {
	Table int `json:"table"`
}

type words map[string][]dialogue.Command

// Understand stands in for a model.
func (w words) Understand(_ context.Context, in dialogue.Understand) ([]dialogue.Command, error) {
	return w[in.Message.Text], nil
}

var understanding = words{"A table, please": {{Type: dialogue.StartFlow, Flow: "book_table"}}}

func Example() {
	ctx := context.Background()
	tables, err := program.Load(files)
	if err != nil {
		log.Fatal(err)
	}
	code, err := action.NewSet(action.New("book", func(context.Context, Booking) (Table, error) {
		return Table{12}, nil
	}, action.Effect(program.Irreversible)))
	if err != nil {
		log.Fatal(err)
	}
	store := checkpoint.NewMemory()

	//snippet:new
	a, err := assistant.New(assistant.Config{Program: tables, Actions: code, Understanding: understanding, Store: store})
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"A table, please", "4", "yes"} {
		reply, err := a.Say(ctx, "anna", dialogue.Message{Text: text})
		fmt.Println(reply.Text, err)
	}
	//snippet:end
	// Output:
	// For how many? <nil>
	// A table for 4? <nil>
	// You have table 12. <nil>
}

func Example_threads() {
	ctx := context.Background()
	tables, err := program.Load(files)
	if err != nil {
		log.Fatal(err)
	}
	code, err := action.NewSet(action.New("book", func(context.Context, Booking) (Table, error) {
		return Table{12}, nil
	}, action.Effect(program.Irreversible)))
	if err != nil {
		log.Fatal(err)
	}
	a, err := assistant.New(assistant.Config{Program: tables, Actions: code, Understanding: understanding})
	if err != nil {
		log.Fatal(err)
	}
	//snippet:threads
	t := a.Graph().Thread("anna")
	snap, err := t.Invoke(ctx, t.Input(func(s *assistant.State) error {
		return s.Begin(assistant.Input{UserMessage: "A table, please"})
	}))
	var q assistant.Question
	fmt.Println(snap.Next, json.Unmarshal(snap.Interrupts[0].Raw, &q), q.Type, q.Slot, q.Prompt, err)

	snap, err = t.Invoke(ctx, t.Answer("4"))
	d := snap.State.Dialogue()
	guests, _ := d.Slot("guests")
	fmt.Println(guests, d.WaitingForSlot, err)

	// What would have come of another answer?
	for e, err := range t.History(ctx, graph.HistoryQuery{WhereNext: "collect_next_slot"}) {
		if err != nil {
			log.Fatal(err)
		}
		if s, err := e.State(ctx); err == nil && s.WaitingForSlot == "guests" {
			then := t.At(e.Checkpoint)
			other, err := then.Invoke(ctx, then.Input(func(s *assistant.State) error {
				return s.Begin(assistant.Input{UserMessage: "8"})
			}))
			fmt.Println(other.State.LastResponse, err)
			break
		}
	}
	//snippet:end
	// Output:
	// [collect_next_slot] <nil> collect guests For how many? <nil>
	// 4 confirm:confirm_2 <nil>
	// A table for 8? <nil>
}
