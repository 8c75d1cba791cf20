package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// TestTranscripts plays the stories in testdata/stories. A story declares graphs:
//
//	graph [steps=3] [tasks=10] [window=5] [strict]
//	nodes a b d:defer w:task
//	start -> a
//	a -> b, c
//	join b + c -> d
//	before a
//	after *
//
// and lets things happen, one a line:
//
//	invoke {..} [goto=a,b] [send=w(1),w(2)] [stop]   a run begins with an input
//	finish a {..} [goto=..] [send=..] [stop] [parent=x]
//	changed a {..}            the node has returned, its router has not
//	routed a [goto=..] [..]   the router has
//	fail a why / cancel a     of the node, or of the router after "changed"
//	ask a k1 k2 ?k3           the task asks, k3 again: the answer was no good
//	continue / answer k=1 ..  the run goes on
//	update {..} [as=a] [goto=..] [send=..] [stop]
//	restart-step / fork [keep]
//	from #3                   what follows happens at that record
//	drain                     the run is to end at the next superstep's beginning
//	crash [before|after]      the process dies: now, or before or after the
//	                          next write
//	load / tasks / results   what the machine and the store know
//	state / view / history    what is committed, with what has finished, before
//
// After each event the effects that the machine wants are shown and happen,
// unless the line ends in "&".
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		var st *story
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "graph":
				var out string
				st, out = newStory(t, d)
				return out
			case "play":
				if st == nil {
					t.Fatalf("%s: there is no graph", d.Pos)
				}
				return st.play(t, d.Input)
			}
			t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			return ""
		})
	})
}

type story struct {
	*shell
	at    checkpoint.ID
	over  bool // the run of the machine is over
	drain bool

	changed map[int]*core.End           // of tasks whose router is slow
	tried   map[int]*checkpoint.Failure // of tasks that run
	slow    map[int][]checkpoint.Result // of the former, to be stored
}

func newStory(t *testing.T, d *datadriven.TestData) (*story, string) {
	g, problems, _ := plan.Compile(parseGraph(t, d.Input))
	if g == nil {
		var b strings.Builder
		for _, p := range problems {
			b.WriteString(p.String() + "\n")
		}
		return nil, b.String()
	}
	st := &story{shell: newShell(g)}
	for _, arg := range d.CmdArgs {
		n := 0
		if len(arg.Vals) > 0 {
			n, _ = strconv.Atoi(arg.Vals[0])
		}
		switch arg.Key {
		case "steps":
			st.cfg.MaxSteps = n
		case "tasks":
			st.cfg.MaxTasks = n
		case "window":
			st.cfg.CycleWindow = n
		case "strict":
			st.cfg.CycleStrict = true
		case "bare":
			st.cfg.Persist = false
		default:
			t.Fatalf("%s: unknown option %s", d.Pos, arg.Key)
		}
	}
	return st, "ok"
}

func parseGraph(t *testing.T, text string) plan.Spec {
	spec := plan.Spec{Name: "story"}
	name := func(s string) string {
		switch s {
		case "start":
			return plan.Start
		case "end":
			return plan.End
		}
		return s
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(strings.ReplaceAll(line, ",", " "))
		switch {
		case len(words) == 0:
		case words[0] == "nodes":
			for _, w := range words[1:] {
				n, attr, _ := strings.Cut(w, ":")
				spec.Nodes = append(spec.Nodes, plan.NodeSpec{Name: n, Defer: attr == "defer", Task: attr == "task", Command: true})
			}
		case words[0] == "before":
			spec.Before = words[1:]
		case words[0] == "after":
			spec.After = words[1:]
		case words[0] == "join":
			from, to, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "join "), " -> ")
			spec.Joins = append(spec.Joins, plan.JoinSpec{Sources: strings.Split(from, " + "), Target: to})
		case len(words) > 2 && words[1] == "->":
			for _, to := range words[2:] {
				spec.Edges = append(spec.Edges, plan.EdgeSpec{From: name(words[0]), To: name(to)})
			}
		default:
			t.Fatalf("can't read %q", line)
		}
	}
	return spec
}

func (st *story) play(t *testing.T, input string) string {
	var b strings.Builder
	for line := range strings.Lines(input) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		fmt.Fprintf(&b, "> %s\n", line)
		event, hold := strings.CutSuffix(line, " &")
		out, err := st.event(strings.Fields(event))
		b.WriteString(out)
		if err == nil && out == "" && !hold && st.m != nil && acts(event) {
			err = st.effects(&b, "")
		}
		if err != nil {
			fmt.Fprintf(&b, "  error: %v\n", err)
		}
	}
	return b.String()
}

// acts reports whether an event is one that the machine has to do with.
func acts(event string) bool {
	word, _, _ := strings.Cut(event, " ")
	switch word {
	case "drain", "crash", "from", "load", "state", "view", "tasks", "history", "results":
		return false
	}
	return true
}

