// Package png draws workflow graphs as PNG pictures: the layout and the look
// of draw.SVG, as pixels. It is apart from package draw so that programs which
// only need text or SVG don't link a rasterizer and a font.
package png

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	imagedraw "image/draw"
	imagepng "image/png"
	"io"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"

	"github.com/superstep-dev/superstep/draw"
)

// Options change what is drawn. The zero value and nil are the defaults.
type Options struct {
	Layout draw.LayoutOptions
	// Theme is the colours; ThemeAuto is light.
	Theme draw.Theme
	// Scale is the number of pixels for each unit of the layout; unless set it is 2,
	// or as much as MaxPixels allow, but at least 1.
	Scale float64
	// Font is a TrueType or OpenType font to use in place of Go Regular,
	// which has Latin, Greek and Cyrillic letters. A character that the font
	// lacks is drawn as its sign for that, mostly an empty box.
	Font []byte
	// Transparent leaves the background out.
	Transparent bool
	// MaxPixels limits the size of the picture; 100 million unless set.
	MaxPixels int
}

// A SizeError says that a picture would have more pixels than allowed.
type SizeError struct {
	Width, Height int // in pixels
	MaxPixels     int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("draw/png: a picture of %d×%d pixels is larger than %d pixels: set a smaller Scale, a larger MaxPixels, or draw SVG",
		e.Width, e.Height, e.MaxPixels)
}

// Encode draws a graph and writes it to w as PNG. Nothing is written when
// drawing fails.
func Encode(w io.Writer, g *draw.Graph, opts *Options) error {
	m, err := Draw(g, opts)
	if err != nil {
		return err
	}
	return imagepng.Encode(w, m)
}

// Draw draws a graph.
func Draw(g *draw.Graph, opts *Options) (*image.RGBA, error) {
	if opts == nil {
		opts = &Options{}
	}
	return DrawLayout(draw.NewLayout(g, &opts.Layout), opts)
}

// DrawLayout draws a graph that is laid out already; the layout options among
// the options don't apply.
func DrawLayout(l *draw.Layout, opts *Options) (*image.RGBA, error) {
	if opts == nil {
		opts = &Options{}
	}
	scale := cmp.Or(opts.Scale, 2)
	if !(scale > 0) || math.IsInf(scale, 0) {
		return nil, fmt.Errorf("draw/png: scale %v is not a positive number", scale)
	}
	limit := cmp.Or(opts.MaxPixels, 100_000_000)
	size := func() (w, h float64) { return math.Ceil(max(l.Width, 1) * scale), math.Ceil(max(l.Height, 1) * scale) }
	w, h := size()
	for opts.Scale == 0 && scale > 1 && w*h > float64(limit) {
		scale = max(1, scale*min(math.Sqrt(float64(limit)/(w*h)), 0.999)) // sides are rounded up
		w, h = size()
	}
	if w*h > float64(limit) {
		return nil, &SizeError{int(min(w, math.MaxInt32)), int(min(h, math.MaxInt32)), limit}
	}
	ttf := opts.Font
	if ttf == nil {
		ttf = goregular.TTF
	}
	f, err := opentype.Parse(ttf)
	if err != nil {
		return nil, fmt.Errorf("draw/png: font: %w", err)
	}
	c := &canvas{
		img:   image.NewRGBA(image.Rect(0, 0, int(w), int(h))),
		scale: scale,
		theme: opts.Theme,
		font:  f,
		faces: map[float64]font.Face{},
	}
	if !opts.Transparent {
		fill, _ := c.theme.Colors(draw.RoleCanvas)
		imagedraw.Draw(c.img, c.img.Bounds(), image.NewUniform(fill), image.Point{}, imagedraw.Src)
	}
	l.Paint(c)
	return c.img, nil
}

// canvas is a draw.Canvas of pixels.
type canvas struct {
	img   *image.RGBA
	scale float64
	theme draw.Theme
	font  *opentype.Font
	faces map[float64]font.Face // by their size
	ras   vector.Rasterizer
}

func (c *canvas) Begin(draw.Role, string) {}

func (c *canvas) End() {}

func (c *canvas) Shape(s draw.Shape) {
	pts := c.flatten(s.Curve)
	if len(pts) < 2 {
		return
	}
	fill, stroke := c.theme.Colors(s.Role)
	if s.Closed && fill.A > 0 {
		c.fill([][]draw.Point{pts}, fill)
	}
	if s.Width > 0 && stroke.A > 0 {
		if s.Closed && pts[0] != pts[len(pts)-1] {
			pts = append(pts, pts[0])
		}
		lines := [][]draw.Point{pts}
		if len(s.Dash) > 0 {
			dash := make([]float64, len(s.Dash))
			for i, d := range s.Dash {
				dash[i] = d * c.scale
			}
			lines = dashes(pts, dash)
		}
		c.fill(outline(lines, s.Width*c.scale/2), stroke)
	}
}

