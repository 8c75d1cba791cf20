package codec

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// KeySize is the size of a key's secret in bytes.
const KeySize = 32

const maxKeyID = 64

// Key is a secret of 32 random bytes with an ID. Printing one, by whatever verb or
// logger, shows the ID alone. The zero Key is none.
type Key struct{ k *key }

type key struct {
	id string

	// A function, so that fmt and other printers show an address when a Key is
	// in an unexported field, where its methods are not called.
	secret func() [KeySize]byte
}

// NewKey returns a key. The ID is stored in clear with all that the key seals; it
// has 1 to 64 printable ASCII characters without spaces. The secret is copied.
// It is random bytes, not a password.
func NewKey(id string, secret []byte) (Key, error) {
	if id == "" || len(id) > maxKeyID || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return Key{}, fmt.Errorf("codec: %q cannot be a key's ID: 1 to %d printable ASCII characters without spaces are needed", id, maxKeyID)
	}
	if len(secret) != KeySize {
		return Key{}, fmt.Errorf("codec: key %q has %d bytes, want %d", id, len(secret), KeySize)
	}
	b := [KeySize]byte(secret)
	if b == [KeySize]byte{} {
		return Key{}, fmt.Errorf("codec: key %q is all zeros", id)
	}
	return Key{&key{id: id, secret: func() [KeySize]byte { return b }}}, nil
}

// ParseKey returns a key from its ID, a colon and its secret in base64, as it may
// stand in an environment variable. Errors don't repeat the text.
func ParseKey(text string) (Key, error) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return Key{}, errors.New("codec: a key is written as its ID, a colon and 32 bytes in base64")
	}
	secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text[i+1:]))
	if err != nil {
		return Key{}, errors.New("codec: the secret of a key is not base64")
	}
	return NewKey(text[:i], secret)
}

// ID returns the key's ID, empty for the zero Key.
func (k Key) ID() string {
	if k.k == nil {
		return ""
	}
	return k.k.id
}

// String shows the ID and not the secret.
func (k Key) String() string { return fmt.Sprintf("Key(%s, redacted)", k.ID()) }

// GoString is String.
func (k Key) GoString() string { return k.String() }

// Format writes String, whatever the verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// MarshalText writes String.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// LogValue is String.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// KeyRing is what a store seals and opens with.
type KeyRing struct {
	// Current seals what is written, and opens.
	Current Key

	// Old keys only open. The newest comes first: to rotate, put the key that
	// was current in front of them.
	Old []Key

	// Names is what names of results are hashed with. It must stay the same
	// while any superstep is open, since stores find a result by its hash; so
	// it doesn't follow Current. If it is not given, it is the oldest key: the
	// last of Old, or Current if there is no other. To change it, and to take
	// the oldest key away, call [Store.Rewrap] for every thread.
	Names Key
}

// ring is a KeyRing that is ready for use.
type ring struct {
	current *sealer
	all     map[string]*sealer
	names   [32]byte
}

// sealer is one key.
type sealer struct {
	id   string
	aead *xaes
}

func (r *KeyRing) open() (*ring, error) {
	if r.Current.k == nil {
		return nil, errors.New("codec: the key ring has no current key")
	}
	out := &ring{all: make(map[string]*sealer, 1+len(r.Old))}
	names := r.Names
	for i, k := range append([]Key{r.Current}, r.Old...) {
		if k.k == nil {
			return nil, fmt.Errorf("codec: old key %d of the key ring is the zero Key", i-1)
		}
		if out.all[k.k.id] != nil {
			return nil, fmt.Errorf("codec: the key ring has two keys with ID %q", k.k.id)
		}
		out.all[k.k.id] = &sealer{id: k.k.id, aead: newXAES(k.derive("seal"))}
		if r.Names.k == nil {
			names = k
		}
	}
	out.current = out.all[r.Current.k.id]
	out.names = *names.derive("names")
	return out, nil
}

// derive returns a key for one purpose, so that none is used for two.
func (k Key) derive(purpose string) *[32]byte {
	secret := k.k.secret()
	b, err := hkdf.Key(sha256.New, secret[:], nil, "superstep checkpoint codec 1 "+purpose, 32)
	if err != nil {
		panic(err) // only too long a key fails
	}
	return (*[32]byte)(b)
}

// hash returns what a result's name is replaced by: 128 bits of HMAC-SHA256, over
// all that the result is known by, so that equal names elsewhere look different.
func (r *ring) hash(key identity, name string) string {
	h := hmac.New(sha256.New, r.names[:])
	h.Write(key.text(name))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}
