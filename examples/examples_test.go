// Package examples holds small programs, one in each directory. The test builds
// them, runs them as a user does and compares what they print with the files in
// testdata.
package examples

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	// The programs are built while the test runs. With these imports go test
	// does not take its last result for a program whose packages have changed.
	_ "github.com/superstep-dev/superstep/checkpoint/sqlite"
	_ "github.com/superstep-dev/superstep/graph"
)

var update = flag.Bool("update", false, "write the files in testdata")

// run is a process of an example. DIR in its arguments is a directory that the
// processes of one test share.
type run struct {
	program string
	args    []string
	stdin   string
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
	{"subgraph", []run{{program: "subgraph"}}},
	{"streaming", []run{{program: "streaming"}}},
	{"recovery", []run{{program: "recovery"}}},
	{"schema", []run{{program: "schema"}}},
	{"blobs", []run{{program: "blobs"}}},
	{"reminder", []run{
		{program: "reminder", args: []string{"-db", "DIR/invoices.db"}},
		{program: "reminder", args: []string{"-db", "DIR/invoices.db", "-paid", "2"}},
	}},
}

func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a dozen programs")
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin+string(filepath.Separator), "./...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got bytes.Buffer
			dir := t.TempDir()
			for _, r := range test.runs {
				got.Write(output(t, bin, dir, r))
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

// output runs a process to its end and returns what it printed.
func output(t *testing.T, bin, dir string, r run) []byte {
	args := slices.Clone(r.args)
	for i, a := range args {
		args[i] = strings.Replace(a, "DIR", dir, 1)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, r.program), args...)
	cmd.Stdin = strings.NewReader(r.stdin)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", r.program, args, err, out)
	}
	return out
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
