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
