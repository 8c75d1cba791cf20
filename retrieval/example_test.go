package retrieval_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/retrieval"
)

const handbook = `# Handbook

## Departures

Trams leave the depot at five in the morning, buses at six.

## Brakes

Every brake is tested twice a day, by the driver and by the workshop.
`

func Example() {
	ctx := context.Background()
	embedder := memory.HashEmbedder(256) // a real program has a model's embedder
	store, err := memory.NewInMemory(memory.Config{Index: &memory.Index{Embedder: embedder}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	index := &retrieval.Index{Store: store, Namespace: []string{"handbook"}, Embedder: embedder, Splitter: retrieval.Splitter{Size: 100}}

	doc, err := retrieval.Markdown("handbook.md", strings.NewReader(handbook))
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		report, err := index.Add(ctx, retrieval.Of(doc))
		fmt.Printf("%+v %v\n", report, err)
	}
	retriever := retrieval.Retriever{Index: index, K: 1}
	passages, err := retriever.Retrieve(ctx, "How often are brakes tested?")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range passages {
		fmt.Println(p.Ref(), strings.Join(p.Headings, " > "))
		fmt.Println(p.Text)
	}
	// Output:
	// {Added:1 Unchanged:0 Embedded:3 Kept:0 Removed:0} <nil>
	// {Added:0 Unchanged:1 Embedded:0 Kept:0 Removed:0} <nil>
	// handbook.md#88-168 Handbook > Brakes
	// ## Brakes
	//
	// Every brake is tested twice a day, by the driver and by the workshop.
}
