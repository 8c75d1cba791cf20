// Package postgres keeps a long-term memory in a PostgreSQL database, for
// programs that run on several machines.
//
//	store, err := postgres.Open(ctx, "postgres://user:password@host:5432/database")
//	…
//	defer store.Close()
//
// [New] uses a pool that the program has already. The store makes its tables by
// itself; their names begin with superstep_memory_, and they stand where the
// connection's search path leads or in [Options.Schema]. The tables of package
// checkpoint/postgres may stand beside them. PostgreSQL 12 or newer is needed, in
// the encoding UTF8.
//
// What expires goes by the server's clock, unless [memory.Config] has one.
// Filters are applied by the server.
//
// # Vectors
//
// If the database has the extension pgvector when the store is opened (CREATE
// EXTENSION vector), the server ranks a search by text. Otherwise the store reads
// the vectors of the items below the prefix that the filter leaves and ranks them
// itself, with the same result; so it does with vectors of more than 16,000
// dimensions, which pgvector doesn't take. Both compare all of these vectors, so a
// search costs what the items that the prefix and the filter leave cost. Nothing has
// to be converted when the extension comes or goes.
//
// For many vectors [Options.HNSW] makes an approximate index, whose searches cost
// little however many there are and may miss some of the nearest items. They never
// find fewer items than there are: where the index, under a prefix or a filter, gives
// fewer than asked for, all vectors are compared; so they are for a search without
// a limit or of more than 1,000 items.
//
// # Failures
//
// When the server restarts, calls return [ErrUnavailable] while it is away;
// afterwards the store goes on by itself. A write under way then, or whose
// context ended under way, has happened as a whole or not at all; a Put with a
// condition can be repeated safely.
package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/superstep-dev/superstep/internal/options"
	"github.com/superstep-dev/superstep/internal/pgdb"
	"github.com/superstep-dev/superstep/memory"
)

// Options changes how a database is used. The zero value is fine.
type Options struct {
	memory.Config

	// Schema is where the tables stand. It is made if it does not exist. Empty
	// means the first one of the connection's search path.
	Schema string

	// MaxConns is how many connections [Open] makes at most; 0 means
	// pool_max_conns of the URL, or else 8.
	MaxConns int

	// NoPgvector ranks in the store even if the database has pgvector.
	NoPgvector bool

	// HNSW makes an approximate index of pgvector, 0.5 or newer, over the vectors of
	// Index, at most 4,000 dimensions; nil: none. [Open] makes it where it isn't there, and
	// anew where its settings have changed: this takes long for many vectors, the longer if
	// they don't fit into the server's maintenance_work_mem, and puts wait meanwhile; later
	// each put takes longer. Programs that share tables should have the same settings. An
	// index that is no longer wanted is dropped by hand: its name begins with
	// superstep_memory_hnsw_. The owner of the tables must open the store once.
	HNSW *HNSW
}

const (
	maxTries    = 10     // again
	maxPgvector = 16_000 // dimensions of a vector of pgvector
	keepVectors = -1     // as dimensions: see the tables
)

// Store is a [memory.Store] in a PostgreSQL database. Close waits for calls that have begun
// if [Open] made the store.
type Store struct {
	memory.Store
	kept *kept
}

// kept is a [memory.Backend].
type kept struct {
	config memory.Config
	db     *pgdb.DB
	vector string // schema of pgvector, quoted; empty: rank here
	hnsw   *hnsw  // nil: none
}

// Open connects to a database and makes the store's tables if there are none. The
// URL is one as psql takes it; behind a pooler that shares connections between
// transactions add default_query_exec_mode=exec. Errors about the database are an [*Error].
func Open(ctx context.Context, url string, opts ...Options) (*Store, error) {
	return open(ctx, opts, func(c pgdb.Config) (*pgdb.DB, error) { return pgdb.Open(ctx, url, c) })
}

