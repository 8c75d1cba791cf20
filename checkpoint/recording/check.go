package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// ErrDamaged: no thread can have recorded what the recording holds. [Recording.Check] says
// what it is.
var ErrDamaged = errors.New("the recording is damaged")

// mostSeq is the greatest sequence number, and the greatest of other counts, that a
// recording may have.
const mostSeq = 1 << 30

// Check reports what no thread can have recorded: the error is an [ErrDamaged]. It is for
// recordings from those who may not write to the store themselves, before [Recording.Put].
// It doesn't say whether a program can read the thread.
func (r *Recording) Check() error {
	if own := r.Log(""); own == nil || len(own.Records) == 0 {
		return fmt.Errorf("%w: it has no record of the thread's own log", ErrDamaged)
	}
	for _, l := range r.Logs {
		if err := l.check(); err != nil {
			return fmt.Errorf("%w: log %.80q: %w", ErrDamaged, l.Namespace, err)
		}
	}
	return nil
}

func (l *Log) check() error {
	if err := plain("its namespace", l.Namespace); err != nil {
		return err
	}
	seqs := map[checkpoint.ID]int64{}
	last := map[checkpoint.Branch]int64{}
	for _, rec := range l.Records {
		err := checkRecord(rec)
		if before, known := last[rec.Branch]; err == nil && known && rec.Seq <= before {
			err = fmt.Errorf("its sequence number is %d, after %d", rec.Seq, before)
		} else if err == nil && !known && rec.Branch != "" && rec.Branch != checkpoint.Branch(rec.ID) {
			err = errors.New("it is the first of a branch that has another ID")
		}
		if _, twice := seqs[rec.ID]; err == nil && twice {
			err = errors.New("it is there twice")
		}
		if before, known := seqs[rec.Parent]; err == nil && known && rec.Seq <= before {
			err = fmt.Errorf("its sequence number is %d, and that of the record before it %d", rec.Seq, before)
		}
		if err != nil {
			return fmt.Errorf("record %.80q: %w", rec.ID, err)
		}
		seqs[rec.ID], last[rec.Branch] = rec.Seq, rec.Seq
	}
	for i := range l.Results {
		if err := checkResult(&l.Results[i]); err != nil {
			return fmt.Errorf("result %d: %w", i+1, err)
		}
	}
	return nil
}

func checkRecord(r *checkpoint.Record) error {
	switch {
	case !r.ID.Valid():
		return errors.New("its ID is no ID of a checkpoint")
	case !r.Epoch.Valid():
		return errors.New("its epoch is no ID of a checkpoint")
	case r.Parent != "" && !r.Parent.Valid():
		return errors.New("its parent is no ID of a checkpoint")
	case r.Branch != "" && !checkpoint.ID(r.Branch).Valid():
		return errors.New("its branch is no ID of a checkpoint")
	case r.Sealed != nil:
		return errors.New("it is sealed")
	case r.Parent == r.ID:
		return errors.New("it stands before itself")
	case r.Seq < 1 || r.Seq > mostSeq:
		return fmt.Errorf("its sequence number is %d", r.Seq)
	case len(r.Lineage) > 0 && r.Branch == "":
		return errors.New("it has a lineage and no branch")
	}
	to := int64(0)
	for _, s := range r.Lineage {
		if s.To <= to || s.To >= r.Seq || s.Branch != "" && !checkpoint.ID(s.Branch).Valid() {
			return errors.New("its lineage is none")
		}
		to = s.To
	}
	counts := []int{r.Step, r.Begun, r.Ran, r.Version}
	times := []time.Time{r.CreatedAt, r.Due}
	for i := range r.Changes {
		c := &r.Changes[i]
		counts = append(counts, c.Task, c.Failed)
		if c.Began < 0 || c.Took < 0 {
			return fmt.Errorf("task %d has a time before all times", c.Task)
		}
		times = append(times, time.UnixMicro(c.Began))
	}
	for i := range r.Once {
		counts = append(counts, r.Once[i].Task)
	}
	for i := range r.Open {
		counts = append(counts, r.Open[i].Task, r.Open[i].Gen)
		for _, q := range r.Open[i].Questions {
			times = append(times, q.Due)
		}
	}
	for _, n := range counts {
		if n < 0 || n > mostSeq {
			return fmt.Errorf("it counts %d of something", n)
		}
	}
	for _, t := range times {
		if y := t.UTC().Year(); y < 1 || y > 9999 {
			return fmt.Errorf("it has a time of the year %d", y)
		}
	}
	if s := r.Snapshot; s != nil {
		for field, ranges := range s.Ranges {
			for _, of := range ranges {
				if of[0] < 1 || of[1] < of[0] || of[1] > r.Seq {
					return fmt.Errorf("its snapshot refers to records %d to %d for field %.80q", of[0], of[1], field)
				}
			}
		}
	}
	for k, v := range r.Metadata {
		if err := errors.Join(plain("a name of its metadata", k), plain("its metadata", v)); err != nil {
			return err
		}
	}
	return errors.Join(plain("the name of its graph", r.Graph), plain("its source", string(r.Source)))
}

