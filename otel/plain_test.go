package otel_test

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"
)

// plain writes attributes with the last word of their keys.
type plain struct{}

var plainID = attribute.NewEncoderID()

func (plain) ID() attribute.EncoderID { return plainID }

func (plain) Encode(it attribute.Iterator) string {
	var words []string
	for it.Next() {
		a := it.Attribute()
		words = append(words, string(a.Key[strings.LastIndexByte(string(a.Key), '.')+1:])+"="+a.Value.String())
	}
	return strings.Join(words, " ")
}
