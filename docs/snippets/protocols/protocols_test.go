package protocols_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/server"
)

func Example_openAI() {
	ctx := context.Background()
	weather, err := agent.New(agent.ReAct[agent.State]{Name: "weather", Model: scripted.New(scripted.Text("It snows."))})
	if err != nil {
		panic(err)
	}
	s, err := server.New(ctx, server.Graph(weather))
	if err != nil {
		panic(err)
	}
	h := httptest.NewServer(s)
	defer h.Close()
	defer s.Close(ctx)

	m := openai.New("weather", openai.BaseURL(h.URL+"/v1"), openai.APIKey("none is needed"))
	travel, err := agent.New(agent.ReAct[agent.State]{Name: "travel", Model: m})
	if err != nil {
		panic(err)
	}
	snap, err := travel.Invoke(ctx, agent.Ask[agent.State]("Do I need a coat?"))
	if err != nil {
		panic(err)
	}
	fmt.Println(snap.State.LastResponse)
	// Output: It snows.
}
