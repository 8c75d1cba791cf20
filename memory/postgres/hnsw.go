package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/superstep-dev/superstep/memory"
)

// HNSW are the settings of an approximate index. Fields that are 0 mean what pgvector
// takes by itself, which suits most.
type HNSW struct {
	// M is to how many others a vector is linked, 2 to 100; 0: 16. More of them find
	// more, and cost memory and time.
	M int

	// EfConstruction is how many candidates are looked at when a vector is put, at least
	// 2·M and at most 1000; 0: 64, or 2·M if that is more.
	EfConstruction int

	// EfSearch is how many candidates a search looks at, 1 to 1000; 0: 40. It looks at as
	// many as it is asked for at least.
	EfSearch int
}

const (
	maxHNSW     = 2000 // dimensions of a vector of pgvector in the index
	maxHalf     = 4000 // the same with half the precision
	maxEf       = 1000 // of pgvector
	hnswVersion = 5    // of pgvector, 0.5: the first with the index
	iterative   = 8    // 0.8: it goes on looking for what a filter leaves
	versionSQL  = `split_part(e.extversion, '.', 1)::int * 1000 + split_part(e.extversion, '.', 2)::int`
	hnswPrefix  = "superstep_memory_hnsw_"
)

// withDefaults returns the settings with those that were left out.
func (h HNSW) withDefaults() HNSW {
	if h.M == 0 {
		h.M = 16
	}
	if h.EfConstruction == 0 {
		h.EfConstruction = max(64, 2*h.M)
	}
	if h.EfSearch == 0 {
		h.EfSearch = 40
	}
	return h
}

func (h HNSW) check(o Options) error {
	h = h.withDefaults()
	wrong := func(what string, args ...any) error {
		return &memory.InvalidError{Kind: memory.ErrOption, Name: "HNSW", Reason: fmt.Sprintf(what, args...)}
	}
	switch {
	case o.Index == nil:
		return wrong("there is no Index whose vectors it is for")
	case o.NoPgvector:
		return wrong("it needs pgvector, and NoPgvector is set")
	case o.Index.Embedder.Dimensions() > maxHalf:
		return wrong("its vectors have %d dimensions; pgvector takes %d: leave HNSW out, or use an embedder with fewer", o.Index.Embedder.Dimensions(), maxHalf)
	case h.M < 2 || h.M > 100:
		return wrong("M is %d, not 2 to 100", h.M)
	case h.EfConstruction < 2*h.M || h.EfConstruction > maxEf:
		return wrong("EfConstruction is %d, not %d (2·M) to %d", h.EfConstruction, 2*h.M, maxEf)
	case h.EfSearch < 1 || h.EfSearch > maxEf:
		return wrong("EfSearch is %d, not 1 to %d", h.EfSearch, maxEf)
	}
	return nil
}

// hnsw is an approximate index that is there.
type hnsw struct {
	HNSW
	name       string // of the memory's index
	dimensions int
	kind       string // of its vectors, qualified, with their length
	operators  string // qualified
	iterative  bool
}

