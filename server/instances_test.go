package server_test

import (
	"bufio"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/server"
)

var schemas atomic.Int64

// ownSchema is a place in PostgreSQL that no other test has.
func ownSchema(t testing.TB) string {
	t.Helper()
	url := servertest.Postgres(t)
	join := "?"
	if strings.Contains(url, "?") {
		join = "&"
	}
	return fmt.Sprintf("%s%sschema=test_%d_%d", url, join, os.Getpid(), schemas.Add(1))
}

// quiet is a log that nobody reads.
func quiet() server.Option { return server.Logger(slog.New(slog.DiscardHandler)) }

// pair is two servers on one database.
func pair(t *testing.T, opts ...server.Option) (a, b client) {
	t.Helper()
	url := ownSchema(t)
	opts = append([]server.Option{server.Data(url), server.Graph(booking(t)), server.Graph(slow(t)), quiet()}, opts...)
	return start(t, opts...), start(t, opts...)
}

func increasing(t *testing.T, list []told) {
	t.Helper()
	for i, e := range list {
		if e.ID != e.wantID() || i > 0 && e.Seq <= list[i-1].Seq {
			t.Errorf("event %d has the ID %s and the number %d, after %d", i, e.ID, e.Seq, list[max(0, i-1)].Seq)
		}
	}
}

// counted checks that each superstep of a run of the graph slow is told of once, in
// order.
func counted(t *testing.T, list []told, n int) {
	t.Helper()
	next := map[string]int{"values": 0, "updates": 1, "checkpoints": 0}
	for _, e := range list {
		if len(e.Params.Namespace) > 0 || next[e.Method] == 0 && e.Method != "values" && e.Method != "checkpoints" {
			continue
		}
		at := e.data()["done"]
		if e.Method == "checkpoints" {
			at = e.data()["step"]
		}
		if at != float64(next[e.Method]) {
			t.Errorf("%s of superstep %v come when those of %d are due", e.Method, at, next[e.Method])
			return
		}
		next[e.Method]++
	}
	for what, got := range next {
		if got != n+1 {
			t.Errorf("%s of %d supersteps, want %d", what, got-1, n)
		}
	}
}

