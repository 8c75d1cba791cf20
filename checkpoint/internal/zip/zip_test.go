package zip

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWhatIsPackedComesBack(t *testing.T) {
	part := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.SampledFrom([]string{`{"role":"user","content":"`, "the question is ", "ä", "\x00"}), func(s string) []byte {
		return bytes.Repeat([]byte(s), 20)
	}))
	rapid.Check(t, func(t *rapid.T) {
		b := bytes.Join(rapid.SliceOf(part).Draw(t, "parts"), nil)
		if got := Unpack(Pack(b)); !bytes.Equal(got, b) {
			t.Fatalf("%q became %q", b, got)
		}
		if c, ok := Dense(b); ok {
			if got, err := Expand(c, len(b)); err != nil || !bytes.Equal(got, b) {
				t.Fatalf("%q became %q, %v", b, got, err)
			}
			if _, err := Expand(c, len(b)-1); !errors.Is(err, ErrTooLarge) {
				t.Fatalf("more than it may: %v", err)
			}
		}
	})
}

// Changed bytes make something else, or nothing, and never more than a part of a database
// may.
func TestDamageDoesNotComeBack(t *testing.T) {
	text := []byte(strings.Repeat(`{"role":"user","content":"What is it that the people of this place say?"}`, 5))
	rapid.Check(t, func(t *rapid.T) {
		c := Pack(text)
		c[rapid.IntRange(0, len(c)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if got := Unpack(c[:rapid.IntRange(0, len(c)).Draw(t, "cut")]); len(got) > 1<<20 {
			t.Fatalf("%d bytes", len(got))
		}
	})
}

// What was written with the dictionary is read by it for ever: it never changes.
func TestWhatWasWrittenOnceIsRead(t *testing.T) {
	const text = `{"Said":["What does the graph do when a node is asked again?"]}`
	old, err := hex.DecodeString(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Expand(old, 1000); err != nil || string(got) != text {
		t.Fatalf("%q, %v", got, err)
	}
	if c, ok := Dense([]byte(text)); !ok || len(c) > len(old) {
		t.Errorf("it takes %d bytes now, and %d when it was written: %x", len(c), len(old), c)
	}
}

const golden = "28b52ffd21c93f250100040157706820646f69616761696e3f225d7d06fcc940c89278b80a01006fe7eaf9aac002"
