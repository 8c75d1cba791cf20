package local

import (
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

// What another program wrote, or a damaged store has, may have any name.
func TestANameThatIsNoDigestIsNone(t *testing.T) {
	for _, name := range []string{"", "A", "?", strings.Repeat("A", 21), strings.Repeat("A", 23), strings.Repeat("A", 24), strings.Repeat("A", 1000)} {
		if d, ok := parseDigest(name); ok {
			t.Errorf("%q is taken for %s", name, d)
		}
	}
	d := digestOf([]byte("x"))
	if back, ok := parseDigest(d.String()); !ok || back != d {
		t.Errorf("%s comes back as %s", d, back)
	}
	rec := &checkpoint.Record{Once: []checkpoint.OnceResult{{Data: []byte(`{"i":"` + strings.Repeat("A", 1000) + `","k":"x"}`)}}}
	if notes, err := NotesOf(rec); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("a note without an ID: %v, %v", notes, err)
	}
	open := []checkpoint.Result{{Kind: checkpoint.KindNote, Data: []byte(`{"i":"","k":"x"}`)}}
	if notes, err := OpenNotes(checkpoint.Log{}, open); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("a note without an ID beside the log: %v, %v", notes, err)
	}
}
