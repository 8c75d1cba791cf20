package cli

import "github.com/spf13/cobra"

func (a *app) copyCommand() *cobra.Command {
	return a.threadToo(&cobra.Command{
		Use: "copy FROM [TO]", GroupID: "edit", Short: "Copy a thread with its whole history",
		Long: `Copy a thread to a new one, with its history, its forks, and what is open: questions
that wait, and results of the open superstep. The two go their own ways from then
on. A server chooses the ID of the new one; elsewhere it is TO.`,
		Args: args(1, 2, "FROM"), ValidArgsFunction: a.completeThread,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			p, err := a.opened(ctx)
			if err != nil {
				return err
			}
			from, to := args[0], ""
			if len(args) > 1 {
				to = args[1]
			}
			if to, err = p.copyThread(ctx, from, to); err != nil {
				return err
			}
			return a.say(map[string]string{"from": from, "to": to}, "Copied thread %s to %s.", from, to)
		},
	})
}
