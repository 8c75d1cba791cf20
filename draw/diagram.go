package draw

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// DiagramOptions change what [Diagram] draws. The zero value and nil are the
// defaults.
type DiagramOptions struct {
	// ASCII draws lines with ASCII characters. Names stay as they are.
	ASCII bool
	// HideStartEnd leaves the start and the end of the outer graph out.
	HideStartEnd bool
}

// Diagram draws a graph with boxes and lines of text, for terminals, comments
// and tests, from top to bottom:
//
//	╭───────╮
//	│ start │
//	╰───┬───╯
//	    │
//	    ▼
//	┌───────┐
//	│ agent │
//	└───────┘
//
// Static edges are plain lines, conditional ones dashed, dynamic ones dotted,
// joins heavy. An edge from a node to itself is a mark beside the node. A
// subgraph is a box with a title around its own diagram. Statuses are marks
// before the name: ✓ visited, ▶ current, ✗ failed, ‖ interrupted. No line has
// spaces at its end, and the last has no newline.
func Diagram(g *Graph, opts *DiagramOptions) string {
	if opts == nil {
		opts = &DiagramOptions{}
	}
	d := diagrammer{ascii: opts.ASCII}
	root := resolve(g, nil, false)
	if opts.HideStartEnd {
		root = root.withoutStartEnd()
	}
	return strings.Join(d.level(root).lines(d.ascii), "\n")
}

type diagrammer struct {
	ascii bool
}

// The directions in which lines leave a cell.
const (
	north = 1 << iota
	south
	west
	east
)

type stroke uint8

const (
	strokePlain stroke = iota
	strokeDashed
	strokeDotted
	strokeHeavy
	strokeRound
	strokeDouble
)

// A cell holds a text or the lines that meet in it.
type cell struct {
	text   string
	taken  bool // by the wide character before
	lines  uint8
	stroke stroke
}

// A sheet is a grid of cells.
type sheet struct {
	w, h  int
	cells []cell
}

func newSheet(w, h int) *sheet {
	return &sheet{w: w, h: h, cells: make([]cell, w*h)}
}

func (s *sheet) at(x, y int) *cell {
	if x < 0 || y < 0 || x >= s.w || y >= s.h {
		return &cell{}
	}
	return &s.cells[y*s.w+x]
}

// copy puts another sheet on this one.
func (s *sheet) copy(from *sheet, x, y int) {
	for j := range from.h {
		for i := range from.w {
			*s.at(x+i, y+j) = *from.at(i, j)
		}
	}
}

// write puts a text into a row.
func (s *sheet) write(x, y int, text string) {
	var last *cell
	for _, r := range text {
		w := cellWidth(r)
		if w == 0 {
			if last != nil {
				last.text += string(r)
			}
			continue
		}
		last = s.at(x, y)
		*last = cell{text: string(r)}
		if w == 2 {
			*s.at(x+1, y) = cell{taken: true}
		}
		x += w
	}
}

// down draws a line down a column, through the rows from y0 to y1.
func (s *sheet) down(x, y0, y1 int, k stroke) {
	for y := y0; y < y1; y++ {
		s.line(x, y, south, k)
		s.line(x, y+1, north, k)
	}
}

// across draws a line along a row, through the columns from x0 to x1.
func (s *sheet) across(y, x0, x1 int, k stroke) {
	for x := min(x0, x1); x < max(x0, x1); x++ {
		s.line(x, y, east, k)
		s.line(x+1, y, west, k)
	}
}

func (s *sheet) line(x, y int, dir uint8, k stroke) {
	c := s.at(x, y)
	if c.text != "" || c.taken {
		return
	}
	if c.lines != 0 && c.stroke != k {
		k = strokePlain // different lines cross
	}
	c.lines |= dir
	c.stroke = k
}

// frame draws a box.
func (s *sheet) frame(x, y, w, h int, k stroke) {
	s.across(y, x, x+w-1, k)
	s.across(y+h-1, x, x+w-1, k)
	s.down(x, y, y+h-1, k)
	s.down(x+w-1, y, y+h-1, k)
}

