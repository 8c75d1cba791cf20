package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/local"
)

// DefaultMaxSteps is how many supersteps a run may take unless [MaxSteps] says
// otherwise.
const DefaultMaxSteps = 100

// defaultCycleWindow is in how many tasks the cycle guard looks back.
const defaultCycleWindow = 20

// Option is a setting of a graph, given to Compile. An option that can't be applied
// makes the call fail.
type Option interface {
	apply(s *settings)
	ofGraph()
}

// ThreadOption is an [Option] that can also be given to [Graph.Thread], where it
// holds for all that is done by the handle.
type ThreadOption interface {
	Option
	ofThread()
}

// RunOption is an option of a run: it can be given to [Thread.Invoke] and
// [Thread.Stream], to [Graph.Thread] for all runs by the handle, and to Compile for
// all runs of the graph. What is nearer to the run overrides what is farther.
type RunOption interface {
	ThreadOption
	StreamOption
	ofRun()
}

// StreamOption is an option of [Thread.Stream]: a [RunOption], or one that concerns
// its events alone.
type StreamOption interface {
	apply(s *settings)
	ofStream()
}

type (
	graphSetting  func(s *settings)
	threadSetting func(s *settings)
	runSetting    func(s *settings)
	streamSetting func(s *settings)
)

func (f graphSetting) apply(s *settings)  { f(s) }
func (f threadSetting) apply(s *settings) { f(s) }
func (f runSetting) apply(s *settings)    { f(s) }
func (f streamSetting) apply(s *settings) { f(s) }

func (graphSetting) ofGraph()   {}
func (threadSetting) ofGraph()  {}
func (threadSetting) ofThread() {}
func (runSetting) ofGraph()     {}
func (runSetting) ofThread()    {}
func (runSetting) ofStream()    {}
func (runSetting) ofRun()       {}
func (streamSetting) ofStream() {}

// settings are the collected options.
type settings struct {
	store       checkpoint.Store
	thread      checkpoint.ThreadID
	namespace   string
	from        checkpoint.ID  // where the thread is taken up; empty: its newest
	since       *checkpoint.ID // of Stream
	durability  Durability
	recordOnce  bool
	saveTimeout time.Duration
	warnSize    int // 0: the default; negative: never
	maxSize     int
	onWarning   *func(Warning) // nil only until Compile
	readCache   int            // 0: the default; negative: none
	lease       time.Duration  // 0: the default; negative: none
	busy        BusyPolicy
	version     int
	versioned   bool
	migrations  []migration
	renamed     [][2]string // former and present names of fields
	former      []string    // names of the graph
	metadata    map[string]string

	local.Bounds
	before         []string
	after          []string
	schemas        map[string]json.RawMessage
	maxConcurrency int

	observers []Observer
	tracer    Tracer
	modes     Mode
	buffer    int
	detach    bool
	live      bool

	deps      map[reflect.Type]func(context.Context) (any, error)
	need      []reflect.Type
	config    *configType // nil: none is declared
	configure []configEdit
	inside    []aimed // options for graphs inside
	replay    bool
	compiling bool
	drain     <-chan struct{}
	keep      bool
	onInput   func(state any, open Open) (newTurn bool, err error)
	errs      []error
}

func (s *settings) fail(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf(format, args...))
}

// with returns a copy of settings to which opts are applied.
func with[O interface{ apply(*settings) }](of *settings, opts []O) (*settings, error) {
	s := *of
	if len(opts) == 0 {
		return &s, nil
	}
	s.metadata = maps.Clone(s.metadata)
	s.deps = maps.Clone(s.deps)
	s.schemas = maps.Clone(s.schemas)
	s.errs = nil
	for _, o := range opts {
		if any(o) == nil {
			s.fail("graph: nil option")
			continue
		}
		o.apply(&s)
	}
	return &s, errors.Join(s.errs...)
}

// WithCheckpointer keeps checkpoints in store: after every superstep, and
// whenever a task finishes, asks or fails. Runs are then those of a [Thread].
func WithCheckpointer(store checkpoint.Store) ThreadOption {
	return threadSetting(func(s *settings) {
		if v := reflect.ValueOf(store); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			s.fail("graph: WithCheckpointer(nil): leave the option out for a graph without a checkpointer")
			return
		}
		s.store = store
	})
}

// Namespace separates several logs of one thread, such as those of different
// graphs. The default is the empty namespace. One with a bar is that of a subgraph in
// the thread: see [Thread.Inside].
func Namespace(ns string) ThreadOption {
	return threadSetting(func(s *settings) { s.namespace = ns })
}

// Durability says when a run's checkpoints are stored.
type Durability uint8

