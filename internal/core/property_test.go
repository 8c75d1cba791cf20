package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// drawWorld makes a random graph.
func drawWorld(t *rapid.T) *world {
	w := &world{
		Seed: rapid.Uint64().Draw(t, "seed"), Edges: map[string][]string{}, Last: rapid.IntRange(1, 14).Draw(t, "last"),
		Conflicts: rapid.Bool().Draw(t, "conflicts"), Heavy: rapid.Bool().Draw(t, "heavy"),
	}
	var plain []string // what edges may lead to
	for i := range rapid.IntRange(1, 7).Draw(t, "nodes") {
		n := worldNode{Name: string(rune('a' + i))}
		if i > 0 {
			n.Defer = rapid.IntRange(0, 5).Draw(t, "defer") == 0
			n.Task = !n.Defer && rapid.IntRange(0, 4).Draw(t, "task") == 0
		}
		if !n.Task {
			plain = append(plain, n.Name)
		}
		w.Nodes = append(w.Nodes, n)
	}
	some := rapid.SliceOfNDistinct(rapid.SampledFrom(plain), 0, 3, rapid.ID)
	w.Start = rapid.SliceOfNDistinct(rapid.SampledFrom(plain), 1, 3, rapid.ID).Draw(t, "start")
	for _, n := range w.Nodes {
		if to := some.Draw(t, "edges of "+n.Name); len(to) > 0 {
			w.Edges[n.Name] = to
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "joins") {
		w.drawJoin(t)
	}
	return w
}

func (w *world) drawJoin(t *rapid.T) {
	var names, plain []string
	for _, n := range w.Nodes {
		names = append(names, n.Name)
		if !n.Task {
			plain = append(plain, n.Name)
		}
	}
	w.Joins = append(w.Joins, worldJoin{
		From: rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID).Draw(t, "sources"),
		To:   rapid.SampledFrom(plain).Draw(t, "target"),
	})
}

func (w *world) plan(t *rapid.T) *plan.Graph {
	spec := plan.Spec{Name: "random"}
	for _, n := range w.Nodes {
		// A command may go anywhere, so all nodes can be reached.
		spec.Nodes = append(spec.Nodes, plan.NodeSpec{Name: n.Name, Defer: n.Defer, Task: n.Task, Command: true})
	}
	for _, n := range w.Start {
		spec.Edges = append(spec.Edges, plan.EdgeSpec{From: plan.Start, To: n})
	}
	for _, n := range w.Nodes {
		for _, to := range w.Edges[n.Name] {
			spec.Edges = append(spec.Edges, plan.EdgeSpec{From: n.Name, To: to})
		}
	}
	for _, j := range w.Joins {
		spec.Joins = append(spec.Joins, plan.JoinSpec{Sources: j.From, Target: j.To})
	}
	g, problems, _ := plan.Compile(spec)
	if g == nil {
		t.Fatalf("compile: %v", problems)
	}
	return g
}

// trial drives the machine through a world, with trouble.
type trial struct {
	*shell
	t    *rapid.T
	w    *world
	log  strings.Builder
	rest int // disturbances that may still happen

	recorded map[string]bool
	steps    map[int]string
	running  []int
	asked    map[string]bool
	joinErr  *core.JoinError
	editing  bool         // edits as a node are most of the trouble
	made     []*worldEdit // that no record holds yet; nil: as no node
	edits    []worldEdit
	crashed  bool
	snaps    int
}

// TestRandomGraphs compares the machine with the interpreter of oracle_test.go.
func TestRandomGraphs(t *testing.T) {
	snaps := 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		tr := newTrial(t, w)
		tr.run()
		tr.compare()
		snaps += tr.snaps
	})
	if snaps == 0 {
		t.Error("no record held a snapshot: the worlds are too small to test them")
	}
}

