//go:build unix

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// The faults.
const (
	fKill   = "kill"   // a worker is killed
	fStop   = "stop"   // a worker is stopped for longer than the lease
	fReset  = "reset"  // all connections are cut
	fServer = "server" // the server is killed or ended, and started
)

// lab is where a test happens.
type lab struct {
	store   string
	at      string // for workers
	direct  string // for the test itself
	faults  map[string]int
	proxy   *servertest.Proxy
	restart func(kill bool, pause time.Duration) error
}

// newLab starts what a store needs.
func newLab(t *testing.T, name string) *lab {
	t.Helper()
	wanted(t, name)
	l := &lab{store: name, faults: map[string]int{fKill: 60, fStop: 40}}
	serve := func(raw string) {
		l.direct = raw
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		l.proxy = servertest.NewProxy(t, u.Host, nil)
		u.Host = l.proxy.Addr()
		l.at = u.String()
		l.faults = map[string]int{fKill: 40, fReset: 36, fStop: 14, fServer: 10}
	}
	switch name {
	case "postgres":
		p := servertest.OwnPostgres(t)
		serve(p.URL())
		l.restart = func(kill bool, pause time.Duration) error {
			if kill {
				p.Kill()
			} else {
				p.Stop()
			}
			time.Sleep(pause)
			return p.Start()
		}
	case "redis":
		// Only so is what was acknowledged still there after a kill.
		r := servertest.OwnRedis(t, "--appendfsync", "always")
		serve(r.URL())
		l.restart = func(kill bool, pause time.Duration) error {
			err := r.Stop
			if kill {
				err = r.Kill
			}
			if err := err(); err != nil {
				return err
			}
			time.Sleep(pause)
			return r.Start()
		}
	case "sqlite":
		l.at = filepath.Join(t.TempDir(), "threads.db")
		l.direct = l.at
	case "file":
		l.at = filepath.Join(t.TempDir(), "threads")
		l.direct = l.at
	}
	return l
}

// worker is a process that works.
type worker struct {
	cmd     *exec.Cmd
	life    io.Closer // its input
	stderr  *bytes.Buffer
	ended   chan struct{}
	err     error // when ended
	stopped atomic.Bool
	killed  bool
}

func startWorker(j *job) (*worker, error) {
	data, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.Command(os.Args[0]), stderr: new(bytes.Buffer), ended: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), workerEnv+"="+string(data))
	w.cmd.Stderr = w.stderr
	// Should this process die, a stopped worker goes on and ends.
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if w.life, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		w.err = w.cmd.Wait()
		close(w.ended)
	}()
	return w, nil
}

// end lets a worker come to its end, or kills it.
func (w *worker) end(kill bool) error {
	if kill {
		w.killed = true
		_ = w.cmd.Process.Kill()
	} else {
		_ = w.life.Close()
	}
	select {
	case <-w.ended:
	case <-time.After(time.Minute):
		_ = w.cmd.Process.Signal(syscall.SIGQUIT) // its stacks are worth reading
		<-w.ended
	}
	if w.err != nil && !w.killed || strings.Contains(w.stderr.String(), "DATA RACE") {
		return fmt.Errorf("a worker failed: %w\n%s", w.err, w.stderr)
	}
	return nil
}

// stop is a worker's time without life.
type stop struct {
	pid      int
	from, to int64 // ms
}

// thread is what is known of a thread.
type thread struct {
	name     string
	input    int
	born     time.Time
	sent     bool // its event
	busy     bool // somebody is about to answer or send
	done     string
	doneAt   string
	acked    map[string]int64 // records that the store has acknowledged, with their fence
	tried    map[string]int64 // fence by record, when known
	heads    map[string]bool  // records seen as head
	success  map[string]bool  // checkpoints that calls returned
	effects  map[string][]line
	last     []line           // of the journal
	recorded map[string]int64 // the lowest fence by Once
}

// trial is one test.
type trial struct {
	t     *testing.T
	lab   *lab
	job   *job
	rng   *rand.Rand
	seed  int
	ref   []string
	store *store
	g     *graph.Graph[state]
	tail  tail

	workers []*worker
	ready   map[int]bool
	wrote   map[int]int64 // when a worker last wrote to the store
	stops   []stop
	hits    map[string]int // faults that happened

	mu      sync.Mutex // the rest
	slots   []int      // generations
	threads map[string]*thread
	open    map[string]*thread // those that have not ended
	spent   bool               // no new threads
	counts  map[string]int
	wrong   []string
	jobs    sync.WaitGroup
}

