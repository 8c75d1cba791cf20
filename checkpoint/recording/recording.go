// Package recording writes threads to files and reads them back: to move a thread
// from one store to another, to attach one to a bug report, and to keep one as a
// regression test (see graph.Graph.Replay).
//
// A recording is text in JSON Lines. The first line says what it is of; each of
// the others holds a record of one of the thread's logs, in the order appended,
// or a result of a superstep that is open; the last one says that it is whole:
//
//	{"superstep":"recording","format":100,"thread":"t-1","graph":"jokes","exported_at":"2026-11-21T10:00:00Z"}
//	{"record":{"id":"…","seq":1,"step":0,"source":"input","changes":[{"data":{"Topic":"cats"}}],"tasks":[{"node":"write"}]}}
//	{"log":"/tools:…","record":{…}}
//	{"result":{"epoch":"…","task":0,"kind":"once","name":"ask the model","data":"…"}}
//	{"end":true,"records":2,"results":1}
//
// The file holds all that the thread does in the clear, whatever the store does to
// it at rest.
package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Format is the version of the format, as 100 times its major number plus its
// minor number. A reader refuses another major number, and tolerates unknown
// fields from a newer minor one.
const Format = 100

const magic = "recording"

// Header says what a recording is of.
type Header struct {
	Thread     checkpoint.ThreadID
	Graph      string // name of the graph that wrote the newest record
	Version    int    // of the state's schema, in the newest record
	ExportedAt time.Time
}

// Recording is a thread as it was recorded.
type Recording struct {
	Header Header
	Logs   []*Log // those of the thread itself first, then by namespace
}

// Log is one log of a recorded thread.
type Log struct {
	Namespace string
	Records   []*checkpoint.Record // in the order appended
	Results   []checkpoint.Result  // of open supersteps
}

// Log returns the log of that namespace, nil if there is none.
func (r *Recording) Log(namespace string) *Log {
	i := slices.IndexFunc(r.Logs, func(l *Log) bool { return l.Namespace == namespace })
	if i < 0 {
		return nil
	}
	return r.Logs[i]
}

// Errors of reading.
var (
	// ErrNotRecording: the file is something else.
	ErrNotRecording = errors.New("not a recording")

	// ErrTruncated: the file's end is missing.
	ErrTruncated = errors.New("the recording is cut off")
)

// VersionError says that a recording has a format that this version can't read.
// errors.Is(err, checkpoint.ErrVersion) holds.
type VersionError struct{ Format int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the recording has format %d.%d, this version of Superstep reads %d.%d: use a newer one", e.Format/100, e.Format%100, Format/100, Format%100)
}

// Unwrap returns checkpoint.ErrVersion.
func (e *VersionError) Unwrap() error { return checkpoint.ErrVersion }

// LineError says which line of a recording can't be read.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// line is one line of a recording: a header, a record, a result or the end.
type line struct {
	Superstep  string              `json:"superstep,omitempty"`
	Format     int                 `json:"format,omitempty"`
	Thread     checkpoint.ThreadID `json:"thread,omitempty"`
	Graph      string              `json:"graph,omitempty"`
	Version    int                 `json:"version,omitempty"`
	ExportedAt *time.Time          `json:"exported_at,omitempty"`

	Log    string             `json:"log,omitempty"`
	Record *checkpoint.Record `json:"record,omitempty"`
	Result *checkpoint.Result `json:"result,omitempty"`

	End     bool `json:"end,omitempty"`
	Records int  `json:"records,omitempty"`
	Results int  `json:"results,omitempty"`
}

