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
	"strconv"
	"strings"
	"time"

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
	Step       int           `json:"step"`              // the superstep, counted over the thread's life; 0: the input before it
	Checkpoint checkpoint.ID `json:"checkpoint"`        // the recorded one that differs
	Branch     string        `json:"branch,omitempty"`  // of the thread; empty for its first line
	Path       []string      `json:"path,omitempty"`    // nodes from the root graph down to the subgraph it is in
	Node       string        `json:"node,omitempty"`    // empty: the thread's start, or several
	Field      string        `json:"field,omitempty"`   // of the state, if it is about one
	SubStep    int           `json:"substep,omitempty"` // the superstep of the subgraph
	Want       string        `json:"want"`              // recorded
	Got        string        `json:"got"`               // of today's code
}

func (d *Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "step %d", d.Step)
	if name := strings.Join(append(slices.Clip(d.Path), d.Node), "/"); name != "" {
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

func (d *Difference) same(o *Difference) bool { return reflect.DeepEqual(d, o) }

// ReplayOptions are the settings of a replay.
type ReplayOptions struct {
	Take   []string // nodes whose recorded changes stand for them; in subgraphs with their path
	Ignore []string // fields of the state that are not compared; in subgraphs with their path
	Entry  bool     // where inputs lead is not compared
}

// Replay runs the tasks of a recorded thread again, each superstep from the state
// that was recorded before it, and yields where they come to something else: in
// the order in which the thread's records were written, on all of its branches.
// Nothing is stored, and no sub-step is run. Options has no store.
func Replay(ctx context.Context, prog *Program, o Options, rec *recording.Recording, ro ReplayOptions) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		r := &replay{prog: quiet(prog), o: o, ro: ro, logs: indexLogs(rec), take: map[string]bool{}}
		for _, n := range ro.Take {
			r.take[n] = true
		}
		r.log = r.logs[o.Log.Namespace]
		if r.log == nil || len(r.log.Records) == 0 {
			yield(Difference{}, fmt.Errorf("the recording of thread %q has no log %q", rec.Header.Thread, o.Log.Namespace))
			return
		}
		for _, l := range rec.Logs {
			for _, c := range l.Records {
				r.taped = r.taped || slices.ContainsFunc(c.Once, func(o checkpoint.OnceResult) bool { return o.Kept() })
			}
			r.taped = r.taped || slices.ContainsFunc(l.Results, func(res checkpoint.Result) bool { return res.Kind == checkpoint.KindOnce })
		}
		r.calls = callsOf(r.logs, r.log.Namespace)
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
				// A task is run more than once if something is asked.
				key := fmt.Sprint(next.Epoch, d.Kind, d.Path, d.Node, d.Field, d.SubStep, d.Want, d.Got)
				if d.Step = next.Step; next.Source == checkpoint.SourceInterrupt {
					d.Step++ // the superstep is open
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

type replay struct {
	prog  *Program
	o     Options
	ro    ReplayOptions
	logs  map[string]*tapeLog
	log   *tapeLog
	take  map[string]bool
	calls map[taskOf]*calledGraphs
	taped bool // there is a result of Once
}

// taskOf names a task by the record that planned its superstep.
type taskOf struct {
	epoch checkpoint.ID
	index int
}

// calledGraphs is what the logs of the subgraphs say that a task has called, and those
// in them.
type calledGraphs struct {
	begun  time.Time
	edited bool // from outside
}

// callsOf lists the tasks of a log that have called subgraphs.
func callsOf(logs map[string]*tapeLog, root string) map[taskOf]*calledGraphs {
	calls := map[taskOf]*calledGraphs{}
	roots := map[checkpoint.ID]taskOf{} // by superstep of a subgraph
	byDepth := slices.SortedFunc(maps.Keys(logs), func(a, b string) int { return len(a) - len(b) })
	for _, ns := range byDepth {
		if !checkpoint.Below(ns, root) {
			continue
		}
		for _, r := range logs[ns].Records {
			_, id, _ := strings.Cut(r.Metadata[MetaTask], "|")
			part := strings.Split(id, ".")
			if len(part) != 3 {
				continue
			}
			index, _ := strconv.Atoi(part[1])
			task, ok := roots[checkpoint.ID(part[0])]
			if !ok {
				task = taskOf{checkpoint.ID(part[0]), index}
			}
			roots[r.Epoch] = task
			c := calls[task]
			if c == nil {
				c = &calledGraphs{begun: r.CreatedAt}
				calls[task] = c
			}
			if r.CreatedAt.Before(c.begun) {
				c.begun = r.CreatedAt
			}
			c.edited = c.edited || r.Source == checkpoint.SourceUpdate || r.Source == checkpoint.SourceInside
		}
	}
	return calls
}

// edited lists the tasks of the superstep that is open at a record whose subgraphs had
// begun when the state was edited, theirs or the one around them: they can't be run
// again from their beginning.
func (r *replay) edited(at *checkpoint.Record) map[int]bool {
	var last time.Time // edit of the state around them
	for b := range r.log.back(at) {
		if b.Epoch != at.Epoch || b.ID == b.Epoch {
			break
		}
		if len(b.Changes) > 0 && b.CreatedAt.After(last) {
			last = b.CreatedAt
		}
	}
	found := map[int]bool{}
	epoch := r.log.byID[at.Epoch]
	if epoch == nil { // it was pruned
		return nil
	}
	for i := range epoch.Tasks {
		if c := r.calls[taskOf{at.Epoch, i}]; c != nil && (c.edited || !c.begun.After(last)) {
			found[i] = true
		}
	}
	return found
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
		return []Difference{{Kind: DiffError, Node: unknown.Node, Want: "the node runs", Got: unknown.Error()}}, nil
	}
	return ds, err
}

// open opens the thread as it was at a record; nil: before the first.
func (r *replay) open(ctx context.Context, at *checkpoint.Record) (*Session, *play, error) {
	p := &play{logs: r.logs, take: r.take, missed: map[int][]Difference{}}
	p.store = &replayStore{logs: r.logs, ns: r.log.Namespace, head: at}
	if at != nil {
		p.store.show(at.Children)
	}
	o := r.o
	o.Store, o.Durability, o.Bus, o.RecordOnce = p.store, Sync, nil, false
	o.Tape = &Tape{p: p, root: -1, ns: r.log.Namespace, log: r.log, prog: r.prog, here: r.log.Namespace}
	s, err := Open(ctx, r.prog, &o, "", false)
	return s, p, err
}

// records sets the root tape: the records of the open superstep up to at, and
// those that follow.
func (r *replay) records(tp *Tape, at, next *checkpoint.Record, cut bool) {
	for b := range r.log.back(at) {
		if b.Epoch != at.Epoch {
			break
		}
		tp.full = append(tp.full, b)
	}
	slices.Reverse(tp.full)
	if next.Epoch == at.Epoch {
		tp.full = append(tp.full, next)
	}
	if tp.cut = tp.full; !cut {
		tp.cut = nil
	}
	if c := next; c.Epoch == c.ID {
		tp.full = append(slices.Clip(tp.full), c)
	} else if c := r.log.closes(next); c != nil {
		tp.full = append(slices.Clip(tp.full), c)
	}
	tp.index()
	if c := tp.full[len(tp.full)-1]; c.Epoch == c.ID && c.Source == checkpoint.SourceInput { // it gave the superstep up
		tp.epochs[at.Step+1] = at.Epoch
	}
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
	s, _, err := r.open(ctx, before)
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
	err = s.begin(ctx, checkpoint.SourceInput, left, base, changes, Command{})
	if err == nil {
		err = s.Flush(ctx)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && s.last == nil {
		return []Difference{{Kind: DiffError, Want: "leads to " + plannedText(s.prog.Plan, next.Tasks), Got: err.Error()}}, nil
	}
	return compareRouting(s.prog, nil, next, s.last), nil
}

// closing replays a whole superstep and its end.
func (r *replay) closing(ctx context.Context, before, next *checkpoint.Record) ([]Difference, error) {
	s, p, err := r.open(ctx, before)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r.records(s.o.Tape, before, next, false)
	s.o.Tape.edited = r.edited(before)
	m := s.m
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
		ds = append(ds, p.missed[i]...)
		ds = append(ds, p.children(i, r.ro.Ignore)...)
		node := s.prog.Plan.NameOf(t.Node)
		switch t.Status {
		case core.Done:
			continue
		case core.Interrupted:
			for _, q := range t.Unanswered() {
				ds = append(ds, Difference{Kind: DiffQuestion, Path: clipPath(q.Path), Node: q.Node, Want: "nothing is asked", Got: questionText(&q)})
			}
		default:
			if len(p.missed[i]) == 0 || !errors.Is(t.Err, ErrNotRecorded) {
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
		return r.hint(append(ds, compareState(s.prog, nil, next, got, r.ro.Ignore, done)...)), nil
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
	ds = append(ds, compareState(s.prog, nil, next, got, r.ro.Ignore, nil)...)
	return r.hint(append(ds, compareRouting(s.prog, nil, next, got)...)), nil
}

// asking replays a superstep up to where it waits for answers.
func (r *replay) asking(ctx context.Context, before, next *checkpoint.Record) ([]Difference, error) {
	s, p, err := r.open(ctx, before)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r.records(s.o.Tape, before, next, true)
	m := s.m
	asked, skip := map[int][]checkpoint.Question{}, r.edited(next)
	for _, o := range next.Open {
		for _, q := range o.Questions {
			skip[o.Task] = skip[o.Task] || !q.Answered && o.Cut // it may have asked less than it would
			if !q.Answered && q.When == "inside" {
				asked[o.Task] = append(asked[o.Task], q)
			}
			for k := range q.Path { // recorded changes stand for what asked it
				skip[o.Task] = skip[o.Task] || r.take[strings.Join(q.Path[:k+1], "/")]
			}
			skip[o.Task] = skip[o.Task] || r.take[strings.Join(append(slices.Clip(q.Path), q.Node), "/")]
		}
	}
	var due []int
	for i := range m.Tasks() {
		t := m.Task(i)
		if !t.Startable() || t.Ran() || skip[i] || s.o.Tape.takes(&s.prog.Nodes[t.Node], i) {
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
		if len(want) == 0 && len(got) == 0 {
			continue
		}
		ds = append(ds, p.missed[i]...)
		ds = append(ds, p.children(i, r.ro.Ignore)...)
		if t.Status == core.Failed || t.Status == core.Waiting {
			if len(p.missed[i]) == 0 || !errors.Is(t.Err, ErrNotRecorded) {
				ds = append(ds, Difference{Kind: DiffError, Node: s.prog.Plan.NameOf(t.Node), Want: questionText(&want[0]), Got: failureText(t)})
			}
			continue
		}
		ds = append(ds, compareQuestions(s.prog.Plan.NameOf(t.Node), want, got)...)
	}
	return r.hint(ds), nil
}

// hint says why a recording has no result of Once, if it has none at all.
func (r *replay) hint(ds []Difference) []Difference {
	for i := range ds {
		if ds[i].Kind == DiffOnce && !r.taped {
			ds[i].Want = "no result of Once: the thread ran without the option RecordOnce"
		}
	}
	return ds
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

// children compares what subgraphs that a task called did on the way.
func (p *play) children(task int, ignore []string) (ds []Difference) {
	p.mu.Lock()
	tapes := slices.DeleteFunc(slices.Clone(p.tapes), func(tp *Tape) bool { return tp.root != task })
	p.mu.Unlock()
	add := func(sub []Difference, step int) {
		for i := range sub {
			sub[i].SubStep = step
			if !slices.ContainsFunc(ds, func(d Difference) bool { return d.same(&sub[i]) }) { // a task that is tried again calls again
				ds = append(ds, sub[i])
			}
		}
	}
	// What a superstep's own subgraphs did comes before what it came to. Step -1
	// is any: those of a superstep that is open come last.
	var of func(parent *Tape, step int)
	done := map[*Tape]bool{}
	of = func(parent *Tape, step int) {
		for _, tp := range tapes {
			if tp.parent != parent && parent != nil || parent == nil && tp.parent.parent != nil || step >= 0 && tp.step != step || done[tp] {
				continue
			}
			done[tp] = true
			for _, got := range p.store.writtenTo(tp.here) {
				if got.Source != checkpoint.SourceLoop {
					continue
				}
				of(tp, got.Step)
				if want := tp.closed[got.Step]; want != nil {
					add(compareState(tp.prog, tp.path, want, got, ignore, nil), got.Step)
					add(compareRouting(tp.prog, tp.path, want, got), got.Step)
				}
			}
			of(tp, -1)
		}
	}
	of(nil, -1)
	return ds
}

// compareState compares what tasks wrote. Only, if not nil, are those to compare.
func compareState(prog *Program, path []string, want, got *checkpoint.Record, ignore []string, only map[int]bool) (ds []Difference) {
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
			ds = append(ds, Difference{Kind: DiffState, Path: path, Node: at(c).node, Want: text(c.Data), Got: "the program can't read it: " + err.Error()})
			continue
		}
		at(c).want = fields
	}
	for i := range got.Changes {
		c := &got.Changes[i]
		fields, err := normal(prog.Values, prog.Version, c.Data)
		if err != nil {
			ds = append(ds, Difference{Kind: DiffState, Path: path, Node: at(c).node, Want: "a value that can be read again", Got: text(c.Data) + ": " + err.Error()})
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
			if slices.Contains(ignore, strings.Join(append(slices.Clip(path), f), "/")) || a != nil && b != nil && sameJSON(a, b) {
				continue
			}
			ds = append(ds, Difference{Kind: DiffState, Path: path, Node: w.node, Field: f, Want: written(a), Got: written(b)})
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
func compareRouting(prog *Program, path []string, want, got *checkpoint.Record) (ds []Difference) {
	g := prog.Plan
	for i := range max(len(want.Tasks), len(got.Tasks)) {
		var a, b checkpoint.Task
		if i < len(want.Tasks) {
			a = want.Tasks[i]
			if over, err := core.Upgrade(prog.Values, want.Version, a.Overlay); err == nil {
				a.Overlay = over
			}
		}
		if i < len(got.Tasks) {
			b = got.Tasks[i]
		}
		if g.Present(a.Node) == b.Node && a.Sent == b.Sent && sameJSON(a.Payload, b.Payload) && sameJSON(a.Overlay, b.Overlay) {
			continue
		}
		from := a.From
		if i >= len(want.Tasks) {
			from = b.From
		}
		d := Difference{Kind: DiffRouting, Path: path, Node: g.Present(from), Want: "leads to " + plannedText(g, want.Tasks), Got: "leads to " + plannedText(g, got.Tasks)}
		if d.Want == d.Got || len(want.Tasks) > manyTasks || len(got.Tasks) > manyTasks {
			d.Want, d.Got = fmt.Sprintf("task %d is %s", i, taskText(g, &a)), fmt.Sprintf("task %d is %s", i, taskText(g, &b))
		}
		ds = append(ds, d)
		break
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
		ds = append(ds, Difference{Kind: DiffRouting, Path: path, Want: a, Got: b})
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
		ds = append(ds, Difference{Kind: DiffRouting, Path: path, Want: a, Got: b})
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
		d := Difference{Kind: DiffQuestion, Path: clipPath(q.Path), Node: q.Node, Want: questionText(q), Got: "it asks nothing"}
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
		ds = append(ds, Difference{Kind: DiffQuestion, Path: clipPath(left[i].Path), Node: left[i].Node, Want: "nothing is asked", Got: questionText(&left[i])})
	}
	return ds
}

func clipPath(p []string) []string {
	if len(p) == 0 {
		return nil
	}
	return p
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
