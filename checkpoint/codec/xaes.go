package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
)

// nonceSize is that of XAES-256-GCM.
const nonceSize = 24

// xaes is XAES-256-GCM (c2sp.org/XAES-256-GCM): AES-256-GCM under a key that is
// derived from the first half of a nonce of 24 bytes. Nonces may be random: the
// birthday bound that limits the 12 bytes of AES-GCM to 2^32 messages a key is
// out of reach.
type xaes struct {
	block cipher.Block
	k1    [aes.BlockSize]byte // the subkey of CMAC
}

func newXAES(key *[32]byte) *xaes {
	b, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has the right size
	}
	x := &xaes{block: b}
	b.Encrypt(x.k1[:], x.k1[:])
	var msb byte
	for i := len(x.k1) - 1; i >= 0; i-- {
		msb, x.k1[i] = x.k1[i]>>7, x.k1[i]<<1|msb
	}
	x.k1[len(x.k1)-1] ^= byte(subtle.ConstantTimeSelect(int(msb), 0b10000111, 0))
	return x
}

// derive returns the AEAD for all nonces that begin with these 12 bytes; it takes
// the other 12 as its nonce.
func (x *xaes) derive(n [12]byte) cipher.AEAD {
	var k [2 * aes.BlockSize]byte
	for i := range 2 {
		half := k[i*aes.BlockSize : (i+1)*aes.BlockSize]
		copy(half, []byte{0, byte(i + 1), 'X', 0})
		copy(half[4:], n[:])
		subtle.XORBytes(half, half, x.k1[:])
		x.block.Encrypt(half, half)
	}
	b, err := aes.NewCipher(k[:])
	if err != nil {
		panic(err) // the key has the right size
	}
	a, err := cipher.NewGCM(b)
	if err != nil {
		panic(err) // AES has the right block size
	}
	return a
}
