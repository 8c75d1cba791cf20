package gemini_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/gemini"
)

// The server stands in for Google's, so that the example runs without a key.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := os.ReadFile("testdata/answer.sse")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write(answer)
	}))
	defer server.Close()

	m := gemini.New("gemini-2.5-flash",
		gemini.APIKey("key"), // or GEMINI_API_KEY
		gemini.BaseURL(server.URL),
		gemini.Defaults(model.Config{MaxTokens: 1000}))
	req := &model.Request{Messages: []chat.Message{chat.System("Be polite."), chat.User("Hello")}}
	for chunk, err := range m.Stream(context.Background(), req) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(chunk.Text)
	}
	fmt.Println()
	// Output: Hello there
}
