package cli

import (
	"log/slog"

	"github.com/spf13/cobra"

	assistants "github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/server"
)

func (a *app) dialogueServeCommand() *cobra.Command {
	var s speaking
	var o serving
	name := ""
	cmd := &cobra.Command{
		Use: "serve [PATH]", Short: "Serve an assistant over HTTP",
		Long: `Serve the assistant of PATH, a folder or a file, over HTTP: to those who talk with it,

  POST /chat {"user_id": "u-1", "message": "hello"}   the reply
  POST /chat/u-1/stream {"message": "hello"}          the turn as it happens, and the reply
  GET  /state/u-1, DELETE /state/u-1                  the conversation; sensitive values masked
  GET  /health, /ready, /startup, /version

and as a graph to clients of LangGraph's protocol and the studio, as "serve" does. Its
threads, keys, origins and flags are those of "serve". Deadlines of conversations run by
themselves, and turns go on after the server was killed.`,
		Args: args(0, 1, "PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.speaker(cmd.Context(), &s, args)
			if err != nil {
				return err
			}
			speaks, err := assistants.New(c)
			if err != nil {
				return err
			}
			var opts []server.GraphOption
			if name != "" {
				opts = append(opts, server.Named(name))
			}
			o.chosen, o.mustKeys = cmd.Flags().Changed("port"), cmd.Flags().Changed("api-keys-env")
			o.log = slog.NewTextHandler(cmd.ErrOrStderr(), nil)
			return a.listen(cmd.Context(), o, spoken(speaks, opts...))
		},
	}
	s.add(a, cmd)
	cmd.Flags().StringVar(&name, "name", "", "by which clients know the graph (default: the assistant's)")
	o.add(a, cmd)
	return cmd
}

// spoken serves an assistant with its description.
func spoken(a *assistants.Assistant, opts ...server.GraphOption) server.Option {
	if about := a.Program().Description; about != "" {
		opts = append(opts, server.Describe(about))
	}
	return server.Dialogue(a, opts...)
}
