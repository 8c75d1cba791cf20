package db

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"
)

func TestAPageOfALongListInAnOrderThatNoColumnHas(t *testing.T) {
	d := opened(t, "")
	const n = 2500
	for i := range n {
		th := thread(fmt.Sprintf("%04d", i), "")
		th.Metadata = json.RawMessage(`{}`)
		th.ChangedAt = time.Unix(int64(i*7919%n/2), 0) // two have each time
		if err := d.AddThread(t.Context(), th); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		offset, limit, first, shown int
		ascending                   bool
	}{
		{0, 3, 0, 3, true}, {1, 1000, 0, 1000, true}, {n - 3, 10, n/2 - 2, 3, true}, {n, 10, 0, 0, true}, {math.MaxInt, 1000, 0, 0, true}, {5, 0, 0, 0, true},
		{0, 3, n/2 - 1, 3, false}, {n - 1, 3, 0, 1, false},
	} {
		p := Page{Limit: tt.limit, Offset: tt.offset, Ascending: tt.ascending}
		found, total, err := d.Threads(t.Context(), ThreadFilter{}, "state_updated", p, nil)
		if err != nil {
			t.Fatal(err)
		}
		if total != n || len(found) != tt.shown {
			t.Fatalf("%+v: %d of %d", p, len(found), total)
		}
		if tt.shown > 0 && found[0].ChangedAt.Unix() != int64(tt.first) {
			t.Errorf("%+v: the first is of %d, want %d", p, found[0].ChangedAt.Unix(), tt.first)
		}
		for i := 1; i < len(found); i++ {
			a, b := found[i-1], found[i]
			if !tt.ascending {
				a, b = b, a
			}
			if c := a.ChangedAt.Compare(b.ChangedAt); c > 0 || c == 0 && a.ID >= b.ID {
				t.Fatalf("%+v: %s before %s", p, a.ID, b.ID)
			}
		}
	}
	found, total, err := d.Threads(t.Context(), ThreadFilter{}, "state_updated", Page{Limit: 2}, func(th *Thread) bool { return th.ID < "0010" })
	if err != nil || total != 10 || len(found) != 2 {
		t.Errorf("of ten: %d of %d, %v", len(found), total, err)
	}
}
