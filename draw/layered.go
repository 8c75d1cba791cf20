package draw

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// This file is the layered layout of one connected graph without subgraphs,
// after Sugiyama: turn the edges that close cycles, give every node a rank, cut
// long edges into dummies of one rank each, order the ranks so that few edges
// cross, and place the nodes of each rank (Brandes and Köpf, "Fast and Simple
// Horizontal Coordinate Assignment"). It flows from top to bottom and knows
// nothing of pixels: the picture and the text diagram share it.

// A box is a node to be placed; loop is extra room at its right side.
type box struct {
	w, h, loop float64
}

// A link is an edge to be placed; a label of width 0 is none.
type link struct {
	from, to       int
	labelW, labelH float64
}

// gaps are the smallest distances between neighbours of one rank.
type gaps struct {
	node, edge float64
}

// A vertex is a node or a dummy.
type vertex struct {
	box
	node  int // index of the node, -1 for a dummy
	link  int // index of the link of a dummy
	label bool
	rank  int
	pos   int     // place in its rank
	x     float64 // centre
	up    []int   // neighbours in the rank above
	down  []int   // neighbours in the rank below
}

// An arrangement is the outcome.
type arrangement struct {
	vertices []vertex
	layers   [][]int
	chains   [][]int // of each link the vertices from top to bottom; nil for a loop
	reversed []bool  // links that run upwards
	gaps     gaps
}

// arrange lays out the nodes, which the links connect.
func arrange(boxes []box, links []link, g gaps) *arrangement {
	a := &arrangement{
		chains:   make([][]int, len(links)),
		reversed: breakCycles(len(boxes), links),
		gaps:     g,
	}
	minSpan := 1
	for _, l := range links {
		if l.labelW > 0 && l.from != l.to {
			minSpan = 2 // room for labels between the ranks of the nodes
		}
	}
	ranks := a.rank(len(boxes), links, minSpan)
	a.cut(boxes, links, ranks)
	a.order()
	a.place()
	return a
}

// breakCycles says which links to turn so that no cycle is left: those that a
// depth-first search in declared order finds to lead back.
func breakCycles(n int, links []link) []bool {
	out := make([][]int, n)
	in := make([]int, n)
	for i, l := range links {
		if l.from != l.to {
			out[l.from] = append(out[l.from], i)
			in[l.to]++
		}
	}
	reversed := make([]bool, len(links))
	const (
		unseen = iota
		open
		done
	)
	state := make([]uint8, n)
	next := make([]int, n)
	var stack []int
	visit := func(root int) {
		if state[root] != unseen {
			return
		}
		state[root] = open
		stack = append(stack[:0], root)
		for len(stack) > 0 {
			v := stack[len(stack)-1]
			if next[v] == len(out[v]) {
				state[v] = done
				stack = stack[:len(stack)-1]
				continue
			}
			i := out[v][next[v]]
			next[v]++
			switch w := links[i].to; state[w] {
			case open:
				reversed[i] = true
			case unseen:
				state[w] = open
				stack = append(stack, w)
			}
		}
	}
	for v := range n { // sources first, then what only cycles reach
		if in[v] == 0 {
			visit(v)
		}
	}
	for v := range n {
		visit(v)
	}
	return reversed
}

