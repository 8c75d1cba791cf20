package core_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

var testLog = checkpoint.Log{Thread: "t"}

// shell is a minimal shell around a machine: it stores what the machine says,
// and checks at each record that what was stored is what lives.
type shell struct {
	g      *plan.Graph
	cfg    core.Config
	store  *checkpoint.Memory
	m      *core.Machine
	runs   int
	labels map[checkpoint.ID]string
	forks  map[checkpoint.Branch]string
}

func newShell(g *plan.Graph) *shell {
	return &shell{
		g: g, store: checkpoint.NewMemory(), cfg: core.Config{Plan: g, Values: toy{}, Persist: true, Log: testLog},
		labels: map[checkpoint.ID]string{}, forks: map[checkpoint.Branch]string{"": ""},
	}
}

// load makes a machine for a new run.
func (sh *shell) load(at checkpoint.ID) error {
	sh.runs++
	sh.cfg.Run = checkpoint.ID(fmt.Sprintf("00000000-0000-7000-8000-%04x00000000", sh.runs))
	tip, _, err := local.Tip(context.Background(), sh.store, toy{}, testLog, at, local.Keeper{})
	if err != nil {
		return err
	}
	if tip == nil {
		sh.m = core.New(sh.cfg)
		return nil
	}
	sh.m, err = core.Load(sh.cfg, *tip)
	return err
}

// save stores a write.
func (sh *shell) save(w *checkpoint.Write) error {
	if w == nil {
		return nil
	}
	if _, err := sh.store.Write(context.Background(), w); err != nil {
		return err
	}
	if w.Record == nil || w.Record.ID != sh.m.Head() {
		return nil
	}
	stored, err := local.StateAt(context.Background(), sh.store, toy{}, w.Record, local.Keeper{})
	if err != nil {
		return err
	}
	if got, want := (toy{}).show(stored), (toy{}).show(sh.m.State()); got != want {
		return fmt.Errorf("record %s folds to\n%s\nthe machine has\n%s", sh.label(w.Record.ID), got, want)
	}
	return nil
}

// label names a record: its sequence number, and its branch if not the first.
func (sh *shell) label(id checkpoint.ID) string {
	if id == "" {
		return "none"
	}
	if l, ok := sh.labels[id]; ok {
		return l
	}
	rec, err := sh.store.Get(context.Background(), testLog, id)
	if err != nil {
		return "lost"
	}
	return sh.labelOf(rec)
}

func (sh *shell) labelOf(rec *checkpoint.Record) string {
	if _, ok := sh.labels[rec.ID]; !ok {
		if _, ok := sh.forks[rec.Branch]; !ok {
			sh.forks[rec.Branch] = "@" + string(rune('a'+len(sh.forks)-1))
		}
		sh.labels[rec.ID] = fmt.Sprintf("#%d%s", rec.Seq, sh.forks[rec.Branch])
	}
	return sh.labels[rec.ID]
}

