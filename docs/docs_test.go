// Package docs checks the documentation: every Go snippet is a copy of code
// that is compiled and run, every test that is named exists, every link leads
// somewhere.
//
// A fenced block of Go stands below a comment that says where it comes from:
//
//	<!-- snippets/tutorial_test.go Article intro Example_article -->
//
// The first word is a Go file, relative to the directory of the page. Each other
// word is a piece of it: a region between the comments //snippet:name and
// //snippet:end, or a top-level declaration (Type.Method for a method). Of a
// function that is an Example, the piece is the body, with the output that go
// test checks. Without pieces, the block is the file from its package clause
// on. After a change of the code,
//
//	go test ./docs -update
//
// writes the blocks anew.
package docs

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the snippets into the pages")

// pages returns the documentation: the files in this directory, and the
// README of the repository once it exists.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	if readme := filepath.Join("..", "README.md"); exists(readme) {
		found = append(found, readme)
	}
	return found
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// block is a fenced block of Go with the line before it.
var block = regexp.MustCompile("(?m)^(.*)\n```go\n((?s:.*?))^```$")

// source is the comment that says where a block comes from.
var source = regexp.MustCompile(`^<!-- (\S+\.go)((?: \S+)*) -->$`)

func TestSnippets(t *testing.T) { // W7-44, SONI-61
	for _, page := range pages(t) {
		text := read(t, page)
		woven := block.ReplaceAllStringFunc(text, func(found string) string {
			m := block.FindStringSubmatch(found)
			from := source.FindStringSubmatch(m[1])
			if from == nil {
				t.Errorf("%s: no comment says where this block comes from:\n%s", page, m[2])
				return found
			}
			code, err := snippet(filepath.Join(filepath.Dir(page), from[1]), strings.Fields(from[2]))
			if err != nil {
				t.Errorf("%s: %v", page, err)
				return found
			}
			if code != m[2] && !*update {
				t.Errorf("%s: block of %s is not up to date, run go test ./docs -update:\n%s", page, m[1], m[2])
			}
			return m[1] + "\n```go\n" + code + "```"
		})
		if *update && woven != text {
			if err := os.WriteFile(page, []byte(woven), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// snippet returns pieces of a Go file, with an empty line between them.
func snippet(path string, pieces []string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if len(pieces) == 0 {
		text := string(data)
		return text[strings.Index("\n"+text, "\npackage "):], nil // without the comment before it
	}
	var parts []string
	for _, name := range pieces {
		part, err := piece(path, string(data), name)
		if err != nil {
			return "", err
		}
		parts = append(parts, clean(part))
	}
	return strings.Join(parts, "\n"), nil
}

func piece(path, text, name string) (string, error) {
	if _, after, ok := strings.Cut(text, "//snippet:"+name+"\n"); ok {
		region, _, ok := strings.Cut(after, "//snippet:end")
		if !ok {
			return "", fmt.Errorf("%s: region %s has no end", path, name)
		}
		return region, nil
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.ParseComments)
	if err != nil {
		return "", err
	}
	cut := func(from, to token.Pos) string { return text[files.Position(from).Offset:files.Position(to).Offset] }
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			switch {
			case receiver(d)+d.Name.Name != name:
			case strings.HasPrefix(name, "Example"):
				return cut(d.Body.Lbrace+1, d.Body.Rbrace), nil
			default:
				return cut(start(d.Doc, d.Pos()), d.End()), nil
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && s.Name.Name == name {
					return cut(start(d.Doc, d.Pos()), d.End()), nil
				}
			}
		}
	}
	return "", fmt.Errorf("%s has neither a region nor a declaration %s", path, name)
}

// receiver returns the name of a method's type with a dot.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "."
	}
	return "?."
}

func start(doc *ast.CommentGroup, pos token.Pos) token.Pos {
	if doc != nil {
		return doc.Pos()
	}
	return pos
}

// clean removes markers, common indentation and empty lines at both ends.
func clean(code string) string {
	var lines []string
	indent := -1
	for line := range strings.Lines(code) {
		line = strings.TrimRight(line, " \t\n")
		if strings.HasPrefix(strings.TrimSpace(line), "//snippet:") {
			continue
		}
		if line != "" {
			tabs := len(line) - len(strings.TrimLeft(line, "\t"))
			if indent < 0 || tabs < indent {
				indent = tabs
			}
		}
		lines = append(lines, line)
	}
	for i, line := range lines {
		if line != "" {
			lines[i] = line[indent:]
		}
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n") + "\n"
}

// testFunctions returns the names of all test functions of the module.
var testFunctions = sync.OnceValues(func() (map[string]bool, error) {
	names := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range function.FindAllStringSubmatch(string(data), -1) {
			names[m[1]] = true
		}
		return err
	})
	return names, err
})

func TestNamedTestsExist(t *testing.T) {
	known, err := testFunctions()
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test[A-Z]\\w+)`")
	for _, page := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(read(t, page), -1) {
			if !known[m[1]] {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}

func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range pages(t) {
		text := regexp.MustCompile("(?ms)^```.*?^```|`[^`\n]*`").ReplaceAllString(read(t, page), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := page
			if target != "" {
				to = filepath.Join(filepath.Dir(page), target)
			}
			if !exists(to) {
				t.Errorf("%s: link to %s leads nowhere", page, m[1])
			} else if anchor != "" && !hasHeading(read(t, to), anchor) {
				t.Errorf("%s: %s has no heading #%s", page, to, anchor)
			}
		}
	}
}

// hasHeading reports whether a page has a heading with that anchor, as GitHub
// makes them.
func hasHeading(text, anchor string) bool {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		title := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		title = regexp.MustCompile(`[^\p{L}\p{N}\- ]`).ReplaceAllString(title, "")
		if strings.ReplaceAll(title, " ", "-") == anchor {
			return true
		}
	}
	return false
}