func (tr *trial) errorf(format string, args ...any) {
	tr.t.Helper()
	tr.wrong = append(tr.wrong, fmt.Sprintf(format, args...))
	if len(tr.wrong) <= 20 {
		tr.t.Errorf("%s, seed %d: %s", tr.lab.store, tr.seed, fmt.Sprintf(format, args...))
	}
}

// chaos runs the test for a store.
func chaos(t *testing.T, name string, shortFaults int) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	l := newLab(t, name)
	tr := &trial{
		t: t, lab: l, seed: setting(t, "CHAOS_SEED", 1), ref: undisturbed(t), ready: map[int]bool{}, wrote: map[int]int64{}, hits: map[string]int{},
		threads: map[string]*thread{}, open: map[string]*thread{}, counts: map[string]int{},
	}
	tr.rng = rand.New(rand.NewPCG(uint64(tr.seed), uint64(len(name))))
	tr.job = &job{Store: name, At: l.at, Dir: t.TempDir(), Lease: time.Second, Calls: 4}
	tr.tail.path = tr.job.journal()
	jn, err := openJournal(tr.job.journal())
	if err != nil {
		t.Fatal(err)
	}
	defer jn.f.Close()
	b, err := openPatiently(t.Context(), name, l.direct)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	tr.store = newStore(b, jn)
	if tr.g, err = compile(tr.store, tr.job.Lease); err != nil {
		t.Fatal(err)
	}
	defer tr.jobs.Wait()
	tr.slots = make([]int, setting(t, "CHAOS_THREADS", 24))
	for i := range tr.slots {
		tr.born(i)
	}
	tr.saveSlots()
	defer func() {
		for _, w := range tr.workers {
			_ = w.cmd.Process.Kill()
			<-w.ended
		}
	}()
	for range setting(t, "CHAOS_WORKERS", 4) {
		tr.hire()
	}
	watching, stopWatching := context.WithCancel(t.Context())
	defer stopWatching()
	tr.jobs.Go(func() { tr.watch(watching) })
	began := time.Now()
	faults := setting(t, "CHAOS_FAULTS", shortFaults)
	tr.disturb(faults, durationSetting(t, "CHAOS_PAUSE", 200*time.Millisecond))
	took := time.Since(began)
	tr.finish()
	stopWatching()
	tr.jobs.Wait()
	tr.verify()
	tr.report(took)
	if faults >= 10 {
		for f := range l.faults {
			if tr.hits[f] == 0 {
				t.Errorf("the fault %q never happened", f)
			}
		}
		if tr.counts["refused after a stop"] == 0 {
			t.Error("no write of a worker that was stopped was refused")
		}
	}
}

func (tr *trial) report(took time.Duration) {
	var s strings.Builder
	fmt.Fprintf(&s, "%s, seed %d: faults in %v:", tr.lab.store, tr.seed, took.Round(time.Second))
	for _, f := range slices.Sorted(maps.Keys(tr.hits)) {
		fmt.Fprintf(&s, " %s %d,", f, tr.hits[f])
	}
	fmt.Fprintf(&s, " over %d threads; torn lines %d; seen:", len(tr.threads), tr.tail.torn)
	for _, c := range slices.Sorted(maps.Keys(tr.counts)) {
		fmt.Fprintf(&s, "\n  %-40s %d", c, tr.counts[c])
	}
	tr.t.Log(s.String())
}

func (tr *trial) hire() {
	w, err := startWorker(tr.job)
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.workers = append(tr.workers, w)
}

// born begins a thread.
func (tr *trial) born(slot int) {
	gen := tr.slots[slot]
	th := &thread{
		name: threadOf(slot, gen), input: inputOf(slot, gen), born: time.Now(), acked: map[string]int64{}, tried: map[string]int64{},
		heads: map[string]bool{}, success: map[string]bool{}, effects: map[string][]line{}, recorded: map[string]int64{},
	}
	tr.threads[th.name], tr.open[th.name] = th, th
}

