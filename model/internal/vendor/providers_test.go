package vendor_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/bedrock"
	"github.com/superstep-dev/superstep/model/gemini"
	"github.com/superstep-dev/superstep/model/openai"
)

const key = "sk-very-secret"

// options are those that all providers have.
type options struct {
	client   *http.Client
	idle     time.Duration
	defaults model.Config
	hook     func(context.Context, http.Header, []byte) ([]byte, error)
	table    model.Table
}

// providers are the packages that stand on this one, and the beginning of a stream
// of each, which says "a", as well as its end.
var providers = []struct {
	name       string
	open       func(o options) model.Model
	begin, end string
	silent     string // a beginning that says nothing yet
	whole      string
	id         string // the header with the name of the request
}{
	{
		"openai",
		func(o options) model.Model {
			return openai.New("m", openai.APIKey(key), openai.BaseURL("http://localhost/v1"), openai.HTTPClient(o.client), openai.IdleTimeout(o.idle), openai.Defaults(o.defaults), openai.OnRequest(o.hook), openai.Capabilities(o.table), openai.ToolMedia())
		},
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
		"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n",
		`{"choices":[{"message":{"content":"a"}}]}`, "X-Request-Id",
	},
	{
		"responses",
		func(o options) model.Model {
			return openai.New("m", openai.Responses(), openai.APIKey(key), openai.BaseURL("http://localhost/v1"), openai.HTTPClient(o.client), openai.IdleTimeout(o.idle), openai.Defaults(o.defaults), openai.OnRequest(o.hook), openai.Capabilities(o.table))
		},
		"data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n", "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n",
		"data: {\"type\":\"response.created\",\"response\":{}}\n\n",
		`{"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}]}`, "X-Request-Id",
	},
	{
		"anthropic",
		func(o options) model.Model {
			return anthropic.New("m", anthropic.APIKey(key), anthropic.BaseURL("http://localhost"), anthropic.HTTPClient(o.client), anthropic.IdleTimeout(o.idle), anthropic.Defaults(o.defaults), anthropic.OnRequest(o.hook), anthropic.Capabilities(o.table))
		},
		"data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"a\"}}\n\n",
		"data: {\"type\":\"content_block_stop\",\"index\":0}\n\ndata: {\"type\":\"message_stop\"}\n\n",
		"data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n",
		`{"content":[{"type":"text","text":"a"}]}`, "Request-Id",
	},
	{
		"gemini",
		func(o options) model.Model {
			return gemini.New("m", gemini.APIKey(key), gemini.BaseURL("http://localhost"), gemini.HTTPClient(o.client), gemini.IdleTimeout(o.idle), gemini.Defaults(o.defaults), gemini.OnRequest(o.hook), gemini.Capabilities(o.table))
		},
		"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n\n", "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n",
		"data: {\"usageMetadata\":{}}\n\n",
		`{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}`, "X-Request-Id",
	},
	{
		"converse",
		func(o options) model.Model {
			return bedrock.New("m", bedrock.Account{Region: "r", APIKey: key, Endpoint: "http://localhost"}, bedrock.HTTPClient(o.client), bedrock.IdleTimeout(o.idle), bedrock.Defaults(o.defaults), bedrock.OnRequest(o.hook), bedrock.Capabilities(o.table))
		},
		"event: messageStart\ndata: {}\n\nevent: contentBlockDelta\ndata: {\"delta\":{\"text\":\"a\"}}\n\n", "event: messageStop\ndata: {}\n\nevent: metadata\ndata: {}\n\n",
		"event: messageStart\ndata: {}\n\n",
		`{"output":{"message":{"content":[{"text":"a"}]}}}`, "X-Amzn-Requestid",
	},
}

// inMemory is a client without a network, for tests with a synctest clock.
type inMemory func(*http.Request) (*http.Response, error)

func (f inMemory) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func client(f inMemory) *http.Client { return &http.Client{Transport: f} }

