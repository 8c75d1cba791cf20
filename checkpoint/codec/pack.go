package codec

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/superstep-dev/superstep/checkpoint"
)

// The first byte of all that is stored says what was done to the rest.
const (
	flagEncoding  = 0x03 // an Encoding
	flagZstd      = 0x04 // compressed
	flagEncrypted = 0x08
	flagData      = 0x10 // of a record's meta: data follows in the other part
	flagVersion   = 0xe0 // of this format
	version       = 0x20
)

// Encoding is the form of what is not compressed or encrypted.
type Encoding uint8

// The encodings.
const (
	JSON Encoding = iota // as [checkpoint.MarshalBody] writes it
	CBOR                 // RFC 8949: smaller, not faster; what would not come back byte for byte stays text
)

func (e Encoding) String() string {
	switch e {
	case JSON:
		return "JSON"
	case CBOR:
		return "CBOR"
	}
	return fmt.Sprintf("Encoding(%d)", uint8(e))
}

// smallest is the size from which compressing may pay.
const smallest = 64

// zstdCoders are shared by all stores: each takes megabytes. They start no
// goroutine, and are made when they are first needed.
var zstdCoders = sync.OnceValues(func() (*zstd.Encoder, *zstd.Decoder) {
	// A frame of one segment names its size. Neither a checksum nor the frame
	// around nothing is needed.
	e, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // the options are valid
	}
	// What DecodeAll is given room for is all it takes.
	d, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(maxMaxSize), zstd.WithDecoderConcurrency(0))
	if err != nil {
		panic(err) // the options are valid
	}
	return e, d
})

// pack encodes JSON, one value or several without anything between, and returns
// the flags that unpack needs.
func (s *Store) pack(b []byte) (byte, []byte) {
	flags := byte(JSON)
	if s.encoding == CBOR && len(b) <= s.maxSize {
		if c := appendCBOR(make([]byte, 0, len(b)), b); len(c) < len(b) {
			flags, b = byte(CBOR), c
		}
	}
	z, b := s.compressed(b)
	return version | flags | z, b
}

// compressed is pack for what is no JSON.
func (s *Store) compressed(b []byte) (byte, []byte) {
	if s.compress && len(b) >= smallest && len(b) <= s.maxSize {
		e, _ := zstdCoders()
		if c := e.EncodeAll(b, make([]byte, 0, len(b))); len(c) < len(b)-len(b)/32 {
			return flagZstd, c
		}
	}
	return 0, b
}

func (s *Store) unpack(flags byte, b []byte) ([]byte, error) {
	if flags&flagZstd != 0 {
		var err error
		if b, err = s.decompress(b); err != nil {
			return nil, err
		}
	}
	switch Encoding(flags & flagEncoding) {
	case JSON:
		return b, nil
	case CBOR:
		return fromCBOR(b, s.maxSize)
	}
	return nil, fmt.Errorf("unknown encoding %d", flags&flagEncoding)
}

func (s *Store) decompress(b []byte) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(b); err != nil {
		return nil, fmt.Errorf("not compressed data: %w", err)
	}
	switch {
	case h.Skippable || !h.HasFCS:
		return nil, errors.New("compressed data does not name its size")
	case h.FrameContentSize > uint64(s.maxSize):
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, h.FrameContentSize, s.maxSize)
	case h.FrameContentSize>>17 > uint64(len(b)):
		// A block takes more than a byte and holds 128 kB at most: nobody needs
		// to make room for what cannot come.
		return nil, fmt.Errorf("%w: %d bytes out of %d", ErrTooLarge, h.FrameContentSize, len(b))
	}
	_, d := zstdCoders()
	out, err := d.DecodeAll(b, make([]byte, 0, h.FrameContentSize))
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return nil, fmt.Errorf("%w: more than the %d bytes it names", ErrTooLarge, h.FrameContentSize)
	case err != nil:
		return nil, fmt.Errorf("compressed data: %w", err)
	case uint64(len(out)) != h.FrameContentSize:
		return nil, fmt.Errorf("compressed data holds %d bytes, it names %d", len(out), h.FrameContentSize)
	}
	return out, nil
}

func checkVersion(flags byte) error {
	switch v := flags & flagVersion; {
	case v == version:
		return nil
	case v > version:
		return fmt.Errorf("%w: sealed in form %d, this version of Superstep reads up to %d", checkpoint.ErrVersion, v>>5, version>>5)
	}
	return fmt.Errorf("it begins with byte %#02x, which this package never writes", flags)
}
