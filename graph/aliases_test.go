package graph_test

import (
	"flag"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write into comments what aliases stand for")

// An alias of a type in an internal package shows nothing in go doc but its comment,
// so that tells the type's fields and methods.
func TestACommentTellsWhatAnAliasStandsFor(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	definition := definitions(t)
	seen := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range slices.Backward(file.Decls) { // what is written moves what follows
			types, ok := decl.(*ast.GenDecl)
			if !ok || types.Tok != token.TYPE {
				continue
			}
			for _, s := range slices.Backward(types.Specs) {
				alias := s.(*ast.TypeSpec)
				dir, name := internalType(file, alias)
				if dir == "" {
					continue
				}
				seen++
				comment := alias.Doc
				if comment == nil {
					comment = types.Doc
				}
				if comment == nil {
					t.Fatalf("%s has no comment", alias.Name)
				}
				from, to := files.Position(comment.Pos()), files.Position(comment.End())
				indent := strings.Repeat("\t", from.Column-1)
				have := string(text[from.Offset:to.Offset])
				prose, _, _ := strings.Cut(have, "\n"+indent+"//\n"+indent+"//\ttype ")
				if strings.Contains(prose, "//\t") {
					t.Errorf("the comment of %s shows something else than the type:\n%s", alias.Name, prose)
				}
				want := prose + "\n" + indent + "//"
				for line := range strings.Lines(definition(dir, name)) {
					want += strings.TrimRight("\n"+indent+"//\t"+strings.TrimSuffix(line, "\n"), "\t")
				}
				if have != want && !*update {
					t.Errorf("the comment of %s should read:\n%s%s\ngo test ./graph -run %s -update writes it", alias.Name, indent, want, t.Name())
				}
				text = slices.Concat(text[:from.Offset], []byte(want), text[to.Offset:])
			}
		}
		if !*update {
			continue
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if seen < 10 {
		t.Errorf("there are %d aliases: are they looked for in the right place?", seen)
	}
}

// internalType returns the directory and the name of the type in an internal package
// that alias stands for, or nothing.
func internalType(file *ast.File, alias *ast.TypeSpec) (dir, name string) {
	of, ok := alias.Type.(*ast.SelectorExpr)
	if !ok || !alias.Assign.IsValid() {
		return "", ""
	}
	for _, imp := range file.Imports {
		path, _ := strconv.Unquote(imp.Path.Value)
		if inside, ok := strings.CutPrefix(path, "github.com/superstep-dev/superstep/"); ok && strings.Contains(path, "internal/") && filepath.Base(path) == of.X.(*ast.Ident).Name {
			return "../" + inside, of.Sel.Name
		}
	}
	return "", ""
}

// definitions returns a function that returns the declaration of a type and the heads
// of its methods, of both what is exported.
func definitions(t *testing.T) func(dir, name string) string {
	files := token.NewFileSet()
	packages := map[string]*doc.Package{}
	read := func(dir string) *doc.Package {
		paths, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		var parsed []*ast.File
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		p, err := doc.NewFromFiles(files, parsed, dir)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	return func(dir, name string) string {
		if packages[dir] == nil {
			packages[dir] = read(dir)
		}
		i := slices.IndexFunc(packages[dir].Types, func(typ *doc.Type) bool { return typ.Name == name })
		if i < 0 {
			t.Fatalf("there is no type %s in %s", name, dir)
		}
		typ := packages[dir].Types[i]
		var b strings.Builder
		show := func(before string, decl any) {
			b.WriteString(before)
			if err := printer.Fprint(&b, files, decl); err != nil {
				t.Fatal(err)
			}
		}
		typ.Decl.Doc = nil
		show("", typ.Decl)
		before := "\n\n"
		for _, m := range typ.Methods {
			m.Decl.Doc = nil
			show(before, m.Decl)
			before = "\n"
		}
		text, err := format.Source([]byte(b.String()))
		if err != nil {
			t.Fatalf("%s: %v", b.String(), err)
		}
		return string(text)
	}
}
