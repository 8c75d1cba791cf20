package file

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/race"
	"go.uber.org/goleak"
)

const childEnv = "SUPERSTEP_FILE_TEST_CHILD"

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		if err := child(job); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child is what the test binary does when a test runs it as another process.
func child(job string) error {
	name, rest, _ := strings.Cut(job, " ")
	dir, arg, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(arg)
	if err != nil {
		return err
	}
	opts := Options{Recover: true}
	if n%2 == 1 {
		opts.Sync = SyncNever
	}
	s, err := Open(dir, opts)
	if err != nil {
		return err
	}
	switch name {
	case "append": // until it is killed
		w := newWriter("t")
		head, _, err := s.Head(contextBackground, w.log)
		if err == nil {
			w.seq, w.head = head.Seq, head.ID
		} else if !errors.Is(err, checkpoint.ErrNotFound) {
			return err
		}
		fmt.Println("ready")
		for i := 0; ; i++ {
			r := w.next(text1k(1 + i*7919%300000))
			cw := &checkpoint.Write{Log: w.log, Record: r, Head: w.head}
			if i%3 == 1 {
				// A result beside the log, acknowledged by the next record.
				cw.Results = []checkpoint.Result{{Epoch: r.ID, Kind: checkpoint.KindChanges, Data: r.Changes[0].Data}}
				if _, err := s.Write(contextBackground, &checkpoint.Write{Log: w.log, Results: cw.Results}); err != nil {
					return err
				}
				fmt.Println("result", r.ID)
			}
			if _, err := s.Write(contextBackground, cw); err != nil {
				return err
			}
			w.wrote(r)
			fmt.Println("record", r.Seq)
		}
	case "prune": // until it is killed
		w := newWriter("t")
		var ids []checkpoint.ID
		for r, err := range s.Records(contextBackground, checkpoint.Query{Log: w.log}) {
			if err != nil {
				return err
			}
			w.seq, w.head, ids = r.Seq, r.ID, append(ids, r.ID)
		}
		for {
			out, err := s.Write(contextBackground, &checkpoint.Write{Log: w.log, Claim: true, Holder: "child", Lease: time.Hour})
			if err != nil {
				return err
			}
			for i := range 4 {
				r := w.next(text1k(1 + int(w.seq)*7919%30000))
				cw := &checkpoint.Write{Log: w.log, Fence: out.Fence, Record: r, Head: w.head, Release: i == 3}
				if r.Seq == 1 {
					cw.Results = []checkpoint.Result{{Epoch: "e", Kind: checkpoint.KindOnce, Data: []byte(`1`)}}
				}
				if _, err := s.Write(contextBackground, cw); err != nil {
					return err
				}
				w.wrote(r)
				ids = append(ids, r.ID)
				fmt.Println("record", r.Seq)
			}
			if err := s.Rewrite(contextBackground, &checkpoint.Rewrite{Log: w.log, Head: w.head, Remove: ids[:len(ids)-2]}); err != nil {
				return err
			}
			ids = ids[len(ids)-2:]
		}
	case "cas": // n records, whatever another process does
		log := checkpoint.Log{Thread: "t"}
		run := checkpoint.NewRunID()
		for done := 0; done < n; {
			w := &writer{log: log, run: run, n: uint32(done)}
			head, _, err := s.Head(contextBackground, log)
			if err == nil {
				w.seq, w.head = head.Seq, head.ID
			} else if !errors.Is(err, checkpoint.ErrNotFound) {
				return err
			}
			_, err = s.Write(contextBackground, &checkpoint.Write{Log: log, Record: w.next("1"), Head: w.head})
			switch {
			case err == nil:
				done++
			case !errors.Is(err, checkpoint.ErrConflict):
				return err
			}
		}
		return s.Close()
	}
	return fmt.Errorf("unknown job %q", job)
}

func startChild(t *testing.T, job string, out func(line string)) (cmd *exec.Cmd, wait func() error) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+job)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, func() error {
		for sc := bufio.NewScanner(pipe); sc.Scan(); {
			out(sc.Text())
		}
		return cmd.Wait()
	}
}

