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

// maxGap is how many removed records a piece of a branch may have in a row: to
// step over a few costs less than to remember them.
const maxGap = 64

// A script changes so many records of a log at most: the server does nothing else
// meanwhile.
const (
	pieceRecords = 500
	pieceBytes   = 4 << 20 // of records that are sent
)

// stageTime is how long a log that is prepared stays, if its preparation ends.
const stageTime = 10 * time.Minute

// Rewrite implements [checkpoint.Rewriter]. It reads where the records of the log
// stand, without their data, then changes all of them by one script. Where many go,
// those that stay are copied first, piece by piece, and that script puts the copy in
// the log's place.
func (s *Store) Rewrite(ctx context.Context, r *checkpoint.Rewrite) error {
	if err := s.start(ctx, r.Log.Thread); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	for {
		args, stage, unfit := s.planRewrite(ctx, r)
		if unfit != nil {
			if !errors.Is(unfit, checkpoint.ErrNotFound) && !errors.Is(unfit, checkpoint.ErrInvalid) {
				return unfit
			}
			args = s.rewriteArgs(r, nil, nil) // a lease or another head comes first
		}
		out, err := s.script(ctx, "rewrite in", rewriteScript, r.Log.Thread, []checkpoint.ThreadID{r.Log.Thread}, args)
		if err != nil {
			return err
		}
		if stage != "" && field(out, 0) != "ok" {
			s.unstage(ctx, r.Log, stage)
		}
		switch field(out, 0) {
		case "ok":
			return nil
		case "again": // somebody else rewrote the log in between
			if unfit != nil {
				return unfit
			}
		case "missing":
			return fmt.Errorf("%w: log %v", checkpoint.ErrNotFound, r.Log)
		case "busy":
			return s.busy(r.Log, out[1:])
		case "fenced":
			return s.fenced(r.Log, out, r.Fence)
		case "conflict":
			return backend.Conflict(r.Log, checkpoint.ID(field(out, 1)), r.Head)
		default:
			return fmt.Errorf("redis: rewrite in %s: unexpected answer %q", s.server, out)
		}
		if err := s.start(ctx, r.Log.Thread); err != nil {
			return err
		}
	}
}

// planRewrite makes the arguments that lua/rewrite.lua expects.
func (s *Store) planRewrite(ctx context.Context, r *checkpoint.Rewrite) (args []any, stage string, err error) {
	o, err := s.outlineOf(ctx, r.Log)
	if err != nil {
		return nil, "", err
	}
	if o == nil {
		return nil, "", fmt.Errorf("%w: log %v", checkpoint.ErrNotFound, r.Log)
	}
	if o.head != r.Head {
		// Before the records are read; the script finds a lease, which comes first.
		return s.rewriteArgs(r, o, nil), "", nil
	}
	replace, remove := make(map[checkpoint.ID]*checkpoint.Record, len(r.Replace)), make(map[checkpoint.ID]bool, len(r.Remove))
	for _, rec := range r.Replace {
		replace[rec.ID] = rec
	}
	for _, id := range r.Remove {
		remove[id] = true
	}
	p := &rewritePlan{}
	kept := map[checkpoint.Branch]bool{}            // branches with records left
	newest := map[checkpoint.Branch]checkpoint.ID{} // of each branch, as it is
	var misfit error                                // reported if all records exist
	var head *checkpoint.Record
	found := 0
	q := checkpoint.Query{Log: r.Log, AllBranches: true, Meta: true}
	for rec, err := range s.walk(ctx, q, o.spans(&q)) {
		if err != nil {
			return nil, "", err
		}
		place, err := strconv.ParseInt(rec.at, 10, 64)
		if err != nil {
			return nil, "", err
		}
		id, branch := rec.ID, rec.Branch
		newest[branch] = id
		head = rec.Record
		if remove[id] {
			found++
			p.gone = pack(p.gone, rec.at, string(id))
			continue
		}
		l := left{place: rec.at, id: id}
		if with := replace[id]; with != nil {
			found++
			if misfit == nil && (with.Branch != branch || with.Seq != rec.Seq) {
				misfit = fmt.Errorf("%w: record %s of log %v stands elsewhere than its replacement", checkpoint.ErrInvalid, id, r.Log)
			}
			meta, data, err := checkpoint.MarshalBody(with)
			if err != nil {
				return nil, "", err
			}
			l.entry, l.data = appendEntry(with, meta, data), data
			head = with
		}
		if misfit == nil && branch != "" && !kept[branch] && checkpoint.Branch(id) != branch {
			misfit = fmt.Errorf("%w: the first record of branch %s of log %v goes, though others stay", checkpoint.ErrInvalid, branch, r.Log)
		}
		kept[branch] = true
		p.left = append(p.left, l)
		p.keep(place, rec.Record)
		if len(p.first) == 0 {
			p.first = backKey(head.CreatedAt)
		}
	}
	if found != len(replace)+len(remove) {
		return nil, "", s.unknown(ctx, r)
	}
	if misfit != nil {
		return nil, "", misfit
	}
	for b, id := range newest {
		switch {
		case !kept[b]:
			p.branches = pack(p.branches, string(b))
		case remove[id]:
			return nil, "", fmt.Errorf("%w: record %s, the newest of its branch, goes, though others stay", checkpoint.ErrInvalid, id)
		}
	}
	if p.all = len(kept) == 0; !p.all {
		if remove[r.Head] {
			return nil, "", fmt.Errorf("%w: the head of log %v goes, though others stay", checkpoint.ErrInvalid, r.Log)
		}
		p.back, p.due = indexKey(head), dueKey(head.Due)
		p.segments[len(p.segments)-1].to = 0 // it goes on
	}
	if !p.all && len(r.Remove) > pieceRecords {
		if err := s.stage(ctx, r.Log, p); err != nil {
			return nil, "", err
		}
	}
	return s.rewriteArgs(r, o, p), p.stage, nil
}

