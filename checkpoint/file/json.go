package file

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/jsonscan"
)

// The checksum stands at the end of each line: ,"crc":"0a1b2c3d"}
const (
	crcOpen  = `,"crc":"`
	crcClose = `"}`
	crcLen   = len(crcOpen) + 8 + len(crcClose)
)

var (
	errNoChecksum = errors.New("no checksum at the end of the line")
	errChecksum   = errors.New("checksum does not fit")
	errIncomplete = errors.New("the last line is incomplete")
	errNotALine   = errors.New("not a line of a checkpoint file")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seedOf returns where a thread's checksums start: at its ID, so that a line of
// another thread does not fit.
func seedOf(thread checkpoint.ThreadID) uint32 {
	return crc32.Checksum(append([]byte(thread), 0), castagnoli)
}

func checksum(seed uint32, body []byte) (hx [8]byte) {
	const digits = "0123456789abcdef"
	sum := crc32.Update(seed, castagnoli, body)
	for i := range hx {
		hx[i] = digits[sum>>(28-4*i)&15]
	}
	return hx
}

// seal appends the checksum and the end of a line to body, which is a JSON
// object without its closing brace.
func seal(seed uint32, body []byte) []byte {
	hx := checksum(seed, body)
	return append(append(append(body, crcOpen...), hx[:]...), crcClose...)
}

// unseal checks a line without its newline and returns its body.
func unseal(seed uint32, b []byte) (body []byte, err error) {
	n := len(b) - crcLen
	if n < 0 || string(b[n:n+len(crcOpen)]) != crcOpen || string(b[len(b)-len(crcClose):]) != crcClose {
		return nil, errNoChecksum
	}
	if sum := checksum(seed, b[:n]); string(sum[:]) != string(b[n+len(crcOpen):n+len(crcOpen)+8]) {
		return nil, errChecksum
	}
	return b[:n], nil
}

// wholeLine returns the length of the complete line that b begins with though
// it has no newline after it, or 0.
func wholeLine(seed uint32, b []byte) int {
	for i := 0; ; {
		j := bytes.Index(b[i:], []byte(crcOpen))
		if j < 0 || i+j+crcLen > len(b) {
			return 0
		}
		i += j
		if _, err := unseal(seed, b[:i+crcLen]); err == nil {
			return i + crcLen
		}
		i++
	}
}

// appendText appends any bytes as a JSON string: text as it is; in base64 after a * what is
// no text or has control characters, and what begins with a *.
func appendText[T ~string | ~[]byte](b []byte, v T) []byte {
	s := string(v)
	if strings.HasPrefix(s, "*") || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return append(base64.RawURLEncoding.AppendEncode(append(b, '"', '*'), []byte(s)), '"')
	}
	text, _ := json.Marshal(s) // a string cannot fail
	return append(b, text...)
}

// textOf is the reverse of appendText.
func textOf(raw []byte) (string, bool) {
	s, ok := jsonscan.Text(raw)
	if code, coded := strings.CutPrefix(s, "*"); ok && coded {
		b, err := base64.RawURLEncoding.DecodeString(code)
		return string(b), err == nil
	}
	return s, ok
}

// Raw bytes stand as they are, in quotes, but for those that would end the string or the
// line, and those of text that JSON wants escaped. In base64 what is compressed would be
// larger by a third.
var (
	rawEscapes   = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
	rawUnescapes = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n", `\r`, "\r", `\t`, "\t")
)

// rawSize returns how many bytes a raw value has, of which what is between its quotes is
// given.
func rawSize(raw []byte) int {
	n := len(raw)
	for i := bytes.IndexByte(raw, '\\'); i >= 0; i = bytes.IndexByte(raw, '\\') {
		raw = raw[i+2:]
		n--
	}
	return n
}

// cursor walks over compact JSON.
type cursor struct {
	b   []byte
	i   int
	err error
}

func (c *cursor) fail() {
	if c.err == nil {
		c.err = fmt.Errorf("%w (at byte %d of it)", errNotALine, c.i)
	}
}

func (c *cursor) expect(b byte) {
	if c.err != nil || c.i >= len(c.b) || c.b[c.i] != b {
		c.fail()
		return
	}
	c.i++
}

// more steps over a comma, and reports whether there was one.
func (c *cursor) more() bool {
	if c.err == nil && c.i < len(c.b) && c.b[c.i] == ',' {
		c.i++
		return true
	}
	return false
}

func (c *cursor) key() []byte {
	k := c.value()
	c.expect(':')
	if c.err != nil || len(k) < 2 || k[0] != '"' {
		c.fail()
		return nil
	}
	return k[1 : len(k)-1]
}

func (c *cursor) number() int64 {
	n, err := strconv.ParseInt(string(c.value()), 10, 64)
	if err != nil {
		c.fail()
	}
	return n
}

func (c *cursor) truth() bool { return string(c.value()) == "true" }

func (c *cursor) text() string {
	s, ok := textOf(c.value())
	if !ok {
		c.fail()
	}
	return s
}

// list calls f where each element of an array begins.
func (c *cursor) list(f func()) {
	c.expect('[')
	if c.err == nil && c.i < len(c.b) && c.b[c.i] != ']' {
		for f(); c.more(); {
			f()
		}
	}
	c.expect(']')
}

// value steps over one JSON value and returns it.
func (c *cursor) value() []byte {
	start, depth := c.i, 0
	for c.err == nil && c.i < len(c.b) {
		switch c.b[c.i] {
		case '"':
			c.quoted()
		case '{', '[':
			depth++
			c.i++
			continue
		case '}', ']':
			if depth == 0 {
				c.fail()
				return nil
			}
			depth--
			c.i++
		case ',', ':':
			if depth == 0 {
				c.fail()
				return nil
			}
			c.i++
			continue
		default:
			for c.i < len(c.b) && !delimiter(c.b[c.i]) {
				c.i++
			}
		}
		if c.err != nil {
			return nil
		}
		if depth == 0 {
			return c.b[start:c.i]
		}
	}
	c.fail()
	return nil
}

func delimiter(b byte) bool {
	switch b {
	case ',', ':', '}', ']', '{', '[', '"':
		return true
	}
	return false
}

// quoted steps over a string, as far as a quote with an even number of backslashes before
// it, and returns what is between its quotes.
func (c *cursor) quoted() []byte {
	c.expect('"')
	for start, i := c.i, c.i; c.err == nil; i++ {
		n := bytes.IndexByte(c.b[min(i, len(c.b)):], '"')
		if n < 0 {
			c.fail()
			break
		}
		i += n
		k := i
		for k > start && c.b[k-1] == '\\' {
			k--
		}
		if (i-k)%2 == 0 {
			c.i = i + 1
			return c.b[start:i]
		}
	}
	return nil
}

// values reports of how many JSON values, one after the other, b consists; 0 if it is
// something else.
func values(b []byte) (n int) {
	if bytes.IndexByte(b, '\n') >= 0 || bytes.IndexByte(b, '\r') >= 0 {
		return 0
	}
	for c := (cursor{b: b}); c.i < len(b); n++ {
		v := c.value()
		if c.err != nil || v[0] <= ' ' || v[0] != '{' && v[0] != '[' && v[0] != '"' && !json.Valid(v) {
			return 0
		}
	}
	return n
}
