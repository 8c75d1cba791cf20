package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
)

// Each benchmark is a row of the table in docs/performance.md.

type small struct{ N int }

// ring is a graph of two nodes that go round for ever, changing one field.
func ring[S any](b *testing.B, change func(*S) error, opts ...graph.Option) *graph.Graph[S] {
	gb := graph.New[S]("ring")
	started := false
	node := func(_ context.Context, s *S) error {
		if !started { // what came before is the input's cost
			started = true
			b.ResetTimer()
		}
		if err := change(s); err != nil {
			return err
		}
		return nil
	}
	gb.AddNode("a", node).AddNode("b", node)
	gb.AddEdge(graph.Start, "a").AddEdge("a", "b").AddEdge("b", "a")
	return compile(b, gb, opts...)
}

// steps runs b.N supersteps.
func steps[S any](b *testing.B, g *graph.Graph[S], input func(*S) error, opts ...graph.RunOption) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	_, err := g.Thread("t").Invoke(bg, g.Input(input), append(opts, graph.MaxSteps(b.N))...)
	b.StopTimer()
	wantErr[*graph.LimitError](b, err)
}

// storedSteps runs b.N supersteps of a thread.
func storedSteps[S any](b *testing.B, g *graph.Graph[S], input func(*S) error) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	_, err := g.Thread("t").Invoke(bg, g.Input(input), graph.MaxSteps(b.N))
	b.StopTimer()
	wantErr[*graph.LimitError](b, err)
}

func BenchmarkStep(b *testing.B) {
	change := func(s *small) error {
		s.N++
		return nil
	}
	input := func(s *small) error {
		s.N = 1
		return nil
	}
	b.Run("no store", func(b *testing.B) { steps(b, ring(b, change), input) })
	b.Run("router", func(b *testing.B) {
		gb := graph.New[small]("g").AddNode("a", func(_ context.Context, s *small) error { return change(s) })
		gb.AddEdge(graph.Start, "a").AddConditionalEdges("a", func(context.Context, *small) (graph.Command, error) { return graph.Goto("a"), nil }, "a")
		steps(b, compile(b, gb), input)
	})
	b.Run("memory", func(b *testing.B) {
		storedSteps(b, ring(b, change, graph.WithCheckpointer(checkpoint.NewMemory())), input)
	})
	b.Run("sqlite", func(b *testing.B) {
		store, err := sqlite.Open(filepath.Join(b.TempDir(), "bench.db"))
		if err != nil {
			b.Fatal(err)
		}
		defer store.Close()
		storedSteps(b, ring(b, change, graph.WithCheckpointer(store)), input)
	})
}

