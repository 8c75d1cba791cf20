//go:build unix

package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

const workerEnv = "SUPERSTEP_CHAOS_JOB"

func TestMain(m *testing.M) {
	goredis.SetLogger(servertest.Quiet{}) // servers go away on purpose here
	if v := os.Getenv(workerEnv); v != "" {
		var j job
		err := json.Unmarshal([]byte(v), &j)
		if err == nil {
			err = work(&j)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	servertest.Main(m, servertest.IgnoreRedisDial())
}

// setting reads a number from the environment.
func setting(t testing.TB, name string, otherwise int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		t.Fatalf("%s=%q is not a number", name, v)
	}
	return n
}

func durationSetting(t testing.TB, name string, otherwise time.Duration) time.Duration {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		t.Fatalf("%s=%q is not a duration", name, v)
	}
	return d
}

// wanted skips a test whose store CHAOS_STORE doesn't name.
func wanted(t testing.TB, store string) {
	t.Helper()
	if v := os.Getenv("CHAOS_STORE"); v != "" && !strings.Contains(","+v+",", ","+store+",") {
		t.Skipf("CHAOS_STORE=%s", v)
	}
}
