package state

// Write records changes, made to another state of the same type, as writes to
// dst: as if its fields' own verbs had been called.
func (t *Type[S]) Write(dst *S, written any) error {
	data, _, err := t.Encode(written)
	if err != nil || data == nil {
		return err
	}
	return t.Update(dst, data)
}
