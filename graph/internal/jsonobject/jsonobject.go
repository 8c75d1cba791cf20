// Package jsonobject writes JSON objects whose members are encoded already and
// keep the order in which they are written.
package jsonobject

import (
	"bytes"
	"encoding/json"
)

// Writer writes an object member by member. The zero value is ready to use.
type Writer struct{ buf bytes.Buffer }

// Member adds a member; value is JSON.
func (w *Writer) Member(name string, value []byte) {
	if w.buf.Len() == 0 {
		w.buf.WriteByte('{')
	} else {
		w.buf.WriteByte(',')
	}
	quoted, _ := json.Marshal(name) // a string cannot fail
	w.buf.Write(quoted)
	w.buf.WriteByte(':')
	w.buf.Write(value)
}

// Close ends the object and returns it. The writer must not be used again.
func (w *Writer) Close() json.RawMessage {
	if w.buf.Len() == 0 {
		w.buf.WriteByte('{')
	}
	w.buf.WriteByte('}')
	return w.buf.Bytes()
}
