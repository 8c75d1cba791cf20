package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
)

// A conversation may have begun with another provider, and an agent may be named
// as people are: the API refuses IDs of more than 40 bytes and some characters.
func TestWhatOthersNamedIsSentAsTheAPITakesIt(t *testing.T) {
	s := serve(t, replies(200, hello))
	long := "call_msg_1530e5f0-44b2-4db6-b713-84dfcf0e1b5f_0"
	a, b := chat.ToolCall{ID: long, Name: "f", Args: "{}"}, chat.ToolCall{ID: long + "1", Name: "f", Args: "{}"}
	said := chat.Assistant("", a, b)
	said.Name = "Ann <x>\\/ Lee|Müller"
	_, err := s.model().Generate(t.Context(), &model.Request{Messages: []chat.Message{chat.User("go"), said, chat.ResultText(b, "2"), chat.ResultText(a, "1")}})
	if err != nil {
		t.Fatal(err)
	}
	var sent []struct {
		Name       string
		ToolCallID string                `json:"tool_call_id"`
		ToolCalls  []struct{ ID string } `json:"tool_calls"`
	}
	if err := json.Unmarshal([]byte(s.field(t, "messages")), &sent); err != nil {
		t.Fatal(err)
	}
	if sent[1].Name != "Ann__x____Lee_Müller" {
		t.Errorf("the name is %q", sent[1].Name)
	}
	ids := sent[1].ToolCalls
	if len(ids[0].ID) > 40 || ids[0].ID == ids[1].ID || sent[2].ToolCallID != ids[1].ID || sent[3].ToolCallID != ids[0].ID {
		t.Errorf("sent %+v", sent)
	}
}

func TestNoErrorTellsAPasswordOfTheURL(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(replies(401, "")))
	base := strings.Replace(s.URL, "http://", "http://me:hunter2@", 1)
	m := openai.New("m", openai.BaseURL(base))
	check := func() {
		t.Helper()
		_, err := m.Generate(t.Context(), &model.Request{Messages: []chat.Message{chat.User("hi")}})
		if text := fmt.Sprintf("%v %+v", err, err); err == nil || strings.Contains(text, "hunter2") {
			t.Errorf("the error is %s", text)
		}
	}
	check()
	s.Close() // now nobody is there
	check()
}

// Servers that send calls whole, all with the index 0 and without an ID, may send
// two of one tool.
func TestWholeCallsOfOneToolAreApart(t *testing.T) {
	piece := func(name, args string) string {
		return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":%q,"arguments":%q}}]}}]}`+"\n\n", name, args)
	}
	end := `data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
	for body, want := range map[string][]string{
		piece("f", `{"a":1}`) + piece("f", `{"a":2}`):                                  {`{"a":1}`, `{"a":2}`},
		piece("f", "{}") + piece("f", "{}") + piece("g", "{}"):                         {"{}", "{}", "{}"},
		piece("f", `{"a":`) + piece("f", `{}`) + piece("f", "}") + piece("f", ""):      {`{"a":{}}`}, // the name in each piece
		piece("f", `{"a":`) + piece("", `1`) + piece("", "}") + piece("f", `{"a":2} `): {`{"a":1}`, `{"a":2} `},
	} {
		s := serve(t, streams(body+end))
		resp, err := model.Collect(s.model().Stream(t.Context(), &model.Request{Messages: []chat.Message{chat.User("hi")}}))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range resp.Message.ToolCalls() {
			got = append(got, c.Args)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
