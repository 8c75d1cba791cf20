//go:build unix

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/servers"
)

const workerEnv = "SUPERSTEP_CHAOS_JOB"

func TestMain(m *testing.M) {
	goredis.SetLogger(quiet{}) // servers go away on purpose here
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
	goleak.VerifyTestMain(m,
		// For a second the client looks whether a server is there that was not.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

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

// available skips a test when there is no server, and fails it where there must
// be one.
func available(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, servers.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skipf("NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
