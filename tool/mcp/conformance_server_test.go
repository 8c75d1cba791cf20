//lint:file-ignore SA1019 the suite tests what servers do for years to come

package mcp_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

func TestTheServerConformsToTheProtocol(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel() // it waits for most of its time
			s := examined(t)
			mux := http.NewServeMux()
			mux.Handle("/mcp", s.Handler())
			h := httptest.NewServer(mux)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Log(err) // the suite has left
				}
				h.CloseClientConnections()
				h.Close()
			})
			examine(t, func() *exec.Cmd {
				return suite(t, revision, "server", "--url", strings.Replace(h.URL, "127.0.0.1", "localhost", 1)+"/mcp")
			})
		})
	}
}

func decoded(s string) []byte {
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return data
}

var (
	pixel   = decoded("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
	silence = decoded("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
)

// fields is the schema of an object.
func fields(properties string, required ...string) json.RawMessage {
	if required == nil {
		required = []string{}
	}
	data, err := json.Marshal(required)
	if err != nil {
		panic(err)
	}
	return json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":` + string(data) + `}`)
}

// examined is a server with the tools, resources and prompts that the suite wants.
func examined(t *testing.T) *mcp.Server {
	image := chat.Image{Source: chat.Source{Data: pixel, MIME: "image/png"}}
	gives := func(name string, parts ...chat.Part) tool.Tool {
		return tool.New(name, name, func(context.Context, none) ([]chat.Part, error) { return parts, nil })
	}
	type header struct {
		Region string `json:"region,omitempty"`
		Level  int    `json:"level,omitempty"`
	}
	s, err := mcp.NewServerWith("examined", "1.0.0", sdk.ServerOptions{
		Capabilities: &sdk.ServerCapabilities{Logging: &sdk.LoggingCapabilities{}},
		CompletionHandler: func(context.Context, *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{}}}, nil
		},
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	},
		gives("test_simple_text", chat.Text{Text: "This is a simple text response for testing."}),
		gives("test_image_content", image),
		gives("test_audio_content", chat.Audio{Source: chat.Source{Data: silence, MIME: "audio/wav"}}),
		gives("test_multiple_content_types", chat.Text{Text: "a text"}, image, chat.File{Source: chat.Source{Data: []byte("a file"), MIME: "text/plain"}, Name: "a.txt"}),
		gives("test_embedded_resource", chat.File{Source: chat.Source{Data: []byte("a file"), MIME: "text/plain"}, Name: "a.txt"}),
		gives("test_streaming_elicitation", chat.Text{Text: "results alone"}),
		tool.New("test_error_handling", "fails", func(context.Context, none) (string, error) {
			return "", errors.New("this tool intentionally returns an error for testing")
		}),
		tool.New("test_x_mcp_header", "has headers", func(_ context.Context, in header) (string, error) { return "region=" + in.Region, nil },
			tool.Schema(json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`))),
		tool.New("json_schema_2020_12_tool", "has a schema", func(_ context.Context, in map[string]any) (string, error) { return fmt.Sprint(in), nil },
			tool.Schema(json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
				"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
				"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
				"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
				"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},
				"additionalProperties":false}`))),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetGraphs(mcp.Graph{Graph: graph.JSON(interviewer()), Description: "Asks."}); err != nil {
		t.Fatal(err)
	}
	examinedTools(s.SDK())
	examinedRounds(s.SDK())
	examinedContext(s.SDK())
	return s
}

type interview struct {
	Message  string `json:"message"`
	Username string `json:"username,omitempty"`
}

// interviewer is a graph that asks for what the suite's user has.
func interviewer() *graph.Graph[interview] {
	type answer struct {
		Username string `json:"username"`
	}
	b := graph.New[interview]("test_elicitation")
	b.AddNode("ask", func(ctx context.Context, s *interview) error {
		a, err := graph.Interrupt[answer](ctx, "", s.Message)
		s.Username = a.Username
		return err
	})
	b.AddEdge(graph.Start, "ask")
	return b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
}

func words(format string, args ...any) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

type handles = func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error)

func adds(s *sdk.Server, name, properties string, h handles) {
	s.AddTool(&sdk.Tool{Name: name, Description: name, InputSchema: fields(properties)}, h)
}

