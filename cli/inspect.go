package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/console"
)

func (a *app) graphsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "graphs", GroupID: "look", Short: "List the graphs of this program, or of a server",
		Args: args(0, 0, ""), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			p, err := a.place()
			if err != nil {
				return err
			}
			list, err := p.graphs(ctx)
			if err != nil {
				return err
			}
			w := a.console.Out
			if a.json {
				return writeJSON(w, list, true)
			}
			if len(list) == 0 {
				if a.remote() {
					fmt.Fprintf(w, "%s has no graphs.\n", p.label())
				} else {
					fmt.Fprintln(w, "This program has no graphs.")
				}
			}
			for i, o := range list {
				if i > 0 {
					fmt.Fprintln(w)
				}
				fmt.Fprintln(w, oneLine(o.Name))
				if o.Description != "" {
					fmt.Fprintf(w, "  %s\n", oneLine(o.Description))
				}
				fmt.Fprintf(w, "  nodes: %s\n", oneLine(strings.Join(o.Nodes, ", ")))
				if o.Example != "" {
					fmt.Fprintf(w, "  try:   %s run %s --input %s\n", a.name, quote(o.Name), quote(o.Example))
				}
				for _, warning := range o.Warnings {
					fmt.Fprintf(w, "  warning: %s\n", console.Clean(warning))
				}
			}
			return nil
		},
	}
}

func (a *app) threadsCommand() *cobra.Command {
	var prefix, name, status string
	var metadata []string
	var limit int
	var onlyStuck bool
	cmd := &cobra.Command{
		Use: "threads", GroupID: "look", Short: "List the threads of the store, newest first",
		Long: `List the threads of the store, newest first, with the run that holds each and the
time at which it is due, where there is one.

With --stuck those alone that cannot go on by themselves, and why: their run failed,
died or ended before the thread had (--timeout, --max-steps, Ctrl-C), they wait at a
node that the graph does not have, a newer program wrote them, or they cannot be read. Each thread is loaded for that. A server, which goes on itself with
threads whose run died, is asked for those whose run failed and for those that have been
due for more than a minute and that no run has taken.`,
		Args: args(0, 0, ""), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return Usage("--limit %d is negative", limit)
			}
			switch status {
			case "", "done", "interrupted", "waiting", "failed", "pending":
			default:
				return Usage("--status %q: use done, interrupted, waiting, failed or pending", status)
			}
			has, err := pairs(metadata)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			p, err := a.place()
			if err != nil {
				return err
			}
			if name != "" {
				if _, err := p.graph(ctx, name); err != nil {
					return err
				}
			}
			if err := p.open(ctx, false); err != nil {
				return err
			}
			list, more, listErr := p.threads(ctx, threadQuery{prefix: prefix, graph: name, status: status, metadata: has, limit: limit, stuck: onlyStuck})
			if list == nil {
				if listErr != nil {
					return listErr
				}
				list = []threadRow{}
			}
			w := a.console.Out
			if a.json {
				if err := writeJSON(w, list, true); err != nil {
					return err
				}
				return listErr
			}
			if len(list) == 0 && listErr == nil {
				what := "There are no threads in " + p.label()
				if name != "" || status != "" || onlyStuck || prefix != "" || len(has) > 0 {
					what = "No thread in " + p.label() + " matches"
				}
				fmt.Fprintln(w, what+".")
			}
			held := slices.ContainsFunc(list, func(o threadRow) bool { return o.Lease != nil })
			due := slices.ContainsFunc(list, func(o threadRow) bool { return o.Due != nil })
			rows := [][]string{{"THREAD", "GRAPH", "STATUS", "STEP", "RECORDS", "SIZE", "UPDATED"}}
			if due {
				rows[0] = append(rows[0], "DUE")
			}
			if held {
				rows[0] = append(rows[0], "HELD BY")
			}
			if onlyStuck {
				rows[0] = append(rows[0], "WHY")
			}
			for _, o := range list {
				row := []string{o.Thread, o.Graph, o.Status, "-", "-", bytesText(o.Bytes), o.UpdatedAt.Local().Format("2006-01-02 15:04")}
				if o.Step != nil {
					row[3], row[4] = fmt.Sprint(*o.Step), fmt.Sprint(o.Checkpoints)
				}
				if due {
					row = append(row, dueText(o.Due))
				}
				if held {
					row = append(row, o.Lease.String())
				}
				if onlyStuck {
					row = append(row, strings.Join(o.Stuck, "; "))
				}
				rows = append(rows, row)
			}
			a.table(rows)
			if more {
				fmt.Fprintf(w, "… and more: --limit 0 shows all\n")
			}
			return listErr
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only threads whose ID begins so")
	cmd.Flags().StringVarP(&name, "graph", "g", "", "only threads of this graph")
	cmd.Flags().StringVar(&status, "status", "", "only threads that are done, interrupted, waiting, failed or pending")
	cmd.Flags().StringArrayVarP(&metadata, "metadata", "m", nil, "only threads whose metadata have this KEY=VALUE; repeatable")
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "how many at most; 0 shows all")
	cmd.Flags().BoolVar(&onlyStuck, "stuck", false, "only threads that cannot go on by themselves, and why")
	return cmd
}

