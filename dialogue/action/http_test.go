package action_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/examples/banking"
)

// serve serves a handler for the time of a test.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func TestOneProcessServesAnother(t *testing.T) {
	p, err := program.Load(banking.Files)
	if err != nil {
		t.Fatal(err)
	}
	branch := new(banking.Bank)
	code, err := branch.Code()
	if err != nil {
		t.Fatal(err)
	}
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		action.Handler(code).ServeHTTP(w, r)
	})
	url := serve(t, guarded)
	if _, err := action.HTTP(t.Context(), url, action.HTTPOptions{}); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without a token: %v", err)
	}
	parts, err := action.HTTP(t.Context(), url, action.HTTPOptions{Header: http.Header{"Authorization": {"Bearer t0ken"}}})
	if err != nil {
		t.Fatal(err)
	}
	far, log := newSet(t, parts...)
	if err := far.Check(p); err != nil {
		t.Errorf("the contracts don't come across: %v", err)
	}
	ctx := action.WithCaller(t.Context(), action.Caller{User: "std-bob"})
	for _, k := range []struct{ action, inputs string }{
		{"load_profile", `{}`},
		{"get_balance", `{"account_type":"savings"}`},
		{"get_balance", `{"account_type":"gold"}`},
		{"get_balance", `{"account_type":7}`},
		{"get_balance", `{}`},
		{"list_transactions", `{"account_type":"checking","transaction_period":"last week","page":9}`},
		{"execute_transfer", `{"source_account":"checking","beneficiary_name":"Bob","iban":"ES","amount":1e6}`},
		{"execute_transfer", `{"source_account":"checking","beneficiary_name":"Bob","iban":"ES","amount":5}`},
		{"get_alert", `{"alert_index":1}`},
	} {
		call := dialogue.ActionCall{ID: "t/f_1/s/1", Action: k.action, Effect: p.Actions[k.action].Effect, Inputs: values(t, k.inputs), FlowID: "f_1", Step: "s", Timeout: time.Minute}
		near, err := json.Marshal(code.Do(ctx, call))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // an attempt more has the same effect
			got, err := json.Marshal(far.Do(ctx, call))
			if err != nil || !bytes.Equal(got, near) {
				t.Errorf("%s: from afar %s, %v; at home %s", k.action, got, err, near)
			}
		}
	}
	if n := len(branch.Ledger()); n != 1 {
		t.Errorf("%d transfers", n)
	}
	for _, v := range []string{" Bob   Ray ", "B0b"} {
		q := dialogue.Validation{ID: "v", Validator: "person_name", Value: expr.Str(v), Language: "en"}
		if got, want := far.Validate(ctx, q), code.Validate(ctx, q); !got.Value.Same(want.Value) || got.Reason != want.Reason || got.Error != nil {
			t.Errorf("%q: from afar %+v, at home %+v", v, got, want)
		}
	}
	if log.Len() > 0 {
		t.Errorf("what was told on purpose is logged: %s", log)
	}
}

func TestACallKeepsWhatItIsAboutOverHTTP(t *testing.T) {
	var got action.Call
	var deadline time.Duration
	see := func(ctx context.Context, _ none) (none, error) {
		got = action.CallOf(ctx)
		at, _ := ctx.Deadline()
		deadline = time.Until(at)
		return none{}, nil
	}
	here, _ := newSet(t, action.New("see", see, action.Effect(program.Write)),
		action.NewValidator("see", func(ctx context.Context, v float64) (float64, error) { got = action.CallOf(ctx); return v, nil }))
	var key string
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key = r.Header.Get("Idempotency-Key")
		action.Handler(here).ServeHTTP(w, r)
	}))
	parts, err := action.HTTP(t.Context(), url, action.HTTPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	far, _ := newSet(t, parts...)
	want := action.Call{ID: "Zoë's 100%/f_1/s/2", Action: "see", Effect: program.Write, FlowID: "f_1", Step: "s", Caller: action.Caller{User: "zoë", Thread: "Zoë's 100%", Language: "de"}}
	ctx := action.WithCaller(t.Context(), action.Caller{User: "zoë", Language: "de"})
	r := far.Do(ctx, dialogue.ActionCall{ID: want.ID, Action: "see", Effect: program.Write, FlowID: "f_1", Step: "s", Timeout: 10 * time.Minute})
	if r.Error != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, r.Error, want)
	}
	if deadline < 5*time.Minute || deadline > 10*time.Minute {
		t.Errorf("the action has %v", deadline)
	}
	if key != "Zo%C3%AB's%20100%25/f_1/s/2" {
		t.Errorf("the header has %q", key)
	}
	v := far.Validate(ctx, dialogue.Validation{Validator: "see", Value: expr.Num(0.1)})
	if n, _ := v.Value.Num(); n != 0.1 || v.Error != nil || got != (action.Call{Caller: action.Caller{User: "zoë", Language: "de"}}) {
		t.Errorf("a validator got %+v and said %+v", got, v)
	}
}

