package checkpoint

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/google/uuid"
)

// NewRunID returns the ID of a new run: a UUID of version 7, so that IDs sort
// roughly by time, with its last four bytes zero. The run's checkpoints are
// [ID.Checkpoint] of it.
func NewRunID() ID {
	u, err := uuid.NewV7()
	if err != nil {
		panic("checkpoint: no random numbers: " + err.Error()) // crypto/rand never fails on supported systems
	}
	u[12], u[13], u[14], u[15] = 0, 0, 0, 0
	return ID(u.String())
}

// The text form is 36 bytes, the counter its last 8.
const (
	idLen   = 36
	idCount = idLen - 8
)

// Run returns the ID of the run that wrote the checkpoint: id with its last
// four bytes zero. It returns the empty ID when id is not valid.
func (id ID) Run() ID {
	if !id.Valid() {
		return ""
	}
	if id[idCount:] == "00000000" {
		return id
	}
	return id[:idCount] + "00000000"
}

// Checkpoint returns the ID of the n-th checkpoint of the run that id belongs
// to. It returns the empty ID when id is not valid.
func (id ID) Checkpoint(n uint32) ID {
	if !id.Valid() {
		return ""
	}
	var b [idLen]byte
	return ID(id.AppendCheckpoint(b[:0], n))
}

// AppendCheckpoint appends to b what Checkpoint returns, for an id that is valid.
func (id ID) AppendCheckpoint(b []byte, n uint32) []byte {
	var c [4]byte
	binary.BigEndian.PutUint32(c[:], n)
	return hex.AppendEncode(append(b, id[:idCount]...), c[:])
}

// Count returns which of its run's checkpoints id is: the number in its last
// four bytes, 0 for a run's own ID or an ID that is not valid.
func (id ID) Count() uint32 {
	if !id.Valid() {
		return 0
	}
	return id.count()
}

// count is Count of a valid ID.
func (id ID) count() (n uint32) {
	for i := idCount; i < idLen; i++ {
		n = n<<4 | uint32(nibble(id[i]))
	}
	return n
}

// Valid reports whether id is a UUID in its usual text form: 36 characters,
// lower case.
func (id ID) Valid() bool {
	if len(id) != idLen || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return false
	}
	hyphens := 0
	for i := range len(id) {
		hyphens += int(idBytes[id[i]])
	}
	return hyphens == 4
}

// idBytes has 0 for the digits of an ID, 1 for the hyphen, and more than an ID may have
// of these for all that is none of it.
var idBytes = func() (t [256]uint8) {
	for c := range t {
		t[c] = 5
	}
	for _, c := range "0123456789abcdef" {
		t[c] = 0
	}
	t['-'] = 1
	return t
}()

// Bytes returns the 16 bytes of a valid ID.
func (id ID) Bytes() (b [16]byte, ok bool) {
	if !id.Valid() {
		return b, false
	}
	for i, j := 0, 0; i < len(b); i++ {
		if id[j] == '-' {
			j++
		}
		b[i] = nibble(id[j])<<4 | nibble(id[j+1])
		j += 2
	}
	return b, true
}

func nibble(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// IDFromBytes is the reverse of [ID.Bytes].
func IDFromBytes(b [16]byte) ID { return ID(uuid.UUID(b).String()) }
