package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// MermaidOptions change what [Mermaid] writes. The zero value and nil are the
// defaults.
type MermaidOptions struct {
	// Direction is TopDown unless set.
	Direction Direction
}

// Mermaid writes a graph as a Mermaid flowchart:
//
//	graph TD
//	    __start__(["__start__"])
//	    agent["agent"]
//	    tools["tools"]
//	    __end__(["__end__"])
//	    __start__ --> agent
//	    tools --> agent
//	    agent -.-> |tools| tools
//	    agent -.-> |__end__| __end__
//
// Nodes are sorted by name, between the start and the end. Edges come by kind:
// those that leave the start, the other static ones (by source, then
// destination), the conditional ones (by source, then label, those to the end
// last; a router without declared destinations is a comment), joins as heavy
// arrows "a ==> c" and dynamic destinations as dotted arrows without a label,
// "a -.-> b". A subgraph is a "subgraph" block around its own nodes and edges.
// Deferred nodes have a dashed border, breakpoints are a line under the
// name. When a node carries a status, class definitions for the statuses
// follow.
//
// Names that Mermaid would accept as an identifier are used as they are. Other
// names get a safe identifier that no other node has, and keep their text as
// the label. The text has no newline at its end.
func Mermaid(g *Graph, opts *MermaidOptions) string {
	m := mermaid{taken: map[string]bool{}, used: map[string][]string{}}
	dir := "TD"
	if opts != nil && opts.Direction == LeftToRight {
		dir = "LR"
	}
	m.line("", "graph "+dir)
	root := resolve(g, nil, true)
	m.reserve(root)
	m.level(root, "    ", "")
	m.classes()
	return strings.TrimSuffix(m.b.String(), "\n")
}

type mermaid struct {
	b     strings.Builder
	taken map[string]bool     // identifiers in use
	used  map[string][]string // class name -> identifiers
}

func (m *mermaid) line(indent, s string) {
	m.b.WriteString(indent)
	m.b.WriteString(s)
	m.b.WriteByte('\n')
}

// reserve keeps the plain names of the outer graph for the nodes that bear them.
func (m *mermaid) reserve(l *level) {
	for i := range l.nodes {
		if mermaidPlain(l.nodes[i].ID) {
			m.taken[l.nodes[i].ID] = true
		}
	}
}

// ids gives every node of a level its identifier. Nodes of a subgraph carry
// the identifier of the subgraph before their own.
func (m *mermaid) ids(l *level, prefix string) []string {
	ids := make([]string, len(l.nodes))
	for i := range l.nodes {
		name := l.nodes[i].ID
		if prefix == "" && mermaidPlain(name) {
			ids[i] = name
			continue
		}
		base := mermaidSafe(name)
		if prefix != "" {
			base = prefix + "_" + base
		} else if !mermaidPlain(base) {
			base = "n_" + base
		}
		id := base
		for k := 2; m.taken[id]; k++ {
			id = fmt.Sprintf("%s_%d", base, k)
		}
		m.taken[id] = true
		ids[i] = id
	}
	return ids
}

func (m *mermaid) level(l *level, indent, prefix string) {
	ids := m.ids(l, prefix)
	order := l.byName()
	// resolve put the start first and the end last.
	order = append(append([]int{0}, order...), len(l.nodes)-1)
	for _, i := range order {
		n, id := &l.nodes[i], ids[i]
		label := mermaidLabel(n.text())
		for _, note := range n.notes() {
			label += "<br/>" + note
		}
		if n.Status != StatusNone {
			m.used[string(n.Status)] = append(m.used[string(n.Status)], id)
		}
		if n.Deferred {
			m.used["deferred"] = append(m.used["deferred"], id)
		}
		in := l.inner(n, true)
		switch {
		case in != nil:
			m.line(indent, "subgraph "+id+`["`+label+`"]`)
			m.level(in, indent+"    ", id)
			m.line(indent, "end")
		case n.Kind == KindStart || n.Kind == KindEnd:
			m.line(indent, id+`(["`+label+`"])`)
		case n.Kind == KindSubgraph:
			m.line(indent, id+`[["`+label+`"]]`)
		default:
			m.line(indent, id+`["`+label+`"]`)
		}
	}
	m.edges(l, indent, ids)
}

func (m *mermaid) edges(l *level, indent string, ids []string) {
	labelled := func(kind EdgeKind, arrow string) {
		for _, e := range l.sorted(kind) {
			label := ""
			if e.Label != "" {
				label = mermaidEdgeLabel(e.Label) + " "
			}
			m.line(indent, ids[e.from]+arrow+label+ids[e.to])
		}
	}
	labelled(EdgeStatic, " --> ")
	conditional := l.sorted(EdgeConditional)
	for _, s := range l.bySource() {
		for _, e := range conditional {
			if e.From == s.id {
				m.line(indent, ids[e.from]+" -.-> "+mermaidEdgeLabel(e.text())+" "+ids[e.to])
			}
		}
		if s.open {
			m.line(indent, "%% "+mermaidComment(s.id)+" has conditional edge (path_map not provided)")
		}
	}
	labelled(EdgeJoin, " ==> ")
	labelled(EdgeDynamic, " -.-> ")
}