func answer(r *http.Request, kind string, body io.Reader, header ...string) (*http.Response, error) {
	h := http.Header{"Content-Type": {kind}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: 200, Header: h, Body: io.NopCloser(body), Request: r}, nil
}

// slow is a body that says something, waits for a time, and says the rest. Without a
// rest it waits for the end of the request.
type slow struct {
	ctx   context.Context
	first string
	wait  time.Duration
	rest  string
	ends  bool // the rest was begun
}

func (s *slow) Read(p []byte) (int, error) {
	if s.first == "" {
		if s.ends {
			return 0, io.EOF
		}
		if s.rest == "" {
			<-s.ctx.Done()
			return 0, s.ctx.Err()
		}
		select {
		case <-time.After(s.wait):
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		}
		s.first, s.ends = s.rest, true
	}
	n := copy(p, s.first)
	s.first = s.first[n:]
	return n, nil
}

func hello() *model.Request { return &model.Request{Messages: []chat.Message{chat.User("hi")}} }

func failure(t *testing.T, err error, kind model.ErrorKind, says string) *model.Error {
	t.Helper()
	e, ok := errors.AsType[*model.Error](err)
	if !ok || e.Kind != kind || !strings.Contains(err.Error(), says) {
		t.Fatalf("the error is %v, want one of kind %q that says %q", err, kind, says)
	}
	return e
}

func TestAStreamThatIsSilentForTooLongIsBroken(t *testing.T) {
	for _, p := range providers {
		for name, c := range map[string]struct {
			opt   time.Duration
			limit time.Duration
		}{"the default": {0, 10 * time.Minute}, "an option": {time.Minute, time.Minute}} {
			t.Run(p.name+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					start := time.Now()
					m := p.open(options{idle: c.opt, client: client(func(r *http.Request) (*http.Response, error) {
						return answer(r, "text/event-stream", &slow{ctx: r.Context(), first: p.begin})
					})})
					resp, err := model.Collect(m.Stream(t.Context(), hello()))
					e := failure(t, err, model.ErrorTimeout, "nothing came for "+c.limit.String())
					if !e.Temporary() || resp.Message.Text() != "a" || time.Since(start) != c.limit {
						t.Errorf("%q and %v after %v", resp.Message.Text(), err, time.Since(start))
					}

					start = time.Now()
					m = p.open(options{idle: c.opt, client: client(func(r *http.Request) (*http.Response, error) {
						<-r.Context().Done()
						return nil, r.Context().Err()
					})})
					_, err = model.Collect(m.Stream(t.Context(), hello()))
					failure(t, err, model.ErrorTimeout, "nothing came")
					if time.Since(start) != c.limit {
						t.Errorf("before the answer: after %v", time.Since(start))
					}
				})
			})
		}
	}
}

func TestOnlySilenceOfTheServerCounts(t *testing.T) {
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := p.open(options{idle: time.Minute, client: client(func(r *http.Request) (*http.Response, error) {
					return answer(r, "text/event-stream", &slow{ctx: r.Context(), first: p.begin, wait: 59 * time.Second, rest: p.end})
				})})
				text := ""
				for k, err := range m.Stream(t.Context(), hello()) {
					if err != nil {
						t.Fatal(err)
					}
					text += k.Text
					time.Sleep(time.Hour) // what the caller does with it
				}
				if text != "a" {
					t.Errorf("got %q", text)
				}
				// Whole answers, and streams without a limit, take the time they take.
				m = p.open(options{idle: time.Minute, client: client(func(r *http.Request) (*http.Response, error) {
					time.Sleep(time.Hour)
					return answer(r, "application/json", strings.NewReader(p.whole))
				})})
				if resp, err := m.Generate(t.Context(), hello()); err != nil || resp.Message.Text() != "a" {
					t.Errorf("%+v, %v", resp, err)
				}
				m = p.open(options{idle: -1, client: client(func(r *http.Request) (*http.Response, error) {
					return answer(r, "text/event-stream", &slow{ctx: r.Context(), first: p.begin, wait: 24 * time.Hour, rest: p.end})
				})})
				if resp, err := model.Collect(m.Stream(t.Context(), hello())); err != nil || resp.Message.Text() != "a" {
					t.Errorf("%+v, %v", resp, err)
				}
			})
		})
	}
}

