package model_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

// A function is a model: here it wants a tool called and then says what that
// returned.
func ExampleFunc() {
	m := model.Func(func(_ context.Context, req *model.Request) (*model.Response, error) {
		last := req.Messages[len(req.Messages)-1]
		if r, ok := last.ToolResult(); ok {
			return &model.Response{Message: chat.Assistant("It is " + r.Text() + ".")}, nil
		}
		return &model.Response{Message: chat.Assistant("", chat.ToolCall{ID: "1", Name: "clock"})}, nil
	})

	req := &model.Request{Messages: []chat.Message{chat.User("What time is it?")}, Tools: []chat.ToolSpec{{Name: "clock"}}}
	for {
		resp, err := m.Generate(context.Background(), req)
		if err != nil {
			fmt.Println(err)
			return
		}
		calls := resp.Message.ToolCalls()
		if len(calls) == 0 {
			fmt.Println(resp.Message.Text())
			return
		}
		req.Messages = append(req.Messages, resp.Message, chat.ResultText(calls[0], "noon"))
	}
	// Output: It is noon.
}

// Wrappers nest. What is asked first stands outside.
func Example() {
	busy := scripted.New(scripted.Error(&model.Error{Provider: "busy", Kind: model.ErrorOverloaded}).Repeat())
	calm := scripted.New(scripted.Text("Hello!").Usage(chat.Usage{Input: 1_000_000, Output: 2}))

	budget := &model.Budget{MaxCost: 5}
	limits := &model.Limiter{Requests: 60}
	m := model.Fallback(
		model.Retry(busy, model.RetryPolicy{MaxAttempts: 2, Initial: time.Millisecond}),
		model.Budgeted(model.RateLimit(calm, limits), budget, model.Prices{Input: 3, Output: 15}),
	)
	m = model.Cached(m, "greetings", &model.LRU{TTL: time.Hour})

	for range 2 {
		resp, err := m.Generate(context.Background(), &model.Request{Messages: []chat.Message{chat.User("Hi")}})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(resp.Message.Text(), resp.Cached)
	}
	fmt.Printf("%.2f\n", budget.Spent().Cost)
	// Output:
	// Hello! false
	// Hello! true
	// 3.00
}

func ExampleGenerate() {
	type Recipe struct {
		Dish    string   `json:"dish" jsonschema:"what it is called"`
		Minutes int      `json:"minutes"`
		Needs   []string `json:"needs"`
	}
	m := scripted.New(
		scripted.Text(`{"dish": "omelette", "minutes": "ten"}`),
		scripted.Text(`{"dish": "omelette", "minutes": 10, "needs": ["eggs", "butter"]}`),
	)
	recipe, _, err := model.Generate[Recipe](context.Background(), m,
		&model.Request{Messages: []chat.Message{chat.User("Something with eggs?")}}, model.Repair(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(recipe.Dish, recipe.Minutes, recipe.Needs)
	// Output: omelette 10 [eggs butter]
}

func ExampleBudgeted() {
	budget := &model.Budget{MaxTokens: 100}
	m := model.Budgeted(scripted.New(scripted.Text("…").Usage(chat.Usage{Input: 90, Output: 20}).Repeat()), budget, model.Prices{})
	for {
		_, err := m.Generate(context.Background(), &model.Request{Messages: []chat.Message{chat.User("More!")}})
		var used *model.BudgetError
		if errors.As(err, &used) {
			fmt.Println(used.Limit, used.Spent, "of", used.Max)
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output: tokens 110 of 100
}
