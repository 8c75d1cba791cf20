package killtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
)

// job says what a child does.
type job struct {
	Store      string // "sqlite" or "file"
	Dir        string
	Thread     string
	Durability graph.Durability
	Contend    bool   // others work on the thread as well
	Acts       uint64 // seed of what is done with the thread beside running it; 0: nothing
	Role       role   // in a spawn; empty: the child runs a thread that spawns nothing
	End        moment
}

// moment says when a child is killed: so long after it has noted so many effects.
// The zero value means never.
type moment struct {
	Effects int
	Delay   time.Duration
}

func (j *job) effects() string { return filepath.Join(j.Dir, j.Thread+".effects") }

func (j *job) open() (checkpoint.Store, error) {
	if j.Store == "sqlite" {
		// What is locked for a moment is so for longer where the machine has other work.
		return sqlite.Open(filepath.Join(j.Dir, "threads.db"), sqlite.Options{BusyTimeout: time.Minute})
	}
	// A line that the killed process left half written is put aside.
	return file.Open(filepath.Join(j.Dir, "threads"), file.Options{Sync: file.SyncNever, Recover: true})
}

// kind says what a line of the effects file tells.
type kind string

const (
	kBegin    kind = "begin"    // a process begins
	kCall     kind = "call"     // it calls Invoke
	kReturn   kind = "return"   // the call has returned
	kStart    kind = "start"    // a node starts
	kEnd      kind = "end"      // a node is about to return
	kOnce     kind = "once"     // the function of a Once was called
	kRecorded kind = "recorded" // Once has returned: its result is stored
	kStored   kind = "stored"   // a checkpoint was seen as stored
	kWrite    kind = "write"    // something is about to be written to the store
	kRefused  kind = "refused"  // another process works on the thread
	kDone     kind = "done"     // the thread has ended
	kAct      kind = "act"      // the thread is about to be pruned, edited or forked
	kActed    kind = "acted"    // it was
)

