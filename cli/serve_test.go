package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/eval"
	"github.com/superstep-dev/superstep/server"
)

// served runs the command serve, until the test ends, and returns where it is.
func served(t *testing.T, args ...string) string {
	t.Helper()
	return servedWith(t, nil, args...)
}

// servedWith is served of a program with options.
func servedWith(t *testing.T, opts []cli.Option, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var notes bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- cli.Run(ctx, append([]string{"serve", "--port", "0", "--json", "--store", "memory"}, args...), strings.NewReader(""), in, &notes, append(opts, cli.Graph(jokes()))...)
		in.Close()
	}()
	t.Cleanup(func() {
		stop()
		<-code
	})
	var said struct{ URL string }
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		t.Fatalf("%v: %s", err, notes.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return said.URL
}

// visit asks for a path, with a key, from a page of an origin.
func visit(t *testing.T, url, key, origin string) (int, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"X-Api-Key": key, "Origin": origin} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode, answer.Header
}

func TestServeLetsInWhoHasAKey(t *testing.T) {
	const one, two, padded, ada = "first-key-0123456789", "other-key-0123456789", "MDEyMzQ1Njc4OWFiY2RlZg==", "YWRhJ3Mga2V5LCB3aGljaCBpcw=="
	t.Setenv("SUPERSTEP_API_KEYS", one+" , "+two+","+padded+",ada="+ada+",")
	// With keys it may listen for other machines.
	url := served(t, "--host", "0.0.0.0", "--allow-origin", "https://chat.example")
	url = "http://127.0.0.1" + url[strings.LastIndexByte(url, ':'):]
	for key, want := range map[string]int{one: 200, two: 200, padded: 200, ada: 200, "ada=" + ada: 401, "": 401, "first-key": 401, one + "," + two: 401} {
		if got, _ := visit(t, url+"/assistants/jokes", key, ""); got != want {
			t.Errorf("with the key %q: %d, want %d", key, got, want)
		}
	}
	if got, _ := visit(t, url+"/ok", "", ""); got != 200 {
		t.Errorf("/ok: %d", got)
	}
	for origin, want := range map[string]int{"https://chat.example": 200, "https://evil.example": 403} {
		if got, h := visit(t, url+"/ok", "", origin); got != want || got == 200 && h.Get("Access-Control-Allow-Origin") != origin {
			t.Errorf("a page of %s: %d %v", origin, got, h)
		}
	}
}

func TestServeGivesItsAssistantsToAgentsIfTold(t *testing.T) {
	for _, told := range []bool{false, true} {
		var args []string
		if told {
			args = []string{"--a2a"}
		}
		got, _ := visit(t, served(t, args...)+"/a2a/jokes/.well-known/agent-card.json", "", "")
		if want := map[bool]int{false: 404, true: 200}[told]; got != want {
			t.Errorf("with %v a card is %d, want %d", args, got, want)
		}
	}
}

func TestServeTakesKeysFromTheVariableNamed(t *testing.T) {
	t.Setenv("SUPERSTEP_API_KEYS", "")
	t.Setenv("JOKES_KEYS", "first-key-0123456789")
	url := served(t, "--api-keys-env", "JOKES_KEYS")
	if got, _ := visit(t, url+"/assistants/jokes", "first-key-0123456789", ""); got != 200 {
		t.Errorf("with the key: %d", got)
	}
	if got, _ := visit(t, url+"/assistants/jokes", "", ""); got != 401 {
		t.Errorf("without a key: %d", got)
	}
}