// saveSlots tells the workers which threads there are.
func (tr *trial) saveSlots() {
	data, err := json.Marshal(tr.slots)
	if err == nil {
		err = os.WriteFile(tr.job.slots()+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(tr.job.slots()+".new", tr.job.slots())
	}
	if err != nil {
		tr.t.Fatal(err)
	}
}

// disturb makes that many faults happen.
func (tr *trial) disturb(faults int, pause time.Duration) {
	tr.until(time.Now().Add(30*time.Second), func() bool { return len(tr.ready) >= len(tr.workers) })
	kinds := slices.Sorted(maps.Keys(tr.lab.faults))
	tr.rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	sum := 0
	for _, n := range tr.lab.faults {
		sum += n
	}
	for n := range faults {
		if tr.t.Failed() {
			return
		}
		kind := ""
		if n < 2*len(kinds) { // each of them
			kind = kinds[n%len(kinds)]
		} else {
			at := tr.rng.IntN(sum)
			for _, k := range kinds {
				if at -= tr.lab.faults[k]; at < 0 {
					kind = k
					break
				}
			}
		}
		gap := time.Duration(tr.rng.Int64N(int64(2 * pause)))
		tr.until(time.Now().Add(gap), nil)
		tr.fault(kind)
	}
	allUp := func() bool { return !slices.ContainsFunc(tr.workers, func(w *worker) bool { return w.stopped.Load() }) }
	tr.until(time.Now().Add(time.Minute), allUp)
	// With few faults those of stopping may all have missed.
	refused := func() bool {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		return tr.counts["refused after a stop"] > 0
	}
	for n := 0; n < 8 && faults >= 10 && !refused(); n++ {
		tr.fault(fStop)
		tr.until(time.Now().Add(time.Minute), allUp)
		tr.until(time.Now().Add(time.Second), refused)
	}
}

// until follows what happens until a time, or until a condition holds, which is
// nil if it never does.
func (tr *trial) until(end time.Time, done func() bool) bool {
	for {
		tr.follow()
		if done != nil && done() {
			return true
		}
		if !time.Now().Before(end) {
			return false
		}
		time.Sleep(min(10*time.Millisecond, max(0, time.Until(end))))
	}
}

func (tr *trial) fault(kind string) {
	var up []*worker // running
	for _, w := range tr.workers {
		if !w.stopped.Load() {
			up = append(up, w)
		}
	}
	w := up[tr.rng.IntN(len(up))]
	length := tr.job.Lease + tr.job.Lease*3/10 + time.Duration(tr.rng.Int64N(int64(tr.job.Lease)))
	rest := time.Duration(tr.rng.Int64N(int64(300 * time.Millisecond)))
	kill, long := tr.rng.IntN(10) < 7, tr.rng.IntN(20) == 0
	if kind == fStop && len(up) == 1 {
		tr.until(time.Now().Add(time.Minute), func() bool {
			return slices.ContainsFunc(tr.workers, func(o *worker) bool { return o != w && !o.stopped.Load() })
		})
	}
	switch kind {
	case fKill:
		if err := w.end(true); err != nil {
			tr.errorf("%v", err)
		}
		delete(tr.ready, w.cmd.Process.Pid)
		tr.workers = slices.DeleteFunc(tr.workers, func(o *worker) bool { return o == w })
		tr.hire()
	case fStop:
		pid := w.cmd.Process.Pid
		// One that does nothing has nothing to lose.
		tr.until(time.Now().Add(3*time.Second), func() bool { return time.Now().UnixMilli()-tr.wrote[pid] < 25 })
		if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			tr.errorf("stopping a worker: %v", err)
			return
		}
		w.stopped.Store(true)
		s := stop{pid: pid, from: time.Now().UnixMilli()}
		time.AfterFunc(length, func() {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			s.to = time.Now().UnixMilli()
			tr.stops = append(tr.stops, s)
			_ = w.cmd.Process.Signal(syscall.SIGCONT)
			w.stopped.Store(false)
		})
	case fReset:
		if n := tr.lab.proxy.Reset(); n == 0 {
			tr.until(time.Now().Add(5*time.Second), func() bool { return tr.lab.proxy.Reset() > 0 })
		}
	case fServer:
		if long {
			rest = tr.job.Lease * 3 / 2
		}
		if err := tr.lab.restart(kill, rest); err != nil {
			tr.t.Fatal(err)
		}
	}
	tr.hits[kind]++
}

