package fleet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/fleet/bus"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
)

// away returns a client of workers that are elsewhere and have a bus.
func away(t *testing.T, store checkpoint.Store, b bus.Bus, log *slog.Logger, g graph.Runnable) *fleet.Client {
	t.Helper()
	w, err := fleet.NewWorker(store, fleet.Options{Bus: b, Log: log}, fleet.Program{Graph: g})
	if err != nil {
		t.Fatal(err)
	}
	d, err := fleet.NewLocal(w, fleet.LocalOptions{Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fleet.Client{Dispatcher: elsewhere{d}, Store: store, Bus: b, Log: log}
}

// What nodes send is told in order with what they wrote, also in subgraphs: as by a run of
// this process.
func TestAStreamTellsWhatNodesSendElsewhere(t *testing.T) {
	modes := graph.Modes(graph.ModeUpdates, graph.ModeCheckpoints, graph.ModeMessages, graph.ModeCustom)
	var all [2][]string
	for i := range all {
		synctest.Test(t, func(t *testing.T) {
			store := checkpoint.NewMemory()
			inner := graph.New[trip]("inner").AddNode("talk", func(ctx context.Context, s *trip) error {
				for n := range 3 {
					if err := graph.EmitMessage(ctx, chat.Chunk{ID: "m", Text: fmt.Sprint("token ", n)}); err != nil {
						return err
					}
				}
				s.Log.Add("talked")
				return nil
			}).AddEdge(graph.Start, "talk").MustCompile()
			b := graph.New[trip]("g")
			for _, name := range []string{"first", "second"} {
				b.AddNode(name, func(ctx context.Context, s *trip) error {
					s.Log.Add(name)
					return graph.Emit(ctx, json.RawMessage(`"`+name+`"`))
				})
			}
			graph.AddShared(b, "inner", inner, func(s *trip) *trip { return s })
			g, err := b.AddEdge(graph.Start, "first").AddSequence("first", "inner", "second").Compile(graph.WithCheckpointer(store))
			if err != nil {
				t.Fatal(err)
			}
			th := g.Thread("t")
			events := th.Stream(t.Context(), th.Input(nothing), modes)
			if i == 1 {
				events = fleet.Stream(t.Context(), away(t, store, bus.NewMemory(), nil, g), th, th.Input(nothing), modes)
			}
			for ev, err := range events {
				if err != nil {
					t.Fatal(err)
				}
				if recorded := ev.Type != graph.EventMessage && ev.Type != graph.EventCustom; recorded && len(ev.Path) > 0 {
					continue
				}
				if data, ok := ev.Value.(json.RawMessage); ok {
					ev.Value = string(data)
				}
				all[i] = append(all[i], fmt.Sprintln(ev.Type, ev.Path, len(ev.Within), ev.Graph, ev.Thread, ev.Step, ev.Node, ev.Task != "", ev.Attempt, string(ev.Update), ev.Value))
			}
		})
	}
	if !slices.Equal(all[0], all[1]) || len(all[0]) < 9 {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(all[1], ""), strings.Join(all[0], ""))
	}
}

// What a model and tools send arrives as they sent it.
func TestWhatIsSentArrivesAsItWas(t *testing.T) {
	store := checkpoint.NewMemory()
	values := []any{
		chat.Chunk{
			ID: "m", Role: chat.RoleAssistant, Name: "n", Text: "t", Reasoning: "r", ToolCalls: []chat.ToolCallChunk{{Index: 1, ID: "c", Name: "f", Args: "{", Signature: "s"}},
			Parts: []chat.Part{chat.Text{Text: "whole"}}, Model: "x", Finish: chat.FinishStop, Usage: &chat.Usage{Input: 1, Output: 2}, Metadata: map[string]string{"a": "b"},
		},
		chat.Chunk{Text: "t"},
		tool.Started{CallID: "c", Name: "f", Args: json.RawMessage(`{"a":1}`)},
		tool.Ended{CallID: "c", Name: "f", Result: tool.Result{Content: []chat.Part{chat.Text{Text: "told"}}, Artifact: json.RawMessage(`[1]`)}, Duration: time.Second, Recorded: true},
		tool.Ended{CallID: "c", Name: "f", Err: errors.New("it is broken")},
		json.RawMessage(`{"any":"JSON"}`),
	}
	g := compile(t, store, "sends", func(ctx context.Context, s *trip) error {
		for _, v := range values {
			if err := graph.Emit(ctx, v); err != nil {
				return err
			}
		}
		return nil
	})
	th := g.Thread("t")
	var got []any
	for ev, err := range fleet.Stream(t.Context(), away(t, store, bus.NewMemory(), nil, g), th, th.Input(nothing), graph.Modes(graph.ModeCustom)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ev.Value)
	}
	if !reflect.DeepEqual(got, values) {
		t.Errorf("got\n%+v\nwant\n%+v", got, values)
	}
}

