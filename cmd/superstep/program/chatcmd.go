package program

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/cmd/superstep/internal/demomodel"
	"github.com/superstep-dev/superstep/model/models"
)

// chatter is one call of "chat".
type chatter struct {
	model, dir, thread, graph, reject string
	yes, fresh, restart               bool

	wanted string // model that was named; empty: that of the conversation
	given  bool   // the folder was
}

func chatCommand() *cobra.Command {
	h := &chatter{}
	cmd := &cobra.Command{
		Use: "chat [URL|GRAPH] [MESSAGE...]", GroupID: "run", Short: "Talk with a model that reads your files, calculates, and writes files if you agree; or with a graph",
		Long: `Talk with a language model. It reads and lists the text files of a folder, calculates
and knows the time; before it writes a file, you are shown what and asked.

The model is named by --model or ` + models.Variable + `:
  openai:MODEL  openai-responses:MODEL  anthropic:MODEL  gemini:MODEL  ollama:MODEL
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
standard output, and the exit code is 3 if the model waits for your approval.

With the address of a server, or the name of a graph whose state has messages, the
chat is with that; --graph names the graph of a server, or any. Then --model and --dir
have no meaning, and a conversation is a new one unless --thread says otherwise.`,
		Example: `  superstep chat --model demo
  superstep chat --model openai:gpt-5 --dir ./notes "What is in my notes?"
  git diff | superstep chat --model ollama:llama3.2
  superstep chat http://localhost:8123 --graph assistant`,
		Args: cobra.ArbitraryArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error { return h.run(cmd, args) },
	}
	modelFlag(cmd, &h.model, "the model (default $"+models.Variable+", or the one that the conversation had)")
	f := cmd.Flags()
	f.StringVarP(&h.dir, "dir", "d", "", "the folder whose files the model may use (default the current one)")
	f.StringVarP(&h.thread, "thread", "t", "", "the conversation's ID (default chat:DIR)")
	f.StringVarP(&h.graph, "graph", "g", "", "the graph to talk with, here or on a server")
	f.BoolVarP(&h.yes, "yes", "y", false, "let files be written, and other calls of tools be made, without asking")
	f.StringVar(&h.reject, "reject", "", "let no files be written, and tell the model this reason")
	f.BoolVar(&h.restart, "restart", false, "give up an unfinished turn and begin another with the message")
	f.BoolVar(&h.fresh, "fresh", false, "forget the conversation and begin a new one")
	_ = cmd.MarkFlagDirname("dir")
	return cli.OverServer(cmd)
}

// talking are the graphs of this program that can be named without --graph: other
// words are a message.
var talking = []string{"assistant", "chat"}

func (h *chatter) run(cmd *cobra.Command, args []string) error {
	flags := cmd.Flags()
	c := cli.Conversation{Thread: h.thread, Yes: h.yes, Restart: h.restart, Fresh: h.fresh, Hint: modelHint}
	if flags.Changed("reject") {
		c.Reject = &h.reject
	}
	named := flags.Changed("graph") || flags.Changed("url")
	if named || len(args) > 0 && (cli.IsURL(args[0]) || slices.Contains(talking, args[0])) {
		for _, name := range []string{"model", "dir", "fresh"} {
			if flags.Changed(name) {
				return cli.Usage("--%s is for the chat about files, without a URL and without the name of a graph", name)
			}
		}
		if flags.Changed("url") && h.graph == "" && (len(args) == 0 || !slices.Contains(talking, args[0])) {
			c.Message = strings.TrimSpace(strings.Join(args, " "))
			return c.Run(cmd)
		}
		return c.Arguments(cmd, args, h.graph).Run(cmd)
	}
	c.Here, c.Graph, c.Message = true, "chat", strings.TrimSpace(strings.Join(args, " "))
	c.Begin, c.Review = h.begin, h.review
	if err := h.prepare(cmd, &c); err != nil {
		return err
	}
	return c.Run(cmd)
}

// prepare finds the folder and the model, as far as they don't depend on the
// thread.
func (h *chatter) prepare(cmd *cobra.Command, c *cli.Conversation) (err error) {
	flags := cmd.Flags()
	c.Again = "superstep chat"
	for _, name := range []string{"model", "dir", "thread", "store"} {
		if f := flags.Lookup(name); f != nil && f.Changed {
			c.Again += " --" + name + " " + shellWord(f.Value.String())
		}
	}
	h.given = flags.Changed("dir")
	if h.dir, err = folder(h.dir); err != nil {
		return err
	}
	if c.Thread == "" {
		c.Thread = "chat:" + h.dir
	}
	h.wanted = h.model
	if h.wanted == "" {
		h.wanted = os.Getenv(models.Variable)
	}
	if h.wanted != "" {
		return checkModel(h.wanted) // before a store is made for nothing
	}
	if url, _ := flags.GetString("store"); url == "" || url == "sqlite:superstep.db" {
		if _, err := os.Stat("superstep.db"); err != nil {
			return checkModel("")
		}
	}
	return nil
}

// begin settles the folder and the model, which the thread may have.
func (h *chatter) begin(state json.RawMessage) (cli.Opening, error) {
	var o cli.Opening
	if state != nil {
		var s struct{ Dir, Model string }
		if err := json.Unmarshal(state, &s); err != nil {
			return o, err
		}
		if h.wanted == "" {
			h.wanted = s.Model
		}
		if !h.given {
			var err error
			if h.dir, err = folder(cmp.Or(s.Dir, ".")); err != nil {
				return o, err
			}
		}
	}
	if err := checkModel(h.wanted); err != nil {
		return o, err
	}
	o.Model = h.wanted
	o.Intro = fmt.Sprintf("Chat with %s about the files in %s\nCtrl-C stops an answer, Ctrl-D ends the chat.", o.Model, h.dir)
	if o.Model == demoModel {
		o.Intro += "\nThis is the demonstration model. It understands:\n" + demomodel.Help
	}
	var err error
	o.Input, err = json.Marshal(map[string]string{"dir": h.dir, "model": o.Model})
	return o, err
}

// review says what a call of write_file would do.
func (h *chatter) review(action agent.ActionRequest) (cli.Review, error) {
	p, err := propose(h.dir, action)
	return cli.Review{Title: p.title, Lines: p.lines, Question: "Write it?", Rejected: rejected}, err
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

// shellWord quotes a word for a shell, if that is needed.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:,@%+", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