// New uses a pool of connections that is there already; Close leaves it open.
// Options.MaxConns must not be set.
func New(ctx context.Context, pool *pgxpool.Pool, opts ...Options) (*Store, error) {
	return open(ctx, opts, func(c pgdb.Config) (*pgdb.DB, error) {
		if c.MaxConns != 0 {
			return nil, errors.New("memory/postgres: Options.MaxConns is for Open alone; the pool has its own")
		}
		return pgdb.New(ctx, pool, c)
	})
}

func open(ctx context.Context, opts []Options, with func(pgdb.Config) (*pgdb.DB, error)) (_ *Store, err error) {
	o, err := options.Only("memory/postgres", opts)
	if err == nil {
		err = o.Check()
	}
	if err == nil && o.HNSW != nil {
		err = o.HNSW.check(o)
	}
	if err != nil {
		return nil, err
	}
	db, err := with(pgdb.Config{
		Package: "memory/postgres", Schema: o.Schema, MaxConns: o.MaxConns,
		Tables: pgdb.Tables{Meta: "superstep_memory_meta", Migrations: migrations, In: in, UTF8: true},
		Uses:   []string{"superstep_memory_items", "superstep_memory_vectors"},
	})
	if err != nil {
		return nil, err
	}
	s := &kept{config: o.Config, db: db}
	if !o.NoPgvector {
		s.vector, err = findVector(ctx, db)
	}
	if err == nil && o.HNSW != nil {
		s.hnsw, err = s.makeHNSW(ctx, o)
	}
	if err != nil {
		db.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, s.Explain("open", err)
	}
	return &Store{memory.Over(s, o.Config), s}, nil
}

// Pgvector reports whether the server ranks searches by text.
func (s *Store) Pgvector() bool { return s.kept.vector != "" }

// Explain implements [memory.Backend].
func (s *kept) Explain(op string, err error) error {
	return pgdb.Explain("memory/postgres", op, s.db.Server, err)
}

// Close implements [memory.Backend].
func (s *kept) Close() error {
	s.db.Close()
	return nil
}

// tx runs f in a transaction, once more if the server asks for it.
func (s *kept) tx(ctx context.Context, level pgx.TxIsoLevel, f func(tx pgx.Tx) error) error {
	for tries := 0; ; tries++ {
		err := pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: level}, f)
		if !pgdb.Again(err) || tries == maxTries {
			return err
		}
	}
}

// conn is a pool or a transaction.
type conn interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// statement runs f, which is one statement, as a transaction, without the round
// trips that this would take if it is one by itself.
func (s *kept) statement(ctx context.Context, f func(c conn) error) error {
	if s.db.Strict {
		return s.tx(ctx, pgx.ReadCommitted, func(tx pgx.Tx) error { return f(tx) })
	}
	for tries := 0; ; tries++ {
		err := f(s.db)
		if !pgdb.Again(err) || tries == maxTries {
			return err
		}
	}
}

// now returns the configured clock's time, nil for the server's.
func (s *kept) now() *time.Time {
	if s.config.Now == nil {
		return nil
	}
	t := s.config.Time()
	return &t
}

// query is a statement that is being written.
type query struct {
	strings.Builder
	args []any
}

// arg adds an argument and returns its place, cast to a type. It stands as text
// where the driver's own encoding would depend on how statements are sent.
func (q *query) arg(v any, as string) string {
	q.args = append(q.args, v)
	return fmt.Sprintf("$%d::%s", len(q.args), as)
}

func (q *query) json(v json.RawMessage) string { return q.arg(string(v), "text") + "::jsonb" }