// Tokens of a model are told while its node is at work, and not each by itself.
func TestTokensAreToldLiveAndInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		b := &counting{Bus: bus.NewMemory()}
		told := make(chan struct{})
		g := compile(t, store, "talks", func(ctx context.Context, s *trip) error {
			for n := range 100 {
				if err := graph.EmitMessage(ctx, chat.Chunk{ID: "m", Text: fmt.Sprint(n)}); err != nil {
					return err
				}
				time.Sleep(10 * time.Millisecond)
			}
			<-told
			return nil
		})
		th := g.Thread("t")
		n := 0
		for ev, err := range fleet.Stream(t.Context(), away(t, store, b, nil, g), th, th.Input(nothing), graph.Modes(graph.ModeMessages)) {
			if err != nil {
				t.Fatal(err)
			}
			if k := ev.Value.(chat.Chunk); k.Text != fmt.Sprint(n) {
				t.Errorf("token %d is %+v", n, k)
			}
			if late := time.Since(ev.Time); late > 60*time.Millisecond {
				t.Errorf("token %d is told after %v", n, late)
			}
			if n++; n == 100 {
				close(told) // the node waits for it
			}
		}
		if n != 100 || b.published > 21 {
			t.Errorf("%d tokens were told, by %d batches", n, b.published)
		}
	})
}

// counting counts what is published.
type counting struct {
	bus.Bus
	mu        sync.Mutex
	published int
	largest   int
}

func (c *counting) Publish(ctx context.Context, thread string, batch []byte) error {
	c.mu.Lock()
	c.published++
	c.largest = max(c.largest, len(batch))
	c.mu.Unlock()
	return c.Bus.Publish(ctx, thread, batch)
}

func (c *counting) most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.largest
}

// A batch is not larger than it has to be, and one event may be as large as it likes.
func TestBatchesAreBounded(t *testing.T) {
	store := checkpoint.NewMemory()
	b := &counting{Bus: bus.NewMemory()}
	huge := strings.Repeat("x", 1<<20)
	g := compile(t, store, "sends", func(ctx context.Context, s *trip) error {
		for range 1000 {
			if err := graph.Emit(ctx, huge[:1000]); err != nil {
				return err
			}
		}
		if n := b.most(); n > 40<<10 {
			t.Errorf("a batch has %d bytes", n)
		}
		return graph.Emit(ctx, huge)
	})
	th := g.Thread("t")
	size := 0
	for ev, err := range fleet.Stream(t.Context(), away(t, store, b, nil, g), th, th.Input(nothing), graph.Modes(graph.ModeCustom)) {
		if err != nil {
			t.Fatal(err)
		}
		size += len(ev.Value.(json.RawMessage)) - 2
	}
	if size != 1000*1000+1<<20 {
		t.Errorf("%d bytes were told", size)
	}
}

// broken is a bus that fails as long as it is down.
type broken struct {
	bus.Bus
	mu   sync.Mutex
	down bool
}

func (b *broken) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return errors.New("the bus is down")
	}
	return nil
}

func (b *broken) set(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

func (b *broken) Publish(ctx context.Context, thread string, batch []byte) error {
	if err := b.err(); err != nil {
		return err
	}
	return b.Bus.Publish(ctx, thread, batch)
}

func (b *broken) Subscribe(ctx context.Context, thread string) (bus.Subscription, error) {
	if err := b.err(); err != nil {
		return nil, err
	}
	return b.Bus.Subscribe(ctx, thread)
}

// A bus that is down is told of once, no run fails for it, and what is sent when it works
// again is told.
func TestARunDoesNotNeedTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		b := &broken{Bus: bus.NewMemory(), down: true}
		g := compile(t, store, "sends", func(ctx context.Context, s *trip) error {
			for n := range 10 {
				if n == 6 {
					b.set(false)
					time.Sleep(5 * time.Second)
				}
				if err := graph.Emit(ctx, n); err != nil {
					return err
				}
				time.Sleep(time.Second)
			}
			s.Log.Add("sent")
			return nil
		})
		th := g.Thread("t")
		var got []string
		for ev, err := range fleet.Stream(t.Context(), away(t, store, b, log, g), th, th.Input(nothing), graph.Modes(graph.ModeCustom, graph.ModeUpdates)) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(ev.Node, " ", string(ev.Update), printed(ev.Value)))
		}
		if want := []string{"node 6", "node 7", "node 8", "node 9", `node {"Log":["sent"]}`, `end {"Log":["end"]}`}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if n := strings.Count(text.String(), "the bus is down"); n != 2 { // by the worker and by the stream
			t.Errorf("it was told %d times:\n%s", n, &text)
		}
	})
}

