package codec

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/superstep-dev/superstep/checkpoint"
)

// rewrapBatch is how many bytes of records are rewritten at once: a store may
// copy a whole log for each rewrite.
const rewrapBatch = 16 << 20

// Rewrap seals all of a thread anew that is not in the form that the options ask
// for: in clear (which needs AllowPlain), under an old key, or with names that
// another key hashed. It returns how many records and results it wrote. It can be
// called again after an error, and while other threads are in use; a thread that
// a run holds is refused with [checkpoint.ErrBusy]. Without keys, it seals the
// records that stand as they were before the store was wrapped. The inner store
// needs to be a [checkpoint.Rewriter] and a [checkpoint.Lister].
func (s *Store) Rewrap(ctx context.Context, thread checkpoint.ThreadID) (n int, err error) {
	release, _, err := s.Lock(ctx, thread, "rewrap "+string(checkpoint.NewRunID()), checkpoint.TryLock, nil)
	if err != nil {
		return 0, err
	}
	defer release(false)
	// Who claims the thread from here on makes the writes below fail.
	w, err := s.inner.Write(ctx, &checkpoint.Write{Log: checkpoint.Log{Thread: thread}})
	if err != nil {
		return 0, err
	}
	return s.rewrap(ctx, thread, thread, w.Fence)
}

// Copy implements [checkpoint.Copier]. Since encryption binds what it seals to
// its thread, all of the copy is sealed anew, in batches: until Copy returns,
// reading the copy is an error, and if Copy fails, the copy is deleted. Results
// are looked for in the supersteps that are open at the ends of branches, and
// among the events and parts, which is where the engine keeps them; others cannot be read
// in the copy. With encryption the inner store needs to be a [checkpoint.Rewriter]
// and a [checkpoint.Lister] as well.
func (s *Store) Copy(ctx context.Context, from, to checkpoint.ThreadID) error {
	c, ok := s.inner.(checkpoint.Copier)
	if !ok {
		return s.unsupported("copying a thread")
	}
	if s.ring == nil {
		return c.Copy(ctx, from, to)
	}
	if err := s.canRewrap(); err != nil {
		return err
	}
	if err := c.Copy(ctx, from, to); err != nil {
		return err
	}
	if _, err := s.rewrap(ctx, to, from, 0); err != nil {
		err = fmt.Errorf("codec: copying thread %q to %q: %w", from, to, err)
		return errors.Join(err, s.inner.Delete(context.WithoutCancel(ctx), to))
	}
	return nil
}

func (s *Store) canRewrap() error {
	_, ok := s.inner.(checkpoint.Rewriter)
	if _, lists := s.inner.(checkpoint.Lister); !ok || !lists {
		return s.unsupported("sealing a thread anew")
	}
	return nil
}

// rewrap seals a thread anew whose content was sealed for thread from.
func (s *Store) rewrap(ctx context.Context, thread, from checkpoint.ThreadID, fence checkpoint.Fence) (n int, err error) {
	if err := s.canRewrap(); err != nil {
		return 0, err
	}
	var logs []checkpoint.Log
	for info, err := range s.inner.(checkpoint.Lister).Logs(ctx, thread) {
		if err != nil {
			return 0, err
		}
		logs = append(logs, info.Log)
	}
	for _, log := range logs {
		r := rewrapping{s: s, log: log, from: checkpoint.Log{Thread: from, Namespace: log.Namespace}, fence: fence}
		err := r.run(ctx)
		if n += r.n; err != nil {
			return n, err
		}
	}
	return n, nil
}

// rewrapping seals one log anew.
type rewrapping struct {
	s         *Store
	log, from checkpoint.Log // from: where it was sealed
	fence     checkpoint.Fence
	n         int
}

