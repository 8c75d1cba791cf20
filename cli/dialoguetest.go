package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/dialogue/dialoguetest"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/internal/console"
)

// conversations are the flags of the commands that run conversations.
type conversations struct {
	run     string
	ways    []string
	min     []string
	actions []string
}

// ways are how conversations are run, by what they are called.
var ways = map[string]func(*dialoguetest.Runner){
	"once":    func(*dialoguetest.Runner) {},
	"restart": func(r *dialoguetest.Runner) { r.Restart = true },
	"twice":   func(r *dialoguetest.Runner) { r.Twice = true },
	"beside":  func(r *dialoguetest.Runner) { r.Beside = true },
}

var wayNames = []string{"once", "restart", "twice", "beside"}

func (c *conversations) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.run, "run", "", "run only the conversations whose id matches this regular expression")
	cmd.Flags().StringSliceVar(&c.ways, "ways", []string{"once"}, "how to run them: "+strings.Join(wayNames, ", "))
	cmd.Flags().StringSliceVar(&c.min, "min", nil, "fail below this coverage in percent: 80 for all, steps=100 for a class")
	cmd.Flags().StringArrayVar(&c.actions, "actions", nil, "URL of a server with the code of actions and validators, for what has no stub; may be repeated")
}

func (a *app) testDialogueCommand() *cobra.Command {
	var c conversations
	coverage := false
	cmd := &cobra.Command{
		Use: "test PATH [FILE...]", Short: "Run conversations that are written down",
		Long: `Run conversations with an assistant and compare what is seen. FILEs hold conversations;
without them they are those of the folder tests beside the assistant's files. No model is
called: what a conversation says is understood. Actions without code here need a stub in
the conversation, or --actions.

With --ways the conversations are run also with the state written as JSON and read again
after each step (restart), with every message delivered twice (twice), and with a second
user who says the same in between (beside). The exit code is 1 if anything isn't as
expected.`,
		Args: args(1, 1<<20, "PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.converse(cmd.Context(), c, args, coverage || len(c.min) > 0, false)
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&coverage, "coverage", false, "say how much of the assistant was reached")
	return cmd
}

func (a *app) coverageCommand() *cobra.Command {
	var c conversations
	cmd := &cobra.Command{
		Use: "coverage PATH [FILE...]", Short: "Say what no conversation reaches",
		Long: `Run conversations as the command test does, and list what none of them reaches: steps,
sides of branches, exits (a no, a deadline, an error), repairs of the conversation and
responses in each language. Patterns, most of which are built in, are not counted with
all. A collect whose slots were always filled before is skipped:
it counts neither as reached nor as missed.`,
		Args: args(1, 1<<20, "PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.converse(cmd.Context(), c, args, true, true)
		},
	}
	c.flags(cmd)
	return cmd
}

// conversation is one conversation out of a file.
type conversation struct {
	file string
	dialoguetest.Scenario
}

// conversed is what came of one.
type conversed struct {
	ID       string   `json:"id"`
	File     string   `json:"file"`
	Way      string   `json:"way"`
	Passed   bool     `json:"passed"`
	Failures []string `json:"failures,omitempty"`
}

// converse runs conversations and tells what came of them.
func (a *app) converse(ctx context.Context, c conversations, args []string, coverage, list bool) error {
	only, err := regexp.Compile(c.run)
	if err != nil {
		return &usageError{fmt.Errorf("--run %s: %w", c.run, err), "it is a regular expression of Go"}
	}
	for _, way := range c.ways {
		if ways[way] == nil {
			return &usageError{fmt.Errorf("--ways: there is no way %q", way), "ways: " + strings.Join(wayNames, ", ")}
		}
	}
	floors, err := minima(c.min)
	if err != nil {
		return err
	}
	path := args[0]
	p, err := compileAt(path)
	if err != nil {
		return err
	}
	files, err := assistant(path)
	if err != nil {
		return err
	}
	all, err := read(path, args[1:])
	if err != nil {
		return err
	}
	code, err := a.code(ctx, c, p)
	if err != nil {
		return err
	}
	if names := validators(p); code == nil && len(names) > 0 {
		a.console.Notef("These validators have no code here and take every value: %s. --actions names a server that has it.", strings.Join(names, ", "))
	}
	var cover *dialoguetest.Coverage
	if coverage {
		cover = &dialoguetest.Coverage{}
	}
	var scenarios []dialoguetest.Scenario
	for _, s := range all {
		scenarios = append(scenarios, s.Scenario)
	}
	var done []conversed
	failed := 0
	for _, way := range c.ways {
		for _, s := range all {
			if !only.MatchString(s.ID) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			r := &dialoguetest.Runner{Coverage: cover, Actions: code, Assistant: func(name string) ([]program.File, error) {
				if name == "" {
					return files, nil
				}
				return assistant(filepath.Join(filepath.Dir(s.file), name))
			}}
			ways[way](r)
			d := conversed{ID: s.ID, File: s.file, Way: way, Failures: r.Run(s.Scenario, scenarios)}
			if d.Passed = len(d.Failures) == 0; !d.Passed {
				failed++
			}
			done = append(done, d)
			if !a.json {
				a.showConversation(d, len(c.ways) > 1)
			}
		}
	}
	if len(done) == 0 {
		return &usageError{fmt.Errorf("no conversation matches --run %s", c.run), ""}
	}
	var items []dialoguetest.Item
	var counts []dialoguetest.Count
	if coverage {
		items = cover.Of(p)
		counts = dialoguetest.Counts(items)
	}
	low := below(counts, floors)
	switch {
	case a.json:
		out := map[string]any{"conversations": done, "passed": len(done) - failed, "failed": failed}
		if coverage {
			out["coverage"], out["items"] = counts, items
		}
		if err := writeJSON(a.console.Out, out, true); err != nil {
			return err
		}
	default:
		if failed > 0 {
			fmt.Fprintf(a.console.Out, "FAIL  %d of %s\n", failed, console.Count(len(done), "conversation"))
		} else {
			fmt.Fprintf(a.console.Out, "ok    %s\n", console.Count(len(done), "conversation"))
		}
		if coverage {
			a.showCoverage(items, counts, list)
		}
	}
	for _, l := range low {
		a.console.Notef("%s", l)
	}
	if failed > 0 || len(low) > 0 {
		return ExitCode(ExitError)
	}
	return nil
}

// read reads the files of conversations, those of the folder tests beside the assistant
// if none are named.
func read(path string, files []string) ([]conversation, error) {
	if len(files) == 0 {
		dir := path
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			dir = filepath.Dir(path)
		}
		entries, err := os.ReadDir(filepath.Join(dir, "tests"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
				files = append(files, filepath.Join(dir, "tests", e.Name()))
			}
		}
		if len(files) == 0 {
			return nil, Hint(fmt.Errorf("%s has no conversations", filepath.Join(dir, "tests")), "write them to *.yaml files there, or name files")
		}
	}
	var all []conversation
	places := map[string]string{}
	for _, file := range files {
		f, err := program.ReadFile(os.DirFS(filepath.Dir(file)), filepath.Base(file))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(f.Text) > program.MaxFileSize {
			return nil, fmt.Errorf("%s: the file has more than %d bytes; split it", file, program.MaxFileSize)
		}
		list, err := dialoguetest.Parse(f.Text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for i, s := range list {
			switch {
			case s.ID == "":
				return nil, fmt.Errorf("%s: the conversation %d has no id", file, i+1)
			case places[s.ID] != "":
				return nil, fmt.Errorf("%s: the conversation %q is in %s too; rename one", file, s.ID, places[s.ID])
			}
			places[s.ID] = file
			all = append(all, conversation{file, s})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: there is no conversation in it", strings.Join(files, ", "))
	}
	return all, nil
}

// code returns the actions that the program gave, and those of the servers that --actions
// names. What has no code needs stubs.
func (a *app) code(ctx context.Context, c conversations, p *program.Program) (dialoguetest.Actions, error) {
	if len(c.actions)+len(a.dialogues.Code) == 0 {
		return nil, nil
	}
	set, err := a.coded(ctx, c.actions)
	if err != nil {
		return nil, err
	}
	if err := set.Check(p); err != nil {
		if len(c.actions) == 0 { // it may be of another assistant, or still to be written
			a.console.Notef("The program's own actions and validators are not used, since they don't fit the assistant:\n%v", err)
			return nil, nil
		}
		return nil, Hint(err, "the code of %s is not what the assistant needs", strings.Join(c.actions, ", "))
	}
	return set, nil
}

// validators are the names of those that the program asks.
func validators(p *program.Program) []string {
	names := map[string]bool{}
	note := func(list []string) {
		for _, name := range list {
			names[name] = true
		}
	}
	for _, s := range p.Session {
		note(s.Validate)
	}
	for _, f := range p.Flows {
		for _, s := range f.Slots {
			note(s.Validate)
		}
		for _, s := range f.Steps {
			if x, ok := s.Body.(*program.Collect); ok {
				note(x.Validate)
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// minima reads --min.
func minima(texts []string) (map[dialoguetest.Class]int, error) {
	floors := map[dialoguetest.Class]int{}
	for _, t := range texts {
		class, percent, ok := strings.Cut(t, "=")
		if !ok {
			class, percent = "", t
		}
		n, err := strconv.Atoi(strings.TrimSuffix(percent, "%"))
		if err != nil || n < 0 || n > 100 {
			return nil, &usageError{fmt.Errorf("--min %s: a coverage is a number from 0 to 100", t), "for example: --min 80,steps=100"}
		}
		if class != "" && !slices.Contains(dialoguetest.Classes, dialoguetest.Class(class)) {
			return nil, &usageError{fmt.Errorf("--min %s: there is no class %q", t, class), fmt.Sprintf("classes: %v", dialoguetest.Classes)}
		}
		floors[dialoguetest.Class(class)] = n
	}
	return floors, nil
}

// below says which coverage is less than it has to be.
func below(counts []dialoguetest.Count, floors map[dialoguetest.Class]int) []string {
	var low []string
	for _, c := range counts {
		if floor, ok := floors[c.Class]; ok && c.Percent() < floor {
			low = append(low, fmt.Sprintf("The coverage of %s is %d %%, less than %d %%.", class(c), c.Percent(), floor))
		}
	}
	return low
}

func class(c dialoguetest.Count) string {
	if c.Class == "" {
		return "all"
	}
	return string(c.Class)
}

// showConversation prints what came of a conversation.
func (a *app) showConversation(d conversed, several bool) {
	name := d.ID
	if several {
		name = d.Way + "/" + name
	}
	if d.Passed {
		fmt.Fprintln(a.console.Out, console.Clean("ok    "+name))
		return
	}
	fmt.Fprintln(a.console.Out, console.Clean("FAIL  "+name+" ("+d.File+")"))
	for _, f := range d.Failures {
		fmt.Fprintln(a.console.Out, console.Clean(indent(f, "      ")))
	}
}

// showCoverage prints how much was reached, and what wasn't.
func (a *app) showCoverage(items []dialoguetest.Item, counts []dialoguetest.Count, list bool) {
	fmt.Fprintln(a.console.Out)
	for _, c := range counts {
		line := fmt.Sprintf("%-9s  %3d %%  %d of %d", class(c), c.Percent(), c.Reached, c.Reached+c.Missed)
		if c.Skipped > 0 {
			line += fmt.Sprintf(", %d skipped", c.Skipped)
		}
		fmt.Fprintln(a.console.Out, line)
	}
	if !list {
		return
	}
	for _, i := range items {
		if i.Status == dialoguetest.Reached {
			continue
		}
		where := "built in"
		if i.Pos.Line > 0 {
			where = i.Pos.String()
		}
		line := fmt.Sprintf("%s: %s: ", where, i.Status)
		switch i.Class {
		case dialoguetest.Patterns:
			line += "pattern "
		case dialoguetest.Responses:
			line += "response "
		default:
			line += fmt.Sprintf("flow %q, ", i.Flow)
			if i.Step != "" {
				line += fmt.Sprintf("step %q: ", i.Step)
			}
		}
		fmt.Fprintln(a.console.Out, console.Clean(line+i.What))
	}
}
