package codec

import (
	"bytes"
	"crypto/sha3"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

func sealXAES(key, nonce, text, with []byte) []byte {
	return newXAES((*[32]byte)(key)).derive([12]byte(nonce[:12])).Seal(nil, nonce[12:], text, with)
}

// The vectors of c2sp.org/XAES-256-GCM.
func TestXAESVectors(t *testing.T) {
	nonce, text := []byte("ABCDEFGHIJKLMNOPQRSTUVWX"), []byte("XAES-256-GCM")
	for _, v := range []struct {
		key        byte
		with, want string
	}{
		{1, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{3, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		if got := hex.EncodeToString(sealXAES(bytes.Repeat([]byte{v.key}, 32), nonce, text, []byte(v.with))); got != v.want {
			t.Errorf("got %s, want %s", got, v.want)
		}
	}
	in, out := sha3.NewSHAKE128(), sha3.NewSHAKE128()
	draw := func(n int) []byte {
		b := make([]byte, n)
		_, _ = in.Read(b)
		return b
	}
	for range 10_000 {
		key, nonce := draw(32), draw(24)
		text := draw(int(draw(1)[0]))
		with := draw(int(draw(1)[0]))
		_, _ = out.Write(sealXAES(key, nonce, text, with))
	}
	sum := make([]byte, 32)
	_, _ = out.Read(sum)
	if got := hex.EncodeToString(sum); got != "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939" {
		t.Errorf("10,000 random vectors: got %s", got)
	}
}

func TestKeysAreNotPrinted(t *testing.T) {
	secret := bytes.Repeat([]byte("s3cr3t!."), 4)
	k, err := NewKey("2026-11", secret)
	if err != nil {
		t.Fatal(err)
	}
	ring := KeyRing{Current: k, Old: []Key{testKey("old")}, Names: k}
	o := Options{Keys: &ring}
	s := mustWrap(t, checkpoint.NewMemory(), o)
	defer s.Close()
	hidden := struct {
		k Key
		r KeyRing
		s *Store
	}{k, ring, s}
	var out strings.Builder
	for _, v := range []any{k, &k, ring, &ring, o, &o, s, *k.k, hidden, &hidden, *s.ring.current, []Key{k}, map[string]Key{"a": k}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		if b, err := json.Marshal(v); err == nil {
			out.Write(b)
		}
	}
	log := slog.New(slog.NewJSONHandler(&out, nil))
	log.Info("key", "key", k, "ring", ring, "options", o, "store", s)
	slog.New(slog.NewTextHandler(&out, nil)).Info("key", "key", k, "ring", ring, "options", o, "store", s)
	text := out.String()
	for _, form := range []string{
		string(secret), hex.EncodeToString(secret), strings.ToUpper(hex.EncodeToString(secret)), base64.StdEncoding.EncodeToString(secret),
		strings.Trim(fmt.Sprint(secret[:8]), "[]"), strings.Trim(fmt.Sprintf("%#v", secret[:8]), "[]byte{}"),
	} {
		if strings.Contains(text, form) {
			t.Errorf("the secret is printed as %s in\n%s", form, text)
		}
	}
	if !strings.Contains(text, "2026-11") {
		t.Error("the ID is not printed")
	}
}

func TestKeysThatCannotBe(t *testing.T) {
	good := bytes.Repeat([]byte{7}, 32)
	for what, f := range map[string]func() (Key, error){
		"no ID":        func() (Key, error) { return NewKey("", good) },
		"a space":      func() (Key, error) { return NewKey("a b", good) },
		"a long ID":    func() (Key, error) { return NewKey(strings.Repeat("x", 65), good) },
		"31 bytes":     func() (Key, error) { return NewKey("a", good[:31]) },
		"33 bytes":     func() (Key, error) { return NewKey("a", append(good, 1)) },
		"zeros":        func() (Key, error) { return NewKey("a", make([]byte, 32)) },
		"no colon":     func() (Key, error) { return ParseKey("c2VjcmV0LXRleHQ=") },
		"no base64":    func() (Key, error) { return ParseKey("a:secret-text!") },
		"short base64": func() (Key, error) { return ParseKey("a:c2VjcmV0LXRleHQ=") },
	} {
		k, err := f()
		if err == nil || k != (Key{}) {
			t.Errorf("%s: got %v, %v", what, k, err)
		}
		if strings.Contains(fmt.Sprint(err), "c2VjcmV0") || strings.Contains(fmt.Sprint(err), "secret-text") {
			t.Errorf("%s: error %q repeats the secret", what, err)
		}
	}
	for what, r := range map[string]KeyRing{
		"no current key": {Old: []Key{testKey("a")}},
		"a zero key":     {Current: testKey("a"), Old: []Key{{}}},
		"two of one ID":  {Current: testKey("a"), Old: []Key{testKey("a")}},
	} {
		if _, err := Wrap(checkpoint.NewMemory(), Options{Keys: &r}); err == nil {
			t.Errorf("a key ring with %s is taken", what)
		}
	}
	for what, o := range map[string]Options{"an encoding": {Encoding: 9}, "a size": {MaxSize: -1}, "a large size": {MaxSize: 1 << 40}} {
		if _, err := Wrap(checkpoint.NewMemory(), o); err == nil {
			t.Errorf("%s that cannot be is taken", what)
		}
	}
	if _, err := Wrap(nil, Options{}); err == nil {
		t.Error("no store is taken")
	}
	a, err := ParseKey("kms:v2:" + base64.StdEncoding.EncodeToString(good) + "\n")
	b, _ := NewKey("kms:v2", good)
	if err != nil || a.ID() != "kms:v2" || a.k.secret() != b.k.secret() {
		t.Errorf("got %v, %v", a, err)
	}
}