const (
	// Sync stores the checkpoint of a superstep before the next one starts,
	// and the result of a task before its place is given to another task. When
	// the process is killed, at most the tasks that were running run again (see
	// [Concurrency]).
	Sync Durability = iota

	// Async stores in the background, in order, at most 64 writes behind.
	// When the process is killed, the last supersteps may be lost as if they
	// had not run; what is stored is always a consistent prefix. A failed
	// write stops the run before its next superstep. [Once] and [Do] still wait until
	// their result is stored.
	Async

	// Exit stores everything when the run ends, is interrupted or fails. When
	// the process is killed before, the run is lost as if it had not been
	// started; results of [Once] and [Do] are lost with it. What is stored when it is
	// killed while it stores is a consistent prefix. Memory grows with what
	// the run writes.
	Exit
)

// WithDurability sets when checkpoints are stored. The default is [Sync].
func WithDurability(d Durability) RunOption {
	return runSetting(func(s *settings) {
		if d > Exit {
			s.fail("graph: unknown durability %d", d)
		}
		s.durability = d
	})
}

// RecordOnce makes checkpoints keep the results of [Once] and [Do], of which otherwise
// only the names stay when their superstep is committed: a [Graph.Replay] of the thread then needs
// none of the services that they came from. It costs their size in the store and
// nothing else. Subgraphs do as the graph that the run began with.
func RecordOnce() ThreadOption { return threadSetting(func(s *settings) { s.recordOnce = true }) }

// DefaultReadCache is how many bytes of states a graph keeps in memory unless [ReadCache] says otherwise.
const DefaultReadCache = 16 << 20

// ReadCache bounds how much a compiled graph keeps in memory of the states of threads
// that it read lately, in bytes of their recorded form. Of a thread that is kept, the
// next call decodes what was recorded since, not the whole conversation. A thread that doesn't fit is read
// whole, as all are with 0. The default is [DefaultReadCache].
//
// What is kept was read from the store and is only used where the store still says
// the same, whoever else writes to the thread.
func ReadCache(bytes int) ThreadOption {
	return threadSetting(func(s *settings) {
		if s.readCache = bytes; bytes <= 0 {
			s.readCache = -1
		}
	})
}

func (s *settings) readCacheSize() int { return max(cmp.Or(s.readCache, DefaultReadCache), 0) }

// SaveTimeout bounds each write of a checkpoint. The default is 10 s.
func SaveTimeout(d time.Duration) ThreadOption {
	return threadSetting(func(s *settings) {
		if d <= 0 {
			s.fail("graph: SaveTimeout of %v: use a positive duration", d)
		}
		s.saveTimeout = d
	})
}

// DefaultWarnSize is the size of a state, or of what one task writes, at which
// there is a [Warning].
const DefaultWarnSize = 1 << 20

// WarnSize sets at how many bytes of its recorded form a state, or what a task
// wrote in one superstep, gives a [Warning] that names the largest field; 0
// means never. The default is [DefaultWarnSize]. A state that grows further
// gives another one each time it has about doubled. Only runs with a
// checkpointer look.
func WarnSize(bytes int) ThreadOption {
	return threadSetting(func(s *settings) {
		if bytes < 0 {
			s.fail("graph: WarnSize(%d): use 0 for no warnings", bytes)
		}
		if s.warnSize = bytes; bytes == 0 {
			s.warnSize = -1
		}
	})
}

// MaxStateSize makes a run fail with a [StateSizeError] when the recorded form of
// its state has more bytes. The superstep that made it so is committed; the
// thread goes on when the limit is raised or the state was edited. The size is
// looked at when enough was written to pass the limit, or a sixteenth of it
// since the last look.
func MaxStateSize(bytes int) ThreadOption {
	return threadSetting(func(s *settings) { s.maxSize = s.positive("MaxStateSize", bytes) })
}

// OnWarning sets what is told of warnings, by several goroutines at once. By
// default the first of each kind for a field and node is logged with slog.Default.
func OnWarning(fn func(Warning)) ThreadOption {
	return threadSetting(func(s *settings) {
		if fn == nil {
			s.fail("graph: OnWarning(nil): leave the option out")
			return
		}
		s.onWarning = &fn
	})
}

// BusyPolicy says what a run does when another run holds its thread.
type BusyPolicy uint8

