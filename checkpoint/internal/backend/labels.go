package backend

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
)

// Labels returns a label for each entry of metadata, in order: short texts by which a
// store finds threads, and of which two entries may, very rarely, have the same.
func Labels(metadata map[string]string) []string {
	labels := make([]string, 0, len(metadata))
	for k, v := range metadata {
		b := binary.AppendUvarint(nil, uint64(len(k)))
		b = append(append(b, k...), v...)
		sum := sha256.Sum256(b)
		labels = append(labels, hex.EncodeToString(sum[:8]))
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}
