package redis

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Verify implements [checkpoint.Verifier]. It reads everything: all checksums are
// compared, all records and results decoded, and the lists of a log with its
// records. A thread that is written to meanwhile may be reported by mistake.
func (s *Store) Verify(ctx context.Context, thread checkpoint.ThreadID) iter.Seq2[*checkpoint.CorruptError, error] {
	return func(yield func(*checkpoint.CorruptError, error) bool) {
		// report yields damage and reports whether to go on.
		report := func(err error) bool {
			if err == nil {
				return true
			}
			if c, ok := errors.AsType[*checkpoint.CorruptError](err); ok {
				return yield(c, nil)
			}
			yield(nil, err)
			return false
		}
		if thread != "" {
			s.verify(ctx, thread, report)
			return
		}
		for err, f := range s.names(ctx, "") {
			if err != nil {
				yield(nil, err)
				return
			}
			if !s.verify(ctx, checkpoint.ThreadID(f[0]), report) {
				return
			}
		}
	}
}

// verify reports the damage of a thread, until report says to stop; then it
// returns false.
func (s *Store) verify(ctx context.Context, thread checkpoint.ThreadID, report func(error) bool) bool {
	if err := s.start(ctx, thread); err != nil {
		return report(err)
	}
	spaces, err := s.eval(ctx, "verify in", spacesScript, thread)
	if err != nil {
		return report(err)
	}
	for _, ns := range spaces {
		log := checkpoint.Log{Thread: thread, Namespace: ns}
		if !s.verifyLog(ctx, log, report) {
			return false
		}
		steps, err := s.eval(ctx, "verify in", stepsScript, thread, ns)
		if err != nil {
			return report(err)
		}
		for _, step := range steps {
			list, err := s.eval(ctx, "verify in", resultsScript, thread, ns, step)
			if err != nil {
				return report(err)
			}
			for _, v := range list {
				_, r, err := parseResult(v)
				if err == nil && stepKey(r.Branch, r.Epoch) != step {
					err = fmt.Errorf("a result of branch %q, epoch %s, is kept elsewhere", r.Branch, r.Epoch)
				}
				if err != nil && !report(s.damage(log, "o", step, err)) {
					return false
				}
			}
		}
	}
	return true
}

func (s *Store) verifyLog(ctx context.Context, log checkpoint.Log, report func(error) bool) bool {
	o, err := s.outlineOf(ctx, log)
	if err != nil {
		return report(err)
	}
	if o == nil {
		return true
	}
	q := checkpoint.Query{Log: log, AllBranches: true}
	var n int64
	var head checkpoint.ID
	for r, err := range s.walk(ctx, q, o.spans(&q)) {
		if err != nil {
			if !report(err) || !errors.Is(err, checkpoint.ErrCorrupt) {
				return false
			}
			n++
			head = o.head // it may be the one that is damaged
			continue
		}
		n, head = n+1, r.ID
		found, err := s.eval(ctx, "verify in", getScript, log.Thread, log.Namespace, string(r.ID))
		if err != nil {
			return report(err)
		}
		if field(found, 1) != r.at {
			if !report(s.damage(log, "i", string(r.ID), fmt.Errorf("record %s is not found by its ID", r.ID))) {
				return false
			}
		}
	}
	if n != o.records && !report(s.damage(log, "m", "", fmt.Errorf("%d records, %d were written", n, o.records))) {
		return false
	}
	return head == o.head || report(s.damage(log, "l", "h", fmt.Errorf("the head is %s, the newest record is %s", o.head, head)))
}
