package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// Random graphs live through random stories: turns, failures, answers, edits, forks
// and prunes, some of them over a store that fails, some with subgraphs whose state is
// edited, too. After each deed the thread is as the call said, an edit has changed what
// it wrote and nothing else, and who fails changes nothing that is seen. In the end
// the program's replay of all that was recorded finds no difference, and what is told
// since a checkpoint is the end of what is told since the beginning.
func TestStories(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { newTale(t, seed).tell(t, seed) })
	}
}

type taleState struct {
	Log   graph.List[string]
	E     graph.Ephemeral[string]
	F     graph.Ephemeral[int]
	Count graph.Sum[int]
	N     int
	Marks graph.Set[string]
	talePart
}

// shaky is a store of which a write now and then fails: before it is made, or after.
type shaky struct {
	prunable
	mu   sync.Mutex
	r    *rand.Rand // nil: none fails
	many int        // one in so many fails
}

// shake has writes fail from now on, as r has it; none if it is nil. Attempts that were left
// behind may still write.
func (s *shaky) shake(r *rand.Rand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.r = r
}

// fails reports whether a write fails, and whether that is before it is made.
func (s *shaky) fails() (fails, before bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.r == nil || s.r.IntN(s.many) > 0 {
		return false, false
	}
	return true, s.r.IntN(2) == 0
}

// prunable is what stories need of a store.
type prunable interface {
	checkpoint.Store
	checkpoint.Lister
	checkpoint.Rewriter
}

var errShaky = errors.New("the disk is gone")

func (s *shaky) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	fails, before := s.fails()
	if before {
		return checkpoint.Written{}, errShaky
	}
	if !fails {
		return s.prunable.Write(ctx, w)
	}
	written, err := s.prunable.Write(ctx, w)
	return written, errors.Join(errShaky, err)
}

// tale is a graph and its thread.
type tale struct {
	g      *graph.Graph[taleState]
	store  *shaky
	r      *rand.Rand
	fails  map[string]bool // nodes, and as "router of x" routers
	so     []string        // what has happened
	pruned bool
	cut    bool // a call failed: what was at work beside it was cut short, sooner or later
	even   bool // the seed is
}

var taleNodes = []string{"a", "b", "c", "d", "e"}

// newTale makes a graph. With an even seed its tasks don't conflict.
func newTale(t *testing.T, seed uint64) *tale {
	r := rand.New(rand.NewPCG(seed, 77))
	w := &tale{store: &shaky{prunable: storeOf(t, seed), many: 8}, r: rand.New(rand.NewPCG(seed, 5)), fails: map[string]bool{}, even: seed%2 == 0}
	one := func(n int) bool { return r.IntN(n) == 0 } // in so many
	b := graph.New[taleState]("tale")
	work := graph.AddTask(b, "work", func(_ context.Context, s *taleState, in int) error {
		s.Log.Add(fmt.Sprintf("work %d sees %q after %d", in, s.E.Get(), s.Log.Len()))
		return nil
	})
	mount := w.mounts(t, b, seed)
	body := func(name string, setsE, setsF, asks bool, n int) func(context.Context, *taleState) error {
		return func(ctx context.Context, s *taleState) error {
			if w.fails[name] {
				return errBoom
			}
			answer := 0
			if asks {
				var err error
				if answer, err = graph.Interrupt[int](ctx, name, nil); err != nil {
					return err
				}
			}
			s.Log.Add(fmt.Sprintf("%s sees %q and %d after %d: %d", name, s.E.Get(), s.F.Get(), s.Log.Len(), answer))
			s.Count.Add(1)
			if setsE {
				s.E.Set(fmt.Sprint(name, s.Count.Get()))
			}
			if setsF {
				s.F.Set(s.Count.Get())
			}
			if n > 0 {
				s.N = n
			}
			return nil
		}
	}
	for i, name := range taleNodes {
		setsE, setsF, asks, n := one(5), one(5), one(3), 0
		if one(8) {
			n = 1 + r.IntN(3)
		}
		if seed%2 == 0 {
			setsE, setsF, n = name == "a", name == "b", 0
		}
		run := body(name, setsE, setsF, asks, n)
		to := func() string {
			if i == len(taleNodes)-1 || one(6) {
				return graph.End
			}
			return taleNodes[i+1+r.IntN(len(taleNodes)-1-i)]
		}
		x, y := to(), to()
		var opts []graph.NodeOption
		if one(10) {
			opts = append(opts, graph.Defer())
		}
		switch r.IntN(6) {
		case 0:
			b.AddCommandNode(name, func(ctx context.Context, s *taleState) (graph.Command, error) {
				c := graph.Goto(x)
				err := run(ctx, s)
				if s.Count.Get()%2 == 0 {
					c = c.And(graph.Dispatch(work.Send(1), work.Send(2)))
				}
				return c, err
			}, append(opts, graph.Destinations(x, "work"))...)
		case 1, 2:
			mount(name, run, opts)
			b.AddConditionalEdges(name, func(_ context.Context, s *taleState) (graph.Command, error) {
				switch {
				case w.fails["router of "+name]:
					return graph.Command{}, errBoom
				case (s.Log.Len()+len(s.E.Get()))%2 == 0:
					return graph.Goto(x, y), nil
				}
				return graph.Dispatch(work.Send(3)).And(graph.Goto(y)), nil
			}, x, y, "work")
		default:
			mount(name, run, opts)
			b.AddEdge(name, x)
			if y != x {
				b.AddEdge(name, y)
			}
		}
		b.AddEdge(graph.Start, name)
	}
	if one(2) {
		b.AddNode("j", body("j", false, false, false, 0)).AddJoin([]string{"c", "d"}, "j")
	}
	w.g = compile(t, b, graph.WithCheckpointer(w.store), graph.CycleGuard(0))
	return w
}