// Notes come over a connection that may be lost, while those of the pool are not.
func TestWhoFollowsMissesNothingWhenTheConnectionThatListensIsLost(t *testing.T) {
	t.Parallel()
	pg := servertest.OwnPostgres(t)
	opts := []server.Option{server.Data(pg.URL()), server.Graph(slow(t)), quiet()}
	a, b := start(t, opts...), start(t, opts...)
	c, err := pgx.Connect(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	thread := newThread()
	streams := []*events{a.follow(thread, everything), b.follow(thread, everything)}
	for range 4 {
		a.must(thread, "run.start", object{"assistant_id": "slow", "input": object{"todo": 20}})
		killed := false // while the run is told of
		var all [2][]told
		for i, s := range streams {
			all[i] = s.until(func(e told) bool {
				if !killed {
					var n int
					if err := c.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`).Scan(&n); err != nil {
						t.Fatal(err)
					}
					killed = n > 0
				}
				return e.ending()
			})
			increasing(t, all[i])
		}
		if got, want := lines(all[1]), lines(all[0]); got != want {
			t.Errorf("at the other instance are seen\n%s\nwant\n%s", got, want)
		}
	}
}

// Whoever waits for what is new asks for nothing.
func TestFeedsThatAreFollowedAreNotAskedForAgainAndAgain(t *testing.T) {
	t.Parallel()
	pg := servertest.OwnPostgres(t)
	opts := []server.Option{server.Data(pg.URL()), server.Graph(slow(t)), quiet()}
	a, b := start(t, opts...), start(t, opts...)
	thread := newThread()
	streams := []*events{a.follow(thread, everything), b.follow(thread, everything)}
	a.must(thread, "run.start", object{"assistant_id": "slow", "input": object{"todo": 1}})
	for _, s := range streams {
		s.until(told.ending)
	}
	c, err := pgx.Connect(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	scans := func() (n int) {
		t.Helper()
		if err := c.QueryRow(t.Context(), `SELECT seq_scan + idx_scan FROM pg_stat_user_tables WHERE relname = 'superstep_feeds'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	quiet := false // once they listen
	for i := 0; i < 20 && !quiet; i++ {
		before := scans()
		time.Sleep(3 * time.Second)
		quiet = scans()-before <= 20 // some of sweeping; two instances that ask make 120
	}
	if !quiet {
		t.Error("they are asked for again and again")
	}
}

func TestAThreadIsFollowedFromAnyInstance(t *testing.T) {
	a, b := pair(t)
	thread := newThread()
	streams := []*events{a.follow(thread, everything), b.follow(thread, everything)}
	p := b.dial(thread)
	p.command("subscription.subscribe", everything)
	var all [3][]told
	for _, at := range []client{a, b, a} {
		at.must(thread, "run.start", object{"assistant_id": "slow", "input": object{"todo": 3}})
		for i, s := range streams {
			all[i] = append(all[i], s.until(told.ending)...)
		}
		all[2] = append(all[2], p.until(told.ending)...)
	}
	for i := range all {
		increasing(t, all[i])
		if got, want := lines(all[i]), lines(all[0]); got != want || len(all[i]) < 30 {
			t.Errorf("reader %d saw\n%s\nwant\n%s", i, got, want)
		}
		if all[i][len(all[i])-1].Seq != all[0][len(all[0])-1].Seq {
			t.Errorf("reader %d: other numbers", i)
		}
	}
	// Whoever comes later, or comes back to another instance, misses nothing.
	half := len(all[0]) / 2
	for _, at := range []client{a, b} {
		back := object{"channels": everything["channels"], "since": all[0][half].Seq}
		rest := at.follow(thread, back).until(func(e told) bool { return e.Seq == all[0][len(all[0])-1].Seq })
		if got, want := lines(rest), lines(all[0][half+1:]); got != want {
			t.Errorf("after event %d come\n%s\nwant\n%s", half, got, want)
		}
	}
	tree := b.must(thread, "agent.getTree", nil)["tree"].(object)
	if tree["status"] != "completed" || tree["graph_name"] != "slow" {
		t.Errorf("the tree is %v", tree)
	}
	if got, want := b.command(thread, "state.get", nil).Meta.Through, all[0][len(all[0])-1].Seq; got != want {
		t.Errorf("through is %d, want %d", got, want)
	}
}

func TestARunThatNoCommandStartedIsToldToFollowersElsewhere(t *testing.T) {
	a, b := pair(t)
	thread := newThread()
	s := b.follow(thread, everything)
	call[any](a, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "slow", "input": object{"todo": 2}, "if_not_exists": "create"})
	list := s.until(told.ending)
	if got := lines(list); !strings.HasPrefix(got, "lifecycle running\n") || strings.Count(got, "custom tick") != 2 {
		t.Errorf("events:\n%s", got)
	}
}

// joined returns the names of the events that a reader of a thread's runs sees, up
// to the end of one.
func (c client) joined(t *testing.T, thread, query string, begun chan<- struct{}) (names []string) {
	resp, err := http.Get(c.url + "/threads/" + thread + "/stream?" + query)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer resp.Body.Close()
	begun <- struct{}{}
	in := bufio.NewScanner(resp.Body)
	for in.Scan() {
		if name, ok := strings.CutPrefix(in.Text(), "event: "); ok {
			names = append(names, name)
		}
		if strings.Contains(in.Text(), "run_done") || strings.Contains(in.Text(), `"state":`) {
			return names
		}
	}
	return names
}

func TestTheRunsOfAThreadAreJoinedFromAnyInstance(t *testing.T) {
	a, b := pair(t)
	thread := call[object](a, "POST", "/threads", object{})["thread_id"].(string)
	begun, names := make(chan struct{}), make(chan []string)
	go func() { names <- b.joined(t, thread, "stream_mode=run_modes", begun) }()
	<-begun
	call[any](a, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "slow", "input": object{"todo": 2}, "stream_mode": "custom"})
	if got := strings.Join(<-names, " "); got != "metadata custom custom metadata" {
		t.Errorf("events: %s", got)
	}
	go func() { names <- b.joined(t, thread, "stream_mode=state_update", begun) }()
	<-begun
	call[any](a, "POST", "/threads/"+thread+"/state", object{"values": object{"todo": 9}})
	if got := strings.Join(<-names, " "); got != "state_update" {
		t.Errorf("events: %s", got)
	}
}

func TestARemovedThreadLeavesNoEventsAnywhere(t *testing.T) {
	a, b := pair(t)
	thread := newThread()
	s := b.follow(thread, everything)
	a.must(thread, "run.start", object{"assistant_id": "slow", "input": object{"todo": 1}})
	s.until(told.ending)
	if status, _, text := a.do("DELETE", "/threads/"+thread, nil); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, text)
	}
	for _, at := range []client{a, b} {
		if answer, _ := at.dial(thread).command("subscription.subscribe", everything); answer.Result["replayed_events"] != 0.0 {
			t.Errorf("replayed: %+v", answer)
		}
	}
}

// A run goes on elsewhere when its server drains. Its followers see one end.
func TestFollowersSeeARunMoveToAnotherInstance(t *testing.T) {
	opts := []server.Option{server.Data(ownSchema(t)), server.Graph(slow(t)), quiet()}
	first, h, a := begun(t, opts...)
	b := start(t, opts...)
	thread := newThread()
	s := b.follow(thread, everything)
	a.must(thread, "run.start", object{"assistant_id": "slow", "input": object{"todo": 30}})
	list := s.until(func(e told) bool { return e.Method == "custom" })
	h.CloseClientConnections()
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Close()
	list = append(list, s.until(told.ending)...)
	increasing(t, list)
	if got := list[len(list)-1].data()["event"]; got != "completed" {
		t.Errorf("the end is %v", got)
	}
	if got := strings.Count(lines(list), "lifecycle running"); got != 2 {
		t.Errorf("the run begins %d times, want twice", got)
	}
	values := call[object](b, "GET", "/threads/"+thread+"/state", nil)["values"].(object)
	if values["done"] != 30.0 {
		t.Errorf("it ends with %v", values)
	}
}

// Runs that reach two instances at the same moment take turns, in the order in which
// they were added.
func TestRunsOfAThreadTakeTurnsWhereverTheyAre(t *testing.T) {
	a, b := pair(t)
	thread := call[object](a, "POST", "/threads", object{})["thread_id"].(string)
	const n = 30
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() {
			at := []client{a, b}[i%2]
			status, _, text := at.do("POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "slow", "input": object{"todo": 1}})
			if status != 200 || strings.Contains(text, "__error__") {
				t.Errorf("run %d: %d %s", i, status, text)
			}
		})
	}
	done.Wait()
	if got := call[object](a, "GET", "/threads/"+thread+"/state", nil)["values"].(object)["done"]; got != float64(n) {
		t.Errorf("%v runs did something, want %d", got, n)
	}
	thread1 := call[object](a, "GET", "/threads/"+thread, nil)
	if thread1["status"] != "idle" {
		t.Errorf("the thread is %v", thread1["status"])
	}
}

func TestAThousandRunsOfOneThreadTakeTurns(t *testing.T) {
	n := 1000
	if underRace || testing.Short() {
		n = 100
	}
	c := start(t, server.Graph(bulky(t, 1, 10)), quiet())
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	var last any
	for range n {
		last = call[object](c, "POST", "/threads/"+thread+"/runs", object{"assistant_id": "bulky", "input": object{}})["run_id"]
	}
	call[any](c, "GET", fmt.Sprintf("/threads/%s/runs/%v/join", thread, last), nil)
	if got := call[object](c, "GET", "/threads/"+thread+"/state", nil)["values"].(object)["n"]; got != float64(n) {
		t.Errorf("%v runs did something, want %d", got, n)
	}
}

// serveEnv has the test program serve, for tests that kill it: its value is where
// data are.
const serveEnv = "SUPERSTEP_TEST_SERVE"

func serveAlone(data string) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	t := new(helper)
	s, err := server.New(context.Background(), server.Data(data), server.Graph(slow(t)), server.Graph(booking(t)), server.Logger(log),
		server.AllowPrivateWebhooks(), server.Silence(3*time.Second), server.Lease(3*time.Second))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("http://" + l.Addr().String())
	fmt.Println(server.HTTPServer(s).Serve(l))
	os.Exit(1)
}

