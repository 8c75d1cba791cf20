package codec

import (
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/zip"
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
	if s.compress && len(b) <= s.maxSize {
		if c, ok := zip.Dense(b); ok {
			return flagZstd, c
		}
	}
	return 0, b
}

func (s *Store) unpack(flags byte, b []byte) ([]byte, error) {
	if flags&flagZstd != 0 {
		var err error
		if b, err = zip.Expand(b, s.maxSize); err != nil {
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

func checkVersion(flags byte) error {
	switch v := flags & flagVersion; {
	case v == version:
		return nil
	case v > version:
		return fmt.Errorf("%w: sealed in form %d, this version of Superstep reads up to %d", checkpoint.ErrVersion, v>>5, version>>5)
	}
	return fmt.Errorf("it begins with byte %#02x, which this package never writes", flags)
}