// rank gives every node the longest distance from a source, then moves nodes
// while that shortens the links: a step of network simplex without the tree.
func (a *arrangement) rank(n int, links []link, minSpan int) []int {
	up, down := make([][]int, n), make([][]int, n)
	for i, l := range links {
		if l.from == l.to {
			continue
		}
		from, to := l.from, l.to
		if a.reversed[i] {
			from, to = to, from
		}
		down[from] = append(down[from], to)
		up[to] = append(up[to], from)
	}
	ranks := make([]int, n)
	degree := make([]int, n)
	var topo []int
	for v := range n {
		degree[v] = len(up[v])
		if degree[v] == 0 {
			topo = append(topo, v)
		}
	}
	for i := 0; i < len(topo); i++ {
		v := topo[i]
		for _, w := range down[v] {
			ranks[w] = max(ranks[w], ranks[v]+minSpan)
			if degree[w]--; degree[w] == 0 {
				topo = append(topo, w)
			}
		}
	}
	// A node may move down when it has more links below than above, and up
	// when it has more above; each pass keeps every link at its length or more.
	for range 8 {
		moved := false
		for _, v := range slices.Backward(topo) {
			if len(down[v]) <= len(up[v]) {
				continue
			}
			lowest := math.MaxInt
			for _, w := range down[v] {
				lowest = min(lowest, ranks[w]-minSpan)
			}
			if lowest > ranks[v] {
				ranks[v], moved = lowest, true
			}
		}
		for _, v := range topo {
			if len(up[v]) <= len(down[v]) {
				continue
			}
			highest := 0
			for _, w := range up[v] {
				highest = max(highest, ranks[w]+minSpan)
			}
			if highest < ranks[v] {
				ranks[v], moved = highest, true
			}
		}
		if !moved {
			break
		}
	}
	least := slices.Min(ranks)
	for v := range ranks {
		ranks[v] -= least
	}
	return ranks
}

// cut makes the vertices and ties them from rank to rank.
func (a *arrangement) cut(boxes []box, links []link, ranks []int) {
	for i, b := range boxes {
		a.vertices = append(a.vertices, vertex{box: b, node: i, link: -1, rank: ranks[i]})
	}
	for i, l := range links {
		if l.from == l.to {
			continue
		}
		from, to := l.from, l.to
		if a.reversed[i] {
			from, to = to, from
		}
		chain := []int{from}
		label := -1
		if l.labelW > 0 {
			// Close to where the edge leaves, on a rank between those of nodes.
			label = ranks[from] + 1
			if a.reversed[i] {
				label = ranks[to] - 1
			}
		}
		for r := ranks[from] + 1; r < ranks[to]; r++ {
			d := vertex{node: -1, link: i, rank: r}
			if r == label {
				d.label, d.w, d.h = true, l.labelW, l.labelH
			}
			chain = append(chain, len(a.vertices))
			a.vertices = append(a.vertices, d)
		}
		chain = append(chain, to)
		for k := 1; k < len(chain); k++ {
			u, v := chain[k-1], chain[k]
			a.vertices[u].down = append(a.vertices[u].down, v)
			a.vertices[v].up = append(a.vertices[v].up, u)
		}
		a.chains[i] = chain
	}
	depth := 0
	for i := range a.vertices {
		depth = max(depth, a.vertices[i].rank)
	}
	a.layers = make([][]int, depth+1)
}

// order settles the order within the ranks. It starts from a depth-first walk
// and sweeps down and up, sorting every rank by the mean position of the
// neighbours in the rank before; the order with the fewest crossings wins.
func (a *arrangement) order() {
	a.initialOrder()
	best, fewest := a.snapshot(), a.crossings()
	sweeps := 24
	switch n := len(a.vertices); {
	case n > 20000:
		sweeps = 4
	case n > 4000:
		sweeps = 8
	}
	stale := 0
	for i := 0; i < sweeps && fewest > 0 && stale < 8; i++ {
		bias := i/2%2 == 1
		if i%2 == 0 {
			for r := 1; r < len(a.layers); r++ {
				a.sortLayer(r, true, bias)
			}
		} else {
			for r := len(a.layers) - 2; r >= 0; r-- {
				a.sortLayer(r, false, bias)
			}
		}
		if len(a.vertices) <= 1500 {
			a.transpose()
		}
		if c := a.crossings(); c < fewest {
			best, fewest, stale = a.snapshot(), c, 0
		} else {
			stale++
		}
	}
	a.layers = best
	for _, layer := range a.layers {
		a.number(layer)
	}
}

