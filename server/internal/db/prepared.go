package db

import (
	"context"
	"database/sql"
	"sync"
)

// maxPrepared is how many statements are kept prepared. The package has fewer.
const maxPrepared = 200

// prepared is a database that prepares each statement once. It is safe for
// concurrent use. One without a map leaves that to its driver.
type prepared struct {
	*sql.DB

	mu    sync.RWMutex
	known map[string]*sql.Stmt
}

func newPrepared(db *sql.DB) *prepared { return &prepared{DB: db, known: map[string]*sql.Stmt{}} }

// get returns a statement that is prepared; nil if it isn't.
func (p *prepared) get(query string) *sql.Stmt {
	if p.known == nil {
		return nil
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.known[query]
}

// prepare returns a prepared statement; nil if it can't be, which running it will
// explain.
func (p *prepared) prepare(query string) *sql.Stmt {
	if p.known == nil {
		return nil
	}
	if s := p.get(query); s != nil {
		return s
	}
	s, err := p.DB.Prepare(query)
	if err != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.known[query]; other != nil || len(p.known) >= maxPrepared {
		s.Close()
		return other
	}
	p.known[query] = s
	return s
}

func (p *prepared) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s := p.prepare(query); s != nil {
		return s.ExecContext(ctx, args...)
	}
	return p.DB.ExecContext(ctx, query, args...)
}

func (p *prepared) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := p.prepare(query); s != nil {
		return s.QueryContext(ctx, args...)
	}
	return p.DB.QueryContext(ctx, query, args...)
}

func (p *prepared) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := p.prepare(query); s != nil {
		return s.QueryRowContext(ctx, args...)
	}
	return p.DB.QueryRowContext(ctx, query, args...)
}

// preparedTx is a transaction that uses what is prepared. What isn't is prepared
// after it: there may be no other connection.
type preparedTx struct {
	*sql.Tx
	of     *prepared
	missed []string
}

func (t *preparedTx) get(ctx context.Context, query string) *sql.Stmt {
	if t.of.known == nil {
		return nil
	}
	s := t.of.get(query)
	if s == nil {
		t.missed = append(t.missed, query)
		return nil
	}
	return t.Tx.StmtContext(ctx, s)
}

func (t *preparedTx) prepare() {
	for _, query := range t.missed {
		t.of.prepare(query)
	}
}

func (t *preparedTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s := t.get(ctx, query); s != nil {
		return s.ExecContext(ctx, args...)
	}
	return t.Tx.ExecContext(ctx, query, args...)
}

func (t *preparedTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := t.get(ctx, query); s != nil {
		return s.QueryContext(ctx, args...)
	}
	return t.Tx.QueryContext(ctx, query, args...)
}

func (t *preparedTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := t.get(ctx, query); s != nil {
		return s.QueryRowContext(ctx, args...)
	}
	return t.Tx.QueryRowContext(ctx, query, args...)
}
