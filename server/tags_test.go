package server_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

func TestClientsSeeTheTagsOfNodesAndNoTokensOfThoseThatAreNotStreamed(t *testing.T) {
	say := func(text string) func(context.Context, *trip) error {
		return func(ctx context.Context, s *trip) error {
			m := chat.AI(text)
			m.ID = text
			s.Messages.Add(m)
			return graph.EmitMessage(ctx, chat.ChunkOf(m))
		}
	}
	b := graph.New[trip]("tagged")
	b.AddNode("open", say("aloud"), graph.Tags("customer"))
	b.AddNode("quiet", say("unheard"), graph.Tags(graph.NoStream))
	b.AddSequence(graph.Start, "open", "quiet")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, server.Graph(g), quiet())
	told, chunks := "", ""
	for _, p := range c.streamed("/runs/stream", object{"assistant_id": "tagged", "input": object{}, "config": object{"tags": []string{"run"}}, "stream_mode": []string{"messages-tuple", "events"}}) {
		if p.event == "messages" {
			pair := p.data.([]any)
			told += fmt.Sprint(pair[0].(object)["type"], " ", pair[0].(object)["content"], " ", pair[1].(object)["tags"], "; ")
		}
		if o, ok := p.data.(object); ok && o["event"] == "on_chat_model_stream" {
			chunks += fmt.Sprint(o["tags"])
		}
	}
	// What the quiet node has put into the state is told whole.
	if want := "AIMessageChunk aloud [run customer]; ai unheard [run nostream]; "; told != want {
		t.Errorf("told %s", told)
	}
	if chunks != "[run customer]" {
		t.Errorf("events of the model: %s", chunks)
	}
	for _, n := range call[object](c, "GET", "/assistants/tagged/graph", nil)["nodes"].([]any) {
		if n := n.(object); n["id"] == "open" && fmt.Sprint(n["metadata"]) != "map[tags:[customer]]" {
			t.Errorf("the node is drawn as %v", n)
		}
	}
}
