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
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
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
	defaultReaders = 4
	removeMost     = 5000 // rows at once: some milliseconds, in which nobody else writes
)

// Store is a [checkpoint.Store] in a SQLite database, with all that an [engine.Engine]
// can do.
type Store struct {
	*engine.Engine
	driver *driver
}

// driver keeps an engine's rows.
type driver struct {
	path    string
	timeout time.Duration

	turns  *sqlitedb.Writer // begins anew where another process is in the way; nil: nothing can be written
	conn   *sql.Conn        // the one that writes
	readDB *sql.DB          // nil: read with conn, holding lead
	own    []*sql.DB        // to be closed

	write writeStmts
	read  readStmts

	lead   chan struct{} // held by whoever uses conn
	closed atomic.Bool
	stop   chan struct{} // closed by Close

	readonly error       // why nothing can be written
	frozen   os.FileInfo // of a file that SQLite takes to never change; else nil
}

var (
	_ engine.Driver  = (*driver)(nil)
	_ engine.Checker = (*driver)(nil)
)

// Compact gives the space that deleted and shortened threads left back to the
// file system (VACUUM). The database is written anew, which needs as much free
// disk space again, and nobody writes meanwhile. Without it the space is used
// for what is written next. A database that other programs share is compacted
// as a whole.
func (s *Store) Compact(ctx context.Context) error { return s.driver.compact(ctx) }

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
	if err := sqlitedb.Look("sqlite", path); err != nil {
		return nil, explain("open", path, err)
	}
	if path == sqlitedb.Memory {
		db, err := sqlitedb.Connect(path, 1, 0)
		if err != nil {
			return nil, explain("open", path, err)
		}
		return storeOf(open(db, nil, path, o, db))
	}
	d, err := openFile(path, o)
	if !o.Writable && (errors.Is(err, ErrReadOnly) || errors.Is(err, ErrCannotOpen)) {
		if d, roErr := openReadOnly(path, o, err); roErr == nil {
			return storeOf(d, nil)
		}
	}
	return storeOf(d, err)
}

func storeOf(d *driver, err error) (*Store, error) {
	if err != nil {
		return nil, err
	}
	return &Store{engine.New(d, engine.Options{Remove: removeMost}), d}, nil
}

func openFile(path string, o Options) (*driver, error) {
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
		return storeOf(open(db, nil, file, o))
	}
	return storeOf(open(db, db, file, o))
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

func open(writer, reader *sql.DB, path string, o Options, own ...*sql.DB) (_ *driver, err error) {
	d := &driver{
		path: path, timeout: o.BusyTimeout, readDB: reader, own: own,
		lead: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			err = explain("open", path, err)
			d.release()
		}
	}()
	ctx := context.Background()
	d.turns = sqlitedb.NewWriter(writer, o.BusyTimeout)
	if err := d.turns.WAL(ctx); err != nil {
		return nil, err
	}
	if err := d.turns.Migrate(ctx, &tables); err != nil {
		return nil, err
	}
	if d.conn, err = writer.Conn(ctx); err != nil {
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
		if _, err := d.conn.ExecContext(ctx, p); err != nil {
			return nil, err
		}
	}
	// A file that another process deleted or that cannot be written shows now.
	if err := d.tryWrite(ctx); err != nil {
		return nil, err
	}
	if err := d.write.prepare(ctx, d.conn); err != nil {
		return nil, err
	}
	// From here on, waiting is done by begin, which hears contexts.
	if _, err := d.conn.ExecContext(ctx, `PRAGMA busy_timeout = 0`); err != nil {
		return nil, err
	}
	var p preparer = d.conn
	if reader != nil {
		p = reader
	}
	if err := d.read.prepare(ctx, p); err != nil {
		return nil, err
	}
	return d, nil
}

// openReadOnly opens a database that cannot be written, for the reason why: a
// back-up, say, or one on a file system that is mounted read-only.
func openReadOnly(path string, o Options, why error) (*driver, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil, why
	}
	query := fmt.Sprintf("mode=ro&_pragma=busy_timeout(%d)&_pragma=query_only(1)", o.BusyTimeout.Milliseconds())
	d, err := openReader(path, query, o, why)
	if err == nil {
		return d, nil
	}
	// Readers of a database in WAL mode share files beside it, which can't be
	// made here. When no log is there, nobody writes and the file holds all.
	if _, walErr := os.Stat(path + "-wal"); !errors.Is(walErr, fs.ErrNotExist) {
		return nil, err
	}
	if d, err = openReader(path, query+"&immutable=1", o, why); err == nil {
		d.frozen = info
	}
	return d, err
}

