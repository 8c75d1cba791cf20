package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/cmd/superstep/internal/demomodel"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
	"github.com/superstep-dev/superstep/model/models"
)

// chatter is one call of "chat".
type chatter struct {
	model, dir, thread, reject   string
	yes, rejects, fresh, restart bool

	g     *graph.Graph[chatState]
	c     *console.Console
	err   io.Writer
	store checkpoint.Store
	json  bool
	again string // the command that goes on
	stops *stops
	snap  *graph.Snapshot[chatState] // nil: the thread is new
}

func chatCommand() *cobra.Command {
	h := &chatter{}
	cmd := &cobra.Command{
		Use: "chat [MESSAGE...]", GroupID: "run", Short: "Talk with a model that reads your files, calculates, and writes files if you agree",
		Long: `Talk with a language model. It reads and lists the text files of a folder, calculates
and knows the time; before it writes a file, you are shown what and asked.

The model is named by --model or ` + models.Variable + `:
  openai:MODEL  anthropic:MODEL  gemini:MODEL  ollama:MODEL
with @URL after it for a server of your own. Its key comes from OPENAI_API_KEY,
ANTHROPIC_API_KEY or GEMINI_API_KEY. What the model reads is sent to its provider.

  --model demo

is no language model. It needs no key and no network, and understands just this:
` + demomodel.Help + `

Each folder has a conversation of its own, or as many as you like with --thread.
It is kept in the store: the same command goes on where it was, asks again what
waits for your answer, and finishes a turn during which the process died; a tool
that has returned is not called again.

Without a message there is a prompt, if there is a terminal; a message is one line.
Ctrl-C stops an answer, a second one ends the chat, and so does Ctrl-D. A message
that is an argument, or comes from a pipe, is one turn: the answer goes to the
standard output, and the exit code is 3 if the model waits for your approval.`,
		Example: `  superstep chat --model demo
  superstep chat --model openai:gpt-5 --dir ./notes "What is in my notes?"
  git diff | superstep chat --model ollama:llama3.2`,
		Args: cobra.ArbitraryArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error { return h.run(cmd, args) },
	}
	modelFlag(cmd, &h.model, "the model (default $"+models.Variable+", or the one that the conversation had)")
	f := cmd.Flags()
	f.StringVarP(&h.dir, "dir", "d", "", "the folder whose files the model may use (default the current one)")
	f.StringVarP(&h.thread, "thread", "t", "", "the conversation's ID (default chat:DIR)")
	f.BoolVarP(&h.yes, "yes", "y", false, "let files be written without asking")
	f.StringVar(&h.reject, "reject", "", "let no files be written, and tell the model this reason")
	f.BoolVar(&h.restart, "restart", false, "give up an unfinished turn and begin another with the message")
	f.BoolVar(&h.fresh, "fresh", false, "forget the conversation and begin a new one")
	_ = cmd.MarkFlagDirname("dir")
	return cmd
}

func (h *chatter) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	h.c = console.New(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	h.err = cmd.ErrOrStderr()
	h.g = chatGraph()
	h.json, _ = cmd.Flags().GetBool("json")
	h.rejects = cmd.Flags().Changed("reject")
	if h.rejects && h.yes {
		return cli.Usage("--yes and --reject exclude each other")
	}
	prompts := len(args) == 0 && h.c.CanAsk()
	if prompts && (h.json || h.restart) {
		return cli.Usage("--json and --restart are for one turn: give a message")
	}
	message, err := h.message(cmd, args, prompts)
	if err != nil {
		return err
	}
	if err := h.open(cmd); err != nil {
		return err
	}
	defer h.store.Close()
	h.stops = watchSignals(ctx)
	defer h.stops.end()
	if prompts {
		return h.talk()
	}
	return h.once(message)
}

// maxMessage is how long a message from a pipe may be, in bytes.
const maxMessage = 1 << 20

