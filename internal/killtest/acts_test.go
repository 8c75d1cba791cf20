package killtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// acted is what is known of a thread that is pruned, edited and forked while its
// processes are killed. Its log has branches and gaps: what is compared is what holds
// whatever became of it.
type acted struct {
	job      *job
	ref      *reference
	keys     map[string]map[string]bool // of Once, by name
	recorded map[string]bool            // keys whose result is recorded
	done     string
	errs     []error
}

func (a *acted) errorf(format string, args ...any) {
	a.errs = append(a.errs, fmt.Errorf(format, args...))
}

// judge goes through the effects.
func (a *acted) judge(lines []line) {
	last := map[string]string{} // key by task and name
	for _, l := range lines {
		id := l.Namespace + " " + l.Task + " " + l.Node
		switch l.Kind {
		case kOnce:
			if a.recorded[l.Key] {
				a.errorf("Once %q of task %s was called again after its result was recorded", l.Node, l.Task)
			}
			if a.keys[l.Node] == nil {
				a.keys[l.Node] = map[string]bool{}
			}
			a.keys[l.Node][l.Key] = true
			last[id] = l.Key
		case kRecorded:
			if key := last[id]; key != "" {
				a.recorded[key] = true
			}
		case kDone:
			a.done = string(l.State)
		}
	}
}

// read reads the thread at all of its checkpoints.
func (a *acted) read() (checkpoints int) {
	ctx := context.Background()
	store, err := a.job.open()
	if err != nil {
		a.errorf("%w", err)
		return 0
	}
	defer store.Close()
	g, err := compile(a.job, &effects{}, store)
	if err != nil {
		a.errorf("%w", err)
		return 0
	}
	thread := g.Thread(a.job.Thread)
	if _, err := thread.State(ctx); err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		a.errorf("%w", err)
	}
	for entry, err := range thread.History(ctx, graph.HistoryQuery{AllBranches: true}) {
		var s state
		if err == nil {
			s, err = entry.State(ctx)
		}
		if err != nil {
			a.errorf("%w", err)
			return checkpoints
		}
		checkpoints++
		if err := twice(&s, a.ref.state); err != nil {
			a.errorf("at step %d: %w", entry.Step, err)
		}
	}
	return checkpoints
}

// twice reports a node that has left more marks than in the end of an undisturbed run.
func twice(s *state, ref string) error {
	var end state
	if err := json.Unmarshal([]byte(ref), &end); err != nil {
		return err
	}
	left := map[string]int{}
	for _, name := range end.Trail.Slice() {
		left[name]++
	}
	for _, name := range s.Trail.Slice() {
		if left[name]--; left[name] < 0 {
			return fmt.Errorf("%s is there too often: %v", name, s.Trail.Slice())
		}
	}
	return nil
}

// sorted returns a state with its trail sorted: an edit in a superstep lets what is
// finished of it be seen before the rest, which comes after it then.
func sorted(t *testing.T, data string) string {
	t.Helper()
	var s state
	if err := json.Unmarshal([]byte(data), &s); err != nil {
		t.Fatal(err)
	}
	trail := slices.Sorted(slices.Values(s.Trail.Slice()))
	s.Trail = graph.List[string]{}
	s.Trail.Add(trail...)
	out, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Processes are killed that prune, edit and fork a thread and run it: whatever was cut
// short, the thread can be read at all of its checkpoints, ends as if undisturbed, and
// no effect has a second key or happens again after it was recorded.
func TestKilledPrunesEditsAndForksLoseNothing(t *testing.T) {
	kills := setting(t, "KILLTEST_KILLS_ACTS", usual)
	for _, s := range []string{"sqlite", "file"} {
		t.Run(s, func(t *testing.T) {
			t.Parallel()
			tormentActs(t, s, kills)
		})
	}
}

func tormentActs(t *testing.T, storeKind string, kills int) {
	seed := uint64(setting(t, "KILLTEST_SEED", 1))
	rng := rand.New(rand.NewPCG(seed, uint64(len(storeKind))))
	j := job{Store: storeKind, Dir: t.TempDir(), Durability: graph.Sync}
	ref := undisturbed(t, j)
	want := map[string]int{"charge": 1, "effect": workers, "before asking": 1, "ticket": 1}
	did, cut := map[string]int{}, map[string]int{}
	killed, read, threads := 0, 0, 0
	for ; killed < kills && !t.Failed(); threads++ {
		j := j
		j.Thread = "t-" + strconv.Itoa(threads)
		a := &acted{job: &j, ref: ref, keys: map[string]map[string]bool{}, recorded: map[string]bool{}}
		for at := int64(0); a.done == "" && len(a.errs) == 0; {
			j.Acts, j.End = rng.Uint64()|1, moment{}
			if killed < kills {
				j.End = ref.moment(rng)
				if rng.IntN(2) == 0 { // while it acts, which it does first
					j.End = moment{2 + rng.IntN(6), time.Duration(rng.Int64N(int64(3 * time.Millisecond)))}
				}
			}
			_, dead := run(t, &j)
			lines, _, size := readEffects(t, &j, at)
			at = size
			a.judge(lines)
			read += a.read()
			act := "" // under way
			for _, l := range lines {
				switch l.Kind {
				case kAct:
					act = l.Node
				case kActed:
					did[act]++
					act = ""
				}
			}
			if dead {
				killed++
				cut[act]++
			} else if a.done == "" {
				t.Fatal("the child ended without an end")
			}
		}
		if len(a.errs) == 0 && sorted(t, a.done) != sorted(t, ref.state) {
			a.errorf("ends with\n%s\nundisturbed with\n%s", a.done, ref.state)
		}
		for name, n := range want {
			if len(a.errs) == 0 && len(a.keys[name]) != n {
				a.errorf("Once %q has the keys %v, want %d", name, a.keys[name], n)
			}
		}
		if err := errors.Join(a.errs...); err != nil {
			t.Errorf("%s, seed %d, thread %s, kill %d: %v", storeKind, seed, j.Thread, killed, err)
		}
	}
	t.Logf("%s, seed %d: %d kills over %d threads; done: %v; killed meanwhile (\"\": while it ran): %v; %d checkpoints read", storeKind, seed, killed, threads, did, cut, read)
}
