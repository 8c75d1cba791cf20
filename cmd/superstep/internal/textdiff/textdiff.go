// Package textdiff tells the lines apart in which two texts differ.
package textdiff

import (
	"fmt"
	"slices"
	"strings"
)

// maxTable bounds the work for a part that differs: the lines of one text times
// those of the other. Larger parts are shown as removed and added as a whole.
const maxTable = 1 << 22

// edit is a line of a difference.
type edit struct {
	kind byte // ' ', '-' or '+'
	text string
}

// Lines returns how to get from one text to another: lines that begin with a
// space, a minus or a plus, with so many unchanged lines around what differs, and
// "@@ line N @@" (of the new text) where lines are left out. It is empty for
// equal texts.
func Lines(from, to string, around int) []string {
	if from == to {
		return nil
	}
	edits := compare(split(from), split(to))
	keep := make([]bool, len(edits))
	for i, e := range edits {
		if e.kind != ' ' {
			for k := max(0, i-around); k < min(len(edits), i+around+1); k++ {
				keep[k] = true
			}
		}
	}
	var out []string
	line, gap := 1, false
	for i, e := range edits {
		if keep[i] {
			if gap {
				out = append(out, fmt.Sprintf("@@ line %d @@", line))
			}
			out = append(out, string(e.kind)+e.text)
		}
		gap = !keep[i]
		if e.kind != '-' {
			line++
		}
	}
	return out
}

// split returns the lines of a text. What is special about the last one is told
// in it, so that it counts as a difference.
func split(text string) []string {
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	} else {
		lines[last] += " (no line break at the end)"
	}
	return lines
}

func compare(a, b []string) []edit {
	var head, tail []edit
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, edit{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append(tail, edit{' ', a[len(a)-1]})
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	slices.Reverse(tail)
	return slices.Concat(head, middle(a, b), tail)
}

// middle finds the longest common subsequence.
func middle(a, b []string) []edit {
	var out []edit
	if len(a)*len(b) > maxTable {
		for _, l := range a {
			out = append(out, edit{'-', l})
		}
		for _, l := range b {
			out = append(out, edit{'+', l})
		}
		return out
	}
	w := len(b) + 1
	common := make([]int32, (len(a)+1)*w) // of a[i:] and b[j:]
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i*w+j] = common[(i+1)*w+j+1] + 1
			} else {
				common[i*w+j] = max(common[(i+1)*w+j], common[i*w+j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, edit{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[(i+1)*w+j] >= common[i*w+j+1]:
			out = append(out, edit{'-', a[i]})
			i++
		default:
			out = append(out, edit{'+', b[j]})
			j++
		}
	}
	return out
}