// A stream that broke before it said anything is begun again; what was said is not
// said twice.
func TestABrokenStreamIsBegunAgainWhereNothingWasShown(t *testing.T) {
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, begin := range []string{"", p.silent, p.begin} {
					sent := 0
					m := model.Retry(p.open(options{client: client(func(r *http.Request) (*http.Response, error) {
						if sent++; sent == 1 {
							return answer(r, "text/event-stream", strings.NewReader(begin))
						}
						return answer(r, "text/event-stream", strings.NewReader(p.begin+p.end))
					})}), model.RetryPolicy{})
					resp, err := model.Collect(m.Stream(t.Context(), hello()))
					if begin == p.begin {
						failure(t, err, model.ErrorBrokenStream, "")
						if sent != 1 || resp.Message.Text() != "a" {
							t.Errorf("sent %d times, %q came", sent, resp.Message.Text())
						}
						continue
					}
					if err != nil || sent != 2 || resp.Message.Text() != "a" {
						t.Errorf("begun with %q: sent %d times, %q, %v", begin, sent, resp.Message.Text(), err)
					}
				}
			})
		})
	}
}

func TestARedirectToAnotherServerIsNotFollowed(t *testing.T) {
	for _, p := range providers {
		for to, follows := range map[string]bool{"http://elsewhere/": false, "https://localhost/": false, "http://localhost:1/": false, "http://localhost/other": true} {
			for _, status := range []int{301, 302, 303, 307, 308} {
				follows := follows && status > 303 // with a request that has no body nothing can be done
				var asked []string
				m := p.open(options{client: client(func(r *http.Request) (*http.Response, error) {
					asked = append(asked, r.URL.Host+r.URL.Path)
					if len(asked) > 1 {
						return answer(r, "application/json", strings.NewReader(p.whole))
					}
					resp, _ := answer(r, "text/html", strings.NewReader("moved"), "Location", to)
					resp.StatusCode = status
					return resp, nil
				})})
				_, err := m.Generate(t.Context(), hello())
				if follows {
					if err != nil || len(asked) != 2 {
						t.Errorf("%s, %d to %s: %v, asked %q", p.name, status, to, err, asked)
					}
					continue
				}
				if e := failure(t, err, model.ErrorResponse, ""); e.Status != status || len(asked) != 1 {
					t.Errorf("%s, %d to %s: %v, asked %q", p.name, status, to, err, asked)
				}
			}
		}
	}
}

func TestARequestHasHeadersOfItsOwn(t *testing.T) {
	for _, p := range providers {
		var sent http.Header
		m := p.open(options{
			defaults: model.Config{Headers: map[string]string{"X-A": "default", "X-B": "default"}},
			client: client(func(r *http.Request) (*http.Response, error) {
				sent = r.Header
				resp, err := answer(r, "application/json", strings.NewReader(`{"error":{"message":"no tok-secret"}}`))
				resp.StatusCode = 401
				return resp, err
			})})
		req := hello()
		req.Headers = map[string]string{"x-b": "own", "X-User-Token": "tok-secret"}
		_, err := m.Generate(t.Context(), req)
		e := failure(t, err, model.ErrorAuth, "[redacted]")
		if strings.Contains(fmt.Sprintf("%v %+v", e, *e), "tok-secret") {
			t.Errorf("%s: the error tells a secret: %+v", p.name, e)
		}
		if sent.Get("X-A") != "default" || sent.Get("X-B") != "own" || sent.Get("X-User-Token") != "tok-secret" {
			t.Errorf("%s: sent %v", p.name, sent)
		}
		req.Headers = map[string]string{"X-B": "a\nb"}
		_, err = m.Generate(t.Context(), req)
		failure(t, err, model.ErrorInvalid, `"X-B"`)
	}
}