// message returns what the command line or a pipe says.
func (h *chatter) message(cmd *cobra.Command, args []string, prompts bool) (string, error) {
	if len(args) > 0 || prompts {
		return strings.TrimSpace(strings.Join(args, " ")), nil
	}
	data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxMessage+1))
	if err != nil {
		return "", fmt.Errorf("read the message: %w", err)
	}
	if len(data) > maxMessage {
		return "", cli.Usage("the message is longer than %s bytes", thousands(maxMessage))
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(data), "\uFFFD")), nil
}

// open finds the folder and the model, opens the store and loads the thread.
func (h *chatter) open(cmd *cobra.Command) (err error) {
	ctx, flags := cmd.Context(), cmd.Flags()
	h.again = "superstep chat"
	for _, name := range []string{"model", "dir", "thread", "store"} {
		if f := flags.Lookup(name); f != nil && f.Changed {
			h.again += " --" + name + " " + shellWord(f.Value.String())
		}
	}
	given := flags.Changed("dir")
	if h.dir, err = folder(h.dir); err != nil {
		return err
	}
	if h.thread == "" {
		h.thread = "chat:" + h.dir
	}
	wanted := h.model
	if wanted == "" {
		wanted = os.Getenv(models.Variable)
	}
	if wanted != "" {
		if err := checkModel(wanted); err != nil { // before a store is made for nothing
			return err
		}
	}
	url, _ := flags.GetString("store")
	if url == "" {
		url = "sqlite:superstep.db"
	}
	if wanted == "" && url == "sqlite:superstep.db" {
		if _, err := os.Stat("superstep.db"); err != nil {
			return checkModel("")
		}
	}
	if h.store, err = cli.OpenURL(ctx, url); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			h.store.Close()
		}
	}()
	if err := h.load(ctx); err != nil {
		return err
	}
	if h.snap != nil {
		if wanted == "" {
			wanted = h.snap.State.Model
		}
		if !given {
			if h.dir, err = folder(h.snap.State.dir()); err != nil {
				return err
			}
		}
	}
	h.model = wanted
	return checkModel(wanted)
}

// load loads the thread.
func (h *chatter) load(ctx context.Context) error {
	id := checkpoint.ThreadID(h.thread)
	rec, err := h.store.Head(ctx, checkpoint.Log{Thread: id})
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if rec.Graph != h.g.Name() {
		return cli.Hint(cli.Usage("thread %q belongs to graph %q, not %q", h.thread, rec.Graph, h.g.Name()), "choose another ID with --thread, or none")
	}
	if h.fresh {
		return h.store.Delete(ctx, id)
	}
	h.snap, err = h.g.State(ctx, h.base()...)
	return err
}

// folder returns the path of a folder, absolute and without symbolic links.
func folder(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", cli.Hint(cli.Usage("the folder %s cannot be used: %w", path, err), "name the folder whose files the model may read with --dir")
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", cli.Hint(cli.Usage("%s is not a folder", path), "name the folder whose files the model may read with --dir")
	}
	return abs, nil
}

func (h *chatter) base() []graph.Option {
	return []graph.Option{graph.WithCheckpointer(h.store), graph.Thread(h.thread)}
}

// unfinished reports whether the last turn isn't over.
func (h *chatter) unfinished() bool { return h.snap != nil && !h.snap.Done() }

// settle stores what the turn needs in the state.
func (h *chatter) settle(s *chatState) { s.Dir, s.Model = h.dir, h.model }

// events are those of a run.
type events func(ctx context.Context, opts []graph.Option) iter.Seq2[graph.Event, error]

// say begins a turn. One that is unfinished is given up.
func (h *chatter) say(text string) events {
	return func(ctx context.Context, opts []graph.Option) iter.Seq2[graph.Event, error] {
		if h.unfinished() {
			opts = append(opts, graph.Restart())
		}
		return h.g.Stream(ctx, func(s *chatState) { h.settle(s); s.say(text) }, opts...)
	}
}

