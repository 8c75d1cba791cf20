package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/dialogue"
	assistants "github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
)

func (a *app) explainCommand() *cobra.Command {
	var turns []int
	cmd := &cobra.Command{
		Use: "explain THREAD|FILE", Short: "Say why a conversation went as it did, turn by turn",
		Long: `Say why a conversation went as it did: for each turn what the user said, which commands
that was taken for and who gave them, which steps were taken, which slots changed, which
actions ran, and the reply. Sensitive values are masked.

THREAD is in the store that --store names, FILE a recording that "export" wrote.`,
		Args: args(1, 1, "THREAD"), ValidArgsFunction: a.completeThreads,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			store, thread, end, err := a.recorded(ctx, args[0])
			if err != nil {
				return err
			}
			defer end()
			all, err := a.explained(ctx, store, thread)
			if err != nil {
				return err
			}
			if len(turns) > 0 {
				all = slices.DeleteFunc(all, func(t explainedTurn) bool { return !slices.Contains(turns, t.Turn) })
			}
			if a.json {
				return writeJSON(a.console.Out, map[string]any{"thread": thread, "turns": all}, true)
			}
			for i, t := range all {
				if i > 0 {
					fmt.Fprintln(a.console.Out)
				}
				if _, err := fmt.Fprint(a.console.Out, console.Clean(t.String())); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().IntSliceVar(&turns, "turn", nil, "only this turn; may be repeated")
	return cmd
}

// recorded opens the store that has a thread, which may be that of a recording.
func (a *app) recorded(ctx context.Context, name string) (checkpoint.Store, string, func(), error) {
	f, err := os.Open(name)
	if info, bad := os.Stat(name); err != nil || bad != nil || info.IsDir() {
		store, end, err := a.open(ctx, false)
		return store, name, end, err
	}
	defer f.Close()
	store := checkpoint.NewMemory()
	rec, err := recording.Import(ctx, store, f, "")
	if err != nil {
		return nil, "", nil, fmt.Errorf("%s: %w", name, err)
	}
	return store, string(rec.Header.Thread), func() { store.Close() }, nil
}

// explainedTurn is what happened in a turn. What is sensitive is masked.
type explainedTurn struct {
	Turn     int                   `json:"turn"`
	Time     time.Time             `json:"time,omitzero"`
	Said     []string              `json:"user"` // nothing if the turn began by itself
	Commands []dialogue.Command    `json:"commands"`
	Asked    bool                  `json:"understanding_asked"` // what the message means
	Trace    []dialogue.TraceEvent `json:"trace"`
	Replies  []dialogue.Entry      `json:"replies"`
	State    string                `json:"state"`
	Waiting  string                `json:"waiting_for_slot,omitempty"`
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

// explained returns the turns of a conversation.
func (a *app) explained(ctx context.Context, store checkpoint.Store, thread string) ([]explainedTurn, error) {
	head, err := a.head(ctx, store, thread)
	if err != nil {
		return nil, err
	}
	g, err := conversationsOf(head.Graph, store)
	if err != nil {
		return nil, err
	}
	byTurn := map[int]*explainedTurn{}
	of := func(n int) *explainedTurn {
		if byTurn[n] == nil {
			byTurn[n] = &explainedTurn{Turn: n, Said: []string{}, Commands: []dialogue.Command{}, Trace: []dialogue.TraceEvent{}, Replies: []dialogue.Entry{}}
		}
		return byTurn[n]
	}
	for e, err := range g.Thread(thread).History(ctx, graph.HistoryQuery{OldestFirst: true}) {
		if err != nil {
			return nil, notAConversation(thread, err)
		}
		s, err := e.State(ctx)
		if err != nil {
			return nil, notAConversation(thread, err)
		}
		open := s.Turn.Get()
		if slices.Contains(e.Nodes, "understand") && open.Read {
			t := of(s.TurnCount + 1)
			t.Asked = !open.Called.IsZero()
			if r := s.NLUResult.Get(); r != nil && len(r.Commands) > 0 {
				t.Commands = r.Commands
			}
		}
		var closed assistants.State
		s.Turn = closed.Turn // what is under way may not be masked yet
		d := s.Dialogue()
		said, traced := map[int][]dialogue.Entry{}, map[int][]dialogue.TraceEvent{}
		for _, m := range d.Messages {
			said[m.Turn] = append(said[m.Turn], m)
		}
		for _, ev := range d.Trace {
			traced[ev.Turn] = append(traced[ev.Turn], ev)
		}
		for n, list := range traced {
			if t := of(n); len(list) >= len(t.Trace) { // the oldest events are dropped in time
				t.Trace, t.Time = list, list[0].Time
			}
		}
		for n, list := range said {
			t := of(n)
			if len(list) < len(t.Said)+len(t.Replies) {
				continue
			}
			t.Said, t.Replies = []string{}, []dialogue.Entry{}
			for _, m := range list {
				if m.Role == "user" {
					t.Said = append(t.Said, m.Text)
				} else {
					t.Replies = append(t.Replies, m)
				}
			}
		}
		if t := byTurn[s.TurnCount]; t != nil && len(s.Inbox.Get()) == 0 {
			t.State, t.Waiting = s.ConversationState, s.WaitingForSlot
			if t.Time.IsZero() {
				t.Time = e.CreatedAt
			}
		}
	}
	if len(byTurn) == 0 {
		return nil, notAConversation(thread, errors.New("it has no turns"))
	}
	var out []explainedTurn
	for _, n := range slices.Sorted(maps.Keys(byTurn)) {
		out = append(out, *byTurn[n])
	}
	return out, nil
}

func notAConversation(thread string, err error) error {
	return Hint(fmt.Errorf("thread %q can't be read as a conversation: %w", thread, err), "only threads of assistants that are written in YAML can be explained")
}

// String returns the turn as people read it.
func (t explainedTurn) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Turn %d", t.Turn)
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
		fmt.Fprintf(&b, "    %s\n", t.line(e, &left))
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

// line returns what an event says. A command has the value that understanding found for it,
// and where in the message.
func (t explainedTurn) line(e dialogue.TraceEvent, left *[]dialogue.Command) string {
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