func TestKilledWriterLosesNothingAcknowledged(t *testing.T) {
	rounds := 40
	switch {
	case testing.Short():
		rounds = 5
	case race.Enabled: // each starts two processes, which takes them longer
		rounds = 12
	}
	for round := range rounds {
		dir := t.TempDir()
		rng := rand.New(rand.NewPCG(uint64(round), 1))
		var acked int64
		var results []checkpoint.ID
		for range 2 { // the second goes on where the first was killed
			target := rng.IntN(12)
			acks, first := 0, true // a record may be there that was not acknowledged
			var cmd *exec.Cmd
			kill := func() { _ = cmd.Process.Kill() }
			delay := time.Duration(rng.IntN(3000)) * time.Microsecond
			var wait func() error
			cmd, wait = startChild(t, fmt.Sprintf("append %s %d", dir, round), func(line string) {
				kind, value, _ := strings.Cut(line, " ")
				switch kind {
				case "error":
					t.Error(line)
				case "record":
					n, err := strconv.ParseInt(value, 10, 64)
					if err != nil || n != acked+1 && !first || n < acked+1 {
						t.Errorf("acknowledged %q after %d", line, acked)
					}
					acked, first = n, false
				case "result":
					results = append(results, checkpoint.ID(value))
				}
				if acks++; acks == target+1 {
					time.AfterFunc(delay, kill)
				}
			})
			_ = wait() // killed
		}
		s := mustOpen(t, dir, Options{})
		log := checkpoint.Log{Thread: "t"}
		n, err := count(s, log)
		if errors.Is(err, checkpoint.ErrCorrupt) {
			// Half a line, which nobody was told of.
			if _, err := Repair(dir, "t"); err != nil {
				t.Fatal(err)
			}
			n, err = count(s, log)
		}
		if err != nil || n < acked {
			t.Fatalf("round %d: %d records of %d acknowledged, %v", round, n, acked, err)
		}
		if n > 0 {
			if got := shapes(t, filepath.Join(dir, "t.jsonl")); int64(len(got)) != n {
				t.Fatalf("%d lines for %d records", len(got), n)
			}
		}
		for _, epoch := range results {
			rs, err := s.Results(t.Context(), log, "", epoch)
			if err != nil || len(rs) != 1 {
				t.Fatalf("round %d: results of %s: %v, %v", round, epoch, rs, err)
			}
		}
		_ = s.Close()
	}
}

// A process that is killed while it shortens a thread leaves a sound one.
func TestKilledWhileShortening(t *testing.T) {
	rounds := 30
	switch {
	case testing.Short():
		rounds = 4
	case race.Enabled:
		rounds = 10
	}
	for round := range rounds {
		dir := t.TempDir()
		rng := rand.New(rand.NewPCG(uint64(round), 2))
		var acked int64
		for range 2 {
			acks, target := 0, rng.IntN(20)
			delay := time.Duration(rng.IntN(3000)) * time.Microsecond
			var cmd *exec.Cmd
			kill := func() { _ = cmd.Process.Kill() }
			var wait func() error
			cmd, wait = startChild(t, fmt.Sprintf("prune %s %d", dir, round), func(line string) {
				kind, value, _ := strings.Cut(line, " ")
				if kind == "error" {
					t.Error(line)
				}
				if n, err := strconv.ParseInt(value, 10, 64); err == nil {
					acked = max(acked, n)
				}
				if acks++; acks == target+1 {
					time.AfterFunc(delay, kill)
				}
			})
			_ = wait() // killed
		}
		if _, err := Repair(dir, "t"); err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			t.Fatal(err)
		}
		s := mustOpen(t, dir, Options{})
		log := checkpoint.Log{Thread: "t"}
		var last int64
		for r, err := range s.Records(t.Context(), checkpoint.Query{Log: log}) {
			if err != nil || last > 0 && r.Seq != last+1 {
				t.Fatalf("round %d: record %v after %d, %v", round, r, last, err)
			}
			last = r.Seq
		}
		rs, err := s.Results(t.Context(), log, "", "e")
		if last < acked || err != nil || len(rs) != 1 {
			t.Fatalf("round %d: %d records of %d acknowledged, results %v, %v", round, last, acked, rs, err)
		}
		wantSound(t, s)
		_ = s.Close()
	}
}

func TestTwoProcessesNeverLoseAnUpdate(t *testing.T) {
	dir := t.TempDir()
	const n, procs = 101, 3
	var wg sync.WaitGroup
	for range procs {
		_, wait := startChild(t, fmt.Sprintf("cas %s %d", dir, n), func(line string) { t.Error(line) })
		wg.Go(func() {
			if err := wait(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := mustOpen(t, dir, Options{})
	if got, err := count(s, checkpoint.Log{Thread: "t"}); err != nil || got != n*procs {
		t.Fatalf("%d records, want %d: %v", got, n*procs, err)
	}
}
