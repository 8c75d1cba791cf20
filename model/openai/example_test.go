package openai_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
)

// A local server that speaks the API needs no key.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"choices":[{"delta":{"content":"Good "}}]}

data: {"choices":[{"delta":{"content":"morning."},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}

data: [DONE]

`)
	}))
	defer server.Close()

	m := openai.New("qwen3:8b", openai.BaseURL(server.URL+"/v1"), openai.Defaults(model.Config{MaxTokens: 200}))
	var answer chat.Collector
	for chunk, err := range m.Stream(context.Background(), &model.Request{
		Messages: []chat.Message{chat.System("Be polite."), chat.User("Hi!")},
	}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q\n", chunk.Text)
		answer.Add(chunk)
	}
	fmt.Println(answer.Message().Text(), answer.Message().Usage.Total(), "tokens")
	// Output:
	// "Good "
	// "morning."
	// ""
	// Good morning. 12 tokens
}

// The Responses API gives back what the model thought, encrypted, and takes tools that
// OpenAI runs beside one's own.
func ExampleResponses() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"resp_0000000000000000000001","status":"completed","model":"gpt-5-mini","output":[
			{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"I look it up."}],"encrypted_content":"gAAA"},
			{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"weather Bern"}},
			{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"It snows.","annotations":[
				{"type":"url_citation","url":"https://example.org/bern","title":"Bern","start_index":0,"end_index":9}]}]}]}`)
	}))
	defer server.Close()

	m := openai.New("gpt-5-mini", openai.Responses(), openai.BaseURL(server.URL+"/v1"))
	//snippet:responses
	req := &model.Request{
		Messages: []chat.Message{chat.User("Do I need a coat in Bern?")},
		Config: model.Config{Reasoning: "low", Extra: map[string]any{
			"reasoning": map[string]any{"summary": "auto"},
			"tools":     []any{map[string]any{"type": "web_search"}}, // which OpenAI runs
		}},
	}
	//snippet:end
	resp, err := m.Generate(context.Background(), req)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range resp.Message.Parts {
		switch p := p.(type) {
		case chat.Reasoning:
			fmt.Println("thought:", p.Text)
		case chat.Native:
			fmt.Println("OpenAI's:", p.Type)
		case chat.Text:
			fmt.Println("said:", p.Text)
		case chat.Citation:
			fmt.Println("from:", p.URL)
		}
	}
	// Output:
	// thought: I look it up.
	// OpenAI's: web_search_call
	// said: It snows.
	// from: https://example.org/bern
	// OpenAI's: message
}
