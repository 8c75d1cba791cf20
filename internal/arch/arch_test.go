package arch_test

import (
	"bytes"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/superstep-dev/superstep"

// list runs go list at the module's root and returns a line for each package.
func list(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-e"}, args...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		if e, ok := err.(*exec.ExitError); ok {
			t.Fatalf("go list: %v\n%s", err, e.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	return strings.Fields(string(out))
}

// imports returns what each package of the module imports, tests aside. Own
// packages are named without the module's path.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	pkgs := map[string][]string{}
	for _, line := range list(t, "-f", `{{.ImportPath}}:{{join .Imports ","}}:{{.Dir}}`, "./...") {
		path, rest, _ := strings.Cut(line, ":")
		imps, dir, _ := strings.Cut(rest, ":")
		if _, err := os.ReadDir(dir); err != nil { // a cached result of the test ends when a file changes
			t.Fatal(err)
		}
		var short []string
		for _, imp := range strings.Split(imps, ",") {
			if imp != "" {
				short = append(short, strings.TrimPrefix(imp, module+"/"))
			}
		}
		pkgs[strings.TrimPrefix(path, module+"/")] = short
	}
	for _, name := range []string{"field", "checkpoint", "draw", "graph", "internal/local", "internal/core", "internal/plan"} {
		if _, ok := pkgs[name]; !ok {
			t.Fatalf("go list doesn't know package %s", name)
		}
	}
	return pkgs
}

// under reports whether a package is one of trees, or inside one.
func under(pkg string, trees []string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return pkg == tree || strings.HasPrefix(pkg, tree+"/") })
}

// upper are the trees above the engine, from the top.
var upper = []string{"cmd", "cli", "a2a", "remote", "client", "server", "otel", "eval", "agent", "dialogue", "session"}

// The packages of a tree import, of our own, only what is named and what is in
// the tree.
var only = map[string][]string{
	"client":            {"internal/sse"},
	"cache":             {"internal/backend", "internal/options", "internal/private", "internal/redisdb", "internal/sqlitedb"},
	"field":             nil,
	"remote":            {"chat", "client", "graph"},
	"a2a":               {"internal/goschema", "chat", "client", "graph", "memory"},
	"checkpoint":        {"internal/backend", "internal/jsonscan", "internal/pgdb", "internal/options", "internal/private", "internal/process", "internal/redisdb", "internal/sqlitedb"},
	"internal/pgdb":     {"internal/backend"},
	"internal/redisdb":  nil,
	"internal/follow":   nil,
	"internal/sqlitedb": {"internal/backend", "internal/private"},
	"draw":              nil,
	"internal/plan":     nil,
	"internal/core":     {"internal/plan", "checkpoint"},
	"internal/local":    {"internal/core", "internal/plan", "internal/process", "cache", "checkpoint"},
	"internal/goschema": {"internal/plainjson", "internal/plan"},
	"internal/jsonscan": nil,
	"internal/seam":     nil,
	"internal/sse":      nil,
	"fleet":             {"internal/follow", "internal/local", "internal/options", "internal/pgdb", "internal/redisdb", "internal/seam", "chat", "checkpoint", "graph", "tool"},
	"fleet/bus":         {"internal/follow", "internal/options", "internal/pgdb", "internal/redisdb"},
	"graph":             {"internal/goschema", "internal/jsonscan", "internal/local", "internal/process", "internal/seam", "internal/core", "internal/plan", "cache", "checkpoint", "draw", "field"},
}

