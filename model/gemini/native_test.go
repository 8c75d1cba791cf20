package gemini_test

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

func TestWhatTheServersToolsSayIsKeptAndSentBack(t *testing.T) {
	const (
		code   = `{"executableCode":{"language":"PYTHON","code":"print(1<2)"},"thoughtSignature":"c2ln"}`
		result = `{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"True"}}`
		ground = `"groundingMetadata":{"webSearchQueries":["q"],"groundingChunks":[{"web":{"uri":"https://a.example","title":"A"}},{"web":{"uri":"https://b.example","title":"B"}},{"maps":{}}],"groundingSupports":[{"segment":{"startIndex":1,"endIndex":4,"text":"It is"},"groundingChunkIndices":[1,2,9]}]}`
		whole  = `{"candidates":[{"content":{"role":"model","parts":[` + code + `,` + result + `,{"text":"It is."}]},"finishReason":"STOP",` + ground + `}],"responseId":"r"}`
	)
	parts := `data: {"candidates":[{"content":{"parts":[` + code + `]}}],"responseId":"r"}` + "\n\n" +
		`data: {"candidates":[{"content":{"parts":[` + result + `,{"text":"It "}]}}]}` + "\n\n" +
		`data: {"candidates":[{"content":{"parts":[{"text":"is."}]},"finishReason":"STOP",` + ground + `}]}` + "\n\n"
	want := []chat.Part{
		chat.Native{Provider: "gemini", Type: "executableCode", Data: code},
		chat.Native{Provider: "gemini", Type: "codeExecutionResult", Data: result},
		chat.Text{Text: "It is."},
		chat.Citation{URL: "https://b.example", Title: "B", Text: "It is", Start: 1, End: 4, Provider: "gemini"},
		chat.Citation{URL: "https://a.example", Title: "A", Provider: "gemini"},
	}
	for name, h := range map[string]http.HandlerFunc{"whole": reply(200, "application/json", []byte(whole)), "streamed": reply(200, "text/event-stream", []byte(parts))} {
		t.Run(name, func(t *testing.T) {
			var sent struct {
				Contents []struct{ Parts []json.RawMessage }
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
			req := hello()
			resp.Message.Parts = append(resp.Message.Parts, chat.Native{Provider: "anthropic", Data: `{"type":"x"}`})
			req.Messages = append(req.Messages, resp.Message, chat.User("and?"))
			if _, err := model.Collect(m.Stream(t.Context(), req)); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range sent.Contents[1].Parts {
				got = append(got, string(p))
			}
			if want := code + "\n" + result + "\n" + `{"text":"It is."}`; strings.Join(got, "\n") != want {
				t.Errorf("sent %q, want %q", got, want)
			}
		})
	}
}
