package redis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/backend"
)

// The layout, version 1. A thread's keys begin with
//
//	<prefix>t:{<ID, with %, { and } as %25, %7b and %7d>}
//
// which is also the key of a hash: v (it exists), f (fence), lh, lu, lt, ls
// (lease: holder, until and length in microseconds, length in nanoseconds), hd
// and wk (due by its head, woken), p and rn (results and supersteps counted), w
// (the last write without a record, see lua/write.lua), x (when the keys end, in
// milliseconds). Then follow, with a namespace after the last colon:
//
//	:s     set of the namespaces
//	:l:    hash: n, h, g (place, ID and branch of the head), c (count), z (bytes),
//	       f (time of the first record), w (rewrites), b<branch> (its newest number)
//	:m:    hash: place to entry, see entry
//	:d:    hash: place to the data of the record, if there are any
//	:i:    hash: ID to place
//	:g:    list of the pieces of branches, see segment
//	:o:    hash: superstep to the number of its results
//	:r:    with that number: hash of results
//
// and, with the token of a rewrite that is under way, :~m:, :~d: and :~i:, of which m,
// d and i will be made; they end by themselves.
//
// A place is the number of the record in the order appended, from 1 on; those of
// records that were removed are not used again. Beside the threads stand
// <prefix>version and the indexes, sorted sets whose members begin with a time
// and end with a thread's ID:
//
//	i:threads  by the time of the head, newest first
//	i:due      by when they are due
//	i:until    by when their lease ends
//	i:since    by when their lease began
//	i:at       hash: thread to its times in the four
//	i:labels   hash: thread to the labels of its head's metadata, see backend.Labels
//	i:l:       with a label: set of the threads that have it
//	i:names    all threads, by ID
//	i:expiry   all threads with an end, by its millisecond
const layout = 1

// threadKey returns the key of a thread's hash. The braces make a cluster keep
// the keys of a thread together, should this package learn to use one.
func (s *Store) threadKey(id checkpoint.ThreadID) string {
	return s.prefix + "t:{" + escape.Replace(string(id)) + "}"
}

var escape = strings.NewReplacer("%", "%25", "{", "%7b", "}", "%7d")

// keys returns what each script has as its keys.
func (s *Store) keys(id checkpoint.ThreadID) []string { return []string{s.threadKey(id), s.prefix} }

// timeKeyLen is the length of a time in text form: 16 digits for the seconds, 8
// for the nanoseconds.
const timeKeyLen = 24

// timeKey returns the text form of a time, which sorts as times do. Whatever the
// year, nothing is rounded.
func timeKey(t time.Time) string {
	return fmt.Sprintf("%016x%08x", uint64(t.Unix())+1<<63, t.Nanosecond())
}

// backKey returns a text form that sorts newest first.
func backKey(t time.Time) string {
	return fmt.Sprintf("%016x%08x", ^(uint64(t.Unix()) + 1<<63), ^uint32(t.Nanosecond()))
}

// indexKey returns the place by time of a thread whose head is r, and its labels.
func indexKey(r *checkpoint.Record) string {
	return backKey(r.CreatedAt) + strings.Join(backend.Labels(r.Metadata), "")
}

// dueKey is timeKey, and empty for never.
func dueKey(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return timeKey(t)
}

// fromKey is the reverse of timeKey, fromBackKey that of backKey.
func fromKey(s string) (time.Time, error) {
	sec, nsec, err := parseKey(s)
	t := time.Unix(int64(sec-1<<63), int64(nsec)).UTC()
	if err != nil || timeKey(t) != s {
		return time.Time{}, notTime(s)
	}
	return t, nil
}

func fromBackKey(s string) (time.Time, error) {
	sec, nsec, err := parseKey(s)
	t := time.Unix(int64(^sec-1<<63), int64(^nsec)).UTC()
	if err != nil || backKey(t) != s {
		return time.Time{}, notTime(s)
	}
	return t, nil
}

func parseKey(s string) (sec uint64, nsec uint32, err error) {
	if len(s) != timeKeyLen {
		return 0, 0, notTime(s)
	}
	sec, err = strconv.ParseUint(s[:16], 16, 64)
	n, err2 := strconv.ParseUint(s[16:], 16, 32)
	return sec, uint32(n), errors.Join(err, err2)
}

