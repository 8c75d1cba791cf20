package dialogue_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pure are the packages that decide what a conversation does.
var pure = []string{".", "program", "expr", "language", "internal/yamlvalue"}

func TestThePackagesThatDecideHaveNoClockNoIOAndNoGoroutine(t *testing.T) {
	allowed := []string{
		"bytes", "cmp", "crypto/sha256", "embed", "encoding/hex", "encoding/json", "errors", "fmt", "hash/fnv", "io/fs", "iter", "maps", "math",
		"net/mail", "net/url", "path", "regexp", "slices", "strconv", "strings", "time", "unicode", "unicode/utf8",
		"go.yaml.in/yaml/v4",
		"golang.org/x/text/currency", "golang.org/x/text/feature/plural", "golang.org/x/text/language", "golang.org/x/text/unicode/norm",
	}
	const house = "github.com/superstep-dev/superstep/"
	const own = house + "dialogue/"
	allowed = append(allowed, house+"internal/plainjson") // which needs bytes, encoding/json and strings alone
	files := 0
	for _, dir := range pure {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && path != dir:
				return fs.SkipDir
			case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			files++
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			for _, i := range f.Imports {
				name, err := strconv.Unquote(i.Path.Value)
				if err != nil {
					return err
				}
				if !slices.Contains(allowed, name) && !slices.Contains(pure, strings.TrimPrefix(name, own)) {
					t.Errorf("%s imports %s", path, name)
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
					t.Errorf("%s: a goroutine or a channel", set.Position(n.Pos()))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Local"}, n.Sel.Name) {
						t.Errorf("%s: time.%s", set.Position(n.Pos()), n.Sel.Name)
					}
				case *ast.CallExpr:
					if x, ok := n.Fun.(*ast.Ident); ok && x.Name == "panic" {
						t.Errorf("%s: a panic", set.Position(n.Pos()))
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 10 {
		t.Fatalf("only %d files were looked at in %v", files, os.DirFS("."))
	}
}
