// Extraction turns a text into a Go value.
//
// The schema that the model is told comes from the type. Its answer is checked
// against that, and by the type's Validate method: what is wrong can be told to
// the model, which tries again.
//
//	go run ./examples/extraction
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

const letter = `Dear Ms Keller, for the repair of your bicycle on 3 May we charge
two hours of work at 60 francs, and 45 francs for a chain. Please transfer 165
francs within 30 days. Veloshop Bern`

// Invoice is what is wanted of the letter.
type Invoice struct {
	From  string `json:"from" jsonschema:"who wants the money"`
	Items []Item `json:"items"`
	Total int    `json:"total" jsonschema:"in francs"`
}

// Item is a line of an invoice.
type Item struct {
	What   string `json:"what"`
	Amount int    `json:"amount" jsonschema:"in francs, for all pieces together"`
}

// Validate finds what no schema can: models miss things and miscount.
func (v Invoice) Validate() error {
	sum := 0
	for _, i := range v.Items {
		sum += i.Amount
	}
	if sum != v.Total {
		return fmt.Errorf("the items add up to %d, not to the total of %d", sum, v.Total)
	}
	return nil
}

func main() {
	m := demo.Model(
		scripted.Text(`{"from": "Veloshop Bern", "items": [{"what": "work", "amount": 60}, {"what": "chain", "amount": 45}], "total": 165}`).Times(2),
		scripted.Text(`{"from": "Veloshop Bern", "items": [{"what": "work", "amount": 120}, {"what": "chain", "amount": 45}], "total": 165}`),
	)
	req := &model.Request{Messages: []chat.Message{
		chat.System("You read letters for an accountant."),
		chat.User(letter),
	}}
	_, _, err := model.Generate[Invoice](context.Background(), m, req)
	fmt.Println("without repair:", err)

	// The model may try twice more. It is told the error.
	invoice, _, err := model.Generate[Invoice](context.Background(), m, req, model.Repair(2))
	if err != nil {
		log.Fatal(err)
	}
	for _, i := range invoice.Items {
		fmt.Printf("%6d  %s\n", i.Amount, i.What)
	}
	fmt.Printf("%6d  for %s\n", invoice.Total, invoice.From)
}
