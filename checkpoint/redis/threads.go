package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/backend"
)

// anyThread stands for no thread in particular.
const anyThread checkpoint.ThreadID = "all"

// global runs a script that belongs to no thread.
func (s *Store) global(ctx context.Context, op string, sc *goredis.Script, args ...any) ([]string, error) {
	if err := s.start(ctx, anyThread); err != nil {
		return nil, err
	}
	return s.eval(ctx, op, sc, anyThread, args...)
}

// Threads implements [checkpoint.Lister]. Threads come in pages, each of one
// request. A thread that is written to meanwhile may be left out or come twice,
// as it moves in the order. With a prefix or metadata, the threads that have it are
// found first, so that these requests are more, but others cost nothing.
func (s *Store) Threads(ctx context.Context, f checkpoint.ThreadFilter) iter.Seq2[checkpoint.ThreadInfo, error] {
	return func(yield func(checkpoint.ThreadInfo, error) bool) {
		left := f.Limit
		// emit yields the threads of a page and reports whether to go on.
		emit := func(page []string, err error) bool {
			if err == nil && len(page)%9 != 1 {
				err = fmt.Errorf("redis: list threads of %s: unexpected answer of %d parts", s.server, len(page))
			}
			if err != nil {
				yield(checkpoint.ThreadInfo{}, err)
				return false
			}
			for i := 1; i < len(page); i += 9 {
				err := s.start(ctx, anyThread)
				var info checkpoint.ThreadInfo
				if err == nil {
					info, err = s.info(page[i : i+9])
				}
				if err != nil {
					yield(checkpoint.ThreadInfo{}, err)
					return false
				}
				if !f.Takes(&info) {
					continue
				}
				if !yield(info, nil) {
					return false
				}
				if left--; left == 0 {
					return false
				}
			}
			return true
		}
		start := ""
		if f.After.Thread != "" {
			start = backKey(f.After.At) + string(f.After.Thread)
		}
		var ids []string
		var known bool
		var err error
		if len(f.Metadata) > 0 {
			ids, known, err = s.labelled(ctx, f.Metadata, start)
		}
		if f.Prefix != "" && !known && err == nil {
			ids, err = s.named(ctx, f.Prefix, start)
			known = true
		}
		if err != nil {
			yield(checkpoint.ThreadInfo{}, err)
			return
		}
		if known {
			for len(ids) > 0 {
				n := min(len(ids), pageThreads)
				if f.Limit > 0 && len(f.Metadata) == 0 {
					n = min(n, left)
				}
				args := []any{"named"}
				for _, id := range ids[:n] {
					args = append(args, id)
				}
				if !emit(s.global(ctx, "list threads of", threadsScript, args...)) {
					return
				}
				ids = ids[n:]
			}
			return
		}
		for after := start; ; {
			n := pageThreads
			if f.Limit > 0 && len(f.Metadata) == 0 {
				n = min(n, left)
			}
			page, err := s.global(ctx, "list threads of", threadsScript, "page", after, strconv.Itoa(n), strconv.Itoa(pageBytes))
			if !emit(page, err) || page[0] == "" {
				return
			}
			after = page[0]
		}
	}
}

// named returns the threads with a prefix that are in the list of threads after a
// place, in its order.
func (s *Store) named(ctx context.Context, prefix, start string) ([]string, error) {
	var all []string
	for at, id := range s.names(ctx, prefix) {
		if id == nil {
			return nil, at
		}
		all = append(all, id...)
	}
	return ordered(all, start), nil
}

// labelled returns the threads that have the labels of metadata and are in the list of
// threads after a place, in its order. It is not known of which threads that holds if some
// were written to by an older program.
func (s *Store) labelled(ctx context.Context, metadata map[string]string, start string) (ids []string, known bool, err error) {
	var args []any
	for _, l := range backend.Labels(metadata) {
		args = append(args, l)
	}
	all, err := s.global(ctx, "list threads of", labelledScript, args...)
	if err != nil || len(all) == 0 || all[0] != "1" {
		return nil, false, err
	}
	return ordered(all[1:], start), true, nil
}

// ordered takes threads, each with its place in the list of threads, and returns those
// that are in it after a place, in its order.
func ordered(all []string, start string) []string {
	var out []string
	for i := 0; i+1 < len(all); i += 2 {
		if at := all[i+1]; at != "" && at+all[i] > start {
			out = append(out, at+all[i])
		}
	}
	slices.Sort(out)
	for i := range out {
		out[i] = out[i][min(timeKeyLen, len(out[i])):]
	}
	return out
}

// names yields all threads with a prefix, by ID, each with its place in the list
// of threads; an error comes last, without them.
func (s *Store) names(ctx context.Context, prefix string) iter.Seq2[error, []string] {
	return func(yield func(error, []string) bool) {
		min, max := "-", "+"
		if prefix != "" {
			min = "[" + prefix
			if end := after(prefix); end != "" {
				max = "(" + end
			}
		}
		for {
			page, err := s.global(ctx, "list threads of", namesScript, min, max, strconv.Itoa(4*pageThreads))
			if err != nil {
				yield(err, nil)
				return
			}
			for i := 0; i+1 < len(page); i += 2 {
				if !yield(nil, page[i:i+2]) {
					return
				}
			}
			if len(page) < 8*pageThreads {
				return
			}
			min = "(" + page[len(page)-2]
		}
	}
}

