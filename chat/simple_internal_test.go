package chat

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/superstep-dev/superstep/internal/plainjson"
)

// A message that is a text and nothing else is written and read without encoding/json, and
// not otherwise than with it: the hash of what is written is the ID of a message without.
func TestASimpleMessageIsWrittenAndReadAsAnyOther(t *testing.T) {
	for _, text := range []string{"a", "", " <b> & \"c\"\n", "ü\u2028", "\x7f", "\xff"} {
		for _, m := range []Message{
			User(text), AI(text), {ID: text, Role: RoleUser, Name: text, Parts: []Part{Text{Text: text}}},
			{ID: "1", Role: RoleAssistant, Parts: []Part{Text{Text: text}}, Metadata: map[string]string{text: text}},
			{Role: RoleUser, Parts: []Part{Text{Text: text}}, Metadata: map[string]string{}},
		} {
			if len(m.Parts) == 0 {
				continue
			}
			w := wire{Type: map[Role]string{RoleUser: "human", RoleAssistant: "ai"}[m.Role], ID: m.ID, Name: m.Name, Metadata: m.Metadata}
			w.Content, _ = plainjson.Marshal(text)
			want, err := plainjson.Marshal(w)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := m.appendSimple(nil)
			if !ok || string(got) != string(want) {
				t.Errorf("%q is written as %s, %v; want %s", text, got, ok, want)
			}
			var back wire
			if err := json.Unmarshal(got, &back); err != nil {
				t.Fatal(err)
			}
			slow, err := back.message()
			if err != nil {
				t.Fatal(err)
			}
			if fast, ok := readSimple(got); ok != (text != "") || ok && !reflect.DeepEqual(fast, slow) {
				t.Errorf("%s reads as %#v, %v; want %#v", got, fast, ok, slow)
			}
		}
	}
	for _, other := range []string{
		`{"type":"tool","content":"a"}`, `{"type":"human"}`, `{"type":"human","content":"a","x":1}`, `{"type":"human","content":["a"]}`,
		`{"type":"human","content":"a","metadata":null}`, `{"type":"human","content":"a","metadata":{"a":1}}`, `{"Type":"human","content":"a"}`, `{"type":"human","content":null}`,
	} {
		if m, ok := readSimple([]byte(other)); ok {
			t.Errorf("%s is read as %#v", other, m)
		}
	}
}