// where writes the condition for the live items that a search may return.
func (q *query) where(now *time.Time, prefix string, exact bool, filter memory.Filter) {
	fmt.Fprintf(q, " WHERE (i.expires IS NULL OR i.expires > coalesce(%s, statement_timestamp()))", q.arg(now, "timestamptz"))
	switch {
	case exact:
		fmt.Fprintf(q, " AND i.namespace = %s", q.arg(prefix, "text"))
	case prefix != "":
		// The character after the separator ends the range.
		fmt.Fprintf(q, " AND (i.namespace = %s OR i.namespace > %s AND i.namespace < %s)",
			q.arg(prefix, "text"), q.arg(prefix+memory.Separator, "text"), q.arg(prefix+string(memory.Separator[0]+1), "text"))
	}
	if len(filter) > 0 {
		q.WriteString(" AND ")
		q.conditions(filter, " AND ", "true")
	}
}

// conditions writes conditions, each of which is true or false and never null.
func (q *query) conditions(list memory.Filter, between, none string) {
	if len(list) == 0 {
		q.WriteString(none)
		return
	}
	for i, c := range list {
		if i > 0 {
			q.WriteString(between)
		}
		q.WriteString("(")
		switch c.Op {
		case memory.OpAnd:
			q.conditions(c.Of, " AND ", "true")
		case memory.OpOr:
			q.conditions(c.Of, " OR ", "false")
		case memory.OpNot:
			q.WriteString("NOT (")
			q.conditions(c.Of, " AND ", "true")
			q.WriteString(")")
		default:
			q.condition(c)
		}
		q.WriteString(")")
	}
}

var operators = map[memory.Op]string{memory.OpGt: ">", memory.OpGte: ">=", memory.OpLt: "<", memory.OpLte: "<="}

func (q *query) condition(c memory.Condition) {
	field := "i.value"
	for name := range strings.SplitSeq(c.Field, ".") {
		// With a text on the right this leads into objects, not into arrays.
		field = fmt.Sprintf("(%s -> %s)", field, q.arg(name, "text"))
	}
	switch c.Op {
	case memory.OpEq:
		fmt.Fprintf(q, "coalesce(%s, 'null') = %s", field, q.json(c.Value))
	case memory.OpNe:
		fmt.Fprintf(q, "coalesce(%s, 'null') <> %s", field, q.json(c.Value))
	case memory.OpIn: // the list is hashed once
		fmt.Fprintf(q, "coalesce(%s, 'null') IN (SELECT jsonb_array_elements(%s))", field, q.json(c.Value))
	case memory.OpNotIn:
		fmt.Fprintf(q, "coalesce(%s, 'null') NOT IN (SELECT jsonb_array_elements(%s))", field, q.json(c.Value))
	default:
		value := strings.TrimSpace(string(c.Value))
		op := operators[c.Op]
		if strings.HasPrefix(value, `"`) {
			fmt.Fprintf(q, `CASE WHEN jsonb_typeof(%s) = 'string' THEN (%s #>> '{}') COLLATE "C" %s (%s #>> '{}') ELSE false END`, field, field, op, q.json(c.Value))
		} else {
			fmt.Fprintf(q, `CASE WHEN jsonb_typeof(%s) = 'number' THEN (%s #>> '{}')::numeric %s %s::numeric ELSE false END`, field, field, op, q.arg(value, "text"))
		}
	}
}

const columns = `i.version, i.namespace, i.key, i.created, i.updated, i.expires, i.ttl, i.value::text`

type row struct {
	item memory.Item
	ttl  *int64
}

// scan reads columns, and what the query has after them.
func scan(from pgx.Row, more ...any) (r row, err error) {
	var namespace, value string
	var expires *time.Time
	dest := append([]any{&r.item.Version, &namespace, &r.item.Key, &r.item.CreatedAt, &r.item.UpdatedAt, &expires, &r.ttl, &value}, more...)
	if err := from.Scan(dest...); err != nil {
		return row{}, err
	}
	r.item.Namespace, r.item.Value = memory.Split(namespace), json.RawMessage(value)
	r.item.CreatedAt, r.item.UpdatedAt = r.item.CreatedAt.UTC(), r.item.UpdatedAt.UTC()
	if expires != nil {
		r.item.ExpiresAt = expires.UTC()
	}
	return r, nil
}