// strokes are the characters of lines by the directions that meet.
var strokes = [...][16]rune{
	strokePlain:  {' ', '│', '│', '│', '─', '┘', '┐', '┤', '─', '└', '┌', '├', '─', '┴', '┬', '┼'},
	strokeDashed: {' ', '╎', '╎', '╎', '╌', '╯', '╮', '┤', '╌', '╰', '╭', '├', '╌', '┴', '┬', '┼'},
	strokeDotted: {' ', '┊', '┊', '┊', '┈', '╯', '╮', '┤', '┈', '╰', '╭', '├', '┈', '┴', '┬', '┼'},
	strokeHeavy:  {' ', '┃', '┃', '┃', '━', '┛', '┓', '┫', '━', '┗', '┏', '┣', '━', '┻', '┳', '╋'},
	strokeRound:  {' ', '│', '│', '│', '─', '╯', '╮', '┤', '─', '╰', '╭', '├', '─', '┴', '┬', '┼'},
	strokeDouble: {' ', '║', '║', '║', '═', '╝', '╗', '╣', '═', '╚', '╔', '╠', '═', '╩', '╦', '╬'},
}

// asciiStroke is the ASCII character of a line.
func asciiStroke(lines uint8, k stroke) rune {
	vertical, horizontal := lines&(north|south) != 0, lines&(west|east) != 0
	switch {
	case vertical && horizontal:
		return '+'
	case vertical:
		switch k {
		case strokeDashed, strokeDotted:
			return ':'
		}
		return '|'
	case k == strokeDotted:
		return '.'
	case k == strokeHeavy, k == strokeDouble:
		return '='
	case k == strokeDashed:
		return '-'
	}
	return '-'
}

