package agenttest_test

import (
	"encoding/json"
	"testing"

	"github.com/superstep-dev/superstep/agenttest"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graphtest"
	"github.com/superstep-dev/superstep/model"
)

func call(id, name, args string) chat.ToolCall { return chat.ToolCall{ID: id, Name: name, Args: args} }

// everything has a message of each kind.
func everything() []chat.Message {
	c1, c2, bad := call("a1b2", "weather", `{ "city": "Bern",  "days": 2.0 }`), call("c3d4", "now", ""), call("", "weather", `{"city":`)
	return []chat.Message{
		chat.System("Be brief.\nBe kind."),
		{Role: chat.RoleUser, Name: "Ann", ID: "m1", Metadata: map[string]string{"a": "b"}, Parts: []chat.Part{
			chat.Text{Text: "What is this?"},
			chat.Image{Source: chat.Source{URL: "https://example.com/a.png"}, Detail: "low"},
			chat.File{Source: chat.Source{Data: []byte("%PDF"), MIME: "application/pdf"}, Name: "a.pdf"},
			chat.Audio{Source: chat.Source{FileID: "f-1"}, Transcript: "hm"},
			chat.Text{Text: "And the weather?"},
		}},
		{Role: chat.RoleAssistant, Model: "m", Finish: chat.FinishToolCalls, Usage: &chat.Usage{Input: 1}, Parts: []chat.Part{
			chat.Reasoning{Text: "I look.\nTwice.", Signature: "x"}, chat.Reasoning{Redacted: true, Signature: "y"},
			chat.Text{Text: "I look."}, c1, c2, bad,
		}},
		chat.ResultText(c1, "sunny,\n12 degrees"),
		chat.Result(c2),
		{Role: chat.RoleTool, Name: "weather", Parts: []chat.Part{chat.ToolResult{Name: "weather", IsError: true, Artifact: json.RawMessage(`1`),
			Content: []chat.Part{chat.Text{Text: "no"}, chat.Image{Source: chat.Source{Data: []byte("1"), MIME: "image/png"}}}}}},
		{Role: chat.RoleAssistant, Finish: chat.FinishLength, Parts: []chat.Part{chat.Text{Text: "Sun"}}},
		{Role: chat.RoleAssistant, Finish: chat.FinishStop},
	}
}

func TestATranscriptHasAllThatAModelIsTold(t *testing.T) {
	graphtest.Golden(t, "transcript", agenttest.Transcript(everything()))
}

func TestATranscriptIsTheSameForOtherIDs(t *testing.T) {
	other := everything()
	for i, m := range other {
		m.ID = "x"
		for k, p := range m.Parts {
			switch p := p.(type) {
			case chat.ToolCall:
				if p.ID != "" {
					p.ID = "z" + p.ID
				}
				m.Parts[k] = p
			case chat.ToolResult:
				if p.CallID != "" {
					p.CallID = "z" + p.CallID
				}
				m.Parts[k] = p
			}
		}
		other[i] = m
	}
	if a, b := agenttest.Transcript(everything()), agenttest.Transcript(other); a != b {
		t.Errorf("%s\nand\n%s", a, b)
	}
}

func TestRequestsAreWrittenWithoutWhatTheyRepeat(t *testing.T) {
	temperature := 0.5
	c := call("a1b2", "weather", `{}`)
	tools := []chat.ToolSpec{{Name: "weather", Description: "Tells the weather.", Schema: json.RawMessage(`{"type":"object"}`), Strict: true}, {Name: "now"}}
	first := []chat.Message{chat.System("Be brief."), chat.User("Weather?")}
	second := append(first[:2:2], chat.Assistant("", c), chat.ResultText(c, "sunny"))
	graphtest.Golden(t, "requests", agenttest.FormatRequests([]*model.Request{
		{Messages: first, Tools: tools, Config: model.Config{Model: "m", Temperature: &temperature}},
		{Messages: second, Tools: tools, ToolChoice: model.ToolNone},
		{Messages: second[2:], Tools: tools[:1], Output: &model.Schema{Name: "city", Schema: json.RawMessage(`{"type":"object"}`)}},
		{},
	}))
}