// Write writes a recording.
func (r *Recording) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	h := &r.Header
	at := h.ExportedAt
	err := e.Encode(line{Superstep: magic, Format: Format, Thread: h.Thread, Graph: h.Graph, Version: h.Version, ExportedAt: &at})
	end := line{End: true}
	for _, l := range r.Logs {
		for _, rec := range l.Records {
			if err == nil {
				end.Records++
				err = e.Encode(line{Log: l.Namespace, Record: rec})
			}
		}
		for i := range l.Results {
			if err == nil {
				end.Results++
				err = e.Encode(line{Log: l.Namespace, Result: &l.Results[i]})
			}
		}
	}
	if err == nil {
		err = e.Encode(end)
	}
	if err == nil {
		err = b.Flush()
	}
	if err != nil {
		return fmt.Errorf("recording of thread %q: %w", h.Thread, err)
	}
	return nil
}

// ReadFile reads the recording in a file.
func ReadFile(path string) (*Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Read reads what Write wrote. A damaged line is a [*LineError], a newer format a
// [*VersionError].
func Read(r io.Reader) (*Recording, error) {
	in := bufio.NewReader(r)
	out := &Recording{}
	logs := map[string]*Log{}
	format, records, results := 0, 0, 0
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, &LineError{n, err}
		}
		if len(bytes.TrimSpace(text)) == 0 && err == io.EOF {
			if n == 1 {
				return nil, fmt.Errorf("%w: it is empty", ErrNotRecording)
			}
			return nil, &LineError{n, ErrTruncated}
		}
		if n == 1 {
			format = formatOf(text)
		}
		l, lerr := parse(text, format > Format)
		if n == 1 {
			if lerr != nil || l.Superstep != magic {
				if format/100 > Format/100 {
					return nil, &VersionError{format}
				}
				return nil, fmt.Errorf("%w: its first line is not the header of one", ErrNotRecording)
			}
			if format/100 != Format/100 {
				return nil, &VersionError{format}
			}
			out.Header = Header{Thread: l.Thread, Graph: l.Graph, Version: l.Version}
			if l.ExportedAt != nil {
				out.Header.ExportedAt = *l.ExportedAt
			}
			continue
		}
		if lerr != nil {
			if err == io.EOF {
				lerr = fmt.Errorf("%w: %w", ErrTruncated, lerr)
			}
			return nil, &LineError{n, lerr}
		}
		log := logs[l.Log]
		if log == nil && (l.Record != nil || l.Result != nil) {
			log = &Log{Namespace: l.Log}
			logs[l.Log] = log
			out.Logs = append(out.Logs, log)
		}
		switch {
		case l.Record != nil:
			rec := l.Record
			rec.Log = checkpoint.Log{Thread: out.Header.Thread, Namespace: l.Log}
			if rec.ID == "" || rec.Seq < 1 || rec.Epoch == "" {
				return nil, &LineError{n, errors.New("the record has no ID, epoch or sequence number")}
			}
			log.Records = append(log.Records, rec)
			records++
		case l.Result != nil:
			if l.Result.Kind == "" || l.Result.Epoch == "" {
				return nil, &LineError{n, errors.New("the result has no kind or no epoch")}
			}
			log.Results = append(log.Results, *l.Result)
			results++
		case l.End:
			if l.Records != records || l.Results != results {
				return nil, &LineError{n, fmt.Errorf("%w: it holds %d records and %d results, %d and %d were written", ErrTruncated, records, results, l.Records, l.Results)}
			}
			return out, nil
		default:
			return nil, &LineError{n, errors.New("neither a record nor a result")}
		}
	}
}

func parse(text []byte, newer bool) (*line, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if !newer {
		d.DisallowUnknownFields()
	}
	l := &line{}
	if err := d.Decode(l); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the line is empty")
		}
		return nil, err
	}
	if rest := bytes.TrimSpace(text[d.InputOffset():]); len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes follow the object", len(rest))
	}
	return l, nil
}

// formatOf returns the format that a header names, whatever else it says; 0 if
// it names none.
func formatOf(text []byte) int {
	var h struct {
		Superstep string `json:"superstep"`
		Format    int    `json:"format"`
	}
	if json.Unmarshal(text, &h) != nil || h.Superstep != magic {
		return 0
	}
	return h.Format
}
