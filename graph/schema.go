package graph

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/local"
)

// Schema declares the fields of a state that is a map, for graphs that aren't
// known at compile time or whose nodes return updates: see [NewSchemaGraph]. A
// Schema may serve several graphs. Fields added after a graph was compiled
// don't affect it.
type Schema struct {
	mu     sync.Mutex
	names  []string
	fields []Field // by name
	types  []reflect.Type
	keep   []string // reserved
	strict bool

	made     *schemaType // of the above; nil: to be made, or there are problems
	problems []Problem
}

// Field declares one field of a [Schema].
type Field struct {
	// Type is the Go type of the field's values. A checkpoint brings a value
	// back with that type.
	Type reflect.Type

	// Default is what nodes see, and what the first update is folded into,
	// while the field has no value: a value of the field's type, or a function
	// without arguments that returns one, which is called once. Nil means
	// that the field is absent until it is written.
	Default any

	// Reducer folds updates into the value. Nil replaces it.
	Reducer FieldReducer

	// Required makes a node fail that would run while the field has no value.
	Required bool

	// Untracked keeps the field out of checkpoints, so that it may have any
	// type. After a resume it is as if it had not been written. Its values
	// are shared by all nodes, not copied.
	Untracked bool

	// Former are names that the field had in older checkpoints.
	Former []string
}

// Reserve makes it an error to write fields of these names, which can't be
// declared: for names that stand for something else than state.
func (s *Schema) Reserve(names ...string) *Schema {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep, s.made = append(s.keep, names...), nil
	return s
}

// FieldOf declares a field of type T.
func FieldOf[T any](initial T, reducer FieldReducer) Field {
	return Field{Type: reflect.TypeFor[T](), Default: func() T { return initial }, Reducer: reducer}
}

// NewSchema returns a schema without fields.
func NewSchema() *Schema { return &Schema{} }

// AddField declares a field. Mistakes are reported when a graph is compiled.
func (s *Schema) AddField(name string, f Field) *Schema {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names, s.fields = append(s.names, name), append(s.fields, f)
	s.made = nil
	return s
}

// RegisterType makes types known whose values are kept where several types are
// possible: in a field of type any, in a map[string]any, in a field that isn't
// declared, or as the update of a [ReducerOf] any. The types of the schema's
// fields, and the exported struct fields below them, are known without.
func (s *Schema) RegisterType(types ...reflect.Type) *Schema {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types = append(s.types, types...)
	s.made = nil
	return s
}

// Strict makes errors of what otherwise gives a [Warning]: an update of a field
// that isn't declared is an [UnknownFieldError], and two tasks of one superstep
// that set a field without a reducer to different values are a [ConflictError].
func (s *Schema) Strict() *Schema {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strict = true
	s.made = nil
	return s
}

// NewState returns a state of the schema in which no field is set, for tests of
// nodes that take a [SchemaState].
func (s *Schema) NewState() (*SchemaState, error) {
	t, err := s.typ()
	if err != nil {
		return nil, err
	}
	return t.values.Fork(&t.zero).(*SchemaState), nil
}

// Send returns a command part that runs a task added with
// [AddMapTask], in the next superstep. The payload is encoded at
// once. Its values may have any types; those that bear the name of a declared
// field must have the field's.
func (s *Schema) Send(node string, payload MapState) Send {
	var raw json.RawMessage
	t, err := s.typ()
	if err == nil {
		raw, err = t.payload(payload)
	}
	return Send{local.Send{Node: node, Raw: raw, Err: err}}
}

// SendOverlay returns a command part that runs a node, in the next superstep,
// on the state with update folded in. Only that task sees the update. With
// [DispatchParent], the schema is that of the containing graph.
func (s *Schema) SendOverlay(node string, update MapState) Send {
	var raw json.RawMessage
	t, err := s.typ()
	if err == nil {
		raw, err = t.overlay("", update)
	}
	return Send{local.Send{Node: node, Overlay: raw, Err: err}}
}

// make returns what follows from the schema, or everything that is wrong with it.
func (s *Schema) make() (*schemaType, []Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil {
		s.made, s.problems = newSchemaType(s.names, s.fields, s.types, s.keep, s.strict)
	}
	return s.made, s.problems
}

func (s *Schema) typ() (*schemaType, error) {
	t, problems := s.make()
	if t == nil {
		return nil, &CompileError{Graph: "schema", Problems: problems}
	}
	return t, nil
}

