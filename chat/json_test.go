package chat_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/chat"
)

func text(s string) chat.Part { return chat.Text{Text: s} }

// Every message reads back as it was written.
func TestMessagesSurviveJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := messages().Draw(t, "message")
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var back chat.Message
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if !reflect.DeepEqual(m, back) {
			t.Fatalf("wrote %#v\n as %s\nread %#v", m, data, back)
		}
	})
}

func messages() *rapid.Generator[chat.Message] {
	return rapid.Custom(func(t *rapid.T) chat.Message {
		s := rapid.SampledFrom([]string{"a", "b <c>", "ü\n", `{"x":1}`})
		opt := rapid.SampledFrom([]string{"", "", "x"})
		source := rapid.Custom(func(t *rapid.T) chat.Source {
			return rapid.SampledFrom([]chat.Source{
				{Data: []byte("data"), MIME: "image/png"}, {URL: "https://example.org/x"}, {FileID: "f", MIME: "application/pdf"},
			}).Draw(t, "source")
		})
		plain := rapid.Custom(func(t *rapid.T) chat.Part {
			switch rapid.IntRange(0, 3).Draw(t, "part") {
			case 0:
				return chat.Image{Source: source.Draw(t, "source"), Detail: opt.Draw(t, "detail")}
			case 1:
				return chat.Audio{Source: source.Draw(t, "source"), Transcript: opt.Draw(t, "transcript")}
			case 2:
				return chat.File{Source: source.Draw(t, "source"), Name: opt.Draw(t, "name")}
			}
			return chat.Text{Text: s.Draw(t, "text"), Signature: opt.Draw(t, "signature")}
		})
		content := func() []chat.Part { return some(t, plain) }
		result := func() chat.ToolResult {
			r := chat.ToolResult{CallID: s.Draw(t, "call"), Name: opt.Draw(t, "tool"), Content: content(), IsError: rapid.Bool().Draw(t, "error")}
			if rapid.Bool().Draw(t, "artifact") {
				r.Artifact = json.RawMessage(`{"a":[1,null]}`)
			}
			return r
		}
		m := chat.Message{ID: opt.Draw(t, "id"), Name: opt.Draw(t, "name")}
		m.Role = rapid.SampledFrom([]chat.Role{chat.RoleSystem, chat.RoleUser, chat.RoleAssistant, chat.RoleTool}).Draw(t, "role")
		switch m.Role {
		case chat.RoleTool:
			r := result()
			m.Name, m.Parts = r.Name, []chat.Part{r}
		case chat.RoleAssistant:
			m.Parts = some(t, rapid.Custom(func(t *rapid.T) chat.Part {
				switch rapid.IntRange(0, 5).Draw(t, "part") {
				case 2:
					return chat.Citation{URL: opt.Draw(t, "url"), Title: opt.Draw(t, "title"), Text: opt.Draw(t, "cited"), Start: rapid.IntRange(0, 2).Draw(t, "start"), End: rapid.IntRange(0, 2).Draw(t, "end"), Provider: opt.Draw(t, "provider"), Data: s.Draw(t, "data")}
				case 3:
					return chat.Native{Provider: opt.Draw(t, "provider"), Type: opt.Draw(t, "type"), Data: rapid.SampledFrom([]string{`{"x":"<"}`, `[1]`, `"a"`}).Draw(t, "data")}
				case 0:
					return chat.Reasoning{Text: opt.Draw(t, "text"), ID: opt.Draw(t, "id"), Signature: opt.Draw(t, "signature"), Redacted: rapid.Bool().Draw(t, "redacted")}
				case 1:
					args := rapid.SampledFrom([]string{`{"a":1}`, `{}`, `{"a":`, `[1]`, `"x"`}).Draw(t, "args")
					return chat.ToolCall{ID: s.Draw(t, "id"), Name: opt.Draw(t, "tool"), Args: args, Signature: opt.Draw(t, "signature")}
				}
				return plain.Draw(t, "plain")
			}))
			if rapid.Bool().Draw(t, "usage") {
				m.Usage = &chat.Usage{Input: 10, Output: 5, CacheRead: rapid.IntRange(0, 3).Draw(t, "read"), Reasoning: rapid.IntRange(0, 3).Draw(t, "thought")}
			}
			m.Model, m.Finish = opt.Draw(t, "model"), rapid.SampledFrom([]chat.FinishReason{"", chat.FinishStop}).Draw(t, "finish")
		default:
			m.Parts = content()
		}
		if rapid.Bool().Draw(t, "metadata") {
			m.Metadata = map[string]string{"k": "v"}
		}
		members := func(name string) map[string]json.RawMessage {
			if rapid.Bool().Draw(t, name) {
				return map[string]json.RawMessage{"k": json.RawMessage(`{"a":["b"]}`)}
			}
			return nil
		}
		if e := (chat.Extra{AdditionalKwargs: members("additional"), ResponseMetadata: members("response")}); e.AdditionalKwargs != nil || e.ResponseMetadata != nil {
			m.Extra = &e
		}
		return m
	})
}

