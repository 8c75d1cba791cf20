package vendor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/redact"
	"github.com/superstep-dev/superstep/internal/sse"
	"github.com/superstep-dev/superstep/model"
)

// DefaultIdle is how long a stream may be silent if the options don't say. Some
// models think for minutes before they say a word.
const DefaultIdle = 10 * time.Minute

// maxAnswer bounds what is kept of an answer: the whole of it, or one event of a
// stream. Answers may hold pictures.
const maxAnswer = 128 << 20

// Hook sees a request before it is sent: it may alter the header, and what it
// returns is the body.
type Hook = func(ctx context.Context, header http.Header, body []byte) ([]byte, error)

// Settings are those that the options of all vendors' packages set.
type Settings struct {
	Key      string
	BaseURL  string
	HTTP     *http.Client
	Header   http.Header // in the place of those that are sent anyway
	Defaults model.Config
	Idle     time.Duration // 0 means DefaultIdle, less than that no limit
	Hook     Hook
	Table    model.Table // nil means model.KnownModels
	Cloud    *Cloud      // nil means that the vendor runs the models himself
}

// TableOf returns the table of models.
func (s *Settings) TableOf() model.Table {
	if s.Table == nil {
		return model.KnownModels()
	}
	return maps.Clone(s.Table)
}

// SetHeader adds a header to every request; the last of a name counts.
func (s *Settings) SetHeader(name, value string) {
	if s.Header == nil {
		s.Header = http.Header{}
	}
	s.Header.Set(name, value)
}

// API is a vendor's API over HTTP.
type API struct {
	Provider string

	// Refused makes an error of what the API says in an error's body, or of an
	// error in a stream, whose status is 0.
	Refused func(status int, body []byte) *model.Error

	// Mend says what to do about credentials that are refused; "" says nothing.
	Mend string

	base    *url.URL
	header  http.Header
	client  *http.Client
	secrets redact.Secrets
	idle    time.Duration
	hook    Hook
	cloud   *Cloud
	most    int // maxAnswer
}

// API returns the API that the settings are for. Auth are the headers that carry
// the key. What is wrong with the settings is the error.
func (s *Settings) API(provider string, auth map[string]string, refused func(status int, body []byte) *model.Error) (*API, *model.Error) {
	a := &API{Provider: provider, Refused: refused, header: http.Header{}, idle: s.Idle, hook: s.Hook, cloud: s.Cloud, most: maxAnswer}
	if s.Cloud != nil {
		a.Provider, a.Mend = s.Cloud.Name, s.Cloud.Mend
		if s.Cloud.Err != nil {
			return nil, s.Cloud.Err
		}
		if s.Key != "" || s.BaseURL != "" {
			return nil, Invalid(a.Provider, "the options APIKey and BaseURL are the vendor's own: leave them out, package %s has others", s.Cloud.Name)
		}
		s.BaseURL = s.Cloud.BaseURL
	}
	if a.idle == 0 {
		a.idle = DefaultIdle
	}
	for name, value := range auth {
		a.header.Set(name, value)
	}
	a.secrets.Add(s.Key)
	for name, values := range s.Header {
		a.header[name] = values
	}
	if name, ok := unsendable(a.header); ok {
		return nil, Invalid(a.Provider, "the header %q can't be sent: it holds what no header can", name)
	}
	for name := range a.header {
		a.secrets.AddHeader(name, a.header.Get(name))
	}
	u, wrong := parseBase(s.BaseURL)
	if wrong != "" {
		return nil, Invalid(a.Provider, "%s", wrong)
	}
	a.base = u
	a.secrets.AddURL(u)
	client := http.Client{}
	if s.HTTP != nil {
		client = *s.HTTP
	}
	if client.CheckRedirect == nil {
		// Another server would be sent the key, and a request made anew has no body.
		client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
			if first := via[0]; len(via) >= 10 || r.Method != first.Method || r.URL.Scheme != first.URL.Scheme || r.URL.Host != first.URL.Host {
				return http.ErrUseLastResponse
			}
			return nil
		}
	}
	a.client = &client
	return a, nil
}

