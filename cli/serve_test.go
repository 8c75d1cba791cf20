package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
)

// served runs the command serve, until the test ends, and returns where it is.
func served(t *testing.T, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var notes bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- cli.Run(ctx, append([]string{"serve", "--port", "0", "--json", "--store", "memory"}, args...), strings.NewReader(""), in, &notes, cli.Graph(jokes()))
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
	} {
		t.Setenv("SUPERSTEP_API_KEYS", tt.keys)
		var out, notes bytes.Buffer
		code := cli.Run(t.Context(), append([]string{"serve", "--port", "0", "--store", "memory"}, tt.args...), strings.NewReader(""), &out, &notes, cli.Graph(jokes()))
		if code == 0 || !strings.Contains(notes.String(), tt.says) || strings.Contains(notes.String(), "secret") || strings.Contains(notes.String(), "first-key") {
			t.Errorf("%s: %d %s", name, code, notes.String())
		}
	}
}
