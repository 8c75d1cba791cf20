package program

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/cmd/superstep/internal/scaffold"
)

func initCommand() *cobra.Command {
	var template, clone string
	cmd := &cobra.Command{
		Use: "init NAME", Short: "Write a small program of your own to begin with",
		Long: `Write a small program into the new folder NAME: a graph or an agent with its tools, tests
that need no key, a Dockerfile and a README that says what to do next. NAME may be a path;
its last element is the name of the program.

  agent     a model with tools, one of which asks a person first; a recorded conversation
  batch     one task for each file of a folder, with progress and retries
  approval  a question that waits for its answer, and an effect that happens once
  dialogue  an assistant in YAML, with its code in Go and conversations as tests
  rag       answers from the pages of a folder, with citations

The program needs the version of superstep that wrote it. One that was built from a
clone has none that Go could fetch: name the clone with --replace.`,
		Example: "  superstep init helper\n  superstep init ../helper --template rag --replace .",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Hint(cli.Usage("init takes one NAME, and was given %d arguments", len(args)), "for example: superstep init helper")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := filepath.Clean(args[0])
			engine, err := scaffold.Running()
			if clone != "" {
				engine, err = scaffold.Clone(dir, clone)
			}
			if errors.Is(err, scaffold.ErrUnreleased) {
				return cli.Hint(cli.Usage("%w", err), "name the clone: superstep init %s --replace PATH", args[0])
			}
			if err != nil {
				return err
			}
			err = scaffold.Write(dir, template, engine)
			var name *scaffold.NameError
			var unknown *scaffold.TemplateError
			switch {
			case errors.As(err, &name), errors.As(err, &unknown):
				return cli.Usage("%w", err)
			case errors.Is(err, fs.ErrExist):
				return cli.Hint(err, "choose another name: nothing that is there is written over")
			case errors.Is(err, fs.ErrNotExist):
				return cli.Hint(err, "make the folder above it first")
			case errors.Is(err, fs.ErrPermission):
				return cli.Hint(err, "choose a folder in which you may write")
			case err != nil:
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Wrote %s. Next:\n\n  cd %[1]s\n  go mod tidy\n  go test ./...\n\nand see its README.md.\n", dir)
			return nil
		},
	}
	cmd.Flags().StringVarP(&template, "template", "t", "agent", strings.Join(scaffold.Names(), ", "))
	cmd.Flags().StringVar(&clone, "replace", "", "folder of a clone of superstep that the program is built with")
	_ = cmd.RegisterFlagCompletionFunc("template", cobra.FixedCompletions(scaffold.Names(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
