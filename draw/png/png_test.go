package png_test

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	imagepng "image/png"
	"log"
	"os"
	"testing"

	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/draw/internal/drawtest"
	"github.com/superstep-dev/superstep/draw/png"
	"github.com/superstep-dev/superstep/internal/race"
)

func TestEncode(t *testing.T) {
	large := 6 // nodes; the race detector takes seconds over a million pixels
	if race.Enabled {
		large = 2
	}
	for _, s := range drawtest.Samples() {
		t.Run(s.Name, func(t *testing.T) {
			var b bytes.Buffer
			scale, opts := 2, (*png.Options)(nil)
			if len(s.Graph.Nodes) > large {
				scale, opts = 1, &png.Options{Scale: 1}
			}
			if err := png.Encode(&b, s.Graph, opts); err != nil {
				t.Fatal(err)
			}
			m, err := imagepng.Decode(&b)
			if err != nil {
				t.Fatal(err)
			}
			l := draw.NewLayout(s.Graph, nil)
			if got, want := m.Bounds().Size(), image.Pt(int(l.Width)*scale, int(l.Height)*scale); got != want {
				t.Errorf("%v pixels, want %v", got, want)
			}
		})
	}
}

// What the layout says is where the pixels are.
func TestPixels(t *testing.T) {
	l := draw.NewLayout(drawtest.Failed(), nil)
	for _, theme := range []draw.Theme{draw.ThemeAuto, draw.ThemeDark} {
		m, err := png.DrawLayout(l, &png.Options{Scale: 3, Theme: theme})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range l.Nodes {
			if n.Status == draw.StatusNone {
				continue
			}
			fill, stroke := theme.Colors(draw.Role(n.Status))
			// Near the lower border, in the middle between its ports.
			x, y := int((n.X+10)*3), int((n.Y+n.H)*3)
			if got := m.RGBAAt(x, y-18); got.R != fill.R || got.G != fill.G || got.B != fill.B {
				t.Errorf("%s is filled with %v, want %v", n.ID, got, fill)
			}
			if n.ID == draw.StartID {
				continue // round there
			}
			if got := m.RGBAAt(x, y); got.R != stroke.R || got.G != stroke.G || got.B != stroke.B {
				t.Errorf("%s has the border %v, want %v", n.ID, got, stroke)
			}
		}
	}
}

func TestDeterministic(t *testing.T) {
	var a, b bytes.Buffer
	opts := &png.Options{Scale: 1}
	if err := errors.Join(png.Encode(&a, drawtest.Nested(), opts), png.Encode(&b, drawtest.Nested(), opts)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two pictures of one graph differ")
	}
}

func TestTransparent(t *testing.T) {
	m, err := png.Draw(drawtest.Linear(), &png.Options{Transparent: true, Scale: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.RGBAAt(1, 1); got.A != 0 {
		t.Errorf("the background is %v", got)
	}
}

func TestALargePictureIsDrawnSmaller(t *testing.T) {
	g := drawtest.Service()
	whole, err := png.Draw(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	size := whole.Bounds().Size()
	limit := size.X * size.Y / 2 // what Scale 1 takes is a quarter
	m, err := png.Draw(g, &png.Options{MaxPixels: limit})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Bounds().Size(); got.X*got.Y > limit || got.X*got.Y < limit*9/10 {
		t.Errorf("%v of at most %d pixels", got, limit)
	}
	l := &draw.Layout{Width: 116, Height: 324} // whose sides are rounded up by much
	for limit := 116 * 324; limit < 4*116*324; limit += 997 {
		m, err := png.DrawLayout(l, &png.Options{MaxPixels: limit})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Bounds().Size(); got.X*got.Y > limit || got.X*got.Y < limit*9/10 {
			t.Errorf("%v of at most %d pixels", got, limit)
		}
	}
	var e *png.SizeError
	if _, err := png.Draw(g, &png.Options{MaxPixels: limit, Scale: 2}); !errors.As(err, &e) {
		t.Errorf("a scale that was asked for: %v", err)
	}
}

func TestErrors(t *testing.T) {
	g := drawtest.Linear()
	var out bytes.Buffer
	var size *png.SizeError
	if err := png.Encode(&out, g, &png.Options{MaxPixels: 100}); !errors.As(err, &size) || size.MaxPixels != 100 {
		t.Errorf("size: %v", err)
	}
	if err := png.Encode(&out, g, &png.Options{Scale: 1e9}); !errors.As(err, &size) {
		t.Errorf("scale: %v", err)
	}
	if err := png.Encode(&out, g, &png.Options{Scale: -1}); err == nil {
		t.Error("a negative scale is accepted")
	}
	if err := png.Encode(&out, g, &png.Options{Font: []byte("not a font")}); err == nil {
		t.Error("a broken font is accepted")
	}
	if out.Len() > 0 {
		t.Error("failures were written to")
	}
}

func BenchmarkEncode(b *testing.B) {
	g := drawtest.Service()
	for b.Loop() {
		if _, err := png.Draw(g, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleEncode() {
	g := &draw.Graph{
		Nodes: []draw.Node{{ID: "hello"}},
		Edges: []draw.Edge{{From: draw.StartID, To: "hello"}, {From: "hello", To: draw.EndID}},
	}
	f, err := os.CreateTemp("", "*.png")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(f.Name())
	if err := png.Encode(f, g, &png.Options{Theme: draw.ThemeDark}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Close())
	// Output: <nil>
}