// examinedTools are tools that talk with the client while they run.
func examinedTools(s *sdk.Server) {
	logs := func(n int) handles {
		return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			for i := range n {
				if err := r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: fmt.Sprint("step ", i)}); err != nil {
					return nil, err
				}
			}
			return words("logged"), nil
		}
	}
	adds(s, "test_tool_with_logging", "", logs(3))
	adds(s, "test_logging_tool", "", logs(1))
	adds(s, "test_tool_with_progress", "", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for _, p := range []float64{0, 50, 100} {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: p, Total: 100}); err != nil {
				return nil, err
			}
		}
		return words("%v", r.Params.GetProgressToken()), nil
	})
	adds(s, "test_sampling", `"prompt":{"type":"string"}`, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		res, err := r.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 100, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: string(r.Params.Arguments)}}}})
		if err != nil {
			return nil, err
		}
		return words("LLM response: %s", res.Content.(*sdk.TextContent).Text), nil
	})
	elicits := func(name, properties string) {
		adds(s, name, "", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			res, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "fill in", RequestedSchema: fields(properties)})
			if err != nil {
				return nil, err
			}
			return words("Elicitation result: action=%s, content=%v", res.Action, res.Content), nil
		})
	}
	elicits("test_elicitation_sep1034_defaults", `"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},
		"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}`)
	elicits("test_elicitation_sep1330_enums", `"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
		"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
		"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
		"untitledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string","enum":["option1","option2","option3"]}},
		"titledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"anyOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]}}`)
	adds(s, "test_missing_capability", "", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if caps := r.ClientCapabilities(); caps != nil && caps.Sampling != nil {
			return words("it has sampling"), nil
		}
		data, err := json.Marshal(sdk.MissingRequiredClientCapabilityData{RequiredCapabilities: &sdk.ClientCapabilities{Sampling: &sdk.SamplingCapabilities{}}})
		if err != nil {
			return nil, err
		}
		return nil, &jsonrpc.Error{Code: sdk.CodeMissingRequiredClientCapabilities, Message: "sampling is needed", Data: data}
	})
	adds(s, "test_trigger_tool_change", "", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		adds(s, "__transient_tool", "", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return words(""), nil })
		return words("changed"), nil
	})
	adds(s, "test_trigger_prompt_change", "", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		s.AddPrompt(&sdk.Prompt{Name: "__transient_prompt", Description: "new"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{}, nil
		})
		return words("changed"), nil
	})
	adds(s, "test_reconnection", "", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if r.Extra != nil && r.Extra.CloseSSEStream != nil {
			r.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
		}
		select { // until the client is back
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
		return words("connected again"), nil
	})
}

// examinedRounds are tools that answer what they need before they go on.
func examinedRounds(s *sdk.Server) {
	form := func(message, field, kind string) *sdk.ElicitParams {
		return &sdk.ElicitParams{Message: message, RequestedSchema: fields(`"`+field+`":{"type":"`+kind+`"}`, field)}
	}
	name, confirm := form("What is your name?", "name", "string"), form("Please confirm", "ok", "boolean")
	sample := func(text string) *sdk.CreateMessageParams {
		return &sdk.CreateMessageParams{MaxTokens: 100, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}}}
	}
	accepted := func(in sdk.InputResponseMap, id string) map[string]any {
		if res, ok := in[id].(*sdk.ElicitResult); ok && res.Action == "accept" {
			return res.Content
		}
		return nil
	}
	// needs adds a tool that is done when every request has an answer of its kind.
	needs := func(tool, state string, requests sdk.InputRequestMap) {
		adds(s, tool, "", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if got := r.Params.RequestState; got != "" && got != state {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the state isn't one of this server's"}
			}
			done := true
			for id, request := range requests {
				ok := false
				switch request.(type) {
				case *sdk.ElicitParams:
					ok = len(accepted(r.Params.InputResponses, id)) > 0
				case *sdk.ListRootsParams:
					_, ok = r.Params.InputResponses[id].(*sdk.ListRootsResult)
				default:
					_, ok = r.Params.InputResponses[id].(*sdk.CreateMessageWithToolsResult)
				}
				done = done && ok
			}
			if !done {
				return &sdk.CallToolResult{InputRequests: requests, RequestState: state}, nil
			}
			data, err := json.Marshal(r.Params.InputResponses)
			return words("state-ok %s", data), err
		})
	}
	needs("test_input_required_result_elicitation", "", sdk.InputRequestMap{"user_name": name})
	needs("test_input_required_result_sampling", "", sdk.InputRequestMap{"capital_question": sample("What is the capital of France?")})
	needs("test_input_required_result_list_roots", "", sdk.InputRequestMap{"client_roots": &sdk.ListRootsParams{}})
	needs("test_input_required_result_request_state", "request_state", sdk.InputRequestMap{"confirm": confirm})
	needs("test_input_required_result_tampered_state", "tampered_state", sdk.InputRequestMap{"confirm": confirm})
	needs("test_input_required_result_multiple_inputs", "multiple_inputs", sdk.InputRequestMap{"user_name": name, "greeting": sample("Greet."), "client_roots": &sdk.ListRootsParams{}})
	adds(s, "test_input_required_result_multi_round", "", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		switch state, in := r.Params.RequestState, r.Params.InputResponses; state {
		case "":
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"step1": name}, RequestState: "1"}, nil
		case "1":
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"step2": form("Which color?", "color", "string")}, RequestState: fmt.Sprint("2 ", accepted(in, "step1")["name"])}, nil
		default:
			return words("%s likes %v", strings.TrimPrefix(state, "2 "), accepted(in, "step2")["color"]), nil
		}
	})
	adds(s, "test_input_required_result_capabilities", "", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		requests := sdk.InputRequestMap{}
		if caps := r.ClientCapabilities(); caps != nil {
			if caps.Elicitation != nil {
				requests["user_name"] = name
			}
			if caps.Sampling != nil {
				requests["greeting"] = sample("Greet.")
			}
			if caps.RootsV2 != nil {
				requests["client_roots"] = &sdk.ListRootsParams{}
			}
		}
		if len(r.Params.InputResponses) > 0 || len(requests) == 0 {
			return words("done"), nil
		}
		return &sdk.CallToolResult{InputRequests: requests}, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "test_input_required_result_prompt", Description: "asks"}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		if in := accepted(r.Params.InputResponses, "user_context"); in != nil {
			return prompt(&sdk.TextContent{Text: fmt.Sprint("Context: ", in["context"])}), nil
		}
		return &sdk.GetPromptResult{InputRequests: sdk.InputRequestMap{"user_context": form("Which context?", "context", "string")}}, nil
	})
}