// effects lets the machine's effects happen until it waits for tasks or the run
// is over, or until the process dies before or after a write.
func (st *story) effects(b *strings.Builder, crash string) error {
	for _, i := range slices.Sorted(maps.Keys(st.slow)) {
		w := &checkpoint.Write{Log: testLog, Results: st.slow[i]}
		st.showWrite(b, w)
		if err := st.save(w); err != nil {
			return err
		}
		st.m.Beside()
	}
	st.slow = nil
	for {
		rd := st.m.Ready()
		text := st.showReady(&rd)
		if crash == "before" {
			st.m = nil
			b.WriteString("  never happens:\n")
			for line := range strings.Lines(text) {
				b.WriteString("  " + line)
			}
			return nil
		}
		b.WriteString(text)
		if st.cfg.Persist {
			if err := st.save(rd.Write); err != nil {
				return err
			}
		}
		if crash == "after" {
			st.m = nil
			return nil
		}
		st.m.Advance()
		if rd.Done {
			st.over = true
			return nil
		}
		if rd.Write == nil || rd.Write.Record == nil || len(rd.Start) > 0 || st.alive() {
			return nil
		}
	}
}

func (st *story) alive() bool {
	for i := range st.m.Tasks() {
		if st.m.Task(i).Status() == core.Running {
			return true
		}
	}
	return false
}

// open makes sure that there is a machine for something from outside.
func (st *story) open() error {
	if st.m != nil {
		return nil
	}
	at := st.at
	st.at, st.over = "", false
	st.changed, st.slow, st.tried = nil, nil, nil
	if err := st.load(at); err != nil {
		st.m = nil
		return err
	}
	if st.drain {
		st.m.Drain()
	}
	return nil
}

func (st *story) event(words []string) (string, error) {
	a := args{words: words[1:], st: st}
	switch words[0] {
	case "drain":
		st.drain = !st.drain
		if st.m != nil && st.drain {
			st.m.Drain()
		}
		return "", nil
	case "crash":
		var b strings.Builder
		if len(a.words) > 0 {
			err := st.effects(&b, a.words[0])
			return b.String(), err
		}
		st.m = nil
		return "", nil
	case "from":
		for id, l := range st.labels {
			if l == a.words[0] {
				st.at, st.m = id, nil
				return "", nil
			}
		}
		return "", fmt.Errorf("no record %s", a.words[0])
	case "history":
		return st.history()
	case "finish", "changed", "routed", "tried", "fail", "cancel", "ask":
		if st.m == nil {
			return "", errors.New("there is no run")
		}
		return "", st.report(words[0], &a)
	}
	if words[0] == "load" || st.over && acts(words[0]) {
		st.m = nil
	}
	if err := st.open(); err != nil {
		return "", err
	}
	switch words[0] {
	case "load", "tasks":
		return st.showOpenStep(), nil
	case "state":
		return "  " + (toy{}).show(st.m.State()) + "\n", nil
	case "view":
		return "  " + (toy{}).show(st.m.Merged()) + "\n", nil
	case "results":
		return st.results()
	}
	if st.alive() {
		return "", errors.New("a run is going on")
	}
	return "", st.outside(words[0], &a)
}

func (st *story) outside(what string, a *args) error {
	m := st.m
	switch what {
	case "invoke":
		changes, r, err := a.output()
		if err != nil {
			return err
		}
		return m.Input(checkpoint.SourceInput, nil, changes, r)
	case "continue":
		return m.Continue(true)
	case "answer":
		answers := map[string]json.RawMessage{}
		var changes any
		for _, w := range a.words {
			key, value, _ := strings.Cut(w, "=")
			if key == "update" {
				var err error
				if changes, err = (toy{}).Decode(json.RawMessage(value), nil); err != nil {
					return err
				}
				continue
			}
			found := false
			for _, q := range local.OpenQuestions(m) {
				if q.Key == key {
					answers[q.ID], found = json.RawMessage(value), true
				}
			}
			if !found {
				return fmt.Errorf("no question %s is open", key)
			}
		}
		return m.Answer(answers, changes)
	case "update":
		as := -1
		if name := a.take("as"); name != "" {
			as, _ = st.g.Node(name)
		}
		source := checkpoint.SourceUpdate
		if a.flag("input") {
			source = checkpoint.SourceInput
		}
		changes, r, err := a.output()
		if err != nil {
			return err
		}
		return m.Update(source, changes, as, -1, r)
	case "restart-step":
		return m.Restart()
	case "fork":
		m.StartBranch(a.flag("keep"))
		return m.Fork()
	}
	return fmt.Errorf("unknown event %s", what)
}