// BenchmarkDo is a node of ten sub-steps.
func BenchmarkDo(b *testing.B) {
	inc := func(_ context.Context, in int) (int, error) { return in + 1, nil }
	gb := graph.New[small]("g").AddNode("a", func(ctx context.Context, s *small) (err error) {
		for range 10 {
			if s.N, err = graph.Do(ctx, "inc", inc, s.N); err != nil {
				return err
			}
		}
		return nil
	}).AddEdge(graph.Start, "a")
	for _, stored := range []bool{false, true} {
		b.Run(fmt.Sprintf("stored %v", stored), func(b *testing.B) {
			var opts []graph.Option
			if stored {
				opts = append(opts, graph.WithCheckpointer(checkpoint.NewMemory()))
			}
			g := compile(b, gb, opts...)
			b.ReportAllocs()
			for i := range b.N {
				if _, err := g.Thread(fmt.Sprint(i)).Invoke(bg, g.Input(nothingSmall)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func nothingSmall(*small) error { return nil }

// BenchmarkStepByState shows that a step costs the same whatever the state
// holds that it doesn't touch.
func BenchmarkStepByState(b *testing.B) {
	type content struct {
		N     int
		Items graph.List[string]
		Known graph.Map[string, int]
		Text  string
	}
	for _, size := range []int{0, 1_000, 100_000} {
		for _, store := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d items and bytes, stored %v", size, store), func(b *testing.B) {
				var opts []graph.Option
				if store {
					opts = []graph.Option{graph.WithCheckpointer(checkpoint.NewMemory())}
				}
				steps(b, ring(b, func(s *content) error {
					s.N++
					return nil
				}, opts...), func(s *content) error {
					for i := range size {
						s.Items.Add("item")
						s.Known.Put(fmt.Sprint(i), i)
					}
					s.Text = strings.Repeat("x", size)
					return nil
				})
			})
		}
	}
}

type (
	ten struct {
		N                  int
		A1, A2, A3, A4, A5 string
		B1, B2, B3, B4     int
	}
	hundred struct {
		N                               int
		A, B, C, D, E, F, G, H, I, J, K struct {
			S1, S2, S3             string
			I1, I2, I3, I4, I5, I6 int
		}
	}
)

// BenchmarkStepByFields shows what a plain field costs.
func BenchmarkStepByFields(b *testing.B) {
	b.Run("1", func(b *testing.B) {
		steps(b, ring(b, func(s *small) error {
			s.N++
			return nil
		}), func(s *small) error {
			s.N = 1
			return nil
		})
	})
	b.Run("10", func(b *testing.B) {
		steps(b, ring(b, func(s *ten) error {
			s.N++
			return nil
		}), func(s *ten) error {
			s.N = 1
			return nil
		})
	})
	b.Run("12 of 100 values", func(b *testing.B) {
		steps(b, ring(b, func(s *hundred) error {
			s.N++
			return nil
		}), func(s *hundred) error {
			s.N = 1
			return nil
		})
	})
}

// BenchmarkStepByNodes shows that a step doesn't cost more in a larger graph.
func BenchmarkStepByNodes(b *testing.B) {
	for _, nodes := range []int{2, 1000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			gb := graph.New[small]("ring")
			name := func(i int) string { return fmt.Sprint("node", i%nodes) }
			for i := range nodes {
				gb.AddNode(name(i), func(_ context.Context, s *small) error { s.N++; return nil })
				gb.AddEdge(name(i), name(i+1))
			}
			gb.AddEdge(graph.Start, name(0))
			steps(b, compile(b, gb), func(s *small) error {
				s.N = 1
				return nil
			})
		})
	}
}

// BenchmarkStepByHistory shows that a turn doesn't cost more in a longer thread.
func BenchmarkStepByHistory(b *testing.B) {
	type chat struct{ Messages graph.List[string] }
	for _, turns := range []int{1, 1_000, 10_000} {
		b.Run(fmt.Sprint(turns, " turns"), func(b *testing.B) {
			store := []graph.Option{graph.WithCheckpointer(checkpoint.NewMemory())}
			reply := func(s *chat) error {
				s.Messages.Add("reply")
				return nil
			}
			if _, err := ring(b, reply, store...).Thread("t").Invoke(bg, graph.Requests[chat]{}.Input(func(s *chat) error {
				s.Messages.Add("hello")
				return nil
			}), graph.MaxSteps(turns)); err == nil {
				b.Fatal("no limit")
			}
			s := ring(b, reply, store...) // whose first node starts the clock, after loading
			b.ReportAllocs()
			b.ResetTimer()
			_, _ = s.Thread("t").Invoke(bg, s.Continue(), graph.MaxSteps(turns+b.N))
		})
	}
}

// BenchmarkFanOut runs n sends and a join, beside the bare goroutines.
func BenchmarkFanOut(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		for _, stored := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d sends, stored %v", n, stored), func(b *testing.B) {
				gb := graph.New[trail]("fan")
				work := graph.AddTask(gb, "work", func(_ context.Context, s *trail, in int) error { s.Total.Add(in); return nil })
				gb.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
					sends := make([]graph.Send, n)
					for i := range sends {
						sends[i] = work.Send(i)
					}
					return graph.Dispatch(sends...), nil
				})
				gb.AddNode("sum", func(_ context.Context, s *trail) error { s.N = s.Total.Get(); return nil })
				gb.AddEdge(graph.Start, "split").AddEdge("work", "sum")
				var opts []graph.Option
				if stored {
					opts = []graph.Option{graph.WithCheckpointer(checkpoint.NewMemory())}
				}
				g := compile(b, gb, opts...)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					snap, err := g.Thread(fmt.Sprint(i)).Invoke(bg, g.Input(func(*trail) error { return nil }))
					if err != nil || snap.State.N != n*(n-1)/2 {
						b.Fatal(snap.State.N, err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/task")
			})
		}
		b.Run(fmt.Sprintf("%d bare goroutines", n), func(b *testing.B) {
			for b.Loop() {
				var wg sync.WaitGroup
				var mu sync.Mutex
				sum := 0
				for i := range n {
					wg.Go(func() {
						mu.Lock()
						sum += i
						mu.Unlock()
					})
				}
				wg.Wait()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/task")
		})
	}
}

