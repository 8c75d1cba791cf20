package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/jsonscan"
)

// JSON becomes CBOR and comes back byte for byte, whatever is in it: the order of
// members, members of the same name, numbers beyond any type. A decoder into Go's
// types would lose these, so this is done on the text. Each value becomes what it
// is in CBOR if that leads back to the same text, else a byte string that holds
// the text. JSON has no byte strings, so there is no doubt about which is which.

// The major types of CBOR, in their place.
const (
	cborUint  = 0 << 5
	cborNeg   = 1 << 5
	cborBytes = 2 << 5
	cborText  = 3 << 5
	cborArray = 4 << 5
	cborMap   = 5 << 5

	cborFalse   = 0xf4
	cborTrue    = 0xf5
	cborNull    = 0xf6
	cborFloat32 = 0xfa
	cborFloat64 = 0xfb
	cborEnd     = 0xff // of a list of indefinite length
	cborOpen    = 31   // indefinite length
)

// maxDepth is how deep encoding/json lets values nest.
const maxDepth = 10000

// appendCBOR appends values that follow one another without anything between.
// What is not that comes back as well.
func appendCBOR(dst, src []byte) []byte {
	for c := (jsonscan.Codec{B: src}); c.I < len(src); {
		from, i := len(dst), c.I
		if dst = appendValue(dst, &c, 0); c.Err != nil { // it stays text together with all behind it
			return appendRaw(dst[:from], src[i:])
		}
	}
	return dst
}

// appendValue reads a value and appends it.
func appendValue(dst []byte, c *jsonscan.Codec, depth int) []byte {
	if b := c.Peek(); b == '{' || b == '[' {
		return appendItems(dst, c, depth+1)
	}
	switch token := c.Value(); {
	case c.Err != nil:
		return dst
	case token[0] == '"':
		return appendString(dst, token)
	case token[0] == 't':
		return append(dst, cborTrue)
	case token[0] == 'f':
		return append(dst, cborFalse)
	case token[0] == 'n':
		return append(dst, cborNull)
	default:
		return appendNumber(dst, token)
	}
}

// appendItems is appendValue for an object or an array.
func appendItems(dst []byte, c *jsonscan.Codec, depth int) []byte {
	if depth > maxDepth {
		c.Fail()
		return dst
	}
	open, major := c.Peek(), byte(cborArray)
	if open == '{' {
		major = cborMap
	}
	head, n, last := len(dst), 0, open+2 // the closing bracket
	dst = append(dst, 0)
	for c.I++; c.Err == nil && c.Peek() != last; n++ {
		if n > 0 {
			c.Expect(',')
		}
		if open == '{' {
			if c.Peek() != '"' {
				c.Fail()
				return dst
			}
			dst = appendValue(dst, c, depth)
			c.Expect(':')
		}
		dst = appendValue(dst, c, depth)
	}
	c.Expect(last)
	if n < 24 {
		dst[head] = major | byte(n)
	} else {
		dst[head] = major | cborOpen
		dst = append(dst, cborEnd)
	}
	return dst
}

// appendString is appendValue for a string.
func appendString(dst, token []byte) []byte {
	inner := token[1 : len(token)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		if utf8.Valid(inner) && !hasSeparator(inner) {
			return append(appendHead(dst, cborText, uint64(len(inner))), inner...)
		}
		return appendRaw(dst, token)
	}
	text := unescape(inner)
	if !utf8.Valid(text) || !bytes.Equal(appendQuoted(nil, text), token) {
		return appendRaw(dst, token)
	}
	return append(appendHead(dst, cborText, uint64(len(text))), text...)
}

// hasSeparator reports whether U+2028 or U+2029 are in b: encoding/json escapes
// them.
func hasSeparator(b []byte) bool {
	for {
		i := bytes.Index(b, []byte("\xe2\x80"))
		if i < 0 || i+2 >= len(b) {
			return false
		}
		if b[i+2]&^1 == 0xa8 {
			return true
		}
		b = b[i+2:]
	}
}

// unescape resolves the escapes that appendQuoted writes. Others come out as
// something that is not quoted the same way.
func unescape(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 >= len(b) {
			out = append(out, b[i])
			continue
		}
		i++
		switch b[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			if i+4 < len(b) {
				if n, err := strconv.ParseUint(string(b[i+1:i+5]), 16, 16); err == nil {
					out = utf8.AppendRune(out, rune(n))
					i += 4
				}
			}
		default:
			out = append(out, b[i])
		}
	}
	return out
}

const hexDigits = "0123456789abcdef"

// appendQuoted quotes as encoding/json does without escapes for HTML.
func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	from := 0
	for i, c := range text {
		var short byte
		switch {
		case c == '"' || c == '\\':
			short = c
		case c == '\b':
			short = 'b'
		case c == '\f':
			short = 'f'
		case c == '\n':
			short = 'n'
		case c == '\r':
			short = 'r'
		case c == '\t':
			short = 't'
		case c < ' ':
		case c&^1 == 0xa8 && i >= 2 && text[i-1] == 0x80 && text[i-2] == 0xe2:
			dst = append(append(dst, text[from:i-2]...), `\u202`...)
			dst = append(dst, hexDigits[c&0xf])
			from = i + 1
			continue
		default:
			continue
		}
		dst = append(dst, text[from:i]...)
		if short != 0 {
			dst = append(dst, '\\', short)
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		from = i + 1
	}
	return append(append(dst, text[from:]...), '"')
}

