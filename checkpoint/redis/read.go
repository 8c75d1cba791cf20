package redis

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/superstep-dev/superstep/checkpoint"
)

// A page is what one script returns: so many records or threads at most, and
// some more bytes than these at most.
const (
	pageRecords     = 256
	pageRecordsDesc = 16 // of the first page: who reads back from the newest mostly stops soon
	pageThreads     = 128
	pageBytes       = 1 << 20
	pageRanges      = 256 // pieces of a branch that one script walks through
)

func (s *Store) one(ctx context.Context, log checkpoint.Log, id checkpoint.ID, what string) (*checkpoint.Record, checkpoint.Fence, error) {
	if err := s.start(ctx, log.Thread); err != nil {
		return nil, 0, err
	}
	out, err := s.eval(ctx, "read from", getScript, log.Thread, log.Namespace, string(id))
	if err != nil {
		return nil, 0, err
	}
	n, err := strconv.ParseInt(field(out, 0), 10, 64)
	if err != nil {
		return nil, 0, &checkpoint.CorruptError{Thread: log.Thread, Place: fmt.Sprintf("key %q, field \"f\"", s.threadKey(log.Thread)), Offset: -1, Err: err}
	}
	fence := checkpoint.Fence(n).Read()
	if len(out) != 4 {
		return nil, fence, fmt.Errorf("%w: thread %q, namespace %q has no %s", checkpoint.ErrNotFound, log.Thread, log.Namespace, what)
	}
	r, err := s.decode(log, out[1], out[2], out[3], true)
	return r, fence, err
}

// Head implements [checkpoint.Store].
func (s *Store) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	return s.one(ctx, log, "", "record")
}

// Get implements [checkpoint.Store].
func (s *Store) Get(ctx context.Context, log checkpoint.Log, id checkpoint.ID) (*checkpoint.Record, error) {
	if id == "" { // the script would take it for the head
		if err := s.start(ctx, log.Thread); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: thread %q, namespace %q: a record without an ID", checkpoint.ErrNotFound, log.Thread, log.Namespace)
	}
	r, _, err := s.one(ctx, log, id, "record "+string(id))
	return r, err
}

// outline is what says where the records of a log stand.
type outline struct {
	last     int64 // place
	rewrites string
	head     checkpoint.ID
	records  int64
	segments []segment
}

// outlineOf returns nil for a log without records.
func (s *Store) outlineOf(ctx context.Context, log checkpoint.Log) (*outline, error) {
	out, err := s.eval(ctx, "read from", segmentsScript, log.Thread, log.Namespace)
	if err != nil || len(out) < 5 {
		return nil, err
	}
	return s.parseOutline(log, out)
}

// parseOutline reads what lua/segments.lua says of a log.
func (s *Store) parseOutline(log checkpoint.Log, out []string) (o *outline, err error) {
	o = &outline{rewrites: out[1], head: checkpoint.ID(out[2])}
	if o.last, err = strconv.ParseInt(out[0], 10, 64); err != nil {
		return nil, s.damage(log, "l", "n", err)
	}
	if o.records, err = strconv.ParseInt(out[3], 10, 64); err != nil {
		return nil, s.damage(log, "l", "c", err)
	}
	if out[4] != "1" { // places would be walked through for ever if it is far too large
		return nil, s.damage(log, "l", "n", fmt.Errorf("no record is at place %d, the last", o.last))
	}
	if o.segments, err = parseSegments(out[5:], o.last); err != nil {
		return nil, s.damage(log, "g", "", err)
	}
	return o, nil
}

// span is a range of places, read from first to second.
type span [2]int64

// spans returns where the records of a query stand.
func (o *outline) spans(q *checkpoint.Query) []span {
	var out []span
	for _, g := range o.segments {
		from, to := g.from, g.to
		if !q.AllBranches {
			if g.branch != q.Branch {
				continue
			}
			if q.From > g.seq {
				if q.From-g.seq > to-from {
					continue
				}
				from += q.From - g.seq
			}
			if q.To != 0 {
				if q.To < g.seq {
					continue
				}
				to = min(to, g.from+min(q.To-g.seq, to-g.from))
			}
		}
		if from <= to {
			out = append(out, span{from, to})
		}
	}
	if q.Desc {
		slices.Reverse(out)
		for i, p := range out {
			out[i] = span{p[1], p[0]}
		}
	}
	return out
}

// Records implements [checkpoint.Store]. It asks once where the records stand and
// then once for each page of them. It yields the records that were there when
// the iteration began, less those removed meanwhile.
func (s *Store) Records(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Record, error] {
	return func(yield func(*checkpoint.Record, error) bool) {
		if err := s.start(ctx, q.Log.Thread); err != nil {
			yield(nil, err)
			return
		}
		o, err := s.outlineOf(ctx, q.Log)
		if err != nil {
			yield(nil, err)
			return
		}
		if o == nil {
			return
		}
		for r, err := range s.walk(ctx, q, o.spans(&q)) {
			if !yield(r.Record, err) || err != nil {
				return
			}
		}
	}
}