func (st *story) report(what string, a *args) error {
	i, err := st.find(a.words[0])
	if err != nil {
		return err
	}
	name := a.words[0]
	a.words = a.words[1:]
	m := st.m
	end := core.End{Ran: st.changed[i] != nil || m.Task(i).Status() == core.Changed}
	if e := st.changed[i]; e != nil {
		end = *e
		delete(st.changed, i)
	}
	end.Failure = st.tried[i]
	changed := func(changes any) (err error) {
		if end.Ran {
			return fmt.Errorf("%s has returned before", name)
		}
		end.Ran, end.Changes = true, changes
		end.Data, err = (toy{}).Encode(changes)
		return err
	}
	switch what {
	case "finish":
		changes, r, err := a.output()
		if err == nil {
			err = changed(changes)
		}
		if err != nil {
			return err
		}
		end.Routing = &r
	case "changed": // and its router is slow
		changes, _, err := a.output()
		if err == nil {
			err = changed(changes)
		}
		if err != nil {
			return err
		}
		if st.changed == nil {
			st.changed = map[int]*core.End{}
		}
		if st.slow == nil {
			st.slow = map[int][]checkpoint.Result{}
		}
		st.changed[i], st.slow[i] = &end, m.RanResults(m.Task(i), end.Data, nil)
		return nil
	case "routed":
		_, r, err := a.output()
		if err != nil {
			return err
		}
		end.Routing = &r
	case "tried": // tried NODE TIMES [handled error]
		times, err := strconv.Atoi(a.words[0])
		if err != nil {
			return err
		}
		if st.tried == nil {
			st.tried = map[int]*checkpoint.Failure{}
		}
		st.tried[i] = &checkpoint.Failure{Attempts: times, Handled: strings.Join(a.words[1:], " ")}
		return nil
	case "fail":
		end.Err = errors.New(strings.Join(a.words, " "))
	case "cancel":
		end.Err, end.Cancelled = errors.New("cancelled"), true
	case "ask":
		t := m.Task(i)
		qs := append([]checkpoint.Question(nil), t.Questions...)
		for _, key := range a.words {
			if again, ok := strings.CutPrefix(key, "?"); ok {
				k := slices.IndexFunc(qs, func(q checkpoint.Question) bool { return q.Key == again })
				qs[k].Answer, qs[k].Answered = nil, false
				continue
			}
			qs = append(qs, checkpoint.Question{
				ID: core.QuestionID(testLog, m.Branch(), m.Epoch(), i, t.Gen, key), Key: key, Node: st.g.Nodes[t.Node].Name, When: "inside",
			})
		}
		end.Asks, end.Calls = true, &core.Calls{Questions: qs}
	}
	delete(st.slow, i)
	delete(st.tried, i)
	m.Ended(i, &end)
	return nil
}

func (st *story) history() (string, error) {
	head, _, err := st.store.Head(context.Background(), testLog)
	if err != nil {
		return "", err
	}
	if st.at != "" {
		if head, err = st.store.Get(context.Background(), testLog, st.at); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	for r, err := range local.Line(context.Background(), st.store, head, checkpoint.Query{Desc: true}) {
		if err != nil {
			return "", err
		}
		state, err := local.StateAt(context.Background(), st.store, toy{}, r, local.Keeper{})
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "  %s %s, step %d: %s\n", st.labelOf(r), r.Source, r.Step, (toy{}).show(state))
	}
	return b.String(), nil
}

func (st *story) results() (string, error) {
	rs, err := st.store.Results(context.Background(), testLog, st.m.Branch(), st.m.Epoch())
	if err != nil {
		return "", err
	}
	var b strings.Builder
	st.showWrite(&b, &checkpoint.Write{Results: rs})
	if b.Len() == 0 {
		return "  none\n", nil
	}
	return b.String(), nil
}

// args are the words of an event.
type args struct {
	words []string
	st    *story
}

// take removes the word key=value and returns the value.
func (a *args) take(key string) string {
	for i, w := range a.words {
		if v, ok := strings.CutPrefix(w, key+"="); ok {
			a.words = append(a.words[:i:i], a.words[i+1:]...)
			return v
		}
	}
	return ""
}

func (a *args) flag(word string) bool {
	for i, w := range a.words {
		if w == word {
			a.words = append(a.words[:i:i], a.words[i+1:]...)
			return true
		}
	}
	return false
}

// output reads what a node returns: its changes and where it leads.
func (a *args) output() (changes any, r core.Routing, err error) {
	r.Stop = a.flag("stop")
	if p := a.take("parent"); p != "" {
		r.Parent = &checkpoint.Routing{Goto: strings.Split(p, ",")}
	}
	gotos, sends := a.take("goto"), a.take("send")
	r.Static = gotos == "" && sends == "" && !r.Stop && r.Parent == nil
	for _, name := range split(gotos) {
		i := plan.ToEnd
		if name != "end" {
			var ok bool
			if i, ok = a.st.g.Node(name); !ok {
				return nil, r, fmt.Errorf("no node %s", name)
			}
		}
		r.Goto = append(r.Goto, i)
	}
	for _, s := range split(sends) {
		name, payload, _ := strings.Cut(strings.TrimSuffix(s, ")"), "(")
		i, ok := a.st.g.Node(name)
		if !ok {
			return nil, r, fmt.Errorf("no node %s", name)
		}
		r.Sends = append(r.Sends, core.Send{Node: i, Raw: json.RawMessage(payload)})
	}
	if len(a.words) > 0 {
		changes, err = (toy{}).Decode(json.RawMessage(strings.Join(a.words, " ")), nil)
	}
	return changes, r, err
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