func prompt(content ...sdk.Content) *sdk.GetPromptResult {
	var res sdk.GetPromptResult
	for _, c := range content {
		res.Messages = append(res.Messages, &sdk.PromptMessage{Role: "user", Content: c})
	}
	return &res
}

// examinedContext are resources and prompts.
func examinedContext(s *sdk.Server) {
	read := func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		c := &sdk.ResourceContents{URI: r.Params.URI, MIMEType: "text/plain", Text: "a text"}
		switch id, ok := strings.CutPrefix(c.URI, "test://template/"); {
		case c.URI == "test://static-binary":
			c.MIMEType, c.Text, c.Blob = "image/png", "", pixel
		case ok:
			c.MIMEType, c.Text = "application/json", fmt.Sprintf(`{"id":%q}`, strings.TrimSuffix(id, "/data"))
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{c}}, nil
	}
	for name, kind := range map[string]string{"static-text": "text/plain", "static-binary": "image/png", "watched-resource": "text/plain"} {
		s.AddResource(&sdk.Resource{URI: "test://" + name, Name: name, Description: name, MIMEType: kind}, read)
	}
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", MIMEType: "application/json"}, read)
	prompts := func(name string, args []string, fill func(args map[string]string) *sdk.GetPromptResult) {
		p := &sdk.Prompt{Name: name, Description: name}
		for _, a := range args {
			p.Arguments = append(p.Arguments, &sdk.PromptArgument{Name: a, Description: a, Required: true})
		}
		s.AddPrompt(p, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return fill(r.Params.Arguments), nil
		})
	}
	prompts("test_simple_prompt", nil, func(map[string]string) *sdk.GetPromptResult {
		return prompt(&sdk.TextContent{Text: "This is a simple prompt for testing."})
	})
	prompts("test_prompt_with_arguments", []string{"arg1", "arg2"}, func(args map[string]string) *sdk.GetPromptResult {
		return prompt(&sdk.TextContent{Text: fmt.Sprintf("arg1='%s', arg2='%s'", args["arg1"], args["arg2"])})
	})
	prompts("test_prompt_with_embedded_resource", []string{"resourceUri"}, func(args map[string]string) *sdk.GetPromptResult {
		return prompt(&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: args["resourceUri"], MIMEType: "text/plain", Text: "a text"}}, &sdk.TextContent{Text: "Read it."})
	})
	prompts("test_prompt_with_image", nil, func(map[string]string) *sdk.GetPromptResult {
		return prompt(&sdk.ImageContent{Data: pixel, MIMEType: "image/png"}, &sdk.TextContent{Text: "Look at it."})
	})
}
