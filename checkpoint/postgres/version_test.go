package postgres_test

import (
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

func TestTablesOfBeforeTheFirstReleaseAreRefused(t *testing.T) {
	url := servertest.Postgres(t)
	s := open(t, url, postgres.Options{})
	schema := sameSchema(t, s)
	s.Close()
	exec(t, url, `UPDATE `+quote(schema)+`.superstep_meta SET version = 4`)
	refused(t, url, postgres.Options{Schema: schema}, checkpoint.ErrVersion, "schema version 4", "before the first release", "use another")
}
