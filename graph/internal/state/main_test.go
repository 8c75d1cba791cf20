package state_test

import (
	"flag"
	"os"
	"testing"

	"github.com/superstep-dev/superstep/internal/race"
)

func TestMain(m *testing.M) {
	if race.Enabled { // it takes many times as long
		if err := flag.Set("rapid.checks", "30"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
