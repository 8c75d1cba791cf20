package vertex_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/internal/strict"
	"github.com/superstep-dev/superstep/model/vertex"
)

// The server stands in for Google's, so that the example runs without credentials.
func Example() {
	server := &http.Client{Transport: &strict.Server{Check: strict.Vertex{Project: "my-project", Location: "us-east5", Token: good}.Check, Answers: []string{byClaude}}}

	tokens := is(good)
	//snippet:new
	m := vertex.Claude("claude-sonnet-4-5@20250929", vertex.Project{
		ID:       "my-project", // or GOOGLE_CLOUD_PROJECT
		Location: "us-east5",   // or GOOGLE_CLOUD_LOCATION
		Tokens:   tokens,       // or the Application Default Credentials
	}, anthropic.HTTPClient(server))
	//snippet:end
	resp, err := m.Generate(context.Background(), hello())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Message.Text())
	// Output: Hello.
}