// placed is a record with its place.
type placed struct {
	*checkpoint.Record
	at string
}

// walk yields the records of a log that stand at spans, up to the query's limit.
// Damage ends it, unless the caller goes on.
func (s *Store) walk(ctx context.Context, q checkpoint.Query, spans []span) iter.Seq2[placed, error] {
	return func(yield func(placed, error) bool) {
		left, size := q.Limit, pageRecords
		if q.Desc {
			size = pageRecordsDesc
		}
		for ; len(spans) > 0; size = min(4*size, pageRecords) {
			if err := s.start(ctx, q.Log.Thread); err != nil {
				yield(placed{}, err)
				return
			}
			want := size
			if q.Limit > 0 {
				want = min(want, left)
			}
			asked := min(len(spans), pageRanges)
			args := []any{q.Log.Namespace, flag(q.Meta), strconv.Itoa(want), strconv.Itoa(pageBytes)}
			for _, p := range spans[:asked] {
				args = append(args, strconv.FormatInt(p[0], 10), strconv.FormatInt(p[1], 10))
			}
			page, err := s.eval(ctx, "read from", pageScript, q.Log.Thread, args...)
			if err != nil {
				yield(placed{}, err)
				return
			}
			if len(page) < 2 || len(page)%3 != 2 {
				yield(placed{}, fmt.Errorf("redis: read from %s: unexpected answer of %d parts", s.server, len(page)))
				return
			}
			if spans, err = rest(spans, asked, page); err != nil {
				yield(placed{}, fmt.Errorf("redis: read from %s: %w", s.server, err))
				return
			}
			for i := 2; i < len(page); i += 3 {
				if err := s.start(ctx, q.Log.Thread); err != nil {
					yield(placed{}, err)
					return
				}
				r, err := s.decode(q.Log, page[i], page[i+1], page[i+2], !q.Meta)
				page[i+1], page[i+2] = "", ""
				if !yield(placed{r, page[i]}, err) {
					return
				}
				left--
			}
			if q.Limit > 0 && left <= 0 {
				return
			}
		}
	}
}

// rest returns what of the spans is left after a page, see lua/page.lua. It was
// asked for the first ones.
func rest(spans []span, asked int, page []string) ([]span, error) {
	if page[0] == "" {
		return spans[asked:], nil
	}
	i, err := strconv.Atoi(page[0])
	from, err2 := strconv.ParseInt(page[1], 10, 64)
	if err != nil || err2 != nil || i < 0 || i >= asked || from < min(spans[i][0], spans[i][1]) || from > max(spans[i][0], spans[i][1]) {
		return nil, fmt.Errorf("unexpected answer %q", page[:2])
	}
	spans = spans[i:]
	spans[0][0] = from
	return spans, nil
}

// Results implements [checkpoint.Store].
func (s *Store) Results(ctx context.Context, log checkpoint.Log, branch checkpoint.Branch, epoch checkpoint.ID) ([]checkpoint.Result, error) {
	if err := s.start(ctx, log.Thread); err != nil {
		return nil, err
	}
	list, err := s.eval(ctx, "read from", resultsScript, log.Thread, log.Namespace, stepKey(branch, epoch))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	type result struct {
		at int64
		r  checkpoint.Result
	}
	all := make([]result, len(list))
	for i, v := range list {
		at, r, err := parseResult(v)
		if err != nil {
			return nil, s.damage(log, "o", stepKey(branch, epoch), err)
		}
		all[i] = result{at, r}
	}
	slices.SortFunc(all, func(a, b result) int { return cmp.Or(cmp.Compare(a.r.Task, b.r.Task), cmp.Compare(a.at, b.at)) })
	out := make([]checkpoint.Result, len(all))
	for i := range all {
		out[i] = all[i].r
	}
	return out, nil
}

// parseResult reads what lua/write.lua stored: the token, which result of its
// write it was, its place, and the result.
func parseResult(v string) (at int64, r checkpoint.Result, err error) {
	if len(v) < tokenLen {
		return 0, r, errCut
	}
	_, rest, err := cutDigits(v[tokenLen:])
	if err != nil {
		return 0, r, err
	}
	place, body, err := cutDigits(rest)
	if err != nil {
		return 0, r, err
	}
	if at, err = strconv.ParseInt(place, 10, 64); err != nil {
		return 0, r, err
	}
	r, err = checkpoint.UnmarshalResult([]byte(body))
	return at, r, err
}
