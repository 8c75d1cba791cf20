package state

import "slices"

// Write records changes, made to another state of the same type, as writes to
// dst: as if its fields' own verbs had been called. Over leaves out those to fields
// whose values live for one superstep.
func (t *Type) Write(dst, written any, over bool) error {
	if c := written.(*changes); over && len(t.stepped) > 0 {
		lasting := *c
		lasting.merged = slices.DeleteFunc(slices.Clone(c.merged), func(m merged) bool { return t.fields[m.field].stepped })
		written = &lasting
	}
	data, err := t.Encode(written)
	if err != nil || data == nil {
		return err
	}
	return t.Update(dst, data)
}
