package codec

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/zip"
)

// Options says in which form things are stored. It may change at any time: what
// was stored before stays readable, as long as the key ring has its key.
type Options struct {
	// Keys, if not nil, encrypts. The ring is read once, by [Wrap].
	Keys *KeyRing

	// AllowPlain reads what stands in clear although there are keys, so that a
	// store can be encrypted while it is in use. Who can write to the store can
	// then put anything there in clear: turn it off when [Store.Rewrap] is done.
	AllowPlain bool

	// Compress compresses by Zstandard what gets smaller by that, with a dictionary of
	// English and of the words of records and messages.
	Compress bool

	// Encoding is the form of records before compression and encryption.
	Encoding Encoding

	// MaxSize is how large a part of a record may be when decompressed or
	// decoded from CBOR, in bytes. Larger ones are written as they are. 0 means
	// 256 MiB, which is also the most.
	MaxSize int
}

const maxMaxSize = zip.MaxSize

// Store is a [checkpoint.Store] that keeps all that it is given in another one,
// in another form. Of what the inner store can do beyond, it can do the same; for
// the rest it returns an error that wraps [errors.ErrUnsupported].
type Store struct {
	inner      checkpoint.Store
	ring       *ring
	allowPlain bool
	compress   bool
	encoding   Encoding
	maxSize    int
	locks      checkpoint.Locks // if the inner store has none
}

var (
	_ checkpoint.Store  = (*Store)(nil)
	_ checkpoint.Lister = (*Store)(nil)
	_ checkpoint.Copier = (*Store)(nil)
	_ checkpoint.Locker = (*Store)(nil)

	_ checkpoint.Scheduler = (*Store)(nil)
	_ checkpoint.Rewriter  = (*Store)(nil)
	_ checkpoint.Verifier  = (*Store)(nil)
)

