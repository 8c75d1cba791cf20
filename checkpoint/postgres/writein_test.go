package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

func TestAWriteInATransactionHappensWithIt(t *testing.T) {
	url := servertest.Postgres(t)
	schema := newSchema(t, url)
	s, other := open(t, url, postgres.Options{Schema: schema}), open(t, url, postgres.Options{Schema: schema})
	defer s.Close()
	defer other.Close()
	c := connect(t, url)
	defer c.Close(context.Background())
	db := stdlib.OpenDB(*c.Config())
	defer db.Close()
	beside := quote(schema) + ".beside"
	exec(t, url, `CREATE TABLE `+beside+` (n int)`)

	log, run := checkpoint.Log{Thread: "t"}, checkpoint.NewRunID()
	head := checkpoint.ID("")
	step := func(n int64) *checkpoint.Write {
		return &checkpoint.Write{Log: log, Head: head, Record: logtest.Step(log, run, head, n, logtest.Message)}
	}
	// within has a row stored beside the write.
	within := func(n int, end error) func(context.Context, func(postgres.Tx) error) error {
		return func(ctx context.Context, write func(postgres.Tx) error) error {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if _, err = tx.ExecContext(ctx, `INSERT INTO `+beside+` VALUES ($1)`, n); err == nil {
				err = write(tx)
			}
			if err = errors.Join(err, end); err != nil {
				return err
			}
			return tx.Commit()
		}
	}
	stands := func(want checkpoint.ID, rows int) {
		t.Helper()
		got := checkpoint.ID("")
		if r, _, err := other.Head(t.Context(), log); err == nil {
			got = r.ID
		} else if !errors.Is(err, checkpoint.ErrNotFound) {
			t.Fatal(err)
		}
		var n int
		if err := c.QueryRow(t.Context(), `SELECT count(*) FROM `+beside).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if got != want || n != rows {
			t.Errorf("the head is %q and there are %d rows, want %q and %d", got, n, want, rows)
		}
	}

	broken := errors.New("broken")
	if _, err := s.WriteIn(t.Context(), step(1), within(1, broken)); !errors.Is(err, broken) {
		t.Errorf("a transaction that is undone: %v", err)
	}
	stands("", 0)

	w := step(1)
	if _, err := s.WriteIn(t.Context(), w, within(1, nil)); err != nil {
		t.Fatal(err)
	}
	head = w.Record.ID
	stands(head, 1)

	// What another one does to the thread meanwhile is seen.
	claimed, err := other.Write(t.Context(), &checkpoint.Write{Log: log, Claim: true})
	if err != nil {
		t.Fatal(err)
	}
	w, calls := step(2), 0
	if _, err := s.WriteIn(t.Context(), w, func(ctx context.Context, write func(postgres.Tx) error) error {
		calls++
		return within(2, nil)(ctx, write)
	}); err != nil || calls != 2 {
		t.Fatalf("after %d calls: %v", calls, err)
	}
	head = w.Record.ID
	stands(head, 2)

	w = step(3)
	w.Fence = claimed.Fence - 1
	if _, err := s.WriteIn(t.Context(), w, within(3, nil)); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("a write of whom the thread was taken from: %v", err)
	}
	w = step(3)
	w.Head = "another"
	if _, err := s.WriteIn(t.Context(), w, within(3, nil)); !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("a write on another head: %v", err)
	}
	stands(head, 2)
}
