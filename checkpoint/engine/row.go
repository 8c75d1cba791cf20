package engine

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
)

// The binary form of a row without its data. Its first byte says which form it is, and what
// is left out.
const (
	rowForm   = 4
	rowForms  = 0x07
	rowText   = 0x08 // its ID is no UUID
	rowSeq    = 0x10 // its number is not its place
	rowCount  = 0x20 // the log has not as many rows as its place says
	rowBranch = 0x40 // it is of a branch
	rowTop    = 0x80 // it is out of order
)

// AppendRow appends what a row says beside where it stands and its data, for drivers that
// keep bytes.
func AppendRow(b []byte, r *Row) []byte {
	flags, at := byte(rowForm), len(b)
	b = binary.BigEndian.AppendUint16(append(b, 0), uint16(r.Sum>>32))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Sum))
	u, ok := r.ID.Bytes()
	if ok {
		b = appendUUID(b, u)
	} else {
		flags, b = flags|rowText, appendText(b, r.ID)
	}
	b = appendSince(b, r.At-millis(u)*1e6)
	b = binary.AppendUvarint(b, uint64(r.Bytes))
	if r.Seq != r.Place {
		flags, b = flags|rowSeq, binary.AppendVarint(b, r.Seq)
	}
	if r.Count != r.Place {
		flags, b = flags|rowCount, binary.AppendVarint(b, r.Count)
	}
	if r.Branch != "" {
		flags, b = flags|rowBranch, appendID(b, checkpoint.ID(r.Branch))
	}
	if r.Top != r.ID {
		flags, b = flags|rowTop, appendID(b, r.Top)
	}
	b[at] = flags
	return packMeta(b, r.Meta, u)
}

// ParseRow is the reverse of [AppendRow], for a row that stands at a place. What it makes of
// bytes that were changed does not fit the row's checksum. It fails with
// checkpoint.ErrCorrupt, or with checkpoint.ErrVersion for a form that it doesn't know.
func ParseRow(thread checkpoint.ThreadID, ns string, place int64, b []byte) (Row, error) {
	r, c := Row{Namespace: ns, Place: place, Seq: place, Count: place}, reader{b: b}
	flags := c.byte()
	if form := flags & rowForms; form != rowForm && !c.bad {
		return r, fmt.Errorf("thread %q, log %q, place %d: %w: a row has form %d", thread, ns, place, checkpoint.ErrVersion, form)
	}
	if sum := c.take(6); sum != nil {
		r.Sum = uint64(binary.BigEndian.Uint16(sum))<<32 | uint64(binary.BigEndian.Uint32(sum[2:]))
	}
	var u [16]byte
	if flags&rowText != 0 {
		r.ID = checkpoint.ID(c.text())
		u, _ = r.ID.Bytes()
	} else {
		u = c.uuid()
		r.ID = checkpoint.IDFromBytes(u)
	}
	r.At, r.Bytes, r.Top = c.since()+millis(u)*1e6, int64(c.number()), r.ID
	if flags&rowSeq != 0 {
		r.Seq = c.signed()
	}
	if flags&rowCount != 0 {
		r.Count = c.signed()
	}
	if flags&rowBranch != 0 {
		r.Branch = checkpoint.Branch(c.id())
	}
	if flags&rowTop != 0 {
		r.Top = c.id()
	}
	err := error(nil)
	if c.bad {
		err = errCut
	} else {
		r.Meta, err = unpackMeta(c.b, u)
	}
	if err != nil {
		return r, damagedRow(thread, &r, err)
	}
	return r, nil
}

var errCut = errors.New("it is cut off, or longer than it says")

// millis returns when a UUID was made, in milliseconds since 1970, as it says itself: one of
// version 7, any other says some number.
func millis(u [16]byte) int64 { return int64(binary.BigEndian.Uint64(u[:8]) >> 16) }

// begun is when the run of an ID began, in nanoseconds. Of what is no UUID it is 0.
func begun(id checkpoint.ID) int64 {
	u, _ := id.Bytes()
	return millis(u) * 1e6
}

// appendSince appends nanoseconds that mostly are whole microseconds.
func appendSince(b []byte, ns int64) []byte {
	us, rest := ns/1000, ns%1000
	if rest < 0 {
		us, rest = us-1, rest+1000
	}
	if rest == 0 {
		return binary.AppendVarint(b, us<<1)
	}
	return binary.AppendUvarint(binary.AppendVarint(b, us<<1|1), uint64(rest))
}

func (r *reader) since() int64 {
	n := r.signed()
	ns := n >> 1 * 1000
	if n&1 != 0 {
		ns += int64(r.number())
	}
	return ns
}

// appendNear appends a UUID beside another that was made about when it was.
func appendNear(b []byte, u, other [16]byte) []byte {
	b = append(binary.AppendVarint(b, millis(other)-millis(u)), u[6:12]...)
	return binary.AppendUvarint(b, uint64(binary.BigEndian.Uint32(u[12:])))
}

