package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// LangGraph's server leaves out what it doesn't know of an input, a configuration or a
// breakpoint, and its clients send such things. So does this one, and says so in the header
// Warning; what doesn't fit is refused nevertheless. A run to be joined that isn't there is an
// event of its stream. Who sends "Prefer: handling=strict" (RFC
// 7240), as package client does, is told of a mistake.

// strict reports whether a client wants to be told of what isn't known.
func strict(r *http.Request) bool {
	for _, v := range r.Header.Values("Prefer") {
		for p := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(p), "handling=strict") {
				return true
			}
		}
	}
	return false
}

// leaveOut removes from a request what its graph doesn't know. A message to a dialogue
// without what was said would be another.
func (b *runBody) leaveOut(g *served, dialogue bool) error {
	shape, err := g.input()
	if err != nil {
		return err
	}
	if input := objectOf(b.Input); input != nil && !dialogue && shape.Properties != nil {
		n := len(input)
		for _, name := range slices.Sorted(maps.Keys(input)) {
			if !shape.takes(name) {
				delete(input, name)
				b.left.add("input: unknown field %q", name)
			}
		}
		if len(input) < n {
			b.Input = input.raw()
		}
	}
	for _, points := range []struct {
		what string
		list *names
	}{{"interrupt_before", &b.InterruptBefore}, {"interrupt_after", &b.InterruptAfter}} {
		*points.list = slices.DeleteFunc(slices.Clone(*points.list), func(node string) bool {
			unknown := node != "*" && !slices.Contains(g.Nodes(), node)
			if unknown {
				b.left.add("%s: graph %q has no node %q", points.what, g.name, node)
			}
			return unknown
		})
	}
	config, err := g.config()
	if err != nil {
		return err
	}
	b.Config.Configurable = config.known("config.configurable", b.Config.Configurable, &b.left)
	b.Context = config.known("context", b.Context, &b.left)
	return nil
}

// known returns of a configuration what a graph has a place for, and adds the rest to what was left out.
func (c *shape) known(what string, all object, left *leftOut) object {
	if c == nil {
		return all
	}
	kept := maps.Clone(all)
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		if !c.takes(name) && !ofServer(name) && !ofProtocol(name) {
			delete(kept, name)
			left.add("%s: unknown field %q", what, name)
		}
	}
	return kept
}

// leftOut is what was left out of a request.
type leftOut []string

// maxWarnings bounds what a client is told of.
const maxWarnings = 10

func (l *leftOut) add(format string, args ...any) {
	if len(*l) < maxWarnings {
		*l = append(*l, fmt.Sprintf("%.200s was left out", fmt.Sprintf(format, args...)))
	}
}

// warned tells a client of what was left out (RFC 7234, 5.5).
func warned(w http.ResponseWriter, left leftOut) {
	for _, text := range left {
		w.Header().Add("Warning", `299 superstep `+quotedString(text))
	}
}

// quotedString writes a text as HTTP's headers quote it, in ASCII.
func quotedString(text string) string {
	return strconv.Quote(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text))
}