// line is a line of the effects file.
type line struct {
	Kind       kind            `json:"k"`
	Thread     string          `json:"thread"`
	Task       string          `json:"task,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	Node       string          `json:"node,omitempty"`
	Namespace  string          `json:"ns,omitempty"`
	Step       int             `json:"step,omitempty"`
	Key        string          `json:"key,omitempty"`
	Checkpoint string          `json:"checkpoint,omitempty"`
	State      json.RawMessage `json:"state,omitempty"`
}

// effects is the file that nodes leave their marks in.
type effects struct {
	thread string
	begun  func() // called when a node starts; may be nil
	mu     sync.Mutex
	f      *os.File // nil: nothing is noted
	left   int      // effects to note until the process is killed
	delay  time.Duration
	self   *os.Process
}

func openEffects(j *job) (*effects, error) {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(j.effects(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &effects{thread: j.Thread, f: f, left: j.End.Effects, delay: j.End.Delay, self: self}, err
}

// note appends a line with one write. The line break before it ends a line that
// a killed process may have left half written.
func (e *effects) note(l line) {
	if e.f == nil {
		return
	}
	l.Thread = e.thread
	data, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.f.Write([]byte("\n" + string(data) + "\n")); err != nil {
		panic(err)
	}
	if e.left--; e.left == 0 {
		if e.delay == 0 {
			_ = e.self.Kill() // at once, before the store is written to
		}
		time.AfterFunc(e.delay, func() { _ = e.self.Kill() })
	}
}

func (e *effects) begin() {
	if e.begun != nil {
		e.begun()
	}
}

func (e *effects) task(ctx context.Context, k kind) {
	e.begin()
	in := graph.Info(ctx)
	e.note(line{Kind: k, Task: in.Task, Attempt: in.Attempt, Node: in.Node, Namespace: in.Namespace, Step: in.Step})
}

// watch is the observer that notes stored checkpoints.
type watch struct{ e *effects }

func (w watch) OnNodeEnter(graph.Event) {}
func (w watch) OnNodeExit(graph.Event)  {}
func (w watch) OnError(graph.Event)     {}
func (watch) OnInterrupt(graph.Event)   {}
func (w watch) OnCheckpointSaved(ev graph.Event) {
	w.e.note(line{Kind: kStored, Checkpoint: ev.Checkpoint})
}

// writes notes each write before it reaches the store.
type writes struct {
	checkpoint.Store
	e *effects
}

func (w writes) Write(ctx context.Context, wr *checkpoint.Write) (checkpoint.Written, error) {
	w.e.note(line{Kind: kWrite})
	return w.Store.Write(ctx, wr)
}

// state is what the graph works on. Nothing in it depends on chance.
type state struct {
	Trail    graph.List[string]
	Loops    int
	Total    graph.Sum[int]
	Parts    graph.Map[string, int]
	Receipt  string
	Approved bool
	Answer   int
	Sides    graph.Set[string]
	Blob     graph.List[string] // grows, so that snapshots are written
}

type inner struct {
	Steps  graph.List[string]
	Ticket string
	Answer int
}

const (
	rounds  = 4 // of the loop
	workers = 6 // of the fan-out
)

var padding = string(make([]byte, 300))

// build returns the graph: a linear part with a Once, a loop with a router, a
// fan-out of sends, a join of two branches of unequal length, a question beside
// a sibling, a routed node and a subgraph that asks as well.
func build(e *effects) *graph.Builder[state] {
	b := graph.New[state]("killed")
	node := func(name string, fn func(ctx context.Context, s *state) error, opts ...graph.NodeOption) {
		b.AddNode(name, func(ctx context.Context, s *state) error {
			e.task(ctx, kStart)
			if err := fn(ctx, s); err != nil {
				return err
			}
			s.Trail.Add(name)
			e.task(ctx, kEnd)
			return nil
		}, opts...)
	}
	note := func(context.Context, *state) error { return nil }

	node("prepare", note)
	node("pay", func(ctx context.Context, s *state) error {
		receipt, err := once(ctx, e, "charge", "paid")
		s.Receipt = receipt
		return err
	})
	node("count", func(_ context.Context, s *state) error {
		s.Loops++
		s.Blob.Add(fmt.Sprint(s.Loops) + padding)
		return nil
	})
	work := graph.AddTask(b, "work", func(ctx context.Context, s *state, n int) error {
		e.task(ctx, kStart)
		time.Sleep(time.Duration(n%3) * 400 * time.Microsecond) // they finish apart from each other
		if _, err := do(ctx, e, "effect", "done"); err != nil {
			return err
		}
		s.Total.Add(n)
		s.Parts.Put(fmt.Sprint(n), n*n)
		e.task(ctx, kEnd)
		return nil
	})
	b.AddCommandNode("split", func(ctx context.Context, s *state) (graph.Command, error) {
		e.task(ctx, kStart)
		sends := make([]graph.Send, workers)
		for i := range sends {
			sends[i] = work.Send(i)
		}
		s.Trail.Add("split")
		e.task(ctx, kEnd)
		return graph.Dispatch(sends...), nil
	}, graph.Destinations("work"))
	node("gather", note)
	node("left", func(_ context.Context, s *state) error { s.Sides.Add("left"); return nil })
	node("right", func(_ context.Context, s *state) error { s.Sides.Add("right"); return nil })
	node("right2", note)
	node("merge", note)
	node("ask", func(ctx context.Context, s *state) error {
		if _, err := once(ctx, e, "before asking", "noted"); err != nil {
			return err
		}
		ok, err := graph.Interrupt[bool](ctx, "approve", "go on?")
		s.Approved = ok
		return err
	})
	node("beside", note)
	node("route", note)
	graph.AddSubgraph(b, "sub", buildInner(e).MustCompile(), graph.Mapping[state, inner]{
		In: func(p *state, c *inner) { c.Answer = p.Loops },
		Out: func(c *inner, p *state) {
			p.Answer = c.Answer
			p.Trail.Add("sub:" + fmt.Sprint(c.Steps.Slice()) + c.Ticket)
		},
	})
	node("finish", note)
	node("never", note)

	b.AddEdge(graph.Start, "prepare").AddSequence("prepare", "pay", "count")
	b.AddRoutes("count", func(_ context.Context, s *state) (string, error) {
		if s.Loops < rounds {
			return "again", nil
		}
		return "on", nil
	}, map[string]string{"again": "count", "on": "split"})
	b.AddEdge("work", "gather")
	b.AddEdge("gather", "left").AddEdge("gather", "right").AddEdge("right", "right2")
	b.AddJoin([]string{"left", "right2"}, "merge")
	b.AddEdge("merge", "ask").AddEdge("merge", "beside")
	b.AddJoin([]string{"ask", "beside"}, "route")
	b.AddConditionalEdges("route", func(_ context.Context, s *state) (graph.Command, error) {
		if s.Approved {
			return graph.Goto("sub"), nil
		}
		return graph.Goto("never"), nil
	}, "sub", "never")
	b.AddEdge("sub", "finish").AddEdge("never", graph.End)
	return b
}

func buildInner(e *effects) *graph.Builder[inner] {
	b := graph.New[inner]("inner")
	for _, name := range []string{"first", "question", "last"} {
		b.AddNode(name, func(ctx context.Context, s *inner) (err error) {
			e.task(ctx, kStart)
			switch name {
			case "first":
				s.Ticket, err = do(ctx, e, "ticket", "T")
			case "question":
				var n int
				n, err = graph.Interrupt[int](ctx, "how many", s.Answer)
				s.Answer += n
			}
			if err != nil {
				return err
			}
			s.Steps.Add(name)
			e.task(ctx, kEnd)
			return nil
		})
	}
	return b.AddEdge(graph.Start, "first").AddSequence("first", "question", "last")
}

// once notes each call of its function, and that its result was recorded.
func once(ctx context.Context, e *effects, name, result string) (string, error) {
	in := graph.Info(ctx)
	v, err := graph.Once(ctx, name, func(_ context.Context, key string) (string, error) {
		e.note(line{Kind: kOnce, Task: in.Task, Node: name, Key: key, Namespace: in.Namespace})
		return result, nil
	})
	if err == nil {
		e.note(line{Kind: kRecorded, Task: in.Task, Node: name, Namespace: in.Namespace})
	}
	return v, err
}

// do is once by a future.
func do(ctx context.Context, e *effects, name, result string) (string, error) {
	in := graph.Info(ctx)
	v, err := graph.Go(ctx, name, func(ctx context.Context, result string) (string, error) {
		e.note(line{Kind: kOnce, Task: in.Task, Node: name, Key: graph.Info(ctx).IdempotencyKey, Namespace: in.Namespace})
		return result, nil
	}, result).Wait(ctx)
	if err == nil {
		e.note(line{Kind: kRecorded, Task: in.Task, Node: name, Namespace: in.Namespace})
	}
	return v, err
}

func compile(j *job, e *effects, store checkpoint.Store) (*graph.Graph[state], error) {
	opts := []graph.Option{graph.WithCheckpointer(store), graph.WithDurability(j.Durability)}
	if j.Durability == graph.Sync { // otherwise the event comes before the write
		opts = append(opts, graph.Observe(watch{e}))
	}
	return build(e).Compile(opts...)
}

// act prunes the thread, edits it without changing it and forks it where it stands,
// in any order, some times.
func act(t *graph.Thread[state], e *effects, rng *rand.Rand) (*graph.Snapshot[state], error) {
	ctx := context.Background()
	for range 1 + rng.IntN(5) {
		snap, err := t.State(ctx)
		if err != nil {
			return nil, err
		}
		what := []string{"prune", "edit", "fork"}[rng.IntN(3)]
		e.note(line{Kind: kAct, Node: what})
		switch what {
		case "prune":
			_, err = t.Prune(ctx, graph.Keep{Last: 1 + rng.IntN(3), DropForks: rng.IntN(2) == 0})
		case "edit":
			_, err = t.Edit(ctx, func(*state) error { return nil })
		case "fork":
			_, err = t.At(snap.Checkpoint).Fork(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		e.note(line{Kind: kActed, Node: what})
	}
	return t.State(ctx)
}

// child drives the thread to its end, however far an earlier process came.
func child(j *job) error {
	e, err := openEffects(j)
	if err != nil {
		return err
	}
	e.note(line{Kind: kBegin})
	if j.Role != "" {
		return j.work(e)
	}
	store, err := j.open()
	if err != nil {
		return err
	}
	if j.Durability == graph.Exit {
		store = writes{store, e}
	}
	g, err := compile(j, e, store)
	if err != nil {
		return err
	}
	t := g.Thread(j.Thread)
	// The run of a killed process holds the thread until its lease runs out.
	acting := g.Thread(j.Thread, graph.WhenBusy(graph.BusyInterrupt))
	// Of those who compete one begins the thread: that there is none may not be true
	// any more when a process acts on it, and a second input is a second turn.
	if j.Contend {
		alone := flock.New(j.effects() + ".lock")
		if err := alone.Lock(); err != nil {
			return err
		}
		e.begun = sync.OnceFunc(func() { _ = alone.Unlock() }) // the process's end does it as well
	}
	snap, err := t.State(context.Background())
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		return err
	}
	if snap != nil {
		e.begin()
	}
	rng := rand.New(rand.NewPCG(j.Acts, 0))
	for snap == nil || !snap.Done() {
		if j.Acts != 0 && snap != nil {
			if snap, err = act(acting, e, rng); err != nil {
				return err
			}
			if snap.Done() {
				break
			}
		}
		e.note(line{Kind: kCall})
		ctx := context.Background()
		switch {
		case snap == nil:
			snap, err = t.Invoke(ctx, t.Input(func(s *state) error {
				s.Trail.Add("input")
				return nil
			}))
		case len(snap.Interrupts) == 0:
			snap, err = t.Invoke(ctx, t.Continue())
		case snap.Interrupts[0].Key == "approve":
			snap, err = t.Invoke(ctx, t.Answer(true))
		default:
			snap, err = t.Invoke(ctx, t.Answer(graph.Answers{"how many": 38}))
		}
		e.begin()
		var answered *graph.AnswerError
		switch {
		case err == nil:
			e.note(line{Kind: kReturn, Checkpoint: snap.Checkpoint})
		case j.Contend && (errors.Is(err, graph.ErrThreadBusy) || errors.Is(err, graph.ErrNothingToResume) || errors.As(err, &answered)):
			e.note(line{Kind: kRefused})
			if snap, err = t.State(ctx); err != nil {
				return err
			}
		default:
			return err
		}
	}
	data, err := json.Marshal(snap.State)
	if err != nil {
		return err
	}
	e.note(line{Kind: kDone, State: data})
	return store.Close()
}
