package killtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
	"github.com/superstep-dev/superstep/internal/race"
)

const childEnv = "SUPERSTEP_KILLTEST_JOB"

func TestMain(m *testing.M) {
	v := os.Getenv(childEnv)
	if v == "" {
		goleak.VerifyTestMain(m)
		return
	}
	var j job
	err := json.Unmarshal([]byte(v), &j)
	if err == nil {
		fmt.Println("ready")
		err = child(&j)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// setting reads a number from the environment.
func setting(t *testing.T, name string, otherwise int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// run runs a child until it has ended or was killed. It returns how long the child
// took once it was ready.
func run(t *testing.T, j *job) (took time.Duration, killed bool) {
	t.Helper()
	took, killed, err := start(t, j)()
	if err != nil {
		t.Fatal(err)
	}
	return took, killed
}

// start starts a child and returns when it is ready. What it returns waits for
// the child's end; see run.
func start(t *testing.T, j *job) (wait func() (took time.Duration, killed bool, err error)) {
	t.Helper()
	wait, err := begin(j)
	if err != nil {
		t.Fatal(err)
	}
	return wait
}

func begin(j *job) (wait func() (took time.Duration, killed bool, err error), err error) {
	data, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(data))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	in := bufio.NewReader(out)
	if _, err := in.ReadString('\n'); err != nil {
		_ = cmd.Wait()
		return nil, fmt.Errorf("the child did not begin: %w\n%s", err, &stderr)
	}
	begin := time.Now()
	return func() (took time.Duration, killed bool, err error) {
		_, _ = io.Copy(io.Discard, in)
		err = cmd.Wait()
		took = time.Since(begin)
		if err == nil {
			return took, false, nil
		}
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return took, true, nil
		}
		return took, false, fmt.Errorf("the child failed: %w\n%s", err, &stderr)
	}, nil
}

// reference is what an undisturbed run gives.
type reference struct {
	state   string         // in the end
	at      map[int]string // the state by superstep
	tasks   int            // run
	effects int            // noted
	took    time.Duration
	closed  int // supersteps, those of subgraphs included
	stages  []stage
}

// stage is a superstep, of the graph or of a subgraph.
type stage struct {
	graph   string // "" or the node of the subgraph
	step    int
	nodes   []string
	effects int
}

func (s stage) String() string { return s.graph + " " + strings.Join(s.nodes, "+") }

// stagesOf returns the stages in the order in which the lines show them. The first
// one comes before all nodes.
func stagesOf(lines []line) []stage {
	stages, at := []stage{{nodes: []string{"(begin)"}}}, 0
	for _, l := range lines {
		if l.Step != 0 {
			if at = find(stages, l); at < 0 {
				at = len(stages)
				stages = append(stages, stage{graph: graphOf(l), step: l.Step})
			}
			s := &stages[at]
			if i, known := slices.BinarySearch(s.nodes, l.Node); !known {
				s.nodes = slices.Insert(s.nodes, i, l.Node)
			}
		}
		stages[at].effects++
	}
	return stages
}

func find(stages []stage, l line) int {
	return slices.IndexFunc(stages, func(s stage) bool { return s.graph == graphOf(l) && s.step == l.Step })
}

// graphOf cuts the task off the namespace, which is another one in each run.
func graphOf(l line) string {
	name, _, _ := strings.Cut(l.Namespace, ":")
	return name
}

// moment draws when to kill a process, such that each effect of a run is as likely
// as any other one to be where, twice in a run. That is not so for moments in time:
// most of it is spent in few places, such as the beginning of a process. Half of
// the kills come a little later, maybe while the store writes.
func (ref *reference) moment(rng *rand.Rand) moment {
	m := moment{Effects: 1 + int(rng.ExpFloat64()*float64(ref.effects)/2)}
	if rng.IntN(2) == 0 {
		m.Delay = time.Duration(rng.ExpFloat64() * float64(200*time.Microsecond))
	}
	return m
}

// reached returns the stage in which a run was last seen, -1 for one that the
// undisturbed run does not have.
func (ref *reference) reached(lines []line) int {
	for _, l := range slices.Backward(lines) {
		if l.Step != 0 {
			return find(ref.stages, l)
		}
	}
	return 0
}

// quarters adds up what fell in each stage, for the quarters of a run; these have
// as many effects each, as far as stages allow.
func (ref *reference) quarters(at []int) (sum [4]int) {
	before := 0
	for i, s := range ref.stages {
		sum[(2*before+s.effects)*2/ref.effects] += at[i]
		before += s.effects
	}
	return sum
}

// trial is the life of one thread.
type trial struct {
	t   *testing.T
	job *job
	ref *reference // nil: this is the undisturbed run

	read       int64 // bytes of the effects file
	namespaces []string
	unseen     []string                      // checkpoints noted as stored that no known log has
	records    map[string]*checkpoint.Record // by ID
	closed     map[string]bool               // epochs whose superstep is known to be committed
	finished   map[string]bool               // tasks known to be recorded
	recorded   map[string]bool               // tasks and names of Once, likewise
	keys       map[string]string             // of Once, by task and name
	starts     map[string]int                // by task
	done       string                        // the state in the end
	wrote      bool                          // in the current call, under Exit
	heads      string                        // of all logs, when last looked
	stats      *stats
}

// stats say what a test has seen.
type stats struct {
	kills, threads, looks, torn, again, beside, onces int
	at                                                []int // kills in each stage
}

func newTrial(t *testing.T, j *job, ref *reference, st *stats) *trial {
	st.threads++
	return &trial{
		t: t, job: j, ref: ref, stats: st, namespaces: []string{""}, records: map[string]*checkpoint.Record{}, closed: map[string]bool{},
		finished: map[string]bool{}, recorded: map[string]bool{}, keys: map[string]string{}, starts: map[string]int{},
	}
}

func (tr *trial) errorf(format string, args ...any) {
	tr.t.Helper()
	tr.t.Errorf("%s, thread %s, kill %d: %s", tr.job.Store, tr.job.Thread, tr.stats.kills, fmt.Sprintf(format, args...))
}

// look reads the effects since the last look and compares them with the store.
func (tr *trial) look() {
	tr.t.Helper()
	tr.stats.looks++
	store, err := tr.job.open()
	if err != nil {
		tr.t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			tr.t.Error(err)
		}
	}()
	lines := tr.lines()
	for _, l := range lines {
		if !slices.Contains(tr.namespaces, l.Namespace) {
			tr.namespaces = append(tr.namespaces, l.Namespace)
		}
	}
	var heads []string
	var open []checkpoint.Result
	var stored []string // epochs that the store has committed
	for _, ns := range tr.namespaces {
		log := checkpoint.Log{Thread: checkpoint.ThreadID(tr.job.Thread), Namespace: ns}
		head, epochs := tr.readLog(store, log)
		stored = append(stored, epochs...)
		if head == nil {
			continue
		}
		heads = append(heads, string(head.ID))
		results, err := store.Results(context.Background(), log, head.Branch, head.Epoch)
		if err != nil {
			tr.t.Fatal(err)
		}
		open = append(open, results...)
	}
	wrote := tr.judge(lines)
	now := strings.Join(heads, " ")
	if tr.job.Durability == graph.Exit && !wrote && now != tr.heads {
		tr.errorf("the store has changed although nobody wrote to it")
	}
	tr.heads = now
	// From here on: what the store has must not be done again.
	for _, e := range stored {
		tr.closed[e] = true
	}
	for _, r := range open {
		id := fmt.Sprintf("%s:%d", r.Epoch, r.Task)
		switch r.Kind {
		case checkpoint.KindChanges, checkpoint.KindRouting:
			if !tr.finished[id] {
				tr.stats.beside++
			}
			tr.finished[id] = true
		case checkpoint.KindOnce:
			tr.stats.onces++
			tr.recorded[id+" "+r.Name] = true
		}
	}
	tr.states(store)
}

