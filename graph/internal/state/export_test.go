package state

import "reflect"

// Field describes a field of a state.
type Field struct {
	Name       string       // in JSON and in the log
	Path       string       // in Go; with the embedded structs that lead to it
	Type       reflect.Type // in Go
	Merging    bool
	Growing    bool
	Stepped    bool
	Unrecorded bool
}

// Fields describes the state's fields in the order of declaration.
func (t *Type) Fields() []Field {
	fs := make([]Field, len(t.fields))
	for i := range t.fields {
		f := &t.fields[i]
		fs[i] = Field{
			Name: f.name, Path: f.path, Type: f.typ,
			Merging: f.tab != nil, Growing: f.growing, Stepped: f.stepped, Unrecorded: f.unrecorded,
		}
	}
	return fs
}