// Warning is something that a schema lets pass unless it is [Schema.Strict], or
// data that is larger than [WarnSize]. It is told to [OnWarning] and streamed with
// [ModeWarnings] as the value of an event.
type Warning struct {
	Kind  WarningKind
	Field string
	Node  string // that wrote the field; empty: input from outside, or not known
	With  string // whose write was replaced
	Size  int    // bytes of a large change or state
	Of    int    // bytes of Field in it
}

// WarningKind is the kind of a [Warning].
type WarningKind string

// The kinds of warnings.
const (
	// UndeclaredField: a write to a field that isn't declared. It is stored,
	// and replaced by later writes.
	UndeclaredField WarningKind = "undeclared field"

	// ConcurrentWrites: two tasks of one superstep set a field that has no
	// reducer. The later one in plan order wins.
	ConcurrentWrites WarningKind = "concurrent writes"

	// LargeChange: what a task, an input or an edit wrote is larger than
	// [WarnSize].
	LargeChange WarningKind = "large change"

	// LargeState: the whole state is.
	LargeState WarningKind = "large state"
)

func (w Warning) String() string {
	who := "the input"
	if w.Node != "" {
		who = fmt.Sprintf("node %q", w.Node)
	}
	switch w.Kind {
	case LargeChange:
		return fmt.Sprintf("%s wrote %d bytes in one superstep, %d of them to field %q: store large data elsewhere and keep a reference to it", who, w.Size, w.Of, w.Field)
	case LargeState:
		return fmt.Sprintf("the state has %d bytes, %d of them in field %q: store large data elsewhere and keep a reference to it", w.Size, w.Of, w.Field)
	}
	if w.Kind == UndeclaredField {
		return fmt.Sprintf("%s wrote field %q, which the schema doesn't declare: it was stored as it is", who, w.Field)
	}
	return fmt.Sprintf("%s replaced what node %q wrote to field %q in the same superstep: give the field a reducer", who, w.With, w.Field)
}

// FieldError says what is wrong with a field of a schema graph's state: an update has a
// value of another type for it or may not write it, or it is required and has no value.
// Without a field it says that a node returned what is no result, or, in a list of
// commands, an update for tasks of a containing graph that isn't a schema graph: these are
// reached by payloads, with [DispatchParent].
type FieldError struct {
	Node      string // that wrote it or was to run; empty: input from outside, or a reducer
	Field     string // empty: all that the node returned
	Reason    string // empty: the type
	Want, Got string // the Go type that the field takes, and that of the value or "nil"
}

func (e *FieldError) Error() string {
	switch {
	case e.Field == "":
		return fmt.Sprintf("node %q returned %s", e.Node, e.Reason)
	case e.Reason != "":
		return fmt.Sprintf("field %q %s", e.Field, e.Reason)
	}
	return fmt.Sprintf("field %q takes a value of type %s, not %s", e.Field, e.Want, e.Got)
}

// maxLogged bounds how many warnings a graph remembers to have logged.
const maxLogged = 1000

// logWarnings returns a function that logs each warning once.
func logWarnings(graph string) func(Warning) {
	var mu sync.Mutex
	seen := map[Warning]bool{}
	return func(w Warning) {
		key := w
		key.Size, key.Of = 0, 0
		mu.Lock()
		known := seen[key] || len(seen) >= maxLogged
		seen[key] = true
		mu.Unlock()
		if !known {
			slog.Warn(w.String(), "graph", graph, "field", w.Field)
		}
	}
}

// program returns the graph's program for one run, whose warnings go to emit too.
func (e *engine) program(set *settings, emit func(Warning)) *local.Program {
	v, ok := e.state.(schemaValues)
	if !ok || emit == nil && set.onWarning == e.settings.onWarning {
		return e.prog
	}
	tell := *set.onWarning
	if emit != nil {
		told := tell
		tell = func(w Warning) {
			told(w)
			emit(w)
		}
	}
	p := *e.prog
	p.Values = e.evolution.of(v.warning(tell))
	return &p
}

// emitter returns what shows warnings to the run's listeners, nil if they don't
// want them.
func (e *engine) emitter(bus *local.Bus, thread checkpoint.ThreadID) func(Warning) {
	if bus == nil || bus.Wants&kindWarning == 0 {
		return nil
	}
	return func(w Warning) {
		bus.Send(&local.Event{Kind: kindWarning, Graph: e.prog.Plan.Name, Thread: thread, Node: w.Node, Task: -1, Time: time.Now(), Value: w})
	}
}

// taskEmitter returns what shows warnings of a subgraph that a task runs.
func taskEmitter(t *local.Task) func(Warning) {
	return func(w Warning) { _ = t.Emit(t, kindWarning, w) } // the end of the run is seen elsewhere
}
