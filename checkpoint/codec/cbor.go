package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
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
	for i := 0; i < len(src); {
		from := len(dst)
		out, next := appendValue(dst, src, i, 0)
		if next < 0 {
			return appendRaw(dst[:from], src[i:])
		}
		dst, i = out, next
	}
	return dst
}

// appendValue appends the value that begins at i and returns where it ends, -1 if
// it has to stay text together with all around it.
func appendValue(dst, src []byte, i, depth int) ([]byte, int) {
	if i >= len(src) || depth > maxDepth {
		return dst, -1
	}
	switch c := src[i]; c {
	case '"':
		return appendString(dst, src, i)
	case '{', '[':
		return appendItems(dst, src, i, depth+1)
	case 't':
		return appendWord(dst, src, i, "true", cborTrue)
	case 'f':
		return appendWord(dst, src, i, "false", cborFalse)
	case 'n':
		return appendWord(dst, src, i, "null", cborNull)
	default:
		return appendNumber(dst, src, i)
	}
}

func appendWord(dst, src []byte, i int, word string, as byte) ([]byte, int) {
	if end := i + len(word); end <= len(src) && string(src[i:end]) == word {
		return append(dst, as), end
	}
	return dst, -1
}

// appendItems is appendValue for an object or an array.
func appendItems(dst, src []byte, i, depth int) ([]byte, int) {
	object, last, major := src[i] == '{', src[i]+2, byte(cborArray)
	if object {
		major = cborMap
	}
	head, n := len(dst), 0
	dst = append(dst, 0)
	for i++; ; n++ {
		if n == 0 && i < len(src) && src[i] == last {
			break
		}
		if object {
			if i >= len(src) || src[i] != '"' {
				return dst, -1
			}
			if dst, i = appendString(dst, src, i); i < 0 || i >= len(src) || src[i] != ':' {
				return dst, -1
			}
			i++
		}
		if dst, i = appendValue(dst, src, i, depth); i < 0 || i >= len(src) {
			return dst, -1
		}
		if src[i] == last {
			n++
			break
		}
		if src[i] != ',' {
			return dst, -1
		}
		i++
	}
	if n < 24 {
		dst[head] = major | byte(n)
	} else {
		dst[head] = major | cborOpen
		dst = append(dst, cborEnd)
	}
	return dst, i + 1
}

// appendString is appendValue for a string.
func appendString(dst, src []byte, i int) ([]byte, int) {
	from, escaped := i, false
	for i++; ; i++ {
		if i >= len(src) || src[i] < ' ' {
			return dst, -1
		}
		if src[i] == '"' {
			break
		}
		if src[i] == '\\' {
			escaped = true
			i++
		}
	}
	inner, token := src[from+1:i], src[from:i+1]
	if !escaped {
		if utf8.Valid(inner) && !hasSeparator(inner) {
			return append(appendHead(dst, cborText, uint64(len(inner))), inner...), i + 1
		}
		return appendRaw(dst, token), i + 1
	}
	start := len(dst)
	// The text is shorter than the token, so the head has room enough; the
	// text moves if it needs less.
	dst = appendHead(dst, cborText, uint64(len(inner)))
	body := len(dst)
	dst = append(dst, unescape(inner)...)
	text := dst[body:]
	if !utf8.Valid(text) || !bytes.Equal(appendQuoted(nil, text), token) {
		return appendRaw(dst[:start], token), i + 1
	}
	var head [9]byte
	h := appendHead(head[:0], cborText, uint64(len(text)))
	return slices.Replace(dst, start, body, h...), i + 1
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
func appendNumber(dst, src []byte, i int) ([]byte, int) {
	from, negative, whole := i, src[i] == '-', true
	if negative {
		i++
	}
	digits := i
	if i = skipDigits(src, i); i == digits {
		return dst, -1
	}
	if src[digits] == '0' {
		i = digits + 1 // another zero is no part of it
	}
	if i+1 < len(src) && src[i] == '.' && isDigit(src[i+1]) {
		i, whole = skipDigits(src, i+1), false
	}
	if i < len(src) && src[i]|0x20 == 'e' {
		j := i + 1
		if j < len(src) && (src[j] == '+' || src[j] == '-') {
			j++
		}
		if j < len(src) && isDigit(src[j]) {
			i, whole = skipDigits(src, j), false
		}
	}
	token := src[from:i]
	if whole {
		n, err := strconv.ParseUint(string(src[digits:i]), 10, 64)
		switch {
		case err != nil || negative && n == 0:
			return appendRaw(dst, token), i
		case negative:
			return appendHead(dst, cborNeg, n-1), i
		}
		return appendHead(dst, cborUint, n), i
	}
	f, err := strconv.ParseFloat(string(token), 64)
	if err != nil || len(token) < 5 {
		return appendRaw(dst, token), i
	}
	var room [32]byte
	if !bytes.Equal(appendFloat(room[:0], f), token) {
		return appendRaw(dst, token), i
	}
	switch {
	case float64(float32(f)) == f:
		return binary.BigEndian.AppendUint32(append(dst, cborFloat32), math.Float32bits(float32(f))), i
	case len(token) > 8:
		return binary.BigEndian.AppendUint64(append(dst, cborFloat64), math.Float64bits(f)), i
	}
	return appendRaw(dst, token), i
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func skipDigits(b []byte, i int) int {
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
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
