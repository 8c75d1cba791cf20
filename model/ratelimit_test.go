package model_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

func TestRequestsWaitForTheirTurn(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		synctest.Test(t, func(t *testing.T) {
			l := &model.Limiter{Requests: 60, Burst: 2}
			a := model.RateLimit(scripted.New(scripted.Text("a").Repeat()), l)
			b := model.RateLimit(scripted.New(scripted.Text("b").Repeat()), l) // shares the limit
			start := time.Now()
			for i, want := range []time.Duration{0, 0, 1, 2, 3} {
				m := a
				if i%2 == 1 {
					m = b
				}
				if _, err := text(t.Context(), m, ask("?"), stream); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(start); d.Round(time.Millisecond) != want*time.Second {
					t.Errorf("call %d at %v, want %v s", i, d, want)
				}
			}
		})
	})
}

func TestTokensAreTakenAsTheyAreUsed(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		synctest.Test(t, func(t *testing.T) {
			l := &model.Limiter{Tokens: 100, Per: 10 * time.Second, Estimate: func(*model.Request) int { return 40 }}
			used := func(n int) scripted.Reply { return scripted.Text("x").Usage(chat.Usage{Input: 40, Output: n - 40}) }
			s := scripted.New(used(90), used(40), used(250), used(40), scripted.Text("no usage"), scripted.Text("x"))
			m := model.RateLimit(s, l)
			start := time.Now()
			// The bucket holds 100 and fills by 10 a second.
			for i, want := range []time.Duration{
				0,      // leaves 10
				3,      // waits for 40, leaves 0
				7,      // leaves 0, then owes 210
				7 + 25, // waits until there are 40
				32 + 4,
				36 + 4,
			} {
				if _, err := text(t.Context(), m, ask("?"), stream); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(start); d.Round(time.Millisecond) != want*time.Second {
					t.Errorf("call %d at %v, want %v s", i, d, want)
				}
			}
		})
	})
}

func TestACallThatCannotBeMadeInTimeFailsAtOnce(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		synctest.Test(t, func(t *testing.T) {
			m := model.RateLimit(scripted.New(scripted.Text("x").Repeat()), &model.Limiter{Requests: 1, Tokens: 1000})
			if _, err := text(t.Context(), m, ask("?"), stream); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			start := time.Now()
			_, err := text(ctx, m, ask("?"), stream)
			var e *model.LimitError
			if !errors.As(err, &e) || e.Limit != "requests" || e.Wait != time.Minute || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
				t.Errorf("error %v after %v", err, time.Since(start))
			}
			if want := "limit of requests: the call would have to wait 1m0s, beyond its deadline"; err.Error() != want {
				t.Errorf("error %q", err)
			}
			// It took nothing: the next waits no longer.
			if _, err := text(t.Context(), m, ask("?"), stream); err != nil || time.Since(start) != time.Minute {
				t.Errorf("error %v after %v", err, time.Since(start))
			}
		})
	})
}

func TestAWaitEndsWithTheContext(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		synctest.Test(t, func(t *testing.T) {
			s := scripted.New(scripted.Text("x").Repeat())
			m := model.RateLimit(s, &model.Limiter{Requests: 1})
			_, _ = text(t.Context(), m, ask("?"), stream)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			start := time.Now()
			_, err := text(ctx, m, ask("?"), stream)
			if !errors.Is(err, context.Canceled) || err.Error() != "waiting for the limit of requests: context canceled" || time.Since(start) != time.Second {
				t.Errorf("error %v after %v", err, time.Since(start))
			}
			if _, err := text(ctx, m, ask("?"), stream); err != context.Canceled {
				t.Errorf("error %v", err)
			}
			if n := len(s.Requests()); n != 1 {
				t.Errorf("%d calls", n)
			}
		})
	})
}

func TestARequestAboveTheLimitIsRefused(t *testing.T) {
	m := model.RateLimit(scripted.New(), &model.Limiter{Requests: 5, Tokens: 10})
	req := ask("This sentence is longer than ten tokens, which is what there is in a minute.")
	_, err := text(t.Context(), m, req, false)
	var e *model.LimitError
	if !errors.As(err, &e) || e.Limit != "tokens" || e.Need != 19 || e.Max != 10 || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if want := "limit of tokens: the request needs about 19, more than the 10 of a whole period"; err.Error() != want {
		t.Errorf("error %q", err)
	}
}

func TestTheZeroLimiterHasNoLimits(t *testing.T) {
	m := model.RateLimit(scripted.New(scripted.Text("x").Usage(chat.Usage{Input: 1 << 40}).Repeat()), &model.Limiter{})
	for range 100 {
		if _, err := text(t.Context(), m, ask("?"), false); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEstimateTokensCountsAllThatIsSent(t *testing.T) {
	call := chat.ToolCall{Name: "name", Args: "args"}
	req := &model.Request{
		Messages: []chat.Message{
			chat.System("1234"), chat.Assistant("1234", call), chat.ResultText(call, "12345678"),
			{Role: chat.RoleUser, Parts: []chat.Part{chat.Reasoning{Text: "1234"}, chat.Image{}, chat.Audio{}, chat.File{}}},
		},
		Tools:  []chat.ToolSpec{{Name: "name", Description: "desc", Schema: []byte("1234")}},
		Output: &model.Schema{Name: "ignored", Description: "desc", Schema: []byte("12345")},
	}
	if got := model.EstimateTokens(req); got != 3000+13 {
		t.Errorf("%d tokens", got)
	}
}

// A call that gives up while it waits for tokens must not use up a request.
func TestACallThatGivesUpWaitingUsesNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &model.Limiter{Requests: 2, Tokens: 60, Estimate: func(r *model.Request) int { return len(r.Messages[0].Text()) }}
		m := model.RateLimit(model.Func(func(context.Context, *model.Request) (*model.Response, error) {
			return &model.Response{Message: chat.Assistant("hi")}, nil
		}), l)
		if _, err := m.Generate(t.Context(), ask(strings.Repeat("x", 60))); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		time.AfterFunc(500*time.Millisecond, cancel)
		if _, err := m.Generate(ctx, ask("x")); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := m.Generate(t.Context(), ask("x")); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 500*time.Millisecond {
			t.Errorf("the next call waited %v", d)
		}
	})
}
