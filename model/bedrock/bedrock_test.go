package bedrock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/bedrock"
	"github.com/superstep-dev/superstep/model/internal/strict"
)

const (
	claude   = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
	answered = `{"id":"msg","type":"message","role":"assistant","model":"claude-test","content":[{"type":"text","text":"Hello."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`
	began    = `data: {"type":"message_start","message":{"id":"msg","type":"message","role":"assistant","model":"claude-test","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hel"}}

`
	ended = `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo."}}

data: {"type":"content_block_stop","index":0}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}

data: {"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":1}}

`
)

// fake is an account, at which only what a test alters is wrong.
var fake = strict.Bedrock{Region: "us-east-1", Model: claude, AccessKey: "AKID", Secret: "aws-secret", Session: "aws-session", APIKey: "bedrock-key"}

func signs(secret string) *aws.Config {
	return &aws.Config{Region: "us-east-1", Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: secret, SessionToken: "aws-session"}, nil
	})}
}

func hello() *model.Request { return &model.Request{Messages: []chat.Message{chat.User("hi")}} }

// clear makes the SDK find nothing.
func clear(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_WEB_IDENTITY_TOKEN_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/nowhere/config")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("ANTHROPIC_API_KEY", "not-for-bedrock")
	t.Setenv("ANTHROPIC_BASE_URL", "https://not-bedrock.example")
}

func TestAnthropicsModelsOfAnAccountAnswer(t *testing.T) {
	const arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
	env := map[string]string{"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "aws-secret", "AWS_SESSION_TOKEN": "aws-session"}
	for name, c := range map[string]struct {
		model   string
		account bedrock.Account
		env     map[string]string
	}{
		"by credentials":            {claude, bedrock.Account{Config: signs("aws-secret")}, map[string]string{"AWS_BEARER_TOKEN_BEDROCK": "other"}},
		"by the environment":        {claude, bedrock.Account{}, env},
		"by a key":                  {claude, bedrock.Account{Region: "us-east-1", APIKey: "bedrock-key"}, map[string]string{"AWS_BEARER_TOKEN_BEDROCK": "other"}},
		"by a key, in the region":   {claude, bedrock.Account{}, map[string]string{"AWS_REGION": "us-east-1", "AWS_BEARER_TOKEN_BEDROCK": "bedrock-key"}},
		"in an inference profile":   {arn, bedrock.Account{Config: signs("aws-secret")}, nil},
		"in a region of the caller": {claude, bedrock.Account{Config: signs("aws-secret"), Region: "eu-west-1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			clear(t)
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			has := fake
			has.Model = c.model
			if c.account.Region != "" {
				has.Region = c.account.Region
			}
			s := &strict.Server{Check: has.Check, Answers: []string{answered, strict.EventStream(began + ended)}}
			m := bedrock.Claude(c.model, c.account, anthropic.HTTPClient(&http.Client{Transport: s}))
			resp, err := m.Generate(t.Context(), hello())
			if err != nil || resp.Message.Text() != "Hello." {
				t.Errorf("%v, %v", resp, err)
			}
			if resp, err = model.Collect(m.Stream(t.Context(), hello())); err != nil || resp.Message.Text() != "Hello." || resp.Message.Usage.Output != 9 {
				t.Errorf("streamed: %+v, %v", resp, err)
			}
		})
	}
}

func TestBetasAreInTheBody(t *testing.T) {
	s := &strict.Server{Check: fake.Check, Answers: []string{answered}}
	m := bedrock.Claude(claude, bedrock.Account{Config: signs("aws-secret")}, anthropic.HTTPClient(&http.Client{Transport: s}), anthropic.Header("anthropic-beta", "one, two"))
	if _, err := m.Generate(t.Context(), hello()); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Betas []string `json:"anthropic_beta"`
	}
	if err := json.Unmarshal(s.Requests[0], &sent); err != nil || !slices.Equal(sent.Betas, []string{"one", "two"}) {
		t.Errorf("%v, %q", err, sent.Betas)
	}
}