// BenchmarkLoadConversation reads the state of a thread of 2,000 turns with a
// kilobyte each, beside what a program does that keeps the messages in a file:
// it reads and decodes them.
func BenchmarkLoadConversation(b *testing.B) {
	type message struct{ Role, Text string }
	type chat struct{ Messages graph.List[message] }
	text := strings.Repeat("Lorem ipsum dolor sit amet. ", 18) // 504 bytes, twice a turn
	reply := func(s *chat) error {
		s.Messages.Add(message{Role: "assistant", Text: text})
		return nil
	}
	stores := []struct {
		name string
		open func(dir string) (checkpoint.Store, error)
	}{
		{"memory", func(string) (checkpoint.Store, error) { return checkpoint.NewMemory(), nil }},
		{"files", func(dir string) (checkpoint.Store, error) {
			return file.Open(dir, file.Options{Sync: file.SyncNever})
		}},
		{"sqlite", func(dir string) (checkpoint.Store, error) { return sqlite.Open(filepath.Join(dir, "bench.db")) }},
	}
	b.Run("a file of messages", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "messages.json")
		all := make([]message, 4000)
		for i := range all {
			all[i] = message{Role: "assistant", Text: text}
		}
		data, err := json.Marshal(all)
		if err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			data, err := os.ReadFile(path)
			if err != nil {
				b.Fatal(err)
			}
			var got []message
			if err := json.Unmarshal(data, &got); err != nil || len(got) != 4000 {
				b.Fatal(len(got), err)
			}
		}
	})
	for _, s := range stores {
		b.Run(s.name, func(b *testing.B) {
			store, err := s.open(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			if c, ok := store.(io.Closer); ok {
				defer c.Close()
			}
			gb := graph.New[chat]("chat").AddNode("reply", func(_ context.Context, s *chat) error {
				if err := reply(s); err != nil {
					return err
				}
				return nil
			})
			gb.AddEdge(graph.Start, "reply")
			g := compile(b, gb, graph.WithCheckpointer(store), graph.OnWarning(func(graph.Warning) {}))
			turn := func(b *testing.B) {
				if _, err := g.Thread("t").Invoke(bg, g.Input(func(s *chat) error {
					s.Messages.Add(message{Role: "user", Text: text})
					return nil
				})); err != nil {
					b.Fatal(err)
				}
			}
			for range 2000 {
				turn(b)
			}
			for name, opts := range map[string][]graph.ThreadOption{"first": {graph.ReadCache(0)}, "again": nil} {
				b.Run(name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						snap, err := g.Thread("t", opts...).State(bg)
						if err != nil || snap.State.Messages.Len() != 4000 {
							b.Fatal(snap.State.Messages.Len(), err)
						}
					}
				})
			}
			b.Run("turn", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					turn(b)
				}
			})
		})
	}
}
