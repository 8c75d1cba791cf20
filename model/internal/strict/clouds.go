package strict

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// as returns a request as the vendor's own API would have it.
func as(r *http.Request, path, query, header, value string) *http.Request {
	own := r.Clone(r.Context())
	own.URL = &url.URL{Path: path, RawQuery: query}
	own.Header.Set(header, value)
	return own
}

// Azure is a resource of Azure OpenAI, or of Foundry with a model of Anthropic's.
type Azure struct {
	Deployment string
	Key        string // one of Key and Token is taken
	Token      string
	APIVersion string // "" is the v1 API
	Expired    bool   // the token is
}

// Check checks a request to the resource.
func (a Azure) Check(r *http.Request, body []byte) error {
	refuse := func(code, message string) error {
		return &Refusal{Status: 401, Body: fmt.Sprintf(`{"error":{"code":%q,"message":%q}}`, code, message)}
	}
	key, token := r.Header.Get("Api-Key"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case key != "" && token != "":
		return errors.New("a key and a token")
	case key != "" && key != a.Key:
		return refuse("401", "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an active subscription and use a correct regional API endpoint for your resource.")
	case key == "" && (token == "" || token != a.Token || a.Expired):
		return refuse("401", "Unauthorized. Access token is missing, invalid, audience is incorrect (https://cognitiveservices.azure.com), or have expired.")
	}
	var q struct{ Model string }
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	path, deployment := strings.TrimPrefix(r.URL.Path, "/openai/v1"), q.Model
	if r.URL.Path == "/anthropic/v1/messages" && strings.HasSuffix(r.URL.Host, ".services.ai.azure.com") && r.URL.RawQuery == "" {
		if deployment != a.Deployment {
			return &Refusal{Status: 404, Body: `{"type":"error","error":{"type":"not_found_error","message":"The API deployment for this resource does not exist."}}`}
		}
		if r.Header.Get("X-Api-Key") != "" {
			return errors.New("a key of Anthropic's")
		}
		return Anthropic(as(r, "/v1/messages", "", "X-Api-Key", "k"), body)
	}
	if a.APIVersion != "" {
		deployment, path, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/openai/deployments/"), "/")
		path = "/" + path
		if strings.HasPrefix(r.URL.Path, "/openai/responses") {
			deployment, path = q.Model, "/responses"
		}
	}
	if want := strings.TrimSuffix("api-version="+a.APIVersion, "api-version="); r.URL.RawQuery != want || !strings.HasSuffix(r.URL.Host, ".openai.azure.com") {
		return &Refusal{Status: 404, Body: `{"error":{"code":"404","message":"Resource not found"}}`}
	}
	if deployment != a.Deployment {
		return &Refusal{Status: 404, Body: `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`}
	}
	own := as(r, "/v1"+path, "", "Authorization", "Bearer k")
	if path == "/responses" {
		return Responses(own, body)
	}
	return OpenAI(own, body)
}

// Vertex is a project of Google Cloud.
type Vertex struct {
	Project, Location string
	Token             string
	Expired           bool
}

// Check checks a request to a model of Google's or Anthropic's in the project.
func (v Vertex) Check(r *http.Request, body []byte) error {
	host := v.Location + "-aiplatform.googleapis.com"
	switch v.Location {
	case "global":
		host = "aiplatform.googleapis.com"
	case "us", "eu":
		host = "aiplatform." + v.Location + ".rep.googleapis.com"
	}
	version, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	parent, rest, ok := strings.Cut(rest, "/publishers/")
	publisher, model, _ := strings.Cut(rest, "/models/")
	model, method, _ := strings.Cut(model, ":")
	switch {
	case r.URL.Host != host || !ok || version != "v1" && version != "v1beta1":
		return &Refusal{Status: 404, Body: "<html>Not Found</html>"}
	case r.Header.Get("X-Goog-Api-Key") != "" || r.Header.Get("X-Api-Key") != "":
		return errors.New("a key")
	case r.Header.Get("Authorization") != "Bearer "+v.Token || v.Expired:
		return &Refusal{Status: 401, Body: `{"error":{"code":401,"message":"Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.","status":"UNAUTHENTICATED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"ACCESS_TOKEN_EXPIRED","domain":"googleapis.com"}]}}`}
	case parent != "projects/"+v.Project+"/locations/"+v.Location:
		return &Refusal{Status: 403, Body: fmt.Sprintf(`{"error":{"code":403,"message":"Permission 'aiplatform.endpoints.predict' denied on resource '//aiplatform.googleapis.com/%s' (or it may not exist).","status":"PERMISSION_DENIED"}}`, parent)}
	}
	switch publisher {
	case "google":
		return Gemini(as(r, "/v1beta/models/"+model+":"+method, r.URL.RawQuery, "X-Goog-Api-Key", "k"), body)
	case "anthropic":
		streams := strings.Contains(string(body), `"stream":true`)
		if method != map[bool]string{true: "streamRawPredict", false: "rawPredict"}[streams] || r.URL.RawQuery != "" {
			return fmt.Errorf("%s", r.URL)
		}
		return hosted(r, body, "vertex-2023-10-16", model, false)
	}
	return fmt.Errorf("the publisher %q", publisher)
}

