// Package bedrock has the models that Amazon Bedrock runs, with an account's own credentials:
// any by the Converse API, and Anthropic's by their own.
//
//	m := bedrock.New("us.amazon.nova-pro-v1:0", bedrock.Account{Region: "us-east-1"})
//	m := bedrock.Claude("us.anthropic.claude-sonnet-4-5-20250929-v1:0", bedrock.Account{Region: "us-east-1"})
//
// The name is that of a model, of an inference profile, or its ARN. Failures are
// [*model.Error] of the provider "bedrock", with the Code that AWS gives.
//
// [Claude] has all that package anthropic has, which says what is sent and takes the options,
// but for anthropic.APIKey and anthropic.BaseURL; requests that it can't send at all fail
// under its name. Requests go by InvokeModel, whole and streamed.
//
// # What Converse is sent
//
// Messages of the system are joined in the API's system field. Messages of one role that
// follow one another become one message; in it the results of tools come first. Texts of
// white space alone are left out, as are names of speakers. IDs of tool calls in a form that
// the API refuses are replaced. A call whose arguments are not a JSON object is sent as
// {"INVALID_JSON": "..."}. The API takes no calls and results where no tools are offered: they
// are told as text then, which is how [model.ToolNone] is sent, too.
//
// Reasoning is sent back, if it is signed, to the model that it is of: others refuse it.
//
// Pictures are JPEG, PNG, GIF and WebP; files are PDF, Word, Excel, CSV, HTML, Markdown and
// text, and videos; sounds are those that the API names. They are bytes, or in S3 by a
// [chat.Source.FileID] such as "s3://bucket/a.pdf". Names of documents lose what the API
// takes for no name.
//
// Reasoning is an effort, "low" to "max"; ReasoningTokens, TopK, Seed, the penalties and
// ParallelTools are not known to the API, so they are an error. What is a model's own is in
// Extra:
//
//	Extra: map[string]any{"additionalModelRequestFields": map[string]any{"reasoningConfig": map[string]any{"type": "enabled"}}}
//
// Each of [model.Request.Cache] is a cachePoint, but to models of which it is known that they
// keep nothing; Amazon's Nova takes none after the tools.
//
// # Credentials
//
// They are those of [Account], or else the API key in AWS_BEARER_TOKEN_BEDROCK, or else what
// the AWS SDK finds: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the profiles in ~/.aws, a
// sign-in by aws sso, or the role of the container or machine. Requests are signed with
// them. They need the rights bedrock:InvokeModel and
// bedrock:InvokeModelWithResponseStream. Credentials that are missing, wrong or expired are
// errors of [model.ErrorAuth] that say what to do.
package bedrock

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

const (
	provider = "bedrock"
	version  = "bedrock-2023-05-31" // of Anthropic's API
)

// Account says on whose account the models run, and where.
type Account struct {
	// Region is that of the models; "" means that of Config.
	Region string

	// APIKey is a key of Bedrock's own. Requests that have it are not signed.
	APIKey string

	// Config has the region and the credentials; nil means what config.LoadDefaultConfig
	// of the AWS SDK finds at the first call.
	Config *aws.Config

	// Endpoint is the server, in the place of the region's: one of a VPC, or a proxy.
	Endpoint string
}

// Claude returns a model of Anthropic's. It reads the environment and does nothing else;
// what is wrong is the error of the calls.
func Claude(modelID string, a Account, opts ...anthropic.Option) *anthropic.Model {
	c := a.cloud(invoke)
	return anthropic.New(modelID, append(opts[:len(opts):len(opts)], func(s *vendor.Settings) { s.Cloud = c })...)
}

// cloud returns Bedrock, for requests that are made its by a function.
func (a Account) cloud(prepare func(r *http.Request, body []byte) ([]byte, error)) *vendor.Cloud {
	c := &vendor.Cloud{
		Name: provider, BaseURL: cmp.Or(a.Endpoint, "https://bedrock-runtime.amazonaws.com"), Answer: answer, Refused: refused,
		Mend: "check with aws sts get-caller-identity whose credentials they are and that they are not expired, and that they may bedrock:InvokeModel and bedrock:InvokeModelWithResponseStream on the model in this region; the clock must be right",
	}
	if a.APIKey != "" && a.Config != nil && a.Config.Credentials != nil {
		c.Err = vendor.Invalid(provider, "the account has an APIKey and a Config with credentials: give one of them")
		return c
	}
	key := a.APIKey
	if a.Config == nil || a.Config.Credentials == nil {
		key = strings.TrimSpace(cmp.Or(key, os.Getenv("AWS_BEARER_TOKEN_BEDROCK")))
	}
	if key != "" {
		c.Mend = "check AWS_BEARER_TOKEN_BEDROCK or bedrock.Account.APIKey: it must be a key of Bedrock that is not expired, and whose user may invoke the model in this region"
	}
	find := &finder{found: a.Config}
	c.Prepare = func(r *http.Request, body []byte) ([]byte, error) {
		region := a.Region
		var cfg *aws.Config
		if key == "" || region == "" {
			var err error
			if cfg, err = find.config(r.Context()); err != nil {
				return nil, c.NoCredentials(err, http.StatusUnauthorized)
			}
			region = cmp.Or(region, cfg.Region)
		}
		if region == "" {
			return nil, vendor.Invalid(provider, "no region: set AWS_REGION or give bedrock.Account.Region")
		}
		body, err := prepare(r, body)
		if err != nil {
			return nil, vendor.Invalid(provider, "the request: %w", err)
		}
		if a.Endpoint == "" {
			r.URL.Host = "bedrock-runtime." + region + ".amazonaws.com"
			r.Host = r.URL.Host
		}
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
			return body, nil
		}
		return body, sign(r, body, c, find, region)
	}
	return c
}