// TestRandomGraphsInTrouble does so with processes that die at every effect,
// tasks that fail or ask, breakpoints, edits (some as a node) and forks.
func TestRandomGraphsInTrouble(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		tr := newTrial(t, w)
		tr.rest = rapid.IntRange(1, 25).Draw(t, "trouble")
		w.Mild = !w.Conflicts && rapid.Bool().Draw(t, "mild")
		breaks := rapid.SliceOfN(rapid.IntRange(0, 5), len(w.Nodes), len(w.Nodes))
		if rapid.Bool().Draw(t, "breakpoints") {
			for _, b := range breaks.Draw(t, "breaks") {
				tr.cfg.Before = append(tr.cfg.Before, b == 0)
				tr.cfg.After = append(tr.cfg.After, b == 1)
			}
		}
		tr.run()
		tr.compare()
	})
}

// TestRandomGraphsWithEdits does so with edits that stand in for nodes while others
// wait at breakpoints.
func TestRandomGraphsWithEdits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.Conflicts, w.Mild = false, true
		for range rapid.IntRange(0, 3).Draw(t, "more joins") {
			w.drawJoin(t)
		}
		tr := newTrial(t, w)
		tr.editing, tr.rest = true, rapid.IntRange(1, 12).Draw(t, "trouble")
		tr.cfg.Before = rapid.SliceOfN(rapid.Bool(), len(w.Nodes), len(w.Nodes)).Draw(t, "breaks")
		tr.run()
		tr.compare()
	})
}

func newTrial(t *rapid.T, w *world) *trial {
	return &trial{shell: newShell(w.plan(t)), t: t, w: w, recorded: map[string]bool{}, steps: map[int]string{}, asked: map[string]bool{}}
}

func (tr *trial) note(format string, args ...any) {
	fmt.Fprintf(&tr.log, format+"\n", args...)
}

func (tr *trial) fatal(format string, args ...any) {
	world, _ := json.MarshalIndent(tr.w, "", "  ")
	tr.t.Fatalf("%s\nworld: %s\ntranscript:\n%s", fmt.Sprintf(format, args...), world, tr.log.String())
}

func (tr *trial) must(err error) {
	if err != nil {
		tr.fatal("%v", err)
	}
}

// trouble decides whether one of n kinds of trouble happens now; 0 is none.
func (tr *trial) trouble(n int, what string) int {
	if tr.rest == 0 {
		return 0
	}
	k := rapid.IntRange(0, 3*n).Draw(tr.t, what)
	if k > n {
		return 0
	}
	if k > 0 {
		tr.rest--
	}
	return k
}

func (tr *trial) crash(where string) bool {
	if tr.trouble(1, "crash "+where) == 0 {
		return false
	}
	tr.note("CRASH %s", where)
	tr.m, tr.running, tr.crashed = nil, nil, true
	return true
}

// run takes the thread from nothing to its end.
func (tr *trial) run() {
	tr.must(tr.load(""))
	for {
		if !tr.begin() {
			return
		}
		for tr.m != nil && !tr.effects() {
			if tr.m != nil {
				tr.report()
			}
		}
		if tr.m == nil {
			tr.must(tr.load(""))
			tr.checkOpen()
			continue
		}
		// The run is over: what another process finds is what this one knows.
		live := tr.showOpenStep()
		tr.running = nil
		tr.must(tr.load(""))
		tr.checkOpen()
		if found := tr.showOpenStep(); calm(found) != calm(live) {
			tr.fatal("the thread was left as\n%sand is found as\n%s", live, found)
		}
	}
}

// calm makes the ways to say "to be run again" one, and leaves out errors:
// whether the node or the router failed is checked by checkOpen.
func calm(step string) string {
	var b strings.Builder
	for line := range strings.Lines(step) {
		line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), ", error:")
		b.WriteString(again.Replace(line) + "\n")
	}
	return b.String()
}

var again = strings.NewReplacer(" failed", " waiting", " routing", " waiting")

// checkOpen checks that what was recorded as finished is known to be.
func (tr *trial) checkOpen() {
	for i := range tr.m.Tasks() {
		t := tr.m.Task(i)
		if tr.recorded[tr.key(t)] && !t.Ran() {
			tr.fatal("task %s was recorded as finished and is %s", tr.key(t), t.Status())
		}
	}
}

// key names a task across processes and branches.
func (tr *trial) key(t *core.Task) string {
	return fmt.Sprintf("%s|%d|%d", tr.m.Epoch(), t.Index, t.Gen)
}

