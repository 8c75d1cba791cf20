package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/plan"
)

// DiffKind says in what a replay differs from its recording.
type DiffKind string

// The kinds of differences.
const (
	DiffState    DiffKind = "state"    // what a task wrote
	DiffRouting  DiffKind = "routing"  // what is planned next
	DiffQuestion DiffKind = "question" // what is asked
	DiffOnce     DiffKind = "once"     // a call of Once that was not recorded
	DiffError    DiffKind = "error"    // a task fails, or can't run
)

// Difference says where today's code and a recording part.
type Difference struct {
	Kind       DiffKind      `json:"kind"`
	Step       int           `json:"step"`                // the superstep, counted over the thread's life; 0: the input before it
	Checkpoint checkpoint.ID `json:"checkpoint"`          // the thread's recorded one that differs
	Branch     string        `json:"branch,omitempty"`    // of the thread; empty for its first line
	Namespace  string        `json:"namespace,omitempty"` // of the log it is in
	Path       []string      `json:"path,omitempty"`      // nodes from the root graph down to the subgraph it is in
	Node       string        `json:"node,omitempty"`      // empty: the graph's start, or several
	Field      string        `json:"field,omitempty"`     // of the state, if it is about one
	SubStep    int           `json:"substep,omitempty"`   // the superstep of the subgraph; 0: its input
	Want       string        `json:"want"`                // recorded
	Got        string        `json:"got"`                 // of today's code
}

func (d *Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "step %d", d.Step)
	if name := nodePath(d.Path, d.Node); name != "" {
		fmt.Fprintf(&b, ", node %q", name)
	}
	if d.SubStep > 0 {
		fmt.Fprintf(&b, " (step %d of the subgraph)", d.SubStep)
	}
	b.WriteString(": ")
	b.WriteString(string(d.Kind))
	if d.Field != "" {
		fmt.Fprintf(&b, " %q", d.Field)
	}
	fmt.Fprintf(&b, "\n  recorded: %s\n  now:      %s", d.Want, d.Got)
	return b.String()
}

// ReplayOptions are the settings of a replay.
type ReplayOptions struct {
	Take   []string // nodes whose recorded changes stand for them; in subgraphs with their path
	Ignore []string // fields of the state that are not compared; in subgraphs with their path
	Entry  bool     // where inputs lead is not compared
}

// Replay runs the tasks of a recorded thread again, each superstep from the state
// that was recorded before it, and yields where they come to something else: in
// the order in which the thread's records were written, on all of its branches.
// The log of a subgraph is replayed likewise, by itself: what calls the subgraph is
// given what is recorded of it. Nothing is stored, and no sub-step is run. Options has
// no store.
func Replay(ctx context.Context, prog *Program, o Options, rec *recording.Recording, ro ReplayOptions) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		of := &recorded{logs: indexLogs(rec), ro: ro, take: map[string]bool{}, done: map[*checkpoint.Record]bool{}}
		for _, n := range ro.Take {
			of.take[n] = true
		}
		r := &replay{recorded: of, prog: quiet(prog), o: o, log: of.logs[o.Log.Namespace]}
		if r.log == nil || len(r.log.Records) == 0 {
			yield(Difference{}, fmt.Errorf("the recording of thread %q has no log %q", rec.Header.Thread, o.Log.Namespace))
			return
		}
		taped := false // there is a result of Once
		for _, l := range rec.Logs {
			for _, c := range l.Records {
				taped = taped || slices.ContainsFunc(c.Once, func(o checkpoint.OnceResult) bool { return o.Kept() })
			}
			taped = taped || slices.ContainsFunc(l.Results, func(res checkpoint.Result) bool { return res.Kind == checkpoint.KindOnce })
		}
		seen := map[string]bool{}
		for _, next := range r.log.Records {
			if err := ctx.Err(); err != nil {
				yield(Difference{}, err)
				return
			}
			ds, err := r.step(ctx, next)
			if err != nil {
				yield(Difference{}, err)
				return
			}
			for _, d := range ds {
				if d.Kind == DiffOnce && !taped {
					d.Want = "no result of Once: the thread ran without the option RecordOnce"
				}
				// A task is run more than once if something is asked.
				key := fmt.Sprint(next.Epoch, d.Kind, d.Path, d.Node, d.Field, d.SubStep, d.Want, d.Got)
				d.Step = stepOf(next)
				if next.Source == checkpoint.SourceInterrupt {
					key = fmt.Sprint(r.log.closes(next), key)
				}
				if seen[key] {
					continue
				}
				seen[key] = true
				d.Checkpoint, d.Branch = next.ID, string(next.Branch)
				if !yield(d, nil) {
					return
				}
			}
		}
	}
}