// rows runs a query of columns.
func (q *query) rows(ctx context.Context, from conn) ([]row, error) {
	rows, err := from.Query(ctx, q.String(), q.args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (row, error) { return scan(r) })
}

// refresh starts the time of items anew and says so in them. Items that somebody
// else has changed meanwhile have their new time.
func (s *kept) refresh(ctx context.Context, rows []row) error {
	var versions []int64
	for _, r := range rows {
		if r.ttl != nil {
			versions = append(versions, r.item.Version)
		}
	}
	if len(versions) == 0 {
		return nil
	}
	// All lock items in the order of their IDs, so that nobody waits in a circle.
	expires := make(map[int64]time.Time, len(versions))
	err := s.statement(ctx, func(c conn) error {
		got, err := c.Query(ctx, in(s.db.Quoted, `WITH clock AS MATERIALIZED (SELECT coalesce($2::timestamptz, statement_timestamp()) AS now),
			mine AS MATERIALIZED (SELECT i.id, i.version FROM @.superstep_memory_items i, clock
				WHERE i.version = ANY ($1::bigint[]) AND i.expires > clock.now ORDER BY i.id FOR UPDATE OF i)
			UPDATE @.superstep_memory_items i SET expires = greatest(i.expires, clock.now + `+interval(`i.ttl`)+`) FROM clock, mine
			WHERE i.id = mine.id RETURNING i.version, i.expires`), versions, s.now())
		if err != nil {
			return err
		}
		var version int64
		var until time.Time
		_, err = pgx.ForEachRow(got, []any{&version, &until}, func() error {
			expires[version] = until.UTC()
			return nil
		})
		return err
	})
	for i := range rows {
		if until, ok := expires[rows[i].item.Version]; ok {
			rows[i].item.ExpiresAt = until
		}
	}
	return err
}

// Get implements [memory.Backend].
func (s *kept) Get(ctx context.Context, p *memory.PreparedGet) (memory.Item, error) {
	var q query
	q.WriteString(in(s.db.Quoted, `SELECT `+columns+` FROM @.superstep_memory_items i`))
	q.where(s.now(), p.Namespace, true, nil)
	fmt.Fprintf(&q, ` AND i.key = %s`, q.arg(p.Key, "text"))
	rows, err := q.rows(ctx, s.db)
	if err != nil || len(rows) == 0 {
		return memory.Item{}, err
	}
	if p.Refresh {
		err = s.refresh(ctx, rows)
	}
	return rows[0].item, err
}

// Put implements [memory.Backend].
func (s *kept) Put(ctx context.Context, p *memory.PreparedPut) (item memory.Item, err error) {
	var ttl *int64
	if p.TTL > 0 {
		n := p.TTL.Microseconds()
		ttl = &n
	}
	dimensions := 0
	switch {
	case p.Keep:
		dimensions = keepVectors
	case len(p.Vectors) > 0:
		dimensions = len(p.Vectors[0])
	}
	var created, updated, expires *time.Time
	var version *int64
	var have int64
	err = s.statement(ctx, func(c conn) error {
		err := c.QueryRow(ctx, in(s.db.Quoted, `SELECT created, updated, expires, version, have FROM @.superstep_memory_put(
			$1::text, $2::text, $3::text::jsonb, $4::bigint, $5::bigint, $6::boolean, $7::timestamptz, $8::text, $9::real[], $10::int)`),
			p.Namespace, p.Key, string(p.Value), ttl, p.IfVersion, p.IfAbsent, s.now(), p.Index, slices.Concat(p.Vectors...), dimensions).
			Scan(&created, &updated, &expires, &version, &have)
		if err == nil && version == nil { // and nothing is changed
			return &memory.ConflictError{Namespace: memory.Split(p.Namespace), Key: p.Key, Want: p.IfVersion, Have: have}
		}
		return err
	})
	if err != nil {
		return memory.Item{}, err
	}
	item.Version, item.CreatedAt, item.UpdatedAt = *version, created.UTC(), updated.UTC()
	if expires != nil {
		item.ExpiresAt = expires.UTC()
	}
	return item, nil
}