func some[T any](t *rapid.T, g *rapid.Generator[T]) []T {
	items := rapid.SliceOfN(g, 0, 4).Draw(t, "parts")
	if len(items) == 0 {
		return nil
	}
	return items
}

// Messages are written as LangGraph's clients read them.
func TestMessagesAreWrittenAsLangChainDoes(t *testing.T) {
	call := chat.ToolCall{ID: "c1", Name: "add", Args: `{"a": 1}`}
	for _, c := range []struct {
		m    chat.Message
		want string
	}{
		{chat.User("hi"), `{"type":"human","content":"hi"}`},
		{chat.System("be <kind>"), `{"type":"system","content":"be <kind>"}`},
		{chat.Assistant("", call), `{"type":"ai","content":"","tool_calls":[{"name":"add","args":{"a":1},"id":"c1","type":"tool_call"}]}`},
		{
			chat.Assistant("so", chat.ToolCall{ID: "c2", Name: "add", Args: `{"a":`}),
			`{"type":"ai","content":"so","invalid_tool_calls":[{"name":"add","args":"{\"a\":","id":"c2","error":"unexpected end of JSON input","type":"invalid_tool_call"}]}`,
		},
		{chat.ResultText(call, "3"), `{"type":"tool","name":"add","content":"3","tool_call_id":"c1"}`},
		{
			chat.Message{Role: chat.RoleTool, Name: "add", ID: "m", Parts: []chat.Part{chat.ToolResult{CallID: "c1", Name: "add", IsError: true, Content: []chat.Part{text("no")}}}},
			`{"type":"tool","id":"m","name":"add","content":"no","tool_call_id":"c1","status":"error"}`,
		},
		{
			chat.Message{Role: chat.RoleUser, Parts: []chat.Part{text("see"), chat.Image{Source: chat.Source{Data: []byte{1}, MIME: "image/png"}}}},
			`{"type":"human","content":[{"type":"text","text":"see"},{"type":"image","base64":"AQ==","mime_type":"image/png"}]}`,
		},
		{
			chat.Message{Role: chat.RoleAssistant, Model: "m1", Finish: chat.FinishStop, Usage: &chat.Usage{Input: 3, Output: 2, CacheRead: 1}, Parts: []chat.Part{chat.Reasoning{Text: "hm", Signature: "s"}, text("42")}},
			`{"type":"ai","content":[{"type":"reasoning","reasoning":"hm","extras":{"signature":"s"}},{"type":"text","text":"42"}],` +
				`"usage_metadata":{"input_tokens":3,"output_tokens":2,"total_tokens":5,"input_token_details":{"cache_read":1}},"response_metadata":{"model_name":"m1","finish_reason":"stop"}}`,
		},
		{
			chat.Message{Role: chat.RoleAssistant, Parts: []chat.Part{
				chat.Native{Provider: "p", Type: "search", Data: `{"type":"search"}`}, text("So."),
				chat.Citation{URL: "https://example.org", Title: "T", Text: "c", Start: 1, End: 3, Provider: "p", Data: "{}"}, chat.Citation{URL: "u"},
			}},
			`{"type":"ai","content":[{"type":"non_standard","value":{"provider":"p","type":"search","data":"{\"type\":\"search\"}"}},{"type":"text","text":"So.","annotations":[` +
				`{"type":"citation","url":"https://example.org","title":"T","cited_text":"c","start_index":1,"end_index":3,"extras":{"provider":"p","data":"{}"}},{"type":"citation","url":"u"}]}]}`,
		},
	} {
		var b []byte
		b, err := c.m.MarshalJSON()
		if err != nil || string(b) != c.want {
			t.Errorf("wrote %s, %v\n want %s", b, err, c.want)
		}
	}
}