// follow reads the journal, and lets one thing happen that waits.
func (tr *trial) follow() {
	tr.t.Helper()
	lines, err := tr.tail.lines()
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	ended := false
	for i := range lines {
		ended = tr.take(&lines[i]) || ended
	}
	if ended {
		tr.saveSlots()
	}
	for _, w := range tr.workers {
		select {
		case <-w.ended:
			if !w.killed {
				tr.errorf("a worker has ended by itself: %v\n%s", w.err, w.stderr)
				tr.t.FailNow()
			}
		default:
		}
	}
}

// take takes a line of the journal. It reports whether a thread has ended.
func (tr *trial) take(l *line) (ended bool) {
	if l.Kind == kBegin {
		tr.ready[l.PID] = true
		return false
	}
	if l.Kind == kWrong {
		tr.errorf("thread %s: %s", l.Thread, l.Text)
		return false
	}
	th := tr.threads[l.Thread]
	if th == nil {
		return false
	}
	if th.last = append(th.last, *l); len(th.last) > 60 {
		th.last = slices.Delete(th.last, 0, 20)
	}
	switch l.Kind {
	case kClaim:
		tr.counts["claims"]++
	case kTry:
		tr.wrote[l.PID] = l.At
		if l.Fence != 0 {
			th.tried[l.Record] = l.Fence
		}
	case kAcked:
		th.acked[l.Record], th.tried[l.Record] = l.Fence, l.Fence
		tr.counts["records acknowledged"]++
	case kRecorded:
		if f, ok := th.recorded[l.Task]; !ok || l.Fence < f {
			th.recorded[l.Task] = l.Fence
		}
	case kEffect:
		th.effects[l.Task] = append(th.effects[l.Task], *l)
		tr.counts["effects"]++
	case kRefused:
		tr.counts["refused: "+l.What]++
		if strings.HasPrefix(l.What, "fenced") || strings.HasPrefix(l.What, "conflict") {
			for _, s := range tr.stops {
				// It had the thread before it was stopped.
				if s.pid == l.PID && l.Since != 0 && l.Since <= s.from && l.At >= s.to {
					tr.counts["refused after a stop"]++
					tr.counts["refused after a stop: "+l.What]++
					break
				}
			}
		}
	case kSuccess:
		th.success[l.Record] = true
		tr.counts["calls with success"]++
	case kFailed:
		tr.counts["calls failed: "+l.What]++
	case kSent:
		tr.counts["events"]++
	case kAsks:
		if l.What == "answer" {
			tr.answer(th)
		} else {
			tr.send(th)
		}
	case kDone:
		if l.Text != tr.ref[th.input] {
			tr.errorf("thread %s ends with\n%s\nundisturbed with\n%s", th.name, l.Text, tr.ref[th.input])
		}
		if th.done != "" {
			return false
		}
		th.done, th.doneAt = l.Text, l.Record
		delete(tr.open, th.name)
		tr.counts["threads ended"]++
		if tr.spent {
			return false
		}
		var slot, gen int
		if _, err := fmt.Sscanf(th.name, "t-%d-%d", &slot, &gen); err == nil && tr.slots[slot] == gen {
			tr.slots[slot]++
			tr.born(slot)
			return true
		}
	}
	return false
}

// answer answers the question of a thread, as soon as it is open.
func (tr *trial) answer(th *thread) {
	if th.busy {
		return
	}
	th.busy = true
	tr.jobs.Go(func() {
		defer func() {
			tr.mu.Lock()
			th.busy = false
			tr.mu.Unlock()
		}()
		t := tr.g.Thread(th.name)
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(15 * time.Millisecond) {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			snap, err := t.State(ctx)
			switch {
			case errors.Is(err, checkpoint.ErrNotFound): // nobody has begun it yet
				cancel()
				return
			case err != nil:
				failed(tr.store.j, th.name, err)
			case len(snap.Interrupts) > 0:
				c := &call{}
				if snap, err = t.Invoke(context.WithValue(ctx, callKey{}, c), t.Answer(true)); err == nil {
					tr.mu.Lock()
					tr.counts["answers"]++
					tr.mu.Unlock()
				}
				returned(tr.store, th.name, c, snap, err)
			case snap.State.Approved || snap.Done():
				cancel()
				return
			}
			cancel()
		}
	})
}

