package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/backend"
)

// The parameters and the answer of superstep_write.
const (
	writeArgs = `$1::bytea, $2::bytea, $3::bytea, $4::bytea, $5::int, $6::bigint, $7::bigint, $8::bytea, $9::bytea, $10::bytea,
		$11::bytea, $12::bytea, $13::bigint, $14::bigint, $15::bigint, $16::timestamptz, $17::bigint, $18::bytea, $19::bytea,
		$20::bytea, $21::bytea[], $22::bytea[], $23::bytea[], $24::bytea[], $25::bytea[], $26::bytea[], $27::boolean[], $28::bytea[],
		$29::text[]`

	flagClaim, flagRelease, flagWake = 1, 2, 4

	statusDone, statusBusy, statusFenced, statusConflict, statusExists, statusPlace = 0, 1, 2, 3, 4, 5
)

// A batch is one transaction, and holds at most as many writes, or bytes. With
// the server on the same two cores, syncing every commit, 256 threads got 4,000 to
// 6,000 supersteps a second through it, and 400 to 1,900 with a commit for each on
// as many connections; with 16 threads it was 1,200 to 2,900 and 500 to 1,600. The
// number of writers matters less; several keep more than one core of the server
// busy, and let others go on while one waits for a lock.
const (
	batchWrites = 128
	batchBytes  = 4 << 20
)

// request is a write that waits for its turn.
type request struct {
	w     *checkpoint.Write
	key   []byte // of the thread: batches lock threads in this order
	args  []any
	size  int
	seen  int  // results ignored since this very write holds others
	alone bool // in a transaction of its own

	out  checkpoint.Written
	err  error
	done chan struct{}
}

func (r *request) finish(err error) {
	r.err = err
	close(r.done)
}

// newRequest encodes a write. It keeps nothing of w that the caller may change.
func newRequest(from *checkpoint.Write) (*request, error) {
	w := *from
	r := &request{w: &w, done: make(chan struct{})}
	threadKey, thread := clip([]byte(w.Log.Thread))
	ns, namespace := clip(bytesOf(w.Log.Namespace))
	r.key = threadKey
	flags := 0
	for _, f := range []struct {
		set  bool
		flag int
	}{{w.Claim, flagClaim}, {w.Release, flagRelease}, {w.Wake, flagWake}} {
		if f.set {
			flags |= f.flag
		}
	}
	if err := tooLong(w.Log.Thread, w.Head); err != nil {
		return nil, err
	}
	var id, branch, meta, data []byte
	var seq, at, bucket, sum int64
	var due *time.Time
	var labels []string
	if rec := w.Record; rec != nil {
		for _, id := range []checkpoint.ID{rec.ID, checkpoint.ID(rec.Branch)} {
			if err := tooLong(w.Log.Thread, id); err != nil {
				return nil, err
			}
		}
		var err error
		if meta, data, err = checkpoint.MarshalBody(rec); err != nil {
			return nil, err
		}
		if data == nil {
			data = []byte{}
		}
		id, branch, seq, at, bucket, sum = key(rec.ID), key(checkpoint.ID(rec.Branch)), rec.Seq, rec.CreatedAt.UnixNano(), bucketOf(rec.CreatedAt), backend.Checksum(meta, data)
		due, labels = stamp(rec.Due), backend.Labels(rec.Metadata)
	}
	r.size = len(meta) + len(data)
	r.args = []any{
		threadKey, thread, ns, namespace, int32(flags), int64(w.Fence), w.Lease.Microseconds(), bytesOrNull(w.Holder), bytesOrNull(w.Steal),
		id, keyOrNull(w.Head), branch, seq, at, bucket, due, sum, meta, data,
	}
	if err := r.results(); err != nil {
		return nil, err
	}
	r.args = append(r.args, labels)
	return r, nil
}

