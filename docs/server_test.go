package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/docs/snippets/serving"
)

// started starts the server of the page and returns where it is.
func started(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	store := "sqlite:" + filepath.Join(t.TempDir(), "trips.db") // removed after the server's end
	go func() { over <- serving.Serve(ctx, l, store) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// tool finds a program, without which the test is skipped, except in CI.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not installed", name)
		}
		t.Skipf("NOT TESTED: the commands of server.md, since %s is not installed", name)
	}
	return path
}

// commands are the blocks of a page in a language that have a text in them, one
// after the other.
func commands(t *testing.T, page, language, with string) string {
	t.Helper()
	var out strings.Builder
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(read(t, page), -1) {
		if strings.Contains(m[1], with) {
			out.WriteString(m[1] + "\n")
		}
	}
	return out.String()
}

// asCurl makes curl fail where the server says so, but not where the page itself
// ends a stream that has no end, and makes do without jq.
const asCurl = `set -euo pipefail
curl() {
	local code=0 end=20
	case "$*" in *--max-time*) end=0.3 ;; esac
	command curl --silent --show-error --fail-with-body "$@" --max-time $end || code=$?
	case $code,$end in 28,0.3) return 0 ;; esac
	return $code
}
jq() { grep -o "\"${2##*.}\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }
`

// The pages have a command for each thing that the server can do, and all of them
// work.
func TestTheCommandsOfTheServersPageWork(t *testing.T) {
	t.Parallel()
	bash := tool(t, "bash")
	tool(t, "curl")
	url := started(t)
	script := commands(t, "server.md", "sh", "curl") + commands(t, "protocols.md", "sh", "curl")
	const first = "SERVER=http://127.0.0.1:8123\n"
	if !strings.Contains(script, first) {
		t.Fatalf("the page doesn't say %s", first)
	}
	cmd := exec.CommandContext(t.Context(), bash, "-x", "-c", asCurl+strings.Replace(script, first, "SERVER="+url+"\n", 1))
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	worked := map[string]bool{}
	counted := regexp.MustCompile(`superstep_http_requests_total\{code="(?:2..|101)",method="(\w+)",route="([^"]+)"\} [1-9]`)
	for _, m := range counted.FindAllStringSubmatch(get(t, url+"/metrics"), -1) {
		worked[m[1]+" "+m[2]] = true
	}
	var description struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(get(t, url+"/openapi.json")), &description); err != nil {
		t.Fatal(err)
	}
	if len(description.Paths) == 0 {
		t.Fatal("the server describes no paths")
	}
	for route, operations := range description.Paths {
		for method := range operations {
			if pattern := strings.ToUpper(method) + " " + route; !worked[pattern] {
				t.Errorf("neither server.md nor protocols.md has a command for %s", pattern)
			}
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s: %s %v", url, answer.Status, &text, err)
	}
	return text.String()
}

// The JavaScript of the page works with LangGraph's client, where the server's own
// tests have installed it.
func TestTheJavaScriptOfTheServersPageWorks(t *testing.T) {
	t.Parallel()
	clients := filepath.Join("..", "server", "clients")
	if !exists(filepath.Join(clients, "node_modules", "@langchain", "langgraph-sdk")) {
		t.Skip("NOT TESTED: the JavaScript of server.md, since LangGraph's client is not installed")
	}
	script := strings.Replace(commands(t, "server.md", "js", "new Client"), "http://127.0.0.1:8123", started(t), 1)
	cmd := exec.CommandContext(t.Context(), tool(t, "node"), "--input-type=module", "-")
	cmd.Dir, cmd.Stdin = clients, strings.NewReader(script)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := "Which city shall it be?\n2 days in Oslo\n"; !strings.HasSuffix(string(out), want) {
		t.Errorf("it prints\n%s\nwant at the end\n%s", out, want)
	}
}
