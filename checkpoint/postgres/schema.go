package postgres

import "strings"

// The tables hold what an engine.Driver is told to keep; @ stands for the schema. Names
// that users choose are bytea, since text holds neither zero bytes nor what is not UTF-8,
// and are compared byte by byte. What is too long for an index is cut there (see clip)
// and stands whole beside it.
//
// The records of a log stand together, as rid is lid<<28 | place, and its head is the one with
// the highest place: one number instead of two keeps rows and index small. A thread's columns
// beside its header are what it is found by: when it is due and its lease ends, in
// microseconds since 1970, the minute of its head's time if it is listed, and the labels of
// its head's metadata.
//
// superstep_commit is an engine.Commit that appends one row at most. It raises no error
// where the commit is stale, but says so and has no effect then, so that calls can share
// a transaction.
//
// All queries are made for indexes. That sequential scans are off where we can say
// so is for plans made while the tables are small: a connection would keep them
// while the tables grow.
//
// Versions 1 to 5 were never released, and are not read.
var migrations = []string{
	oldest: `CREATE TABLE @.superstep_threads (
		tid bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		version bigint NOT NULL,
		due bigint,
		lease bigint,
		minute bigint,
		key bytea NOT NULL UNIQUE,
		thread bytea,             -- if key is not all of it
		header bytea NOT NULL,
		labels text[]
	) WITH (fillfactor = 80);
	CREATE INDEX superstep_threads_due ON @.superstep_threads (due, key) WHERE due IS NOT NULL;
	CREATE INDEX superstep_threads_lease ON @.superstep_threads (lease, key) WHERE lease IS NOT NULL;
	CREATE INDEX superstep_threads_minute ON @.superstep_threads (minute) WHERE minute IS NOT NULL;
	CREATE INDEX superstep_threads_labels ON @.superstep_threads USING gin (labels) WHERE minute IS NOT NULL;
	CREATE TABLE @.superstep_logs (
		tid bigint NOT NULL,
		lid bigint GENERATED ALWAYS AS IDENTITY (MAXVALUE 34359738367),
		ns bytea NOT NULL,
		namespace bytea,          -- if ns is not all of it
		PRIMARY KEY (tid, ns)
	);
	CREATE TABLE @.superstep_records (
		rid bigint PRIMARY KEY,   -- lid << 28 | place
		meta bytea NOT NULL,      -- see engine.AppendRow
		data bytea NOT NULL       -- see zip.Pack
	);
	CREATE TABLE @.superstep_side (
		tid bigint NOT NULL,
		num bigint GENERATED ALWAYS AS IDENTITY,
		key bytea NOT NULL,
		value bytea NOT NULL,
		PRIMARY KEY (tid, key)
	);

	CREATE FUNCTION @.superstep_delete(p_key bytea) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
	DECLARE
		v_tid bigint;
	BEGIN
		SELECT t.tid INTO v_tid FROM @.superstep_threads t WHERE t.key = p_key FOR UPDATE;
		IF NOT FOUND THEN
			RETURN;
		END IF;
		DELETE FROM @.superstep_records r USING @.superstep_logs l WHERE l.tid = v_tid AND r.rid > l.lid << 28 AND r.rid <= (l.lid << 28) + 268435455;
		DELETE FROM @.superstep_side s WHERE s.tid = v_tid;
		DELETE FROM @.superstep_logs l WHERE l.tid = v_tid;
		DELETE FROM @.superstep_threads t WHERE t.tid = v_tid;
	END $$;

	CREATE FUNCTION @.superstep_commit(
		p_key bytea, p_thread bytea, p_version bigint,
		h_version bigint, h_header bytea, h_due bigint, h_lease bigint, h_minute bigint, h_labels text[],
		a_ns bytea, a_namespace bytea, a_place bigint, a_meta bytea, a_data bytea,
		n_from bytea[], n_below bytea[],                -- there must be no such side rows
		d_keys bytea[], s_keys bytea[], s_values bytea[], s_replace boolean[], c_from bytea[], c_below bytea[],
		OUT stale boolean, OUT ignored bigint
	) LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
	DECLARE
		v_tid bigint; v_version bigint; v_lid bigint;
	BEGIN
		stale := true; ignored := 0;
		IF p_version = 0 THEN
			INSERT INTO @.superstep_threads AS t (key, thread, version, header, due, lease, minute, labels)
				VALUES (p_key, p_thread, h_version, h_header, h_due, h_lease, h_minute, h_labels)
				ON CONFLICT ON CONSTRAINT superstep_threads_key_key DO NOTHING RETURNING t.tid INTO v_tid;
			IF NOT FOUND THEN
				RETURN;
			END IF;
		ELSE
			SELECT t.tid, t.version INTO v_tid, v_version FROM @.superstep_threads t WHERE t.key = p_key FOR NO KEY UPDATE;
			IF v_version IS DISTINCT FROM p_version THEN
				RETURN;
			END IF;
			IF n_from IS NOT NULL THEN
				PERFORM 1 FROM unnest(n_from, n_below) AS n (lo, hi) JOIN @.superstep_side s ON s.tid = v_tid AND s.key >= n.lo AND s.key < n.hi LIMIT 1;
				IF FOUND THEN
					RETURN;
				END IF;
			END IF;
		END IF;
		IF a_place IS NOT NULL THEN
			SELECT l.lid INTO v_lid FROM @.superstep_logs l WHERE l.tid = v_tid AND l.ns = a_ns;
			IF NOT FOUND THEN
				INSERT INTO @.superstep_logs AS l (tid, ns, namespace) VALUES (v_tid, a_ns, a_namespace) RETURNING l.lid INTO v_lid;
			END IF;
			INSERT INTO @.superstep_records (rid, meta, data) VALUES ((v_lid << 28) + a_place, a_meta, a_data)
				ON CONFLICT ON CONSTRAINT superstep_records_pkey DO NOTHING;
			IF NOT FOUND THEN
				RETURN;
			END IF;
		END IF;
		stale := false;
		IF h_version IS NOT NULL AND p_version <> 0 THEN
			UPDATE @.superstep_threads t SET version = h_version, header = h_header, due = h_due, lease = h_lease, minute = h_minute, labels = h_labels
				WHERE t.tid = v_tid;
		END IF;
		IF d_keys IS NOT NULL THEN
			DELETE FROM @.superstep_side s WHERE s.tid = v_tid AND s.key = ANY (d_keys);
		END IF;
		IF s_keys IS NOT NULL THEN
			FOR i IN 1 .. array_length(s_keys, 1) LOOP
				IF s_replace[i] THEN
					INSERT INTO @.superstep_side (tid, key, value) VALUES (v_tid, s_keys[i], s_values[i])
						ON CONFLICT ON CONSTRAINT superstep_side_pkey DO UPDATE SET value = excluded.value;
				ELSE
					INSERT INTO @.superstep_side (tid, key, value) VALUES (v_tid, s_keys[i], s_values[i])
						ON CONFLICT ON CONSTRAINT superstep_side_pkey DO NOTHING;
					IF NOT FOUND THEN
						ignored := ignored + 1;
					END IF;
				END IF;
			END LOOP;
		END IF;
		IF c_from IS NOT NULL THEN
			FOR i IN 1 .. array_length(c_from, 1) LOOP
				DELETE FROM @.superstep_side s WHERE s.tid = v_tid AND s.key >= c_from[i] AND s.key < c_below[i];
			END LOOP;
		END IF;
	END $$;`,
}

// oldest is the least version of tables that can be brought to the newest.
const oldest = 5

// in writes the schema's name into SQL.
func in(quoted, query string) string { return strings.ReplaceAll(query, "@.", quoted+".") }