func TestAnEndpointOfOnesOwnIsAsked(t *testing.T) {
	var got string
	s := &strict.Server{Check: func(r *http.Request, _ []byte) error {
		got = r.URL.String()
		return nil
	}, Answers: []string{answered}}
	m := bedrock.Claude(claude, bedrock.Account{Config: signs("aws-secret"), Endpoint: "https://vpce.example/x/"}, anthropic.HTTPClient(&http.Client{Transport: s}))
	if _, err := m.Generate(t.Context(), hello()); err != nil {
		t.Fatal(err)
	}
	if want := "https://vpce.example/x/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestBedrocksNamesOfModelsAreKnown(t *testing.T) {
	for _, name := range []string{claude, "anthropic.claude-sonnet-4-5-20250929-v1:0", "arn:aws:bedrock:us-east-1:1:inference-profile/" + claude} {
		if c, ok := bedrock.Claude(name, bedrock.Account{}).Capabilities(""); !ok || !c.Reasoning {
			t.Errorf("%s: %+v, %v", name, c, ok)
		}
	}
}

func altered(alter func(*strict.Bedrock)) strict.Check {
	b := fake
	alter(&b)
	return b.Check
}

func refuses(status int, code, message string) strict.Check {
	return func(*http.Request, []byte) error {
		return &strict.Refusal{Status: status, Header: http.Header{"X-Amzn-Errortype": {code + ":http://x/"}, "X-Amzn-Requestid": {"r-1"}}, Body: fmt.Sprintf(`{"message":%q}`, message)}
	}
}

func TestWhatIsWrongWithCredentialsIsSaidWithTheMend(t *testing.T) {
	const mend = "aws sts get-caller-identity"
	good := bedrock.Account{Config: signs("aws-secret")}
	ended := errors.New("the SSO session has expired")
	for name, c := range map[string]struct {
		account bedrock.Account
		opts    []anthropic.Option
		check   strict.Check
		kind    model.ErrorKind
		code    string
		says    []string
	}{
		"no credentials":           {bedrock.Account{Region: "us-east-1"}, nil, nil, model.ErrorAuth, "", []string{"no credentials", mend}},
		"a Config without":         {bedrock.Account{Config: &aws.Config{Region: "us-east-1"}}, nil, nil, model.ErrorAuth, "", []string{"no Credentials", mend}},
		"a sign-in that has ended": {bedrock.Account{Region: "us-east-1", Config: &aws.Config{Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, ended })}}, nil, nil, model.ErrorAuth, "", []string{"the SSO session has expired", mend}},
		"no region":                {bedrock.Account{APIKey: "bedrock-key"}, nil, nil, model.ErrorInvalid, "", []string{"AWS_REGION"}},
		"a key and credentials":    {bedrock.Account{APIKey: "bedrock-key", Config: signs("x")}, nil, nil, model.ErrorInvalid, "", []string{"one of them"}},
		"Anthropic's key":          {good, []anthropic.Option{anthropic.APIKey("x")}, nil, model.ErrorInvalid, "", []string{"APIKey"}},
		"Anthropic's server":       {good, []anthropic.Option{anthropic.BaseURL("https://x")}, nil, model.ErrorInvalid, "", []string{"BaseURL"}},
		"a wrong secret":           {bedrock.Account{Config: signs("other-secret")}, nil, fake.Check, model.ErrorAuth, "InvalidSignatureException", []string{"(HTTP 403)", "signature", mend}},
		"an unknown account":       {good, nil, altered(func(b *strict.Bedrock) { b.AccessKey = "other" }), model.ErrorAuth, "UnrecognizedClientException", []string{"invalid", mend}},
		"an expired session":       {good, nil, altered(func(b *strict.Bedrock) { b.Expired = true }), model.ErrorAuth, "ExpiredTokenException", []string{"is expired", mend}},
		"an expired key":           {bedrock.Account{Region: "us-east-1", APIKey: "bedrock-key"}, nil, altered(func(b *strict.Bedrock) { b.Expired = true }), model.ErrorAuth, "AccessDeniedException", []string{"API Key", "AWS_BEARER_TOKEN_BEDROCK"}},
		"no right":                 {good, nil, refuses(403, "AccessDeniedException", "You don't have access to the model with the specified model ID."), model.ErrorAuth, "AccessDeniedException", []string{"access to the model", "bedrock:InvokeModel"}},
		"no such model":            {good, nil, altered(func(b *strict.Bedrock) { b.Model = "other" }), model.ErrorNotFound, "ValidationException", []string{"identifier is invalid"}},
		"too many requests":        {good, nil, refuses(429, "ThrottlingException", "Too many requests, please wait before trying again."), model.ErrorRateLimit, "ThrottlingException", []string{"Too many requests"}},
		"no capacity":              {good, nil, refuses(503, "ServiceUnavailableException", "Bedrock is unable to process your request."), model.ErrorOverloaded, "ServiceUnavailableException", nil},
		"a long conversation":      {good, nil, refuses(400, "ValidationException", "Input is too long for requested model."), model.ErrorContextLength, "ValidationException", nil},
		"a quota that is used up":  {good, nil, refuses(400, "ServiceQuotaExceededException", "Too many tokens per day."), model.ErrorQuota, "ServiceQuotaExceededException", nil},
		"what is new":              {good, nil, refuses(418, "NewException", "New."), model.ErrorInvalid, "NewException", nil},
	} {
		t.Run(name, func(t *testing.T) {
			clear(t)
			s := &strict.Server{Check: func(r *http.Request, body []byte) error {
				if c.check == nil {
					t.Error("a request was sent")
				}
				return c.check(r, body)
			}}
			_, err := bedrock.Claude(claude, c.account, append(c.opts, anthropic.HTTPClient(&http.Client{Transport: s}))...).Generate(t.Context(), hello())
			e := failure(t, err, c.kind, c.code)
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
			if c.code != "" && e.RequestID != "r-1" {
				t.Errorf("the request is %q", e.RequestID)
			}
			for _, secret := range []string{"aws-secret", "aws-session", "bedrock-key"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q tells a secret", err)
				}
			}
		})
	}
}

