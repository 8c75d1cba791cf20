package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

func TestADatabaseOfBeforeTheFirstReleaseIsRefused(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "version1.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "threads.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, path, checkpoint.ErrVersion, "schema version 1", "before the first release", "use another file")
}
