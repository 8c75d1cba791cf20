package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
)

func (a *app) runnerCommand() *cobra.Command {
	var once bool
	o := graph.RunnerOptions{Options: a.each}
	cmd := &cobra.Command{
		Use: "runner", GroupID: "run", Short: "Continue threads whose time has come or whose run died, until Ctrl-C",
		Long: `Continue the threads that nobody runs: those whose sleep or deadline is over, those
that were sent an event, and those whose run died with its process. Any number of
runners may share a store. Threads that wait for an answer, or whose run failed, are
left alone.

It goes on until Ctrl-C or SIGTERM and then ends with exit code 0; threads that were
running go on with the next runner. With --once it looks once.`,
		Args: args(0, 0, ""), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Poll < 0 || o.Concurrency < 0 {
				return Usage("--poll and --concurrency must not be negative")
			}
			if len(a.graphs) == 0 {
				return &usageError{errors.New("this program has no graphs"), "register one: cli.Main(cli.Graph(g))"}
			}
			store, err := a.open(cmd.Context(), true)
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), store, o, once)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "look once, and end when the threads that were found rest again")
	cmd.Flags().DurationVar(&o.Poll, "poll", 0, "how often to look (default 1s)")
	cmd.Flags().IntVar(&o.Concurrency, "concurrency", 0, "how many threads run at a time (default 64)")
	return a.indexFlags(cmd)
}

// ran is what became of a thread that a runner took up.
type ran struct {
	Time   time.Time `json:"time"`
	Thread string    `json:"thread,omitempty"`
	Graph  string    `json:"graph,omitempty"`
	Why    string    `json:"why,omitempty"`    // "due" or "run died"
	Status string    `json:"status,omitempty"` // of the thread, afterwards
	Error  string    `json:"error,omitempty"`
}

func (a *app) serve(ctx context.Context, store checkpoint.Store, o graph.RunnerOptions, once bool) error {
	ctx, drain, end := console.Stops(ctx, func(second bool) {
		if !second && !a.json {
			a.console.Notef("Stopping.")
		}
	})
	defer end()
	ctx, cancel := console.Until(ctx, drain)
	defer cancel()
	var mu sync.Mutex
	said := map[string]string{} // the last error of each thread
	failed := false
	look := context.WithoutCancel(ctx)
	o.Report = func(r graph.RunnerReport) {
		mu.Lock()
		defer mu.Unlock()
		out := ran{Time: time.Now().UTC(), Thread: r.Thread, Graph: r.Graph}
		log := checkpoint.Log{Thread: checkpoint.ThreadID(r.Thread)}
		switch {
		case r.Thread == "":
		case r.Died:
			out.Why = "run died"
		default:
			out.Why = "due"
		}
		if r.Err != nil {
			out.Error = r.Err.Error()
		}
		if r.Thread != "" && ctx.Err() != nil && (errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, console.ErrStopped)) {
			out.Error, out.Status = "", "stopped" // and due for the next runner
		}
		if out.Error == "" && out.Status == "" && r.Thread != "" {
			if rec, _, err := store.Head(look, log); err == nil {
				out.Status = headStatus(rec)
			}
		}
		if out.Error != "" {
			failed = failed || !errors.Is(r.Err, graph.ErrUnknownGraph) // another program's thread
			if said[r.Thread] == out.Error {
				return // it is tried again and again
			}
			said[r.Thread] = out.Error
		} else {
			delete(said, r.Thread)
		}
		a.showRan(out)
	}
	var graphs []graph.Runnable
	items, err := a.memories()
	if err != nil {
		return err
	}
	for _, t := range a.graphs {
		g, err := t.With(items)
		if err != nil {
			return err
		}
		graphs = append(graphs, g)
	}
	r, err := graph.NewRunner(store, o, graphs...)
	if err != nil {
		return err
	}
	if once {
		err = r.Sweep(ctx)
	} else {
		if !a.json {
			a.console.Notef("Running threads of %s in %s. Ctrl-C stops.", strings.Join(a.graphNames(), ", "), a.storeName())
		}
		err = r.Run(ctx)
	}
	switch {
	case errors.Is(err, console.ErrStopped):
		return nil
	case err != nil:
		return err
	case failed:
		return ExitCode(ExitError)
	}
	return nil
}

func (a *app) showRan(r ran) {
	if a.json {
		_ = writeJSON(a.console.Out, r, false)
		return
	}
	text := r.Time.Local().Format("15:04:05") + "  "
	switch {
	case r.Thread == "":
		text += "error: " + r.Error
	case r.Error != "":
		text += fmt.Sprintf("thread %s (%s): %s, failed: %s", r.Thread, r.Graph, r.Why, r.Error)
	default:
		text += fmt.Sprintf("thread %s (%s): %s, now %s", r.Thread, r.Graph, r.Why, r.Status)
	}
	fmt.Fprintln(a.console.Out, console.Clean(text))
}
