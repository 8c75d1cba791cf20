package remote_test

import (
	"encoding/json"
	"testing"

	"github.com/superstep-dev/superstep/remote"
)

func TestBlocksThatNobodyKnowsLeaveTheOthersOfAMessage(t *testing.T) {
	for content, want := range map[string]string{
		`"a"`: "a",
		`[{"type":"text","text":"b"},{"type":"weird"},{"type":"text_delta","text":"c"}]`: "bc",
		`[{"type":"weird"}]`: "",
	} {
		message := `{"type":"ai","id":"1","content":` + content + `}`
		if m, ok := remote.MessageOf(json.RawMessage(message)); !ok || m.Text() != want || m.ID != "1" {
			t.Errorf("%s is %+v, %v, want %q", message, m, ok, want)
		}
		if k, ok := remote.ChunkOf(json.RawMessage(`[` + message + `,{}]`)); !ok || k.Text != want && (len(k.Parts) == 0 || want == "") {
			t.Errorf("the chunk of %s is %+v, %v, want %q", message, k, ok, want)
		}
	}
	if m, ok := remote.MessageOf(json.RawMessage(`{"type":"nobody","content":"a"}`)); ok {
		t.Errorf("a message of nobody is %+v", m)
	}
}
