package draw

import (
	"fmt"
	"image/color"
	"math"
	"strconv"
)

// A Canvas is what a layout is painted on: [Layout.Paint] calls it from the
// back of the picture to its front.
type Canvas interface {
	// Begin opens a group of what belongs together, such as a node. The title
	// is what the group shows, in words, and may have several lines.
	Begin(role Role, title string)
	// End closes the innermost group.
	End()
	// Shape fills and strokes an outline.
	Shape(s Shape)
	// Text writes one line.
	Text(t Text)
}

// A Role says what a shape or a text is for; a [Theme] gives it its colours.
type Role string

// The roles of a picture. Nodes have that of their status, else of their kind.
const (
	RoleCanvas      Role = "canvas"
	RoleFrame       Role = "frame"
	RoleNode        Role = "node"
	RoleStart       Role = "start"
	RoleEnd         Role = "end"
	RoleSubgraph    Role = "subgraph"
	RoleLLM         Role = "llm"
	RoleTool        Role = "tool"
	RoleAgent       Role = "agent"
	RoleJoin        Role = "join"
	RoleRouter      Role = "router"
	RoleVisited     Role = "visited"
	RoleCurrent     Role = "current"
	RoleFailed      Role = "failed"
	RoleInterrupted Role = "interrupted"
	RoleText        Role = "text"
	RoleNote        Role = "note"
	RoleLabel       Role = "label" // the ground under the text of an edge
	RoleEdge        Role = "edge"
	RoleTaken       Role = "taken" // an edge that a run took
	RoleArrow       Role = "arrow"
	RoleArrowTaken  Role = "arrow-taken"
	RoleCount       Role = "count" // the ground under the number of visits
	RoleIcon        Role = "icon"  // the mark of a status, on its colour
	RoleIconText    Role = "icon-text"

	roleBadgeVisited     Role = "badge-visited"
	roleBadgeCurrent     Role = "badge-current"
	roleBadgeFailed      Role = "badge-failed"
	roleBadgeInterrupted Role = "badge-interrupted"
)

// A Shape is an outline to be filled and stroked.
type Shape struct {
	// Curve is a chain of cubic Bézier curves: a start, then three points for
	// each curve.
	Curve  []Point
	Closed bool
	Role   Role
	// Width is that of the stroke, with round caps and joins; 0 is no stroke.
	Width float64
	// Dash is the lengths of dashes and gaps in turns; nil is a solid line.
	Dash []float64
}

// A Text is one line of text.
type Text struct {
	X, Y   float64 // anchor on the baseline
	Anchor Anchor
	Text   string
	Size   float64
	Role   Role
}

// An Anchor says which point of a line of text its X is.
type Anchor uint8

// The anchors.
const (
	AnchorMiddle Anchor = iota
	AnchorStart
)

// A Theme is a set of colours.
type Theme string

// The themes. ThemeAuto, the zero value, follows the reader's preference where
// the format can (SVG) and is light elsewhere.
const (
	ThemeAuto  Theme = ""
	ThemeLight Theme = "light"
	ThemeDark  Theme = "dark"
)

// Colors returns the fill (for texts: the ink) and the stroke of a role. A
// colour with alpha 0 means that there is none.
func (t Theme) Colors(r Role) (fill, stroke color.NRGBA) {
	for i := range palette {
		if p := &palette[i]; p.role == r {
			if t == ThemeDark {
				return rgb(p.darkFill), rgb(p.darkStroke)
			}
			return rgb(p.fill), rgb(p.stroke)
		}
	}
	return rgb(none), rgb(none)
}

const none = -1

func rgb(c int32) color.NRGBA {
	if c == none {
		return color.NRGBA{}
	}
	return color.NRGBA{R: uint8(c >> 16), G: uint8(c >> 8), B: uint8(c), A: 255}
}