// recorded is what the replays of a thread's logs share.
type recorded struct {
	logs map[string]*tapeLog
	ro   ReplayOptions
	take map[string]bool // ReplayOptions.Take

	mu   sync.Mutex
	done map[*checkpoint.Record]bool // of subgraphs: they were replayed
}

// replay is the replay of one log.
type replay struct {
	*recorded
	prog *Program
	o    Options
	log  *tapeLog

	within *Program // of a subgraph: what contains it
	input  func(state any) error
}

// stepOf returns the superstep that a record closes, or that is open at it.
func stepOf(r *checkpoint.Record) int {
	if r.Source == checkpoint.SourceInterrupt {
		return r.Step + 1
	}
	return r.Step
}

// step replays what led from a record's predecessor to it.
func (r *replay) step(ctx context.Context, next *checkpoint.Record) ([]Difference, error) {
	before := r.log.byID[next.Parent]
	if before != nil && before.Seq+1 != next.Seq || before == nil && next.Seq > 1 {
		return nil, nil // what was between was pruned
	}
	var ds []Difference
	var err error
	switch {
	case next.Source == checkpoint.SourceInput && next.Epoch == next.ID && !r.ro.Entry:
		ds, err = r.entry(ctx, before, next)
	case before == nil:
	case next.Source == checkpoint.SourceLoop && next.Epoch == next.ID:
		ds, err = r.closing(ctx, before, next)
	case next.Source == checkpoint.SourceInterrupt:
		ds, err = r.asking(ctx, before, next)
	}
	var unknown *core.UnknownNodeError
	if errors.As(err, &unknown) {
		ds, err = []Difference{{Kind: DiffError, Node: unknown.Node, Want: "the node runs", Got: unknown.Error()}}, nil
	}
	r.placed(ds, stepOf(next))
	return ds, err
}

// placed says of differences in a superstep where they are, unless they are in a subgraph
// and say so.
func (r *replay) placed(ds []Difference, step int) {
	for i := range ds {
		d := &ds[i]
		if d.Namespace != "" {
			continue
		}
		if d.Namespace = r.log.Namespace; len(r.o.path) > 0 {
			d.Path, d.SubStep = slices.Concat(r.o.path, d.Path), step
		}
	}
}

// open opens the thread as it was at a record, nil: before the first, for what next
// says was done then.
func (r *replay) open(ctx context.Context, at, next *checkpoint.Record) (*Session, error) {
	o := r.o
	o.Store, o.Tape = r.store(at), r.tape(at, next)
	o.Durability, o.Bus, o.RecordOnce, o.Before, o.After = Sync, nil, false, nil, nil
	return Open(ctx, r.prog, &o, "", false)
}

// runTasks runs tasks and waits for them.
func (s *Session) runTasks(ctx context.Context, tasks []int) error {
	if len(tasks) == 0 {
		return nil
	}
	s.m.Run(tasks)
	if err := s.runStarted(ctx, tasks, func() error { return nil }); err != nil {
		return err
	}
	return ctx.Err()
}

