// Serverbench measures the server beside the reference's: runs of a three-node
// graph through runs/wait, and streams that are open at once.
//
//	go run ./internal/serverbench
//	go run ./internal/serverbench -reference ./internal/serverbench/reference -postgres postgres://…
//
// The reference's server runs if its packages are installed in that folder (npm
// install there). All is measured on one machine, clients included, one server
// after the other.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

func main() {
	log.SetFlags(0)
	reference := flag.String("reference", "", "the folder of the reference's server, with its packages installed")
	postgres := flag.String("postgres", "", "the URL of a PostgreSQL database to measure as well")
	d := flag.Duration("for", 5*time.Second, "how long each measurement takes")
	streams := flag.Int("streams", 1000, "how many streams are open at once")
	profile := flag.String("cpuprofile", "", "where to write a profile of this process")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			log.Fatal(err)
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			log.Fatal(err)
		}
		defer pprof.StopCPUProfile()
	}
	if err := measure(*reference, *postgres, *d, *streams); err != nil {
		log.Fatal(err)
	}
}

// subject is a server to be measured.
type subject struct {
	name  string
	start func() (running, error)
}

// running is a server that was started.
type running struct {
	url    string
	memory func() int64 // bytes that it takes: of one in this process with its clients
	stop   func()
}

func measure(reference, postgres string, d time.Duration, streams int) error {
	dir, err := os.MkdirTemp("", "serverbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	subjects := []subject{
		{"Superstep, in memory", func() (running, error) { return ours("memory") }},
		{"Superstep, SQLite", func() (running, error) { return ours("sqlite:" + filepath.Join(dir, "threads.db")) }},
	}
	if postgres != "" {
		subjects = append(subjects, subject{"Superstep, PostgreSQL", func() (running, error) { return ours(postgres) }})
	}
	if reference != "" {
		subjects = append(subjects, subject{"reference, in memory", func() (running, error) { return theirs(reference) }})
	}
	fmt.Printf("%d cores, %s\n\n", runtime.GOMAXPROCS(0), runtime.Version())
	fmt.Println("| server | clients | runs/s | p50 | p99 | first event p50 | streams open | memory a stream |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|")
	for _, s := range subjects {
		if err := s.measure(d, streams); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (s subject) measure(d time.Duration, streams int) error {
	r, err := s.start()
	if err != nil {
		return err
	}
	defer r.stop()
	for _, clients := range []int{1, 16, 64} {
		perSecond, times, err := waits(r.url, clients, d)
		if err != nil {
			return err
		}
		first, open, memory := "", "", ""
		if clients == 1 {
			if first, err = firstEvent(r.url); err != nil {
				return err
			}
		}
		if clients == 64 {
			n, bytes := openStreams(r, streams)
			open, memory = fmt.Sprint(n), fmt.Sprintf("%.1f kB", float64(bytes)/float64(max(n, 1))/1000)
		}
		fmt.Printf("| %s | %d | %.0f | %s | %s | %s | %s | %s |\n", s.name, clients, perSecond, ms(quantile(times, 0.5)), ms(quantile(times, 0.99)), first, open, memory)
	}
	return nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

func quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[min(int(q*float64(len(times))), len(times)-1)]
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096, MaxConnsPerHost: 4096}}

func post(url, body string) (*http.Response, error) {
	r, err := client.Post(url, "application/json", strings.NewReader(body))
	if err == nil && r.StatusCode >= 300 {
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		return nil, fmt.Errorf("%s: %s", r.Status, text)
	}
	return r, err
}

// waits has clients that run the graph one time after the other, each time on a
// new thread that goes with the run.
func waits(url string, clients int, d time.Duration) (perSecond float64, times []time.Duration, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	begin := time.Now()
	for range clients {
		wg.Go(func() {
			var own []time.Duration
			for time.Since(begin) < d {
				t := time.Now()
				r, err := post(url+"/runs/wait", `{"assistant_id":"three","input":{"text":"x"}}`)
				if err == nil {
					var out struct{ Words []string }
					err = json.NewDecoder(r.Body).Decode(&out)
					r.Body.Close()
					if err == nil && len(out.Words) != 3 {
						err = errors.New("a run came to something else")
					}
				}
				if err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					return
				}
				own = append(own, time.Since(t))
			}
			mu.Lock()
			times = append(times, own...)
			mu.Unlock()
		})
	}
	wg.Wait()
	return float64(len(times)) / time.Since(begin).Seconds(), times, failed
}

