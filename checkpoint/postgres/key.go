package postgres

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Limits of what an index of PostgreSQL takes: 2,704 bytes an entry.
const (
	maxKey = 1000
	maxID  = 400
)

// clip returns what stands in an index for a name, and the name itself if that is
// not all of it.
func clip(name []byte) (key, whole []byte) {
	if len(name) <= maxKey {
		return name, nil
	}
	sum := sha256.Sum256(name)
	// One byte more than the longest name that is not cut: they cannot meet.
	return append(name[:maxKey+1-len(sum):maxKey+1-len(sum)], sum[:]...), name
}

// bytesOf is a conversion that never gives nil, which would be NULL.
func bytesOf(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return []byte(s)
}

// bytesOrNull is a conversion that gives NULL for nothing.
func bytesOrNull(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func whole(key, whole []byte) string {
	if whole != nil {
		return string(whole)
	}
	return string(key)
}

// key returns an ID as it is stored: the 16 bytes of a UUID, nothing for none,
// and other text with an end that keeps it from having 16 bytes.
func key(id checkpoint.ID) []byte {
	if b, ok := id.Bytes(); ok {
		return b[:]
	}
	switch len(id) {
	case 0:
		return []byte{}
	case 15:
		return append([]byte(id), 0, 1)
	}
	return append([]byte(id), 0)
}

// keyOrNull is key with NULL for none.
func keyOrNull(id checkpoint.ID) []byte {
	if id == "" {
		return nil
	}
	return key(id)
}

func unkey(b []byte) (checkpoint.ID, error) {
	switch n := len(b); {
	case n == 0:
		return "", nil
	case n == 16:
		return checkpoint.IDFromBytes([16]byte(b)), nil
	case n > 1 && b[n-1] == 0:
		return checkpoint.ID(b[:n-1]), nil
	case n == 17 && b[15] == 0 && b[16] == 1:
		return checkpoint.ID(b[:15]), nil
	}
	return "", fmt.Errorf("not an ID: %x", b)
}

func tooLong(thread checkpoint.ThreadID, id checkpoint.ID) error {
	if len(id) > maxID {
		return fmt.Errorf("%w: an ID of %d bytes on thread %q; the longest has %d", checkpoint.ErrInvalid, len(id), thread, maxID)
	}
	return nil
}

// scope returns what the results of a superstep are found by.
func scope(branch checkpoint.Branch, epoch checkpoint.ID) []byte {
	e := key(epoch)
	b := binary.AppendUvarint(make([]byte, 0, 34), uint64(len(e)))
	return append(append(b, e...), key(checkpoint.ID(branch))...)
}

// resultKey returns what a result is known by within its superstep.
func resultKey(task, gen int, kind checkpoint.ResultKind, name string) (key, whole []byte) {
	b := binary.AppendUvarint(make([]byte, 0, 8+len(kind)+len(name)), uint64(task))
	b = binary.AppendUvarint(b, uint64(gen))
	b = binary.AppendUvarint(b, uint64(len(kind)))
	return clip(append(append(b, kind...), name...))
}

func parseResultKey(b []byte, r *checkpoint.Result) error {
	var n [3]uint64
	for i := range n {
		v, k := binary.Uvarint(b)
		if k <= 0 {
			return errors.New("a result's key is cut off")
		}
		n[i], b = v, b[k:]
	}
	if n[2] > uint64(len(b)) {
		return errors.New("a result's key is cut off")
	}
	r.Task, r.Gen, r.Kind, r.Name = int(n[0]), int(n[1]), checkpoint.ResultKind(b[:n[2]]), string(b[n[2]:])
	return nil
}

// stamp returns a time as PostgreSQL can hold it, nil for zero.
func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	switch y := t.Year(); {
	case y < 1:
		t = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	case y > 9999:
		t = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	}
	return &t
}

func unstamp(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// bucketOf is the minute of a time.
func bucketOf(t time.Time) int64 { return t.Unix() / 60 }
