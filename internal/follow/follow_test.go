package follow

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// exchange carries texts within a test.
type exchange struct {
	mu   sync.Mutex
	dumb bool // it takes all and carries nothing
	down bool
	sent int
	ends map[chan string]chan struct{}
}

var errDown = errors.New("down")

func (x *exchange) Send(_ context.Context, text string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.down {
		return errDown
	}
	x.sent++
	for to := range x.ends {
		if !x.dumb {
			to <- text
		}
	}
	return nil
}

func (x *exchange) Receive(ctx context.Context, up func(), got func(string)) error {
	texts, cut := make(chan string, 1000), make(chan struct{})
	x.mu.Lock()
	if x.down {
		x.mu.Unlock()
		return errDown
	}
	if x.ends == nil {
		x.ends = map[chan string]chan struct{}{}
	}
	x.ends[texts] = cut
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.ends, texts)
	}()
	up()
	for {
		select {
		case text := <-texts:
			got(text)
		case <-cut:
			return errDown
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// set changes the exchange. If it is down then, connections are lost.
func (x *exchange) set(change func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change()
	if x.down {
		for _, cut := range x.ends {
			close(cut)
		}
		x.ends = nil
	}
}

// one is a follower that notes what it does.
type one struct {
	*Follower

	mu    sync.Mutex
	looks int
	heard []string
	fails bool
}

func start(t *testing.T, w Wire) *one { return startWith(t, w, 50*time.Millisecond) }

func startWith(t *testing.T, w Wire, poll time.Duration) *one {
	o := &one{}
	o.Follower = New(w, poll, func(context.Context) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.looks++; o.fails {
			return errDown
		}
		return nil
	}, func(note string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.heard = append(o.heard, note)
	})
	ctx, stop := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	runs.Go(func() { o.Run(ctx) })
	t.Cleanup(func() {
		stop()
		runs.Wait()
		o.Close()
	})
	return o
}

// in returns how often is looked in a time.
func (o *one) in(d time.Duration) int {
	before := o.looked()
	time.Sleep(d)
	synctest.Wait()
	return o.looked() - before
}

func (o *one) looked() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.looks
}

func (o *one) is(t *testing.T, want ...string) {
	t.Helper()
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.heard, want) {
		t.Errorf("heard %.100q, want %.100q", o.heard, want)
	}
	o.heard = nil
}

func TestNotesReachAllOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := new(exchange)
		a, b, c := start(t, x), start(t, x), start(t, x)
		synctest.Wait()
		a.Tell("1")
		b.is(t, "1")
		c.is(t, "1")
		a.is(t)
	})
}

// Transactions that notify wait for one another: many notes of one moment are few texts.
func TestNotesOfOneMomentAreFewTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := new(exchange)
		a, b := start(t, x), start(t, x)
		synctest.Wait()
		before := x.sent
		want := []string{"first"}
		a.Tell("first")
		synctest.Wait() // until it is sent: what follows waits for its turn
		for i := range 500 {
			note := strings.Repeat("x", i) + "\x01\"ä"
			want = append(want, note)
			a.Tell(note)
			a.Tell(note)
		}
		b.is(t, want...)
		if n := x.sent - before; n < 2 || n > 40 {
			t.Errorf("%d texts", n)
		}
	})
}

func TestOfANoteThatIsTooLongOthersLookForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := new(exchange)
		a, b := start(t, x), start(t, x)
		b.in(time.Second)
		before := b.looked()
		a.Tell(strings.Repeat("x", 2*MaxText))
		b.is(t)
		if b.looked() == before {
			t.Error("nobody looks")
		}
	})
}

func TestItIsLookedRarelyWhereNotesComeAndOftenWhereNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := new(exchange)
		hears, deaf, dumb := start(t, x), start(t, nil), start(t, &exchange{dumb: true})
		hears.in(time.Second)
		if n := hears.in(time.Minute); n > 12 {
			t.Errorf("it is looked %d times in a minute of silence", n)
		}
		for _, o := range []*one{deaf, dumb} {
			if n := o.in(time.Minute); n < 1000 {
				t.Errorf("it is looked %d times in a minute", n)
			}
		}
		x.set(func() { x.down = true })
		if n := hears.in(time.Minute); n < 1000 {
			t.Errorf("it is looked %d times in a minute after the connection was lost", n)
		}
		x.set(func() { x.down = false })
		hears.in(2 * time.Second)
		if n := hears.in(time.Minute); n > 12 {
			t.Errorf("it is looked %d times in a minute after it has come back", n)
		}
	})
}

// What was told while nothing was received is found by looking, at once.
func TestItIsLookedWhenAConnectionIsLostAndWhenItComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := new(exchange)
		a, b := start(t, x), startWith(t, x, time.Hour)
		b.in(10 * time.Second)
		before := b.looked()
		x.set(func() { x.down = true })
		synctest.Wait()
		if b.looked() == before {
			t.Error("nobody looks when the connection is lost")
		}
		a.Tell("lost")
		b.is(t)
		x.set(func() { x.down = false })
		if b.in(2*time.Second) == 0 {
			t.Error("nobody looks when it has come back")
		}
		a.Tell("told")
		b.is(t, "told")
	})
}

func TestAfterAnErrorItIsLookedAfterARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := start(t, nil)
		o.mu.Lock()
		o.fails = true
		o.mu.Unlock()
		if n := o.in(time.Minute); n > 62 {
			t.Errorf("it is looked %d times in a minute", n)
		}
	})
}

func TestAllIsToldWhenItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := new(exchange)
		b := start(t, x)
		synctest.Wait()
		a := New(x, time.Second, nil, nil)
		a.Tell("1")
		a.Tell("2")
		a.Close()
		a.Tell("3")
		b.is(t, "1", "2")
		var none *Follower
		none.Tell("nobody is there")
		none.Close()
	})
}
