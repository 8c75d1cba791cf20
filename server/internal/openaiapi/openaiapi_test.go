package openaiapi

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/superstep-dev/superstep/server/internal/turn"
)

func TestACallNamesItsQuestionAndNothingElseDoes(t *testing.T) {
	const thread, question = "0198f3c2-5b7a-7d10-8e21-4c3b2a190001", "bd96a875955ca7e7d9ea648de9ab86be"
	id, err := CallID(thread, question)
	if err != nil || len(id) != 40 {
		t.Fatal(id, err)
	}
	if th, q, ok := questionOf(id); !ok || th != thread || q != question[:24] {
		t.Errorf("%s is %s of %s", id, q, th)
	}
	for _, other := range []string{"", "call_1", id[:39], id + "A", "x" + id[1:], id[:39] + "!", id[:39] + "_"} {
		if _, _, ok := questionOf(other); ok {
			t.Errorf("%q counts as a question", other)
		}
	}
}

// What clients send is taken or refused with a text that says why, and never panics.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		`{"model":"a","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"tools":[{"type":"function","function":{"name":"ask"}}]}`,
		`{"messages":[{"role":"tool","tool_call_id":"q_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","content":"yes"}],"n":2}`,
		`{"input":[{"type":"function_call","call_id":"c","name":"n","arguments":"{"},{"role":"user","content":[{"type":"input_image","image_url":"http://x"}]}]}`,
		`{"input":"x","conversation":{"id":"conv_1"},"tool_choice":{"type":"function"},"metadata":{"thread_id":"x"}}`, `{"input":[null,1,{}]}`, `[]`, `{"tools":[null]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var body map[string]json.RawMessage
		if json.Unmarshal(data, &body) != nil {
			return
		}
		var messages []json.RawMessage
		_ = decode(body, map[string]any{"messages": &messages})
		var errs []error
		_, asked := asks(body["tools"], body["tool_choice"])
		said, err := inputOf(body["input"])
		errs = append(errs, check(body, chatParameters), check(body, responsesParameters), asked, err)
		for _, raw := range messages {
			if m, err := messageOf(raw); err == nil {
				said = append(said, m)
			}
		}
		_, err = answers(said, &turn.Request{})
		for _, err := range append(errs, err) {
			if f, ok := err.(*turn.Fault); err != nil && (!ok || f.Status != http.StatusBadRequest || f.Code == "" || f.Text == "") {
				t.Errorf("%s: %v", data, err)
			}
		}
	})
}
