package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/dialogue"
	assistants "github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
)

func (a *app) dialogueChatCommand() *cobra.Command {
	var s speaking
	var t talk
	cmd := &cobra.Command{
		Use: "chat [PATH]", Short: "Talk with an assistant",
		Long: `Talk with the assistant of PATH, a folder or a file, in the terminal or over a pipe, a
message a line. Replies go to the standard output; with --json each is an object.

Buttons have numbers, to be typed; where a number is asked for, with # before them.
/state shows how the conversation stands, with sensitive values masked, /help what else
there is. It ends with /quit, quit, exit or q, or with the input.

The conversation is a thread in the store that --store names: --thread goes on with it.
Deadlines run while it is open, and afterwards with "dialogue serve".`,
		Args: args(0, 1, "PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.speaker(cmd.Context(), &s, args)
			if err != nil {
				return err
			}
			items, err := a.memories()
			if err != nil {
				return err
			}
			if c.Store, err = a.open(cmd.Context(), true); err != nil {
				return err
			}
			if t.assistant, err = assistants.New(c, items); err != nil {
				return err
			}
			t.a, t.again = a, strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")+again(&s, args)
			return t.run(cmd.Context())
		},
	}
	s.add(a, cmd)
	a.threadFlag(cmd, &t.thread)
	cmd.Flags().StringVar(&t.user, "user", "", "whom actions are told that they work for (default: the thread's ID)")
	cmd.Flags().StringVar(&t.language, "language", "", "the language, as a tag (default: the assistant's)")
	return a.indexFlags(cmd)
}

// again returns the arguments that lead to the same assistant.
func again(s *speaking, args []string) string {
	var b strings.Builder
	for _, arg := range args {
		b.WriteString(" " + quote(arg))
	}
	if s.demo {
		b.WriteString(" --demo")
	}
	for _, f := range []struct{ flag, value string }{{"model", s.model}, {"patterns", s.patterns}} {
		if f.value != "" {
			b.WriteString(" --" + f.flag + " " + quote(f.value))
		}
	}
	for _, url := range s.actions {
		b.WriteString(" --actions " + quote(url))
	}
	for _, path := range s.older {
		b.WriteString(" --older " + quote(path))
	}
	return b.String()
}

// talk is one call of dialogue chat.
type talk struct {
	a         *app
	assistant *assistants.Assistant
	thread    string
	user      string
	language  string
	again     string // the command that goes on, but for the thread

	opts   []graph.RunOption
	offers []dialogue.Option // of the last reply
	last   dialogue.Reply
	failed bool
}

// stopWords end a conversation.
var stopWords = []string{"/quit", "/exit", "quit", "exit", "q"}

func (t *talk) run(ctx context.Context) error {
	c := t.a.console
	given := t.thread != ""
	if !given {
		t.thread = "chat-" + uuid.NewString()[:8]
	}
	if t.language != "" && !t.assistant.Program().Languages.Has(t.language) {
		p := t.assistant.Program().Languages
		return Usage("the assistant doesn't speak %q; it speaks %s", t.language, strings.Join(append([]string{p.Default}, p.Also...), ", "))
	}
	ctx, drain, end := console.Stops(ctx, func(second bool) {
		if !second {
			c.Notef("Stopping.")
		}
	})
	defer end()
	t.opts = append(slices.Clip(t.a.each), graph.Drain(drain))
	if t.user != "" {
		t.opts = append(t.opts, assistants.User(t.user))
	}
	d, err := t.assistant.State(ctx, t.thread)
	if err != nil {
		return err
	}
	if !t.a.json {
		c.Notef("Talking with %s. /help says what else there is than messages.", cmp.Or(t.assistant.Program().Name, "the assistant"))
	}
	if d.TurnCount > 0 {
		if !t.a.json {
			c.Notef("The conversation has %s so far.", console.Count(d.TurnCount, "turn"))
		}
		if r := d.Metadata.Machine.LastReply; r != nil {
			if err := t.show(*r); err != nil {
				return err
			}
		}
	}
	asking, stop := console.Until(ctx, drain)
	defer stop()
	for {
		line, err := t.hear(asking)
		switch {
		case errors.Is(err, console.ErrNoAnswer), err == nil && slices.Contains(stopWords, strings.ToLower(line)):
			return t.leave(ExitDone)
		case errors.Is(err, console.ErrStopped):
			return t.leave(ExitStopped)
		case err != nil:
			return err
		case line == "":
			continue
		case strings.HasPrefix(line, "/"):
			if err := t.command(ctx, line); err != nil {
				return err
			}
			continue
		}
		r, err := t.assistant.Say(ctx, t.thread, t.message(line), t.opts...)
		if unread := (*dialogue.UnderstandingError)(nil); errors.As(err, &unread) {
			t.failed = true
			c.Notef("error: %s", foreign(unread.Error()))
			if !t.a.json {
				c.Notef("The message counts as never sent.")
			}
			continue
		}
		if errors.Is(err, graph.ErrDrained) || errors.Is(err, console.ErrStopped) {
			return t.leave(ExitStopped)
		}
		if err != nil {
			return Hint(err, "the turn goes on with the next message: %s", t.goOn())
		}
		if err := t.show(r); err != nil {
			return err
		}
	}
}

