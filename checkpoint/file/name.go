package file

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/checkpoint"
)

const (
	extMain    = ".jsonl"
	extDamaged = ".damaged" // after extMain
	extTemp    = ".tmp"     // after extMain

	maxName   = 100 // bytes of a name before its hash and extension
	hashChars = 12
)

// FileName returns the name of the file that keeps a thread's log. It is
// `<id>.jsonl` for an ID that every common file system takes as it is and keeps
// apart from every other; else the ID made safe, a tilde and a short hash of
// the ID. The package documentation has the rules.
func FileName(thread checkpoint.ThreadID) string { return baseName(string(thread)) + extMain }

func baseName(id string) string {
	s := sanitise(id)
	sum := sha256.Sum256([]byte(id))
	hash := hex.EncodeToString(sum[:])[:hashChars]
	if s == "" {
		return "thread-" + hash
	}
	if s == id && len(s) <= maxName && stable(s) && !reserved(s) && !hashed(s) {
		return s
	}
	if len(s) > maxName {
		cut := maxName
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = strings.TrimRightFunc(s[:cut], trimmed)
	}
	if reserved(s) {
		s = "_" + s
	}
	return s + "~" + hash
}

// sanitise replaces what file systems refuse and trims dots and white space.
func sanitise(id string) string {
	s := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) || r == utf8.RuneError || unicode.IsControl(r) {
			return '_'
		}
		return r
	}, strings.TrimFunc(id, trimmed))
	return strings.TrimFunc(s, trimmed)
}

func trimmed(r rune) bool { return r == '.' || unicode.IsSpace(r) }

// stable reports whether no file system takes s for another name: it has no
// letter with case, nothing that Unicode normalisation could change.
func stable(s string) bool {
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			if 'A' <= r && r <= 'Z' {
				return false
			}
		case unicode.In(r, unicode.So, unicode.Sk), r == '\u200d', r == '\ufe0f',
			0x4e00 <= r && r <= 0x9fff, 0x3400 <= r && r <= 0x4dbf:
		default:
			return false
		}
	}
	return true
}

// reserved reports whether Windows keeps the name for a device.
func reserved(s string) bool {
	base, _, _ := strings.Cut(strings.ToLower(s), ".")
	base = strings.TrimRight(base, " ")
	switch base {
	case "con", "prn", "aux", "nul", "conin$", "conout$", "clock$":
		return true
	}
	for _, p := range []string{"com", "lpt"} {
		if n, ok := strings.CutPrefix(base, p); ok && utf8.RuneCountInString(n) == 1 && strings.Contains("0123456789¹²³", n) {
			return true
		}
	}
	return false
}

// hashed reports whether s looks like a name that baseName made with a hash.
func hashed(s string) bool {
	n := len(s) - hashChars
	if n < 1 {
		return false
	}
	for _, c := range []byte(s[n:]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s[n-1] == '~' || s[:n] == "thread-"
}