func (a *arrangement) initialOrder() {
	seen := make([]bool, len(a.vertices))
	var roots []int
	for v := range a.vertices {
		roots = append(roots, v)
	}
	slices.SortStableFunc(roots, func(u, v int) int { return cmp.Compare(a.vertices[u].rank, a.vertices[v].rank) })
	var stack []int
	for _, root := range roots {
		stack = append(stack[:0], root)
		for len(stack) > 0 {
			v := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[v] {
				continue
			}
			seen[v] = true
			p := &a.vertices[v]
			p.pos = len(a.layers[p.rank])
			a.layers[p.rank] = append(a.layers[p.rank], v)
			for _, w := range slices.Backward(p.down) {
				if !seen[w] {
					stack = append(stack, w)
				}
			}
		}
	}
}

func (a *arrangement) snapshot() [][]int {
	s := make([][]int, len(a.layers))
	for i, l := range a.layers {
		s[i] = slices.Clone(l)
	}
	return s
}

func (a *arrangement) number(layer []int) {
	for i, v := range layer {
		a.vertices[v].pos = i
	}
}

// sortLayer sorts one rank by the barycentre of the neighbours above or below.
// Vertices without such neighbours keep their places.
func (a *arrangement) sortLayer(r int, above, bias bool) {
	type entry struct {
		v    int
		mean float64
	}
	layer := a.layers[r]
	var entries []entry
	for _, v := range layer {
		near := a.vertices[v].down
		if above {
			near = a.vertices[v].up
		}
		if len(near) == 0 {
			continue
		}
		sum := 0
		for _, w := range near {
			sum += a.vertices[w].pos
		}
		entries = append(entries, entry{v, float64(sum) / float64(len(near))})
	}
	slices.SortStableFunc(entries, func(x, y entry) int {
		if c := cmp.Compare(x.mean, y.mean); c != 0 || !bias {
			return c
		}
		return cmp.Compare(a.vertices[y.v].pos, a.vertices[x.v].pos)
	})
	k := 0
	for i, v := range layer {
		near := a.vertices[v].down
		if above {
			near = a.vertices[v].up
		}
		if len(near) > 0 {
			layer[i] = entries[k].v
			k++
		}
	}
	a.number(layer)
}

// transpose swaps neighbours while that saves crossings.
func (a *arrangement) transpose() {
	for range 6 {
		improved := false
		for _, layer := range a.layers {
			for i := 1; i < len(layer); i++ {
				u, v := layer[i-1], layer[i]
				if a.cross(u, v) > a.cross(v, u) {
					layer[i-1], layer[i] = v, u
					a.vertices[u].pos, a.vertices[v].pos = i, i-1
					improved = true
				}
			}
		}
		if !improved {
			return
		}
	}
}

// cross counts the crossings between the edges of u and v with u at the left.
func (a *arrangement) cross(u, v int) int {
	n := 0
	count := func(us, vs []int) {
		for _, p := range us {
			for _, q := range vs {
				if a.vertices[p].pos > a.vertices[q].pos {
					n++
				}
			}
		}
	}
	count(a.vertices[u].up, a.vertices[v].up)
	count(a.vertices[u].down, a.vertices[v].down)
	return n
}

// crossings counts all crossings with a Fenwick tree for each pair of ranks.
func (a *arrangement) crossings() int {
	total := 0
	var targets, tree []int
	for r := 0; r+1 < len(a.layers); r++ {
		targets = targets[:0]
		for _, v := range a.layers[r] {
			from := len(targets)
			for _, w := range a.vertices[v].down {
				targets = append(targets, a.vertices[w].pos)
			}
			sort.Ints(targets[from:])
		}
		tree = append(tree[:0], make([]int, len(a.layers[r+1])+1)...)
		for i, t := range targets {
			greater := i
			for k := t + 1; k > 0; k -= k & -k {
				greater -= tree[k]
			}
			total += greater
			for k := t + 1; k < len(tree); k += k & -k {
				tree[k]++
			}
		}
	}
	return total
}

