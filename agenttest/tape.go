package agenttest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"gopkg.in/dnaeon/go-vcr.v4/pkg/cassette"
	"gopkg.in/dnaeon/go-vcr.v4/pkg/recorder"

	"github.com/superstep-dev/superstep/internal/jsondiff"
)

// recordEnv names the environment variable that makes tapes record.
const recordEnv = "SUPERSTEP_RECORD"

// ErrNotOnTape says that a request was made that is not on the tape, or was made
// more often than it is. The error is a [*TapeError].
var ErrNotOnTape = errors.New("the request is not on the tape")

// TapeError says that a tape has no answer to a request.
type TapeError struct {
	File   string
	Method string
	URL    string

	// Played is how many requests on the tape are like this one; all of them
	// were answered before.
	Played int

	// Diff is how the request differs from the nearest that is still to come.
	Diff []string
}

func (e *TapeError) Error() string {
	s := fmt.Sprintf("%s: %v: %s %s", e.File, ErrNotOnTape, e.Method, e.URL)
	switch {
	case e.Played > 0:
		s += fmt.Sprintf(" was recorded %s, and played already", times(e.Played))
	case len(e.Diff) == 0:
		s += ", and no other is left"
	default:
		s += "; against the nearest that is:"
	}
	for _, d := range e.Diff {
		s += "\n\t" + d
	}
	return s
}

// Is reports whether target is [ErrNotOnTape].
func (e *TapeError) Is(target error) bool { return target == ErrNotOnTape }

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// TapeOption is an option of [Tape].
type TapeOption func(*tape)

// Through records by means of a transport. The default is
// [http.DefaultTransport]. It isn't used to play.
func Through(rt http.RoundTripper) TapeOption { return func(t *tape) { t.through = rt } }

// Secret names values, such as passwords in bodies, that must not be on the tape.
// Empty ones are ignored.
func Secret(values ...string) TapeOption {
	return func(t *tape) {
		for _, v := range values {
			t.secrets.add(v)
		}
	}
}

// Replacing replaces, in the URLs and bodies of requests, what is different each
// time, such as dates and random IDs, before they are written and compared.
// Several are applied in order. With is a template as of
// [regexp.Regexp.ReplaceAllString].
func Replacing(re *regexp.Regexp, with string) TapeOption {
	return func(t *tape) { t.replace = append(t.replace, replacement{re, with}) }
}

// KeepHeaders writes headers of requests and responses, too, that are not written
// otherwise. Those whose names say that they are secret are masked all the same.
func KeepHeaders(names ...string) TapeOption {
	return func(t *tape) {
		for _, n := range names {
			t.headers = append(t.headers, http.CanonicalHeaderKey(n))
		}
	}
}

// AllowUnplayed lets a test pass that doesn't make all the requests on the tape.
func AllowUnplayed() TapeOption { return func(t *tape) { t.allowUnplayed = true } }

type replacement struct {
	re   *regexp.Regexp
	with string
}

// Tape returns a client whose requests are answered from a file, which must end
// in .yaml. It is safe for concurrent use and makes no connection.
//
// With SUPERSTEP_RECORD=1 in the environment, the requests go to their servers
// instead and the file is written when the test ends: unless it failed, or a
// request got no response. Where the variable CI is set too, recording fails the
// test.
//
// A request gets the first answer, not played yet, to a request with the same
// method, URL and body; bodies in JSON are compared by their values. So requests
// may come in another order than they were recorded in. One that is not on the
// tape fails the test and gets a [*TapeError] that says how it differs. A test
// that doesn't make all the requests on the tape fails, see [AllowUnplayed].
//
// Bodies are recorded whole, and a stream is played without pauses: while
// recording, it arrives when it is over.
//
// Keys aren't written. Of the headers only those are that the answer depends on
// (see [KeepHeaders]). What a request has in headers and parameters of its URL
// whose name has a word such as authorization, key, token, cookie or secret, and
// what stands in members of bodies such as access_token and password, is masked
// wherever else it is found too, if it has at least 8 bytes. [Secret] names more.
// What people and models say is written in the clear: look at a tape before you
// commit it.
func Tape(tb testing.TB, file string, opts ...TapeOption) *http.Client {
	tb.Helper()
	t := &tape{tb: tb, file: file, through: http.DefaultTransport}
	for _, o := range opts {
		o(t)
	}
	name, ok := strings.CutSuffix(filepath.Clean(file), ".yaml")
	if !ok {
		tb.Fatalf("agenttest: the name of the tape %s must end in .yaml", file)
	}
	if recording(tb) {
		return &http.Client{Transport: t.record(name)}
	}
	return &http.Client{Transport: t.play(name)}
}