// helper is a testing.TB for graphs outside of tests.
type helper struct{ testing.TB }

func (*helper) Helper()           {}
func (*helper) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// process is a server in a process of its own.
type process struct {
	client
	cmd *exec.Cmd
	log string
}

func launch(t *testing.T, data string) *process {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), serveEnv+"="+data), log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, log: log.Name()}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			text, _ := os.ReadFile(p.log)
			t.Logf("server %d:\n%s", cmd.Process.Pid, text[max(0, len(text)-3000):])
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(url, "http") {
		t.Fatalf("the server says %q: %v", url, err)
	}
	p.client = client{t, strings.TrimSpace(url)}
	return p
}

func (p *process) signal(sig os.Signal) {
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Error(err)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	http.DefaultClient.CloseIdleConnections()
}

// waitFor waits until something is so.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func (c client) values(thread string) object {
	c.t.Helper()
	v, _ := call[object](c, "GET", "/threads/"+thread+"/state", nil)["values"].(object)
	return v
}

// A server that stood still for longer than it may, so that another one went on
// with its run, changes nothing when it wakes up.
func TestAServerThatStoodStillDisturbsNobody(t *testing.T) {
	if stopSignal == nil {
		t.Skip("NOT TESTED: processes can't be stopped here")
	}
	t.Parallel()
	data := ownSchema(t)
	a, b := launch(t, data), launch(t, data)
	thread := newThread()
	s := b.follow(thread, everything)
	run := a.must(thread, "run.start", object{"assistant_id": "slow", "input": object{"todo": 300}})["run_id"]
	list := s.until(func(e told) bool { return e.Method == "custom" })
	a.signal(stopSignal)
	list = append(list, s.until(func(e told) bool { return e.Method == "lifecycle" })...) // the run begins again
	list = append(list, s.until(func(e told) bool { return e.Method == "custom" })...)
	a.signal(goOnSignal)
	list = append(list, s.until(told.ending)...)
	increasing(t, list)
	counted(t, list, 300)
	if b.values(thread)["done"] != 300.0 {
		t.Errorf("the thread has %v", b.values(thread))
	}
	for _, at := range []client{a.client, b.client} {
		if got := call[object](at, "GET", fmt.Sprintf("/threads/%s/runs/%v", thread, run), nil)["status"]; got != "success" {
			t.Errorf("the run is %v", got)
		}
	}
	// It takes part again.
	if out := call[object](a.client, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "slow", "input": object{"todo": 1}}); out["done"] != 301.0 {
		t.Errorf("after that: %v", out)
	}
}

