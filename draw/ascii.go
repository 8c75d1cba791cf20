package draw

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// ASCII writes a summary of a graph in a few lines of text:
//
//	Graph:
//	  Nodes: agent, tools
//	  Entry: __start__ -> agent
//	  Edges:
//	    tools -> agent
//	    agent -> __end__ | tools  [conditional]
//
// Everything is sorted by name. The edges come by kind: static ones first,
// then one line for each router with its destinations ("???" when it declares
// none), one line for each join ("a + b -> c  [join]") and one for the
// destinations that a node declares for its commands ("a -> b | c  [dynamic]").
// Deferred nodes, breakpoints and subgraphs follow when there are any. A name
// that could be misread, one with a comma or a newline for example, is quoted
// as in Go. The text has no newline at its end.
func ASCII(g *Graph) string {
	var b strings.Builder
	b.WriteString("Graph:")
	writeSummary(&b, resolve(g, nil, true), "  ")
	return b.String()
}

func writeSummary(b *strings.Builder, l *level, indent string) {
	line := func(depth int, parts ...string) {
		b.WriteString("\n" + indent + strings.Repeat("  ", depth))
		for _, p := range parts {
			b.WriteString(p)
		}
	}
	names := func(keep func(*Node) bool) string {
		var s []string
		for _, i := range l.byName() {
			if n := &l.nodes[i]; keep(n) {
				s = append(s, asciiName(n.ID))
			}
		}
		return strings.Join(s, ", ")
	}

	line(0, strings.TrimRight("Nodes: "+names(func(*Node) bool { return true }), " "))

	sources := l.bySource()
	entry := false
	for _, s := range sources {
		if s.id != StartID {
			continue
		}
		if len(s.static) > 0 {
			entry = true
			line(0, "Entry: ", StartID, " -> ", asciiNames(s.static, ", "))
		}
		if len(s.conditional) > 0 {
			entry = true
			line(0, "Entry: ", StartID, " -> ", asciiNames(s.conditional, " | "), "  [conditional]")
		}
		if s.open {
			entry = true
			line(0, "Entry: ", StartID, " -> ???  [conditional]")
		}
	}
	if !entry {
		line(0, "Entry: none")
	}

	line(0, "Edges:")
	for _, s := range sources {
		if s.id != StartID {
			for _, to := range s.static {
				line(1, asciiName(s.id), " -> ", asciiName(to))
			}
		}
	}
	for _, s := range sources {
		if s.id != StartID {
			if len(s.conditional) > 0 {
				line(1, asciiName(s.id), " -> ", asciiNames(s.conditional, " | "), "  [conditional]")
			}
			if s.open {
				line(1, asciiName(s.id), " -> ???  [conditional]")
			}
		}
	}
	for _, j := range l.joins() {
		line(1, asciiNames(j.from, " + "), " -> ", asciiName(j.to), "  [join]")
	}
	for _, s := range sources {
		if len(s.dynamic) > 0 {
			line(1, asciiName(s.id), " -> ", asciiNames(s.dynamic, " | "), "  [dynamic]")
		}
	}

	for _, list := range []struct {
		title string
		keep  func(*Node) bool
	}{
		{"Deferred: ", func(n *Node) bool { return n.Deferred }},
		{"Pause before: ", func(n *Node) bool { return n.PauseBefore }},
		{"Pause after: ", func(n *Node) bool { return n.PauseAfter }},
	} {
		if s := names(list.keep); s != "" {
			line(0, list.title, s)
		}
	}
	for _, i := range l.byName() {
		if in := l.inner(&l.nodes[i], true); in != nil {
			line(0, "Subgraph ", asciiName(l.nodes[i].ID), ":")
			writeSummary(b, in, indent+"  ")
		}
	}
}

// source is what leaves one node: the names of the destinations by kind of
// edge, sorted, each once.
type source struct {
	id                           string
	static, conditional, dynamic []string
	open                         bool
}

// bySource groups the edges by source, the start first, then by name.
func (l *level) bySource() []*source {
	byID := make(map[string]*source)
	var list []*source
	get := func(id string) *source {
		s := byID[id]
		if s == nil {
			s = &source{id: id}
			byID[id] = s
			list = append(list, s)
		}
		return s
	}
	for i := range l.nodes {
		if l.nodes[i].OpenRouter {
			get(l.nodes[i].ID).open = true
		}
	}
	for _, e := range l.edges {
		s := get(e.From)
		switch e.Kind {
		case EdgeConditional:
			s.conditional = append(s.conditional, e.To)
		case EdgeDynamic:
			s.dynamic = append(s.dynamic, e.To)
		case EdgeJoin:
		default:
			s.static = append(s.static, e.To)
		}
	}
	for _, s := range list {
		for _, to := range []*[]string{&s.static, &s.conditional, &s.dynamic} {
			slices.Sort(*to)
			*to = slices.Compact(*to)
		}
	}
	slices.SortFunc(list, func(a, b *source) int { return startFirst(a.id, b.id) })
	return list
}

// join is a node that waits for all of its sources.
type join struct {
	to, label string
	from      []string
}

// joins gathers the join edges, sorted by destination and label.
func (l *level) joins() []*join {
	type key struct{ to, label string }
	byKey := make(map[key]*join)
	var list []*join
	for _, e := range l.edges {
		if e.Kind != EdgeJoin {
			continue
		}
		k := key{e.To, e.Label}
		j := byKey[k]
		if j == nil {
			j = &join{to: e.To, label: e.Label}
			byKey[k] = j
			list = append(list, j)
		}
		j.from = append(j.from, e.From)
	}
	for _, j := range list {
		slices.SortFunc(j.from, startFirst)
		j.from = slices.Compact(j.from)
	}
	slices.SortFunc(list, func(a, b *join) int {
		return cmp.Or(strings.Compare(a.to, b.to), strings.Compare(a.label, b.label))
	})
	return list
}

func asciiNames(ids []string, sep string) string {
	s := make([]string, len(ids))
	for i, id := range ids {
		s[i] = asciiName(id)
	}
	return strings.Join(s, sep)
}

// asciiName quotes a name that would blur the structure of the summary.
func asciiName(id string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune("\",|+\\[]", r) }
	if id == "" || id == "???" || strings.TrimSpace(id) != id ||
		strings.Contains(id, "->") || strings.ContainsFunc(id, odd) {
		return strconv.Quote(id)
	}
	return id
}
