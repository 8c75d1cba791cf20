package openapi

import "net/http"

// protocols are the operations for programs that speak other protocols.
func protocols() map[string]operation {
	one := func(body string) []example { return []example{{"example", body}} }
	fails := []int{http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	model := member{"model!", text("The name of a graph, or the ID of an assistant, whose input has messages.")}
	common := []member{
		{"stream", yesno("The answer comes as server-sent events, as OpenAI's do.")},
		{"metadata", named("Texts, which the run has; thread_id names the thread to go on with.", text(""))},
		{"tools", list("None, or the function ask, by which the graph's questions are put.", free(""))},
		{"tool_choice", anything("")},
	}
	thread := []parameter{{"X-Thread-Id", id("The thread to go on with, which is made if there is none."), ""}}
	about := "Other parameters are OpenAI's; docs/protocols.md says what becomes of each. Errors are in OpenAI's form."
	return map[string]operation{
		"listModels": {summary: "List the assistants that take messages, as OpenAI's models", out: answer{schema: free("")}},
		"getModel":   {summary: "Show an assistant as one of OpenAI's models", out: answer{schema: free("")}},
		"completeChat": {
			fails: fails, summary: "Talk with an assistant, as OpenAI's chat completions", about: about, headers: thread,
			in:     record("", append(common, model, member{"messages!", list("Of OpenAI's form.", free(""))}, member{"stream_options", free("include_usage.")})...),
			inputs: one(`{"model": "helper", "messages": [{"role": "user", "content": "hello"}]}`), out: answer{about: "A chat.completion, or its chunks.", schema: free("")},
		},
		"runAGUI": {
			fails: fails, summary: "Run an assistant for a front end that speaks AG-UI",
			about: "The input and the events of AG-UI 1.0; docs/protocols.md says what becomes of each. Errors are objects with code and message.",
			in: record("",
				member{"threadId!", id("The thread, which is made if there is none.")},
				member{"runId!", text("The client's name of the run.")},
				member{"protocolVersion", text("")},
				member{"parentRunId", text("")},
				member{"state", anything("The state as the client has it.")},
				member{"messages!", list("", free(""))},
				member{"tools", list("For graphs whose input has tools.", free(""))},
				member{"context", list("For graphs whose input has a context.", free(""))},
				member{"forwardedProps", anything("For graphs whose input has it.")},
				member{"resume", list("Answers to interrupts.", free(""))},
			),
			inputs: one(`{"threadId": "0198f3c2-5b7a-7d10-8e21-4c3b2a190008", "runId": "run-1", "messages": [], "state": {"days": 2}}`),
			out:    answer{about: "The events of the run.", media: mediaSSE},
		},
		"serveMCP": {
			fails: fails, summary: "Have assistants as tools, over MCP's streamable HTTP", about: "Each request stands for itself: there are no sessions. docs/protocols.md says what the tools are.",
			headers: []parameter{{"Mcp-Protocol-Version", text("The version that the client speaks."), ""}},
			in:      record("", member{"jsonrpc!", text("2.0")}, member{"method!", text("")}, member{"id", anything("")}, member{"params", free("")}),
			inputs:  one(`{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`), out: answer{about: "The result, and what is told before it.", media: mediaSSE},
		},
		"createResponse": {
			fails: fails, summary: "Talk with an assistant, as OpenAI's responses", about: about, headers: thread,
			in: record("", append(common, model, member{"input!", anything("A text, or a list of items.")},
				member{"instructions", text("")},
				member{"store", yesno("The thread is kept, so that a request can name the response before. True by default.")},
				member{"previous_response_id", text("The newest response of the thread to go on with.")},
				member{"conversation", anything("The thread to go on with, which is made if there is none.")})...),
			inputs: []example{
				{"text", `{"model": "helper", "input": "hello"}`},
				{"conversation", `{"model": "helper", "input": [{"role": "user", "content": "hello"}], "conversation": "0198f3c2-5b7a-7d10-8e21-4c3b2a190009"}`},
			}, out: answer{about: "A response, or its events.", schema: free("")},
		},
	}
}
