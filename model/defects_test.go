package model_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

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

func TestAPasswordInAURLIsMasked(t *testing.T) {
	l, log := logger(slog.LevelDebug)
	m := model.Logged(model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		return &model.Response{Message: chat.Assistant("ok")}, nil
	}), l, model.LogOptions{Contents: true})
	for _, s := range []string{
		"postgres://app:hunter2!x@db:5432/app", "dial https://me:hunter2!x@proxy.example.com/v1", "redis://:hunter2!x@cache:6379",
		"amqp://u:hunter2!x@[::1]/", `{"dsn":"mysql://u:hunter2!x@h/d"}`,
	} {
		log.Reset()
		if _, err := m.Generate(t.Context(), ask("use "+s)); err != nil {
			t.Fatal(err)
		}
		if got := log.String(); strings.Contains(got, "hunter2") || !strings.Contains(got, "[masked]@") {
			t.Errorf("%s is logged as %s", s, got)
		}
	}
	log.Reset()
	_, _ = m.Generate(t.Context(), ask("see http://host:80/path and mail a:b@c, https://h/@user:x@y"))
	if got := log.String(); strings.Contains(got, "[masked]") {
		t.Errorf("masked too much: %s", got)
	}
}