func failure(t *testing.T, err error, kind model.ErrorKind, code string) *model.Error {
	t.Helper()
	e, ok := errors.AsType[*model.Error](err)
	if !ok || e.Kind != kind || e.Provider != "bedrock" || e.Code != code {
		t.Fatalf("%#v, want kind %q and code %q", err, kind, code)
	}
	return e
}

func TestAStreamThatFailsSaysWhy(t *testing.T) {
	exception := func(kind string) string {
		return strict.EventMessage(`{"message":"It failed."}`, ":message-type", "exception", ":exception-type", kind)
	}
	damaged := []byte(strict.EventStream(ended))
	damaged[len(damaged)-1]++
	for name, c := range map[string]struct {
		then string
		kind model.ErrorKind
		code string
	}{
		"throttled":           {exception("throttlingException"), model.ErrorRateLimit, "throttlingException"},
		"the model failed":    {exception("modelStreamErrorException"), model.ErrorServer, "modelStreamErrorException"},
		"the model was slow":  {exception("modelTimeoutException"), model.ErrorTimeout, "modelTimeoutException"},
		"Bedrock failed":      {exception("internalServerException"), model.ErrorServer, "internalServerException"},
		"an error of its own": {strict.EventMessage("", ":message-type", "error", ":error-code", "InternalFailure", ":error-message", "It failed."), model.ErrorServer, "InternalFailure"},
		"it broke off":        {"", model.ErrorBrokenStream, ""},
		"it broke within":     {strict.EventStream(ended)[:20], model.ErrorBrokenStream, ""},
		"it is damaged":       {string(damaged), model.ErrorBrokenStream, ""},
		"a chunk is no JSON":  {strict.EventMessage(`{"bytes":"e30"`, ":message-type", "event", ":event-type", "chunk"), model.ErrorResponse, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &strict.Server{Check: fake.Check, Answers: []string{strict.EventStream(began) + strict.EventMessage("{}", ":message-type", "event", ":event-type", "new") + c.then}}
			resp, err := model.Collect(bedrock.Claude(claude, bedrock.Account{Config: signs("aws-secret")}, anthropic.HTTPClient(&http.Client{Transport: s})).Stream(t.Context(), hello()))
			failure(t, err, c.kind, c.code)
			if !strings.HasPrefix(resp.Message.Text(), "Hel") {
				t.Errorf("what came before is %q", resp.Message.Text())
			}
		})
	}
}

// TestLive asks a real model, with the credentials of the environment.
func TestLive(t *testing.T) {
	name := os.Getenv("SUPERSTEP_LIVE_BEDROCK_MODEL")
	if name == "" {
		t.Skip("NOT RUN: no real model was asked; set SUPERSTEP_LIVE_BEDROCK_MODEL and AWS_REGION, and have credentials of AWS")
	}
	m := bedrock.Claude(name, bedrock.Account{})
	resp, err := model.Collect(m.Stream(t.Context(), &model.Request{Messages: []chat.Message{chat.User("Say hello.")}}))
	if err != nil || resp.Message.Text() == "" {
		t.Errorf("%v, %v", resp, err)
	}
}