func TestWhatServersDoWrongIsAFailureOfAType(t *testing.T) {
	var elsewhere atomic.Int32
	other := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { elsewhere.Add(1) }))
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	mega := strings.Repeat("x", 1<<20)
	// After what is sent, the connection is closed.
	breaks := func(sent string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, sent)
			_ = conn.Close()
		}
	}
	wrongs := []struct {
		name   string
		serve  http.HandlerFunc
		want   string
		logged string
	}{
		{"hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "timeout", "timeout"},
		{"hang_later", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"outputs":`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, "timeout", "timeout"},
		{"told", says(200, `{"error":{"type":"not_found","message":"no such account"}}`), "not_found: no such account", ""},
		{"told_500", says(500, `{"error":{"type":"broken"}}`), "broken", ""},
		{"untyped", says(200, `{"error":{"message":"no"}}`), "unknown: no", ""},
		{"megabyte", says(200, `{"outputs":{"text":"`+mega[:1<<20-100]+`"}}`), "invalid_output: the output \"text\" has 1048478 bytes, more than 262144", ""},
		{"megabytes", says(200, `{"outputs":{"text":"`+mega+mega+`"}}`), "invalid_output: the answer has more than 1048576 bytes", ""},
		{"mega_error", says(200, `{"error":{"type":"`+mega[:500_000]+`","message":"`+mega[:500_000]+`"}}`), mega[:64] + ": " + mega[:1000], ""},
		{"empty", says(200, ``), "invalid_output: the answer is no JSON object of this call", ""},
		{"html", says(200, `<html>`), "invalid_output: the answer is no JSON object of this call", ""},
		{"list", says(200, `[]`), "invalid_output: the answer is no JSON object of this call", ""},
		{"nothing", says(200, `{}`), "invalid_output: the answer has neither outputs, an object, nor an error", ""},
		{"outputs_list", says(200, `{"outputs":[1]}`), "invalid_output: the answer has neither outputs, an object, nor an error", ""},
		{"inexact", says(200, `{"outputs":{"id":9007199254740993}}`), `invalid_output: the output "id": an integer has too many digits; return it as a string`, ""},
		{"deep", says(200, `{"outputs":{"x":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+`}}`), `invalid_output: the output "x": a value is nested more than 1000 deep`, ""},
		{"broken", says(500, "goroutine 1 [running]"), "unknown", "500 Internal Server Error: \\\"goroutine 1"},
		{"not_there", says(404, "404 page not found"), "unknown", "404"},
		{"busy", says(503, "try later"), "unavailable", "503"},
		{"limited", says(429, ""), "unavailable", "429"},
		{"closed", breaks(""), "unavailable", "EOF"},
		{"cut_off", breaks("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"outputs\":"), "unavailable", "EOF"},
		{"no_http", breaks("SSH-2.0-OpenSSH_9.6\r\n"), "unavailable", "malformed HTTP"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other, http.StatusTemporaryRedirect)
		}, "unknown", "it redirects to " + other},
	}
	list := map[string]any{}
	calls := map[string]*atomic.Int32{}
	handlers := map[string]http.HandlerFunc{}
	for _, k := range wrongs {
		list[k.name] = map[string]string{"effect": "write"}
		calls[k.name], handlers[k.name] = new(atomic.Int32), k.serve
	}
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			if err := json.NewEncoder(w).Encode(map[string]any{"actions": list, "validators": map[string]string{}}); err != nil {
				t.Error(err)
			}
			return
		}
		var q struct{ Action string }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
			return
		}
		calls[q.Action].Add(1)
		handlers[q.Action](w, r)
	}))
	client := &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
	defer client.CloseIdleConnections()
	parts, err := action.HTTP(t.Context(), url, action.HTTPOptions{Header: http.Header{"Authorization": {"Bearer t0ken"}}, Client: client})
	if err != nil {
		t.Fatal(err)
	}
	s, log := newSet(t, parts...)
	for _, k := range wrongs {
		t.Run(k.name, func(t *testing.T) {
			log.Reset()
			timeout := time.Minute
			if k.want == "timeout" {
				timeout = 50 * time.Millisecond
			}
			r := s.Do(t.Context(), dialogue.ActionCall{ID: "t/f/s/1", Action: k.name, Effect: program.Write, Timeout: timeout})
			if r.Error == nil || r.Error.Error() != k.want || r.Outputs != nil {
				t.Errorf("got %v, %v; want %s", r.Error, r.Outputs, k.want)
			}
			if k.logged == "" && log.Len() > 0 || !strings.Contains(log.String(), k.logged) || strings.Contains(log.String(), "t0ken") {
				t.Errorf("%q should be logged, not %s", k.logged, log)
			}
			if n := calls[k.name].Load(); n != 1 {
				t.Errorf("%d requests for one attempt", n)
			}
		})
	}
	if elsewhere.Load() > 0 {
		t.Error("a request went to where the server redirects")
	}
	t.Run("no server", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		here, _ := newSet(t, action.New("act", func(context.Context, none) (none, error) { return none{}, nil }))
		web := &http.Server{Handler: action.Handler(here)}
		served := make(chan error, 1)
		go func() { served <- web.Serve(l) }()
		parts, err := action.HTTP(t.Context(), "http://"+l.Addr().String(), action.HTTPOptions{Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := web.Close(); err != nil {
			t.Fatal(err)
		}
		<-served
		far, log := newSet(t, parts...)
		if got := do(t, far, "act", `{}`); got != "unavailable" || !strings.Contains(log.String(), "refused") {
			t.Errorf("got %s, logged %s", got, log)
		}
	})
}