// showReady describes effects in the order in which they happen.
func (sh *shell) showReady(rd *core.Ready) string {
	var b strings.Builder
	if rd.Cancel {
		b.WriteString("  cancel the others\n")
	}
	if w := rd.Write; w != nil {
		sh.showWrite(&b, w)
	}
	if c := rd.Commit; c != nil {
		fmt.Fprintf(&b, "  commit step %d: %s\n", c.Step, sh.names(c.Tasks))
	}
	if len(rd.Start) > 0 {
		var names []string
		for _, i := range rd.Start {
			t := sh.m.Task(i)
			name := sh.taskName(t)
			if t.Status() == core.Changed {
				name += " (routing only)"
			}
			names = append(names, name)
		}
		fmt.Fprintf(&b, "  start %s\n", strings.Join(names, ", "))
	}
	if rd.Done {
		out := sh.m.Outcome()
		b.WriteString("  done")
		if out.Err != nil {
			fmt.Fprintf(&b, ": %v", out.Err)
		}
		if out.Parent != nil {
			fmt.Fprintf(&b, ", parent goes to %s", strings.Join(out.Parent.Goto, ", "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (sh *shell) names(tasks []core.Task) string {
	var names []string
	for i := range tasks {
		names = append(names, sh.taskName(&tasks[i]))
	}
	return strings.Join(names, ", ")
}

func (sh *shell) taskName(t *core.Task) string {
	name := sh.g.Nodes[t.Node].Name
	if t.Sent {
		name += "(" + string(t.Raw) + ")"
	}
	return name
}

func (sh *shell) showWrite(b *strings.Builder, w *checkpoint.Write) {
	if r := w.Record; r != nil {
		fmt.Fprintf(b, "  write %s %s, step %d", r.Source, sh.labelOf(r), r.Step)
		if r.Epoch != r.ID {
			fmt.Fprintf(b, ", epoch %s", sh.label(r.Epoch))
		}
		if r.Branch == checkpoint.Branch(r.ID) {
			fmt.Fprintf(b, ", forks %s", sh.label(r.Parent))
		}
		b.WriteString("\n")
		for _, c := range r.Changes {
			node := c.Node
			if node == "" {
				node = "input"
				if r.Source == checkpoint.SourceLoop {
					node = fmt.Sprint("folded task ", c.Task)
				}
			}
			fmt.Fprintf(b, "    %s: %s", node, c.Data)
			if c.Routing != nil {
				fmt.Fprintf(b, ", leads %s", showRouting(c.Routing))
			}
			b.WriteString("\n")
		}
		if r.Snapshot != nil {
			fmt.Fprintf(b, "    snapshot %s\n", r.Snapshot.Values)
		}
		if len(r.Tasks) > 0 {
			fmt.Fprintf(b, "    tasks: %s\n", showTasks(r.Tasks))
		}
		for _, o := range r.Open {
			fmt.Fprintf(b, "    task %d:%s\n", o.Task, showOpen(&o))
		}
		for _, j := range r.Joins {
			var known []string
			if len(j.Sources) > 0 {
				known = append(known, strings.Join(j.Sources, ", ")+" arrived")
			}
			if len(j.Elsewhere) > 0 {
				known = append(known, strings.Join(j.Elsewhere, ", ")+" led elsewhere")
			}
			if j.Fired {
				known = append(known, "fired")
			}
			fmt.Fprintf(b, "    join %s: %s\n", j.Join, strings.Join(known, "; "))
		}
		if len(r.Deferred) > 0 {
			fmt.Fprintf(b, "    deferred: %s\n", strings.Join(r.Deferred, ", "))
		}
		for _, p := range r.Paused {
			fmt.Fprintf(b, "    paused after %s\n", p.Node)
		}
	}
	for _, r := range w.Results {
		gen := ""
		if r.Gen > 0 {
			gen = fmt.Sprintf(" gen %d", r.Gen)
		}
		data := string(r.Data)
		switch {
		case data == "":
			data = "none"
		case r.Kind == checkpoint.KindRouting:
			var rt checkpoint.Routing
			if json.Unmarshal(r.Data, &rt) == nil {
				data = showRouting(&rt)
			}
		case r.Kind == checkpoint.KindOpen:
			var o checkpoint.OpenTask
			if json.Unmarshal(r.Data, &o) == nil {
				data = strings.TrimSpace(showOpen(&o))
			}
		}
		fmt.Fprintf(b, "  result of task %d%s: %s %s\n", r.Task, gen, r.Kind, data)
	}
	if w.Drop != nil {
		fmt.Fprintf(b, "  drop results of %s", sh.label(w.Drop.Epoch))
		if branch := sh.forks[w.Drop.Branch]; !strings.HasSuffix(sh.label(w.Drop.Epoch), branch) {
			fmt.Fprintf(b, " on %s", branch)
		}
		b.WriteString("\n")
	}
}

func showTasks(tasks []checkpoint.Task) string {
	var out []string
	for _, t := range tasks {
		s := t.Node
		if t.Sent || t.Payload != nil {
			s += "(" + string(t.Payload) + ")"
		}
		if t.From != "" {
			s += " from " + t.From
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func showFailure(f *checkpoint.Failure) string {
	if f == nil || f.Attempts == 0 {
		return ""
	}
	text := fmt.Sprintf(" tried %d", f.Attempts)
	if f.Handled != "" {
		text += fmt.Sprintf(" handled (%s)", f.Handled)
	}
	return text
}

func showOpen(o *checkpoint.OpenTask) string {
	var b strings.Builder
	b.WriteString(showFailure(o.Failure))
	if o.Node != "" {
		fmt.Fprintf(&b, " added %s", o.Node)
	}
	if o.Gen > 0 {
		fmt.Fprintf(&b, " gen %d", o.Gen)
	}
	if o.Error != "" {
		fmt.Fprintf(&b, " error (%s)", o.Error)
	}
	if o.Folded {
		b.WriteString(" folded")
	}
	if o.Routing != nil {
		b.WriteString(" leads " + showRouting(o.Routing))
	}
	if o.Passed {
		b.WriteString(" passed")
	}
	if len(o.Questions) > 0 {
		b.WriteString(" " + showQuestions(o.Questions))
	}
	if o.Cut {
		b.WriteString(" cut short")
	}
	for _, ns := range slices.Sorted(maps.Keys(o.Children)) {
		fmt.Fprintf(&b, " %s at %s", ns, o.Children[ns])
	}
	for _, ns := range slices.Sorted(maps.Keys(o.Kept)) {
		fmt.Fprintf(&b, " keeps %s at %s", ns, o.Kept[ns])
	}
	return b.String()
}

func showQuestions(qs []checkpoint.Question) string {
	var out []string
	for _, q := range qs {
		s := q.Key + "?"
		if q.When != "inside" {
			s = q.When + " " + s
		}
		if q.Answered {
			s += " " + string(q.Answer)
		}
		out = append(out, s)
	}
	return "asks " + strings.Join(out, ", ")
}

func showRouting(r *checkpoint.Routing) string {
	var out []string
	if r.Static {
		out = append(out, "along its edges")
	}
	if r.Stop {
		out = append(out, "to a stop")
	}
	if len(r.Goto) > 0 {
		out = append(out, "to "+strings.ReplaceAll(strings.Join(r.Goto, ", "), plan.End, "the end"))
	}
	if len(r.Sends) > 0 {
		out = append(out, "sends "+showTasks(r.Sends))
	}
	if r.Sent > 0 {
		out = append(out, fmt.Sprintf("sends %d", r.Sent))
	}
	if r.Parent != nil {
		out = append(out, "the parent "+showRouting(r.Parent))
	}
	if len(out) == 0 {
		return "nowhere else"
	}
	return strings.Join(out, ", ")
}

// showOpenStep describes the open superstep as the machine sees it.
func (sh *shell) showOpenStep() string {
	var b strings.Builder
	for _, p := range sh.m.Paused() {
		fmt.Fprintf(&b, "  paused after %s\n", p.Node)
	}
	for i := range sh.m.Tasks() {
		t := sh.m.Task(i)
		fmt.Fprintf(&b, "  %d %s %s", i, sh.taskName(t), t.Status())
		if t.Gen > 0 {
			fmt.Fprintf(&b, ", gen %d", t.Gen)
		}
		if f := showFailure(t.Failure); f != "" {
			b.WriteString("," + f)
		}
		if t.Folded() {
			b.WriteString(", folded")
		}
		if len(t.Questions) > 0 {
			b.WriteString(", " + showQuestions(t.Questions))
		}
		if t.ErrText != "" {
			fmt.Fprintf(&b, ", error: %s", t.ErrText)
		}
		b.WriteString("\n")
	}
	if p := sh.m.Outcome().Parent; p != nil {
		fmt.Fprintf(&b, "  parent goes to %s\n", strings.Join(p.Goto, ", "))
	}
	if b.Len() == 0 {
		return "  none\n"
	}
	return b.String()
}

// find returns the running task that a word names: a node's first one, or the
// one with that payload, as in w(2).
func (sh *shell) find(word string) (int, error) {
	i := slices.IndexFunc(sh.m.Tasks(), func(t core.Task) bool {
		running := t.Status() == core.Running || t.Status() == core.Changed
		return running && (sh.taskName(&t) == word || sh.g.Nodes[t.Node].Name == word)
	})
	if i < 0 {
		return 0, fmt.Errorf("no task %s is running", word)
	}
	return i, nil
}