// The packages of a tree import none of these.
var never = map[string][]string{
	"chat":      append([]string{"internal/local", "internal/core", "graphtest", "memory", "model", "tool"}, upper...),
	"model":     append([]string{"graph", "internal/local", "internal/core", "graphtest", "memory"}, upper...),
	"tool":      append([]string{"graph", "internal/local", "internal/core", "graphtest", "memory", "model"}, upper...),
	"tool/mcp":  append([]string{"internal/local", "internal/core", "graphtest", "memory"}, upper...), // its servers ask people and models
	"memory":    append([]string{"internal/local", "internal/core", "graphtest", "retrieval"}, upper...),
	"retrieval": append([]string{"graph", "internal/local", "internal/core", "graphtest"}, upper...),
	"graphtest": upper,
	"agenttest": {"cmd", "cli", "server", "otel", "dialogue", "session", "internal/local", "internal/core"},
	"eval":      {"cmd", "cli", "client", "server", "otel", "dialogue", "session", "graphtest", "agenttest", "internal/local", "internal/core"},
	"agent":     {"cmd", "cli", "server", "otel", "eval", "dialogue", "session", "graphtest", "internal/local", "internal/core"},
	"dialogue":  {"cmd", "cli", "server", "otel", "eval", "graphtest", "internal/local", "internal/core"},
	"session":   {"cmd", "cli", "server", "otel", "eval", "graphtest", "internal/local", "internal/core"},
	"otel":      {"cmd", "cli", "server", "eval", "agent", "dialogue", "session", "graphtest", "memory", "internal/local", "internal/core"},
	"server":    {"cmd", "cli", "a2a", "client", "remote", "eval", "graphtest", "internal/local", "internal/core"},
	"cli":       {"cmd"},
}

func TestImportsPointOneWay(t *testing.T) {
	for pkg, imps := range imports(t) {
		for tree, allowed := range only {
			if !under(pkg, []string{tree}) {
				continue
			}
			for _, imp := range imps {
				if imp != "C" && own(t, imp) && !under(imp, append([]string{tree}, allowed...)) {
					t.Errorf("%s imports %s; of our own packages, %s may import %q", pkg, imp, tree, allowed)
				}
			}
		}
		for tree, forbidden := range never {
			if !under(pkg, []string{tree}) || tree == "tool" && pkg == "tool/mcp" { // it has a line of its own
				continue
			}
			for _, imp := range imps {
				if under(imp, forbidden) {
					t.Errorf("%s imports %s, which stands above it or beside it", pkg, imp)
				}
			}
		}
		if under(pkg, []string{"cmd", "examples", "docs"}) {
			continue
		}
		for _, imp := range imps {
			if under(imp, []string{"cmd", "examples"}) {
				t.Errorf("%s imports %s", pkg, imp)
			}
		}
	}
}

var known map[string]bool

// own reports whether an import as returned by imports is of this module.
func own(t *testing.T, imp string) bool {
	if known == nil {
		known = map[string]bool{}
		for _, p := range list(t, "./...") {
			known[strings.TrimPrefix(p, module+"/")] = true
		}
	}
	return known[imp]
}

// The step machine and the compiled graph decide and do nothing: they can't
// reach a clock, a lock, a goroutine's context or the world.
func TestPureCore(t *testing.T) {
	pure := []string{
		"bytes", "cmp", "encoding/hex", "encoding/json", "errors", "fmt", "hash/fnv", "hash/maphash",
		"iter", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings", "unicode", "unicode/utf8",
	}
	pkgs := imports(t)
	for _, pkg := range []string{"internal/core", "internal/plan"} {
		for _, imp := range pkgs[pkg] {
			if !slices.Contains(pure, imp) && !slices.Contains(only[pkg], imp) {
				t.Errorf("%s imports %s", pkg, imp)
			}
		}
	}
}

// A program that imports graph alone pulls in little.
func TestGraphIsLight(t *testing.T) { // SONI-12
	allowed := []string{module, "github.com/google/uuid", "github.com/google/jsonschema-go", "github.com/benbjohnson/immutable", "golang.org/x/exp/constraints"}
	deps := list(t, "-deps", "-f", `{{if not .Standard}}{{.ImportPath}}{{end}}`, "./graph")
	if !slices.Contains(deps, module+"/internal/core") {
		t.Fatalf("graph doesn't depend on the step machine: %q", deps)
	}
	for _, dep := range deps {
		if !under(dep, allowed) {
			t.Errorf("graph pulls in %s", dep)
		}
		for _, tree := range []string{"model", "tool", "chat", "session", "server", "agent", "memory", "dialogue", "cli", "cmd"} {
			if under(dep, []string{module + "/" + tree}) {
				t.Errorf("graph knows %s", dep)
			}
		}
	}
}

