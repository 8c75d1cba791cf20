package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendText appends a text with its length.
func appendText[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendIDName is appendName for an ID: 16 bytes if it is a UUID.
func appendIDName(b []byte, id checkpoint.ID) []byte {
	if u, ok := id.Bytes(); ok {
		return append(append(b, 16), u[:]...)
	}
	return appendName(append(b, 0), id)
}

// appendID is appendText for an ID: its run's 12 bytes and its number in it, if it is a UUID.
func appendID(b []byte, id checkpoint.ID) []byte {
	if u, ok := id.Bytes(); ok {
		return appendUUID(append(b, 1), u)
	}
	return appendText(append(b, 0), id)
}

func appendUUID(b []byte, u [16]byte) []byte {
	return binary.AppendUvarint(append(b, u[:12]...), uint64(binary.BigEndian.Uint32(u[12:])))
}

// reader takes a coded value apart. What is missing makes it fail, once and for all.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if r.bad || uint64(len(r.b)) < n {
		r.bad = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) signed() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) text() string { return string(r.take(r.number())) }

func (r *reader) id() checkpoint.ID {
	if r.byte() == 1 {
		return checkpoint.IDFromBytes(r.uuid())
	}
	return checkpoint.ID(r.text())
}

func (r *reader) uuid() (u [16]byte) {
	copy(u[:], r.take(12))
	binary.BigEndian.PutUint32(u[12:], uint32(r.number()))
	return u
}

// end reports whether all was there, and nothing else.
func (r *reader) end() error {
	if r.bad || len(r.b) > 0 {
		return errCut
	}
	return nil
}

