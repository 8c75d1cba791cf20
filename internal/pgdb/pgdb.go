// Package pgdb holds what the packages that keep data in PostgreSQL do alike: they
// connect, make their tables, and explain what is wrong.
package pgdb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/superstep-dev/superstep/internal/backend"
)

// server names a server in errors: host:port/database.
func server(c *pgx.ConnConfig) string { return fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database) }

// How a URL must look.
const urlForm = "write postgres://user:password@host:5432/database and percent-encode characters such as @ / : # ? % in the password"

// unparsed returns what is wrong with a connection string that pgx can't parse,
// given its error, and what to do. It shows neither the string nor the parser's
// words if they may quote a password: then what is empty.
func unparsed(conn string, err error) (what, fix string) {
	if !strings.HasPrefix(conn, "postgres://") && !strings.HasPrefix(conn, "postgresql://") {
		return "", urlForm
	}
	u, bad := url.Parse(conn)
	if bad != nil {
		return "", urlForm
	}
	password, _ := u.User.Password()
	for _, secret := range []string{password, u.Query().Get("password"), u.Query().Get("sslpassword")} {
		if secret != "" && strings.Contains(err.Error(), secret) {
			return "", urlForm
		}
	}
	const unclear = "connection string cannot be understood: "
	p, ok := errors.AsType[*pgconn.ParseConfigError](err)
	if !ok { // pgxpool's own parameters
		return unclear + err.Error(), "correct that parameter"
	}
	// The text begins with the string, redacted.
	if _, why, ok := strings.Cut(p.Error(), "`: "); ok {
		return unclear + why, "correct that part of it"
	}
	return "", urlForm
}

// Tables are the tables of a package.
type Tables struct {
	Meta       string                            // name of the table of versions
	Migrations []string                          // SQL, in order: the version is how many were run
	Unread     int                               // versions up to this one are not read, and their migrations not run
	In         func(quoted, query string) string // puts the schema's quoted name into SQL
	UTF8       bool                              // they need that encoding
}

var errNoSchema = errors.New("no schema of the search path exists")

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// migrate brings the tables to the newest version, in one transaction, and
// returns the name of their schema, which is the current one if schema is empty
// and made if it isn't there. Where nothing is to be done it only reads.
func (t *Tables) migrate(ctx context.Context, pool *pgxpool.Pool, schema string) (string, error) {
	make := schema != ""
	if !make {
		var name *string
		if err := pool.QueryRow(ctx, `SELECT current_schema()::text`).Scan(&name); err != nil {
			return "", err
		}
		if name == nil {
			return "", errNoSchema
		}
		schema = *name
	}
	quoted := pgx.Identifier{schema}.Sanitize()
	v, err := t.version(ctx, pool, schema, quoted)
	if err != nil || v == len(t.Migrations) {
		return schema, err
	}
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		// Programs that start at once take turns, whatever they keep there: they
		// may have to make the same schema.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))`, "superstep "+quoted+".superstep_meta"); err != nil {
			return err
		}
		v, err := t.version(ctx, tx, schema, quoted)
		if err != nil || v == len(t.Migrations) {
			return err
		}
		return t.run(ctx, tx, v, schema, quoted, make)
	})
	return schema, err
}

// version returns how many migrations were run.
func (t *Tables) version(ctx context.Context, q querier, schema, quoted string) (v int, err error) {
	var there bool
	// Not to_regclass: it may answer from what it knew before the lock.
	if err := q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1::text AND c.relname = $2::text)`, schema, t.Meta).Scan(&there); err != nil || !there {
		return 0, err
	}
	if err := q.QueryRow(ctx, `SELECT coalesce(max(version), 0)::int FROM `+quoted+"."+t.Meta).Scan(&v); err != nil {
		return 0, err
	}
	if v > len(t.Migrations) || 0 < v && v <= t.Unread {
		return v, &backend.VersionError{Have: v, Known: len(t.Migrations)}
	}
	return v, nil
}

func (t *Tables) run(ctx context.Context, tx pgx.Tx, v int, schema, quoted string, make bool) error {
	var there bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1::text)`, schema).Scan(&there); err != nil {
		return err
	}
	if make && !there {
		if _, err := tx.Exec(ctx, `CREATE SCHEMA `+quoted); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+quoted+"."+t.Meta+` (
		version int PRIMARY KEY,
		applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
	)`); err != nil {
		return err
	}
	for v = max(v, t.Unread); v < len(t.Migrations); v++ {
		if _, err := tx.Exec(ctx, t.In(quoted, t.Migrations[v])); err != nil {
			return fmt.Errorf("migrating to schema version %d: %w", v+1, err)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO `+quoted+"."+t.Meta+` (version) VALUES ($1::int)`, v+1); err != nil {
			return err
		}
	}
	return nil
}
