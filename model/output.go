package model

import (
	"reflect"

	"github.com/superstep-dev/superstep/chat"
)

// OutputOf returns the schema that [Generate] asks for a T with: for requests
// whose answer is read later, with [ReadOutput].
func OutputOf[T any]() (*Schema, error) {
	f, err := formOf(reflect.TypeFor[T](), nil)
	if err != nil {
		return nil, err
	}
	return &f.output, nil
}

// ReadOutput reads an answer to a request with that Output as [Generate] does.
// With a T of json.RawMessage it returns the checked JSON.
func ReadOutput[T any](output *Schema, answer chat.Message) (T, error) {
	var v T
	f, err := formOf(reflect.TypeFor[T](), output)
	if err != nil {
		return v, err
	}
	if err := f.read(answer, &v); err != nil {
		var none T
		return none, &FormatError{Text: answer.Text(), Err: err}
	}
	return v, nil
}
