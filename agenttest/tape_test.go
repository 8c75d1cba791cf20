package agenttest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/agenttest"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/gemini"
	"github.com/superstep-dev/superstep/model/openai"
)

// secret is what must never be on a tape.
const secret = "sk-5d1f0b77-very-secret"

// provider is a local server that speaks a provider's protocol.
type provider struct {
	answer, stream string    // bodies
	path           [2]string // whole and streamed
	model          func(url string, client *http.Client) model.Model
	authorized     func(h http.Header) bool
}

var providers = map[string]provider{
	"openai": {
		path: [2]string{"/v1/chat/completions", "/v1/chat/completions"},
		answer: `{"id":"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcU","object":"chat.completion","created":1,"model":"m-1","choices":[{"index":0,
			"message":{"role":"assistant","content":"Grüezi <you> & \"them\"","refusal":null},"finish_reason":"stop"}],
			"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`,
		stream: "data: {\"id\":\"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcU\",\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Grüezi \"}}]}\r\n\r\n" +
			": a comment\n\n" +
			"data: {\"id\":\"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcU\",\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"<you> & \\\"them\\\"\"},\"finish_reason\":null}]}\n\n" +
			"data: {\"id\":\"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcU\",\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
			"data: {\"id\":\"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcU\",\"model\":\"m-1\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}\n\n" +
			"data: [DONE]\n\n  ",
		model: func(url string, client *http.Client) model.Model {
			return openai.New("m", openai.APIKey(key()), openai.BaseURL(url+"/v1"), openai.HTTPClient(client))
		},
		authorized: func(h http.Header) bool { return h.Get("Authorization") == "Bearer "+secret },
	},
	"anthropic": {
		path: [2]string{"/v1/messages", "/v1/messages"},
		answer: `{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[{"type":"text","text":"Grüezi <you> & \"them\""}],
			"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":2}}`,
		stream: event("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}}`) +
			event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`) +
			event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grüezi "}}`) +
			event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"<you> & \"them\""}}`) +
			event("content_block_stop", `{"type":"content_block_stop","index":0}`) +
			event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}`) +
			event("message_stop", `{"type":"message_stop"}`),
		model: func(url string, client *http.Client) model.Model {
			return anthropic.New("m", anthropic.APIKey(key()), anthropic.BaseURL(url), anthropic.HTTPClient(client))
		},
		authorized: func(h http.Header) bool { return h.Get("X-Api-Key") == secret },
	},
	"gemini": {
		path: [2]string{"/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent"},
		answer: `{"candidates":[{"content":{"role":"model","parts":[{"text":"Grüezi <you> & \"them\""}]},"index":0,"finishReason":"STOP"}],
			"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2,"totalTokenCount":5},"modelVersion":"m-1","responseId":"resp_1"}`,
		stream: `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Grüezi "}]},"index":0}],"modelVersion":"m-1","responseId":"resp_1"}` + "\n\n" +
			`data: {"candidates":[{"content":{"role":"model","parts":[{"text":"<you> & "}]},"index":0}],"modelVersion":"m-1","responseId":"resp_1"}` + "\n\n" +
			`data: {"candidates":[{"content":{"role":"model","parts":[{"text":"\"them\""}]},"index":0,"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2},"modelVersion":"m-1","responseId":"resp_1"}` + "\n\n",
		model: func(url string, client *http.Client) model.Model {
			return gemini.New("m", gemini.APIKey(key()), gemini.BaseURL(url), gemini.HTTPClient(client))
		},
		authorized: func(h http.Header) bool { return h.Get("X-Goog-Api-Key") == secret },
	},
}

