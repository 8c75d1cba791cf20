package checkpointtest

import (
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Unlabelled tests a store that has an index of its threads' metadata, as an older
// program left it that wrote none: threads are found by what they have, and so they are
// once they were written to. The store is new; unlabel takes what is in the index.
func Unlabelled(t *testing.T, s checkpoint.Store, unlabel func()) {
	add := func(l *line, user string) {
		t.Helper()
		r := l.next()
		r.Metadata = map[string]string{"user": user}
		l.write(t, s, r)
	}
	found := func(user string) (out string) {
		t.Helper()
		for info, err := range s.(checkpoint.Lister).Threads(t.Context(), checkpoint.ThreadFilter{Metadata: map[string]string{"user": user}}) {
			if err != nil {
				t.Fatal(err)
			}
			out += string(info.Thread)
		}
		return out
	}
	a, b, c := newLine("a"), newLine("b"), newLine("c")
	add(a, "ann")
	add(b, "ann")
	add(c, "bob")
	unlabel()
	if got := found("ann"); got != "ab" {
		t.Errorf("found %q without labels", got)
	}
	add(a, "bob")
	if ann, bob := found("ann"), found("bob"); ann != "b" || bob != "ac" {
		t.Errorf("found %q and %q", ann, bob)
	}
	for c, err := range s.(checkpoint.Verifier).Verify(t.Context(), "") {
		t.Errorf("%v, %v", c, err)
	}
}
