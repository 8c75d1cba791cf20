package sse_test

import (
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/superstep-dev/superstep/internal/sse"
)

func TestEventsAreReadAs(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		name, text string
		want       []string // name:data
		end        error
	}{
		{"nothing", "", nil, io.EOF},
		{"data", "data: a\n\n", []string{":a"}, io.EOF},
		{"a name", "event: n\ndata: a\n\n", []string{"n:a"}, io.EOF},
		{"a name after the data", "data: a\nevent: n\n\n", []string{"n:a"}, io.EOF},
		{"no space", "event:n\ndata:a\n\n", []string{"n:a"}, io.EOF},
		{"two spaces", "data:  a\n\n", []string{": a"}, io.EOF},
		{"several lines", "data: a\ndata: \ndata: b\n\n", []string{":a\n\nb"}, io.EOF},
		{"lines of Windows", "event: n\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []string{"n:a", ":b"}, io.EOF},
		{"lines of old Macs", "event: n\rdata: a\r\rdata: b\r\r", []string{"n:a", ":b"}, io.EOF},
		{"comments, IDs and unknown fields", ": hi\nid: 1\nretry: 5\nelse: x\ndata: a\n\n", []string{":a"}, io.EOF},
		{"signs of life", "\n: hi\n\nevent: ping\n\ndata:\n\ndata: a\n\n", []string{":a"}, io.EOF},
		{"a line longer than a buffer", "data: " + long + "\n\ndata: b\n\n", []string{":" + long, ":b"}, io.EOF},
		{"an end within an event", "data: a\n\ndata: b\n", []string{":a"}, io.ErrUnexpectedEOF},
		{"an end within a line", "data: a\n\ndata", []string{":a"}, io.ErrUnexpectedEOF},
		{"an error that is no event", "data: a\n\n{\n \"error\": 1\n}", []string{":a", "error:{\n \"error\": 1\n}"}, io.EOF},
		{"a line that is too long", "data: a\n\ndata: " + strings.Repeat(long, 11), []string{":a"}, sse.ErrTooLong},
		{"an event that is too long", "data: a\n\n" + strings.Repeat("data: "+long+"\n", 11), []string{":a"}, sse.ErrTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.text), iotest.HalfReader(strings.NewReader(c.text))} {
				e := sse.NewReader(r, 1_000_000)
				e.Bare = true
				var got []string
				ev, err := e.Next()
				for ; err == nil; ev, err = e.Next() {
					if len(ev.Data) > 0 { // or else it is a sign of life
						got = append(got, ev.Name+":"+string(ev.Data))
					}
				}
				if !slices.Equal(got, c.want) || err != c.end {
					t.Errorf("got %.200q, %v, want %.200q, %v", got, err, c.want, c.end)
				}
			}
		})
	}
}
