package servertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var installing sync.Mutex

// Packages sees to it that a folder has the npm packages that its package-lock.json
// lists. Without npm the test is skipped, and says that what is not tested; with CI=true it
// fails.
func Packages(t testing.TB, what, dir string) {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("npm is not installed")
		}
		t.Skipf("NOT TESTED: %s, since npm is not installed", what)
	}
	installing.Lock()
	defer installing.Unlock()
	wanted, err := os.Stat(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if has, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json")); err == nil && !has.ModTime().Before(wanted.ModTime()) {
		return
	}
	install := exec.Command(npm, "ci", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
}