// Microseconds returns a time as it is kept in headers: microseconds since 1970, 0 for
// none.
func Microseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// FromMicroseconds is the reverse of [Microseconds].
func FromMicroseconds(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// AppendHeader appends the binary form of a thread's header, for drivers that keep bytes.
// It has a checksum that holds for this thread alone.
func AppendHeader(b []byte, thread checkpoint.ThreadID, h *Header) []byte {
	start := len(b)
	b = append(b, 1)
	b = binary.AppendVarint(b, h.Version)
	b = binary.AppendVarint(b, int64(h.Fence))
	for _, t := range []time.Time{h.Woken, h.HeadDue, h.Lease.Until} {
		b = binary.AppendVarint(b, Microseconds(t))
	}
	b = binary.AppendVarint(b, int64(h.Lease.TTL))
	b = appendText(b, h.Lease.Holder)
	if h.Listed {
		b = binary.AppendVarint(append(b, 1), h.Minute)
		for _, l := range h.Labels {
			b = appendText(b, l)
		}
	}
	return sealed(b, start, thread)
}

// sealed appends the checksum of what b has from a place on.
func sealed(b []byte, start int, thread checkpoint.ThreadID, more ...[]byte) []byte {
	return binary.BigEndian.AppendUint32(b, sumOf(b[start:], thread, more...))
}

func sumOf(b []byte, thread checkpoint.ThreadID, more ...[]byte) uint32 {
	sum := crc32.Checksum(append([]byte(thread), 0), castagnoli)
	for _, m := range more {
		sum = crc32.Update(sum, castagnoli, m)
	}
	return crc32.Update(sum, castagnoli, b)
}

// opened returns what sealed was given.
func opened(b []byte, thread checkpoint.ThreadID, more ...[]byte) ([]byte, error) {
	if len(b) < 4 {
		return nil, errors.New("it has no checksum")
	}
	body, want := b[:len(b)-4], binary.BigEndian.Uint32(b[len(b)-4:])
	if got := sumOf(body, thread, more...); got != want {
		return nil, fmt.Errorf("it has checksum %08x, %08x was written", got, want)
	}
	return body, nil
}

// ParseHeader is the reverse of [AppendHeader]. It fails with checkpoint.ErrCorrupt, or
// with checkpoint.ErrVersion for a form that it doesn't know.
func ParseHeader(thread checkpoint.ThreadID, b []byte) (h Header, err error) {
	body, err := opened(b, thread)
	r := reader{b: body}
	if err == nil {
		if form := r.byte(); form != 1 {
			return h, fmt.Errorf("%w: the header of thread %q has form %d", checkpoint.ErrVersion, thread, form)
		}
		h.Version, h.Fence = r.signed(), checkpoint.Fence(r.signed())
		h.Woken, h.HeadDue, h.Lease.Until = FromMicroseconds(r.signed()), FromMicroseconds(r.signed()), FromMicroseconds(r.signed())
		h.Lease.TTL, h.Lease.Holder = time.Duration(r.signed()), r.text()
		if h.Listed = len(r.b) > 0 && r.byte() == 1; h.Listed {
			h.Minute = r.signed()
			for len(r.b) > 0 && !r.bad {
				h.Labels = append(h.Labels, r.text())
			}
		}
		err = r.end()
	}
	if err != nil {
		return h, &checkpoint.CorruptError{Thread: thread, Place: "header", Offset: -1, Err: err}
	}
	return h, nil
}

// The kinds of side rows. A key begins with the kind and the log's namespace.
const (
	keyResult  = 'r' // branch, epoch, task, generation, kind, name: a result
	keyRun     = 'u' // run, number of an ID that is out of order: the place of its record, and of those that follow
	keySegment = 's' // place: the branch and number of its record, and of those that follow
)

func logKey(kind byte, ns string) []byte {
	return appendName(append(make([]byte, 0, 96), kind), ns)
}

// longName is above how many bytes a name stands in a key as its hash: databases limit
// the length of what they index.
const longName = 200

func appendName[T ~string](b []byte, name T) []byte {
	if len(name) <= longName {
		return appendText(b, name)
	}
	sum := sha256.Sum256([]byte(name))
	return append(binary.AppendUvarint(b, longName+1), sum[:]...)
}

// MaxKey is the length of the longest key of a side row.
const MaxKey = 5*(longName+2) + 32

// Below returns the least key that is above all that begin with prefix, nil if there is
// none.
func Below(prefix []byte) []byte {
	b := bytes.Clone(prefix)
	for len(b) > 0 {
		if b[len(b)-1]++; b[len(b)-1] != 0 {
			return b
		}
		b = b[:len(b)-1]
	}
	return nil
}

// runKey returns the beginning of the keys of a run, and where the ID stands in it. An ID
// that is no UUID is a run of its own.
func runKey(ns string, id checkpoint.ID) (prefix []byte, n uint32) {
	prefix = logKey(keyRun, ns)
	if b, ok := id.Bytes(); ok {
		return append(append(prefix, 16), b[:12]...), binary.BigEndian.Uint32(b[12:])
	}
	return appendName(append(prefix, 0), id), 0
}

func pieceKey(run []byte, n uint32) []byte { return binary.BigEndian.AppendUint32(bytes.Clone(run), n) }

func segmentKey(ns string, place int64) []byte {
	return binary.BigEndian.AppendUint64(logKey(keySegment, ns), uint64(place))
}

// stepKey returns the beginning of the keys of a superstep's results.
func stepKey(ns string, d checkpoint.Drop) []byte {
	return appendIDName(appendIDName(logKey(keyResult, ns), checkpoint.ID(d.Branch)), d.Epoch)
}

func resultKey(ns string, k checkpoint.ResultKey) []byte {
	b := stepKey(ns, checkpoint.Drop{Branch: k.Branch, Epoch: k.Epoch})
	b = binary.BigEndian.AppendUint64(b, uint64(k.Task))
	b = binary.AppendUvarint(b, uint64(k.Gen))
	return appendName(appendName(b, k.Kind), k.Name)
}

// A result's value says whether it replaces, and has its kind, name and data.
func resultPut(thread checkpoint.ThreadID, ns string, r *checkpoint.Result, dropped bool) Put {
	if dropped { // nobody will read it
		return Put{Key: resultKey(ns, r.Key()), Value: []byte{}, Replace: r.Replace}
	}
	v := make([]byte, 1, 1+len(r.Kind)+len(r.Name)+len(r.Data)+10)
	if r.Replace {
		v[0] = 1
	}
	v = append(appendText(appendText(v, r.Kind), r.Name), r.Data...)
	return sidePut(thread, resultKey(ns, r.Key()), v, r.Replace)
}

func sidePut(thread checkpoint.ThreadID, key, value []byte, replace bool) Put {
	return Put{Key: key, Value: sealed(value, 0, thread, key), Replace: replace}
}

// SealSide returns a side row that replaces what is there, with a checksum that holds for
// it alone.
func SealSide(thread checkpoint.ThreadID, key, value []byte) Put {
	return sidePut(thread, key, value, true)
}

// OpenSide returns what [SealSide] was given as a value. It fails with checkpoint.ErrCorrupt.
func OpenSide(thread checkpoint.ThreadID, r *SideRow) ([]byte, error) {
	v, err := opened(r.Value, thread, r.Key)
	if err != nil {
		return nil, damagedSide(thread, r, err)
	}
	return v, nil
}

func damagedSide(thread checkpoint.ThreadID, r *SideRow, err error) error {
	return &checkpoint.CorruptError{Thread: thread, Place: fmt.Sprintf("side row %x", r.Key), Offset: -1, Err: err}
}

// parseResult takes a result's side row apart; step is the beginning of its key.
func parseResult(thread checkpoint.ThreadID, step []byte, d checkpoint.Drop, row *SideRow) (checkpoint.Result, error) {
	out := checkpoint.Result{Branch: d.Branch, Epoch: d.Epoch}
	v, err := OpenSide(thread, row)
	if err != nil {
		return out, err
	}
	k, r := reader{b: row.Key[len(step):]}, reader{b: v}
	if b := k.take(8); b != nil {
		out.Task = int(binary.BigEndian.Uint64(b))
	}
	out.Gen = int(k.number())
	out.Replace = r.byte() == 1
	out.Kind, out.Name = checkpoint.ResultKind(r.text()), r.text()
	if k.bad || r.bad {
		return out, damagedSide(thread, row, errors.New("it is no result"))
	}
	if len(r.b) > 0 {
		out.Data = bytes.Clone(r.b)
	}
	return out, nil
}

// piece says where the records stand that are out of order, see [Row], and whose IDs follow
// one another in a run: that with n stands at place, the next one after it, as far as the
// next piece.
type piece struct {
	n     uint32
	place int64
}

func piecePut(thread checkpoint.ThreadID, run []byte, p piece) Put {
	return sidePut(thread, pieceKey(run, p.n), binary.AppendUvarint(nil, uint64(p.place)), true)
}

func parsePiece(thread checkpoint.ThreadID, row *SideRow) (piece, error) {
	v, err := OpenSide(thread, row)
	if err != nil {
		return piece{}, err
	}
	r := reader{b: v}
	place := int64(r.number())
	if err := r.end(); err != nil {
		return piece{}, damagedSide(thread, row, err)
	}
	return piece{binary.BigEndian.Uint32(row.Key[len(row.Key)-4:]), place}, nil
}

// segment says of which branch the records are from a place on, as far as the next
// segment: the first has number seq. Each log begins with one that is not kept.
type segment struct {
	place  int64
	branch checkpoint.Branch
	seq    int64
}

func segmentPut(thread checkpoint.ThreadID, ns string, g segment) Put {
	return sidePut(thread, segmentKey(ns, g.place), appendID(binary.AppendUvarint(nil, uint64(g.seq)), checkpoint.ID(g.branch)), true)
}

func parseSegment(thread checkpoint.ThreadID, row *SideRow) (g segment, err error) {
	v, err := OpenSide(thread, row)
	if err != nil {
		return g, err
	}
	r := reader{b: v}
	g.place = int64(binary.BigEndian.Uint64(row.Key[len(row.Key)-8:]))
	g.seq, g.branch = int64(r.number()), checkpoint.Branch(r.id())
	if err := r.end(); err != nil {
		return g, damagedSide(thread, row, err)
	}
	return g, nil
}

// sums returns the checksums of a row of a thread's log: its lower 32 bits cover all that the
// row says, and whose it is; the 16 above them the same but for Data, for whoever reads without.
func (r *Row) sums(thread checkpoint.ThreadID) uint64 {
	var buf [160]byte
	b := appendText(appendText(buf[:0], thread), r.Namespace)
	for _, n := range [...]int64{r.Place, r.Seq, r.At, r.Count, r.Bytes} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = appendText(appendText(appendText(b, r.ID), r.Branch), r.Top)
	sum := crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, r.Meta)
	return uint64(uint16(sum))<<32 | uint64(crc32.Update(sum, castagnoli, r.Data))
}

