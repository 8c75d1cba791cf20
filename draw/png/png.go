// Package png draws workflow graphs as PNG pictures: the layout and the look
// of draw.SVG, as pixels. It is apart from package draw so that programs which
// only need text or SVG don't link a rasterizer and a font.
package png

import (
	"cmp"
	"fmt"
	"image"
	imagedraw "image/draw"
	imagepng "image/png"
	"io"
	"math"
	"slices"

	"git.sr.ht/~sbinet/gg"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

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
	img := image.NewRGBA(image.Rect(0, 0, int(w), int(h)))
	c := &canvas{
		Context: gg.NewContextForRGBA(img),
		img:     img,
		scale:   scale,
		theme:   opts.Theme,
		font:    f,
		faces:   map[float64]font.Face{},
	}
	c.Scale(scale, scale) // of points
	if !opts.Transparent {
		fill, _ := c.theme.Colors(draw.RoleCanvas)
		imagedraw.Draw(c.img, c.img.Bounds(), image.NewUniform(fill), image.Point{}, imagedraw.Src)
	}
	l.Paint(c)
	return c.img, nil
}

// canvas is a draw.Canvas of pixels.
type canvas struct {
	*gg.Context
	img   *image.RGBA
	scale float64
	theme draw.Theme
	font  *opentype.Font
	faces map[float64]font.Face // by their size
}

func (c *canvas) Begin(draw.Role, string) {}

func (c *canvas) End() {}

func (c *canvas) Shape(s draw.Shape) {
	if len(s.Curve) == 0 {
		return
	}
	c.MoveTo(s.Curve[0].X, s.Curve[0].Y)
	for p := range slices.Chunk(s.Curve[1:], 3) {
		c.CubicTo(p[0].X, p[0].Y, p[1].X, p[1].Y, p[2].X, p[2].Y)
	}
	if s.Closed {
		c.ClosePath()
	}
	fill, stroke := c.theme.Colors(s.Role)
	if s.Closed && fill.A > 0 {
		c.SetColor(fill)
		c.FillPreserve()
	}
	if s.Width > 0 && stroke.A > 0 {
		dash := slices.Clone(s.Dash)
		for i := range dash {
			dash[i] *= c.scale
		}
		c.SetDash(dash...)
		c.SetLineWidth(s.Width * c.scale)
		c.SetColor(stroke)
		c.StrokePreserve()
	}
	c.ClearPath()
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
