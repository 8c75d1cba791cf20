// Package zip makes what stores keep smaller, by Zstandard.
package zip

import (
	_ "embed"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// ErrTooLarge: what is unpacked would take more than it may.
var ErrTooLarge = errors.New("codec: too large when decompressed")

// dictionary is what [Dense] takes for known: English, and the words of records and messages
// in JSON. What was written names it by its number, so it stays here, as it is, for ever; a
// better one gets another number and stands beside it. It was made of the project's pages and
// of records by package dict of klauspost/compress.
//
//go:embed dictionary.zst
var dictionary []byte

// The coders are shared: each takes megabytes. They start no goroutine, and are made when
// they are first needed. A frame of one segment names its size. Neither a checksum nor the
// frame around nothing is needed.
var (
	fast  = encoder()
	dense = encoder(zstd.WithEncoderDict(dictionary))

	decoder = sync.OnceValue(func() *zstd.Decoder {
		// What DecodeAll is given room for is all it takes.
		d, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(MaxSize), zstd.WithDecoderConcurrency(0),
			zstd.WithDecoderDicts(dictionary))
		if err != nil {
			panic(err) // the options are valid
		}
		return d
	})
)

// MaxSize is the most that may be unpacked.
const MaxSize = 256 << 20

func encoder(more ...zstd.EOption) func() *zstd.Encoder {
	return sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, append([]zstd.EOption{
			zstd.WithSingleSegment(true), zstd.WithEncoderCRC(false), zstd.WithEncoderLevel(zstd.SpeedFastest),
		}, more...)...)
		if err != nil {
			panic(err) // the options are valid
		}
		return e
	})
}

// Dense packs b as small as it can, in some 40 µs a kilobyte. It reports false if that saves
// nothing to speak of.
func Dense(b []byte) ([]byte, bool) { return pack(dense(), b, 32) }

func pack(e *zstd.Encoder, b []byte, least int) ([]byte, bool) {
	if len(b) < least || len(b) > MaxSize {
		return nil, false
	}
	c := e.EncodeAll(b, make([]byte, 0, len(b)))
	return c, len(c) < len(b)-len(b)/32
}

// Expand unpacks what has been packed, up to limit bytes.
func Expand(b []byte, limit int) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(b); err != nil {
		return nil, fmt.Errorf("not compressed data: %w", err)
	}
	switch {
	case h.Skippable || !h.HasFCS:
		return nil, errors.New("compressed data does not name its size")
	case h.FrameContentSize > uint64(limit):
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, h.FrameContentSize, limit)
	case h.FrameContentSize>>17 > uint64(len(b)):
		// A block takes more than a byte and holds 128 kB at most: nobody needs
		// to make room for what cannot come.
		return nil, fmt.Errorf("%w: %d bytes out of %d", ErrTooLarge, h.FrameContentSize, len(b))
	}
	out, err := decoder().DecodeAll(b, make([]byte, 0, h.FrameContentSize))
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

// The first byte of what Pack returns.
const (
	plain  = 0
	packed = 1
)

// Pack returns b in a form that takes less space, in about a microsecond a kilobyte: for
// databases that have a price for each byte. It is never empty.
func Pack(b []byte) []byte {
	if c, ok := pack(fast(), b, 128); ok {
		return append([]byte{packed}, c...)
	}
	return append(make([]byte, 1, 1+len(b)), b...)
}

// Unpack is the reverse of Pack. Of what was damaged it makes something else, which no
// checksum fits.
func Unpack(b []byte) []byte {
	switch {
	case len(b) > 0 && b[0] == plain:
		return b[1:]
	case len(b) > 0 && b[0] == packed:
		if out, err := Expand(b[1:], MaxSize); err == nil {
			return out
		}
	}
	return b
}
