package console

import (
	"strings"
	"testing"
)

func TestATableFitsItsTerminal(t *testing.T) {
	rows := func() [][]string {
		return [][]string{{"THREAD", "GRAPH", "STATUS"}, {"0198f3c2-5b7a", "旅行の計画", "interrupted"}, {"t-2", "trip", "done"}}
	}
	colours := map[string]Colour{"done": Green, "interrupted": Yellow}
	for _, tt := range []struct {
		name  string
		style style
		width int
		want  string
	}{
		{"no terminal", style{}, 0, `
THREAD         GRAPH       STATUS
0198f3c2-5b7a  旅行の計画  interrupted
t-2            trip        done
`},
		{"a wide one, with colours", style{colours: true}, 80, `
<1>THREAD<0>         <1>GRAPH<0>       <1>STATUS<0>
0198f3c2-5b7a  旅行の計画  <33>interrupted<0>
t-2            trip        <32>done<0>
`},
		{"a narrow one: what the row is found by stays whole", style{}, 30, `
THREAD
  GRAPH       STATUS
0198f3c2-5b7a
  旅行の計画  interrupted
t-2
  trip        done
`},
		{"a very narrow one: the rest is cut", style{}, 18, `
THREAD
  GRAPH    STATUS
0198f3c2-5b7a
  旅行の…  interr…
t-2
  trip     done
`},
	} {
		var b strings.Builder
		table(&b, rows(), colours, tt.style, tt.width)
		got := strings.NewReplacer("\x1b[", "<", "0m", "0>", "1m", "1>", "33m", "33>", "32m", "32>").Replace(b.String())
		if got != tt.want[1:] {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want[1:])
		}
	}
	var b strings.Builder
	table(&b, [][]string{{"THREAD"}}, nil, style{}, 0)
	if b.String() != "" {
		t.Errorf("a table without rows is %q", b.String())
	}
}

func TestTheEnvironmentSaysWhatATerminalShows(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want style
	}{
		{map[string]string{}, style{colours: true}},
		{map[string]string{"NO_COLOR": "1"}, style{}},
		{map[string]string{"TERM": "dumb"}, style{}},
		{map[string]string{"LANG": "C"}, style{colours: true, ascii: true}},
		{map[string]string{"LANG": "de_DE.ISO-8859-1", "LC_ALL": "C.UTF-8"}, style{colours: true}},
		{map[string]string{"LANG": "C.UTF-8", "LC_CTYPE": "POSIX"}, style{colours: true, ascii: true}},
	} {
		if got := styleOf(func(name string) string { return tt.env[name] }); got != tt.want {
			t.Errorf("%v: %+v, want %+v", tt.env, got, tt.want)
		}
	}
	if got := (style{ascii: true}).text("✓ price ×3 … 2 → 3"); got != "+ price x3 ... 2 -> 3" {
		t.Errorf("in ASCII: %q", got)
	}
}

func TestColumnsAreThoseOfATerminal(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "新人": 4, "e\u0301te\u0301": 3, "🎉": 2, "a\u200db": 2} {
		if got := Columns(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
