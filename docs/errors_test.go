package docs

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/superstep-dev/superstep"

// errorsOf lists the errors that the packages of the module export: variables whose names
// begin with Err, and types that are errors, each with the first sentence of its comment.
func errorsOf(t *testing.T) (packages []string, errs map[string]map[string]string) {
	t.Helper()
	errs = map[string]map[string]string{}
	skip := regexp.MustCompile(`^(\.\w.*|internal|testdata|cmd|examples|bench|docs|node_modules)$`)
	err := filepath.WalkDir("..", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if dir != ".." && skip.MatchString(d.Name()) {
			return fs.SkipDir
		}
		files := token.NewFileSet()
		var parsed []*ast.File
		sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, source := range sources {
			if strings.HasSuffix(source, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(files, source, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			parsed = append(parsed, file)
		}
		if len(parsed) == 0 {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(dir, ".."+string(filepath.Separator)))
		p, err := doc.NewFromFiles(files, parsed, module+"/"+name)
		if err != nil {
			return err
		}
		if found := exportedErrors(p); len(found) > 0 {
			packages, errs[name] = append(packages, name), found
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages, errs
}

func exportedErrors(p *doc.Package) map[string]string {
	found := map[string]string{}
	vars := p.Vars
	for _, typ := range p.Types {
		vars = append(vars, typ.Vars...)
		if strings.HasSuffix(typ.Name, "Error") { // another name for a type of an inner package has its methods there
			found[typ.Name] = cause(typ.Name, p.Synopsis(typ.Doc))
		}
		for _, m := range typ.Methods {
			if m.Name == "Error" && len(m.Decl.Type.Params.List) == 0 {
				found[typ.Name] = cause(typ.Name, p.Synopsis(typ.Doc))
			}
		}
	}
	for _, v := range vars {
		for _, spec := range v.Decl.Specs {
			spec := spec.(*ast.ValueSpec)
			for i, name := range spec.Names {
				if !strings.HasPrefix(name.Name, "Err") || !name.IsExported() {
					continue
				}
				text := p.Synopsis(spec.Doc.Text())
				if text == "" && len(v.Names) == 1 {
					text = p.Synopsis(v.Doc)
				}
				if text == "" {
					text = made(p.Imports, spec, i) + strings.TrimRight(" ("+strings.TrimSpace(spec.Comment.Text()), " (")
					if strings.Contains(text, " (") {
						text += ")"
					}
				}
				found[name.Name] = cause(name.Name, text)
			}
		}
	}
	return found
}

// cause is the sentence of a comment without what every one begins with.
func cause(name, text string) string {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "A "), "An ")
	for _, begin := range []string{": ", " says that ", " says ", " is "} {
		if rest, ok := strings.CutPrefix(text, name+begin); ok {
			return rest
		}
	}
	return text
}

// made returns the text that a variable is made of, as in errors.New("text"), be it in an
// inner package.
func made(imports []string, spec *ast.ValueSpec, i int) string {
	if i >= len(spec.Values) {
		return ""
	}
	if inner, ok := spec.Values[i].(*ast.SelectorExpr); ok {
		at := slices.IndexFunc(imports, func(p string) bool {
			return strings.HasPrefix(p, module+"/internal/") && path.Base(p) == inner.X.(*ast.Ident).Name
		})
		if at < 0 {
			return ""
		}
		sources, _ := filepath.Glob(filepath.Join("..", strings.TrimPrefix(imports[at], module), "*.go"))
		for _, source := range sources {
			file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
			if err != nil {
				continue
			}
			if o := file.Scope.Lookup(inner.Sel.Name); o != nil {
				of := o.Decl.(*ast.ValueSpec)
				return made(nil, of, slices.IndexFunc(of.Names, func(n *ast.Ident) bool { return n.Name == o.Name }))
			}
		}
		return ""
	}
	call, ok := spec.Values[i].(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return ""
	}
	text, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return ""
	}
	return strings.Trim(text.Value, "`\"")
}

var errorRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\|[^\n]*?\\| ([^|\n]*) \\|$")

// What an error means is said by its comment; what to do about it by the page.
func TestEveryErrorHasACauseAndAMend(t *testing.T) {
	const page = "errors.md"
	text := read(t, page)
	head, _, _ := strings.Cut(text, "\n## ")
	mends := map[string]string{}
	for _, section := range strings.Split(text, "\n## ")[1:] {
		name, rows, _ := strings.Cut(section, "\n")
		for _, row := range errorRow.FindAllStringSubmatch(rows, -1) {
			mends[name+"."+row[1]] = strings.TrimSpace(row[2])
		}
	}
	var b bytes.Buffer
	b.WriteString(strings.TrimRight(head, "\n") + "\n")
	packages, errs := errorsOf(t)
	for _, p := range packages {
		fmt.Fprintf(&b, "\n## %s\n\n| error | cause | mend |\n|---|---|---|\n", p)
		var names []string
		for name := range errs[p] {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			key := p + "." + name
			if mends[key] == "" {
				t.Errorf("%s: nothing says what to do about %s", page, key)
			}
			if errs[p][name] == "" {
				t.Errorf("%s has no comment that says what it means", key)
			}
			cause := strings.NewReplacer("|", "\\|", "[", "", "]", "").Replace(errs[p][name])
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, cause, mends[key])
		}
	}
	if *update {
		if err := os.WriteFile(page, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != b.String() {
		t.Errorf("%s is not up to date, run go test ./docs -update", page)
	}
}