// readLog checks that a log has no gaps and returns its head and the epochs of
// the supersteps it has committed.
func (tr *trial) readLog(store checkpoint.Store, log checkpoint.Log) (head *checkpoint.Record, committed []string) {
	tr.t.Helper()
	have := map[string]bool{}
	for r, err := range store.Records(context.Background(), checkpoint.Query{Log: log, AllBranches: true}) {
		if err != nil {
			tr.t.Fatal(err)
		}
		seq, step, parent := int64(1), 0, checkpoint.ID("")
		if head != nil {
			seq, step, parent = head.Seq+1, head.Step, head.ID
			if r.Source == checkpoint.SourceLoop {
				step++
				committed = append(committed, string(head.Epoch))
			}
		}
		if r.Seq != seq || r.Step != step || r.Parent != parent || r.Branch != "" {
			tr.errorf("record %d (step %d, parent %q, branch %q) in place of record %d (step %d, parent %q)", r.Seq, r.Step, r.Parent, r.Branch, seq, step, parent)
		}
		tr.records[string(r.ID)] = r
		have[string(r.ID)] = true
		head = r
	}
	for id, r := range tr.records {
		if r.Log == log && !have[id] {
			tr.errorf("record %d of %q was in the store and is lost", r.Seq, log.Namespace)
		}
	}
	return head, committed
}

