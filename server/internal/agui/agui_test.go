package agui

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/server/internal/turn"
)

func TestADeltaMakesTheNewStateOfTheOld(t *testing.T) {
	for _, tt := range []struct{ before, after, patch string }{
		{`{"a":1}`, `{"a":1}`, `[]`},
		{`{"a":1}`, `{"a":2}`, `[{"op":"replace","path":"/a","value":2}]`},
		{`{"a":1}`, `{"b":null}`, `[{"op":"remove","path":"/a"},{"op":"add","path":"/b","value":null}]`},
		{`{"a":9007199254740992}`, `{"a":9007199254740993}`, `[{"op":"replace","path":"/a","value":9007199254740993}]`},
		{`{"a":[1]}`, `{"a":[1,2,3]}`, `[{"op":"add","path":"/a/1","value":2},{"op":"add","path":"/a/2","value":3}]`},
		{`{"a":[1,2]}`, `{"a":[2]}`, `[{"op":"remove","path":"/a/0"}]`},
		{`{"a":[1,2,3,4]}`, `{"a":[0,4]}`, `[{"op":"replace","path":"/a/0","value":0},{"op":"remove","path":"/a/2"},{"op":"remove","path":"/a/1"}]`},
		{`{"a":{"b/c~d":1,"e":{"f":0}}}`, `{"a":{"b/c~d":2,"e":{"f":0}}}`, `[{"op":"replace","path":"/a/b~1c~0d","value":2}]`},
		{`{"a":{}}`, `{"a":[]}`, `[{"op":"replace","path":"/a","value":[]}]`},
	} {
		got := marshal(delta(json.RawMessage(tt.before), json.RawMessage(tt.after)))
		if string(got) != tt.patch {
			t.Errorf("from %s to %s: %s, want %s", tt.before, tt.after, got, tt.patch)
		}
	}
}

func TestAStateThatIsShorterThanWhatHasChangedInItIsToldWhole(t *testing.T) {
	window := func(from int) json.RawMessage {
		var items []map[string]int
		for i := range 100 {
			items = append(items, map[string]int{"n": from + i})
		}
		return marshal(map[string]any{"items": items})
	}
	var told []any
	teller := teller{put: func(e event) error { told = append(told, e["type"]); return nil }}
	for _, from := range []int{0, 1, 1} {
		if err := teller.values(window(from)); err != nil {
			t.Fatal(err)
		}
	}
	if want := []any{"STATE_SNAPSHOT", "STATE_SNAPSHOT"}; !reflect.DeepEqual(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

func TestAMessageReadsBackAsItIsShown(t *testing.T) {
	call := chat.ToolCall{ID: "c", Name: "f", Args: `{"a":1}`}
	for _, m := range []chat.Message{
		chat.User("hello"), chat.System("be"), chat.Assistant("well", call), chat.ResultText(call, "1"),
		{Role: chat.RoleUser, Parts: []chat.Part{chat.Text{Text: "see"}, chat.Image{Source: chat.Source{Data: []byte{1}, MIME: "image/png"}}, chat.File{Source: chat.Source{FileID: "f-1"}}, chat.Audio{Source: chat.Source{URL: "https://a.example/s.mp3"}}}},
	} {
		m.ID = "m-1"
		back, err := read(marshal(shown(m)))
		if r, ok := m.ToolResult(); ok {
			r.Name, m.Name = "", "" // the protocol has no name of a result's tool
			m.Parts = []chat.Part{r}
		}
		if err != nil || !reflect.DeepEqual(*back, m) {
			t.Errorf("%+v reads back as %+v: %v", m, back, err)
		}
	}
}

// What begins in a stream ends in it, once, whatever pieces a run tells.
func TestWhatBeginsEnds(t *testing.T) {
	var told []string
	tell := &teller{byIndex: map[string]string{}, usage: map[string]chat.Usage{}, put: func(e event) error {
		told = append(told, e["type"].(string))
		return nil
	}}
	for _, ev := range []turn.Event{
		&turn.Task{Node: "n", Begins: true}, &turn.Task{Node: "n", Begins: true}, &turn.Task{Node: "n"},
		&turn.Piece{Message: chat.Message{ID: "1", Role: chat.RoleAssistant, Parts: []chat.Part{chat.Reasoning{Text: "hm"}}}},
		&turn.Piece{Message: chat.Message{ID: "2", Role: chat.RoleAssistant, Parts: []chat.Part{chat.Text{Text: "beside"}}}},
		&turn.Piece{Message: chat.Message{ID: "1", Role: chat.RoleAssistant, Parts: []chat.Part{chat.Text{Text: "so"}}}, Calls: []turn.CallPiece{{ID: "c", Name: "f"}}},
		&turn.Piece{Message: chat.Message{ID: "1", Role: chat.RoleAssistant, Finish: chat.FinishToolCalls}, Calls: []turn.CallPiece{{Args: "{}"}}},
	} {
		if err := tell.tell(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := tell.end(); err != nil {
		t.Fatal(err)
	}
	want := "STEP_STARTED REASONING_START REASONING_MESSAGE_START REASONING_MESSAGE_CONTENT TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT REASONING_MESSAGE_END REASONING_END " +
		"TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END TEXT_MESSAGE_END TEXT_MESSAGE_END STEP_FINISHED"
	if got := strings.Join(told, " "); got != want {
		t.Errorf("it tells\n%s, want\n%s", got, want)
	}
}

// What clients send is taken or refused with a text that says why, and never panics.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{
		`{"id":"1","role":"user","content":[{"type":"image","source":{"type":"data","value":"AQ==","mimeType":"image/png"}}]}`, `{"id":"1","role":"tool","toolCallId":"c","error":"x"}`,
		`{"id":"1","role":"assistant","toolCalls":[{"id":"c","function":{"name":"f","arguments":"{"}}]}`, `{"role":"activity","content":{}}`, `{"id":1}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := read(data)
		if err != nil && err.Error() == "" {
			t.Errorf("%q is refused without a word", data)
		}
		if m == nil {
			return
		}
		if _, err := json.Marshal(shown(*m)); err != nil {
			t.Errorf("%q: %v", data, err)
		}
	})
}