type who struct{}

func TestAHookSeesARequestLast(t *testing.T) {
	for _, p := range providers {
		var sent []byte
		var header http.Header
		m := p.open(options{
			hook: func(ctx context.Context, h http.Header, body []byte) ([]byte, error) {
				if ctx.Value(who{}) == "nobody" {
					return nil, context.DeadlineExceeded
				}
				h.Set("X-User", fmt.Sprint(ctx.Value(who{})))
				if !json.Valid(body) || h.Get("Content-Type") != "application/json" {
					t.Errorf("%s: the hook saw %s with %v", p.name, body, h)
				}
				return append(bytes.TrimSuffix(body, []byte("}")), `,"own":1}`...), nil
			},
			client: client(func(r *http.Request) (*http.Response, error) {
				header = r.Header
				sent, _ = io.ReadAll(r.Body)
				return answer(r, "application/json", strings.NewReader(p.whole))
			})})
		if _, err := m.Generate(context.WithValue(t.Context(), who{}, "ann"), hello()); err != nil {
			t.Fatal(err)
		}
		if header.Get("X-User") != "ann" || !json.Valid(sent) || !bytes.HasSuffix(sent, []byte(`,"own":1}`)) {
			t.Errorf("%s: sent %s with %v", p.name, sent, header)
		}
		_, err := m.Generate(context.WithValue(t.Context(), who{}, "nobody"), hello())
		if e := failure(t, err, model.ErrorInvalid, "the hook of requests"); e.Temporary() || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", p.name, err)
		}
	}
}

func TestTheProvidersNameOfARequestIsKept(t *testing.T) {
	for _, p := range providers {
		status := 200
		m := p.open(options{client: client(func(r *http.Request) (*http.Response, error) {
			kind, body := "application/json", p.whole
			if r.Header.Get("Accept") == "text/event-stream" {
				kind, body = "text/event-stream", p.begin+p.end
			}
			resp, err := answer(r, kind, strings.NewReader(body), p.id, "req_1")
			resp.StatusCode = status
			return resp, err
		})})
		whole, err := m.Generate(t.Context(), hello())
		streamed, err2 := model.Collect(m.Stream(t.Context(), hello()))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for _, r := range []*model.Response{whole, streamed} {
			if id := r.Message.Metadata[chat.MetadataRequestID]; id != "req_1" {
				t.Errorf("%s: it is %q", p.name, id)
			}
		}
		status = 500
		_, err = m.Generate(t.Context(), hello())
		if e := failure(t, err, model.ErrorServer, ""); e.RequestID != "req_1" {
			t.Errorf("%s: the error's is %q", p.name, e.RequestID)
		}
	}
}

func TestExtraFieldsDoNotReplaceWhatIsSaidOrCalled(t *testing.T) {
	for name, fields := range map[string][]string{"openai": {"messages", "tools"}, "responses": {"input", "tools"}, "anthropic": {"messages", "system", "tools"}, "gemini": {"contents", "systemInstruction", "tools"}, "converse": {"messages", "system"}} {
		for _, p := range providers {
			if p.name != name {
				continue
			}
			for _, field := range fields {
				m := p.open(options{client: client(func(*http.Request) (*http.Response, error) {
					t.Error("it was sent")
					return nil, io.EOF
				})})
				req := &model.Request{Messages: []chat.Message{chat.System("s"), chat.User("hi")}, Tools: []chat.ToolSpec{{Name: "f"}}}
				req.Extra = map[string]any{field: "x"}
				_, err := m.Generate(t.Context(), req)
				failure(t, err, model.ErrorInvalid, fmt.Sprintf("%q is given by Request.", field))
			}
		}
	}
}