// hosted checks a request to Anthropic's model that somebody else runs: the body has the
// version and not the model.
func hosted(r *http.Request, body []byte, version, model string, streams bool) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return err
	}
	if string(fields["anthropic_version"]) != fmt.Sprintf("%q", version) || r.Header.Get("Anthropic-Version") != "" {
		return errors.New("anthropic_version")
	}
	if fields["model"] != nil || streams && fields["stream"] != nil {
		return errors.New("the model or stream in the body")
	}
	delete(fields, "anthropic_version")
	fields["model"], _ = json.Marshal(model) // a string
	own := as(r, "/v1/messages", "", "X-Api-Key", "k")
	own.Header.Set("Anthropic-Version", "2023-06-01")
	whole, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return Anthropic(own, whole)
}

// Bedrock is an account of AWS.
type Bedrock struct {
	Region, Model              string
	AccessKey, Secret, Session string
	APIKey                     string
	Expired                    bool
}

func awsRefusal(status int, kind, message string) error {
	return &Refusal{Status: status, Header: http.Header{"X-Amzn-Errortype": {kind + ":http://internal.amazon.com/coral/com.amazon.bedrock/"}, "X-Amzn-Requestid": {"r-1"}}, Body: fmt.Sprintf(`{"message":%q}`, message)}
}

// Check checks a request in the account: to any model by Converse, or to one of Anthropic's.
func (b Bedrock) Check(r *http.Request, body []byte) error {
	if err := b.authorized(r, body); err != nil {
		return err
	}
	path, converses := r.URL.EscapedPath(), false
	accept := "application/json"
	for _, method := range []string{"/invoke-with-response-stream", "/invoke", "/converse-stream", "/converse"} {
		before, ok := strings.CutSuffix(path, method)
		if !ok {
			continue
		}
		path, converses = before, strings.HasPrefix(method, "/converse")
		if strings.HasSuffix(method, "-stream") {
			accept = "application/vnd.amazon.eventstream"
		}
		break
	}
	name, err := url.PathUnescape(strings.TrimPrefix(path, "/model/"))
	switch {
	case err != nil || !strings.HasPrefix(path, "/model/") || strings.Count(path, "/") != 2 || r.URL.Host != "bedrock-runtime."+b.Region+".amazonaws.com" || r.URL.RawQuery != "":
		return &Refusal{Status: 404, Header: http.Header{"X-Amzn-Errortype": {"UnknownOperationException"}}, Body: "{}"}
	case name != b.Model:
		return awsRefusal(400, "ValidationException", "The provided model identifier is invalid.")
	case r.Header.Get("Accept") != accept || r.Header.Get("Anthropic-Beta") != "":
		return errors.New("the headers")
	}
	if converses {
		if err := converse(body); err != nil {
			return awsRefusal(400, "ValidationException", err.Error())
		}
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return awsRefusal(400, "ValidationException", "Malformed input request")
	}
	var betas []string
	if fields["anthropic_beta"] != nil && json.Unmarshal(fields["anthropic_beta"], &betas) != nil {
		return errors.New("anthropic_beta")
	}
	delete(fields, "anthropic_beta")
	if body, err = json.Marshal(fields); err != nil {
		return err
	}
	return hosted(r, body, "bedrock-2023-05-31", name, true)
}

