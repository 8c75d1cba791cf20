package graph

import "reflect"

// FieldReducer says how updates of a field of a [Schema] are folded into its
// value: one of the constants, or the result of [ReducerOf].
//
// A reducer must be pure: its result depends on its arguments alone, and it
// alters nothing that they refer to. (Appending to the existing value is fine.)
// A thread's log holds the updates and not the results, so reducers run again
// at every replay. In a superstep they fold the updates of its tasks in plan
// order. Any update may be an [Overwrite].
//
// In JSON, on the log and from outside, an update is the value that a node returns,
// and {"$overwrite": v} an [Overwrite]. Several updates that one task made are one:
// of a function {"$updates": [u, ...]}, after an "$overwrite" or alone, and otherwise
// the list, map or sum of them all. An object with names that begin with $ is put
// into {"$value": {...}}.
type FieldReducer interface{ fieldReducer() reducer }

// builtin is one of the reducers that are provided.
type builtin uint8

// The reducers that are provided.
const (
	// DefaultReducer replaces the value; the same as a nil reducer. When two
	// tasks of a superstep do, the later one in plan order wins with a
	// [Warning]; see [Schema.Strict].
	DefaultReducer builtin = iota

	// OverrideReducer replaces the value: the last write in plan order wins,
	// by declaration.
	OverrideReducer

	// AppendReducer appends to a field that is a slice. The update is such a
	// slice or a single element.
	AppendReducer

	// StringSliceReducer is AppendReducer for a field of type []string.
	StringSliceReducer

	// MergeReducer puts the update's entries into a field that is a map; those
	// of the update win.
	MergeReducer

	// SumReducer adds to a field that is a number.
	SumReducer
)

func (b builtin) fieldReducer() reducer {
	switch b {
	case DefaultReducer:
		return reducer{kind: replaces}
	case OverrideReducer:
		return reducer{kind: overrides}
	case AppendReducer:
		return reducer{kind: appends}
	case StringSliceReducer:
		return reducer{kind: appends, only: reflect.TypeFor[[]string]()}
	case MergeReducer:
		return reducer{kind: merges}
	case SumReducer:
		return reducer{kind: sums}
	}
	return reducer{kind: reduces} // reported as a nil function
}

// ReducerOf returns a reducer for a field of type T that takes updates of type U, of any
// type if U is any: those of a type other than the field's are then recorded with the name
// of their type; see [Schema.RegisterType]. Existing is the zero T when the field has no
// value and no default.
func ReducerOf[T, U any](reduce func(existing T, update U) T) FieldReducer {
	r := reducer{kind: reduces, value: reflect.TypeFor[T](), update: reflect.TypeFor[U]()}
	if r.update == reflect.TypeFor[any]() {
		r.update = nil
	}
	if reduce != nil {
		r.fn = func(existing, update any) any {
			t, _ := existing.(T) // nil: zero
			u, _ := update.(U)
			return reduce(t, u)
		}
	}
	return r
}

func (r reducer) fieldReducer() reducer { return r }

// Overwrite returns an update that replaces a field's value by v, whatever the
// field's reducer.
func Overwrite(v any) any { return overwrite{v} }
