//go:build unix

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/superstep-dev/superstep/cli"
)

func TestValidateNamesWhatCanNotBeRead(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{pipe, dir} {
		code, out, _ := run(t, "dialogue", "validate", path)
		if want := pipe + ": it is no regular file"; code != cli.ExitError || !strings.Contains(out, want) {
			t.Errorf("exit code %d: %s, want %s", code, out, want)
		}
	}
	secret := filepath.Join(t.TempDir(), "secret.yaml")
	if err := os.WriteFile(secret, nil, 0); err != nil {
		t.Fatal(err)
	}
	if f, err := os.Open(secret); err == nil {
		f.Close()
		t.Skip("this user may read every file")
	}
	code, out, _ := run(t, "dialogue", "validate", secret)
	if want := secret + ": permission denied"; code != cli.ExitError || !strings.Contains(out, want) {
		t.Errorf("exit code %d: %s, want %s", code, out, want)
	}
}