// What a server committed, and died before it could tell of, is told by the one
// that goes on with its run: to those who follow the thread, to those who have joined
// it and to those who watch the run, each superstep once.
func TestWhatWasCommittedIsToldWhoeverCommittedIt(t *testing.T) {
	t.Run("from the fifth superstep on", func(t *testing.T) { testToldByTheNext(t, `%"done":5%`) })
	t.Run("from the beginning", func(t *testing.T) { testToldByTheNext(t, "%") })
}

// From an event on the first server commits, but tells of nothing.
func testToldByTheNext(t *testing.T, event string) {
	t.Parallel()
	data := ownSchema(t)
	a, b := launch(t, data), launch(t, data)
	url, schema, _ := strings.Cut(data, "schema=")
	conn, err := pgx.Connect(t.Context(), strings.TrimRight(url, "?&"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), strings.ReplaceAll(sql, "@", schema)); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE FUNCTION @.hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$`)
	exec(`CREATE TRIGGER hang BEFORE INSERT ON @.superstep_feed_events FOR EACH ROW WHEN (NEW.data LIKE '` + event + `') EXECUTE FUNCTION @.hang()`)
	thread := call[object](b.client, "POST", "/threads", object{})["thread_id"].(string)
	s := b.follow(thread, everything)
	joined, leave := b.sse("/threads/" + thread + "/stream?stream_mode=run_modes")
	run := call[object](a.client, "POST", "/threads/"+thread+"/runs", object{
		"assistant_id": "slow", "input": object{"todo": 20}, "stream_mode": []string{"values", "updates"},
	})["run_id"]
	watched, _ := b.sse(fmt.Sprintf("/threads/%s/runs/%v/stream", thread, run), "Last-Event-ID", "-1") // all of it, however late it comes
	waitFor(t, "the run is ahead of what is told", func() bool { n, _ := b.values(thread)["done"].(float64); return n > 8 })
	a.kill()
	exec(`CREATE OR REPLACE FUNCTION @.hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$`)
	exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%@%'`)
	list := s.until(told.ending)
	increasing(t, list)
	counted(t, list, 20)
	var got, want []string
	for line := range watched {
		got = append(got, line)
	}
	want = append(want, `values {"todo":20,"done":0,"left":0}`)
	for i := 1; i <= 20; i++ {
		want = append(want, fmt.Sprintf(`updates {"tick":{"done":%d,"left":%d}}`, i, 20-i), fmt.Sprintf(`values {"todo":20,"done":%d,"left":%d}`, i, 20-i))
	}
	if !slices.Equal(got, want) {
		t.Errorf("who watches the run sees\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	path := fmt.Sprintf("/threads/%s/runs/%v/stream", thread, run)
	_, _, whole := b.ask(t.Context(), "GET", path, "", "Last-Event-ID", "-1")
	ids := eventIDs(whole)
	for i, id := range ids {
		if _, _, rest := b.ask(t.Context(), "GET", path, "", "Last-Event-ID", id); !slices.Equal(eventIDs(rest), ids[i+1:]) {
			t.Errorf("after the event %s come %v of %v", id, eventIDs(rest), ids)
		}
	}
	got = nil
	late := time.AfterFunc(patience, leave)
	for line := range joined {
		if got = append(got, line); len(got) == len(want) {
			break
		}
	}
	late.Stop()
	leave()
	if !slices.Equal(got, want) {
		t.Errorf("who has joined the thread sees\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// sse reads a stream: its events but the first ones of runs, a line each.
func (c client) sse(path string, headers ...string) (lines <-chan string, stop func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", c.url+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	for pair := range slices.Chunk(headers, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %s", path, resp.Status)
	}
	out := make(chan string, 1000)
	go func() {
		defer close(out)
		defer resp.Body.Close()
		event := ""
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			if name, ok := strings.CutPrefix(in.Text(), "event: "); ok {
				event = name
			} else if data, ok := strings.CutPrefix(in.Text(), "data: "); ok && event != "metadata" {
				out <- event + " " + data
			}
		}
	}()
	return out, cancel
}

// A run that is cancelled when its server has just died stays cancelled.
func TestARunIsCancelledWhileItIsTakenOver(t *testing.T) {
	t.Parallel()
	data := ownSchema(t)
	a, b := launch(t, data), launch(t, data)
	for _, action := range []string{"interrupt", "rollback"} {
		thread := call[object](b.client, "POST", "/threads", object{})["thread_id"].(string)
		call[object](b.client, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "slow", "input": object{"todo": 2}})
		run := call[object](a.client, "POST", "/threads/"+thread+"/runs", object{"assistant_id": "slow", "input": object{"todo": 2000}})["run_id"]
		waitFor(t, "the run works", func() bool { return b.values(thread)["done"].(float64) > 4 })
		a.kill()
		path := fmt.Sprintf("/threads/%s/runs/%v", thread, run)
		if status, _, text := b.do("POST", path+"/cancel?wait=1&action="+action, nil); status != http.StatusNoContent {
			t.Errorf("%s: %d %s", action, status, text)
		}
		status, _, text := b.do("GET", path, nil)
		if want := map[string]int{"interrupt": 200, "rollback": 404}[action]; status != want || status == 200 && !strings.Contains(text, `"status":"interrupted"`) {
			t.Errorf("%s: the run is %d %s", action, status, text)
		}
		done := b.values(thread)["done"].(float64)
		if action == "rollback" && done != 2 {
			t.Errorf("rolled back to %v, want 2", done)
		}
		if got := call[object](b.client, "GET", "/threads/"+thread, nil)["status"]; got != "idle" {
			t.Errorf("%s: the thread is %v", action, got)
		}
		if out := call[object](b.client, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "slow", "input": object{"todo": 1, "left": 1}}); out["done"] != done+1 {
			t.Errorf("%s: the next run has %v, want %v", action, out["done"], done+1)
		}
		a = launch(t, data)
	}
}