func event(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

// key is the key of the program under test.
func key() string {
	if os.Getenv("SUPERSTEP_RECORD") == "1" {
		return secret
	}
	return "another-key"
}

// record has what a test does recorded.
func record(t *testing.T) {
	t.Helper()
	t.Setenv("CI", "")
	t.Setenv("SUPERSTEP_RECORD", "1")
}

func play(t *testing.T) {
	t.Helper()
	t.Setenv("SUPERSTEP_RECORD", "")
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// tapeOf returns the name of a tape that doesn't exist yet.
func tapeOf(t *testing.T) string { return filepath.Join(t.TempDir(), "below", "a.yaml") }

func TestWhatAProviderAnsweredIsPlayedWhenItsServerIsGone(t *testing.T) {
	for name, p := range providers {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					want := p.path[0]
					if stream {
						want = p.path[1]
					}
					if r.URL.Path != want || !p.authorized(r.Header) {
						t.Errorf("asked %s with %v", r.URL.Path, r.Header)
					}
					w.Header().Set("Set-Cookie", "session="+secret)
					w.Header().Set("Openai-Organization", "org-"+secret)
					if !stream {
						w.Header().Set("Content-Type", "application/json")
						fmt.Fprint(w, p.answer)
						return
					}
					w.Header().Set("Content-Type", "text/event-stream")
					for part := range strings.SplitAfterSeq(p.stream, "\n\n") {
						fmt.Fprint(w, part)
						w.(http.Flusher).Flush()
					}
				}))
				defer server.Close()
				file := tapeOf(t)
				req := asking("My key is " + secret + ", hello")
				ask := func() (m chat.Message, chunks []chat.Chunk, s *spy) {
					s = spied(t, func(tb testing.TB) {
						mod := p.model(server.URL, agenttest.Tape(tb, file))
						if !stream {
							resp, err := mod.Generate(t.Context(), req)
							if err != nil {
								t.Fatal(err)
							}
							m = resp.Message
							return
						}
						for c, err := range mod.Stream(t.Context(), req) {
							if err != nil {
								t.Fatal(err)
							}
							chunks = append(chunks, c)
						}
					})
					return m, chunks, s
				}
				record(t)
				recorded, chunks, s := ask()
				s.passes(t)
				if stream && len(chunks) < 3 {
					t.Errorf("recorded %v", chunks)
				}
				server.Close()
				if text := read(t, file); strings.Contains(text, secret) || strings.Contains(text, "session=") || strings.Contains(text, "User-Agent") || strings.Contains(text, "Stainless") {
					t.Errorf("on the tape:\n%s", text)
				}
				play(t)
				req = asking("My key is MASKED, hello")
				played, playedChunks, s := ask()
				s.passes(t)
				if !reflect.DeepEqual(played, recorded) || !reflect.DeepEqual(playedChunks, chunks) {
					t.Errorf("recorded %v %v, played %v %v", recorded, chunks, played, playedChunks)
				}
			})
		})
	}
}

// server echoes what it is asked.
func echo(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, "%s %s", r.Method, body)
	}))
	t.Cleanup(s.Close)
	return s
}

// send makes a request and returns the answer's body.
func send(t *testing.T, c *http.Client, method, url, body string, header ...string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return string(data), err
}

// taped records what a test sends.
func taped(t *testing.T, test func(c *http.Client), opts ...agenttest.TapeOption) (file string) {
	t.Helper()
	file = tapeOf(t)
	record(t)
	spied(t, func(tb testing.TB) { test(agenttest.Tape(tb, file, opts...)) }).passes(t)
	play(t)
	return file
}

func TestNoSecretIsWritten(t *testing.T) {
	url := echo(t).URL
	for name, c := range map[string]struct {
		url, body string
		header    []string
		opts      []agenttest.TapeOption
	}{
		"Authorization":                {header: []string{"Authorization", "Bearer " + secret}},
		"basic authorization":          {header: []string{"Authorization", "Basic dTpzay01ZDFmMGI3Ny12ZXJ5LXNlY3JldA=="}},
		"x-api-key":                    {header: []string{"x-api-key", secret}},
		"x-goog-api-key":               {header: []string{"x-goog-api-key", secret}},
		"api-key":                      {header: []string{"api-key", secret}},
		"a proxy's header":             {header: []string{"X-Gateway-Token", secret}},
		"a header of any name":         {header: []string{"X-Tenant", secret}},
		"a secret header that is kept": {header: []string{"X-Gateway-Token", secret}, opts: []agenttest.TapeOption{agenttest.KeepHeaders("x-gateway-token")}},
		"a cookie":                     {header: []string{"Cookie", "a=b; session=" + secret}},
		"key= in the URL":              {url: "?alt=sse&key=" + secret},
		"a password in the URL":        {url: "USER"},
		"a key that the body repeats":  {body: `{"k":"` + secret + `"}`, header: []string{"Authorization", "Bearer " + secret}},
		"a key that an answer repeats": {url: "?key=" + secret, body: "my key is " + secret},
		"a member of the body":         {body: `{"grant":[{"client_secret":"` + secret + `"}],"echo":"` + secret + `"}`},
		"a token of the body":          {body: `{"access_token":"` + secret + `"}`, url: "?accessToken=" + secret},
		"a form":                       {body: "a=b&refresh_token=" + secret, header: []string{"Content-Type", "application/x-www-form-urlencoded"}},
		"what the test names":          {body: "the password is " + secret, opts: []agenttest.TapeOption{agenttest.Secret(secret)}},
		"what must be escaped":         {body: `{"a":"<` + secret + `>"}`, header: []string{"Authorization", "Bearer <" + secret + ">"}},
	} {
		t.Run(name, func(t *testing.T) {
			u := url + "/" + c.url
			if c.url == "USER" {
				u = strings.Replace(url, "://", "://user:"+secret+"@", 1)
			}
			file := taped(t, func(client *http.Client) {
				if got, err := send(t, client, "POST", u, c.body, c.header...); err != nil || got != "POST "+c.body {
					t.Errorf("%q, %v", got, err)
				}
			}, c.opts...)
			text := read(t, file)
			if strings.Contains(text, secret) || strings.Contains(text, "dTpzay01") {
				t.Errorf("on the tape:\n%s", text)
			}
			spied(t, func(tb testing.TB) {
				if _, err := send(t, agenttest.Tape(tb, file, c.opts...), "POST", u, c.body, c.header...); err != nil {
					t.Error(err)
				}
			}).passes(t)
		})
	}
}

