package bedrock_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/bedrock"
	"github.com/superstep-dev/superstep/model/internal/strict"
)

const (
	nova      = "us.amazon.nova-pro-v1:0"
	novaBegan = `messageStart {"role":"assistant"}
contentBlockDelta {"contentBlockIndex":0,"delta":{"text":"Hel"}}
`
	novaEnded = `contentBlockDelta {"contentBlockIndex":0,"delta":{"text":"lo."}}
contentBlockStop {"contentBlockIndex":0}
messageStop {"stopReason":"end_turn"}
metadata {"usage":{"inputTokens":1,"outputTokens":9,"totalTokens":20,"cacheReadInputTokens":8,"cacheWriteInputTokens":2},"metrics":{"latencyMs":1},"serviceTier":{"type":"priority"}}
`
	novaAnswer = `{"output":{"message":{"role":"assistant","content":[{"text":"Hello."}]}},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":9,"totalTokens":20,"cacheReadInputTokens":8,"cacheWriteInputTokens":2},"metrics":{"latencyMs":1},"serviceTier":{"type":"priority"}}`
)

// novas is an account with a model that isn't Anthropic's.
var novas = strict.Bedrock{Region: "us-east-1", Model: nova, AccessKey: "AKID", Secret: "aws-secret", Session: "aws-session"}

func converse(s *strict.Server, opts ...bedrock.Option) *bedrock.Model {
	if s.Check == nil {
		s.Check = novas.Check
	}
	return bedrock.New(nova, bedrock.Account{Config: signs("aws-secret")}, append(opts, bedrock.HTTPClient(&http.Client{Transport: s}))...)
}

func TestAnyModelAnswersByConverse(t *testing.T) {
	m := converse(&strict.Server{Answers: []string{novaAnswer, strict.ConverseStream(novaBegan + novaEnded), strict.ConverseStream(strings.SplitAfter(novaBegan+novaEnded, "end_turn\"}\n")[0])}})
	whole, err := m.Generate(t.Context(), hello())
	if err != nil {
		t.Fatal(err)
	}
	want := chat.Message{
		Role: chat.RoleAssistant, Parts: []chat.Part{chat.Text{Text: "Hello."}}, Model: nova, Finish: chat.FinishStop,
		Usage: &chat.Usage{Input: 11, Output: 9, CacheRead: 8, CacheWrite: 2}, Metadata: map[string]string{chat.MetadataServiceTier: "priority"},
	}
	if !reflect.DeepEqual(whole.Message, want) {
		t.Errorf("the answer is %+v", whole.Message)
	}
	streamed, err := model.Collect(m.Stream(t.Context(), hello()))
	if err != nil || !reflect.DeepEqual(streamed.Message, want) {
		t.Errorf("streamed it is %+v, %v", streamed.Message, err)
	}
	if streamed, err = model.Collect(m.Stream(t.Context(), hello())); err != nil || streamed.Message.Text() != "Hello." || streamed.Message.Finish != chat.FinishStop || streamed.Message.Usage != nil {
		t.Errorf("without the usage: %+v, %v", streamed, err)
	}
}

func TestWhyAModelStopped(t *testing.T) {
	for reason, want := range map[string]chat.FinishReason{
		"end_turn": chat.FinishStop, "stop_sequence": chat.FinishStop, "tool_use": chat.FinishToolCalls, "max_tokens": chat.FinishLength, "model_context_window_exceeded": chat.FinishLength,
		"guardrail_intervened": chat.FinishFilter, "content_filtered": chat.FinishFilter, "malformed_tool_use": chat.FinishOther, "what_is_new": chat.FinishOther,
	} {
		m := converse(&strict.Server{Answers: []string{strings.Replace(novaAnswer, "end_turn", reason, 1), strict.ConverseStream(strings.Replace(novaBegan+novaEnded, "end_turn", reason, 1))}})
		whole, err := m.Generate(t.Context(), hello())
		streamed, err2 := model.Collect(m.Stream(t.Context(), hello()))
		if err != nil || err2 != nil || whole.Message.Finish != want || streamed.Message.Finish != want {
			t.Errorf("%s: %+v, %v, %+v, %v", reason, whole, err, streamed, err2)
		}
	}
}

