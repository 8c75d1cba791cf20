package bedrock_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/bedrock"
	"github.com/superstep-dev/superstep/model/internal/strict"
)

// The server stands in for AWS's, so that the example runs without credentials.
func Example() {
	server := &http.Client{Transport: &strict.Server{Check: novas.Check, Answers: []string{strict.ConverseStream(novaBegan + novaEnded)}}}

	cfg := signs("aws-secret")
	//snippet:new
	m := bedrock.New("us.amazon.nova-pro-v1:0", bedrock.Account{
		Region: "us-east-1", // or AWS_REGION
		Config: cfg,         // or what the AWS SDK finds
	}, bedrock.HTTPClient(server))
	//snippet:end
	for chunk, err := range m.Stream(context.Background(), hello()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(chunk.Text)
	}
	fmt.Println()
	// Output: Hello.
}

func ExampleClaude() {
	server := &http.Client{Transport: &strict.Server{Check: fake.Check, Answers: []string{strict.EventStream(began + ended)}}}

	cfg := signs("aws-secret")
	//snippet:claude
	m := bedrock.Claude("us.anthropic.claude-sonnet-4-5-20250929-v1:0", bedrock.Account{
		Region: "us-east-1", // or AWS_REGION
		Config: cfg,         // or what the AWS SDK finds
	}, anthropic.HTTPClient(server))
	//snippet:end
	for chunk, err := range m.Stream(context.Background(), hello()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(chunk.Text)
	}
	fmt.Println()
	// Output: Hello.
}
