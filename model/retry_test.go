package model_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

func TestRetryWaitsAndTriesAgain(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		synctest.Test(t, func(t *testing.T) {
			var log []string
			m := model.Retry(scripted.New(
				scripted.Error(failure(model.ErrorServer)), scripted.Error(failure(model.ErrorOverloaded)), scripted.Error(failure(model.ErrorTimeout)),
				scripted.Text("at last"),
			), model.RetryPolicy{NoJitter: true, OnRetry: func(_ context.Context, attempt int, err error, wait time.Duration) {
				log = append(log, fmt.Sprintf("%d %v %v", attempt, err, wait))
			}})
			start := time.Now()
			got, err := text(t.Context(), m, ask("?"), stream)
			if got != "at last" || err != nil {
				t.Errorf("%q, error %v", got, err)
			}
			if d := time.Since(start); d != 3500*time.Millisecond {
				t.Errorf("it took %v", d)
			}
			if got := strings.Join(log, "; "); got != "1 test: server 500ms; 2 test: overloaded 1s; 3 test: timeout 2s" {
				t.Errorf("hook: %s", got)
			}
		})
	})
}

func TestRetryGivesUp(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		synctest.Test(t, func(t *testing.T) {
			for _, tt := range []struct {
				name   string
				err    error
				policy model.RetryPolicy
				calls  int
				text   string
			}{
				{"after four attempts", failure(model.ErrorServer), model.RetryPolicy{}, 4, "after 4 attempts: test: server"},
				{"after as many as it may", failure(model.ErrorServer), model.RetryPolicy{MaxAttempts: 2}, 2, "after 2 attempts: test: server"},
				{"at once when the error stays", failure(model.ErrorAuth), model.RetryPolicy{}, 1, "test: authentication"},
				{"at once with any other error", errors.New("boom"), model.RetryPolicy{}, 1, "boom"},
				{"when the policy says so", failure(model.ErrorServer), model.RetryPolicy{If: func(error) bool { return false }}, 1, "test: server"},
				{"when the provider asks for too long", &model.Error{Provider: "p", Kind: model.ErrorRateLimit, RetryAfter: time.Hour},
					model.RetryPolicy{MaxRetryAfter: time.Minute}, 1, "the provider asks to wait 1h0m0s, longer than the 1m0s allowed: p: rate limit"},
			} {
				s := scripted.New(scripted.Error(tt.err).Repeat())
				_, err := text(t.Context(), model.Retry(s, tt.policy), ask("?"), stream)
				if !errors.Is(err, tt.err) || err.Error() != tt.text {
					t.Errorf("%s: error %q, want %q", tt.name, err, tt.text)
				}
				if n := len(s.Requests()); n != tt.calls {
					t.Errorf("%s: %d calls, want %d", tt.name, n, tt.calls)
				}
			}
		})
	})
}

func TestRetryTriesWhatThePolicyNames(t *testing.T) {
	s := scripted.New(scripted.Error(errors.New("boom")), scripted.Text("ok"))
	m := model.Retry(s, model.RetryPolicy{Initial: 1, If: func(err error) bool { return err.Error() == "boom" }})
	if got, err := text(t.Context(), m, ask("?"), false); got != "ok" || err != nil {
		t.Errorf("%q, error %v", got, err)
	}
}

func TestRetryWaitsAsLongAsTheProviderAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := &model.Error{Provider: "p", Kind: model.ErrorRateLimit, RetryAfter: 20 * time.Second}
		m := model.Retry(scripted.New(scripted.Error(fmt.Errorf("wrapped: %w", limit)), scripted.Text("ok")), model.RetryPolicy{})
		start := time.Now()
		if _, err := text(t.Context(), m, ask("?"), false); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 20*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

func TestRetryWaitsARandomPartOfTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := map[time.Duration]bool{}
		for range 20 {
			var limit time.Duration
			m := model.Retry(scripted.New(scripted.Error(failure(model.ErrorServer)).Repeat()), model.RetryPolicy{
				MaxAttempts: 8, Initial: time.Second, Factor: 3, Max: 10 * time.Second,
				OnRetry: func(_ context.Context, attempt int, _ error, wait time.Duration) {
					limit = min(max(limit*3, time.Second), 10*time.Second)
					if waits[wait] = true; wait < 0 || wait > limit {
						t.Errorf("attempt %d: wait %v above %v", attempt, wait, limit)
					}
				},
			})
			_, _ = text(t.Context(), m, ask("?"), false)
		}
		if len(waits) < 100 {
			t.Errorf("%d different waits of 140", len(waits))
		}
	})
}

