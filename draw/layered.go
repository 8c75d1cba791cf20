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
// cross, and place the nodes of each rank. It flows from top to bottom and knows
// nothing of pixels: the picture and the text diagram share it.
//
// It is our own since no library in Go did as well. github.com/nulab/autog 0.11 knows no
// loops, labels, ports or frames, panics at parallel edges over several ranks (the graphs
// "nasty" and of 200 nodes), makes other drawings of unconnected graphs each time, and
// leads edges through nodes: 8 to 23 of 91 in a graph of 50 nodes, which takes it 0.15 s
// and more, and us 1 ms. The proxy for modules has neither it nor
// github.com/nikolaydubina/go-graph-layout.

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
	var visit func(v int)
	visit = func(v int) {
		if state[v] != unseen {
			return
		}
		state[v] = open
		for _, i := range out[v] {
			reversed[i] = state[links[i].to] == open
			visit(links[i].to)
		}
		state[v] = done
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
	var visit func(v int)
	visit = func(v int) {
		if seen[v] {
			return
		}
		seen[v] = true
		p := &a.vertices[v]
		p.pos = len(a.layers[p.rank])
		a.layers[p.rank] = append(a.layers[p.rank], v)
		for _, w := range p.down {
			visit(w)
		}
	}
	roots := make([]int, len(a.vertices))
	for v := range roots {
		roots[v] = v
	}
	slices.SortStableFunc(roots, func(u, v int) int { return cmp.Compare(a.vertices[u].rank, a.vertices[v].rank) })
	for _, v := range roots {
		visit(v)
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
	entries := make([]entry, 0, len(layer))
	places := make([]int, 0, len(layer)) // of those in entries
	for i, v := range layer {
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
		entries, places = append(entries, entry{v, float64(sum) / float64(len(near))}), append(places, i)
	}
	slices.SortStableFunc(entries, func(x, y entry) int {
		if c := cmp.Compare(x.mean, y.mean); c != 0 || !bias {
			return c
		}
		return cmp.Compare(a.vertices[y.v].pos, a.vertices[x.v].pos)
	})
	for k, i := range places {
		layer[i] = entries[k].v
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

// place gives every vertex its x. Vertices that are to stand under one another move as one
// block: first each to the middle of its neighbours, where what is in the way is pushed
// aside, then as far towards it as there is room.
func (a *arrangement) place() {
	block, blocks := a.blocks()
	type tie struct {
		block int
		dist  float64 // at least
	}
	after, before := make([][]tie, len(blocks)), make([][]tie, len(blocks))
	for _, layer := range a.layers {
		for i, v := range layer[1:] {
			b, c, d := block[layer[i]], block[v], a.distance(layer[i], v)
			after[b], before[c] = append(after[b], tie{c, d}), append(before[c], tie{b, d})
		}
	}
	var order []int // from left to right
	waiting := make([]int, len(blocks))
	for b := range blocks {
		if waiting[b] = len(before[b]); waiting[b] == 0 {
			order = append(order, b)
		}
	}
	for i := 0; i < len(order); i++ {
		for _, t := range after[order[i]] {
			if waiting[t.block]--; waiting[t.block] == 0 {
				order = append(order, t.block)
			}
		}
	}
	joined := make([][]int, len(blocks))
	for u := range a.vertices {
		for _, v := range a.vertices[u].down {
			if b, c := block[u], block[v]; b != c {
				joined[b], joined[c] = append(joined[b], c), append(joined[c], b)
			}
		}
	}

	x := make([]float64, len(blocks))
	var near []float64
	const pushing = 6
	for pass := range pushing + 4 {
		for k := range blocks {
			b := k // down, and then up
			if pass%2 == 1 {
				b = len(blocks) - 1 - k
			}
			if len(joined[b]) == 0 {
				continue
			}
			near = near[:0]
			for _, c := range joined[b] {
				near = append(near, x[c])
			}
			slices.Sort(near)
			low, high := near[(len(near)-1)/2], near[len(near)/2]
			if pass < pushing {
				x[b] = (low + high) / 2
				continue
			}
			to := min(max(x[b], low), high)
			if !slices.ContainsFunc(blocks[b], func(v int) bool { return a.vertices[v].node >= 0 }) {
				if to = low; high-x[b] < x[b]-low { // upright with one of its ends
					to = high
				}
			}
			for _, t := range before[b] {
				to = max(to, x[t.block]+t.dist)
			}
			for _, t := range after[b] {
				to = min(to, x[t.block]-t.dist)
			}
			x[b] = to
		}
		if pass >= pushing {
			continue
		}
		// Half of it gives way to the right, and half to the left: the mean of two
		// arrangements that keep all distances keeps them, too.
		right := slices.Clone(x)
		for _, b := range order {
			for _, t := range after[b] {
				right[t.block] = max(right[t.block], right[b]+t.dist)
			}
		}
		for _, b := range slices.Backward(order) {
			for _, t := range after[b] {
				x[b] = min(x[b], x[t.block]-t.dist)
			}
		}
		for b := range x {
			x[b] = (x[b] + right[b]) / 2
		}
	}
	left := math.Inf(1)
	for v, b := range block {
		left = min(left, x[b]-a.vertices[v].w/2)
	}
	for v, b := range block {
		a.vertices[v].x = x[b] - left
	}
}

// blocks puts vertices of neighbouring ranks into one block where each is the middle one of
// the other's neighbours, as in long edges and where there is one way on. Blocks don't
// cross: dummies have precedence. It returns the block of each vertex, and the blocks.
func (a *arrangement) blocks() (block []int, blocks [][]int) {
	middle := func(near []int) int {
		switch {
		case len(near) == 1:
			return near[0]
		case len(near)%2 == 0:
			return -1
		}
		near = slices.SortedFunc(slices.Values(near), func(u, v int) int { return cmp.Compare(a.vertices[u].pos, a.vertices[v].pos) })
		return near[len(near)/2]
	}
	block = make([]int, len(a.vertices))
	for _, layer := range a.layers {
		under := slices.Repeat([]int{-1}, len(layer))
		for _, long := range []bool{true, false} {
			for i, v := range layer {
				u := middle(a.vertices[v].up)
				if u < 0 || middle(a.vertices[u].down) != v || (a.vertices[u].node < 0 && a.vertices[v].node < 0) != long {
					continue
				}
				l, r := i-1, i+1 // the next ones that stand under another
				for l >= 0 && under[l] < 0 {
					l--
				}
				for r < len(layer) && under[r] < 0 {
					r++
				}
				pos := a.vertices[u].pos
				if (l < 0 || a.vertices[under[l]].pos < pos) && (r == len(layer) || pos < a.vertices[under[r]].pos) {
					under[i] = u
				}
			}
		}
		for i, v := range layer {
			if u := under[i]; u >= 0 {
				block[v] = block[u]
				blocks[block[v]] = append(blocks[block[v]], v)
			} else {
				block[v], blocks = len(blocks), append(blocks, []int{v})
			}
		}
	}
	return block, blocks
}

// distance is how far the centre of v must be from that of u, its neighbour at
// the left.
func (a *arrangement) distance(u, v int) float64 {
	p, q := &a.vertices[u], &a.vertices[v]
	gap := func(p *vertex) float64 {
		if p.node < 0 && !p.label {
			return a.gaps.edge / 2
		}
		return a.gaps.node / 2
	}
	return p.w/2 + p.loop + gap(p) + gap(q) + q.w/2
}