// begin tells a machine what to do. It reports false when the thread is at its
// end.
func (tr *trial) begin() bool {
	m := tr.m
	if m.Head() == "" {
		tr.note("input")
		tr.must(m.Input(checkpoint.SourceInput, nil, nil, core.Routing{Static: true}))
		return true
	}
	tr.made = nil
	edits := 0
	if tr.editing {
		edits = min(tr.rest, rapid.IntRange(0, 3).Draw(tr.t, "edits"))
		tr.rest -= edits
	} else if tr.w.Mild {
		edits = tr.trouble(1, "edit as a node")
	}
	for range edits {
		tr.editAs()
	}
	if !m.Pending() {
		return false
	}
	switch tr.trouble(4, "before going on") {
	case 1:
		tr.note("fork keep")
		m.StartBranch(true)
		tr.must(m.Fork())
	case 2:
		tr.note("fork")
		if !tr.w.Conflicts { // a generation decides on them
			m.StartBranch(false)
			tr.must(m.Fork())
		}
	case 3:
		tr.note("restart step")
		if !tr.w.Conflicts { // a generation decides on them
			tr.must(m.Restart())
		}
	case 4:
		if tr.w.Mild { // an edit folds what has finished
			tr.note("edit")
			tr.must(m.Update(checkpoint.SourceUpdate, nil, -1, -1, core.Routing{}))
			tr.made = append(tr.made, nil)
		}
	}
	answers := map[string]json.RawMessage{}
	for _, q := range local.OpenQuestions(m) {
		if tr.trouble(1, "leave open") == 0 {
			answers[q.ID] = json.RawMessage(`1`)
		}
	}
	if len(answers) > 0 {
		tr.note("answer %d", len(answers))
		tr.must(m.Answer(answers, nil))
	} else {
		tr.note("continue")
		tr.must(m.Continue(true))
	}
	return true
}

// editAs makes an edit that stands in for a node.
func (tr *trial) editAs() {
	m := tr.m
	e := &worldEdit{Step: m.Step() + 1, As: tr.pick("as").Name}
	e.Deed.Update = map[string]json.RawMessage{"log": json.RawMessage(fmt.Sprintf("[%q]", "as "+e.As)), "n": json.RawMessage("1")}
	switch rapid.IntRange(0, 9).Draw(tr.t, "edit leads") {
	default:
		e.Deed.Static = true
	case 0, 1:
		for range rapid.IntRange(1, 2).Draw(tr.t, "edit's gotos") {
			if to := tr.pick("edit's goto"); !to.Task {
				e.Deed.Goto = append(e.Deed.Goto, to.Name)
			}
		}
	case 2:
		e.Deed.Sends = []worldSend{{tr.pick("edit's send").Name, "0"}}
	case 3:
		e.Deed.Stop = true
	}
	for i := range m.Tasks() {
		t := m.Task(i)
		e.Done = append(e.Done, t.Status() == core.Done)
		e.Ran = append(e.Ran, t.Ran())
	}
	tr.note("edit as %s: %+v", e.As, e.Deed)
	form, err := json.Marshal(e.Deed.Update)
	tr.must(err)
	changes, err := (toy{}).Decode(form, nil)
	tr.must(err)
	node, _ := tr.g.Node(e.As)
	tr.must(m.Update(checkpoint.SourceUpdate, changes, node, -1, tr.routing(&e.Deed)))
	tr.made, tr.joinErr = append(tr.made, e), nil
}

func (tr *trial) pick(what string) worldNode { return rapid.SampledFrom(tr.w.Nodes).Draw(tr.t, what) }

