// Package sqlite keeps threads in a SQLite database: one file, many processes.
//
// Writes from many goroutines share commits, so throughput grows with the number
// of threads that run at once, while a lone writer does not wait. Several
// processes may use one file on a local disk; a write of one is seen by the
// others at once.
//
//	store, err := sqlite.Open("threads.db")
//
// The database is in WAL mode: beside the file stand two others, -wal and -shm.
// With synchronous=NORMAL, the default, a killed process loses nothing, and a
// power failure may undo the last commits but never damages the file;
// [Options.Full] syncs every commit.
//
// Leases and what is due go by the clock of the machine, which all processes on a
// local disk share; both are found by indexes, whatever the number of threads.
// Space that deleted and shortened threads leave is used for new records;
// [Store.Compact] gives it back to the file system.
//
// A database of an older version is brought to the newest when it is opened. Then
// older programs refuse to open it; one that has it open meanwhile must be ended,
// as it knows nothing of leases.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/backend"
	"github.com/superstep-dev/superstep/internal/options"
	"github.com/superstep-dev/superstep/internal/private"
	"github.com/superstep-dev/superstep/internal/sqlitedb"
)

// Options changes how a database is used. The zero value is fine.
type Options struct {
	// Full makes every commit wait until the disk has it
	// (synchronous=FULL): a power failure loses nothing, and writing is
	// slower by the time of a sync.
	Full bool

	// BusyTimeout is how long to wait for another process to finish its
	// transaction; 0 means 10 seconds.
	BusyTimeout time.Duration

	// Readers is the number of connections that read; 0 means 4.
	Readers int

	// Writable makes Open fail when the database cannot be written to, instead of
	// opening it for reading alone. A program that is going to write, such as a
	// server, finds out at once.
	Writable bool
}

const (
	headerBytes    = 100 // of every SQLite database
	defaultReaders = 4
)

// Store is a [checkpoint.Store] in a SQLite database. It also implements
// [checkpoint.Lister], [checkpoint.Copier], [checkpoint.Scheduler],
// [checkpoint.Rewriter], [checkpoint.Verifier] and, for the runs of this process,
// [checkpoint.Locker].
type Store struct {
	checkpoint.Locks
	path    string
	timeout time.Duration

	conn   *sql.Conn // the one that writes
	readDB *sql.DB   // nil: read with conn, holding lead
	own    []*sql.DB // to be closed

	write writeStmts
	read  readStmts

	// lead is held by whoever uses conn.
	lead   chan struct{}
	closed atomic.Bool
	stop   chan struct{} // closed by Close

	readonly error       // why nothing can be written
	frozen   os.FileInfo // of a file that SQLite takes to never change; else nil

	mu    sync.Mutex
	queue []*request

	logs map[checkpoint.Log]*logState // of conn's user
}

var (
	_ checkpoint.Store  = (*Store)(nil)
	_ checkpoint.Lister = (*Store)(nil)
	_ checkpoint.Copier = (*Store)(nil)
	_ checkpoint.Locker = (*Store)(nil)

	_ checkpoint.Scheduler = (*Store)(nil)
	_ checkpoint.Rewriter  = (*Store)(nil)
	_ checkpoint.Verifier  = (*Store)(nil)
)

// Open opens the database at path and makes it if there is none. The path
// ":memory:" means a database in memory that ends with the store. A new file can be
// read by its owner alone. One that cannot be written to can be read, unless
// [Options.Writable] says otherwise: writing to the store gives [ErrReadOnly] then,
// and if its directory cannot be written to either, reading gives [ErrChanged] once
// somebody has written to it. Errors about the file are an [*Error].
func Open(path string, opts ...Options) (*Store, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, &Error{Op: "open", Path: `""`, Kind: ErrCannotOpen, What: "the path is empty", Fix: `name a file, or ":memory:"`}
	}
	if path == ":memory:" {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			return nil, explain("open", path, err)
		}
		db.SetMaxOpenConns(1)
		return open(db, nil, path, o, db)
	}
	s, err := openFile(path, o)
	if !o.Writable && (errors.Is(err, ErrReadOnly) || errors.Is(err, ErrCannotOpen)) {
		if s, roErr := openReadOnly(path, o, err); roErr == nil {
			return s, nil
		}
	}
	return s, err
}

func openFile(path string, o Options) (*Store, error) {
	private.Create(path)
	writer, err := sql.Open("sqlite", sqlitedb.DSN(path, "_pragma=busy_timeout("+fmt.Sprint(o.BusyTimeout.Milliseconds())+")"))
	if err != nil {
		return nil, explain("open", path, err)
	}
	reader, err := sql.Open("sqlite", sqlitedb.DSN(path, "_pragma=busy_timeout("+fmt.Sprint(o.BusyTimeout.Milliseconds())+")&_pragma=query_only(1)"))
	if err != nil {
		_ = writer.Close()
		return nil, explain("open", path, err)
	}
	reader.SetMaxOpenConns(o.Readers)
	reader.SetMaxIdleConns(o.Readers)
	return open(writer, reader, path, o, writer, reader)
}

