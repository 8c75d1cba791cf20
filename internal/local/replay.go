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
// given what is recorded of it. Nothing is stored, and no sub-step is run. The store of
// Options is empty: the recording is put there to be read.
func Replay(ctx context.Context, prog *Program, o Options, rec *recording.Recording, ro ReplayOptions) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		of := &recorded{store: o.Store, logs: map[string]*tapeLog{}, ro: ro}
		for _, l := range rec.Logs {
			of.logs[l.Namespace] = newTapeLog(l)
			for _, c := range l.Records {
				of.taped = of.taped || slices.ContainsFunc(c.Once, func(o checkpoint.OnceResult) bool { return o.Kept() })
			}
			of.taped = of.taped || slices.ContainsFunc(l.Results, func(res checkpoint.Result) bool { return res.Kind == checkpoint.KindOnce })
		}
		r := &replay{recorded: of, prog: quiet(prog), o: o, log: of.logs[o.Log.Namespace]}
		if r.log == nil || len(r.log.Records) == 0 {
			yield(Difference{}, fmt.Errorf("the recording of thread %q has no log %q", rec.Header.Thread, o.Log.Namespace))
			return
		}
		if err := rec.Put(ctx, o.Store, o.Log.Thread); err != nil {
			yield(Difference{}, fmt.Errorf("the recording of thread %q can't be read: %w", rec.Header.Thread, err))
			return
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
			of := next.Epoch
			if next.Source == checkpoint.SourceInterrupt { // or else it is that of the superstep before
				of += "?"
				if closing := r.log.closes(next); closing != nil {
					of += closing.ID
				}
			}
			for _, d := range ds {
				// A task is run more than once if something is asked.
				key := fmt.Sprint(of, d.Kind, d.Path, d.Node, d.Field, d.SubStep, d.Want, d.Got)
				d.Step = stepOf(next)
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
	store checkpoint.Store // that has it
	logs  map[string]*tapeLog
	ro    ReplayOptions
	taped bool     // there is a result of Once
	done  sync.Map // records of subgraphs that were replayed
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
	before := r.log.before(next)
	if before == nil && next.Seq > 1 {
		return nil, nil // what was between was pruned
	}
	var ds []Difference
	var err error
	switch {
	case next.Source == checkpoint.SourceInput && next.Epoch == next.ID && !r.ro.Entry:
		ds, err = r.entry(ctx, before, next)
	case before == nil:
	case next.Source == checkpoint.SourceLoop && next.Epoch == next.ID, next.Source == checkpoint.SourceInterrupt:
		ds, err = r.superstep(ctx, before, next)
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
	o.Store, o.Tape = r.at(at, r.results(at, next)), r.tape(at, next)
	o.Durability, o.Bus, o.RecordOnce, o.Before, o.After = Sync, nil, false, nil, nil
	return Open(ctx, r.prog, &o, "", false)
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
	left := new(core.Left)
	for _, c := range next.Left() {
		if c.Node == "" && err == nil {
			left.Edit, err = core.Recorded(s.prog.Values, next.Version, c.Data)
		}
	}
	var base any
	if err == nil {
		base, err = s.given(left)
	}
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
	changes, err := s.prog.edit(base, r.input)
	if err != nil {
		return []Difference{{Kind: DiffError, Want: "its input is made", Got: err.Error()}}, nil
	}
	data, err := s.prog.Values.Encode(changes)
	if err != nil {
		return nil, err
	}
	var want []checkpoint.Change
	if n := len(next.Changes); n > 0 {
		want = []checkpoint.Change{{Data: next.Changes[n-1].Data}}
	}
	return r.compareState(next.Version, want, []checkpoint.Change{{Data: data}}), nil
}

// superstep replays a superstep: as a whole with its end or, if next was written when it
// waited for answers, up to there.
func (r *replay) superstep(ctx context.Context, before, next *checkpoint.Record) ([]Difference, error) {
	s, err := r.open(ctx, before, next)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	m, plan, closes := s.m, s.prog.Plan, next.Source == checkpoint.SourceLoop
	asked := map[int][]checkpoint.Question{}
	var due []int
	for i := range m.Tasks() {
		t := m.Task(i)
		var o checkpoint.OpenTask
		if known := next.OpenTask(i); known != nil && !closes {
			o = *known
		}
		cut := false
		for _, q := range o.Questions {
			cut = cut || !q.Answered && o.Cut // it may have asked less than it would
			if !q.Answered && q.When == "inside" {
				asked[i] = append(asked[i], q)
			}
		}
		switch {
		case closes && t.Status() == core.Held: // a breakpoint that was passed with no record of it
			t.Pass()
		case !t.Startable() || !closes && (t.Ran() || cut || r.takes(plan.NameOf(t.Node))):
			continue
		case !closes && len(asked[i]) == 0 && (before.ID != before.Epoch || !r.log.ended(next, i)):
			// Others are looked at when the superstep closes; but it may never. Those that
			// have failed, or were cut short, have not come to what they ask.
			continue
		}
		due = append(due, i)
	}
	if len(due) > 0 {
		m.Run(due)
		if err := cmp.Or(s.runStarted(ctx, due, func() error { return nil }), ctx.Err()); err != nil {
			return nil, err
		}
	}
	var ds []Difference
	var wrote []checkpoint.Change
	whole := closes
	for i := range m.Tasks() {
		t := m.Task(i)
		stands := t.Status()
		if whole = whole && stands == core.Done; stands == core.Done && !t.Folded() {
			wrote = append(wrote, checkpoint.Change{Node: plan.NameOf(t.Node), Task: i, Data: t.Data()})
		}
		if !closes && !slices.Contains(due, i) {
			continue
		}
		var got []checkpoint.Question
		if stands == core.Interrupted {
			got = t.Unanswered()
		}
		if !closes {
			got = slices.DeleteFunc(slices.Clone(got), func(q checkpoint.Question) bool { return q.When != "inside" })
		}
		found := s.o.Tape.told(i)
		if !closes && len(asked[i]) == 0 && len(got) == 0 { // but what its subgraphs did is not looked at again
			ds = append(ds, slices.DeleteFunc(found, func(d Difference) bool { return d.Namespace == "" })...)
			continue
		}
		ds = append(ds, found...)
		switch {
		case stands == core.Done && closes:
		case stands == core.Done || stands == core.Interrupted:
			ds = append(ds, compareQuestions(plan.NameOf(t.Node), asked[i], got)...)
		case !errors.Is(t.Err, ErrNotRecorded) || !slices.ContainsFunc(found, func(d Difference) bool { return d.Kind == DiffOnce }):
			d := Difference{Kind: DiffError, Node: plan.NameOf(t.Node), Want: "the node finishes", Got: failureText(t)}
			if !closes {
				d.Want = questionText(&asked[i][0])
			}
			ds = append(ds, d)
		}
	}
	if !closes {
		return ds, nil
	}
	// What has finished is compared also if others have not.
	was := slices.DeleteFunc(slices.Clone(next.Changes), func(c checkpoint.Change) bool {
		return !slices.ContainsFunc(wrote, func(w checkpoint.Change) bool { return w.Task == c.Task })
	})
	if !whole {
		return append(ds, r.compareState(next.Version, was, wrote)...), nil
	}
	m.Drain()
	err = s.Drive(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if s.last == nil || s.last.Source != checkpoint.SourceLoop {
		d := Difference{Kind: DiffError, Want: "the superstep is committed", Got: "it is not"}
		if err != nil {
			d.Got = err.Error()
		}
		if conflict, ok := errors.AsType[*core.ConflictError](err); ok {
			d.Kind, d.Node, d.Field = DiffState, conflict.Node, conflict.Field
		}
		return append(ds, d), nil
	}
	ds = append(ds, r.compareState(next.Version, was, wrote)...)
	return append(ds, r.compareRouting(next, s.last)...), nil
}

// nodePath joins names of nodes, and what is in the last.
func nodePath(path []string, name string) string {
	return strings.Join(append(slices.Clip(path), name), "/")
}

func failureText(t *core.Task) string {
	err := t.Err
	if ne, ok := errors.AsType[*NodeError](err); ok {
		err = ne.Err
	}
	if err == nil {
		return "it is cut short"
	}
	return "it fails: " + err.Error()
}

// compareState compares what tasks wrote, as a version of the state's schema has recorded
// it, with what they write.
func (r *replay) compareState(version int, want, got []checkpoint.Change) (ds []Difference) {
	type place struct {
		task  int
		field string
	}
	type values struct {
		node string
		of   [2]json.RawMessage
	}
	wrote := map[place]values{}
	for side, changes := range [2][]checkpoint.Change{want, got} {
		for _, c := range changes {
			node := r.prog.Plan.Present(c.Node)
			fields, err := normal(r.prog.Values, [2]int{version, r.prog.Version}[side], c.Data)
			if err != nil && side == 0 {
				ds = append(ds, Difference{Kind: DiffState, Node: node, Want: text(c.Data), Got: "the program can't read it: " + err.Error()})
			} else if err != nil {
				ds = append(ds, Difference{Kind: DiffState, Node: node, Want: "a value that can be read again", Got: text(c.Data) + ": " + err.Error()})
			}
			for name, v := range fields {
				w := wrote[place{c.Task, name}]
				w.node, w.of[side] = node, v
				wrote[place{c.Task, name}] = w
			}
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(wrote), func(a, b place) int { return cmp.Or(a.task-b.task, strings.Compare(a.field, b.field)) }) {
		w := wrote[p]
		a, b := w.of[0], w.of[1]
		if slices.Contains(r.ro.Ignore, nodePath(r.o.path, p.field)) || a != nil && b != nil && sameJSON(a, b) {
			continue
		}
		ds = append(ds, Difference{Kind: DiffState, Node: w.node, Field: p.field, Want: written(a), Got: written(b)})
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
	value := func(raw json.RawMessage) (v any, ok bool) {
		if len(raw) == 0 {
			return nil, true
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		err := d.Decode(&v)
		return v, err == nil
	}
	if bytes.Equal(a, b) {
		return true
	}
	x, ok1 := value(a)
	y, ok2 := value(b)
	return ok1 && ok2 && reflect.DeepEqual(x, y)
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
	deferred := func(r *checkpoint.Record) string {
		var names []string
		for _, n := range r.Deferred {
			names = append(names, g.Present(n))
		}
		slices.Sort(names)
		return cmp.Or(strings.Join(names, ", "), "no node") + " is deferred"
	}
	for _, waits := range []func(*checkpoint.Record) string{joins, deferred} {
		if a, b := waits(want), waits(got); a != b {
			ds = append(ds, Difference{Kind: DiffRouting, Want: a, Got: b})
		}
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
