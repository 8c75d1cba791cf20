package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/dialogue/diagram"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/internal/console"
	"github.com/superstep-dev/superstep/internal/plan"
)

// dialogueCommand holds the commands for assistants that are written in YAML.
func (a *app) dialogueCommand() *cobra.Command {
	c := Group("dialogue", "Check, draw, test, talk with and serve assistants that are written in YAML",
		a.validateCommand(), a.schemaCommand(), a.drawDialogueCommand(), a.testDialogueCommand(), a.coverageCommand())
	c.GroupID = "look"
	for _, sub := range c.Commands() {
		run := sub.RunE
		sub.RunE = func(cmd *cobra.Command, args []string) error {
			if a.storeGiven {
				return &usageError{fmt.Errorf("%q works on files, and not on a store", cmd.CommandPath()), "leave --store out"}
			}
			return run(cmd, args)
		}
	}
	c.AddCommand(a.dialogueChatCommand(), a.dialogueServeCommand(), a.explainCommand(), a.diffDialogueCommand())
	return c
}

// assistant reads the files of an assistant: those of a folder, or a single one. They
// are named by the way that leads to them.
func assistant(path string) ([]program.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	dir := path
	var files []program.File
	if info.IsDir() {
		files, err = program.ReadDir(os.DirFS(path))
	} else {
		dir = filepath.Dir(path)
		var f program.File
		f, err = program.ReadFile(os.DirFS(dir), filepath.Base(path))
		files = []program.File{f}
	}
	if err != nil {
		if bad := (*fs.PathError)(nil); errors.As(err, &bad) {
			return nil, &fs.PathError{Op: bad.Op, Path: filepath.Join(dir, bad.Path), Err: bad.Err}
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range files {
		files[i].Name = filepath.Join(dir, files[i].Name)
	}
	return files, nil
}

// compileAt compiles the assistant of a path.
func compileAt(path string) (*program.Program, error) {
	files, err := assistant(path)
	if err != nil {
		return nil, err
	}
	p, err := program.Compile(files...)
	if err != nil {
		return nil, Hint(err, "fix what is wrong; %q shows warnings too", "dialogue validate "+quote(path))
	}
	return p, nil
}

// checked is what validate says of one assistant.
type checked struct {
	Path     string           `json:"path"`
	Name     string           `json:"name,omitempty"`
	Flows    int              `json:"flows"`
	Error    string           `json:"error,omitempty"` // it can't be read
	Findings program.Findings `json:"findings"`
}

func (a *app) validateCommand() *cobra.Command {
	strict := false
	cmd := &cobra.Command{
		Use: "validate PATH...", Short: "Find everything that is wrong with an assistant",
		Long: `Check assistants. PATH is a folder, whose *.yaml and *.yml files are one assistant, or a
file that is one. Every mistake is found at once, each in one line:

  FILE:LINE:COLUMN: error|warning: flow "F", step "S": what is wrong; how to mend it

The exit code is 1 if there are errors, and with --strict also if there are warnings.`,
		Args: args(1, 1<<20, "PATH"),
		RunE: func(_ *cobra.Command, paths []string) error {
			var list []checked
			bad, warnings := 0, 0
			for _, path := range paths {
				c := check(path)
				if c.Error != "" {
					bad++
				}
				errs := len(c.Findings.Errors())
				bad, warnings = bad+errs, warnings+len(c.Findings)-errs
				list = append(list, c)
			}
			if a.json {
				if err := writeJSON(a.console.Out, map[string]any{"assistants": list, "errors": bad, "warnings": warnings}, true); err != nil {
					return err
				}
			} else {
				for _, c := range list {
					a.showFindings(c)
				}
			}
			if bad > 0 || strict && warnings > 0 {
				return ExitCode(ExitError)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "fail for warnings too")
	return cmd
}

// check finds what is wrong with the assistant of a path.
func check(path string) checked {
	c := checked{Path: path, Findings: program.Findings{}}
	files, err := assistant(path)
	if err != nil {
		c.Error = err.Error()
		return c
	}
	p, err := program.Compile(files...)
	var found program.Findings
	switch {
	case err == nil:
		c.Name, c.Flows, found = p.Name, len(p.Order), p.Warnings
	case !errors.As(err, &found):
		c.Error = err.Error()
	}
	c.Findings = append(c.Findings, found...) // a list in JSON, if there are none too
	return c
}

// showFindings prints what is said of an assistant: the findings as the result, the rest beside.
func (a *app) showFindings(c checked) {
	for _, f := range c.Findings {
		fmt.Fprintln(a.console.Out, console.Clean(f.String()))
	}
	errs := len(c.Findings.Errors())
	warnings := len(c.Findings) - errs
	switch {
	case c.Error != "":
		fmt.Fprintln(a.console.Out, console.Clean("error: "+strings.ReplaceAll(c.Error, "\n", " ")))
	case errs > 0:
		a.console.Notef("%s: %s, %s.", c.Path, console.Count(errs, "error"), console.Count(warnings, "warning"))
	case warnings > 0:
		a.console.Notef("%s: %s in %s.", c.Path, console.Count(warnings, "warning"), console.Count(c.Flows, "flow"))
	default:
		a.console.Notef("%s: %s, nothing to mend.", c.Path, console.Count(c.Flows, "flow"))
	}
}

func (a *app) schemaCommand() *cobra.Command {
	out, markdown := "", false
	cmd := &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of assistants, for editors",
		Long: `Print the JSON Schema (draft 2020-12) of the files of assistants. An editor that knows
it completes and checks what is written. Write it to a file, and name it in the first
line of the assistant's files:

  # yaml-language-server: $schema=dialogue.schema.json

With --markdown the same is a page to read.`,
		Args: args(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			text := program.Schema()
			if markdown {
				text = program.Reference()
			}
			if out == "" || out == "-" {
				_, err := a.console.Out.Write(text)
				return err
			}
			if err := draw.WriteFile(out, text); err != nil {
				return err
			}
			a.console.Notef("Wrote %s.", out)
			return nil
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the file to write")
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print the reference of the language in Markdown")
	return cmd
}

func (a *app) drawDialogueCommand() *cobra.Command {
	var pic picture
	flow := ""
	cmd := &cobra.Command{
		Use: "draw PATH", Short: "Draw the flows of an assistant",
		Long: `Draw the flows of an assistant: all of them with the calls between them, or one with
--flow. Solid lines are the way on, dashed ones branches and confirms with their
conditions, dotted ones where deadlines, errors, cancelling and limits lead.`,
		Args: args(1, 1, "PATH"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := pic.settle(a, filepath.Base(args[0])); err != nil {
				return err
			}
			p, err := compileAt(args[0])
			if err != nil {
				return err
			}
			if flow == "" {
				return pic.write(a, diagram.Program(p))
			}
			f, ok := p.Flow(flow)
			if !ok {
				e := &usageError{fmt.Errorf("there is no flow %q", flow), "flows: " + strings.Join(p.Order, ", ")}
				if near := plan.Nearest(flow, p.Order); near != "" {
					e.hint = fmt.Sprintf("did you mean %q? %s", near, e.hint)
				}
				return e
			}
			return pic.write(a, diagram.Flow(f))
		},
	}
	pic.flags(cmd)
	cmd.Flags().StringVar(&flow, "flow", "", "draw this flow only")
	return cmd
}