func notTime(s string) error { return fmt.Errorf("%q is not a time", s) }

// pack puts texts into one, see unpacked in lua/common.lua: a command has room
// for a million arguments, and a log may have more records.
func pack(b []byte, parts ...string) []byte {
	for _, p := range parts {
		b = strconv.AppendInt(b, int64(len(p)), 10)
		b = append(append(b, ':'), p...)
	}
	return b
}

// stepKey names a superstep.
func stepKey(branch checkpoint.Branch, epoch checkpoint.ID) string {
	return string(pack(nil, string(branch), string(epoch)))
}

// resultKey names a result within its superstep.
func resultKey(k checkpoint.ResultKey) string {
	return string(pack(nil, strconv.Itoa(k.Task), strconv.Itoa(k.Gen), string(k.Kind), k.Name))
}

// An entry is what the hash m has of a record:
//
//	8 bytes   token of the write that appended it, see lua/write.lua
//	          what this write was answered: <fence>;<ignored>;
//	1 byte    1, the version of what follows
//	4 bytes   CRC-32C of all that follows
//	4 bytes   CRC-32C of the data
//	          length of the data and sequence number, as varints
//	12 bytes  time: seconds and nanoseconds
//	          ID and branch, see appendID
//	          the record's body, by checkpoint.MarshalBody
//
// The first two parts are made by the script.
type entry struct {
	record  checkpoint.Record // ID, Branch, Seq, CreatedAt
	dataLen uint64
	dataSum uint32
	meta    []byte
}

const entryVersion = 1

func appendEntry(r *checkpoint.Record, meta, data []byte) []byte {
	b := make([]byte, 5, 80+len(meta))
	b[0] = entryVersion
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(data, backend.Castagnoli))
	b = binary.AppendUvarint(b, uint64(len(data)))
	b = binary.AppendUvarint(b, uint64(r.Seq))
	b = binary.BigEndian.AppendUint64(b, uint64(r.CreatedAt.Unix()))
	b = binary.BigEndian.AppendUint32(b, uint32(r.CreatedAt.Nanosecond()))
	b = appendID(b, r.ID)
	b = appendID(b, checkpoint.ID(r.Branch))
	b = append(b, meta...)
	binary.BigEndian.PutUint32(b[1:], crc32.Checksum(b[5:], backend.Castagnoli))
	return b
}

// appendID writes a UUID in 16 bytes after a zero, and another text after its
// length plus one.
func appendID(b []byte, id checkpoint.ID) []byte {
	if raw, ok := id.Bytes(); ok {
		return append(append(b, 0), raw[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(id))+1)
	return append(b, id...)
}

var errCut = errors.New("the entry is cut off")

func cutID(b []byte) (checkpoint.ID, []byte, error) {
	n, k := binary.Uvarint(b)
	switch {
	case k <= 0:
		return "", nil, errCut
	case n == 0:
		if len(b) < k+16 {
			return "", nil, errCut
		}
		return checkpoint.IDFromBytes([16]byte(b[k : k+16])), b[k+16:], nil
	case uint64(len(b)-k) < n-1:
		return "", nil, errCut
	}
	end := k + int(n-1)
	return checkpoint.ID(b[k:end]), b[end:], nil
}

// cutDigits cuts off digits and the semicolon after them, as the scripts do with
// what they wrote.
func cutDigits(s string) (digits, rest string, err error) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if i == 0 || i == len(s) || s[i] != ';' {
		return "", "", errCut
	}
	return s[:i], s[i+1:], nil
}