func printed(v any) string {
	data, _ := v.(json.RawMessage)
	return string(data)
}

// What can't be written as JSON is missing from the stream, and the run goes on.
func TestWhatIsNotJSONIsLeftOut(t *testing.T) {
	store := checkpoint.NewMemory()
	var text bytes.Buffer
	g := compile(t, store, "sends", func(ctx context.Context, s *trip) error {
		for range 3 {
			if err := graph.Emit(ctx, make(chan int)); err != nil {
				return err
			}
		}
		return graph.Emit(ctx, "well")
	})
	th := g.Thread("t")
	var got []string
	for ev, err := range fleet.Stream(t.Context(), away(t, store, bus.NewMemory(), slog.New(slog.NewTextHandler(&text, nil)), g), th, th.Input(nothing), graph.Modes(graph.ModeCustom)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, printed(ev.Value))
	}
	if !slices.Equal(got, []string{`"well"`}) || strings.Count(text.String(), "can't be written as JSON") != 1 || !strings.Contains(text.String(), "node=node") {
		t.Errorf("got %q, and was told\n%s", got, &text)
	}
}

// A worker that was taken for dead, since it could not be reached, still sends: once another
// has begun its task, what it sends is dropped. What it had sent was told; that the task
// began anew is, too.
func TestWhatASupersededExecutionSendsIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := checkpoint.NewMemory(), bus.NewMemory()
		var mu sync.Mutex
		executions := 0
		g := compile(t, store, "sends", func(ctx context.Context, s *trip) error {
			mu.Lock()
			executions++
			who := fmt.Sprint("worker ", executions)
			mu.Unlock()
			for n := range 4 {
				if err := graph.Emit(ctx, fmt.Sprint(who, ", ", n)); err != nil {
					return err
				}
				time.Sleep(time.Second)
			}
			s.Log.Add(who)
			return nil
		})
		c := away(t, store, b, nil, g)
		twice, err := fleet.NewWorker(store, fleet.Options{Bus: b}, fleet.Program{Graph: g})
		if err != nil {
			t.Fatal(err)
		}
		c.Dispatcher = &doubting{t: t, w: twice}
		th := g.Thread("t")
		var got []string
		for ev, err := range fleet.Stream(t.Context(), c, th, th.Input(nothing), graph.Modes(graph.ModeCustom, graph.ModeTasks, graph.ModeUpdates)) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(ev.Type, " ", string(ev.Update), printed(ev.Value)))
		}
		want := []string{
			`task `, `custom "worker 1, 0"`, `custom "worker 1, 1"`, `task_retry `,
			`custom "worker 2, 0"`, `custom "worker 2, 1"`, `custom "worker 2, 2"`, `custom "worker 2, 3"`, `task_result {"Log":["worker 2"]}`,
			`updates {"Log":["worker 1"]}`, `task `, `task_result {"Log":["end"]}`, `updates {"Log":["end"]}`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
	})
}

// doubting is a dispatcher that has each range run again after a second and a half, by
// another worker, as if the first were dead.
type doubting struct {
	t *testing.T
	w *fleet.Worker
}

func (d *doubting) Cancel(context.Context, string) error { return nil }

func (d *doubting) Dispatch(ctx context.Context, ref fleet.Ref) (fleet.Run, error) {
	r := &doubted{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		ctx := context.WithoutCancel(ctx)
		r.p, r.err = d.w.Advance(ctx, ref)
		for r.err == nil && !r.p.Status.Over() {
			var both sync.WaitGroup
			for i := range 2 {
				both.Go(func() {
					time.Sleep(time.Duration(i) * 1500 * time.Millisecond)
					if err := d.w.RunTasks(ctx, r.p.Ref, r.p.From, r.p.To); err != nil {
						d.t.Error(err)
					}
				})
			}
			both.Wait()
			r.p, r.err = d.w.Advance(ctx, r.p.Ref)
		}
	}()
	return r, nil
}

type doubted struct {
	done chan struct{}
	p    fleet.Progress
	err  error
}

func (r *doubted) Wait(context.Context) (fleet.Progress, error) { <-r.done; return r.p, r.err }
