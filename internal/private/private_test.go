package private_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/superstep-dev/superstep/internal/private"
)

func TestAFileThatALinkLeadsToIsItsOwnersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs modes and symbolic links")
	}
	root := t.TempDir()
	for _, dir := range []string{"far/away", "near"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"link.db":        "target.db",
		"second.db":      filepath.Join(root, "first.db"),
		"first.db":       "near/end.db",
		"shortcut":       "far/away",
		"far/away/up.db": "../up.db", // from far/away, whatever leads there
		"circle.db":      "circle.db",
	} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"new.db":         "new.db",
		"link.db":        "target.db",
		"second.db":      "near/end.db",
		"shortcut/up.db": "far/up.db",
	} {
		private.Create(filepath.Join(root, path))
		info, err := os.Lstat(filepath.Join(root, want))
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s leads to %s: %v, %v", path, want, info, err)
		}
	}
	private.Create(filepath.Join(root, "circle.db"))
	private.Create(filepath.Join(root, "nowhere", "x.db"))
}