// place gives every vertex its x: the mean of the two middle ones of four
// alignments, each of which packs to one side and keeps long edges straight.
func (a *arrangement) place() {
	conflict := a.conflicts()
	var all [4][]float64
	narrowest, least := 0, math.Inf(1)
	var low, high [4]float64
	for k := range all {
		xs := a.align(k&1 != 0, k&2 != 0, conflict)
		all[k] = xs
		low[k], high[k] = math.Inf(1), math.Inf(-1)
		for v, x := range xs {
			b := a.vertices[v].box
			low[k] = min(low[k], x-b.w/2)
			high[k] = max(high[k], x+b.w/2+b.loop)
		}
		if w := high[k] - low[k]; w < least {
			narrowest, least = k, w
		}
	}
	for k := range all {
		shift := low[narrowest] - low[k]
		if k&2 != 0 {
			shift = high[narrowest] - high[k]
		}
		for v := range all[k] {
			all[k][v] += shift
		}
	}
	for v := range a.vertices {
		xs := [4]float64{all[0][v], all[1][v], all[2][v], all[3][v]}
		slices.Sort(xs[:])
		a.vertices[v].x = (xs[1] + xs[2]) / 2
	}
	a.tighten()
	left := math.Inf(1)
	for v := range a.vertices {
		left = min(left, a.vertices[v].x-a.vertices[v].w/2)
	}
	for v := range a.vertices {
		a.vertices[v].x -= left
	}
}

// tighten moves the straight runs of long edges, and nodes, to between their
// neighbours as far as those beside them leave room.
func (a *arrangement) tighten() {
	room := func(v int) (low, high float64) {
		low, high = math.Inf(-1), math.Inf(1)
		p := &a.vertices[v]
		layer := a.layers[p.rank]
		if p.pos > 0 {
			u := layer[p.pos-1]
			low = a.vertices[u].x + a.distance(u, v, false)
		}
		if p.pos+1 < len(layer) {
			w := layer[p.pos+1]
			high = a.vertices[w].x - a.distance(v, w, false)
		}
		return low, high
	}
	var near []float64
	for range 4 {
		for v := range a.vertices {
			p := &a.vertices[v]
			if p.node < 0 {
				continue
			}
			near = near[:0]
			for _, u := range p.up {
				near = append(near, a.vertices[u].x)
			}
			for _, w := range p.down {
				near = append(near, a.vertices[w].x)
			}
			if len(near) == 0 {
				continue
			}
			slices.Sort(near)
			low, high := room(v)
			if x := min(max(p.x, near[(len(near)-1)/2]), near[len(near)/2]); low <= high {
				p.x = min(max(x, low), high)
			}
		}
		for _, chain := range a.chains {
			for i := 1; i < len(chain)-1; {
				x := a.vertices[chain[i]].x
				low, high := room(chain[i])
				j := i + 1
				for ; j < len(chain)-1 && a.vertices[chain[j]].x == x; j++ {
					l, h := room(chain[j])
					low, high = max(low, l), min(high, h)
				}
				p, q := a.vertices[chain[i-1]].x, a.vertices[chain[j]].x
				if to := min(max(x, min(p, q)), max(p, q)); low <= high {
					to = min(max(to, low), high)
					for _, v := range chain[i:j] {
						a.vertices[v].x = to
					}
				}
				i = j
			}
		}
	}
}

