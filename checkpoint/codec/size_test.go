package codec

import (
	"fmt"
	"strings"
	"testing"
)

// What CBOR is good for: it saves little of text, and more of many small values.
func TestCBORSavesSpace(t *testing.T) {
	var rows []string
	for i := range 50 {
		rows = append(rows, fmt.Sprintf(`{"id":%d,"ok":%v,"score":%v,"name":"item %d","tags":["a","b"],"next":null}`, i*7919, i%2 == 0, float64(i)/7, i))
	}
	small := "[" + strings.Join(rows, ",") + "]"
	prose := `{"content":"` + strings.Repeat("words that stand for a message ", 30) + `"}`
	for _, c := range []struct {
		text string
		most float64 // of the size of the JSON
	}{{small, 0.65}, {prose, 1}} {
		n := float64(len(appendCBOR(nil, []byte(c.text)))) / float64(len(c.text))
		t.Logf("%.3f of %d bytes", n, len(c.text))
		if n > c.most {
			t.Errorf("%.3f of the size of %.60s, want at most %.2f", n, c.text, c.most)
		}
	}
}

func BenchmarkCBOR(b *testing.B) {
	text := []byte("[" + strings.Repeat(`{"id":79191,"ok":true,"score":0.3333333333333333,"name":"item 7","tags":["a","b"],"next":null},`, 100) + "0]")
	enc := appendCBOR(nil, text)
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			enc = appendCBOR(enc[:0], text)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, err := fromCBOR(enc, maxMaxSize); err != nil {
				b.Fatal(err)
			}
		}
	})
}
