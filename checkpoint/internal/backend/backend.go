// Package backend holds what the stores of several back ends do alike.
package backend

import (
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Failure is the text and the causes of an error that says what went wrong with
// a back end and what to do about it.
type Failure struct {
	Package string
	Op      string // what was tried
	Place   string // on which server or file; may be empty
	Kind    error
	What    string // what is wrong, if Kind does not say it all
	Fix     string // what to do
	Err     error  // the driver's error; may be nil
}

func (f Failure) String() string {
	what := f.What
	if what == "" {
		what = f.Kind.Error()
	}
	s := f.Package + ": " + f.Op
	if f.Place != "" {
		s += " " + f.Place
	}
	s += ": " + what
	if f.Err != nil {
		s += fmt.Sprintf(" (%v)", f.Err)
	}
	if f.Fix != "" {
		s += "; " + f.Fix
	}
	return s
}

// Causes returns the kind and the driver's error, for Unwrap.
func (f Failure) Causes() []error {
	if f.Err == nil {
		return []error{f.Kind}
	}
	return []error{f.Kind, f.Err}
}

// Agreed reports whether an error is one of those that the contract of a store
// names: it says enough as it is.
func Agreed(err error) bool {
	for _, e := range []error{
		checkpoint.ErrNotFound, checkpoint.ErrConflict, checkpoint.ErrFenced, checkpoint.ErrBusy, checkpoint.ErrInvalid,
		checkpoint.ErrNoThread, checkpoint.ErrClosed, checkpoint.ErrVersion, checkpoint.ErrCorrupt,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Conflict says that the head of a log is not the one that a writer expected.
func Conflict(log checkpoint.Log, head, want checkpoint.ID) error {
	show := func(id checkpoint.ID) string {
		if id == "" {
			return "none"
		}
		return string(id)
	}
	return fmt.Errorf("%w: thread %q, namespace %q has head %s, the writer expected %s", checkpoint.ErrConflict, log.Thread, log.Namespace, show(head), show(want))
}

// Castagnoli is the table of the checksums that are stored: CRC-32C.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the checksums of the two parts of a record as one number, for
// a column.
func Checksum(meta, data []byte) int64 {
	return int64(uint64(crc32.Checksum(meta, Castagnoli))<<32 | uint64(crc32.Checksum(data, Castagnoli)))
}

// Decode checks the parts of a record against their checksums and decodes them
// into out, as checkpoint.UnmarshalBody does. Without withData, data is not
// looked at.
func Decode(out *checkpoint.Record, meta, data []byte, sum int64, withData bool) (err error) {
	if err := checkMeta(meta, sum); err != nil {
		return err
	}
	if !withData {
		return checkpoint.UnmarshalBody(out, meta, nil)
	}
	if data, err = dataOf(data, sum); err != nil {
		return err
	}
	return checkpoint.UnmarshalBody(out, meta, data)
}

// DecodeFolding is Decode for a query with Folding.
func DecodeFolding(out *checkpoint.Record, meta, data []byte, sum int64) (err error) {
	if err := checkMeta(meta, sum); err != nil {
		return err
	}
	if data, err = dataOf(data, sum); err != nil {
		return err
	}
	return checkpoint.UnmarshalBodyFolding(out, meta, data)
}

func checkMeta(meta []byte, sum int64) error {
	if got, want := crc32.Checksum(meta, Castagnoli), uint32(uint64(sum)>>32); got != want {
		return fmt.Errorf("column meta has checksum %08x, %08x was written", got, want)
	}
	return nil
}

func dataOf(data []byte, sum int64) ([]byte, error) {
	if got, want := crc32.Checksum(data, Castagnoli), uint32(sum); got != want {
		return nil, fmt.Errorf("column data has checksum %08x, %08x was written", got, want)
	}
	if data == nil {
		data = []byte{} // nil would mean that it was not read
	}
	return data, nil
}
