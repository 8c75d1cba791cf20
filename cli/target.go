package cli

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// compiled is a graph of this program.
type compiled struct {
	about
	*graph.Graph[json.RawMessage]
	served server.Option
}

// place is where threads are: a store, with the graphs of this program, or a
// server.
type place interface {
	label() string // for people
	arg() string   // the flags that name it, for commands that are shown; empty if none are needed

	// open opens what is needed for threads. A store that is not there is made if
	// create is set; else it is an errNoStore.
	open(ctx context.Context, create bool) error

	graphs(ctx context.Context) ([]graphRow, error)
	graph(ctx context.Context, name string) (target, error)
	threads(ctx context.Context, q threadQuery) (list []threadRow, more bool, err error)

	// thread returns what a thread is of. One that doesn't exist is a missing error.
	thread(ctx context.Context, id string) (ownership, error)

	// newest returns the IDs of so many of the newest threads, beside an error those that
	// could be read.
	newest(ctx context.Context, n int) ([]string, error)

	newThread(ctx context.Context, t target) (string, error)
	copyThread(ctx context.Context, from, to string) (string, error)   // to may be empty where the place chooses it
	deleteThread(ctx context.Context, thread string, force bool) error // force: though a run works on it
}

// ownership is the graph of a thread.
type ownership struct {
	own, name string                 // as in about; empty: the place doesn't have it, or can't tell
	graph     func() (target, error) // that the thread is looked at with
}

// target is a graph at a place.
type target interface {
	info() about

	// check reports what is wrong with an update in JSON, as far as that is known
	// before it is made.
	check(kind graph.JSONKind, data json.RawMessage) error

	// talks reports whether the state has messages.
	talks(ctx context.Context) (bool, error)

	start(ctx context.Context, c call, input json.RawMessage) iter.Seq2[event, error]
	resume(ctx context.Context, c call, answer any, update json.RawMessage) iter.Seq2[event, error]
	state(ctx context.Context, thread, at string) (*snapshot, error)
	history(ctx context.Context, q historyQuery) ([]*entry, error)
	update(ctx context.Context, e edit) (*snapshot, error)
	fork(ctx context.Context, thread, at string) (*snapshot, error)
	drawing(ctx context.Context, depth int, thread string) (*draw.Graph, error)
}

// call is a run as a command line describes it.
type call struct {
	thread, at            string
	restart               bool // give up what is pending
	maxSteps, concurrency int
	timeout               time.Duration
	durability            string
	metadata              [][2]string
	config                json.RawMessage // nil: the defaults
	before, after         []string
	modes                 graph.Mode // the events that are wanted
	drain                 <-chan struct{}
	lost                  func(error, time.Duration) // is told that a connection is tried again
}

// edit is an update of a thread's state from outside.
type edit struct {
	thread, at, node string
	values           json.RawMessage
	metadata         [][2]string
}

// historyQuery selects checkpoints.
type historyQuery struct {
	thread, at, source string
	all, oldest        bool
	limit              int
}

// threadQuery selects threads.
type threadQuery struct {
	prefix, graph, status string
	metadata              [][2]string
	limit                 int
	stuck                 bool
}

// event is an event of a run, wherever that is.
type event struct {
	graph.Event
	values func() (json.RawMessage, error) // the state that it carries; nil if it has none
}

// graphRow is a graph as the command graphs shows it.
type graphRow struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Nodes       []string `json:"nodes"`
	Example     string   `json:"example_input,omitempty"`
	Warnings    []string `json:"warnings,omitempty"`
}

