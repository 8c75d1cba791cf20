package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/internal/jsondiff"
)

// difference is one place at which two states differ. A value that is missing
// on one side is nil.
type difference struct {
	Op   string          `json:"op"`   // "add", "remove" or "replace"
	Path string          `json:"path"` // members and indexes with dots between them
	Old  json.RawMessage `json:"old,omitempty"`
	New  json.RawMessage `json:"new,omitempty"`
}

// differences lists where b differs from a. The index of an element is that in b, or in a
// for what was removed.
func differences(a, b json.RawMessage) ([]difference, error) {
	x, err := jsondiff.Decode(string(a))
	if err != nil {
		return nil, err
	}
	y, err := jsondiff.Decode(string(b))
	if err != nil {
		return nil, err
	}
	out := []difference{}
	for _, c := range jsondiff.Changes(x, y) {
		steps := make([]string, len(c.Path))
		for i, step := range c.Path {
			steps[i] = fmt.Sprint(step)
		}
		d := difference{Op: c.Op, Path: strings.Join(steps, ".")}
		if c.Op != "add" {
			d.Old = json.RawMessage(jsondiff.Encode(c.Old, ""))
		}
		if c.Op != "remove" {
			d.New = json.RawMessage(jsondiff.Encode(c.New, ""))
		}
		out = append(out, d)
	}
	return out, nil
}

func (a *app) diffCommand() *cobra.Command {
	var thread string
	var full, code bool
	cmd := &cobra.Command{
		Use: "diff A B", GroupID: "look", Short: "Show where the states of two checkpoints or threads differ",
		Long: `Show where the states of two checkpoints of a thread, or of two threads, differ. A and
B are threads, or checkpoints of the thread that --thread names; THREAD@CHECKPOINT
is a checkpoint of any thread.`,
		Example: fmt.Sprintf("  %[1]s diff t-1 t-2\n  %[1]s diff --thread t-1 CHECKPOINT CHECKPOINT\n  %[1]s diff t-1@CHECKPOINT t-1", a.name),
		Args:    args(2, 2, "A or B"), ValidArgsFunction: a.completeThreads,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			p, err := a.opened(ctx)
			if err != nil {
				return err
			}
			var states [2]json.RawMessage
			for i, arg := range args {
				s, err := a.stateOf(ctx, p, thread, arg)
				if err != nil {
					return err
				}
				states[i] = s.State
			}
			list, err := differences(states[0], states[1])
			if err != nil {
				return fmt.Errorf("state: %w", err)
			}
			w := a.console.Out
			switch {
			case a.json:
				if err := writeJSON(w, list, true); err != nil {
					return err
				}
			case len(list) == 0:
				fmt.Fprintln(w, "The states are the same.")
			default:
				r := renderer{w: w, width: a.console.Width(), full: full}
				for _, d := range list {
					r.difference(d)
				}
				if r.cut {
					fmt.Fprintf(w, "\n(Shortened. --full shows everything.)\n")
				}
			}
			if code && len(list) > 0 {
				return ExitCode(ExitError)
			}
			return nil
		},
	}
	a.threadFlag(cmd, &thread)
	cmd.Flags().BoolVar(&full, "full", false, "show whole values")
	cmd.Flags().BoolVar(&code, "exit-code", false, "end with exit code 1 if there are differences")
	return cmd
}

// stateOf returns the state that an argument of diff names.
func (a *app) stateOf(ctx context.Context, p place, thread, arg string) (*snapshot, error) {
	at := ""
	if thread != "" {
		at = arg
	} else {
		thread = arg
		if i := strings.LastIndexByte(arg, '@'); i > 0 {
			// An ID may have an @ in it.
			if _, err := known(ctx, p, arg); err != nil {
				thread, at = arg[:i], arg[i+1:]
			}
		}
	}
	t, thread, err := a.choose(ctx, p, nil, thread)
	if err != nil {
		return nil, err
	}
	s, err := t.state(ctx, thread, at)
	if err != nil {
		return nil, a.explain(err, &runFlags{thread: thread, at: at})
	}
	return s, nil
}

// difference writes one difference: in a line if it fits, else the values below
// its path.
func (r *renderer) difference(d difference) {
	path := oneLine(d.Path)
	if path == "" {
		path = "(state)"
	}
	width := r.width - len(path) - 4
	switch d.Op {
	case "add":
		r.side("+ "+path, d.New, width)
	case "remove":
		r.side("- "+path, d.Old, width)
	default:
		was, ok := r.inline(d.Old, width/2)
		is, ok2 := r.inline(d.New, width/2)
		if ok && ok2 {
			fmt.Fprintf(r.w, "~ %s  %s → %s\n", path, was, is)
			return
		}
		fmt.Fprintf(r.w, "~ %s\n", path)
		r.side("  -", d.Old, width)
		r.side("  +", d.New, width)
	}
}

func (r *renderer) side(head string, v json.RawMessage, width int) {
	if text, ok := r.inline(v, width); ok {
		fmt.Fprintf(r.w, "%s  %s\n", head, text)
		return
	}
	fmt.Fprintln(r.w, head)
	r.value(v, "      ")
}
