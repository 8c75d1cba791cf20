package main

import (
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
			root := cli.New(options()...)
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
	walk(cli.New(options()...))
}
