package console

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/rivo/uniseg"
)

// Colour is one of a terminal's colours; those that a theme has, so that they are legible on it.
type Colour string

// The colours that mean something, and the weight of heads.
const (
	Green  Colour = "32"
	Yellow Colour = "33"
	Red    Colour = "31"
	Bold   Colour = "1"
)

// style is what a terminal shows, as its environment says.
type style struct {
	colours bool
	ascii   bool // nothing else
}

// styleOf reads what https://no-color.org and the locale say. A locale that isn't set says
// nothing: containers have none.
func styleOf(env func(string) string) style {
	locale := strings.ToLower(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")))
	return style{
		colours: env("NO_COLOR") == "" && env("TERM") != "dumb",
		ascii:   runtime.GOOS != "windows" && locale != "" && !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8"),
	}
}

func environment() style { return styleOf(os.Getenv) }

// signs are what the commands write of their own beyond ASCII, with what stands for it.
var signs = strings.NewReplacer("…", "...", "✓", "+", "✗", "!", "×", "x", "→", "->", "·", "-", "—", "-", "›", ">")

func (s style) text(text string) string {
	if s.ascii {
		return signs.Replace(text)
	}
	return text
}

func (s style) paint(text string, c Colour) string {
	if s.colours && c != "" && text != "" {
		return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
	}
	return text
}

// NotePainted is [Console.Notef] in a colour, where Err is a terminal that has them.
func (c *Console) NotePainted(colour Colour, text string) {
	if c.errTTY {
		text = environment().paint(text, colour)
	}
	c.Notef("%s", text)
}

// gap is between the columns of a table.
const gap = 2

// Table writes rows in columns to Out, the first row being the head; nothing if there are no
// others. colours are those of cells that are a word. Where Out is a terminal that is too narrow
// for the columns, the first cell of each row gets a line of its own, since it is what
// the row is found by, and stays whole; the others stand below it, the widest cut if they
// must be. Where Out is no terminal nothing is cut, nor has a colour.
func (c *Console) Table(rows [][]string, colours map[string]Colour) {
	s, width := style{}, 0
	if c.outTTY {
		s, width = environment(), c.Width()
	}
	table(c.Out, rows, colours, s, width)
}

// table writes a table; a width of 0 is that of what has none.
func table(w io.Writer, rows [][]string, colours map[string]Colour, s style, width int) {
	if len(rows) < 2 {
		return
	}
	widths := make([]int, len(rows[0]))
	for i, row := range rows {
		rows[i] = append([]string(nil), row...)
		for j, cell := range row {
			rows[i][j] = s.text(cell)
			widths[j] = max(widths[j], Columns(rows[i][j]))
		}
	}
	total := -gap
	for _, n := range widths {
		total += n + gap
	}
	from := 0 // the first column of the line that has several
	if width > 0 && total > width && len(widths) > 1 {
		from = 1
		shrink(widths[1:], width-gap)
	}
	for i, row := range rows {
		paint := func(cell string) string {
			if i == 0 {
				return s.paint(cell, Bold)
			}
			return s.paint(cell, colours[cell])
		}
		var b strings.Builder
		if from == 1 {
			fmt.Fprintln(w, paint(row[0]))
			b.WriteString(strings.Repeat(" ", gap))
		}
		for j := from; j < len(row); j++ {
			cell := row[j]
			if from == 1 {
				cell = s.text(Fit(cell, widths[j]))
			}
			b.WriteString(paint(cell))
			if j < len(row)-1 {
				b.WriteString(strings.Repeat(" ", max(0, widths[j]-Columns(cell))+gap))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// shrink takes columns from the widest until all fit, and leaves each a few.
func shrink(widths []int, room int) {
	const least = 4
	for {
		total, widest := -gap, 0
		for i, n := range widths {
			total += n + gap
			if n > widths[widest] {
				widest = i
			}
		}
		if total <= room || widths[widest] <= least {
			return
		}
		widths[widest]--
	}
}

// Columns is how wide a text is in a terminal: wide characters take two columns, and what
// is drawn upon the one before takes none.
func Columns(text string) int { return uniseg.StringWidth(text) }
