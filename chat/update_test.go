package chat_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/chat"
)

// An update makes the same of a list of messages as of a history, as it is and
// read back from JSON.
func TestUpdatesOfListsAndHistoriesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var u chat.Update
		for range rapid.IntRange(0, 6).Draw(t, "operations") {
			id := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "id")
			m := withID(id, chat.User(rapid.StringMatching(`[x-z]`).Draw(t, "text")))
			if rapid.Bool().Draw(t, "assistant") {
				m.Role = chat.RoleAssistant
			}
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				if id != "" {
					u = u.Then(chat.RemoveMessages(id))
				}
			case 1:
				u = u.Then(chat.RemoveAllMessages())
			case 2:
				u = u.Then(chat.ReplaceLastUser(m))
			default:
				u = u.Then(chat.AppendMessages(m))
			}
		}
		start := []chat.Message{withID("a", chat.User("1")), withID("k", chat.Assistant("2"))}
		before := append([]chat.Message(nil), start...)
		data, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		var back chat.Update
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		h := chat.Of(start...)
		c, err := h.Merger().DecodeChange(data)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Merger().Apply(c); err != nil {
			t.Fatal(err)
		}
		list := u.Apply(start)
		if !reflect.DeepEqual(start, before) {
			t.Fatalf("the list was altered: %v", start)
		}
		if again := back.Apply(start); len(list)+len(again)+h.Len() > 0 && (!reflect.DeepEqual(list, again) || !reflect.DeepEqual(list, h.Slice())) {
			t.Fatalf("%s\nlist    %v\nread    %v\nhistory %v", data, list, again, h.Slice())
		}
	})
}

// TRPC-16
func TestOneUpdateReplacesAndAppends(t *testing.T) {
	got := chat.ReplaceLastUser(chat.User("hi")).Then(chat.AppendMessages(chat.Assistant("hello"))).Apply([]chat.Message{withID("u", chat.User("  hi "))})
	if plain(got) != "hi hello" || got[0].ID != "u" || got[1].ID == "" {
		t.Errorf("%v", got)
	}
	if !(chat.Update{}).IsZero() || chat.RemoveAllMessages().IsZero() {
		t.Error("IsZero")
	}
}