// Wrap returns a store that keeps everything in inner, and is closed with it.
// Nothing else may write to inner meanwhile but other stores that wrap it with
// the same names key.
func Wrap(inner checkpoint.Store, o Options) (*Store, error) {
	s := &Store{inner: inner, allowPlain: o.AllowPlain, compress: o.Compress, encoding: o.Encoding, maxSize: o.MaxSize}
	if inner == nil {
		return nil, errors.New("codec: no store to wrap")
	}
	if o.Encoding > CBOR {
		return nil, fmt.Errorf("codec: unknown encoding %d", o.Encoding)
	}
	switch {
	case s.maxSize == 0:
		s.maxSize = maxMaxSize
	case s.maxSize < 0 || s.maxSize > maxMaxSize:
		return nil, fmt.Errorf("codec: MaxSize is %d, the most is %d", s.maxSize, maxMaxSize)
	}
	if o.Keys != nil {
		var err error
		if s.ring, err = o.Keys.open(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// String says how the store is wrapped, and shows no key.
func (s *Store) String() string {
	key := "none"
	if s.ring != nil {
		key = s.ring.current.id
	}
	return fmt.Sprintf("codec.Store(%T, key %s, zstd %v, %v)", s.inner, key, s.compress, s.encoding)
}

// GoString is String.
func (s *Store) GoString() string { return s.String() }

// Write implements [checkpoint.Store].
func (s *Store) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if err := ctx.Err(); err != nil {
		return checkpoint.Written{}, err
	}
	if err := w.Check(); err != nil {
		return checkpoint.Written{}, err
	}
	c := *w
	if w.Record != nil {
		var err error
		if c.Record, err = s.seal(w.Record); err != nil {
			return checkpoint.Written{}, err
		}
	}
	results, ignored := w.Results, 0
	c.Remove = s.hashAll(w.Log, w.Remove)
	if s.ring != nil && s.allowPlain {
		var err error
		if results, ignored, err = s.beside(ctx, w, &c); err != nil {
			return checkpoint.Written{}, err
		}
	}
	c.Results = make([]checkpoint.Result, len(results))
	for i := range results {
		r := &results[i]
		if w.Drop != nil && r.Branch == w.Drop.Branch && r.Epoch == w.Drop.Epoch {
			// It will only be counted.
			c.Results[i] = *r
			c.Results[i].Name, c.Results[i].Data = s.hash(w.Log, r.Key()).Name, nil
			continue
		}
		var err error
		if c.Results[i], err = s.sealResult(w.Log, r); err != nil {
			return checkpoint.Written{}, err
		}
	}
	out, err := s.inner.Write(ctx, &c)
	if err == nil {
		out.Ignored += ignored
	}
	return out, err
}

// beside makes results in clear count that the store has under their own names:
// the first write wins whatever its form. It completes c.Remove.
func (s *Store) beside(ctx context.Context, w, c *checkpoint.Write) (left []checkpoint.Result, ignored int, err error) {
	c.Remove = append(slices.Clone(w.Remove), c.Remove...)
	known := map[checkpoint.Drop]map[checkpoint.ResultKey]bool{}
	for i := range w.Results {
		r := &w.Results[i]
		of := checkpoint.Drop{Branch: r.Branch, Epoch: r.Epoch}
		if known[of] == nil {
			known[of] = map[checkpoint.ResultKey]bool{}
			rs, err := s.inner.Results(ctx, w.Log, of.Branch, of.Epoch)
			if err != nil {
				return nil, 0, err
			}
			for j := range rs {
				if k := rs[j].Key(); !isSealed(rs[j].Data) && !slices.Contains(w.Remove, k) {
					known[of][k] = true
				}
			}
		}
		switch k := r.Key(); {
		case !known[of][k]:
			left = append(left, *r)
		case r.Replace:
			c.Remove = append(c.Remove, k)
			left = append(left, *r)
		default:
			ignored++
		}
	}
	return left, ignored, nil
}

func (s *Store) hashAll(log checkpoint.Log, keys []checkpoint.ResultKey) []checkpoint.ResultKey {
	if s.ring == nil || len(keys) == 0 {
		return keys
	}
	out := make([]checkpoint.ResultKey, len(keys))
	for i := range keys {
		out[i] = s.hash(log, keys[i])
	}
	return out
}

// Head implements [checkpoint.Store].
func (s *Store) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	r, fence, err := s.inner.Head(ctx, log)
	if err == nil {
		r, err = s.open(r, true)
	}
	return r, fence, err
}

// Get implements [checkpoint.Store].
func (s *Store) Get(ctx context.Context, log checkpoint.Log, id checkpoint.ID) (*checkpoint.Record, error) {
	r, err := s.inner.Get(ctx, log, id)
	if err != nil {
		return nil, err
	}
	return s.open(r, true)
}

// Records implements [checkpoint.Store]. With Query.Meta, data is neither read
// nor opened.
func (s *Store) Records(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Record, error] {
	q.Folding = false // what is sealed is opened by where it stands
	return func(yield func(*checkpoint.Record, error) bool) {
		for r, err := range s.inner.Records(ctx, q) {
			if err == nil {
				r, err = s.open(r, !q.Meta)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Results implements [checkpoint.Store].
func (s *Store) Results(ctx context.Context, log checkpoint.Log, branch checkpoint.Branch, epoch checkpoint.ID) ([]checkpoint.Result, error) {
	rs, err := s.inner.Results(ctx, log, branch, epoch)
	if err != nil || len(rs) == 0 {
		return rs, err
	}
	out := make([]checkpoint.Result, len(rs))
	for i := range rs {
		if out[i], _, err = s.openResult(log, log, &rs[i], nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Delete implements [checkpoint.Store].
func (s *Store) Delete(ctx context.Context, thread checkpoint.ThreadID) error {
	return s.inner.Delete(ctx, thread)
}

// Close implements [checkpoint.Store]. It closes the inner store.
func (s *Store) Close() error { return s.inner.Close() }

// Lock implements [checkpoint.Locker]. If the inner store has no locks, runs that
// use this Store have some among them.
func (s *Store) Lock(ctx context.Context, thread checkpoint.ThreadID, holder string, mode checkpoint.LockMode, evict func()) (release func(stopped bool), evicted []string, err error) {
	if l, ok := s.inner.(checkpoint.Locker); ok {
		return l.Lock(ctx, thread, holder, mode, evict)
	}
	return s.locks.Lock(ctx, thread, holder, mode, evict)
}

// unsupported is the error for what the inner store cannot do.
func (s *Store) unsupported(doing string) error {
	return fmt.Errorf("codec: %s: %T cannot: %w", doing, s.inner, errors.ErrUnsupported)
}

// Threads implements [checkpoint.Lister]. A head that cannot be opened is an
// error beside the rest of what is known of its thread, and others follow.
func (s *Store) Threads(ctx context.Context, f checkpoint.ThreadFilter) iter.Seq2[checkpoint.ThreadInfo, error] {
	return func(yield func(checkpoint.ThreadInfo, error) bool) {
		l, ok := s.inner.(checkpoint.Lister)
		if !ok {
			yield(checkpoint.ThreadInfo{}, s.unsupported("listing threads"))
			return
		}
		inner := f
		if len(f.Metadata) > 0 { // which the store below can't read
			inner.Metadata, inner.Limit = nil, 0
		}
		n := 0
		for info, err := range l.Threads(ctx, inner) {
			if err == nil && info.Head != nil {
				if info.Head, err = s.open(info.Head, false); err == nil && !f.Takes(&info) {
					continue
				}
			}
			if !yield(info, err) {
				return
			}
			if n++; n == f.Limit {
				return
			}
		}
	}
}

// Logs implements [checkpoint.Lister].
func (s *Store) Logs(ctx context.Context, thread checkpoint.ThreadID) iter.Seq2[checkpoint.LogInfo, error] {
	if l, ok := s.inner.(checkpoint.Lister); ok {
		return l.Logs(ctx, thread)
	}
	return func(yield func(checkpoint.LogInfo, error) bool) {
		yield(checkpoint.LogInfo{}, s.unsupported("listing logs"))
	}
}

// Due implements [checkpoint.Scheduler].
func (s *Store) Due(ctx context.Context, before time.Time, limit int) iter.Seq2[checkpoint.Waiting, error] {
	if sch, ok := s.inner.(checkpoint.Scheduler); ok {
		return sch.Due(ctx, before, limit)
	}
	return s.notScheduled
}

// Abandoned implements [checkpoint.Scheduler].
func (s *Store) Abandoned(ctx context.Context, limit int) iter.Seq2[checkpoint.Waiting, error] {
	if sch, ok := s.inner.(checkpoint.Scheduler); ok {
		return sch.Abandoned(ctx, limit)
	}
	return s.notScheduled
}

func (s *Store) notScheduled(yield func(checkpoint.Waiting, error) bool) {
	yield(checkpoint.Waiting{}, s.unsupported("listing threads that wait"))
}

// Rewrite implements [checkpoint.Rewriter].
func (s *Store) Rewrite(ctx context.Context, r *checkpoint.Rewrite) error {
	rw, ok := s.inner.(checkpoint.Rewriter)
	if !ok {
		return s.unsupported("rewriting a log")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	c := *r
	c.Replace = make([]*checkpoint.Record, len(r.Replace))
	for i, rec := range r.Replace {
		var err error
		if c.Replace[i], err = s.seal(rec); err != nil {
			return err
		}
	}
	return rw.Rewrite(ctx, &c)
}
