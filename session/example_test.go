package session_test

import (
	"context"
	"fmt"
	"log"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/session"
)

func ExampleRunner() {
	g, err := agent.New(agent.ReAct[agent.State]{
		Model:       scripted.New(scripted.Text("Hello Ann!"), scripted.Text("Your name is Ann.")),
		Instruction: "You are brief. Answer in {user:lang?}.",
	})
	if err != nil {
		log.Fatal(err)
	}
	r, err := session.NewRunner("support", g)
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"My name is Ann.", "What is my name?"} {
		for ev, err := range r.Run(context.Background(), "ann", "s1", chat.User(text), session.WithValue("user:lang", "English")) {
			if err != nil {
				log.Fatal(err)
			}
			switch ev.Kind {
			case session.KindInput, session.KindModel:
				fmt.Printf("%s: %s\n", ev.Author, ev.Message.Text())
			}
		}
	}
	// Output:
	// user: My name is Ann.
	// agent: Hello Ann!
	// user: What is my name?
	// agent: Your name is Ann.
}

func ExampleFrom() {
	remember := func(ctx context.Context, _ *agent.State) error {
		s, err := session.From(ctx)
		if err != nil {
			return err
		}
		return s.Set(ctx, "user:lang", "de") // for all sessions of the user
	}
	_ = remember
}
