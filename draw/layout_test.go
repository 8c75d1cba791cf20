package draw_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/draw/internal/drawtest"
	"github.com/superstep-dev/superstep/internal/race"
)

// randomGraph is any graph: loops, parallel edges, unconnected nodes, cycles,
// subgraphs.
func randomGraph(t *rapid.T, depth int) *draw.Graph {
	g := &draw.Graph{}
	n := rapid.IntRange(0, 14).Draw(t, "nodes")
	kinds := []draw.EdgeKind{draw.EdgeStatic, draw.EdgeConditional, draw.EdgeDynamic, draw.EdgeJoin}
	all := []string{draw.StartID, draw.EndID}
	for i := range n {
		node := draw.Node{
			ID:          fmt.Sprintf("n%d", i),
			Label:       rapid.StringMatching("[a-z ]{0,40}").Draw(t, "label"),
			PauseBefore: rapid.Bool().Draw(t, "pause"),
		}
		if depth > 0 && rapid.IntRange(0, 5).Draw(t, "sub") == 0 {
			node.Sub = randomGraph(t, depth-1)
		}
		g.Nodes = append(g.Nodes, node)
		all = append(all, node.ID)
	}
	for range rapid.IntRange(0, 30).Draw(t, "edges") {
		g.Edges = append(g.Edges, draw.Edge{
			From:  rapid.SampledFrom(all).Draw(t, "from"),
			To:    rapid.SampledFrom(all).Draw(t, "to"),
			Kind:  rapid.SampledFrom(kinds).Draw(t, "kind"),
			Label: rapid.SampledFrom([]string{"", "", "yes", "a longer label"}).Draw(t, "edge label"),
		})
	}
	return g
}

const slack = 0.05 // coordinates are rounded to hundredths

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// checkLayout holds a layout to what NewLayout promises.
func checkLayout(t fataler, l *draw.Layout) {
	t.Helper()
	inside := func(in, out draw.Rect) bool {
		return in.X >= out.X-slack && in.Y >= out.Y-slack &&
			in.X+in.W <= out.X+out.W+slack && in.Y+in.H <= out.Y+out.H+slack
	}
	page := draw.Rect{W: l.Width, H: l.Height}
	for i, n := range l.Nodes {
		if n.W <= 0 || n.H <= 0 || !inside(n.Rect, page) {
			t.Fatalf("node %d %q at %v is not on the page %v", i, n.ID, n.Rect, page)
		}
		if n.Parent >= i || n.Parent >= 0 && !inside(n.Rect, l.Nodes[n.Parent].Rect) {
			t.Fatalf("node %d %q at %v is not in its frame %d", i, n.ID, n.Rect, n.Parent)
		}
		for j, m := range l.Nodes[:i] {
			if n.Parent == m.Parent && n.X < m.X+m.W+1 && m.X < n.X+n.W+1 && n.Y < m.Y+m.H+1 && m.Y < n.Y+n.H+1 {
				t.Fatalf("nodes %d %q %v and %d %q %v overlap", i, n.ID, n.Rect, j, m.ID, m.Rect)
			}
		}
	}
	for i, e := range l.Edges {
		from, to := l.Nodes[e.FromNode], l.Nodes[e.ToNode]
		if from.ID != e.From || to.ID != e.To || from.Parent != to.Parent {
			t.Fatalf("edge %d %q -> %q has the nodes %q and %q", i, e.From, e.To, from.ID, to.ID)
		}
		if len(e.Points) < 2 || e.Path == "" {
			t.Fatalf("edge %d has no way", i)
		}
		if p := e.Points[0]; !onBorder(p, from.Rect) {
			t.Fatalf("edge %d %q -> %q begins at %v, off its box %v", i, e.From, e.To, p, from.Rect)
		}
		if p := e.Points[len(e.Points)-1]; !onBorder(p, to.Rect) {
			t.Fatalf("edge %d %q -> %q ends at %v, off its box %v", i, e.From, e.To, p, to.Rect)
		}
		for _, p := range append(e.Points, samples(e.Curve())...) {
			if !inside(draw.Rect{X: p.X, Y: p.Y}, page) {
				t.Fatalf("edge %d %q -> %q leaves the page at %v", i, e.From, e.To, p)
			}
			for _, n := range l.Nodes {
				if n.Parent == from.Parent && p.X > n.X+slack && p.X < n.X+n.W-slack && p.Y > n.Y+slack && p.Y < n.Y+n.H-slack {
					t.Fatalf("edge %d %q -> %q crosses %q %v at %v", i, e.From, e.To, n.ID, n.Rect, p)
				}
			}
		}
		if e.LabelRect == nil {
			continue
		}
		if !inside(*e.LabelRect, page) {
			t.Fatalf("the label of edge %d is off the page", i)
		}
		for _, n := range l.Nodes {
			if r := *e.LabelRect; n.Parent == from.Parent && r.X < n.X+n.W && n.X < r.X+r.W && r.Y < n.Y+n.H && n.Y < r.Y+r.H {
				t.Fatalf("the label of edge %d %v is on %q %v", i, r, n.ID, n.Rect)
			}
		}
	}
}