func TestWhatOnlyLooksLikeASecretIsWritten(t *testing.T) {
	url := echo(t).URL + "/?author=Ann&keyword=Bern&max_tokens=12345678"
	file := taped(t, func(c *http.Client) {
		if _, err := send(t, c, "POST", url, `{"max_tokens":12345678,"token":"12345678"}`, "X-Ratelimit-Tokens", "12345678"); err != nil {
			t.Error(err)
		}
	})
	if text := read(t, file); strings.Contains(text, "MASKED") || !strings.Contains(text, url) {
		t.Errorf("on the tape:\n%s", text)
	}
}

// The library that writes tapes can be told by the environment to log requests.
func TestNoSecretIsLogged(t *testing.T) {
	t.Setenv("VCR_DEBUG", "1")
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	stderr := os.Stderr
	os.Stderr = log
	defer func() { os.Stderr = stderr }()
	url := echo(t).URL
	taped(t, func(c *http.Client) {
		if _, err := send(t, c, "GET", url, "", "Authorization", "Bearer "+secret); err != nil {
			t.Error(err)
		}
	})
	if text := read(t, log.Name()); text != "" {
		t.Errorf("logged %s", text)
	}
}

func TestWhatIsInsideOfACompressedAnswerIsFound(t *testing.T) {
	accepted := "?"
	rt := transport(func(r *http.Request) (*http.Response, error) {
		accepted = r.Header.Get("Accept-Encoding")
		return response(200, "ok"), nil
	})
	taped(t, func(c *http.Client) {
		if _, err := send(t, c, "GET", "http://x.test/", "", "Accept-Encoding", "br"); err != nil {
			t.Error(err)
		}
	}, agenttest.Through(rt))
	if accepted != "" {
		t.Errorf("accepted %q", accepted)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func response(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

func TestARequestIsFoundByWhatItMeans(t *testing.T) {
	url := echo(t).URL
	file := taped(t, func(c *http.Client) {
		for _, body := range []string{`{"n":1,"list":[1,2.50],"deep":{"b":null,"a":"ü"}}`, `{"n":2}`, `{"n":1}`, `{"n":1}`, "plain", ""} {
			if _, err := send(t, c, "POST", url+"/?b=2&a=1", body); err != nil {
				t.Error(err)
			}
		}
	})
	spied(t, func(tb testing.TB) {
		c := agenttest.Tape(tb, file)
		for _, body := range []string{`{"n": 1}`, "", `{"n":2}`, ` { "deep":{"a":"\u00fc","b":null}, "list":[1, 2.50], "n":1 }`, `{"n":1}`, "plain"} {
			if _, err := send(t, c, "POST", url+"/?a=1&b=2", body); err != nil {
				t.Errorf("%s: %v", body, err)
			}
		}
	}).passes(t)
}

func TestARequestThatIsNotOnTheTapeFailsTheTestAndSaysHowItDiffers(t *testing.T) {
	url := echo(t).URL
	long := strings.Repeat("é", 100)
	file := taped(t, func(c *http.Client) {
		for _, body := range []string{`{"other":[1,2,3,4,5,6,7,8,9,10,11,12]}`, `{"a":{"b":[1,"` + long + `x"]},"gone":true}`} {
			if _, err := send(t, c, "POST", url+"/x", body); err != nil {
				t.Error(err)
			}
		}
	})
	for name, c := range map[string]struct {
		method, path, body string
		want               []string
	}{
		"in its body": {"POST", "/x", `{"a":{"b":[2,"` + long + `y",null]},"new":"v"}`, []string{
			"POST " + url + "/x; against the nearest that is:",
			"\ta.b[0]: recorded 1, now 2\n", "\ta.b[1] from byte 170: recorded \"" + strings.Repeat("é", 15) + `x", now "`, "\ta.b[2]: not recorded, now null\n",
			"\tgone: recorded true, now missing\n", "\tnew: not recorded, now \"v\"\n", "SUPERSTEP_RECORD=1 go test -run '^" + t.Name() + "$'"}},
		"in its method and URL": {"PUT", "/y", `{"a":{"b":[1,"` + long + `x"]},"gone":true}`, []string{`method: recorded "POST", now "PUT"`, `URL: recorded "` + url + `/x", now "` + url + `/y"`}},
		"in all":                {"POST", "/x", `text`, []string{`body: recorded "{\n`, `now "text"`}},
		"much":                  {"POST", "/x", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1}`, []string{"and 2 more"}},
	} {
		s := spied(t, func(tb testing.TB) {
			client := agenttest.Tape(tb, file)
			for range 2 { // the second is no news
				_, err := send(t, client, c.method, url+c.path, c.body)
				var te *agenttest.TapeError
				if !errors.As(err, &te) || !errors.Is(err, agenttest.ErrNotOnTape) || te.File != file || te.Method != c.method {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
		s.TB = t
		s.wants(t, c.want...)
	}
}

func TestARequestMoreOrLessThanOnTheTapeFailsTheTest(t *testing.T) {
	url := echo(t).URL
	file := taped(t, func(c *http.Client) {
		for range 2 {
			if _, err := send(t, c, "POST", url, "x"); err != nil {
				t.Error(err)
			}
		}
	})
	ask := func(n int, opts ...agenttest.TapeOption) *spy {
		return spied(t, func(tb testing.TB) {
			c := agenttest.Tape(tb, file, opts...)
			for range n {
				_, _ = send(t, c, "POST", url, "x")
			}
		})
	}
	ask(2).passes(t)
	ask(3).wants(t, "was recorded 2 times, and played already")
	ask(1).wants(t, "request 2 of 2 was not made: POST "+url)
	ask(1, agenttest.AllowUnplayed()).passes(t)
}

func TestWhatDiffersEachTimeIsReplaced(t *testing.T) {
	url := echo(t).URL
	now := agenttest.Replacing(regexp.MustCompile(`(today|id)=\S+`), "$1=X")
	file := taped(t, func(c *http.Client) {
		if _, err := send(t, c, "POST", url+"/?id=1", "today=Monday id=1"); err != nil {
			t.Error(err)
		}
	}, now)
	spied(t, func(tb testing.TB) {
		if _, err := send(t, agenttest.Tape(tb, file, now), "POST", url+"/?id=2", "today=Friday id=2"); err != nil {
			t.Error(err)
		}
	}).passes(t)
}

func TestARefusalIsPlayedWithWhatItSaysAboutRetrying(t *testing.T) {
	rt := transport(func(*http.Request) (*http.Response, error) {
		return response(429, `{"error":{"message":"slow down","type":"rate_limit_error"}}`, "Content-Type", "application/json",
			"Retry-After", "Wed, 21 Oct 2026 07:28:07 GMT", "Date", "Wed, 21 Oct 2026 07:28:00 GMT", "X-Request-Id", "req-1"), nil
	})
	ask := func(c *http.Client) {
		m := openai.New("m", openai.APIKey("k"), openai.BaseURL("http://x.test/v1"), openai.HTTPClient(c))
		_, err := m.Generate(t.Context(), asking("hi"))
		var e *model.Error
		if !errors.As(err, &e) || e.Kind != model.ErrorRateLimit || e.RetryAfter != 7*time.Second {
			t.Errorf("%v", err)
		}
	}
	file := taped(t, ask, agenttest.Through(rt))
	spied(t, func(tb testing.TB) { ask(agenttest.Tape(tb, file)) }).passes(t)
	if text := read(t, file); strings.Contains(text, "req-1") {
		t.Errorf("on the tape:\n%s", text)
	}
}

func TestATapeIsPlayedInABubble(t *testing.T) {
	url := echo(t).URL
	file := taped(t, func(c *http.Client) {
		if _, err := send(t, c, "POST", url, "x"); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if got, err := send(t, agenttest.Tape(t, file), "POST", url, "x"); err != nil || got != "POST x" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestATapeIsForSeveralAtOnce(t *testing.T) {
	url := echo(t).URL
	all := func(c *http.Client) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				body := fmt.Sprint(i % 10)
				if got, err := send(t, c, "POST", url, body, "Authorization", "Bearer "+secret); err != nil || got != "POST "+body {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
		wg.Wait()
	}
	file := taped(t, all)
	spied(t, func(tb testing.TB) { all(agenttest.Tape(tb, file)) }).passes(t)
}

func TestATapeIsOnlyWrittenWhenItIsGood(t *testing.T) {
	url := echo(t).URL
	down := agenttest.Through(transport(func(*http.Request) (*http.Response, error) { return nil, errors.New(secret + " is down") }))
	file := taped(t, func(c *http.Client) {
		if _, err := send(t, c, "POST", url, "old"); err != nil {
			t.Error(err)
		}
	})
	old := read(t, file)
	record(t)
	for name, c := range map[string]struct {
		opt  []agenttest.TapeOption
		test func(tb testing.TB, c *http.Client)
		want string
	}{
		"the test fails": {nil, func(tb testing.TB, c *http.Client) { _, _ = send(t, c, "POST", url, "new"); tb.Errorf("wrong") }, "wrong"},
		"a request has no response": {[]agenttest.TapeOption{down}, func(_ testing.TB, c *http.Client) {
			_, _ = send(t, c, "POST", url, "new", "Authorization", "Bearer "+secret)
		}, "as a request got no response: POST " + url},
		"there is none": {nil, func(testing.TB, *http.Client) {}, "no request was made"},
	} {
		s := spied(t, func(tb testing.TB) { c.test(tb, agenttest.Tape(tb, file, c.opt...)) })
		s.wants(t, c.want)
		if read(t, file) != old {
			t.Errorf("%s: the tape was written", name)
		}
	}
	spied(t, func(tb testing.TB) { _, _ = send(t, agenttest.Tape(tb, file), "POST", url, "new") }).passes(t)
	if text := read(t, file); strings.Contains(text, "old") || !strings.Contains(text, "new") {
		t.Errorf("on the tape:\n%s", text)
	}
}

func TestMistakesWithTapes(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file, record, ci string
		want             string
	}{
		"there is none":        {"none.yaml", "", "", "there is no tape none.yaml; record it with SUPERSTEP_RECORD=1 go test -run '^TestMistakesWithTapes$'"},
		"another name":         {"a.json", "", "", "must end in .yaml"},
		"of another format":    {broken, "", "", "broken.yaml: "},
		"recording in CI":      {broken, "1", "true", "tapes are not recorded there"},
		"a word for recording": {broken, "yes", "", `SUPERSTEP_RECORD is "yes": 1 records`},
	} {
		t.Setenv("SUPERSTEP_RECORD", c.record)
		t.Setenv("CI", c.ci)
		s := spied(t, func(tb testing.TB) { agenttest.Tape(tb, c.file) })
		if len(s.failures) != 1 || !strings.Contains(s.failures[0], c.want) {
			t.Errorf("%s: %q", name, s.failures)
		}
	}
}

func TestAKeyIsNeededToRecordOnly(t *testing.T) {
	t.Setenv("SOME_API_KEY", secret)
	play(t)
	if got := agenttest.Key(t, "SOME_API_KEY"); got == secret || got == "" {
		t.Errorf("playing, it is %q", got)
	}
	record(t)
	if got := agenttest.Key(t, "SOME_API_KEY"); got != secret {
		t.Errorf("recording, it is %q", got)
	}
	t.Setenv("SOME_API_KEY", "")
	spied(t, func(tb testing.TB) { agenttest.Key(tb, "SOME_API_KEY") }).wants(t, "recording needs a key in SOME_API_KEY")
}

// A request's body is written so that people can review it.
func TestATapeCanBeRead(t *testing.T) {
	url := echo(t).URL
	file := taped(t, func(c *http.Client) {
		if _, err := send(t, c, "POST", url, `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`); err != nil {
			t.Error(err)
		}
	})
	text := read(t, file)
	if !regexp.MustCompile(`\n +"content": "Hi",\n`).MatchString(text) {
		t.Errorf("on the tape:\n%s", text)
	}
	if json.Valid([]byte(text)) {
		t.Error("it is JSON")
	}
}