// threadRow is a thread as the command threads shows it. What a server doesn't
// tell is missing.
type threadRow struct {
	Thread      string            `json:"thread"`
	Graph       string            `json:"graph"`
	Status      string            `json:"status"`
	Step        *int              `json:"step,omitempty"`
	Checkpoint  string            `json:"checkpoint,omitempty"`
	Checkpoints int64             `json:"checkpoints,omitempty"`
	Bytes       int64             `json:"bytes,omitempty"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Due         *time.Time        `json:"due,omitempty"`
	Lease       *lease            `json:"lease,omitempty"`
	Stuck       []string          `json:"stuck,omitempty"`
}

// snapshot is a thread at one moment, as the commands print it.
type snapshot struct {
	Graph      string            `json:"graph"`
	Thread     string            `json:"thread"`
	Status     string            `json:"status"` // "done", "interrupted", "waiting", "failed" or "pending"
	Checkpoint string            `json:"checkpoint,omitempty"`
	Parent     string            `json:"parent,omitempty"`
	Step       int               `json:"step"`
	Source     string            `json:"source,omitempty"`
	CreatedAt  *time.Time        `json:"created_at,omitempty"`
	State      json.RawMessage   `json:"state"`
	Output     json.RawMessage   `json:"output,omitempty"` // of a graph with an output type
	Next       []string          `json:"next"`
	Interrupts []question        `json:"interrupts"`
	Waits      []wait            `json:"waits,omitempty"`
	Tasks      []task            `json:"tasks,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	Error      string            `json:"error,omitempty"`
}

// question is something the thread waits for.
type question struct {
	ID     string          `json:"id"`
	Key    string          `json:"key,omitempty"` // empty: a server does not tell it
	Node   string          `json:"node"`
	Path   []string        `json:"path,omitempty"`
	When   string          `json:"when"`
	Value  json.RawMessage `json:"value,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
}

// wait is a sleep, or an event that the thread waits for.
type wait struct {
	Node  string     `json:"node"`
	Path  []string   `json:"path,omitempty"`
	Key   string     `json:"key"`
	Event string     `json:"event,omitempty"`
	Until *time.Time `json:"until,omitempty"`

	text string
}

// task is a task of the open superstep.
type task struct {
	ID        string            `json:"id"`
	Node      string            `json:"node"`
	Status    string            `json:"status"`
	Error     string            `json:"error,omitempty"`
	Input     json.RawMessage   `json:"input,omitempty"`
	Subgraphs map[string]string `json:"subgraphs,omitempty"`
}

// entry is a checkpoint of a thread's history.
type entry struct {
	Checkpoint string            `json:"checkpoint"`
	Parent     string            `json:"parent,omitempty"`
	Branch     string            `json:"branch,omitempty"`
	Step       int               `json:"step"`
	Source     string            `json:"source"`
	Nodes      []string          `json:"nodes,omitempty"`
	Did        [][]string        `json:"did,omitempty"` // by node
	Next       []string          `json:"next,omitempty"`
	CreatedAt  time.Time         `json:"created_at"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	State      json.RawMessage   `json:"state,omitempty"`

	fold func(context.Context) (json.RawMessage, error)
}

// failureOf tells why a thread's open superstep failed, from what its tasks left;
// empty if none did.
func failureOf(ctx context.Context, store checkpoint.Store, head *checkpoint.Record) (string, error) {
	epoch, err := head, error(nil)
	if head.Epoch != head.ID {
		if epoch, err = store.Get(ctx, head.Log, head.Epoch); err != nil {
			return "", err
		}
	}
	results, err := store.Results(ctx, head.Log, head.Branch, head.Epoch)
	if err != nil {
		return "", err
	}
	tasks, err := checkpoint.TaskStates(epoch, head, results)
	for i := range tasks {
		if t := &tasks[i]; t.Status == checkpoint.StatusFailed {
			return t.Error, nil
		}
	}
	return "", err
}

// headStatus tells the status of a thread from its newest record alone.
func headStatus(r *checkpoint.Record) string {
	if len(r.Paused) > 0 {
		return "interrupted"
	}
	waits := false
	for _, t := range r.Open {
		for _, q := range t.Questions {
			if !q.Answered && !q.Wait {
				return "interrupted"
			}
			waits = waits || !q.Answered
		}
	}
	if waits {
		return "waiting"
	}
	if r.Epoch == r.ID && len(r.Tasks) == 0 {
		return "done"
	}
	return "pending"
}