var palette = []struct {
	role                               Role
	fill, stroke, darkFill, darkStroke int32
}{
	{RoleCanvas, 0xffffff, none, 0x0d1117, none},
	{RoleFrame, 0xf6f8fa, 0xc3ccd6, 0x151b23, 0x3d444d},
	{RoleNode, 0xffffff, 0x8592a3, 0x1c2430, 0x76859a},
	{RoleStart, 0x334155, 0x334155, 0xcbd5e1, 0xcbd5e1},
	{RoleEnd, 0xe2e8f0, 0x64748b, 0x2a3441, 0x94a3b8},
	{RoleSubgraph, 0xeef2ff, 0x6366f1, 0x1e1f3b, 0x818cf8},
	{RoleLLM, 0xeff6ff, 0x3b82f6, 0x12233f, 0x60a5fa},
	{RoleTool, 0xfff7ed, 0xf08a24, 0x33210f, 0xfb9a3c},
	{RoleAgent, 0xecfdf5, 0x10a37a, 0x0c2b24, 0x34d399},
	{RoleJoin, 0xfaf5ff, 0xa855f7, 0x2a1740, 0xc084fc},
	{RoleRouter, 0xf1f5f9, 0x64748b, 0x202938, 0x94a3b8},
	{RoleVisited, 0xe9f9ee, 0x2da44e, 0x10291a, 0x3fb950},
	{RoleCurrent, 0xddefff, 0x0969da, 0x0e2748, 0x4c9dff},
	{RoleFailed, 0xffebe9, 0xcf222e, 0x3a1417, 0xff6b66},
	{RoleInterrupted, 0xfff6d6, 0xbf8700, 0x33270a, 0xe3b341},
	{RoleText, 0x1f2937, none, 0xe6edf3, none},
	{RoleNote, 0x5b6675, none, 0x9aa7b5, none},
	{RoleLabel, 0xffffff, none, 0x0d1117, none},
	{RoleEdge, none, 0x7c8999, none, 0x8b98a8},
	{RoleTaken, none, 0x2da44e, none, 0x3fb950},
	{RoleArrow, 0x7c8999, none, 0x8b98a8, none},
	{RoleArrowTaken, 0x2da44e, none, 0x3fb950, none},
	{RoleCount, 0xffffff, 0x8592a3, 0x0d1117, 0x76859a},
	{RoleIcon, none, 0xffffff, none, 0x0d1117},
	{RoleIconText, 0xffffff, none, 0x1f2937, none},
	{roleBadgeVisited, 0x2da44e, 0xffffff, 0x3fb950, 0x0d1117},
	{roleBadgeCurrent, 0x0969da, 0xffffff, 0x4c9dff, 0x0d1117},
	{roleBadgeFailed, 0xcf222e, 0xffffff, 0xff6b66, 0x0d1117},
	{roleBadgeInterrupted, 0xbf8700, 0xffffff, 0xe3b341, 0x0d1117},
}

// Paint paints the layout, without a background.
func (l *Layout) Paint(c Canvas) {
	for i := range l.Nodes {
		if n := &l.Nodes[i]; n.Expanded {
			n.paintFrame(c)
		}
	}
	for i := range l.Edges {
		l.paintEdge(c, &l.Edges[i])
	}
	for i := range l.Nodes {
		if n := &l.Nodes[i]; !n.Expanded {
			n.paint(c)
		}
	}
	for i := range l.Edges {
		l.Edges[i].paintLabel(c)
	}
}

// role is where the colours of a node come from.
func (n *Node) role() Role {
	switch n.Status {
	case StatusVisited, StatusCurrent, StatusFailed, StatusInterrupted:
		return Role(n.Status)
	}
	switch n.Kind {
	case KindStart, KindEnd, KindSubgraph, KindLLM, KindTool, KindAgent, KindJoin, KindRouter:
		return Role(n.Kind)
	}
	return RoleNode
}

// ink is that of the name of a node.
func (r Role) ink() Role {
	if r == RoleStart {
		return RoleIconText
	}
	return RoleText
}

func (n *NodeBox) border() (width float64, dash []float64) {
	width = 1.5
	switch n.Status {
	case StatusCurrent, StatusFailed, StatusInterrupted:
		width = 2.25
	}
	if n.Deferred {
		dash = []float64{5, 4}
	}
	return width, dash
}

// title is what a node shows, in words.
func (n *NodeBox) title() string {
	s := n.shown()
	if n.Label != "" && n.Label != n.ID {
		s = n.Label + " (" + n.ID + ")"
	}
	if n.Status != StatusNone {
		s += " – " + string(n.Status)
	}
	if n.Visits > 1 {
		s += fmt.Sprintf(", %d visits", n.Visits)
	}
	if n.Description != "" {
		s += "\n" + n.Description
	}
	for _, r := range n.remarks() {
		s += "\n" + r
	}
	return s
}

func (n *NodeBox) paintFrame(c Canvas) {
	c.Begin(RoleFrame, n.title())
	defer c.End()
	role := RoleFrame
	if n.Status != StatusNone {
		role = n.role()
	}
	width, dash := n.border()
	c.Shape(Shape{Curve: roundRect(n.Rect, 12), Closed: true, Role: role, Width: width, Dash: dash})
	x, y := n.X+clusterPad, n.Y+20
	if len(n.Lines) > 0 {
		c.Text(Text{X: x, Y: y, Anchor: AnchorStart, Text: n.Lines[0], Size: FontSize, Role: RoleText})
		x += textWidth(n.Lines[0], FontSize) + 10
	}
	if len(n.Notes) > 0 {
		c.Text(Text{X: x, Y: y, Anchor: AnchorStart, Text: n.Notes[0], Size: SmallFontSize, Role: RoleNote})
	}
	n.paintBadges(c)
}

