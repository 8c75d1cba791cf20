// Package sessiontest has the tests that every [session.Service] passes.
package sessiontest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/session"
)

// Backend is what is tested.
type Backend struct {
	// New returns a service without any data, whose sessions expire after ttl;
	// 0 means never. The test closes it.
	New func(t *testing.T, ttl time.Duration) session.Service

	// Stored, if set, returns how many sessions the service has in its database,
	// expired ones among them.
	Stored func(t *testing.T, s session.Service) int

	// Reopen returns one more service on the data of another, as a second process
	// would have it. Nil means that data end with their service.
	Reopen func(t *testing.T, s session.Service) session.Service
}

// Run runs the tests.
func Run(t *testing.T, b Backend) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Backend)
	}{
		{"a session is created and found", create},
		{"names may hold anything", names},
		{"events are appended in order", appendEvents},
		{"an event comes back as it was", roundTrip},
		{"windows choose events", windows},
		{"windows go by the exact time", exactTimes},
		{"an event with a known ID is not appended again", idempotent},
		{"state has three scopes", scopes},
		{"what is temporary or describes events isn't state", notState},
		{"an event and its state are one", atomic},
		{"no value is a value removed", noValue},
		{"a value as deep as JSON may be leaves the session readable", deep},
		{"sessions are listed", list},
		{"a deleted session is gone", remove},
		{"an unknown session is an error", unknown},
		{"what can't be kept is refused", invalid},
		{"no event is lost when many append", concurrent},
		{"one of many creates a session", race},
		{"sessions that come and go are whole", comeAndGo},
		{"a session expires", expire},
		{"a session that is kept does not expire", keep},
		{"many sessions that have expired are removed", swept},
		{"a session that soon expires is made all the same", soon},
		{"data outlive their service", restart},
		{"calls end with their context and their service", ends},
		{"a list ends with its context", listEnds},
		{"calls that are cut short can be repeated and hold up nobody", cutShort},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, b) })
	}
}

func open(t *testing.T, b Backend) session.Service { return openTTL(t, b, 0) }

