// Package scaffold writes small programs to begin with. Each is a folder of templates:
// packages of this module, which are compiled and tested like any, with their imports
// and the word NAME put right when they are written.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/internal/plan"
)

//go:embed templates
var templates embed.FS

const (
	module = "github.com/superstep-dev/superstep"
	here   = module + "/cmd/superstep/internal/scaffold/templates/" // where the templates' own packages are
	common = "templates/common"                                     // what all programs have, unless they have their own
)

// Names returns the names of the templates.
func Names() []string { return []string{"agent", "batch", "approval", "dialogue", "rag"} }

// NameError says that a program can't have a name.
type NameError struct{ Name, Why string }

func (e *NameError) Error() string {
	return fmt.Sprintf("a program can't be named %q: %s", e.Name, e.Why)
}

// TemplateError says that there is no such template.
type TemplateError struct{ Name string }

func (e *TemplateError) Error() string {
	text := fmt.Sprintf("there is no template %q", e.Name)
	if near := plan.Nearest(e.Name, Names()); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	}
	return text + "; there are " + strings.Join(Names(), ", ")
}

// Engine says which superstep a program is built with.
type Engine struct {
	Version string // of the module
	Replace string // folder of a clone that takes its place; empty: none
}

// ErrUnreleased means that no version of the engine can be fetched that is the running
// program's.
var ErrUnreleased = errors.New("this superstep was built from a clone, and has no version that Go could fetch")

// Running returns the engine of the running program. From a clone that is not at a
// release the error is [ErrUnreleased].
func Running() (Engine, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok || !fetchable(info) {
		return Engine{}, ErrUnreleased
	}
	return Engine{Version: info.Main.Version}, nil
}

var release = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[a-z]+\.\d+)?$`)

// fetchable reports whether a build is of a release, or was fetched itself.
func fetchable(info *debug.BuildInfo) bool {
	return info.Main.Path == module && (info.Main.Sum != "" || release.MatchString(info.Main.Version))
}

// Clone returns the engine of a clone. Programs in the folder dir refer to it by the way
// from there if clone is no absolute path.
func Clone(dir, clone string) (Engine, error) {
	text, err := os.ReadFile(filepath.Join(clone, "go.mod"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !regexp.MustCompile(`(?m)^module `+regexp.QuoteMeta(module)+`\s*$`).Match(text) {
		return Engine{}, fmt.Errorf("%s is no clone of %s: its go.mod would say so", clone, module)
	}
	if err != nil {
		return Engine{}, err
	}
	if !filepath.IsAbs(clone) {
		if clone, err = relative(dir, clone); err != nil {
			return Engine{}, err
		}
	}
	return Engine{Version: "v0.0.0", Replace: filepath.ToSlash(clone)}, nil
}

// relative returns the way from dir to a folder, or its absolute path if there is none.
func relative(dir, to string) (string, error) {
	from, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if to, err = filepath.Abs(to); err != nil {
		return "", err
	}
	if way, err := filepath.Rel(from, to); err == nil {
		return way, nil
	}
	return to, nil
}

var (
	word     = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
	reserved = []string{"all", "cmd", "go", "internal", "main", "std", "testdata", "tool", "toolchain", "vendor", "work"} // words of the go command
)

// Write writes the program of a template into dir, a folder that must not exist yet: its
// last element is the name of the program and of its module. What is wrong is a
// [*NameError], a [*TemplateError] or the file system's error, [fs.ErrExist] for one;
// nothing is left behind then.
func Write(dir, template string, e Engine) (err error) {
	name := filepath.Base(dir)
	switch {
	case !word.MatchString(name):
		return &NameError{name, "use small letters, digits, - and _, and begin with a letter"}
	case slices.Contains(reserved, name):
		return &NameError{name, "the word means something to the go command"}
	case !slices.Contains(Names(), template):
		return &TemplateError{template}
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	root := path.Join("templates", template)
	for _, from := range []string{common, root} { // the template's own files are written over the common ones
		if err := copyFiles(dir, from, strings.NewReplacer(here+template+"/", name+"/", "NAME", name)); err != nil {
			return err
		}
	}
	if err := readme(dir, root, name); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.mod"), []byte(e.mod(name)), 0o666)
}

// dots are files that have a dot before their name in a program.
var dots = map[string]string{"gitignore": ".gitignore", "dockerignore": ".dockerignore"}

func copyFiles(dir, from string, mend *strings.Replacer) error {
	return fs.WalkDir(templates, from, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(at, from), "/")
		to := filepath.Join(dir, filepath.FromSlash(rel))
		switch {
		case d.IsDir():
			return os.MkdirAll(to, 0o777)
		case strings.HasSuffix(rel, ".md") && path.Dir(rel) == ".":
			return nil // see readme
		case dots[rel] != "":
			to = filepath.Join(dir, dots[rel])
		}
		text, err := templates.ReadFile(at)
		if err != nil {
			return err
		}
		return os.WriteFile(to, []byte(mend.Replace(string(text))), 0o666)
	})
}

// readme writes the README: the template's, what all have, and about traces where a
// program has them.
func readme(dir, root, name string) error {
	main, err := templates.ReadFile(root + "/main.go")
	parts := []string{root + "/README.md", common + "/README.md"}
	if bytes.Contains(main, []byte("otel.New")) {
		parts = append(parts, common+"/traces.md")
	}
	var text []byte
	for _, part := range parts {
		piece, e := templates.ReadFile(part)
		text, err = append(text, piece...), errors.Join(err, e)
	}
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "README.md"), bytes.ReplaceAll(text, []byte("NAME"), []byte(name)), 0o666))
}

// mod returns the text of a go.mod.
func (e Engine) mod(name string) string {
	text := fmt.Sprintf("module %s\n\ngo 1.26.0\n\nrequire %s %s\n", name, module, e.Version)
	if e.Replace == "" {
		return text
	}
	at := e.Replace
	if strings.ContainsAny(at, " \t\"'`()[]{},\\") || strings.Contains(at, "//") {
		at = strconv.Quote(at)
	}
	return text + fmt.Sprintf("\nreplace %s => %s\n", module, at)
}
