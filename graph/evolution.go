package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/plan"
)

// SchemaVersion is recorded with every checkpoint as the version of S. Raise it
// when fields change their meaning or type, and say with [Migrate] how to read
// what was recorded before. A program refuses threads of a newer version with a
// [VersionError]. The default is the highest version of a migration, or 0.
//
// Not every change needs a version: fields may be added, which are zero in old
// threads, and removed, whose recorded values are passed over.
func SchemaVersion(v int) Option {
	return graphSetting(func(s *settings) {
		if v < 0 {
			s.fail("graph: SchemaVersion(%d): versions are not negative", v)
		}
		s.version, s.versioned = v, true
	})
}

// FieldAlias makes checkpoints readable that hold a field of the state under its
// former name.
func FieldAlias(former, name string) Option {
	return graphSetting(func(s *settings) { s.renamed = append(slices.Clip(s.renamed), [2]string{former, name}) })
}

// FormerName names names that the graph had in earlier versions of the program. Threads
// that wait in a graph of one of them go on in this one, also by a [Runner]; without it, they
// fail with an [UnknownNodeError].
func FormerName(names ...string) Option {
	return graphSetting(func(s *settings) { s.former = slices.Concat(s.former, names) })
}

// Migrate makes checkpoints readable that were written before the state had this
// version. Fn is given what a task, an input or a snapshot recorded: the values
// of fields by their recorded name, those of merging fields in the form that
// [Graph.UpdateJSON] takes. It may change, rename, add and remove them. It is
// called for each such record whenever it is read, must always do the same, and
// has no other effect. What is stored stays as it was; [Thread.Prune] writes the
// oldest checkpoint anew in the present form.
//
// Migrations run in the order of their versions, those that are newer than the
// record. After them, aliases are applied.
func Migrate(version int, fn func(fields map[string]json.RawMessage) error) Option {
	return graphSetting(func(s *settings) {
		if fn == nil {
			s.fail("graph: Migrate(%d): the function is nil", version)
		}
		s.migrations = append(slices.Clip(s.migrations), migration{version, fn})
	})
}

type migration struct {
	version int
	fn      func(map[string]json.RawMessage) error
}

// VersionError says that what a thread holds can't be made of the version of the state
// that the program knows: a newer program wrote it, or a migration failed.
type VersionError struct {
	Recorded int   // version of the state in the checkpoint
	Program  int   // version that the program knows, or that a migration to which failed
	Err      error // of the migration; nil: the program is too old
}

func (e *VersionError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("migration of the state from version %d to %d: %v", e.Recorded, e.Program, e.Err)
	}
	return fmt.Sprintf("the checkpoint holds version %d of the state, this program knows version %d: use the newer program, or raise SchemaVersion", e.Recorded, e.Program)
}

// Unwrap returns the migration's error.
func (e *VersionError) Unwrap() error { return e.Err }

// evolution knows how to read what older versions recorded.
type evolution struct {
	version    int
	migrations []migration
	renamed    [][2]string
}

func newEvolution(set *settings, fields []string) (*evolution, []Problem) {
	e := &evolution{version: set.version, migrations: slices.Clone(set.migrations), renamed: set.renamed}
	var problems []Problem
	problem := func(name, fix, format string, args ...any) {
		problems = append(problems, Problem{Kind: "schema version", Name: name, Text: fmt.Sprintf(format, args...), Fix: fix})
	}
	slices.SortStableFunc(e.migrations, func(a, b migration) int { return a.version - b.version })
	for i, m := range e.migrations {
		switch {
		case m.version <= 0:
			problem("", "count versions from 1", "there is a migration to version %d", m.version)
		case i > 0 && e.migrations[i-1].version == m.version:
			problem("", "make them one", "there are two migrations to version %d", m.version)
		case set.versioned && m.version > set.version:
			problem("", "raise SchemaVersion", "there is a migration to version %d, but the state has version %d", m.version, set.version)
		}
	}
	if n := len(e.migrations); n > 0 && !set.versioned {
		e.version = max(e.version, e.migrations[n-1].version)
		set.version = e.version
	}
	present := map[string]string{}
	for _, r := range e.renamed {
		former, name := r[0], r[1]
		switch other, twice := present[former]; {
		case fields != nil && !slices.Contains(fields, name):
			fix := "name a field of the state"
			if near := plan.Nearest(name, fields); near != "" {
				fix = fmt.Sprintf("did you mean %q?", near)
			}
			problem(name, fix, "%q is the former name of %q, and the state has no such field", former, name)
		case slices.Contains(fields, former):
			problem(former, "drop the alias, or rename the field", "%[1]q is the former name of field %q, and the state has a field %[1]q", former, name)
		case twice && other != name:
			problem(former, "leave it with one of them", "%q is the former name of both %q and %q", former, other, name)
		}
		present[former] = name
	}
	return e, problems
}

// of returns values that read old records too.
func (e *evolution) of(v core.Values) core.Values { return evolved{v, e} }

type evolved struct {
	core.Values
	e *evolution
}

// Current implements [core.Values].
func (v evolved) Current(version int) bool {
	e := v.e
	return len(e.renamed) == 0 && (version == e.version || version < e.version && len(e.migrations) == 0)
}

// Upgrade implements [core.Values].
func (v evolved) Upgrade(version int, data json.RawMessage) (json.RawMessage, error) {
	e := v.e
	if version > e.version {
		return nil, &VersionError{Recorded: version, Program: e.version}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	if fields == nil { // recorded as null
		return data, nil
	}
	for _, m := range e.migrations {
		if m.version <= version {
			continue
		}
		if err := m.run(fields); err != nil {
			return nil, &VersionError{Recorded: version, Program: m.version, Err: err}
		}
	}
	for _, r := range e.renamed {
		if old, ok := fields[r[0]]; ok {
			if _, ok := fields[r[1]]; !ok {
				fields[r[1]] = old
			}
			delete(fields, r[0])
		}
	}
	out, err := json.Marshal(fields)
	if err != nil { // a migration has put something in that is no JSON
		return nil, &VersionError{Recorded: version, Program: e.version, Err: err}
	}
	return out, nil
}

func (m *migration) run(fields map[string]json.RawMessage) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
			if cause, ok := v.(error); ok {
				err = errors.Join(err, cause)
			}
		}
	}()
	return m.fn(fields)
}