// entry replays where an input leads.
func (r *replay) entry(ctx context.Context, before, next *checkpoint.Record) ([]Difference, error) {
	s, err := r.open(ctx, before, next)
	var unknown *core.UnknownNodeError
	if errors.As(err, &unknown) { // it was given up: nobody minds that it can't run
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var changes any
	if n := len(next.Changes); n > 0 {
		if changes, err = core.Recorded(s.prog.Values, next.Version, next.Changes[n-1].Data); err != nil {
			return nil, fmt.Errorf("input of checkpoint %s: %w", next.ID, err)
		}
	}
	left := &core.Left{Record: next}
	base, err := s.given(left)
	if err != nil {
		return nil, fmt.Errorf("what checkpoint %s left: %w", next.ID, err)
	}
	var ds []Difference
	if r.input != nil {
		if ds, err = r.given(s, base, next); err != nil {
			return nil, err
		}
	}
	err = s.begin(ctx, checkpoint.SourceInput, left, base, changes, Command{})
	if err == nil {
		err = s.Flush(ctx)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && s.last == nil {
		return append(ds, Difference{Kind: DiffError, Want: "leads to " + plannedText(s.prog.Plan, next.Tasks), Got: err.Error()}), nil
	}
	return append(ds, r.compareRouting(next, s.last)...), nil
}

// given compares what a subgraph is given with its recorded input.
func (r *replay) given(s *Session, base any, next *checkpoint.Record) ([]Difference, error) {
	got := &checkpoint.Record{Version: s.prog.Version}
	changes, err := s.prog.edit(base, r.input)
	if err != nil {
		return []Difference{{Kind: DiffError, Want: "its input is made", Got: err.Error()}}, nil
	}
	if changes != nil {
		data, err := s.prog.Values.Encode(changes)
		if err != nil {
			return nil, err
		}
		got.Changes = []checkpoint.Change{{Data: data}}
	}
	want := *next
	if want.Changes = nil; len(next.Changes) > 0 {
		want.Changes = []checkpoint.Change{{Data: next.Changes[len(next.Changes)-1].Data}}
	}
	return r.compareState(&want, got, nil), nil
}

// closing replays a whole superstep and its end.
func (r *replay) closing(ctx context.Context, before, next *checkpoint.Record) ([]Difference, error) {
	s, err := r.open(ctx, before, next)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	m, tp := s.m, s.o.Tape
	var due []int
	for i := range m.Tasks() {
		switch t := m.Task(i); {
		case t.Status == core.Held: // a breakpoint that was passed with no record of it
			t.Status = core.Waiting
			due = append(due, i)
		case t.Startable():
			due = append(due, i)
		}
	}
	if err := s.runTasks(ctx, due); err != nil {
		return nil, err
	}
	var ds []Difference
	whole := true
	for i := range m.Tasks() {
		t := m.Task(i)
		found, misses := tp.told(i)
		ds = append(ds, found...)
		node := s.prog.Plan.NameOf(t.Node)
		switch t.Status {
		case core.Done:
			continue
		case core.Interrupted:
			for _, q := range t.Unanswered() {
				ds = append(ds, Difference{Kind: DiffQuestion, Path: q.Path, Node: q.Node, Want: "nothing is asked", Got: questionText(&q)})
			}
		default:
			if !misses || !errors.Is(t.Err, ErrNotRecorded) {
				ds = append(ds, Difference{Kind: DiffError, Node: node, Want: "the node finishes", Got: failureText(t)})
			}
		}
		whole = false
	}
	if !whole {
		// What the others wrote is compared nevertheless.
		got := &checkpoint.Record{Version: s.prog.Version}
		done := map[int]bool{}
		for i := range m.Tasks() {
			if t := m.Task(i); t.Status == core.Done && !t.Folded() {
				done[i] = true
				if t.Data() != nil {
					got.Changes = append(got.Changes, checkpoint.Change{Node: s.prog.Plan.NameOf(t.Node), Task: i, Data: t.Data()})
				}
			}
		}
		return append(ds, r.compareState(next, got, done)...), nil
	}
	s.m.Drain()
	err = s.Drive(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	got := s.last
	if got == nil || got.Source != checkpoint.SourceLoop {
		d := Difference{Kind: DiffError, Want: "the superstep is committed", Got: "it is not"}
		if err != nil {
			d.Got = err.Error()
		}
		var conflict *core.ConflictError
		if errors.As(err, &conflict) {
			d.Kind, d.Node, d.Field = DiffState, conflict.Node, conflict.Field
		}
		return append(ds, d), nil
	}
	ds = append(ds, r.compareState(next, got, nil)...)
	return append(ds, r.compareRouting(next, got)...), nil
}

// asking replays a superstep up to where it waits for answers.
func (r *replay) asking(ctx context.Context, before, next *checkpoint.Record) ([]Difference, error) {
	s, err := r.open(ctx, before, next)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	m, tp := s.m, s.o.Tape
	asked, skip := map[int][]checkpoint.Question{}, map[int]bool{}
	for _, o := range next.Open {
		for _, q := range o.Questions {
			skip[o.Task] = skip[o.Task] || !q.Answered && o.Cut // it may have asked less than it would
			if !q.Answered && q.When == "inside" {
				asked[o.Task] = append(asked[o.Task], q)
			}
		}
	}
	var due []int
	for i := range m.Tasks() {
		t := m.Task(i)
		if !t.Startable() || t.Ran() || skip[i] || tp.takes(&s.prog.Nodes[t.Node]) {
			continue
		}
		// Others are looked at when the superstep closes; but it may never. Those that
		// have failed, or were cut short, have not come to what they ask.
		if len(asked[i]) > 0 || before.ID == before.Epoch && r.log.ended(next, i) {
			due = append(due, i)
		}
	}
	if err := s.runTasks(ctx, due); err != nil {
		return nil, err
	}
	var ds []Difference
	for _, i := range due {
		t := m.Task(i)
		want, got := asked[i], []checkpoint.Question(nil)
		if t.Status == core.Interrupted {
			got = slices.DeleteFunc(slices.Clone(t.Unanswered()), func(q checkpoint.Question) bool { return q.When != "inside" })
		}
		found, misses := tp.told(i)
		if len(want) == 0 && len(got) == 0 { // but what its subgraphs did is not looked at again
			ds = append(ds, slices.DeleteFunc(found, func(d Difference) bool { return d.Namespace == "" })...)
			continue
		}
		ds = append(ds, found...)
		if t.Status == core.Failed || t.Status == core.Waiting {
			if !misses || !errors.Is(t.Err, ErrNotRecorded) {
				ds = append(ds, Difference{Kind: DiffError, Node: s.prog.Plan.NameOf(t.Node), Want: questionText(&want[0]), Got: failureText(t)})
			}
			continue
		}
		ds = append(ds, compareQuestions(s.prog.Plan.NameOf(t.Node), want, got)...)
	}
	return ds, nil
}

// nodePath joins names of nodes, and what is in the last.
func nodePath(path []string, name string) string {
	return strings.Join(append(slices.Clip(path), name), "/")
}

func failureText(t *core.Task) string {
	var ne *NodeError
	switch {
	case errors.As(t.Err, &ne):
		return "it fails: " + ne.Err.Error()
	case t.Err != nil:
		return "it fails: " + t.Err.Error()
	}
	return "it is cut short"
}

// compareState compares what tasks wrote. Only, if not nil, are those to compare.
func (r *replay) compareState(want, got *checkpoint.Record, only map[int]bool) (ds []Difference) {
	prog := r.prog
	type wrote struct {
		node      string
		want, got map[string]json.RawMessage
	}
	tasks := map[int]*wrote{}
	at := func(c *checkpoint.Change) *wrote {
		if tasks[c.Task] == nil {
			tasks[c.Task] = &wrote{node: prog.Plan.Present(c.Node)}
		}
		return tasks[c.Task]
	}
	for i := range want.Changes {
		c := &want.Changes[i]
		if only != nil && !only[c.Task] {
			continue
		}
		fields, err := normal(prog.Values, want.Version, c.Data)
		if err != nil {
			ds = append(ds, Difference{Kind: DiffState, Node: at(c).node, Want: text(c.Data), Got: "the program can't read it: " + err.Error()})
			continue
		}
		at(c).want = fields
	}
	for i := range got.Changes {
		c := &got.Changes[i]
		fields, err := normal(prog.Values, prog.Version, c.Data)
		if err != nil {
			ds = append(ds, Difference{Kind: DiffState, Node: at(c).node, Want: "a value that can be read again", Got: text(c.Data) + ": " + err.Error()})
			continue
		}
		at(c).got = fields
	}
	for _, i := range slices.Sorted(maps.Keys(tasks)) {
		w := tasks[i]
		names := map[string]bool{}
		for f := range w.want {
			names[f] = true
		}
		for f := range w.got {
			names[f] = true
		}
		for _, f := range slices.Sorted(maps.Keys(names)) {
			a, b := w.want[f], w.got[f]
			if slices.Contains(r.ro.Ignore, nodePath(r.o.path, f)) || a != nil && b != nil && sameJSON(a, b) {
				continue
			}
			ds = append(ds, Difference{Kind: DiffState, Node: w.node, Field: f, Want: written(a), Got: written(b)})
		}
	}
	return ds
}

// normal returns the fields of recorded changes as this version of the program
// would have recorded them.
func normal(v core.Values, version int, data json.RawMessage) (map[string]json.RawMessage, error) {
	changes, err := core.Recorded(v, version, data)
	if err != nil || changes == nil {
		return nil, err
	}
	if data, err = v.Encode(changes); err != nil || data == nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	err = json.Unmarshal(data, &fields)
	return fields, err
}

func written(v json.RawMessage) string {
	if v == nil {
		return "not written"
	}
	return text(v)
}

// most is how much of a value is shown.
const most = 500

func text(v json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		b.Reset()
		b.Write(v)
	}
	if s := b.String(); len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf("… (%d bytes)", len(s))
	}
	return b.String()
}

// sameJSON reports whether two JSON values are equal, whatever the order of
// members and the white space.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	value := func(raw json.RawMessage) (v any, err error) {
		if len(raw) == 0 {
			return nil, nil
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		err = d.Decode(&v)
		return v, err
	}
	x, err1 := value(a)
	y, err2 := value(b)
	return err1 == nil && err2 == nil && reflect.DeepEqual(x, y)
}

