// Package sse reads streams of server-sent events.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrTooLong says that an event has more bytes than it may have.
var ErrTooLong = errors.New("it is too long")

// An Event is an event of a stream as it was sent. A name or an ID that it has not is empty.
type Event struct {
	Name, ID string
	Data     []byte
}

// A Reader reads a stream of events, whose lines end in LF, CRLF or CR.
type Reader struct {
	// Line, if set, is told of each line.
	Line func(comment bool)
	// Bare takes text in the place of an event that begins with a brace, up to an empty line,
	// as one named "error": a server that fails may say so without the form of events.
	Bare bool

	r    *bufio.Reader
	most int // bytes of an event
	buf  []byte
	cr   bool // the last line ended in CR: an LF belongs to it
	bom  bool // the beginning was read
}

// NewReader returns a reader of events of at most so many bytes.
func NewReader(r io.Reader, most int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 16<<10), most: most}
}

// line returns the next line, valid until the next call. io.EOF comes after
// the last complete line, io.ErrUnexpectedEOF with what there is of another.
func (r *Reader) line() ([]byte, error) {
	r.buf = r.buf[:0]
	for {
		// What is there already is looked at as a whole.
		if r.r.Buffered() == 0 {
			if _, err := r.r.Peek(1); err != nil {
				if errors.Is(err, io.EOF) && len(r.buf) > 0 {
					err = io.ErrUnexpectedEOF
				}
				return r.buf, err
			}
		}
		have, _ := r.r.Peek(r.r.Buffered())
		if r.cr {
			r.cr = false
			if have[0] == '\n' {
				_, _ = r.r.Discard(1) // is buffered
				continue
			}
		}
		text, _, whole := bytes.Cut(have, []byte("\n"))
		if cr := bytes.IndexByte(text, '\r'); cr >= 0 {
			text, whole, r.cr = text[:cr], true, true
		}
		_, _ = r.r.Discard(min(len(text)+1, len(have)))
		if whole && len(r.buf) == 0 {
			return text, nil
		}
		if r.buf = append(r.buf, text...); whole {
			return r.buf, nil
		}
		if len(r.buf) > r.most {
			return nil, ErrTooLong
		}
	}
}

// Next returns the next event; one may have no data. The error is io.EOF at an end between
// events, and io.ErrUnexpectedEOF at one inside of one.
func (r *Reader) Next() (Event, error) {
	var e Event
	some := false
	for {
		line, err := r.line()
		if errors.Is(err, io.EOF) && some {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return e, err
		}
		if !r.bom {
			r.bom = true
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if r.Line != nil {
			r.Line(len(line) > 0 && line[0] == ':')
		}
		switch {
		case len(line) == 0 && some:
			return e, nil
		case len(line) == 0:
			continue
		case r.Bare && !some && line[0] == '{':
			return r.bare(bytes.Clone(line))
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.Name, some = string(value), true
		case "id":
			e.ID, some = string(value), true
		case "data":
			if some = true; len(e.Data)+len(value) > r.most {
				return e, ErrTooLong
			}
			if e.Data == nil {
				e.Data = []byte{}
			} else {
				e.Data = append(e.Data, '\n')
			}
			e.Data = append(e.Data, value...)
		}
	}
}

// bare returns what a server says beside the form of events, which begins with a line.
func (r *Reader) bare(text []byte) (Event, error) {
	for len(text) <= r.most {
		line, err := r.line()
		text = append(append(text, '\n'), line...)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || err == nil && len(line) == 0 {
			break
		}
		if err != nil {
			return Event{}, err
		}
	}
	return Event{Name: "error", Data: text}, nil
}
