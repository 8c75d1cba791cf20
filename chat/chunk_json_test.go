package chat_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/superstep-dev/superstep/chat"
)

func TestAChunkComesBackFromJSON(t *testing.T) {
	for want, k := range map[string]chat.Chunk{
		`{}`: {},
		`{"id":"1","role":"assistant","text":"<a>","tool_calls":[{"index":1,"id":"c","args":"{"}],"model":"m","finish":"stop","usage":{"input_tokens":1,"output_tokens":2},"metadata":{"k":"v"}}`: {
			ID: "1", Role: chat.RoleAssistant, Text: "<a>", ToolCalls: []chat.ToolCallChunk{{Index: 1, ID: "c", Args: "{"}},
			Model: "m", Finish: chat.FinishStop, Usage: &chat.Usage{Input: 1, Output: 2}, Metadata: map[string]string{"k": "v"},
		},
		`{"parts":{"type":"ai","content":[{"type":"reasoning","reasoning":"hm","extras":{"signature":"s"}},{"type":"image","base64":"cG5n","mime_type":"image/png"}]}}`: {
			Parts: []chat.Part{chat.Reasoning{Text: "hm", Signature: "s"}, chat.Image{Source: chat.Source{Data: []byte("png"), MIME: "image/png"}}},
		},
	} {
		data, err := json.Marshal(&k)
		if err != nil {
			t.Fatal(err)
		}
		var plain, wanted any
		if json.Unmarshal(data, &plain) != nil || json.Unmarshal([]byte(want), &wanted) != nil || !reflect.DeepEqual(plain, wanted) {
			t.Errorf("%+v became %s, want %s", k, data, want)
		}
		var back chat.Chunk
		if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, k) {
			t.Errorf("%s came back as %+v, %v", data, back, err)
		}
	}
}