// lines reads what has been appended to the effects file since the last time.
func (tr *trial) lines() []line {
	tr.t.Helper()
	lines, torn, size := readEffects(tr.t, tr.job, tr.read)
	tr.read = size
	tr.stats.torn += torn
	return lines
}

// readEffects reads the effects file from a place on. It returns how many lines
// are torn, and where the file ends.
func readEffects(t *testing.T, j *job, from int64) (lines []line, torn int, size int64) {
	t.Helper()
	data, err := os.ReadFile(j.effects())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	size = int64(len(data))
	data = data[from:]
	for text := range bytes.Lines(data) {
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		var l line
		if json.Unmarshal(text, &l) != nil {
			torn++ // half a line of a killed process
			continue
		}
		lines = append(lines, l)
	}
	return lines, torn, size
}

// judge goes through the effects in order. It reports whether something was
// written to the store, as far as that is noted.
func (tr *trial) judge(lines []line) (wrote bool) {
	tr.t.Helper()
	for _, l := range lines {
		switch l.Kind {
		case kCall:
			tr.wrote = false
		case kWrite:
			tr.wrote, wrote = true, true
		case kStart:
			epoch, _, _ := strings.Cut(l.Task, ":")
			switch {
			case tr.closed[epoch]:
				tr.errorf("node %s ran again (task %s) after the checkpoint of its superstep was stored", l.Node, l.Task)
			case tr.finished[l.Task]:
				tr.errorf("node %s ran again (task %s) after its result was recorded", l.Node, l.Task)
			case tr.wrote:
				tr.errorf("node %s started after the run had begun to store", l.Node)
			}
			if tr.starts[l.Task]++; tr.starts[l.Task] > 1 {
				tr.stats.again++
			}
		case kOnce:
			id := l.Task + " " + l.Node
			if tr.recorded[id] {
				tr.errorf("Once %q of task %s was called again after its result was recorded", l.Node, l.Task)
			}
			if key, known := tr.keys[id]; l.Key == "" || known && key != l.Key {
				tr.errorf("Once %q of task %s has key %q and had %q", l.Node, l.Task, l.Key, key)
			}
			tr.keys[id] = l.Key
		case kRecorded:
			if tr.job.Durability != graph.Exit {
				tr.recorded[l.Task+" "+l.Node] = true
			}
		case kStored:
			r := tr.records[l.Checkpoint]
			if r == nil {
				// Of a subgraph in which no node has started yet, so that its
				// namespace isn't known; else it is lost.
				tr.unseen = append(tr.unseen, l.Checkpoint)
			} else if parent := tr.records[string(r.Parent)]; r.Source == checkpoint.SourceLoop && parent != nil {
				tr.closed[string(parent.Epoch)] = true
			}
		case kReturn:
			if tr.records[l.Checkpoint] == nil {
				tr.errorf("a run returned with checkpoint %s, which is not stored", l.Checkpoint)
			}
		case kDone:
			tr.done = string(l.State)
		}
	}
	return wrote
}

