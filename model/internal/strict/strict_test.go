package strict_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/aws/aws-sdk-go-v2/aws"
	"golang.org/x/oauth2"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/azure"
	"github.com/superstep-dev/superstep/model/bedrock"
	"github.com/superstep-dev/superstep/model/gemini"
	"github.com/superstep-dev/superstep/model/internal/strict"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/model/vertex"
)

// provider is a package and the API that it speaks: answers that call a tool and
// that say "Sunny.", whole and streamed.
type provider struct {
	name         string
	check        strict.Check
	open         func(http.RoundTripper) model.Model
	whole, parts [2]string
}

var vendors = []provider{
	{
		"openai", strict.OpenAI,
		func(rt http.RoundTripper) model.Model {
			return openai.New("gpt-test", openai.APIKey("k"), openai.BaseURL("https://api.openai.com/v1"), openai.HTTPClient(&http.Client{Transport: rt}), openai.ToolMedia())
		},
		[2]string{
			`{"id":"chatcmpl-00000000000000000001","model":"gpt-test","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},"finish_reason":"tool_calls"}]}`,
			`{"id":"chatcmpl-00000000000000000002","model":"gpt-test","choices":[{"index":0,"message":{"role":"assistant","content":"Sunny."},"finish_reason":"stop"}]}`,
		},
		[2]string{
			`data: {"id":"chatcmpl-00000000000000000001","model":"gpt-test","choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]}}]}

data: {"id":"chatcmpl-00000000000000000001","model":"gpt-test","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":\"Rome\"}"}}]}}]}

data: {"id":"chatcmpl-00000000000000000001","model":"gpt-test","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: [DONE]

`,
			`data: {"id":"chatcmpl-00000000000000000002","model":"gpt-test","choices":[{"index":0,"delta":{"role":"assistant","content":"Sunny."},"finish_reason":"stop"}]}

data: [DONE]

`,
		},
	},
	{
		"openai responses", strict.Responses,
		func(rt http.RoundTripper) model.Model {
			return openai.New("gpt-5-test", openai.Responses(), openai.APIKey("k"), openai.BaseURL("https://api.openai.com/v1"), openai.HTTPClient(&http.Client{Transport: rt}))
		},
		[2]string{
			`{"id":"resp_000000000000000001","status":"completed","model":"gpt-5-test","output":[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Look."}],"encrypted_content":"c2ln"},{"type":"function_call","id":"fc_1","status":"completed","call_id":"call_1","name":"weather","arguments":"{\"city\":\"Rome\"}"}],"error":null,"incomplete_details":null}`,
			`{"id":"resp_000000000000000002","status":"completed","model":"gpt-5-test","output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Sunny.","annotations":[]}]}],"error":null,"incomplete_details":null}`,
		},
		[2]string{
			`event: response.created
data: {"type":"response.created","response":{"id":"resp_000000000000000001","status":"in_progress","model":"gpt-5-test","output":[],"error":null,"incomplete_details":null}}

event: response.output_item.added
data: {"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}

event: response.reasoning_summary_text.delta
data: {"type":"response.reasoning_summary_text.delta","output_index":0,"item_id":"rs_1","summary_index":0,"delta":"Look."}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Look."}],"encrypted_content":"c2ln"}}

event: response.output_item.added
data: {"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc_1","status":"in_progress","call_id":"call_1","name":"weather","arguments":""}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","output_index":1,"item_id":"fc_1","delta":"{\"city\":"}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","output_index":1,"item_id":"fc_1","delta":"\"Rome\"}"}

event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","output_index":1,"item_id":"fc_1","arguments":"{\"city\":\"Rome\"}"}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc_1","status":"completed","call_id":"call_1","name":"weather","arguments":"{\"city\":\"Rome\"}"}}

event: response.completed
data: {"type":"response.completed","response":{"id":"resp_000000000000000001","status":"completed","model":"gpt-5-test","output":[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Look."}],"encrypted_content":"c2ln"},{"type":"function_call","id":"fc_1","status":"completed","call_id":"call_1","name":"weather","arguments":"{\"city\":\"Rome\"}"}],"error":null,"incomplete_details":null}}

`,
			`event: response.created
data: {"type":"response.created","response":{"id":"resp_000000000000000002","status":"in_progress","model":"gpt-5-test","output":[],"error":null,"incomplete_details":null}}

event: response.output_item.added
data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","output_index":0,"item_id":"msg_1","content_index":0,"delta":"Sunny."}

event: response.completed
data: {"type":"response.completed","response":{"id":"resp_000000000000000002","status":"completed","model":"gpt-5-test","output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Sunny.","annotations":[]}]}],"error":null,"incomplete_details":null}}

`,
		},
	},
	{
		"anthropic", strict.Anthropic,
		func(rt http.RoundTripper) model.Model {
			return anthropic.New("claude-test", anthropic.APIKey("k"), anthropic.BaseURL("https://api.anthropic.com"), anthropic.HTTPClient(&http.Client{Transport: rt}))
		},
		[2]string{
			`{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[{"type":"thinking","thinking":"Look.","signature":"c2ln"},{"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"Rome"}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`,
			`{"id":"msg_2","type":"message","role":"assistant","model":"claude-test","content":[{"type":"text","text":"Sunny."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`,
		},
		[2]string{
			`event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Look."}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"city\":\"Rome\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

`,
			`event: message_start
data: {"type":"message_start","message":{"id":"msg_2","type":"message","role":"assistant","model":"claude-test","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Sunny."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

`,
		},
	},
	{
		"gemini", strict.Gemini,
		func(rt http.RoundTripper) model.Model {
			return gemini.New("gemini-test", gemini.APIKey("k"), gemini.BaseURL("https://generativelanguage.googleapis.com"), gemini.HTTPClient(&http.Client{Transport: rt}))
		},
		[2]string{
			`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"weather","args":{"city":"Rome"}},"thoughtSignature":"c2ln"}]},"finishReason":"STOP"}],"modelVersion":"gemini-test","responseId":"r1"}`,
			`{"candidates":[{"content":{"role":"model","parts":[{"text":"Sunny."}]},"finishReason":"STOP"}],"modelVersion":"gemini-test","responseId":"r2"}`,
		},
		[2]string{
			`data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"weather","args":{"city":"Rome"}},"thoughtSignature":"c2ln"}]}}],"modelVersion":"gemini-test","responseId":"r1"}

data: {"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP"}],"modelVersion":"gemini-test","responseId":"r1"}

`,
			`data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Sunny."}]},"finishReason":"STOP"}],"modelVersion":"gemini-test","responseId":"r2"}

`,
		},
	},
	{
		"converse", strict.Bedrock{Region: "us-east-1", Model: "us.test.model-v1:0", APIKey: "k"}.Check,
		func(rt http.RoundTripper) model.Model {
			return bedrock.New("us.test.model-v1:0", bedrock.Account{Region: "us-east-1", APIKey: "k"}, bedrock.HTTPClient(&http.Client{Transport: rt}))
		},
		[2]string{
			`{"output":{"message":{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"Look.","signature":"c2ln"}}},{"toolUse":{"toolUseId":"tooluse_1","name":"weather","input":{"city":"Rome"}}}]}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2},"metrics":{"latencyMs":1}}`,
			`{"output":{"message":{"role":"assistant","content":[{"text":"Sunny."}]}},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2},"metrics":{"latencyMs":1}}`,
		},
		[2]string{
			strict.ConverseStream(`messageStart {"role":"assistant"}
contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"Look."}}}
contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"c2ln"}}}
contentBlockStop {"contentBlockIndex":0}
contentBlockStart {"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"tooluse_1","name":"weather"}}}
contentBlockDelta {"contentBlockIndex":1,"delta":{"toolUse":{"input":"{\"city\":"}}}
contentBlockDelta {"contentBlockIndex":1,"delta":{"toolUse":{"input":"\"Rome\"}"}}}
contentBlockStop {"contentBlockIndex":1}
messageStop {"stopReason":"tool_use"}
metadata {"usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2},"metrics":{"latencyMs":1}}
`),
			strict.ConverseStream(`messageStart {"role":"assistant"}
contentBlockDelta {"contentBlockIndex":0,"delta":{"text":"Sunny."}}
contentBlockStop {"contentBlockIndex":0}
messageStop {"stopReason":"end_turn"}
metadata {"usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2},"metrics":{"latencyMs":1}}
`),
		},
	},
}

