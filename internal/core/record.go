package core

import (
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	"github.com/superstep-dev/superstep/checkpoint"
)

// A snapshot is written when the records since the last one weigh snapshotRatio
// times as much as it did, and at least snapshotMin bytes: snapshots then add
// at most a quarter to what is stored, and reading the newest state reads at
// most five times its size. A record weighs as much as its changes and, about,
// as it does without any.
const (
	snapshotMin   = 16 << 10
	snapshotRatio = 4
	recordBytes   = 64
)

// rangeGap is how many records without additions a range of a growing field may
// contain: reading a few too many costs less than a longer list of ranges.
const rangeGap = 2

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
	State   State               // at Record
	Weight
}

// Weight is how much a state is read from.
type Weight struct {
	Bytes  int  // of changes since the last snapshot
	Since  int  // how many records that is
	Snap   int  // size of the last snapshot
	Full   bool // it holds growing fields
	Range  int  // size of the changes that it refers to
	Ranges map[string][][2]int64
}

// Read returns about how many bytes that is.
func (w *Weight) Read() int { return w.Snap + w.Bytes + w.Range }

// Clone returns a copy that may be altered.
func (w Weight) Clone() Weight {
	w.Ranges = maps.Clone(w.Ranges)
	for f, rs := range w.Ranges {
		w.Ranges[f] = slices.Clone(rs)
	}
	return w
}

// Add adds the changes of a record.
func (w *Weight) Add(r *checkpoint.Record) {
	for i := range r.Changes {
		w.Bytes += len(r.Changes[i].Data)
	}
	w.Since++
}

// WeightOf returns that of a record's snapshot, but for the records that it refers to.
func WeightOf(r *checkpoint.Record) Weight {
	s := r.Snapshot
	w := Weight{Snap: len(s.Values), Full: s.Full, Ranges: s.Ranges}
	for f, rs := range s.Ranges {
		w.Snap += len(f) + 12*len(rs)
	}
	return w.Clone()
}

// Load returns a machine for a thread that stands at tip. If tip is not the
// log's head, the next record starts a branch.
func Load(cfg Config, tip Tip) (*Machine, error) {
	m := New(cfg)
	rec := tip.Record
	m.base, m.loaded = tip.State, tip.Results
	m.step, m.begun, m.ran = rec.Step, rec.Begun, rec.Ran
	m.tail = tail{
		codec: &m.codec, head: rec.ID, logHead: tip.LogHead, epoch: rec.Epoch, branch: rec.Branch, lineage: rec.Lineage, seq: rec.Seq,
		Weight: tip.Weight, results: len(tip.Results) > 0,
	}
	if cfg.Shared { // the newest record of a log has the highest number, of those of one run
		if m.tail.n = uint32(rec.Seq); tip.LogHead.Run() == cfg.Run {
			m.tail.n = max(m.tail.n, tip.LogHead.Count())
		}
	}
	if rec.ID != tip.LogHead {
		m.tail.branchOff()
	}
	m.children, m.caller = rec.Children, rec.Caller
	m.recent = slices.Clip(rec.Recent)
	m.paused = slices.Clone(rec.Paused)
	states, err := checkpoint.TaskStates(tip.Epoch, rec, tip.Results)
	if err != nil {
		return nil, err
	}
	if len(states)+len(rec.Paused) > 0 && rec.Graph != cfg.Plan.Name && !slices.Contains(cfg.Plan.Former, rec.Graph) {
		return nil, &UnknownNodeError{Thread: string(rec.Log.Thread), Graph: rec.Graph}
	}
	m.tasks = make([]Task, len(states))
	for i := range states {
		if err := m.codec.restore(&m.tasks[i], &states[i], tip.Epoch.Version); err != nil {
			return nil, err
		}
	}
	if len(tip.Epoch.Tasks) == 0 { // the run ended: where the containing graph goes on
		for _, c := range tip.Epoch.Changes {
			if c.Routing != nil {
				m.to.takeParent(&Routing{Parent: c.Routing.Parent})
			}
		}
		m.outcome.Parent, m.to.parent = m.to.parent, nil
	}
	if err := m.to.restore(rec, &m.codec); err != nil {
		return nil, err
	}
	return m, nil
}