// states compares the state at each checkpoint with that of the undisturbed run.
func (tr *trial) states(store checkpoint.Store) map[int]string {
	tr.t.Helper()
	g, err := compile(tr.job, &effects{}, store)
	if err != nil {
		tr.t.Fatal(err)
	}
	at := map[int]string{}
	for entry, err := range g.Thread(tr.job.Thread).History(context.Background(), graph.HistoryQuery{}) {
		if err != nil {
			tr.t.Fatal(err)
		}
		s, err := entry.State(context.Background())
		if err != nil {
			tr.t.Fatal(err)
		}
		data, err := json.Marshal(s)
		if err != nil {
			tr.t.Fatal(err)
		}
		if known, ok := at[entry.Step]; ok && known != string(data) {
			tr.errorf("two states at step %d:\n%s\n%s", entry.Step, known, data)
		}
		at[entry.Step] = string(data)
		if tr.ref != nil && tr.ref.at[entry.Step] != string(data) {
			tr.errorf("the state at step %d is\n%s\nundisturbed it is\n%s", entry.Step, data, tr.ref.at[entry.Step])
		}
	}
	return at
}

// undisturbed runs the graph without killing it.
func undisturbed(t *testing.T, j job) *reference {
	t.Helper()
	ref := &reference{}
	for i := range 3 {
		j.Thread = "undisturbed-" + strconv.Itoa(i)
		took, _ := run(t, &j)
		if ref.took == 0 || took < ref.took {
			ref.took = took
		}
		tr := newTrial(t, &j, nil, &stats{})
		tr.look()
		store, err := j.open()
		if err != nil {
			t.Fatal(err)
		}
		ref.at = tr.states(store)
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if tr.done == "" || i > 0 && tr.done != ref.state {
			t.Fatalf("two undisturbed runs end with\n%s\n%s", ref.state, tr.done)
		}
		ref.state, ref.tasks, ref.closed = tr.done, len(tr.starts), len(tr.closed)
		lines, _, _ := readEffects(t, &j, 0)
		stages := stagesOf(lines)
		if i > 0 && fmt.Sprint(stages) != fmt.Sprint(ref.stages) {
			t.Fatalf("two undisturbed runs have the supersteps\n%v\n%v", ref.stages, stages)
		}
		ref.stages, ref.effects = stages, len(lines)
	}
	var s state
	if err := json.Unmarshal([]byte(ref.state), &s); err != nil {
		t.Fatal(err)
	}
	if s.Loops != rounds || s.Total.Get() != workers*(workers-1)/2 || s.Receipt != "paid" || !s.Approved || s.Answer != rounds+38 || s.Trail.Last() != "finish" {
		t.Fatalf("the undisturbed run ends with %s", ref.state)
	}
	return ref
}