// changed reports that somebody has written to a file that SQLite takes to never
// change: what it has of it may be old, or mixed with what is new.
func (d *driver) changed() error {
	if d.frozen == nil {
		return nil
	}
	info, err := os.Stat(d.path)
	same := err == nil && os.SameFile(info, d.frozen) && info.Size() == d.frozen.Size() && info.ModTime().Equal(d.frozen.ModTime())
	if wal, err := os.Stat(d.path + "-wal"); same && (errors.Is(err, fs.ErrNotExist) || err == nil && wal.Size() == 0) {
		return nil
	}
	return &Error{Package: "sqlite", Op: "read", Place: d.path, Kind: ErrChanged, Fix: "open it anew when nobody writes to it, or where its directory can be written"}
}

func openReader(path, query string, o Options, why error) (_ *driver, err error) {
	db, err := sql.Open("sqlite", sqlitedb.DSN(path, query))
	if err != nil {
		return nil, explain("open", path, err)
	}
	db.SetMaxOpenConns(o.Readers)
	db.SetMaxIdleConns(o.Readers)
	d := &driver{
		path: path, timeout: o.BusyTimeout, readDB: db, own: []*sql.DB{db}, readonly: why,
		lead: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			err = explain("open", path, err)
			_ = d.release()
		}
	}()
	ctx := context.Background()
	v, err := tables.Version(ctx, db)
	if err != nil {
		return nil, err
	}
	if v < len(migrations) {
		return nil, &Error{
			Package: "sqlite", Op: "open", Place: path, Kind: ErrReadOnly, Err: why,
			What: fmt.Sprintf("it has schema version %d and must be brought to version %d", v, len(migrations)), Fix: "open a copy that can be written",
		}
	}
	if err := d.read.prepare(ctx, db); err != nil {
		return nil, err
	}
	return d, nil
}

// writable says why the database cannot be written to.
func (d *driver) writable(op string) error {
	if d.readonly == nil {
		return nil
	}
	return &Error{
		Package: "sqlite", Op: op, Place: d.path, Kind: ErrReadOnly, Err: d.readonly, What: "it was opened for reading alone",
		Fix: "make the file and its directory writable, or copy it to where it can be written; then open it anew",
	}
}

func (d *driver) tryWrite(ctx context.Context) error {
	if _, err := d.conn.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		// The driver reports the end of a context even where it has begun.
		_, _ = d.conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`)
		return err
	}
	// BEGIN IMMEDIATE does not mind a file that is read-only.
	_, err := d.conn.ExecContext(ctx, `UPDATE superstep_meta SET version = version`)
	if _, undo := d.conn.ExecContext(ctx, `ROLLBACK`); err == nil {
		err = undo
	}
	return err
}

// release closes all that is open.
func (d *driver) release() error {
	errs := []error{d.write.close(), d.read.close()}
	if d.conn != nil {
		if d.own == nil { // back into its owner's pool, as it should be there
			_, err := d.conn.ExecContext(context.Background(), fmt.Sprintf(`PRAGMA busy_timeout = %d`, d.timeout.Milliseconds()))
			errs = append(errs, err)
		}
		errs = append(errs, d.conn.Close())
	}
	for i := len(d.own) - 1; i >= 0; i-- {
		errs = append(errs, d.own[i].Close())
	}
	return errors.Join(errs...)
}

// Close implements [engine.Driver].
func (d *driver) Close() error {
	d.closed.Store(true)
	d.lead <- struct{}{} // never given back
	close(d.stop)
	return explain("close", d.path, d.release())
}

// hold waits until the caller may use conn.
func (d *driver) hold(ctx context.Context) error {
	select {
	case d.lead <- struct{}{}:
		return nil
	case <-d.stop:
		return checkpoint.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *driver) letGo() { <-d.lead }

// failed explains an error of a method.
func (d *driver) failed(op string, err error) error {
	if errors.Is(err, checkpoint.ErrCorrupt) || errors.Is(err, checkpoint.ErrVersion) || errors.Is(err, checkpoint.ErrClosed) {
		return err
	}
	return explain(op, d.path, err)
}

// preparer is a connection or a pool of them.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

type stmts []*sql.Stmt

type query struct {
	into **sql.Stmt
	text string
}

func (l *stmts) addAll(ctx context.Context, p preparer, queries []query) error {
	for _, q := range queries {
		st, err := p.PrepareContext(ctx, q.text)
		if err != nil {
			return err
		}
		*q.into = st
		*l = append(*l, st)
	}
	return nil
}

func (l stmts) close() error {
	var errs []error
	for _, st := range l {
		errs = append(errs, st.Close())
	}
	return errors.Join(errs...)
}