func openTTL(t *testing.T, b Backend, ttl time.Duration) session.Service {
	t.Helper()
	s := b.New(t, ttl)
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, session.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

var ann = session.Key{App: "app", User: "ann", ID: "s1"}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func made(t *testing.T, s session.Service, key session.Key) *session.Session {
	t.Helper()
	sess, err := s.Create(t.Context(), key, nil)
	must(t, err)
	return sess
}

func get(t *testing.T, s session.Service, key session.Key, w ...session.Window) *session.Session {
	t.Helper()
	sess, err := s.Get(t.Context(), key, w...)
	must(t, err)
	return sess
}

func say(text string) *session.Event {
	m := chat.User(text)
	return &session.Event{Kind: session.KindInput, Author: session.AuthorUser, Message: &m}
}

func write(values map[string]json.RawMessage) *session.Event {
	return &session.Event{Kind: session.KindState, Author: "node", StateDelta: values}
}

type state = map[string]json.RawMessage

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func texts(events []session.Event) string {
	var out []string
	for _, e := range events {
		if e.Message != nil {
			out = append(out, e.Message.Text())
		}
	}
	return strings.Join(out, " ")
}

func wantState(t *testing.T, s session.Service, key session.Key, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for k, v := range get(t, s, key).State {
		got[k] = string(v)
	}
	if !maps.Equal(got, want) {
		t.Errorf("state of %v: %v, want %v", key, got, want)
	}
}

func create(t *testing.T, b Backend) {
	s := open(t, b)
	made, err := s.Create(t.Context(), ann, state{"a": raw(`1`), "user:lang": raw(`"de"`), "app:motd": raw(`{"x":[1,2]}`), "temp:x": raw(`1`)})
	must(t, err)
	if made.Key != ann || made.Created.IsZero() || made.Updated.IsZero() || made.Seq != 0 || len(made.Events) != 0 {
		t.Errorf("%+v", made)
	}
	found := get(t, s, ann)
	if !found.Created.Equal(made.Created) || !reflect.DeepEqual(found.State, made.State) {
		t.Errorf("found %+v\nmade %+v", found, made)
	}
	wantState(t, s, ann, map[string]string{"a": `1`, "user:lang": `"de"`, "app:motd": `{"x":[1,2]}`})
	_, err = s.Create(t.Context(), ann, nil)
	exists := new(session.ExistsError)
	if !errors.Is(err, session.ErrExists) || !errors.As(err, &exists) || exists.Key != ann {
		t.Errorf("made again: %v", err)
	}
	first, err := s.Create(t.Context(), session.Key{App: "app", User: "ann"}, nil)
	must(t, err)
	second, err := s.Create(t.Context(), session.Key{App: "app", User: "ann"}, nil)
	must(t, err)
	if first.ID == "" || first.ID == second.ID {
		t.Errorf("fresh IDs %q and %q", first.ID, second.ID)
	}
}

func names(t *testing.T, b Backend) {
	s := open(t, b)
	// Pairs that a careless joining of names would take for one.
	keys := []session.Key{
		{App: "a/b", User: "c", ID: "d"}, {App: "a", User: "b/c", ID: "d"}, {App: "a", User: "b", ID: "c/d"},
		{App: "a", User: "b", ID: "d"}, {App: "a", User: "b", ID: "d/events"}, {App: "a", User: "b", ID: "d%2Fevents"},
		{App: "a", User: "b", ID: "D"}, {App: "a:", User: "b", ID: "*"}, {App: "a", User: "b", ID: "?"},
		{App: "ä", User: "日本", ID: "'; DROP TABLE x; --"}, {App: "a", User: " ", ID: " "}, {App: "a", User: "b", ID: strings.Repeat("x", session.MaxName)},
	}
	for i, k := range keys {
		made(t, s, k)
		must(t, s.AppendEvent(t.Context(), k, write(state{"n": raw(fmt.Sprint(i)), "user:n": raw(fmt.Sprint(i)), "odd key {}'": raw(`true`)})))
	}
	for i, k := range keys {
		sess := get(t, s, k)
		if string(sess.State["n"]) != fmt.Sprint(i) || len(sess.Events) != 1 || sess.Key != k || string(sess.State["odd key {}'"]) != "true" {
			t.Errorf("%v: %+v", k, sess)
		}
	}
}

func appendEvents(t *testing.T, b Backend) {
	s := open(t, b)
	before := made(t, s, ann)
	for i := range 5 {
		ev := say(fmt.Sprint("m", i))
		must(t, s.AppendEvent(t.Context(), ann, ev))
		if ev.Seq != int64(i+1) || ev.ID == "" || ev.Time.IsZero() {
			t.Errorf("event %d: %+v", i, ev)
		}
	}
	sess := get(t, s, ann)
	if texts(sess.Events) != "m0 m1 m2 m3 m4" || sess.Seq != 5 || sess.Updated.Before(before.Updated) {
		t.Errorf("%+v", sess)
	}
	for i, e := range sess.Events {
		if e.Seq != int64(i+1) || e.Message.ID == "" {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	synced := say("m5")
	synced.Synced = 5
	must(t, s.AppendEvent(t.Context(), ann, synced))
	lower := say("m6")
	lower.Synced = 2
	must(t, s.AppendEvent(t.Context(), ann, lower))
	if got := get(t, s, ann, session.Window{Last: -1}); got.Synced != 5 || got.Seq != 7 || got.Events != nil {
		t.Errorf("%+v", got)
	}
}

func roundTrip(t *testing.T, b Backend) {
	s := open(t, b)
	made(t, s, ann)
	m := chat.Assistant("Grüezi \x00 <b>", chat.ToolCall{ID: "c1", Name: "f", Args: `{"a":1.50}`})
	m.ID, m.Model, m.Usage, m.Metadata = "msg_1", "gpt", &chat.Usage{Input: 1, Output: 2}, map[string]string{"k": "v"}
	ev := &session.Event{
		ID: "e1", Run: "r1", Time: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Kind: session.KindModel, Author: "ask", Node: "ask",
		Path: []string{"outer"}, Task: "t", Step: 3, Attempt: 1, Message: &m, Duration: time.Second, InThread: true, Synced: 0,
		Question:   &session.Question{ID: "q", Key: "k", Node: "ask", When: "inside", Value: raw(`{"z":1,"a":2}`)},
		StateDelta: state{session.KeyModelMetadata: raw(`{"node":"ask"}`), "big": raw(`12345678901234567890`)}, Error: "e",
	}
	want := *ev
	must(t, s.AppendEvent(t.Context(), ann, ev))
	ev.Path[0], ev.StateDelta["big"][0] = "changed", '9'
	want.Path, want.Seq = []string{"outer"}, 1
	want.StateDelta = state{session.KeyModelMetadata: raw(`{"node":"ask"}`), "big": raw(`12345678901234567890`)}
	got := get(t, s, ann).Events[0]
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	got.StateDelta["big"][0] = '7'
	if again := get(t, s, ann).Events[0]; !reflect.DeepEqual(again, want) {
		t.Errorf("a copy is not the caller's own: %+v", again)
	}
	wantState(t, s, ann, map[string]string{"big": `12345678901234567890`})
}

func windows(t *testing.T, b Backend) {
	s := open(t, b)
	made(t, s, ann)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 6 {
		ev := say(fmt.Sprint("m", i))
		ev.Time = at.Add(time.Duration(i) * time.Second)
		must(t, s.AppendEvent(t.Context(), ann, ev))
	}
	for name, c := range map[string]struct {
		w    session.Window
		want string
	}{
		"all":                    {session.Window{}, "m0 m1 m2 m3 m4 m5"},
		"none":                   {session.Window{Last: -1}, ""},
		"the last two":           {session.Window{Last: 2}, "m4 m5"},
		"more than there are":    {session.Window{Last: 99}, "m0 m1 m2 m3 m4 m5"},
		"since a time":           {session.Window{Since: at.Add(3 * time.Second)}, "m3 m4 m5"},
		"since between":          {session.Window{Since: at.Add(3500 * time.Millisecond)}, "m4 m5"},
		"since later":            {session.Window{Since: at.Add(time.Hour)}, ""},
		"after a seq":            {session.Window{After: 4}, "m4 m5"},
		"after the last":         {session.Window{After: 6}, ""},
		"after one not there":    {session.Window{After: 60}, ""},
		"the last one since":     {session.Window{Last: 1, Since: at.Add(2 * time.Second)}, "m5"},
		"the last since, fewer":  {session.Window{Last: 5, Since: at.Add(4 * time.Second)}, "m4 m5"},
		"the last of those left": {session.Window{Last: 2, After: 5}, "m5"},
	} {
		if got := texts(get(t, s, ann, c.w).Events); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if _, err := s.Get(t.Context(), ann, session.Window{}, session.Window{}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("two windows: %v", err)
	}
	// More than fits into a page.
	for i := range 300 {
		must(t, s.AppendEvent(t.Context(), ann, say(fmt.Sprint("n", i))))
	}
	sess := get(t, s, ann)
	if len(sess.Events) != 306 || sess.Events[305].Message.Text() != "n299" {
		t.Errorf("%d events", len(sess.Events))
	}
}

// Some databases know times less exactly than Go does, or not all of them.
func exactTimes(t *testing.T, b Backend) {
	s := open(t, b)
	made(t, s, ann)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	year := func(n int) time.Time { return time.Date(n, 6, 1, 0, 0, 0, 0, time.UTC) }
	for _, e := range []struct {
		text string
		at   time.Time
	}{{"past", year(1000)}, {"future", year(9000)}, {"m0", now.Add(900)}, {"m1", now.Add(100)}} {
		ev := say(e.text)
		ev.Time = e.at
		must(t, s.AppendEvent(t.Context(), ann, ev))
	}
	for name, c := range map[string]struct {
		w    session.Window
		want string
	}{
		"between two of a microsecond":           {session.Window{Since: now.Add(500), After: 2}, "m0"},
		"the last between two of a microsecond":  {session.Window{Since: now.Add(500), After: 2, Last: 1}, "m0"},
		"at the very time":                       {session.Window{Since: now.Add(900), After: 2}, "m0"},
		"since the beginning":                    {session.Window{Since: time.Time{}.Add(1), After: 2}, "m0 m1"},
		"since before there were clocks":         {session.Window{Since: year(1500), After: 2}, "m0 m1"},
		"since a time that is far off":           {session.Window{Since: year(3000)}, "future"},
		"the last since a time that is far off":  {session.Window{Since: year(3000), Last: 1}, "future"},
		"since a time after all":                 {session.Window{Since: year(9500)}, ""},
		"the last one since a time that is past": {session.Window{Since: year(1999), Last: 1}, "m1"},
	} {
		if got := texts(get(t, s, ann, c.w).Events); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func idempotent(t *testing.T, b Backend) {
	s := open(t, b)
	made(t, s, ann)
	one := say("one")
	one.ID, one.StateDelta = "e1", state{"n": raw(`1`)}
	must(t, s.AppendEvent(t.Context(), ann, one))
	must(t, s.AppendEvent(t.Context(), ann, write(state{"n": raw(`2`)})))
	again := say("one")
	again.ID, again.StateDelta = "e1", state{"n": raw(`1`)}
	must(t, s.AppendEvent(t.Context(), ann, again))
	if sess := get(t, s, ann); again.Seq != 1 || sess.Seq != 2 || len(sess.Events) != 2 || string(sess.State["n"]) != "2" {
		t.Errorf("seq %d, %+v", again.Seq, sess)
	}
	other := session.Key{App: "app", User: "ann", ID: "s2"}
	made(t, s, other)
	elsewhere := say("one")
	elsewhere.ID = "e1"
	must(t, s.AppendEvent(t.Context(), other, elsewhere))
	if len(get(t, s, other).Events) != 1 {
		t.Error("an ID counts in other sessions")
	}
}

func scopes(t *testing.T, b Backend) {
	s := open(t, b)
	second := session.Key{App: "app", User: "ann", ID: "s2"}
	bob := session.Key{App: "app", User: "bob", ID: "s1"}
	foreign := session.Key{App: "other", User: "ann", ID: "s1"}
	for _, k := range []session.Key{ann, second, bob, foreign} {
		made(t, s, k)
	}
	must(t, s.AppendEvent(t.Context(), ann, write(state{"own": raw(`"o"`), "user:lang": raw(`"de"`), "app:motd": raw(`"hi"`)})))
	wantState(t, s, ann, map[string]string{"own": `"o"`, "user:lang": `"de"`, "app:motd": `"hi"`})
	wantState(t, s, second, map[string]string{"user:lang": `"de"`, "app:motd": `"hi"`})
	wantState(t, s, bob, map[string]string{"app:motd": `"hi"`})
	wantState(t, s, foreign, map[string]string{})
	must(t, s.AppendEvent(t.Context(), bob, write(state{"app:motd": raw(`null`), "user:lang": raw(`"en"`), "own": nil})))
	must(t, s.AppendEvent(t.Context(), ann, write(state{"own": raw(`""`), "user:zero": raw(`0`), "user:lang": raw(` null `)})))
	wantState(t, s, ann, map[string]string{"own": `""`, "user:zero": `0`})
	wantState(t, s, bob, map[string]string{"user:lang": `"en"`})
	// The user's state is there for a session made later.
	third := session.Key{App: "app", User: "ann", ID: "s3"}
	if sess := made(t, s, third); string(sess.State["user:zero"]) != "0" {
		t.Errorf("%v", sess.State)
	}
}

func notState(t *testing.T, b Backend) {
	s := open(t, b)
	made(t, s, ann)
	must(t, s.AppendEvent(t.Context(), ann, write(state{"temp:x": raw(`1`), "_model_metadata": raw(`{}`), "a": raw(`1`)})))
	wantState(t, s, ann, map[string]string{"a": `1`})
	got := get(t, s, ann).Events[0].StateDelta
	if keys := slices.Sorted(maps.Keys(got)); strings.Join(keys, " ") != "_model_metadata a" {
		t.Errorf("the event has %v", keys)
	}
}

func atomic(t *testing.T, b Backend) {
	s := open(t, b)
	made(t, s, ann)
	err := s.AppendEvent(t.Context(), ann, write(state{"a": raw(`1`), "b": raw(`{"broken`)}))
	if !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a value that is no JSON: %v", err)
	}
	gone := session.Key{App: "app", User: "ann", ID: "gone"}
	if err := s.AppendEvent(t.Context(), gone, write(state{"user:a": raw(`1`)})); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("an unknown session: %v", err)
	}
	if sess := get(t, s, ann); sess.Seq != 0 || len(sess.Events) != 0 || len(sess.State) != 0 {
		t.Errorf("%+v", sess)
	}
	// Who reads while others write sees as many events as the counter says.
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 50 {
			if err := s.AppendEvent(context.Background(), ann, write(state{"n": raw(fmt.Sprint(i + 1))})); err != nil {
				t.Error(err)
			}
		}
	})
	for range 20 {
		sess := get(t, s, ann)
		if n := len(sess.Events); n > 0 && (string(sess.State["n"]) != fmt.Sprint(n) || int64(n) != sess.Seq) {
			t.Errorf("%d events, seq %d, n %s", n, sess.Seq, sess.State["n"])
		}
	}
	wg.Wait()
}

func noValue(t *testing.T, b Backend) {
	s := open(t, b)
	_, err := s.Create(t.Context(), ann, state{"a": raw(`1`), "b": raw(`1`), "c": raw(`1`), "d": raw(`1`), "no": raw(``)})
	must(t, err)
	must(t, s.AppendEvent(t.Context(), ann, write(state{"a": nil, "b": raw(``), "c": raw(" \n"), "d": raw(` null`), "user:unknown": nil})))
	wantState(t, s, ann, map[string]string{})
	if got := get(t, s, ann).Events; len(got) != 1 || len(got[0].StateDelta) != 5 {
		t.Errorf("%+v", got)
	}
}

func deep(t *testing.T, b Backend) {
	s := open(t, b)
	made(t, s, ann)
	nested := func(n int) json.RawMessage { return raw(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	must(t, s.AppendEvent(t.Context(), ann, write(state{"a": nested(1000)})))
	// In an event it is deeper still.
	if err := s.AppendEvent(t.Context(), ann, write(state{"b": nested(10_000)})); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("as deep as can be: %v", err)
	}
	if sess := get(t, s, ann); len(sess.Events) != 1 || len(sess.State["a"]) != 2000 || sess.State["b"] != nil {
		t.Errorf("%d events", len(sess.Events))
	}
}

func listed(t *testing.T, s session.Service, app, user string) string {
	t.Helper()
	var ids []string
	for info, err := range s.List(t.Context(), app, user) {
		must(t, err)
		if info.App != app || info.User != user || info.Created.IsZero() {
			t.Errorf("%+v", info)
		}
		ids = append(ids, info.ID)
	}
	return strings.Join(ids, " ")
}

func list(t *testing.T, b Backend) {
	s := open(t, b)
	for _, id := range []string{"b", "a", "ä", "B", "aa"} {
		made(t, s, session.Key{App: "app", User: "ann", ID: id})
	}
	made(t, s, session.Key{App: "app", User: "bob", ID: "x"})
	made(t, s, session.Key{App: "app2", User: "ann", ID: "y"})
	if got := listed(t, s, "app", "ann"); got != "B a aa b ä" {
		t.Errorf("sessions of ann: %s", got)
	}
	if got := listed(t, s, "app", "nobody"); got != "" {
		t.Errorf("sessions of nobody: %s", got)
	}
	must(t, s.AppendEvent(t.Context(), session.Key{App: "app", User: "ann", ID: "a"}, say("hi")))
	for info, err := range s.List(t.Context(), "app", "ann") {
		must(t, err)
		if want := int64(0); info.ID == "a" && info.Seq != 1 || info.ID != "a" && info.Seq != want {
			t.Errorf("%+v", info)
		}
	}
	for range s.List(t.Context(), "app", "ann") {
		break // leaves nothing behind
	}
	for _, err := range s.List(t.Context(), "", "ann") {
		if !errors.Is(err, session.ErrInvalid) {
			t.Errorf("without an app: %v", err)
		}
	}
	// More than fits into a page.
	for i := range 300 {
		made(t, s, session.Key{App: "many", User: "u", ID: fmt.Sprintf("%03d", i)})
	}
	if got := strings.Fields(listed(t, s, "many", "u")); len(got) != 300 || !slices.IsSorted(got) {
		t.Errorf("%d sessions", len(got))
	}
}

func remove(t *testing.T, b Backend) {
	s := open(t, b)
	second := session.Key{App: "app", User: "ann", ID: "s2"}
	made(t, s, ann)
	made(t, s, second)
	must(t, s.AppendEvent(t.Context(), ann, write(state{"own": raw(`1`), "user:u": raw(`1`)})))
	must(t, s.AppendEvent(t.Context(), second, say("stays")))
	must(t, s.Delete(t.Context(), ann))
	must(t, s.Delete(t.Context(), ann))
	if _, err := s.Get(t.Context(), ann); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	if got := listed(t, s, "app", "ann"); got != "s2" {
		t.Errorf("listed: %s", got)
	}
	if got := texts(get(t, s, second).Events); got != "stays" {
		t.Errorf("the other one: %q", got)
	}
	made(t, s, ann)
	if sess := get(t, s, ann); len(sess.Events) != 0 || sess.Seq != 0 {
		t.Errorf("made anew: %+v", sess)
	}
	wantState(t, s, ann, map[string]string{"user:u": `1`})
}

func unknown(t *testing.T, b Backend) {
	s := open(t, b)
	_, err := s.Get(t.Context(), ann)
	e := new(session.NotFoundError)
	if !errors.Is(err, session.ErrNotFound) || !errors.As(err, &e) || e.Key != ann {
		t.Errorf("get: %v", err)
	}
	if err := s.AppendEvent(t.Context(), ann, say("x")); !errors.Is(err, session.ErrNotFound) || !errors.As(err, &e) {
		t.Errorf("append: %v", err)
	}
}

func invalid(t *testing.T, b Backend) {
	s := open(t, b)
	made(t, s, ann)
	for _, k := range []session.Key{{}, {App: "a", User: "b"}, {App: "a", ID: "b"}, {User: "a", ID: "b"}, {App: "a", User: "\xff", ID: "b"}, {App: "a", User: "b", ID: "\x00"}, {App: "a", User: "b", ID: strings.Repeat("x", session.MaxName+1)}} {
		if _, err := s.Get(t.Context(), k); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("get %v: %v", k, err)
		}
		if err := s.AppendEvent(t.Context(), k, say("x")); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("append to %v: %v", k, err)
		}
		if err := s.Delete(t.Context(), k); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("delete %v: %v", k, err)
		}
		if _, err := s.Create(t.Context(), k, nil); k.ID != "" && !errors.Is(err, session.ErrInvalid) {
			t.Errorf("create %v: %v", k, err)
		}
	}
	partial, anonymous, vague := say("x"), say("x"), say("x")
	partial.Partial, anonymous.Author, vague.Kind = true, "", ""
	for name, ev := range map[string]*session.Event{
		"a partial event": partial, "an event of nobody": anonymous, "an event of no kind": vague, "no event": nil,
		"a state key without a name":   write(state{"user:": raw(`1`)}),
		"a state key with a zero byte": write(state{"a\x00": raw(`1`)}),
	} {
		if err := s.AppendEvent(t.Context(), ann, ev); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if get(t, s, ann).Seq != 0 {
		t.Error("something was kept")
	}
}

func concurrent(t *testing.T, b Backend) {
	s := open(t, b)
	services := []session.Service{s}
	if b.Reopen != nil {
		other := b.Reopen(t, s)
		defer other.Close()
		services = append(services, other)
	}
	second := session.Key{App: "app", User: "ann", ID: "s2"}
	made(t, s, ann)
	made(t, s, second)
	const writers, each = 8, 15
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				ev := say(fmt.Sprintf("%d-%d", w, i))
				// The user's values are written from two sessions, in two orders.
				ev.StateDelta = state{fmt.Sprintf("w%d", w): raw(fmt.Sprint(i)), "user:a": raw(`1`), "user:b": raw(`1`), "app:a": raw(`1`)}
				key := ann
				if w%4 == 3 {
					key = second
				}
				if err := services[w%len(services)].AppendEvent(context.Background(), key, ev); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	next := map[string]int{}
	n := 0
	for _, key := range []session.Key{ann, second} {
		sess := get(t, s, key)
		for i, e := range sess.Events {
			if n++; e.Seq != int64(i+1) {
				t.Errorf("event %d has seq %d", i, e.Seq)
			}
			who, at, _ := strings.Cut(e.Message.Text(), "-")
			if at != fmt.Sprint(next[who]) {
				t.Errorf("%s wrote %s after %d events", who, at, next[who])
			}
			next[who]++
			if next[who] == each && string(sess.State["w"+who]) != fmt.Sprint(each-1) {
				t.Errorf("w%s is %s", who, sess.State["w"+who])
			}
		}
	}
	if n != writers*each {
		t.Errorf("%d events, want %d", n, writers*each)
	}
}

func race(t *testing.T, b Backend) {
	s := open(t, b)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = s.Create(context.Background(), ann, nil) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, session.ErrExists):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d made it", won)
	}
}

