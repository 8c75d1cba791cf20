package core

import (
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/plan"
)

// A snapshot is written when the changes since the last one weigh snapshotRatio
// times as much as it did, and at least snapshotMin bytes: snapshots then add
// at most a quarter to what is stored, and reading the newest state reads at
// most five times its size.
const (
	snapshotMin   = 4 << 10
	snapshotRatio = 4
)

// rangeGap is how many records without additions a range of a growing field may
// contain: reading a few too many costs less than a longer list of ranges.
const rangeGap = 2

// tail is the end of the log as the machine has written or read it.
type tail struct {
	head    checkpoint.ID // of the line
	logHead checkpoint.ID // of the log; differs from head before a fork's first record
	epoch   checkpoint.ID
	branch  checkpoint.Branch
	lineage []checkpoint.Span
	fork    bool // the next record starts a branch
	seq     int64
	n       uint32 // records written by this run

	results bool // the open superstep has stored results

	full   bool // snapshots must hold growing fields: earlier records are gone
	bytes  int  // of changes since the last snapshot
	snap   int  // size of the last snapshot
	ranges map[string][][2]int64
}

// grew notes that record seq holds changes to growing fields.
func (t *tail) grew(growth []Growth, seq int64) { t.ranges = Grow(t.ranges, growth, seq) }

// Grow notes in ranges that record seq holds changes to growing fields.
func Grow(ranges map[string][][2]int64, growth []Growth, seq int64) map[string][][2]int64 {
	for _, g := range growth {
		if ranges == nil {
			ranges = map[string][][2]int64{}
		}
		rs := ranges[g.Field]
		switch last := len(rs) - 1; {
		case g.Reset && !(last >= 0 && rs[last][1] == seq && len(rs) == 1 && rs[0][0] == seq):
			rs = [][2]int64{{seq, seq}}
		case last >= 0 && seq-rs[last][1] <= rangeGap+1:
			rs[last][1] = seq
		default:
			rs = append(rs, [2]int64{seq, seq})
		}
		ranges[g.Field] = rs
	}
	return ranges
}

// Tip is a thread as read from a store, at some record.
type Tip struct {
	Record  *checkpoint.Record  // where to go on
	Epoch   *checkpoint.Record  // the record that planned its open superstep
	LogHead checkpoint.ID       // the log's newest record
	Results []checkpoint.Result // of the open superstep, on Record's branch
	State   any                 // at Record
	Bytes   int                 // of changes since the last snapshot
	Snap    int                 // size of the last snapshot
	Full    bool                // it holds growing fields
	Range   int                 // size of the changes that it refers to
	Ranges  map[string][][2]int64
}