func onBorder(p draw.Point, r draw.Rect) bool {
	near := func(a, b float64) bool { return math.Abs(a-b) <= slack }
	inX := p.X >= r.X-slack && p.X <= r.X+r.W+slack
	inY := p.Y >= r.Y-slack && p.Y <= r.Y+r.H+slack
	return inX && (near(p.Y, r.Y) || near(p.Y, r.Y+r.H)) || inY && (near(p.X, r.X) || near(p.X, r.X+r.W))
}

// samples are points on a curve.
func samples(c []draw.Point) []draw.Point {
	var pts []draw.Point
	for i := 1; i+2 < len(c); i += 3 {
		for k := range 8 {
			t := float64(k) / 8
			u := 1 - t
			a, b, d, e := u*u*u, 3*u*u*t, 3*u*t*t, t*t*t
			pts = append(pts, draw.Point{
				X: a*c[i-1].X + b*c[i].X + d*c[i+1].X + e*c[i+2].X,
				Y: a*c[i-1].Y + b*c[i].Y + d*c[i+1].Y + e*c[i+2].Y,
			})
		}
	}
	return pts
}

var directions = []draw.Direction{draw.TopDown, draw.LeftToRight}

func TestLayoutSamples(t *testing.T) {
	for _, s := range drawtest.Samples() {
		for _, dir := range directions {
			t.Run(s.Name+string(dir), func(t *testing.T) {
				checkLayout(t, draw.NewLayout(s.Graph, &draw.LayoutOptions{Direction: dir}))
			})
		}
	}
}

func TestLayoutRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t, 2)
		opts := &draw.LayoutOptions{
			Direction:    rapid.SampledFrom(directions).Draw(t, "direction"),
			HideStartEnd: rapid.Bool().Draw(t, "hide"),
		}
		l := draw.NewLayout(g, opts)
		checkLayout(t, l)
		if again := draw.NewLayout(g, opts); !reflect.DeepEqual(l, again) {
			t.Fatalf("two layouts of one graph differ")
		}
		draw.SVG(g, nil)
		draw.Diagram(g, nil)
	})
}

func TestLayoutLarge(t *testing.T) {
	seeds := uint64(4)
	if race.Enabled {
		seeds = 1 // they take it seconds each
	}
	for seed := range seeds {
		checkLayout(t, draw.NewLayout(drawtest.Random(seed, 500, 900), nil))
	}
	chain := &draw.Graph{}
	for i := range 2000 {
		chain.Edges = append(chain.Edges, draw.Edge{From: fmt.Sprint(i), To: fmt.Sprint(i + 1)})
	}
	checkLayout(t, draw.NewLayout(chain, nil))
	star := &draw.Graph{}
	for i := range 300 {
		star.Edges = append(star.Edges, draw.Edge{From: "hub", To: fmt.Sprint(i), Kind: draw.EdgeConditional})
	}
	checkLayout(t, draw.NewLayout(star, nil))
}

// A loop of an agent flows down: what a node leads to stands below it, and
// only the edge back runs upwards.
func TestLayoutFlows(t *testing.T) {
	l := draw.NewLayout(drawtest.ReAct(), nil)
	at := map[string]draw.NodeBox{}
	for _, n := range l.Nodes {
		at[n.ID] = n
	}
	for _, e := range l.Edges {
		down := at[e.From].Y < at[e.To].Y
		if back := e.From == "tools"; down == back {
			t.Errorf("%s -> %s runs the wrong way", e.From, e.To)
		}
	}
}

func TestLayoutJSON(t *testing.T) {
	l := draw.NewLayout(drawtest.Nested(), nil)
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var back draw.Layout
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if again, _ := json.Marshal(&back); string(again) != string(b) {
		t.Error("a layout doesn't survive JSON")
	}
}

// The drawings of a graph don't depend on whether the start and the end are
// listed.
func TestStartAndEndAreImplied(t *testing.T) {
	g := drawtest.Linear()
	listed := drawtest.Linear()
	listed.Nodes = append([]draw.Node{{ID: draw.EndID}, {ID: draw.StartID}}, listed.Nodes...)
	if draw.Mermaid(g, nil) != draw.Mermaid(listed, nil) || draw.Diagram(g, nil) != draw.Diagram(listed, nil) ||
		string(draw.SVG(g, nil)) != string(draw.SVG(listed, nil)) {
		t.Error("listing the start and the end changes the drawing")
	}
}

func BenchmarkLayout(b *testing.B) {
	for _, n := range []int{30, 100, 500} {
		g := drawtest.Random(1, n, n*9/5)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				draw.NewLayout(g, nil)
			}
		})
	}
}

func BenchmarkSVG(b *testing.B) {
	for _, n := range []int{30, 500} {
		g := drawtest.Random(1, n, n*9/5)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				draw.SVG(g, nil)
			}
		})
	}
}

func BenchmarkDiagram(b *testing.B) {
	g := drawtest.Service()
	for b.Loop() {
		draw.Diagram(g, nil)
	}
}
