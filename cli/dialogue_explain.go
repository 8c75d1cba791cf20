package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/dialogue"
	assistants "github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/dialoguetest"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
)

func (a *app) explainCommand() *cobra.Command {
	var turns []int
	path := ""
	cmd := &cobra.Command{
		Use: "explain THREAD|FILE", Short: "Say why a conversation went as it did, turn by turn",
		Long: `Say why a conversation went as it did: for each turn what the user said, which commands
that was taken for and who gave them, which steps were taken, which slots changed, which
actions ran, and the reply. Sensitive values are masked.

THREAD is in the store that --store names, FILE a recording that "export" wrote.

With --as-test the conversation is written as a test instead, a file for "dialogue test":
what was said and understood, what actions answered, and what was seen. Values of
sensitive slots are stand-ins. PATH is the assistant that the test is for; the test is run
once, and the exit code is 1 if it doesn't hold.`,
		Args: args(1, 1, "THREAD"), ValidArgsFunction: a.completeThreads,
		RunE: func(cmd *cobra.Command, args []string) error {
			if path != "" && len(turns) > 0 {
				return Usage("--as-test is for a whole conversation, and --turn for a part")
			}
			ctx := cmd.Context()
			store, thread, err := a.recorded(ctx, args[0])
			if err != nil {
				return err
			}
			if path != "" {
				return a.asTest(ctx, store, thread, path)
			}
			all, err := a.turnsOf(ctx, store, thread, nil)
			if err != nil {
				return err
			}
			for _, n := range turns {
				if !slices.ContainsFunc(all, func(t assistants.Turn) bool { return t.Number == n }) {
					return fmt.Errorf("thread %s has no turn %d: its turns are %s", thread, n, span(all))
				}
			}
			if len(turns) > 0 {
				all = slices.DeleteFunc(all, func(t assistants.Turn) bool { return !slices.Contains(turns, t.Number) })
			}
			if a.json {
				return writeJSON(a.console.Out, map[string]any{"thread": thread, "turns": all}, true)
			}
			for i, t := range all {
				if i > 0 {
					fmt.Fprintln(a.console.Out)
				}
				if _, err := fmt.Fprint(a.console.Out, console.Clean(explained(t))); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().IntSliceVar(&turns, "turn", nil, "only this turn; may be repeated")
	cmd.Flags().StringVar(&path, "as-test", "", "write the conversation as a test for the assistant of this path")
	return cmd
}

// asTest writes a conversation as a test.
func (a *app) asTest(ctx context.Context, store checkpoint.Store, thread, path string) error {
	p, err := compileAt(path)
	if err != nil {
		return err
	}
	turns, err := a.turnsOf(ctx, store, thread, p)
	if err != nil {
		return err
	}
	test, err := dialoguetest.Export(thread, p, turns)
	if err != nil {
		return err
	}
	if a.json {
		err = writeJSON(a.console.Out, test, true)
	} else {
		_, err = io.WriteString(a.console.Out, test.Text)
	}
	if err != nil {
		return err
	}
	if len(test.Failures) > 0 {
		a.console.Notef("The test doesn't hold: see what the file says.")
		return ExitCode(ExitError)
	}
	return nil
}

// recorded opens the store that has a thread, which may be that of a recording.
func (a *app) recorded(ctx context.Context, name string) (checkpoint.Store, string, error) {
	f, err := os.Open(name)
	if info, bad := os.Stat(name); err != nil || bad != nil || info.IsDir() {
		store, err := a.open(ctx, false)
		return store, name, err
	}
	defer f.Close()
	store := checkpoint.NewMemory()
	a.atClose(store.Close)
	rec, err := recording.Import(ctx, store, f, "")
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	return store, string(rec.Header.Thread), nil
}

// conversationsOf returns a graph that reads the conversations of assistants of a name,
// whatever their programs.
func conversationsOf(name string, store checkpoint.Store) (*graph.Graph[assistants.State], error) {
	p, err := program.Compile(program.File{Name: "any.yaml", Text: []byte(`{version: "2.0", flows: {any: {description: Any., steps: [{say: {text: Any.}}]}}}`)})
	if err != nil {
		return nil, err
	}
	named := *p
	named.Name = name
	a, err := assistants.New(assistants.Config{Program: &named, Store: store})
	if err != nil {
		return nil, err
	}
	return a.Graph(), nil
}

// conversation returns the thread of a conversation.
func (a *app) conversation(ctx context.Context, store checkpoint.Store, thread string) (*graph.Thread[assistants.State], error) {
	head, err := a.head(ctx, store, thread)
	if err != nil {
		return nil, err
	}
	g, err := conversationsOf(head.Graph, store)
	if err != nil {
		return nil, err
	}
	return g.Thread(thread), nil
}

// turnsOf returns the turns of a conversation; without a program it holds what needs none
// to be masked.
func (a *app) turnsOf(ctx context.Context, store checkpoint.Store, thread string, p *program.Program) ([]assistants.Turn, error) {
	t, err := a.conversation(ctx, store, thread)
	if err != nil {
		return nil, err
	}
	turns, err := assistants.Turns(ctx, t, p, assistants.TurnQuery{})
	if err == nil && len(turns) == 0 {
		err = errors.New("it has no turns")
	}
	if err != nil {
		return nil, notAConversation(thread, err)
	}
	return turns, nil
}

func notAConversation(thread string, err error) error {
	return Hint(fmt.Errorf("thread %q can't be read as a conversation: %w", thread, err), "only threads of assistants that are written in YAML can be explained")
}

// explained returns a turn as people read it.
func explained(t assistants.Turn) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Turn %d", t.Number)
	if !t.Time.IsZero() {
		fmt.Fprintf(&b, ", %s", t.Time.UTC().Format("2006-01-02 15:04:05"))
	}
	if t.Asked {
		b.WriteString(", understanding was asked")
	}
	b.WriteString("\n")
	for _, text := range t.Said {
		fmt.Fprintf(&b, "  > %s\n", strings.ReplaceAll(text, "\n", "\n    "))
	}
	left := slices.Clone(t.Commands)
	for _, e := range t.Trace {
		fmt.Fprintf(&b, "    %s\n", lineOf(e, &left))
	}
	for _, r := range t.Replies {
		who := ""
		if r.Role != "assistant" {
			who = r.Role + ": "
		}
		fmt.Fprintf(&b, "  < %s%s\n", who, strings.ReplaceAll(r.Text, "\n", "\n    "))
	}
	if t.State != "" {
		fmt.Fprintf(&b, "    then      %s", t.State)
		if t.Waiting != "" {
			fmt.Fprintf(&b, ", %s", t.Waiting)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// lineOf returns what an event says. A command has the value that understanding found for it,
// and where in the message.
func lineOf(e dialogue.TraceEvent, left *[]dialogue.Command) string {
	at := e.Flow
	if e.Step != "" {
		at = strings.TrimPrefix(at+"/"+e.Step, "/")
	}
	because := ""
	if e.Reason != "" {
		because = " (" + e.Reason + ")"
	}
	row := func(kind string, parts ...string) string {
		return strings.TrimRight(fmt.Sprintf("%-9s %s", kind, strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")), " ")
	}
	switch e.Kind {
	case "command", "command_ignored":
		value := ""
		if i := slices.IndexFunc(*left, func(c dialogue.Command) bool {
			return string(c.Type) == e.Command && c.Slot == e.Slot && c.Flow == e.Flow
		}); i >= 0 {
			c := (*left)[i]
			*left = slices.Delete(*left, i, i+1)
			if !c.Value.IsNone() {
				value = "= " + c.Value.String()
			}
			if c.Span != "" {
				value += fmt.Sprintf(" out of %q", c.Span)
			}
		}
		kind := "command"
		if e.Kind == "command_ignored" {
			kind = "ignored"
		}
		return row(kind, e.Command, e.Flow, e.Slot, value) + because
	case "slot_set":
		return row("slot", e.Slot+" = "+e.Value) + because
	case "slot_emptied":
		return row("slot", e.Slot+" is emptied")
	case "value_refused":
		return row("refused", e.Slot) + because
	case "step":
		return row("step", at)
	case "step_skipped":
		return row("passed by", at)
	case "branch":
		if e.Side == 0 {
			return row("branch", at, "no case holds")
		}
		return row("branch", at, fmt.Sprintf("case %d", e.Side))
	case "action":
		return row("action", e.Reason, "at "+at)
	case "confirmed", "denied":
		return row(e.Kind, at) + because
	case "error":
		return row("error", at) + because
	}
	if state, ok := strings.CutPrefix(e.Kind, "flow_"); ok {
		return row("flow", e.Flow, state) + because
	}
	return row(strings.ReplaceAll(e.Kind, "_", " "), at, e.Command, e.Slot, e.Value) + because
}

// span says which turns there are.
func span(all []assistants.Turn) string {
	if len(all) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d to %d", all[0].Number, all[len(all)-1].Number)
}
