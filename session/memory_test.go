package session_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/session"
	"github.com/superstep-dev/superstep/session/sessiontest"
)

func TestMemory(t *testing.T) { // TRPC-08
	sessiontest.Run(t, sessiontest.Backend{
		New: func(_ *testing.T, ttl time.Duration) session.Service {
			return session.NewMemory(session.ServiceOptions{TTL: ttl})
		},
	})
}

func TestWritingKeepsASessionInMemoryAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := session.NewMemory(session.ServiceOptions{TTL: time.Minute})
		key := session.Key{App: "a", User: "u", ID: "s"}
		if _, err := s.Create(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			time.Sleep(59 * time.Second)
			if err := s.AppendEvent(t.Context(), key, &session.Event{Kind: session.KindInput, Author: session.AuthorUser}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(59 * time.Second)
		if _, err := s.Get(t.Context(), key); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second) // reading doesn't count
		if _, err := s.Get(t.Context(), key); !errors.Is(err, session.ErrNotFound) {
			t.Error(err)
		}
	})
}