// send sends a thread its event, once: should nobody wake the thread then, it
// stays where it is.
func (tr *trial) send(th *thread) {
	if th.sent {
		return
	}
	th.sent = true
	pause := time.Duration(rand.Int64N(int64(20 * time.Millisecond)))
	tr.jobs.Go(func() {
		time.Sleep(pause)
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			err := tr.g.Thread(th.name).SendEvent(ctx, goEvent, "word")
			cancel()
			if err == nil {
				tr.store.j.note(line{Kind: kSent, Thread: th.name})
				return
			}
			failed(tr.store.j, th.name, err)
		}
	})
}

// finish lets all threads end, and then the workers.
func (tr *trial) finish() {
	tr.mu.Lock()
	tr.spent = true
	tr.mu.Unlock()
	if tr.t.Failed() {
		return
	}
	last := time.Now()
	left := -1
	tr.until(time.Now().Add(10*time.Minute), func() bool {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		if n := len(tr.open); n != left {
			left, last = n, time.Now()
		}
		if time.Since(last) > time.Second { // a worker died after the node had asked
			for _, th := range tr.open {
				tr.answer(th)
			}
		}
		return left == 0 || time.Since(last) > 45*time.Second || tr.t.Failed()
	})
	for _, w := range tr.workers {
		if err := w.end(false); err != nil {
			tr.errorf("%v", err)
		}
	}
	tr.workers = nil
	tr.follow()
}

