package words

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/superstep-dev/superstep/graphtest"
)

func folder(t *testing.T) string {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.md": "one two", "b.txt": "three", "c.png": "no text"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEveryTextFileIsCounted(t *testing.T) {
	dir := folder(t)
	snap := graphtest.Run(t, Builder(), func(s *State) error { s.Dir = dir; return nil }, nil)
	if want := "3 words in 2 files; 0 could not be read"; snap.State.Report != want {
		t.Errorf("the report is %q, want %q", snap.State.Report, want)
	}
}

func TestABatchThatIsKilledAnywhereGoesOn(t *testing.T) {
	dir := folder(t)
	graphtest.CheckRecovery(t, Builder, func(s *State) error { s.Dir = dir; return nil }, nil)
}
