package chat_test

import (
	"reflect"
	"testing"

	"github.com/superstep-dev/superstep/chat"
)

func TestChunksAddUpToAMessage(t *testing.T) {
	use := &chat.Usage{Input: 1, Output: 2}
	for name, c := range map[string]struct {
		chunks []chat.Chunk
		want   chat.Message
	}{
		"nothing": {nil, chat.Message{Role: chat.RoleAssistant}},
		"text": {
			[]chat.Chunk{{ID: "m", Text: "Hel"}, {Text: "lo"}, {Finish: chat.FinishStop, Usage: use, Model: "x"}},
			chat.Message{ID: "m", Role: chat.RoleAssistant, Parts: []chat.Part{text("Hello")}, Finish: chat.FinishStop, Usage: use, Model: "x"},
		},
		"reasoning, its signature, text, two calls that come mixed": {
			[]chat.Chunk{
				{Reasoning: "h"}, {Reasoning: "m"}, {Parts: []chat.Part{chat.Reasoning{Signature: "s"}}}, {Text: "so"},
				{ToolCalls: []chat.ToolCallChunk{{Index: 0, ID: "c0", Name: "f", Args: `{"a"`}}},
				{ToolCalls: []chat.ToolCallChunk{{Index: 1, ID: "c1", Name: "g"}, {Index: 0, Args: `:1}`}}},
				{ToolCalls: []chat.ToolCallChunk{{Index: 1, Args: `{}`}}},
			},
			chat.Message{Role: chat.RoleAssistant, Parts: []chat.Part{
				chat.Reasoning{Text: "hm", Signature: "s"}, text("so"),
				chat.ToolCall{ID: "c0", Name: "f", Args: `{"a":1}`}, chat.ToolCall{ID: "c1", Name: "g", Args: `{}`},
			}},
		},
		"text after a call begins a new part": {
			[]chat.Chunk{{Text: "a"}, {ToolCalls: []chat.ToolCallChunk{{ID: "c", Name: "f"}}}, {Text: "b"}},
			chat.Message{Role: chat.RoleAssistant, Parts: []chat.Part{text("a"), chat.ToolCall{ID: "c", Name: "f"}, text("b")}},
		},
		"a signed text is whole": {
			[]chat.Chunk{{Parts: []chat.Part{chat.Text{Text: "a", Signature: "s"}}}, {Text: "b"}},
			chat.Message{Role: chat.RoleAssistant, Parts: []chat.Part{chat.Text{Text: "a", Signature: "s"}, text("b")}},
		},
		"a whole message is one chunk": {[]chat.Chunk{chat.ChunkOf(chat.User("hi"))}, chat.User("hi")},
	} {
		var sum chat.Collector
		for _, k := range c.chunks {
			sum.Add(k)
		}
		if got := sum.Message(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %#v\nwant %#v", name, got, c.want)
		}
	}
}

func TestACollectedMessageStaysAsItWas(t *testing.T) {
	var sum chat.Collector
	sum.Add(chat.Chunk{Text: "a"})
	first := sum.Message()
	sum.Add(chat.Chunk{Text: "b"})
	if first.Text() != "a" || sum.Message().Text() != "ab" {
		t.Errorf("%q, %q", first.Text(), sum.Message().Text())
	}
}