// hear waits for a line. What is due meanwhile is done and said.
func (t *talk) hear(ctx context.Context) (string, error) {
	prompt := ""
	if t.a.console.CanAsk() {
		prompt = "you: "
	}
	for {
		d, err := t.assistant.State(ctx, t.thread)
		if err != nil {
			return "", err
		}
		wait, stop := ctx, context.CancelFunc(func() {})
		due, ok := d.Due()
		if ok {
			wait, stop = context.WithDeadlineCause(ctx, due, errDue)
		}
		line, err := t.a.console.Ask(wait, prompt)
		stop()
		if !errors.Is(err, errDue) || ctx.Err() != nil {
			return line, err
		}
		r, err := t.assistant.Wake(ctx, t.thread, t.opts...)
		if err != nil {
			return "", err
		}
		if r.Turn > t.last.Turn {
			if err := t.show(r); err != nil {
				return "", err
			}
		}
	}
}

var errDue = errors.New("a deadline is over")

// message is what a line says: the button of its number, or its text.
func (t *talk) message(line string) dialogue.Message {
	m := dialogue.Message{Text: line, Language: t.language, Time: time.Now()}
	number, hash := strings.CutPrefix(line, "#")
	if !hash && t.numeric() {
		return m
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(t.offers) || slices.ContainsFunc(t.offers, func(o dialogue.Option) bool { return o.Label == line }) {
		return m
	}
	o := t.offers[n-1]
	m.Text = o.Label
	if t.last.Waiting != nil {
		m.Question = t.last.Waiting.ID
	}
	switch {
	case len(o.Commands) > 0:
		m.Commands = o.Commands
	case o.ID != "":
		m.Commands = []dialogue.Command{{Type: dialogue.Select, Option: o.ID}}
	default:
		m.Text = o.Value.String()
	}
	return m
}

// numeric reports whether a number is asked for.
func (t *talk) numeric() bool {
	w := t.last.Waiting
	if w == nil {
		return false
	}
	f, ok := t.assistant.Program().Flow(w.Flow)
	if !ok || f.Slots[w.Slot] == nil {
		return false
	}
	switch f.Slots[w.Slot].Type {
	case program.Number, program.Integer:
		return true
	}
	return false
}

// show prints a reply.
func (t *talk) show(r dialogue.Reply) error {
	t.last, t.offers = r, nil
	for _, m := range r.Messages {
		t.offers = append(t.offers, m.Options...)
	}
	if t.a.json {
		return writeJSON(t.a.console.Out, r, false)
	}
	out := t.a.console.Out
	if r.Text != "" {
		if _, err := fmt.Fprintln(out, console.Clean(r.Text)); err != nil {
			return err
		}
	}
	hash := ""
	if t.numeric() {
		hash = "#"
	}
	for i, o := range t.offers {
		if _, err := fmt.Fprintf(out, "  %s%d) %s\n", hash, i+1, console.Clean(cmp.Or(o.Label, o.Value.String()))); err != nil {
			return err
		}
	}
	for _, m := range r.Messages {
		for _, v := range []expr.Value{m.Media, m.Custom} {
			if v.IsNone() {
				continue
			}
			if _, err := fmt.Fprintf(out, "  [%s] %s\n", m.Type, console.Clean(v.String())); err != nil {
				return err
			}
		}
	}
	for _, e := range r.Events {
		if e.Name != "message" {
			t.a.console.Notef("· %s", console.Clean(e.Name))
		}
	}
	return nil
}

// command does what a line with a slash says.
func (t *talk) command(ctx context.Context, line string) error {
	switch line {
	case "/state":
		d, err := t.assistant.State(ctx, t.thread)
		if err != nil {
			return err
		}
		return t.showState(d.Masked(t.assistant.Program()))
	case "/help":
		t.a.console.Notef("A number presses a button. /state shows the conversation, /quit ends it.")
	default:
		t.failed = true
		t.a.console.Notef("error: there is no command %s; there are /state, /help and /quit", console.Clean(line))
	}
	return nil
}

func (t *talk) showState(d dialogue.State) error {
	if t.a.json {
		return writeJSON(t.a.console.Out, d, false)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s", d.ConversationState, console.Count(d.TurnCount, "turn"))
	if d.WaitingForSlot != "" {
		fmt.Fprintf(&b, ", waiting for %s", d.WaitingForSlot)
	}
	b.WriteString("\n")
	for _, f := range slices.Backward(d.FlowStack) {
		fmt.Fprintf(&b, "  %s, %s, at %s\n", f.FlowName, f.FlowState, cmp.Or(f.CurrentStep, "its end"))
		writeSlots(&b, "    ", d.FlowSlots[f.FlowID])
	}
	if of := d.FlowSlots["session"]; len(of) > 0 {
		b.WriteString("  session\n")
		writeSlots(&b, "    ", of)
	}
	_, err := fmt.Fprint(t.a.console.Out, console.Clean(b.String()))
	return err
}

// leave says how to go on.
func (t *talk) leave(code ExitCode) error {
	if !t.a.json && t.last.Turn > 0 {
		t.a.console.Notef("Go on with:\n  %s", t.goOn())
	}
	if code == ExitDone && t.failed && !t.a.console.CanAsk() {
		code = ExitError
	}
	if code == ExitDone {
		return nil
	}
	return code
}

func (t *talk) goOn() string {
	return fmt.Sprintf("%s %s%s --thread %s", t.a.name, t.again, t.a.storeArg(), quote(t.thread))
}
