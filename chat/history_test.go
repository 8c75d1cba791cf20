package chat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/field"
)

func withID(id string, m chat.Message) chat.Message { m.ID = id; return m }

func texts(h *chat.History) string {
	var all []string
	for m := range h.All() {
		all = append(all, m.Text())
	}
	return strings.Join(all, " ")
}

// task is a copy of h as a task gets it.
func task(h *chat.History) *chat.History {
	c := *h
	c.Merger().Bind()
	return &c
}

// commit folds what tasks wrote.
func commit(t interface{ Fatal(...any) }, h *chat.History, tasks ...*chat.History) error {
	var changes []field.Change
	for _, task := range tasks {
		c, err := task.Merger().Change()
		if err != nil {
			t.Fatal(err)
		}
		if c != nil {
			changes = append(changes, c)
		}
	}
	if len(changes) > 1 {
		if _, _, err := h.Merger().(field.Checker).Check(changes); err != nil {
			return err
		}
	}
	for _, c := range changes {
		if err := h.Merger().Apply(c); err != nil {
			t.Fatal(err)
		}
	}
	return nil
}

func TestANewMessageIsAppendedAndAKnownOneReplaced(t *testing.T) {
	var h chat.History
	h.Add(withID("a", chat.User("one")), withID("b", chat.Assistant("two")))
	h.Add(withID("a", chat.User("uno")), withID("c", chat.User("three")))
	if got := texts(&h); got != "uno two three" {
		t.Errorf("got %s", got)
	}
	if h.Replace(withID("x", chat.User("no"))) || !h.Replace(withID("b", chat.Assistant("dos"))) {
		t.Error("Replace doesn't tell a known message from an unknown one")
	}
	h.Remove("a", "nobody")
	if got := texts(&h); got != "dos three" || h.Len() != 2 || h.Last().Text() != "three" {
		t.Errorf("got %s", got)
	}
	h.ReplaceLastUser(chat.User("drei"))
	h.Add(withID("d", chat.Assistant("four")))
	h.ReplaceLastUser(chat.User("five"))
	if got := texts(&h); got != "dos drei four five" {
		t.Errorf("got %s", got)
	}
	h.Overwrite(chat.User("new"))
	if m, ok := h.Get(h.Last().ID); !ok || m.Text() != "new" || h.Len() != 1 {
		t.Errorf("got %s", texts(&h))
	}
	h.Clear()
	if h.Len() != 0 || h.Last().Role != "" || !h.IsZero() {
		t.Errorf("got %s", texts(&h))
	}
}

// TRPC-16: replacing the user's last message and appending are one update.
func TestMessageOperationsAreAtomic(t *testing.T) {
	h := chat.Of(chat.User("  hi "))
	n := task(&h)
	n.ReplaceLastUser(chat.User("hi"))
	n.Add(chat.Assistant("hello"))
	if err := commit(t, &h, n); err != nil {
		t.Fatal(err)
	}
	if got := texts(&h); got != "hi hello" {
		t.Errorf("got %q", got)
	}
}

// SYN-03: a node may return what it received together with what is new.
func TestMessagesThatAreKnownAreNoWrite(t *testing.T) {
	h := chat.Of(chat.User("a"), chat.Assistant("b"))
	n := task(&h)
	n.Add(h.Slice()...)
	if c, err := n.Merger().Change(); c != nil || err != nil {
		t.Errorf("change %v, %v", c, err)
	}
	n.Add(chat.User("c"))
	if err := commit(t, &h, n); err != nil || texts(&h) != "a b c" {
		t.Errorf("got %s, %v", texts(&h), err)
	}
}

func TestIDsAreTheSameInEveryFold(t *testing.T) {
	ids := func() []string {
		var h chat.History
		a, b := task(&h), task(&h)
		a.Add(chat.User("x"), chat.User("x"))
		b.Add(chat.User("x"))
		if err := commit(t, &h, a, b); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for m := range h.All() {
			ids = append(ids, m.ID)
		}
		return ids
	}
	first := ids()
	if len(first) != 3 || len(slices.Compact(slices.Sorted(slices.Values(first)))) != 3 {
		t.Errorf("IDs %q: three different ones expected", first)
	}
	if again := ids(); !slices.Equal(first, again) {
		t.Errorf("first %q, then %q", first, again)
	}
}