// Host is the name of the server.
func (a *API) Host() string { return a.base.Hostname() }

// unsendable returns the name of a header that no request can have.
func unsendable(h http.Header) (string, bool) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		bad := name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) })
		for _, v := range h[name] {
			bad = bad || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
		}
		if bad {
			return name, true
		}
	}
	return "", false
}

// HasKey reports whether one of the headers likely is a key.
func (s *Settings) HasKey() bool {
	for name := range s.Header {
		if redact.Secretive(name) {
			return true
		}
	}
	return false
}

// Call is a request to an API.
type Call struct {
	Path   string            // below the base URL
	Header map[string]string // of this one
	Body   []byte            // JSON
	Query  string
	Stream bool // the answer comes in events
}

// Answer is the answer of a server that accepted a call.
type Answer struct {
	Header http.Header

	api     *API
	ctx     context.Context // the caller's
	own     context.Context // the request's
	cancel  context.CancelCauseFunc
	body    io.ReadCloser
	secrets redact.Secrets
}

// idleError says that a stream was silent for too long.
type idleError struct{ limit time.Duration }

func (e *idleError) Error() string { return fmt.Sprintf("nothing came for %v", e.limit) }

// Send sends a call. The answer is to be closed.
func (a *API) Send(ctx context.Context, c Call) (*Answer, error) {
	if err := Ended(ctx, a.Provider); err != nil {
		return nil, err
	}
	header := a.header.Clone()
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json")
	if c.Stream {
		header.Set("Accept", "text/event-stream")
	}
	for name, value := range c.Header {
		header.Set(name, value)
	}
	body := c.Body
	if a.hook != nil {
		var err error
		if body, err = a.hook(ctx, header, body); err != nil {
			return nil, Invalid(a.Provider, "the hook of requests: %w", err)
		}
	}
	if name, ok := unsendable(header); ok {
		return nil, Invalid(a.Provider, "the header %q can't be sent: it holds what no header can", name)
	}
	ans := &Answer{api: a, ctx: ctx, secrets: slices.Clone(a.secrets)}
	ans.own, ans.cancel = context.WithCancelCause(ctx)
	u := a.base.JoinPath(c.Path)
	u.RawQuery = c.Query
	req, err := http.NewRequestWithContext(ans.own, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		ans.cancel(nil)
		return nil, ans.Fail(Invalid(a.Provider, "the request can't be made: %w", err))
	}
	req.Header = header
	if a.cloud != nil {
		if err := a.cloud.prepare(req, body); err != nil {
			err = ans.Fail(err)
			ans.cancel(nil)
			return nil, err
		}
	}
	for name := range req.Header {
		ans.secrets.AddHeader(name, req.Header.Get(name))
	}
	stop := func() {}
	if c.Stream && a.idle > 0 {
		stop = ans.watch()
	}
	resp, err := a.client.Do(req)
	stop()
	if err != nil {
		err = ans.broken(model.ErrorConnection, err)
		ans.cancel(nil)
		return nil, err
	}
	if a.cloud != nil && a.cloud.Answer != nil {
		a.cloud.Answer(resp)
	}
	ans.Header, ans.body = resp.Header, resp.Body
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer ans.Close()
		return nil, ans.refused(resp.StatusCode)
	}
	return ans, nil
}

// watch ends the request when the idle limit has passed and it wasn't stopped.
func (ans *Answer) watch() (stop func()) {
	t := time.AfterFunc(ans.api.idle, func() { ans.cancel(&idleError{ans.api.idle}) })
	return func() { t.Stop() }
}

// maxErrorBody bounds what is read of an error's body.
const maxErrorBody = 1 << 20

