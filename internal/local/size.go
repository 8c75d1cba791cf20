package local

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Sizes says what of a run is large, in bytes of its recorded form. Nobody looks with the
// zero Sizes.
type Sizes struct {
	Warn int          // of a change or of the state; 0: never
	Max  int          // of the state, at which the run fails; 0: no limit
	Tell func(*Large) // of what is larger than Warn
}

// Large is a change or a state that is larger than it should be.
type Large struct {
	Node      string // that wrote the change; empty for an input or the state
	State     bool   // the state itself
	Size      int
	Field     string // the largest one
	FieldSize int
}

// StateSizeError says that a state has grown beyond the limit.
type StateSizeError struct {
	Thread    string
	Size      int // bytes of its recorded form
	Limit     int
	Field     string // the largest one
	FieldSize int
}

func (e *StateSizeError) Error() string {
	return fmt.Sprintf("the state of thread %q has %d bytes, the limit is %d; the largest field is %q with %d bytes: store large data elsewhere and keep a reference to it", e.Thread, e.Size, e.Limit, e.Field, e.FieldSize)
}

// weigh looks at the size of a record's changes, and now and then at that of the
// state: when so much was written that it may have doubled since. So looking
// costs a small part of writing.
func (s *Session) weigh(r *checkpoint.Record) error {
	z := &s.o.Sizes
	if z.Warn == 0 && z.Max == 0 {
		return nil
	}
	if s.weighAt == 0 {
		// What was read is no news: somebody has been told when it was written.
		if s.tip != nil {
			s.written = s.tip.Read()
		}
		s.weighAt = cmp.Or(z.Warn, z.Max)
		for s.weighAt < s.written {
			s.weighAt *= 2
		}
		if z.Max > 0 {
			s.weighAt = min(s.weighAt, max(z.Max, s.written))
		}
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		s.written += len(c.Data)
		if z.Warn > 0 && len(c.Data) > z.Warn {
			l := &Large{Node: c.Node, Size: len(c.Data)}
			l.Field, l.FieldSize = largest(c.Data)
			z.Tell(l)
		}
	}
	if s.written <= s.weighAt {
		return nil
	}
	values, err := s.prog.Values.Snapshot(s.m.State(), true)
	if err != nil {
		return err
	}
	size := len(values)
	if size > z.Warn && z.Warn > 0 || size > z.Max && z.Max > 0 {
		l := &Large{State: true, Size: size}
		l.Field, l.FieldSize = largest(values)
		if z.Warn > 0 && size > z.Warn {
			z.Tell(l)
		}
		if z.Max > 0 && size > z.Max {
			return &StateSizeError{Thread: string(s.o.Log.Thread), Size: size, Limit: z.Max, Field: l.Field, FieldSize: l.FieldSize}
		}
	}
	s.weighAt += max(size, s.weighAt)
	if z.Max > 0 { // which it must not pass unseen
		s.weighAt = min(s.weighAt, s.written+max(z.Max-size, z.Max/16))
	}
	return nil
}

// largest returns the largest field of recorded changes or values.
func largest(data json.RawMessage) (field string, size int) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return "", 0
	}
	for name, v := range fields {
		if len(v) > size || len(v) == size && name < field {
			field, size = name, len(v)
		}
	}
	return field, size
}
