//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/checkpoint/redis"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
)

// openStore opens a store: at is a URL, a file or a directory.
func openStore(ctx context.Context, name, at string) (backend, error) {
	switch name {
	case "postgres":
		return postgres.Open(ctx, at, postgres.Options{MaxConns: 6})
	case "redis":
		return redis.Open(ctx, at)
	case "sqlite":
		return sqlite.Open(at)
	case "file":
		// A line that a killed process left half written is put aside.
		return file.Open(at, file.Options{Sync: file.SyncNever, Recover: true})
	}
	return nil, fmt.Errorf("unknown store %q", name)
}

// backend is what every store here can do.
type backend interface {
	checkpoint.Store
	checkpoint.Scheduler
	checkpoint.Locker
	checkpoint.Lister
}

// store notes in the journal what is written to the store below.
type store struct {
	backend
	j    *journal
	skew time.Duration // of the records' CreatedAt

	mu     sync.Mutex
	claims map[checkpoint.ThreadID]claim // the newest of this process
}

type claim struct {
	fence checkpoint.Fence
	at    int64
}

func newStore(b backend, j *journal) *store {
	return &store{backend: b, j: j, claims: map[checkpoint.ThreadID]claim{}}
}

// fence returns the fence of the run of this process that has the thread: there
// is one at a time.
func (s *store) fence(thread string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.claims[checkpoint.ThreadID(thread)].fence)
}

type callKey struct{}

// call is a call of Invoke and the like.
type call struct{ refused atomic.Bool }

func (s *store) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if s.skew != 0 && w.Record != nil {
		c, r := *w, *w.Record
		r.CreatedAt = r.CreatedAt.Add(s.skew)
		c.Record, w = &r, &c
	}
	thread := string(w.Log.Thread)
	if w.Record != nil {
		s.j.note(line{Kind: kTry, Thread: thread, Fence: int64(w.Fence), Record: string(w.Record.ID)})
	}
	done, err := s.backend.Write(ctx, w)
	if err != nil {
		s.refused(ctx, w, err)
		return done, err
	}
	if w.Claim {
		c := claim{done.Fence, time.Now().UnixMilli()}
		s.mu.Lock()
		s.claims[w.Log.Thread] = c
		s.mu.Unlock()
		run, _, _ := strings.Cut(w.Holder, " ")
		s.j.note(line{Kind: kClaim, Thread: thread, Fence: int64(done.Fence), Text: run})
	}
	if w.Release {
		s.j.note(line{Kind: kReleased, Thread: thread, Fence: int64(done.Fence)})
	}
	if w.Record != nil {
		s.j.note(line{Kind: kAcked, Thread: thread, Fence: int64(done.Fence), Record: string(w.Record.ID)})
	}
	for i := range w.Results {
		if r := &w.Results[i]; r.Kind == checkpoint.KindOnce {
			id := fmt.Sprintf("%s|%s:%d|%s", w.Log.Namespace, r.Epoch, r.Task, r.Name)
			s.j.note(line{Kind: kRecorded, Thread: thread, Fence: int64(done.Fence), Task: id})
			if done.Ignored > 0 {
				s.j.note(line{Kind: kWrong, Thread: thread, Text: "the result of Once " + id + " was there already"})
			}
		}
	}
	return done, err
}

func (s *store) refused(ctx context.Context, w *checkpoint.Write, err error) {
	what := "data"
	switch {
	case w.Claim:
		what = "claim"
	case w.Record != nil || len(w.Results) > 0:
	case w.Release:
		what = "release"
	case w.Lease > 0:
		what = "renewal"
	}
	why := ""
	switch {
	case errors.Is(err, checkpoint.ErrFenced):
		why = "fenced"
	case errors.Is(err, checkpoint.ErrConflict):
		why = "conflict"
	case errors.Is(err, checkpoint.ErrBusy):
		why = "busy"
	case errors.Is(err, checkpoint.ErrInvalid):
		s.j.note(line{Kind: kWrong, Thread: string(w.Log.Thread), Text: err.Error()})
		return
	default:
		return
	}
	if c, ok := ctx.Value(callKey{}).(*call); ok && what == "data" {
		c.refused.Store(true)
	}
	s.mu.Lock()
	c := s.claims[w.Log.Thread]
	s.mu.Unlock()
	if c.fence != w.Fence {
		c.at = 0
	}
	s.j.note(line{Kind: kRefused, Thread: string(w.Log.Thread), Fence: int64(w.Fence), Since: c.at, What: why + " " + what})
}

// expected reports whether an error of a run is one that faults explain.
func expected(err error) (class string, ok bool) {
	for _, e := range []struct {
		err   error
		class string
	}{
		{postgres.ErrUnavailable, "server away"}, {redis.ErrUnreachable, "server away"}, {redis.ErrLoading, "server away"},
		{postgres.ErrUnknownOutcome, "outcome unknown"}, {redis.ErrUncertain, "outcome unknown"},
		{context.DeadlineExceeded, "too late"}, {postgres.ErrLocked, "too late"},
	} {
		if errors.Is(err, e.err) {
			return e.class, true
		}
	}
	return "", false
}