func (r *reader) near(other [16]byte) (u [16]byte) {
	binary.BigEndian.PutUint64(u[:8], uint64(millis(other)-r.signed())<<16)
	copy(u[6:12], r.take(6))
	binary.BigEndian.PutUint32(u[12:], uint32(r.number()))
	return u
}

// The metadata of a row are JSON, in which no byte is below 32 or, being UTF-8, above 247:
// these stand for what is often in it. The words are for ever: others are another form of
// rows.
const (
	metaPlain = 0 // the first byte of what is not packed
	metaID    = 1 // a UUID as checkpoint.MarshalBody writes it, beside the row's own
	metaBytes = 2 // after their length: bytes in base64
	metaWord  = 3 // and the words after it
	metaMore  = 248
	low       = ' ' - metaWord // how many words stand at metaWord; the others at metaMore
)

var words = [...]string{
	`{"v":100`, `","p":`, `,"p":`, `,"e":`, `,"o":0,"h":[`, `","o":0,"h":[`, `","h":[`, `],"c":["`, `"],"k":["`, `"],"r":"`, `],"k":["`, `],"r":"`, `],"c":[["`,
	`"}`, `","`, `"],["`, `,"o":`, `,"x":[`, `,"m":{"`, `":"`, `,"z":[`, `,"a":`, `,"n":`, `,"w":[{"task":`, `,"questions":[{"id":"`, `,"key":"`, `,"node":"`,
	`,"when":"inside"`, `,"j":[{"join":"`,
	`{"v":100,"g":"`, `{"v":100,"p":`, `"]}`, `]}`,
}

// wordsOf are the words that begin with a byte, the longest first.
var wordsOf = func() (of [256][]byte) {
	for i, w := range words {
		at := 0
		for at < len(of[w[0]]) && len(words[of[w[0]][at]]) > len(w) {
			at++
		}
		of[w[0]] = append(of[w[0]][:at], append([]byte{byte(i)}, of[w[0]][at:]...)...)
	}
	return of
}()

var (
	idForm    = base64.RawURLEncoding.Strict()
	bytesForm = base64.StdEncoding.Strict()
)

const idText = 25 // a quote, an asterisk, 22 characters, a quote

func wordByte(word byte) byte {
	if word < low {
		return metaWord + word
	}
	return metaMore + word - low
}

// packMeta appends the metadata of a row whose ID has these bytes, packed.
func packMeta(b, meta []byte, id [16]byte) []byte {
	if slices.ContainsFunc(meta, func(c byte) bool { return c < ' ' || c >= metaMore }) {
		return append(append(b, metaPlain), meta...)
	}
next:
	for i := 0; i < len(meta); {
		rest := meta[i:]
		if rest[0] == '"' {
			if len(rest) >= idText && rest[1] == '*' && rest[idText-1] == '"' {
				var u [16]byte
				if n, err := idForm.Decode(u[:], rest[2:idText-1]); err == nil && n == len(u) {
					b, i = appendNear(append(b, metaID), u, id), i+idText
					continue
				}
			}
			if n := bytes.IndexByte(rest[1:], '"'); n > 0 && bytes.HasSuffix(meta[:i], []byte(`"x":[`)) {
				if v, err := bytesForm.AppendDecode(nil, rest[1:1+n]); err == nil {
					b, i = appendText(append(b, metaBytes), v), i+n+2
					continue
				}
			}
		}
		for _, k := range wordsOf[rest[0]] {
			if w := words[k]; len(rest) >= len(w) && string(rest[:len(w)]) == w {
				b, i = append(b, wordByte(k)), i+len(w)
				continue next
			}
		}
		b, i = append(b, rest[0]), i+1
	}
	return b
}

// unpackMeta is the reverse of packMeta.
func unpackMeta(b []byte, id [16]byte) ([]byte, error) {
	if len(b) > 0 && b[0] == metaPlain {
		return b[1:], nil
	}
	out := make([]byte, 0, 3*len(b))
	for c := (reader{b: b}); len(c.b) > 0; {
		k := c.byte()
		switch {
		case k >= metaMore && int(k-metaMore) < len(words)-low:
			out = append(out, words[low+k-metaMore]...)
		case k >= ' ' && k < metaMore:
			out = append(out, k)
		case k >= metaWord && k < ' ':
			out = append(out, words[k-metaWord]...)
		case k == metaID:
			u := c.near(id)
			out = append(idForm.AppendEncode(append(out, '"', '*'), u[:]), '"')
		case k == metaBytes:
			out = append(bytesForm.AppendEncode(append(out, '"'), c.take(c.number())), '"')
		default:
			c.bad = true
		}
		if c.bad {
			return nil, errCut
		}
	}
	return out, nil
}