// goOn lets an unfinished turn go on. It is nil if a question has to be answered
// first.
func (h *chatter) goOn() events {
	if _, _, waits, err := approvals(h.snap); waits || err != nil {
		return nil
	}
	return func(ctx context.Context, opts []graph.Option) iter.Seq2[graph.Event, error] {
		input := h.settle
		if s := &h.snap.State; s.Dir == h.dir && s.Model == h.model {
			input = nil
		}
		return h.g.Stream(ctx, input, opts...)
	}
}

// errWaits says that a turn waits for an approval that nobody gave.
var errWaits = errors.New("the turn waits for an approval")

// turn runs a turn until it is over, and shows it. Begin may be nil, if a question
// is open.
func (h *chatter) turn(w *shower, begin events) (err error) {
	ctx, end := h.stops.begin()
	defer end()
	defer func() {
		if err != nil && ctx.Err() != nil && !errors.Is(err, errWaits) {
			err = console.ErrStopped
		}
		if e := h.printResult(w, err); err == nil {
			err = e
		}
	}()
	for {
		var failed error
		if begin != nil {
			opts := append(h.base(), graph.LiveOrder(), graph.Modes(graph.ModeMessages, graph.ModeTools, graph.ModeTasks, graph.ModeCustom))
			for ev, err := range begin(ctx, opts) {
				if err == nil {
					err = w.event(ev)
				}
				if err != nil {
					failed = err
					break
				}
			}
			// What is stored is what counts, whatever has become of the context.
			snap, err := h.g.State(context.WithoutCancel(ctx), h.base()...)
			if err != nil && failed == nil {
				failed = err
			}
			if err == nil {
				h.snap = snap
			}
			if h.snap == nil {
				return failed
			}
		}
		if err := w.end(&h.snap.State, failed == nil && h.snap.Done()); failed == nil {
			failed = err
		}
		if failed != nil {
			return failed
		}
		id, req, waits, err := approvals(h.snap)
		if err != nil || !waits {
			return err
		}
		if !h.yes && !h.rejects && (h.json || !h.c.CanAsk()) {
			if h.json {
				return errors.Join(w.print(eventLine{Type: "interrupt", ID: id, Value: &req}), errWaits)
			}
			return errors.Join(h.show(h.snap.State.dir(), req), errWaits)
		}
		answer, err := h.decide(ctx, h.dir, req)
		if errors.Is(err, console.ErrNoAnswer) || errors.Is(err, console.ErrStopped) {
			return fmt.Errorf("%w: %w", errWaits, err)
		}
		if err != nil {
			return err
		}
		begin = func(ctx context.Context, opts []graph.Option) iter.Seq2[graph.Event, error] {
			return h.g.StreamResume(ctx, graph.Answers{id: answer}, append(opts, graph.Update(h.settle))...)
		}
	}
}

// printResult ends the events of a turn with --json.
func (h *chatter) printResult(w *shower, failed error) error {
	if !h.json || h.snap == nil {
		return nil
	}
	r := resultLine{Type: "result", Thread: h.thread, Model: h.model}
	switch {
	case errors.Is(failed, errWaits):
		r.Status = "interrupted"
	case cli.Code(failed) == cli.ExitStopped:
		r.Status = "stopped"
	case failed != nil:
		r.Status = "failed"
	default:
		r.Status, r.Reason = "done", h.snap.State.Stopped.Get()
		if m, ok := h.snap.State.answer(); ok {
			r.Answer = m.Text()
		}
	}
	return printJSON(w.out, r)
}

// once does one turn, after one that is unfinished.
func (h *chatter) once(message string) error {
	w := &shower{c: h.c, out: h.c.Out, live: h.c.OutTerminal(), json: h.json}
	if h.unfinished() && !(h.restart && message != "") {
		// A command that was stopped and is given again means the same turn.
		same := message == "" || message == h.snap.State.asked()
		if !h.json {
			h.noteGoingOn()
		}
		first := w
		if !same && !h.json {
			first = &shower{c: h.c, out: h.err, live: h.c.ErrTerminal()}
		}
		err := h.turn(first, h.goOn())
		if err != nil && !same && !h.json {
			h.c.Notef("Your message was not sent.")
		}
		if err != nil || same {
			return h.ended(err)
		}
	}
	if message == "" {
		return cli.Hint(cli.Usage("there is no message"), "for example: %s %s", h.again, shellWord("what is 6*7"))
	}
	return h.ended(h.turn(w, h.say(message)))
}