// What a model thought, cited, drew and had the server run comes whole as it is streamed.
func TestContentOfEveryKindIsRead(t *testing.T) {
	m := converse(&strict.Server{Answers: []string{
		`{"output":{"message":{"role":"assistant","content":[
			{"reasoningContent":{"reasoningText":{"text":"Hm.","signature":"c2ln"}}},
			{"reasoningContent":{"redactedContent":"aGlkZGVu"}},
			{"toolUse":{"input":{"q":1},"name":"nova_grounding","toolUseId":"s1","type":"server_tool_use"}},
			{"toolResult":{"content":[{"text":"found"}],"toolUseId":"s1"}},
			{"citationsContent":{"content":[{"text":"It is so."}],"citations":[{"title":"A page","sourceContent":[{"text":"so"}],"location":{"web":{"url":"https://a.example","domain":"a.example"}}}]}},
			{"image":{"format":"png","source":{"bytes":"cG5n"}}},
			{"toolUse":{"toolUseId":"t1","name":"f","input":{"a":1}}},
			{"toolUse":{"toolUseId":"t2","name":"g","input":{}}}]}},"stopReason":"tool_use"}`,
		strict.ConverseStream(`messageStart {"role":"assistant"}
contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"H"}}}
contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"m."}}}
contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"c2ln"}}}
contentBlockStop {"contentBlockIndex":0}
contentBlockDelta {"contentBlockIndex":1,"delta":{"reasoningContent":{"redactedContent":"aGk="}}}
contentBlockDelta {"contentBlockIndex":1,"delta":{"reasoningContent":{"redactedContent":"ZGRlbg=="}}}
contentBlockStop {"contentBlockIndex":1}
contentBlockStart {"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"s1","name":"nova_grounding","type":"server_tool_use"}}}
contentBlockDelta {"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"q\":"}}}
contentBlockDelta {"contentBlockIndex":2,"delta":{"toolUse":{"input":"1}"}}}
contentBlockStop {"contentBlockIndex":2}
contentBlockStart {"contentBlockIndex":3,"start":{"toolResult":{"toolUseId":"s1"}}}
contentBlockDelta {"contentBlockIndex":3,"delta":{"toolResult":[{"text":"found"}]}}
contentBlockStop {"contentBlockIndex":3}
contentBlockDelta {"contentBlockIndex":4,"delta":{"text":"It is "}}
contentBlockDelta {"contentBlockIndex":4,"delta":{"text":"so."}}
contentBlockDelta {"contentBlockIndex":4,"delta":{"citation":{"title":"A page","sourceContent":[{"text":"so"}],"location":{"web":{"url":"https://a.example","domain":"a.example"}}}}}
contentBlockStop {"contentBlockIndex":4}
contentBlockStart {"contentBlockIndex":5,"start":{"image":{"format":"png"}}}
contentBlockDelta {"contentBlockIndex":5,"delta":{"image":{"source":{"bytes":"cG4="}}}}
contentBlockDelta {"contentBlockIndex":5,"delta":{"image":{"source":{"bytes":"Zw=="}}}}
contentBlockStop {"contentBlockIndex":5}
contentBlockStart {"contentBlockIndex":6,"start":{"toolUse":{"toolUseId":"t1","name":"f"}}}
contentBlockDelta {"contentBlockIndex":6,"delta":{"toolUse":{"input":"{\"a\":1}"}}}
contentBlockStop {"contentBlockIndex":6}
contentBlockStart {"contentBlockIndex":7,"start":{"toolUse":{"toolUseId":"t2","name":"g"}}}
contentBlockDelta {"contentBlockIndex":7,"delta":{"toolUse":{"input":"{}"}}}
contentBlockStop {"contentBlockIndex":7}
messageStop {"stopReason":"tool_use"}
metadata {"usage":{"inputTokens":0,"outputTokens":0,"totalTokens":0}}
`),
	}})
	want := []chat.Part{
		chat.Reasoning{Text: "Hm.", Signature: "c2ln"}, chat.Reasoning{Signature: "aGlkZGVu", Redacted: true},
		chat.Native{Provider: "bedrock", Type: "toolUse", Data: `{"toolUse":{"input":{"q":1},"name":"nova_grounding","toolUseId":"s1","type":"server_tool_use"}}`},
		chat.Native{Provider: "bedrock", Type: "toolResult", Data: `{"toolResult":{"content":[{"text":"found"}],"toolUseId":"s1"}}`},
		chat.Text{Text: "It is so."},
		chat.Citation{URL: "https://a.example", Title: "A page", Text: "so", Provider: "bedrock", Data: `{"title":"A page","sourceContent":[{"text":"so"}],"location":{"web":{"url":"https://a.example","domain":"a.example"}}}`},
		chat.Image{Source: chat.Source{Data: []byte("png"), MIME: "image/png"}},
		chat.ToolCall{ID: "t1", Name: "f", Args: `{"a":1}`}, chat.ToolCall{ID: "t2", Name: "g", Args: "{}"},
	}
	whole, err := m.Generate(t.Context(), hello())
	if err != nil || !reflect.DeepEqual(whole.Message.Parts, want) {
		t.Errorf("whole: %v\n%+v\nwant\n%+v", err, whole, want)
	}
	streamed, err := model.Collect(m.Stream(t.Context(), hello()))
	if err != nil || !reflect.DeepEqual(streamed.Message.Parts, want) {
		t.Errorf("streamed: %v\n%+v\nwant\n%+v", err, streamed, want)
	}
}

