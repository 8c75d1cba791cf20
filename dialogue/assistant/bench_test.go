//go:build unix

package assistant_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// counting asks for numbers for ever: no turn needs a model or an action.
const counting = `
version: "2.0"
slots:
  n: {type: integer, ask: {text: "And now?"}}
flows:
  count:
    description: Say numbers.
    steps:
    - {step: ask, collect: n, force: true}
    - {say: {text: "You said {n}."}, next: ask}
`

func numbers(b testing.TB, store checkpoint.Store) *assistant.Assistant {
	return build(b, assistant.Config{Program: compile(b, counting), Understanding: hears{"count": start("count")}, Store: store})
}

func turn(b testing.TB, a *assistant.Assistant, thread, text string) {
	if _, err := a.Say(context.Background(), thread, dialogue.Message{Text: text}); err != nil {
		b.Fatal(err)
	}
}

// processor is the time that this process has had of the processors: what a busy machine
// says of a cost.
func processor(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// percentiles reports where times lie.
func percentiles(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[0].Microseconds())/1000, "min-ms")
	at := func(p float64) float64 { return float64(times[int(p*float64(len(times)-1))].Microseconds()) / 1000 }
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
}

func stores(b *testing.B) map[string]func() (checkpoint.Store, error) {
	return map[string]func() (checkpoint.Store, error){
		"memory":   func() (checkpoint.Store, error) { return checkpoint.NewMemory(), nil },
		"sqlite":   func() (checkpoint.Store, error) { return sqlite.Open(filepath.Join(b.TempDir(), "t.db")) },
		"postgres": func() (checkpoint.Store, error) { return postgres.Open(context.Background(), servertest.Postgres(b)) },
	}
}

// BenchmarkTurn is a turn without a model and without an action, on a conversation that
// gets longer.
func BenchmarkTurn(b *testing.B) {
	for _, name := range []string{"memory", "sqlite", "postgres"} {
		b.Run(name, func(b *testing.B) {
			store, err := stores(b)[name]()
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			a := numbers(b, store)
			turn(b, a, "anna", "count")
			times := make([]time.Duration, 0, b.N)
			b.ReportAllocs()
			used := processor(b)
			for b.Loop() {
				began := time.Now()
				turn(b, a, "anna", "7")
				times = append(times, time.Since(began))
			}
			b.ReportMetric(float64((processor(b)-used).Microseconds())/1000/float64(len(times)), "cpu-ms/turn")
			percentiles(b, times)
		})
	}
}

// BenchmarkLongConversation is what turns cost on the way to the 2,000th, and what the
// database holds.
func BenchmarkLongConversation(b *testing.B) {
	const turns = 2000
	for b.Loop() {
		path := filepath.Join(b.TempDir(), "t.db")
		store, err := sqlite.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		a := numbers(b, store)
		turn(b, a, "anna", "count")
		times, used := make([]time.Duration, turns), make([]time.Duration, turns)
		for i := range times {
			began, before := time.Now(), processor(b)
			turn(b, a, "anna", strconv.Itoa(i))
			times[i], used[i] = time.Since(began), processor(b)-before
		}
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
		middle := func(part []time.Duration) float64 {
			part = slices.Sorted(slices.Values(part))
			return float64(part[len(part)/2].Microseconds()) / 1000
		}
		b.ReportMetric(middle(times[:100]), "ms-first-100")
		b.ReportMetric(middle(times[turns-100:]), "ms-last-100")
		for _, from := range []int{0, 200, 1000, turns - 100} { // the lists that are kept are full after 100
			b.ReportMetric(middle(used[from:from+100]), fmt.Sprintf("cpu-ms-after-%d", from))
		}
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/turns, "disk-B/turn")
	}
}

// BenchmarkManyConversations are 10,000 conversations of five turns, a hundred at a time.
func BenchmarkManyConversations(b *testing.B) {
	const conversations, turns = 10_000, 5
	for b.Loop() {
		a := numbers(b, checkpoint.NewMemory())
		times := make([]time.Duration, conversations*turns)
		began, used := time.Now(), processor(b)
		for round := range turns {
			text := "7"
			if round == 0 {
				text = "count"
			}
			var all sync.WaitGroup
			room := make(chan bool, 100)
			for i := range conversations {
				room <- true
				all.Go(func() {
					began := time.Now()
					turn(b, a, fmt.Sprint("t", i), text)
					times[round*conversations+i] = time.Since(began)
					<-room
				})
			}
			all.Wait()
		}
		b.ReportMetric(float64(len(times))/time.Since(began).Seconds(), "turns/s")
		b.ReportMetric(float64((processor(b)-used).Microseconds())/1000/float64(len(times)), "cpu-ms/turn")
		percentiles(b, times)
	}
}