// A program that calls a server needs the standard library alone.
func TestTheClientPullsInNothing(t *testing.T) {
	for _, dep := range list(t, "-deps", "-f", `{{if not .Standard}}{{.ImportPath}}{{end}}`, "./client") {
		if dep != module+"/client" && dep != module+"/internal/sse" {
			t.Errorf("client pulls in %s", dep)
		}
	}
}

// Back ends are optional: a program has the drivers of those that it imports.
func TestDriversAreOptional(t *testing.T) { // SONI-12
	drivers := map[string]string{
		"modernc.org/sqlite":           "checkpoint/sqlite",
		"github.com/jackc/pgx/v5":      "checkpoint/postgres",
		"github.com/redis/go-redis/v9": "checkpoint/redis",
		"github.com/minio/minio-go/v7": "checkpoint/s3",
	}
	for _, pkg := range []string{"graph", "graphtest", "checkpoint", "checkpoint/file", "checkpoint/sqlite", "checkpoint/postgres", "checkpoint/redis", "checkpoint/s3", "checkpoint/stores"} {
		deps := list(t, "-deps", "-f", `{{if not .Standard}}{{.ImportPath}}{{end}}`, "./"+pkg)
		for driver, owner := range drivers {
			has, want := slices.Contains(deps, driver), pkg == owner || pkg == "checkpoint/stores"
			if has != want {
				t.Errorf("%s links %s: %v, want %v", pkg, driver, has, want)
			}
		}
	}
}

// A program that calls methods by names that it makes up while it runs has the linker keep
// every exported method of every type: that was a fifth of the command.
func TestTheLinkerMayLeaveMethodsOut(t *testing.T) {
	callers := map[string][]string{ // and who may import them
		"text/template":                {"github.com/spf13/cobra"}, // which uses it only for templates of a program's own
		"html/template":                nil,
		"github.com/expr-lang/expr":    nil,
		"github.com/expr-lang/expr/vm": nil,
	}
	for _, line := range list(t, "-deps", "-f", `{{.ImportPath}}:{{join .Imports ","}}`, "./cmd/superstep") {
		pkg, imps, _ := strings.Cut(line, ":")
		for _, imp := range strings.Split(imps, ",") {
			if by, ok := callers[imp]; ok && !slices.Contains(by, pkg) {
				t.Errorf("%s imports %s", pkg, imp)
			}
		}
	}
	dynamic := regexp.MustCompile(`\.(?:MethodByName\([^")]|Method\([^")])`)
	for _, line := range list(t, "-deps", "-f", `{{$dir := .Dir}}{{if not .Standard}}{{range .GoFiles}}{{$.ImportPath}}:{{$dir}}/{{.}}{{"\n"}}{{end}}{{end}}`, "./cmd/superstep") {
		pkg, file, _ := strings.Cut(line, ":")
		if pkg != module && !strings.HasPrefix(pkg, module+"/") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if call := dynamic.Find(source); call != nil && bytes.Contains(source, []byte("\"reflect\"")) {
			t.Errorf("%s calls %s…) of package reflect: give MethodByName a constant, and use Method.Func", file, call)
		}
	}
}