// Whoever reads while others make and delete sees a session from its beginning,
// and of one session alone.
func comeAndGo(t *testing.T, b Backend) {
	s := open(t, b)
	services := []session.Service{s}
	if b.Reopen != nil {
		other := b.Reopen(t, s)
		defer other.Close()
		services = append(services, other)
	}
	const workers, rounds = 6, 25
	fails := func(err error) bool {
		return err != nil && !errors.Is(err, session.ErrNotFound) && !errors.Is(err, session.ErrExists)
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			s, ctx := services[w%len(services)], context.Background()
			for i := range rounds {
				if made, err := s.Create(ctx, ann, state{"made": raw(`1`)}); fails(err) || err == nil && (string(made.State["made"]) != "1" || made.Seq != 0) {
					t.Errorf("made %+v, %v", made, err)
				}
				for range 3 {
					ev := write(state{fmt.Sprintf("k%d", w): raw(fmt.Sprint(i))})
					if err := s.AppendEvent(ctx, ann, ev); fails(err) {
						t.Error(err)
					}
				}
				sess, err := s.Get(ctx, ann)
				if fails(err) {
					t.Error(err)
				}
				if err == nil {
					whole(t, sess)
				}
				for info, err := range s.List(ctx, "app", "ann") {
					if fails(err) || err == nil && info.Key != ann {
						t.Errorf("listed %+v, %v", info, err)
					}
				}
				if i%3 == w%3 {
					if err := s.Delete(ctx, ann); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// whole checks that the events of a session make up its state.
func whole(t *testing.T, sess *session.Session) {
	t.Helper()
	want := map[string]string{"made": "1"}
	for i, e := range sess.Events {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has seq %d", i, e.Seq)
		}
		for k, v := range e.StateDelta {
			want[k] = string(v)
		}
	}
	got := map[string]string{}
	for k, v := range sess.State {
		got[k] = string(v)
	}
	if sess.Seq != int64(len(sess.Events)) || !maps.Equal(got, want) {
		t.Errorf("state %v, seq %d; its %d events make %v", got, sess.Seq, len(sess.Events), want)
	}
}

// patience is how long a test waits for what the clock of a server does.
const patience = 20 * time.Second

func expire(t *testing.T, b Backend) {
	const ttl = 50 * time.Millisecond
	s := openTTL(t, b, ttl)
	_, err := s.Create(t.Context(), ann, state{"own": raw(`1`), "user:u": raw(`1`)})
	must(t, err)
	for end := time.Now().Add(patience); ; time.Sleep(ttl / 5) {
		_, err := s.Get(t.Context(), ann)
		if errors.Is(err, session.ErrNotFound) {
			break
		}
		must(t, err)
		if time.Now().After(end) {
			t.Fatalf("the session is there after %v", patience)
		}
	}
	if err := s.AppendEvent(t.Context(), ann, say("late")); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("append: %v", err)
	}
	if got := listed(t, s, "app", "ann"); got != "" {
		t.Errorf("listed: %s", got)
	}
	// It begins anew, and the user's state is kept.
	sess := made(t, s, ann)
	if sess.Seq != 0 || sess.State["own"] != nil || string(sess.State["user:u"]) != "1" {
		t.Errorf("%+v", sess)
	}
}

// However many expire at once, it takes few new ones to be rid of them.
func swept(t *testing.T, b Backend) {
	if b.Stored == nil {
		t.Skip("the database removes them by itself")
	}
	const ttl = time.Second
	s := openTTL(t, b, ttl)
	for i := range 350 {
		made(t, s, session.Key{App: "app", User: "ann", ID: fmt.Sprint(i)})
	}
	for end := time.Now().Add(patience); listed(t, s, "app", "ann") != ""; time.Sleep(ttl / 50) {
		if time.Now().After(end) {
			t.Fatalf("sessions are there after %v", patience)
		}
	}
	for range 5 {
		made(t, s, session.Key{App: "app", User: "bob"})
	}
	if n := b.Stored(t, s); n > 10 {
		t.Errorf("%d sessions are stored", n)
	}
}

func soon(t *testing.T, b Backend) {
	s := openTTL(t, b, time.Millisecond)
	for i := range 20 {
		key := session.Key{App: "app", User: "ann", ID: fmt.Sprint(i)}
		sess, err := s.Create(t.Context(), key, state{"own": raw(`1`), "user:u": raw(`2`), "app:a": raw(`3`)})
		must(t, err)
		if sess.Key != key || sess.Seq != 0 || sess.Created.IsZero() || string(sess.State["own"]) != "1" || string(sess.State["user:u"]) != "2" || string(sess.State["app:a"]) != "3" {
			t.Errorf("%+v", sess)
		}
	}
}

func keep(t *testing.T, b Backend) {
	s := openTTL(t, b, time.Hour)
	made(t, s, ann)
	must(t, s.AppendEvent(t.Context(), ann, say("hi")))
	if texts(get(t, s, ann).Events) != "hi" || listed(t, s, "app", "ann") != "s1" {
		t.Error("the session is gone")
	}
}

func restart(t *testing.T, b Backend) { // TRPC-08
	if b.Reopen == nil {
		t.Skip("the data end with the service")
	}
	s := open(t, b)
	_, err := s.Create(t.Context(), ann, state{"user:lang": raw(`"de"`)})
	must(t, err)
	must(t, s.AppendEvent(t.Context(), ann, say("one")))
	again := b.Reopen(t, s)
	defer again.Close()
	must(t, s.Close())
	must(t, again.AppendEvent(t.Context(), ann, say("two")))
	if sess := get(t, again, ann); texts(sess.Events) != "one two" || string(sess.State["user:lang"]) != `"de"` {
		t.Errorf("%+v", sess)
	}
}

func ends(t *testing.T, b Backend) {
	s := open(t, b)
	made(t, s, ann)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	check := func(ctx context.Context, want error) {
		t.Helper()
		_, getErr := s.Get(ctx, ann)
		_, createErr := s.Create(ctx, session.Key{App: "a", User: "b"}, nil)
		var listErr error
		for _, listErr = range s.List(ctx, "app", "ann") {
		}
		for name, err := range map[string]error{"get": getErr, "create": createErr, "list": listErr, "append": s.AppendEvent(ctx, ann, say("x")), "delete": s.Delete(ctx, ann)} {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
	}
	check(over, context.Canceled)
	if get(t, s, ann).Seq != 0 {
		t.Error("a call that was cancelled wrote")
	}
	must(t, s.Close())
	check(t.Context(), session.ErrClosed)
	if err := s.Close(); !errors.Is(err, session.ErrClosed) {
		t.Errorf("closed again: %v", err)
	}
}

func listEnds(t *testing.T, b Backend) {
	s := open(t, b)
	for _, id := range []string{"a", "b", "c"} {
		made(t, s, session.Key{App: "app", User: "ann", ID: id})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	for info, err := range s.List(ctx, "app", "ann") {
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, info.ID)
		cancel()
	}
	if want := []string{"a", context.Canceled.Error()}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Whatever moment a call ends at, it leaves no transaction open.
func cutShort(t *testing.T, b Backend) {
	s := open(t, b)
	other := s
	if b.Reopen != nil {
		other = b.Reopen(t, s)
		defer other.Close()
	}
	made(t, s, ann)
	n := 100
	if testing.Short() {
		n = 20
	}
	second := session.Key{App: "app", User: "ann", ID: "s2"}
	for i := range n {
		ev := say(fmt.Sprint(i))
		ev.ID = fmt.Sprint("e", i)
		for name, call := range map[string]func(ctx context.Context) error{
			"append": func(ctx context.Context) error { return s.AppendEvent(ctx, ann, ev) },
			"create": func(ctx context.Context) error { _, err := s.Create(ctx, second, nil); return err },
			"delete": func(ctx context.Context) error { return s.Delete(ctx, second) },
			"get":    func(ctx context.Context) error { _, err := s.Get(ctx, ann, session.Window{Last: 1}); return err },
			"list": func(ctx context.Context) (err error) {
				for _, err = range s.List(ctx, "app", "ann") {
				}
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*500/n)*time.Microsecond)
			err := call(ctx)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, session.ErrExists) {
				t.Fatalf("round %d: %s: %v", i, name, err)
			}
		}
		must(t, other.AppendEvent(t.Context(), ann, ev))
	}
	sess := get(t, s, ann)
	if len(sess.Events) != n || sess.Seq != int64(n) {
		t.Errorf("%d events, seq %d, want %d", len(sess.Events), sess.Seq, n)
	}
	for i, e := range sess.Events {
		if e.Seq != int64(i+1) || e.Message.Text() != fmt.Sprint(i) {
			t.Fatalf("event %d: %+v", i, e)
		}
	}
}