// Delete implements [memory.Backend].
func (s *kept) Delete(ctx context.Context, p *memory.PreparedDelete) error {
	return s.tx(ctx, pgx.ReadCommitted, func(tx pgx.Tx) error {
		var id, have int64
		err := tx.QueryRow(ctx, in(s.db.Quoted, `SELECT i.id, CASE WHEN i.expires <= coalesce($3::timestamptz, clock_timestamp()) THEN 0 ELSE i.version END
			FROM @.superstep_memory_items i WHERE i.namespace = $1::text AND i.key = $2::text FOR UPDATE`), p.Namespace, p.Key, s.now()).Scan(&id, &have)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if p.IfVersion > 0 && have != p.IfVersion {
			return &memory.ConflictError{Namespace: memory.Split(p.Namespace), Key: p.Key, Want: p.IfVersion, Have: have}
		}
		_, err = tx.Exec(ctx, in(s.db.Quoted, `DELETE FROM @.superstep_memory_items i WHERE i.id = $1::bigint`), id)
		return err
	})
}

// Search implements [memory.Backend].
func (s *kept) Search(ctx context.Context, p *memory.PreparedSearch) (out []memory.Item, err error) {
	var rows []row
	var found bool
	if s.hnsw != nil && p.Vector != nil {
		rows, found, err = s.rankedNear(ctx, p)
	}
	switch {
	case found || err != nil:
	case !p.Ranked:
		rows, err = s.latest(ctx, p)
	case p.Vector == nil:
	case s.vector != "" && len(p.Vector) <= maxPgvector:
		rows, err = s.rankedThere(ctx, p)
	default:
		rows, err = s.rankedHere(ctx, p)
	}
	if err == nil && p.Refresh {
		err = s.refresh(ctx, rows)
	}
	for _, r := range rows {
		out = append(out, r.item)
	}
	return out, err
}

// page writes which part of the result is wanted.
func (q *query) page(limit, offset int) {
	if limit >= 0 {
		fmt.Fprintf(q, " LIMIT %s", q.arg(limit, "bigint"))
	}
	fmt.Fprintf(q, " OFFSET %s", q.arg(offset, "bigint"))
}

// latest finds the items that were written last.
func (s *kept) latest(ctx context.Context, p *memory.PreparedSearch) ([]row, error) {
	var q query
	q.WriteString(in(s.db.Quoted, `SELECT `+columns+` FROM @.superstep_memory_items i`))
	q.where(s.now(), p.Prefix, p.Exact, p.Filter)
	q.WriteString(` ORDER BY i.version DESC`)
	q.page(p.Limit, p.Offset)
	return q.rows(ctx, s.db)
}

// rankedThere finds the items whose vectors are nearest, with pgvector.
func (s *kept) rankedThere(ctx context.Context, p *memory.PreparedSearch) ([]row, error) {
	var q query
	kind := s.vector + ".vector"
	// Vectors stand apart from their rows and are large, so they are looked at only
	// behind the join, of the items that are left. Those of another length, which
	// are an error to pgvector, count as none.
	q.WriteString(`WITH best AS MATERIALIZED (SELECT near.id, near.score FROM (SELECT i.id, i.version, max(1 - CASE`)
	fmt.Fprintf(&q, ` WHEN array_length(v.vector, 1) = %s THEN v.vector::%s OPERATOR(%s.<=>) %s::%s END) AS score`,
		q.arg(len(p.Vector), "int"), kind, s.vector, q.arg(p.Vector, "real[]"), kind)
	q.WriteString(in(s.db.Quoted, ` FROM @.superstep_memory_items i JOIN @.superstep_memory_vectors v ON v.item = i.id`))
	q.where(s.now(), p.Prefix, p.Exact, p.Filter)
	fmt.Fprintf(&q, ` AND v.name = %s GROUP BY i.id) near WHERE near.score IS NOT NULL ORDER BY near.score DESC, near.version DESC`, q.arg(p.Index, "text"))
	q.page(p.Limit, p.Offset)
	q.WriteString(in(s.db.Quoted, `) SELECT `+columns+`, greatest(-1, least(1, best.score)) FROM best JOIN @.superstep_memory_items i USING (id)
		ORDER BY best.score DESC, i.version DESC`))
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(from pgx.CollectableRow) (row, error) {
		var score float64
		r, err := scan(from, &score)
		r.item.Score = score
		return r, err
	})
}

