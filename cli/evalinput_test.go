package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
)

// past is a graph of which there is nothing but a history.
type past struct {
	target
	entries []*entry
}

func (p past) history(_ context.Context, q historyQuery) ([]*entry, error) {
	return p.entries[:min(q.limit, len(p.entries))], nil
}

func TestACaseBeginsWithTheStateInWhichTheLastInputIs(t *testing.T) {
	at := func(source, state string, next ...string) *entry {
		return &entry{Source: source, Next: next, fold: func(context.Context) (json.RawMessage, error) { return json.RawMessage(state), nil }}
	}
	var long []*entry
	for i := range 120 {
		long = append(long, at("loop", fmt.Sprint(i)))
	}
	for name, c := range map[string]struct {
		entries []*entry
		want    string
	}{
		"of two turns":                  {[]*entry{at("loop", `3`), at("input", `{"a":2,"model_usage":[]}`, "n"), at("loop", `2`), at("input", `{"a":1}`, "n")}, `{"a":2}`},
		"that takes it in with a step":  {[]*entry{at("loop", `3`), at("loop", `{"a":2}`, "n"), at("input", `{"a":1}`, "__start__"), at("loop", `{"a":1}`)}, `{"a":2}`},
		"of a turn of many supersteps":  {append(long, at("input", `{"a":1}`, "n")), `{"a":1}`},
		"of which the beginning is cut": {long, ``},
	} {
		got, _, err := turnInput(t.Context(), past{entries: c.entries}, "t", "")
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("a history %s: %s, %v", name, got, err)
		}
	}
}
