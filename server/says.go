package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/graph"
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
// beginning and the end.
func (g *served) said(state json.RawMessage) (title, says string) {
	var whole any
	if json.Unmarshal(state, &whole) != nil {
		return "", ""
	}
	if g.title != "" {
		title = inOneLine(at(whole, stepsOf(g.title)))
	} else {
		title = firstSaid(whole)
	}
	var b strings.Builder
	texts(whole, &b)
	if says = b.String(); len(says) > mostSaid {
		says = strings.ToValidUTF8(says[:mostSaid/4], "") + "\n" + strings.ToValidUTF8(says[len(says)-3*mostSaid/4:], "")
	}
	return title, says
}

// firstSaid returns what a person has said first.
func firstSaid(state any) string {
	list, _ := at(state, []string{"messages"}).([]any)
	for _, m := range list {
		m, _ := m.(map[string]any)
		if m["type"] == "human" || m["role"] == "user" {
			return inOneLine(m["content"])
		}
	}
	return ""
}

// inOneLine returns a value as a title: its texts in one line, or its JSON.
func inOneLine(v any) string {
	var b strings.Builder
	switch v := v.(type) {
	case nil:
	case string, []any, map[string]any:
		texts(v, &b)
	default:
		data, _ := json.Marshal(v) // which was JSON
		b.Write(data)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	if utf8.RuneCountInString(text) > mostTitle {
		text = string([]rune(text)[:mostTitle-1]) + "…"
	}
	return text
}

// texts writes the texts of JSON, each in a line: of messages and their parts what is
// said, and not of what kind they are.
func texts(v any, b *strings.Builder) {
	switch v := v.(type) {
	case string:
		if v != "" {
			b.WriteString(v)
			b.WriteByte('\n')
		}
	case []any:
		for _, e := range v {
			texts(e, b)
		}
	case map[string]any:
		_, typed := v["type"].(string)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !typed || name != "type" && name != "id" {
				texts(v[name], b)
			}
		}
	}
}
