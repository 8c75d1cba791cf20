package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/goschema"
	"github.com/superstep-dev/superstep/internal/jsonscan"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Current implements [core.Values]: what is renamed or migrated is not known here.
func (t *Type) Current(int) bool { return true }

// Upgrade implements [core.Values].
func (t *Type) Upgrade(_ int, data json.RawMessage) (json.RawMessage, error) { return data, nil }

// Unrecorded implements [core.Values].
func (t *Type) Unrecorded(written any) bool {
	c, ok := written.(*changes)
	return ok && slices.ContainsFunc(c.merged, func(m merged) bool { return t.fields[m.field].unrecorded })
}

// Encode implements [core.Values].
func (t *Type) Encode(written any) (json.RawMessage, error) {
	if written == nil {
		return nil, nil
	}
	c := written.(*changes)
	room := buffers.Get().(*[]byte)
	b := (*room)[:0]
	defer func() { putRoom(room, b) }()
	plain, mergeds := c.plain, c.merged
	for len(plain)+len(mergeds) > 0 {
		if len(mergeds) == 0 || len(plain) > 0 && plain[0] < mergeds[0].field {
			fi := &t.fields[plain[0]]
			plain = plain[1:]
			var err error
			if b, err = fi.append(fi.member(b), c.values); err != nil {
				return nil, fi.err(err)
			}
			continue
		}
		m := mergeds[0]
		mergeds = mergeds[1:]
		fi := &t.fields[m.field]
		if fi.unrecorded {
			continue
		}
		var err error
		if b, err = appendChange(fi.member(b), m.Change); err != nil {
			return nil, fi.err(Cause(err))
		}
	}
	if len(b) == 0 {
		return nil, nil
	}
	b = append(b, '}')
	return bytes.Clone(b), nil
}

// buffers are where changes are encoded before their length is known.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// mostRoom is the capacity up to which a buffer is used again.
const mostRoom = 64 << 10

// putRoom gives back a buffer, which may have grown.
func putRoom(room *[]byte, b []byte) {
	if *room = b; cap(b) <= mostRoom {
		buffers.Put(room)
	}
}

// Growth implements [core.Values].
func (t *Type) Growth(written any) (growth []core.Growth) {
	c, _ := written.(*changes)
	if c == nil {
		return nil
	}
	for _, m := range c.merged {
		if fi := &t.fields[m.field]; fi.growing && !fi.unrecorded {
			growth = append(growth, core.Growth{Field: fi.name, Reset: fi.zero.(field.Growing).Resets(m.Change)})
		}
	}
	return growth
}

// member begins the field's member of the object that b holds the beginning of.
func (f *fieldInfo) member(b []byte) []byte {
	if len(b) == 0 {
		b = append(b, '{')
	} else {
		b = append(b, ',')
	}
	return append(b, f.key...)
}

func appendChange(b []byte, c field.Change) ([]byte, error) {
	if a, ok := c.(appender); ok {
		return a.AppendJSON(b)
	}
	data, err := json.Marshal(c) // which sees to it that the result is compact and valid
	return append(b, data...), err
}

// appender is a change, or a field, that appends its JSON, compact and valid, to b.
type appender interface {
	AppendJSON(b []byte) ([]byte, error)
}

// append appends the JSON of a plain field of the state at s. It is encode,
// faster for the simplest types.
func (f *fieldInfo) append(b []byte, s unsafe.Pointer) ([]byte, error) {
	p := unsafe.Add(s, f.off)
	switch f.simple {
	case reflect.Int:
		return strconv.AppendInt(b, int64(*(*int)(p)), 10), nil
	case reflect.Int64:
		return strconv.AppendInt(b, *(*int64)(p), 10), nil
	case reflect.Bool:
		return strconv.AppendBool(b, *(*bool)(p)), nil
	case reflect.String:
		if v := *(*string)(p); PlainText(v) {
			return append(append(append(b, '"'), v...), '"'), nil
		}
	}
	data, err := f.encode(s)
	return append(b, data...), err
}

// Cause takes the wrapping of encoding/json off an error.
func Cause(err error) error {
	var wrapped *json.MarshalerError
	for errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return err
}

// Decode implements [core.Values].
func (t *Type) Decode(data json.RawMessage, only []string) (any, error) {
	parts, err := t.split(data, only)
	if err != nil {
		return nil, fmt.Errorf("changes: %w", err)
	}
	return t.decodeRecorded(parts)
}

