// Package actions_test has the code of the page about dialogues.
package actions_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing/fstest"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

type Booking struct {
	Guests int    `json:"guests"`
	Wish   string `json:"wish,omitempty"` // may be missing
}

type Table struct {
	Table int `json:"table"`
}

// restaurant is a service that takes a key: the same key is the same booking.
type restaurant struct{ tables map[string]int }

var errFull = errors.New("no table is free")

func (r restaurant) Book(_ context.Context, key string, guests int) (int, error) {
	if guests > 8 {
		return 0, errFull
	}
	if _, ok := r.tables[key]; !ok {
		r.tables[key] = 12 + len(r.tables)
	}
	return r.tables[key], nil
}

var tables = fstest.MapFS{"tables.yaml": {Data: []byte(`version: "2.0"
slots:
  guests: {type: integer, minimum: 1, maximum: 8, ask: {text: "For how many?"}, validate: even}
actions:
  book: {effect: irreversible, inputs: [guests], outputs: {tabel: integer}}
flows:
  book_table:
    description: Book a table.
    steps:
    - collect: guests
    - {confirm: [guests], ask: {text: "A table for {guests}?"}}
    - action: book
    - say: {text: "You have table {tabel}."}
`)}}

func Example_actions() {
	service := restaurant{map[string]int{}}
	//snippet:new
	book := action.New("book", func(ctx context.Context, in Booking) (Table, error) {
		table, err := service.Book(ctx, action.CallOf(ctx).ID, in.Guests)
		if errors.Is(err, errFull) {
			return Table{}, &dialogue.Failure{Type: "refused", Message: "we are full"}
		}
		return Table{table}, err
	}, action.Effect(program.Irreversible))
	//snippet:end

	//snippet:validator
	even := action.NewValidator("even", func(_ context.Context, guests int) (int, error) {
		if guests%2 != 0 {
			return 0, action.Refusal("our tables are for two, four, six or eight")
		}
		return guests, nil
	})
	//snippet:end

	assistant, err := program.Load(tables)
	if err != nil {
		log.Fatal(err)
	}
	//snippet:set
	code, err := action.NewSet(book, even)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(code.Check(assistant))
	//snippet:end
	for _, guests := range []float64{4, 4, 20} {
		r := code.Do(context.Background(), dialogue.ActionCall{ID: "t/book_table_1_a0/action_3/1", Action: "book", Inputs: map[string]expr.Value{"guests": expr.Num(guests)}})
		fmt.Println(r.Outputs, r.Error != nil)
	}
	fmt.Println(code.Validate(context.Background(), dialogue.Validation{Validator: "even", Value: expr.Num(3)}).Reason)
	// Output:
	// tables.yaml:5:3: error: action "book": its code has no output "tabel"; did you mean "table"?
	// map[table:12] false
	// map[table:12] false
	// map[] true
	// our tables are for two, four, six or eight
}

func Example_http() {
	ctx := context.Background()
	kitchen, err := action.NewSet(action.New("book", func(context.Context, Booking) (Table, error) { return Table{12}, nil }))
	if err != nil {
		log.Fatal(err)
	}
	//snippet:serve
	mux := http.NewServeMux()
	mux.Handle("/actions", allowed(action.Handler(kitchen)))
	//snippet:end
	server := httptest.NewServer(mux)
	defer server.Close()
	url, token := server.URL, "t0ken"
	//snippet:http
	remote, err := action.HTTP(ctx, url+"/actions", action.HTTPOptions{
		Header: http.Header{"Authorization": {"Bearer " + token}},
	})
	if err != nil {
		log.Fatal(err)
	}
	code, err := action.NewSet(remote...)
	//snippet:end
	if err != nil {
		log.Fatal(err)
	}
	r := code.Do(ctx, dialogue.ActionCall{ID: "t/book_table_1_a0/action_3/1", Action: "book", Inputs: map[string]expr.Value{"guests": expr.Num(4)}})
	fmt.Println(r.Outputs)
	// Output: map[table:12]
}

// allowed lets those in who have the token.
func allowed(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func Example_mcp() {
	ctx := context.Background()
	server, err := mcp.NewServer("weather", "1", tool.New("get-weather", "The weather.", func(_ context.Context, in struct {
		City string `json:"city"`
	}) (map[string]string, error) {
		return map[string]string{"sky": strings.ToLower(in.City)}, nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := mcp.Connect(ctx, mcp.Config{Transport: server.Local()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	//snippet:mcp
	tools, err := client.Tools(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var parts []action.Part
	for _, t := range tools {
		parts = append(parts, action.Tool(t, action.Effect(program.Read)))
	}
	code, err := action.NewSet(parts...)
	//snippet:end
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(code.Do(ctx, dialogue.ActionCall{ID: "t/w_1_a0/action_2/1", Action: "get_weather", Inputs: map[string]expr.Value{"city": expr.Str("Blue")}}).Outputs)
	// Output: map[sky:blue]
}
