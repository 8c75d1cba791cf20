package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
)

// Conversation is what the command chat has with a graph whose state has messages,
// for a program with a command of its own for that. The zero value talks with the
// only graph there is, on a new thread.
type Conversation struct {
	URL     string // of a server; empty: the place that the command line names
	Here    bool   // in the store, although the environment names a server
	Graph   string // empty: the only one
	Thread  string // empty: a new one
	Message string // what to say in one turn; empty: what a pipe says, or else what is typed at the prompt

	Yes     bool    // make calls of tools that need an approval without asking
	Reject  *string // make none, and tell the model this reason
	Restart bool    // give up an unfinished turn
	Fresh   bool    // delete the thread first, if it exists

	// Again is the command that goes on with the conversation, which is shown.
	// Empty: that of the command chat.
	Again string

	// Begin, if set, is called when the thread was loaded, with its state in JSON;
	// nil if it is new.
	Begin func(state json.RawMessage) (Opening, error)

	// Review, if set, says how a call of a tool that needs an approval is shown.
	Review func(agent.ActionRequest) (Review, error)

	// Hint, if set, says what to do about an error; empty: nothing.
	Hint func(error) string
}

// Opening is how a [Conversation] begins.
type Opening struct {
	Input json.RawMessage // an update of the state, an object, that each turn makes; nil: none
	Intro string          // is shown before the first prompt; empty: with whom one talks
	Model string          // shown with --json
}

// Review is a call of a tool as it is shown to whoever decides about it.
type Review struct {
	Title    string   // what would be done: "change a.txt"
	Lines    []string // more about it
	Question string   // "Write it?"; empty: "Make this call?"

	// Rejected, if set, is what the model is told of a rejection for a reason, which
	// may be empty.
	Rejected func(reason string) string
}

func (a *app) chatCommand() *cobra.Command {
	var c Conversation
	var name, reject string
	cmd := &cobra.Command{
		Use: "chat [URL|GRAPH] [MESSAGE...]", GroupID: "run", Short: "Talk with a graph whose state has messages, here or on a server",
		Long: `Talk with a graph whose state has messages: an agent of this program, or of a server.
What the model says is shown as it says it, with the tools that it calls; calls that
need an approval, and other questions, are asked here.

GRAPH may be left out where there is only one; beside a URL it is --graph.

The conversation is a thread: --thread goes on with one, asks again what waits for an
answer, and finishes a turn that was stopped. Without it a new one is begun, and its
ID shown.

Without a message there is a prompt, if there is a terminal; a message is one line.
Ctrl-C stops an answer, a second one ends the chat, and so does Ctrl-D. A message
that is an argument, or comes from a pipe, is one turn: the answer goes to the
standard output, and the exit code is 3 if something waits for an answer.`,
		Example: fmt.Sprintf("  %[1]s chat assistant\n  %[1]s chat http://localhost:8123 --graph assistant\n  %[1]s chat assistant --thread ID what is 6*7", a.name),
		Args:    cobra.ArbitraryArgs, ValidArgsFunction: a.completeGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("reject") {
				c.Reject = &reject
			}
			return c.Arguments(cmd, args, name).Run(cmd)
		},
	}
	a.threadFlag(cmd, &c.Thread)
	f := cmd.Flags()
	f.StringVarP(&name, "graph", "g", "", "the graph; then all arguments after the URL are the message")
	f.BoolVarP(&c.Yes, "yes", "y", false, "make calls of tools without asking")
	f.StringVar(&reject, "reject", "", "make no calls that need an approval, and tell the model this reason")
	f.BoolVar(&c.Restart, "restart", false, "give up an unfinished turn and begin another with the message")
	return OverServer(a.indexFlags(cmd))
}

// Arguments returns the conversation with what the arguments of the command chat
// say: an URL or, unless it is named already, a graph, and a message.
func (c Conversation) Arguments(cmd *cobra.Command, args []string, graph string) Conversation {
	c.Graph = graph
	switch {
	case len(args) > 0 && IsURL(args[0]):
		c.URL, args = args[0], args[1:]
	case len(args) > 0 && graph == "":
		c.Graph, args = args[0], args[1:]
	}
	c.Message = strings.TrimSpace(strings.Join(args, " "))
	return c
}