func TestWhatAConversationLacks(t *testing.T) {
	c1, c2 := call("1", "f", ""), call("2", "g", "")
	u := chat.User("go")
	for name, c := range map[string]struct {
		messages []chat.Message
		want     string // of the error
	}{
		"nothing":                               {nil, ""},
		"nothing with results in any order":     {[]chat.Message{chat.System("s"), u, chat.Assistant("", c1, c2), chat.ResultText(c2, "b"), chat.System("now"), chat.ResultText(c1, "a"), chat.Assistant("done")}, ""},
		"nothing in an ID used again":           {[]chat.Message{u, chat.Assistant("", c1), chat.ResultText(c1, "a"), chat.Assistant("", c1), chat.ResultText(c1, "b")}, ""},
		"a result at the end":                   {[]chat.Message{u, chat.Assistant("", c1, c2), chat.ResultText(c1, "a")}, `message 2: the call "2" of g has no result`},
		"a result in time":                      {[]chat.Message{u, chat.Assistant("", c1), chat.User("hm"), chat.ResultText(c1, "a")}, "message 2: the call \"1\" of f has no result\nmessage 4: a result of f, whose call \"1\" is not in the message before it"},
		"a call":                                {[]chat.Message{u, chat.ResultText(c1, "a")}, `message 2: a result of f, whose call "1" is not in the message before it`},
		"one result less":                       {[]chat.Message{u, chat.Assistant("", c1), chat.ResultText(c1, "a"), chat.ResultText(c1, "a")}, `message 4: another result of the call "1" of f`},
		"an ID":                                 {[]chat.Message{u, chat.Assistant("", call("", "f", "")), chat.ResultText(call("", "f", ""), "a")}, `message 2: a call of f has no ID`},
		"another ID":                            {[]chat.Message{u, chat.Assistant("", c1, c1), chat.ResultText(c1, "a")}, "message 2: two calls have the ID \"1\"\nmessage 2: the call \"1\" of f has no result"},
		"the assistant's role":                  {[]chat.Message{{Role: chat.RoleUser, Parts: []chat.Part{c1}}, chat.ResultText(c1, "a")}, `message 1: a call of f in a message of the user`},
		"a result before the next call":         {[]chat.Message{u, chat.Assistant("", c1), chat.Assistant("", c2), chat.ResultText(c2, "b")}, `message 2: the call "1" of f has no result`},
		"a result before the assistant goes on": {[]chat.Message{u, chat.Assistant("", c1), chat.Assistant("done")}, `message 2: the call "1" of f has no result`},
	} {
		err := agenttest.Sound(c.messages)
		if err == nil && c.want != "" || err != nil && err.Error() != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChecksOfRequestsAndStoredConversations(t *testing.T) {
	c := call("1", "f", "")
	good, bad := []chat.Message{chat.User("go"), chat.Assistant("done")}, []chat.Message{chat.User("go"), chat.Assistant("", c)}
	spied(t, func(tb testing.TB) {
		agenttest.CheckRequests(tb, []*model.Request{{Messages: append([]chat.Message{chat.System("s")}, good...)}})
		agenttest.CheckConversation(tb, good)
	}).passes(t)
	spied(t, func(tb testing.TB) {
		agenttest.CheckRequests(tb, []*model.Request{{Messages: good}, {Messages: bad}})
	}).wants(t, "request 2: message 2: the call", "user: go\nassistant:\n  call #1 f {}\n")
	spied(t, func(tb testing.TB) { agenttest.CheckConversation(tb, bad) }).wants(t, "message 2: the call")
	spied(t, func(tb testing.TB) {
		agenttest.CheckConversation(tb, append([]chat.Message{chat.System("s")}, good...))
	}).wants(t, "message 1: a message of the system is stored")
}