func TestRetryEndsWithTheContext(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		synctest.Test(t, func(t *testing.T) {
			s := scripted.New(scripted.Error(failure(model.ErrorServer)).Repeat())
			m := model.Retry(s, model.RetryPolicy{Initial: time.Minute, NoJitter: true})
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			start := time.Now()
			_, err := text(ctx, m, ask("?"), stream)
			if !errors.Is(err, context.Canceled) || !model.Temporary(err) || time.Since(start) != time.Second {
				t.Errorf("error %v after %v", err, time.Since(start))
			}

			ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			start = time.Now()
			_, err = text(ctx, m, ask("?"), stream)
			if err == nil || err.Error() != "no time left to wait 1m0s and try again: test: server" || time.Since(start) != 0 {
				t.Errorf("error %v after %v", err, time.Since(start))
			}
			if n := len(s.Requests()); n != 2 {
				t.Errorf("%d calls", n)
			}
		})
	})
}

func TestAStreamThatHasBegunIsNotRetried(t *testing.T) {
	s := scripted.New(scripted.Text("a b c").Break(2, nil), scripted.Text("again"))
	resp, err := model.Collect(model.Retry(s, model.RetryPolicy{}).Stream(t.Context(), ask("?")))
	var e *model.Error
	if !errors.As(err, &e) || e.Kind != model.ErrorBrokenStream || resp.Message.Text() != "a b " || s.Left() != 1 {
		t.Errorf("%q, error %v", resp.Message.Text(), err)
	}
}

// silentFirst streams chunks without content, then fails some times, then says
// a text, which may be nothing.
type silentFirst struct {
	silent, fail int
	text         string
}

func (s *silentFirst) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	return model.Collect(s.Stream(ctx, req))
}

func (s *silentFirst) Stream(context.Context, *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		for i := range s.silent {
			if !yield(chat.Chunk{ID: fmt.Sprint("m", s.fail), Role: chat.RoleAssistant, Usage: &chat.Usage{Input: i}}, nil) {
				return
			}
		}
		if s.fail--; s.fail >= 0 {
			yield(chat.Chunk{}, failure(model.ErrorOverloaded))
			return
		}
		if s.text != "" {
			yield(chat.Chunk{Text: s.text}, nil)
		}
	}
}

func TestAStreamThatHasSaidNothingYetIsRetried(t *testing.T) {
	m := model.Retry(&silentFirst{silent: 3, fail: 2, text: "ok"}, model.RetryPolicy{Initial: 1})
	resp, err := model.Collect(m.Stream(t.Context(), ask("?")))
	if err != nil || resp.Message.Text() != "ok" || resp.Message.ID != "m0" || resp.Message.Usage.Input != 2 {
		t.Errorf("%+v, error %v", resp.Message, err)
	}
	// What is held back is bounded.
	m = model.Retry(&silentFirst{silent: 100, fail: 1, text: "ok"}, model.RetryPolicy{Initial: 1})
	if _, err := model.Collect(m.Stream(t.Context(), ask("?"))); !model.Temporary(err) {
		t.Errorf("error %v", err)
	}
	// And isn't lost when the stream ends after it.
	resp, err = model.Collect(model.Retry(&silentFirst{silent: 2}, model.RetryPolicy{}).Stream(t.Context(), ask("?")))
	if err != nil || resp.Message.ID != "m0" {
		t.Errorf("%+v, error %v", resp.Message, err)
	}
}

func TestAStreamMayBeLeft(t *testing.T) {
	for name, m := range map[string]model.Model{
		"retry":    model.Retry(scripted.New(scripted.Text("a b c")), model.RetryPolicy{}),
		"fallback": model.Fallback(scripted.New(scripted.Text("a b c")), scripted.New()),
		"limit":    model.RateLimit(scripted.New(scripted.Text("a b c")), &model.Limiter{Requests: 9}),
		"cache":    model.Cached(scripted.New(scripted.Text("a b c")), "", &model.LRU{}),
		"budget":   model.Budgeted(scripted.New(scripted.Text("a b c")), &model.Budget{}, model.Prices{}),
		"log":      model.Logged(scripted.New(scripted.Text("a b c")), discard, model.LogOptions{}),
		"silent":   model.Retry(&silentFirst{silent: 3}, model.RetryPolicy{}),
	} {
		n := 0
		for _, err := range m.Stream(t.Context(), ask("?")) {
			if n++; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			break
		}
		if n != 1 {
			t.Errorf("%s: %d chunks", name, n)
		}
	}
}

func TestAnEmbedderIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		e := model.RetryEmbedder(model.EmbedFunc(1, func(context.Context, []string) ([][]float32, error) {
			if asked++; asked < 3 {
				return nil, &model.Error{Kind: model.ErrorOverloaded, RetryAfter: 10 * time.Second}
			}
			return [][]float32{{1}}, nil
		}), model.RetryPolicy{MaxAttempts: 3})
		start := time.Now()
		got, err := e.Embed(t.Context(), []string{"a"})
		if err != nil || len(got) != 1 || asked != 3 || time.Since(start) != 20*time.Second || e.Dimensions() != 1 {
			t.Errorf("%v, %v after %d attempts and %v", got, err, asked, time.Since(start))
		}
		asked = -3
		if _, err = e.Embed(t.Context(), []string{"a"}); !model.Temporary(err) || asked != 0 {
			t.Errorf("%v after %d attempts", err, asked+3)
		}
	})
}
