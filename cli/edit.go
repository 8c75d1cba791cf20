package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

func (a *app) forkCommand() *cobra.Command {
	f := &runFlags{}
	var to string
	cmd := &cobra.Command{
		Use: "fork [GRAPH]", GroupID: "edit", Short: "Go back to a checkpoint: start a branch there",
		Long: `Start a branch of a thread at an earlier checkpoint and make it the thread's line.
What was pending there is pending again. Nothing runs ("continue" lets it), and
the other branch stays. With --to a copy of the thread is made first, and the
thread itself is left as it is.`,
		Args: args(0, 1, "GRAPH"), ValidArgsFunction: a.completeGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.at == "" && to == "" {
				return &usageError{errors.New("--at is missing"), fmt.Sprintf("%s history lists the checkpoints", a.name)}
			}
			return a.withThread(cmd, args, f, func(p place, t target) (err error) {
				ctx := cmd.Context()
				if to != "" {
					if f.thread, err = p.copyThread(ctx, f.thread, to); err != nil {
						return err
					}
				}
				var s *snapshot
				if f.at != "" {
					s, err = t.fork(ctx, f.thread, f.at)
				} else {
					s, err = t.state(ctx, f.thread, "")
				}
				if err != nil {
					return a.explain(err, f)
				}
				return a.show(s, f.full)
			})
		},
	}
	a.threadFlag(cmd, &f.thread)
	cmd.Flags().StringVar(&f.at, "at", "", "the checkpoint to go back to")
	cmd.Flags().StringVar(&to, "to", "", "make a new thread of this ID for it")
	cmd.Flags().BoolVar(&f.full, "full", false, "show the whole state")
	return cmd
}

func (a *app) updateCommand() *cobra.Command {
	f := &runFlags{}
	var node string
	cmd := &cobra.Command{
		Use: "update [GRAPH]", GroupID: "edit", Short: "Edit the state of a thread",
		Long: `Edit the state of a thread. Nothing runs, and what is pending stays pending. With
--as-node the edit counts as what that node wrote: its task is done, and its edges
decide what is next. With --at the edit is made there, on a new branch. A thread
that doesn't exist is started by it; then GRAPH must be named.`,
		Example: fmt.Sprintf(`  %s update approval --thread t-1 --input '{"amount": 12}'`, a.name),
		Args:    args(0, 1, "GRAPH"), ValidArgsFunction: a.completeGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.input == "" {
				return &usageError{errors.New("--input is missing"), "usage: " + cmd.UseLine()}
			}
			ctx := cmd.Context()
			p, err := a.place()
			if err != nil {
				return err
			}
			if err := p.open(ctx, len(args) > 0 && f.thread != ""); err != nil {
				return err
			}
			var t target
			there := true
			if len(args) > 0 && f.thread != "" {
				if t, err = p.graph(ctx, args[0]); err != nil {
					return err
				}
				there, _ = owned(ctx, p, f.thread, t) // choose says what is wrong
			}
			if there {
				if t, f.thread, err = a.choose(ctx, p, args, f.thread); err != nil {
					return err
				}
			}
			values, err := updateArg(cmd, t, graph.JSONUpdate, "input", f.input)
			if err != nil {
				return err
			}
			c, err := f.call()
			if err != nil {
				return err
			}
			s, err := t.update(ctx, edit{thread: c.thread, at: c.at, node: node, values: values, metadata: c.metadata})
			if err != nil {
				return a.explain(err, f)
			}
			return a.show(s, f.full)
		},
	}
	a.threadFlag(cmd, &f.thread)
	cmd.Flags().StringVar(&f.input, "input", "", "the edit: JSON, @FILE or - for the standard input")
	cmd.Flags().StringVar(&node, "as-node", "", "count the edit as the output of this node")
	cmd.Flags().StringVar(&f.at, "at", "", "the checkpoint to edit, on a new branch")
	cmd.Flags().BoolVar(&f.full, "full", false, "show the whole state")
	cmd.Flags().StringArrayVarP(&f.metadata, "metadata", "m", nil, "KEY=VALUE to store with the checkpoint")
	return cmd
}

func (a *app) deleteCommand() *cobra.Command {
	var yes, force bool
	cmd := &cobra.Command{
		Use: "delete [THREAD]", GroupID: "edit", Short: "Delete a thread with its history",
		Args: args(0, 1, "THREAD"), ValidArgsFunction: a.completeThread,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{errors.New("--thread is missing"), fmt.Sprintf("%s threads lists them", a.name)}
			}
			ctx, thread := cmd.Context(), args[0]
			p, err := a.opened(ctx)
			if err != nil {
				return err
			}
			if _, err := known(ctx, p, thread); err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
				return err
			}
			if !yes {
				if !a.console.CanAsk() {
					return &usageError{fmt.Errorf("deleting thread %q cannot be undone", thread), "confirm with --yes"}
				}
				if yes, err = a.console.Confirm(ctx, fmt.Sprintf("Delete thread %q with its history?", thread)); err != nil {
					return err
				}
				if !yes {
					a.console.Notef("Nothing was deleted.")
					return ExitCode(ExitError)
				}
			}
			if err := p.deleteThread(ctx, thread, force); err != nil {
				return err
			}
			return a.say(map[string]string{"deleted": thread}, "Deleted thread %s.", thread)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask")
	cmd.Flags().BoolVar(&force, "force", false, "stop a run that is working on the thread")
	return a.threadToo(cmd)
}