// ofIndex is the condition that says which vectors are in the index. It has no
// parameters: the server must see that it holds, whatever they are.
func (h *hnsw) ofIndex() string {
	return fmt.Sprintf("v.name = %s AND array_length(v.vector, 1) = %d", literal(h.name), h.dimensions)
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// makeHNSW makes the index, unless it is there, and drops one with other settings.
func (s *kept) makeHNSW(ctx context.Context, o Options) (*hnsw, error) {
	bad := func(what, fix string) error {
		return &Error{Package: "memory/postgres", Op: "open", Place: s.db.Server, Kind: ErrNoHNSW, What: what, Fix: fix + ", or leave Options.HNSW out"}
	}
	version := -1
	err := s.db.QueryRow(ctx, `SELECT `+versionSQL+` FROM pg_extension e WHERE e.extname = 'vector'`).Scan(&version)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, bad("the database lacks the extension pgvector", "run CREATE EXTENSION vector in it")
	case err != nil:
		return nil, err
	case version < hnswVersion:
		return nil, bad("pgvector is older than 0.5", "install a newer one and run ALTER EXTENSION vector UPDATE")
	}
	h := &hnsw{HNSW: o.HNSW.withDefaults(), name: o.Index.Name, dimensions: o.Index.Embedder.Dimensions(), iterative: version >= iterative}
	kind := "vector"
	if h.dimensions > maxHNSW {
		kind = "halfvec"
		if version < 7 {
			return nil, bad(fmt.Sprintf("pgvector before 0.7 takes %d dimensions, not %d", maxHNSW, h.dimensions), "update pgvector")
		}
	}
	h.kind, h.operators = fmt.Sprintf("%s.%s(%d)", s.vector, kind, h.dimensions), s.vector+"."+kind+"_cosine_ops"
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", h.dimensions, h.name))
	all := hnswPrefix + hex.EncodeToString(sum[:8]) + "_"
	index := fmt.Sprint(all, h.M, "_", h.EfConstruction)
	const there = `SELECT coalesce(array_agg(c.relname::text), '{}') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1::text AND starts_with(c.relname::text, $2::text)`
	var have []string
	if err := s.db.QueryRow(ctx, there, s.db.Schema, all).Scan(&have); err != nil || len(have) == 1 && have[0] == index {
		return h, err
	}
	return h, pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		// Programs that start at once make it once.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))`, "superstep "+s.db.Quoted+"."+all); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, there, s.db.Schema, all).Scan(&have); err != nil {
			return err
		}
		for _, other := range have {
			if other != index {
				if _, err := tx.Exec(ctx, `DROP INDEX `+s.db.Quoted+`.`+other); err != nil {
					return err
				}
			}
		}
		_, err := tx.Exec(ctx, in(s.db.Quoted, fmt.Sprintf(`CREATE INDEX IF NOT EXISTS %s ON @.superstep_memory_vectors USING hnsw ((vector::%s) %s) WITH (m = %d, ef_construction = %d) WHERE %s`,
			index, h.kind, h.operators, h.M, h.EfConstruction, strings.ReplaceAll(h.ofIndex(), "v.", ""))))
		return err
	})
}

// near writes the query for the items of the n nearest vectors, and how many vectors
// these were.
func (s *kept) near(p *memory.PreparedSearch, n int) *query {
	var q query
	exact := s.vector + ".vector"
	to := q.arg(p.Vector, "real[]")
	q.WriteString(in(s.db.Quoted, `WITH near AS MATERIALIZED (SELECT i.id, i.version, v.vector FROM @.superstep_memory_vectors v JOIN @.superstep_memory_items i ON i.id = v.item`))
	q.where(s.now(), p.Prefix, p.Exact, p.Filter)
	fmt.Fprintf(&q, ` AND %s ORDER BY v.vector::%s OPERATOR(%s.<=>) %s::%s LIMIT %d), `, s.hnsw.ofIndex(), s.hnsw.kind, s.vector, to, s.hnsw.kind, n)
	fmt.Fprintf(&q, `best AS MATERIALIZED (SELECT near.id, max(1 - (near.vector::%s OPERATOR(%s.<=>) %s::%s)) AS score FROM near GROUP BY near.id) `, exact, s.vector, to, exact)
	q.WriteString(in(s.db.Quoted, `SELECT `+columns+`, greatest(-1, least(1, best.score)), (SELECT count(*) FROM near) FROM best JOIN @.superstep_memory_items i USING (id)
		ORDER BY best.score DESC, i.version DESC`))
	return &q
}

// rankedNear finds items whose vectors are among the nearest, by the index. It returns
// false if that doesn't give as many as are asked for: then all must be compared.
func (s *kept) rankedNear(ctx context.Context, p *memory.PreparedSearch) (rows []row, enough bool, err error) {
	want := p.Offset + p.Limit
	if p.Limit < 0 || want > maxEf {
		return nil, false, nil
	}
	err = s.tx(ctx, pgx.ReadCommitted, func(tx pgx.Tx) error {
		settings := map[string]string{"hnsw.ef_search": fmt.Sprint(max(s.hnsw.EfSearch, want))}
		if s.hnsw.iterative {
			settings["hnsw.iterative_scan"] = "relaxed_order"
		}
		for name, value := range settings {
			if _, err := tx.Exec(ctx, `SELECT set_config($1::text, $2::text, true)`, name, value); err != nil {
				return err
			}
		}
		// An item has as many vectors as it has texts.
		for n := want; ; n = min(4*n, maxEf) {
			q := s.near(p, n)
			got, err := tx.Query(ctx, q.String(), q.args...)
			if err != nil {
				return err
			}
			seen := 0
			rows, err = pgx.CollectRows(got, func(from pgx.CollectableRow) (row, error) {
				var score float64
				r, err := scan(from, &score, &seen)
				r.item.Score = score
				return r, err
			})
			enough = err == nil && len(rows) >= want
			if err != nil || enough || seen < n || n == maxEf {
				return err
			}
		}
	})
	if !enough || err != nil {
		return nil, false, err
	}
	return rows[p.Offset:want], true, nil
}
