package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// event is an event as it is stored.
type event struct {
	Event string          `json:"event"`
	Value json.RawMessage `json:"value"`
}

// ErrNamespace: threads are found by their time in the empty namespace alone.
var ErrNamespace = errors.New("sleeping, deadlines and events need the empty namespace")

// DeadlineError says that an answer or an event did not come in time.
type DeadlineError struct {
	Node   string
	Key    string
	Event  string // empty for a question
	Thread string // whose end was waited for; else empty
	Due    time.Time
}

func (e *DeadlineError) Error() string {
	if e.Thread != "" {
		return fmt.Sprintf("node %q: thread %q (%q) had not ended by %s", e.Node, e.Thread, e.Key, e.Due.Format(time.RFC3339))
	}
	if e.Event != "" {
		return fmt.Sprintf("node %q: event %q did not come until %s", e.Node, e.Event, e.Due.Format(time.RFC3339))
	}
	return fmt.Sprintf("node %q: question %q was not answered until %s", e.Node, e.Key, e.Due.Format(time.RFC3339))
}

// root returns the session of the graph that the run began with.
func (s *Session) root() *Session {
	for s.o.parent != nil {
		s = s.o.parent.s
	}
	return s
}

// SendEvent leaves an event for a thread, and makes the thread due.
func SendEvent(ctx context.Context, store checkpoint.Store, thread checkpoint.ThreadID, name string, value json.RawMessage) error {
	log := checkpoint.Log{Thread: thread}
	if _, _, err := store.Head(ctx, log); err != nil {
		return &CheckpointError{Thread: thread, Op: "load", Err: err}
	}
	data, err := json.Marshal(event{name, value})
	if err != nil {
		return fmt.Errorf("event %q: %w", name, err)
	}
	_, err = store.Write(ctx, &checkpoint.Write{Log: log, Wake: true, Results: []checkpoint.Result{{
		Epoch: checkpoint.EventsEpoch, Kind: checkpoint.KindEvent, Name: string(checkpoint.NewRunID()), Data: data,
	}}})
	if err != nil {
		return &CheckpointError{Thread: thread, Op: "save", Err: err}
	}
	return nil
}

// settle answers what the clock or an event can answer when nothing else can go
// on: not in a replay, which stands where its recording stood. It reports whether
// anything was.
func (s *Session) settle(ctx context.Context) (again bool, err error) {
	if s.saver == nil || s.o.parent != nil || s.o.Tape != nil || s.flushing || len(s.flight.failure) > 0 || s.m.Outcome().Err != nil || ctx.Err() != nil || s.handsOn() || !timed(s.m) || s.draining() {
		return false, nil
	}
	now := time.Now()
	answers := map[string]json.RawMessage{}
	var used []checkpoint.ResultKey
	var mail []checkpoint.Result
	read := false
	for _, q := range OpenQuestions(s.m) {
		if q.Event != "" {
			if !read {
				read = true
				if mail, err = s.o.Store.Results(ctx, s.o.Log, "", checkpoint.EventsEpoch); err != nil {
					return false, &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: err}
				}
			}
			for i := range mail {
				var e event
				if mail[i].Kind != checkpoint.KindEvent {
					continue
				}
				if err := json.Unmarshal(mail[i].Data, &e); err != nil {
					return false, &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: fmt.Errorf("event %s: %w: %w", mail[i].Name, checkpoint.ErrCorrupt, err)}
				}
				if e.Event == q.Event {
					answers[q.ID] = e.Value
					used = append(used, mail[i].Key())
					mail[i].Kind = "" // taken
					break
				}
			}
		}
		if q.Turn != nil {
			end, err := endOf(ctx, s.o.Store, q.Turn, s.o.Log.Thread)
			if err != nil {
				return false, err
			}
			if end != nil {
				if answers[q.ID], err = json.Marshal(end); err != nil {
					return false, err
				}
			}
		}
		if _, answered := answers[q.ID]; !answered && !q.Due.IsZero() && !q.Due.After(now) {
			answers[q.ID] = nil
		}
	}
	if len(answers) == 0 {
		return false, nil
	}
	s.m.Consume(used)
	return true, s.m.Answer(answers, nil)
}

// cutShort reports whether a run with that error might have gone on: it failed by
// the store, was drained, or lost its thread.
func cutShort(err error) bool {
	if err == nil {
		return false
	}
	var e *CheckpointError
	return errors.As(err, &e) || errors.Is(err, ErrDrained) || errors.Is(err, ErrThreadBusy)
}

// wakes reports whether the thread is to be made due when it is given up. The
// claim has ended what made it due before, an event or the death of its run, and
// a run that was cut short may not have come to look at that: somebody else must.
func (s *Session) wakes(ctx context.Context) bool {
	if s.ended || s.o.Log.Namespace != "" || s.m != nil && s.tip == nil && s.last == nil && s.anew == "" {
		return false
	}
	if s.o.ClaimFirst { // nobody but a runner continues what a runner had begun
		return true
	}
	awaits := s.m != nil && slices.ContainsFunc(OpenQuestions(s.m), func(q checkpoint.Question) bool { return q.Turn != nil })
	return awaits || hasMail(ctx, s.o.Store, s.o.Log)
}

// hasMail reports whether events may wait for a thread.
func hasMail(ctx context.Context, store checkpoint.Store, log checkpoint.Log) bool {
	mail, err := store.Results(ctx, log, "", checkpoint.EventsEpoch)
	return err != nil || len(mail) > 0
}
