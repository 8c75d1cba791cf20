package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
	"github.com/superstep-dev/superstep/memory"
)

func (a *app) exportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "export THREAD", GroupID: "look", Short: "Write a thread with its history to a file",
		Long: `Write a thread with its history to a file: JSON, a line for each checkpoint. The file
can be read by people, put into another store ("import"), and kept as a regression
test ("replay"). It is not encrypted, whatever the store is.`,
		Args: args(1, 1, "THREAD"), ValidArgsFunction: a.completeThreads,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			store, err := a.open(ctx, false)
			if err != nil {
				return err
			}
			if _, err := a.head(ctx, store, args[0]); err != nil {
				return err
			}
			rec, err := recording.Take(ctx, store, checkpoint.ThreadID(args[0]))
			if err != nil {
				return err
			}
			if out == "" || out == "-" {
				return rec.Write(a.console.Out)
			}
			var b bytes.Buffer
			if err := rec.Write(&b); err != nil {
				return err
			}
			if err := draw.WriteFile(out, b.Bytes()); err != nil {
				return err
			}
			n := checkpoints(rec)
			return a.say(map[string]any{"thread": args[0], "file": out, "checkpoints": n}, "Wrote %d checkpoints of thread %s to %s.", n, args[0], out)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the file; default: the standard output")
	return a.threadToo(cmd)
}

// checkpoints counts those of a recording.
func checkpoints(rec *recording.Recording) (n int) {
	for _, l := range rec.Logs {
		n += len(l.Records)
	}
	return n
}

func (a *app) importCommand() *cobra.Command {
	var as string
	cmd := &cobra.Command{
		Use: "import FILE", GroupID: "edit", Short: "Read a thread from a file that export wrote",
		Long: `Read a thread with its history from a file that "export" wrote (- is the standard
input) into the store. A thread of that ID must not exist.`,
		Args: args(1, 1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			rec, err := a.readRecording(cmd, args[0])
			if err != nil {
				return err
			}
			if err := rec.Check(); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			ctx := cmd.Context()
			store, err := a.open(ctx, true)
			if err != nil {
				return err
			}
			thread := rec.Header.Thread
			if as != "" {
				thread = checkpoint.ThreadID(as)
			}
			switch err := rec.Put(ctx, store, thread); {
			case errors.Is(err, recording.ErrExists):
				return Hint(fmt.Errorf("thread %q exists already", thread), "give it another ID: --as THREAD")
			case err != nil:
				return err
			}
			n := checkpoints(rec)
			return a.say(map[string]any{"thread": thread, "graph": rec.Header.Graph, "checkpoints": n}, "Read %d checkpoints of thread %s.", n, thread)
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "the ID of the thread; default: the one it had")
	return cmd
}

func (a *app) readRecording(cmd *cobra.Command, path string) (rec *recording.Recording, err error) {
	if path != "-" {
		rec, err = recording.ReadFile(path)
	} else if rec, err = recording.Read(cmd.InOrStdin()); err != nil {
		err = fmt.Errorf("standard input: %w", err)
	}
	if errors.Is(err, recording.ErrNotRecording) {
		err = Hint(err, "%s export THREAD writes one", a.name)
	}
	return rec, err
}

func (a *app) replayCommand() *cobra.Command {
	var name string
	var take, ignore []string
	var all, entry bool
	cmd := &cobra.Command{
		Use: "replay FILE...", GroupID: "look", Short: "Run this program against recorded threads and show where they part",
		Long: `Run this program against threads that "export" wrote (- is the standard input), and
show the first difference: in what nodes write, where they lead, what they ask. The
exit code is 1 if there is one. Nothing is stored; a long-term memory begins empty. The results of sub-steps (Once)
are those of the recording, if the thread ran with graph.RecordOnce; for nodes that
call out without Once, --take puts their recorded changes in their stead.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			type one struct {
				File        string             `json:"file"`
				Thread      string             `json:"thread"`
				Graph       string             `json:"graph"`
				Differences []graph.Difference `json:"differences"`
			}
			list := []one{}
			differs := false
			o := graph.ReplayOptions{TakeRecorded: take, IgnoreFields: ignore, IgnoreEntry: entry}
			w := a.console.Out
			for _, path := range files {
				rec, err := a.readRecording(cmd, path)
				if err != nil {
					return err
				}
				t, err := a.recordedBy(rec, name)
				if err != nil {
					return err
				}
				one := one{File: path, Thread: string(rec.Header.Thread), Graph: t.name, Differences: []graph.Difference{}}
				items, err := memory.NewInMemory()
				if err != nil {
					return err
				}
				g, err := t.With(memory.Use(items))
				if err != nil {
					return err
				}
				for d, err := range g.Replay(cmd.Context(), rec, o) {
					if err != nil {
						return fmt.Errorf("%s: %w", path, err)
					}
					one.Differences = append(one.Differences, d)
					if !all {
						break
					}
				}
				list = append(list, one)
				differs = differs || len(one.Differences) > 0
				if a.json {
					continue
				}
				if len(one.Differences) == 0 {
					fmt.Fprintf(w, "%s: thread %s replays as recorded.\n", path, oneLine(one.Thread))
				}
				for i := range one.Differences {
					fmt.Fprintf(w, "%s: thread %s differs at checkpoint %s\n%s\n", path, oneLine(one.Thread), one.Differences[i].Checkpoint, console.Clean(indent(one.Differences[i].String(), "  ")))
				}
			}
			if a.json {
				if err := writeJSON(w, list, true); err != nil {
					return err
				}
			}
			if differs {
				return ExitCode(ExitError)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&name, "graph", "g", "", "the graph; default: the one that was recorded")
	cmd.Flags().BoolVar(&all, "all", false, "show all differences")
	cmd.Flags().StringSliceVar(&take, "take", nil, "nodes whose recorded changes stand for them")
	cmd.Flags().StringSliceVar(&ignore, "ignore", nil, "fields of the state that are not compared")
	cmd.Flags().BoolVar(&entry, "ignore-entry", false, "don't compare where inputs lead")
	return cmd
}

// recordedBy returns the graph that a recording is of.
func (a *app) recordedBy(rec *recording.Recording, name string) (*compiled, error) {
	if name != "" {
		return a.find(name)
	}
	if t := a.owner(rec.Header.Graph); t != nil {
		return t, nil
	}
	if len(a.graphs) == 1 {
		return a.graphs[0], nil
	}
	return nil, &usageError{fmt.Errorf("thread %q was recorded of graph %q, which this program does not have", rec.Header.Thread, rec.Header.Graph),
		"name one with --graph: " + strings.Join(a.graphNames(), ", ")}
}
