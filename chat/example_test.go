package chat_test

import (
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/chat"
)

func Example() {
	call := chat.ToolCall{ID: "call_1", Name: "weather", Args: `{"city": "Bern"}`}
	conversation := chat.Of(
		chat.System("You are brief."),
		chat.User("Do I need a coat in Bern?"),
		chat.Assistant("", call),
		chat.ResultText(call, "2 degrees, snow"),
		chat.Assistant("Yes."),
	)
	fmt.Print(conversation)
	// Output:
	// system: You are brief.
	// user: Do I need a coat in Bern?
	// assistant: weather({"city": "Bern"})
	// tool: 2 degrees, snow
	// assistant: Yes.
}

func ExampleMessage_MarshalJSON() {
	m := chat.Assistant("Let me see.", chat.ToolCall{ID: "call_1", Name: "weather", Args: `{"city": "Bern"}`})
	data, _ := json.MarshalIndent(m, "", "  ")
	fmt.Println(string(data))
	// Output:
	// {
	//   "type": "ai",
	//   "content": "Let me see.",
	//   "tool_calls": [
	//     {
	//       "name": "weather",
	//       "args": {
	//         "city": "Bern"
	//       },
	//       "id": "call_1",
	//       "type": "tool_call"
	//     }
	//   ]
	// }
}

func ExampleTrimTurns() {
	messages := []chat.Message{
		chat.System("You are brief."),
		chat.User("Who wrote Faust?"), chat.Assistant("Goethe."),
		chat.User("When?"), chat.Assistant("1808."),
	}
	for _, m := range chat.TrimTurns(messages, 1) {
		fmt.Println(m.Text())
	}
	// Output:
	// You are brief.
	// When?
	// 1808.
}

func ExampleCollector() {
	var sum chat.Collector
	for _, token := range []string{"Good", " ", "morning"} {
		sum.Add(chat.Chunk{Text: token})
	}
	fmt.Println(sum.Message().Text())
	// Output: Good morning
}