func TestServeSaysWhatIsWrongWithKeys(t *testing.T) {
	for name, tt := range map[string]struct {
		keys, says string
		args       []string
	}{
		"no keys, for other machines": {"", "there is no authentication", []string{"--host", "0.0.0.0"}},
		"only commas":                 {" ,, ", "there is no authentication", []string{"--host", "0.0.0.0"}},
		"how keys are set":            {"", "SUPERSTEP_API_KEYS", []string{"--host", "0.0.0.0"}},
		"a short key":                 {"first-key-0123456789,secret", "API key 2 of SUPERSTEP_API_KEYS has fewer than 16", nil},
		"a variable without keys":     {"", "NO_SUCH_KEYS", []string{"--api-keys-env", "NO_SUCH_KEYS"}},
		"a name that is none":         {"first-key-0123456789,se/cret=first-key-0123456789", "name of API key 2 must have letters", nil},
		"a key that isn't a name's":   {"first-key=0123456789", "give a key that has = elsewhere than at its end a name", nil},
		"a key that is no text":       {"first-key-0123456789-ü", "API key 1", nil},
		"an origin that is none":      {"first-key-0123456789", "origin", []string{"--allow-origin", "chat.example"}},
		"no host":                     {"", "an empty --host, which is every address", []string{"--host", ""}},
		"a store for no server":       {"first-key-0123456789", "a server keeps its own tables too, and cannot in redis", []string{"--store", "redis://127.0.0.1:1"}},
		"a store of files":            {"first-key-0123456789", "a server keeps its own tables too, and cannot in file", []string{"--store", "file:" + t.TempDir()}},
	} {
		t.Setenv("SUPERSTEP_API_KEYS", tt.keys)
		var out, notes bytes.Buffer
		code := cli.Run(t.Context(), append([]string{"serve", "--port", "0", "--store", "memory"}, tt.args...), strings.NewReader(""), &out, &notes, cli.Graph(jokes()))
		if code == 0 || !strings.Contains(notes.String(), tt.says) || strings.Contains(notes.String(), "secret") || strings.Contains(notes.String(), "first-key") {
			t.Errorf("%s: %d %s", name, code, notes.String())
		}
	}
}

func TestServeWithoutKeysIsForPagesAndNamesOfThisMachine(t *testing.T) {
	t.Setenv("SUPERSTEP_API_KEYS", "")
	const key = "first-key-0123456789"
	plain, more, all := served(t), served(t, "--allow-origin", "https://chat.example", "--allow-origin", "https://agents.example"), served(t, "--allow-origin", "*")
	program := servedWith(t, []cli.Option{cli.Server(server.AllowOrigins("https://agents.example"))}, "--allow-origin", "https://chat.example")
	// Which name leads to a server for others, nobody knows.
	public := served(t, "--host", "0.0.0.0", "--allow-anyone")
	public = "http://127.0.0.1" + public[strings.LastIndexByte(public, ':'):]
	t.Setenv("SUPERSTEP_API_KEYS", key)
	keys := served(t)
	for _, tt := range []struct {
		name, url, host, origin string
		want                    int
	}{
		{"no page", plain, "", "", 200},
		{"a front end in development", plain, "", "http://localhost:3000", 200},
		{"a foreign page", plain, "", "https://evil.example", 403},
		{"localhost", plain, "localhost:8123", "", 200},
		{"a name that was made to lead here", plain, "evil.example:8123", "", 403},
		{"a page of such a name", plain, "evil.example:8123", "http://evil.example:8123", 403},
		{"a page that is allowed", more, "", "https://chat.example", 200},
		{"a front end beside it", more, "", "http://localhost:3000", 200},
		{"one that isn't", more, "", "https://evil.example", 403},
		{"a proxy that is allowed", more, "agents.example", "https://agents.example", 200},
		{"another", more, "evil.example", "", 403},
		{"the origins of the program", program, "agents.example", "https://agents.example", 200},
		{"and those of the command line", program, "", "https://chat.example", 200},
		{"any page", all, "evil.example", "https://evil.example", 200},
		{"any name, for other machines", public, "agents.example", "https://agents.example", 200},
		{"a foreign page, for other machines", public, "", "https://evil.example", 403},
		{"any page, with keys", keys, "agents.example", "https://evil.example", 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", tt.url+"/assistants/jokes", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = tt.host
		r.Header.Set("X-Api-Key", key)
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, answer.StatusCode, tt.want)
		}
	}
}