func file(name, kind, data string) chat.File {
	return chat.File{Name: name, Source: chat.Source{Data: []byte(data), MIME: kind}}
}

// sends returns what is sent, which the strict server has taken.
func sends(t *testing.T, req *model.Request, opts ...bedrock.Option) string {
	t.Helper()
	s := &strict.Server{Answers: []string{novaAnswer}}
	if _, err := converse(s, opts...).Generate(t.Context(), req); err != nil {
		t.Fatal(err, s.Refused)
	}
	return string(s.Requests[0])
}

func TestAConversationIsSentAsConverseTakesIt(t *testing.T) {
	half := 0.5
	call := chat.ToolCall{ID: "c:1", Name: "f", Args: `{"a":`}
	failed := chat.Result(call, file("a.csv", "text/csv", "1,2"))
	r := failed.Parts[0].(chat.ToolResult)
	r.IsError = true
	failed.Parts = []chat.Part{r}
	req := &model.Request{
		Messages: []chat.Message{
			chat.System("Be brief."),
			{Role: chat.RoleUser, Parts: []chat.Part{
				file("a_b.pdf", "application/pdf", "%PDF"), file("a b!pdf", "application/pdf", "%PDF"), file("", "video/mp4", "mp4"),
				chat.Image{Source: chat.Source{FileID: "s3://bucket/a.png", MIME: "image/png"}}, chat.Audio{Source: chat.Source{Data: []byte("wav"), MIME: "audio/wav"}},
			}},
			{Role: chat.RoleAssistant, Model: nova, Parts: []chat.Part{chat.Reasoning{Text: "Hm.", Signature: "c2ln"}, chat.Reasoning{Signature: "aGk=", Redacted: true}, chat.Reasoning{Text: "unsigned"}, call}},
			failed,
			{Role: chat.RoleAssistant, Model: "claude", Parts: []chat.Part{chat.Reasoning{Text: "another's", Signature: "c2ln"}, chat.Text{Text: "So."}}},
			chat.User("And?"),
		},
		Tools:  []chat.ToolSpec{{Name: "f", Description: "F.", Strict: true}},
		Output: &model.Schema{Description: "It.", Schema: json.RawMessage(`{"type":"object"}`)},
		Cache:  []model.CachePoint{{Tools: true}, {Message: 0, TTL: time.Hour}, {Message: 2}, {Message: 5}},
		Config: model.Config{MaxTokens: 9, Temperature: &half, Stop: []string{"END"}, Reasoning: "low", Extra: map[string]any{"additionalModelRequestFields": map[string]any{"k": 1}}},
	}
	want := strings.NewReplacer("\n", "", "\t", "").Replace(`{"messages":[
		{"role":"user","content":[{"text":"The document a b pdf:"},
			{"document":{"name":"a b pdf","format":"pdf","source":{"bytes":"JVBERg=="}}},{"document":{"name":"a b pdf (2)","format":"pdf","source":{"bytes":"JVBERg=="}}},
			{"video":{"format":"mp4","source":{"bytes":"bXA0"}}},{"image":{"format":"png","source":{"s3Location":{"uri":"s3://bucket/a.png"}}}},{"audio":{"format":"wav","source":{"bytes":"d2F2"}}}]},
		{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"Hm.","signature":"c2ln"}}},{"reasoningContent":{"redactedContent":"aGk="}},
			{"toolUse":{"toolUseId":"call_ID","name":"f","input":{"INVALID_JSON":"{\"a\":"}}},{"cachePoint":{"type":"default"}}]},
		{"role":"user","content":[{"toolResult":{"toolUseId":"call_ID","content":[{"document":{"name":"a csv","format":"csv","source":{"bytes":"MSwy"}}}],"status":"error"}}]},
		{"role":"assistant","content":[{"text":"So."}]},
		{"role":"user","content":[{"text":"And?"},{"cachePoint":{"type":"default"}}]}],
	"system":[{"text":"Be brief."},{"cachePoint":{"type":"default","ttl":"1h"}}],
	"inferenceConfig":{"maxTokens":9,"temperature":0.5,"stopSequences":["END"]},
	"toolConfig":{"tools":[{"toolSpec":{"name":"f","description":"F.","inputSchema":{"json":{"type":"object","properties":{}}},"strict":true}}]},
	"outputConfig":{"effort":"low","textFormat":{"type":"json_schema","structure":{"jsonSchema":{"schema":"{\"type\":\"object\"}","name":"answer","description":"It."}}}},
	"additionalModelRequestFields":{"k":1}}`)
	got := sends(t, req, bedrock.Capabilities(model.Table{"nova-pro": {Images: true, Audio: true, Files: true, Tools: true, Caching: true}}))
	id := got[strings.Index(got, "call_"):][:len("call_")+32]
	if got = strings.ReplaceAll(got, id, "call_ID"); got != want {
		t.Errorf("sent\n%s\nwant\n%s", got, want)
	}

	// A model that keeps nothing is not asked to.
	if got := sends(t, req, bedrock.Capabilities(model.Table{"nova-pro": {Tools: true, Images: true, Files: true}})); strings.Contains(got, "cachePoint") {
		t.Errorf("sent %s", got)
	}
}