// Key returns the value of an environment variable that holds a provider's key
// while tapes are recorded, without which the test fails. Otherwise it returns a
// value that is no key.
func Key(tb testing.TB, env string) string {
	tb.Helper()
	if !recording(tb) {
		return "no-key"
	}
	key := os.Getenv(env)
	if key == "" {
		tb.Fatalf("agenttest: recording needs a key in %s", env)
	}
	return key
}

// recording reports whether the environment asks to record.
func recording(tb testing.TB) bool {
	tb.Helper()
	switch v := os.Getenv(recordEnv); v {
	case "", "0":
		return false
	case "1":
	default:
		tb.Fatalf("agenttest: %s is %q: 1 records", recordEnv, v)
	}
	switch os.Getenv("CI") {
	case "", "0", "false":
		return true
	}
	tb.Fatalf("agenttest: %s is set, and so is CI: tapes are not recorded there", recordEnv)
	return false
}

type tape struct {
	tb            testing.TB
	file          string
	through       http.RoundTripper
	replace       []replacement
	headers       []string // to be written, too
	allowUnplayed bool
	secrets       secrets

	mu     sync.Mutex
	over   bool                    // the test has ended
	list   []*cassette.Interaction // to be played
	played []bool                  // of list
	told   map[string]bool         // failures
	rec    *recorder.Recorder
	n      int   // requests recorded
	failed error // the first request without a response
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// quiet is a writer other than [io.Discard], which would let the environment turn
// on a log that has the keys in it.
type quiet struct{ io.Writer }

// record returns a transport that records.
func (t *tape) record(name string) http.RoundTripper {
	t.tb.Helper()
	rec, err := recorder.New(name,
		recorder.WithMode(recorder.ModeRecordOnly),
		recorder.WithRealTransport(roundTripper(t.send)),
		recorder.WithHook(t.captured, recorder.AfterCaptureHook),
		recorder.WithHook(t.cleaned, recorder.BeforeSaveHook),
		recorder.WithDebugWriter(quiet{io.Discard}),
		recorder.WithSkipRequestLatency(true),
	)
	if err != nil {
		t.tb.Fatalf("agenttest: %v", err)
	}
	t.rec = rec
	t.tb.Cleanup(t.save)
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Del("Accept-Encoding") // secrets can't be found in what is compressed
		resp, err := rec.RoundTrip(r)
		if err != nil {
			t.mu.Lock()
			if t.failed == nil {
				t.failed = fmt.Errorf("%s %s: %w", r.Method, r.URL.Redacted(), err)
			}
			t.mu.Unlock()
		}
		return resp, err
	})
}

// send sends a request. It reads the body first: a server that refuses a request
// may not, and the recorder has of a body what was read of it.
func (t *tape) send(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return t.through.RoundTrip(r)
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	return body, errors.Join(err, r.Body.Close())
}

// captured learns the secrets of an exchange; it is under way.
func (t *tape) captured(i *cassette.Interaction) error {
	t.mu.Lock()
	t.n++
	t.mu.Unlock()
	u, err := url.Parse(i.Request.URL)
	if err != nil {
		return err
	}
	t.secrets.learnRequest(u, i.Request.Headers, i.Request.Body)
	t.secrets.learnResponse(i.Response.Headers, i.Response.Body)
	return nil
}

// cleaned brings an exchange into the form in which it is written.
func (t *tape) cleaned(i *cassette.Interaction) error {
	u, err := url.Parse(i.Request.URL)
	if err != nil {
		return err
	}
	body := t.body(i.Request.Body)
	i.Request = cassette.Request{
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Method: i.Request.Method, URL: t.url(u), Host: t.secrets.hide(u.Host),
		Headers: t.kept(i.Request.Headers, requestHeaders),
		Body:    body, ContentLength: int64(len(body)),
	}
	answer := t.secrets.hide(i.Response.Body)
	i.Response = cassette.Response{
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Status: i.Response.Status, Code: i.Response.Code,
		Headers: t.kept(i.Response.Headers, responseHeaders),
		Body:    answer, ContentLength: int64(len(answer)),
	}
	return nil
}

// save writes the file at the end of the test.
func (t *tape) save() {
	t.tb.Helper()
	t.mu.Lock()
	n, failed := t.n, t.failed
	t.mu.Unlock()
	switch {
	case t.tb.Failed():
		t.tb.Logf("agenttest: %s is not written, as the test failed", t.file)
	case failed != nil:
		t.tb.Errorf("agenttest: %s is not written, as a request got no response: %s", t.file, t.secrets.hide(failed.Error()))
	case n == 0:
		t.tb.Errorf("agenttest: %s is not written, as no request was made", t.file)
	default:
		if err := t.rec.Stop(); err != nil {
			t.tb.Errorf("agenttest: %s is not written: %v", t.file, err)
		}
	}
}

// The headers that are written; all others may hold secrets or change each time.
var (
	requestHeaders  = []string{"Accept", "Anthropic-Beta", "Anthropic-Version", "Content-Type"}
	responseHeaders = []string{"Content-Type", "Location", "Retry-After", "Retry-After-Ms", "X-Should-Retry"}
)

