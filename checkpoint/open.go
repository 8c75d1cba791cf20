package checkpoint

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Status says where a task of an open superstep stands.
type Status uint8

// The statuses. No record has one: they follow from what is recorded, but for
// StatusRunning, which only the run knows.
const (
	StatusWaiting     Status = iota // to be started
	StatusHeld                      // behind a breakpoint
	StatusRunning                   // started, not ended
	StatusRouting                   // its node has finished, where it leads is not known
	StatusDone                      // both are known
	StatusFailed                    // ended with an error
	StatusInterrupted               // waits for answers
)

var statusNames = [...]string{"waiting", "held", "running", "routing", "done", "failed", "interrupted"}

func (s Status) String() string { return statusNames[s] }

// TaskState is all that is recorded of a task of an open superstep.
type TaskState struct {
	// OpenTask is the newer of what a record and what the task has left since says of
	// it. Node is set for each task, Routing also where a result has it.
	OpenTask

	Status  Status
	Planned *Task           // nil if an edit stood in for the node
	Ran     bool            // the node has finished; a router may have failed since
	Changes json.RawMessage // what it wrote and the state doesn't have yet
	Known   bool            // the record, or a result, says how the task stands
	Asked   int             // how many of the questions the record has

	// The versions of the state's schema of Changes and Routing: other versions of the
	// program may have written some of them.
	ChangesVersion, RoutingVersion int
}

// VersionName returns the name of a result with changes or a routing that a version of
// the state's schema wrote.
func VersionName(version int) string {
	if version == 0 {
		return ""
	}
	return strconv.Itoa(version)
}

func versionOf(name string) int {
	v, err := strconv.Atoi(name)
	if err != nil {
		return 0
	}
	return v
}

// TaskStates returns the tasks of the superstep that is open at a record, from the record
// that planned it and what its tasks have left beside the log, if that is of interest:
// whoever goes on with the superstep or tells of it uses this. Some of what tasks have
// left may be newer than the record. One that waits there for answers runs again when
// they are given: what it has left since is not what it comes to with other answers.
func TaskStates(epoch, rec *Record, results []Result) ([]TaskState, error) {
	tasks := make([]TaskState, len(epoch.Tasks), len(epoch.Tasks)+1)
	for i := range epoch.Tasks {
		t := &tasks[i]
		t.Task, t.Node, t.Planned = i, epoch.Tasks[i].Node, &epoch.Tasks[i]
	}
	at := func(what string, task int) (*TaskState, error) {
		if task < 0 || task >= len(tasks) {
			return nil, fmt.Errorf("%s of task %d of %d at record %s: %w", what, task, len(tasks), rec.ID, ErrCorrupt)
		}
		return &tasks[task], nil
	}
	for i := range rec.Open {
		o := &rec.Open[i]
		if o.Node != "" {
			tasks = append(tasks, TaskState{OpenTask: OpenTask{Node: o.Node}})
		}
		t, err := at("state", o.Task)
		if err != nil {
			return nil, err
		}
		node := t.Node
		t.OpenTask, t.Known, t.Asked = *o, true, len(o.Questions)
		t.Node, t.Ran = node, o.Folded
		t.RoutingVersion = rec.Version
	}
	for i := range results {
		r := &results[i]
		if r.Kind != KindOpen {
			continue
		}
		t, err := at("result", r.Task)
		if err != nil {
			return nil, err
		}
		if r.Gen == t.Gen {
			if err := t.left(r, rec.Seq); err != nil {
				return nil, err
			}
		}
	}
	for i := range results {
		r := &results[i]
		if r.Kind != KindChanges && r.Kind != KindRouting {
			continue
		}
		t, err := at("result", r.Task)
		if err != nil {
			return nil, err
		}
		if r.Gen == t.Gen && !t.Asks() {
			if err := t.finished(r); err != nil {
				return nil, err
			}
		}
	}
	for i := range tasks {
		tasks[i].settle()
	}
	return tasks, nil
}

// left takes in how the task stood when it ended, at a record with a number.
func (t *TaskState) left(r *Result, seq int64) error {
	var o OpenTask
	if err := json.Unmarshal(r.Data, &o); err != nil {
		return fmt.Errorf("how task %d stands: %w: %w", r.Task, ErrCorrupt, err)
	}
	if t.Known && o.After < seq || t.Asks() && o.After > seq {
		return nil
	}
	t.Error, t.Failure, t.Questions, t.Cut, t.Children, t.Kept = o.Error, o.Failure, o.Questions, o.Cut, o.Children, o.Kept
	t.Known = true
	return nil
}

// finished takes in what the task wrote, or where it leads. The first such result holds:
// another version of the program may have written another.
func (t *TaskState) finished(r *Result) error {
	switch {
	case r.Kind == KindChanges && !t.Ran:
		t.Ran, t.Changes, t.ChangesVersion = true, r.Data, versionOf(r.Name)
	case r.Kind == KindRouting && t.Routing == nil:
		t.Routing, t.RoutingVersion = new(Routing), versionOf(r.Name)
		if err := json.Unmarshal(r.Data, t.Routing); err != nil {
			return fmt.Errorf("routing of task %d: %w: %w", r.Task, ErrCorrupt, err)
		}
	}
	return nil
}

// settle says where the task stands by what is known of it.
func (t *TaskState) settle() {
	t.Status = StatusOf(t.Questions, t.Cut, t.Ran, t.Routing != nil, t.Error != "")
	if t.Status == StatusDone || t.Status == StatusInterrupted {
		t.Error = ""
	}
}

// StatusOf says where a task stands that doesn't run: by its questions, whether it was cut
// short while it asked, whether its node has finished, whether it is known where it leads,
// and whether it has failed.
func StatusOf(questions []Question, cut, ran, led, failed bool) Status {
	held := func(q Question) bool { return q.When == "before" && len(q.Path) == 0 }
	switch {
	case led:
		return StatusDone
	case !ran && slices.ContainsFunc(questions, held):
		return StatusHeld
	case !cut && Asks(questions):
		return StatusInterrupted
	case failed:
		return StatusFailed
	case ran:
		return StatusRouting
	}
	return StatusWaiting
}

// Asks reports whether a question of the task waits for an answer.
func (o *OpenTask) Asks() bool { return Asks(o.Questions) }

// Asks reports whether one of the questions waits for an answer.
func Asks(questions []Question) bool {
	return slices.ContainsFunc(questions, func(q Question) bool { return !q.Answered })
}

// OpenTask returns what the record says of a task of its open superstep, nil if
// nothing.
func (r *Record) OpenTask(task int) *OpenTask {
	i, ok := slices.BinarySearchFunc(r.Open, task, func(o OpenTask, task int) int { return o.Task - task })
	if !ok {
		return nil
	}
	return &r.Open[i]
}
