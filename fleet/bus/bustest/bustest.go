// Package bustest is the suite that every bus of package bus passes.
package bustest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/fleet/bus"
)

// Run runs the suite. What open returns is a bus of a process of its own each time; those of
// one test are connected.
func Run(t *testing.T, open func(t *testing.T) bus.Bus) {
	t.Run("what is published is read by all that have subscribed, in one order", func(t *testing.T) {
		a, b := open(t), open(t)
		thread := t.Name()
		subs := []bus.Subscription{subscribe(t, a, thread), subscribe(t, b, thread), subscribe(t, b, thread)}
		var wg sync.WaitGroup
		for p, from := range []bus.Bus{a, b} {
			wg.Go(func() {
				for i := range 100 {
					publish(t, from, thread, fmt.Sprintf("%d %03d", p, i))
				}
			})
		}
		wg.Wait()
		first := read(t, subs[0])
		for _, s := range subs[1:] {
			if got := read(t, s); !slices.Equal(got, first) {
				t.Errorf("read %q and %q", first, got)
			}
		}
		of := func(p string) (out []string) {
			return slices.DeleteFunc(slices.Clone(first), func(s string) bool { return s[:1] != p })
		}
		if len(first) != 200 || !slices.IsSorted(of("0")) || !slices.IsSorted(of("1")) {
			t.Errorf("read %q", first)
		}
		if more := read(t, subs[0]); more != nil {
			t.Errorf("read again %q", more)
		}
	})
	t.Run("there is news of what is published", func(t *testing.T) {
		a, b := open(t), open(t)
		s := subscribe(t, b, t.Name())
		for i := range 3 {
			publish(t, a, t.Name(), fmt.Sprint(i))
			var got []string
			for len(got) == 0 { // of what was read already there may be news, too
				news(t, s)
				got = read(t, s)
			}
			is(t, got, fmt.Sprint(i))
		}
	})
	t.Run("a subscription begins when it is made, and has one thread", func(t *testing.T) {
		a, b := open(t), open(t)
		early := subscribe(t, a, t.Name())
		publish(t, a, t.Name(), "before")
		late := subscribe(t, b, t.Name())
		other := subscribe(t, b, t.Name()+"'")
		publish(t, a, t.Name(), "after")
		is(t, read(t, early), "before", "after")
		is(t, read(t, late), "after")
		is(t, read(t, other))
	})
	t.Run("what nobody follows is dropped", func(t *testing.T) {
		a := open(t)
		publish(t, a, t.Name(), "nobody")
		s := subscribe(t, a, t.Name())
		publish(t, a, t.Name(), "somebody")
		is(t, read(t, s), "somebody")
		s.Close()
		publish(t, a, t.Name(), "nobody again")
		is(t, read(t, subscribe(t, a, t.Name())))
	})
	t.Run("a batch has any size and any bytes", func(t *testing.T) {
		a, b := open(t), open(t)
		s := subscribe(t, b, t.Name())
		large := bytes.Repeat([]byte("\x00\xff'\\ä\n"), 200_000)
		sent := bytes.Clone(large)
		if err := a.Publish(t.Context(), t.Name(), sent); err != nil {
			t.Fatal(err)
		}
		clear(sent) // the caller's again
		is(t, read(t, s), string(large))
		publish(t, a, t.Name(), "")
		is(t, read(t, s), "")
	})
	t.Run("a thread has any name", func(t *testing.T) {
		a := open(t)
		for _, thread := range []string{"t 'ä\"{x}:*?", "%s$1\\"} {
			s := subscribe(t, a, thread)
			publish(t, a, thread, thread)
			is(t, read(t, s), thread)
		}
	})
	t.Run("a context that has ended is an error", func(t *testing.T) {
		a := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Publish(ctx, t.Name(), []byte("x")); err == nil {
			t.Error("published")
		}
		if _, err := a.Subscribe(ctx, t.Name()); err == nil {
			t.Error("subscribed")
		}
	})
}

// Outlives has the server of two connected buses killed and started again: a subscription
// goes on, though what the server had is lost.
func Outlives(t *testing.T, a, b bus.Bus, kill, start func() error) {
	t.Helper()
	s := subscribe(t, b, "t")
	if err := kill(); err != nil {
		t.Fatal(err)
	}
	if err := a.Publish(t.Context(), "t", []byte("lost")); err == nil {
		t.Error("published while the server was down")
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	var got [][]byte
	for i := 0; len(got) == 0; i++ {
		if i > 600 {
			t.Fatal("nothing is told after the server is back")
		}
		_ = a.Publish(t.Context(), "t", []byte("told"))
		select {
		case <-s.News():
			got, _ = s.Read(t.Context())
		case <-time.After(100 * time.Millisecond):
		}
	}
	if string(got[0]) != "told" {
		t.Errorf("read %q", got)
	}
}

func subscribe(t *testing.T, b bus.Bus, thread string) bus.Subscription {
	t.Helper()
	s, err := b.Subscribe(t.Context(), thread)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func publish(t *testing.T, b bus.Bus, thread, batch string) {
	t.Helper()
	if err := b.Publish(t.Context(), thread, []byte(batch)); err != nil {
		t.Error(err)
	}
}

func news(t *testing.T, s bus.Subscription) {
	t.Helper()
	select {
	case <-s.News():
	case <-time.After(time.Minute):
		t.Fatal("there is no news")
	}
}

func read(t *testing.T, s bus.Subscription) (out []string) {
	t.Helper()
	batches, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		out = append(out, string(b))
	}
	return out
}

func is(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("read %.200q, want %.200q", got, want)
	}
}
