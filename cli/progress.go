package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
)

// progress shows a run's events: a line for each node when its superstep is
// over, and what is running meanwhile.
type progress struct {
	c *console.Console

	mu      sync.Mutex
	step    int
	nodes   []*nodeProgress // of the superstep, in the order they started
	stop    chan struct{}
	stopped chan struct{}
}

type nodeProgress struct {
	name               string
	started, ended     int
	first              time.Time
	total              time.Duration
	failed, asked, hit int
	retries            int
	err                error
}

// newProgress returns a progress display that also ticks while nothing happens.
func newProgress(c *console.Console) *progress {
	p := &progress{c: c, stop: make(chan struct{}), stopped: make(chan struct{})}
	go func() {
		defer close(p.stopped)
		t := time.NewTicker(200 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-t.C:
				p.mu.Lock()
				p.paint()
				p.mu.Unlock()
			}
		}
	}()
	return p
}

// event takes note of an event of the run. Events of subgraphs show under the
// node they belong to.
func (p *progress) event(ev graph.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(ev.Path) > 0 {
		return
	}
	switch ev.Type {
	case graph.EventTaskStart, graph.EventTaskEnd, graph.EventTaskError, graph.EventTaskRetry, graph.EventInterrupt:
	case graph.EventCheckpoint:
		if ev.Source == "loop" {
			p.flush()
		}
		return
	default:
		return
	}
	if ev.Step != p.step {
		p.flush()
		p.step = ev.Step
	}
	n := p.node(ev.Node)
	switch ev.Type {
	case graph.EventTaskStart:
		if n.started++; n.started == 1 {
			n.first = ev.Time
		}
	case graph.EventTaskEnd:
		n.ended++
		n.total = ev.Time.Sub(n.first)
		if ev.Cached {
			n.hit++
		}
	case graph.EventTaskError:
		n.ended++
		n.failed++
		n.total = ev.Time.Sub(n.first)
		n.err = ev.Err
	case graph.EventTaskRetry:
		n.retries++
		p.c.Notef("… %s failed (attempt %d), next try in %v: %v", oneLine(ev.Node), ev.Attempt, ev.Delay.Round(time.Millisecond), foreign(fmt.Sprint(ev.Err)))
	case graph.EventInterrupt:
		n.asked++
	}
	p.paint()
}

func (p *progress) node(name string) *nodeProgress {
	for _, n := range p.nodes {
		if n.name == name {
			return n
		}
	}
	n := &nodeProgress{name: name}
	p.nodes = append(p.nodes, n)
	return n
}

// flush prints a line for each node of the superstep.
func (p *progress) flush() {
	for _, n := range p.nodes {
		name := oneLine(n.name)
		if n.started > 1 {
			name = fmt.Sprintf("%s ×%d", name, n.started)
		}
		mark, rest := "✓", ""
		switch {
		case n.failed > 0:
			mark = "✗"
			rest = oneLine(strings.SplitN(fmt.Sprint(n.err), "\n", 2)[0])
		case n.asked > 0:
			mark, rest = "?", "asks"
		case n.started > n.ended:
			mark, rest = "-", "stopped"
		case n.hit == n.ended && n.hit > 0:
			rest = "from the cache"
		case n.total >= time.Millisecond:
			rest = duration(n.total)
		}
		colour := map[string]console.Colour{"✗": console.Red, "?": console.Yellow}[mark]
		p.c.NotePainted(colour, strings.TrimRight(console.Fit(fmt.Sprintf("%s %-20s %s", mark, name, rest), max(40, p.c.Width()-1)), " "))
	}
	p.nodes = nil
	p.c.Status("")
}

// paint shows what is running.
func (p *progress) paint() {
	var parts []string
	var since time.Time
	for _, n := range p.nodes {
		if n.started <= n.ended+n.asked {
			continue
		}
		if since.IsZero() || n.first.Before(since) {
			since = n.first
		}
		if n.started > 1 {
			parts = append(parts, fmt.Sprintf("%s %d/%d", n.name, n.ended, n.started))
		} else {
			parts = append(parts, n.name)
		}
	}
	if parts == nil {
		p.c.Status("")
		return
	}
	text := fmt.Sprintf("step %d: %s", p.step, strings.Join(parts, ", "))
	if d := time.Since(since); d >= time.Second {
		text += " " + d.Truncate(time.Second).String()
	}
	p.c.Status(oneLine(text))
}

// end removes the progress line.
func (p *progress) end() {
	close(p.stop)
	<-p.stopped
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flush()
}

func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
