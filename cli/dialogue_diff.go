package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/internal/console"
)

// standing is a conversation that stands in a flow.
type standing struct {
	Thread string              `json:"thread"`
	Flows  []dialogue.Standing `json:"flows"` // the bottom of the stack first
}

func (a *app) diffDialogueCommand() *cobra.Command {
	threads := false
	cmd := &cobra.Command{
		Use: "diff OLD NEW", Short: "Say what became of the flows of an assistant, and what becomes of its conversations",
		Long: `Say what became of the flows of an assistant: OLD and NEW are folders or files.

With --threads it says for each conversation of the store that --store names in which
flows it stands, and what becomes of it at its next message if NEW is deployed, with OLD
for those that are pinned:

  stays      the flow is as it was
  pinned     it goes on in the old one
  moves      it goes on in the new one, at the step of the same name, or of "formerly"
  restarts   it begins anew in the new one, with the slots that still fit
  ends       the flow is gone`,
		Args: args(2, 2, "OLD or NEW"),
		RunE: func(cmd *cobra.Command, args []string) error {
			older, err := compileAt(args[0])
			if err != nil {
				return err
			}
			newer, err := compileAt(args[1])
			if err != nil {
				return err
			}
			if a.storeGiven && !threads {
				return Usage("--store is for --threads, which is missing")
			}
			changes := program.Diff(older, newer)
			var found []standing
			if threads {
				if found, err = a.standings(cmd.Context(), older, newer); err != nil {
					return err
				}
			}
			if a.json {
				out := map[string]any{"flows": changes}
				if threads {
					out["conversations"] = append([]standing{}, found...)
				}
				return writeJSON(a.console.Out, out, true)
			}
			text := changesText(changes)
			if threads {
				text += standingsText(found)
			}
			_, err = fmt.Fprint(a.console.Out, console.Clean(text))
			return err
		},
	}
	cmd.Flags().BoolVar(&threads, "threads", false, "say what becomes of the conversations of the store")
	return cmd
}

// changesText says how flows changed.
func changesText(changes []program.Change) string {
	var b strings.Builder
	same := 0
	for _, c := range changes {
		switch c.Kind {
		case program.Same:
			same++
		case program.Added:
			fmt.Fprintf(&b, "added     %s\n", c.To)
		case program.Removed:
			fmt.Fprintf(&b, "removed   %s\n", c.Flow)
		case program.Renamed:
			fmt.Fprintf(&b, "renamed   %s to %s\n", c.Flow, c.To)
		case program.Changed:
			name := c.Flow
			if c.To != c.Flow && c.To != "" {
				name += " to " + c.To
			}
			fmt.Fprintf(&b, "changed   %s, migrate: %s\n", name, c.Migrate)
			for _, s := range c.Steps {
				switch s.Kind {
				case program.Same:
				case program.Added:
					fmt.Fprintf(&b, "            + %s\n", s.To)
				case program.Removed:
					fmt.Fprintf(&b, "            - %s\n", s.Step)
				case program.Renamed:
					fmt.Fprintf(&b, "            = %s, now %s\n", s.Step, s.To)
				default:
					if s.To != s.Step {
						fmt.Fprintf(&b, "            ~ %s, now %s\n", s.Step, s.To)
					} else {
						fmt.Fprintf(&b, "            ~ %s\n", s.Step)
					}
				}
			}
		}
	}
	fmt.Fprintf(&b, "%s as before.\n", console.Count(same, "flow"))
	return b.String()
}

// standings returns the conversations of the store that stand in a flow of an assistant.
func (a *app) standings(ctx context.Context, older, newer *program.Program) ([]standing, error) {
	store, err := a.open(ctx, false)
	if err != nil {
		return nil, err
	}
	l, err := a.lister(store)
	if err != nil {
		return nil, err
	}
	p := newer.With(older)
	var out []standing
	for info, err := range l.Threads(ctx, checkpoint.ThreadFilter{}) {
		if err != nil {
			return nil, err
		}
		if info.Head == nil || !slices.Contains([]string{older.Name, newer.Name}, info.Head.Graph) {
			continue
		}
		g, err := conversationsOf(info.Head.Graph, store)
		if err != nil {
			return nil, err
		}
		snap, err := g.Thread(string(info.Thread)).State(ctx)
		if err != nil {
			return nil, notAConversation(string(info.Thread), err)
		}
		if flows := dialogue.Standings(p, snap.State.Dialogue()); len(flows) > 0 {
			out = append(out, standing{string(info.Thread), flows})
		}
	}
	return out, nil
}

// standingsText says what becomes of conversations.
func standingsText(found []standing) string {
	var b strings.Builder
	n := map[dialogue.Fate]int{}
	for _, c := range found {
		fmt.Fprintf(&b, "\n%s\n", c.Thread)
		for _, f := range slices.Backward(c.Flows) {
			n[f.Fate]++
			fmt.Fprintf(&b, "  %-9s %s at %s", f.Fate, f.Flow, f.Step)
			if f.To != "" && (f.To != f.Flow || f.ToStep != f.Step) {
				fmt.Fprintf(&b, ", to %s at %s", f.To, f.ToStep)
			}
			if f.Missing {
				b.WriteString("; no program has it as it was")
			}
			if len(f.Lost) > 0 {
				fmt.Fprintf(&b, "; loses %s", strings.Join(f.Lost, ", "))
			}
			if len(f.Done) > 0 {
				fmt.Fprintf(&b, "; already done: %s", strings.Join(f.Done, ", "))
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "\n%s in the middle of something", console.Count(len(found), "conversation"))
	var parts []string
	for _, fate := range []dialogue.Fate{dialogue.Stays, dialogue.Pinned, dialogue.Moves, dialogue.Restarts, dialogue.Ends} {
		if n[fate] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", fate, n[fate]))
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(&b, "; flows: %s", strings.Join(parts, ", "))
	}
	b.WriteString(".\n")
	return b.String()
}