// providers are the vendors, and the clouds that run their models.
var providers = slices.Concat(vendors, clouds())

func clouds() []provider {
	vendor := func(name string) (p provider) {
		return vendors[slices.IndexFunc(vendors, func(p provider) bool { return p.name == name })]
	}
	on := func(name, of string, check strict.Check, open func(http.RoundTripper) model.Model) provider {
		p := vendor(of)
		p.name, p.check, p.open = name, check, open
		return p
	}
	client := func(rt http.RoundTripper) *http.Client { return &http.Client{Transport: rt} }
	resource := azure.Resource{Endpoint: "https://r.openai.azure.com/", Key: "secret"}
	dated := azure.Resource{Endpoint: "https://r.openai.azure.com", Credential: azureToken("t"), APIVersion: "2024-10-21"}
	foundry := azure.Resource{Endpoint: "https://r.services.ai.azure.com/anthropic/", Key: "secret"}
	project := vertex.Project{ID: "p", Location: "us-east5", Tokens: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "t"})}
	account := bedrock.Account{Region: "us-east-1", Config: &aws.Config{Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret", SessionToken: "session"}, nil
	})}}
	const claude = "us.anthropic.claude-test-v1:0"
	list := []provider{
		on("azure", "openai", strict.Azure{Deployment: "mine", Key: "secret"}.Check, func(rt http.RoundTripper) model.Model {
			return azure.New("mine", resource, openai.HTTPClient(client(rt)), openai.ToolMedia())
		}),
		on("azure dated", "openai", strict.Azure{Deployment: "mine", Token: "t", APIVersion: "2024-10-21"}.Check, func(rt http.RoundTripper) model.Model {
			return azure.New("mine", dated, openai.HTTPClient(client(rt)))
		}),
		on("azure responses", "openai responses", strict.Azure{Deployment: "mine", Key: "secret"}.Check, func(rt http.RoundTripper) model.Model {
			return azure.New("mine", resource, openai.HTTPClient(client(rt)), openai.Responses())
		}),
		on("azure claude", "anthropic", strict.Azure{Deployment: "mine", Key: "secret"}.Check, func(rt http.RoundTripper) model.Model {
			return azure.Claude("mine", foundry, anthropic.HTTPClient(client(rt)))
		}),
		on("vertex gemini", "gemini", strict.Vertex{Project: "p", Location: "us-east5", Token: "t"}.Check, func(rt http.RoundTripper) model.Model {
			return vertex.Gemini("gemini-test", project, gemini.HTTPClient(client(rt)))
		}),
		on("vertex claude", "anthropic", strict.Vertex{Project: "p", Location: "us-east5", Token: "t"}.Check, func(rt http.RoundTripper) model.Model {
			return vertex.Claude("claude-test@20250929", project, anthropic.HTTPClient(client(rt)))
		}),
		on("bedrock", "anthropic", strict.Bedrock{Region: "us-east-1", Model: claude, AccessKey: "AKID", Secret: "secret", Session: "session"}.Check, func(rt http.RoundTripper) model.Model {
			return bedrock.Claude(claude, account, anthropic.HTTPClient(client(rt)))
		}),
	}
	last := &list[len(list)-1]
	for i, stream := range last.parts {
		last.parts[i] = strict.EventStream(stream)
	}
	return list
}