// torment kills runs of the graph that many times.
func torment(t *testing.T, storeKind string, d graph.Durability, kills int) {
	t.Helper()
	seed := uint64(setting(t, "KILLTEST_SEED", 1))
	rng := rand.New(rand.NewPCG(seed, uint64(len(storeKind))<<8|uint64(d)))
	j := job{Store: storeKind, Dir: t.TempDir(), Durability: d}
	ref := undisturbed(t, j)
	st := stats{at: make([]int, len(ref.stages))}
	for n := 0; st.kills < kills; n++ {
		j := j
		j.Thread = "t-" + strconv.Itoa(n)
		tr := newTrial(t, &j, ref, &st)
		for tr.done == "" {
			j.End = moment{}
			if st.kills < kills {
				j.End = ref.moment(rng)
			}
			_, killed := run(t, &j)
			if killed {
				st.kills++
				lines, _, _ := readEffects(t, &j, 0)
				at := ref.reached(lines)
				if at < 0 {
					tr.errorf("was in a superstep that the undisturbed run does not have")
					break
				}
				st.at[at]++
				// The next process sometimes finds the store as the killed
				// one left it, and sometimes as the parent's look did.
				if rng.IntN(2) == 0 {
					continue
				}
			}
			tr.look()
			if !killed && tr.done == "" {
				t.Fatal("the child ended without an end")
			}
		}
		for _, id := range tr.unseen {
			if tr.records[id] == nil {
				tr.errorf("checkpoint %s was seen as stored and is lost", id)
			}
		}
		if tr.done != ref.state {
			tr.errorf("ends with\n%s\nundisturbed with\n%s", tr.done, ref.state)
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%s, seed %d: %d kills over %d threads, a run takes %v and has %d tasks in %d supersteps and %d effects; %d looks found %d results beside the log and %d of Once; %d starts of a task were not its first; %d torn lines",
		storeKind, seed, st.kills, st.threads, ref.took, ref.tasks, ref.closed, ref.effects, st.looks, st.beside, st.onces, st.again, st.torn)
	var told strings.Builder
	for i, n := range st.at {
		fmt.Fprintf(&told, "\n%5d %s", n, ref.stages[i])
	}
	q := ref.quarters(st.at)
	t.Logf("%s: the kills fell in the quarters of the run like %d, by superstep:%s", storeKind, q, &told)
	if kills >= 50 && slices.Contains(q[:], 0) {
		t.Error("a quarter of the run was never hit")
	}
	// Two tasks of each thread start twice since they ask.
	if kills >= 100 && d != graph.Exit && (st.beside == 0 || st.onces == 0 || st.again <= 2*st.threads) {
		t.Error("the kills missed what they were to hit")
	}
}

func each(t *testing.T, d graph.Durability, kills int) {
	for _, s := range []string{"sqlite", "file"} {
		t.Run(s, func(t *testing.T) {
			t.Parallel()
			torment(t, s, d, kills)
		})
	}
}

// usual is how often a run is killed per store.
var usual = 60

func init() {
	if race.Enabled {
		usual = 5
	}
}

// Sync: no recorded step is lost and none runs twice after it was recorded.
func TestKilledRunsLoseNothingRecorded(t *testing.T) {
	each(t, graph.Sync, setting(t, "KILLTEST_KILLS", usual))
}

// Async: what is stored is a consistent prefix, and Once waits for its record.
func TestKilledAsyncRunsLeaveAConsistentPrefix(t *testing.T) {
	each(t, graph.Async, setting(t, "KILLTEST_KILLS_ASYNC", 2))
}

// Exit: nothing is stored while a run runs.
func TestKilledExitRunsAreAsIfNotStarted(t *testing.T) {
	each(t, graph.Exit, setting(t, "KILLTEST_KILLS_EXIT", 2))
}

// The same without chance: a crash at each write, before and after it.
func TestCrashAtEveryWrite(t *testing.T) {
	for name, d := range map[string]graph.Durability{"sync": graph.Sync, "async": graph.Async, "exit": graph.Exit} {
		t.Run(name, func(t *testing.T) {
			graphtest.CheckRecovery(t, func() *graph.Builder[state] { return build(&effects{}) },
				func(s *state) error {
					s.Trail.Add("input")
					return nil
				}, graphtest.Script{"approve": {true}, "how many": {38}}, graph.WithDurability(d))
		})
	}
}

// Several processes work on one thread: one of them at a time has its way, and
// the others are told so. The thread comes to what one process alone would.
func TestW1ProcessesThatCompeteLoseNothing(t *testing.T) {
	for _, kind := range []string{"sqlite", "file"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			j := job{Store: kind, Dir: t.TempDir()}
			ref := undisturbed(t, j)
			refused := 0
			for n := 0; n < 4 || refused == 0 && n < 50; n++ {
				j := j
				j.Thread, j.Contend = "t-"+strconv.Itoa(n), true
				var waits []func() (time.Duration, bool, error)
				for range 3 {
					waits = append(waits, start(t, &j))
				}
				for _, wait := range waits {
					if _, _, err := wait(); err != nil {
						t.Error(err)
					}
				}
				tr := newTrial(t, &j, ref, &stats{})
				store, err := j.open()
				if err != nil {
					t.Fatal(err)
				}
				keys := map[string]string{}
				for _, l := range tr.lines() {
					switch l.Kind {
					case kDone:
						if string(l.State) != ref.state {
							tr.errorf("ends with\n%s\nalone with\n%s", l.State, ref.state)
						}
						tr.done = string(l.State)
					case kRefused:
						refused++
					case kOnce:
						id := l.Task + " " + l.Node
						if key, known := keys[id]; known && key != l.Key {
							tr.errorf("Once %q of task %s has the keys %q and %q", l.Node, l.Task, key, l.Key)
						}
						keys[id] = l.Key
					}
				}
				tr.readLog(store, checkpoint.Log{Thread: checkpoint.ThreadID(j.Thread)})
				tr.states(store)
				if err := store.Close(); err != nil {
					t.Error(err)
				}
				if tr.done == "" {
					tr.errorf("the thread has not ended")
				}
				if t.Failed() {
					return
				}
			}
			if refused == 0 {
				t.Error("the processes never met")
			}
		})
	}
}