func parseEntry(s string) (e entry, err error) {
	if len(s) < tokenLen {
		return e, errCut
	}
	s = s[tokenLen:]
	for range 2 {
		if _, s, err = cutDigits(s); err != nil {
			return e, err
		}
	}
	b := []byte(s)
	if len(b) < 9 {
		return e, errCut
	}
	if b[0] != entryVersion {
		return e, fmt.Errorf("%w: an entry has version %d, this package reads %d", checkpoint.ErrVersion, b[0], entryVersion)
	}
	if got, want := crc32.Checksum(b[5:], backend.Castagnoli), binary.BigEndian.Uint32(b[1:]); got != want {
		return e, fmt.Errorf("the entry has checksum %08x, %08x was written", got, want)
	}
	e.dataSum = binary.BigEndian.Uint32(b[5:])
	b = b[9:]
	var seq uint64
	for _, into := range []*uint64{&e.dataLen, &seq} {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return e, errCut
		}
		*into, b = v, b[n:]
	}
	if len(b) < 12 {
		return e, errCut
	}
	e.record.Seq = int64(seq)
	e.record.CreatedAt = time.Unix(int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint32(b[8:]))).UTC()
	if e.record.ID, b, err = cutID(b[12:]); err != nil {
		return e, err
	}
	var branch checkpoint.ID
	if branch, e.meta, err = cutID(b); err != nil {
		return e, err
	}
	e.record.Branch = checkpoint.Branch(branch)
	return e, nil
}

// decode makes the record of what the server keeps at a place.
func (s *Store) decode(log checkpoint.Log, place, stored, data string, withData bool) (*checkpoint.Record, error) {
	e, err := parseEntry(stored)
	if err != nil {
		return nil, s.damage(log, "m", place, err)
	}
	r := e.record
	r.Log = log
	var body []byte
	if withData {
		if uint64(len(data)) != e.dataLen {
			return nil, s.damage(log, "d", place, fmt.Errorf("%d bytes of data, %d were written", len(data), e.dataLen))
		}
		body = []byte(data)
		if got := crc32.Checksum(body, backend.Castagnoli); got != e.dataSum {
			return nil, s.damage(log, "d", place, fmt.Errorf("the data have checksum %08x, %08x was written", got, e.dataSum))
		}
	}
	if err := checkpoint.UnmarshalBody(&r, e.meta, body); err != nil {
		return nil, s.damage(log, "m", place, err)
	}
	return &r, nil
}

// damage says where something cannot be read. That it has a newer format is no
// damage.
func (s *Store) damage(log checkpoint.Log, kind, place string, err error) error {
	if errors.Is(err, checkpoint.ErrVersion) {
		return fmt.Errorf("redis: thread %q, record %s: %w", log.Thread, place, err)
	}
	at := fmt.Sprintf("key %q", s.threadKey(log.Thread)+":"+kind+":"+log.Namespace)
	if place != "" {
		at += ", field " + strconv.Quote(place)
	}
	return &checkpoint.CorruptError{Thread: log.Thread, Place: at, Offset: -1, Err: err}
}

// segment is a piece of a branch: the records at places from on, the first with
// number seq; each place more is one number more, though some may be missing.
// The text form is <from>;<to>;<seq>;<branch>, without to if the piece goes on
// to the next one.
type segment struct {
	from, to int64
	seq      int64
	branch   checkpoint.Branch
}

func (g segment) String() string {
	to := ""
	if g.to != 0 {
		to = strconv.FormatInt(g.to, 10)
	}
	return fmt.Sprintf("%d;%s;%d;%s", g.from, to, g.seq, g.branch)
}

// parseSegments reads the pieces of a log's branches; last is its last place.
func parseSegments(list []string, last int64) ([]segment, error) {
	out := make([]segment, len(list))
	for i, s := range list {
		f := strings.SplitN(s, ";", 4)
		if len(f) != 4 {
			return nil, fmt.Errorf("%q is no piece of a branch", s)
		}
		var errs [3]error
		g := &out[i]
		g.branch = checkpoint.Branch(f[3])
		g.from, errs[0] = strconv.ParseInt(f[0], 10, 64)
		g.seq, errs[1] = strconv.ParseInt(f[2], 10, 64)
		if f[1] != "" {
			g.to, errs[2] = strconv.ParseInt(f[1], 10, 64)
		}
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		if i > 0 && out[i-1].to == 0 {
			out[i-1].to = g.from - 1
		}
	}
	if n := len(out); n > 0 && out[n-1].to == 0 {
		out[n-1].to = last
	}
	// A damaged piece could keep the server busy for ever.
	reached := int64(0)
	for i, g := range out {
		if g.from <= reached || g.to < g.from || g.to > last || g.seq < 1 {
			return nil, fmt.Errorf("%q is no piece of a branch between places %d and %d", list[i], reached, last)
		}
		reached = g.to
	}
	return out, nil
}
