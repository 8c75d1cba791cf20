package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// difference is one place at which two states differ. A value that is missing
// on one side is nil.
type difference struct {
	Op   string          `json:"op"`   // "add", "remove" or "replace"
	Path string          `json:"path"` // members and indexes with dots between them
	Old  json.RawMessage `json:"old,omitempty"`
	New  json.RawMessage `json:"new,omitempty"`
}

// differences lists where b differs from a. An array that grew or shrank at an
// end, or in one place, differs there alone; the index is that in b, or in a for
// what was removed.
func differences(path string, a, b json.RawMessage) ([]difference, error) {
	x, err := open(a)
	if err != nil {
		return nil, err
	}
	y, err := open(b)
	if err != nil {
		return nil, err
	}
	below := func(name string) string {
		if path == "" {
			return name
		}
		return path + "." + name
	}
	var out []difference
	switch x := x.(type) {
	case object:
		y, ok := y.(object)
		if !ok {
			break
		}
		theirs := make(map[string]json.RawMessage, len(y))
		for _, m := range y {
			theirs[m.name] = m.value
		}
		ours := make(map[string]bool, len(x))
		for _, m := range x {
			ours[m.name] = true
			other, ok := theirs[m.name]
			if !ok {
				out = append(out, difference{Op: "remove", Path: below(m.name), Old: m.value})
				continue
			}
			sub, err := differences(below(m.name), m.value, other)
			if err != nil {
				return nil, err
			}
			out = append(out, sub...)
		}
		for _, m := range y {
			if !ours[m.name] {
				out = append(out, difference{Op: "add", Path: below(m.name), New: m.value})
			}
		}
		return out, nil
	case list:
		y, ok := y.(list)
		if !ok {
			break
		}
		begin, common := 0, min(len(x), len(y))
		for begin < common && same(x[begin], y[begin]) {
			begin++
		}
		end := 0
		for end < common-begin && same(x[len(x)-1-end], y[len(y)-1-end]) {
			end++
		}
		for i := begin; i < max(len(x), len(y))-end; i++ {
			switch {
			case i >= len(y)-end:
				out = append(out, difference{Op: "remove", Path: below(strconv.Itoa(i)), Old: x[i]})
			case i >= len(x)-end:
				out = append(out, difference{Op: "add", Path: below(strconv.Itoa(i)), New: y[i]})
			default:
				sub, err := differences(below(strconv.Itoa(i)), x[i], y[i])
				if err != nil {
					return nil, err
				}
				out = append(out, sub...)
			}
		}
		return out, nil
	}
	if reflect.DeepEqual(x, y) {
		return nil, nil
	}
	return []difference{{Op: "replace", Path: path, Old: a, New: b}}, nil
}

// same reports whether two values are equal, whatever their white space and the
// order of their members.
func same(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	d, err := differences("", a, b)
	return err == nil && len(d) == 0
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
			defer p.close()
			var states [2]json.RawMessage
			for i, arg := range args {
				s, err := a.stateOf(ctx, p, thread, arg)
				if err != nil {
					return err
				}
				states[i] = s.State
			}
			list, err := differences("", states[0], states[1])
			if err != nil {
				return fmt.Errorf("state: %w", err)
			}
			w := a.console.Out
			switch {
			case a.json:
				if list == nil {
					list = []difference{}
				}
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
