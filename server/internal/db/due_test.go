package db

import (
	"testing"
	"time"
)

func TestWhatIsDueNextIsKnown(t *testing.T) {
	stores(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		cron, expiry, webhook, err := d.NextDue(ctx)
		if err != nil || !cron.IsZero() || !expiry.IsZero() || !webhook.IsZero() {
			t.Fatalf("of nothing %v, %v and %v are due: %v", cron, expiry, webhook, err)
		}
		at := time.Now().Truncate(time.Microsecond)
		later, soon := at.Add(2*time.Hour), at.Add(time.Hour)
		owner := "u"
		for id, next := range map[string]*time.Time{"never": nil, "later": &later, "soon": &soon} {
			if err := d.AddCron(ctx, &Cron{ID: id, UserID: &owner, Next: next, Enabled: next != nil}); err != nil {
				t.Fatal(err)
			}
			th := thread(id, owner)
			if next != nil {
				th.ExpiresAt = *next
			}
			if err := d.AddThread(ctx, th); err != nil {
				t.Fatal(err)
			}
			if err := d.AddWebhook(ctx, &Webhook{ID: id}); err != nil {
				t.Fatal(err)
			}
			if err := d.WebhookLater(ctx, id, time.Hour, 1); err != nil {
				t.Fatal(err)
			}
		}
		cron, expiry, webhook, err = d.NextDue(ctx)
		if err != nil || !cron.Equal(soon) || !expiry.Equal(soon) {
			t.Errorf("%v and %v are due, want %v: %v", cron, expiry, soon, err)
		}
		if webhook.Before(at.Add(time.Hour-time.Minute)) || webhook.After(time.Now().Add(time.Hour+time.Minute)) {
			t.Errorf("a webhook is due at %v", webhook)
		}
	})
}

func TestInstancesAreKnownWithAndWithoutRuns(t *testing.T) {
	stores(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		if err := d.AddThread(ctx, thread("t", "")); err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		for _, r := range []*Run{
			{ID: "a", ThreadID: "t", CreatedAt: at, UpdatedAt: at, StartsAt: at, Status: Pending, Holder: "me"},
			{ID: "b", ThreadID: "t", CreatedAt: at, UpdatedAt: at, StartsAt: at, Status: Pending, Holder: "left"},
		} {
			if err := d.AddRun(ctx, NewRun{Run: r, Limit: unlimited}); err != nil {
				t.Fatal(err)
			}
		}
		for _, instance := range []string{"me", "idle"} {
			if err := d.Beat(ctx, instance); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Stop(ctx, "a", 2); err != nil {
			t.Fatal(err)
		}
		if died, err := d.Leave(ctx, "idle", time.Hour); died || err != nil {
			t.Errorf("one that gave a sign of life is dead: %v", err)
		}
		stops, lives, err := d.Look(ctx, "me", time.Hour)
		if err != nil || len(stops) != 1 || stops["a"] != 2 {
			t.Errorf("to be stopped are %v, %v", stops, err)
		}
		if left, ok := lives["left"]; len(lives) != 3 || !ok || left > 0 || lives["me"] <= 0 || lives["idle"] <= 0 || lives["idle"] > time.Hour {
			t.Errorf("they live for %v", lives)
		}
	})
}
