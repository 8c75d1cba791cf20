package anthropic_test

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// What the server's search of the web says, whole and as a stream of events.
const (
	use    = `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"a <b>"}}`
	found  = `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"https://example.org","title":"T","encrypted_content":"e"}]}`
	cite   = `{"type":"web_search_result_location","url":"https://example.org","title":"T","encrypted_index":"i","cited_text":"It is."}`
	page   = `{"type":"page_location","document_title":"D","document_index":0,"start_page_number":1,"end_page_number":2,"cited_text":"So."}`
	search = `{"id":"m","type":"message","role":"assistant","model":"claude-test-1","content":[{"type":"text","text":"I look."},` + use + `,` + found + `,{"type":"text","text":"It is","citations":[` + cite + `,` + page + `]},{"type":"text","text":" so."}],"stop_reason":"end_turn"}`
)

func searchEvents() string {
	return "data: " + strings.Join([]string{
		`{"type":"message_start","message":{"id":"m","model":"claude-test-1"}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"I look."}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"query\":"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"a <b>\"}"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":` + found + `}`,
		`{"type":"content_block_stop","index":2}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"text","text":"","citations":[]}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"citations_delta","citation":` + cite + `}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"It is"}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"citations_delta","citation":` + page + `}}`,
		`{"type":"content_block_stop","index":3}`,
		`{"type":"content_block_start","index":4,"content_block":{"type":"text","text":" so."}}`,
		`{"type":"content_block_stop","index":4}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`,
		`{"type":"message_stop"}`,
	}, "\n\ndata: ") + "\n\n"
}

func TestWhatTheServersToolsSayIsKeptAndSentBack(t *testing.T) {
	want := []chat.Part{
		chat.Text{Text: "I look."},
		chat.Native{Provider: "anthropic", Type: "server_tool_use", Data: use},
		chat.Native{Provider: "anthropic", Type: "web_search_tool_result", Data: found},
		chat.Text{Text: "It is"},
		chat.Citation{URL: "https://example.org", Title: "T", Text: "It is.", Provider: "anthropic", Data: cite},
		chat.Citation{Title: "D", Text: "So.", Provider: "anthropic", Data: page},
		chat.Text{Text: " so."},
	}
	for name, h := range map[string]http.HandlerFunc{
		"whole":    reply(200, "application/json", []byte(search)),
		"streamed": reply(200, "text/event-stream", []byte(searchEvents())),
	} {
		t.Run(name, func(t *testing.T) {
			var sent struct {
				Messages []struct{ Content []json.RawMessage }
			}
			m := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err == nil {
					err = json.Unmarshal(body, &sent)
				}
				if err != nil {
					t.Error(err)
				}
				h(w, r)
			})
			resp, err := model.Collect(m.Stream(t.Context(), hello()))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(resp.Message.Parts, want) {
				t.Errorf("got  %+v\nwant %+v", resp.Message.Parts, want)
			}
			// Stored and read again, among parts of other providers'.
			data, err := json.Marshal(resp.Message)
			var back chat.Message
			if err == nil {
				err = json.Unmarshal(data, &back)
			}
			if err != nil {
				t.Fatal(err)
			}
			back.Parts = append(back.Parts, chat.Citation{URL: "u", Provider: "openai"}, chat.Native{Provider: "openai", Data: `{}`})
			req := hello()
			req.Messages = append(req.Messages, back, chat.User("and?"))
			if _, err := model.Collect(m.Stream(t.Context(), req)); err != nil {
				t.Fatal(err)
			}
			var answer struct{ Content []json.RawMessage }
			if err := json.Unmarshal([]byte(search), &answer); err != nil {
				t.Fatal(err)
			}
			for i, b := range answer.Content {
				var got, want any
				if json.Unmarshal(sent.Messages[1].Content[i], &got) != nil || json.Unmarshal(b, &want) != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("sent %s\ncame %s", sent.Messages[1].Content[i], b)
				}
			}
			if n := len(sent.Messages[1].Content); n != len(answer.Content) {
				t.Errorf("%d blocks were sent", n)
			}
		})
	}
}