func (r *rewrapping) run(ctx context.Context) error {
	ids, open, err := r.s.survey(ctx, r.log)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return nil
	}
	head := ids[len(ids)-1]
	var batch []*checkpoint.Record
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := r.s.inner.(checkpoint.Rewriter).Rewrite(ctx, &checkpoint.Rewrite{Log: r.log, Head: head, Fence: r.fence, Replace: batch})
		if err == nil {
			r.n += len(batch)
		}
		batch, size = nil, 0
		return err
	}
	for _, id := range ids {
		rec, err := r.s.inner.Get(ctx, r.log, id)
		if err != nil {
			return err
		}
		if !r.needed(rec) {
			continue
		}
		plain, _, err := r.s.openAs(rec, r.from, true)
		if err != nil {
			return err
		}
		sealed, err := r.s.seal(plain)
		if err != nil {
			return err
		}
		batch = append(batch, sealed)
		if size += len(sealed.Sealed.Meta) + len(sealed.Sealed.Data); size > rewrapBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	for _, d := range open {
		if err := r.results(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// needed reports whether a record is to be sealed anew.
func (r *rewrapping) needed(rec *checkpoint.Record) bool {
	if rec.Sealed == nil || r.log != r.from {
		return true
	}
	if r.s.ring == nil {
		return false
	}
	b, id := rec.Sealed.Meta, r.s.ring.current.id
	return len(b) < 2+len(id) || b[0]&flagEncrypted == 0 || int(b[1]) != len(id) || string(b[2:2+len(id)]) != id
}

// results seals the results of one superstep anew, all of them if any needs it:
// they keep their order.
func (r *rewrapping) results(ctx context.Context, d checkpoint.Drop) error {
	if r.s.ring == nil {
		return nil
	}
	rs, err := r.s.inner.Results(ctx, r.log, d.Branch, d.Epoch)
	if err != nil {
		return err
	}
	w := &checkpoint.Write{Log: r.log, Fence: r.fence}
	needed := r.log != r.from
	for i := range rs {
		plain, key, err := r.s.openResult(r.log, r.from, &rs[i], &needed)
		if err != nil {
			return err
		}
		needed = needed || key != r.s.ring.current.id
		sealed, err := r.s.sealResult(r.log, &plain)
		if err != nil {
			return err
		}
		w.Remove = append(w.Remove, rs[i].Key())
		w.Results = append(w.Results, sealed)
	}
	if !needed || len(rs) == 0 {
		return nil
	}
	if _, err := r.s.inner.Write(ctx, w); err != nil {
		return err
	}
	r.n += len(rs)
	return nil
}

// survey returns the records of a log in the order appended, and where there may
// be results: in the superstep that is open at the newest record of each branch,
// kept for that branch or for the first one, and among the events.
func (s *Store) survey(ctx context.Context, log checkpoint.Log) (ids []checkpoint.ID, open []checkpoint.Drop, err error) {
	tips := map[checkpoint.Branch]checkpoint.ID{}
	var branches []checkpoint.Branch
	for rec, err := range s.inner.Records(ctx, checkpoint.Query{Log: log, AllBranches: true, Meta: true}) {
		if err != nil {
			return nil, nil, err
		}
		ids = append(ids, rec.ID)
		if _, known := tips[rec.Branch]; !known {
			branches = append(branches, rec.Branch)
		}
		tips[rec.Branch] = rec.Epoch
	}
	seen := map[checkpoint.Drop]bool{}
	add := func(b checkpoint.Branch, epoch checkpoint.ID) {
		if d := (checkpoint.Drop{Branch: b, Epoch: epoch}); !seen[d] {
			seen[d] = true
			open = append(open, d)
		}
	}
	for _, b := range branches {
		add(b, tips[b])
		add("", tips[b])
	}
	add("", checkpoint.EventsEpoch)
	add("", checkpoint.PartsEpoch)
	return ids, open, nil
}

// Verify implements [checkpoint.Verifier]: what the inner store finds damaged, if
// it looks, and then all that cannot be opened. What needs a key that is missing,
// and what stands in clear and must not, counts as damaged. The inner store needs
// to be a [checkpoint.Lister].
func (s *Store) Verify(ctx context.Context, thread checkpoint.ThreadID) iter.Seq2[*checkpoint.CorruptError, error] {
	return func(yield func(*checkpoint.CorruptError, error) bool) {
		v, looks := s.inner.(checkpoint.Verifier)
		if looks {
			for c, err := range v.Verify(ctx, thread) {
				if !yield(c, err) || err != nil {
					return
				}
			}
		}
		l, ok := s.inner.(checkpoint.Lister)
		if !ok {
			yield(nil, s.unsupported("opening all threads"))
			return
		}
		var threads []checkpoint.ThreadID
		if thread != "" {
			threads = append(threads, thread)
		} else {
			for info, err := range l.Threads(ctx, checkpoint.ThreadFilter{}) {
				if err != nil {
					yield(nil, err)
					return
				}
				threads = append(threads, info.Thread)
			}
		}
		for _, t := range threads {
			if !s.verify(ctx, l, t, !looks, yield) {
				return
			}
		}
	}
}

// verify opens all of a thread. Damage that the inner store meets is told if
// inner says so; else the inner store has told it. It reports whether to go on.
func (s *Store) verify(ctx context.Context, l checkpoint.Lister, thread checkpoint.ThreadID, inner bool, yield func(*checkpoint.CorruptError, error) bool) bool {
	// found reports whether to go on after an error.
	found := func(err error, own bool, place string) bool {
		c, damaged := errors.AsType[*checkpoint.CorruptError](err)
		switch {
		case damaged && !own && !inner:
			return true
		case damaged:
			return yield(c, nil)
		case own:
			return yield(&checkpoint.CorruptError{Thread: thread, Place: place, Offset: -1, Err: err}, nil)
		}
		yield(nil, err)
		return false
	}
	var logs []checkpoint.Log
	for info, err := range l.Logs(ctx, thread) {
		if err != nil {
			if !found(err, false, "") {
				return false
			}
			break
		}
		logs = append(logs, info.Log)
	}
	for _, log := range logs {
		for rec, err := range s.inner.Records(ctx, checkpoint.Query{Log: log, AllBranches: true}) {
			if err != nil {
				if !found(err, false, "") {
					return false
				}
				break
			}
			if _, err := s.open(rec, true); err != nil && !found(err, true, recordPlace(rec)) {
				return false
			}
		}
		_, open, err := s.survey(ctx, log)
		if err != nil {
			if !found(err, false, "") {
				return false
			}
			continue
		}
		for _, d := range open {
			rs, err := s.inner.Results(ctx, log, d.Branch, d.Epoch)
			if err != nil {
				if !found(err, false, "") {
					return false
				}
				continue
			}
			for i := range rs {
				if _, _, err := s.openResult(log, log, &rs[i], nil); err != nil && !found(err, true, resultPlace(log, &rs[i])) {
					return false
				}
			}
		}
	}
	return true
}