// The shapes of other libraries are read.
func TestForeignMessagesAreRead(t *testing.T) {
	call := chat.ToolCall{ID: "c1", Name: "add", Args: `{"a": 1}`}
	img := func(s chat.Source, detail string) chat.Message {
		return chat.Message{Role: chat.RoleUser, Parts: []chat.Part{chat.Image{Source: s, Detail: detail}}}
	}
	png := chat.Source{Data: []byte{1}, MIME: "image/png"}
	for name, c := range map[string]struct {
		json string
		want chat.Message
	}{
		"openai user":       {`{"role":"user","content":"hi"}`, chat.User("hi")},
		"openai developer":  {`{"role":"developer","content":"be"}`, chat.System("be")},
		"openai call":       {`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\": 1}"}}]}`, chat.Assistant("", call)},
		"openai result":     {`{"role":"tool","tool_call_id":"c1","content":"3"}`, chat.Message{Role: chat.RoleTool, Parts: []chat.Part{chat.ToolResult{CallID: "c1", Content: []chat.Part{text("3")}}}}},
		"openai image":      {`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x","detail":"low"}}]}`, img(chat.Source{URL: "https://x"}, "low")},
		"openai refusal":    {`{"role":"assistant","content":null,"refusal":"no"}`, chat.Message{Role: chat.RoleAssistant, Finish: chat.FinishFilter, Parts: []chat.Part{text("no")}}},
		"compatible":        {`{"role":"assistant","content":"4","reasoning_content":"2+2"}`, chat.Message{Role: chat.RoleAssistant, Parts: []chat.Part{chat.Reasoning{Text: "2+2"}, text("4")}}},
		"langchain chunk":   {`{"type":"AIMessageChunk","content":"x","tool_calls":[],"additional_kwargs":{}}`, chat.Assistant("x")},
		"langchain text":    {`{"type":"human","content":["a",{"type":"text","text":"b"}]}`, chat.Message{Role: chat.RoleUser, Parts: []chat.Part{text("a"), text("b")}}},
		"langchain image":   {`{"type":"human","content":[{"type":"image_url","image_url":"https://x"}]}`, img(chat.Source{URL: "https://x"}, "")},
		"langchain js":      {`{"type":"human","content":[{"type":"image","mimeType":"image/png","data":"AQ=="}]}`, img(png, "")},
		"langchain 0.3":     {`{"type":"human","content":[{"type":"image","source_type":"base64","mime_type":"image/png","data":"AQ=="}]}`, img(png, "")},
		"anthropic image":   {`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AQ=="}}]}`, img(png, "")},
		"anthropic call":    {`{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"add","input":{"a": 1}}]}`, chat.Assistant("", call)},
		"anthropic thought": {`{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"}]}`, chat.Message{Role: chat.RoleAssistant, Parts: []chat.Part{chat.Reasoning{Text: "hm", Signature: "s"}, chat.Reasoning{Signature: "d", Redacted: true}}}},
		"call in content":   {`{"type":"ai","content":[{"type":"tool_use","id":"c1","name":"add","input":{"a": 1}}],"tool_calls":[{"name":"add","args":{"a":1},"id":"c1"}]}`, chat.Assistant("", call)},
		"class":             {class("HumanMessage", `{"content":"hi","id":"h1","additional_kwargs":{},"response_metadata":{}}`), chat.Message{ID: "h1", Role: chat.RoleUser, Parts: []chat.Part{text("hi")}}},
		"class of Python":   {class("SystemMessage", `{"content":"be","type":"system"}`), chat.System("be")},
		"class with call":   {class("AIMessage", `{"content":"","tool_calls":[{"name":"add","args":{"a":1},"id":"c1"}],"invalid_tool_calls":[],"usage_metadata":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}`), chat.Message{Role: chat.RoleAssistant, Parts: []chat.Part{chat.ToolCall{ID: "c1", Name: "add", Args: `{"a":1}`}}, Usage: &chat.Usage{Input: 1, Output: 2}}},
		"class of chunks":   {class("AIMessageChunk", `{"content":"x","tool_call_chunks":[],"tool_calls":[]}`), chat.Assistant("x")},
		"class of a result": {class("ToolMessage", `{"content":"3","tool_call_id":"c1","status":"success"}`), chat.Message{Role: chat.RoleTool, Parts: []chat.Part{chat.ToolResult{CallID: "c1", Content: []chat.Part{text("3")}}}}},
		"class of a role":   {class("ChatMessage", `{"content":"hi","role":"user"}`), chat.User("hi")},
	} {
		var m chat.Message
		if err := json.Unmarshal([]byte(c.json), &m); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !reflect.DeepEqual(m, c.want) {
			t.Errorf("%s: read %#v\nwant %#v", name, m, c.want)
		}
	}
}

// class is a message as LangChain's classes are serialised.
func class(name, members string) string {
	return `{"lc":1,"type":"constructor","id":["langchain_core","messages","` + name + `"],"kwargs":` + members + `}`
}

