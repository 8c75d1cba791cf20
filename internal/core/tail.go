package core

import (
	"encoding/json"
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
)

// tail is the end of the log as the machine has written or read it, and what is to be
// written next.
type tail struct {
	*codec

	writes  checkpoint.Write   // what the next Ready has to hold, unless there is a backlog
	backlog []checkpoint.Write // records decided on before the one in writes
	rooms   []room             // for records to come
	next    *room              // of the next record, if something has been put there

	head    checkpoint.ID // of the line
	logHead checkpoint.ID // of the log; differs from head before a fork's first record
	epoch   checkpoint.ID
	branch  checkpoint.Branch
	lineage []checkpoint.Span
	fork    bool // the next record starts a branch
	seq     int64
	n       uint32 // records written by this run

	ids   string           // of records to come
	ready checkpoint.Write // that a Ready holds

	results bool // the open superstep has stored results

	Weight // of what the state would be read from
}

// room is for what most records refer to. Three of it, as a record alone, are as long as
// what the collector scans best: 512 bytes.
type room struct {
	task   [1]checkpoint.Task
	change [1]checkpoint.Change
}

// dropOpen names the stored results of the open superstep, nil if there are
// none.
func (l *tail) dropOpen() *checkpoint.Drop {
	if !l.results || l.fork { // those of the branch forked from stay
		return nil
	}
	l.results = false
	return &checkpoint.Drop{Branch: l.branch, Epoch: l.epoch}
}

// room returns the room of the next record.
func (l *tail) room() *room {
	if l.next == nil {
		if len(l.rooms) == 0 {
			l.rooms = make([]room, 3)
		}
		l.next, l.rooms = &l.rooms[0], l.rooms[1:]
	}
	return l.next
}

// led returns how a record that commits a superstep says where a task led, nil for
// along the edges. Planned says that the record has what was sent among its tasks.
func (l *tail) led(r *Routing, planned bool) *checkpoint.Routing {
	if r.isAlong() {
		return nil
	}
	if len(r.Goto) == 1 && !r.Static && !r.Stop && len(r.Sends) == 0 && r.Parent == nil {
		return l.alone(r.Goto[0])
	}
	if !planned {
		return l.encode(r)
	}
	rest := *r
	rest.Sends = nil
	led := l.encode(&rest)
	led.Sent = len(r.Sends)
	return led
}

// nextID returns the ID of the next record of a run. Several are made at a time.
func (l *tail) nextID() checkpoint.ID {
	l.n++
	if l.ids == "" {
		var made [maxIDs * idLen]byte
		b := made[:0]
		for i := range min(max(l.n, 2), maxIDs) {
			b = l.Run.AppendCheckpoint(b, l.n+i)
		}
		l.ids = string(b)
	}
	id := l.ids[:idLen]
	l.ids = l.ids[idLen:]
	return checkpoint.ID(id)
}

const (
	idLen  = 36
	maxIDs = 8
)

func (l *tail) result(t *Task, kind checkpoint.ResultKind, name string, data json.RawMessage, replace bool) checkpoint.Result {
	return checkpoint.Result{
		Branch: l.branch, Epoch: l.epoch, Task: t.Index, Gen: t.Gen, Kind: kind, Name: name, Data: data, Replace: replace,
	}
}

func (l *tail) openResult(t *Task, o checkpoint.OpenTask) checkpoint.Result {
	o.Task, o.After = t.Index, l.seq
	return l.result(t, checkpoint.KindOpen, "", must(json.Marshal(o)), true)
}

func (l *tail) changesResult(t *Task, data json.RawMessage) checkpoint.Result {
	return l.result(t, checkpoint.KindChanges, checkpoint.VersionName(l.Version), data, false)
}

// takeWrite returns what has to be stored, nil if nothing.
func (l *tail) takeWrite() *checkpoint.Write {
	if !l.Persist {
		return nil
	}
	w := &l.ready
	if len(l.backlog) > 0 {
		*w, l.backlog = l.backlog[0], l.backlog[1:]
	} else {
		*w, l.writes = l.writes, checkpoint.Write{}
	}
	if w.Record == nil && len(w.Results) == 0 {
		return nil
	}
	if w.Log = l.Log; w.Record != nil {
		w.Head, l.logHead = l.logHead, w.Record.ID
	}
	return w
}

// branchOff makes the next record the first of a branch.
func (l *tail) branchOff() {
	l.fork, l.results = true, false // those of the old branch stay there
	at := checkpoint.Span{Branch: l.branch, To: l.seq}
	if n := len(l.lineage); n == 0 || l.lineage[n-1] != at {
		l.lineage = append(slices.Clone(l.lineage), at)
	}
}

func (l *tail) questionID(task, gen int, key string) string {
	return QuestionID(l.Log, l.branch, l.epoch, task, gen, key)
}

// save puts beside the log what a task has come to since it was last saved.
func (l *tail) save(t *Task) {
	if !l.Persist {
		return
	}
	before := len(l.writes.Results)
	if t.ran && !t.folded && !t.saved.changes {
		t.saved.changes = true
		l.writes.Results = append(l.writes.Results, l.changesResult(t, t.data))
	}
	if t.routing != nil && !t.saved.routing {
		t.saved.routing = true
		l.writes.Results = append(l.writes.Results, l.result(t, checkpoint.KindRouting, checkpoint.VersionName(l.Version), l.marshal(t.Routing()), false))
	}
	// A task that was cancelled is as it was, unless it has called subgraphs: a fan-out
	// that fails doesn't write of each of its tasks.
	if !t.saved.open && (t.failed() || t.asks() || len(t.Children) > 0 || len(t.kept) > 0 && !t.folded) {
		t.saved.open = true
		l.writes.Results = append(l.writes.Results, l.openResult(t, t.open()))
	}
	if len(l.writes.Results) > before {
		l.results = true
	}
}