const (
	// BusyReject makes the new run fail at once with [ErrThreadBusy].
	BusyReject BusyPolicy = iota

	// BusyQueue makes the new run wait until the other has ended, or its
	// context ends. Runs of one process that use the same store value come
	// to their turn in the order of their calls; among processes there is
	// no order.
	BusyQueue

	// BusyInterrupt stops the other run, which returns [ErrThreadBusy], and
	// goes on from what it has recorded: its pending tasks are the thread's.
	// A run in another process notices when it next writes, or within a third
	// of its lease.
	BusyInterrupt

	// BusyRollback stops the other run as BusyInterrupt does, and starts from
	// the checkpoint before that run, on a new branch: as if it had not been.
	// What it has recorded stays in the thread's history, if that run began the
	// thread, too: the new one then begins it anew. A run that came to its end
	// before it could be stopped is not taken back, nor one whose beginning was pruned.
	BusyRollback
)

// WhenBusy sets what a run does when another run holds its thread, and what an
// edit, a fork, a prune or the deletion of the thread does. The default is
// [BusyReject]. Others than the default cost one more write.
func WhenBusy(p BusyPolicy) RunOption {
	return runSetting(func(s *settings) {
		if p > BusyRollback {
			s.fail("graph: unknown busy policy %d", p)
		}
		s.busy = p
	})
}

// LeaseTTL sets for how long a run holds its thread without giving a sign of
// life; it gives one every third of that time. When its process has died, other
// runs wait that long before they may take the thread over, unless they run on
// the same machine and can see that the process is gone (on Linux). A run that
// stalled for longer is stopped by its first write after another took over. The
// time is the store's: that of a database server, not of its clients. The
// default is 15 s, the shortest a second.
//
// Under [Exit] a run writes only at its end and holds nothing.
func LeaseTTL(d time.Duration) ThreadOption {
	return threadSetting(func(s *settings) {
		if d < time.Second {
			s.fail("graph: LeaseTTL of %v: use a second or more", d)
		}
		s.lease = d
	})
}

// Metadata adds an entry to the metadata of the checkpoints that a call writes.
func Metadata(key, value string) RunOption {
	return runSetting(func(s *settings) {
		if s.metadata == nil {
			s.metadata = map[string]string{}
		}
		s.metadata[key] = value
	})
}

// MaxSteps limits the supersteps since the thread was last given input, answers
// or an edit. The default is [DefaultMaxSteps]; n must be positive. Reaching it
// is a [LimitError], and the thread can go on with a higher limit.
func MaxSteps(n int) SubgraphOption {
	return subgraphSetting(func(s *settings) { s.MaxSteps = s.positive("MaxSteps", n) })
}

// AtMostSteps lowers the limit of [MaxSteps] for who may not raise it, such as the
// clients of a server: of the two the smaller one holds.
func AtMostSteps(n int) SubgraphOption {
	return subgraphSetting(func(s *settings) { s.MaxSteps = min(s.MaxSteps, s.positive("AtMostSteps", n)) })
}

// MaxTasks limits the tasks since the thread was last given something, so that
// a wide fan-out can't escape [MaxSteps]. There is no limit by default.
func MaxTasks(n int) SubgraphOption {
	return subgraphSetting(func(s *settings) { s.MaxTasks = s.positive("MaxTasks", n) })
}

// CycleGuard sets how many tasks back the guard against fruitless cycles looks;
// 0 turns it off. It is on by default, with 20: a run fails with a
// [CycleError] when a node is about to run again and nothing in the state has
// changed since it last did: what was changed and changed back is as it was. What is
// added to a [List] or set in an [Ephemeral] counts as a change, and so does each put
// into a map or set of what wasn't there, and an update of a [Reduced] or [MergeMap]
// whose values are neither numbers, strings nor booleans: the guard doesn't compare
// them.
func CycleGuard(window int) SubgraphOption {
	return subgraphSetting(func(s *settings) {
		if window < 0 {
			s.fail("graph: CycleGuard(%d): use 0 to turn it off", window)
		}
		s.CycleWindow, s.CycleStrict = window, false
	})
}

// StrictCycleGuard forbids any node to run twice within window tasks, whether
// the state changed or not.
func StrictCycleGuard(window int) SubgraphOption {
	return subgraphSetting(func(s *settings) {
		if window <= 0 {
			s.fail("graph: StrictCycleGuard(%d): use a positive window", window)
		}
		s.CycleWindow, s.CycleStrict = window, true
	})
}

// InterruptBefore pauses a run before the named nodes run; "*" names all.
// Other tasks of the superstep run. Each scheduled run of a node pauses once;
// an answer of nil or [Requests.Continue] goes on, an input doesn't.
func InterruptBefore(nodes ...string) SubgraphOption {
	return subgraphSetting(func(s *settings) { s.before = nodes })
}

// InterruptAfter pauses a run after the superstep in which one of the named
// nodes ran was committed; "*" names all.
func InterruptAfter(nodes ...string) SubgraphOption {
	return subgraphSetting(func(s *settings) { s.after = nodes })
}

