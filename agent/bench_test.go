package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// rounds is a model that calls a tool n times and then answers, each time after
// a delay. It knows how far a conversation is from the conversation alone.
func rounds(n int, delay time.Duration) model.Model {
	return model.Func(func(ctx context.Context, r *model.Request) (*model.Response, error) {
		if delay > 0 {
			select {
			case <-time.After(delay):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		done := 0
		for i := len(r.Messages) - 1; i >= 0 && r.Messages[i].Role != chat.RoleUser; i-- {
			if r.Messages[i].Role == chat.RoleAssistant {
				done++
			}
		}
		if done < n {
			return &model.Response{Message: chat.Assistant("", chat.ToolCall{ID: fmt.Sprint("c", done), Name: "multiply", Args: `{"a":6,"b":7}`})}, nil
		}
		return &model.Response{Message: chat.Assistant("42")}, nil
	})
}

// BenchmarkTenSteps is an agent of five rounds of tools, ten supersteps and an
// answer, over a model that costs nothing: what the agent adds to its model.
// W7-45: a loop of ten supersteps of an agent, with a store and without: the time of a
// superstep, and by how much the resident memory grows.
func BenchmarkTenSteps(b *testing.B) {
	n := 0
	m := rounds(5, 0)
	for name, open := range map[string]func() []graph.Option{
		"no store": func() []graph.Option { return nil },
		"memory":   func() []graph.Option { return []graph.Option{memory()} },
		"sqlite": func() []graph.Option {
			store, err := sqlite.Open(filepath.Join(b.TempDir(), "b.db"), sqlite.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { store.Close() })
			return []graph.Option{graph.WithCheckpointer(store)}
		},
	} {
		b.Run(name, func(b *testing.B) {
			g, err := agent.New(agent.ReAct[agent.State]{Model: m, Tools: []tool.Tool{counted(&n)}}, open()...)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			before := resident(b)
			for i := 0; b.Loop(); i++ {
				if _, err := g.Thread(fmt.Sprint(i)).Invoke(b.Context(), g.Input(agent.Ask[agent.State]("6*7?"))); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/11, "ns/superstep")
			b.ReportMetric((resident(b)-before)/1024, "KiB-RSS")
		})
	}
	b.Run("the model and the tool alone", func(b *testing.B) {
		t := counted(&n)
		b.ReportAllocs()
		for b.Loop() {
			messages := []chat.Message{chat.User("6*7?")}
			for {
				resp, err := m.Generate(b.Context(), &model.Request{Messages: messages})
				if err != nil {
					b.Fatal(err)
				}
				messages = append(messages, resp.Message)
				calls := resp.Message.ToolCalls()
				if len(calls) == 0 {
					break
				}
				for _, c := range calls {
					r, err := t.Call(b.Context(), []byte(c.Args))
					if err != nil {
						b.Fatal(err)
					}
					messages = append(messages, chat.Result(c, r.Content...))
				}
			}
		}
	})
}

// BenchmarkToolCalls is a turn in which a model calls one tool, or four at once, in one task
// and in a task for each: what a task of its own costs.
func BenchmarkToolCalls(b *testing.B) {
	x := tool.New("x", "", func(context.Context, none) (int, error) { return 1, nil })
	for _, n := range []int{1, 4} {
		var cs []chat.ToolCall
		for i := range n {
			cs = append(cs, call(fmt.Sprint("c", i), "x", "{}"))
		}
		m := model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
			if r.Messages[len(r.Messages)-1].Role == chat.RoleUser {
				return &model.Response{Message: chat.Assistant("", cs...)}, nil
			}
			return &model.Response{Message: chat.Assistant("done")}, nil
		})
		for _, own := range []bool{false, true} {
			for _, store := range []string{"none", "memory"} {
				b.Run(fmt.Sprintf("calls=%d/task per call=%v/store=%s", n, own, store), func(b *testing.B) {
					a := agent.ReAct[S]{Model: m, Tools: []tool.Tool{x}, TaskPerCall: own}
					if !own && n > 1 {
						a.Parallel = n
					}
					var opts []graph.Option
					if store == "memory" {
						opts = append(opts, memory())
					}
					g, err := agent.New(a, opts...)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						if _, err := g.Thread(fmt.Sprint(i)).Invoke(b.Context(), input("go")); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// Many agents at once, over a model that takes 50 ms: each has an answer, and
// nothing is left behind. With SUPERSTEP_MEASURE=1 they are 10,000, and the test
// says what they cost.
func TestManyAgentsAtOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	agents, measure := 200, os.Getenv("SUPERSTEP_MEASURE") == "1"
	if measure {
		agents = 10_000
	}
	var calls sync.Map
	mul := tool.New("multiply", "", func(_ context.Context, in pair) (int, error) { calls.Store(in, true); return in.A * in.B, nil })
	g, err := agent.New(agent.ReAct[agent.State]{Model: rounds(2, 50*time.Millisecond), Tools: []tool.Tool{mul}}, graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		t.Fatal(err)
	}
	var before, during runtime.MemStats
	debug.FreeOSMemory()
	runtime.ReadMemStats(&before)
	start := time.Now()
	var all sync.WaitGroup
	errs := make(chan error, agents)
	for i := range agents {
		all.Go(func() {
			snap, err := g.Thread(fmt.Sprint(i)).Invoke(t.Context(), g.Input(agent.Ask[agent.State]("6*7?")))
			if err == nil && snap.State.LastResponse.Get() != "42" {
				err = fmt.Errorf("agent %d answers %q", i, snap.State.LastResponse.Get())
			}
			if err != nil {
				errs <- err
			}
		})
	}
	if measure {
		time.Sleep(40 * time.Millisecond) // all of them wait for the model
		debug.FreeOSMemory()
		runtime.ReadMemStats(&during)
	}
	all.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if measure {
		took := time.Since(start)
		used := during.HeapAlloc + during.StackInuse - before.HeapAlloc - before.StackInuse
		t.Logf("%d agents of 3 model calls and 2 tool calls each: %v, %.0f supersteps/s, %d bytes an agent while the model works", agents, took, float64(agents*5)/took.Seconds(), used/uint64(agents))
	}
}

// resident returns the bytes of memory that the process holds, where the system says
// so, and else what the runtime has from it.
func resident(tb testing.TB) float64 {
	tb.Helper()
	debug.FreeOSMemory()
	if data, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size, pages float64
		if _, err := fmt.Sscan(string(data), &size, &pages); err == nil {
			return pages * float64(os.Getpagesize())
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Sys)
}

// W7-45: the memory that the benchmark reports is that of the process.
func TestTheMeasuredMemoryGrowsWithWhatIsHeld(t *testing.T) {
	before := resident(t)
	held := bytes.Repeat([]byte{1}, 64<<20)
	if grown := resident(t) - before; grown < 32<<20 {
		t.Errorf("it grew by %.0f bytes with %d held", grown, len(held))
	}
	runtime.KeepAlive(held)
}
