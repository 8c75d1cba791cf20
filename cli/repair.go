package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/internal/console"
)

// damage is one place at which a store is damaged.
type damage struct {
	Thread string `json:"thread,omitempty"`
	Place  string `json:"place"`
	Offset *int64 `json:"offset,omitempty"` // bytes, where that has a meaning
	What   string `json:"what"`
}

func (a *app) repairCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "repair [THREAD]", GroupID: "edit", Short: "Look for damage in the store, and mend what can be mended",
		Long: `Read all that the store holds, or one thread, and report what is damaged. In a store
of files, the incomplete last line that a killed process leaves is put aside, into a
file beside the thread's, and never destroyed. Nothing else is changed; with --check
nothing at all.

The exit code is 0 if all is well, and 1 if damage is left.`,
		Args: args(0, 1, "THREAD"), ValidArgsFunction: a.completeThread,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			var thread checkpoint.ThreadID
			if len(args) > 0 {
				thread = checkpoint.ThreadID(args[0])
			}
			store, dir, err := a.openDamaged(ctx)
			if err != nil {
				return err
			}
			v, ok := store.(checkpoint.Verifier)
			if !ok {
				return fmt.Errorf("the store %s cannot be checked", a.storeName())
			}
			if thread != "" {
				if _, err := a.head(ctx, store, args[0]); err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
					return err
				}
			}
			found, err := verify(ctx, v, thread)
			if err != nil {
				return err
			}
			left := found
			reports := []string{}
			var kept []error
			if dir != "" && !check && len(found) > 0 {
				var tried []checkpoint.ThreadID
				for _, d := range found {
					if d.Thread == "" || slices.Contains(tried, checkpoint.ThreadID(d.Thread)) {
						continue
					}
					tried = append(tried, checkpoint.ThreadID(d.Thread))
					done, err := file.Repair(dir, checkpoint.ThreadID(d.Thread))
					for _, r := range done {
						reports = append(reports, r.String())
					}
					if err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
						kept = append(kept, fmt.Errorf("thread %q: %w", d.Thread, err))
					}
				}
				if left, err = verify(ctx, v, thread); err != nil {
					return err
				}
			}
			if err := errors.Join(kept...); err != nil {
				return err
			}
			if err := a.showDamage(found, reports, left, check, dir != ""); err != nil {
				return err
			}
			if len(left) > 0 {
				return ExitCode(ExitError)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "change nothing")
	return a.threadToo(cmd)
}

// openDamaged opens the store as it is: nothing is mended on the way. Dir is the
// folder of a store of files.
func (a *app) openDamaged(ctx context.Context) (_ checkpoint.Store, dir string, err error) {
	if a.storeFlag != "" || a.store == nil {
		if c, err := storeConfig(a.storeURL(), false); err == nil && c.Backend == stores.File {
			c.File.Recover = false
			s, err := c.Open(ctx)
			if err != nil {
				return nil, "", err
			}
			a.atClose(s.Close)
			return s, c.Path, nil
		}
	}
	s, err := a.open(ctx, false)
	return s, "", err
}

func verify(ctx context.Context, v checkpoint.Verifier, thread checkpoint.ThreadID) ([]damage, error) {
	list := []damage{}
	for c, err := range v.Verify(ctx, thread) {
		if err != nil {
			return list, err
		}
		d := damage{Thread: string(c.Thread), Place: c.Place, What: c.Error()}
		if c.Offset >= 0 {
			d.Offset = &c.Offset
		}
		if c.Err != nil {
			d.What = c.Err.Error()
		}
		list = append(list, d)
	}
	return list, nil
}

func (a *app) showDamage(found []damage, reports []string, left []damage, check, files bool) error {
	w := a.console.Out
	if a.json {
		return writeJSON(w, struct {
			Found    []damage `json:"found"`
			Repaired []string `json:"repaired"`
			Left     []damage `json:"left"`
		}{found, reports, left}, true)
	}
	if len(found) == 0 {
		fmt.Fprintf(w, "Nothing is damaged in %s.\n", a.storeName())
		return nil
	}
	show := func(list []damage) {
		for _, d := range list {
			text := d.Place
			if d.Offset != nil {
				text += fmt.Sprintf(", byte %d", *d.Offset)
			}
			if d.Thread != "" {
				text = fmt.Sprintf("thread %s: %s", d.Thread, text)
			}
			fmt.Fprintf(w, "  %s\n    %s\n", console.Clean(text), console.Clean(d.What))
		}
	}
	if len(reports) > 0 {
		fmt.Fprintf(w, "Mended:\n")
		for _, r := range reports {
			fmt.Fprintf(w, "  %s\n", console.Clean(r))
		}
	}
	if len(left) == 0 {
		fmt.Fprintln(w, "Nothing else is damaged.")
		return nil
	}
	fmt.Fprintf(w, "Damaged:\n")
	show(left)
	switch {
	case check && files:
		a.console.Notef("Nothing was changed. What a killed process left at the end of a file is mended with:\n  %s repair%s", a.name, a.storeArg())
	default:
		a.console.Notef("This cannot be mended here: restore a backup, or delete the thread. Nothing of it was changed.")
	}
	return nil
}
