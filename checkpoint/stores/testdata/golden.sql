SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA superstep_golden;
CREATE FUNCTION superstep_golden.superstep_commit(p_key bytea, p_thread bytea, p_version bigint, h_version bigint, h_header bytea, h_due bigint, h_lease bigint, h_minute bigint, h_labels text[], a_ns bytea, a_namespace bytea, a_place bigint, a_meta bytea, a_data bytea, n_from bytea[], n_below bytea[], d_keys bytea[], s_keys bytea[], s_values bytea[], s_replace boolean[], c_from bytea[], c_below bytea[], OUT stale boolean, OUT ignored bigint) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
	DECLARE
		v_tid bigint; v_version bigint; v_lid bigint;
	BEGIN
		stale := true; ignored := 0;
		IF p_version = 0 THEN
			INSERT INTO "superstep_golden".superstep_threads AS t (key, thread, version, header, due, lease, minute, labels)
				VALUES (p_key, p_thread, h_version, h_header, h_due, h_lease, h_minute, h_labels)
				ON CONFLICT ON CONSTRAINT superstep_threads_key_key DO NOTHING RETURNING t.tid INTO v_tid;
			IF NOT FOUND THEN
				RETURN;
			END IF;
		ELSE
			SELECT t.tid, t.version INTO v_tid, v_version FROM "superstep_golden".superstep_threads t WHERE t.key = p_key FOR NO KEY UPDATE;
			IF v_version IS DISTINCT FROM p_version THEN
				RETURN;
			END IF;
			IF n_from IS NOT NULL THEN
				PERFORM 1 FROM unnest(n_from, n_below) AS n (lo, hi) JOIN "superstep_golden".superstep_side s ON s.tid = v_tid AND s.key >= n.lo AND s.key < n.hi LIMIT 1;
				IF FOUND THEN
					RETURN;
				END IF;
			END IF;
		END IF;
		IF a_place IS NOT NULL THEN
			SELECT l.lid INTO v_lid FROM "superstep_golden".superstep_logs l WHERE l.tid = v_tid AND l.ns = a_ns;
			IF NOT FOUND THEN
				INSERT INTO "superstep_golden".superstep_logs AS l (tid, ns, namespace) VALUES (v_tid, a_ns, a_namespace) RETURNING l.lid INTO v_lid;
			END IF;
			INSERT INTO "superstep_golden".superstep_records (rid, meta, data) VALUES ((v_lid << 28) + a_place, a_meta, a_data)
				ON CONFLICT ON CONSTRAINT superstep_records_pkey DO NOTHING;
			IF NOT FOUND THEN
				RETURN;
			END IF;
		END IF;
		stale := false;
		IF h_version IS NOT NULL AND p_version <> 0 THEN
			UPDATE "superstep_golden".superstep_threads t SET version = h_version, header = h_header, due = h_due, lease = h_lease, minute = h_minute, labels = h_labels
				WHERE t.tid = v_tid;
		END IF;
		IF d_keys IS NOT NULL THEN
			DELETE FROM "superstep_golden".superstep_side s WHERE s.tid = v_tid AND s.key = ANY (d_keys);
		END IF;
		IF s_keys IS NOT NULL THEN
			FOR i IN 1 .. array_length(s_keys, 1) LOOP
				IF s_replace[i] THEN
					INSERT INTO "superstep_golden".superstep_side (tid, key, value) VALUES (v_tid, s_keys[i], s_values[i])
						ON CONFLICT ON CONSTRAINT superstep_side_pkey DO UPDATE SET value = excluded.value;
				ELSE
					INSERT INTO "superstep_golden".superstep_side (tid, key, value) VALUES (v_tid, s_keys[i], s_values[i])
						ON CONFLICT ON CONSTRAINT superstep_side_pkey DO NOTHING;
					IF NOT FOUND THEN
						ignored := ignored + 1;
					END IF;
				END IF;
			END LOOP;
		END IF;
		IF c_from IS NOT NULL THEN
			FOR i IN 1 .. array_length(c_from, 1) LOOP
				DELETE FROM "superstep_golden".superstep_side s WHERE s.tid = v_tid AND s.key >= c_from[i] AND s.key < c_below[i];
			END LOOP;
		END IF;
	END $$;
