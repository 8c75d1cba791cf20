package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/superstep-dev/superstep/internal/pgdb"
)

// The tables; @ stands for the schema. Namespaces are their labels joined by
// points. Text is compared byte by byte, so that a prefix is a range. A version
// is never used again; the items with the greatest were written last. Vectors
// have length 1. As real[] they are there with and without pgvector, which casts
// them.
//
// A Put is a call of superstep_memory_put: one round trip, one transaction. It
// returns no version if a condition isn't met. Since the second version it keeps the
// vectors if p_dimensions is -1.
var migrations = []string{
	`CREATE SEQUENCE @.superstep_memory_versions AS bigint;
	CREATE TABLE @.superstep_memory_items (
		id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		version bigint NOT NULL,
		namespace text COLLATE "C" NOT NULL,
		key text COLLATE "C" NOT NULL,
		created timestamptz NOT NULL,
		updated timestamptz NOT NULL,
		expires timestamptz,      -- NULL: never
		ttl bigint,               -- microseconds
		value jsonb NOT NULL,
		CONSTRAINT superstep_memory_items_key UNIQUE (namespace, key)
	);
	CREATE INDEX superstep_memory_items_version ON @.superstep_memory_items (version);
	CREATE INDEX superstep_memory_items_expires ON @.superstep_memory_items (expires) WHERE expires IS NOT NULL;
	CREATE TABLE @.superstep_memory_vectors (
		item bigint NOT NULL REFERENCES @.superstep_memory_items ON DELETE CASCADE,
		n int NOT NULL,
		name text COLLATE "C" NOT NULL, -- of the index
		vector real[] NOT NULL,
		PRIMARY KEY (item, n)
	);` + put, put,
}

var put = `
	CREATE OR REPLACE FUNCTION @.superstep_memory_put(
		p_namespace text, p_key text, p_value jsonb, p_ttl bigint, p_version bigint, p_absent boolean, p_now timestamptz,
		p_name text, p_vectors real[], p_dimensions int,
		OUT created timestamptz, OUT updated timestamptz, OUT expires timestamptz, OUT version bigint, OUT have bigint
	) LANGUAGE plpgsql AS $$
	DECLARE
		v_id bigint; v_expires timestamptz; v_created timestamptz; v_now timestamptz;
	BEGIN
		LOOP
			SELECT i.id, i.version, i.created, i.expires INTO v_id, have, v_created, v_expires
				FROM @.superstep_memory_items i WHERE i.namespace = p_namespace AND i.key = p_key FOR UPDATE;
			EXIT WHEN FOUND;
			have := 0;
			IF p_version > 0 THEN
				RETURN;
			END IF;
			-- Somebody else may do the same: then there is a row to lock.
			INSERT INTO @.superstep_memory_items AS i (version, namespace, key, created, updated, expires, value)
				VALUES (0, p_namespace, p_key, 'epoch', 'epoch', '-infinity', '{}')
				ON CONFLICT ON CONSTRAINT superstep_memory_items_key DO NOTHING;
		END LOOP;
		v_now := coalesce(p_now, clock_timestamp()); -- not before the lock
		IF v_expires <= v_now THEN
			have := 0; v_created := v_now;
		END IF;
		IF p_absent AND have > 0 OR p_version > 0 AND have <> p_version THEN
			RETURN;
		END IF;
		created := v_created;
		expires := v_now + ` + interval(`p_ttl`) + `;
		updated := greatest(v_now, v_created); -- clocks of several programs differ
		version := nextval('@.superstep_memory_versions');
		UPDATE @.superstep_memory_items i SET version = superstep_memory_put.version, created = superstep_memory_put.created,
			updated = superstep_memory_put.updated, expires = superstep_memory_put.expires, ttl = p_ttl, value = p_value WHERE i.id = v_id;
		IF p_dimensions >= 0 THEN
			DELETE FROM @.superstep_memory_vectors v WHERE v.item = v_id;
		END IF;
		IF p_dimensions > 0 THEN
			INSERT INTO @.superstep_memory_vectors (item, n, name, vector)
				SELECT v_id, n, p_name, p_vectors[n * p_dimensions + 1 : (n + 1) * p_dimensions]
				FROM generate_series(0, array_length(p_vectors, 1) / p_dimensions - 1) n;
		END IF;
	END $$;`

// interval writes SQL that makes an interval of microseconds, exactly: PostgreSQL
// multiplies intervals as floats.
func interval(micros string) string {
	return `(interval '1 second' * (` + micros + ` / 1000000) + interval '1 microsecond' * (` + micros + ` % 1000000))`
}

// in writes the schema's name into SQL.
func in(quoted, query string) string {
	// Inside a text of SQL a quote is doubled.
	return strings.NewReplacer("'@.", "'"+strings.ReplaceAll(quoted, "'", "''")+".", "@.", quoted+".").Replace(query)
}

// findVector returns the schema of the extension pgvector, quoted, or "" if the
// database doesn't have it.
func findVector(ctx context.Context, db *pgdb.DB) (string, error) {
	var schema *string
	err := db.QueryRow(ctx, `SELECT max(n.nspname::text) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'`).Scan(&schema)
	if err != nil || schema == nil {
		return "", err
	}
	return pgx.Identifier{*schema}.Sanitize(), nil
}
