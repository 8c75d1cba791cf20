package pgdb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Wire carries texts between those that use the same tables, by NOTIFY and LISTEN.
type Wire struct {
	db      *DB
	channel string
}

// Wire returns the wire of a name.
func (d *DB) Wire(name string) *Wire {
	place := sha256.Sum256([]byte(d.Schema + "\x00" + name)) // identifiers are short
	return &Wire{d, "superstep_" + hex.EncodeToString(place[:12])}
}

// Send notifies in a transaction of its own: transactions that notify wait for one another
// when they commit. This one has nothing to flush, and is over at once.
func (w *Wire) Send(ctx context.Context, text string) error {
	_, err := w.db.Exec(ctx, `SELECT pg_notify($1::text, $2::text)`, w.channel, text)
	return err
}

const receiver = "superstep" // of a connection's notes

// handOn gives a note to who receives on a connection. Behind a pooler a note may come to
// whoever has a connection at the moment on which somebody listened before: pgx would keep
// them for one who asks, and nobody does.
func handOn(c *pgconn.PgConn, n *pgconn.Notification) {
	if got, ok := c.CustomData()[receiver].(func(string)); ok {
		got(n.Payload)
	}
}

// quiet is after which time without texts the connection is looked after.
const quiet = 30 * time.Second

// Receive has a connection of its own, beside those of the pool.
func (w *Wire) Receive(ctx context.Context, up func(), got func(text string)) error {
	pooled, err := w.db.Acquire(ctx)
	if err != nil {
		return err
	}
	c := pooled.Hijack()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	}()
	c.PgConn().CustomData()[receiver] = got
	if _, err := c.Exec(ctx, `LISTEN `+pgx.Identifier{w.channel}.Sanitize()); err != nil {
		return err
	}
	up()
	// Nothing is cut off by it: the connection waits. It is told goodbye still.
	defer context.AfterFunc(ctx, func() { _ = c.PgConn().Conn().SetReadDeadline(time.Now()) })()
	for {
		wait, cancel := context.WithTimeout(ctx, quiet)
		note, err := c.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil && note == nil: // handed on
		case err == nil:
			got(note.Payload)
		case ctx.Err() != nil || !pgconn.Timeout(err):
			return err
		default:
			wait, cancel := context.WithTimeout(ctx, quiet)
			err := c.Ping(wait)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}
