package digest

import "encoding/binary"

// The parameters of near-duplicate detection.
const (
	// SignatureHashes is the number of hash functions of a signature. The
	// standard error of a similarity s estimated from it is
	// sqrt(s*(1-s)/SignatureHashes), at most 0.045.
	SignatureHashes = 128
	// ShingleWords is the number of words of a shingle.
	ShingleWords = 3

	signatureBands = 32
	signatureRows  = SignatureHashes / signatureBands
	bandBytes      = signatureRows * 4
)

// splitMix is the finaliser of SplitMix64, a bijection that mixes well: G. L.
// Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014, figure 15 (variant 13 of D. Stafford).
func splitMix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// minhashSeeds number the hash functions. They never change, because stored
// signatures are compared with new ones.
var minhashSeeds = func() (seeds [SignatureHashes]uint64) {
	const golden = 0x9e3779b97f4a7c15
	for i := range seeds {
		seeds[i] = splitMix(uint64(i+1) * golden)
	}
	return seeds
}()

// fnv64 is the 64-bit FNV-1a hash of a word, as in package hash/fnv.
func fnv64(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// signer computes a MinHash signature from a stream of words: for each of
// SignatureHashes hash functions, the least hash of any shingle, which is
// ShingleWords words in a row. For two texts, the share of hash functions that
// agree is an unbiased estimate of the Jaccard similarity of their sets of
// shingles: A. Z. Broder, "On the resemblance and containment of documents",
// Compression and Complexity of Sequences 1997, 21-29.
//
// The hash functions are splitMix with different seeds, of which the upper 32
// bits are kept.
type signer struct {
	mins   [SignatureHashes]uint32
	window [ShingleWords]uint64 // hashes of the last words, newest last
	words  int
}

func newSigner() *signer {
	s := &signer{}
	for i := range s.mins {
		s.mins[i] = ^uint32(0)
	}
	return s
}

func (s *signer) add(word string) {
	copy(s.window[:], s.window[1:])
	s.window[ShingleWords-1] = fnv64(word)
	if s.words++; s.words >= ShingleWords {
		s.addShingle()
	}
}

func (s *signer) addShingle() {
	var h uint64
	for _, w := range s.window {
		h = splitMix(h ^ w)
	}
	for i, seed := range minhashSeeds {
		v := uint32(splitMix(h^seed) >> 32)
		if v < s.mins[i] {
			s.mins[i] = v
		}
	}
}

// signature returns the signature, big-endian, or nil if there were no words. A
// text shorter than a shingle is one shingle.
func (s *signer) signature() []byte {
	if s.words == 0 {
		return nil
	}
	if s.words < ShingleWords {
		s.addShingle()
	}
	out := make([]byte, 0, SignatureHashes*4)
	for _, v := range s.mins {
		out = binary.BigEndian.AppendUint32(out, v)
	}
	return out
}

// Similarity estimates the Jaccard similarity, from 0 to 1, of the sets of
// shingles of two documents from their signatures: the share of hash functions
// that have the same minimum (Broder 1997). It is 0 if either is not a
// signature.
func Similarity(a, b []byte) float64 {
	if len(a) != SignatureHashes*4 || len(b) != len(a) {
		return 0
	}
	same := 0
	for i := 0; i < len(a); i += 4 {
		if binary.NativeEndian.Uint32(a[i:]) == binary.NativeEndian.Uint32(b[i:]) {
			same++
		}
	}
	return float64(same) / SignatureHashes
}

func band(sig []byte, i int) string { return string(sig[i*bandBytes : (i+1)*bandBytes]) }

// similarPairs calls yield for pairs of different signatures whose similarity
// is at least threshold, until yield has joined them: pairs for which joined
// holds are not compared.
//
// Only signatures that agree in a whole band are compared: locality-sensitive
// hashing as in P. Indyk and R. Motwani, "Approximate nearest neighbors",
// STOC 1998, and J. Leskovec, A. Rajaraman and J. D. Ullman, "Mining of Massive
// Datasets", section 3.4. With b bands of r rows a pair of similarity s is
// compared with probability 1-(1-s^r)^b. For the 32 bands of 4 rows here this
// is above 0.99 from s = 0.61 and above 0.9998 from s = 0.7.
func similarPairs(sigs [][]byte, threshold float64, joined func(i, j int) bool, yield func(i, j int)) {
	for b := range signatureBands {
		buckets := make(map[string][]int)
		var order []string
		for i, sig := range sigs {
			if len(sig) != SignatureHashes*4 {
				continue
			}
			key := band(sig, b)
			if buckets[key] == nil {
				order = append(order, key)
			}
			buckets[key] = append(buckets[key], i)
		}
		for _, key := range order {
			bucket := buckets[key]
			for k, i := range bucket {
				for _, j := range bucket[k+1:] {
					if joined(i, j) || comparedBefore(sigs[i], sigs[j], b) {
						continue
					}
					if Similarity(sigs[i], sigs[j]) >= threshold {
						yield(i, j)
					}
				}
			}
		}
	}
}

// comparedBefore reports whether a and b agree in a band before b-th.
func comparedBefore(a, b []byte, n int) bool {
	for i := range n {
		if band(a, i) == band(b, i) {
			return true
		}
	}
	return false
}