func (n *NodeBox) paint(c Canvas) {
	c.Begin(RoleNode, n.title())
	defer c.End()
	role := n.role()
	width, dash := n.border()
	outline := roundRect(n.Rect, 8)
	switch n.Kind {
	case KindStart, KindEnd:
		outline = roundRect(n.Rect, min(n.W, n.H)/2)
	case KindRouter:
		outline = cutRect(n.Rect, 9)
	}
	c.Shape(Shape{Curve: outline, Closed: true, Role: role, Width: width, Dash: dash})
	switch {
	case n.Kind == KindEnd && len(n.Lines) == 0: // the end of a subgraph: a point in a ring
		ink := RoleStart
		if n.Status != StatusNone {
			ink = Role("badge-" + string(n.role()))
		}
		c.Shape(Shape{Curve: circle(n.X+n.W/2, n.Y+n.H/2, n.W/2-4.5), Closed: true, Role: ink})
		return
	case n.Kind == KindStart && len(n.Lines) == 0:
		return
	case n.Kind == KindSubgraph:
		r := Rect{n.X + 3.5, n.Y + 3.5, n.W - 7, n.H - 7}
		c.Shape(Shape{Curve: roundRect(r, 5), Closed: true, Role: role, Width: 1})
	}
	x := n.X + n.W/2
	y := n.Y + (n.H-float64(len(n.Lines))*lineHeight-float64(len(n.Notes))*smallLineHeight)/2
	for _, s := range n.Lines {
		c.Text(Text{X: x, Y: y + 13.8, Text: s, Size: FontSize, Role: role.ink()})
		y += lineHeight
	}
	for _, s := range n.Notes {
		c.Text(Text{X: x, Y: y + 11, Text: s, Size: SmallFontSize, Role: RoleNote})
		y += smallLineHeight
	}
	n.paintBadges(c)
}

// paintBadges marks the status by more than colour and says how often the node
// was visited.
func (n *NodeBox) paintBadges(c Canvas) {
	x, y := n.X+3, n.Y+3
	if n.Kind == KindStart || n.Kind == KindEnd {
		x, y = n.X+5, n.Y+4
	}
	mark := func(pts ...Point) {
		curve := []Point{pts[0]}
		for _, q := range pts[1:] {
			p := curve[len(curve)-1]
			curve = append(curve, lerp(p, q, 1./3), lerp(p, q, 2./3), q)
		}
		c.Shape(Shape{Curve: curve, Role: RoleIcon, Width: 1.8})
	}
	if r := n.role(); Status(r) == n.Status && n.Status != StatusNone {
		c.Shape(Shape{Curve: circle(x, y, 8), Closed: true, Role: "badge-" + r, Width: 1.5})
		switch n.Status {
		case StatusVisited:
			mark(Point{x - 3.4, y + 0.2}, Point{x - 1, y + 2.8}, Point{x + 3.6, y - 2.6})
		case StatusFailed:
			mark(Point{x - 2.8, y - 2.8}, Point{x + 2.8, y + 2.8})
			mark(Point{x + 2.8, y - 2.8}, Point{x - 2.8, y + 2.8})
		case StatusInterrupted:
			mark(Point{x - 2, y - 3}, Point{x - 2, y + 3})
			mark(Point{x + 2, y - 3}, Point{x + 2, y + 3})
		case StatusCurrent:
			mark(Point{x - 1.6, y - 3}, Point{x + 2.4, y}, Point{x - 1.6, y + 3})
		}
	}
	if n.Visits > 1 {
		s := "×" + strconv.Itoa(n.Visits)
		w := textWidth(s, SmallFontSize) + 10
		r := Rect{n.X + n.W - w + 8, n.Y - 7, w, 17}
		c.Shape(Shape{Curve: roundRect(r, 8.5), Closed: true, Role: RoleCount, Width: 1})
		c.Text(Text{X: r.X + w/2, Y: r.Y + 12.5, Text: s, Size: SmallFontSize, Role: RoleText})
	}
}