// effects lets effects happen until tasks run. It reports whether the run is
// over.
func (tr *trial) effects() (over bool) {
	for {
		rd := tr.m.Ready()
		text := tr.showReady(&rd)
		if tr.crash("before") {
			return false
		}
		tr.log.WriteString(text)
		tr.must(tr.save(rd.Write))
		if rd.Write != nil {
			tr.learn(rd.Write)
		}
		if c := rd.Commit; c != nil {
			var names []string
			for i := range c.Tasks {
				names = append(names, tr.g.Nodes[c.Tasks[i].Node].Name+string(c.Tasks[i].Raw))
			}
			line := strings.Join(names, " ")
			if was, ok := tr.steps[c.Step]; ok && was != line {
				tr.fatal("step %d was %s and is %s", c.Step, was, line)
			}
			tr.steps[c.Step] = line
		}
		if tr.crash("after") {
			return false
		}
		tr.m.Advance()
		if rd.Done {
			if err := tr.m.Outcome().Err; err != nil {
				var conflict *core.ConflictError
				if !errors.As(err, &tr.joinErr) && !errors.As(err, &conflict) {
					tr.fatal("%v", err)
				}
			}
			return true
		}
		for _, i := range rd.Start {
			t := tr.m.Task(i)
			if tr.recorded[tr.key(t)] && t.Status() != core.Changed {
				tr.fatal("task %s runs again", tr.key(t))
			}
		}
		tr.running = append(tr.running, rd.Start...)
		if len(tr.running) > 0 {
			return false
		}
	}
}

// learn remembers which tasks were recorded as finished.
func (tr *trial) learn(w *checkpoint.Write) {
	if w.Record != nil {
		if w.Record.Snapshot != nil {
			tr.snaps++
		}
		if w.Record.Source == checkpoint.SourceUpdate {
			if e := tr.made[0]; e != nil {
				tr.edits = append(tr.edits, *e)
			}
			tr.made = tr.made[1:]
		}
		for _, o := range w.Record.Open {
			if o.Folded {
				tr.recorded[fmt.Sprintf("%s|%d|%d", w.Record.Epoch, o.Task, o.Gen)] = true
			}
		}
	}
	for _, r := range w.Results {
		if r.Kind == checkpoint.KindChanges {
			tr.recorded[fmt.Sprintf("%s|%d|%d", r.Epoch, r.Task, r.Gen)] = true
		}
	}
}

// report lets one or more running tasks end.
func (tr *trial) report() {
	for range rapid.IntRange(1, len(tr.running)).Draw(tr.t, "reports") {
		k := rapid.IntRange(0, len(tr.running)-1).Draw(tr.t, "which")
		i := tr.running[k]
		tr.running = slices.Delete(tr.running, k, k+1)
		tr.end(i)
		if tr.crash("after a report") {
			return
		}
	}
}

func (tr *trial) end(i int) {
	m := tr.m
	t := m.Task(i)
	name := tr.g.Nodes[t.Node].Name
	if t.Status() != core.Changed {
		switch tr.trouble(3, "node") {
		case 1:
			tr.note("%d %s fails", i, name)
			m.Ended(i, &core.End{Err: errors.New("trouble")})
			return
		case 2:
			tr.note("%d %s is cancelled", i, name)
			m.Ended(i, &core.End{Err: errors.New("cancelled"), Cancelled: true})
			return
		case 3:
			key := fmt.Sprint(len(t.Questions))
			tr.note("%d %s asks %s", i, name, key)
			qs := append(slices.Clone(t.Questions), checkpoint.Question{
				ID: core.QuestionID(testLog, m.Branch(), m.Epoch(), i, t.Gen, key), Key: key, Node: name, When: "inside",
			})
			m.Ended(i, &core.End{Asks: true, Calls: &core.Calls{Questions: qs}})
			return
		}
	}
	data, err := (toy{}).Snapshot(m.State(), true)
	tr.must(err)
	var sees map[string]json.RawMessage
	tr.must(json.Unmarshal(data, &sees))
	d := tr.w.deed(name, m.Step()+1, i, string(t.Raw), sees, t.Gen > 0)
	end := core.End{Ran: true}
	if t.Status() != core.Changed {
		tr.note("%d %s has changes", i, name)
		form, err := json.Marshal(d.Update)
		tr.must(err)
		end.Changes, err = (toy{}).Decode(form, nil)
		tr.must(err)
		end.Data, err = (toy{}).Encode(end.Changes)
		tr.must(err)
	}
	switch tr.trouble(3, "router") {
	case 1:
		tr.note("%d %s's router fails", i, name)
		end.Err = errors.New("trouble")
	case 2:
		tr.note("%d %s's router is cancelled", i, name)
		end.Err, end.Cancelled = errors.New("cancelled"), true
	case 3: // it takes its time
		if t.Status() != core.Changed {
			w := &checkpoint.Write{Log: testLog, Results: m.RanResults(t, end.Data, nil)}
			tr.showWrite(&tr.log, w)
			tr.must(tr.save(w))
			tr.learn(w)
			m.Beside()
		}
	}
	if end.Err == nil {
		r := tr.routing(&d)
		tr.note("%d %s is routed", i, name)
		end.Routing = &r
	}
	m.Ended(i, &end)
}