// refused is the error of a response that isn't a success.
func (ans *Answer) refused(status int) error {
	body, _ := io.ReadAll(io.LimitReader(ans.body, maxErrorBody)) // the status alone says enough
	e := ans.api.Refused(status, body)
	if c := ans.api.cloud; c != nil && c.Refused != nil {
		c.Refused(e, ans.Header, body)
	}
	if e.Kind == model.ErrorAuth && ans.api.Mend != "" {
		e.Message = strings.TrimPrefix(e.Message+"; "+ans.api.Mend, "; ")
	}
	e.Status = status
	e.RequestID = requestID(ans.Header)
	if e.RetryAfter == 0 {
		e.RetryAfter = RetryAfter(ans.Header)
	}
	return ans.Fail(e)
}

// requestID is what the vendor calls the request.
func requestID(h http.Header) string {
	for _, name := range []string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid"} {
		if id := h.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// Fail makes the error that the caller gets of one that came up: the context's if it
// ended, and one without secrets otherwise.
func (ans *Answer) Fail(err error) error {
	if ended := Ended(ans.ctx, ans.api.Provider); ended != nil {
		return ended
	}
	if e, ok := errors.AsType[*model.Error](err); ok {
		if ans.api.cloud != nil {
			e.Provider = ans.api.Provider // the vendor's package has put in the vendor
		}
		return clean(ans.secrets, e)
	}
	return err
}

// broken is the error of a request or an answer that broke off: of a kind, if it
// isn't one of time or size.
func (ans *Answer) broken(kind model.ErrorKind, err error) error {
	e, ok := errors.AsType[*model.Error](err)
	if ok { // a cloud says in its stream what went wrong
		e.RequestID = requestID(ans.Header)
		return ans.Fail(e)
	}
	e = &model.Error{Provider: ans.api.Provider, Kind: kind, Err: err, RequestID: requestID(ans.Header)}
	slow, ok := errors.AsType[net.Error](err)
	idle, silent := errors.AsType[*idleError](context.Cause(ans.own))
	switch {
	case silent:
		e.Kind, e.Err = model.ErrorTimeout, idle
	case ok && slow.Timeout(), errors.Is(err, context.DeadlineExceeded):
		// A deadline of the client's, not the context's: it must not be mistaken
		// for that.
		e.Kind, e.Err = model.ErrorTimeout, errors.New(err.Error())
	case errors.Is(err, sse.ErrTooLong):
		e.Kind, e.Message = model.ErrorResponse, fmt.Sprintf("the answer, or an event of it, has more than %d bytes", ans.api.most)
	}
	return ans.Fail(e)
}

// Close ends the request if it is still under way.
func (ans *Answer) Close() {
	ans.cancel(nil)
	_ = ans.body.Close() // nothing more is wanted of it
}

// Bytes returns the body.
func (ans *Answer) Bytes() ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(ans.body, int64(ans.api.most)+1))
	if err == nil && len(body) > ans.api.most {
		err = sse.ErrTooLong
	}
	if err != nil {
		return nil, ans.broken(model.ErrorBrokenStream, err)
	}
	return body, nil
}

// Read implements [io.Reader]. A stream that is silent for too long is ended; the
// time in which nobody reads doesn't count.
func (ans *Answer) Read(p []byte) (int, error) {
	if ans.api.idle > 0 {
		defer ans.watch()()
	}
	return ans.body.Read(p)
}

