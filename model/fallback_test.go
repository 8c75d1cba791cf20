package model_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

func TestFallbackAsksTheNextModel(t *testing.T) {
	boom := errors.New("boom")
	bothWays(t, func(t *testing.T, stream bool) {
		for _, tt := range []struct {
			name string
			err  error
			next bool
		}{
			{"rate limit", failure(model.ErrorRateLimit), true},
			{"quota", failure(model.ErrorQuota), true},
			{"key", failure(model.ErrorAuth), true},
			{"unknown model", failure(model.ErrorNotFound), true},
			{"context length", failure(model.ErrorContextLength), true},
			{"content", failure(model.ErrorFilter), true},
			{"an answer that can't be read", failure(model.ErrorResponse), true},
			{"no provider's error", boom, true},
			{"a budget", &model.BudgetError{}, true},
			{"invalid request", failure(model.ErrorInvalid), false},
		} {
			second := scripted.New(scripted.Text("second"))
			got, err := text(t.Context(), model.Fallback(scripted.New(scripted.Error(tt.err)), second), ask("?"), stream)
			if tt.next && (got != "second" || err != nil) {
				t.Errorf("%s: %q, error %v", tt.name, got, err)
			}
			if !tt.next && (err != tt.err || second.Last() != nil) {
				t.Errorf("%s: %q, error %v", tt.name, got, err)
			}
		}
	})
}

func TestFallbackStopsAtTheFirstAnswer(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		second := scripted.New()
		got, err := text(t.Context(), model.Fallback(scripted.New(scripted.Text("first")), second), ask("?"), stream)
		if got != "first" || err != nil || second.Last() != nil {
			t.Errorf("%q, error %v", got, err)
		}
	})
}

func TestFallbackNamesAllFailures(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		boom := errors.New("boom")
		limit := &model.Error{Provider: "b", Kind: model.ErrorRateLimit, RetryAfter: time.Second}
		m := model.Fallback(
			scripted.New(scripted.Error(&model.Error{Provider: "a", Kind: model.ErrorAuth})),
			scripted.New(scripted.Error(&model.Error{Provider: "b", Kind: model.ErrorServer, RetryAfter: time.Minute})),
			scripted.New(scripted.Error(limit)), scripted.New(scripted.Error(boom)))
		_, err := text(t.Context(), m, ask("?"), stream)
		if want := "all 4 models failed: [1] a: authentication; [2] b: server; [3] b: rate limit; [4] boom"; err == nil || err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
		if !errors.Is(err, boom) {
			t.Error("an error is lost")
		}
		var e *model.Error
		if !errors.As(err, &e) || e != limit || !model.Temporary(err) {
			t.Errorf("the failure that passes first is %v", e)
		}

		m = model.Fallback(scripted.New(scripted.Error(failure(model.ErrorAuth))), scripted.New(scripted.Error(failure(model.ErrorInvalid))), scripted.New())
		_, err = text(t.Context(), m, ask("?"), stream)
		if want := "2 of 3 models failed: [1] test: authentication; [2] test: invalid"; err == nil || err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
		if !errors.As(err, &e) || e.Kind != model.ErrorAuth || model.Temporary(err) {
			t.Errorf("error %v", e)
		}
	})
}

func TestFallbackEndsWithTheContext(t *testing.T) {
	bothWays(t, func(t *testing.T, stream bool) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			second := scripted.New(scripted.Text("late"))
			_, err := text(ctx, model.Fallback(scripted.New(scripted.Text("slow").After(time.Hour)), second), ask("?"), stream)
			if !errors.Is(err, context.DeadlineExceeded) || second.Last() != nil {
				t.Errorf("error %v", err)
			}
		})
	})
}

func TestFallbackIfDecides(t *testing.T) {
	boom := errors.New("boom")
	next := func(err error) bool { return !errors.Is(err, boom) }
	m := model.FallbackIf(next, scripted.New(scripted.Error(failure(model.ErrorInvalid)), scripted.Error(boom)), scripted.New(scripted.Text("ok").Repeat()))
	if got, err := text(t.Context(), m, ask("?"), false); got != "ok" || err != nil {
		t.Errorf("%q, error %v", got, err)
	}
	if _, err := text(t.Context(), m, ask("?"), false); err != boom {
		t.Errorf("error %v", err)
	}
}

func TestAStreamThatHasBegunHasNoFallback(t *testing.T) {
	second := scripted.New(scripted.Text("second"))
	got, err := text(t.Context(), model.Fallback(scripted.New(scripted.Text("a b c").Break(1, nil)), second), ask("?"), true)
	if got != "a " || !model.Temporary(err) || second.Last() != nil {
		t.Errorf("%q, error %v", got, err)
	}
}

func TestRetryOfAFallbackSeesTheFailureThatPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := model.Retry(model.Fallback(
			scripted.New(scripted.Error(failure(model.ErrorAuth)).Repeat()),
			scripted.New(scripted.Error(failure(model.ErrorServer)), scripted.Text("ok")),
		), model.RetryPolicy{})
		if got, err := text(t.Context(), m, ask("?"), true); got != "ok" || err != nil {
			t.Errorf("%q, error %v", got, err)
		}
	})
}
