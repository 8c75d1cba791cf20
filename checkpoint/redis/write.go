package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/backend"
)

// maxLease keeps the end of a lease below 2^53 microseconds since 1970.
const maxLease = 1 << 52

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// Write implements [checkpoint.Store].
func (s *Store) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if err := s.start(ctx, w.Log.Thread); err != nil {
		return checkpoint.Written{}, err
	}
	if err := w.Check(); err != nil {
		return checkpoint.Written{}, err
	}
	args, err := s.writeArgs(w)
	if err != nil {
		return checkpoint.Written{}, err
	}
	out, err := s.script(ctx, "write to", writeScript, w.Log.Thread, []checkpoint.ThreadID{w.Log.Thread}, args)
	if err != nil {
		return checkpoint.Written{}, err
	}
	switch field(out, 0) {
	case "ok":
		var done checkpoint.Written
		fence, err := strconv.ParseInt(field(out, 1), 10, 64)
		ignored, err2 := strconv.Atoi(field(out, 2))
		if err := errors.Join(err, err2); err != nil {
			return done, s.damage(w.Log, "l", "", err)
		}
		done.Fence, done.Ignored = checkpoint.Fence(fence), ignored
		return done, nil
	case "busy":
		return checkpoint.Written{}, s.busy(w.Log, out[1:])
	case "fenced":
		return checkpoint.Written{}, s.fenced(w.Log, out, w.Fence)
	case "conflict":
		return checkpoint.Written{}, backend.Conflict(w.Log, checkpoint.ID(field(out, 1)), w.Head)
	case "exists":
		return checkpoint.Written{}, fmt.Errorf("%w: thread %q has a record %s already", checkpoint.ErrInvalid, w.Log.Thread, w.Record.ID)
	case "place":
		last, err := strconv.ParseInt(field(out, 1), 10, 64)
		if err != nil {
			return checkpoint.Written{}, s.damage(w.Log, "l", "b"+string(w.Record.Branch), err)
		}
		if err := w.Record.CheckPlace(last); err != nil {
			return checkpoint.Written{}, err
		}
	}
	return checkpoint.Written{}, fmt.Errorf("redis: write to %s: unexpected answer %q", s.server, out)
}

// field returns one part of an answer, "" if it is not there.
func field(out []string, i int) string {
	if i < len(out) {
		return out[i]
	}
	return ""
}

// writeArgs makes the arguments that lua/write.lua expects.
func (s *Store) writeArgs(w *checkpoint.Write) ([]any, error) {
	drop := ""
	if w.Drop != nil {
		drop = stepKey(w.Drop.Branch, w.Drop.Epoch)
	}
	args := make([]any, 0, 25+2*len(w.Remove)+4*len(w.Results))
	args = append(args,
		string(w.Log.Thread), w.Log.Namespace, newToken(), flag(w.Claim), w.Steal, strconv.FormatInt(int64(w.Fence), 10),
		strconv.FormatInt(leaseMicros(w.Lease), 10), strconv.FormatInt(int64(w.Lease), 10), w.Holder, flag(w.Release),
		flag(w.Wake), s.ttlArg(), drop, strconv.Itoa(len(w.Remove)), strconv.Itoa(len(w.Results)), flag(w.Record != nil),
	)
	if r := w.Record; r != nil {
		meta, data, err := checkpoint.MarshalBody(r)
		if err != nil {
			return nil, err
		}
		args = append(args,
			string(w.Head), string(r.ID), string(r.Branch), strconv.FormatInt(r.Seq, 10), strconv.FormatInt(r.Seq-1, 10),
			indexKey(r), dueKey(r.Due), appendEntry(r, meta, data), data,
		)
	}
	for i := range w.Remove {
		k := &w.Remove[i]
		args = append(args, stepKey(k.Branch, k.Epoch), resultKey(*k))
	}
	for i := range w.Results {
		r := &w.Results[i]
		step := stepKey(r.Branch, r.Epoch)
		var value []byte
		if step != drop { // else it is only counted
			var err error
			if value, err = checkpoint.MarshalResult(r); err != nil {
				return nil, err
			}
		}
		args = append(args, step, resultKey(r.Key()), flag(r.Replace), value)
	}
	return args, nil
}

// leaseMicros is a length in microseconds, rounded up.
func leaseMicros(d time.Duration) int64 {
	return min(int64((d+time.Microsecond-1)/time.Microsecond), maxLease)
}

// ttlArg is the TTL in milliseconds, rounded up.
func (s *Store) ttlArg() string {
	return strconv.FormatInt(int64((s.ttl+time.Millisecond-1)/time.Millisecond), 10)
}

// lease reads holder, end and length as the scripts give them; an empty holder
// means none.
func (s *Store) lease(log checkpoint.Log, f []string) (checkpoint.Lease, error) {
	if len(f) < 3 || f[0] == "" {
		return checkpoint.Lease{}, nil
	}
	until, err := strconv.ParseInt(f[1], 10, 64)
	ttl, err2 := strconv.ParseInt(f[2], 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return checkpoint.Lease{}, &checkpoint.CorruptError{Thread: log.Thread, Place: fmt.Sprintf("key %q", s.threadKey(log.Thread)), Offset: -1, Err: err}
	}
	return checkpoint.Lease{Holder: f[0], Until: time.UnixMicro(until).UTC(), TTL: time.Duration(ttl)}, nil
}

func (s *Store) busy(log checkpoint.Log, f []string) error {
	l, err := s.lease(log, f)
	if err != nil {
		return err
	}
	return &checkpoint.BusyError{Thread: log.Thread, Lease: l}
}

func (s *Store) fenced(log checkpoint.Log, out []string, writer checkpoint.Fence) error {
	fence, err := strconv.ParseInt(field(out, 1), 10, 64)
	if err != nil {
		return s.damage(log, "l", "", err)
	}
	return &checkpoint.FencedError{Thread: log.Thread, At: checkpoint.Fence(fence), Writer: writer, Holder: field(out, 2)}
}

// Delete implements [checkpoint.Store].
func (s *Store) Delete(ctx context.Context, thread checkpoint.ThreadID) error {
	if err := s.start(ctx, thread); err != nil {
		return err
	}
	_, err := s.script(ctx, "delete from", deleteScript, thread, []checkpoint.ThreadID{thread}, []any{string(thread)})
	return err
}

// Copy implements [checkpoint.Copier]. The server copies the thread without
// sending it around, and does nothing else meanwhile.
func (s *Store) Copy(ctx context.Context, from, to checkpoint.ThreadID) error {
	if err := s.start(ctx, from); err != nil {
		return err
	}
	if to == "" {
		return checkpoint.ErrNoThread
	}
	out, err := s.script(ctx, "copy in", copyScript, from, []checkpoint.ThreadID{from, to}, []any{string(from), string(to), newToken(), s.ttlArg()})
	if err != nil {
		return err
	}
	switch field(out, 0) {
	case "ok":
		return nil
	case "missing":
		return fmt.Errorf("%w: thread %q", checkpoint.ErrNotFound, from)
	case "exists":
		return fmt.Errorf("%w: thread %q exists already", checkpoint.ErrConflict, to)
	}
	return fmt.Errorf("redis: copy in %s: unexpected answer %q", s.server, out)
}
