package postgres_test

import (
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// A pooler gives each transaction whichever connection is free.
func TestStoreThroughAPooler(t *testing.T) {
	direct := servertest.OwnPostgres(t)
	url := servertest.OwnPgBouncer(t, direct).URL() + "&default_query_exec_mode=exec"
	again := func(t *testing.T, s checkpoint.Store) checkpoint.Store {
		return open(t, url, postgres.Options{Schema: sameSchema(t, s)})
	}
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return open(t, url, postgres.Options{}) }, checkpointtest.Options{Crash: again, Another: again})
}