// flatten turns a chain of cubic curves into a polyline in pixels.
func (c *canvas) flatten(curve []draw.Point) []draw.Point {
	if len(curve) == 0 {
		return nil
	}
	at := func(p draw.Point) draw.Point { return draw.Point{X: p.X * c.scale, Y: p.Y * c.scale} }
	pts := []draw.Point{at(curve[0])}
	for i := 1; i+2 < len(curve); i += 3 {
		p, c1, c2, q := at(curve[i-1]), at(curve[i]), at(curve[i+1]), at(curve[i+2])
		bend := math.Hypot(p.X-2*c1.X+c2.X, p.Y-2*c1.Y+c2.Y) + math.Hypot(c1.X-2*c2.X+q.X, c1.Y-2*c2.Y+q.Y)
		n := min(max(int(math.Ceil(math.Sqrt(bend*3))), 1), 200)
		for k := 1; k <= n; k++ {
			t := float64(k) / float64(n)
			u := 1 - t
			a, b, d, e := u*u*u, 3*u*u*t, 3*u*t*t, t*t*t
			next := draw.Point{X: a*p.X + b*c1.X + d*c2.X + e*q.X, Y: a*p.Y + b*c1.Y + d*c2.Y + e*q.Y}
			if next != pts[len(pts)-1] {
				pts = append(pts, next)
			}
		}
	}
	return pts
}

// dashes cuts a polyline into its dashes.
func dashes(pts []draw.Point, dash []float64) [][]draw.Point {
	total := 0.0
	for _, d := range dash {
		total += d
	}
	if !(total > 0) {
		return [][]draw.Point{pts}
	}
	var out [][]draw.Point
	on, k, left := true, 0, dash[0]
	run := []draw.Point{pts[0]}
	for i := 1; i < len(pts); i++ {
		p, q := pts[i-1], pts[i]
		long := math.Hypot(q.X-p.X, q.Y-p.Y)
		done := 0.0
		for long-done > left {
			done += left
			t := done / long
			at := draw.Point{X: p.X + (q.X-p.X)*t, Y: p.Y + (q.Y-p.Y)*t}
			if on {
				out = append(out, append(run, at))
			}
			run = []draw.Point{at}
			on = !on
			k = (k + 1) % len(dash)
			left = dash[k]
		}
		left -= long - done
		if on {
			run = append(run, q)
		}
	}
	if on && len(run) > 1 {
		out = append(out, run)
	}
	return out
}

// outline is the area of strokes with round caps and joins: a quadrilateral
// for each segment, a disc at each point, all turning the same way.
func outline(lines [][]draw.Point, r float64) [][]draw.Point {
	var area [][]draw.Point
	sides := min(max(int(math.Ceil(math.Sqrt(r)*8)), 8), 64)
	for _, pts := range lines {
		for i, p := range pts {
			if i == 0 || i == len(pts)-1 || bends(pts[i-1], p, pts[i+1]) {
				disc := make([]draw.Point, sides)
				for k := range disc {
					sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(sides))
					disc[k] = draw.Point{X: p.X + r*cos, Y: p.Y + r*sin}
				}
				area = append(area, disc)
			}
			if i == 0 {
				continue
			}
			q := pts[i-1]
			long := math.Hypot(p.X-q.X, p.Y-q.Y)
			if long == 0 {
				continue
			}
			nx, ny := (p.Y-q.Y)/long*r, -(p.X-q.X)/long*r
			area = append(area, []draw.Point{
				{X: q.X + nx, Y: q.Y + ny}, {X: p.X + nx, Y: p.Y + ny},
				{X: p.X - nx, Y: p.Y - ny}, {X: q.X - nx, Y: q.Y - ny},
			})
		}
	}
	return area
}

// bends says whether a polyline turns enough at p to need a round join.
func bends(o, p, q draw.Point) bool {
	ax, ay, bx, by := p.X-o.X, p.Y-o.Y, q.X-p.X, q.Y-p.Y
	return ax*bx+ay*by < 0.995*math.Hypot(ax, ay)*math.Hypot(bx, by)
}

// fill paints an area of polygons, all of which turn the same way or don't
// overlap, in one colour.
func (c *canvas) fill(area [][]draw.Point, colour color.NRGBA) {
	x0, y0, x1, y1 := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, poly := range area {
		for _, p := range poly {
			x0, y0, x1, y1 = min(x0, p.X), min(y0, p.Y), max(x1, p.X), max(y1, p.Y)
		}
	}
	box := image.Rect(int(math.Floor(x0)), int(math.Floor(y0)), int(math.Ceil(x1)), int(math.Ceil(y1)))
	box = box.Intersect(c.img.Bounds())
	if box.Empty() {
		return
	}
	c.ras.Reset(box.Dx(), box.Dy())
	for _, poly := range area {
		for i, p := range poly {
			x, y := float32(p.X-float64(box.Min.X)), float32(p.Y-float64(box.Min.Y))
			if i == 0 {
				c.ras.MoveTo(x, y)
			} else {
				c.ras.LineTo(x, y)
			}
		}
		c.ras.ClosePath()
	}
	c.ras.Draw(c.img, box, image.NewUniform(colour), image.Point{})
}

func (c *canvas) Text(t draw.Text) {
	ink, _ := c.theme.Colors(t.Role)
	d := font.Drawer{Dst: c.img, Src: image.NewUniform(ink), Face: c.face(t.Size * c.scale)}
	d.Dot = fixed.Point26_6{X: fixed.Int26_6(math.Round(t.X * c.scale * 64)), Y: fixed.Int26_6(math.Round(t.Y * c.scale * 64))}
	if t.Anchor == draw.AnchorMiddle {
		d.Dot.X -= d.MeasureString(t.Text) / 2
	}
	d.DrawString(t.Text)
}

// face is the font at a size in pixels.
func (c *canvas) face(size float64) font.Face {
	f, ok := c.faces[size]
	if !ok {
		f, _ = opentype.NewFace(c.font, &opentype.FaceOptions{Size: size, DPI: 72}) // has no error to return
		c.faces[size] = f
	}
	return f
}
