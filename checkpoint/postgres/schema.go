package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/pgdb"
)

// The tables; @ stands for the schema. Names that users choose are bytea, since
// text holds neither zero bytes nor what is not UTF-8, and are compared byte by
// byte. What is too long for an index is cut there (see clip) and stands whole
// beside it. IDs are 16 bytes where they are UUIDs (see key).
//
// ord is the place of a record in the order appended to its log. So the records
// of a log stand together and its head is the last of them; where those of a
// branch stand follows from superstep_segments: one row each time that the branch
// written to changes. Rewriting leaves gaps: removed and freed say how many
// records and bytes are missing.
//
// superstep_logs.bucket is the minute of the head's time, for logs with an empty
// namespace and at least one record: listing threads by time needs no write at
// each append. The same is why a thread's row changes only when its fence, lease
// or due time does; every writer locks it.
//
// A write is a call of superstep_write. It raises no error for what is the
// caller's matter, but returns a status and has no effect then, so that calls can
// share a transaction. Since version 2 the fences of a thread begin at its tid, which
// is never used again, and only its holder renews and releases a lease; since
// version 3 a claim may say which fence it saw.
//
// Since version 4 superstep_logs.labels, where bucket is, are the labels of the head's
// metadata, see backend.Labels; null says that they are not known.
//
// All queries are made for indexes. That sequential scans are off where we can say
// so is for plans made while the tables are small: a connection would keep them
// while the tables grow.
var migrations = []string{
	`CREATE TABLE @.superstep_threads (
		tid bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		fence bigint NOT NULL DEFAULT 0,
		lease_us bigint,          -- how long the lease was given for, in microseconds
		lease_until timestamptz,
		woken timestamptz,
		head_due timestamptz,
		due timestamptz GENERATED ALWAYS AS (least(woken, head_due)) STORED,
		key bytea NOT NULL UNIQUE,
		thread bytea,             -- if key is not all of it
		holder bytea
	) WITH (fillfactor = 80);
	CREATE INDEX superstep_threads_due ON @.superstep_threads (due) WHERE due IS NOT NULL;
	CREATE INDEX superstep_threads_lease ON @.superstep_threads (lease_until) WHERE lease_until IS NOT NULL;
	CREATE TABLE @.superstep_logs (
		tid bigint NOT NULL,
		lid bigint GENERATED ALWAYS AS IDENTITY,
		bucket bigint,
		removed bigint NOT NULL DEFAULT 0,
		freed bigint NOT NULL DEFAULT 0,
		ns bytea NOT NULL,
		namespace bytea,          -- if ns is not all of it
		PRIMARY KEY (tid, ns)
	) WITH (fillfactor = 80);
	CREATE INDEX superstep_logs_bucket ON @.superstep_logs (bucket) WHERE bucket IS NOT NULL;
	CREATE TABLE @.superstep_records (
		lid bigint NOT NULL,
		ord bigint NOT NULL,
		seq bigint NOT NULL,
		at bigint NOT NULL,       -- nanoseconds since 1970
		total bigint NOT NULL,    -- bytes of meta and data of the log up to here
		sum bigint NOT NULL,      -- checksums of meta and data
		id bytea NOT NULL,
		branch bytea NOT NULL,
		meta bytea NOT NULL,
		data bytea NOT NULL,
		PRIMARY KEY (lid, ord),
		CONSTRAINT superstep_records_id UNIQUE (lid, id)
	);
	CREATE TABLE @.superstep_segments (
		lid bigint NOT NULL,
		ord bigint NOT NULL,
		seq bigint NOT NULL,
		branch bytea NOT NULL,
		PRIMARY KEY (lid, ord)
	);
	CREATE TABLE @.superstep_results (
		lid bigint NOT NULL,
		num bigint GENERATED ALWAYS AS IDENTITY,
		replaces boolean NOT NULL,
		scope bytea NOT NULL,     -- epoch and branch
		key bytea NOT NULL,       -- task, generation, kind and name
		whole bytea,              -- if key is not all of it
		data bytea,
		PRIMARY KEY (lid, scope, key)
	);

	CREATE FUNCTION @.superstep_delete(p_key bytea) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
	DECLARE
		v_tid bigint;
	BEGIN
		SELECT t.tid INTO v_tid FROM @.superstep_threads t WHERE t.key = p_key FOR UPDATE;
		IF NOT FOUND THEN
			RETURN;
		END IF;
		DELETE FROM @.superstep_records r USING @.superstep_logs l WHERE l.tid = v_tid AND r.lid = l.lid;
		DELETE FROM @.superstep_segments g USING @.superstep_logs l WHERE l.tid = v_tid AND g.lid = l.lid;
		DELETE FROM @.superstep_results x USING @.superstep_logs l WHERE l.tid = v_tid AND x.lid = l.lid;
		DELETE FROM @.superstep_logs l WHERE l.tid = v_tid;
		DELETE FROM @.superstep_threads t WHERE t.tid = v_tid;
	END $$;`,
	``, // what it did is done anew by the next
	``,
	`ALTER TABLE @.superstep_logs ADD COLUMN IF NOT EXISTS labels text[];
	CREATE INDEX IF NOT EXISTS superstep_logs_labels ON @.superstep_logs USING gin (labels) WHERE bucket IS NOT NULL;
	CREATE INDEX IF NOT EXISTS superstep_logs_unlabelled ON @.superstep_logs (lid) WHERE bucket IS NOT NULL AND labels IS NULL;
	DROP FUNCTION IF EXISTS @.superstep_write(bytea, bytea, bytea, bytea, int, bigint, bigint, bytea, bytea, bytea, bytea, bytea, bigint, bigint, bigint, timestamptz, bigint, bytea, bytea, bytea, bytea[], bytea[], bytea[], bytea[], bytea[], bytea[], boolean[], bytea[]);
	CREATE OR REPLACE FUNCTION @.superstep_write(
		p_key bytea, p_thread bytea, p_ns bytea, p_namespace bytea,
		p_flags int, p_fence bigint, p_lease bigint, p_holder bytea, p_steal bytea,
		p_id bytea, p_head bytea, p_branch bytea, p_seq bigint, p_at bigint, p_bucket bigint, p_due timestamptz,
		p_sum bigint, p_meta bytea, p_data bytea,
		p_drop bytea, p_known bytea[],        -- the superstep to drop, and keys of which to count those that are there
		x_scopes bytea[], x_keys bytea[],     -- results to remove
		r_scopes bytea[], r_keys bytea[], r_wholes bytea[], r_replace boolean[], r_data bytea[],
		p_labels text[] DEFAULT NULL,         -- older programs don't give them
		OUT status int, OUT fence bigint, OUT ignored bigint, OUT head bytea, OUT last bigint,
		OUT holder bytea, OUT until timestamptz, OUT ttl bigint
	) LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
	DECLARE
		c_claim boolean := p_flags & 1 <> 0;
		c_release boolean := p_flags & 2 <> 0;
		c_wake boolean := p_flags & 4 <> 0;
		v_tid bigint; v_fence bigint; v_holder bytea; v_until timestamptz; v_ttl bigint;
		v_woken timestamptz; v_due timestamptz; v_now timestamptz;
		v_lid bigint; v_bucket bigint; v_labels text[]; v_ord bigint; v_branch bytea; v_seq bigint; v_total bigint;
		v_n bigint; v_tries int := 0;
	BEGIN
		status := 0; fence := 0; ignored := 0;
		LOOP
			SELECT t.tid, t.fence, t.holder, t.lease_until, t.lease_us, t.woken, t.head_due
				INTO v_tid, v_fence, v_holder, v_until, v_ttl, v_woken, v_due
				FROM @.superstep_threads t WHERE t.key = p_key FOR NO KEY UPDATE;
			EXIT WHEN FOUND;
			-- The thread is unknown: it must not begin with a write that fails.
			IF p_fence > 0 THEN
				status := 2; RETURN;
			END IF;
			IF p_steal IS NOT NULL THEN
				status := 1; RETURN;
			END IF;
			IF p_id IS NOT NULL THEN
				IF p_head IS NOT NULL THEN
					status := 3; RETURN;
				END IF;
				IF (CASE WHEN p_branch = '' THEN p_seq <> 1 ELSE p_branch <> p_id END) THEN
					status := 5; last := 0; RETURN;
				END IF;
			ELSIF NOT c_claim AND NOT c_wake AND r_keys IS NULL THEN
				RETURN;
			END IF;
			INSERT INTO @.superstep_threads AS t (key, thread) VALUES (p_key, p_thread)
				ON CONFLICT ON CONSTRAINT superstep_threads_key_key DO NOTHING RETURNING t.tid INTO v_tid;
			IF FOUND THEN
				v_fence := 0; v_holder := NULL; v_until := NULL; v_woken := NULL; v_due := NULL;
				EXIT;
			END IF;
			v_tries := v_tries + 1;
			IF v_tries > 100 THEN -- somebody's row that this transaction cannot see
				RAISE serialization_failure;
			END IF;
		END LOOP;

		IF c_claim THEN
			IF v_until IS NOT NULL AND v_holder IS DISTINCT FROM p_holder AND v_holder IS DISTINCT FROM p_steal THEN
				v_now := clock_timestamp();
				IF v_now < v_until AND v_until <= v_now + v_ttl * interval '1 microsecond' THEN
					status := 1; holder := v_holder; until := v_until; ttl := v_ttl; RETURN;
				END IF;
			END IF;
			IF p_steal IS NOT NULL AND v_holder IS DISTINCT FROM p_steal THEN
				status := 1; holder := v_holder; until := v_until; ttl := v_ttl; RETURN;
			END IF;
			IF p_fence <> 0 AND p_fence <> (CASE WHEN v_fence = 0 THEN -1 ELSE v_fence END) THEN
				status := 2; fence := v_fence; RETURN;
			END IF;
			IF v_fence = 0 THEN -- above all that a deleted thread of this name had, whose tid was smaller
				v_fence := v_tid << 28;
			END IF;
			v_fence := v_fence + 1;
		ELSIF p_fence <> 0 AND p_fence <> v_fence THEN
			status := 2; fence := v_fence; RETURN;
		ELSIF (c_release OR p_lease > 0) AND p_holder IS NOT NULL AND v_holder IS DISTINCT FROM p_holder AND v_until IS NOT NULL THEN
			v_now := clock_timestamp();
			IF v_now < v_until AND v_until <= v_now + v_ttl * interval '1 microsecond' THEN
				status := 2; fence := v_fence; holder := v_holder; RETURN;
			END IF;
		END IF;
		fence := v_fence;

		SELECT l.lid, l.bucket, l.labels, r.ord, r.id, r.branch, r.seq, r.total
			INTO v_lid, v_bucket, v_labels, v_ord, head, v_branch, v_seq, v_total
			FROM @.superstep_logs l LEFT JOIN LATERAL (
				SELECT h.ord, h.id, h.branch, h.seq, h.total FROM @.superstep_records h WHERE h.lid = l.lid ORDER BY h.ord DESC LIMIT 1
			) r ON true
			WHERE l.tid = v_tid AND l.ns = p_ns;

		IF p_id IS NOT NULL THEN
			IF head IS DISTINCT FROM p_head THEN
				status := 3; RETURN;
			END IF;
			last := 0;
			IF p_branch = v_branch THEN
				last := v_seq;
			ELSIF p_branch <> p_id AND v_ord IS NOT NULL THEN
				SELECT g.ord INTO v_n FROM @.superstep_segments g WHERE g.lid = v_lid AND g.branch = p_branch ORDER BY g.ord DESC LIMIT 1;
				IF FOUND THEN
					SELECT r.seq INTO last FROM @.superstep_records r WHERE r.lid = v_lid AND r.ord >= v_n AND r.ord < coalesce(
						(SELECT min(g.ord) FROM @.superstep_segments g WHERE g.lid = v_lid AND g.ord > v_n), 9223372036854775807
					) ORDER BY r.ord DESC LIMIT 1;
				END IF;
			END IF;
			IF (CASE WHEN last > 0 THEN p_seq <> last + 1 WHEN p_branch = '' THEN p_seq <> 1 ELSE p_branch <> p_id END) THEN
				-- That the ID exists is the better answer.
				PERFORM 1 FROM @.superstep_records r WHERE r.lid = v_lid AND r.id = p_id;
				status := CASE WHEN FOUND THEN 4 ELSE 5 END;
				RETURN;
			END IF;
		END IF;

		IF v_lid IS NULL AND (p_id IS NOT NULL OR r_keys IS NOT NULL) THEN
			INSERT INTO @.superstep_logs AS l (tid, ns, namespace) VALUES (v_tid, p_ns, p_namespace) RETURNING l.lid INTO v_lid;
		END IF;
		IF p_id IS NOT NULL THEN
			v_ord := coalesce(v_ord, 0) + 1;
			INSERT INTO @.superstep_records (lid, ord, seq, at, total, sum, id, branch, meta, data) VALUES (
				v_lid, v_ord, p_seq, p_at, coalesce(v_total, 0) + octet_length(p_meta) + octet_length(p_data), p_sum, p_id, p_branch, p_meta, p_data
			) ON CONFLICT ON CONSTRAINT superstep_records_id DO NOTHING;
			IF NOT FOUND THEN
				status := 4; RETURN;
			END IF;
			IF v_branch IS DISTINCT FROM p_branch THEN
				INSERT INTO @.superstep_segments (lid, ord, seq, branch) VALUES (v_lid, v_ord, p_seq, p_branch);
			END IF;
		END IF;
		-- From here on nothing fails.
		IF p_id IS NOT NULL AND p_ns = '' AND (v_bucket IS DISTINCT FROM p_bucket OR v_labels IS DISTINCT FROM p_labels) THEN
			UPDATE @.superstep_logs l SET bucket = p_bucket, labels = p_labels WHERE l.tid = v_tid AND l.ns = p_ns;
		END IF;
		IF c_claim OR c_release OR c_wake OR p_lease > 0
			OR p_id IS NOT NULL AND p_ns = '' AND v_due IS DISTINCT FROM p_due
		THEN
			v_now := clock_timestamp();
			IF p_lease > 0 THEN
				v_holder := p_holder; v_until := v_now + p_lease * interval '1 microsecond'; v_ttl := p_lease;
			ELSIF c_claim OR c_release THEN
				v_holder := NULL; v_until := NULL; v_ttl := NULL;
			END IF;
			IF p_id IS NOT NULL AND p_ns = '' THEN
				v_due := p_due;
			END IF;
			IF c_wake THEN
				v_woken := v_now;
			ELSIF c_claim THEN
				v_woken := NULL;
			END IF;
			UPDATE @.superstep_threads t SET fence = v_fence, holder = v_holder, lease_until = v_until, lease_us = v_ttl,
				woken = v_woken, head_due = v_due WHERE t.tid = v_tid;
		END IF;
		IF v_lid IS NULL THEN
			RETURN;
		END IF;
		IF x_keys IS NOT NULL THEN
			DELETE FROM @.superstep_results d USING unnest(x_scopes, x_keys) AS x (scope, key)
				WHERE d.lid = v_lid AND d.scope = x.scope AND d.key = x.key;
		END IF;
		IF r_keys IS NOT NULL THEN
			FOR i IN 1 .. array_length(r_keys, 1) LOOP
				IF r_replace[i] THEN
					INSERT INTO @.superstep_results (lid, replaces, scope, key, whole, data)
						VALUES (v_lid, true, r_scopes[i], r_keys[i], r_wholes[i], r_data[i])
						ON CONFLICT ON CONSTRAINT superstep_results_pkey DO UPDATE SET replaces = true, data = excluded.data;
				ELSE
					INSERT INTO @.superstep_results (lid, replaces, scope, key, whole, data)
						VALUES (v_lid, false, r_scopes[i], r_keys[i], r_wholes[i], r_data[i])
						ON CONFLICT ON CONSTRAINT superstep_results_pkey DO NOTHING;
					IF NOT FOUND THEN
						ignored := ignored + 1;
					END IF;
				END IF;
			END LOOP;
		END IF;
		IF p_drop IS NOT NULL THEN
			PERFORM 1 FROM @.superstep_results x WHERE x.lid = v_lid AND x.scope = p_drop LIMIT 1;
			IF FOUND THEN -- mostly not
				WITH gone AS (DELETE FROM @.superstep_results d WHERE d.lid = v_lid AND d.scope = p_drop RETURNING d.key)
					SELECT ignored + count(*) INTO ignored FROM gone WHERE gone.key = ANY (p_known);
			END IF;
		END IF;
	END $$;`,
}

