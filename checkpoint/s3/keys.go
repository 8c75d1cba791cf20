package s3

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// The layout: under the prefix stand
//
//	h/<thread>                               the head of a thread
//	p/<thread>/<birth>/<name>                a page of it, never changed
//	i/m/<minute>/<thread>/<version><random>   entries of indexes: threads by the minute
//	i/d/<time>/<thread>/<version><random>     of their newest record, by when they are due,
//	i/l/0/<thread>/<version><random>          and those that have a lease
//
// A head names its entries: those that it doesn't name, of its version or one below, are of
// commits that came to nothing, or are about to be removed.
const (
	dirHeads   = "h/"
	dirPages   = "p/"
	dirMinutes = "i/m/"
	dirDue     = "i/d/"
	dirLeases  = "i/l/"
)

// longName is how many bytes of an escaped ID stand in a key: servers that keep objects in
// files have at most 255 between slashes. After the beginning of a longer one stands its
// hash.
const longName = 180

const longMark = "~~" // sorts after all that may follow the beginning

// escape makes a part of a key of a thread's ID. Letters, digits and dashes stand for
// themselves; what stands for another byte sorts where that byte does, so IDs and keys have
// the same order.
func escape(id checkpoint.ThreadID) string {
	b := make([]byte, 0, len(id)+8)
	for i := range len(id) {
		mark := byte(0)
		switch c := id[i]; {
		case c == '-', '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z':
			b = append(b, c)
			continue
		case c < '-':
			mark = '!'
		case c < '0':
			mark = '.'
		case c < 'A':
			mark = '='
		case c < 'a':
			mark = '_'
		default:
			mark = '~'
		}
		b = hex.AppendEncode(append(b, mark), []byte{id[i]})
	}
	if len(b) <= longName {
		return string(b)
	}
	sum := sha256.Sum256([]byte(id))
	return string(b[:longName]) + longMark + hex.EncodeToString(sum[:])
}

// beginning returns what the escaped forms of all IDs with a prefix begin with.
func beginning(prefix checkpoint.ThreadID) string {
	e := escape(prefix)
	return e[:min(len(e), longName)]
}

// unescape is the reverse of escape; ok is false for a long ID, and for what is none.
func unescape(s string) (id checkpoint.ThreadID, ok bool) {
	var b []byte
	for len(s) > 0 {
		if !strings.ContainsRune("!.=_~", rune(s[0])) {
			b, s = append(b, s[0]), s[1:]
			continue
		}
		if len(s) < 3 {
			return "", false
		}
		c, err := hex.DecodeString(s[1:3])
		if err != nil {
			return "", false
		}
		b, s = append(b, c...), s[3:]
	}
	return checkpoint.ThreadID(b), true
}

// sortable returns the text form of a number, which sorts as numbers do.
func sortable(n int64) string { return fmt.Sprintf("%016x", uint64(n)+1<<63) }

func parseSortable(s string) (int64, bool) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(b) - 1<<63), true
}

// inverted does so the other way round: the highest number comes first.
func inverted(n int64) string { return sortable(^n) }

// entry is what the key of an index's entry says.
type entry struct {
	key, place, thread string // thread: escaped
	version            int64
	made               time.Time
}

// entryKey returns a key that nobody else has.
func entryKey(dir, place, thread string, version int64) string {
	return dir + place + "/" + thread + "/" + sortable(version) + rand.Text()[:tokenLen]
}

func parseEntry(dir, key string) (e entry, ok bool) {
	parts := strings.Split(strings.TrimPrefix(key, dir), "/")
	if len(parts) != 3 || len(parts[2]) < 16 {
		return e, false
	}
	version, ok := parseSortable(parts[2][:16])
	return entry{key: key, place: parts[0], thread: parts[1], version: version}, ok
}

// All that a thread has is one sorted map. Keys of side rows have a zero before them; those
// of rows of logs are 1, the namespace and the place.
func sideKey(key []byte) []byte { return append([]byte{0}, key...) }

// logKey begins the keys of a log's rows. Namespaces sort as they are, and none begins with
// another.
func logKey(ns string) []byte {
	b := make([]byte, 1, len(ns)+12)
	b[0] = 1
	for i := range len(ns) {
		if b = append(b, ns[i]); ns[i] == 0 {
			b = append(b, 0xff)
		}
	}
	return append(b, 0, 1)
}

func rowKey(ns string, place int64) []byte {
	return binary.BigEndian.AppendUint64(logKey(ns), uint64(max(place, 0)))
}

// parseRowKey is the reverse of rowKey.
func parseRowKey(key []byte) (ns string, place int64, ok bool) {
	n := len(key) - 10
	if n < 1 || key[0] != 1 {
		return "", 0, false
	}
	ns = strings.ReplaceAll(string(key[1:n]), "\x00\xff", "\x00")
	return ns, int64(binary.BigEndian.Uint64(key[n+2:])), true
}
