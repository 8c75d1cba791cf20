package s3

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

func TestEscapedIDsSortAsIDsDo(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	alphabet := []byte("\x00\x01 !,-./019:=@AZ[_`az{~\x7f\x80\xff")
	var ids []checkpoint.ThreadID
	for range 2000 {
		b := make([]byte, rnd.IntN(6))
		for i := range b {
			b[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		ids = append(ids, checkpoint.ThreadID(b))
	}
	for i := range 256 {
		ids = append(ids, checkpoint.ThreadID([]byte{'a', byte(i)}))
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for i, id := range ids {
		e := escape(id)
		if got, ok := unescape(e); !ok || got != id {
			t.Fatalf("%q is %q, and back %q", id, e, got)
		}
		if strings.ContainsAny(e, "/\\%~ \x00") && !strings.Contains(e, "~") {
			t.Fatalf("%q is %q", id, e)
		}
		if i > 0 && cmp.Compare(escape(ids[i-1]), e) >= 0 {
			t.Fatalf("%q is %q, %q is %q", ids[i-1], escape(ids[i-1]), id, e)
		}
		if !strings.HasPrefix(escape(id+"x"), beginning(id)) {
			t.Fatalf("%q does not begin with %q", escape(id+"x"), beginning(id))
		}
	}
}

func TestLongIDsHaveShortKeysOfTheirOwn(t *testing.T) {
	long := checkpoint.ThreadID(strings.Repeat("é", 300))
	a, b := escape(long), escape(long+"x")
	if a == b || len(a) > 255 || !strings.HasPrefix(a, beginning(long)) || !strings.HasPrefix(b, beginning(long)) {
		t.Fatal(a, b)
	}
	if id, ok := unescape(a); ok {
		t.Fatalf("got %q of a key that doesn't say", id)
	}
}

func TestKeysOfRowsSortByNamespaceAndPlace(t *testing.T) {
	names := []string{"", "\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "a\x00b", "a\x01", "ab", "\xff"}
	if !slices.IsSorted(names) {
		t.Fatal("the test is wrong")
	}
	var last []byte
	for _, ns := range names {
		for _, place := range []int64{0, 1, 255, 256, 1 << 40} {
			key := rowKey(ns, place)
			if slices.Compare(last, key) >= 0 {
				t.Fatalf("%x after %x", key, last)
			}
			last = key
			if n, p, ok := parseRowKey(key); n != ns || p != place || !ok {
				t.Fatalf("got %q, %d of %q, %d", n, p, ns, place)
			}
		}
	}
	for _, n := range []int64{-1 << 63, -1, 0, 1, 1<<63 - 1} {
		if got, ok := parseSortable(sortable(n)); !ok || got != n {
			t.Fatal(n, got)
		}
	}
}

func TestAnEmptyValueIsNotADeletion(t *testing.T) {
	b, err := encode("k", []item{{Key: []byte("a"), Value: []byte{}}, {Key: []byte("b")}})
	if err != nil {
		t.Fatal(err)
	}
	var items []item
	if err := decode("k", b, &items); err != nil || items[0].Value == nil || items[1].Value != nil {
		t.Fatalf("%+v, %v", items, err)
	}
	if err := decode("l", b, &items); err == nil {
		t.Fatal("an object is taken for another")
	}
}

func TestTheCacheKeepsWhatIsUsed(t *testing.T) {
	c := &cache{limit: 1000}
	c.put("used", nil, 1, 10)
	for i := range 1000 {
		c.put(strings.Repeat("x", i), nil, i, 10)
		if c.get("used") == nil {
			t.Fatal("what is used all the time went")
		}
	}
	if n := len(c.young) + len(c.old); n > 110 {
		t.Fatalf("%d values of 10 bytes are kept", n)
	}
	c.put("used", 2, 3, 10)
	if c.get("used") != 1 {
		t.Fatal("an older value came back")
	}
	c.drop("used")
	if c.get("used") != nil {
		t.Fatal("it was dropped")
	}
}
