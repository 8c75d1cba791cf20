package db

import (
	"context"
	"time"
)

// Webhook is a call that has to be made.
type Webhook struct {
	ID    string // of the run, which has one
	URL   string
	Data  []byte
	Tries int // those before this one
}

func (d *DB) addWebhook(ctx context.Context, tx execer, w *Webhook) error {
	_, err := d.exec(ctx, tx, `INSERT INTO @superstep_webhooks (id, due, tries, url, data) VALUES (?, `+d.now()+`, 0, ?, ?) ON CONFLICT DO NOTHING`, w.ID, w.URL, string(w.Data))
	return err
}

// AddWebhook has a call made.
func (d *DB) AddWebhook(ctx context.Context, w *Webhook) error { return d.addWebhook(ctx, d.sql, w) }

// DueWebhooks returns calls that are due. They are the caller's for a time; if it
// hasn't said by then what came of them, they are due again.
func (d *DB) DueWebhooks(ctx context.Context, lease time.Duration, limit int) ([]*Webhook, error) {
	var out []*Webhook
	err := d.tx(ctx, func(tx execer) error {
		skip := ""
		if d.pool != nil {
			skip = " FOR UPDATE SKIP LOCKED"
		}
		rows, err := tx.QueryContext(ctx, d.bind(`UPDATE @superstep_webhooks SET due = `+d.now()+` + ?, tries = tries + 1 WHERE id IN (
			SELECT id FROM @superstep_webhooks WHERE due <= `+d.now()+` ORDER BY due LIMIT ?`+skip+`) RETURNING id, url, data, tries`), lease.Microseconds(), limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			w := new(Webhook)
			if err := rows.Scan(&w.ID, &w.URL, &w.Data, &w.Tries); err != nil {
				return err
			}
			w.Tries--
			out = append(out, w)
		}
		return rows.Err()
	})
	return out, err
}

// AnyWebhook reports whether a call is due.
func (d *DB) AnyWebhook(ctx context.Context) (bool, error) {
	var n int
	err := d.reads.QueryRowContext(ctx, d.bind(`SELECT count(*) FROM (SELECT 1 FROM @superstep_webhooks WHERE due <= `+d.now()+` LIMIT 1) AS found`)).Scan(&n)
	return n > 0, err
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
