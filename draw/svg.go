package draw

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"image/color"
	"strings"
)

// SVGOptions change what [SVG] draws. The zero value and nil are the defaults.
type SVGOptions struct {
	Layout LayoutOptions
	// Theme is the colours; ThemeAuto follows the reader's preference.
	Theme Theme
	// Title names the picture for those who can't see it; the name of the
	// graph unless set.
	Title string
	// Transparent leaves the background out.
	Transparent bool
}

// SVG draws a graph as a picture in one self-contained SVG document, without
// scripts, links or fonts of its own. It carries a title and a description for
// screen readers, every node and edge has a tooltip, and statuses are shown by
// marks as well as colours.
func SVG(g *Graph, opts *SVGOptions) []byte {
	if opts == nil {
		opts = &SVGOptions{}
	}
	return NewLayout(g, &opts.Layout).svg(opts)
}

func (l *Layout) svg(opts *SVGOptions) []byte {
	c := svgCanvas{used: map[Role]bool{}}
	c.indent = 1
	if !opts.Transparent {
		c.used[RoleCanvas] = true
		fmt.Fprintf(&c.b, "  <rect width=\"100%%\" height=\"100%%\" rx=\"8\" class=\"canvas\"/>\n")
	}
	l.Paint(&c)

	var out bytes.Buffer
	title := cmp.Or(opts.Title, l.Name, "Workflow")
	num := func(f float64) string { return string(appendNumber(nil, f)) }
	w, h := max(l.Width, 1), max(l.Height, 1)
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" class="superstep-draw" role="img" aria-label="%s" width="%s" height="%s" viewBox="0 0 %[2]s %[3]s">`+"\n",
		escapeXML(title), num(w), num(h))
	fmt.Fprintf(&out, "  <title>%s</title>\n  <desc>%s</desc>\n", escapeXML(title), escapeXML(l.describe()))
	out.WriteString("  <style>\n")
	c.writeStyle(&out, opts.Theme)
	out.WriteString("  </style>\n")
	out.Write(c.b.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// describe tells the graph in words, as far as a listener will bear.
func (l *Layout) describe() string {
	const limit = 40
	name := func(i int) string { return l.Nodes[i].shown() }
	var b strings.Builder
	fmt.Fprintf(&b, "A graph of %s and %s.", count(len(l.Nodes), "node"), count(len(l.Edges), "edge"))
	for i := range l.Nodes {
		if n := &l.Nodes[i]; n.Status != StatusNone && n.Status != StatusVisited && i < limit {
			fmt.Fprintf(&b, " %s: %s.", name(i), n.Status)
		}
	}
	for i := range l.Edges {
		e := &l.Edges[i]
		if i == limit {
			fmt.Fprintf(&b, " And %s more.", count(len(l.Edges)-limit, "edge"))
			break
		}
		fmt.Fprintf(&b, " %s leads to %s", name(e.FromNode), name(e.ToNode))
		if text := e.text(); text != "" && text != e.To {
			fmt.Fprintf(&b, " on %s", text)
		}
		b.WriteByte('.')
	}
	return b.String()
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

type svgCanvas struct {
	b      bytes.Buffer
	indent int
	used   map[Role]bool
}

func (c *svgCanvas) line(format string, args ...any) {
	c.b.WriteString(strings.Repeat("  ", c.indent))
	fmt.Fprintf(&c.b, format, args...)
	c.b.WriteByte('\n')
}

func (c *svgCanvas) Begin(_ Role, title string) {
	c.line("<g>")
	c.indent++
	if title != "" {
		c.line("<title>%s</title>", escapeXML(title))
	}
}

func (c *svgCanvas) End() {
	c.indent--
	c.line("</g>")
}

func (c *svgCanvas) Shape(s Shape) {
	c.used[s.Role] = true
	var attrs []byte
	if s.Width > 0 {
		attrs = append(attrs, ` stroke-width="`...)
		attrs = append(appendNumber(attrs, s.Width), '"')
	} else {
		attrs = append(attrs, ` stroke="none"`...)
	}
	if s.Dash != nil {
		attrs = append(attrs, ` stroke-dasharray="`...)
		for i, d := range s.Dash {
			if i > 0 {
				attrs = append(attrs, ' ')
			}
			attrs = appendNumber(attrs, d)
		}
		attrs = append(attrs, '"')
	}
	c.line(`<path class="%s"%s d="%s"/>`, s.Role, attrs, pathData(s.Curve, s.Closed))
}

func (c *svgCanvas) Text(t Text) {
	c.used[t.Role] = true
	var attrs []byte
	if t.Anchor == AnchorMiddle {
		attrs = append(attrs, ` text-anchor="middle"`...)
	}
	if len(t.Text) > 8 && isASCII(t.Text) {
		// The box was measured for Helvetica's metrics: keep to them.
		attrs = append(attrs, ` lengthAdjust="spacingAndGlyphs" textLength="`...)
		attrs = append(appendNumber(attrs, textWidth(t.Text, t.Size)), '"')
	}
	c.line(`<text class="%s" x="%s" y="%s" font-size="%s"%s>%s</text>`, t.Role,
		appendNumber(nil, t.X), appendNumber(nil, t.Y), appendNumber(nil, t.Size), attrs, escapeXML(t.Text))
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > '~' })
}

func (c *svgCanvas) writeStyle(w *bytes.Buffer, theme Theme) {
	const scope = ".superstep-draw "
	w.WriteString("    " + scope + "text{font-family:Helvetica,Arial,\"Liberation Sans\",sans-serif;white-space:pre}\n")
	w.WriteString("    " + scope + "path{stroke-linecap:round;stroke-linejoin:round}\n")
	rules := func(t Theme, indent string) {
		for i := range palette {
			r := palette[i].role
			if !c.used[r] {
				continue
			}
			fill, stroke := t.Colors(r)
			fmt.Fprintf(w, "%s%s.%s{fill:%s;stroke:%s}\n", indent, scope, r, cssColour(fill), cssColour(stroke))
		}
	}
	switch theme {
	case ThemeLight, ThemeDark:
		rules(theme, "    ")
	default:
		rules(ThemeLight, "    ")
		w.WriteString("    @media (prefers-color-scheme:dark){\n")
		rules(ThemeDark, "      ")
		w.WriteString("    }\n")
	}
}

func cssColour(c color.NRGBA) string {
	if c.A == 0 {
		return "none"
	}
	return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B)
}

// escapeXML escapes a text for element content and double-quoted attributes
// and replaces what XML can't hold.
func escapeXML(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(printable(s))) // a builder takes all
	return b.String()
}
