package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/dialogue/action"
)

// run runs a command and returns its exit code and what it printed.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestValidateRefusesFilesThatWouldBeTooMuch(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	for name, c := range map[string]struct{ text, want string }{
		"10 MB":             {strings.Repeat("# ten\n", 10<<20/6), "big.yaml:1:1: error: the file has more than 4194304 bytes; split the assistant into several files\n"},
		"aliases":           {bomb.String(), "error: the file has more than 100000 nodes once its aliases are followed; write less with anchors\n"},
		"nesting":           {strings.Repeat("[", 100_000), "error: "},
		"a circle":          {"a: &a {b: *a}", `error: the alias "a" leads to itself; write the value out` + "\n"},
		"bytes, not text":   {"\x00\xff\xfe", "big.yaml:1:1: error: the file is not UTF-8; save it in this encoding\n"},
		"duplicate keys":    {"version: \"2.0\"\nflows: {}\nflows: {}\n", "big.yaml:3:1: error: the key \"flows\" is written twice, first in line 2; keep one\n"},
		"control character": {"version: \"2.0\"\nname: \"\x1b[31mred\"\n", "error: the YAML can't be read"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "big.yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			code, out, errs := run(t, "dialogue", "validate", path)
			if code != cli.ExitError || !strings.Contains(out, c.want) {
				t.Errorf("exit code %d\n%s%s\nwant %s", code, out, errs, c.want)
			}
			if strings.ContainsAny(out, "\x1b") {
				t.Errorf("control characters are printed: %q", out)
			}
		})
	}
}

func TestConversationsRunTheCodeOfAServer(t *testing.T) {
	type guests struct {
		Guests int `json:"guests"`
	}
	type table struct {
		Table int `json:"table"`
	}
	serve := func(parts ...action.Part) string {
		set, err := action.NewSet(parts...)
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(action.Handler(set))
		t.Cleanup(s.Close)
		return s.URL
	}
	book := action.New("book", func(_ context.Context, in guests) (table, error) { return table{10 + in.Guests}, nil })
	even := action.NewValidator("even", func(_ context.Context, n int) (int, error) {
		if n%2 == 1 {
			return 0, action.Refusal("it is odd")
		}
		return n, nil
	})
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": `version: "2.0"
slots: {guests: {type: integer, validate: even, ask: {text: "For how many?"}}}
actions: {book: {inputs: {guests: integer}, outputs: {table: integer}}}
flows: {f: {description: Book., steps: [{collect: guests}, {action: book}, {say: {text: "Table {table}."}}]}}
`,
		"tests.yaml": `
- id: a-table-for-four
  turns:
  - {u: A table, cmd: [start f]}
  - {u: "3", has: [it is odd]}
  - {u: "4", has: [Table 14]}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	test := []string{"dialogue", "test", filepath.Join(dir, "a.yaml"), filepath.Join(dir, "tests.yaml")}
	if code, out, errs := run(t, append(test, "--actions", serve(book, even))...); code != cli.ExitDone || !strings.Contains(out, "ok    1 conversation") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if code, _, errs := run(t, append(test, "--actions", serve(book))...); code != cli.ExitError || !strings.Contains(errs, `slot "guests": validator "even" has no code`) {
		t.Errorf("without the validator: exit code %d\n%s", code, errs)
	}
	code, out, errs := run(t, test...)
	if code != cli.ExitError || !strings.Contains(errs, "validators have no code here and take every value: even.") || !strings.Contains(out, "action book was called, and the scenario has no answer of it") {
		t.Errorf("without a server: exit code %d\n%s%s", code, out, errs)
	}
}
