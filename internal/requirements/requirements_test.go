// Package requirements keeps docs/contributing/requirements.md true: a table that maps every
// requirement to the tests that prove it.
package requirements

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

//go:embed rows.txt
var rowsText string

var update = flag.Bool("update", false, "rewrite docs/contributing/requirements.md")

const (
	root = "../.."
	page = root + "/docs/contributing/requirements.md"
)

type row struct {
	id, when, text string
	asserts        *regexp.Regexp // what a test that proves it has in its source; nil: not said
	tests          []string
	bare           []string // those that cite it and don't have that
}

func rows(t *testing.T) (list []*row, byID map[string]*row) {
	byID = map[string]*row{}
	for line := range strings.Lines(rowsText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) < 3 || len(f) > 4 || byID[f[0]] != nil {
			t.Fatalf("bad line %q", line)
		}
		r := &row{id: f[0], when: f[1], text: f[2]}
		if len(f) == 4 {
			r.asserts = regexp.MustCompile("(?s)" + f[3])
		}
		list, byID[r.id] = append(list, r), r
	}
	return list, byID
}

var (
	family = regexp.MustCompile(`\b(W7|W5|SYN|TRPC|SONI)-(\d+)((?:(?:,? (?:and|to)|,) \d+)*)`)
	more   = regexp.MustCompile(`(,? and|,? to|,) (\d+)`)
)

// cited lists the rows that a comment names: "SYN-24 to 26, TRPC-33".
func cited(text string) (ids []string) {
	for _, m := range family.FindAllStringSubmatch(text, -1) {
		last, _ := strconv.Atoi(m[2])
		ids = append(ids, fmt.Sprintf("%s-%02d", m[1], last))
		for _, n := range more.FindAllStringSubmatch(m[3], -1) {
			next, _ := strconv.Atoi(n[2])
			from := next
			if strings.HasSuffix(n[1], "to") {
				from = last + 1
			}
			for i := from; i <= next; i++ {
				ids = append(ids, fmt.Sprintf("%s-%02d", m[1], i))
			}
			last = next
		}
	}
	return ids
}

// find adds to each row the tests, examples and scripts that cite it.
func find(t *testing.T, byID map[string]*row) {
	cite := func(place, text, source string) {
		for _, id := range cited(text) {
			r := byID[id]
			switch {
			case r == nil:
				t.Errorf("%s cites %s, which is no requirement", place, id)
			case r.asserts != nil && !r.asserts.MatchString(source):
				r.bare = append(r.bare, place)
			case !slices.Contains(r.tests, place):
				r.tests = append(r.tests, place)
			}
		}
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && rel != ".":
			return fs.SkipDir
		case strings.Contains(rel, "testdata/") && (strings.HasSuffix(rel, ".txt") || strings.HasSuffix(rel, ".txtar")):
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(data)) {
				if strings.HasPrefix(line, "#") {
					cite(rel, line, string(data))
				}
			}
		case strings.HasSuffix(rel, "_test.go") && !strings.HasPrefix(rel, "internal/requirements/"), strings.HasPrefix(rel, "checkpoint/checkpointtest/"):
			return citeGo(path, rel, cite)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// citeGo reads the comments in and above each function.
func citeGo(path, rel string, cite func(place, text, source string)) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		from, to := fn.Pos(), fn.End()
		if fn.Doc != nil {
			from = fn.Doc.Pos()
		}
		place := rel + ": " + fn.Name.Name
		source := string(src[fset.Position(from).Offset:fset.Position(to).Offset])
		cite(place, strings.ReplaceAll(fn.Name.Name, "_", "-"), source)
		for _, c := range file.Comments {
			if c.Pos() >= from && c.End() <= to || fset.Position(c.Pos()).Line == fset.Position(fn.Body.Lbrace).Line {
				cite(place, c.Text(), source)
			}
		}
	}
	return nil
}

func TestEveryRequirementHasATest(t *testing.T) {
	list, byID := rows(t)
	find(t, byID)
	var b bytes.Buffer
	b.WriteString("# Requirements\n\nEvery requirement and the tests that prove it. *Later* rows belong to parts that are not here yet.\n" +
		"Made by `go test ./internal/requirements -update`; the numbers stand in the tests' comments.\n\n| row | says | proved by |\n|---|---|---|\n")
	var missing []string
	for _, r := range list {
		proof := "*later*"
		if len(r.tests) > 0 {
			slices.Sort(r.tests)
			proof = "`" + strings.Join(r.tests[:min(len(r.tests), 4)], "`, `") + "`"
			if r.when == "later" {
				proof = "*later*; begun by " + proof
			}
		} else if r.when == "now" {
			missing = append(missing, r.id)
			proof = "**none**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.id, strings.ReplaceAll(r.text, "|", "\\|"), proof)
	}
	for _, r := range list {
		for _, place := range r.bare {
			t.Errorf("%s cites %s and doesn't assert what that says: it has nothing that matches %q", place, r.id, r.asserts)
		}
	}
	if len(missing) > 0 {
		t.Errorf("%d requirements have no test: %s", len(missing), strings.Join(missing, " "))
	}
	if *update {
		if err := os.WriteFile(page, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil || !bytes.Equal(have, b.Bytes()) {
		t.Errorf("docs/contributing/requirements.md is out of date: run go test ./internal/requirements -update (%v)", err)
	}
}
