package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxEvent bounds an event, in bytes: it may be a whole state.
const maxEvent = 256 << 20

var errTooLong = fmt.Errorf("an event is longer than %d MB", maxEvent>>20)

// sent is an event of a stream as it was sent.
type sent struct {
	name, id string
	data     []byte
}

// decoder reads a stream of server-sent events, whose lines end in LF, CRLF or CR.
type decoder struct {
	r    *bufio.Reader
	line func(comment bool) // is told of each line
	buf  []byte
	cr   bool // the last line ended in CR: an LF belongs to it
	bom  bool // the beginning was read
}

func newDecoder(r io.Reader) *decoder {
	return &decoder{r: bufio.NewReaderSize(r, 32<<10), line: func(bool) {}}
}

// readLine returns the next line, valid until the next call. io.EOF comes after
// the last complete line, io.ErrUnexpectedEOF in a line.
func (d *decoder) readLine() ([]byte, error) {
	d.buf = d.buf[:0]
	for {
		// What is there already is looked at as a whole.
		if d.r.Buffered() == 0 {
			if _, err := d.r.Peek(1); err != nil {
				if errors.Is(err, io.EOF) && len(d.buf) > 0 {
					err = io.ErrUnexpectedEOF
				}
				return nil, err
			}
		}
		have, _ := d.r.Peek(d.r.Buffered())
		if d.cr {
			d.cr = false
			if have[0] == '\n' {
				_, _ = d.r.Discard(1) // is buffered
				continue
			}
		}
		end := bytes.IndexAny(have, "\r\n")
		if end < 0 {
			d.buf = append(d.buf, have...)
			_, _ = d.r.Discard(len(have))
			if len(d.buf) > maxEvent {
				return nil, errTooLong
			}
			continue
		}
		d.buf = append(d.buf, have[:end]...)
		d.cr = have[end] == '\r'
		_, _ = d.r.Discard(end + 1)
		return d.buf, nil
	}
}

// next returns the next event. The error is io.EOF at an end between events, and
// io.ErrUnexpectedEOF at one inside of one.
func (d *decoder) next() (sent, error) {
	var e sent
	some := false
	for {
		line, err := d.readLine()
		if errors.Is(err, io.EOF) && some {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return e, err
		}
		if !d.bom {
			d.bom = true
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		d.line(len(line) > 0 && line[0] == ':')
		if len(line) == 0 {
			if some {
				return e, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.name, some = string(value), true
		case "id":
			e.id, some = string(value), true
		case "data":
			if some = true; len(e.data)+len(value) > maxEvent {
				return e, errTooLong
			}
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
		}
	}
}