func TestATaskMayChangeWhatItJustAdded(t *testing.T) {
	var h chat.History
	n := task(&h)
	n.Add(chat.User("a"), chat.User("b"), chat.User("c"))
	id := slices.Collect(n.All())[1].ID
	n.Add(withID(id, chat.User("B")))
	n.Remove(slices.Collect(n.All())[2].ID)
	if got := texts(n); got != "a B" {
		t.Fatalf("the task sees %s", got)
	}
	if err := commit(t, &h, n); err != nil || texts(&h) != "a B" {
		t.Errorf("committed %s, %v", texts(&h), err)
	}
}

func TestTasksThatContradictEachOther(t *testing.T) {
	add := func(id, text string) func(*chat.History) {
		return func(h *chat.History) { h.Add(withID(id, chat.User(text))) }
	}
	for name, c := range map[string]struct {
		a, b func(*chat.History)
		ok   bool
	}{
		"two new messages":          {add("", "x"), add("", "y"), true},
		"one ID, equal":             {add("k", "x"), add("k", "x"), true},
		"one ID, different":         {add("k", "x"), add("k", "y"), false},
		"one replaces, one removes": {add("k", "x"), func(h *chat.History) { h.Remove("k") }, false},
		"both remove":               {func(h *chat.History) { h.Remove("k") }, func(h *chat.History) { h.Remove("k") }, true},
		"overwrites, equal":         {func(h *chat.History) { h.Overwrite(chat.User("x")) }, func(h *chat.History) { h.Overwrite(chat.User("x")) }, true},
		"overwrites, different":     {func(h *chat.History) { h.Overwrite(chat.User("x")) }, func(h *chat.History) { h.Overwrite(chat.User("y")) }, false},
		"one clears, one adds":      {func(h *chat.History) { h.Clear() }, add("", "x"), true},
	} {
		h := chat.Of(withID("k", chat.User("k")))
		a, b := task(&h), task(&h)
		c.a(a)
		c.b(b)
		if err := commit(t, &h, a, b); (err == nil) != c.ok {
			t.Errorf("%s: check %v", name, err)
		}
	}
}

func TestAHistoryThatWasAssignedIsRefused(t *testing.T) {
	h := chat.Of(chat.User("a"))
	n, other := task(&h), task(&h)
	*n = *other
	if _, err := n.Merger().Change(); !errors.Is(err, field.ErrReplaced) {
		t.Errorf("a copy of another: %v", err)
	}
	n = task(&h)
	*n = chat.History{}
	if _, err := n.Merger().Change(); !errors.Is(err, field.ErrReplaced) {
		t.Errorf("a zero one: %v", err)
	}
}

func TestACopyDoesNotShareWhatIsPending(t *testing.T) {
	a := chat.Of(chat.User("x"))
	b := a
	a.Add(chat.User("a"))
	b.Add(chat.User("b"))
	if texts(&a) != "x a" || texts(&b) != "x b" {
		t.Errorf("%s, %s", texts(&a), texts(&b))
	}
}

// SONI-15: what comes from outside becomes messages.
func TestUpdatesInJSON(t *testing.T) {
	for name, c := range map[string]struct{ update, want string }{
		"a list":       {`[{"role":"user","content":"b"},{"type":"ai","content":"c"}]`, "a b c"},
		"one message":  {`{"type":"human","content":"b"}`, "a b"},
		"a text":       {`"b"`, "a b"},
		"a known ID":   {`[{"type":"human","id":"k","content":"A"}]`, "A"},
		"a removal":    {`[{"type":"remove","id":"k"},{"type":"human","content":"b"}]`, "b"},
		"remove all":   {`[{"type":"human","content":"z"},{"type":"remove","id":"__remove_all__"},{"type":"human","content":"b"}]`, "b"},
		"an overwrite": {`{"$overwrite":[{"type":"human","content":"b"}]}`, "b"},
		"nothing":      {`[]`, "a"},
	} {
		h := chat.Of(withID("k", chat.User("a")))
		ch, err := h.Merger().DecodeChange([]byte(c.update))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		n := task(&h)
		if err := n.Merger().Write(ch); err != nil {
			t.Fatal(err)
		}
		if err := h.Merger().Apply(ch); err != nil || texts(&h) != c.want || texts(n) != c.want {
			t.Errorf("%s: %s, as a task's write %s, %v; want %s", name, texts(&h), texts(n), err, c.want)
		}
	}
	for _, bad := range []string{``, `7`, `[{"type":"robot"}]`, `[{"type":"remove"}]`, `{"$overwrite":7}`, `[[]]`} {
		if _, err := new(chat.History).Merger().DecodeChange([]byte(bad)); err == nil {
			t.Errorf("the update %s was taken", bad)
		}
	}
}

