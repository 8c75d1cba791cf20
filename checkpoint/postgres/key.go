package postgres

import "crypto/sha256"

// Limits of what an index of PostgreSQL takes: 2,704 bytes an entry.
const maxKey = 1000

// clip returns what stands in an index for a name, and the name itself if that is
// not all of it.
func clip(name []byte) (key, whole []byte) {
	if len(name) <= maxKey {
		return name, nil
	}
	sum := sha256.Sum256(name)
	// One byte more than the longest name that is not cut: they cannot meet.
	return append(name[:maxKey+1-len(sum):maxKey+1-len(sum)], sum[:]...), name
}

// bytesOf is a conversion that never gives nil, which would be NULL.
func bytesOf(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return []byte(s)
}

func whole(key, whole []byte) string {
	if whole != nil {
		return string(whole)
	}
	return string(key)
}