// IsURL reports whether an argument is meant as the address of a server: a URL, or
// a HOST:PORT that lacks the scheme, which [Conversation.Run] says.
func IsURL(arg string) bool {
	return strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://") || bareAddress.MatchString(arg)
}

// bareAddress is a local host, or a name or an address with dots, and a port.
var bareAddress = regexp.MustCompile(`^(localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+):[0-9]{1,5}/?$`)

// Run has the conversation, on the streams and with the flags --store, --url and
// --json of a command that [New] knows.
func (c Conversation) Run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	a, ok := ctx.Value(appKey{}).(*app)
	if !ok {
		return errors.New("cli: a conversation needs a command that was added with cli.Command")
	}
	h := &chatter{Conversation: c, a: a, c: a.console, err: cmd.ErrOrStderr(), json: a.json}
	if h.Reject != nil && h.Yes {
		return Usage("--yes and --reject exclude each other")
	}
	prompts := h.Message == "" && h.c.CanAsk()
	if prompts && (h.json || h.Restart) {
		return Usage("--json and --restart are for one turn: give a message")
	}
	if h.Message == "" && !prompts {
		var err error
		if h.Message, err = piped(cmd); err != nil {
			return err
		}
	}
	defer a.close() // other commands are the program's own
	if err := h.open(ctx); err != nil {
		return err
	}
	h.stops = watchSignals(ctx)
	defer h.stops.end()
	if prompts {
		return h.talk()
	}
	return h.once(h.Message)
}

// maxMessage is how long a message from a pipe may be, in bytes.
const maxMessage = 1 << 20

// piped returns what a pipe says.
func piped(cmd *cobra.Command) (string, error) {
	data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxMessage+1))
	if err != nil {
		return "", fmt.Errorf("read the message: %w", err)
	}
	if len(data) > maxMessage {
		return "", Usage("the message is longer than %d bytes", maxMessage)
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(data), "\uFFFD")), nil
}

// chatter is one call of chat.
type chatter struct {
	Conversation
	a       *app
	p       place
	t       target
	c       *console.Console
	err     io.Writer
	json    bool
	given   bool // the thread, or the command that goes on
	opening Opening
	stops   *stops
	snap    *snapshot // nil: the thread is new
	said    dialog    // of snap
	unsure  bool      // what the thread has become since is not known
}

// open finds the place, the graph and the thread.
func (h *chatter) open(ctx context.Context) (err error) {
	if h.URL != "" {
		if h.a.urlFlag != "" || h.a.storeGiven {
			return Usage("a URL, --url and --store exclude each other")
		}
		h.a.urlFlag = h.URL
	}
	if h.Here {
		h.p = &local{a: h.a}
	} else if h.p, err = h.a.place(); err != nil {
		return err
	}
	if h.t, err = h.graph(ctx); err != nil {
		return err
	}
	if ok, err := h.t.talks(ctx); err != nil {
		return err
	} else if !ok {
		return &usageError{fmt.Errorf("the state of graph %q has no messages to chat with", h.t.info().name),
			fmt.Sprintf("start it with %s run %s%s", h.a.name, quote(h.t.info().name), h.p.arg())}
	}
	if err := h.p.open(ctx, true); err != nil {
		return err
	}
	h.given = h.Again != "" || h.Thread != ""
	if h.Thread != "" {
		there, err := owned(ctx, h.p, h.Thread, h.t)
		if err != nil {
			return err
		}
		if there && h.Fresh {
			there = false
			if err := h.p.deleteThread(ctx, h.Thread, false); err != nil {
				return err
			}
		}
		if there {
			s, err := h.t.state(ctx, h.Thread, "")
			if err != nil {
				return err
			}
			h.take(s)
		}
	}
	if h.Begin == nil {
		return nil
	}
	var state json.RawMessage
	if h.snap != nil {
		state = h.snap.State
	}
	h.opening, err = h.Begin(state)
	return err
}