// results adds the arguments about results. Those of the superstep that is
// dropped are not sent, but their keys are, if it matters that they exist.
func (r *request) results() error {
	w := r.w
	var drop []byte
	var known [][]byte
	if w.Drop != nil {
		drop = scope(w.Drop.Branch, w.Drop.Epoch)
	}
	var xScopes, xKeys [][]byte
	for i := range w.Remove {
		k := &w.Remove[i]
		if k.Task < 0 || k.Gen < 0 {
			continue // there are none
		}
		kb, _ := resultKey(k.Task, k.Gen, k.Kind, k.Name)
		xScopes, xKeys = append(xScopes, scope(k.Branch, k.Epoch)), append(xKeys, kb)
	}
	var scopes, keys, wholes, datas [][]byte
	var replace []bool
	var seen map[string]bool
	for i := range w.Results {
		x := &w.Results[i]
		for _, id := range []checkpoint.ID{x.Epoch, checkpoint.ID(x.Branch)} {
			if err := tooLong(w.Log.Thread, id); err != nil {
				return err
			}
		}
		k, long := resultKey(x.Task, x.Gen, x.Kind, x.Name)
		if w.Drop != nil && x.Epoch == w.Drop.Epoch && x.Branch == w.Drop.Branch {
			if seen[string(k)] {
				if !x.Replace {
					r.seen++
				}
				continue
			}
			if !x.Replace {
				known = append(known, k)
			}
			if i < len(w.Results)-1 {
				if seen == nil {
					seen = make(map[string]bool)
				}
				seen[string(k)] = true
			}
			continue
		}
		var data []byte
		if len(x.Data) > 0 {
			data = bytes.Clone(x.Data)
		}
		scopes, keys, wholes = append(scopes, scope(x.Branch, x.Epoch)), append(keys, k), append(wholes, long)
		replace, datas = append(replace, x.Replace), append(datas, data)
		r.size += len(data)
	}
	r.args = append(r.args, drop, known, xScopes, xKeys, scopes, keys, wholes, replace, datas)
	return nil
}

// Write implements [checkpoint.Store].
func (s *Store) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if err := s.start(ctx, w.Log.Thread); err != nil {
		return checkpoint.Written{}, err
	}
	if err := w.Check(); err != nil {
		return checkpoint.Written{}, err
	}
	r, err := newRequest(w)
	if err != nil {
		return checkpoint.Written{}, err
	}
	if err := s.submit(r); err != nil {
		return checkpoint.Written{}, err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		s.withdraw(r)
		select {
		case <-r.done:
		default:
			return checkpoint.Written{}, ctx.Err()
		}
	}
	if r.err != nil {
		return checkpoint.Written{}, r.err
	}
	return r.out, nil
}

// submit queues a request and sees to it that somebody takes it.
func (s *Store) submit(r *request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return checkpoint.ErrClosed
	}
	s.queue = append(s.queue, r)
	if _, busy := s.busy[r.w.Log.Thread]; s.writers < s.most && !busy {
		s.writers++
		go s.writeAll()
	}
	return nil
}

func (s *Store) withdraw(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.queue, r); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
	}
}

// writeAll is a writer: it writes what is queued until there is nothing that it
// may take. Several run at once, each with a connection.
func (s *Store) writeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		batch := s.take()
		if len(batch) == 0 {
			break
		}
		s.mu.Unlock()
		again := s.writeBatch(batch)
		s.mu.Lock()
		for _, r := range batch {
			delete(s.busy, r.w.Log.Thread)
		}
		if len(again) > 0 {
			if s.closed.Load() {
				for _, r := range again {
					r.finish(checkpoint.ErrClosed)
				}
				continue
			}
			s.queue = append(again, s.queue...)
			for range min(len(again), s.most-s.writers) {
				s.writers++
				go s.writeAll()
			}
		}
	}
	if s.writers--; s.writers == 0 && s.idle != nil {
		close(s.idle)
	}
}

// take returns the next requests for one transaction. Threads that another writer
// is writing to are left out: waiting for their locks would hold up the others.
func (s *Store) take() []*request {
	var batch, rest []*request
	size := 0
	own := map[checkpoint.ThreadID]struct{}{}
	var skipped map[checkpoint.ThreadID]struct{}
	for i, r := range s.queue {
		if len(batch) > 0 && (r.alone || batch[0].alone || len(batch) == batchWrites || size+r.size > batchBytes) {
			rest = append(rest, s.queue[i:]...)
			break
		}
		thread := r.w.Log.Thread
		_, busy := s.busy[thread]
		_, mine := own[thread]
		if _, behind := skipped[thread]; busy && !mine || behind {
			if skipped == nil {
				skipped = map[checkpoint.ThreadID]struct{}{}
			}
			skipped[thread] = struct{}{}
			rest = append(rest, r)
			continue
		}
		s.busy[thread], own[thread] = struct{}{}, struct{}{}
		batch = append(batch, r)
		size += r.size
	}
	s.queue = rest
	return batch
}

// writeBatch writes requests in one transaction and answers them, but for those
// it returns: they are to be tried again, each on its own.
func (s *Store) writeBatch(batch []*request) (alone []*request) {
	// Every writer, of any program, locks threads in the same order.
	slices.SortStableFunc(batch, func(a, b *request) int { return bytes.Compare(a.key, b.key) })
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	var err error
	for try := 0; ; try++ {
		for _, r := range batch {
			r.out, r.err = checkpoint.Written{}, nil
		}
		// An idle connection that died is no reason to give up, if nothing was
		// sent; nor is a deadlock.
		if err = s.send(ctx, batch); err == nil || try == 3 || !again(err) && !pgconn.SafeToRetry(err) {
			break
		}
	}
	switch {
	case err == nil:
		for _, r := range batch {
			r.finish(r.err)
		}
		return nil
	case len(batch) > 1 && undone(err) && !lost(err):
		// Something failed that is nobody's conflict: each gets its own answer.
		for _, r := range batch {
			r.alone = true
		}
		return batch
	}
	err = s.explainWrite(err)
	for _, r := range batch {
		r.finish(err)
	}
	return nil
}

