package local

import (
	"context"
	"errors"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Tracer is told when a part of a run begins. The part runs with the context it
// returns; the function is called once, when the part has ended.
type Tracer func(ctx context.Context, p Part) (context.Context, func(Outcome))

// PartKind is the kind of a part of a run.
type PartKind uint8

// The kinds, from the outermost.
const (
	PartRun PartKind = iota
	PartStep
	PartAttempt
	PartHandler // a node's error handler
)

// Part is a part of a run that has a beginning and an end.
type Part struct {
	Kind     PartKind
	Graph    string
	Path     []string
	Tags     []string // of the nodes in the path and, of an attempt and a handler, the node's
	Log      checkpoint.Log
	Run      checkpoint.ID // not of a run: it isn't known yet
	Step     int           // not of a run
	Tasks    int           // of a step: how many are started
	Node     string        // of an attempt and a handler, as what follows
	Task     int
	Do       string // as of an Event
	Epoch    checkpoint.ID
	Attempt  int // 0: the result came from the node's cache
	From     string
	Metadata map[string]string // of a root graph's run: may be added to
}

// Outcome is how a part ended.
type Outcome struct {
	Err       error
	Questions []checkpoint.Question // that are open
	Cancelled bool                  // Err is the context's end, or the run's
	Again     bool                  // another attempt follows, after Delay
	Delay     time.Duration
	Cached    bool
	Run       checkpoint.ID      // of a run
	Before    *checkpoint.Record // of a run: where it went on from; nil if nowhere
	Last      *checkpoint.Record // of a run and a step: the newest record
}

// part returns a part of this run.
func (s *Session) part(kind PartKind) Part {
	return Part{Kind: kind, Graph: s.prog.Plan.Name, Path: s.o.path, Tags: s.o.tags, Log: s.o.Log, Run: s.id.get()}
}

// Outcome returns how the run ended that had that context. S may be nil: it could
// not begin.
func (s *Session) Outcome(ctx context.Context, err error) Outcome {
	out := Outcome{Err: err, Cancelled: errors.Is(err, ErrDrained) || ctx.Err() == context.Canceled && errors.Is(err, context.Canceled)}
	if s == nil {
		return out
	}
	out.Run, out.Last, out.Questions = s.id.get(), s.Record(), OpenQuestions(s.m)
	if s.tip != nil {
		out.Before = s.tip.Record
	}
	if asked := new(*Interrupted); len(out.Questions) > 0 && errors.As(err, asked) {
		out.Err = nil
	}
	return out
}

// traced is the superstep that a tracer was told of.
type traced struct {
	s   *Session
	ctx context.Context
	end func(Outcome) // nil: it was told of none
}

// enterStep returns the context of the open superstep, telling the tracer of it
// if it doesn't know yet.
func (t *traced) enterStep(ctx context.Context, tasks int) context.Context {
	if t.end == nil {
		s := t.s
		p := s.part(PartStep)
		p.Step, p.Epoch, p.Tasks = s.m.Step()+1, s.m.Epoch(), tasks
		t.ctx, t.end = s.o.Trace(ctx, p)
	}
	return t.ctx
}

// leaveStep tells the tracer that the superstep has ended: that it is committed,
// or that the run ends in its middle.
func (t *traced) leaveStep(committed bool, err error) {
	ctx, end := t.ctx, t.end
	t.ctx, t.end = nil, nil
	out := t.s.Outcome(ctx, err)
	if out.Before, out.Run = nil, ""; committed {
		out.Questions = nil // of the next one, or of a breakpoint
	}
	end(out)
}

// enter tells the tracer of an attempt of the node, or of its error handler.
func (e *execution) enter(attempt int) (context.Context, func(Outcome)) {
	s, task := e.s, e.task
	p := s.part(PartAttempt)
	if e.standsFor != nil {
		p.Kind = PartHandler
	}
	p.Node, p.Task, p.Attempt, p.Tags = e.node.Name, task.Index, attempt, tagsOf(s.o.tags, e.node)
	if e.at != nil { // the machine may have gone on
		p.Step, p.Epoch = e.at.step(), e.at.epoch
	} else {
		p.Step, p.Epoch = s.m.Step()+1, s.m.Epoch()
	}
	if task.From >= 0 {
		p.From = s.prog.Plan.Nodes[task.From].Name
	}
	return s.o.Trace(e.ctx, p)
}

// leave tells the tracer how an attempt ended; without one it does nothing. Exit
// is nil afterwards.
func leave(exit *func(Outcome), out Outcome) {
	if end := *exit; end != nil {
		*exit = nil
		end(out)
	}
}

// outcome is that of an attempt with which the task has ended.
func (e *execution) outcome(error) Outcome {
	out := Outcome{Err: e.Err, Cancelled: e.Cancelled}
	if e.Asks {
		for _, q := range e.Calls.Questions {
			if !q.Answered {
				out.Questions = append(out.Questions, q)
			}
		}
	}
	return out
}

// errExited is the outcome of an attempt whose goroutine has ended.
var errExited = errors.New("the node ended its goroutine (runtime.Goexit)")