// invoke makes a request to Anthropic one to Bedrock: the model is in the path, and what
// Anthropic has in the header is in the body.
func invoke(r *http.Request, body []byte) ([]byte, error) {
	name, body, err := vendor.TakeText(body, "model")
	if err != nil {
		return nil, err
	}
	body, taken, err := vendor.Take(body, "stream")
	if err != nil {
		return nil, err
	}
	more := map[string]any{"anthropic_version": version}
	if betas := r.Header.Get("Anthropic-Beta"); betas != "" {
		list := strings.Split(betas, ",")
		for i := range list {
			list[i] = strings.TrimSpace(list[i])
		}
		more["anthropic_beta"] = list
	}
	r.Header.Del("Anthropic-Beta")
	r.Header.Del("Anthropic-Version")
	method := "/invoke"
	if string(taken["stream"]) == "true" {
		method = "/invoke-with-response-stream"
		r.Header.Set("Accept", eventStream)
	}
	before := strings.TrimSuffix(r.URL.Path, "/v1/messages") + "/model/"
	r.URL.RawPath = (&url.URL{Path: before}).EscapedPath() + inPath(name) + method
	r.URL.Path = before + name + method
	return vendor.Extend(body, more, nil)
}

// inPath is a model's name in a path: it may hold what that can't, an ARN even slashes.
func inPath(name string) string { return strings.ReplaceAll(url.PathEscape(name), ":", "%3A") }

// sign signs a request.
func sign(r *http.Request, body []byte, c *vendor.Cloud, find *finder, region string) error {
	if find.credentials == nil {
		return c.NoCredentials(errors.New("the Config has no Credentials"), http.StatusUnauthorized)
	}
	creds, err := find.credentials.Retrieve(r.Context())
	if err != nil {
		status := http.StatusUnauthorized
		if e, ok := errors.AsType[interface {
			error
			HTTPStatusCode() int
		}](err); ok {
			status = e.HTTPStatusCode()
		}
		return c.NoCredentials(err, status)
	}
	sum := sha256.Sum256(body)
	r.ContentLength = int64(len(body)) // which is signed
	if err := v4.NewSigner().SignHTTP(r.Context(), creds, r, hex.EncodeToString(sum[:]), "bedrock", region, time.Now()); err != nil {
		return c.NoCredentials(err, http.StatusUnauthorized)
	}
	return nil
}

// finder finds the configuration, when it is needed.
type finder struct {
	mu          sync.Mutex
	found       *aws.Config
	credentials *aws.CredentialsCache // set by config, nil if it has none
}

func (f *finder) config(ctx context.Context) (*aws.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found == nil {
		cfg, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return nil, err
		}
		f.found = &cfg
	}
	if f.credentials == nil {
		if f.found.Credentials == nil {
			return f.found, nil
		}
		f.credentials = aws.NewCredentialsCache(f.found.Credentials)
	}
	return f.found, nil
}

// answer makes what AWS streams server-sent events.
func answer(r *http.Response) {
	if r.Header.Get("Content-Type") == eventStream {
		r.Header.Set("Content-Type", "text/event-stream")
		r.Body = newEvents(r.Body)
	}
}

// refused puts into an error what AWS says in its own way.
func refused(e *model.Error, header http.Header, body []byte) {
	code, _, _ := strings.Cut(header.Get("X-Amzn-Errortype"), ":")
	var said struct{ Message string }
	_ = json.Unmarshal(bytes.TrimSpace(body), &said) // it may be a proxy's page
	if said.Message != "" {
		e.Message = said.Message
	}
	if code != "" {
		e.Code, e.Kind = code, kindOf(code, e.Message, e.Kind)
	}
}

// kindOf tells what went wrong from AWS's names, of which some begin in lower case, or from
// what is known else.
func kindOf(code, message string, known model.ErrorKind) model.ErrorKind {
	message = strings.ToLower(message)
	switch strings.ToLower(strings.TrimSuffix(code, "Exception")) {
	case "throttling", "toomanyrequests":
		return model.ErrorRateLimit
	case "servicequotaexceeded":
		return model.ErrorQuota
	case "accessdenied", "unrecognizedclient", "expiredtoken", "invalidsignature", "missingauthenticationtoken", "incompletesignature", "signaturedoesnotmatch", "invalidclienttokenid":
		return model.ErrorAuth
	case "resourcenotfound":
		return model.ErrorNotFound
	case "modeltimeout":
		return model.ErrorTimeout
	case "serviceunavailable", "modelnotready":
		return model.ErrorOverloaded
	case "internalserver", "internalfailure", "modelerror", "modelstreamerror":
		return model.ErrorServer
	case "validation":
		switch {
		case strings.Contains(message, "too long"):
			return model.ErrorContextLength
		case strings.Contains(message, "model identifier is invalid"):
			return model.ErrorNotFound
		}
		return model.ErrorInvalid
	}
	return known
}
