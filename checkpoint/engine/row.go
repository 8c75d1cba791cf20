package engine

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
)

// The binary form of a row without its data. Its first byte says which form it is, and what
// is left out.
const (
	rowForm   = 2
	rowSeq    = 0x10 // its number is not its place
	rowCount  = 0x20 // the log has not as many rows as its place says
	rowBranch = 0x40 // it is of a branch
	rowTop    = 0x80 // it is out of order
)

// AppendRow appends what a row says beside where it stands and its data, for drivers that
// keep bytes.
func AppendRow(b []byte, r *Row) []byte {
	flags, at := byte(rowForm), len(b)
	b = binary.BigEndian.AppendUint64(append(b, 0), r.Sum)
	b = appendID(b, r.ID)
	b = binary.AppendVarint(b, r.At-begun(r.ID))
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
	return packMeta(b, r.Meta)
}

// ParseRow is the reverse of [AppendRow], for a row that stands at a place. What it makes of
// bytes that were changed does not fit the row's checksum. It fails with
// checkpoint.ErrCorrupt, or with checkpoint.ErrVersion for a form that it doesn't know.
func ParseRow(thread checkpoint.ThreadID, ns string, place int64, b []byte) (Row, error) {
	r, c := Row{Namespace: ns, Place: place, Seq: place, Count: place}, reader{b: b}
	flags := c.byte()
	if form := flags & 0xf; form != rowForm && !c.bad {
		return r, fmt.Errorf("thread %q, log %q, place %d: %w: a row has form %d", thread, ns, place, checkpoint.ErrVersion, form)
	}
	if sum := c.take(8); sum != nil {
		r.Sum = binary.BigEndian.Uint64(sum)
	}
	r.ID = c.id()
	r.At, r.Bytes, r.Top = c.signed()+begun(r.ID), int64(c.number()), r.ID
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
		r.Meta, err = unpackMeta(c.b)
	}
	if err != nil {
		return r, damagedRow(thread, &r, err)
	}
	return r, nil
}

var errCut = errors.New("it is cut off, or longer than it says")

// begun returns when the run of an ID began, in nanoseconds since 1970, as it says itself. Of
// what is no UUID of version 7 it is any number, but the same each time.
func begun(id checkpoint.ID) int64 {
	u, _ := id.Bytes()
	return int64(binary.BigEndian.Uint64(u[:8])>>16) * 1e6
}

// The metadata of a row are JSON, in which no byte is below 32: these stand for what is
// often in it. The words are for ever: others are another form of rows.
const (
	metaPlain = 0 // the first byte of what is not packed
	metaID    = 1 // a UUID as checkpoint.MarshalBody writes it
	metaBytes = 2 // after their length: bytes in base64
	metaWord  = 3
)

var words = [...]string{
	`{"v":100`, `{"v":200`, `,"p":`, `,"e":`, `,"o":0,"g":"`, `,"g":"`, `","h":[`, `],"c":["`, `"],"k":["`, `"],"r":"`, `],"k":["`, `],"r":"`, `],"c":[["`,
	`"}`, `","`, `"],["`, `,"o":`, `,"x":[`, `,"m":{"`, `":"`, `,"z":[`, `,"a":`, `,"n":`, `,"w":[{"task":`, `,"questions":[{"id":"`, `,"key":"`, `,"node":"`,
	`,"when":"inside"`, `,"j":[{"join":"`,
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

// packMeta appends metadata, packed.
func packMeta(b, meta []byte) []byte {
	if bytes.ContainsFunc(meta, func(r rune) bool { return r < ' ' }) {
		return append(append(b, metaPlain), meta...)
	}
next:
	for i := 0; i < len(meta); {
		rest := meta[i:]
		if rest[0] == '"' {
			if len(rest) >= idText && rest[1] == '*' && rest[idText-1] == '"' {
				var u [16]byte
				if n, err := idForm.Decode(u[:], rest[2:idText-1]); err == nil && n == len(u) {
					b, i = appendUUID(append(b, metaID), u), i+idText
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
				b, i = append(b, metaWord+k), i+len(w)
				continue next
			}
		}
		b, i = append(b, rest[0]), i+1
	}
	return b
}

// unpackMeta is the reverse of packMeta.
func unpackMeta(b []byte) ([]byte, error) {
	if len(b) > 0 && b[0] == metaPlain {
		return b[1:], nil
	}
	out := make([]byte, 0, 3*len(b))
	for c := (reader{b: b}); len(c.b) > 0; {
		k := c.byte()
		switch {
		case k >= ' ':
			out = append(out, k)
		case k >= metaWord:
			out = append(out, words[k-metaWord]...)
		case k == metaID:
			u := c.uuid()
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