func (l *Layout) paintEdge(c Canvas, e *EdgeRoute) {
	curve := e.Curve()
	if len(curve) < 4 {
		return
	}
	s := Shape{Role: RoleEdge, Width: 1.5}
	arrow := RoleArrow
	switch e.Kind {
	case EdgeConditional:
		s.Dash = []float64{6, 4.5}
	case EdgeDynamic:
		s.Dash = []float64{0.5, 4.5}
		s.Width = 2
	case EdgeJoin:
		s.Width = 3
	}
	if e.Visits > 0 {
		s.Role, arrow = RoleTaken, RoleArrowTaken
		s.Width += 0.75
	}
	title := l.Nodes[e.FromNode].text() + " → " + l.Nodes[e.ToNode].text()
	switch e.Kind {
	case EdgeConditional, EdgeDynamic, EdgeJoin:
		title += " (" + string(e.Kind) + ")"
	}
	if text := e.text(); text != "" {
		title += ": " + text
	}
	c.Begin(RoleEdge, title)
	defer c.End()

	// The arrow stands on the border; the line ends inside it.
	tip, from := curve[len(curve)-1], curve[len(curve)-2]
	for i := len(curve) - 2; i >= 0 && from == tip; i-- {
		from = curve[i]
	}
	d := math.Hypot(tip.X-from.X, tip.Y-from.Y)
	if d == 0 {
		return
	}
	ux, uy := (tip.X-from.X)/d, (tip.Y-from.Y)/d
	long, half := 9.0, 4.2
	if e.Kind == EdgeJoin {
		long, half = 10.5, 5.2
	}
	curve[len(curve)-1] = Point{tip.X - ux*long*0.7, tip.Y - uy*long*0.7}
	s.Curve = curve
	c.Shape(s)
	base := Point{tip.X - ux*long, tip.Y - uy*long}
	c.Shape(Shape{Closed: true, Role: arrow, Curve: polygon(tip,
		Point{base.X - uy*half, base.Y + ux*half}, Point{base.X + uy*half, base.Y - ux*half})})
}

func (e *EdgeRoute) paintLabel(c Canvas) {
	if e.LabelRect == nil {
		return
	}
	r := *e.LabelRect
	c.Begin(RoleLabel, "")
	defer c.End()
	c.Shape(Shape{Curve: roundRect(Rect{r.X + 1, r.Y + 1, r.W - 2, r.H - 2}, 4), Closed: true, Role: RoleLabel})
	for i, s := range e.LabelLines {
		y := r.Y + 2 + float64(i)*smallLineHeight + 11.5
		c.Text(Text{X: r.X + r.W/2, Y: y, Text: s, Size: SmallFontSize, Role: RoleNote})
	}
}

// kappa is where the control points of a quarter circle are.
const kappa = 0.5522847498

func roundRect(b Rect, r float64) []Point {
	r = min(r, b.W/2, b.H/2)
	k := r * (1 - kappa)
	x0, y0, x1, y1 := b.X, b.Y, b.X+b.W, b.Y+b.H
	c := []Point{{x0 + r, y0}}
	side := func(q, c1, c2, end Point) {
		p := c[len(c)-1]
		c = append(c, lerp(p, q, 1./3), lerp(p, q, 2./3), q, c1, c2, end)
	}
	side(Point{x1 - r, y0}, Point{x1 - k, y0}, Point{x1, y0 + k}, Point{x1, y0 + r})
	side(Point{x1, y1 - r}, Point{x1, y1 - k}, Point{x1 - k, y1}, Point{x1 - r, y1})
	side(Point{x0 + r, y1}, Point{x0 + k, y1}, Point{x0, y1 - k}, Point{x0, y1 - r})
	side(Point{x0, y0 + r}, Point{x0, y0 + k}, Point{x0 + k, y0}, Point{x0 + r, y0})
	return c
}

func cutRect(b Rect, r float64) []Point {
	x0, y0, x1, y1 := b.X, b.Y, b.X+b.W, b.Y+b.H
	return polygon(Point{x0 + r, y0}, Point{x1 - r, y0}, Point{x1, y0 + r}, Point{x1, y1 - r},
		Point{x1 - r, y1}, Point{x0 + r, y1}, Point{x0, y1 - r}, Point{x0, y0 + r})
}

func circle(x, y, r float64) []Point {
	return roundRect(Rect{x - r, y - r, 2 * r, 2 * r}, r)
}

// polygon is a closed chain of straight curves.
func polygon(pts ...Point) []Point {
	c := []Point{pts[0]}
	for i := range pts {
		p, q := pts[i], pts[(i+1)%len(pts)]
		c = append(c, lerp(p, q, 1./3), lerp(p, q, 2./3), q)
	}
	return c
}