func TestAnUpdateOfClassesIsRead(t *testing.T) {
	human := class("HumanMessage", `{"content":"hi","id":"h2"}`)
	for update, want := range map[string]string{
		human:             "h1 h2",
		"[" + human + "]": "h1 h2",
		"[" + class("RemoveMessage", `{"id":"h1","content":[]}`) + "," + human + "]":                  "h2",
		"[" + class("RemoveMessage", `{"id":"__remove_all__","content":[]}`) + "]":                    "",
		`{"$overwrite":[` + human + `]}`:                                                              "h2",
		`[{"type":"replace_last_user","message":` + class("HumanMessage", `{"content":"new"}`) + `}]`: "h1",
	} {
		var u chat.Update
		if err := json.Unmarshal([]byte(update), &u); err != nil {
			t.Errorf("%s: %v", update, err)
			continue
		}
		var ids []string
		for _, m := range u.Apply([]chat.Message{{ID: "h1", Role: chat.RoleUser}}) {
			ids = append(ids, m.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s leaves %q, not %q", update, got, want)
		}
	}
}

func TestWhatIsNoMessageIsRefused(t *testing.T) {
	for _, data := range []string{
		`{"content":"x"}`, `{"type":"robot","content":"x"}`, `{"type":"human","content":5}`,
		class("FunctionMessage", `{"content":"x"}`), class("HumanMessage", `null`), class("AIMessage", `[]`), `{"lc":1,"type":"secret","id":["KEY"]}`,
		`{"type":"human","content":[{"type":"smell"}]}`, `{"type":"human","content":[{"type":"image","base64":"*"}]}`, `7`, `{"type":"human","content":[7]}`,
	} {
		if err := json.Unmarshal([]byte(data), new(chat.Message)); err == nil {
			t.Errorf("%s was taken", data)
		}
	}
	_, err := json.Marshal(chat.Message{Role: "robot"})
	var roleErr *chat.RoleError
	if !errors.As(err, &roleErr) || roleErr.Role != "robot" {
		t.Errorf("a message of an unknown role: %v", err)
	}
}

// What is written in OpenAI's shape reads back, but for what the shape has no
// place for.
func TestMessagesInOpenAIsShape(t *testing.T) {
	call := chat.ToolCall{ID: "c1", Name: "add", Args: `{"a": 1}`}
	for _, c := range []struct {
		m    chat.Message
		want string
	}{
		{chat.System("be"), `{"role":"system","content":"be"}`},
		{chat.Message{ID: "gone", Role: chat.RoleUser, Name: "ann", Parts: []chat.Part{text("hi")}}, `{"role":"user","name":"ann","content":"hi"}`},
		{chat.Assistant("", call), `{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\": 1}"}}]}`},
		{chat.ResultText(call, "3"), `{"role":"tool","content":"3","tool_call_id":"c1"}`},
		{
			chat.Message{Role: chat.RoleUser, Parts: []chat.Part{text("see"), chat.Image{Source: chat.Source{Data: []byte{1}, MIME: "image/png"}, Detail: "low"}}},
			`{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AQ==","detail":"low"}}]}`,
		},
		{
			chat.Message{Role: chat.RoleUser, Parts: []chat.Part{chat.Audio{Source: chat.Source{Data: []byte{1}, MIME: "audio/wav"}}, chat.File{Source: chat.Source{FileID: "f"}, Name: "a.pdf"}}},
			`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AQ==","format":"wav"}},{"type":"file","file":{"file_id":"f","filename":"a.pdf"}}]}`,
		},
	} {
		b, err := chat.OpenAI(c.m).MarshalJSON()
		if err != nil || string(b) != c.want {
			t.Errorf("wrote %s, %v\n want %s", b, err, c.want)
		}
		var back chat.OpenAI
		if err := json.Unmarshal(b, &back); err != nil || chat.Message(back).Text() != c.m.Text() || !reflect.DeepEqual(chat.Message(back).ToolCalls(), c.m.ToolCalls()) {
			t.Errorf("%s read back as %#v, %v", b, back, err)
		}
	}
	if _, err := json.Marshal(chat.OpenAI{Role: chat.RoleUser, Parts: []chat.Part{chat.Image{Source: chat.Source{FileID: "f"}}}}); err == nil {
		t.Error("an image by file ID was written")
	}
}

func FuzzMessageJSON(f *testing.F) {
	f.Add([]byte(`{"type":"ai","content":[{"type":"text","text":"x"}],"tool_calls":[{"name":"a","args":{},"id":"1"}]}`))
	f.Add([]byte(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}`))
	f.Add([]byte(`{"type":"tool","content":"x","tool_call_id":"1","artifact":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m chat.Message
		if json.Unmarshal(data, &m) != nil {
			return
		}
		once, err := json.Marshal(m)
		if err != nil {
			t.Fatalf("read %s and can't write it: %v", data, err)
		}
		var back chat.Message
		if err := json.Unmarshal(once, &back); err != nil {
			t.Fatalf("wrote %s and can't read it: %v", once, err)
		}
		if twice, err := json.Marshal(back); err != nil || string(once) != string(twice) {
			t.Fatalf("wrote %s, then %s (%v)", once, twice, err)
		}
	})
}

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