func (t *tape) kept(h http.Header, names []string) http.Header {
	out := http.Header{}
	for _, name := range slices.Concat(names, t.headers) {
		for _, v := range h.Values(name) {
			if secretive(name) {
				v = masked
			}
			out.Add(name, t.secrets.hide(v))
		}
	}
	if out.Get("Retry-After") != "" && h.Get("Date") != "" {
		out.Set("Date", h.Get("Date")) // which it may refer to
	}
	return out
}

// url returns the canonical text of a request's URL.
func (t *tape) url(u *url.URL) string {
	c := *u
	c.User, c.Fragment, c.RawFragment = nil, "", ""
	q := c.Query()
	for name, values := range q {
		if secretive(name) {
			for i := range values {
				values[i] = masked
			}
		}
	}
	c.RawQuery = q.Encode() // in the order of names
	return t.replaced(t.secrets.hide(c.String()))
}

// body returns the canonical text of a request's body: indented if it is JSON,
// so that people can read it.
func (t *tape) body(body string) string {
	body = t.replaced(t.secrets.hide(body))
	v, err := jsondiff.Decode(body)
	if err != nil {
		return body
	}
	return jsondiff.Encode(v, "  ")
}

func (t *tape) replaced(s string) string {
	for _, r := range t.replace {
		s = r.re.ReplaceAllString(s, r.with)
	}
	return s
}

// play returns a transport that plays.
func (t *tape) play(name string) http.RoundTripper {
	t.tb.Helper()
	c, err := cassette.Load(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		t.tb.Fatalf("agenttest: there is no tape %s; %s", t.file, t.advice("record it"))
	case err != nil:
		t.tb.Fatalf("agenttest: %s: %v", t.file, err)
	}
	t.list, t.played, t.told = c.Interactions, make([]bool, len(c.Interactions)), map[string]bool{}
	t.tb.Cleanup(t.checkPlayed)
	return roundTripper(t.answer)
}

func (t *tape) advice(what string) string {
	return fmt.Sprintf("%s with %s=1 go test -run '^%s$'", what, recordEnv, strings.ReplaceAll(t.tb.Name(), "/", "$/^"))
}

// checkPlayed fails the test for what is left on the tape at its end.
func (t *tape) checkPlayed() {
	t.tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.tb.Failed() || t.allowUnplayed {
		return
	}
	for n, i := range t.list {
		if !t.played[n] {
			t.tb.Errorf("agenttest: %s: request %d of %d was not made: %s %s; %s", t.file, n+1, len(t.list), i.Request.Method, i.Request.URL, t.advice("if that is right, record the tape again"))
			return
		}
	}
}

// answer plays the answer to a request.
func (t *tape) answer(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	t.secrets.learnRequest(r.URL, r.Header, string(body))
	asked := cassette.Request{Method: r.Method, URL: t.url(r.URL), Body: t.body(string(body))}

	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.find(asked)
	if err != nil {
		if text := err.Error(); !t.over && !t.told[text] {
			t.told[text] = true
			t.tb.Errorf("agenttest: %s\n%s", text, t.advice("if the request is right, record the tape again"))
		}
		return nil, err
	}
	t.played[n] = true
	resp, err := t.list[n].GetHTTPResponse()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.file, err)
	}
	resp.Header = resp.Header.Clone()
	resp.Request = r
	return resp, nil
}

// find returns the number of the exchange that a request is answered from.
func (t *tape) find(asked cassette.Request) (int, error) {
	fail := &TapeError{File: t.file, Method: asked.Method, URL: asked.URL}
	nearest, least := jsondiff.Differences(nil), 0
	for n, i := range t.list {
		d := compareRequests(i.Request, asked)
		switch w := d.Weight(); {
		case len(d) == 0 && !t.played[n]:
			return n, nil
		case len(d) == 0:
			fail.Played++
		case !t.played[n] && (nearest == nil || w < least):
			nearest, least = d, w
		}
	}
	if fail.Played == 0 {
		fail.Diff = nearest.Texts()
	}
	return 0, fail
}

// compareRequests says where two requests differ. The recorded one may have been
// edited by hand.
func compareRequests(recorded, asked cassette.Request) (d jsondiff.Differences) {
	if recorded.Method != asked.Method {
		d.Changed("method", recorded.Method, asked.Method)
	}
	if recorded.URL != asked.URL {
		d.Changed("URL", recorded.URL, asked.URL)
	}
	a, err := jsondiff.Decode(recorded.Body)
	b, err2 := jsondiff.Decode(asked.Body)
	switch {
	case recorded.Body == asked.Body:
	case err == nil && err2 == nil:
		d.Compare(a, b)
	default:
		d.Changed("body", recorded.Body, asked.Body)
	}
	return d
}
