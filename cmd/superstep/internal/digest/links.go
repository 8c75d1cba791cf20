package digest

import (
	"cmp"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/lazyregexp"
)

// presence is what a look at a path below the root found.
type presence uint8

const (
	absent presence = iota
	present
	unknown // it leads out of the root, or may not be looked at
)

// lookIn returns a function that looks for paths below root.
func lookIn(root *os.Root) func(name string) presence {
	return func(name string) presence {
		_, err := root.Stat(filepath.FromSlash(name))
		switch {
		case err == nil:
			return present
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrInvalid), errors.Is(err, syscall.ENAMETOOLONG):
			return absent
		}
		return unknown
	}
}

// The bound of what is looked for in one document.
const maxLooks = 2000

var scheme = lazyregexp.New(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// linkSet sorts the links of a document.
type linkSet struct {
	id       string
	look     func(name string) presence
	seen     map[string]presence // by target as it is written
	found    map[string]bool     // targets that exist
	external map[string]bool

	broken    []Link
	nBroken   int
	unchecked int
	omitted   int
}

func newLinkSet(id string, look func(string) presence) *linkSet {
	return &linkSet{id: id, look: look, seen: make(map[string]presence), found: make(map[string]bool), external: make(map[string]bool)}
}

func (s *linkSet) add(l rawLink) {
	dest := l.dest
	switch {
	case strings.HasPrefix(dest, "#"), strings.HasPrefix(dest, "?"):
		return // within the document
	case strings.Contains(dest, "{{"), strings.Contains(dest, "{%"), strings.Contains(dest, "${"):
		return // for a template to fill in
	case strings.HasPrefix(dest, "//"):
		s.addExternal("https:" + dest)
		return
	case scheme().MatchString(dest):
		if lower := strings.ToLower(dest[:min(len(dest), 8)]); strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://") {
			s.addExternal(dest)
		}
		return // mail addresses and the like are no places
	}
	target, ok := resolve(s.id, dest)
	if !ok {
		s.unchecked++
		return
	}
	if _, ok := s.seen[target]; ok {
		return
	}
	if len(s.seen) >= maxLooks {
		s.omitted++
		return
	}
	real, p := s.find(target)
	if p == absent && strings.HasPrefix(dest, "/") {
		p = unknown // from the root of a web site, perhaps
	}
	s.seen[target] = p
	switch p {
	case present:
		if real != s.id {
			s.found[real] = true
		}
	case unknown:
		s.unchecked++
	case absent:
		if s.nBroken++; len(s.broken) < maxBroken {
			s.broken = append(s.broken, Link{
				Text: cut(clean(l.text), maxDest/2), Dest: cut(clean(dest), maxDest), Target: cut(clean(target), maxDest),
			})
		}
	}
}

// resolve returns the path below the root that dest, a relative reference in
// the document id, means. It is not ok if that is outside the root.
func resolve(id, dest string) (target string, ok bool) {
	if i := strings.IndexAny(dest, "?#"); i >= 0 {
		dest = dest[:i]
	}
	if d, err := url.PathUnescape(dest); err == nil && utf8.ValidString(d) {
		dest = d
	}
	if strings.HasPrefix(dest, "/") {
		target = path.Clean(strings.TrimLeft(dest, "/"))
	} else {
		target = path.Join(path.Dir(id), dest)
	}
	return target, target != ".." && !strings.HasPrefix(target, "../") && !strings.Contains(target, "\x00")
}

// find looks for target. Like wikis and site generators, it takes guide and
// guide.html for guide.md and so on if they do not exist themselves.
func (s *linkSet) find(target string) (real string, p presence) {
	if p = s.look(target); p != absent {
		return target, p
	}
	stem := target
	switch ext := path.Ext(target); {
	case ext == ".html" || ext == ".htm":
		stem = strings.TrimSuffix(target, ext)
	case formats[strings.ToLower(ext)] != "" || ext == ".":
		return target, absent
	}
	for _, ext := range []string{".md", ".markdown", ".mdx", ".rst", ".adoc", ".org", ".txt"} {
		if s.look(stem+ext) == present {
			return stem + ext, present
		}
	}
	return target, absent
}

// addExternal notes a URL without fragment and credentials.
func (s *linkSet) addExternal(raw string) {
	if u, err := url.Parse(raw); err == nil {
		u.User, u.Fragment, u.RawFragment = nil, "", ""
		u.Host = strings.ToLower(u.Host)
		raw = u.String()
	} else if strings.Contains(raw, "@") {
		return // may hold credentials
	}
	s.external[clean(raw)] = true
}

// result puts the links into doc, within its bounds.
func (s *linkSet) result(doc *Document) {
	doc.Broken, doc.BrokenCount, doc.Unchecked = s.broken, s.nBroken, s.unchecked
	doc.TargetsOmitted = s.omitted
	size := 0
	for _, t := range sortedKeys(s.found) {
		if len(doc.Targets) >= maxTargets || len(t) > maxTarget || size+len(t) > maxTargetKB {
			doc.TargetsOmitted++
			continue
		}
		size += len(t)
		doc.Targets = append(doc.Targets, t)
	}
	doc.ExternalCount = len(s.external)
	for _, u := range sortedKeys(s.external) {
		if len(u) <= maxURL && len(doc.External) < maxExternal {
			doc.External = append(doc.External, u)
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
