package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"
)

// texts is JSON, and what is nearly JSON, that has to come back as it is.
var texts = []string{
	``, `null`, `true`, `false`, `0`, `-0`, `1`, `-1`, `23`, `24`, `255`, `256`, `65535`, `65536`, `4294967295`, `4294967296`,
	`9007199254740993`, `18446744073709551615`, `18446744073709551616`, `-18446744073709551615`, `-18446744073709551616`,
	`-9223372036854775808`, `123456789012345678901234567890`, `1.50`, `1.5`, `0.1`, `-0.0`, `0.30000000000000004`, `100000.5`, `1e400`, `1E5`, `1e5`,
	`1e+5`, `1e-7`, `1e-07`, `1e21`, `1e+21`, `3.4028234663852886e+38`, `5e-324`, `1.7976931348623157e+308`, `0.000001`, `0e0`, `-0e0`,
	`""`, `"a"`, `"\u0061"`, `"\n\t\r\b\f\"\\"`, `"\/"`, `"\u0000\u001f"`, `"\u001F"`, `"\u007f"`, "\"\x7f\"", `"<&>"`, `"\u003c\u0026\u003e"`,
	`"\u2028\u2029"`, "\"\u2028\"", "\"\u2029\"", "\"\u2027\u202a\"", `"é漢🎈"`, `"\ud83c\udf88"`, `"\ud83c"`, `"\udf88x"`, `"\uD83C\uDF88"`, "\"\xff\"", "\"\xe2\x80\"", "\"a\\n\xff\"",
	`[]`, `{}`, `[[]]`, `[1,2]`, `{"a":1,"a":2}`, `{"b":1,"a":2}`, `{"":{}}`, `{"\n":1,"\u0061":2}`, `[1 ,2]`, ` 1`, "{\"a\": 1}", "[\n]",
	`12`, `1-1`, `00`, `1.5.5`, `truefalse`, `"a""b"`, `{}[]`, `1"a"`, `null1`,
	`[`, `]`, `{"a"`, `{"a":`, `{"a":1`, `{1:2}`, `[1,]`, `[,1]`, `"`, `"\`, `"\u12`, `"\u12"`, `tru`, `-`, `1.`, `1e`, `.5`, `+1`, `[1}`, `{"a":1]`, `x`, "\x00", "\xff",
}

func TestCBORComesBackByteForByte(t *testing.T) {
	long := make([]string, 0, 100)
	for range 100 {
		long = append(long, `"x"`)
	}
	all := append(texts[:len(texts):len(texts)],
		"["+strings.Join(long, ",")+"]", `{"a":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`}`,
		strings.Repeat("[", 10001)+strings.Repeat("]", 10001), strings.Repeat("[", 200000), `"`+strings.Repeat("x", 70000)+`"`, `"`+strings.Repeat(`\n`, 70000)+`"`,
	)
	for _, text := range all {
		checkCBOR(t, text)
	}
}

func checkCBOR(t interface{ Fatalf(string, ...any) }, text string) {
	enc := appendCBOR(nil, []byte(text))
	back, err := fromCBOR(enc, maxMaxSize)
	if err != nil || string(back) != text {
		t.Fatalf("%.200q became %.200x and came back as %.200q, %v", text, enc, back, err)
	}
	for rest := enc; len(rest) > 0; {
		tail, err := wellFormed(rest)
		if err != nil {
			t.Fatalf("%.200q became %.200x, which is not CBOR: %v", text, enc, err)
		}
		rest = tail
	}
}

var cborReader, _ = cbor.DecOptions{MaxNestedLevels: 65535, MaxArrayElements: math.MaxInt32, MaxMapPairs: math.MaxInt32, UTF8: cbor.UTF8RejectInvalid}.DecMode()

// wellFormed asks another implementation.
func wellFormed(b []byte) ([]byte, error) {
	var raw cbor.RawMessage
	return cborReader.UnmarshalFirst(b, &raw)
}

func TestCBORMeansTheSame(t *testing.T) {
	text := `{"a":[1,-2,18446744073709551615,100000.5,0.30000000000000004,true,false,null,"é\n"],"b":{"c":{}},"d":[]}`
	var got, want any
	if err := cborReader.Unmarshal(appendCBOR(nil, []byte(text)), &got); err != nil {
		t.Fatal(err)
	}
	want = map[any]any{
		"a": []any{uint64(1), int64(-2), uint64(math.MaxUint64), 100000.5, 0.30000000000000004, true, false, nil, "é\n"},
		"b": map[any]any{"c": map[any]any{}}, "d": []any{},
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %#v, want %#v", got, want)
	}
}

func TestCBORHoldsAnyJSON(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		gens := []*rapid.Generator[any]{
			rapid.String().AsAny(), rapid.Int64().AsAny(), rapid.Uint64().AsAny(), rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64).AsAny(), rapid.Float32Range(-1e30, 1e30).AsAny(), rapid.Bool().AsAny(),
		}
		if depth > 0 {
			gens = append(gens, rapid.SliceOfN(value(depth-1), 0, 30).AsAny(), rapid.MapOfN(rapid.String(), value(depth-1), 0, 5).AsAny())
		}
		return rapid.OneOf(gens...)
	}
	rapid.Check(t, func(t *rapid.T) {
		b, err := json.Marshal(value(3).Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		checkCBOR(t, string(b))
	})
}

func FuzzCBOR(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		checkCBOR(t, string(text))
		if out, err := fromCBOR(text, 1<<20); err == nil {
			// What else was read is written in one way, which is read the same.
			again, err := fromCBOR(appendCBOR(nil, out), maxMaxSize)
			if err != nil || !bytes.Equal(out, again) {
				t.Fatalf("%q became %q, %v", out, again, err)
			}
		}
	})
}

func TestCBORThatIsNotOurs(t *testing.T) {
	for what, b := range map[string]string{
		"an end alone": "\xff", "a tag": "\xc0\x00", "undefined": "\xf7", "half a float": "\xfa\x00", "a half float": "\xf9\x00\x00", "NaN": "\xfb\x7f\xf8\x00\x00\x00\x00\x00\x00",
		"a long string": "\x7b\xff\xff\xff\xff\xff\xff\xff\xff", "a long array": "\x9b\xff\xff\xff\xff\xff\xff\xff\xff", "an open string": "\x7f\xff", "a number key": "\xa1\x00\x00",
		"no value": "\xa1\x61a", "the least number": "\x3b\xff\xff\xff\xff\xff\xff\xff\xff", "nesting": strings.Repeat("\x81", 1<<20), "open nesting": strings.Repeat("\x9f", 1<<20), "reserved": "\x1c",
	} {
		if out, err := fromCBOR([]byte(b), 1<<20); err == nil {
			t.Errorf("%s: got %.100q", what, out)
		}
	}
	if _, err := fromCBOR(bytes.Repeat([]byte("\xfb\x3f\xb9\x99\x99\x99\x99\x99\x9a"), 1000), 100); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}
