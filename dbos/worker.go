package dbos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	sdk "github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/superstep-dev/superstep/fleet"
)

// WorkerOptions are the settings of a [Worker]. Queue is needed.
type WorkerOptions struct {
	Queue string // that of the dispatchers

	Concurrency int           // how many runs, and how many batches of tasks, it has at a time; 0 means 16
	Poll        time.Duration // how often the queue is looked at; 0 means every 100 ms
	Look        time.Duration // how often a run looks whether it is cancelled; 0 means every second

	// Heartbeat is after which time without a sign of life a worker counts as dead, and
	// the others take up what it was at; 0 means 10 seconds. All workers should have the
	// same.
	Heartbeat time.Duration

	Schema string       // of DBOS's tables; empty means "dbos"
	Logger *slog.Logger // of DBOS; nil means none
}

// Worker does what dispatchers put into a queue. It is safe for concurrent use.
type Worker struct {
	w    *fleet.Worker
	o    WorkerOptions
	c    sdk.Context
	pool *pgxpool.Pool
	name string
	log  *slog.Logger

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// Start starts a worker on a database of PostgreSQL that is there, given by its URL, in which
// DBOS makes its tables. It is to be closed.
func Start(ctx context.Context, database string, fw *fleet.Worker, o WorkerOptions) (_ *Worker, err error) {
	switch {
	case database == "":
		return nil, errors.New("dbos: Start needs the URL of a database")
	case fw == nil:
		return nil, errors.New("dbos: Start needs a worker of package fleet")
	case o.Queue == "":
		return nil, errors.New("dbos: WorkerOptions.Queue is empty")
	case o.Concurrency < 0 || o.Poll < 0 || o.Look < 0 || o.Heartbeat < 0:
		return nil, errors.New("dbos: WorkerOptions.Concurrency, Poll, Look and Heartbeat must not be negative")
	}
	o.Concurrency, o.Poll = cmp.Or(o.Concurrency, 16), cmp.Or(o.Poll, 100*time.Millisecond)
	o.Look, o.Heartbeat = cmp.Or(o.Look, time.Second), cmp.Or(o.Heartbeat, 10*time.Second)
	w := &Worker{w: fw, o: o, name: "superstep-" + uuid.NewString(), log: quiet(o.Logger)}
	ctx = context.WithoutCancel(ctx)
	if w.pool, err = pgxpool.New(ctx, database); err != nil {
		return nil, fmt.Errorf("dbos: %w", err)
	}
	defer func() {
		if err != nil {
			w.pool.Close()
		}
	}()
	if err = w.inTurn(ctx, func(tx pgx.Tx) error {
		if w.c, err = sdk.NewContext(ctx, sdk.Config{
			AppName: application, ApplicationVersion: version, ExecutorID: w.name, DatabaseURL: database, DatabaseSchema: o.Schema, Logger: w.log,
		}); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+table+` (name text PRIMARY KEY, queue text NOT NULL, seen timestamptz NOT NULL)`)
		return err
	}); err != nil {
		return nil, fmt.Errorf("dbos: %w", err)
	}
	sdk.RegisterWorkflow(w.c, w.run, sdk.WithWorkflowName(runName), sdk.WithMaxRecoveryAttempts(0))
	sdk.RegisterWorkflow(w.c, w.batch, sdk.WithWorkflowName(tasksName), sdk.WithMaxRecoveryAttempts(0))
	err = w.alive(ctx)
	always := []sdk.QueueOption{sdk.WithQueueOnConflict(sdk.QueueConflictAlwaysUpdate), sdk.WithQueueBasePollingInterval(o.Poll), sdk.WithWorkerConcurrency(o.Concurrency)}
	if err == nil { // a thread has one run at a time
		_, err = sdk.RegisterQueue(w.c, o.Queue, append(always, sdk.WithPartitionConcurrency(1))...)
	}
	if err == nil {
		_, err = sdk.RegisterQueue(w.c, w.tasksQueue(), always...)
	}
	if err == nil {
		sdk.ListenQueues(w.c, o.Queue, w.tasksQueue())
		err = sdk.Launch(w.c)
	}
	if err != nil {
		_ = sdk.Shutdown(w.c, time.Second)
		return nil, fmt.Errorf("dbos: starting a worker: %w", err)
	}
	ctx, w.stop = context.WithCancel(ctx)
	w.wg.Go(func() { w.guard(ctx) })
	return w, nil
}

func (w *Worker) tasksQueue() string { return w.o.Queue + ".tasks" }

// Close ends the worker: its runs' contexts end, and other workers go on with them.
func (w *Worker) Close() error {
	w.stop()
	w.wg.Wait()
	err := sdk.Shutdown(w.c, time.Minute)
	_, gone := w.pool.Exec(context.Background(), `UPDATE `+table+` SET seen = '-infinity' WHERE name = $1`, w.name)
	w.pool.Close()
	return errors.Join(err, gone)
}

// The open library has what a process was at done again by a process of the same name, or
// by nobody. So each worker has a name of its own and a lease on it, and who finds a lease
// that has run out has the others do what its holder was at.
const table = "superstep_dbos_workers"

// inTurn makes tables while no other worker does, which DBOS doesn't see to. It makes indexes
// for which PostgreSQL waits until each statement has ended that had begun, so nobody may
// wait in one: who is not first looks again, by the protocol that leaves none open.
func (w *Worker) inTurn(ctx context.Context, make func(pgx.Tx) error) error {
	for {
		first := false
		err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
			err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtext($1))`, pgx.QueryExecModeSimpleProtocol, table).Scan(&first)
			if err != nil || !first {
				return err
			}
			return make(tx)
		})
		if err != nil || first {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (w *Worker) alive(ctx context.Context) error {
	_, err := w.pool.Exec(ctx, `INSERT INTO `+table+` VALUES ($1, $2, now()) ON CONFLICT (name) DO UPDATE SET seen = now()`, w.name, w.o.Queue)
	return err
}

// guard gives signs of life and looks for workers that give none.
func (w *Worker) guard(ctx context.Context) {
	tick := time.NewTicker(w.o.Heartbeat / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := errors.Join(w.alive(ctx), w.takeOver(ctx)); err != nil && ctx.Err() == nil {
			w.log.Warn("dbos: looking for dead workers", "error", err)
		}
	}
}

// takeOver puts what dead workers were at back into their queues.
func (w *Worker) takeOver(ctx context.Context) error {
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT name FROM `+table+` WHERE queue = $1 AND seen < now() - $2 * interval '1 second' FOR UPDATE SKIP LOCKED`, w.o.Queue, w.o.Heartbeat.Seconds())
		if err != nil {
			return err
		}
		dead, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(dead) == 0 {
			return err
		}
		left, err := sdk.ListWorkflows(w.c, sdk.WithFilterExecutorIDs(dead...), sdk.WithFilterStatus(sdk.WorkflowStatusPending), sdk.WithFilterLoadInput(false), sdk.WithFilterLoadOutput(false))
		if err != nil {
			return err
		}
		for _, queue := range []string{w.o.Queue, w.tasksQueue()} {
			var ids []string
			for _, s := range left {
				if s.QueueName == queue {
					ids = append(ids, s.ID)
				}
			}
			for some := range slices.Chunk(ids, 1000) {
				if _, err := sdk.ResumeWorkflows[any](w.c, some, sdk.WithResumeQueue(queue)); err != nil {
					return err
				}
			}
		}
		_, err = tx.Exec(ctx, `DELETE FROM `+table+` WHERE name = ANY($1)`, dead)
		return err
	})
}