func TestAProgramSaysHowItIsServed(t *testing.T) {
	const ada, bob = "adas-key-0123456789", "bobs-key-0123456789"
	t.Setenv("SUPERSTEP_API_KEYS", "ada="+ada+",bob="+bob)
	var audit record
	program := []cli.Option{
		cli.Server(server.Authorize(server.OwnedByUser())),
		cli.Server(server.Audit(slog.New(slog.NewTextHandler(&audit, nil))), server.WithLimits(server.Limits{Body: 100})),
	}
	url := servedWith(t, program)
	send := func(key, method, path, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	const thread = "/threads/0198f1c2-0000-7000-8000-000000000001"
	if got, text := send(ada, "POST", "/threads", `{"thread_id":"`+thread[len("/threads/"):]+`"}`); got != 200 || !strings.Contains(text, `"owner":"api-key:ada"`) {
		t.Errorf("ada's thread: %d %s", got, text)
	}
	for key, want := range map[string]int{ada: 200, bob: 404, "": 401} {
		if got, text := send(key, "GET", thread, ""); got != want {
			t.Errorf("with %q: %d %s", key, got, text)
		}
	}
	if got, _ := send(ada, "POST", "/threads", `{"metadata":{"x":"`+strings.Repeat("x", 100)+`"}}`); got != 413 {
		t.Errorf("a body over the limit: %d", got)
	}
	if !strings.Contains(audit.String(), "user=api-key:ada") {
		t.Errorf("the audit says %s", audit.String())
	}
}

func TestAProgramThatAuthenticatesNeedsNoKeysForOtherMachines(t *testing.T) {
	t.Setenv("SUPERSTEP_API_KEYS", "")
	never := func(*http.Request) (*server.User, error) { return nil, nil }
	url := servedWith(t, []cli.Option{cli.Server(server.Authenticate(never))}, "--host", "0.0.0.0")
	url = "http://127.0.0.1" + url[strings.LastIndexByte(url, ':'):]
	if got, _ := visit(t, url+"/assistants/jokes", "", ""); got != 401 {
		t.Errorf("without credentials: %d", got)
	}
}

func TestAGraphThatIsUnservedIsNotServed(t *testing.T) {
	var out, notes bytes.Buffer
	code := cli.Run(t.Context(), []string{"serve", "--port", "0", "--store", "memory"}, strings.NewReader(""), &out, &notes, cli.Graph(jokes(), cli.Unserved()))
	if code != cli.ExitUsage || !strings.Contains(notes.String(), "nothing to serve") {
		t.Errorf("%d %s", code, notes.String())
	}
}

// record is a log of several goroutines.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// words is an evaluator of a program's own.
type words struct {
	Most int `json:"most"`
}

func (w words) Evaluate(_ context.Context, _ eval.Case, r eval.Result) (eval.Score, error) {
	if n := len(strings.Fields(r.Text())); n > w.Most {
		return eval.Failed("%d words", n), nil
	}
	return eval.Passed(), nil
}

// The studio's page Tests evaluates with it.
func TestAProgramWithEvaluationsServesAGrader(t *testing.T) {
	grade := func(opts ...cli.Option) string {
		t.Helper()
		url := servedWith(t, opts)
		body := `{"assistant_id": "grader", "input": {"runs": [{"case": {"name": "a", "input": {"topic": "cats"}, "evaluators": [{"type": "words", "most": 1}]}, "state": {"topic": "cats"}, "output": "two words"}]}}`
		answer, err := http.Post(url+"/runs/wait", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	evaluations := cli.Evaluation(cli.Evaluations{Kinds: eval.Kinds{"words": eval.KindOf(words{})}})
	if got := grade(evaluations); !strings.Contains(got, "2 words") {
		t.Errorf("its own evaluators don't judge: %s", got)
	}
	if got := grade(); !strings.Contains(got, "No assistant found") {
		t.Errorf("without evaluations: %s", got)
	}
	own, err := eval.Grader(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := grade(evaluations, cli.Graph(own)); !strings.Contains(got, "words") || strings.Contains(got, "2 words") {
		t.Errorf("the program's own grader doesn't take its place: %s", got)
	}
}