// noteGoingOn says that an unfinished turn goes on.
func (h *chatter) noteGoingOn() {
	what := "was not answered yet."
	if _, _, waits, _ := approvals(h.snap); waits {
		what = "waits for your approval."
	}
	h.c.Notef("Going on: %q %s", clean(console.Fit(h.snap.State.asked(), 60)), what)
}

// ended turns the error of a turn into that of the command, and says how to go
// on.
func (h *chatter) ended(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errWaits):
		if !h.json {
			h.c.Notef("It waits for your approval. To be asked:\n  %s\nOr without being asked:\n  %s --yes\n  %s --reject REASON", h.again, h.again, h.again)
		}
		return cli.ExitCode(cli.ExitInterrupted)
	case cli.Code(err) == cli.ExitStopped:
		if !h.json {
			h.c.Notef("Stopped. To go on:\n  %s", h.again)
		}
		return cli.ExitCode(cli.ExitStopped)
	case cli.Code(err) != cli.ExitError:
		return err
	}
	hint := "What was done stays done; to try again:\n  " + h.again
	if more := modelHint(err); more != "" {
		hint = more + "\n" + hint
	}
	return cli.Hint(err, "%s", hint)
}

// talk has a conversation at the terminal.
func (h *chatter) talk() error {
	h.c.Notef("Chat with %s about the files in %s\nCtrl-C stops an answer, Ctrl-D ends the chat.", clean(h.model), clean(h.dir))
	if h.model == demoModel {
		h.c.Notef("This is the demonstration model. It understands:\n%s", demomodel.Help)
	}
	if h.snap != nil {
		h.c.Notef("The conversation has %s so far.", count(h.snap.State.Messages.Len(), "message"))
	}
	resume := h.unfinished()
	for {
		text := ""
		if resume {
			h.noteGoingOn()
		} else {
			var err error
			text, err = h.c.Ask(h.stops.ctx, "\nyou: ")
			if errors.Is(err, console.ErrStopped) || errors.Is(err, console.ErrNoAnswer) {
				return h.left()
			}
			if err != nil {
				return err
			}
		}
		resume = false
		w := &shower{c: h.c, out: h.c.Out, live: h.c.OutTerminal()}
		var err error
		switch {
		case text != "":
			err = h.turn(w, h.say(text))
		case h.unfinished():
			err = h.turn(w, h.goOn())
		}
		if h.stops.ctx.Err() != nil || errors.Is(err, console.ErrNoAnswer) {
			return h.left()
		}
		h.after(err)
	}
}

// after says what became of a turn that isn't over, and what to do.
func (h *chatter) after(err error) {
	const what = "Press Enter to go on with it, or say something else."
	switch {
	case err == nil:
	case errors.Is(err, errWaits):
		h.c.Notef("It still waits. Press Enter to be asked again, or say something else: then nothing is written.")
	case cli.Code(err) == cli.ExitStopped:
		h.c.Notef("Stopped. %s", what)
	default:
		h.c.Notef("%s", clean("error: "+err.Error()))
		if hint := modelHint(err); hint != "" {
			h.c.Notef("  %s", hint)
		}
		if h.unfinished() {
			h.c.Notef("%s", what)
		}
	}
}

// left says how the conversation can go on, and ends the command.
func (h *chatter) left() error {
	if !h.unfinished() {
		return nil
	}
	if _, req, waits, err := approvals(h.snap); err == nil && waits && len(req.Actions) > 0 {
		h.c.Notef("The model waits for your approval. To be asked again:\n  %s", h.again)
		return cli.ExitCode(cli.ExitInterrupted)
	}
	h.c.Notef("The last turn is not over. To go on:\n  %s", h.again)
	return cli.ExitCode(cli.ExitStopped)
}