// appendNumber is appendValue for a number.
func appendNumber(dst, token []byte) []byte {
	if !bytes.ContainsAny(token, ".eE") {
		digits, negative := bytes.CutPrefix(token, []byte{'-'})
		n, err := strconv.ParseUint(string(digits), 10, 64)
		switch {
		case err != nil || negative && n == 0:
			return appendRaw(dst, token)
		case negative:
			return appendHead(dst, cborNeg, n-1)
		}
		return appendHead(dst, cborUint, n)
	}
	f, err := strconv.ParseFloat(string(token), 64)
	var room [32]byte
	switch {
	case err != nil || len(token) < 5 || !bytes.Equal(appendFloat(room[:0], f), token):
	case float64(float32(f)) == f:
		return binary.BigEndian.AppendUint32(append(dst, cborFloat32), math.Float32bits(float32(f)))
	case len(token) > 8:
		return binary.BigEndian.AppendUint64(append(dst, cborFloat64), math.Float64bits(f))
	}
	return appendRaw(dst, token)
}

// appendFloat writes as encoding/json does.
func appendFloat(dst []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	if n := len(dst); format == 'e' && n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// appendRaw appends JSON as it is.
func appendRaw(dst, text []byte) []byte {
	return append(appendHead(dst, cborBytes, uint64(len(text))), text...)
}

func appendHead(dst []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n <= math.MaxUint8:
		return append(dst, major|24, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), n)
}

var errCBOR = errors.New("CBOR ends too early")

// fromCBOR returns what appendCBOR was given, as long as it has no more than
// limit bytes.
func fromCBOR(b []byte, limit int) ([]byte, error) {
	d := decoder{in: b, limit: limit, out: make([]byte, 0, len(b)+len(b)/4)}
	for len(d.in) > 0 {
		if err := d.value(0); err != nil {
			return nil, err
		}
	}
	return d.out, nil
}

type decoder struct {
	in, out []byte
	limit   int
}

func (d *decoder) value(depth int) error {
	if len(d.in) == 0 {
		return errCBOR
	}
	if depth > maxDepth {
		return errors.New("CBOR is nested too deep")
	}
	if len(d.out) > d.limit {
		return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, d.limit)
	}
	c := d.in[0]
	switch c {
	case cborFalse, cborTrue, cborNull:
		d.in = d.in[1:]
		d.out = append(d.out, [...]string{"false", "true", "null"}[c-cborFalse]...)
		return nil
	case cborFloat32, cborFloat64:
		return d.float()
	}
	major := c &^ 31
	if c&31 == cborOpen {
		if major != cborArray && major != cborMap {
			return fmt.Errorf("CBOR has a byte %#02x, which is never written", c)
		}
		d.in = d.in[1:]
		return d.items(major, math.MaxUint64, depth+1)
	}
	n, err := d.head()
	if err != nil {
		return err
	}
	switch major {
	case cborUint:
		d.out = strconv.AppendUint(d.out, n, 10)
	case cborNeg:
		if n == math.MaxUint64 {
			return errors.New("CBOR has a number that is never written")
		}
		d.out = strconv.AppendUint(append(d.out, '-'), n+1, 10)
	case cborBytes, cborText:
		if n > uint64(len(d.in)) {
			return errCBOR
		}
		s := d.in[:n]
		d.in = d.in[n:]
		if major == cborBytes {
			d.out = append(d.out, s...)
		} else {
			d.out = appendQuoted(d.out, s)
		}
	case cborArray, cborMap:
		return d.items(major, n, depth+1)
	default:
		return fmt.Errorf("CBOR has a byte %#02x, which is never written", c)
	}
	return nil
}

// head reads the number that belongs to the first byte.
func (d *decoder) head() (uint64, error) {
	low := d.in[0] & 31
	d.in = d.in[1:]
	if low < 24 {
		return uint64(low), nil
	}
	size := 1 << (low - 24)
	if low > 27 {
		return 0, errors.New("CBOR has a length that is never written")
	}
	if len(d.in) < size {
		return 0, errCBOR
	}
	var n uint64
	for _, c := range d.in[:size] {
		n = n<<8 | uint64(c)
	}
	d.in = d.in[size:]
	return n, nil
}

func (d *decoder) float() error {
	size := 5
	if d.in[0] == cborFloat64 {
		size = 9
	}
	if len(d.in) < size {
		return errCBOR
	}
	var f float64
	if size == 5 {
		f = float64(math.Float32frombits(binary.BigEndian.Uint32(d.in[1:])))
	} else {
		f = math.Float64frombits(binary.BigEndian.Uint64(d.in[1:]))
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return errors.New("CBOR has a number that JSON does not have")
	}
	d.in = d.in[size:]
	d.out = appendFloat(d.out, f)
	return nil
}

// items reads n elements or members, or all up to the end mark.
func (d *decoder) items(major byte, n uint64, depth int) error {
	open, shut := byte('['), byte(']')
	if major == cborMap {
		open, shut = '{', '}'
	}
	d.out = append(d.out, open)
	for i := uint64(0); i < n; i++ {
		if len(d.in) == 0 {
			return errCBOR
		}
		if n == math.MaxUint64 && d.in[0] == cborEnd {
			d.in = d.in[1:]
			break
		}
		if i > 0 {
			d.out = append(d.out, ',')
		}
		if major == cborMap {
			if m := d.in[0] &^ 31; m != cborText && m != cborBytes {
				return errors.New("CBOR has a key that is no string")
			}
			if err := d.value(depth); err != nil {
				return err
			}
			d.out = append(d.out, ':')
		}
		if err := d.value(depth); err != nil {
			return err
		}
	}
	d.out = append(d.out, shut)
	return nil
}