// New uses a database that is open already, through the driver
// modernc.org/sqlite, and puts its tables into it; their names begin with
// superstep_. It sets WAL mode. One of db's connections is the store's until
// Close, which leaves db open. If db has one connection alone, as one in memory
// must, nobody else can use it meanwhile.
func New(db *sql.DB, opts ...Options) (*Store, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	var file string
	err = db.QueryRow(`SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&file)
	if err != nil {
		return nil, explain("open", "database", err)
	}
	if file == "" || db.Stats().MaxOpenConnections == 1 {
		if file == "" {
			file = ":memory:"
		}
		return open(db, nil, file, o)
	}
	return open(db, db, file, o)
}

func optionsOf(opts []Options) (Options, error) {
	o, err := options.Only("sqlite", opts)
	if err != nil {
		return o, err
	}
	if o.BusyTimeout < 0 || o.Readers < 0 {
		return o, errors.New("sqlite: Options.BusyTimeout and Options.Readers must not be negative")
	}
	if o.BusyTimeout == 0 {
		o.BusyTimeout = sqlitedb.BusyTimeout
	}
	if o.Readers == 0 {
		o.Readers = defaultReaders
	}
	return o, nil
}

func open(writer, reader *sql.DB, path string, o Options, own ...*sql.DB) (_ *Store, err error) {
	s := &Store{
		path: path, timeout: o.BusyTimeout, readDB: reader, own: own,
		lead: make(chan struct{}, 1), stop: make(chan struct{}), logs: make(map[checkpoint.Log]*logState),
	}
	defer func() {
		if err != nil {
			err = explain("open", path, err)
			s.release()
		}
	}()
	if info, err := os.Stat(path); err == nil {
		switch n := info.Size(); {
		case info.IsDir():
			return nil, &Error{Op: "open", Path: path, Kind: ErrCannotOpen, What: "it is a directory", Fix: "name a file"}
		case n > 0 && n < headerBytes: // SQLite would take it for an empty database
			return nil, &Error{
				Op: "open", Path: path, Kind: notDatabase, What: fmt.Sprintf("the file has %d bytes, too few for a SQLite database", n),
				Fix: "restore a backup, or delete the file",
			}
		}
	}
	ctx := context.Background()
	if err := sqlitedb.NewWriter(writer, o.BusyTimeout).WAL(ctx); err != nil {
		return nil, err
	}
	if s.conn, err = writer.Conn(ctx); err != nil {
		return nil, err
	}
	level := "NORMAL"
	if o.Full {
		level = "FULL"
	}
	for _, p := range []string{
		fmt.Sprintf(`PRAGMA busy_timeout = %d`, o.BusyTimeout.Milliseconds()),
		`PRAGMA synchronous = ` + level,
		`PRAGMA temp_store = MEMORY`,
		// Many threads that grow at once touch many pages: room for them, and
		// more of them written back together. The log grows to about 16 MB.
		`PRAGMA cache_size = -16384`,
		`PRAGMA wal_autocheckpoint = 4000`,
	} {
		if _, err := s.conn.ExecContext(ctx, p); err != nil {
			return nil, err
		}
	}
	if err := migrate(ctx, s.conn, path); err != nil {
		return nil, err
	}
	// A file that another process deleted or that cannot be written shows now.
	if err := s.tryWrite(ctx); err != nil {
		return nil, err
	}
	if err := s.write.prepare(ctx, s.conn); err != nil {
		return nil, err
	}
	// From here on, waiting is done by begin, which hears contexts.
	if _, err := s.conn.ExecContext(ctx, `PRAGMA busy_timeout = 0`); err != nil {
		return nil, err
	}
	var p preparer = s.conn
	if reader != nil {
		p = reader
	}
	if err := s.read.prepare(ctx, p); err != nil {
		return nil, err
	}
	return s, nil
}

// openReadOnly opens a database that cannot be written, for the reason why: a
// back-up, say, or one on a file system that is mounted read-only.
func openReadOnly(path string, o Options, why error) (*Store, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil, why
	}
	query := fmt.Sprintf("mode=ro&_pragma=busy_timeout(%d)&_pragma=query_only(1)", o.BusyTimeout.Milliseconds())
	s, err := openReader(path, query, o, why)
	if err == nil {
		return s, nil
	}
	// Readers of a database in WAL mode share files beside it, which can't be
	// made here. When no log is there, nobody writes and the file holds all.
	if _, walErr := os.Stat(path + "-wal"); !errors.Is(walErr, fs.ErrNotExist) {
		return nil, err
	}
	if s, err = openReader(path, query+"&immutable=1", o, why); err == nil {
		s.frozen = info
	}
	return s, err
}

// changed reports that somebody has written to a file that SQLite takes to never
// change: what it has of it may be old, or mixed with what is new.
func (s *Store) changed() error {
	if s.frozen == nil {
		return nil
	}
	info, err := os.Stat(s.path)
	same := err == nil && os.SameFile(info, s.frozen) && info.Size() == s.frozen.Size() && info.ModTime().Equal(s.frozen.ModTime())
	if wal, err := os.Stat(s.path + "-wal"); same && (errors.Is(err, fs.ErrNotExist) || err == nil && wal.Size() == 0) {
		return nil
	}
	return &Error{Op: "read", Path: s.path, Kind: ErrChanged, Fix: "open it anew when nobody writes to it, or where its directory can be written"}
}

func openReader(path, query string, o Options, why error) (_ *Store, err error) {
	db, err := sql.Open("sqlite", sqlitedb.DSN(path, query))
	if err != nil {
		return nil, explain("open", path, err)
	}
	db.SetMaxOpenConns(o.Readers)
	db.SetMaxIdleConns(o.Readers)
	s := &Store{
		path: path, timeout: o.BusyTimeout, readDB: db, own: []*sql.DB{db}, readonly: why,
		lead: make(chan struct{}, 1), stop: make(chan struct{}), logs: make(map[checkpoint.Log]*logState),
	}
	defer func() {
		if err != nil {
			err = explain("open", path, err)
			_ = s.release()
		}
	}()
	ctx := context.Background()
	v, err := schemaVersion(ctx, db)
	if err != nil {
		return nil, err
	}
	if v > len(migrations) {
		return nil, tooNew(path, v)
	}
	if v < len(migrations) {
		return nil, &Error{
			Op: "open", Path: path, Kind: ErrReadOnly, Err: why,
			What: fmt.Sprintf("it has schema version %d and must be brought to version %d", v, len(migrations)), Fix: "open a copy that can be written",
		}
	}
	if err := s.read.prepare(ctx, db); err != nil {
		return nil, err
	}
	return s, nil
}

// writable says why the database cannot be written to.
func (s *Store) writable(op string) error {
	if s.readonly == nil {
		return nil
	}
	return &Error{
		Op: op, Path: s.path, Kind: ErrReadOnly, Err: s.readonly, What: "it was opened for reading alone",
		Fix: "make the file and its directory writable, or copy it to where it can be written; then open it anew",
	}
}

func (s *Store) tryWrite(ctx context.Context) error {
	if _, err := s.conn.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		// The driver reports the end of a context even where it has begun.
		_, _ = s.conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`)
		return err
	}
	// BEGIN IMMEDIATE does not mind a file that is read-only.
	_, err := s.conn.ExecContext(ctx, `UPDATE superstep_meta SET version = version`)
	if _, undo := s.conn.ExecContext(ctx, `ROLLBACK`); err == nil {
		err = undo
	}
	return err
}