// A server that dies while it rolls a run back for another one has done it
// afterwards.
func TestARollbackOutlivesItsServer(t *testing.T) {
	t.Parallel()
	data := ownSchema(t)
	b := launch(t, data)
	for i := range 4 {
		a := launch(t, data)
		thread := call[object](b.client, "POST", "/threads", object{})["thread_id"].(string)
		call[object](a.client, "POST", "/threads/"+thread+"/runs", object{"assistant_id": "slow", "input": object{"todo": 2000}})
		waitFor(t, "the run works", func() bool { n, _ := b.values(thread)["done"].(float64); return n > 2 })
		second := call[object](a.client, "POST", "/threads/"+thread+"/runs", object{"assistant_id": "slow", "input": object{"todo": 5}, "multitask_strategy": "rollback"})["run_id"]
		time.Sleep(time.Duration(i) * 3 * time.Millisecond)
		a.kill()
		out := call[object](b.client, "GET", fmt.Sprintf("/threads/%s/runs/%v/join", thread, second), nil)
		if out["done"] != 5.0 {
			t.Errorf("the second run ends with %v, want 5", out)
		}
		if runs := call[[]object](b.client, "GET", "/threads/"+thread+"/runs", nil); len(runs) != 1 {
			t.Errorf("%d runs are left, want the second one", len(runs))
		}
	}
}

