package vendor

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

var errTooLong = errors.New("it is too long")

// Event is an event of a stream: server-sent events, as vendors send them.
type Event struct {
	Name string // "" if it has none
	Data []byte
}

// events reads a stream of events.
type events struct {
	r    *bufio.Reader
	most int // bytes of an event
}

func newEvents(r io.Reader, most int) *events { return &events{bufio.NewReaderSize(r, 16<<10), most} }

// next returns the next event that has data. The error is io.EOF at an end between
// events and io.ErrUnexpectedEOF at one inside of one.
func (e *events) next() (Event, error) {
	var ev Event
	some := false
	for {
		line, err := e.line(e.most - len(ev.Data))
		switch {
		case err == io.EOF && (some || len(line) > 0):
			return ev, io.ErrUnexpectedEOF
		case err != nil:
			return ev, err
		case len(line) == 0 && len(ev.Data) == 0:
			ev, some = Event{}, false // a sign of life
			continue
		case len(line) == 0:
			return ev, nil
		}
		if !some && line[0] == '{' { // a server that fails may say so without the form of events
			return e.bare(bytes.Clone(line))
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			ev.Name, some = string(value), true
		case "data":
			if some = true; ev.Data == nil {
				ev.Data = []byte{}
			} else {
				ev.Data = append(ev.Data, '\n')
			}
			ev.Data = append(ev.Data, value...)
		}
	}
}

// bare returns what a server says beside the form of events, which begins with a
// line, as an event.
func (e *events) bare(text []byte) (Event, error) {
	for {
		line, err := e.line(maxErrorBody)
		text = append(append(text, '\n'), line...)
		if err == io.EOF || err == nil && len(line) == 0 || len(text) > maxErrorBody {
			return Event{Name: "error", Data: text}, nil
		}
		if err != nil {
			return Event{}, err
		}
	}
}

// line returns the next line of at most so many bytes, without its end, valid until
// the next call.
func (e *events) line(most int) ([]byte, error) {
	line, err := e.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		whole := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) && len(whole) <= most {
			line, err = e.r.ReadSlice('\n')
			whole = append(whole, line...)
		}
		line = whole
	}
	if len(line) > most || errors.Is(err, bufio.ErrBufferFull) {
		return nil, errTooLong
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), err
}