// deed is what happens to a thread.
type deed struct {
	kind, node, mark string
	a, b             int
	setsE            bool
}

func (d deed) String() string {
	return fmt.Sprintf("%s %s %d %d %v", d.kind, d.node, d.a, d.b, d.setsE)
}

var deeds = strings.Fields(`invoke invoke resume resume resume resume+edit resume+edit continue edit edit edit edit-as edit-as
	fork resume-from continue-from edit-from invoke-at-start edit-at-start redo fail fail mend mend mend prune restart edit-in edit-in`)

func (w *tale) next(i int) deed {
	d := deed{kind: deeds[w.r.IntN(len(deeds))], a: w.r.IntN(100), b: w.r.IntN(100), mark: fmt.Sprint("m", i), setsE: w.r.IntN(3) == 0}
	if d.node = taleNodes[w.r.IntN(len(taleNodes))]; i == 0 {
		d.kind = "invoke"
	}
	return d
}

func (d deed) edit(s *taleState) error {
	s.Marks.Add(d.mark)
	if d.setsE {
		s.E.Set(d.mark)
	}
	if d.a%4 == 0 {
		s.N = 10 + d.a
	}
	if d.a%5 == 0 {
		s.Log.Overwrite("over " + d.mark)
	}
	return nil
}

// do does it. The snapshot is nil when nothing is to have happened.
func (w *tale) do(t *testing.T, d deed) (*graph.Snapshot[taleState], error) {
	g := w.g
	from := ""
	if _, there := w.state(t); there {
		all := entriesOf(t, g.Thread("t"), graph.HistoryQuery{AllBranches: true})
		from = all[d.b%len(all)].Checkpoint
	}
	answers := func(at string) any {
		given := graph.Answers{}
		s := must[*graph.Snapshot[taleState]](t)(g.Thread("t").At(at).State(bg))
		for i, q := range s.Interrupts {
			if i == 0 || d.a>>i&1 == 1 {
				given[q.ID] = d.b
			}
		}
		if len(given) == 0 {
			return nil
		}
		return given
	}
	switch d.kind {
	case "invoke":
		return g.Thread("t").Invoke(bg, g.Input(d.edit))
	case "restart":
		return g.Thread("t").Invoke(bg, g.Restart(d.edit))
	case "continue":
		return g.Thread("t").Invoke(bg, g.Continue())
	case "continue-from":
		return g.Thread("t").At(from).Invoke(bg, g.Continue())
	case "redo":
		return g.Thread("t").Invoke(bg, g.RestartStep())
	case "resume":
		return g.Thread("t").Invoke(bg, g.Answer(answers("")))
	case "resume+edit":
		return g.Thread("t").Invoke(bg, g.Answer(answers(""), d.edit))
	case "resume-from":
		return g.Thread("t").At(from).Invoke(bg, g.Answer(answers(from)))
	case "edit":
		return g.Thread("t").Edit(bg, d.edit)
	case "edit-as":
		return g.Thread("t").EditAs(bg, d.node, d.edit)
	case "edit-in":
		return nil, w.editInside(t, d, w.even)
	case "edit-from":
		return g.Thread("t").At(from).Edit(bg, d.edit)
	case "invoke-at-start":
		return g.Thread("t").At(graph.Start).Invoke(bg, g.Input(d.edit))
	case "edit-at-start":
		return g.Thread("t").At(graph.Start).Edit(bg, d.edit)
	case "fork":
		all := entriesOf(t, g.Thread("t"), graph.HistoryQuery{AllBranches: true})
		return g.Thread("t").At(all[d.b%len(all)].Checkpoint).Fork(bg)
	case "prune":
		w.pruned = true
		_, err := g.Thread("t").Prune(bg, graph.Keep{Last: 1 + d.a%6})
		return nil, err
	case "fail":
		if d.a%2 == 0 {
			d.node = "router of " + d.node
		}
		w.fails[d.node] = true
	case "mend":
		clear(w.fails)
	}
	return nil, nil
}

