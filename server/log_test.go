package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/server"
)

// ended runs a run to its end and returns its ID and its thread's, which nobody uses then.
func ended(t *testing.T, s *server.Server, user string) (run, thread string) {
	t.Helper()
	body := `{"assistant_id":"bulky","input":{},"on_completion":"keep"}`
	w := quick(t.Context(), s, "POST", "/runs/wait", body, "X-Test-User", user)
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	place := strings.Split(w.Header().Get("Location"), "/") // /runs/ID/join
	run = place[2]
	for server.FeedsInUse(s) > 0 { // who waits is told before the server is done with it
		time.Sleep(time.Millisecond)
	}
	for _, one := range server.Logs(s) {
		if one.Run == run {
			thread = one.Thread
		}
	}
	return run, thread
}

func kept(s *server.Server) (runs []string, bytes int) {
	for _, one := range server.Logs(s) {
		runs, bytes = append(runs, one.Run), bytes+one.Size
	}
	return runs, bytes
}

func TestLogsOfRunsThatEndedFirstGoFirst(t *testing.T) {
	const size = 10_000
	s := calm(t, server.Graph(bulky(t, 4, size)), server.WithLimits(server.Limits{Logs: 20 * size, LogsPerUser: -1}))
	var runs []string
	for range 20 {
		run, _ := ended(t, s, "")
		runs = append(runs, run)
	}
	left, bytes := kept(s)
	if bytes > 20*size+20*size/64+5*size || len(left) == 0 || len(left) == len(runs) {
		t.Fatalf("%d logs of %d bytes are kept", len(left), bytes)
	}
	for _, run := range left {
		if !slices.Contains(runs[len(runs)-len(left):], run) {
			t.Errorf("run %s is kept, which ended before others", run)
		}
	}
	// Who comes later is told.
	if got := okay(t, s, "GET", "/runs/"+runs[0]+"/join", ""); !strings.Contains(got, `"n":4`) {
		t.Errorf("of a run without log it is said %.100s", got)
	}
	if got := okay(t, s, "GET", "/runs/"+runs[0]+"/stream", ""); got != ": the run is over, and its events are not kept any more\n" {
		t.Errorf("of a run without log %.100s is streamed", got)
	}
}

func TestAUsersLogsDisplaceNoOthers(t *testing.T) {
	const size = 10_000
	s := calm(t, server.Graph(bulky(t, 4, size)), server.Authenticate(byHeader), server.WithLimits(server.Limits{Logs: 40 * size, LogsPerUser: 20 * size}))
	modest, _ := ended(t, s, "ada")
	for range 20 {
		ended(t, s, "bob")
	}
	server.Sweep(s)
	left, bytes := kept(s)
	if !slices.Contains(left, modest) || bytes > 26*size {
		t.Errorf("%d logs of %d bytes are kept, ada's among them: %t", len(left), bytes, slices.Contains(left, modest))
	}
}

func TestAThreadThatIsRemovedTakesItsLogsAlong(t *testing.T) {
	s := calm(t, server.Graph(bulky(t, 4, 10_000)))
	run, thread := ended(t, s, "")
	other, _ := ended(t, s, "")
	if w := quick(t.Context(), s, "DELETE", "/threads/"+thread, ""); w.Code != 204 {
		t.Fatal(w.Code, w.Body)
	}
	if left, _ := kept(s); fmt.Sprint(left) != "["+other+"]" {
		t.Errorf("%v are kept; %s was removed", left, run)
	}
}

func TestALogThatIsTooLargeLosesItsOldestEvents(t *testing.T) {
	const size = 10_000
	for _, limits := range []server.Limits{{Log: 5 * size}, {Logs: 5 * size}} {
		s := calm(t, server.Graph(bulky(t, 50, size)), server.WithLimits(limits))
		w := quick(t.Context(), s, "POST", "/threads", "{}")
		if w.Code != 200 {
			t.Fatal(w.Code)
		}
		run, _ := ended(t, s, "")
		if _, bytes := kept(s); bytes > 7*size {
			t.Errorf("%+v: %d bytes are kept", limits, bytes)
		}
		w = quick(t.Context(), s, "GET", "/runs/"+run+"/stream", "", "Last-Event-ID", "-1")
		if limits.Log > 0 && (strings.Contains(w.Body.String(), `"n":1,`) || !strings.Contains(w.Body.String(), `"n":50,`)) {
			t.Errorf("%d bytes are streamed", w.Body.Len())
		}
	}
}

// sweeping is a memory that tells when it is swept.
type sweeping struct {
	memory.Store
	swept chan struct{}
}

func (s *sweeping) Sweep(ctx context.Context) (int, error) {
	select {
	case s.swept <- struct{}{}:
	default:
	}
	return s.Store.Sweep(ctx)
}

func TestAServerSweepsItsLongTermMemory(t *testing.T) {
	items, err := memory.NewInMemory(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	m := &sweeping{items, make(chan struct{}, 1)}
	calm(t, server.UseMemory(m))
	within(t, "it is swept", m.swept)
}
