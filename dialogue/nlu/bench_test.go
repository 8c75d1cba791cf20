package nlu_test

import (
	"testing"

	"github.com/superstep-dev/superstep/dialogue/nlu"
)

// A prompt for one message, out of 1,000 flows of which some thirty have room.
func BenchmarkPromptOfManyFlows(b *testing.B) {
	in := after(b, compile(b, many(1000)), "I would like to renew my passport, please")
	u := nlu.New(nil, nlu.Options{})
	for b.Loop() {
		if _, err := u.Request(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}