// watch remembers heads of threads.
func (tr *trial) watch(ctx context.Context) {
	for ctx.Err() == nil {
		tr.mu.Lock()
		var th *thread
		for _, th = range tr.open { // any
			break
		}
		tr.mu.Unlock()
		if th != nil {
			if head, _, err := tr.store.Head(ctx, checkpoint.Log{Thread: checkpoint.ThreadID(th.name)}); err == nil {
				tr.mu.Lock()
				th.heads[string(head.ID)] = true
				tr.counts["heads looked at"]++
				tr.mu.Unlock()
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// verify compares what is known with the store.
func (tr *trial) verify() {
	tr.t.Helper()
	ctx := tr.t.Context()
	for _, name := range slices.Sorted(maps.Keys(tr.threads)) {
		th := tr.threads[name]
		have := map[string]bool{}
		closed := map[string]int64{} // fence of who committed the superstep, by epoch
		var logs []checkpoint.Log
		for info, err := range tr.store.Logs(ctx, checkpoint.ThreadID(name)) {
			if err != nil {
				tr.t.Fatal(err)
			}
			logs = append(logs, info.Log)
		}
		var dump strings.Builder
		for _, log := range logs {
			var head *checkpoint.Record
			runs := map[checkpoint.ID]bool{}
			for r, err := range tr.store.Records(ctx, checkpoint.Query{Log: log, AllBranches: true, Meta: true}) {
				if err != nil {
					tr.t.Fatal(err)
				}
				fmt.Fprintf(&dump, "\n  %q %d %s %s step %d fence %d tasks %d open %d", log.Namespace, r.Seq, r.ID, r.Source, r.Step, th.tried[string(r.ID)], len(r.Tasks), len(r.Open))
				have[string(r.ID)] = true
				seq, step, parent := int64(1), 0, checkpoint.ID("")
				if head != nil {
					seq, step, parent = head.Seq+1, head.Step, head.ID
					if r.Source == checkpoint.SourceLoop {
						step++
						if f := th.tried[string(r.ID)]; f != 0 {
							closed[log.Namespace+"|"+string(head.Epoch)] = f
						}
					}
				}
				if r.Seq != seq || r.Step != step || r.Parent != parent || r.Branch != "" {
					tr.errorf("thread %s %q: record %d (step %d, parent %q, branch %q) in place of record %d (step %d, parent %q)", name, log.Namespace, r.Seq, r.Step, r.Parent, r.Branch, seq, step, parent)
				}
				if head != nil && head.ID.Run() != r.ID.Run() && runs[r.ID.Run()] {
					tr.errorf("thread %s %q: record %d is of run %s, and others wrote in between", name, log.Namespace, r.Seq, r.ID.Run())
				}
				runs[r.ID.Run()] = true
				head = r
			}
		}
		if th.done == "" {
			results := ""
			if len(logs) > 0 {
				if h, _, err := tr.store.Head(ctx, checkpoint.Log{Thread: checkpoint.ThreadID(name)}); err == nil {
					rs, _ := tr.store.Results(ctx, h.Log, h.Branch, h.Epoch)
					ev, _ := tr.store.Results(ctx, h.Log, "", "events")
					results = fmt.Sprintf("%d results, %d events, due %v", len(rs), len(ev), h.Due)
				}
			}
			for info, err := range tr.store.Threads(ctx, checkpoint.ThreadFilter{Prefix: name}) {
				if err == nil && string(info.Thread) == name {
					results += fmt.Sprintf(", lease %+v", info.Lease)
				}
			}
			for _, l := range th.last {
				fmt.Fprintf(&dump, "\n  %d pid %d %s %s fence %d %s %s %s", l.At, l.PID, l.Kind, l.What, l.Fence, l.Record, l.Task, l.Text)
			}
			tr.errorf("thread %s has not ended (%v old, event sent: %v; %s):%s", name, time.Since(th.born).Round(time.Second), th.sent, results, &dump)
			continue
		}
		for id := range th.acked {
			if !have[id] {
				tr.errorf("thread %s: record %s was acknowledged and is lost", name, id)
			}
		}
		for id := range th.heads {
			if !have[id] {
				tr.errorf("thread %s: record %s was the head and is lost", name, id)
			}
		}
		for id := range th.success {
			if !have[id] {
				tr.errorf("thread %s: a call has returned with checkpoint %s, which is not stored", name, id)
			}
		}
		if !have[th.doneAt] {
			tr.errorf("thread %s: its end %s was seen and is lost", name, th.doneAt)
		}
		snap, err := tr.g.Thread(name).State(ctx)
		if err != nil {
			tr.t.Fatal(err)
		}
		if data, _ := json.Marshal(snap.State); string(data) != tr.ref[th.input] {
			tr.errorf("thread %s is stored with\n%s\nundisturbed it ends with\n%s", name, data, tr.ref[th.input])
		}
		tr.effects(th, closed)
	}
}

// effects judges the calls of the functions of Once.
func (tr *trial) effects(th *thread, closed map[string]int64) {
	tr.t.Helper()
	for id, lines := range th.effects {
		f := strings.Split(id, "|") // namespace, task, name
		epoch, _, _ := strings.Cut(f[1], ":")
		seen := map[int64]bool{}
		for _, l := range lines {
			if l.Key == "" || l.Key != lines[0].Key {
				tr.errorf("thread %s: Once %s has the keys %q and %q", th.name, id, lines[0].Key, l.Key)
			}
			if l.Fence == 0 || seen[l.Fence] {
				tr.errorf("thread %s: the function of Once %s was called twice by the run with fence %d", th.name, id, l.Fence)
			}
			seen[l.Fence] = true
			if rec, ok := th.recorded[id]; ok && l.Fence > rec {
				tr.errorf("thread %s: the function of Once %s was called by the run with fence %d, and the one with fence %d had recorded its result", th.name, id, l.Fence, rec)
			}
			if fence, ok := closed[f[0]+"|"+epoch]; ok && l.Fence > fence {
				tr.errorf("thread %s: the function of Once %s was called by the run with fence %d, and the one with fence %d had committed its superstep", th.name, id, l.Fence, fence)
			}
		}
		if len(lines) > 1 {
			tr.counts["effects repeated, not recorded before"] += len(lines) - 1
		}
		if _, ok := th.recorded[id]; ok {
			tr.counts["results of Once seen as recorded"]++
		}
	}
}

func TestChaosPostgres(t *testing.T) { chaos(t, "postgres", 30) }
func TestChaosRedis(t *testing.T)    { chaos(t, "redis", 30) }
func TestChaosSQLite(t *testing.T)   { chaos(t, "sqlite", 20) }
func TestChaosFile(t *testing.T)     { chaos(t, "file", 20) }