// release closes all that is open.
func (s *Store) release() error {
	errs := []error{s.write.close(), s.read.close()}
	if s.conn != nil {
		if s.own == nil { // back into its owner's pool, as it should be there
			_, err := s.conn.ExecContext(context.Background(), fmt.Sprintf(`PRAGMA busy_timeout = %d`, s.timeout.Milliseconds()))
			errs = append(errs, err)
		}
		errs = append(errs, s.conn.Close())
	}
	for i := len(s.own) - 1; i >= 0; i-- {
		errs = append(errs, s.own[i].Close())
	}
	return errors.Join(errs...)
}

// Close implements [checkpoint.Store]. Writes that have begun are finished.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return checkpoint.ErrClosed
	}
	s.lead <- struct{}{} // never given back
	close(s.stop)
	return explain("close", s.path, s.release())
}

func (s *Store) start(ctx context.Context, thread checkpoint.ThreadID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return checkpoint.ErrClosed
	}
	return checkpoint.Log{Thread: thread}.Check()
}

// hold waits until the caller may use conn.
func (s *Store) hold(ctx context.Context) error {
	select {
	case s.lead <- struct{}{}:
		return nil
	case <-s.stop:
		return checkpoint.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) letGo() { <-s.lead }

// failed explains an error of a method. A store that is being closed says so.
func (s *Store) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	if s.closed.Load() && !backend.Agreed(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return checkpoint.ErrClosed
	}
	if backend.Agreed(err) {
		return err
	}
	return explain(op, s.path, err)
}

// preparer is a connection or a pool of them.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

type stmts []*sql.Stmt

func (l *stmts) add(ctx context.Context, p preparer, into **sql.Stmt, query string) error {
	st, err := p.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	*into = st
	*l = append(*l, st)
	return nil
}

func (l stmts) close() error {
	var errs []error
	for _, st := range l {
		errs = append(errs, st.Close())
	}
	return errors.Join(errs...)
}