func (a *app) stateCommand() *cobra.Command {
	f := &runFlags{}
	var raw bool
	cmd := &cobra.Command{
		Use: "state [GRAPH]", GroupID: "look", Short: "Show a thread: its state, what is next, what it waits for",
		Long: `Show a thread as it is, or as it was at a checkpoint (--at). What finished tasks of
the open superstep wrote is part of the newest state.`,
		Args: args(0, 1, "GRAPH"), ValidArgsFunction: a.completeGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withState(cmd, args, f, func(_ target, s *snapshot) error {
				if raw {
					_, err := fmt.Fprintf(a.console.Out, "%s\n", printable(s.State))
					return err
				}
				return a.show(s, f.full)
			})
		},
	}
	a.threadFlag(cmd, &f.thread)
	cmd.Flags().StringVar(&f.at, "at", "", "the checkpoint; default: the newest")
	cmd.Flags().BoolVar(&f.full, "full", false, "show the whole state")
	cmd.Flags().BoolVar(&raw, "raw", false, "print the state alone, as JSON on one line")
	return cmd
}

func (a *app) historyCommand() *cobra.Command {
	f := &runFlags{}
	var all, oldest, states bool
	var limit int
	var source string
	cmd := &cobra.Command{
		Use: "history [GRAPH]", GroupID: "look", Short: "List the checkpoints of a thread, newest first",
		Args: args(0, 1, "GRAPH"), ValidArgsFunction: a.completeGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return Usage("--limit %d is negative", limit)
			}
			return a.withThread(cmd, args, f, func(_ place, t target) error {
				ctx := cmd.Context()
				if source != "" && !slices.Contains(sources(), source) {
					return unknown(fmt.Errorf("unknown source %q", source), source, sources(), "sources: "+strings.Join(sources(), ", "))
				}
				list, err := t.history(ctx, historyQuery{thread: f.thread, at: f.at, source: source, all: all, oldest: oldest, limit: limit})
				if err != nil {
					return a.explain(err, f)
				}
				if states {
					for _, e := range list {
						if e.State, err = e.fold(ctx); err != nil {
							return err
						}
					}
				}
				w := a.console.Out
				if a.json {
					return writeJSON(w, list, true)
				}
				head := []string{"CHECKPOINT", "STEP", "SOURCE", "RAN", "NEXT", "WRITTEN"}
				if all {
					head = append(head, "BRANCH")
				}
				rows := [][]string{head}
				for _, e := range list {
					row := []string{e.Checkpoint, fmt.Sprint(e.Step), e.Source, list1(collapse(e.ran())), list1(collapse(e.Next)), when(e.CreatedAt)}
					if all {
						row = append(row, e.Branch)
					}
					rows = append(rows, row)
				}
				if !states {
					a.table(rows)
					return nil
				}
				for i, e := range list {
					if i > 0 {
						fmt.Fprintln(w)
					}
					row := rows[i+1]
					fmt.Fprintln(w, oneLine(fmt.Sprintf("%s  step %s  %s  ran: %s  next: %s", row[0], row[1], row[2], row[3], row[4])))
					r := renderer{w: w, width: a.console.Width(), full: f.full}
					r.value(e.State, "  ")
				}
				return nil
			})
		},
	}
	a.threadFlag(cmd, &f.thread)
	cmd.Flags().StringVar(&f.at, "at", "", "the newest checkpoint to list")
	cmd.Flags().BoolVarP(&all, "all-branches", "A", false, "all branches, the checkpoint written last first")
	cmd.Flags().BoolVar(&oldest, "oldest-first", false, "begin with the oldest")
	cmd.Flags().BoolVar(&states, "states", false, "show the state at each checkpoint")
	cmd.Flags().BoolVar(&f.full, "full", false, "with --states: show the whole states")
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "how many at most")
	cmd.Flags().StringVar(&source, "source", "", "only those written for this reason: "+strings.Join(sources(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("source", cobra.FixedCompletions(sources(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func sources() []string {
	s := []string{
		string(checkpoint.SourceInput), string(checkpoint.SourceLoop), string(checkpoint.SourceInterrupt), string(checkpoint.SourceResume),
		string(checkpoint.SourceUpdate), string(checkpoint.SourceFork), string(checkpoint.SourceVoid), string(checkpoint.SourceInside),
	}
	slices.Sort(s)
	return s
}

// list1 writes names in one cell of a table.
func list1(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	s := strings.Join(names, ", ")
	return console.Fit(s, 40)
}