func TestToolsOfTheProvidersJoinTheFunctions(t *testing.T) {
	for _, p := range providers {
		type tools struct{ Tools []map[string]any }
		var sent struct {
			tools
			ToolConfig tools
		}
		m := p.open(options{client: client(func(r *http.Request) (*http.Response, error) {
			if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
				t.Error(err)
			}
			return answer(r, "application/json", strings.NewReader(p.whole))
		})})
		req := hello()
		req.Tools = []chat.ToolSpec{{Name: "f"}}
		req.Extra = map[string]any{"tools": []any{map[string]any{"type": "web_search_20250305", "name": "web_search"}}}
		if p.name == "converse" {
			req.Extra = map[string]any{"toolConfig": req.Extra}
		}
		if _, err := m.Generate(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		sent.Tools = append(sent.Tools, sent.ToolConfig.Tools...)
		if len(sent.Tools) != 2 || sent.Tools[1]["name"] != "web_search" {
			t.Errorf("%s: sent %v", p.name, sent.Tools)
		}
	}
}

// sent returns what a model sends for a conversation, decoded and as text.
func sent(t *testing.T, open func(o options) model.Model, table model.Table, messages ...chat.Message) (string, error) {
	t.Helper()
	var body []byte
	m := open(options{table: table, client: client(func(r *http.Request) (*http.Response, error) {
		body, _ = io.ReadAll(r.Body)
		return answer(r, "application/json", strings.NewReader(`{}`))
	})})
	_, err := m.Generate(t.Context(), &model.Request{Messages: messages})
	var e *model.Error
	if errors.As(err, &e) && e.Kind == model.ErrorResponse {
		err = nil // of the answer, which isn't looked at
	}
	return string(body), err
}

// A conversation goes on whatever a tool returned, and whatever the user sent before.
func TestMediaThatCannotBeSentAreTold(t *testing.T) {
	call := chat.ToolCall{ID: "c1", Name: "f"}
	data := chat.Source{Data: []byte("12345"), MIME: "image/tiff"}
	blind := model.Table{"m": {Tools: true}}
	for _, c := range []struct {
		name  string
		part  chat.Part
		table model.Table
		but   string // the provider that takes it
		says  string
	}{
		{"an image of a kind that is not known", chat.Image{Source: data}, nil, "openai gemini", `[Not shown: an image (image/tiff, 5 bytes)`},
		{"an image, to a model that takes none", chat.Image{Source: chat.Source{Data: []byte("12345"), MIME: "image/png"}}, blind, "", `[Not shown: an image (image/png, 5 bytes): `},
		{"a sound, to a model that takes none", chat.Audio{Source: chat.Source{Data: []byte("12345"), MIME: "audio/wav"}, Transcript: "good morning"}, blind, "", `What is said in it: good morning`},
		{"a text, to a model that takes no files", chat.File{Source: chat.Source{Data: []byte("four words of text"), MIME: "text/plain"}, Name: "a.txt"}, blind, "", `four words of text`},
		{"a file that is nowhere", chat.File{Name: "a.pdf"}, nil, "", `0 of Data, URL and FileID are set`},
		{"a file by an address that nobody reads", chat.File{Source: chat.Source{URL: "ftp://x/a.pdf"}}, nil, "", `ftp://x/a.pdf`},
	} {
		for _, p := range providers {
			if strings.Contains(c.but, p.name) {
				continue
			}
			for place, messages := range map[string][]chat.Message{
				"of a tool":        {chat.User("hi"), chat.Assistant("", call), chat.Result(call, chat.Text{Text: "here: "}, c.part)},
				"of a model":       {chat.User("hi"), {Role: chat.RoleAssistant, Parts: []chat.Part{c.part}}, chat.User("and?")},
				"of the user once": {{Role: chat.RoleUser, Parts: []chat.Part{c.part}}, chat.User("hello?")},
			} {
				body, err := sent(t, p.open, c.table, messages...)
				quoted, _ := json.Marshal(c.says)
				if err != nil || !strings.Contains(body, strings.Trim(string(quoted), `"`)) {
					t.Errorf("%s %s, %s: %v, sent %s", c.name, place, p.name, err, body)
				}
			}
		}
	}
}

