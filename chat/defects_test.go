package chat_test

import (
	"encoding/json"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
)

// Anthropic sends the text of a document as it is, not in base64: "Hello123" is
// both, so that it was taken for six other bytes.
func TestATextDocumentOfAnthropicIsItsText(t *testing.T) {
	for _, text := range []string{"Hello123", "no base64: äöü"} {
		data, err := json.Marshal(map[string]any{"role": "user", "content": []any{map[string]any{
			"type": "document", "title": "a.txt", "source": map[string]any{"type": "text", "media_type": "text/plain", "data": text},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		var m chat.Message
		if err := json.Unmarshal(data, &m); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		want := []chat.Part{chat.File{Source: chat.Source{Data: []byte(text), MIME: "text/plain"}, Name: "a.txt"}}
		if !reflect.DeepEqual(m.Parts, want) {
			t.Errorf("got %+v, want %+v", m.Parts, want)
		}
	}
}

// Readers of OpenAI's shape parse the arguments, and "" is no JSON.
func TestACallWithoutArgumentsHasAnEmptyObjectInOpenAIsShape(t *testing.T) {
	data, err := json.Marshal(chat.OpenAI(chat.Assistant("", chat.ToolCall{ID: "1", Name: "f"})))
	want := `{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	if err != nil || string(data) != want {
		t.Errorf("%v\n got %s\nwant %s", err, data, want)
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

// What JSON can't hold is not in a live conversation either: it would be another
// one once it was stored.
func TestALiveConversationIsTheStoredOne(t *testing.T) {
	bad := "caf\xe9\xff"
	call := chat.ToolCall{ID: "1" + bad, Name: bad, Args: bad}
	said := chat.Assistant(bad, call)
	said.Parts = append([]chat.Part{chat.Reasoning{Text: bad}, chat.File{Name: bad, Source: chat.Source{FileID: "f"}}}, said.Parts...)
	said.Name = bad
	messages := []chat.Message{chat.User(bad), said, chat.Result(call, chat.Text{Text: bad}, chat.Audio{Transcript: bad, Source: chat.Source{FileID: "f"}}), {ID: bad, Role: chat.RoleUser}}
	var h, back chat.History
	h.Add(messages...)
	data, err := json.Marshal(h)
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if err != nil || !reflect.DeepEqual(h.Slice(), back.Slice()) {
		t.Errorf("%v\nlive   %+v\nstored %+v", err, h.Slice(), back.Slice())
	}
	if got := chat.AppendMessages(messages...).Apply(nil); !reflect.DeepEqual(got, back.Slice()) {
		t.Errorf("as an update %+v", got)
	}
	if said.Parts[2] != (chat.Text{Text: bad}) {
		t.Error("the message that was added was altered")
	}
}