// state returns the thread, if there is one.
func (w *tale) state(t *testing.T) (*graph.Snapshot[taleState], bool) {
	s, err := w.g.Thread("t").State(bg)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, false
	}
	return must[*graph.Snapshot[taleState]](t)(s, err), true
}

func seen(t *testing.T, s *graph.Snapshot[taleState]) string {
	var asked []string
	for _, q := range s.Interrupts {
		asked = append(asked, q.Key+" "+q.ID)
	}
	return fmt.Sprint(asJSON(t, s.State), s.Next, asked, s.Step)
}

func (w *tale) tell(t *testing.T, seed uint64) {
	defer func() {
		if t.Failed() {
			t.Log(strings.Join(w.so, "\n"))
		}
	}()
	for i := range 3 + w.r.IntN(12) {
		d := w.next(i)
		before, there := w.state(t)
		if seed%3 == 0 && there { // the store fails
			w.store.shake(rand.New(rand.NewPCG(seed, uint64(i))))
		}
		said, err := w.do(t, d)
		w.store.shake(nil)
		now, _ := w.state(t)
		var ne *graph.NodeError
		w.cut = w.cut || errors.As(err, &ne) || errors.Is(err, errShaky)
		w.so = append(w.so, d.String(), fmt.Sprint("  ", err), "  "+seen(t, now))
		if errors.Is(err, checkpoint.ErrCorrupt) || err != nil && strings.Contains(err.Error(), "panic") {
			t.Fatal(err)
		}
		switch on := strings.HasSuffix(d.kind, "-from") && err != nil; { // what failed there is on its branch
		case said != nil && said.Checkpoint != "" && !on && !errors.Is(err, errShaky) && seen(t, said) != seen(t, now):
			t.Fatalf("the call says\n%s\nthe state is\n%s", seen(t, said), seen(t, now))
		case errors.Is(err, errShaky): // it is done in part
		case said == nil && there && seen(t, before) != seen(t, now):
			t.Fatalf("it changed\n%s\nto\n%s", seen(t, before), seen(t, now))
		case d.kind == "edit" && err == nil && there && seed%2 == 0 && seed%3 > 0: // else it may end what an edit before began
			var want taleState
			if err := json.Unmarshal([]byte(asJSON(t, before.State)), &want); err != nil {
				t.Fatal(err)
			}
			d.edit(&want)
			equal(t, "the edit makes it", asJSON(t, now.State), asJSON(t, want))
			equalSlice(t, "next after an edit", now.Next, before.Next)
		}
		if t.Failed() {
			return
		}
	}
	clear(w.fails)
	if w.pruned {
		return
	}
	if w.cut && inside(seed) { // what was cut short in a subgraph may ask more
		return
	}
	same(t, w.g, taped(t, w.store, "t"))
	all := w.since(t, "")
	for _, e := range entriesOf(t, w.g.Thread("t")) {
		told := w.since(t, e.Checkpoint)
		equalSlice(t, "told since "+e.Checkpoint, told, all[max(0, len(all)-len(told)):])
	}
}

// since returns what is told since a checkpoint.
func (w *tale) since(t *testing.T, id string) (told []string) {
	modes := graph.Modes(graph.ModeCheckpoints, graph.ModeUpdates, graph.ModeValues)
	for ev, err := range w.g.Thread("t").Stream(bg, w.g.Answer(graph.Answers{"nobody asked": 1}), graph.Since(id), modes) {
		if errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("since %q: %v", id, err)
		}
		if err != nil { // the answer is refused: nothing runs
			break
		}
		state, _ := ev.StateJSON()
		told = append(told, fmt.Sprint(ev.Type, ev.Step, ev.Node, ev.Checkpoint, string(ev.Update), string(state), slices.Clone(ev.Next)))
	}
	return told
}
