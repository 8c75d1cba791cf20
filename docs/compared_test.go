package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// benchmarks are the rows of the table that bench/ writes into performance.md: for each what
// each engine took, in the order of the columns, with the notes in the place of their numbers.
func benchmarks(t *testing.T) (engines []string, rows map[string][]string) {
	t.Helper()
	_, table, ok := strings.Cut(read(t, "performance.md"), "<!-- bench -->")
	table, _, closed := strings.Cut(table, "<!-- /bench -->")
	if !ok || !closed {
		t.Fatal("performance.md has no table of the benchmarks")
	}
	notes := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\[\d+\]) (.*?)\.? *$`).FindAllStringSubmatch(table, -1) {
		notes[m[1]] = m[2]
	}
	rows = map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 4 || strings.Contains(line, "--:") {
			continue
		}
		for i, c := range cells {
			cells[i] = regexp.MustCompile(`\[\d+\]`).ReplaceAllStringFunc(strings.TrimSpace(c), func(n string) string { return "(" + notes[n] + ")" })
		}
		took := append([]string{cells[1]}, cells[3:]...) // without our goals
		if engines == nil {
			engines = took
		} else {
			rows[cells[0]] = took
		}
	}
	return engines, rows
}

// A page that compares has no figures of its own, and the programs are those that were
// measured.
func TestTheComparisonHasTheFiguresAndProgramsOfTheBenchmarks(t *testing.T) {
	const page = "compared.md"
	engines, rows := benchmarks(t)
	text, tables := read(t, page), 0
	text = regexp.MustCompile(`(?m)^<!-- figures of: (.*) -->\n\n(?:\|.*\n)*\n*`).ReplaceAllStringFunc(text, func(old string) string {
		head, _, _ := strings.Cut(old, "\n")
		what := strings.TrimSuffix(strings.TrimPrefix(head, "<!-- figures of: "), " -->")
		if rows[what] == nil {
			t.Errorf("performance.md has no row %q", what)
			return old
		}
		tables++
		var b strings.Builder
		fmt.Fprintf(&b, "%s\n\n| engine | figures |\n|---|---|\n", head)
		for i, e := range engines {
			fmt.Fprintf(&b, "| %s | %s |\n", e, rows[what][i])
		}
		return b.String() + "\n"
	})
	programs := 0
	text = regexp.MustCompile("(?ms)^<!-- (\\S+\\.js) (\\w+) -->\n```js\n.*?^```$").ReplaceAllStringFunc(text, func(old string) string {
		m := regexp.MustCompile(`^<!-- (\S+\.js) (\w+) -->`).FindStringSubmatch(old)
		code := regexp.MustCompile(`(?ms)^function ` + m[2] + `\(.*?^}\n`).FindString(read(t, filepath.FromSlash(m[1])))
		if code == "" {
			t.Errorf("%s has no function %s", m[1], m[2])
		}
		programs++
		return m[0] + "\n```js\n" + code + "```"
	})
	if tables != 3 || programs != 3 {
		t.Errorf("%d tables and %d programs in JavaScript", tables, programs)
	}
	upToDate(t, page, text)
}
