// Package examples holds small programs, one in each directory. The test builds
// them, runs them as a user does and compares what they print with the files in
// testdata.
package examples

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	// The programs are built while the test runs. With these imports go test
	// does not take its last result for a program whose packages have changed.
	_ "github.com/superstep-dev/superstep/agent"
	_ "github.com/superstep-dev/superstep/checkpoint/sqlite"
	_ "github.com/superstep-dev/superstep/graph"
	_ "github.com/superstep-dev/superstep/memory/sqlite"
	_ "github.com/superstep-dev/superstep/model/scripted"
	_ "github.com/superstep-dev/superstep/retrieval/pdf"
	_ "github.com/superstep-dev/superstep/tool/mcp"
)

var update = flag.Bool("update", false, "write the files in testdata")

// run is a process of an example. DIR in its arguments is a directory that the
// processes of one test share.
type run struct {
	program string
	args    []string
	stdin   string
	dies    bool // it exits with an error
}

var tests = []struct {
	name string
	runs []run
}{
	{"hello", []run{{program: "hello"}}},
	{"jokes", []run{{program: "jokes"}}},
	{"parallel", []run{{program: "parallel"}}},
	{"mapreduce", []run{{program: "mapreduce"}}},
	{"loop", []run{{program: "loop"}}},
	{"retrieval", []run{{program: "retrieval"}}},
	{"approval-yes", []run{{program: "approval", args: []string{"-answer", "yes"}}}},
	{"approval-no", []run{{program: "approval", args: []string{"-answer", "no"}}}},
	{"approval-terminal", []run{{program: "approval", stdin: "yes\n"}}},
	{"counter", []run{
		{program: "counter", args: []string{"-db", "DIR/counter.db", "-add", "2"}},
		{program: "counter", args: []string{"-db", "DIR/counter.db", "-add", "40"}},
		{program: "counter", args: []string{"-db", "DIR/counter.db", "-thread", "another"}},
	}},
	{"timetravel", []run{{program: "timetravel"}}},
	{"digest", []run{
		{program: "digest", args: []string{"-threads", "DIR/threads", "-out", "DIR/out.md", "-pace", "1ms", "digest"}, dies: true},
		{program: "digest", args: []string{"-threads", "DIR/threads", "-pace", "1ms", "citations/handbook"}},
		{program: "digest", args: []string{"-threads", "DIR/threads", "-out", "/dev/null", "citations/handbook"}, stdin: "yes\n"},
	}},
	{"subgraph", []run{{program: "subgraph"}}},
	{"streaming", []run{{program: "streaming"}}},
	{"recovery", []run{{program: "recovery"}}},
	{"schema", []run{{program: "schema"}}},
	{"blobs", []run{{program: "blobs"}}},
	{"reminder", []run{
		{program: "reminder", args: []string{"-db", "DIR/invoices.db"}},
		{program: "reminder", args: []string{"-db", "DIR/invoices.db", "-paid", "2"}},
	}},

	// With a scripted model; see internal/demo.
	{"agent", []run{{program: "agent"}}},           // W5-26, W7-43, T-21
	{"toolerrors", []run{{program: "toolerrors"}}}, // W5-26
	{"observer", []run{{program: "observer"}}},     // W5-26
	{"quickstart", []run{{program: "quickstart"}}}, // TRPC-02, T-21
	{"conversation", []run{ // W7-43, TRPC-62
		{program: "conversation", args: []string{"-db", "DIR/chat.db"}, stdin: "Who am I?\nI am Kim.\nWho am I?\n"},
		{program: "conversation", args: []string{"-db", "DIR/chat.db"}, stdin: "Who am I?\n"},
		{program: "conversation", args: []string{"-db", "DIR/chat.db", "-thread", "another"}, stdin: "Who am I?\n"},
	}},
	{"agentapproval", []run{ // W7-43
		{program: "agentapproval", args: []string{"-answer", "yes"}},
		{program: "agentapproval", args: []string{"-answer", "no"}},
		{program: "agentapproval", stdin: "yes\n"},
	}},
	{"review", []run{ // TRPC-62
		{program: "review", args: []string{"-answer", "approve"}},
		{program: "review", args: []string{"-answer", "reject"}},
		{program: "review", args: []string{"-text", "Free money for everyone!"}},
		{program: "review", stdin: "approve\n"},
	}},
	{"parallelagents", []run{{program: "parallelagents"}}}, // TRPC-62
	{"agentrecovery", []run{ // TRPC-62
		{program: "agentrecovery", args: []string{"-db", "DIR/bills.db"}},
		{program: "agentrecovery", args: []string{"-db", "DIR/bills.db", "-answer", "approve", "-crash"}, dies: true},
		{program: "agentrecovery", args: []string{"-db", "DIR/bills.db"}},
		{program: "agentrecovery", args: []string{"-db", "DIR/bills.db"}},
	}},
	{"research", []run{{program: "research", args: []string{"-dir", "research/notes"}}}},
	{"supervisor", []run{{program: "supervisor"}}},
	{"swarm", []run{{program: "swarm"}}},
	{"mcptools", []run{{program: "mcptools"}}},
	{"extraction", []run{{program: "extraction"}}},
	{"citations", []run{
		{program: "citations", args: []string{"-dir", "citations/handbook", "-db", "DIR/handbook.db", "When do buses leave the depot on Sundays?"}},
		{program: "citations", args: []string{"-dir", "citations/handbook", "-db", "DIR/handbook.db", "How long is an umbrella kept at the office?"}},
		{program: "citations", args: []string{"-dir", "citations/handbook", "-db", "DIR/handbook.db", "Which brake is replaced the same night?"}},
	}},
	{"longmemory", []run{
		{program: "longmemory", args: []string{"-db", "DIR/memory.db", "-user", "kim", "I am allergic to nuts."}},
		{program: "longmemory", args: []string{"-db", "DIR/memory.db", "-user", "kim", "What shall I cook?"}},
		{program: "longmemory", args: []string{"-db", "DIR/memory.db", "-user", "alex", "What shall I cook?"}},
	}},
}

