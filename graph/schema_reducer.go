package graph

import (
	"fmt"
	"reflect"

	"github.com/superstep-dev/superstep/graph/internal/mapstate"
)

// FieldReducer says how updates of a field of a [Schema] are folded into its
// value: one of the constants, a [ReducerFunc], or the result of [ReducerOf].
//
// A reducer must be pure: its result depends on its arguments alone, and it
// alters nothing that they refer to. (Appending to the existing value is fine.)
// A thread's log holds the updates and not the results, so reducers run again
// at every replay. In a superstep they fold the updates of its tasks in plan
// order. Any update may be an [Overwrite].
type FieldReducer interface{ fieldReducer() mapstate.Reducer }

// BuiltinReducer is a [FieldReducer] that is provided.
type BuiltinReducer uint8

// The reducers that are provided.
const (
	// DefaultReducer replaces the value; the same as a nil reducer. When two
	// tasks of a superstep do, the later one in plan order wins with a
	// [Warning]; see [Schema.Strict].
	DefaultReducer BuiltinReducer = iota

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

var builtinNames = [...]string{"DefaultReducer", "OverrideReducer", "AppendReducer", "StringSliceReducer", "MergeReducer", "SumReducer"}

func (r BuiltinReducer) String() string {
	if int(r) < len(builtinNames) {
		return builtinNames[r]
	}
	return fmt.Sprintf("BuiltinReducer(%d)", uint8(r))
}

func (r BuiltinReducer) fieldReducer() mapstate.Reducer {
	switch r {
	case DefaultReducer:
		return mapstate.Reducer{Kind: mapstate.Replace}
	case OverrideReducer:
		return mapstate.Reducer{Kind: mapstate.Override}
	case AppendReducer:
		return mapstate.Reducer{Kind: mapstate.Append}
	case StringSliceReducer:
		return mapstate.Reducer{Kind: mapstate.Append, Only: reflect.TypeFor[[]string]()}
	case MergeReducer:
		return mapstate.Reducer{Kind: mapstate.Merge}
	case SumReducer:
		return mapstate.Reducer{Kind: mapstate.Sum}
	}
	return mapstate.Reducer{Kind: mapstate.Func} // reported as a nil function
}

// ReducerFunc is a reducer that takes updates of any type. Existing is nil when
// the field has no value and no default. The result must have the field's type.
// Updates of a type other than the field's are recorded with the name of their
// type; see [Schema.RegisterType].
type ReducerFunc func(existing, update any) any

func (f ReducerFunc) fieldReducer() mapstate.Reducer {
	return mapstate.Reducer{Kind: mapstate.Func, Fn: f}
}

// ReducerOf returns a reducer for a field of type T that takes updates of type
// U. Existing is the zero T when the field has no value and no default.
func ReducerOf[T, U any](reduce func(existing T, update U) T) FieldReducer {
	r := mapstate.Reducer{Kind: mapstate.Func, Value: reflect.TypeFor[T](), Update: reflect.TypeFor[U]()}
	if reduce != nil {
		r.Fn = func(existing, update any) any {
			t, _ := existing.(T) // nil: zero
			u, _ := update.(U)
			return reduce(t, u)
		}
	}
	return typedReducer{r}
}

type typedReducer struct{ r mapstate.Reducer }

func (r typedReducer) fieldReducer() mapstate.Reducer { return r.r }

// Overwrite returns an update that replaces a field's value by v, whatever the
// field's reducer.
func Overwrite(v any) any { return mapstate.Overwriting{Value: v} }