// What the user says now is not rewritten: he is told that it can't be sent.
func TestMediaOfTheNewestMessageThatCannotBeSentAreAnError(t *testing.T) {
	for _, p := range providers {
		_, err := sent(t, p.open, nil, chat.User("look"), chat.Message{Role: chat.RoleUser, Parts: []chat.Part{chat.File{Name: "a.pdf"}}})
		failure(t, err, model.ErrorInvalid, "Data, URL and FileID")
	}
}

func TestAServerThatCannotBeReachedIsTold(t *testing.T) {
	for _, p := range providers {
		m := p.open(options{client: client(func(*http.Request) (*http.Response, error) {
			return nil, errors.New("connection refused, " + key)
		})})
		_, whole := m.Generate(t.Context(), hello())
		_, streamed := model.Collect(m.Stream(t.Context(), hello()))
		name := cmp.Or(map[string]string{"responses": "openai", "converse": "bedrock"}[p.name], p.name)
		for _, err := range []error{whole, streamed} {
			if e := failure(t, err, model.ErrorConnection, "refused"); e.Provider != name {
				t.Errorf("%s: it is an error of %q", p.name, e.Provider)
			}
			for ; err != nil; err = errors.Unwrap(err) {
				if strings.Contains(err.Error(), key) {
					t.Errorf("%s: the error tells the key: %v", p.name, err)
				}
			}
		}
	}
}

func TestATimeoutOfTheClientIsNotTheContexts(t *testing.T) {
	for _, p := range providers {
		synctest.Test(t, func(t *testing.T) {
			slow := client(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			})
			slow.Timeout = time.Minute
			_, err := p.open(options{client: slow}).Generate(t.Context(), hello())
			failure(t, err, model.ErrorTimeout, "")
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: it looks like the context's", p.name)
			}
		})
	}
}

func TestBreakingOutEndsTheRequest(t *testing.T) {
	for _, p := range providers {
		var sent context.Context
		m := p.open(options{client: client(func(r *http.Request) (*http.Response, error) {
			sent = r.Context()
			return answer(r, "text/event-stream", &slow{ctx: r.Context(), first: p.begin})
		})})
		for _, err := range m.Stream(t.Context(), hello()) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		<-sent.Done()
	}
}

func TestAnEndedContextIsTheError(t *testing.T) {
	cause := errors.New("enough")
	for _, p := range providers {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		m := p.open(options{client: client(func(r *http.Request) (*http.Response, error) {
			cancel(cause)
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		if _, err := m.Generate(ctx, hello()); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || model.Temporary(err) {
			t.Errorf("%s, while the answer is made: %v", p.name, err)
		}

		ctx, cancel = context.WithCancelCause(t.Context())
		defer cancel(nil)
		m = p.open(options{client: client(func(r *http.Request) (*http.Response, error) {
			return answer(r, "text/event-stream", &slow{ctx: r.Context(), first: p.begin})
		})})
		var chunks, errs []any
		for k, err := range m.Stream(ctx, hello()) {
			if err == nil {
				chunks = append(chunks, k)
				cancel(cause)
				continue
			}
			errs = append(errs, err)
			if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
				t.Errorf("%s, in the middle of a stream: %v", p.name, err)
			}
		}
		if len(chunks) == 0 || len(errs) != 1 {
			t.Errorf("%s: chunks %v, errors %v", p.name, chunks, errs)
		}

		m = p.open(options{client: client(func(*http.Request) (*http.Response, error) {
			t.Errorf("%s: the request was sent", p.name)
			return nil, io.EOF
		})})
		if _, err := m.Generate(ctx, hello()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, before the request: %v", p.name, err)
		}
	}
}
