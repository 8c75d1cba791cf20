package file

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"hash/crc32"
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

// textIn reads what appendText wrote.
func textIn(c *jsonscan.Codec) string {
	s, ok := textOf(c.Value())
	if !ok {
		c.Fail()
	}
	return s
}

// quoted steps over a string, as far as a quote with an even number of backslashes before
// it, and returns what is between its quotes.
func quoted(c *jsonscan.Codec) []byte {
	c.Expect('"')
	for start, i := c.I, c.I; c.Err == nil; i++ {
		n := bytes.IndexByte(c.B[min(i, len(c.B)):], '"')
		if n < 0 {
			c.Fail()
			break
		}
		i += n
		k := i
		for k > start && c.B[k-1] == '\\' {
			k--
		}
		if (i-k)%2 == 0 {
			c.I = i + 1
			return c.B[start:i]
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
	for c := (jsonscan.Codec{B: b}); c.I < len(b); n++ {
		if c.Value(); c.Err != nil {
			return 0
		}
	}
	return n
}