// compareRouting compares what was planned.
func (r *replay) compareRouting(want, got *checkpoint.Record) []Difference {
	g := r.prog.Plan
	ds := comparePlanned(r.prog, want.Version, want.Tasks, got.Tasks)
	if r.within != nil { // where the graph that contains it goes on
		ds = append(ds, comparePlanned(r.within, r.within.Version, r.outside(want), r.outside(got))...)
	}
	joins := func(r *checkpoint.Record) string {
		var parts []string
		for _, a := range r.Joins {
			if len(a.Sources) == 0 { // nothing waits there
				continue
			}
			var sources []string
			for _, s := range a.Sources {
				sources = append(sources, g.Present(s))
			}
			slices.Sort(sources)
			target := a.Join
			if k := g.JoinByID(a.Join); k >= 0 {
				target = g.NameOf(g.Joins[k].Target)
			}
			parts = append(parts, target+" has "+strings.Join(sources, ", "))
		}
		slices.Sort(parts)
		return cmp.Or(strings.Join(parts, "; "), "no join waits")
	}
	if a, b := joins(want), joins(got); a != b {
		ds = append(ds, Difference{Kind: DiffRouting, Want: a, Got: b})
	}
	deferred := func(r *checkpoint.Record) string {
		var names []string
		for _, n := range r.Deferred {
			names = append(names, g.Present(n))
		}
		slices.Sort(names)
		return cmp.Or(strings.Join(names, ", "), "no node") + " is deferred"
	}
	if a, b := deferred(want), deferred(got); a != b {
		ds = append(ds, Difference{Kind: DiffRouting, Want: a, Got: b})
	}
	// Questions with which nodes begin. Where only one of the programs knows of such, the
	// other's node asks when it runs.
	for i := range want.Open {
		o, other := &want.Open[i], got.OpenTask(want.Open[i].Task)
		if other != nil && len(o.Questions) > 0 && len(other.Questions) > 0 && o.Questions[0].When == "inside" {
			ds = append(ds, compareQuestions(g.Present(o.Questions[0].Node), o.Questions, other.Questions)...)
		}
	}
	return ds
}

