package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/jsonscan"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// Titled says where a graph's threads have their title: in a field of the state, or at a place in one,
// such as topic, or order.lines[0].name. The default is what a person has said first in
// messages. A title in a thread's metadata goes before it.
func Titled(path string) GraphOption { return func(s *served) { s.title = path } }

// checkTitle reports a title that the graph's state can't have.
func (g *served) checkTitle() error {
	if g.title == "" {
		return nil
	}
	raw, err := g.JSONSchema(graph.JSONState)
	if err != nil {
		return err
	}
	fields := objectOf(objectOf(raw)["properties"])
	steps := stepsOf(g.title)
	if len(steps) == 0 || fields != nil && fields[steps[0]] == nil {
		return fmt.Errorf("server.Titled(%q): the state of graph %q has no such field: it has %s", g.title, g.name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
	}
	return nil
}

const (
	mostTitle = 100  // characters
	mostSaid  = 8000 // bytes of what a state says that are searched
)

// settledSaying is a settle that also notes what a thread's state says; no snapshot is no state.
func settledSaying(g *served, snap *snapshot, settle func(*db.Thread)) func(*db.Thread) {
	if g == nil {
		return settle
	}
	title, says := "", ""
	if snap != nil {
		title, says = g.said(snap.State)
	}
	return func(t *db.Thread) {
		settle(t)
		t.Title, t.Says = &title, &says
	}
}

// said returns the title that a state gives its thread, and the texts in it: of many the
// beginning and the end. It decodes no others: a state may be large, and each run ends with this.
func (g *served) said(state json.RawMessage) (title, says string) {
	if g.title != "" {
		title = inOneLine(at(state, stepsOf(g.title)))
	} else {
		title = firstSaid(state)
	}
	var first, last []json.RawMessage
	atFirst, atLast := 0, 0 // bytes
	texts(state, 0, func(text json.RawMessage) {
		if atFirst < mostSaid/4 {
			first, atFirst = append(first, text), atFirst+len(text)
			return
		}
		last, atLast = append(last, text), atLast+len(text)
		for atLast-len(last[0]) >= 3*mostSaid/4 {
			atLast -= len(last[0])
			last = last[1:]
		}
	})
	if says = inLines(append(first, last...)); len(says) > mostSaid {
		says = strings.ToValidUTF8(says[:mostSaid/4], "") + "\n" + strings.ToValidUTF8(says[len(says)-3*mostSaid/4:], "")
	}
	return title, says
}

// firstSaid returns what a person has said first.
func firstSaid(state json.RawMessage) (title string) {
	jsonscan.Elements(at(state, []string{"messages"}), func(message []byte) bool {
		var m struct{ Type, Role, Content json.RawMessage }
		jsonscan.Members(message, func(key, value []byte) bool {
			switch string(key) {
			case "type":
				m.Type = value
			case "role":
				m.Role = value
			case "content":
				m.Content = value
			}
			return true
		})
		if string(m.Type) != `"human"` && string(m.Role) != `"user"` {
			return true
		}
		title = inOneLine(m.Content)
		return false
	})
	return title
}

// inOneLine returns a value as a title: its texts in one line, or its JSON.
func inOneLine(v json.RawMessage) string {
	var all []json.RawMessage
	texts(v, 0, func(text json.RawMessage) { all = append(all, text) })
	text := strings.Join(strings.Fields(inLines(all)), " ")
	if len(v) > 0 && !strings.ContainsRune(`"[{n`, rune(v[0])) { // a number, or whether something is so
		text = string(v)
	}
	if utf8.RuneCountInString(text) > mostTitle {
		text = string([]rune(text)[:mostTitle-1]) + "…"
	}
	return text
}

func inLines(texts []json.RawMessage) string {
	var b strings.Builder
	for _, raw := range texts {
		if text, _ := jsonscan.Text(raw); text != "" {
			b.WriteString(text)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// maxNested is how deep texts are looked for: each level is read once more.
const maxNested = 32

// texts calls take with the texts of JSON: of messages and their parts with what is said,
// and not with of what kind they are.
func texts(v json.RawMessage, depth int, take func(text json.RawMessage)) {
	if len(v) == 0 || depth > maxNested {
		return
	}
	switch v[0] {
	case '"':
		take(v)
	case '[':
		jsonscan.Elements(v, func(e []byte) bool { texts(e, depth+1, take); return true })
	case '{':
		typed := false
		jsonscan.Members(v, func(key, value []byte) bool {
			typed = string(key) == "type" && value[0] == '"'
			return !typed
		})
		jsonscan.Members(v, func(key, value []byte) bool {
			if !typed || string(key) != "type" && string(key) != "id" {
				texts(value, depth+1, take)
			}
			return true
		})
	}
}
