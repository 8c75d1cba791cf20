package docs

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
)

// part is a file to write, or commands with what they print.
var part = regexp.MustCompile("(?s)<!-- file (\\S+) -->\n```yaml\n(.*?)```|```console\n(\\$ .*?)```")

// The tutorial of dialogues is run as a reader would, in an empty folder.
func TestTheTutorialOfDialoguesRuns(t *testing.T) { // SONI-61
	page := read(t, "dialogues.md")
	t.Chdir(t.TempDir())
	ran := 0
	for _, m := range part.FindAllStringSubmatch(page, -1) {
		if name := m[1]; name != "" {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(m[2]), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for _, block := range strings.Split("\n"+m[3], "\n$ ")[1:] {
			command, want, _ := strings.Cut(block, "\n")
			var out bytes.Buffer
			args := strings.Fields(command)
			if args[0] != "superstep" {
				t.Fatalf("the page runs %q", command)
			}
			code := cli.Run(t.Context(), args[1:], strings.NewReader(""), io.Writer(&out), &out, cli.Program("superstep", ""))
			ran++
			if want == "" && code != cli.ExitDone {
				t.Errorf("$ %s\nexit code %d\n%s", command, code, &out)
			}
			if got := strings.TrimSpace(out.String()); want != "" && got != strings.TrimSpace(want) {
				t.Errorf("$ %s\n%s\n\nthe page says\n%s", command, got, want)
			}
		}
	}
	if ran < 5 {
		t.Errorf("the page runs %d commands", ran)
	}
}