// Killing servers again and again loses no run and no event: followers of the
// threads see each run end once. SUPERSTEP_KILLS says how often, the default is 4.
func TestFollowersOutliveServersThatAreKilled(t *testing.T) {
	kills := 4
	if v := os.Getenv("SUPERSTEP_KILLS"); v != "" {
		var err error
		if kills, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	if underRace && kills == 4 {
		kills = 2
	}
	t.Parallel()
	data := ownSchema(t)
	stays := launch(t, data)
	var mu sync.Mutex
	others := []*process{launch(t, data), launch(t, data)}
	pick := func() client {
		mu.Lock()
		defer mu.Unlock()
		return others[rand.IntN(len(others))].client
	}
	over := make(chan struct{})
	var runs, lost atomic.Int64
	var done sync.WaitGroup
	for range 6 {
		done.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				thread := newThread()
				s := stays.follow(thread, everything)
				body := `{"id":1,"method":"run.start","params":{"assistant_id":"slow","input":{"todo":25}}}`
				resp, err := http.Post(pick().url+"/threads/"+thread+"/commands", "application/json", strings.NewReader(body))
				if err != nil { // it was just killed, perhaps before it had the request
					s.stop()
					continue
				}
				text, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || !strings.Contains(string(text), `"success"`) {
					s.stop()
					continue
				}
				list := s.until(told.ending)
				increasing(t, list)
				counted(t, list, 25)
				if got := list[len(list)-1].data()["event"]; got != "completed" || stays.values(thread)["done"] != 25.0 {
					t.Errorf("a run ended with %v, and %v", got, stays.values(thread))
					lost.Add(1)
				}
				runs.Add(1)
				s.stop()
			}
		})
	}
	for i := range kills {
		time.Sleep(time.Duration(300+rand.IntN(600)) * time.Millisecond)
		mu.Lock()
		old := others[i%2]
		mu.Unlock()
		old.kill()
		fresh := launch(t, data)
		mu.Lock()
		others[i%2] = fresh
		mu.Unlock()
	}
	close(over)
	done.Wait()
	t.Logf("%d servers were killed; %d runs were followed to their end, %d of them not as they should", kills, runs.Load(), lost.Load())
	if runs.Load() == 0 {
		t.Error("too few to tell anything")
	}
}

// A database that restarts in the middle of runs fails none of them.
func TestRunsOutliveARestartOfTheDatabase(t *testing.T) {
	t.Parallel()
	pg := servertest.OwnPostgres(t)
	c := start(t, server.Data(pg.URL()), server.Graph(slow(t)), quiet())
	thread := newThread()
	run := c.must(thread, "run.start", object{"assistant_id": "slow", "input": object{"todo": 60}})["run_id"]
	s := c.follow(thread, everything)
	list := s.until(func(e told) bool { return e.Method == "custom" })
	pg.Stop()
	if err := pg.Start(); err != nil {
		t.Fatal(err)
	}
	list = append(list, s.until(told.ending)...)
	increasing(t, list)
	got := call[object](c, "GET", fmt.Sprintf("/threads/%s/runs/%v", thread, run), nil)["status"]
	if got != "success" || c.values(thread)["done"] != 60.0 {
		t.Errorf("the run is %v, with %v", got, c.values(thread))
	}
}