// Load returns a machine for a thread that stands at tip. If tip is not the
// log's head, the next record starts a branch.
func Load(cfg Config, tip Tip) (*Machine, error) {
	m := New(cfg)
	rec := tip.Record
	m.base = tip.State
	m.step, m.begun, m.ran = rec.Step, rec.Begun, rec.Ran
	m.tail = tail{
		head: rec.ID, logHead: tip.LogHead, epoch: rec.Epoch, branch: rec.Branch, lineage: rec.Lineage, seq: rec.Seq,
		bytes: tip.Bytes, snap: tip.Snap, full: tip.Full, ranges: tip.Ranges, results: len(tip.Results) > 0,
	}
	if rec.ID != tip.LogHead {
		m.tail.fork = true
		m.tail.lineage = append(slices.Clone(rec.Lineage), checkpoint.Span{Branch: rec.Branch, To: rec.Seq})
	}
	m.children = rec.Children
	m.recent = slices.Clone(rec.Recent)
	m.paused = slices.Clone(rec.Paused)
	states, err := checkpoint.TaskStates(tip.Epoch, rec, tip.Results)
	if err != nil {
		return nil, err
	}
	m.tasks = make([]Task, len(states))
	for i := range states {
		if err := m.restore(&m.tasks[i], &states[i], tip.Epoch.Version); err != nil {
			return nil, err
		}
	}
	if len(tip.Epoch.Tasks) == 0 { // the run ended: where the containing graph goes on
		for _, c := range tip.Epoch.Changes {
			if c.Routing != nil {
				m.takeParent(&Routing{Parent: decodeParent(c.Routing.Parent)})
			}
		}
		m.outcome.Parent, m.parent = m.parent, nil
	}
	for _, name := range rec.Deferred {
		n, err := m.node(name)
		if err != nil {
			return nil, err
		}
		m.deferred = append(m.deferred, n)
	}
	for _, a := range rec.Joins {
		if err := m.restoreJoin(a); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Machine) node(name string) (int, error) {
	n, ok := m.cfg.Plan.Recorded(name)
	if !ok {
		return 0, &UnknownNodeError{Thread: string(m.cfg.Log.Thread), Node: name, Near: plan.Nearest(name, m.cfg.Plan.Names())}
	}
	return n, nil
}

// restore makes a task of what is recorded of it. Planned is the version of the state's
// schema in which its superstep was planned.
func (m *Machine) restore(t *Task, s *checkpoint.TaskState, planned int) (err error) {
	t.Index, t.From, t.added = s.Task, plan.FromStart, s.Planned == nil
	if t.Node, err = m.node(s.Node); err != nil {
		return err
	}
	if p := s.Planned; p != nil {
		t.Sent, t.Raw = p.Sent, p.Payload
		if t.Overlay, err = Upgrade(m.cfg.Values, planned, p.Overlay); err != nil {
			return err
		}
		if from, ok := m.cfg.Plan.Recorded(p.From); ok {
			t.From = from
		}
	}
	t.Status, t.Gen, t.folded, t.passed, t.ran = s.Status, s.Gen, s.Folded, s.Passed, s.Ran
	t.ErrText, t.Failure, t.Questions, t.Children, t.kept = s.Error, s.Failure, s.Questions, s.Children, s.Kept
	t.saved = saved{changes: s.Ran && !s.Folded, routing: s.Routing != nil, open: s.Known, asked: s.Asked > 0 && s.Asked == len(s.Questions)}
	if err := m.restoreChanges(t, s.ChangesVersion, s.Changes); err != nil || s.Routing == nil {
		return err
	}
	r, err := m.decodeRouting(s.Routing, s.RoutingVersion)
	if t.routing = &r; r.isAlong() {
		t.routing = &along
	}
	return err
}

func (m *Machine) restoreJoin(a checkpoint.Arrival) error {
	k := m.cfg.Plan.JoinByID(a.Join)
	switch {
	case k >= 0:
	case len(a.Sources) == 0: // nothing waits there
		return nil
	default:
		return &UnknownNodeError{Thread: string(m.cfg.Log.Thread), Node: "join " + a.Join}
	}
	j := m.join(k)
	j.fired = a.Fired
	for i, s := range slices.Concat(a.Sources, a.Elsewhere) {
		n, err := m.node(s)
		if err != nil {
			return err
		}
		known := arrived
		if i >= len(a.Sources) {
			known = elsewhere
		}
		if i := slices.Index(m.cfg.Plan.Joins[k].Sources, n); i >= 0 {
			j.sources[i] = known
		}
	}
	return nil
}

// restoreChanges takes in what a task wrote.
func (m *Machine) restoreChanges(t *Task, version int, data json.RawMessage) (err error) {
	if len(data) == 0 || string(data) == "null" {
		return nil
	}
	if data, err = Upgrade(m.cfg.Values, version, data); err != nil {
		return err
	}
	if t.changes, err = m.cfg.Values.Decode(data, nil); err != nil {
		return err
	}
	t.data, t.growth, err = m.cfg.Values.Encode(t.changes)
	return err
}

// Fork starts a branch at the record the machine was loaded from. With keep the
// open superstep goes on where it stood, results taken along; otherwise its
// tasks run again and its questions are asked again. They are the same tasks.
func (m *Machine) Fork(keep bool) error {
	m.tail.fork = true
	if n := len(m.tail.lineage); n == 0 || m.tail.lineage[n-1] != (checkpoint.Span{Branch: m.tail.branch, To: m.tail.seq}) {
		m.tail.lineage = append(slices.Clone(m.tail.lineage), checkpoint.Span{Branch: m.tail.branch, To: m.tail.seq})
	}
	if !keep {
		for i := range m.tasks {
			if t := &m.tasks[i]; !t.folded {
				m.void(t, "")
				t.passed = true
			}
		}
		m.paused = nil
		m.begin()
	}
	return m.record(checkpoint.SourceFork, nil)
}

// TakeAlong puts results of the branch forked from under this branch: those
// that are not of the tasks' ends. These a fork with keep takes along by itself.
func (m *Machine) TakeAlong(results []checkpoint.Result) {
	for _, r := range results {
		switch r.Kind {
		case checkpoint.KindChanges, checkpoint.KindRouting, checkpoint.KindOpen:
			continue
		}
		r.Branch = m.tail.branch
		m.writes.results = append(m.writes.results, r)
		m.tail.results = true
	}
}

// part encodes changes from outside and adds them to the parts of the next
// record, as those of a node's task if a node is named.
func (m *Machine) part(parts []checkpoint.Change, node string, task int, changes any) ([]checkpoint.Change, error) {
	if changes == nil && node == "" || !m.cfg.Persist {
		return parts, nil
	}
	data, growth, err := m.cfg.Values.Encode(changes)
	if err != nil || data == nil && node == "" {
		return parts, err
	}
	m.tail.grew(growth, m.tail.seq+1)
	return append(parts, checkpoint.Change{Node: node, Task: task, Data: data}), nil
}

// record adds a record inside the open superstep, which keeps its epoch.
func (m *Machine) record(source checkpoint.Source, parts []checkpoint.Change) error {
	if !m.cfg.Persist {
		return nil
	}
	rec := m.newRecord(source, parts)
	if m.tail.epoch == "" { // an edit starts the thread
		m.tail.epoch = rec.ID
	}
	rec.Epoch = m.tail.epoch
	rec.Open = m.openTasks()
	return m.finish(rec)
}

// led returns how a record that commits a superstep says where a task led, nil for
// along the edges. Planned says that the record has what was sent among its tasks.
func (m *Machine) led(r *Routing, planned bool) *checkpoint.Routing {
	if r.isAlong() {
		return nil
	}
	room := m.room()
	if len(r.Goto) == 1 && !r.Static && !r.Stop && len(r.Sends) == 0 && r.Parent == nil && room.to[0] == "" {
		room.to[0] = m.cfg.Plan.NameOf(r.Goto[0])
		room.routing.Goto = room.to[:]
		return &room.routing
	}
	if !planned {
		return m.encodeRouting(r)
	}
	rest := *r
	rest.Sends = nil
	led := m.encodeRouting(&rest)
	led.Sent = len(r.Sends)
	return led
}

// recordStep adds the record that commits a superstep and plans the next. Planned says
// that tasks were planned as those of the superstep lead.
func (m *Machine) recordStep(done []Task, planned bool) error {
	parts := m.room().change[:0]
	if len(done) > cap(parts) {
		parts = make([]checkpoint.Change, 0, len(done))
	}
	for i := range done {
		t := &done[i]
		// One that wrote nothing is there too: it says that the node ran.
		name := m.cfg.Plan.Nodes[t.Node].Name
		if t.folded { // that it ran is said by an earlier record
			name = ""
		}
		led := m.led(t.Routing(), planned)
		if t.folded && t.data == nil && led == nil {
			continue
		}
		parts = append(parts, checkpoint.Change{Node: name, Task: i, Data: t.data, Routing: led})
		m.tail.grew(t.growth, m.tail.seq+1)
	}
	drop := m.dropOpen()
	if err := m.newEpoch(checkpoint.SourceLoop, parts); err != nil {
		return err
	}
	m.writes.results = m.writes.results[:0]
	m.writes.drop = drop
	return nil
}

// dropOpen names the stored results of the open superstep, nil if there are
// none.
func (m *Machine) dropOpen() *checkpoint.Drop {
	if !m.tail.results || m.tail.fork { // those of the branch forked from stay
		return nil
	}
	m.tail.results = false
	return &checkpoint.Drop{Branch: m.tail.branch, Epoch: m.tail.epoch}
}

// newEpoch adds a record that plans m.tasks.
func (m *Machine) newEpoch(source checkpoint.Source, parts []checkpoint.Change) error {
	room := m.next
	rec := m.newRecord(source, parts)
	rec.Epoch = rec.ID
	m.tail.epoch = rec.ID
	m.hold()
	switch n := len(m.tasks); {
	case n == 1 && room != nil:
		rec.Tasks = room.task[:]
	case n > 0:
		rec.Tasks = make([]checkpoint.Task, n)
	}
	for i := range m.tasks {
		t := &m.tasks[i]
		t.added = false // from now on it is planned
		task := &rec.Tasks[i]
		task.Node, task.Payload, task.Sent, task.Overlay = m.cfg.Plan.Nodes[t.Node].Name, t.Raw, t.Sent, t.Overlay
		if t.From >= 0 {
			task.From = m.cfg.Plan.Nodes[t.From].Name
		}
	}
	rec.Open = m.openTasks()
	return m.finish(rec)
}

// room is a record with what most records refer to, made in one piece.
type room struct {
	record checkpoint.Record
	task   [1]checkpoint.Task
	change [1]checkpoint.Change

	routing checkpoint.Routing
	to      [1]string
}

// room returns the room of the next record.
func (m *Machine) room() *room {
	if m.next == nil {
		m.next = new(room)
	}
	return m.next
}

// newRecord advances the tail by a record.
func (m *Machine) newRecord(source checkpoint.Source, parts []checkpoint.Change) *checkpoint.Record {
	m.tail.n++
	m.tail.seq++
	rec := &m.room().record
	m.next = nil
	rec.ID, rec.Parent, rec.Log, rec.Seq = m.cfg.Run.Checkpoint(m.tail.n), m.tail.head, m.cfg.Log, m.tail.seq
	rec.Step, rec.Source, rec.Begun, rec.Ran = m.step, source, m.begun, m.ran
	rec.Graph, rec.Version, rec.Metadata = m.cfg.Plan.Name, m.cfg.Version, m.cfg.Metadata
	rec.Changes, rec.Children = parts, m.children
	if m.tail.fork {
		m.tail.fork = false
		m.tail.branch = checkpoint.Branch(rec.ID)
		m.tail.results = false // those of the old branch stay there
		for i := range m.tasks {
			m.tasks[i].saved = saved{}
		}
	}
	rec.Branch, rec.Lineage = m.tail.branch, m.tail.lineage
	if n := len(m.recent); n > 0 {
		rec.Recent = m.recent[max(0, n-RecentNodes):n:n] // only ever appended to
	}
	if len(m.paused) > 0 {
		rec.Paused = slices.Clone(m.paused)
	}
	for _, d := range m.deferred {
		rec.Deferred = append(rec.Deferred, m.cfg.Plan.Nodes[d].Name)
	}
	for k := range m.joins {
		if j := &m.joins[k]; j.fired || j.has(arrived) || j.has(elsewhere) {
			rec.Joins = append(rec.Joins, checkpoint.Arrival{Join: m.cfg.Plan.Joins[k].ID, Sources: m.sources(k, arrived), Elsewhere: m.sources(k, elsewhere), Fired: j.fired})
		}
	}
	return rec
}

// finish adds a snapshot if one is due and hands the record to the next Ready.
func (m *Machine) finish(rec *checkpoint.Record) error {
	for _, c := range rec.Changes {
		m.tail.bytes += len(c.Data)
	}
	if !m.cfg.NoSnapshots && m.tail.bytes >= max(snapshotMin, snapshotRatio*m.tail.snap) {
		values, err := m.cfg.Values.Snapshot(m.base, m.tail.full)
		if err != nil {
			return err
		}
		s := &checkpoint.Snapshot{Values: values, Full: m.tail.full}
		size := len(values)
		if m.tail.full {
			m.tail.ranges = nil
		}
		for f, rs := range m.tail.ranges {
			if s.Ranges == nil {
				s.Ranges = map[string][][2]int64{}
			}
			s.Ranges[f] = slices.Clone(rs)
			size += len(f) + 12*len(rs)
		}
		rec.Snapshot = s
		m.tail.snap, m.tail.bytes = size, 0
	}
	for i := range rec.Open {
		for k := range rec.Open[i].Questions {
			if q := &rec.Open[i].Questions[k]; !q.Answered && !q.Due.IsZero() && (rec.Due.IsZero() || q.Due.Before(rec.Due)) {
				rec.Due = q.Due
			}
		}
	}
	m.tail.head = rec.ID
	if m.writes.record != nil {
		m.backlog = append(m.backlog, m.writes)
		m.writes = pending{cancel: m.writes.cancel}
	}
	m.writes.record = rec
	if rec.Branch == checkpoint.Branch(rec.ID) {
		m.saveFinished() // a new branch takes what tasks have done along
	}
	return nil
}

// openTasks lists what is known of the tasks of the open superstep.
func (m *Machine) openTasks() []checkpoint.OpenTask {
	var open []checkpoint.OpenTask
	for i := range m.tasks {
		t := &m.tasks[i]
		if t.Gen == 0 && !t.folded && !t.passed && len(t.Questions) == 0 && len(t.Children) == 0 && len(t.kept) == 0 && !t.added {
			continue
		}
		o := t.open()
		o.Gen, o.Folded, o.Passed = t.Gen, t.folded, t.passed
		if t.added {
			o.Node = m.cfg.Plan.Nodes[t.Node].Name
		}
		if t.folded {
			o.Changes = t.data
			if t.Status == Done {
				o.Routing = m.encodeRouting(t.Routing())
				t.saved.routing = true
			}
		}
		t.saved.open, t.saved.asked = true, true
		open = append(open, o)
	}
	return open
}

// open returns how a task stands, as far as that may change while its superstep is open.
func (t *Task) open() checkpoint.OpenTask {
	return checkpoint.OpenTask{
		Task: t.Index, Error: t.ErrText, Failure: t.Failure, Questions: slices.Clone(t.Questions), Children: t.Children, Kept: t.kept,
		Cut: t.asks() && t.Status != Interrupted && t.Status != Held,
	}
}

// saveFinished puts the results of tasks that ended beside the log.
func (m *Machine) saveFinished() {
	for i := range m.tasks {
		m.saveResults(&m.tasks[i])
	}
}

// saveEnded is saveFinished for the tasks reported since results were last saved:
// looking at all tasks at each report would make a fan-out quadratic.
func (m *Machine) saveEnded() {
	if m.cfg.Persist && len(m.ended) > 1 {
		m.writes.results = slices.Grow(m.writes.results, 2*len(m.ended)) // changes and routing of each
	}
	for _, i := range m.ended {
		m.saveResults(&m.tasks[i])
	}
	m.ended = m.ended[:0]
}

// RanResults returns what is recorded of a task whose node has ended, before it is
// known where the task leads: its changes, and where subgraphs stand that keep their
// state. The driver must not be at work on the machine in other ways than by running
// tasks.
func (m *Machine) RanResults(t *Task, data json.RawMessage, kept map[string]checkpoint.ID) []checkpoint.Result {
	rs := []checkpoint.Result{m.changesResult(t, data)}
	if len(kept) > 0 {
		rs = append(rs, m.openResult(t, checkpoint.OpenTask{Kept: kept}))
	}
	return rs
}

func (m *Machine) result(t *Task, kind checkpoint.ResultKind, name string, data json.RawMessage, replace bool) checkpoint.Result {
	return checkpoint.Result{
		Branch: m.tail.branch, Epoch: m.tail.epoch, Task: t.Index, Gen: t.Gen, Kind: kind, Name: name, Data: data, Replace: replace,
	}
}

// FailureResult returns what is recorded of a task whose node has failed: its last
// error, and what is known of its attempts and of the subgraphs that it has called.
func (m *Machine) FailureResult(t *Task, text string, known *checkpoint.Failure) checkpoint.Result {
	o := t.open()
	o.Error, o.Failure = text, known
	return m.openResult(t, o)
}

func (m *Machine) openResult(t *Task, o checkpoint.OpenTask) checkpoint.Result {
	o.Task, o.After = t.Index, m.tail.seq
	return m.result(t, checkpoint.KindOpen, "", must(json.Marshal(o)), true)
}

func (m *Machine) changesResult(t *Task, data json.RawMessage) checkpoint.Result {
	return m.result(t, checkpoint.KindChanges, checkpoint.VersionName(m.cfg.Version), data, false)
}

func (m *Machine) saveResults(t *Task) {
	if !m.cfg.Persist {
		return
	}
	before := len(m.writes.results)
	if t.ran && !t.folded && !t.saved.changes {
		t.saved.changes = true
		m.writes.results = append(m.writes.results, m.changesResult(t, t.data))
	}
	if t.Status == Done && !t.saved.routing {
		t.saved.routing = true
		m.writes.results = append(m.writes.results, m.result(t, checkpoint.KindRouting, checkpoint.VersionName(m.cfg.Version), m.marshalRouting(t.Routing()), false))
	}
	// A task that was cancelled is as it was, unless it has called subgraphs: a fan-out
	// that fails doesn't write of each of its tasks.
	if !t.saved.open && (t.Status == Failed || t.asks() || len(t.Children) > 0 || len(t.kept) > 0 && !t.folded) {
		t.saved.open = true
		m.writes.results = append(m.writes.results, m.openResult(t, t.open()))
	}
	if len(m.writes.results) > before {
		m.tail.results = true
	}
}

// alongEdges is the recorded form of a Routing along the static edges, which is
// what most tasks have. It is written into records and never altered.
var alongEdges = must(json.Marshal(&checkpoint.Routing{Static: true}))

func (m *Machine) marshalRouting(r *Routing) json.RawMessage {
	if r.isAlong() {
		return alongEdges
	}
	return must(json.Marshal(m.encodeRouting(r)))
}

// must returns data; err is never set for the types it is used with.
func must(data []byte, err error) json.RawMessage {
	if err != nil {
		panic(err)
	}
	return data
}

// saveSettled records how an open superstep stands that can't go on: results,
// and a record if there are questions that no record holds.
func (m *Machine) saveSettled() {
	if !m.cfg.Persist {
		return
	}
	ask := false
	for i := range m.tasks {
		t := &m.tasks[i]
		if t.asks() && !t.saved.asked {
			ask = true
			t.saved.open = true // the record holds them
		}
	}
	m.saveFinished()
	if ask && m.writes.record == nil {
		rec := m.newRecord(checkpoint.SourceInterrupt, nil)
		rec.Epoch = m.tail.epoch
		rec.Open = m.openTasks()
		_ = m.finish(rec) // has no changes, so no snapshot that could fail is due
	}
}

// takeWrite returns what has to be stored, nil if nothing.
func (m *Machine) takeWrite() *checkpoint.Write {
	if !m.cfg.Persist {
		return nil
	}
	if len(m.backlog) > 0 {
		p := m.backlog[0]
		m.backlog = m.backlog[1:]
		return m.write(&p)
	}
	p := m.writes
	m.writes = pending{cancel: p.cancel}
	return m.write(&p)
}

func (m *Machine) write(p *pending) *checkpoint.Write {
	if p.record == nil && len(p.results) == 0 && !p.claim {
		return nil
	}
	w := &checkpoint.Write{Log: m.cfg.Log, Claim: p.claim, Record: p.record, Drop: p.drop, Remove: p.remove}
	if len(p.results) > 0 {
		w.Results = p.results
	}
	if p.record != nil {
		w.Head = m.tail.logHead
		m.tail.logHead = p.record.ID
	}
	return w
}

// QuestionID identifies a question: 32 hexadecimal digits that depend on where
// it was asked and on its key, so that asking again gives the same one.
func QuestionID(log checkpoint.Log, branch checkpoint.Branch, epoch checkpoint.ID, task, gen int, key string) string {
	h := fnv.New128a()
	for _, s := range []string{string(log.Thread), log.Namespace, string(branch), string(epoch), strconv.Itoa(task), strconv.Itoa(gen), key} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (m *Machine) questionID(task, gen int, key string) string {
	return QuestionID(m.cfg.Log, m.tail.branch, m.tail.epoch, task, gen, key)
}

// Beside notes that somebody else stored results of the open superstep, so that
// they are dropped when it closes.
func (m *Machine) Beside() { m.tail.results = true }

func (m *Machine) encodeRouting(r *Routing) *checkpoint.Routing {
	out := &checkpoint.Routing{Static: r.Static, Stop: r.Stop}
	for _, t := range r.Goto {
		out.Goto = append(out.Goto, m.cfg.Plan.NameOf(t))
	}
	for _, s := range r.Sends {
		out.Sends = append(out.Sends, checkpoint.Task{Node: m.cfg.Plan.Nodes[s.Node].Name, Payload: s.Raw, Overlay: s.Overlay})
	}
	if r.Parent != nil {
		out.Parent = &checkpoint.Routing{Goto: r.Parent.Goto}
		for _, s := range r.Parent.Sends {
			out.Parent.Sends = append(out.Parent.Sends, checkpoint.Task{Node: s.Node, Payload: s.Raw, Overlay: s.Overlay})
		}
	}
	return out
}

// decodeRouting reads a routing that a version of the state's schema recorded. What
// is sent to the containing graph stays as it is.
func (m *Machine) decodeRouting(r *checkpoint.Routing, version int) (Routing, error) {
	out := Routing{Static: r.Static, Stop: r.Stop, Parent: decodeParent(r.Parent)}
	for _, name := range r.Goto {
		if name == plan.End {
			out.Goto = append(out.Goto, plan.ToEnd)
			continue
		}
		n, err := m.node(name)
		if err != nil {
			return out, err
		}
		out.Goto = append(out.Goto, n)
	}
	for _, s := range r.Sends {
		n, err := m.node(s.Node)
		if err != nil {
			return out, err
		}
		overlay, err := Upgrade(m.cfg.Values, version, s.Overlay)
		if err != nil {
			return out, err
		}
		out.Sends = append(out.Sends, Send{Node: n, Raw: s.Payload, Overlay: overlay})
	}
	return out, nil
}

func decodeParent(r *checkpoint.Routing) *ParentRouting {
	if r == nil {
		return nil
	}
	out := &ParentRouting{Goto: r.Goto}
	for _, s := range r.Sends {
		out.Sends = append(out.Sends, ParentSend{Node: s.Node, Raw: s.Payload, Overlay: s.Overlay})
	}
	return out
}