// rankedHere finds the items whose vectors are nearest, without pgvector.
func (s *kept) rankedHere(ctx context.Context, p *memory.PreparedSearch) (out []row, err error) {
	// Vectors and items are of one moment.
	err = s.tx(ctx, pgx.RepeatableRead, func(tx pgx.Tx) error {
		out = nil
		var q query
		// As in rankedThere, no more vectors are looked at than are left.
		fmt.Fprintf(&q, `SELECT i.version, CASE WHEN array_length(v.vector, 1) = %s THEN v.vector END`, q.arg(len(p.Vector), "int"))
		q.WriteString(in(s.db.Quoted, ` FROM @.superstep_memory_items i JOIN @.superstep_memory_vectors v ON v.item = i.id`))
		q.where(s.now(), p.Prefix, p.Exact, p.Filter)
		fmt.Fprintf(&q, ` AND v.name = %s`, q.arg(p.Index, "text"))
		rows, err := tx.Query(ctx, q.String(), q.args...)
		if err != nil {
			return err
		}
		var scored []memory.Scored
		var version int64
		var vector []float32
		if _, err := pgx.ForEachRow(rows, []any{&version, &vector}, func() error {
			if vector != nil {
				scored = append(scored, memory.Scored{Version: version, Score: memory.Cosine(p.Vector, vector)})
			}
			return nil
		}); err != nil {
			return err
		}
		best := p.Rank(scored)
		scores := make(map[int64]float64, len(best))
		versions := make([]int64, len(best))
		for i, x := range best {
			versions[i], scores[x.Version] = x.Version, x.Score
		}
		q = query{}
		q.WriteString(in(s.db.Quoted, `SELECT `+columns+` FROM @.superstep_memory_items i`))
		fmt.Fprintf(&q, ` WHERE i.version = ANY (%s) ORDER BY array_position(%s, i.version)`, q.arg(versions, "bigint[]"), q.arg(versions, "bigint[]"))
		if out, err = q.rows(ctx, tx); err != nil {
			return err
		}
		for i := range out {
			out[i].item.Score = scores[out[i].item.Version]
		}
		return nil
	})
	return out, err
}

// Namespaces implements [memory.Backend].
func (s *kept) Namespaces(ctx context.Context, root string) ([]string, error) {
	var list query
	list.WriteString(in(s.db.Quoted, `SELECT DISTINCT i.namespace FROM @.superstep_memory_items i`))
	list.where(s.now(), root, false, nil)
	rows, err := s.db.Query(ctx, list.String(), list.args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Sweep implements [memory.Backend].
func (s *kept) Sweep(ctx context.Context) (int, error) {
	// What somebody holds is being replaced or deleted, or is for the next time.
	var tag pgconn.CommandTag
	err := s.statement(ctx, func(c conn) (err error) {
		tag, err = c.Exec(ctx, in(s.db.Quoted, `WITH old AS MATERIALIZED (SELECT i.id FROM @.superstep_memory_items i
				WHERE i.expires <= coalesce($1::timestamptz, statement_timestamp()) FOR UPDATE SKIP LOCKED)
			DELETE FROM @.superstep_memory_items i USING old WHERE i.id = old.id`), s.now())
		return err
	})
	return int(tag.RowsAffected()), err
}
