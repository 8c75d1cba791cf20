package model_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

func TestAnAnswerIsAskedForOnce(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		answer := chat.Message{ID: "m1", Role: chat.RoleAssistant, Model: "x", Finish: chat.FinishToolCalls, Usage: &chat.Usage{Input: 5, Output: 6}, Parts: []chat.Part{
			chat.Reasoning{Text: "hm", Signature: "s"}, chat.Text{Text: "a b"}, chat.ToolCall{ID: "1", Name: "f", Args: `{"x":1}`},
		}}
		s := scripted.New(scripted.Message(answer))
		m := model.Cached(s, "", &model.LRU{})
		if _, err := text(t.Context(), m, ask("?"), stream); err != nil {
			t.Fatal(err)
		}
		want := answer
		want.ID, want.Usage = "", &chat.Usage{}
		for range 2 {
			resp, err := m.Generate(t.Context(), ask("?"))
			if err != nil || !resp.Cached || !reflect.DeepEqual(resp.Message, want) {
				t.Errorf("%+v, error %v", resp, err)
			}
			n := 0
			for c, err := range m.Stream(t.Context(), ask("?")) {
				if n++; err != nil || !reflect.DeepEqual(c, chat.ChunkOf(want)) {
					t.Errorf("chunk %+v, error %v", c, err)
				}
			}
			if n != 1 {
				t.Errorf("%d chunks", n)
			}
		}
		if n := len(s.Requests()); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestFailuresAndPartsAreNotCached(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		s := scripted.New(scripted.Error(failure(model.ErrorServer)), scripted.Text("a b").Break(1, nil), scripted.Text("c d"), scripted.Text("e"))
		m := model.Cached(s, "", &model.LRU{})
		for range 2 {
			if _, err := text(t.Context(), m, ask("?"), stream); !model.Temporary(err) {
				t.Errorf("error %v", err)
			}
		}
		for range m.Stream(t.Context(), ask("?")) {
			break // leaves it
		}
		if got, err := text(t.Context(), m, ask("?"), stream); got != "e" || err != nil {
			t.Errorf("%q, error %v", got, err)
		}
	})
}

func TestNamespacesShareACacheApart(t *testing.T) {
	c := &model.LRU{}
	for _, name := range []string{"a", "b"} {
		m := model.Cached(scripted.New(scripted.Text(name)), name, c)
		for range 2 {
			if got, err := text(t.Context(), m, ask("?"), false); got != name || err != nil {
				t.Errorf("%q, error %v", got, err)
			}
		}
	}
}

