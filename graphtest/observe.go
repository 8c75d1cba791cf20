package graphtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

// CollectingObserver is a [graph.Observer] that keeps all events. The zero value
// is ready to use, by several runs at once as well.
type CollectingObserver struct {
	mu     sync.Mutex
	events []graph.Event
}

var _ graph.Observer = (*CollectingObserver)(nil)

func (o *CollectingObserver) add(ev graph.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, ev)
}

// OnNodeEnter implements [graph.Observer].
func (o *CollectingObserver) OnNodeEnter(ev graph.Event) { o.add(ev) }

// OnNodeExit implements [graph.Observer].
func (o *CollectingObserver) OnNodeExit(ev graph.Event) { o.add(ev) }

// OnError implements [graph.Observer].
func (o *CollectingObserver) OnError(ev graph.Event) { o.add(ev) }

// OnCheckpointSaved implements [graph.Observer].
func (o *CollectingObserver) OnCheckpointSaved(ev graph.Event) { o.add(ev) }

// OnInterrupt implements [graph.Observer].
func (o *CollectingObserver) OnInterrupt(ev graph.Event) { o.add(ev) }

// Events returns what was observed so far.
func (o *CollectingObserver) Events() []graph.Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.events)
}

// Nodes returns the nodes that were entered, in order, those of subgraphs with
// their path.
func (o *CollectingObserver) Nodes() []string {
	var names []string
	for _, ev := range o.Events() {
		if ev.Type == graph.EventTaskStart {
			names = append(names, place(ev))
		}
	}
	return names
}

// Reset forgets what was observed.
func (o *CollectingObserver) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = nil
}

func place(ev graph.Event) string { return strings.Join(append(slices.Clone(ev.Path), ev.Node), "/") }

// Format writes events as text, one line each, without what differs from run to
// run: IDs and times.
//
//	1 task write
//	1 task_result write {"Jokes":["..."]}
//	1 checkpoints loop next review
//	2 interrupt review "review" asks "..."
func Format(events []graph.Event) string {
	var b strings.Builder
	for _, ev := range events {
		fmt.Fprintf(&b, "%d %s", ev.Step, ev.Type)
		if name := place(ev); name != "" {
			b.WriteString(" " + name)
		}
		if ev.Attempt > 1 {
			fmt.Fprintf(&b, " attempt %d", ev.Attempt)
		}
		if ev.Cached {
			b.WriteString(" cached")
		}
		if ev.Source != "" {
			b.WriteString(" " + ev.Source)
		}
		if ev.Input != nil {
			b.WriteString(" input " + string(ev.Input))
		}
		if ev.Update != nil {
			b.WriteString(" " + string(ev.Update))
		}
		if i := ev.Interrupt; i != nil {
			fmt.Fprintf(&b, " %q %s", i.Key, i.When)
			if i.Raw != nil {
				b.WriteString(" asks " + string(i.Raw))
			}
		}
		if len(ev.Next) > 0 {
			b.WriteString(" next " + strings.Join(ev.Next, ", "))
		}
		if ev.Value != nil {
			if data, err := json.Marshal(ev.Value); err == nil {
				b.WriteString(" " + string(data))
			} else {
				fmt.Fprintf(&b, " %v", ev.Value)
			}
		}
		if ev.Err != nil {
			b.WriteString(": " + ev.Err.Error())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// updateEnv names the environment variable that makes Golden write its files.
const updateEnv = "GRAPHTEST_UPDATE"

// Golden compares text, such as formatted events or a drawing, with the file
// testdata/<name>.golden. With GRAPHTEST_UPDATE=1 in the environment it writes
// the file instead.
func Golden(tb testing.TB, name, got string) {
	tb.Helper()
	path := filepath.Join("testdata", name+".golden")
	if os.Getenv(updateEnv) == "1" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			tb.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		tb.Fatalf("graphtest: %v; write it with %s=1 go test", err, updateEnv)
	}
	if d := difference(string(want), got); d != "" {
		tb.Errorf("graphtest: differs from %s (accept it with %s=1 go test):\n%s", path, updateEnv, d)
	}
}

// GoldenEvents is [Golden] for the observed events.
func GoldenEvents(tb testing.TB, name string, o *CollectingObserver) {
	tb.Helper()
	Golden(tb, name, Format(o.Events()))
}

// difference shows where two texts part, empty if nowhere.
func difference(want, got string) string {
	if want == got {
		return ""
	}
	w, g := strings.SplitAfter(want, "\n"), strings.SplitAfter(got, "\n")
	n := 0
	for n < len(w) && n < len(g) && w[n] == g[n] {
		n++
	}
	at := func(lines []string) string {
		if n >= len(lines) || lines[n] == "" {
			return "the end"
		}
		return strings.TrimSuffix(lines[n], "\n")
	}
	return fmt.Sprintf("line %d:\n  want %s\n  got  %s", n+1, at(w), at(g))
}