// InputSchema declares what an answer to the breakpoint before or after a node
// must look like, as JSON Schema. The answer given to [Requests.Answer] is checked
// and then applied to the state by [Graph.UpdateJSON].
func InputSchema(node string, schema json.RawMessage) Option {
	return graphSetting(func(s *settings) {
		if s.schemas == nil {
			s.schemas = map[string]json.RawMessage{}
		}
		s.schemas[node] = schema
	})
}

// Concurrency bounds how many tasks of one superstep run at a time, in the
// graph and in each subgraph. The default is 1024; with 1 they run one after the other,
// in plan order. Tasks that wait for each
// other need as many places as there are tasks.
func Concurrency(n int) SubgraphOption {
	return subgraphSetting(func(s *settings) { s.Concurrency = s.positive("Concurrency", n) })
}

// MaxConcurrency bounds how many tasks run at a time in a run and all its
// subgraphs together. A task that waits for a subgraph doesn't count, so the
// limit can't deadlock.
func MaxConcurrency(n int) RunOption {
	return runSetting(func(s *settings) { s.maxConcurrency = s.positive("MaxConcurrency", n) })
}

// StepTimeout bounds each superstep.
func StepTimeout(d time.Duration) SubgraphOption {
	return subgraphSetting(func(s *settings) { s.StepTimeout = s.timeout("StepTimeout", d) })
}

// NodeTimeout bounds each attempt of a node that has no [Timeout] of its own.
func NodeTimeout(d time.Duration) SubgraphOption {
	return subgraphSetting(func(s *settings) { s.NodeTimeout = s.timeout("NodeTimeout", d) })
}

// RunTimeout bounds a whole call, which then fails with a [TimeoutError]. The thread can
// be continued; a [Runner] does not do it by itself.
func RunTimeout(d time.Duration) SubgraphOption {
	return subgraphSetting(func(s *settings) { s.RunTimeout = s.timeout("RunTimeout", d) })
}

// positive refuses a number that no option of a limit takes: nothing is unlimited by one.
func (s *settings) positive(name string, n int) int {
	if n <= 0 {
		s.fail("graph: %s(%d): the limit must be positive", name, n)
	}
	return n
}

func (s *settings) timeout(name string, d time.Duration) time.Duration {
	if d < 0 {
		s.fail("graph: %s of %v: use a positive duration, or 0 for none", name, d)
	}
	return d
}

// Drain ends a run at the beginning of the next superstep once ch is closed.
// The call then returns [ErrDrained], and the thread can be continued.
func Drain(ch <-chan struct{}) RunOption { return runSetting(func(s *settings) { s.drain = ch }) }

// CheckMutations makes runs compare the committed state before and after each
// node, those of subgraphs included, and fail with a [MutationError] that names the
// node and the field when a node changed what a field holds in place. At its end the
// run looks whether anything was written to a node's state after the node had
// returned, which is lost, and fails if so. [Once] and [Do] fail, and record nothing, if
// their function wrote to the node's state; that is not looked for in goroutines that the
// node started, where others may write at the same time. It costs time in proportion to
// the state, keeps the states of all tasks until the run ends, and is meant for tests.
func CheckMutations() SubgraphOption { return subgraphSetting(func(s *settings) { s.Check = true }) }

// ProvideDeps makes a dependency available to nodes through [Deps]. It is never
// stored. The factory given to Compile is called once for each run, so that a
// resumed run has it too; for one call, [UseDeps] replaces it.
func ProvideDeps[D any](factory func(ctx context.Context) (D, error)) SubgraphOption {
	return subgraphSetting(func(s *settings) {
		if s.deps == nil {
			s.deps = map[reflect.Type]func(context.Context) (any, error){}
		}
		s.deps[reflect.TypeFor[D]()] = func(ctx context.Context) (any, error) { return factory(ctx) }
	})
}

// UseDeps makes a dependency available to nodes through [Deps].
func UseDeps[D any](d D) SubgraphOption {
	return ProvideDeps(func(context.Context) (D, error) { return d, nil })
}

// Provides reports whether a graph was compiled with a dependency of type D, for itself or
// for graphs inside ([For]).
func Provides[D, S any](g *Graph[S]) bool {
	return g.made().settings.provides(reflect.TypeFor[D]())
}

func (s *settings) provides(t reflect.Type) bool {
	return s.deps[t] != nil || slices.ContainsFunc(s.inside, func(a aimed) bool {
		of, err := with(&settings{}, a.opts)
		return err == nil && of.provides(t)
	})
}

// RequireDeps makes every run fail before its first task if the dependency is
// not provided.
func RequireDeps[D any]() Option {
	return graphSetting(func(s *settings) { s.need = append(s.need[:len(s.need):len(s.need)], reflect.TypeFor[D]()) })
}