// after returns the least text that is greater than all with the prefix, or ""
// if there is none.
func after(prefix string) string {
	b := []byte(prefix)
	for len(b) > 0 {
		if b[len(b)-1]++; b[len(b)-1] != 0 {
			return string(b)
		}
		b = b[:len(b)-1]
	}
	return ""
}

// info reads what lua/threads.lua says of a thread.
func (s *Store) info(f []string) (info checkpoint.ThreadInfo, err error) {
	info.Thread = checkpoint.ThreadID(strings.Clone(f[0]))
	log := checkpoint.Log{Thread: info.Thread}
	if info.Head, err = s.decode(log, f[1], f[2], "", false); err != nil {
		return info, err
	}
	var errs [3]error
	info.Records, errs[0] = strconv.ParseInt(f[3], 10, 64)
	info.Bytes, errs[1] = strconv.ParseInt(f[4], 10, 64)
	info.CreatedAt, errs[2] = fromBackKey(f[5])
	if err := errors.Join(errs[:]...); err != nil {
		return info, s.damage(log, "l", "", err)
	}
	info.Lease, err = s.lease(log, f[6:9])
	return info, err
}

// Logs implements [checkpoint.Lister].
func (s *Store) Logs(ctx context.Context, thread checkpoint.ThreadID) iter.Seq2[checkpoint.LogInfo, error] {
	return func(yield func(checkpoint.LogInfo, error) bool) {
		list, err := s.logs(ctx, thread)
		if err != nil {
			yield(checkpoint.LogInfo{}, err)
			return
		}
		for _, l := range list {
			if !yield(l, nil) {
				return
			}
		}
	}
}

func (s *Store) logs(ctx context.Context, thread checkpoint.ThreadID) ([]checkpoint.LogInfo, error) {
	if err := s.start(ctx, thread); err != nil {
		return nil, err
	}
	out, err := s.eval(ctx, "list logs of", logsScript, thread)
	if err != nil {
		return nil, err
	}
	var list []checkpoint.LogInfo
	for i := 0; i+3 < len(out); i += 4 {
		l, err := s.logInfo(thread, out[i:i+4])
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b checkpoint.LogInfo) int { return cmp.Compare(a.Log.Namespace, b.Log.Namespace) })
	return list, nil
}

// logInfo reads what lua/logs.lua says of a log.
func (s *Store) logInfo(thread checkpoint.ThreadID, f []string) (checkpoint.LogInfo, error) {
	l := checkpoint.LogInfo{Log: checkpoint.Log{Thread: thread, Namespace: f[0]}, Head: checkpoint.ID(f[1])}
	var errs [2]error
	l.Records, errs[0] = strconv.ParseInt(f[2], 10, 64)
	l.Bytes, errs[1] = strconv.ParseInt(f[3], 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return l, s.damage(l.Log, "l", "", err)
	}
	return l, nil
}

// Due implements [checkpoint.Scheduler]. Threads come in pages, each of one
// request.
func (s *Store) Due(ctx context.Context, before time.Time, limit int) iter.Seq2[checkpoint.Waiting, error] {
	until := ""
	if !before.IsZero() {
		until = timeKey(before.Add(1)) // the first that is too late
	}
	return s.waiting(ctx, limit, until, "i:due")
}

// Abandoned implements [checkpoint.Scheduler].
func (s *Store) Abandoned(ctx context.Context, limit int) iter.Seq2[checkpoint.Waiting, error] {
	return s.waiting(ctx, limit, "", "i:until", "i:since")
}

func (s *Store) waiting(ctx context.Context, limit int, before string, indexes ...string) iter.Seq2[checkpoint.Waiting, error] {
	return func(yield func(checkpoint.Waiting, error) bool) {
		left := limit
		for _, index := range indexes {
			for reached := ""; ; {
				page, err := s.global(ctx, "list threads of", waitingScript, index, reached, before, strconv.Itoa(pageThreads))
				if err == nil && len(page)%5 != 1 {
					err = fmt.Errorf("redis: list threads of %s: unexpected answer of %d parts", s.server, len(page))
				}
				if err != nil {
					yield(checkpoint.Waiting{}, err)
					return
				}
				for i := 1; i < len(page); i += 5 {
					if err := ctx.Err(); err != nil {
						yield(checkpoint.Waiting{}, err)
						return
					}
					w, err := s.waits(page[i : i+5])
					if err != nil {
						yield(checkpoint.Waiting{}, err)
						return
					}
					if !yield(w, nil) {
						return
					}
					if left--; left == 0 {
						return
					}
				}
				if reached = page[0]; reached == "" {
					break
				}
			}
		}
	}
}

// waits reads what lua/waiting.lua says of a thread.
func (s *Store) waits(f []string) (w checkpoint.Waiting, err error) {
	w.Thread = checkpoint.ThreadID(f[0])
	if f[1] != "" {
		if w.Due, err = fromKey(f[1]); err != nil {
			at := fmt.Sprintf("key %q, field %q", s.prefix+"i:at", f[0])
			return w, &checkpoint.CorruptError{Thread: w.Thread, Place: at, Offset: -1, Err: err}
		}
	}
	w.Lease, err = s.lease(checkpoint.Log{Thread: w.Thread}, f[2:5])
	return w, err
}
