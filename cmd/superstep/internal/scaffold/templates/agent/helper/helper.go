// Package helper is an agent that looks after the orders of a shop.
package helper

import (
	"context"
	"fmt"
	"regexp"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// Order is what the tools are asked for.
type Order struct {
	ID string `json:"id" jsonschema:"the number of the order, such as A-17" pattern:"^[A-Z]-[0-9]+$"`
}

// status looks an order up. Your database comes here.
func status(_ context.Context, o Order) (string, error) {
	if o.ID != "A-17" {
		return "", fmt.Errorf("there is no order %s", o.ID)
	}
	return "A-17 is packed, and leaves tomorrow", nil
}

// cancel cancels an order. A person approves each call first.
func cancel(_ context.Context, o Order) (string, error) { return o.ID + " is cancelled", nil }

// New returns the agent.
func New(m model.Model, opts ...graph.Option) (*graph.Graph[agent.State], error) {
	return agent.New(agent.ReAct[agent.State]{
		Name:        "helper",
		Model:       model.Retry(m, model.RetryPolicy{}),
		Instruction: "You help customers with their orders. Answer in a sentence or two. Look orders up; don't guess.",
		Tools: []tool.Tool{
			tool.New("order_status", "Tells where an order is.", status),
			tool.New("cancel_order", "Cancels an order.", cancel),
		},
		Approve: agent.Approve("cancel_order"),
		OnError: agent.TellModel, // of an order that there is not, for one
	}, opts...)
}

// Offline stands for a model, so that the program runs without a key: it looks up the
// order that the user names, and repeats what it is told.
func Offline() model.Model {
	return scripted.New(scripted.Func(func(_ context.Context, req *model.Request) (chat.Message, error) {
		last := req.Messages[len(req.Messages)-1]
		if result, ok := last.ToolResult(); ok {
			return chat.Assistant("This is what I was told: " + result.Text() + "."), nil
		}
		id := regexp.MustCompile(`[A-Z]-\d+`).FindString(last.Text())
		if id == "" {
			return chat.Assistant("I am no model, and know orders only, such as A-17. Set SUPERSTEP_MODEL to have one."), nil
		}
		called := "order_status"
		if regexp.MustCompile(`(?i)cancel`).MatchString(last.Text()) {
			called = "cancel_order"
		}
		return chat.Assistant("", chat.ToolCall{Name: called, Args: fmt.Sprintf(`{"id": %q}`, id)}), nil
	}).Repeat())
}