// in writes the schema's name into SQL.
func in(quoted, query string) string { return strings.ReplaceAll(query, "@.", quoted+".") }

// migrate brings the tables to the newest version and returns the name of their
// schema.
func migrate(ctx context.Context, pool *pgxpool.Pool, server, schema string) (string, error) {
	t := pgdb.Tables{Meta: "superstep_meta", Migrations: migrations, In: in}
	schema, err := t.Migrate(ctx, pool, schema)
	if errors.Is(err, pgdb.ErrNoSchema) {
		return "", &Error{
			Op: "open", Server: server, Kind: ErrNoTables, What: err.Error(),
			Fix: "create one, set search_path, or name one in Options.Schema",
		}
	}
	if _, ok := errors.AsType[*pgdb.VersionError](err); ok {
		return "", &Error{
			Op: "open", Server: server, Kind: checkpoint.ErrVersion, What: err.Error(),
			Fix: "use a newer version of Superstep, or another database or schema",
		}
	}
	return schema, err
}

var tables = []string{"threads", "logs", "records", "segments", "results"}

// mayUse checks that this user may do what the store does.
func (s *Store) mayUse(ctx context.Context, schema string) error {
	var missing *string
	err := s.pool.QueryRow(ctx, `SELECT string_agg(p || ' on ' || t, ', ') FROM unnest($1::text[]) t, unnest($2::text[]) p
		WHERE NOT has_table_privilege(format('%I.%I', $3::text, t), p)`,
		prefixed(tables), []string{"SELECT", "INSERT", "UPDATE", "DELETE"}, schema).Scan(&missing)
	if err != nil {
		return err
	}
	if missing != nil {
		return &Error{
			Op: "open", Server: s.server, Kind: ErrDenied, What: "this user lacks permissions: " + *missing,
			Fix: "let the tables' owner grant them",
		}
	}
	return nil
}

func prefixed(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = "superstep_" + n
	}
	return out
}