// Do sends a call and returns the body of its answer, which isn't streamed.
func (a *API) Do(ctx context.Context, c Call) (*Answer, []byte, error) {
	ans, err := a.Send(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	defer ans.Close()
	body, err := ans.Bytes()
	return ans, body, err
}

// Whole reads an answer that isn't streamed.
type Whole func(body []byte) (chat.Message, error)

// Event is an event of a stream, as vendors send them.
type Event = sse.Event

// Stream reads an answer that comes in events.
type Stream interface {
	// Event returns what an event says. Done says that nothing follows.
	Event(ev Event) (chunks []chat.Chunk, done bool, err error)

	// End returns what is still to say once nothing more came. Whole says whether
	// the answer has come to its end.
	End() (chunks []chat.Chunk, whole bool)
}

// Generate sends a call and reads the whole answer.
func (a *API) Generate(ctx context.Context, c Call, whole Whole) (*model.Response, error) {
	ans, body, err := a.Do(ctx, c)
	if err != nil {
		return nil, err
	}
	m, err := ans.message(body, whole)
	if err != nil {
		return nil, err
	}
	return &model.Response{Message: m}, nil
}

func (ans *Answer) message(body []byte, whole Whole) (chat.Message, error) {
	m, err := whole(body)
	if err != nil {
		if e, ok := errors.AsType[*model.Error](err); ok {
			e.RequestID = requestID(ans.Header)
		}
		return m, ans.Fail(err)
	}
	if id := requestID(ans.Header); id != "" {
		m.Metadata = maps.Clone(m.Metadata)
		if m.Metadata == nil {
			m.Metadata = map[string]string{}
		}
		m.Metadata[chat.MetadataRequestID] = id
	}
	return m, nil
}

// Stream yields an answer in chunks as they come. The call is made anew each time
// that it is ranged over. A server that answers whole though it was asked to stream
// yields one chunk.
func (a *API) Stream(ctx context.Context, call func() (Call, error), whole Whole, open func() Stream) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		c, err := call()
		if err != nil {
			yield(chat.Chunk{}, err)
			return
		}
		ans, err := a.Send(ctx, c)
		if err != nil {
			yield(chat.Chunk{}, err)
			return
		}
		defer ans.Close()
		if err := ans.stream(whole, open(), yield); err != nil {
			yield(chat.Chunk{}, err)
		}
	}
}

func (ans *Answer) stream(whole Whole, s Stream, yield func(chat.Chunk, error) bool) error {
	kind, _, _ := mime.ParseMediaType(ans.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		body, err := ans.Bytes()
		if err != nil {
			return err
		}
		m, err := ans.message(body, whole)
		if err != nil {
			if e, ok := errors.AsType[*model.Error](err); ok && e.Kind == model.ErrorResponse {
				e.Message += fmt.Sprintf("; it is of type %q and no stream of events", kind)
			}
			return err
		}
		yield(chat.ChunkOf(m), nil)
		return nil
	case "text/html":
		return ans.Fail(Unreadable(ans.api.Provider, "the answer is of type %q and no stream of events", kind))
	}
	id := requestID(ans.Header)
	give := func(chunks []chat.Chunk) bool {
		for _, k := range chunks {
			if id != "" { // with the first
				k.Metadata = maps.Clone(k.Metadata)
				if k.Metadata == nil {
					k.Metadata = map[string]string{}
				}
				k.Metadata[chat.MetadataRequestID] = id
				id = ""
			}
			if !yield(k, nil) {
				return false
			}
		}
		return true
	}
	events := sse.NewReader(ans, ans.api.most)
	events.Bare = true
	var broke error
	for done := false; !done; {
		ev, err := events.Next()
		if err != nil {
			broke = err
			break
		}
		if len(ev.Data) == 0 { // a sign of life
			continue
		}
		var chunks []chat.Chunk
		if chunks, done, err = s.Event(ev); err != nil {
			if e, ok := errors.AsType[*model.Error](err); ok {
				e.RequestID = requestID(ans.Header)
			}
			return ans.Fail(err)
		}
		if !give(chunks) {
			return nil
		}
	}
	if chunks, ok := s.End(); ok {
		give(chunks)
		return nil
	}
	if broke == nil || errors.Is(broke, io.EOF) {
		broke = io.ErrUnexpectedEOF
	}
	return ans.broken(model.ErrorBrokenStream, broke)
}

// parseBase parses the URL of a server. The words for what is wrong with it tell no
// password; they are empty if nothing is.
func parseBase(base string) (u *url.URL, wrong string) {
	u, err := url.Parse(base)
	switch {
	case err != nil: // the parser's error quotes the URL, which may hold a password
		return nil, "the base URL can't be parsed as a URL"
	case (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") && strings.Contains(u.Opaque, "@"):
		return nil, "the base URL is not an http or https URL"
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Sprintf("the base URL %q is not an http or https URL", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return nil, "the base URL may not have a query or a fragment"
	}
	return u, ""
}