// left is a record that stays.
type left struct {
	place       string
	id          checkpoint.ID
	entry, data []byte // if it is replaced
}

// stage prepares the log that p leads to.
func (s *Store) stage(ctx context.Context, log checkpoint.Log, p *rewritePlan) (err error) {
	p.stage = newToken()
	defer func() {
		if err != nil {
			s.unstage(ctx, log, p.stage)
		}
	}()
	for rest := p.left; len(rest) > 0; {
		var places []byte
		var with []any
		n, size := 0, 0
		for n < len(rest) && n < pieceRecords && size < pieceBytes {
			l := &rest[n]
			places = pack(places, l.place, string(l.id))
			if l.entry != nil {
				with = append(with, l.place, l.entry, l.data)
				size += len(l.entry) + len(l.data)
			}
			n++
		}
		rest = rest[n:]
		out, err := s.stageSome(ctx, log, p.stage, stageTime, places, with)
		if err != nil {
			return err
		}
		if field(out, 0) != "ok" { // another rewrite was first, as the last script finds out
			return nil
		}
		some, err := strconv.ParseInt(field(out, 1), 10, 64)
		withData, err2 := strconv.ParseInt(field(out, 2), 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return s.damage(log, "m", "", err)
		}
		p.size, p.withData = p.size+some, withData
	}
	return nil
}

func (s *Store) stageSome(ctx context.Context, log checkpoint.Log, stage string, d time.Duration, places []byte, with []any) ([]string, error) {
	args := append([]any{log.Namespace, stage, strconv.FormatInt(d.Milliseconds(), 10), places}, with...)
	return s.script(ctx, "rewrite in", stageScript, log.Thread, nil, args)
}

// unstage removes what was prepared. If it fails, that ends by itself.
func (s *Store) unstage(ctx context.Context, log checkpoint.Log, stage string) {
	_, _ = s.stageSome(context.WithoutCancel(ctx), log, stage, 0, nil, nil)
}

// unknown names a record that the log does not have.
func (s *Store) unknown(ctx context.Context, r *checkpoint.Rewrite) error {
	ids := append([]checkpoint.ID(nil), r.Remove...)
	for _, rec := range r.Replace {
		ids = append(ids, rec.ID)
	}
	for _, id := range ids {
		if _, err := s.Get(ctx, r.Log, id); err != nil {
			return err
		}
	}
	return backend.Conflict(r.Log, "another", r.Head) // all are there now: the log has moved on
}

type rewritePlan struct {
	all      bool
	first    string // time of the first record that stays
	back     string // time of the head
	due      string // when the head is due
	gone     []byte // places and IDs
	branches []byte // that are gone
	segments []segment
	left     []left

	stage    string // where the log is prepared, if it is
	size     int64  // of it
	withData int64  // records of it that have data
}

// keep extends the pieces of branches by a record that stays.
func (p *rewritePlan) keep(place int64, r *checkpoint.Record) {
	if n := len(p.segments); n > 0 {
		g := &p.segments[n-1]
		if g.branch == r.Branch && place-g.from == r.Seq-g.seq && place-g.to <= maxGap {
			g.to = place
			return
		}
	}
	p.segments = append(p.segments, segment{from: place, to: place, seq: r.Seq, branch: r.Branch})
}

// rewriteArgs without a plan makes the script look, and change nothing.
func (s *Store) rewriteArgs(r *checkpoint.Rewrite, o *outline, p *rewritePlan) []any {
	fence := strconv.FormatInt(int64(r.Fence), 10)
	if p == nil {
		return []any{string(r.Log.Thread), r.Log.Namespace, newToken(), string(r.Head), fence, "none", s.ttlArg()}
	}
	args := []any{string(r.Log.Thread), r.Log.Namespace, newToken(), string(r.Head), fence, o.rewrites, s.ttlArg()}
	var segments []byte
	for _, g := range p.segments {
		segments = pack(segments, g.String())
	}
	args = append(args, flag(p.all), p.first, p.back, p.due,
		p.stage, strconv.Itoa(len(p.left)), strconv.FormatInt(p.size, 10), strconv.FormatInt(p.withData, 10))
	if p.stage != "" {
		return append(args, "", segments, p.branches)
	}
	args = append(args, p.gone, segments, p.branches)
	for i := range p.left {
		if l := &p.left[i]; l.entry != nil {
			args = append(args, l.place, l.entry, l.data)
		}
	}
	return args
}
