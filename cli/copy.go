package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/console"
)

func (a *app) copyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "copy FROM TO", GroupID: "edit", Short: "Copy a thread with its whole history",
		Long: `Copy a thread to a new one, with its history, its forks, and what is open: questions
that wait, and results of the open superstep. The two go their own ways from then
on.`,
		Args: args(2, 2, "FROM or TO"), ValidArgsFunction: a.completeThread,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			store, end, err := a.open(ctx, false)
			if err != nil {
				return err
			}
			defer end()
			c, ok := store.(checkpoint.Copier)
			if !ok {
				return fmt.Errorf("the store %s cannot copy threads", a.storeName())
			}
			from, to := args[0], args[1]
			if from == to {
				return Usage("a thread cannot be copied to itself")
			}
			if _, err := a.head(ctx, store, from); err != nil {
				return err
			}
			switch err := c.Copy(ctx, checkpoint.ThreadID(from), checkpoint.ThreadID(to)); {
			case errors.Is(err, checkpoint.ErrConflict):
				return Hint(fmt.Errorf("thread %q exists already", to), "choose another ID")
			case err != nil:
				return err
			}
			if a.json {
				return writeJSON(a.console.Out, map[string]string{"from": from, "to": to}, true)
			}
			fmt.Fprintln(a.console.Out, console.Clean(fmt.Sprintf("Copied thread %s to %s.", from, to)))
			return nil
		},
	}
}
