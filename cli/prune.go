package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
)

// pruned is what became of one thread.
type pruned struct {
	Thread  string `json:"thread"`
	Kept    int    `json:"kept"`
	Removed int    `json:"removed"`
	Logs    int    `json:"logs"` // of subgraphs, removed
	Freed   int64  `json:"freed_bytes,omitempty"`
	Error   string `json:"error,omitempty"`
}

func (a *app) pruneCommand() *cobra.Command {
	var all, interrupts, forks, compact bool
	var last int
	var newer, prefix string
	cmd := &cobra.Command{
		Use: "prune THREAD | --all", GroupID: "edit", Short: "Shorten the history of threads",
		Long: `Shorten the history of a thread, or of all. What is left is as it was: the newest
state is exact, the thread goes on as it would have, and checkpoints that are left
can be gone back to. Each flag says what to keep, and what any of them names is
kept; a few checkpoints that others need stay, too.

Threads that a run holds are left for another time.`,
		Example: fmt.Sprintf("  %[1]s prune t-1 --last 10 --interrupts\n  %[1]s prune --all --newer 30d", a.name),
		Args:    args(0, 1, "THREAD"), ValidArgsFunction: a.completeThread,
		RunE: func(cmd *cobra.Command, args []string) error {
			keep := graph.Keep{Last: last, Interrupts: interrupts, DropForks: forks}
			var err error
			if keep.Newer, err = days(newer); err != nil {
				return Usage("--newer %v", err)
			}
			rule := false
			for _, name := range []string{"last", "newer", "interrupts", "drop-forks"} {
				rule = rule || cmd.Flags().Changed(name)
			}
			switch {
			case all == (len(args) == 1):
				return &usageError{errors.New("name a thread, or give --all"), "usage: " + cmd.UseLine()}
			case !rule:
				return &usageError{errors.New("nothing says what to keep"), "--last 1 keeps the newest checkpoint alone; --newer, --interrupts and --drop-forks say more"}
			case last < 0 || cmd.Flags().Changed("last") && last == 0:
				return Usage("--last %d: at least 1 is kept", last)
			case prefix != "" && !all:
				return Usage("--prefix is for --all")
			}
			ctx := cmd.Context()
			l := &local{a: a}
			if err := l.open(ctx, false); err != nil {
				return err
			}
			if all {
				return a.pruneAll(ctx, l, prefix, keep, compact)
			}
			t, thread, err := a.choose(ctx, l, nil, args[0])
			if err != nil {
				return err
			}
			p, err := t.(*localGraph).prune(ctx, thread, keep)
			if err != nil {
				return err
			}
			if err := compactStore(ctx, l.store, compact); err != nil {
				return err
			}
			logs := ""
			if p.Logs > 0 {
				logs = fmt.Sprintf(", %s of subgraphs removed", console.Count(p.Logs, "log"))
			}
			return a.say(p, "Thread %s: %s left, %d removed%s%s.", thread, console.Count(p.Kept, "checkpoint"), p.Removed, logs, p.freed())
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&all, "all", false, "all threads of the store")
	fs.StringVar(&prefix, "prefix", "", "with --all: only threads whose ID begins so")
	fs.IntVar(&last, "last", 0, "keep so many of the newest checkpoints, of each fork too")
	fs.StringVar(&newer, "newer", "", "keep checkpoints younger than this: 12h, 30d")
	fs.BoolVar(&interrupts, "interrupts", false, "keep checkpoints at which questions were open")
	fs.BoolVar(&forks, "drop-forks", false, "drop the forks that the thread has left behind")
	fs.BoolVar(&compact, "compact", false, "then give free space back to the file system (SQLite)")
	return a.threadToo(cmd)
}

func (t *localGraph) prune(ctx context.Context, thread string, keep graph.Keep) (pruned, error) {
	p, err := t.on(thread, "").Prune(ctx, keep)
	return pruned{Thread: thread, Kept: p.Kept, Removed: p.Removed, Logs: p.Logs, Freed: p.Freed}, err
}

// freed says how much was freed, if that is known.
func (p pruned) freed() string {
	if p.Freed <= 0 {
		return ""
	}
	return ", " + bytesText(p.Freed) + " freed"
}

func (a *app) pruneAll(ctx context.Context, l *local, prefix string, keep graph.Keep, compact bool) error {
	lister, err := a.lister(l.store)
	if err != nil {
		return err
	}
	type one struct{ thread, graph string }
	var threads []one
	for info, err := range lister.Threads(ctx, checkpoint.ThreadFilter{Prefix: prefix}) {
		if err != nil {
			return err
		}
		threads = append(threads, one{string(info.Thread), info.Head.Graph})
	}
	list := []pruned{}
	total := pruned{}
	failed := 0
	for _, th := range threads {
		p, err := pruned{Thread: th.thread}, fmt.Errorf("it belongs to graph %q, which this program does not have", th.graph)
		if g := a.owner(th.graph); g != nil {
			p, err = (&localGraph{g, l}).prune(ctx, th.thread, keep)
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			failed++
			p.Error = err.Error()
			if !a.json {
				a.console.Notef("%s", foreign(fmt.Sprintf("Thread %s was left: %v", th.thread, err)))
			}
		}
		total.Kept, total.Removed, total.Freed = total.Kept+p.Kept, total.Removed+p.Removed, total.Freed+p.Freed
		list = append(list, p)
	}
	if err := compactStore(ctx, l.store, compact); err != nil {
		return err
	}
	err = a.say(list, "%s: %s left, %d removed%s.", console.Count(len(list)-failed, "thread"), console.Count(total.Kept, "checkpoint"), total.Removed, total.freed())
	if err == nil && failed > 0 {
		err = ExitCode(ExitError)
	}
	return err
}

func compactStore(ctx context.Context, store checkpoint.Store, wanted bool) error {
	c, ok := store.(interface{ Compact(context.Context) error })
	if !ok || !wanted {
		return nil
	}
	return c.Compact(ctx)
}

// days reads a time such as 90m, 12h or 30d.
func days(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	if n, ok := strings.CutSuffix(text, "d"); ok {
		if v, err := strconv.ParseFloat(n, 64); err == nil && v > 0 && v < 1e5 {
			return time.Duration(v * float64(24*time.Hour)), nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%q: use a time such as 90m, 12h or 30d", text)
}
