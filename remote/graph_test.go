package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
	"github.com/superstep-dev/superstep/remote"
	"github.com/superstep-dev/superstep/server"
)

func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// trip is the state of the remote graph, ours that of the graph here.
type trip struct {
	City  string             `json:"city"`
	Paid  graph.List[string] `json:"paid"`
	Notes graph.List[string] `json:"notes"`
}

type ours struct {
	City  string
	Paid  graph.Value[[]string]
	Trips int
}

// effects counts what was done on the remote threads.
type effects struct {
	sync.Mutex
	of map[string]int
}

func (e *effects) add(ctx context.Context) {
	e.Lock()
	defer e.Unlock()
	if e.of == nil {
		e.of = map[string]int{}
	}
	e.of[graph.Info(ctx).Thread]++
}

func (e *effects) String() string {
	e.Lock()
	defer e.Unlock()
	var all []int
	for _, n := range e.of {
		all = append(all, n)
	}
	return fmt.Sprint(all)
}

// booking is a remote graph: it charges, says so, and asks two questions at once.
func booking(e *effects) *graph.Graph[trip] {
	b := graph.New[trip]("booking")
	b.AddNode("charge", func(ctx context.Context, s *trip) error {
		e.add(ctx)
		s.Paid.Add(s.City)
		return errors.Join(
			graph.Emit(ctx, map[string]string{"charged": s.City}),
			graph.EmitMessage(ctx, chat.Chunk{ID: "m1", Text: "Off to "}),
			graph.EmitMessage(ctx, chat.Chunk{ID: "m1", Text: s.City}),
		)
	})
	for _, name := range []string{"seat", "meal"} {
		b.AddNode(name, func(ctx context.Context, s *trip) error {
			answer, err := graph.Interrupt[string](ctx, name, "Which "+name+" to "+s.City+"?")
			if err == nil {
				s.Notes.Add(name + " " + answer)
			}
			return err
		})
		b.AddEdge("charge", name)
	}
	return b.AddEdge(graph.Start, "charge").MustCompile()
}

