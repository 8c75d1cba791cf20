//go:build unix

package chaos

import (
	"bytes"
	"encoding/json"
	"os"
	"sync"
	"time"
)

// kind says what a line of the journal tells.
type kind string

const (
	kBegin    kind = "begin"    // a worker is ready
	kClaim    kind = "claim"    // a run has claimed a thread
	kAcked    kind = "acked"    // a record was stored
	kReleased kind = "released" // a run has given its thread up
	kTry      kind = "try"      // a record is about to be written
	kRecorded kind = "recorded" // the result of a Once was stored
	kRefused  kind = "refused"  // the store has refused a write
	kEffect   kind = "effect"   // the function of a Once was called
	kAsks     kind = "asks"     // a node waits for an answer or an event
	kSent     kind = "sent"     // an event was stored
	kSuccess  kind = "success"  // a call has returned without an error
	kFailed   kind = "failed"   // a call has returned an error that may be expected
	kDone     kind = "done"     // a thread was seen to have ended
	kWrong    kind = "wrong"    // something must not be
)

// line is a line of the journal.
type line struct {
	Kind   kind   `json:"k"`
	PID    int    `json:"pid"`
	At     int64  `json:"at"` // Unix time in ms
	Thread string `json:"thread,omitempty"`
	Fence  int64  `json:"fence,omitempty"`
	Since  int64  `json:"since,omitempty"` // when the fence was got
	Record string `json:"record,omitempty"`
	Task   string `json:"task,omitempty"` // namespace, task and name of a Once
	Key    string `json:"key,omitempty"`
	What   string `json:"what,omitempty"`
	Text   string `json:"text,omitempty"`
}

// journal is the file that all processes append to.
type journal struct {
	mu sync.Mutex
	f  *os.File // nil: nothing is noted
}

func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{f: f}, err
}

// note appends a line with one write. The line break before it ends a line that
// a killed process may have left half written.
func (j *journal) note(l line) {
	if j == nil || j.f == nil {
		return
	}
	l.PID, l.At = os.Getpid(), time.Now().UnixMilli()
	data, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.f.Write([]byte("\n" + string(data) + "\n")); err != nil {
		panic(err)
	}
}

// tail reads what was appended to the journal since the last call.
type tail struct {
	path string
	read int64
	torn int
}

func (t *tail) lines() ([]line, error) {
	f, err := os.Open(t.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() == t.read {
		return nil, err
	}
	data := make([]byte, st.Size()-t.read)
	n, err := f.ReadAt(data, t.read)
	if err != nil {
		return nil, err
	}
	data = data[:n]
	end := bytes.LastIndexByte(data, '\n') + 1
	t.read += int64(end)
	var lines []line
	for text := range bytes.Lines(data[:end]) {
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		var l line
		if json.Unmarshal(text, &l) != nil {
			t.torn++ // half a line of a killed process
			continue
		}
		lines = append(lines, l)
	}
	return lines, nil
}
