package checkpoint_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Whatever nodes and keys are called, a namespace says which they were.
func TestANamespaceIsTakenApartAsItWasMade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOf(rapid.RuneFrom([]rune("a|:#%27C/ü")))
		type segment struct{ node, task, key string }
		made := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) segment {
			return segment{word.Draw(t, "node"), rapid.SampledFrom([]string{"", "01a2194a-edb4-7a39-993e-3c6c00000001.0", "step-3.1.2"}).Draw(t, "task"), word.Draw(t, "key")}
		}), 1, 4).Draw(t, "segments")
		ns, around := "", []string{}
		for _, s := range made {
			around = append(around, ns)
			ns = checkpoint.InNamespace(ns, checkpoint.Segment(s.node, s.task, s.key))
		}
		for _, of := range around {
			if !checkpoint.Below(ns, of) || checkpoint.Below(of, ns) {
				t.Errorf("%q is not below %q", ns, of)
			}
		}
		rest := ns
		for _, want := range made {
			var got segment
			if got.node, got.task, got.key, rest = checkpoint.CutSegment(rest); got != want {
				t.Fatalf("of %q there is %+v, not %+v", ns, got, want)
			}
		}
		if rest != "" {
			t.Errorf("of %q there is left %q", ns, rest)
		}
	})
}