// What package graph exports stays within what one can know.
func TestGraphExportsAtMost400Names(t *testing.T) {
	sources, err := filepath.Glob("../../graph/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	var parsed []*ast.File
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
	p, err := doc.NewFromFiles(files, parsed, module+"/graph")
	if err != nil {
		t.Fatal(err)
	}
	n := len(p.Funcs) + len(p.Types)
	for _, typ := range p.Types {
		n += len(typ.Funcs) + len(typ.Methods)
	}
	if n < 200 || n > 400 {
		t.Errorf("graph exports %d functions, types and methods, want at most 400", n)
	}
}

// Engines for durable execution are for those who import their modules.
func TestDispatchersOnEnginesAreModulesOfTheirOwn(t *testing.T) {
	deps := list(t, "-deps", "-f", "{{.ImportPath}}", "./...")
	if !slices.Contains(deps, module+"/fleet") {
		t.Fatal("go list doesn't know package fleet")
	}
	for _, dep := range deps {
		if under(dep, []string{"go.temporal.io", module + "/temporal", "github.com/dbos-inc", module + "/dbos"}) {
			t.Errorf("the main module pulls in %s", dep)
		}
	}
}

// A program that reads no PDF links no reader of them.
func TestThePDFReaderIsOptional(t *testing.T) {
	for pkg, want := range map[string]bool{"retrieval": false, "retrieval/pdf": true} {
		deps := list(t, "-deps", "-f", "{{.ImportPath}}", "./"+pkg)
		if has := slices.Contains(deps, "github.com/ledongthuc/pdf"); has != want {
			t.Errorf("%s links the reader: %v, want %v", pkg, has, want)
		}
	}
}

// A vendor's model is light to compile: no SDK of his, nor what they bring.
func TestVendorsAreLight(t *testing.T) {
	allowed := []string{module, "github.com/google/jsonschema-go", "github.com/benbjohnson/immutable", "golang.org/x/exp/constraints", "golang.org/x/time/rate"}
	for _, pkg := range []string{"model/openai", "model/anthropic", "model/gemini", "model/models"} {
		for _, dep := range list(t, "-deps", "-f", `{{if not .Standard}}{{.ImportPath}}{{end}}`, "./"+pkg) {
			if !under(dep, allowed) {
				t.Errorf("%s pulls in %s", pkg, dep)
			}
		}
	}
}

// A program links the credentials of a cloud if it imports the package for its models.
func TestCloudsAreOptional(t *testing.T) {
	clouds := map[string]string{
		"github.com/Azure/azure-sdk-for-go/sdk/azidentity": "model/azure",
		"github.com/aws/aws-sdk-go-v2/config":              "model/bedrock",
		"golang.org/x/oauth2/google":                       "model/vertex",
	}
	for _, pkg := range []string{"model/azure", "model/bedrock", "model/vertex", "model/openai", "model/anthropic", "model/gemini", "model/models", "agent", "agent/middleware", "server", "cmd/superstep"} {
		deps := list(t, "-deps", "-f", "{{.ImportPath}}", "./"+pkg)
		for sdk, owner := range clouds {
			if has, want := slices.Contains(deps, sdk), pkg == owner; has != want {
				t.Errorf("%s links %s: %v, want %v", pkg, sdk, has, want)
			}
		}
	}
}

// A program links the drivers and clients of what it imports, and no others.
func TestVendorsAreOptional(t *testing.T) {
	sdks := map[string]string{
		module + "/model/openai":                          "model/openai",
		module + "/model/anthropic":                       "model/anthropic",
		module + "/model/gemini":                          "model/gemini",
		"github.com/modelcontextprotocol/go-sdk/mcp":      "tool/mcp",
		"modernc.org/sqlite":                              "",
		"github.com/jackc/pgx/v5":                         "",
		"github.com/redis/go-redis/v9":                    "",
		"gopkg.in/dnaeon/go-vcr.v4/pkg/recorder":          "",
		"github.com/superstep-dev/superstep/model/models": "",
	}
	for _, pkg := range []string{"chat", "model", "model/scripted", "model/openai", "model/anthropic", "model/gemini", "tool", "tool/mcp", "agent", "memory", "memory/sqlite", "memory/postgres", "retrieval", "retrieval/pdf", "session", "cache", "cache/sqlite", "cache/redis"} {
		deps := list(t, "-deps", "-f", "{{.ImportPath}}", "./"+pkg)
		for sdk, owner := range sdks {
			own := pkg == owner || map[string]string{"modernc.org/sqlite": "sqlite", "github.com/jackc/pgx/v5": "postgres", "github.com/redis/go-redis/v9": "redis"}[sdk] == path.Base(pkg)
			if has, want := slices.Contains(deps, sdk), own; has != want {
				t.Errorf("%s links %s: %v, want %v", pkg, sdk, has, want)
			}
		}
	}
}