// StartBranch makes what comes next the first record of a branch at the record the machine was
// loaded from. With keep the open superstep goes on where it stood; otherwise its tasks run
// again and its questions are asked again. They are the same tasks: what their sub-steps
// have come to is taken along either way, by [Machine.Fork].
func (m *Machine) StartBranch(keep bool) {
	m.tail.branchOff()
	if !keep {
		for i := range m.tasks {
			if t := &m.tasks[i]; !t.folded {
				t.void("")
				t.passed = true
			}
		}
		m.paused = nil
		m.begin()
	}
}

// Fork records a branch for what goes on in the open superstep: what is known of that is taken
// along. Where [Machine.StartBranch] has not started it otherwise, that goes on as it
// stood.
func (m *Machine) Fork() error {
	m.StartBranch(true)
	if err := m.record(checkpoint.SourceFork, nil); err != nil {
		return err
	}
	for _, r := range m.loaded {
		switch r.Kind {
		case checkpoint.KindChanges, checkpoint.KindRouting, checkpoint.KindOpen: // with keep, the record has seen to them
			continue
		}
		r.Branch = m.tail.branch
		m.tail.writes.Results = append(m.tail.writes.Results, r)
		m.tail.results = true
	}
	return nil
}

// give folds changes from outside and adds them to the parts of the next record, as those
// of a node's task if a node is named.
func (m *Machine) give(parts []checkpoint.Change, node string, task int, changes Changes) ([]checkpoint.Change, error) {
	when := Given
	if node != "" { // as the node's changes would be
		when = Written
	}
	if err := m.fold(when, changes); err != nil {
		return nil, err
	}
	if changes == nil && node == "" || !m.cfg.Persist {
		return parts, nil
	}
	data, err := m.cfg.Values.Encode(changes)
	if err != nil || data == nil && node == "" {
		return parts, err
	}
	m.grew(changes)
	return append(parts, checkpoint.Change{Node: node, Task: task, Data: data}), nil
}

// grew notes that the next record holds changes.
func (m *Machine) grew(changes Changes) {
	if m.cfg.Persist {
		m.tail.Ranges = Grow(m.tail.Ranges, m.cfg.Values.Growth(changes), m.tail.seq+1)
	}
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
	rec.Open = m.openTasks(&m.codec)
	return m.finish(rec)
}

// recordStep adds the record that commits a superstep and plans the next. Planned says
// that tasks were planned as those of the superstep lead.
func (m *Machine) recordStep(done []Task, planned bool) error {
	parts := m.tail.room().change[:0]
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
		led := m.tail.led(t.Routing(), planned)
		if t.folded && led == nil {
			continue
		}
		part := checkpoint.Change{Node: name, Task: i, Data: t.data, Routing: led}
		if t.began != 0 && !t.folded {
			part.Began, part.Took = t.began, t.took/1000
			if t.Failure != nil {
				part.Failed = t.Failure.Attempts
			}
		}
		parts = append(parts, part)
		m.grew(t.changes)
	}
	drop := m.tail.dropOpen()
	if err := m.newEpoch(checkpoint.SourceLoop, parts); err != nil {
		return err
	}
	m.tail.writes.Results, m.tail.writes.Drop = nil, drop
	return nil
}

