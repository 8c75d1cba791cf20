package graph

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/local"
)

// Open is the superstep that is open on a thread when an input comes; see [OnInput].
type Open struct {
	// Tasks are those that have not finished: they failed, wait, or were cut short; in plan
	// order. Of their questions there is Raw, but no Value.
	Tasks []TaskState

	// Restart says that the caller gives the superstep up, with
	// [Requests.Restart]: a turn starts in any case.
	Restart bool
}

// Recorded decodes what a task of an [Open] superstep has recorded with [Once] into v, a
// pointer, and reports whether there is such a record. Names are those of the node's own
// context: what was recorded in a [Scope] is not found.
func (t *TaskState) Recorded(name string, v any) (bool, error) {
	data, ok := t.recorded[name]
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, fmt.Errorf("recorded result of Once %q: %w", name, err)
	}
	return true, nil
}

// OnInput decides what input does to a thread on which something is pending; by
// default it is folded in, and the thread goes on. F is called with the state, what
// finished tasks of the open superstep wrote included, before the input is. It
// returns whether the input starts a turn at the entry: the tasks that have not
// finished are then given up, and what others wrote stays. An error refuses the
// input. What f writes is committed with the input: for example what the given up
// tasks have recorded, with the question whether an effect was made.
//
// F is also called where the caller starts a turn with [Requests.Restart]. Nil
// is the default.
func OnInput[S any](f func(s *S, open Open) (newTurn bool, err error)) RunOption {
	return runSetting(func(set *settings) {
		if set.onInput = nil; f == nil {
			return
		}
		set.onInput = func(state any, open Open) (bool, error) {
			s, ok := state.(*S)
			if !ok {
				return false, fmt.Errorf("graph.OnInput is for another state type: %v", reflect.TypeFor[S]())
			}
			return f(s, open)
		}
	})
}

// takeInput lets OnInput decide about an input. It returns what is left of the open
// superstep where a turn starts, nil where none does, and what was written.
func (e *engine) takeInput(s *local.Session, set *settings, input func(any) error, restart bool) (left *core.Left, changes any, err error) {
	open := Open{Tasks: e.openTasks(s, set), Restart: restart}
	newTurn := false
	changes, err = s.Edit(func(state any) (err error) {
		if newTurn, err = set.onInput(state, open); err != nil || newTurn || restart {
			return err
		}
		return input(state)
	})
	if err == nil && (newTurn || restart) {
		left = &core.Left{Edit: changes}
	}
	return left, changes, err
}

// openTasks returns the tasks of the open superstep that have not finished.
func (e *engine) openTasks(s *local.Session, set *settings) []TaskState {
	var open []TaskState
	m, did := s.Machine(), s.Did()
	for i := range m.Tasks() {
		if m.Task(i).Ran() {
			continue
		}
		task := e.taskState(m, i, set)
		task.recorded = did[i]
		open = append(open, task)
	}
	return open
}
