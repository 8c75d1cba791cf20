package scripted_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

func Example() {
	m := scripted.New(
		scripted.Call("weather", `{"city":"Oslo"}`),
		scripted.Text("It rains in Oslo."),
	)
	ctx := context.Background()
	messages := []chat.Message{chat.User("How is Oslo?")}
	for {
		resp, err := m.Generate(ctx, &model.Request{Messages: messages})
		if err != nil {
			fmt.Println(err)
			return
		}
		messages = append(messages, resp.Message)
		calls := resp.Message.ToolCalls()
		if len(calls) == 0 {
			break
		}
		for _, c := range calls {
			fmt.Println(c.ID, c.Name, c.Args)
			messages = append(messages, chat.ResultText(c, "rain"))
		}
	}
	fmt.Println(messages[len(messages)-1].Text())
	fmt.Println(len(m.Requests()), "requests,", len(m.Last().Messages), "messages in the last")
	// Output:
	// call_1 weather {"city":"Oslo"}
	// It rains in Oslo.
	// 2 requests, 3 messages in the last
}

// Replies with a condition serve nodes that run at the same time.
func ExampleReply_When() {
	m := scripted.New(
		scripted.Text("Paris").When(scripted.Says("France")),
		scripted.Text("Rome").When(scripted.Says("Italy")),
		scripted.Text("No idea.").Repeat(),
	)
	for _, country := range []string{"Italy", "Spain", "France"} {
		resp, err := m.Generate(context.Background(), &model.Request{Messages: []chat.Message{chat.User("The capital of " + country + "?")}})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(resp.Message.Text())
	}
	// Output:
	// Rome
	// No idea.
	// Paris
}

// A recording of real answers makes a test that needs no provider, and that
// fails when what is asked changes.
func ExampleRecord() {
	var file bytes.Buffer
	rec := scripted.Record(scripted.New(scripted.Text("Hi!")), &file) // a provider's model
	req := &model.Request{Messages: []chat.Message{chat.User("Hello")}}
	if _, err := rec.Generate(context.Background(), req); err != nil {
		fmt.Println(err)
		return
	}

	m, err := scripted.Load(&file)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = m.Generate(context.Background(), &model.Request{Messages: []chat.Message{chat.User("Good day")}})
	var e *scripted.ScriptError
	if errors.As(err, &e) {
		fmt.Println(e.Diff[0])
	}
	resp, err := m.Generate(context.Background(), req)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Message.Text())
	// Output:
	// messages[0].parts[0].text: recorded "Hello", now "Good day"
	// Hi!
}