// sorted returns the edges of one kind in the order in which text lists them.
func (l *level) sorted(kind EdgeKind) []levelEdge {
	var list []levelEdge
	for _, e := range l.edges {
		switch e.Kind {
		case EdgeConditional, EdgeDynamic, EdgeJoin:
			if e.Kind == kind {
				list = append(list, e)
			}
		default:
			if kind == EdgeStatic {
				list = append(list, e)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b levelEdge) int {
		switch kind {
		case EdgeConditional:
			return cmp.Or(startFirst(a.From, b.From), endLast(a.To)-endLast(b.To),
				strings.Compare(a.text(), b.text()), strings.Compare(a.To, b.To))
		case EdgeJoin:
			return cmp.Or(strings.Compare(a.To, b.To), strings.Compare(a.Label, b.Label),
				startFirst(a.From, b.From))
		}
		return cmp.Or(startFirst(a.From, b.From), strings.Compare(a.To, b.To), strings.Compare(a.Label, b.Label))
	})
	return list
}

func (m *mermaid) classes() {
	type class struct{ name, style string }
	var list []class
	if m.used["deferred"] != nil {
		list = append(list, class{"deferred", "stroke-dasharray:5 3"})
	}
	if slices.ContainsFunc(statuses, func(s Status) bool { return m.used[string(s)] != nil }) {
		text, _ := ThemeLight.Colors(RoleText)
		for _, s := range statuses {
			fill, line := ThemeLight.Colors(Role(s))
			style := "fill:" + cssColour(fill) + ",stroke:" + cssColour(line) + ",color:" + cssColour(text)
			if s != StatusVisited {
				style += ",stroke-width:2px"
			}
			list = append(list, class{string(s), style})
		}
	}
	for _, c := range list {
		m.line("    ", "classDef "+c.name+" "+c.style)
	}
	for _, c := range list {
		if ids := m.used[c.name]; ids != nil {
			m.line("    ", "class "+strings.Join(ids, ",")+" "+c.name)
		}
	}
}

// notes are the short remarks under the name of a node.
func (n *Node) notes() []string {
	var notes []string
	switch {
	case n.PauseBefore && n.PauseAfter:
		notes = append(notes, "pause before and after")
	case n.PauseBefore:
		notes = append(notes, "pause before")
	case n.PauseAfter:
		notes = append(notes, "pause after")
	}
	return notes
}

// mermaidReserved are the words that Mermaid's lexer takes for itself.
var mermaidReserved = map[string]bool{
	"graph": true, "flowchart": true, "subgraph": true, "end": true, "direction": true,
	"style": true, "linkstyle": true, "classdef": true, "class": true, "click": true,
	"default": true, "interpolate": true, "href": true, "call": true, "v": true,
	"_self": true, "_blank": true, "_parent": true, "_top": true,
	"tb": true, "td": true, "bt": true, "lr": true, "rl": true, "br": true,
}

// mermaidPlain says whether a name is a Mermaid identifier as it stands:
// letters, digits and underscores, with single hyphens between them, and no
// reserved word at the front.
func mermaidPlain(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
		case '0' <= c && c <= '9' && i > 0:
		case c == '-' && i > 0 && i < len(s)-1 && s[i-1] != '-':
		default:
			return false
		}
	}
	word, _, _ := strings.Cut(s, "-")
	return s != "" && !mermaidReserved[strings.ToLower(word)]
}

// mermaidSafe replaces what an identifier may not hold.
func mermaidSafe(s string) string {
	safe := strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
	if safe == "" {
		return "_"
	}
	return safe
}

// mermaidLabel escapes a text for a quoted label. Mermaid knows no backslash:
// it writes characters as entities, "#quot;" or "#35;".
func mermaidLabel(s string) string {
	var b strings.Builder
	word := wordsOfMermaid(s)
	list := isListItem(s)
	for i, r := range printable(s) {
		switch {
		case r == '\n':
			b.WriteString("<br/>")
		case r == '"':
			b.WriteString("#quot;")
		case r == '<':
			b.WriteString("#lt;")
		case r == '>':
			b.WriteString("#gt;")
		case r == '&':
			b.WriteString("#amp;")
		case strings.ContainsRune("#%`\\|{}[];", r),
			word && (r == ':' || r == ' '),
			list && i < 12 && strings.ContainsRune("-*+.)", r):
			fmt.Fprintf(&b, "#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// wordsOfMermaid says whether a text holds words that Mermaid acts upon even
// inside quotes: it looks for "direction LR" and for styles with patterns that
// know no quotes.
func wordsOfMermaid(s string) bool {
	return strings.Contains(s, "direction") || strings.Contains(s, "style") || strings.Contains(s, "classDef")
}

// isListItem says whether Mermaid would refuse a text as a Markdown list.
func isListItem(s string) bool {
	s = strings.TrimLeft(s, " \t")
	rest := strings.TrimLeft(s, "0123456789")
	if rest == s {
		return strings.HasPrefix(s, "- ") || strings.HasPrefix(s, "* ") || strings.HasPrefix(s, "+ ")
	}
	return strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ") ")
}

// mermaidEdgeLabel puts a label between pipes, quoted unless it is plain.
func mermaidEdgeLabel(s string) string {
	plain := s != "" && !mermaidReserved[strings.ToLower(s)]
	for _, r := range s {
		if r != '_' && !unicode.IsLetter(r) && !('0' <= r && r <= '9') {
			plain = false
		}
	}
	if plain {
		return "|" + s + "|"
	}
	if s == "" {
		s = " "
	}
	return `|"` + mermaidLabel(s) + `"|`
}

// mermaidComment keeps a name on its line.
func mermaidComment(s string) string {
	return strings.ReplaceAll(printable(s), "\n", " ")
}