// The API takes no calls and results without tools, and has no choice of none.
func TestCallsAreToldWhereNoToolsAreOffered(t *testing.T) {
	call := chat.ToolCall{ID: "c1", Name: "f", Args: `{"a":1}`}
	req := &model.Request{Messages: []chat.Message{chat.User("hi"), chat.AI("", call), chat.ResultText(call, "done"), chat.User("so?")}}
	told := `{"role":"assistant","content":[{"text":"[The tool f is called with {\"a\":1}]"}]},{"role":"user","content":[{"text":"[The tool f returned:]"},{"text":"done"},{"text":"so?"}]}`
	if got := sends(t, req); !strings.Contains(got, told) {
		t.Errorf("sent %s", got)
	}
	req.Tools, req.ToolChoice, req.Cache = []chat.ToolSpec{{Name: "f"}}, model.ToolNone, []model.CachePoint{{Tools: true}}
	if got := sends(t, req); !strings.Contains(got, told) || strings.Contains(got, "toolConfig") {
		t.Errorf("sent %s", got)
	}
}

func TestWhatConverseCannotBeSentIsAnError(t *testing.T) {
	n, k := 1.0, 3
	image := func(s chat.Source) []chat.Message {
		return []chat.Message{{Role: chat.RoleUser, Parts: []chat.Part{chat.Image{Source: s}}}}
	}
	for says, req := range map[string]*model.Request{
		"TopK is not supported":            {Config: model.Config{TopK: &k}},
		"FrequencyPenalty is not":          {Config: model.Config{FrequencyPenalty: &n}},
		"ReasoningTokens is not":           {Config: model.Config{ReasoningTokens: 100}},
		"ParallelTools is not":             {Config: model.Config{ParallelTools: new(bool)}},
		"Reasoning none is not":            {Config: model.Config{Reasoning: "none"}},
		`Reasoning "much"`:                 {Config: model.Config{Reasoning: "much"}},
		"MaxTokens is -1":                  {Config: model.Config{MaxTokens: -1}},
		`"inferenceConfig.maxTokens" is`:   {Config: model.Config{MaxTokens: 1, Extra: map[string]any{"inferenceConfig": map[string]any{"maxTokens": 2}}}},
		"Output.Schema":                    {Output: &model.Schema{}},
		`ToolChoice "f" without`:           {ToolChoice: "f"},
		`ToolChoice "g" is none`:           {ToolChoice: "g", Tools: []chat.ToolSpec{{Name: "f"}}},
		`the schema of tool "f"`:           {Tools: []chat.ToolSpec{{Name: "f", Schema: json.RawMessage("1")}}},
		"Cache[0] is after message 5":      {Cache: []model.CachePoint{{Message: 5}}},
		"nothing but messages of":          {Messages: []chat.Message{chat.System("s")}},
		`role "narrator"`:                  {Messages: []chat.Message{{Role: "narrator"}}},
		"an image is not supported in":     {Messages: []chat.Message{{Role: chat.RoleSystem, Parts: []chat.Part{chat.Image{}}}}},
		`media type "image/tiff"`:          {Messages: image(chat.Source{Data: []byte("x"), MIME: "image/tiff"})},
		"it is not supported by URL or ID": {Messages: image(chat.Source{URL: "https://a.example/a.png", MIME: "image/png"})},
		"it is empty":                      {Messages: image(chat.Source{Data: []byte{}, MIME: "image/png"})},
	} {
		if req.Messages == nil {
			req.Messages = hello().Messages
		}
		_, err := converse(&strict.Server{Check: func(*http.Request, []byte) error {
			t.Errorf("%s: it was sent", says)
			return errors.New("no")
		}}).Generate(t.Context(), req)
		if failure(t, err, model.ErrorInvalid, ""); !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
	_, err := bedrock.New("", bedrock.Account{Config: signs("aws-secret")}).Generate(t.Context(), hello())
	failure(t, err, model.ErrorInvalid, "")
}

func TestAnAnswerThatIsNoneOfConversesIsAnError(t *testing.T) {
	stream := func(lines ...string) string { return strict.ConverseStream(strings.Join(lines, "\n")) }
	begun := `messageStart {"role":"assistant"}`
	for name, c := range map[string]struct {
		answer string
		kind   model.ErrorKind
	}{
		"no message":              {`{"output":{}}`, model.ErrorResponse},
		"no JSON":                 {`{"output":[]}`, model.ErrorResponse},
		"a block of two things":   {`{"output":{"message":{"content":[{"new":1,"other":2}]}}}`, model.ErrorResponse},
		"nothing before it began": {stream(`contentBlockDelta {"delta":{"text":"a"}}`), model.ErrorResponse},
		"two beginnings":          {stream(begun, begun), model.ErrorResponse},
		"input of no call":        {stream(begun, `contentBlockDelta {"delta":{"toolUse":{"input":"{"}}}`), model.ErrorResponse},
		"an image of none":        {stream(begun, `contentBlockDelta {"delta":{"image":{"source":{"bytes":"YQ=="}}}}`), model.ErrorResponse},
		"another form":            {stream(begun, `contentBlockDelta {"delta":{"text":1}}`), model.ErrorResponse},
		"half a stream":           {stream(begun, `contentBlockDelta {"delta":{"text":"a"}}`), model.ErrorBrokenStream},
		"an exception":            {stream(begun) + strict.EventMessage(`{"message":"It failed."}`, ":message-type", "exception", ":exception-type", "throttlingException"), model.ErrorRateLimit},
	} {
		code := ""
		if c.kind == model.ErrorRateLimit {
			code = "throttlingException"
		}
		_, err := model.Collect(converse(&strict.Server{Answers: []string{c.answer}}).Stream(t.Context(), hello()))
		if e, ok := errors.AsType[*model.Error](err); !ok || e.Kind != c.kind || e.Provider != "bedrock" || e.Code != code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConverseIsRefusedWithAWSsWords(t *testing.T) {
	for want, check := range map[string]strict.Check{
		"invalid ValidationException":            refuses(400, "ValidationException", "The model returned the following errors: no."),
		"not found ResourceNotFoundException":    refuses(404, "ResourceNotFoundException", "This model version has reached the end of its life."),
		"authentication AccessDeniedException":   refuses(403, "AccessDeniedException", "You don't have access to the model."),
		"server ModelErrorException":             refuses(424, "ModelErrorException", "The model failed."),
		"context length ValidationException":     refuses(400, "ValidationException", "Input is too long for requested model."),
		"server ":                                func(*http.Request, []byte) error { return &strict.Refusal{Status: 502, Body: "<html>"} },
		"rate limit ThrottlingException":         refuses(429, "ThrottlingException", "Too many tokens, please wait before trying again."),
		"overloaded ModelNotReadyException":      refuses(429, "ModelNotReadyException", "The model is not ready."),
		"timeout ModelTimeoutException":          refuses(408, "ModelTimeoutException", "The model took too long."),
		"quota ServiceQuotaExceededException":    refuses(400, "ServiceQuotaExceededException", "Too many tokens per day."),
		"overloaded ServiceUnavailableException": refuses(503, "ServiceUnavailableException", "The service isn't available."),
	} {
		_, err := converse(&strict.Server{Check: check}).Generate(t.Context(), hello())
		e, ok := errors.AsType[*model.Error](err)
		if !ok || fmt.Sprintf("%s %s", e.Kind, e.Code) != want || e.Provider != "bedrock" {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestAmazonsModelsAreKnown(t *testing.T) {
	for _, name := range []string{nova, "amazon.nova-pro-v1:0", "arn:aws:bedrock:us-east-1:1:inference-profile/" + nova} {
		if c, ok := bedrock.New(name, bedrock.Account{}).Capabilities(""); !ok || !c.Tools || !c.Images || c.Schema || c.Context != 300_000 || c.Prices.Output != 3.2 {
			t.Errorf("%s: %+v, %v", name, c, ok)
		}
	}
}

// TestLiveConverse asks a real model, with the credentials of the environment.
func TestLiveConverse(t *testing.T) {
	name := os.Getenv("SUPERSTEP_LIVE_CONVERSE_MODEL")
	if name == "" {
		t.Skip("NOT RUN: no real model was asked; set SUPERSTEP_LIVE_CONVERSE_MODEL and AWS_REGION, and have credentials of AWS")
	}
	resp, err := model.Collect(bedrock.New(name, bedrock.Account{}).Stream(t.Context(), &model.Request{Messages: []chat.Message{chat.User("Say hello.")}}))
	if err != nil || resp.Message.Text() == "" {
		t.Errorf("%v, %v", resp, err)
	}
}

// What a document stands behind is what it stood behind in the request before, for the cache's
// sake.
func TestTheWordsBeforeADocumentStayWhenMoreIsSaid(t *testing.T) {
	list := []chat.Message{{Role: chat.RoleUser, Parts: []chat.Part{file("a.pdf", "application/pdf", "%PDF")}}, chat.Assistant(""), chat.User("And?")}
	const words = `{"role":"user","content":[{"text":"The document a pdf:"},{"document":`
	for n := range list {
		if got := sends(t, &model.Request{Messages: list[:n+1]}); !strings.Contains(got, words) {
			t.Errorf("of %d messages is sent %s", n+1, got)
		}
	}
}