// conflicts finds the short segments that cross a segment between two dummies:
// the long edge stays straight, so no alignment may use the short one.
func (a *arrangement) conflicts() map[[2]int]bool {
	found := make(map[[2]int]bool)
	for r := 1; r < len(a.layers); r++ {
		upper, layer := a.layers[r-1], a.layers[r]
		scanned, k0 := 0, 0
		for i, v := range layer {
			k1 := len(upper)
			inner := a.vertices[v].node < 0 && a.vertices[a.vertices[v].up[0]].node < 0
			if inner {
				k1 = a.vertices[a.vertices[v].up[0]].pos
			}
			if !inner && i < len(layer)-1 {
				continue
			}
			for _, w := range layer[scanned : i+1] {
				for _, u := range a.vertices[w].up {
					p := a.vertices[u].pos
					if (p < k0 || p > k1) && !(a.vertices[u].node < 0 && a.vertices[w].node < 0) {
						found[[2]int{u, w}] = true
					}
				}
			}
			scanned, k0 = i+1, k1
		}
	}
	return found
}

// align computes one of the four alignments: with neighbours below or above,
// packed to the right or to the left.
func (a *arrangement) align(below, right bool, conflict map[[2]int]bool) []float64 {
	n := len(a.vertices)
	layers := a.snapshot()
	if below {
		slices.Reverse(layers)
	}
	pos := make([]int, n)
	for _, l := range layers {
		if right {
			slices.Reverse(l)
		}
		for i, v := range l {
			pos[v] = i
		}
	}

	root, next := make([]int, n), make([]int, n)
	for v := range n {
		root[v], next[v] = v, v
	}
	var near []int
	for _, l := range layers {
		last := -1
		for _, v := range l {
			near = append(near[:0], a.vertices[v].up...)
			if below {
				near = append(near[:0], a.vertices[v].down...)
			}
			if len(near) == 0 {
				continue
			}
			slices.SortFunc(near, func(u, w int) int { return cmp.Compare(pos[u], pos[w]) })
			for m := (len(near) - 1) / 2; m <= len(near)/2; m++ {
				u := near[m]
				pair := [2]int{u, v}
				if below {
					pair = [2]int{v, u}
				}
				if next[v] == v && last < pos[u] && !conflict[pair] {
					next[u], root[v] = v, root[u]
					next[v] = root[v]
					last = pos[u]
				}
			}
		}
	}

	// Blocks of aligned vertices, and how far apart neighbouring blocks must be.
	type tie struct {
		block int
		dist  float64
	}
	after, before := make([][]tie, n), make([][]tie, n)
	degree := make([]int, n)
	for _, l := range layers {
		for i := 1; i < len(l); i++ {
			u, v := l[i-1], l[i]
			d := a.distance(u, v, right)
			after[root[u]] = append(after[root[u]], tie{root[v], d})
			before[root[v]] = append(before[root[v]], tie{root[u], d})
			degree[root[v]]++
		}
	}
	var topo []int
	for v := range n {
		if root[v] == v && degree[v] == 0 {
			topo = append(topo, v)
		}
	}
	xs := make([]float64, n)
	for i := 0; i < len(topo); i++ {
		b := topo[i]
		for _, t := range after[b] {
			xs[t.block] = max(xs[t.block], xs[b]+t.dist)
			if degree[t.block]--; degree[t.block] == 0 {
				topo = append(topo, t.block)
			}
		}
	}
	for _, b := range slices.Backward(topo) {
		if len(after[b]) == 0 {
			continue
		}
		limit := math.Inf(1)
		for _, t := range after[b] {
			limit = min(limit, xs[t.block]-t.dist)
		}
		xs[b] = max(xs[b], limit)
	}
	for v := range n {
		if root[v] != v {
			xs[v] = xs[root[v]]
		}
	}
	if right {
		for v := range xs {
			xs[v] = -xs[v]
		}
	}
	return xs
}

// distance is how far the centre of v must be from that of u, its neighbour at
// the left, or at the right when mirrored.
func (a *arrangement) distance(u, v int, mirrored bool) float64 {
	if mirrored {
		u, v = v, u
	}
	p, q := &a.vertices[u], &a.vertices[v]
	gap := func(p *vertex) float64 {
		if p.node < 0 && !p.label {
			return a.gaps.edge / 2
		}
		return a.gaps.node / 2
	}
	return p.w/2 + p.loop + gap(p) + gap(q) + q.w/2
}
