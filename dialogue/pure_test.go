package dialogue_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pure are the packages that decide what a conversation does.
var pure = []string{".", "program", "expr", "language", "internal/yamlvalue", "../internal/plainjson", "../internal/plan"}

func TestThePackagesThatDecideHaveNoClockNoIOAndNoGoroutine(t *testing.T) {
	allowed := []string{
		"bytes", "cmp", "crypto/sha256", "embed", "encoding/hex", "encoding/json", "errors", "fmt", "hash/fnv", "io/fs", "iter", "maps", "math",
		"net/mail", "net/url", "path", "regexp", "slices", "strconv", "strings", "time", "unicode", "unicode/utf8",
		"go.yaml.in/yaml/v4",
		"golang.org/x/text/currency", "golang.org/x/text/feature/plural", "golang.org/x/text/language", "golang.org/x/text/unicode/norm",
	}
	for _, dir := range pure {
		allowed = append(allowed, path.Join("github.com/superstep-dev/superstep/dialogue", dir))
	}
	files := 0
	for _, dir := range pure {
		err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && file != dir:
				return fs.SkipDir
			case filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go"):
				return nil
			}
			files++
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, file, nil, 0)
			if err != nil {
				return err
			}
			for _, i := range f.Imports {
				name, err := strconv.Unquote(i.Path.Value)
				if err != nil {
					return err
				}
				if !slices.Contains(allowed, name) {
					t.Errorf("%s imports %s", file, name)
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
