package db

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// did is a run as a test knows it.
type did struct {
	Run
	thread *Thread
	graph  string
	at     int64
}

// Whatever is asked for is what a look at each run finds, newest first, whole in pages, and
// what the figures are of.
func TestASearchFindsTheRunsThatAreMeant(t *testing.T) { stores(t, searched) }

func searched(t *testing.T, d *DB) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	began := time.UnixMilli(1_700_000_000_000)
	owners := []string{`"ann"`, `"bea"`, `["ann","cem"]`, `null`, fmt.Sprintf("%q", strings.Repeat("x", maxOwner+1))}
	errs := []string{"100% of it: no", "1000 of it", `C:\temp_dir`, "Überlast", strings.Repeat("ü", maxError)}
	var all []*did
	threads := map[string]*Thread{}
	for i := range 30 {
		th := thread(fmt.Sprintf("t%d", i), "")
		th.Metadata = json.RawMessage(fmt.Sprintf(`{"graph_id":%q,"owner":%s}`, pick("g", "h"), pick(owners...)))
		if err := d.AddThread(t.Context(), th); err != nil {
			t.Fatal(err)
		}
		threads[th.ID] = th
	}
	for i := range 300 {
		one := &did{Run: Run{
			ID: fmt.Sprintf("r%03d", r.IntN(1000)*1000+i), ThreadID: fmt.Sprintf("t%d", r.IntN(30)), AssistantID: pick("a", "b"), Status: Pending,
			CreatedAt: began.Add(time.Duration(r.IntN(100)) * time.Second),
		}}
		one.thread = threads[one.ThreadID]
		one.graph, _, _ = one.thread.labels()
		one.Owner = pick("", "ann", "bea")
		limit := unlimited
		limit.Owner = one.Owner
		if err := d.AddRun(t.Context(), NewRun{Run: &one.Run, Limit: limit}); err != nil {
			t.Fatal(err)
		}
		_, err := d.UpdateRun(t.Context(), one.ID, "", func(run *Run) error {
			run.Status = pick(Pending, Running, Success, Success, Success, Failed, Timeout, Interrupted)
			if run.Status == Failed || run.Status == Timeout {
				run.Error = &RunError{"Error", pick(errs...)}
			}
			if run.Status != Pending {
				run.StartedAt = one.CreatedAt.Add(time.Second)
			}
			if run.Ended() {
				run.EndedAt = run.StartedAt.Add(time.Duration(r.IntN(5000)) * time.Millisecond)
			}
			if run.Ended() && r.IntN(3) > 0 { // else it was before that was noted
				run.Usage = &Usage{Input: r.IntN(3) * 1000, Output: r.IntN(3) * 100}
				if r.IntN(3) > 0 {
					run.Cost = new(float64(run.Usage.Input+run.Usage.Output) / 1024)
				}
			}
			one.Status, one.Error, one.StartedAt, one.EndedAt, one.Usage, one.Cost = run.Status, run.Error, run.StartedAt, run.EndedAt, run.Usage, run.Cost
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.sql.QueryRowContext(t.Context(), d.bind(`SELECT created FROM @superstep_runs WHERE id = ?`), one.ID).Scan(&one.at); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	// Threads change hands, and go.
	for _, id := range []string{"t1", "t2", "t3"} {
		th, err := d.UpdateThread(t.Context(), id, func(th *Thread) error {
			th.Metadata = json.RawMessage(fmt.Sprintf(`{"graph_id":"g","owner":%s}`, pick(owners...)))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		*threads[id] = *th
	}
	if _, err := d.RemoveThread(t.Context(), "t4", time.Now(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b *did) int {
		if a.at != b.at {
			return int(b.at - a.at)
		}
		return strings.Compare(b.ID, a.ID)
	})
	found := 0
	for i := range 400 {
		var f RunFilter
		for p, set := range map[*string]func() string{
			&f.Graph: func() string { return pick("g", "h", "none") }, &f.Assistant: func() string { return pick("a", "b") }, &f.User: func() string { return pick("ann", "bea") },
			&f.Thread: func() string { return fmt.Sprintf("t%d", r.IntN(31)) }, &f.ThreadOwner: func() string { return pick("ann", "bea", "cem") },
			&f.Error: func() string { return pick("100%", "OF IT", "temp_dir", `\`, "überlast", "_", "none") },
		} {
			if r.IntN(4) == 0 {
				*p = set()
			}
		}
		for range r.IntN(3) {
			f.Statuses = append(f.Statuses, pick(Pending, Running, Success, Failed, Timeout, Interrupted))
		}
		if r.IntN(3) == 0 {
			f.From = began.Add(time.Duration(r.IntN(100)) * time.Second)
		}
		if r.IntN(3) == 0 {
			f.Until = began.Add(time.Duration(r.IntN(100)) * time.Second)
		}
		if r.IntN(4) == 0 {
			f.MinTokens = int64(r.IntN(3) * 1000)
		}
		if r.IntN(4) == 0 {
			f.MinCost = float64(r.IntN(3))
		}
		mine := func(th *Thread) bool {
			return f.ThreadOwner == "" || strings.Contains(string(th.Metadata), `"`+f.ThreadOwner+`"`)
		}
		var want []string
		runs, failed, tokens, cost := 0, 0, int64(0), 0.0
		for _, one := range all {
			text := ""
			if one.Error != nil {
				text = strings.ToLower(one.Error.Error + ": " + one.Error.Message)
			}
			if f.Graph != "" && f.Graph != one.graph || f.Assistant != "" && f.Assistant != one.AssistantID || f.User != "" && f.User != one.Owner ||
				f.Thread != "" && f.Thread != one.ThreadID || !strings.Contains(text, strings.ToLower(f.Error)) || len(f.Statuses) > 0 && !slices.Contains(f.Statuses, one.Status) ||
				!f.From.IsZero() && one.at < f.From.UnixMicro() || !f.Until.IsZero() && one.at >= f.Until.UnixMicro() || !mine(one.thread) || one.ThreadID == "t4" {
				continue
			}
			used := int64(0)
			if one.Usage != nil {
				used = int64(one.Usage.Input + one.Usage.Output)
			}
			if used < f.MinTokens || f.MinCost > 0 && (one.Cost == nil || *one.Cost < f.MinCost) {
				continue
			}
			want = append(want, one.ID)
			runs++
			tokens += used
			if one.Cost != nil {
				cost += *one.Cost
			}
			if one.Status == Failed || one.Status == Timeout {
				failed++
			}
		}
		found += runs
		var got []string
		limit, cursor := 1+r.IntN(40), ""
		for page := 0; page == 0 || cursor != ""; page++ {
			some, next, err := d.FindRuns(t.Context(), f, cursor, limit, mine)
			if err != nil {
				t.Fatalf("%d: %+v: %v", i, f, err)
			}
			if next != "" && len(some) != limit {
				t.Errorf("%d: a page of %d has %d", i, limit, len(some))
			}
			for _, run := range some {
				got = append(got, run.ID)
			}
			cursor = next
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d: %+v: found are %v, not %v", i, f, got, want)
		}
		parts, err := d.RunFigures(t.Context(), f, 7*time.Second, 1000, mine)
		if err != nil {
			t.Fatalf("%d: %+v: %v", i, f, err)
		}
		for n, p := range parts {
			runs, failed = runs-p.Runs, failed-p.Failed
			if p.Input != nil {
				tokens -= *p.Input + *p.Output
			}
			if p.Cost != nil {
				cost -= *p.Cost
			}
			if n > 0 && !parts[n-1].From.Before(p.From) || p.From.UnixMilli()%7000 != 0 || p.P50 > p.P95 {
				t.Errorf("%d: figures are %+v", i, p)
			}
		}
		if runs != 0 || failed != 0 || tokens != 0 || cost != 0 {
			t.Errorf("%d: %+v: of %d runs the figures lack %d, and %d that failed, %d tokens, and %v of the cost", i, f, len(want), runs, failed, tokens, cost)
		}
	}
	if found < 1000 {
		t.Errorf("only %d runs were found", found)
	}
	if _, err := d.RunFigures(t.Context(), RunFilter{}, time.Second, 3, nil); !errors.Is(err, ErrTooFine) {
		t.Errorf("too many figures: %v", err)
	}
	for _, cursor := range []string{"x", "1", "x.y", "1.\x00"} {
		if _, _, err := d.FindRuns(t.Context(), RunFilter{}, cursor, 1, nil); !errors.Is(err, ErrCursor) {
			t.Errorf("the cursor %q: %v", cursor, err)
		}
	}
}

func TestPercentilesAreOfRunsThatHaveEnded(t *testing.T) {
	took := map[int64]int{}
	if p := percentile(took, 50); p >= 0 {
		t.Errorf("of none it is %v", p)
	}
	for i := range int64(100) {
		took[rounded((i+1)*123_456)]++
	}
	if p50, p95 := percentile(took, 50), percentile(took, 95); p50 != 6170*time.Millisecond || p95 != 11700*time.Millisecond {
		t.Errorf("they are %v and %v", p50, p95)
	}
	if p := percentile(map[int64]int{1000: 19, 2000: 1}, 95); p != time.Millisecond {
		t.Errorf("of twenty it is %v", p)
	}
}