// azureToken is a credential of Entra.
type azureToken string

func (a azureToken) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: string(a), ExpiresOn: time.Now().Add(time.Hour)}, nil
}

var weather = chat.ToolSpec{
	Name: "weather", Description: "Tells the weather.", Strict: true,
	Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`),
}

// generate asks for an answer, whole or streamed.
func generate(t interface{ Context() context.Context }, m model.Model, req *model.Request, streamed bool) (*model.Response, error) {
	if streamed {
		return model.Collect(m.Stream(t.Context(), req))
	}
	return m.Generate(t.Context(), req)
}

func TestATurnWithTools(t *testing.T) {
	for _, p := range providers {
		for name, answers := range map[string][2]string{"whole": p.whole, "streamed": p.parts} {
			t.Run(p.name+" "+name, func(t *testing.T) {
				s := &strict.Server{Check: p.check, Answers: answers[:]}
				m := p.open(s)
				req := &model.Request{Messages: []chat.Message{chat.System("Be brief."), chat.User("Weather in Rome?")}, Tools: []chat.ToolSpec{weather}}
				resp, err := generate(t, m, req, name == "streamed")
				if err != nil {
					t.Fatal(err)
				}
				calls := resp.Message.ToolCalls()
				if len(calls) != 1 || calls[0].Name != "weather" || calls[0].Args != `{"city":"Rome"}` || resp.Message.Finish != chat.FinishToolCalls {
					t.Fatalf("the answer is %+v", resp.Message)
				}
				req.Messages = append(req.Messages, resp.Message, chat.ResultText(calls[0], "sunny"))
				if resp, err = generate(t, m, req, name == "streamed"); err != nil {
					t.Fatal(err)
				}
				if resp.Message.Text() != "Sunny." || resp.Message.Finish != chat.FinishStop {
					t.Errorf("the answer is %+v", resp.Message)
				}
			})
		}
	}
}

var png = chat.Source{Data: []byte("png"), MIME: "image/png"}

// conversation draws one as agents have it: each call has its result before anybody
// else speaks. Its parts may be of any provider's models, and pictures at addresses if the
// provider reads these.
func conversation(t *rapid.T, addresses bool) []chat.Message {
	n := 0
	words := rapid.SampledFrom([]string{"Hello.", "a", "  x\n", "<&>", "ä – 你好"})
	maybe := rapid.SampledFrom([]string{"", " \n", "Hm.", "So."})
	var list []chat.Message
	system := func() {
		if rapid.IntRange(0, 2).Draw(t, "system") == 0 {
			list = append(list, chat.System(rapid.OneOf(words, maybe).Draw(t, "instruction")))
		}
	}
	thought := func() []chat.Part {
		return rapid.SampledFrom([][]chat.Part{
			nil, {chat.Reasoning{Text: "plain"}}, {chat.Reasoning{Text: "signed", Signature: "c2ln"}}, {chat.Reasoning{Signature: "c2ln", Redacted: true}},
			{chat.Reasoning{Text: "OpenAI's", ID: "rs_1", Signature: "x"}}, {chat.Text{Text: "Gemini's"}, chat.Text{Signature: "c2ln"}},
			{chat.Native{Provider: "openai", Type: "x", Data: `{"type":"x"}`}}, {chat.Text{Text: "Cited."}, chat.Citation{URL: "https://example.org", Provider: "openai"}},
		}).Draw(t, "thought")
	}
	said := func(parts ...chat.Part) {
		m := chat.Message{Role: chat.RoleAssistant, Parts: parts, Model: rapid.SampledFrom([]string{"", "claude-x", "gemini-x", "gpt-x"}).Draw(t, "model")}
		m.Name = rapid.SampledFrom([]string{"", "Ann Lee", "bot"}).Draw(t, "name")
		list = append(list, m)
	}
	for turns := rapid.IntRange(1, 3).Draw(t, "turns"); turns > 0; turns-- {
		system()
		ask := []chat.Part{chat.Text{Text: words.Draw(t, "question")}}
		for range rapid.IntRange(0, 2).Draw(t, "media") {
			media := []chat.Part{chat.Image{Source: png, Detail: "low"}, chat.File{Name: "a.pdf", Source: chat.Source{Data: []byte("%PDF"), MIME: "application/pdf"}}, chat.Text{Text: maybe.Draw(t, "more")}}
			if addresses {
				media = append(media, chat.Image{Source: chat.Source{URL: "https://example.com/a.png"}})
			}
			ask = append(ask, rapid.SampledFrom(media).Draw(t, "medium"))
		}
		list = append(list, chat.Message{Role: chat.RoleUser, Parts: ask})
		for range rapid.IntRange(0, 2).Draw(t, "rounds") {
			parts := append(thought(), chat.Text{Text: maybe.Draw(t, "before")})
			var results []chat.Message
			for range rapid.IntRange(1, 3).Draw(t, "calls") {
				n++
				c := chat.ToolCall{
					ID:   fmt.Sprintf(rapid.SampledFrom([]string{"call_%d", "functions.weather:%d", "call_msg_1530e5f0-44b2-4db6-b713-84dfcf0e1b5f_%d", "ä|%d"}).Draw(t, "ID"), n),
					Name: "weather", Args: rapid.SampledFrom([]string{"", "{}", `{"city":"Rome"}`, `{"city":`, "null", "[1]"}).Draw(t, "args"),
				}
				c.Signature = rapid.SampledFrom([]string{"", "c2ln"}).Draw(t, "signature")
				parts = append(parts, c)
				content := rapid.SampledFrom([][]chat.Part{nil, {chat.Text{Text: "sunny"}}, {chat.Text{}}, {chat.Text{Text: "a"}, chat.Image{Source: png}}, {chat.Image{Source: png}}}).Draw(t, "result")
				r := chat.Result(c, content...)
				if rapid.Bool().Draw(t, "failed") {
					failed := r.Parts[0].(chat.ToolResult)
					failed.IsError = true
					r.Parts = []chat.Part{failed}
				}
				results = append(results, r)
			}
			said(parts...)
			list = append(list, rapid.Permutation(results).Draw(t, "results")...)
		}
		if turns > 1 {
			said(append(thought(), chat.Text{Text: maybe.Draw(t, "answer")})...)
		}
	}
	return list
}

// Whatever was said, and by whatever model, each provider is sent what it takes.
func TestEveryConversationIsSentAsTheAPITakesIt(t *testing.T) {
	groups := map[string][]provider{"clouds": clouds()} // which are sent what the vendors are
	for _, p := range vendors {
		groups[p.name] = []provider{p}
	}
	for name, group := range groups {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := group[rapid.IntRange(0, len(group)-1).Draw(t, "provider")]
				req := &model.Request{Messages: conversation(t, p.name != "converse"), Tools: []chat.ToolSpec{weather, {Name: "now"}}}
				req.ToolChoice = rapid.SampledFrom([]model.ToolChoice{model.ToolAuto, model.ToolNone, model.ToolRequired, "now"}).Draw(t, "choice")
				if rapid.Bool().Draw(t, "output") {
					req.Output = &model.Schema{Description: "It.", Schema: weather.Schema}
				}
				if rapid.Bool().Draw(t, "settings") {
					half := 0.5
					req.Config = model.Config{Temperature: &half, TopP: &half, MaxTokens: 100}
					if !strings.HasSuffix(p.name, " responses") { // it knows no stops
						req.Stop = []string{"END"}
					}
				}
				req.Cache = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) model.CachePoint {
					if rapid.IntRange(0, 3).Draw(t, "tools") == 0 {
						return model.CachePoint{Tools: true}
					}
					i := rapid.IntRange(0, len(req.Messages)-1).Draw(t, "message")
					return model.CachePoint{Message: i, Parts: rapid.IntRange(0, len(req.Messages[i].Parts)).Draw(t, "parts")}
				}), 0, model.MaxCachePoints).Draw(t, "cache")
				streamed := rapid.Bool().Draw(t, "streamed")
				s := &strict.Server{Check: p.check, Answers: []string{p.whole[1]}}
				if streamed {
					s.Answers = []string{p.parts[1]}
				}
				before := fmt.Sprintf("%#v", req)
				if _, err := generate(t, p.open(s), req, streamed); err != nil {
					t.Fatalf("%v\nsent %s", err, s.Requests)
				}
				if after := fmt.Sprintf("%#v", req); after != before {
					t.Fatalf("the request was altered")
				}
			})
		})
	}
}

// The servers are worth something only if they refuse what they should.
func TestWhatStrictServersRefuse(t *testing.T) {
	sent := map[string][]byte{}
	checks := map[string]strict.Check{}
	paths := map[string]*http.Request{}
	for _, p := range providers {
		s := &strict.Server{Check: func(r *http.Request, body []byte) error {
			paths[p.name] = r
			return p.check(r, body)
		}, Answers: []string{p.whole[1]}}
		call := chat.ToolCall{ID: "c1", Name: "weather", Args: "{}"}
		req := &model.Request{Messages: []chat.Message{chat.System("s"), chat.User("hi"), chat.AI("x", call), chat.ResultText(call, "y")}, Tools: []chat.ToolSpec{weather}, ToolChoice: "weather", Cache: []model.CachePoint{{Tools: true}}}
		if _, err := p.open(s).Generate(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		sent[p.name], checks[p.name] = s.Requests[0], p.check
	}
	for _, c := range []struct{ provider, old, new, says string }{
		{"openai", `{`, `{"top_k":1,`, "unknown field"},
		{"openai", `"tool_call_id":"c1"`, `"tool_call_id":"c2"`, `"c2"`},
		{"openai", `"role":"tool"`, `"role":"user"`, `["c1"]`},
		{"openai", `"id":"c1"`, `"id":""`, "empty"},
		{"openai", `"function":{"name":"weather"}`, `"function":{"name":"other"}`, "tool_choice"},
		{"openai", `"role":"system"`, `"role":"narrator"`, "narrator"},
		{"openai responses", `{`, `{"stop":["a"],`, "unknown field"},
		{"openai responses", `"type":"function_call_output","call_id":"c1"`, `"type":"function_call_output","call_id":"c2"`, `"c2"`},
		{"openai responses", `"type":"function_call","call_id":"c1"`, `"type":"function_call","call_id":""`, "empty"},
		{"openai responses", `{"type":"function_call","call_id":"c1","name":"weather","arguments":"{}"}`, `{"type":"item_reference","id":"fc_1"}`, "item_reference"},
		{"openai responses", `{"type":"function_call_output","call_id":"c1","output":"y"}`, `{"role":"user","content":"y"}`, `["c1"]`},
		{"openai responses", `{"type":"function_call"`, `{"type":"reasoning","id":"rs_1","summary":[]},{"type":"function_call"`, "without encrypted_content"},
		{"openai responses", `{"type":"function_call_output"`, `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"},{"type":"function_call_output"`, "led to"},
		{"openai responses", `"store":false`, `"store":true`, "store"},
		{"openai responses", `"strict":true`, `"strict_":true`, "strict"},
		{"openai responses", `{"type":"function","name":"weather"}`, `{"type":"function","name":"other"}`, "tool_choice"},
		{"openai responses", `"role":"system"`, `"role":"narrator"`, "narrator"},
		{"openai responses", `"content":"x"`, `"content":""`, "says nothing"},
		{"anthropic", `{`, `{"seed":1,`, "unknown field"},
		{"anthropic", `"tool_use_id":"c1"`, `"tool_use_id":"c2"`, `"c2"`},
		{"anthropic", `"role":"user","content":[{"type":"text"`, `"role":"assistant","content":[{"type":"text"`, "the first message"},
		{"anthropic", `"id":"c1"`, `"id":"c.1"`, "the call"},
		{"anthropic", `"text":"hi"`, `"text":" "`, "white space"},
		{"anthropic", `"type":"text","text":"hi"`, `"type":"text","text":"hi","title":"t"`, "a text with title"},
		{"anthropic", `"max_tokens":16384`, `"max_tokens":0`, "max_tokens"},
		{"anthropic", `"text":"s"`, `"text":"s","cache_control":{"type":"ephemeral","ttl":"2h"}`, "cache_control"},
		{"anthropic", `"text":"x"`, `"text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}`, "after one of five minutes"},
		{"anthropic", `{"type":"text","text":"hi"}`, strings.Repeat(`{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}},`, 4) + `{"type":"text","text":"hi"}`, "5 breakpoints"},
		{"gemini", `{`, `{"system_instruction":null,`, "unknown field"},
		{"gemini", `"functionResponse":{"id":"c1"`, `"functionResponse":{"id":"c2"`, `"c2"`},
		{"gemini", `"role":"model"`, `"role":"user"`, "role"},
		{"gemini", `{"text":"hi"}`, `{}`, "0 things"},
		{"gemini", `{"text":"hi"}`, `{"text":"hi","thought":true}`, "only the model"},
		{"converse", `{`, `{"top_k":1,`, "unknown field"},
		{"converse", `"toolResult":{"toolUseId":"c1"`, `"toolResult":{"toolUseId":"c2"`, `c2`},
		{"converse", `"role":"user"`, `"role":"assistant"`, "start with a user message"},
		{"converse", `"toolUse":{"toolUseId":"c1"`, `"toolUse":{"toolUseId":"c.1"`, "the call"},
		{"converse", `{"text":"hi"}`, `{"text":" "}`, "is blank"},
		{"converse", `{"text":"hi"}`, `{"text":"hi","image":null}`, "2 things"},
		{"converse", `{"text":"hi"}`, `{"document":{"name":"a","format":"txt","source":{"bytes":"YQ=="}}}`, "without a text"},
		{"converse", `{"text":"hi"}`, `{"text":"hi"},{"document":{"name":"a.txt","format":"txt","source":{"bytes":"YQ=="}}}`, "the name"},
		{"converse", `{"text":"hi"}`, `{"cachePoint":{"type":"default"}}`, "a cachePoint after"},
		{"converse", `{"tool":{"name":"weather"}}`, `{"tool":{"name":"other"}}`, "toolChoice"},
		{"converse", `"toolConfig":{`, `"toolConfig":null,"additionalModelRequestFields":{`, "must be defined"},
		{"azure", `{`, `{"top_k":1,`, "unknown field"},
		{"azure", `"model":"mine"`, `"model":"other"`, "DeploymentNotFound"},
		{"azure claude", `{`, `{"seed":1,`, "unknown field"},
		{"azure claude", `"model":"mine"`, `"model":"other"`, "does not exist"},
		{"azure responses", `"store":false`, `"store":true`, "store"},
		{"vertex gemini", `{`, `{"system_instruction":null,`, "unknown field"},
		{"vertex claude", `{`, `{"seed":1,`, "unknown field"},
		{"vertex claude", `{`, `{"model":"m",`, "the model"},
		{"vertex claude", `vertex-2023-10-16`, `2023-06-01`, "anthropic_version"},
		{"bedrock", `"text":"hi"`, `"text":"ho"`, "signature we calculated"},
	} {
		body := strings.Replace(string(sent[c.provider]), c.old, c.new, 1)
		if body == string(sent[c.provider]) {
			t.Errorf("%s: nothing was replaced by %s in %s", c.provider, c.new, body)
			continue
		}
		if err := checks[c.provider](paths[c.provider], []byte(body)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %s: %v", c.provider, c.new, err)
		}
	}
	for name, check := range checks {
		if err := check(httptest.NewRequest("POST", "/v1/else", nil), sent[name]); err == nil {
			t.Errorf("%s: any path is taken", name)
		}
	}
}
