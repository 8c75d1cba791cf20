package program

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/cli"
)

// words are those of a shell's command line, without its quotes.
func words(line string) []string {
	var out []string
	for _, w := range regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`).FindAllString(line, -1) {
		out = append(out, regexp.MustCompile(`'([^']*)'|"([^"]*)"`).ReplaceAllString(w, "$1$2"))
	}
	return out
}

func TestEveryCommandHasExamplesThatParse(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if c.HasSubCommands() {
			return
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
			return
		}
		for line := range strings.Lines(c.Example) {
			_, line, ok := strings.Cut(strings.TrimSpace(line), "superstep ") // what comes before is a pipe
			if !ok {
				t.Errorf("%s: %q is no command", c.CommandPath(), line)
				continue
			}
			root := cli.New(options(nil)...)
			cmd, args, err := root.Find(words(line))
			if err != nil || cmd.CommandPath() != c.CommandPath() {
				t.Errorf("%s: the example %q is of %s, %v", c.CommandPath(), line, cmd.CommandPath(), err)
				continue
			}
			if err := cmd.ParseFlags(args); err != nil {
				t.Errorf("%s: %q: %v", c.CommandPath(), line, err)
				continue
			}
			if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
				t.Errorf("%s: %q: %v", c.CommandPath(), line, err)
			}
		}
	}
	walk(cli.New(options(nil)...))
}

var update = flag.Bool("update", false, "write the reference of the commands")

// What the commands say of themselves is their reference.
func TestTheReferenceOfTheCommandsIsTheirHelp(t *testing.T) {
	const page = "../../../docs/commands.md"
	was, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"SUPERSTEP_STORE", "SUPERSTEP_MODEL", "SUPERSTEP_URL"} { // which the help shows
		t.Setenv(name, "")
	}
	root := cli.New(options(nil)...)
	var b strings.Builder
	head, _, _ := strings.Cut(string(was), "\n## ")
	fmt.Fprintf(&b, "%s\n\n## For all commands\n\n```text\n%s```\n", strings.TrimRight(head, "\n"), root.PersistentFlags().FlagUsages())
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if !c.IsAvailableCommand() {
			return
		}
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n", c.CommandPath(), strings.TrimSpace(cmp.Or(c.Long, c.Short)))
		if !c.HasSubCommands() {
			fmt.Fprintf(&b, "\n  %s\n", c.UseLine())
		}
		if flags := c.LocalFlags(); flags.HasAvailableFlags() {
			fmt.Fprintf(&b, "\n%s", flags.FlagUsages())
		}
		b.WriteString("```\n")
		if c.Example != "" {
			fmt.Fprintf(&b, "\n```sh\n%s\n```\n", regexp.MustCompile(`(?m)^ +`).ReplaceAllString(strings.TrimRight(c.Example, "\n"), ""))
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	for _, c := range root.Commands() {
		walk(c)
	}
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if b.String() != string(was) {
		t.Errorf("%s is not up to date, run go test ./cmd/superstep/program -run Reference -update", page)
	}
}