CREATE FUNCTION superstep_golden.superstep_delete(p_key bytea) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
	DECLARE
		v_tid bigint;
	BEGIN
		SELECT t.tid INTO v_tid FROM "superstep_golden".superstep_threads t WHERE t.key = p_key FOR UPDATE;
		IF NOT FOUND THEN
			RETURN;
		END IF;
		DELETE FROM "superstep_golden".superstep_records r USING "superstep_golden".superstep_logs l WHERE l.tid = v_tid AND r.rid > l.lid << 28 AND r.rid <= (l.lid << 28) + 268435455;
		DELETE FROM "superstep_golden".superstep_side s WHERE s.tid = v_tid;
		DELETE FROM "superstep_golden".superstep_logs l WHERE l.tid = v_tid;
		DELETE FROM "superstep_golden".superstep_threads t WHERE t.tid = v_tid;
	END $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE superstep_golden.superstep_logs (
    tid bigint NOT NULL,
    lid bigint NOT NULL,
    ns bytea NOT NULL,
    namespace bytea
);
ALTER TABLE superstep_golden.superstep_logs ALTER COLUMN lid ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME superstep_golden.superstep_logs_lid_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 34359738367
    CACHE 1
);
CREATE TABLE superstep_golden.superstep_meta (
    version integer NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE superstep_golden.superstep_records (
    rid bigint NOT NULL,
    meta bytea NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE superstep_golden.superstep_side (
    tid bigint NOT NULL,
    num bigint NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL
);
ALTER TABLE superstep_golden.superstep_side ALTER COLUMN num ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME superstep_golden.superstep_side_num_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE superstep_golden.superstep_threads (
    tid bigint NOT NULL,
    version bigint NOT NULL,
    due bigint,
    lease bigint,
    minute bigint,
    key bytea NOT NULL,
    thread bytea,
    header bytea NOT NULL,
    labels text[]
)
WITH (fillfactor='80');
ALTER TABLE superstep_golden.superstep_threads ALTER COLUMN tid ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME superstep_golden.superstep_threads_tid_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
INSERT INTO superstep_golden.superstep_logs OVERRIDING SYSTEM VALUE VALUES (1, 1, '\x', NULL);
INSERT INTO superstep_golden.superstep_meta VALUES (6, '2026-11-29 04:57:43.178467+00');
INSERT INTO superstep_golden.superstep_records VALUES (268435457, '\x045f5f995bad6901a225aa8a0b76e1887d127001c02648f87375727665790422116f223a302c2263223a5b220b706c616efa', '\x007b22546f706963223a22746561227d');
INSERT INTO superstep_golden.superstep_records VALUES (268435458, '\x040033834706b801a225aa8a0b76e1887d1270029c4dd901f873757276657909302c310f706c616e222c302c2d312c7b2273656e74223a337d5d2c35315d2c226b223a5b5b2261736b11706c616e222c312c355d2c5b2261736b11706c616e222c312c355d2c5b2261736b11706c616e222c312c365dfb', '\x0022416e6e2222426f6222225a6fc3ab22');
INSERT INTO superstep_golden.superstep_records VALUES (268435459, '\x040d103a0bb4ab01a225aa8a0b76e1887d1270039068f303f87375727665791173223a322c2268223a5b302c340f61736b222c302c33345d2c32302c3535322c5b2261736b222c312c33345d2c392c3437372c2261736b222c31352c3436305d2c226b223a5b5b226a756467651161736b225d5d2c2272223a5b223230303011706c616e225d1f61736b2d3e6a75646765116669726564223a747275657dfb', '\x007b22466f756e64223a5b22416e6e206f6e20746561225d2c22546f74616c223a317d7b22466f756e64223a5b22426f62206f6e20746561225d2c22546f74616c223a317d7b22466f756e64223a5b225a6fc3ab206f6e20746561225d2c22546f74616c223a317d');
INSERT INTO superstep_golden.superstep_records VALUES (268435460, '\x043303e034330301a225aa8a0b76e1887d127004c0748506f87375727665791165223a332c2273223a3213322c2268223a5b302c355d2c2272223a5b223031313111706c616e1161736b225d1a301b3131373561653735643632663866383037373330666635313564366534653039116b65791676657264696374116e6f6465166a75646765117768656e16696e736964651176616c7565223a332c22736368656d61223a7b227479706516737472696e67107dfb5d1f61736b2d3e6a75646765116669726564223a747275657dfb', '\x00');
INSERT INTO superstep_golden.superstep_records VALUES (268435461, '\x04bbbfac62bbbf01a225aa8a10793e94828eb601d45be508f873757276657904010a76e1887d12700406010a76e1887d12700313332c2268223a5b325d2c2272223a5b223031313111706c616e1161736b225d1a301b3131373561653735643632663866383037373330666635313564366534653039116b65791676657264696374116e6f6465166a75646765117768656e16696e736964651176616c7565223a332c22736368656d61223a7b227479706516737472696e67102c22616e7377657216676f6f6411616e737765726564223a747275657dfb5d1f61736b2d3e6a75646765116669726564223a747275657dfb', '\x00');
INSERT INTO superstep_golden.superstep_records VALUES (268435462, '\x044b2b2f9358b601a225aa8a10793e94828eb6028c77c309f873757276657909322c310a6a75646765222c36365d2c2272223a5b22313232323011706c616e1161736bfa', '\x007b2256657264696374223a22676f6f64227d');
INSERT INTO superstep_golden.superstep_records VALUES (268435463, '\x04847dcc17aecd01a225aa8a1471f3934384c901fc59ad0af8737572766579040108793e94828eb60207330a0b706c616efa', '\x007b22546f706963223a22636f66666565227d');
INSERT INTO superstep_golden.superstep_records VALUES (268435464, '\x04369c5195588301a225aa8a1471f3934384c902a864be0bf873757276657909332c310f706c616e222c302c2d312c7b2273656e74223a337d5d2c32335d2c226b223a5b5b2261736b11706c616e222c312c355d2c5b2261736b11706c616e222c312c355d2c5b2261736b11706c616e222c312c365dfb', '\x0022416e6e2222426f6222225a6fc3ab22');
INSERT INTO superstep_golden.superstep_records VALUES (268435465, '\x04cc0c0a0b34e401a225aa8a1471f3934384c9038871e10df87375727665791173223a352c2268223a5b332c340f61736b222c302c33375d2c31392c3230362c5b2261736b222c312c33375d2c362c3136352c2261736b222c31342c3135305d2c226b223a5b5b226a756467651161736b225d5d2c2272223a5b223230303011706c616e225d1f61736b2d3e6a75646765116669726564223a747275657dfb', '\x007b22466f756e64223a5b22416e6e206f6e20636f66666565225d2c22546f74616c223a317d7b22466f756e64223a5b22426f62206f6e20636f66666565225d2c22546f74616c223a317d7b22466f756e64223a5b225a6fc3ab206f6e20636f66666565225d2c22546f74616c223a317d');
INSERT INTO superstep_golden.superstep_records VALUES (268435466, '\x044827bc62482701a225aa8a1471f3934384c9048c77f30ff87375727665791165223a332c2273223a3513322c2268223a5b332c355d2c2272223a5b223031313111706c616e1161736b225d1a301b6464386130386564303032666363353864333439316538623161383235386534116b65791676657264696374116e6f6465166a75646765117768656e16696e736964651176616c7565223a362c22736368656d61223a7b227479706516737472696e67107dfb5d1f61736b2d3e6a75646765116669726564223a747275657dfb', '\x00');
INSERT INTO superstep_golden.superstep_records VALUES (268435467, '\x04deca5a255ebd01a225aa8a1870fa90d3e38101ac23c812f873757276657904010871f3934384c90406010871f3934384c90313342c2268223a5b350a225d2c2272223a5b223031313111706c616e1161736b225d1a301b6464386130386564303032666363353864333439316538623161383235386534116b65791676657264696374116e6f6465166a75646765117768656e16696e736964651176616c7565223a362c22736368656d61223a7b227479706516737472696e67107dfb5d1f61736b2d3e6a75646765116669726564223a747275657dfb', '\x007b22546f74616c223a31307d');
INSERT INTO superstep_golden.superstep_records VALUES (268435468, '\x54790a5d67790a01a225aa8a1a7b62ab4ab63601f89a019d150a0101a225aa8a1a7b62ab4ab63601f873757276657904011e76e1887d12700406011e76e1887d1270032c226c223a5b5b22222c345d5d2c2273223a3213352c2268223a5b302c355d2c2272223a5b223031313111706c616e1161736b225d1a301b3131373561653735643632663866383037373330666635313564366534653039116b65791676657264696374116e6f6465166a75646765117768656e16696e736964651176616c7565223a332c22736368656d61223a7b227479706516737472696e67107dfb5d1f61736b2d3e6a75646765116669726564223a747275657dfb', '\x00');
INSERT INTO superstep_golden.superstep_side OVERRIDING SYSTEM VALUE VALUES (1, 5, '\x7300000000000000000c', '\x050101a225aa8a1a7b62ab4ab63601c05859f6');
INSERT INTO superstep_golden.superstep_threads OVERRIDING SYSTEM VALUE VALUES (1, 1839030541496536758, NULL, NULL, 29932137, '\x676f6c64656e', NULL, '\x01ecbaf6cf95a2c68533f0fed9a2e4d8b006000000000001d2e9c51c46aa16ba', '{}');
SELECT pg_catalog.setval('superstep_golden.superstep_logs_lid_seq', 1, true);
SELECT pg_catalog.setval('superstep_golden.superstep_side_num_seq', 5, true);
SELECT pg_catalog.setval('superstep_golden.superstep_threads_tid_seq', 1, true);
ALTER TABLE ONLY superstep_golden.superstep_logs
    ADD CONSTRAINT superstep_logs_pkey PRIMARY KEY (tid, ns);
ALTER TABLE ONLY superstep_golden.superstep_meta
    ADD CONSTRAINT superstep_meta_pkey PRIMARY KEY (version);
ALTER TABLE ONLY superstep_golden.superstep_records
    ADD CONSTRAINT superstep_records_pkey PRIMARY KEY (rid);
ALTER TABLE ONLY superstep_golden.superstep_side
    ADD CONSTRAINT superstep_side_pkey PRIMARY KEY (tid, key);
ALTER TABLE ONLY superstep_golden.superstep_threads
    ADD CONSTRAINT superstep_threads_key_key UNIQUE (key);
ALTER TABLE ONLY superstep_golden.superstep_threads
    ADD CONSTRAINT superstep_threads_pkey PRIMARY KEY (tid);
CREATE INDEX superstep_threads_due ON superstep_golden.superstep_threads USING btree (due, key) WHERE (due IS NOT NULL);
CREATE INDEX superstep_threads_labels ON superstep_golden.superstep_threads USING gin (labels) WHERE (minute IS NOT NULL);
CREATE INDEX superstep_threads_lease ON superstep_golden.superstep_threads USING btree (lease, key) WHERE (lease IS NOT NULL);
CREATE INDEX superstep_threads_minute ON superstep_golden.superstep_threads USING btree (minute) WHERE (minute IS NOT NULL);
