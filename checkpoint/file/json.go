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
	"unicode/utf8"

	"github.com/superstep-dev/superstep/checkpoint"
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

// appendText appends any bytes as a JSON string: text as it is, with a byte b that is
// none of it as \udcXX (no text has that); in base64 after a * where this is shorter, or
// where the text begins with one.
func appendText[T ~string | ~[]byte](b []byte, v T) []byte {
	const digits = "0123456789abcdef"
	s, start := string(v), len(b)
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
		}
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(b, `\udc`...)
			b = append(b, digits[c>>4], digits[c&15])
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, `\u00`...)
			b = append(b, digits[c>>4], digits[c&15])
		default:
			b = append(b, s[i:i+size]...)
		}
		i += size
	}
	if len(s) > 0 && s[0] == '*' || len(b)-start > 2+base64.RawURLEncoding.EncodedLen(len(s)) {
		b = base64.RawURLEncoding.AppendEncode(append(b[:start], '"', '*'), []byte(s))
	}
	return append(b, '"')
}

// textOf is the reverse of appendText.
func textOf(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	raw = raw[1 : len(raw)-1]
	if len(raw) > 0 && raw[0] == '*' {
		s, err := base64.RawURLEncoding.DecodeString(string(raw[1:]))
		return string(s), err == nil
	}
	i := bytes.IndexByte(raw, '\\')
	if i < 0 {
		return string(raw), true
	}
	out := append(make([]byte, 0, len(raw)), raw[:i]...)
	for i < len(raw) {
		switch {
		case raw[i] != '\\':
			out = append(out, raw[i])
			i++
		case i+1 < len(raw) && (raw[i+1] == '"' || raw[i+1] == '\\'):
			out = append(out, raw[i+1])
			i += 2
		case i+6 <= len(raw) && raw[i+1] == 'u':
			n, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
			if err != nil || n>>8 != 0 && n>>8 != 0xdc {
				return "", false
			}
			out = append(out, byte(n))
			i += 6
		default:
			return "", false
		}
	}
	return string(out), true
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
