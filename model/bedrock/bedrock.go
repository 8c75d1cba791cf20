// Package bedrock has Anthropic's models as Amazon Bedrock runs them, with an account's own
// credentials.
//
//	m := bedrock.New("us.anthropic.claude-sonnet-4-5-20250929-v1:0", bedrock.Account{Region: "us-east-1"})
//
// The models are those of package anthropic, which says what is sent and takes the options.
// anthropic.APIKey and anthropic.BaseURL are not for them. The name is that of a model, of an
// inference profile, or its ARN. Requests go by InvokeModel, whole and streamed. Failures
// are [*model.Error] of the provider "bedrock", with the Code that AWS gives, but for
// requests that package anthropic can't send at all.
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

// New returns a model. It reads the environment and does nothing else; what is wrong is the
// error of the calls.
func New(modelID string, a Account, opts ...anthropic.Option) *anthropic.Model {
	c := a.cloud()
	return anthropic.New(modelID, append(opts[:len(opts):len(opts)], func(s *vendor.Settings) { s.Cloud = c })...)
}

func (a Account) cloud() *vendor.Cloud {
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
		body, err := invoke(r, body)
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
	// A name may hold what a path can't, an ARN even slashes.
	before := strings.TrimSuffix(r.URL.Path, "/v1/messages") + "/model/"
	r.URL.RawPath = (&url.URL{Path: before}).EscapedPath() + strings.ReplaceAll(url.PathEscape(name), ":", "%3A") + method
	r.URL.Path = before + name + method
	return vendor.Extend(body, more, nil)
}

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

// answer makes what AWS streams what Anthropic streams.
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
