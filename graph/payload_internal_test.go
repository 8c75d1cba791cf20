package graph

import (
	"encoding/json"
	"math"
	"testing"
)

// What is written and read without encoding/json is what it writes and reads.

func TestPayloadsAreEncodedAsEncodingJSONDoes(t *testing.T) {
	for _, n := range []int{0, 1, -1, 10, -10, 999_999_999_999_999_999, 1_000_000_000_000_000_000, math.MaxInt, math.MinInt} {
		samePayload(t, n)
		samePayload(t, int64(n))
	}
	for _, s := range []string{"", "plain", `"`, `\`, "<a>&", "\x00", "\n", "\x7f", "ü", "\xff", "\u2028", " "} {
		samePayload(t, s)
	}
	samePayload(t, int8(3))
	samePayload(t, []int{1, 2})
	samePayload(t, struct{ A int }{1})
	if _, err := encodePayload(math.NaN()); err == nil {
		t.Error("NaN was encoded")
	}
}

func samePayload[In any](t *testing.T, in In) {
	t.Helper()
	got, err := encodePayload(in)
	want, werr := json.Marshal(in)
	if err != nil || werr != nil || string(got) != string(want) {
		t.Errorf("%#v is encoded as %s, %v, want %s, %v", in, got, err, want, werr)
	}
	sameDecoded[In](t, got)
}

func sameDecoded[In any](t *testing.T, raw json.RawMessage) {
	t.Helper()
	var want In
	werr := json.Unmarshal(raw, &want)
	got, err := decodePayload[In](raw)
	if (err == nil) != (werr == nil) || err != nil && err.Error() != werr.Error() {
		t.Errorf("decoding %q as %T: %v, want %v", raw, want, err, werr)
	}
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if string(g) != string(w) {
		t.Errorf("decoding %q as %T: %s, want %s", raw, want, g, w)
	}
}

func FuzzDecodePayload(f *testing.F) {
	for _, s := range []string{
		"0", "-0", "00", "01", "-", "-1", "+1", "1.0", "1e3", " 1", "1 ", "1_0", "0x1", "null", "true", "9223372036854775807", "9223372036854775808",
		"999999999999999999", "-9223372036854775808", `""`, `"a"`, `"a`, `"`, `"a"b"`, `"\u0061"`, `"<"`, `"ü"`, "\"\xff\"", "\"\x01\"", `["a"]`, "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		sameDecoded[int](t, raw)
		sameDecoded[int64](t, raw)
		sameDecoded[string](t, raw)
	})
}
