package postgres_test

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// Tables of version 1 have a superstep_write whose fences begin at 1.
func TestTablesOfVersion1(t *testing.T) {
	url := servertest.Postgres(t)
	s := open(t, url, postgres.Options{})
	schema := sameSchema(t, s)
	s.Close()
	var text string
	if err := connect(t, url).QueryRow(t.Context(), `SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		WHERE n.nspname = $1 AND p.proname = 'superstep_write'`, schema).Scan(&text); err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(text, "v_fence := v_tid << 28", "v_fence := 0", 1)
	if old == text {
		t.Fatal("where fences begin is not found")
	}
	exec(t, url, old)
	log := checkpoint.Log{Thread: "t"}
	claim := func(s *postgres.Store) checkpoint.Fence {
		t.Helper()
		out, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Claim: true})
		if err != nil {
			t.Fatal(err)
		}
		return out.Fence
	}
	s = open(t, url, postgres.Options{Schema: schema})
	defer s.Close()
	if f := claim(s); f != 1 {
		t.Fatalf("fence %d, want what version 1 gave", f)
	}
	exec(t, url, `DELETE FROM `+quote(schema)+`.superstep_meta WHERE version >= 2`)

	now := open(t, url, postgres.Options{Schema: schema})
	defer now.Close()
	if f := claim(now); f != 2 {
		t.Fatalf("fence %d, want the next of the thread", f)
	}
	last := claim(s) // by a program that has been running since
	if err := now.Delete(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*postgres.Store{"the old program": s, "the new one": now} {
		if f := claim(s); f <= last {
			t.Errorf("%s begins the thread anew with fence %d after %d", name, f, last)
		}
	}
}

// Threads whose labels nobody wrote, as an older program left them, are found by what
// they have, and so they are once they were written to.
func TestThreadsWithoutLabelsAreFound(t *testing.T) {
	url := servertest.Postgres(t)
	var s checkpoint.Store = open(t, url, postgres.Options{})
	defer s.Close()
	schema := sameSchema(t, s)
	checkpointtest.Unlabelled(t, s, func() { exec(t, url, `UPDATE `+quote(schema)+`.superstep_logs SET labels = NULL`) })
}