// newEpoch adds a record that plans m.tasks.
func (m *Machine) newEpoch(source checkpoint.Source, parts []checkpoint.Change) error {
	room := m.tail.room()
	rec := m.newRecord(source, parts)
	rec.Epoch = rec.ID
	m.tail.epoch = rec.ID
	m.hold()
	m.ask()
	switch n := len(m.tasks); {
	case n == 1:
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
	rec.Open = m.openTasks(&m.codec)
	return m.finish(rec)
}

// newRecord advances the tail by a record.
func (m *Machine) newRecord(source checkpoint.Source, parts []checkpoint.Change) *checkpoint.Record {
	m.tail.seq++
	rec := new(checkpoint.Record)
	m.tail.next = nil
	rec.ID, rec.Parent, rec.Log, rec.Seq = m.tail.nextID(), m.tail.head, m.cfg.Log, m.tail.seq
	rec.Step, rec.Source, rec.Begun, rec.Ran = m.step, source, m.begun, m.ran
	rec.Graph, rec.Version, rec.Metadata = m.cfg.Plan.Name, m.cfg.Version, m.cfg.Metadata
	rec.Changes, rec.Children, rec.Caller = parts, m.children, m.caller
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
	m.to.record(rec)
	return rec
}

// finish adds a snapshot if one is due and hands the record to the next Ready.
func (m *Machine) finish(rec *checkpoint.Record) error {
	w := &m.tail.Weight
	w.Add(rec)
	if !m.cfg.NoSnapshots && w.Bytes+recordBytes*w.Since >= max(snapshotMin, snapshotRatio*w.Snap) {
		values, err := m.cfg.Values.Snapshot(m.base, w.Full)
		if err != nil {
			return err
		}
		rec.Snapshot = &checkpoint.Snapshot{Values: values, Full: w.Full}
		if !w.Full {
			rec.Snapshot.Ranges = w.Ranges
		}
		*w = WeightOf(rec)
	}
	for i := range rec.Open {
		for k := range rec.Open[i].Questions {
			if q := &rec.Open[i].Questions[k]; !q.Answered && !q.Due.IsZero() && (rec.Due.IsZero() || q.Due.Before(rec.Due)) {
				rec.Due = q.Due
			}
		}
	}
	m.tail.head = rec.ID
	if m.tail.writes.Record != nil {
		m.tail.backlog = append(m.tail.backlog, m.tail.writes)
		m.tail.writes = checkpoint.Write{}
	}
	m.tail.writes.Record = rec
	if rec.Branch == checkpoint.Branch(rec.ID) {
		m.saveFinished() // a new branch takes what tasks have done along
	}
	return nil
}

// open returns how a task stands, as far as that may change while its superstep is open.
func (t *Task) open() checkpoint.OpenTask {
	return checkpoint.OpenTask{
		Task: t.Index, Error: t.ErrText, Failure: t.Failure, Questions: slices.Clone(t.Questions), Children: t.Children, Kept: t.kept,
		Cut: t.cut && t.asks(),
	}
}

// saveFinished puts the results of tasks that ended beside the log.
func (m *Machine) saveFinished() {
	for i := range m.tasks {
		m.tail.save(&m.tasks[i])
	}
}

// saveEnded is saveFinished for the tasks reported since results were last saved:
// looking at all tasks at each report would make a fan-out quadratic.
func (m *Machine) saveEnded() {
	if m.cfg.Persist && len(m.ended) > 1 {
		m.tail.writes.Results = slices.Grow(m.tail.writes.Results, 2*len(m.ended)) // changes and routing of each
	}
	for _, i := range m.ended {
		m.tail.save(&m.tasks[i])
	}
	m.ended = m.ended[:0]
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
	if ask && m.tail.writes.Record == nil {
		_ = m.record(checkpoint.SourceInterrupt, nil) // has no changes, so no snapshot that could fail is due
	}
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

// Beside notes that somebody else stored results of the open superstep, so that
// they are dropped when it closes.
func (m *Machine) Beside() { m.tail.results = true }

// RanResults returns what is recorded of a task whose node has ended, before it is
// known where the task leads: its changes, and where subgraphs stand that keep their
// state. The driver must not be at work on the machine in other ways than by running
// tasks.
func (m *Machine) RanResults(t *Task, data json.RawMessage, kept map[string]checkpoint.ID) []checkpoint.Result {
	rs := []checkpoint.Result{m.tail.changesResult(t, data)}
	if len(kept) > 0 {
		rs = append(rs, m.tail.openResult(t, checkpoint.OpenTask{Kept: kept}))
	}
	return rs
}

// FailureResult returns what is recorded of a task whose node has failed: its last
// error, and what is known of its attempts and of the subgraphs that it has called.
func (m *Machine) FailureResult(t *Task, text string, known *checkpoint.Failure) checkpoint.Result {
	o := t.open()
	o.Error, o.Failure = text, known
	return m.tail.openResult(t, o)
}