// authorized checks the key or the signature, version 4.
func (b Bedrock) authorized(r *http.Request, body []byte) error {
	auth := r.Header.Get("Authorization")
	if key, ok := strings.CutPrefix(auth, "Bearer "); ok {
		if key != b.APIKey || b.Expired {
			return awsRefusal(403, "AccessDeniedException", "Authentication failed: Please make sure your API Key is valid.")
		}
		return nil
	}
	fields, ok := strings.CutPrefix(auth, "AWS4-HMAC-SHA256 ")
	if !ok {
		return awsRefusal(403, "MissingAuthenticationTokenException", "Missing Authentication Token")
	}
	said := map[string]string{}
	for _, f := range strings.Split(fields, ", ") {
		name, value, _ := strings.Cut(f, "=")
		said[name] = value
	}
	key, scope, _ := strings.Cut(said["Credential"], "/")
	date := r.Header.Get("X-Amz-Date")
	signed := strings.Split(said["SignedHeaders"], ";")
	switch {
	case key != b.AccessKey || r.Header.Get("X-Amz-Security-Token") != b.Session:
		return awsRefusal(403, "UnrecognizedClientException", "The security token included in the request is invalid.")
	case b.Expired:
		return awsRefusal(403, "ExpiredTokenException", "The security token included in the request is expired")
	case len(date) != 16 || scope != date[:8]+"/"+b.Region+"/bedrock/aws4_request":
		return awsRefusal(403, "InvalidSignatureException", "Credential should be scoped to a valid region and service.")
	case !slices.IsSorted(signed) || !slices.Contains(signed, "host") || !slices.Contains(signed, "x-amz-date") || b.Session != "" && !slices.Contains(signed, "x-amz-security-token"):
		return awsRefusal(403, "IncompleteSignatureException", "The signed headers")
	}
	var canonical strings.Builder
	// The path is escaped once more than it is sent.
	segments := strings.Split(r.URL.EscapedPath(), "/")
	for i, s := range segments {
		segments[i] = strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(s), "+", "%20"), "%7E", "~")
	}
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", r.Method, strings.Join(segments, "/"), r.URL.RawQuery)
	for _, name := range signed {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(len(body))
		}
		fmt.Fprintf(&canonical, "%s:%s\n", name, strings.TrimSpace(value))
	}
	sum := sha256.Sum256(body)
	fmt.Fprintf(&canonical, "\n%s\n%s", said["SignedHeaders"], hex.EncodeToString(sum[:]))
	request := sha256.Sum256([]byte(canonical.String()))
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	secret := []byte("AWS4" + b.Secret)
	for _, part := range strings.Split(scope, "/") {
		secret = mac(secret, part)
	}
	if want := hex.EncodeToString(mac(secret, "AWS4-HMAC-SHA256\n"+date+"\n"+scope+"\n"+hex.EncodeToString(request[:]))); said["Signature"] != want {
		return awsRefusal(403, "InvalidSignatureException", "The request signature we calculated does not match the signature you provided.")
	}
	return nil
}

// EventStream returns a stream of server-sent events as Bedrock sends it: each in a
// message of AWS's event stream.
func EventStream(sse string) string {
	var b bytes.Buffer
	for line := range strings.Lines(sse) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			chunk := fmt.Sprintf(`{"bytes":%q,"p":"abcdef"}`, base64.StdEncoding.EncodeToString([]byte(strings.TrimSuffix(data, "\n"))))
			b.WriteString(EventMessage(chunk, ":event-type", "chunk", ":content-type", "application/json", ":message-type", "event"))
		}
	}
	return b.String()
}

// ConverseStream returns a stream of Converse, of which each line is the name of an event and
// its data.
func ConverseStream(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		if name, data, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			b.WriteString(EventMessage(data, ":event-type", name, ":content-type", "application/json", ":message-type", "event"))
		}
	}
	return b.String()
}

// EventMessage returns a message of AWS's event stream, with headers by name and value.
func EventMessage(payload string, headers ...string) string {
	var head, b []byte
	for i := 0; i < len(headers); i += 2 {
		head = append(head, byte(len(headers[i])))
		head = append(head, headers[i]...)
		head = append(head, 7) // a string
		head = binary.BigEndian.AppendUint16(head, uint16(len(headers[i+1])))
		head = append(head, headers[i+1]...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(16+len(head)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(head)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, head...), payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}
