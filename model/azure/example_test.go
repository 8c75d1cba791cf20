package azure_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/azure"
	"github.com/superstep-dev/superstep/model/internal/strict"
	"github.com/superstep-dev/superstep/model/openai"
)

// The server stands in for Azure's, so that the example runs without a key.
func Example() {
	server := &http.Client{Transport: &strict.Server{Check: strict.Azure{Deployment: "my-deployment", Key: "key"}.Check, Answers: []string{hello}}}

	//snippet:new
	m := azure.New("my-deployment", azure.Resource{
		Endpoint: "https://my-resource.openai.azure.com", // or AZURE_OPENAI_ENDPOINT
		Key:      "key",                                  // or AZURE_OPENAI_API_KEY, or an identity
	}, openai.HTTPClient(server))
	//snippet:end
	resp, err := m.Generate(context.Background(), &model.Request{Messages: []chat.Message{chat.User("Hello")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Message.Text())
	// Output: Hello.
}
