// Package follow tells processes that share a server (a database, say) of what the others
// have stored there. Whoever stores something tells so by a note, if the server carries
// such: it is looked for at once then. A note may be lost, and with a connection many are;
// so all is looked for now and then as well, and often while none would come.
package follow

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Wire carries texts between all processes that have one of its name.
type Wire interface {
	// Send gives a text of at most [MaxText] bytes to all that receive.
	Send(ctx context.Context, text string) error

	// Receive calls up when it begins to receive, then got with each text, until the
	// context ends or the connection is lost.
	Receive(ctx context.Context, up func(), got func(text string)) error
}

// MaxText is how long a text of a wire may be: PostgreSQL's have less than 8,000 bytes.
const MaxText = 7000

const (
	slow    = 5 * time.Second      // how often is looked where notes come
	rest    = time.Second          // after an error
	gap     = 5 * time.Millisecond // between texts, so that notes of one moment are one text
	patient = 5 * time.Second      // a text takes at most
	again   = time.Minute          // after which a wire is tried anew that carries nothing
)

// Follower follows what others store, and tells them what is stored here. It is safe for
// concurrent use; the fields are set before.
type Follower struct {
	// Wire carries notes; nil: there are none.
	Wire Wire

	// Heard is called with each note of another process.
	Heard func(note string)

	// Look looks for all that may be new of what is followed.
	Look func(ctx context.Context) error

	// Poll is how often is looked while no notes come.
	Poll time.Duration

	self    string // tells this one's notes from others'
	hears   atomic.Bool
	changed chan struct{} // whether it hears, or something was missed
	tells   sync.WaitGroup

	mu      sync.Mutex
	notes   []string // to be told
	telling bool
	closed  bool
}

// New returns a follower that is told of nothing until it runs.
func New(w Wire, poll time.Duration, look func(ctx context.Context) error, heard func(note string)) *Follower {
	return &Follower{Wire: w, Poll: poll, Look: look, Heard: heard, self: rand.Text(), changed: make(chan struct{}, 1)}
}

// Run follows until the context ends.
func (f *Follower) Run(ctx context.Context) {
	var listening sync.WaitGroup
	defer listening.Wait()
	if f.Wire != nil {
		listening.Go(func() { f.listen(ctx) })
	}
	for ctx.Err() == nil {
		wait := f.Poll
		if f.hears.Load() {
			wait = slow
		}
		if f.Look(ctx) != nil { // which says so itself
			wait = rest
		}
		select {
		case <-time.After(wait):
		case <-f.changed:
		case <-ctx.Done():
		}
	}
}

// Hears reports whether notes come: what others told is known, or will be in a moment.
func (f *Follower) Hears() bool { return f != nil && f.hears.Load() }

// Tell sends a note to all others, soon. One that waits to be sent isn't sent twice.
func (f *Follower) Tell(note string) {
	if f == nil || f.Wire == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || slices.Contains(f.notes, note) {
		return
	}
	f.notes = append(f.notes, note)
	if !f.telling {
		f.telling = true
		f.tells.Go(f.tell)
	}
}

// Close waits until all is told.
func (f *Follower) Close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.tells.Wait()
}

// text is what goes over a wire, as JSON.
type text struct {
	From  string   `json:"from"`
	Notes []string `json:"notes,omitempty"` // none: it is to be looked for all
}

// tell sends what is to be told. What can't be sent is dropped: others find it when they look.
func (f *Follower) tell() {
	for {
		f.mu.Lock()
		some := f.notes
		f.notes = nil
		f.telling = len(some) > 0
		f.mu.Unlock()
		if len(some) == 0 {
			return
		}
		for len(some) > 0 {
			t := text{From: f.self}
			size := 0
			for len(some) > 0 && size+cost(some[0]) < MaxText-100 {
				size += cost(some[0])
				t.Notes = append(t.Notes, some[0])
				some = some[1:]
			}
			if len(t.Notes) == 0 { // it is too long
				some = some[1:]
			}
			_ = f.send(context.Background(), t)
		}
		time.Sleep(gap)
	}
}

// cost is how many bytes a note takes at most.
func cost(note string) int {
	data, _ := json.Marshal(note) // of a string
	return len(data) + 1
}

func (f *Follower) send(ctx context.Context, t text) error {
	data, err := json.Marshal(t)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	return f.Wire.Send(ctx, string(data))
}

var errSilent = errors.New("follow: a text was not received that was sent")

// listen receives notes. A wire counts once it has carried a text from here to here: poolers
// that share connections between transactions take all and carry nothing.
func (f *Follower) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.receive(ctx)
		f.hears.Store(false)
		f.look()
		wait := rest
		if errors.Is(err, errSilent) {
			wait = again
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// look has it looked for all.
func (f *Follower) look() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *Follower) receive(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var probes sync.WaitGroup
	defer probes.Wait()
	probe := rand.Text()
	carried := make(chan struct{})
	up := func() {
		f.look() // for what came while nothing was received
		probes.Go(func() {
			if err := f.send(ctx, text{From: probe}); err != nil {
				stop(err)
				return
			}
			select {
			case <-carried:
			case <-ctx.Done():
			case <-time.After(patient):
				stop(errSilent)
			}
		})
	}
	err := f.Wire.Receive(ctx, up, func(data string) {
		var t text
		switch err := json.Unmarshal([]byte(data), &t); {
		case err == nil && t.From == f.self:
			return
		case err == nil && t.From == probe && !f.hears.Load():
			f.hears.Store(true)
			close(carried)
		}
		for _, note := range t.Notes {
			f.Heard(note)
		}
		if len(t.Notes) == 0 {
			f.look()
		}
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