func TestValidatorsOfServersThatAreWrongRefuseNothing(t *testing.T) {
	body := ""
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"validators":{"v":"string"}}`)
			return
		}
		_, _ = io.WriteString(w, body)
	}))
	parts, err := action.HTTP(t.Context(), url, action.HTTPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := newSet(t, parts...)
	long := strings.Repeat("x", 300_000)
	for _, k := range []struct{ body, want, reason, failure string }{
		{`{"value":"X"}`, "X", "", ""},
		{`{"value":null}`, "", "", "invalid_output"},
		{`{"refused":"no"}`, "", "no", ""},
		{`{"refused":""}`, "", "it is refused", ""},
		{`{"refused":"` + long + `"}`, "", long[:1000], ""},
		{`{}`, "", "", "invalid_output"},
		{`{"value":"` + long + `"}`, "", "", "invalid_output"},
		{`{"outputs":{}}`, "", "", "invalid_output"},
		{`nonsense`, "", "", "invalid_output"},
	} {
		body = k.body
		got := s.Validate(t.Context(), dialogue.Validation{Validator: "v", Value: expr.Str("x")})
		failure := ""
		if got.Error != nil {
			failure = got.Error.Type
		}
		if got.Value.String() != k.want || got.Reason != k.reason || failure != k.failure {
			t.Errorf("%.40s: %.80v %s", k.body, got, failure)
		}
	}
}

func TestTheHandlerSaysWhatIsWrongWithARequest(t *testing.T) {
	here, _ := newSet(t,
		action.New("act", func(context.Context, struct {
			N int `json:"n,omitempty"`
		}) (none, error) {
			return none{}, nil
		}, action.Effect(program.Irreversible)),
		action.New("any", func(_ context.Context, in map[string]expr.Value) (map[string]expr.Value, error) { return in, nil }),
		action.New("panic", func(context.Context, none) (none, error) { panic("secret") }),
		action.NewValidator("even", func(_ context.Context, n int) (int, error) { return n, action.Refusal("it is odd") }))
	url := serve(t, action.Handler(here))
	for _, k := range []struct {
		method, kind, body string
		status             int
		want               string
	}{
		{"GET", "", ``, 200, `{"actions":{"act":{"effect":"irreversible","inputs":{"n?":"integer"},"outputs":{}},"any":{},"panic":{"inputs":{},"outputs":{}}},"validators":{"even":"integer"}}`},
		{"POST", "application/json; charset=utf-8", `{"action":"act","key":"k","new":1}`, 200, `{"outputs":{}}`},
		{"POST", "application/json", `{"action":"any","key":"k","inputs":{"a":[1]}}`, 200, `{"outputs":{"a":[1]}}`},
		{"POST", "application/json", `{"action":"act","key":"k","inputs":{"n":"x"}}`, 200, `{"error":{"type":"invalid","message":"the input \"n\": it has to be a integer, not a text"}}`},
		{"POST", "application/json", `{"action":"panic","key":"k"}`, 200, `{"error":{"type":"unknown"}}`},
		{"POST", "application/json", `{"validator":"even","value":3}`, 200, `{"refused":"it is odd"}`},
		{"POST", "application/json", `{"validator":"odd","value":3}`, 404, `{"error":{"type":"action_not_found","message":"there is no validator of this name"}}`},
		{"POST", "application/json", `{"action":"fly","key":"k"}`, 404, `{"error":{"type":"action_not_found","message":"there is no action of this name"}}`},
		{"POST", "application/json", `{"action":"act"}`, 400, `{"error":{"type":"invalid","message":"the key is missing; it is the same for all attempts at one call"}}`},
		{"POST", "application/json", `{"action":"act","key":"k","timeout":-1}`, 400, `{"error":{"type":"invalid","message":"the timeout is no number of seconds"}}`},
		{"POST", "application/json", `{"action":"act","key":"k","timeout":1e300}`, 400, `{"error":{"type":"invalid","message":"the timeout is no number of seconds"}}`},
		{"POST", "application/json", `{}`, 400, `{"error":{"type":"invalid","message":"name an action or a validator"}}`},
		{"POST", "application/json", `{"action":"act","validator":"even"}`, 400, `{"error":{"type":"invalid","message":"name an action or a validator"}}`},
		{"POST", "application/json", `{"action":"act","key":"k"} more`, 400, `{"error":{"type":"invalid","message":"the request is no JSON object of this call"}}`},
		{"POST", "application/json", ``, 400, `{"error":{"type":"invalid","message":"the request is no JSON object of this call"}}`},
		{"POST", "application/json", `{"action":"` + strings.Repeat("x", 1<<20) + `"}`, 413, `{"error":{"type":"invalid","message":"the request has more than 1048576 bytes"}}`},
		{"POST", "text/plain", `{"action":"act","key":"k"}`, 415, `{"error":{"type":"invalid","message":"the Content-Type has to be application/json"}}`},
		{"PUT", "application/json", `{}`, 405, `{"error":{"type":"invalid","message":"the method is GET or POST"}}`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), k.method, url, strings.NewReader(k.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", k.kind)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != k.status || string(body) != k.want || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %.60s\ngot  %d %s %v\nwant %d %s", k.method, k.body, resp.StatusCode, body, err, k.status, k.want)
		}
	}
}

func TestAServerThatIsNoneOfActionsIsRefusedAtTheStart(t *testing.T) {
	for body, want := range map[string]string{
		``:                       "it doesn't say which actions it has",
		`<html>`:                 "it doesn't say which actions it has",
		`{"ok":true}`:            "it doesn't say which actions it has",
		`{"actions":[]}`:         "it doesn't say which actions it has",
		`{"actions":{"a-b":{}}}`: `action "a-b": a program can't name it; call it "a_b"`,
		`{"actions":{"a":{"inputs":{"n":"float"}}}}`:                  `action "a": "n": there is no type "float"`,
		`{"actions":{"a":{"outputs":{"n m?":"string"}}}}`:             `"n m?": a program can't name it`,
		`{"actions":{"a":{"effect":"careful"}}}`:                      `action "a": there is no effect "careful"`,
		`{"validators":{"v":"text"}}`:                                 `action "v": there is no type "text"`,
		`{"validators":{"` + strings.Repeat("v", 65) + `":"string"}}`: `the name has 65 characters`,
		`{"actions":{` + strings.Repeat(" ", 1<<20) + `}}`:            `too long`,
	} {
		url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		if _, err := action.HTTP(t.Context(), url, action.HTTPOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %s", body, err, want)
		}
	}
	for _, url := range []string{"", "localhost:8080", "ftp://x/", "http://", "http://a b/", "\x00"} {
		if _, err := action.HTTP(t.Context(), url, action.HTTPOptions{}); err == nil || !strings.Contains(err.Error(), "write http:// or https:// and a host") {
			t.Errorf("%q: %v", url, err)
		}
	}
	hang := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := action.HTTP(ctx, strings.Replace(hang, "http://", "http://me:s3cret@", 1), action.HTTPOptions{}); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a server that hangs: %v", err)
	}
}

func ExampleHandler() {
	type In struct {
		Guests int `json:"guests"`
	}
	type Out struct {
		Table int `json:"table"`
	}
	kitchen, err := action.NewSet(action.New("book", func(context.Context, In) (Out, error) { return Out{Table: 12}, nil }))
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(action.Handler(kitchen))
	defer server.Close()

	// In another process:
	parts, err := action.HTTP(context.Background(), server.URL, action.HTTPOptions{Header: http.Header{"Authorization": {"Bearer …"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := action.NewSet(parts...)
	if err != nil {
		fmt.Println(err)
		return
	}
	call := dialogue.ActionCall{ID: "t1/book_table_1_a0/action_3/1", Action: "book", Inputs: map[string]expr.Value{"guests": expr.Num(4)}}
	fmt.Println(set.Do(context.Background(), call).Outputs)
	// Output: map[table:12]
}
