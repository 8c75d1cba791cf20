package scaffold

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// root is this repository.
const root = "../../../.."

// As for whoever runs init: in an empty folder, with nothing but Go. The programs are one
// workspace for what is slow, so that Go looks at their dependencies once.
func TestEveryTemplateIsAProgramThatPassesItsTests(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	clone, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	all := t.TempDir()
	run := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	work := "go 1.26.0\n"
	var programs []string
	for _, template := range Names() {
		name := "my-" + template
		e, err := Clone(filepath.Join(all, name), clone)
		if err != nil {
			t.Fatal(err)
		}
		if err := Write(filepath.Join(all, name), template, e); err != nil {
			t.Fatal(err)
		}
		run(filepath.Join(all, name), "mod", "tidy")
		work += "use ./" + name + "\n"
		programs = append(programs, "./"+name+"/...")
	}
	if out, err := exec.CommandContext(t.Context(), "gofmt", "-l", all).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("not formatted: %s %v", out, err)
	}
	if err := os.WriteFile(filepath.Join(all, "go.work"), []byte(work), 0o600); err != nil {
		t.Fatal(err)
	}
	run(all, append([]string{"vet"}, programs...)...)
	tests, err := filepath.Glob(filepath.Join(all, "*", "*", "*_test.go")) // not the commands themselves, which would be linked
	if err != nil || len(tests) < len(programs) {
		t.Fatalf("%q has tests, %v", tests, err)
	}
	for i, test := range tests {
		tests[i] = filepath.Dir(test)
	}
	run(all, append([]string{"test", "-vet=off", "-ldflags=-s -w"}, slices.Compact(tests)...)...)
}

// With cli.Evaluation the command serve has a grader.
func TestTheStudiosPageTestsWorksInProgramsThatAnswer(t *testing.T) {
	for _, template := range []string{"agent", "dialogue", "rag"} {
		for file, want := range map[string]string{"main.go": "cli.Evaluation(cli.Evaluations{", "README.md": "page *Tests*"} {
			text, err := templates.ReadFile("templates/" + template + "/" + file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), want) {
				t.Errorf("%s of %s lacks %s", file, template, want)
			}
		}
	}
}

func TestNothingOfTheTemplatesPlaceIsLeft(t *testing.T) {
	for _, template := range Names() {
		dir := filepath.Join(t.TempDir(), "mine")
		if err := Write(dir, template, Engine{Version: "v1.2.3"}); err != nil {
			t.Fatal(err)
		}
		have := map[string]bool{}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			have[d.Name()] = true
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), "NAME") || strings.Contains(string(text), "scaffold") {
				t.Errorf("%s: %s has words of the template", template, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"main.go", "go.mod", "README.md", "Dockerfile", ".gitignore", ".dockerignore"} {
			if !have[file] {
				t.Errorf("%s has no %s", template, file)
			}
		}
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil || !strings.Contains(string(mod), "require "+module+" v1.2.3\n") || strings.Contains(string(mod), "replace") {
			t.Errorf("go.mod is %s %v", mod, err)
		}
	}
}

func TestWhatCantBeWrittenIsSaidAndNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	isName := func(err error) bool { _, ok := errors.AsType[*NameError](err); return ok }
	for _, test := range []struct {
		name, template string
		is             func(error) bool
		says           string
	}{
		{"there", "agent", func(err error) bool { return errors.Is(err, fs.ErrExist) }, "there: file exists"},
		{"none/mine", "agent", func(err error) bool { return errors.Is(err, fs.ErrNotExist) }, "none"},
		{"My Program", "agent", isName, `"My Program": use small letters`},
		{"..", "agent", isName, "begin with a letter"},
		{"vendor", "agent", isName, "go command"},
		{"mine", "agnet", func(err error) bool { _, ok := errors.AsType[*TemplateError](err); return ok }, `did you mean "agent"?`},
	} {
		err := Write(dir+"/"+test.name, test.template, Engine{Version: "v1.2.3"})
		if err == nil || !test.is(err) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s, %s: %v", test.name, test.template, err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestAProgramIsBuiltWithWhatWroteIt(t *testing.T) {
	for _, test := range []struct {
		path, version, sum string
		want               bool
	}{
		{module, "v1.2.3", "", true},
		{module, "v1.2.3-rc.1", "", true},
		{module, "v0.0.0-20261101120000-abcdefabcdef", "h1:x", true}, // go install …@main
		{module, "v0.0.0-20261101120000-abcdefabcdef", "", false},    // a clone
		{module, "v1.2.3+dirty", "", false},
		{module, "(devel)", "", false},
		{"example.com/other", "v1.2.3", "", false},
	} {
		if got := fetchable(&debug.BuildInfo{Main: debug.Module{Path: test.path, Version: test.version, Sum: test.sum}}); got != test.want {
			t.Errorf("%s %s %s: %v", test.path, test.version, test.sum, got)
		}
	}
	if _, err := Running(); !errors.Is(err, ErrUnreleased) {
		t.Errorf("a test's program is no release: %v", err)
	}
}

func TestACloneIsReferredToByTheWayToIt(t *testing.T) {
	t.Chdir(root)
	e, err := Clone("../mine", ".")
	here, _ := os.Getwd()
	if want := "../" + filepath.Base(here); err != nil || e.Replace != want {
		t.Errorf("%q, %v; want %q", e.Replace, err, want)
	}
	if _, err := Clone("../mine", "docs"); err == nil || !strings.Contains(err.Error(), "docs is no clone") {
		t.Error(err)
	}
	if got := (Engine{Version: "v0.0.0", Replace: "/a b"}).mod("x"); !strings.Contains(got, ` => "/a b"`) {
		t.Error(got)
	}
}
