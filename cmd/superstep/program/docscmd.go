package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/docs/site"
	"github.com/superstep-dev/superstep/internal/console"
	host "github.com/superstep-dev/superstep/server"
)

// documentation has the command serve serve the documentation as well.
func documentation() cli.Option { return cli.Server(host.Pages("/docs/", site.Handler("/docs/"))) }

func docsCommand() *cobra.Command {
	var port int
	var dir string
	cmd := &cobra.Command{
		Use: "docs", Short: "Show the documentation in a browser, or write it as a site",
		Long: `Serve the documentation of this version on this machine, with a search that needs no
network, until Ctrl-C. The command serve has the same pages at /docs/.

With --write the site is written into a folder instead, for any web server: all links in
it are relative.`,
		Example: "  superstep docs\n  superstep docs --write public",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usage("docs takes no arguments, and was given %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("write") {
				if dir == "" {
					return cli.Usage("--write is empty: name a folder")
				}
				if err := site.Write(dir); err != nil {
					return cli.Hint(err, "choose a folder in which you may write")
				}
				fmt.Fprintf(cmd.OutOrStdout(), "Wrote %s.\n", dir)
				return nil
			}
			if port < 0 || port > 65535 {
				return cli.Usage("--port must be between 0 and 65535")
			}
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				return cli.Hint(err, "choose another port with --port, or let the system choose with --port 0")
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Documentation: http://%s/\n", l.Addr())
			return serveDocs(cmd.Context(), l)
		},
	}
	cmd.Flags().IntVarP(&port, "port", "p", 0, "the port; 0 takes a free one")
	cmd.Flags().StringVarP(&dir, "write", "w", "", "write the site into this folder")
	return cmd
}

// serveDocs serves the documentation until it is told to stop.
func serveDocs(ctx context.Context, l net.Listener) error {
	ctx, drain, end := console.Stops(ctx, func(bool) {})
	defer end()
	h := host.HTTPServer(site.Handler("/"))
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-drain:
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := h.Shutdown(wait); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return h.Close()
}
