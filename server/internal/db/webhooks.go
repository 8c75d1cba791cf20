package db

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Webhook is a call that has to be made.
type Webhook struct {
	ID    string // of the run, which has one
	Owner string // the user whose run it was; empty if there was none
	URL   string
	Data  []byte
	Tries int // those before this one
}

func (d *DB) addWebhook(ctx context.Context, tx execer, w *Webhook) error {
	_, err := d.exec(ctx, tx, `INSERT INTO @superstep_webhooks (id, owner, due, tries, url, data) VALUES (?, ?, `+d.now()+`, 0, ?, ?) ON CONFLICT DO NOTHING`, w.ID, w.Owner, w.URL, string(w.Data))
	return err
}

// AddWebhook has a call made.
func (d *DB) AddWebhook(ctx context.Context, w *Webhook) error { return d.addWebhook(ctx, d.sql, w) }

// DueWebhooks returns calls that are due, of all owners in turns if there are more
// than the limit, and of each at most as many as most says. They are the caller's for
// a time; if it hasn't said by then what came of them, they are due again.
func (d *DB) DueWebhooks(ctx context.Context, lease time.Duration, limit int, most func(owner string) int) ([]*Webhook, error) {
	at, err := value[int64](ctx, d, d.reads, `SELECT `+d.now())
	if err != nil {
		return nil, err
	}
	ids, err := d.fairly(ctx, d.reads, `@superstep_webhooks`, `due`, at, limit, most)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var out []*Webhook
	err = d.tx(ctx, func(tx execer) error {
		out = nil
		for _, id := range ids {
			w := new(Webhook)
			err := tx.QueryRowContext(ctx, d.bind(`UPDATE @superstep_webhooks SET due = `+d.now()+` + ?, tries = tries + 1
				WHERE id = ? AND due <= `+d.now()+` RETURNING id, owner, url, data, tries`), lease.Microseconds(), id).Scan(&w.ID, &w.Owner, &w.URL, &w.Data, &w.Tries)
			if errors.Is(err, sql.ErrNoRows) { // another instance has it
				continue
			}
			if err != nil {
				return err
			}
			w.Tries--
			out = append(out, w)
		}
		return nil
	})
	return out, err
}

// AnyWebhook reports whether a call is due.
func (d *DB) AnyWebhook(ctx context.Context) (bool, error) {
	n, err := value[int](ctx, d, d.reads, `SELECT count(*) FROM (SELECT 1 FROM @superstep_webhooks WHERE due <= `+d.now()+` LIMIT 1) AS found`)
	return n > 0, err
}

// NextDue returns when the next cron, the next removal of a thread and the next call are due;
// zero: none is.
func (d *DB) NextDue(ctx context.Context) (cron, expiry, webhook time.Time, err error) {
	at := time.Now()
	var c, e, w sql.NullInt64 // the last one from now on
	err = d.reads.QueryRowContext(ctx, d.bind(`SELECT (SELECT min(next) FROM @superstep_crons WHERE next IS NOT NULL),
		(SELECT min(expires) FROM @superstep_server_threads WHERE expires IS NOT NULL), (SELECT min(due) FROM @superstep_webhooks) - `+d.now())).Scan(&c, &e, &w)
	if c.Valid {
		cron = time.UnixMicro(c.Int64)
	}
	if e.Valid {
		expiry = time.UnixMicro(e.Int64)
	}
	if w.Valid {
		webhook = at.Add(time.Duration(w.Int64) * time.Microsecond)
	}
	return cron, expiry, webhook, err
}

// WebhookDone removes a call that was made, or is given up.
func (d *DB) WebhookDone(ctx context.Context, id string) error {
	_, err := d.exec(ctx, d.sql, `DELETE FROM @superstep_webhooks WHERE id = ?`, id)
	return err
}

// WebhookLater has a call made again after a time, and says how often it was tried.
func (d *DB) WebhookLater(ctx context.Context, id string, after time.Duration, tries int) error {
	_, err := d.exec(ctx, d.sql, `UPDATE @superstep_webhooks SET due = `+d.now()+` + ?, tries = ? WHERE id = ?`, after.Microseconds(), tries, id)
	return err
}
