package db

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestTablesOfBeforeTheFirstReleaseAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	d, err := OpenSQLite(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []int{1, oldest} {
		if _, err := d.sql.ExecContext(t.Context(), `UPDATE superstep_server_meta SET version = ?`, version); err != nil {
			t.Fatal(err)
		}
		if other, err := OpenSQLite(t.Context(), path); !errors.Is(err, ErrVersion) {
			t.Errorf("version %d: %v, %v", version, other, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