// outside lists where a superstep of a subgraph led in the graph that contains it.
func (r *replay) outside(rec *checkpoint.Record) (tasks []checkpoint.Task) {
	for _, c := range rec.Changes {
		if c.Routing == nil || c.Routing.Parent == nil {
			continue
		}
		from := r.prog.Plan.Present(c.Node)
		for _, name := range c.Routing.Parent.Goto {
			tasks = append(tasks, checkpoint.Task{Node: name, From: from})
		}
		for _, t := range c.Routing.Parent.Sends {
			t.From = from
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// comparePlanned compares tasks of a program.
func comparePlanned(prog *Program, version int, want, got []checkpoint.Task) []Difference {
	g := prog.Plan
	for i := range max(len(want), len(got)) {
		var a, b checkpoint.Task
		if i < len(want) {
			a = want[i]
			if over, err := core.Upgrade(prog.Values, version, a.Overlay); err == nil {
				a.Overlay = over
			}
		}
		if i < len(got) {
			b = got[i]
		}
		if g.Present(a.Node) == b.Node && a.Sent == b.Sent && sameJSON(a.Payload, b.Payload) && sameJSON(a.Overlay, b.Overlay) {
			continue
		}
		from := a.From
		if i >= len(want) {
			from = b.From
		}
		d := Difference{Kind: DiffRouting, Node: g.Present(from), Want: "leads to " + plannedText(g, want), Got: "leads to " + plannedText(g, got)}
		if d.Want == d.Got || len(want) > manyTasks || len(got) > manyTasks {
			d.Want, d.Got = fmt.Sprintf("task %d is %s", i, taskText(g, &a)), fmt.Sprintf("task %d is %s", i, taskText(g, &b))
		}
		return []Difference{d}
	}
	return nil
}

// manyTasks is how many tasks are named one by one.
const manyTasks = 8

func plannedText(g *plan.Graph, tasks []checkpoint.Task) string {
	if len(tasks) == 0 {
		return "the end"
	}
	var parts []string
	for i := range tasks {
		if i == manyTasks {
			parts = append(parts, fmt.Sprintf("… (%d tasks)", len(tasks)))
			break
		}
		parts = append(parts, taskText(g, &tasks[i]))
	}
	return strings.Join(parts, ", ")
}

func taskText(g *plan.Graph, t *checkpoint.Task) string {
	s := g.Present(t.Node)
	switch {
	case s == "":
		return "none"
	case t.Payload != nil:
		s += "(" + text(t.Payload) + ")"
	}
	if t.Overlay != nil {
		s += " with " + text(t.Overlay)
	}
	return s
}

func compareQuestions(node string, want, got []checkpoint.Question) (ds []Difference) {
	same := func(a, b *checkpoint.Question) bool {
		return a.Key == b.Key && a.Event == b.Event && a.Wait == b.Wait && slices.Equal(a.Path[min(1, len(a.Path)):], b.Path[min(1, len(b.Path)):])
	}
	left := slices.Clone(got)
	for i := range want {
		q := &want[i]
		if k := slices.IndexFunc(left, func(b checkpoint.Question) bool { return same(q, &b) && sameJSON(q.Value, b.Value) }); k >= 0 {
			left = slices.Delete(left, k, k+1)
			continue
		}
		k := slices.IndexFunc(left, func(b checkpoint.Question) bool { return same(q, &b) })
		d := Difference{Kind: DiffQuestion, Path: q.Path, Node: q.Node, Want: questionText(q), Got: "it asks nothing"}
		if k < 0 && len(left) > 0 && len(want) == 1 {
			k = 0
		}
		if k >= 0 {
			d.Got = questionText(&left[k])
			left = slices.Delete(left, k, k+1)
		}
		if d.Node == "" {
			d.Node = node
		}
		ds = append(ds, d)
	}
	for i := range left {
		ds = append(ds, Difference{Kind: DiffQuestion, Path: left[i].Path, Node: left[i].Node, Want: "nothing is asked", Got: questionText(&left[i])})
	}
	return ds
}

func questionText(q *checkpoint.Question) string {
	switch {
	case q.Turn != nil:
		return fmt.Sprintf("waits for the end of thread %q (%q)", q.Turn.Thread, q.Key)
	case q.Event != "":
		return fmt.Sprintf("waits for event %q (%q)", q.Event, q.Key)
	case q.Wait:
		return fmt.Sprintf("sleeps (%q)", q.Key)
	case q.When != "inside":
		return fmt.Sprintf("breakpoint %s %q", q.When, q.Node)
	case q.Value != nil:
		return fmt.Sprintf("asks %q: %s", q.Key, text(q.Value))
	}
	return fmt.Sprintf("asks %q", q.Key)
}
