package chat

import (
	"slices"
	"unicode/utf8"
)

// ValidUTF8 returns m with U+FFFD for each byte of its texts that isn't UTF-8, such
// as those of a tool that reads a file in Latin-1: JSON can't hold them, so the
// message would be another one once it was stored. A [History] does this to all
// that is added. M isn't altered.
func (m Message) ValidUTF8() Message {
	m.ID, m.Name, m.Parts = valid(m.ID), valid(m.Name), validParts(m.Parts)
	return m
}

func validParts(parts []Part) []Part {
	copied := false
	for i, p := range parts {
		v, same := validPart(p)
		if same {
			continue
		}
		if !copied {
			parts, copied = slices.Clone(parts), true
		}
		parts[i] = v
	}
	return parts
}

// validPart reports whether a part was valid as it is.
func validPart(part Part) (_ Part, same bool) {
	switch p := part.(type) {
	case Text:
		if utf8.ValidString(p.Text) {
			return part, true
		}
		p.Text = valid(p.Text)
		return p, false
	case Reasoning:
		same = utf8.ValidString(p.Text)
		p.Text = valid(p.Text)
		return p, same
	case Audio:
		same = utf8.ValidString(p.Transcript)
		p.Transcript = valid(p.Transcript)
		return p, same
	case File:
		same = utf8.ValidString(p.Name)
		p.Name = valid(p.Name)
		return p, same
	case Citation:
		v := Citation{valid(p.URL), valid(p.Title), valid(p.Text), p.Start, p.End, valid(p.Provider), valid(p.Data)}
		return v, v == p
	case Native:
		v := Native{valid(p.Provider), valid(p.Type), valid(p.Data)}
		return v, v == p
	case ToolCall:
		same = utf8.ValidString(p.ID) && utf8.ValidString(p.Name) && utf8.ValidString(p.Args)
		p.ID, p.Name, p.Args = valid(p.ID), valid(p.Name), valid(p.Args)
		return p, same
	case ToolResult:
		same = utf8.ValidString(p.CallID) && utf8.ValidString(p.Name)
		for _, c := range p.Content {
			_, one := validPart(c)
			same = same && one
		}
		if !same {
			p.CallID, p.Name, p.Content = valid(p.CallID), valid(p.Name), validParts(p.Content)
		}
		return p, same
	}
	return part, true
}

// valid is what encoding/json makes of a string.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