// DecodeAll implements [core.Values].
func (t *Type) DecodeAll(data []json.RawMessage) ([]any, error) {
	all, replaced := make([]any, len(data)), make([]bool, len(t.fields))
	for i, data := range slices.Backward(data) {
		parts, err := t.split(data, nil)
		if err != nil {
			return nil, fmt.Errorf("changes: %w", err)
		}
		parts = slices.DeleteFunc(parts, func(p part) bool {
			later := replaced[p.at]
			replaced[p.at] = t.fields[p.at].replaces
			return later
		})
		if all[i], err = t.decodeRecorded(parts); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// decodeRecorded reads recorded changes of fields, nil if there are none.
func (t *Type) decodeRecorded(parts []part) (any, error) {
	parts = slices.DeleteFunc(parts, func(p part) bool { return t.fields[p.at].unrecorded }) // from before they were
	if len(parts) == 0 {
		return nil, nil
	}
	c, errs := t.decode(parts, (*fieldInfo).decode)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if c.empty() {
		return nil, nil
	}
	return c, nil
}

// decode reads the changes of fields, which are given in the order of fields.
func (t *Type) decode(parts []part, plain func(*fieldInfo, unsafe.Pointer, []byte) error) (*changes, []error) {
	c := newChanges()
	var errs []error
	for _, p := range parts {
		i := p.at
		fi := &t.fields[i]
		if fi.tab == nil {
			if c.values == nil {
				c.values = t.room()
			}
			if err := plain(fi, c.values, p.data); err != nil {
				errs = append(errs, fi.err(err))
			} else if len(fi.ops) > 0 {
				c.plain = append(c.plain, i)
			}
			continue
		}
		ch, err := decodeChange(fi.zero, p.data)
		switch {
		case err != nil:
			errs = append(errs, fi.err(err))
		case ch != nil:
			c.merged = append(c.merged, merged{i, ch})
		}
	}
	return c, errs
}

func decodeChange(m field.Merger, data []byte) (c field.Change, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	return m.DecodeChange(data)
}

// encode returns the JSON of a plain field of the state at s.
func (f *fieldInfo) encode(s unsafe.Pointer) ([]byte, error) {
	for _, o := range f.ops {
		switch o.kind {
		case opString:
			if !utf8.ValidString(*(*string)(unsafe.Add(s, o.off))) {
				return nil, errors.New("a string is not valid UTF-8, so JSON cannot hold it; keep such data in a graph.Value[[]byte]")
			}
		case opTime:
			if _, offset := (*(*time.Time)(unsafe.Add(s, o.off))).Zone(); offset%60 != 0 {
				return nil, errors.New("a time's offset from UTC is not a whole number of minutes, so JSON cannot hold it; use its UTC method")
			}
		}
	}
	data, err := json.Marshal(f.value(s))
	if err != nil {
		return nil, Cause(err)
	}
	if f.quoted {
		return json.Marshal(string(data))
	}
	return data, nil
}

// decode reads a plain field of the state at s.
func (f *fieldInfo) decode(s unsafe.Pointer, data []byte) error {
	data, err := f.unquote(data)
	if err != nil {
		return err
	}
	if f.simple == reflect.String {
		if text, ok := jsonscan.Text(data); ok {
			*(*string)(unsafe.Add(s, f.off)) = text
			return nil
		}
	}
	if err := json.Unmarshal(data, f.value(s)); err != nil {
		return err
	}
	f.copy(s, s) // times as they are stored
	return nil
}

// decodeStrict is decode for input: unknown members of a struct are errors.
func (f *fieldInfo) decodeStrict(s unsafe.Pointer, data []byte) error {
	data, err := f.unquote(data)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(f.value(s)); err != nil {
		return err
	}
	f.copy(s, s)
	return f.finite(s)
}

func (f *fieldInfo) unquote(data []byte) ([]byte, error) {
	if !f.quoted || string(data) == "null" {
		return data, nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return nil, err
	}
	return []byte(text), nil
}

// Snapshot implements [core.Values]. Fields that hold the zero value are left
// out.
func (t *Type) Snapshot(base any, full bool) (json.RawMessage, error) {
	room := buffers.Get().(*[]byte)
	b := (*room)[:0]
	defer func() { putRoom(room, b) }()
	for i := range t.fields {
		fi, s := &t.fields[i], t.with(t.at(base), int32(i))
		var err error
		if fi.tab == nil {
			if fi.equal(s, t.zero) {
				continue
			}
			b, err = fi.append(fi.member(b), s)
		} else {
			if fi.unrecorded || fi.growing && !full {
				continue
			}
			v := fi.value(s)
			if z, ok := v.(interface{ IsZero() bool }); ok && z.IsZero() {
				continue
			}
			var data []byte
			switch m := fi.field(s).(type) {
			case appender:
				b, err = m.AppendJSON(fi.member(b))
			case field.Snapshotting:
				data, err = m.MarshalSnapshot()
				b = append(fi.member(b), data...)
			default:
				data, err = json.Marshal(v)
				b = append(fi.member(b), data...)
			}
		}
		if err != nil {
			return nil, fi.err(Cause(err))
		}
	}
	if len(b) == 0 {
		return json.RawMessage("{}"), nil
	}
	b = append(b, '}')
	return bytes.Clone(b), nil
}

// Restore implements [core.Values].
func (t *Type) Restore(base any, data json.RawMessage) (any, error) {
	if len(data) == 0 {
		return nil, errors.New("snapshot: it is empty")
	}
	parts, err := t.split(data, nil)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	from := t.zero
	if base != nil {
		from = t.at(base)
	}
	state := t.copy(from)
	var errs []error
	for _, p := range parts {
		fi := &t.fields[p.at]
		if fi.unrecorded {
			continue
		}
		var err error
		if s := t.own(state, p.at); fi.tab == nil {
			err = fi.decode(s, p.data)
		} else {
			err = fi.restore(s, p.data)
		}
		if err != nil {
			errs = append(errs, fi.err(err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return t.state(state), nil
}

// restore reads a merging field of the state at s from a snapshot.
func (f *fieldInfo) restore(s unsafe.Pointer, data []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	if m, ok := f.field(s).(field.Snapshotting); ok {
		return m.UnmarshalSnapshot(data)
	}
	return f.value(s).(json.Unmarshaler).UnmarshalJSON(data)
}

// UnknownFieldError says that an update names a field that the state doesn't
// have.
type UnknownFieldError struct {
	Field string
	Near  string // the name closest to it; may be empty
	Valid []string
}

func (e *UnknownFieldError) Error() string {
	if e.Near != "" {
		return fmt.Sprintf("unknown field %q; did you mean %q?", e.Field, e.Near)
	}
	return fmt.Sprintf("unknown field %q; the state has %q", e.Field, e.Valid)
}

// Update writes an update in JSON to a state, a task's copy or a state of the
// caller's: plain fields are set, merging fields take it as their update. When
// anything is wrong, everything that is wrong is in the error and s stays as it
// was.
func (t *Type) Update(state any, data []byte) error {
	s := t.at(state)
	raw, values, err := goschema.Object(data)
	if err != nil {
		return err
	}
	var parts []part
	var refused []error
	rest := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		i, ok := t.byName[name]
		switch {
		case ok && i != t.rest:
		case t.TakesRest(name):
			rest[name] = raw[name]
			continue
		default:
			refused = append(refused, t.Unknown(name))
			continue
		}
		if errs := t.inputForms(i).check(name, values[name]); errs != nil {
			refused = append(refused, errs...)
			continue
		}
		parts = append(parts, part{i, raw[name]})
	}
	if len(rest) > 0 {
		data, _ := json.Marshal(rest) // which was JSON before
		parts = append(parts, part{t.rest, data})
	}
	sortParts(parts)
	c, errs := t.decode(parts, (*fieldInfo).decodeStrict)
	if errs = append(refused, errs...); len(errs) > 0 {
		return errors.Join(errs...)
	}
	// Writes that may fail are tried first, on a copy: a copied field leaves
	// alone what it shares with the field that it is a copy of.
	trial := t.copy(s)
	for _, m := range c.merged {
		fi := &t.fields[m.field]
		if fi.infallible {
			continue
		}
		if err := write(fi.field(t.own(trial, m.field)), m.Change); err != nil {
			errs = append(errs, fi.err(err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, p := range c.plain {
		t.fields[p].copy(s, c.values)
	}
	for _, m := range c.merged {
		fi := &t.fields[m.field]
		if err := write(fi.field(t.own(s, m.field)), m.Change); err != nil {
			return fi.err(err)
		}
	}
	return nil
}

// inputForms returns the schemas of what a field takes. Graphs that get no input in
// JSON never need them.
func (t *Type) inputForms(i int32) forms {
	t.formsOnce.Do(func() {
		t.forms = make([]forms, len(t.fields))
		for i := range t.fields {
			f, err := t.fields[i].forms()
			if err != nil {
				continue // there is no schema then to keep to
			}
			t.forms[i] = f
		}
	})
	return t.forms[i]
}

func write(m field.Merger, c field.Change) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	return m.Write(c)
}

// FieldNames returns the names of the fields in their order.
func (t *Type) FieldNames() []string {
	names := make([]string, 0, len(t.fields))
	for i := range t.fields {
		if !t.fields[i].rest {
			names = append(names, t.fields[i].name)
		}
	}
	return names
}

// TakesRest reports whether what is written under a name that no field has is kept.
func (t *Type) TakesRest(name string) bool {
	return t.rest >= 0 && name != "" && name[0] != '$'
}

// Unknown returns the error for a name that no field has.
func (t *Type) Unknown(name string) error {
	names := t.FieldNames()
	return &UnknownFieldError{Field: name, Near: plan.Nearest(name, names), Valid: names}
}

// Hash returns a hash of each field's value, all that it refers to included, by
// the field's name. Comparing the hashes of a state from before and after a
// task ran shows which fields it altered in place. Fields that are never stored
// are left out.
func (t *Type) Hash(state any) (map[string]uint64, error) {
	hashes := make(map[string]uint64, len(t.fields))
	for i := range t.fields {
		fi, s := &t.fields[i], t.with(t.at(state), int32(i))
		switch {
		case fi.unrecorded:
		case fi.tab == nil:
			hashes[fi.name] = fi.hash(s)
		default:
			data, err := json.Marshal(fi.value(s))
			if err != nil {
				return nil, fi.err(Cause(err))
			}
			hashes[fi.name] = maphash.Bytes(seed, data)
		}
	}
	return hashes, nil
}