// routing returns where a deed leads.
func (tr *trial) routing(d *deed) core.Routing {
	r := core.Routing{Static: d.Static, Stop: d.Stop}
	for _, to := range d.Goto {
		k := plan.ToEnd
		if to != "" {
			k, _ = tr.g.Node(to)
		}
		r.Goto = append(r.Goto, k)
	}
	for _, s := range d.Sends {
		k, _ := tr.g.Node(s.To)
		r.Sends = append(r.Sends, core.Send{Node: k, Raw: json.RawMessage(s.Payload)})
	}
	return r
}

// compare checks where the thread has got to.
func (tr *trial) compare() {
	want := tr.w.dumb(tr.edits)
	if got := (toy{}).show(tr.m.State()); !sameState(got, want.State, tr.w.Mild) {
		tr.fatal("state is\n%s, want\n%s", got, want.State)
	}
	var steps []string
	for _, k := range slices.Sorted(maps.Keys(tr.steps)) {
		steps = append(steps, tr.steps[k])
	}
	if !slices.Equal(steps, want.Steps) {
		tr.fatal("steps are %q, want %q", steps, want.Steps)
	}
	if tr.m.Step() != len(want.Steps) {
		tr.fatal("the thread is at step %d, want %d", tr.m.Step(), len(want.Steps))
	}
	target := ""
	if tr.joinErr != nil {
		target = strings.Join(append([]string{tr.joinErr.Target}, tr.joinErr.Elsewhere...), " ")
	}
	if target != want.Join && !(tr.crashed && target == "") { // the error may die with the process
		tr.fatal("incomplete join into %q, want %q", target, want.Join)
	}
	tr.checkHistory()
}

// checkHistory checks each record of the line: it stands where it says, and can
// be gone on from.
func (tr *trial) checkHistory() {
	head, _, err := tr.store.Head(context.Background(), testLog)
	tr.must(err)
	seq := head.Seq
	for r, err := range local.Line(context.Background(), tr.store, head, checkpoint.Query{Desc: true}) {
		tr.must(err)
		if r.Seq != seq {
			tr.fatal("record %s has sequence number %d, want %d", r.ID, r.Seq, seq)
		}
		seq--
		tip, _, err := local.Tip(context.Background(), tr.store, toy{}, testLog, r.ID, local.Keeper{})
		tr.must(err)
		_, err = core.Load(tr.cfg, *tip)
		tr.must(err)
		if r.Epoch == r.ID {
			continue
		}
		if rs, err := tr.store.Results(context.Background(), testLog, head.Branch, r.ID); err != nil || len(rs) > 0 {
			tr.fatal("results are left of a superstep that is closed: %v %v", rs, err)
		}
	}
	if seq != 0 {
		tr.fatal("the line ends at %d", seq+1)
	}
	if rs, _ := tr.store.Results(context.Background(), testLog, head.Branch, head.Epoch); len(rs) > 0 {
		tr.fatal("results are left of the last superstep: %v", rs)
	}
}

func sameState(a, b string, anyOrder bool) bool {
	norm := func(text string) string {
		var v map[string]any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return err.Error()
		}
		for _, f := range v {
			if items, ok := f.([]any); ok && anyOrder {
				slices.SortFunc(items, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
			}
		}
		data, _ := json.Marshal(v)
		return string(data)
	}
	return norm(a) == norm(b)
}
