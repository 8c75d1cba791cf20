package postgres_test

import (
	"testing"

	"github.com/superstep-dev/superstep/fleet/bus"
	"github.com/superstep-dev/superstep/fleet/bus/bustest"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// A pooler carries no notes: it is asked for what is new.
func TestBusThroughAPooler(t *testing.T) {
	url := servertest.OwnPgBouncer(t, servertest.OwnPostgres(t)).URL() + "&default_query_exec_mode=exec"
	schema := newSchema()
	bustest.Run(t, func(t *testing.T) bus.Bus { return open(t, url, schema) })
}