// Seal sets the row's checksums: for drivers whose own cover all that it says.
func (r *Row) Seal(thread checkpoint.ThreadID) { r.Sum = r.sums(thread) }

// rowOf encodes a record. Its place and what is counted are for place to say.
func rowOf(rec *checkpoint.Record) (Row, error) {
	meta, data, err := checkpoint.MarshalBody(rec)
	return Row{
		Namespace: rec.Log.Namespace, ID: rec.ID, Branch: rec.Branch, Seq: rec.Seq, At: rec.CreatedAt.UnixNano(), Meta: meta, Data: data,
	}, err
}

func (r *Row) size() int64 { return int64(len(r.Meta) + len(r.Data)) }

// depth says how much of a record is read.
type depth uint8

const (
	whole depth = iota
	metaOnly
	folding
)

// record decodes a row.
func (r *Row) record(thread checkpoint.ThreadID, d depth) (*checkpoint.Record, error) {
	sum := r.sums(thread)
	if d == metaOnly {
		sum = sum&^(1<<32-1) | r.Sum&(1<<32-1)
	}
	var err error
	out := &checkpoint.Record{
		ID: r.ID, Log: checkpoint.Log{Thread: thread, Namespace: r.Namespace}, Branch: r.Branch, Seq: r.Seq, CreatedAt: time.Unix(0, r.At).UTC(),
	}
	data := r.Data
	if data == nil {
		data = []byte{} // nil would mean that it was not read
	}
	switch {
	case sum != r.Sum:
		part := "row"
		if sum>>32 == r.Sum>>32 {
			part = "data"
		}
		err = fmt.Errorf("its %s has checksum %012x, %012x was written", part, sum, r.Sum)
	case d == metaOnly:
		err = checkpoint.UnmarshalBody(out, r.Meta, nil)
	case d == folding:
		err = checkpoint.UnmarshalBodyFolding(out, r.Meta, data)
	default:
		err = checkpoint.UnmarshalBody(out, r.Meta, data)
	}
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, checkpoint.ErrVersion):
		return nil, fmt.Errorf("thread %q, record %s: %w", thread, r.ID, err)
	}
	return nil, damagedRow(thread, r, err)
}

func damagedRow(thread checkpoint.ThreadID, r *Row, err error) *checkpoint.CorruptError {
	return &checkpoint.CorruptError{
		Thread: thread, Place: fmt.Sprintf("log %q, row %d (record %s)", r.Namespace, r.Place, r.ID), Offset: -1, Err: err,
	}
}