func canonical(t *testing.T, req *model.Request) string {
	t.Helper()
	data, err := model.Canonical(req)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestEqualRequestsAreCanonicallyEqual(t *testing.T) {
	call := chat.ToolCall{ID: "1", Name: "f", Args: `{"a": 1}`}
	request := func() *model.Request {
		return &model.Request{
			Messages: []chat.Message{chat.User("?"), chat.Assistant("", call), chat.ResultText(call, "<1>")},
			Tools:    []chat.ToolSpec{{Name: "f", Schema: []byte(`{"type":"object","x":{"b":1e2,"a":[]}}`)}},
			Config:   model.Config{Extra: map[string]any{"a": 1, "b": true}},
		}
	}
	want := canonical(t, request())
	for name, alter := range map[string]func(*model.Request){
		"IDs":        func(r *model.Request) { r.Messages[0].ID = "x" },
		"metadata":   func(r *model.Request) { r.Messages[0].Metadata = map[string]string{"a": "b"} },
		"usage":      func(r *model.Request) { r.Messages[1].Usage = &chat.Usage{Input: 1} },
		"the finish": func(r *model.Request) { r.Messages[1].Finish, r.Messages[1].Model = chat.FinishStop, "m" },
		"the artifact": func(r *model.Request) {
			r.Messages[2].Parts = []chat.Part{chat.ToolResult{CallID: "1", Name: "f", Content: []chat.Part{chat.Text{Text: "<1>"}}, Artifact: []byte("1")}}
		},
		"space": func(r *model.Request) {
			r.Messages[1].Parts = []chat.Part{chat.ToolCall{ID: "1", Name: "f", Args: "{\n\"a\":1}"}}
			r.Tools[0].Schema = []byte(`{"x": {"a": [], "b": 1e2}, "type": "object"}`)
		},
		"empty lists": func(r *model.Request) { r.Stop = []string{} },
	} {
		req := request()
		if alter(req); canonical(t, req) != want {
			t.Errorf("%s matter:\n%s\n%s", name, canonical(t, req), want)
		}
	}
}

func TestDifferentRequestsAreCanonicallyDifferent(t *testing.T) {
	f, i, i64, no := 0.0, 0, int64(0), false
	parts := func(p ...chat.Part) func(*model.Request) {
		return func(r *model.Request) { r.Messages[0].Parts = p }
	}
	seen := map[string]int{}
	for n, alter := range []func(*model.Request){
		func(*model.Request) {},
		func(r *model.Request) { r.Messages[0].Role = chat.RoleSystem },
		func(r *model.Request) { r.Messages[0].Name = "n" },
		func(r *model.Request) { r.Messages = append(r.Messages, chat.User("x")) },
		func(r *model.Request) { r.Messages = nil },
		func(r *model.Request) { r.Tools = []chat.ToolSpec{{Name: "f"}} },
		func(r *model.Request) { r.Tools = []chat.ToolSpec{{Name: "f", Strict: true}} },
		func(r *model.Request) { r.Tools = []chat.ToolSpec{{Name: "f", Description: "d"}} },
		func(r *model.Request) { r.ToolChoice = model.ToolNone },
		func(r *model.Request) { r.Output = &model.Schema{} },
		func(r *model.Request) { r.Output = &model.Schema{Schema: []byte(`{"a":1}`)} },
		func(r *model.Request) { r.Output = &model.Schema{Schema: []byte(`{"a":10000000000000000000001}`)} },
		func(r *model.Request) { r.Output = &model.Schema{Schema: []byte(`{"a":10000000000000000000002}`)} },
		func(r *model.Request) { r.Model = "m" },
		func(r *model.Request) { r.Temperature = &f },
		func(r *model.Request) { r.TopP = &f },
		func(r *model.Request) { r.TopK = &i },
		func(r *model.Request) { r.FrequencyPenalty = &f },
		func(r *model.Request) { r.PresencePenalty = &f },
		func(r *model.Request) { r.MaxTokens = 1 },
		func(r *model.Request) { r.Stop = []string{"a"} },
		func(r *model.Request) { r.Stop = []string{"a", ""} },
		func(r *model.Request) { r.Seed = &i64 },
		func(r *model.Request) { r.Reasoning = "low" },
		func(r *model.Request) { r.ReasoningTokens = 1 },
		func(r *model.Request) { r.ParallelTools = &no },
		func(r *model.Request) { r.Extra = map[string]any{"a": nil} },
		parts(),
		parts(chat.Text{Text: "a"}),
		parts(chat.Text{Text: "a", Signature: "s"}),
		parts(chat.Text{Text: "a"}, chat.Text{}),
		parts(chat.Reasoning{Text: "a"}),
		parts(chat.Reasoning{Text: "a", ID: "i"}),
		parts(chat.Reasoning{Text: "a", Redacted: true}),
		parts(chat.ToolCall{Name: "a"}),
		parts(chat.ToolCall{Name: "a", Args: "{"}),
		parts(chat.ToolCall{Name: "a", ID: "i"}),
		parts(chat.ToolResult{Name: "a"}),
		parts(chat.ToolResult{Name: "a", IsError: true}),
		parts(chat.ToolResult{Name: "a", CallID: "i"}),
		parts(chat.ToolResult{Name: "a", Content: []chat.Part{chat.Text{Text: "x"}}}),
		parts(chat.ToolResult{Name: "a", Content: []chat.Part{chat.Image{Source: chat.Source{URL: "x"}}}}),
		parts(chat.Image{Source: chat.Source{URL: "a"}}),
		parts(chat.Image{Source: chat.Source{URL: "a"}, Detail: "low"}),
		parts(chat.Image{Source: chat.Source{FileID: "a"}}),
		parts(chat.Image{Source: chat.Source{Data: []byte("a")}}),
		parts(chat.Image{Source: chat.Source{Data: []byte("a"), MIME: "image/png"}}),
		parts(chat.Audio{Source: chat.Source{URL: "a"}}),
		parts(chat.Audio{Source: chat.Source{URL: "a"}, Transcript: "t"}),
		parts(chat.File{Source: chat.Source{URL: "a"}}),
		parts(chat.File{Source: chat.Source{URL: "a"}, Name: "n"}),
	} {
		req := ask("?")
		alter(req)
		key := canonical(t, req)
		if before, ok := seen[key]; ok {
			t.Errorf("requests %d and %d are equal: %s", before, n, key)
		}
		seen[key] = n
	}
}

func TestARequestWithoutJSONIsAnError(t *testing.T) {
	nan := math.NaN()
	for _, req := range []*model.Request{
		{Config: model.Config{Temperature: &nan}},
		{Config: model.Config{Extra: map[string]any{"f": func() {}}}},
		{Tools: []chat.ToolSpec{{Schema: []byte("{")}}},
		{Messages: []chat.Message{{Parts: []chat.Part{nil}}}},
		{Messages: []chat.Message{{Parts: []chat.Part{chat.ToolResult{Content: []chat.Part{nil}}}}}},
	} {
		bothWays(t, func(t *testing.T, stream bool) {
			s := scripted.New(scripted.Text("x"))
			if _, err := text(t.Context(), model.Cached(s, "", &model.LRU{}), req, stream); err == nil || s.Left() != 1 {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestCallsAtTheSameTimeShareAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted.New(scripted.Text("x").After(time.Second))
		m := model.Cached(s, "", &model.LRU{})
		var wg sync.WaitGroup
		var mu sync.Mutex
		fresh := 0
		for range 10 {
			wg.Go(func() {
				resp, err := m.Generate(t.Context(), ask("?"))
				if err != nil || resp.Message.Text() != "x" {
					t.Errorf("%+v, error %v", resp, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if !resp.Cached {
					fresh++
				}
			})
		}
		wg.Wait()
		if fresh != 1 {
			t.Errorf("%d answers don't come from the cache", fresh)
		}
	})
}

func TestWhoWaitsSharesTheFailureButNotTheEndOfAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		s := scripted.New(scripted.Error(failure(model.ErrorAuth)).After(time.Second))
		m := model.Cached(s, "", &model.LRU{})
		for range 3 {
			wg.Go(func() {
				var e *model.Error
				if _, err := m.Generate(t.Context(), ask("?")); !errors.As(err, &e) || e.Kind != model.ErrorAuth {
					t.Errorf("error %v", err)
				}
			})
		}
		wg.Wait()

		s = scripted.New(scripted.Text("lost").After(time.Hour), scripted.Text("x").After(time.Second))
		m = model.Cached(s, "", &model.LRU{})
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := m.Generate(ctx, ask("?")); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
		synctest.Wait()
		for range 3 {
			wg.Go(func() {
				if got, err := text(t.Context(), m, ask("?"), false); got != "x" || err != nil {
					t.Errorf("%q, error %v", got, err)
				}
			})
		}
		wg.Go(func() { // doesn't wait for the others longer than it may
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := m.Generate(ctx, ask("?")); err != context.DeadlineExceeded {
				t.Errorf("error %v", err)
			}
		})
		time.Sleep(time.Minute)
		cancel()
		wg.Wait()
		if s.Left() != 0 {
			t.Errorf("%d left", s.Left())
		}
	})
}

func TestAPanicLeavesNobodyWaiting(t *testing.T) {
	panics := true
	m := model.Cached(model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		if panics {
			panics = false
			panic("boom")
		}
		return &model.Response{Message: chat.Message{Parts: []chat.Part{chat.Text{Text: "x"}}}}, nil
	}), "", &model.LRU{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_, _ = m.Generate(t.Context(), ask("?"))
	}()
	if got, err := text(t.Context(), m, ask("?"), false); got != "x" || err != nil {
		t.Errorf("%q, error %v", got, err)
	}
}

// brokenCache fails or returns nonsense.
type brokenCache struct {
	get, set error
	value    []byte
}

func (c *brokenCache) Get(context.Context, string) ([]byte, bool, error) {
	return c.value, c.value != nil, c.get
}
func (c *brokenCache) Set(context.Context, string, []byte) error { return c.set }

func TestFailuresOfTheCacheFailTheCall(t *testing.T) {
	boom := errors.New("boom")
	for want, c := range map[string]*brokenCache{
		"cache: read v1-":   {get: boom},
		"cache: write v1-":  {set: boom},
		"cache: decode v1-": {value: []byte("{")},
	} {
		bothWays(t, func(t *testing.T, stream bool) {
			_, err := text(t.Context(), model.Cached(scripted.New(scripted.Text("x")), "", c), ask("?"), stream)
			if err == nil || !strings.HasPrefix(err.Error(), want) || c.value == nil && !errors.Is(err, boom) {
				t.Errorf("error %v, want %s", err, want)
			}
		})
	}
	m := model.Cached(scripted.New(scripted.Message(chat.Message{Role: "king"})), "", &model.LRU{})
	if _, err := m.Generate(t.Context(), ask("?")); err == nil || !strings.HasPrefix(err.Error(), "cache: encode the answer") {
		t.Errorf("error %v", err)
	}
}

func lruGet(t *testing.T, l *model.LRU, key string) string {
	t.Helper()
	v, ok, err := l.Get(t.Context(), key)
	if err != nil || ok != (v != nil) {
		t.Fatalf("%q, %v, error %v", v, ok, err)
	}
	return string(v)
}

func lruSet(t *testing.T, l *model.LRU, key, value string) {
	t.Helper()
	if err := l.Set(t.Context(), key, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func TestLRUForgetsWhatWasNotUsedLongest(t *testing.T) {
	l := &model.LRU{MaxEntries: 2}
	lruSet(t, l, "a", "1")
	lruSet(t, l, "b", "2")
	lruGet(t, l, "a")
	lruSet(t, l, "c", "3")
	if got := lruGet(t, l, "a") + lruGet(t, l, "b") + lruGet(t, l, "c"); got != "13" || l.Len() != 2 {
		t.Errorf("%q, %d entries", got, l.Len())
	}
	lruSet(t, l, "a", "4")
	if got := lruGet(t, l, "a"); got != "4" || l.Len() != 2 {
		t.Errorf("%q, %d entries", got, l.Len())
	}
}

func TestLRUIsBoundInBytes(t *testing.T) {
	l := &model.LRU{MaxBytes: 10}
	lruSet(t, l, "a", "1234")
	lruSet(t, l, "b", "1234")
	if l.Len() != 2 {
		t.Errorf("%d entries", l.Len())
	}
	lruSet(t, l, "b", "12345") // one byte more
	if lruGet(t, l, "a") != "" || lruGet(t, l, "b") != "12345" {
		t.Errorf("%d entries", l.Len())
	}
	lruSet(t, l, "b", "1234567890") // doesn't fit; the old value is gone too
	if lruGet(t, l, "b") != "" || l.Len() != 0 {
		t.Errorf("%d entries", l.Len())
	}
	for i := range 1001 {
		lruSet(t, l, fmt.Sprint(i), "")
	}
	zero := &model.LRU{}
	for i := range 1001 {
		lruSet(t, zero, fmt.Sprint(i), "")
	}
	if zero.Len() != 1000 {
		t.Errorf("%d entries", zero.Len())
	}
	lruSet(t, zero, "big", string(bytes.Repeat([]byte("x"), 64<<20-3)))
	if zero.Len() != 1 {
		t.Errorf("%d entries", zero.Len())
	}
}

func TestLRUForgetsAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &model.LRU{TTL: time.Minute}
		lruSet(t, l, "a", "1")
		time.Sleep(time.Minute - 1)
		if lruGet(t, l, "a") != "1" {
			t.Error("it is gone early")
		}
		time.Sleep(time.Nanosecond)
		if lruGet(t, l, "a") != "" || l.Len() != 0 {
			t.Error("it is still there")
		}
	})
}

// Who made the call may do with the answer as it likes, while those that waited
// for it still read it. It fails under -race.
func TestTheAnswerOfACachedCallIsItsCallersOwn(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			m := model.Cached(model.Func(func(context.Context, *model.Request) (*model.Response, error) {
				time.Sleep(time.Second)
				return &model.Response{Message: chat.Assistant("hi")}, nil
			}), "", &model.LRU{})
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					resp, err := m.Generate(t.Context(), ask("?"))
					if err != nil {
						t.Error(err)
						return
					}
					resp.Message.Name = "me"
				})
			}
			wg.Wait()
		})
	}
}
