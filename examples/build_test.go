package examples

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// temp is where the programs are.
var temp string

func TestMain(m *testing.M) {
	var err error
	if temp, err = os.MkdirTemp("", "examples"); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	if err := os.RemoveAll(temp); err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

// programs returns the directory in which the examples are, built once for all
// tests. A program's name is followed by .exe, which only Windows needs.
func programs(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the examples")
	}
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return temp
}

// build makes one program that is each of the examples, by the name under which
// it is called: to link them one by one, many of them with the SDKs of the models'
// vendors, takes minutes. The compiler is shown files that don't exist, by an
// overlay: each example as a package with a function Main, and a main package that
// imports them.
var build = sync.OnceValue(func() error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	mains, err := filepath.Glob("*/main.go")
	if err != nil {
		return err
	}
	overlay := map[string]string{} // a file that doesn't exist: where its text is
	show := func(path, text string) error {
		at := filepath.Join(temp, fmt.Sprint(len(overlay), ".go"))
		overlay[filepath.Join(here, "internal", "all", path)] = at
		return os.WriteFile(at, []byte(text), 0o644)
	}
	var imports, cases strings.Builder
	for _, main := range mains {
		text, err := os.ReadFile(main)
		if err != nil {
			return err
		}
		name := filepath.Dir(main)
		as := strings.NewReplacer("\npackage main\n", "\npackage "+name+"\n", "\nfunc main() {\n", "\nfunc Main() {\n")
		if err := show(main, as.Replace(string(text))); err != nil {
			return err
		}
		fmt.Fprintf(&imports, "\tx%s %q\n", name, "github.com/superstep-dev/superstep/examples/internal/all/"+name)
		fmt.Fprintf(&cases, "\tcase %q:\n\t\tx%s.Main()\n", name+".exe", name)
	}
	err = show("main.go", fmt.Sprintf("package main\n\nimport (\n\t\"os\"\n\t\"path/filepath\"\n\n%s)\n\nfunc main() {\n\tswitch filepath.Base(os.Args[0]) {\n%s\t}\n}\n", &imports, &cases))
	if err != nil {
		return err
	}
	file := filepath.Join(temp, "overlay.json")
	data, err := json.Marshal(map[string]map[string]string{"Replace": overlay})
	if err := errors.Join(err, os.WriteFile(file, data, 0o644)); err != nil {
		return err
	}
	all := filepath.Join(temp, "all.exe")
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-overlay="+file, "-o", all, "./internal/all").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	for _, main := range mains {
		if err := os.Link(all, filepath.Join(temp, filepath.Dir(main)+".exe")); err != nil {
			return err
		}
	}
	return nil
})
