package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// packageOf reads the comments of a package of the module.
func packageOf(t *testing.T, dir string) *doc.Package {
	t.Helper()
	files := token.NewFileSet()
	var parsed []*ast.File
	sources, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(dir), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, source, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	p, err := doc.NewFromFiles(files, parsed, module+"/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// cell makes a sentence of a comment fit to stand in a table.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "[", "", "]", "", "\n", " ").Replace(strings.TrimSpace(text))
}

// upToDate compares a page with what it should be, and writes it with -update.
func upToDate(t *testing.T, page, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if read(t, page) != want {
		t.Errorf("%s is not up to date, run go test ./docs -update", page)
	}
}

// variables are the variables of the environment that the module's code names, with the
// files that do.
func variables(t *testing.T) map[string][]string {
	t.Helper()
	named := regexp.MustCompile(`"((?:SUPERSTEP|OPENAI|ANTHROPIC|GOOGLE|GEMINI|OLLAMA|AZURE|AWS)_[A-Z_]+|NO_COLOR|CLICOLOR_FORCE|LC_ALL|LC_CTYPE|LANG)"`)
	found := map[string][]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (regexp.MustCompile(`^(\.\w.*|testdata|templates|examples|bench|docs|node_modules|servers|killtest|chaos|temporal)$`).MatchString(d.Name())):
			return fs.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "doc.go":
			return nil
		}
		data, err := os.ReadFile(path)
		for _, m := range named.FindAllSubmatch(data, -1) {
			found[string(m[1])] = append(found[string(m[1])], path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Which variables there are is found in the code, and what the options do in their
// comments; the page says what the variables mean.
func TestTheReferenceOfTheConfigurationIsThatOfTheCode(t *testing.T) {
	const page = "configuration.md"
	text := read(t, page)
	head, rest, _ := strings.Cut(text, "\n## Variables of the environment\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	means := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|\n]*) \\|$").FindAllStringSubmatch(rest, -1) {
		means[m[1]] = m[2]
	}
	var b bytes.Buffer
	b.WriteString(strings.TrimRight(head, "\n") + "\n\n## Variables of the environment\n\n| variable | meaning |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(variables(t))) {
		if means[name] == "" {
			t.Errorf("%s: nothing says what %s means, which %s reads", page, name, variables(t)[name])
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, means[name])
	}
	for _, of := range []struct{ dir, kind, title string }{
		{"server", "Option", "Options of a server"}, {"server", "GraphOption", "Options of a graph on a server"},
		{"cli", "Option", "Options of the command line"}, {"cli", "GraphOption", "Options of a graph at the command line"},
		{"graph", "Option", "Options of Compile"}, {"graph", "SubgraphOption", "Options of Compile and of a subgraph"},
		{"graph", "NodeOption", "Options of a node"}, {"graph", "DoOption", "Options of a node and of Do"},
		{"graph", "RunOption", "Options of a run"}, {"graph", "StreamOption", "Options of a stream"},
	} {
		p := packageOf(t, of.dir)
		at := slices.IndexFunc(p.Types, func(typ *doc.Type) bool { return typ.Name == of.kind })
		if at < 0 || len(p.Types[at].Funcs) == 0 {
			t.Errorf("package %s has no functions that return a %s", of.dir, of.kind)
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n| option | what it does |\n|---|---|\n", of.title)
		for _, f := range p.Types[at].Funcs {
			fmt.Fprintf(&b, "| [`%s.%s`](https://pkg.go.dev/%s/%s#%s) | %s |\n", of.dir, f.Name, module, of.dir, f.Name, cell(p.Synopsis(f.Doc)))
		}
	}
	p := packageOf(t, "server")
	at := slices.IndexFunc(p.Types, func(typ *doc.Type) bool { return typ.Name == "Limits" })
	b.WriteString("\n## Limits of a server\n\n`server.WithLimits(server.Limits{…})` sets them; what is zero has its default.\n\n| field | what it limits |\n|---|---|\n")
	for _, f := range p.Types[at].Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType).Fields.List {
		about := f.Doc.Text() + f.Comment.Text()
		for _, name := range f.Names {
			if name.IsExported() {
				fmt.Fprintf(&b, "| `%s` | %s |\n", name.Name, cell(about))
			}
		}
	}
	upToDate(t, page, b.String())
}

// What the server says of its routes is their reference.
func TestTheReferenceOfHTTPIsThatOfTheServer(t *testing.T) {
	t.Parallel()
	type named struct{ Name, Description, In string }
	var description struct {
		Tags  []struct{ Name, Description string }
		Paths map[string]map[string]struct {
			Summary, Description string
			Tags                 []string
			Parameters           []struct {
				Ref string `json:"$ref"`
				named
			}
			Responses map[string]json.RawMessage
		}
		Components struct{ Parameters map[string]named }
	}
	if err := json.Unmarshal([]byte(get(t, started(t)+"/openapi.json")), &description); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	head, _, _ := strings.Cut(read(t, "http.md"), "\n## ")
	b.WriteString(strings.TrimRight(head, "\n") + "\n")
	routes := 0
	for _, tag := range description.Tags {
		fmt.Fprintf(&b, "\n## %s\n\n", tag.Name)
		if tag.Description != "" {
			fmt.Fprintf(&b, "%s\n\n", tag.Description)
		}
		b.WriteString("| route | what it does | query | answers |\n|---|---|---|---|\n")
		for _, path := range slices.Sorted(maps.Keys(description.Paths)) {
			for _, method := range slices.Sorted(maps.Keys(description.Paths[path])) {
				o := description.Paths[path][method]
				if !slices.Contains(o.Tags, tag.Name) {
					continue
				}
				routes++
				var query []string
				for _, p := range o.Parameters {
					if p.Ref != "" {
						p.named = description.Components.Parameters[p.Ref[strings.LastIndex(p.Ref, "/")+1:]]
					}
					if p.In == "query" {
						query = append(query, "`"+p.Name+"`")
					}
				}
				delete(o.Responses, "default") // any other error
				fmt.Fprintf(&b, "| `%s %s` | %s | %s | %s |\n", strings.ToUpper(method), path, cell(strings.TrimRight(o.Summary, ".")+". "+o.Description),
					strings.Join(query, ", "), strings.Join(slices.Sorted(maps.Keys(o.Responses)), ", "))
			}
		}
	}
	all := 0
	for _, methods := range description.Paths {
		all += len(methods)
	}
	if routes != all || all == 0 {
		t.Errorf("%d of %d routes have a tag", routes, all)
	}
	upToDate(t, "http.md", b.String())
}