func (s *sheet) lines(ascii bool) []string {
	lines := make([]string, s.h)
	for y := range s.h {
		var b strings.Builder
		for x := range s.w {
			switch c := s.at(x, y); {
			case c.taken:
			case c.text != "":
				b.WriteString(c.text)
			case c.lines == 0:
				b.WriteByte(' ')
			case ascii:
				b.WriteRune(asciiStroke(c.lines, c.stroke))
			default:
				b.WriteRune(strokes[c.stroke][c.lines])
			}
		}
		lines[y] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// glyph picks a character for the kind of terminal.
func (d *diagrammer) glyph(unicode, ascii string) string {
	if d.ascii {
		return ascii
	}
	return unicode
}

// level draws one graph.
func (d *diagrammer) level(l *level) *sheet {
	boxes := make([]*sheet, len(l.nodes))
	routes := make([]EdgeRoute, len(l.edges))
	for i, e := range l.edges {
		routes[i] = EdgeRoute{FromNode: e.from, ToNode: e.to}
	}
	links := make([]link, len(l.edges))
	for i, e := range l.edges {
		links[i] = link{from: e.from, to: e.to}
	}
	for i, n := range portCounts(len(l.nodes), links) {
		boxes[i] = d.node(l, i, 2*n+3)
	}

	var parts []*sheet
	var places []Rect
	row := 100.0 // as far as a terminal is wide
	for _, p := range components(len(l.nodes), routes) {
		s := d.component(l, p, boxes)
		parts = append(parts, s)
		places = append(places, Rect{W: float64(s.w), H: float64(s.h)})
		row = max(row, float64(s.w))
	}
	w, h := shelve(places, row, 4, 1)
	out := newSheet(int(w), int(h))
	for i, s := range parts {
		out.copy(s, int(places[i].X), int(places[i].Y))
	}
	return out
}

// node draws a node into a box of an odd width of at least least.
func (d *diagrammer) node(l *level, i, least int) *sheet {
	n := &l.nodes[i]
	text := printable(n.shown())
	mark := ""
	switch n.Status {
	case StatusVisited:
		mark = d.glyph("✓ ", "+ ")
	case StatusCurrent:
		mark = d.glyph("▶ ", "> ")
	case StatusFailed:
		mark = d.glyph("✗ ", "x ")
	case StatusInterrupted:
		mark = d.glyph("‖ ", "= ")
	}
	count := ""
	if n.Visits > 1 {
		count = d.glyph(" ×", " x") + strconv.Itoa(n.Visits)
	}
	k := strokePlain
	switch {
	case n.Kind == KindStart || n.Kind == KindEnd:
		k = strokeRound
	case n.Deferred:
		k = strokeDashed
	}

	if in := l.inner(n, false); in != nil {
		inside := d.level(in)
		title := mark + wrap(text, 60, 1, cells)[0] + count
		if notes := n.remarks(); len(notes) > 0 {
			title += " (" + strings.Join(notes, ", ") + ")"
		}
		title = " " + title + " "
		w := max(least, inside.w+4, int(cells(title))+4) | 1
		s := newSheet(w, inside.h+2)
		s.frame(0, 0, w, s.h, k)
		s.write(2, 0, title)
		s.copy(inside, (w-inside.w)/2, 1)
		return s
	}

	if n.Kind == KindSubgraph {
		k = strokeDouble
	}
	lines := wrap(text, 32, 3, cells)
	lines[0] = mark + lines[0]
	lines[len(lines)-1] += count
	for _, note := range n.remarks() {
		lines = append(lines, "("+note+")")
	}
	w := least
	for _, s := range lines {
		w = max(w, int(cells(s))+4)
	}
	w |= 1
	s := newSheet(w, len(lines)+2)
	s.frame(0, 0, w, s.h, k)
	for j, text := range lines {
		s.write((w-int(cells(text)))/2, j+1, text)
	}
	return s
}

// component draws one connected component.
func (d *diagrammer) component(l *level, p part, sheets []*sheet) *sheet {
	local := make(map[int]int, len(p.nodes))
	boxes := make([]box, len(p.nodes))
	for i, v := range p.nodes {
		local[v] = i
		boxes[i] = box{w: float64(sheets[v].w), h: float64(sheets[v].h)}
	}
	links := make([]link, len(p.edges))
	labels := make([]string, len(p.edges))
	loops := make([]string, len(p.nodes))
	for i, e := range p.edges {
		edge := &l.edges[e]
		links[i] = link{from: local[edge.from], to: local[edge.to]}
		if text := edge.text(); text != "" && text != EndID {
			labels[i] = wrap(text, 24, 1, cells)[0]
			links[i].labelW, links[i].labelH = float64(int(cells(labels[i]))|1), 1
		}
		if edge.from == edge.to {
			v := links[i].from
			loops[v] += " " + d.glyph("↺", "<loop>")
			if labels[i] != "" {
				loops[v] += " " + labels[i]
			}
			boxes[v].loop = cells(loops[v])
		}
	}
	a := arrange(boxes, links, gaps{node: 4, edge: 3})

	column := make([]int, len(a.vertices))
	left := math.MaxInt
	for i := range a.vertices {
		column[i] = int(math.Round(a.vertices[i].x))
		left = min(left, column[i]-int(a.vertices[i].w)/2)
	}
	width := 0
	for i := range a.vertices {
		v := &a.vertices[i]
		column[i] -= left
		width = max(width, column[i]+int(v.w)/2+int(v.loop)+1)
	}

	outPort, inPort := a.ports(func(v int) float64 { return float64(column[v]) }, func(v, _ int) (low, high, sep float64) {
		x, room := float64(column[v]), a.vertices[v].w/2-2
		return math.Ceil(x - room), math.Floor(x + room), 2
	})
	out, in := rounded(outPort), rounded(inPort)
	tracks, counts := a.tracks(column, out, in)

	// Rows.
	top, height := make([]int, len(a.layers)), make([]int, len(a.layers))
	y := 0
	for r, layer := range a.layers {
		for _, v := range layer {
			height[r] = max(height[r], int(a.vertices[v].h))
		}
		top[r] = y
		y += height[r]
		if r+1 < len(a.layers) {
			y += min(height[r], 1) + counts[r] + 1
		}
	}
	s := newSheet(width, y)
	row := func(v int) int {
		r := a.vertices[v].rank
		return top[r] + (height[r]-int(a.vertices[v].h))/2
	}
	for i := range a.vertices {
		if v := &a.vertices[i]; v.node >= 0 {
			x := column[i] - int(v.w)/2
			s.copy(sheets[p.nodes[v.node]], x, row(i))
			s.write(x+int(v.w), row(i)+int(v.h)/2, loops[v.node])
		}
	}
	for i, chain := range a.chains {
		if chain == nil {
			continue
		}
		k := strokeRound
		switch l.edges[p.edges[i]].Kind {
		case EdgeConditional:
			k = strokeDashed
		case EdgeDynamic:
			k = strokeDotted
		case EdgeJoin:
			k = strokeHeavy
		}
		for j := 1; j < len(chain); j++ {
			u, v := chain[j-1], chain[j]
			x0, x1 := column[u], column[v]
			y0, y1 := top[a.vertices[u].rank], top[a.vertices[v].rank]
			if j == 1 {
				x0, y0 = out[i], row(u)+int(a.vertices[u].h)
			}
			if j == len(chain)-1 {
				x1, y1 = in[i], row(v)-1
			}
			r := a.vertices[u].rank
			turn := top[r] + height[r] + min(height[r], 1) + tracks[i][j-1]
			if x0 == x1 {
				s.down(x0, y0, y1, k)
				continue
			}
			s.down(x0, y0, turn, k)
			s.across(turn, x0, x1, k)
			s.down(x1, turn, y1, k)
		}
		// An arrow at one end, a branch from the border at the other.
		first, last := chain[0], chain[len(chain)-1]
		lower, upper := row(first)+int(a.vertices[first].h)-1, row(last)
		if a.reversed[i] {
			s.write(out[i], lower+1, d.glyph("▲", "^"))
			s.branch(in[i], upper, north)
			s.line(in[i], upper-1, south, k)
		} else {
			s.write(in[i], upper-1, d.glyph("▼", "v"))
			s.branch(out[i], lower, south)
			s.line(out[i], lower+1, north, k)
		}
	}
	for i := range a.vertices {
		if v := &a.vertices[i]; v.label {
			text := labels[v.link]
			s.write(column[i]-int(cells(text))/2, row(i), text)
		}
	}
	return s
}

// rounded returns the columns nearest to some places.
func rounded(xs []float64) []int {
	columns := make([]int, len(xs))
	for i, x := range xs {
		columns[i] = int(math.Round(x))
	}
	return columns
}

// branch lets a line leave the border of a box.
func (s *sheet) branch(x, y int, dir uint8) {
	if c := s.at(x, y); c.text == "" && !c.taken {
		c.lines |= dir
	}
}

// tracks gives every segment that turns the row below its layer on which it
// does: no two segments share a place, and where one starts in the column in
// which another ends, it turns above it. counts is the number of rows for each
// gap between layers.
func (a *arrangement) tracks(column, out, in []int) (tracks [][]int, counts []int) {
	type segment struct {
		from, to int
		link, at int
	}
	gaps := make([][]segment, len(a.layers))
	tracks = make([][]int, len(a.chains))
	for i, chain := range a.chains {
		if chain == nil {
			continue
		}
		tracks[i] = make([]int, len(chain)-1)
		for j := 1; j < len(chain); j++ {
			s := segment{column[chain[j-1]], column[chain[j]], i, j - 1}
			if j == 1 {
				s.from = out[i]
			}
			if j == len(chain)-1 {
				s.to = in[i]
			}
			if s.from != s.to {
				r := a.vertices[chain[j-1]].rank
				gaps[r] = append(gaps[r], s)
			}
		}
	}
	counts = make([]int, len(a.layers))
	for r, segs := range gaps {
		// Of those that run to one side, the ones that are farther on that side
		// turn first: so neighbours don't cross.
		slices.SortStableFunc(segs, func(s, t segment) int {
			if (s.to < s.from) != (t.to < t.from) {
				return cmp.Compare(s.to-s.from, t.to-t.from)
			}
			if s.to < s.from {
				return cmp.Compare(s.from, t.from)
			}
			return cmp.Compare(t.from, s.from)
		})
		byFrom := make(map[int]int, len(segs))
		for i, s := range segs {
			byFrom[s.from] = i
		}
		track := make([]int, len(segs))
		state := make([]uint8, len(segs)) // 1 being placed, 2 placed
		used := make([][][2]int, 0)
		var put func(i int)
		put = func(i int) {
			if state[i] != 0 {
				return // placed, or a circle that no order can satisfy
			}
			state[i] = 1
			s := segs[i]
			least := 0
			if above, ok := byFrom[s.to]; ok {
				put(above)
				if state[above] == 2 {
					least = track[above] + 1
				}
			}
			low, high := min(s.from, s.to), max(s.from, s.to)
			for j, u := range segs {
				if state[j] == 2 && (u.to < u.from) == (s.to < s.from) && low <= u.from && u.from <= high {
					least = max(least, track[j]+1)
				}
			}
			t := least
			for ; t < len(used); t++ {
				if !slices.ContainsFunc(used[t], func(u [2]int) bool { return low <= u[1] && u[0] <= high }) {
					break
				}
			}
			for t >= len(used) {
				used = append(used, nil)
			}
			used[t] = append(used[t], [2]int{low, high})
			track[i], state[i] = t, 2
		}
		for i := range segs {
			put(i)
			tracks[segs[i].link][segs[i].at] = track[i]
		}
		counts[r] = len(used)
	}
	return tracks, counts
}