// due makes the crons of a schema due.
func due(t *testing.T, data string) {
	t.Helper()
	url, schema, _ := strings.Cut(data, "schema=")
	conn, err := pgx.Connect(t.Context(), strings.TrimRight(url, "?&"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	ago := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	if _, err := conn.Exec(t.Context(), fmt.Sprintf(`UPDATE %s.superstep_crons SET next = $1, data = jsonb_set(data::jsonb, '{next_run_date}', to_jsonb($2::text))::text`, schema), ago.UnixMicro(), ago.Format(time.RFC3339Nano)); err != nil {
		t.Fatal(err)
	}
}

// With several instances, a cron fires once; what it starts is its user's, whom any
// instance knows by a token.
func TestACronFiresOnceHoweverManyServersThereAre(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	data := ownSchema(t)
	opts := []server.Option{
		server.Data(data), server.Graph(informing(t)), quiet(), server.Authorize(server.OwnedByUser()),
		server.JWT(server.JWTConfig{Issuer: i.URL, Audience: "superstep", Keys: []crypto.PublicKey{&i.key.PublicKey}}),
	}
	a, b := start(t, opts...), start(t, opts...)
	ada, bob := "Bearer "+i.token(t, "RS256", "k1", nil), "Bearer "+i.token(t, "RS256", "k1", map[string]any{"sub": "u-2"})
	as := func(at client, token, method, path, body string) (out any) {
		status, _, text := at.ask(t.Context(), method, path, body, "Authorization", token)
		if status >= 300 || json.Unmarshal([]byte(text), &out) != nil {
			t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
		return out
	}
	const n = 20
	for range n {
		as(a, ada, "POST", "/runs/crons", `{"assistant_id":"telling","schedule":"@yearly","input":{},"on_run_completed":"keep"}`)
	}
	due(t, data)
	waitFor(t, "all crons have fired", func() bool {
		list := as(b, ada, "POST", "/threads/search", `{"status":"idle","limit":1000}`).([]any)
		return len(list) >= n && !slices.ContainsFunc(list, func(t any) bool { v, _ := t.(object)["values"].(object); return v["user_id"] != `"u-1"` })
	})
	time.Sleep(1100 * time.Millisecond) // both servers have looked once more
	if got := as(b, ada, "POST", "/threads/count", `{}`); got != float64(n) {
		t.Errorf("%v runs of %d crons", got, n)
	}
	if got := as(b, bob, "POST", "/threads/count", `{}`); got != 0.0 {
		t.Errorf("somebody else sees %v threads", got)
	}
	if status, _, _ := a.ask(t.Context(), "POST", "/threads/count", `{}`, "Authorization", ada+"x"); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", status)
	}
}

// A thread that is removed at one instance while its run works at another one, and
// is followed at both, is gone.
func TestAThreadIsRemovedWhileItsRunStreamsElsewhere(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	thread := newThread()
	s := b.follow(thread, everything)
	run := a.must(thread, "run.start", object{"assistant_id": "slow", "input": object{"todo": 3000}})["run_id"]
	s.until(func(e told) bool { return e.Method == "custom" })
	ended := make(chan error, 1)
	resp, err := http.Get(fmt.Sprintf("%s/threads/%s/runs/%v/stream", b.url, thread, run))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		ended <- err
	}()
	if status, _, text := b.do("DELETE", "/threads/"+thread, nil); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, text)
	}
	select {
	case err := <-ended:
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the stream of the run goes on")
	}
	for _, at := range []client{a, b} {
		if status, _, _ := at.do("GET", "/threads/"+thread, nil); status != http.StatusNotFound {
			t.Errorf("the thread is %d", status)
		}
	}
	if status, _, _ := a.do("POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "slow", "input": object{"todo": 1}, "if_not_exists": "create"}); status != 200 {
		t.Errorf("a thread of the same ID: %d", status)
	}
	if got := a.values(thread)["done"]; got != 1.0 {
		t.Errorf("it begins with what the old one had: %v", got)
	}
}

// Clients can't choose the ID of a run.
func TestTheIDOfARunIsTheServers(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet())
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	id := newThread()
	for range 2 {
		run := call[object](c, "POST", "/threads/"+thread+"/runs", object{"assistant_id": "booking", "input": object{}, "run_id": id, "metadata": object{"run_id": id}, "after_seconds": 1000})
		if run["run_id"] == id {
			t.Errorf("the run has the client's ID")
		}
	}
	if n := len(call[[]object](c, "GET", "/threads/"+thread+"/runs", nil)); n != 2 {
		t.Errorf("%d runs", n)
	}
}