// notSent is an error that came before anything was sent.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// explainWrite explains why a transaction of writes failed.
func (s *Store) explainWrite(err error) error {
	// Its context is not the callers'.
	late := errors.Is(err, context.DeadlineExceeded)
	if n, ok := errors.AsType[notSent](err); ok && late {
		return &Error{
			Op: "write", Server: s.server, Kind: ErrUnavailable, What: fmt.Sprintf("no connection could be had within %v", s.timeout),
			Fix: "check that the server answers and that the pool's connections are given back", Err: n.error,
		}
	}
	if undone(err) {
		return explain("write", s.server, err)
	}
	e := &Error{Op: "write", Server: s.server, Kind: ErrUnknownOutcome, Fix: "read the log's head: it says whether the write happened", Err: err}
	if late {
		e.What = fmt.Sprintf("the server did not answer a write within %v: nobody knows whether it happened", s.timeout)
	}
	return e
}

// forget has connections made anew after one broke: others may have too.
func (s *Store) forget() {
	if s.own && !s.closed.Load() {
		s.pool.Reset()
	}
}

// send runs a transaction. Requests that are refused have their error in it.
func (s *Store) send(ctx context.Context, batch []*request) (err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return notSent{err}
	}
	defer func() {
		conn.Release()
		if err != nil && lost(err) {
			s.forget()
		}
	}()
	if len(batch) == 1 && !s.bracket {
		return batch[0].scan(conn.QueryRow(ctx, s.sql.write, batch[0].args...))
	}
	b := &pgx.Batch{}
	if s.bracket {
		b.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
	}
	for _, r := range batch {
		b.Queue(s.sql.write, r.args...)
	}
	if s.bracket {
		b.Queue(`COMMIT`)
	}
	br := conn.SendBatch(ctx, b)
	err = func() error {
		if s.bracket {
			if _, err := br.Exec(); err != nil {
				return err
			}
		}
		for _, r := range batch {
			if err := r.scan(br.QueryRow()); err != nil {
				return err
			}
		}
		if s.bracket {
			_, err := br.Exec()
			return err
		}
		return nil
	}()
	// The transaction has happened when this returns, not before.
	return cmp.Or(err, br.Close())
}

// scan reads the answer to a request.
func (r *request) scan(row pgx.Row) error {
	var status int32
	var fence, ignored int64
	var head, holder []byte
	var last, ttl *int64
	var until *time.Time
	if err := row.Scan(&status, &fence, &ignored, &head, &last, &holder, &until, &ttl); err != nil {
		return err
	}
	w := r.w
	switch status {
	case statusDone:
		r.out = checkpoint.Written{Fence: checkpoint.Fence(fence), Ignored: int(ignored) + r.seen}
	case statusBusy:
		r.err = &checkpoint.BusyError{Thread: w.Log.Thread, Lease: leaseOf(holder, until, ttl)}
	case statusFenced:
		r.err = &checkpoint.FencedError{Thread: w.Log.Thread, At: checkpoint.Fence(fence), Writer: w.Fence, Holder: string(holder)}
	case statusConflict:
		id, err := unkey(head)
		if r.err = backend.Conflict(w.Log, id, w.Head); err != nil {
			r.err = damage(w.Log, 0, err)
		}
	case statusExists:
		r.err = fmt.Errorf("%w: thread %q has a record %s already", checkpoint.ErrInvalid, w.Log.Thread, w.Record.ID)
	case statusPlace:
		var n int64
		if last != nil {
			n = *last
		}
		r.err = w.Record.CheckPlace(n)
	}
	if r.err == nil && status != statusDone {
		r.err = &Error{Op: "write", Kind: ErrNoTables, What: fmt.Sprintf("superstep_write returned %d", status), Fix: "somebody replaced it: restore it from a backup"}
	}
	return nil
}

func leaseOf(holder []byte, until *time.Time, ttl *int64) checkpoint.Lease {
	if until == nil || ttl == nil {
		return checkpoint.Lease{}
	}
	return checkpoint.Lease{Holder: string(holder), Until: until.UTC(), TTL: time.Duration(*ttl) * time.Microsecond}
}