func TestExamples(t *testing.T) { // W5-26, W7-43, TRPC-02, 62, T-21
	bin := programs(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got bytes.Buffer
			dir := t.TempDir()
			for _, r := range test.runs {
				got.Write(output(t, bin, dir, r, ""))
			}
			golden := filepath.Join("testdata", test.name+".txt")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("it prints\n%s\nwant\n%s", &got, want)
			}
		})
	}
}

// output runs a process to its end and returns what it printed. Model is a
// model's name; empty means the script.
func output(t *testing.T, bin, dir string, r run, model string) []byte {
	args := slices.Clone(r.args)
	for i, a := range args {
		args[i] = strings.Replace(a, "DIR", dir, 1)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, r.program+".exe"), args...)
	cmd.Env = append(os.Environ(), "SUPERSTEP_MODEL="+model)
	cmd.Stdin = strings.NewReader(r.stdin)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if r.dies && errors.As(err, &exit) {
		return out
	}
	if err != nil || r.dies {
		t.Fatalf("%s %v: %v\n%s", r.program, args, err, out)
	}
	return out
}

// The same program runs on a real model, here on a server that speaks OpenAI's
// protocol.
func TestAnExampleOnARealModel(t *testing.T) { // W5-26
	bin := programs(t)
	answers := []string{
		`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"calculate","arguments":"{\"expression\":\"2 ** 10\"}"}}]},"finish_reason":"tool_calls"`,
		`{"content":"It is 1024."},"finish_reason":"stop"`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		n := strings.Count(string(body), `"role":"tool"`) // the results that the model was told
		if err != nil || n >= len(answers) || n > 0 && !strings.Contains(string(body), `"content":"1024"`) {
			t.Errorf("%v: the model is asked %s", err, body)
			n = 0
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"id\":\"m%d\",\"object\":\"chat.completion.chunk\",\"model\":\"small\",\"choices\":[{\"index\":0,\"delta\":%s}]}\n\ndata: [DONE]\n\n", n, answers[n])
	}))
	defer server.Close()
	got := output(t, bin, "", run{program: "agent", args: []string{"What is 2 to the 10th?"}}, "openai:small@"+server.URL+"/v1")
	want := "What is 2 to the 10th?\n[calculate {\"expression\":\"2 ** 10\"} -> 1024]\nIt is 1024.\n"
	if string(got) != want {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
}

func TestEveryExampleIsRunAndSaysHow(t *testing.T) {
	mains, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	var run []string
	for _, test := range tests {
		for _, r := range test.runs {
			run = append(run, r.program)
		}
	}
	for _, main := range mains {
		name := filepath.Dir(main)
		if !slices.Contains(run, name) {
			t.Errorf("example %s is not run by a test", name)
		}
		text, err := os.ReadFile(main)
		if err != nil {
			t.Fatal(err)
		}
		doc, _, _ := strings.Cut(string(text), "\npackage main\n")
		if !strings.Contains(doc+"\n", "//\tgo run ./examples/"+name) {
			t.Errorf("the comment of example %s does not say how to run it", name)
		}
	}
}
