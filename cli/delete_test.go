package cli_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/cli"
)

func TestAThreadThatARunWorksOnIsDeletedWithForceAlone(t *testing.T) {
	for _, url := range []string{"file:" + t.TempDir(), "sqlite:" + filepath.Join(t.TempDir(), "t.db")} {
		run := func(code int, args ...string) string {
			t.Helper()
			var out, errs bytes.Buffer
			got := cli.Run(t.Context(), append([]string{"--store", url}, args...), strings.NewReader(""), &out, &errs, cli.Program("flow", ""), cli.Graph(fan()))
			if got != code {
				t.Fatalf("%q: exit code %d, want %d\n%s%s", args, got, code, &out, &errs)
			}
			return out.String() + errs.String()
		}
		run(0, "run", "fan", "-t", "f", "--input", `{"n": 2}`)
		s, err := cli.OpenURL(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		log := checkpoint.Log{Thread: "f"}
		out, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Claim: true, Lease: time.Hour, Holder: "somebody elsewhere"})
		if err != nil {
			t.Fatal(err)
		}
		if said := run(5, "delete", "-t", "f", "--yes"); !strings.Contains(said, "somebody elsewhere") || !strings.Contains(said, "--force") {
			t.Errorf("%s", said)
		}
		run(0, "state", "-t", "f")
		run(0, "delete", "-t", "f", "--yes", "--force")
		_, err = s.Write(t.Context(), &checkpoint.Write{Log: log, Fence: out.Fence, Lease: time.Hour, Holder: "somebody elsewhere"})
		if err == nil || !strings.Contains(err.Error(), `thread "f" was deleted`) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