// Whatever tasks do, the committed history is that of doing it one after the
// other in plan order on a plain slice, live and replayed from JSON.
func TestHistoryAgainstASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var live, replayed chat.History
		var model []chat.Message
		for step := range rapid.IntRange(1, 4).Draw(t, "steps") {
			base := slices.Clone(model)
			var tasks []*chat.History
			for i := range rapid.IntRange(1, 3).Draw(t, "tasks") {
				n := task(&live)
				view := slices.Clone(base)
				for range rapid.IntRange(0, 4).Draw(t, "verbs") {
					id := rapid.SampledFrom([]string{"", fmt.Sprint("own", i), fmt.Sprint("s", step, "t", i)}).Draw(t, "id")
					switch rapid.IntRange(0, 9).Draw(t, "verb") {
					case 0, 1:
						if id != "" {
							n.Remove(id)
							view = slices.DeleteFunc(view, func(m chat.Message) bool { return m.ID == id })
						}
					case 2:
						if i == 0 {
							n.Clear()
							view = nil
						}
					default:
						m := withID(id, chat.User(rapid.StringMatching(`[a-c]`).Draw(t, "text")))
						n.Add(m)
						view = put(view, m)
					}
				}
				if got, want := texts(n), plain(view); got != want {
					t.Fatalf("task %d sees %q, want %q", i, got, want)
				}
				c, err := n.Merger().Change()
				if err != nil {
					t.Fatal(err)
				}
				tasks = append(tasks, n)
				if c == nil {
					continue
				}
				data, err := c.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				decoded, err := replayed.Merger().DecodeChange(data)
				if err != nil {
					t.Fatalf("%v: %s", err, data)
				}
				if err := replayed.Merger().Apply(decoded); err != nil {
					t.Fatal(err)
				}
				model = view
			}
			if err := commit(t, &live, tasks...); err != nil {
				t.Skip("contradiction")
			}
			a, _ := json.Marshal(live)
			b, _ := json.Marshal(replayed)
			if string(a) != string(b) {
				t.Fatalf("live %s\nreplayed %s", a, b)
			}
			var back chat.History
			if err := json.Unmarshal(a, &back); err != nil || !reflect.DeepEqual(back.Slice(), live.Slice()) {
				t.Fatalf("read back %v, %v", back, err)
			}
			if len(tasks) == 1 && texts(&live) != plain(model) {
				t.Fatalf("committed %q, want %q", texts(&live), plain(model))
			}
			model = live.Slice()
		}
	})
}

func put(view []chat.Message, m chat.Message) []chat.Message {
	if i := slices.IndexFunc(view, func(v chat.Message) bool { return m.ID != "" && v.ID == m.ID }); i >= 0 {
		view[i] = m
		return view
	}
	return append(view, m)
}

func plain(view []chat.Message) string {
	var all []string
	for _, m := range view {
		all = append(all, m.Text())
	}
	return strings.Join(all, " ")
}

func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		var h chat.History
		for i := range n {
			h.Add(withID(fmt.Sprint(i), chat.User("hello")))
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := h
				n.Merger().Bind()
				n.Add(withID("new", chat.Assistant("hello")))
				c, _ := n.Merger().Change()
				committed := h
				if err := committed.Merger().Apply(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What JSON can't hold is not in a live conversation either: it would be another
// one once it was stored.
func TestALiveConversationIsTheStoredOne(t *testing.T) {
	bad := "caf\xe9\xff"
	call := chat.ToolCall{ID: "1" + bad, Name: bad, Args: bad}
	said := chat.Assistant(bad, call)
	said.Parts = append([]chat.Part{chat.Reasoning{Text: bad}, chat.File{Name: bad, Source: chat.Source{FileID: "f"}}}, said.Parts...)
	said.Name = bad
	messages := []chat.Message{chat.User(bad), said, chat.Result(call, chat.Text{Text: bad}, chat.Audio{Transcript: bad, Source: chat.Source{FileID: "f"}}), {ID: bad, Role: chat.RoleUser}}
	var h, back chat.History
	h.Add(messages...)
	data, err := json.Marshal(h)
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if err != nil || !reflect.DeepEqual(h.Slice(), back.Slice()) {
		t.Errorf("%v\nlive   %+v\nstored %+v", err, h.Slice(), back.Slice())
	}
	if got := chat.AppendMessages(messages...).Apply(nil); !reflect.DeepEqual(got, back.Slice()) {
		t.Errorf("as an update %+v", got)
	}
	if said.Parts[2] != (chat.Text{Text: bad}) {
		t.Error("the message that was added was altered")
	}
}