// firstEvent measures how long a stream takes to its first values.
func firstEvent(url string) (string, error) {
	var times []time.Duration
	for range 50 {
		t := time.Now()
		r, err := post(url+"/runs/stream", `{"assistant_id":"three","input":{"text":"x"},"stream_mode":["values"]}`)
		if err != nil {
			return "", err
		}
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			if lines.Text() == "event: values" {
				times = append(times, time.Since(t))
				break
			}
		}
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	if len(times) == 0 {
		return "", errors.New("streams had no values")
	}
	return ms(quantile(times, 0.5)), nil
}

// openStreams opens streams of runs that start in an hour, and returns how many
// there were at once and what memory they took. Its ends of them are bare connections,
// which take next to nothing in this process.
func openStreams(server running, n int) (opened int, memory int64) {
	const body = `{"assistant_id":"three","input":{"text":"x"},"after_seconds":3600,"on_disconnect":"cancel"}`
	addr := strings.TrimPrefix(server.url, "http://")
	request := fmt.Appendf(nil, "POST /runs/stream HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", addr, len(body), body)
	const ok = "HTTP/1.1 200"
	open := make([]net.Conn, n)
	before := server.memory()
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for i := worker; i < n; i += 16 {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				var status [len(ok)]byte
				if _, err = c.Write(request); err == nil {
					_, err = io.ReadFull(c, status[:])
				}
				if err != nil || string(status[:]) != ok {
					c.Close()
					return
				}
				open[i] = c
			}
		})
	}
	wg.Wait()
	memory = server.memory() - before
	for _, c := range open {
		if c != nil {
			opened++
			c.Close()
		}
	}
	return opened, memory
}

// heap returns how much memory this process uses. Stacks shrink by half at each collection.
func heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// resident returns how much of a process is in memory, 0 where that can't be told.
func resident(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, pages int64
	_, _ = fmt.Sscan(string(data), &size, &pages)
	return pages * int64(os.Getpagesize())
}

type state struct {
	Text  string             `json:"text"`
	Words graph.List[string] `json:"words"`
}

// ours starts a server of this module.
func ours(data string) (running, error) {
	b := graph.New[state]("three")
	last := graph.Start
	for _, name := range []string{"one", "two", "three"} {
		b.AddNode(name, func(_ context.Context, s *state) error {
			s.Words.Add(name)
			return nil
		})
		b.AddEdge(last, name)
		last = name
	}
	g, err := b.AddEdge(last, graph.End).Compile()
	if err != nil {
		return running{}, err
	}
	ctx := context.Background()
	s, err := server.New(ctx, server.Graph(g), server.Data(data), server.Logger(slog.New(slog.DiscardHandler)), server.WithLimits(server.Limits{OpenRuns: -1, OpenRunsPerUser: -1, Streams: -1, StreamsPerClient: -1}))
	if err != nil {
		return running{}, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return running{}, err
	}
	h := &http.Server{Handler: s}
	go func() { _ = h.Serve(l) }()
	return running{"http://" + l.Addr().String(), heap, func() {
		h.Close()
		if err := s.Close(ctx); err != nil {
			log.Print(err)
		}
	}}, nil
}

// theirs starts the reference's server.
func theirs(dir string) (running, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return running{}, err
	}
	addr := l.Addr().(*net.TCPAddr)
	l.Close()
	cmd := exec.Command("node", "server.mjs", fmt.Sprint(addr.Port))
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	if err := cmd.Start(); err != nil {
		return running{}, err
	}
	stop := func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	url := "http://" + addr.String()
	for range 300 {
		if r, err := post(url+"/runs/wait", `{"assistant_id":"three","input":{"text":"x"}}`); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body.Close()
			return running{url, func() int64 { return resident(cmd.Process.Pid) }, stop}, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	return running{}, errors.New("it did not start: run npm install in " + dir)
}