// graph finds the graph.
func (h *chatter) graph(ctx context.Context) (target, error) {
	if h.Graph != "" {
		return h.p.graph(ctx, h.Graph)
	}
	list, err := h.p.graphs(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range list {
		names = append(names, g.Name)
	}
	switch len(names) {
	case 0:
		return nil, &usageError{fmt.Errorf("%s has no graphs", h.p.label()), ""}
	case 1:
		return h.p.graph(ctx, names[0])
	}
	return nil, &usageError{errors.New("there are several graphs: name the one to talk with"), "--graph with one of: " + strings.Join(names, ", ")}
}

// again is the command that goes on with the conversation.
func (h *chatter) again() string {
	if h.Again != "" {
		return h.Again
	}
	cmd := h.a.name + " chat"
	switch {
	case h.URL != "":
		c, err := client.New(h.URL)
		if err == nil {
			cmd += " " + quote(c.URL())
		}
		cmd += " --graph " + quote(h.t.info().name)
	default:
		cmd += " " + quote(h.t.info().name) + h.p.arg()
	}
	if h.Thread != "" {
		cmd += " --thread " + quote(h.Thread)
	}
	return cmd
}

// look loads the thread.
func (h *chatter) look(ctx context.Context) error {
	s, err := cameOf(ctx, h.t, h.Thread)
	// A thread that isn't there has had no run.
	h.unsure = err != nil && !missing(err)
	if err == nil {
		h.take(s)
	}
	return err
}

// take notes what the thread has become.
func (h *chatter) take(s *snapshot) {
	h.snap, h.said = s, dialogOf(s.State)
}

// unfinished reports whether the last turn isn't over.
func (h *chatter) unfinished() bool { return h.snap != nil && h.snap.Status != "done" }

// asks returns the questions that wait for an answer.
func (h *chatter) asks() []question {
	if h.snap == nil {
		return nil
	}
	var out []question
	for _, q := range h.snap.Interrupts {
		if q.When == "inside" {
			out = append(out, q)
		}
	}
	return out
}

// begun is a run of the graph.
type begun func(ctx context.Context, c call) iter.Seq2[event, error]

// say begins a turn. One that is unfinished is given up; what was asked in it stays
// part of the conversation.
func (h *chatter) say(text string) begun {
	return func(ctx context.Context, c call) iter.Seq2[event, error] {
		c.restart = h.unfinished()
		update := map[string]any{}
		var said []humanMessage
		if h.said.UserInput != "" {
			said = append(said, humanMessage{"human", h.said.UserInput})
			update["user_input"] = ""
		}
		update["messages"] = append(said, humanMessage{"human", text})
		var own map[string]json.RawMessage
		if err := json.Unmarshal(h.opening.Input, &own); err == nil {
			for k, v := range own {
				update[k] = v
			}
		}
		input, err := json.Marshal(update)
		if err == nil && h.Thread == "" {
			h.Thread, err = h.p.newThread(ctx, h.t)
		}
		if err != nil {
			return func(yield func(event, error) bool) { yield(event{}, err) }
		}
		c.thread = h.Thread
		return h.t.start(ctx, c, input)
	}
}

// humanMessage is what a person says, as graphs read it.
type humanMessage struct {
	Type    string `json:"type"`
	Content string `json:"content"`
}

// goOn lets an unfinished turn go on. It is nil if a question has to be answered
// first.
func (h *chatter) goOn() begun {
	if len(h.asks()) > 0 {
		return nil
	}
	return func(ctx context.Context, c call) iter.Seq2[event, error] {
		return h.t.start(ctx, c, h.changed())
	}
}

// changed returns the update that each turn makes, nil if the state has it already.
func (h *chatter) changed() json.RawMessage {
	var own, state map[string]json.RawMessage
	if json.Unmarshal(h.opening.Input, &own) != nil || json.Unmarshal(h.snap.State, &state) != nil {
		return h.opening.Input
	}
	for k, v := range own {
		if d, err := differences(state[k], v); err != nil || len(d) > 0 {
			return h.opening.Input
		}
	}
	return nil
}

// errWaits says that a turn waits for an answer that nobody gave.
var errWaits = errors.New("the turn waits for an answer")

// chatModes are the events that a chat shows.
const chatModes = graph.ModeMessages | graph.ModeTools | graph.ModeTasks | graph.ModeCustom

// turn runs a turn until it is over, and shows it. Begin may be nil, if a question
// is open.
func (h *chatter) turn(w *shower, begin begun) (err error) {
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
	w.known = h.said.ids()
	for {
		var failed error
		if begin != nil {
			for ev, err := range begin(ctx, call{thread: h.Thread, modes: chatModes, lost: h.a.noteLost}) {
				if err == nil {
					err = w.event(ev.Event)
				}
				if err != nil {
					failed = err
					break
				}
			}
			if h.Thread == "" {
				return failed
			}
			if err := h.look(ctx); err != nil && failed == nil {
				failed = err
			}
			if h.snap == nil {
				return failed
			}
		}
		if err := w.end(&h.said, failed == nil && !h.unfinished()); failed == nil {
			failed = err
		}
		if failed != nil && !wasRefused(failed) {
			return failed
		}
		if failed != nil && !h.c.CanAsk() {
			return failed
		}
		if failed != nil {
			h.c.Notef("%s", foreign(failed.Error()))
		}
		open := h.asks()
		if len(open) == 0 {
			return nil
		}
		answers, err := h.answer(ctx, open)
		if errors.Is(err, errAsk) {
			return errors.Join(h.show(w, open), errWaits)
		}
		if errors.Is(err, console.ErrNoAnswer) || errors.Is(err, console.ErrStopped) {
			return fmt.Errorf("%w: %w", errWaits, err)
		}
		if err != nil {
			return err
		}
		begin = func(ctx context.Context, c call) iter.Seq2[event, error] {
			return h.t.resume(ctx, c, answers, h.changed())
		}
	}
}

// printResult ends the events of a turn with --json.
func (h *chatter) printResult(w *shower, failed error) error {
	if !h.json || h.snap == nil {
		return nil
	}
	r := resultLine{Type: "result", Thread: h.Thread, Model: h.opening.Model}
	switch {
	case errors.Is(failed, errWaits):
		r.Status = "interrupted"
	case Code(failed) == ExitStopped:
		r.Status = "stopped"
	case failed != nil:
		r.Status = "failed"
	case h.unfinished():
		r.Status = h.snap.Status
	default:
		r.Status, r.Reason = "done", h.said.Stopped
		if m, ok := h.said.answer(); ok {
			r.Answer = m.Text()
		}
	}
	return writeJSON(w.out, r, false)
}

// once does one turn, after one that is unfinished.
func (h *chatter) once(message string) error {
	w := &shower{c: h.c, out: h.c.Out, live: h.c.OutTerminal(), json: h.json}
	if h.unfinished() && !(h.Restart && message != "") {
		// A command that was stopped and is given again means the same turn.
		same := message == "" || message == h.said.asked()
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
		return &usageError{errors.New("there is no message"), fmt.Sprintf("for example: %s %s", h.again(), quote("what is 6*7"))}
	}
	return h.ended(h.turn(w, h.say(message)))
}

// noteGoingOn says that an unfinished turn goes on.
func (h *chatter) noteGoingOn() {
	what := "was not answered yet."
	switch open := h.asks(); {
	case onlyApprovals(open):
		what = "waits for your approval."
	case len(open) > 0:
		what = "waits for your answer."
	}
	h.c.Notef("Going on: %q %s", clean(console.Fit(h.said.asked(), 60)), what)
}

// ended turns the error of a turn into that of the command, and says how to go
// on.
func (h *chatter) ended(err error) error {
	switch {
	case err == nil && h.unfinished():
		if !h.json {
			h.c.Notef("%s To go on:\n  %s", h.rests(), h.again())
		}
		return ExitCode(ExitInterrupted)
	case err == nil:
		if !h.given && !h.json {
			h.c.Notef("To go on with this conversation:\n  %s", h.again())
		}
		return nil
	case errors.Is(err, errWaits):
		switch {
		case h.json:
		case onlyApprovals(h.asks()):
			h.c.Notef("It waits for your approval. To be asked:\n  %[1]s\nOr without being asked:\n  %[1]s --yes\n  %[1]s --reject REASON", h.again())
		default:
			h.c.Notef("It waits for your answer. To be asked at a terminal:\n  %s\nOr without:\n  %s resume%s --thread %s --answer JSON", h.again(), h.a.name, h.p.arg(), quote(h.Thread))
		}
		return ExitCode(ExitInterrupted)
	case Code(err) == ExitStopped:
		if !h.json {
			h.c.Notef("Stopped. To go on:\n  %s", h.again())
		}
		return ExitCode(ExitStopped)
	case Code(err) != ExitError || h.Thread == "":
		return err
	}
	hint := "What was done stays done; to try again:\n  " + h.again()
	if h.Hint != nil {
		if more := h.Hint(err); more != "" {
			hint = more + "\n" + hint
		}
	}
	var known *hinted
	if errors.As(err, &known) {
		hint = known.hint + "\n" + hint
	}
	return Hint(err, "%s", hint)
}

// rests says why a turn isn't over although nothing failed and nothing is asked.
func (h *chatter) rests() string {
	switch h.snap.Status {
	case "failed":
		return "The turn failed."
	case "interrupted", "waiting":
		return "The turn rests: at a breakpoint, or until a time or an event."
	}
	return "The turn is not over."
}

// talk has a conversation at the terminal.
func (h *chatter) talk() error {
	intro := h.opening.Intro
	if intro == "" {
		intro = fmt.Sprintf("Chat with %s, %s", h.t.info().name, h.p.label())
	}
	h.c.Notef("%s", clean(intro))
	if h.snap != nil {
		h.c.Notef("The conversation has %s so far.", console.Count(len(h.said.Messages), "message"))
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
		if h.unsure || text != "" && h.snap != nil { // others may have been here
			known := h.unsure || h.unfinished()
			err = h.look(h.stops.ctx)
			if err != nil && !h.unsure { // the thread is gone: it begins anew
				h.snap, h.said, err = nil, dialog{}, nil
			}
			if err == nil && !known && h.unfinished() {
				h.c.Notef("Your message was not sent: the conversation has gone on elsewhere.")
				resume = true
				continue
			}
		}
		switch {
		case err != nil:
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
	case err == nil && h.unfinished():
		h.c.Notef("%s %s", h.rests(), what)
	case err == nil:
	case errors.Is(err, errWaits):
		h.c.Notef("It still waits. Press Enter to be asked again, or say something else, which gives it up.")
	case Code(err) == ExitStopped:
		h.c.Notef("Stopped. %s", what)
	default:
		h.c.Notef("%s", clean("error: "+err.Error()))
		hint := hintOf(err)
		if h.Hint != nil && hint == "" {
			hint = h.Hint(err)
		}
		if hint != "" {
			h.c.Notef("%s", clean(indent(hint, "  ")))
		}
		if h.unfinished() {
			h.c.Notef("%s", what)
		}
	}
}

// left says how the conversation can go on, and ends the command.
func (h *chatter) left() error {
	open := h.asks()
	switch {
	case h.unsure && h.Thread != "":
		h.c.Notef("What became of the last turn is not known. To go on:\n  %s", h.again())
		return ExitCode(ExitStopped)
	case !h.unfinished():
		if !h.given && h.snap != nil {
			h.c.Notef("To go on with this conversation:\n  %s", h.again())
		}
		return nil
	case onlyApprovals(open):
		h.c.Notef("The model waits for your approval. To be asked again:\n  %s", h.again())
		return ExitCode(ExitInterrupted)
	case len(open) > 0:
		h.c.Notef("It waits for your answer. To be asked again:\n  %s", h.again())
		return ExitCode(ExitInterrupted)
	}
	h.c.Notef("The last turn is not over. To go on:\n  %s", h.again())
	return ExitCode(ExitStopped)
}

// clean makes text of models and files safe to show. A carriage return would
// write over what stands before it.
func clean(text string) string { return console.Clean(strings.ReplaceAll(text, "\r\n", "\n")) }
