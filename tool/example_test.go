package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/tool"
)

func ExampleNew() {
	type In struct {
		City string `json:"city" jsonschema:"name of the city"`
		Unit string `json:"unit" enum:"celsius,fahrenheit" default:"celsius"`
	}
	type Out struct {
		Degrees float64 `json:"degrees"`
		Unit    string  `json:"unit"`
	}
	weather := tool.New("weather", "The weather in a city.", func(ctx context.Context, in In) (Out, error) {
		return Out{Degrees: 21.5, Unit: in.Unit}, nil
	})
	fmt.Println(string(weather.Spec().Schema))

	r, err := weather.Call(context.Background(), json.RawMessage(`{"city":"Rome"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Content[0].(chat.Text).Text)

	_, err = weather.Call(context.Background(), json.RawMessage(`{"unit":"kelvin"}`))
	fmt.Println(err)
	// Output:
	// {"type":"object","properties":{"city":{"type":"string","description":"name of the city"},"unit":{"type":"string","default":"celsius","enum":["celsius","fahrenheit"]}},"required":["city"],"additionalProperties":false}
	// {"degrees":21.5,"unit":"celsius"}
	// tool "weather": invalid arguments: unit: must be one of "celsius", "fahrenheit", not "kelvin"; city: is missing, a string
}

func ExampleNewSet() {
	echo := func(ctx context.Context, in struct{ Text string }) (string, error) { return in.Text, nil }
	_, err := tool.NewSet(tool.New("echo", "", echo), tool.New("echo", "", echo), tool.New("what is it?", "", echo))
	fmt.Println(err)

	set, err := tool.NewSet(tool.New("echo", "Says it again.", echo))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = set.Get("ehco")
	fmt.Println(err)
	// Output:
	// 2 mistakes in the definition of tools:
	// 	tool "echo": the tools at index 0 and 1 have the same name
	// 	tool "what is it?": the name has ' ', but may only have letters, digits, _ and -
	// tool "ehco": unknown tool: the only tool is "echo"
}

func ExampleLimit() {
	page := tool.New("page", "A web page.", func(ctx context.Context, in struct{}) (string, error) {
		return strings.Repeat("word ", 1000), nil
	})
	r, err := tool.Limit(page, 19).Call(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Content[0].(chat.Text).Text)
	// Output:
	// word word word word
	// [cut: 4981 of 5000 bytes are left out]
}

func ExampleSchemaOf() {
	type Out struct {
		Degrees float64 `json:"degrees"`
		Unit    string  `json:"unit,omitempty"`
	}
	schema, err := tool.SchemaOf[Out]()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(schema))
	// Output:
	// {"type":"object","properties":{"degrees":{"type":"number"},"unit":{"type":"string"}},"required":["degrees"],"additionalProperties":false}
}
