package chat_test

import (
	"reflect"
	"runtime"
	"strings"
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

// An answer may come in a hundred thousand pieces, and each is collected several
// times on its way.
func TestCollectingCostsWhatCame(t *testing.T) {
	const pieces = 20_000
	add := map[string]chat.Chunk{
		"text":      {Text: "word "},
		"reasoning": {Reasoning: "word "},
		"arguments": {ToolCalls: []chat.ToolCallChunk{{Args: "word "}}},
	}
	for name, chunk := range add {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var c chat.Collector
		for range pieces {
			c.Add(chunk)
		}
		m := c.Message()
		runtime.ReadMemStats(&after)
		got := m.Text() + m.Reasoning()
		if calls := m.ToolCalls(); len(calls) > 0 {
			got = calls[0].Args
		}
		if got != strings.Repeat("word ", pieces) {
			t.Errorf("%s: collected %d bytes", name, len(got))
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 100*uint64(len(got)) {
			t.Errorf("%s: %d bytes were allocated for %d", name, n, len(got))
		}
	}
}

func TestACollectedMessageIsNotAlteredByWhatComesLater(t *testing.T) {
	var c chat.Collector
	var seen []chat.Message
	for _, k := range []chat.Chunk{
		{Reasoning: "a"}, {Reasoning: "b"}, {Parts: []chat.Part{chat.Reasoning{Signature: "s"}}}, {Reasoning: "c"},
		{Text: "d"}, {Text: "e"}, {ToolCalls: []chat.ToolCallChunk{{Index: 1, Name: "f"}}}, {ToolCalls: []chat.ToolCallChunk{{Index: 0, Args: "0"}, {Index: 1, Args: "1"}}},
		{ToolCalls: []chat.ToolCallChunk{{Index: 1, Args: "1"}, {Index: 0, Args: "0"}}}, {Text: "g"},
	} {
		c.Add(k)
		seen = append(seen, c.Message())
	}
	want := []chat.Part{
		chat.Reasoning{Text: "ab", Signature: "s"}, chat.Reasoning{Text: "c"}, chat.Text{Text: "de"},
		chat.ToolCall{Name: "f", Args: "11"}, chat.ToolCall{Args: "00"}, chat.Text{Text: "g"},
	}
	if got := seen[len(seen)-1].Parts; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := seen[1].Parts; !reflect.DeepEqual(got, []chat.Part{chat.Reasoning{Text: "ab"}}) {
		t.Errorf("got %+v", got)
	}
	if got := seen[7].ToolCalls(); got[0].Args != "1" || got[1].Args != "0" {
		t.Errorf("got %+v", got)
	}
}