// serve serves graphs for a test.
func serve(t testing.TB, opts ...server.Option) *client.Client {
	t.Helper()
	s, err := server.New(context.Background(), append(opts, server.WithoutStudio())...)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type city struct {
	City string `json:"city"`
}

func called(c *client.Client, assistant string) *graph.Builder[ours] {
	return calls(remote.Graph[ours, city, trip]{Client: c, Assistant: assistant})
}

func calls(g remote.Graph[ours, city, trip], opts ...graph.NodeOption) *graph.Builder[ours] {
	g.Input = func(_ context.Context, s *ours) (city, error) { return city{s.City}, nil }
	g.Output = func(_ context.Context, s *ours, out trip) error {
		paid := append(out.Paid.Slice(), out.Notes.Slice()...)
		slices.Sort(paid)
		s.Paid.Set(paid)
		s.Trips++
		return nil
	}
	b := graph.New[ours]("ours")
	remote.AddGraph(b, "trip", g, opts...)
	return b.AddEdge(graph.Start, "trip")
}

func toBonn(s *ours) error { s.City = "Bonn"; return nil }

func TestWhatARemoteGraphAsksIsAnsweredHereInAnotherProcess(t *testing.T) {
	var done effects
	c := serve(t, server.Graph(booking(&done)))
	file := filepath.Join(t.TempDir(), "threads.db")
	in := func(f func(th *graph.Thread[ours]) (*graph.Snapshot[ours], error)) *graph.Snapshot[ours] {
		t.Helper()
		store, err := sqlite.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		snap, err := f(called(c, "booking").MustCompile(graph.WithCheckpointer(store)).Thread("t-1"))
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	snap := in(func(th *graph.Thread[ours]) (*graph.Snapshot[ours], error) {
		return th.Invoke(t.Context(), th.Input(toBonn))
	})
	var asked []string
	for _, q := range snap.Interrupts {
		asked = append(asked, fmt.Sprintf("%s: %v %s", q.Key, q.Value, q.Schema))
	}
	slices.Sort(asked)
	if got, want := strings.Join(asked, "\n"), `meal: Which meal to Bonn? {"type":"string"}`+"\n"+`seat: Which seat to Bonn? {"type":"string"}`; got != want {
		t.Fatalf("it asks\n%s\nwant\n%s", got, want)
	}
	_ = in(func(th *graph.Thread[ours]) (*graph.Snapshot[ours], error) {
		_, err := th.Invoke(t.Context(), th.Answer(graph.Answers{"seat": 7}))
		if refused := (*graph.AnswerError)(nil); !errors.As(err, &refused) {
			t.Errorf("a number for a text is answered with %v", err)
		}
		return th.Invoke(t.Context(), th.Answer(graph.Answers{"seat": "12a"}))
	})
	snap = in(func(th *graph.Thread[ours]) (*graph.Snapshot[ours], error) {
		return th.Invoke(t.Context(), th.Answer(graph.Answers{"meal": "fish"}))
	})
	if got := fmt.Sprint(snap.State.Paid.Get(), snap.Done()); got != "[Bonn meal fish seat 12a] true" {
		t.Errorf("it led to %s", got)
	}
	if done.String() != "[1]" {
		t.Errorf("on the remote threads it was charged %s times", &done)
	}
}

// CheckRecovery kills the run at each of its writes.
func TestARunThatIsKilledAnywhereDoesOnceWhatIsRemote(t *testing.T) {
	var done effects
	c := serve(t, server.Graph(booking(&done)))
	graphtest.CheckRecovery(t, func() *graph.Builder[ours] { return called(c, "booking") }, toBonn, graphtest.Script{"seat": {"1"}, "meal": {"2"}})
	for thread, n := range done.of {
		if n != 1 {
			t.Errorf("thread %s was charged %d times", thread, n)
		}
	}
	if len(done.of) < 4 {
		t.Errorf("only %d threads were charged: nothing was killed", len(done.of))
	}
}

func TestTheRemoteStreamIsPassedOn(t *testing.T) {
	var done effects
	c := serve(t, server.Graph(booking(&done)))
	th := called(c, "booking").MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t-1")
	var told []string
	for ev, err := range th.Stream(t.Context(), th.Input(toBonn), graph.Modes(graph.ModeMessages, graph.ModeCustom)) {
		if err != nil {
			t.Fatal(err)
		}
		switch v := ev.Value.(type) {
		case chat.Chunk:
			told = append(told, fmt.Sprintf("%s %s %q", ev.Node, v.ID, v.Text))
		case json.RawMessage:
			told = append(told, ev.Node+" "+string(v))
		}
	}
	if got, want := strings.Join(told, "\n"), "trip {\"charged\":\"Bonn\"}\ntrip m1 \"Off to \"\ntrip m1 \"Bonn\""; got != want {
		t.Errorf("it streams\n%s\nwant\n%s", got, want)
	}
}

// gate is a remote graph that works until it is let through or stopped.
type gate struct {
	entered, stopped, open chan struct{}
}

func newGate() *gate {
	return &gate{make(chan struct{}, 9), make(chan struct{}, 9), make(chan struct{})}
}

func (g *gate) graph(e *effects) *graph.Graph[trip] {
	b := graph.New[trip]("gate")
	b.AddNode("before", func(ctx context.Context, s *trip) error { e.add(ctx); return nil })
	b.AddNode("wait", func(ctx context.Context, s *trip) error {
		g.entered <- struct{}{}
		select {
		case <-g.open:
			s.Paid.Add(s.City)
			return nil
		case <-ctx.Done():
			g.stopped <- struct{}{}
			return ctx.Err()
		}
	})
	return b.AddSequence("before", "wait").AddEdge(graph.Start, "before").MustCompile()
}

func TestACancelledRunCancelsTheRemoteOneWhichGoesOnWithIt(t *testing.T) {
	var done effects
	gate := newGate()
	c := serve(t, server.Graph(gate.graph(&done)))
	th := called(c, "gate").MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t-1")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-gate.entered; cancel() }()
	if _, err := th.Invoke(ctx, th.Input(toBonn)); !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled run ends with %v", err)
	}
	<-gate.stopped
	close(gate.open)
	snap, err := th.Invoke(t.Context(), th.Continue())
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(snap.State.Paid.Get(), &done); got != "[Bonn] [1]" {
		t.Errorf("then it led to %s", got)
	}
}

func TestADrainedRunLeavesTheRemoteOneAtWork(t *testing.T) {
	var done effects
	gate := newGate()
	c := serve(t, server.Graph(gate.graph(&done)))
	th := called(c, "gate").MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t-1")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-gate.entered; cancel(graph.ErrDrained) }() // as a server does that ends
	if _, err := th.Invoke(ctx, th.Input(toBonn)); !errors.Is(err, graph.ErrDrained) {
		t.Errorf("the drained run ends with %v", err)
	}
	close(gate.open)
	snap, err := th.Invoke(t.Context(), th.Continue())
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(snap.State.Paid.Get(), &done, len(gate.stopped), len(gate.entered)); got != "[Bonn] [1] 0 0" {
		t.Errorf("then it led to %s", got)
	}
}

func TestWhoeverCancelsTheRemoteRunStopsThisOne(t *testing.T) {
	var done effects
	gate := newGate()
	c := serve(t, server.Graph(gate.graph(&done)))
	th := called(c, "gate").MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t-1")
	go func() {
		<-gate.entered
		for thread := range c.Threads(context.Background(), client.ThreadSearch{}) {
			for run := range c.Runs(context.Background(), thread.ID, client.RunSearch{}) {
				_ = c.Cancel(context.Background(), thread.ID, run.ID, true)
			}
		}
	}()
	_, err := th.Invoke(t.Context(), th.Input(toBonn))
	if failed := (*remote.Error)(nil); !errors.As(err, &failed) || !errors.Is(err, remote.ErrStopped) || failed.Run == "" {
		t.Errorf("the run ends with %v", err)
	}
	close(gate.open)
	snap, err := th.Invoke(t.Context(), th.Continue())
	if err != nil || fmt.Sprint(snap.State.Paid.Get(), &done) != "[Bonn] [1]" {
		t.Errorf("then it led to %v, %s, %v", snap.State.Paid.Get(), &done, err)
	}
}

func TestARemoteRunThatFailsIsTakenUpWhereItFailed(t *testing.T) {
	var done, tries effects
	b := graph.New[trip]("flaky")
	b.AddNode("charge", func(ctx context.Context, s *trip) error { done.add(ctx); s.Paid.Add(s.City); return nil })
	b.AddNode("print", func(ctx context.Context, s *trip) error {
		if tries.add(ctx); tries.String() == "[1]" {
			return errors.New("out of paper")
		}
		return nil
	})
	c := serve(t, server.Graph(b.AddSequence("charge", "print").AddEdge(graph.Start, "charge").MustCompile()))
	t.Run("by whoever continues", func(t *testing.T) {
		th := called(c, "flaky").MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t-1")
		_, err := th.Invoke(t.Context(), th.Input(toBonn))
		if failed := (*client.RunError)(nil); !errors.As(err, &failed) || !strings.Contains(failed.Message, "out of paper") {
			t.Errorf("the run ends with %v", err)
		}
		snap, err := th.Invoke(t.Context(), th.Continue())
		if err != nil || fmt.Sprint(snap.State.Paid.Get(), &done) != "[Bonn] [1]" {
			t.Errorf("then it led to %v, %s, %v", snap.State.Paid.Get(), &done, err)
		}
	})
	done.of, tries.of = nil, nil
	t.Run("by a retry, without a checkpointer", func(t *testing.T) {
		g := calls(remote.Graph[ours, city, trip]{Client: c, Assistant: "flaky"}, graph.Retry(graph.RetryPolicy{MaxAttempts: 2, Initial: time.Nanosecond})).MustCompile()
		snap, err := g.Invoke(t.Context(), toBonn)
		if err != nil || fmt.Sprint(snap.State.Paid.Get(), &done) != "[Bonn] [1]" {
			t.Errorf("it led to %v, %s, %v", snap.State.Paid.Get(), &done, err)
		}
	})
}

func TestARemoteThreadIsATasksOrTheNodes(t *testing.T) {
	for _, keep := range []bool{false, true} {
		var done effects
		b := graph.New[trip]("note")
		b.AddNode("note", func(ctx context.Context, s *trip) error { done.add(ctx); s.Paid.Add(s.City); return nil })
		c := serve(t, server.Graph(b.AddEdge(graph.Start, "note").MustCompile()))
		th := calls(remote.Graph[ours, city, trip]{Client: c, Assistant: "note", KeepState: keep}).MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t-1")
		var snap *graph.Snapshot[ours]
		for _, to := range []string{"Bonn", "Rom"} {
			var err error
			if snap, err = th.Invoke(t.Context(), th.Input(func(s *ours) error { s.City = to; return nil })); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := fmt.Sprint(snap.State.Paid.Get(), len(done.of)), map[bool]string{false: "[Rom] 2", true: "[Bonn Rom] 1"}[keep]; got != want {
			t.Errorf("KeepState %v: the second visit led to %s, want %s", keep, got, want)
		}
	}
}

func TestAThreadRestsWhileTheRemoteOneDoes(t *testing.T) {
	var done effects
	b := graph.New[trip]("sleepy")
	b.AddNode("sleep", func(ctx context.Context, s *trip) error {
		if err := graph.Sleep(ctx, "nap", 10*time.Millisecond); err != nil {
			return err
		}
		done.add(ctx)
		s.Paid.Add(s.City)
		return nil
	})
	c := serve(t, server.Graph(b.AddEdge(graph.Start, "sleep").MustCompile()))
	store := checkpoint.NewMemory()
	g := called(c, "sleepy").MustCompile(graph.WithCheckpointer(store))
	th := g.Thread("t-1")
	snap, err := th.Invoke(t.Context(), th.Input(toBonn))
	if err != nil || len(snap.Waits) != 1 {
		t.Fatalf("it waits for %v, %v", snap.Waits, err)
	}
	ran := make(chan graph.RunnerReport, 9)
	r, err := graph.NewRunner(store, graph.RunnerOptions{Report: func(rep graph.RunnerReport) { ran <- rep }}, g)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	for !snap.Done() {
		<-ran
		if snap, err = th.State(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	<-ended
	if got := fmt.Sprint(snap.State.Paid.Get(), &done); got != "[Bonn] [1]" {
		t.Errorf("then it led to %s", got)
	}
}

func TestALostConnectionGoesOn(t *testing.T) {
	var done effects
	s, err := server.New(t.Context(), server.Graph(booking(&done)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	var once sync.Once
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/stream") {
			once.Do(func() { panic(http.ErrAbortHandler) })
		}
		s.ServeHTTP(w, r)
	}))
	defer web.Close()
	c, err := client.New(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	th := called(c, "booking").MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t-1")
	snap, err := th.Invoke(t.Context(), th.Input(toBonn))
	if err != nil || len(snap.Interrupts) != 2 || done.String() != "[1]" {
		t.Errorf("it asks %v, was charged %s times, %v", snap.Interrupts, &done, err)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	var done effects
	c := serve(t, server.Graph(booking(&done)))
	nobody, err := client.New("http://127.0.0.1:1", client.Reconnects(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		g    *graph.Builder[ours]
		want string
	}{
		{"an assistant that there is not", called(c, "nope"), `No assistant found for "nope"`},
		{"a server that does not answer", called(nobody, "booking"), "no answer from"},
	} {
		_, err := tt.g.MustCompile().Invoke(t.Context(), toBonn)
		if failed := (*remote.Error)(nil); !errors.As(err, &failed) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	b := graph.New[ours]("ours")
	remote.AddGraph(b, "trip", remote.Graph[ours, city, trip]{})
	_, err = b.AddEdge(graph.Start, "trip").Compile()
	for _, want := range []string{"a Client", "an Assistant", "an Input", "an Output"} {
		if !strings.Contains(fmt.Sprint(err), "a remote graph needs "+want) {
			t.Errorf("compiled without %s: %v", want, err)
		}
	}
}