func checkResult(r *checkpoint.Result) error {
	switch apart := r.Epoch == checkpoint.EventsEpoch || r.Epoch == checkpoint.PartsEpoch; {
	case !apart && !r.Epoch.Valid():
		return errors.New("its epoch is no ID of a checkpoint")
	case r.Branch != "" && !checkpoint.ID(r.Branch).Valid():
		return errors.New("its branch is no ID of a checkpoint")
	case r.Task < 0 || r.Task > mostSeq || r.Gen < 0 || r.Gen > mostSeq:
		return fmt.Errorf("it is of task %d, generation %d", r.Task, r.Gen)
	}
	return errors.Join(plain("its kind", string(r.Kind)), plain("its name", r.Name))
}

// plain refuses texts that not every store can hold.
func plain(what, text string) error {
	if strings.ContainsRune(text, 0) {
		return fmt.Errorf("%s has a zero character", what)
	}
	return nil
}

// Writes returns how many records and results [Recording.Put] writes, those that stand for
// pruned records for a while included, of a recording that [Recording.Check] finds whole.
func (r *Recording) Writes() int {
	n := 0
	for _, l := range r.Logs {
		last := map[checkpoint.Branch]int64{"": 0}
		for _, rec := range l.Records {
			n++
			if before, known := last[rec.Branch]; known {
				n += int(rec.Seq - before - 1)
			}
			last[rec.Branch] = rec.Seq
		}
		n += len(l.Results)
	}
	return n
}

// Others returns the other threads whose end the recorded one waits for, or has waited for
// (graph.Spawn): whoever runs the thread, or a fork of it, reads their states.
func (r *Recording) Others() []checkpoint.ThreadID {
	var ids []checkpoint.ThreadID
	add := func(t *checkpoint.Turn) {
		if t != nil && t.Thread != "" && !slices.Contains(ids, t.Thread) {
			ids = append(ids, t.Thread)
		}
	}
	asked := func(o *checkpoint.OpenTask) {
		for i := range o.Questions {
			add(o.Questions[i].Turn)
		}
	}
	for _, l := range r.Logs {
		for _, rec := range l.Records {
			for i := range rec.Open {
				asked(&rec.Open[i])
			}
		}
		for _, res := range l.Results {
			switch {
			case res.Kind == checkpoint.KindOpen:
				var o checkpoint.OpenTask
				_ = json.Unmarshal(res.Data, &o) // of what can't be read nobody makes use
				asked(&o)
			case res.Kind == checkpoint.KindOnce && strings.Contains(res.Name, spawned):
				var t checkpoint.Turn
				_ = json.Unmarshal(res.Data, &t)
				add(&t)
			}
		}
	}
	return ids
}

// spawned is in the names of sub-steps whose result is a turn of another thread: the same as
// in package graph, which stands above this one.
const spawned = "Spawn "
