package goschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// Object reads an object that comes from outside: its members, as they were written and as
// values in which numbers are [json.Number]. It refuses what encoding/json would alter on the
// way (text that isn't UTF-8) or take in two ways (a name that an object has twice).
func Object(data []byte) (raw map[string]json.RawMessage, values map[string]any, err error) {
	err = json.Unmarshal(data, &raw)
	if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong || err == nil && raw == nil {
		v, _ := read(data) // which is JSON
		return nil, nil, &InputError{Reason: "must be an object, not " + typeOf(v)}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("update: %w", err)
	}
	v, err := readStrictly(data)
	if err != nil {
		return nil, nil, err
	}
	return raw, v.(map[string]any), nil
}

// Mismatches returns what is wrong with a value from [Object], by [InputError]s. They don't
// show it: what a state holds may be a secret, and errors are logged.
func Mismatches(s *jsonschema.Schema, v any, name string) []error {
	c := checker{root: s, mute: true, most: maxErrors}
	c.check(s, v, &place{name: name})
	var errs []error
	for _, e := range c.errs {
		errs = append(errs, e)
	}
	return errs
}

// Decode reads JSON from outside that is to be as an inferred schema has it, into v, a
// pointer. What it refuses is as with [Object]; what is the name of the whole in errors.
func Decode(what string, data []byte, s *jsonschema.Schema, v any) error {
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	var errs []error
	if read, err := readStrictly(data); err != nil {
		errs = []error{err}
	} else {
		errs = Mismatches(s, read, "")
	}
	for _, err := range errs {
		if e, ok := errors.AsType[*InputError](err); ok {
			e.what = what
		}
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	if err := json.Unmarshal(data, v); err != nil { // a method of the type refuses it
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// readStrictly reads JSON that is known to be well-formed.
func readStrictly(data []byte) (any, error) {
	r := strictReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), text: utf8.Valid(data)}
	r.dec.UseNumber()
	return r.value(nil)
}

// strictReader is what readStrictly reads with.
type strictReader struct {
	data []byte
	dec  *json.Decoder
	text bool // all of it is UTF-8
}

func (r *strictReader) token(at *place) (json.Token, error) {
	from := r.dec.InputOffset()
	t, err := r.dec.Token()
	if err == nil && !r.text && !utf8.Valid(r.data[from:r.dec.InputOffset()]) {
		err = &InputError{Path: at.String(), Reason: "a string in it is not valid UTF-8", Fix: "encode text as UTF-8, and bytes in base64"}
	}
	return t, err
}

func (r *strictReader) value(at *place) (any, error) {
	t, err := r.token(at)
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for r.dec.More() {
			v, err := r.value(&place{up: at, item: len(list) + 1})
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = r.dec.Token()
		return list, err
	case json.Delim('{'):
		object := map[string]any{}
		for r.dec.More() {
			t, err := r.token(at)
			if err != nil {
				return nil, err
			}
			name := t.(string)
			member := &place{up: at, name: name}
			if _, ok := object[name]; ok {
				return nil, &InputError{Path: member.String(), Reason: "it is there twice", Fix: "give it once"}
			}
			if object[name], err = r.value(member); err != nil {
				return nil, err
			}
		}
		_, err = r.dec.Token()
		return object, err
	}
	return t, nil
}
