package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/server"
)

// soak is how long a server is under load, such as 15m; without it, some rounds.
const soak = "SUPERSTEP_SOAK"

// usage is what a process holds.
type usage struct {
	heap              uint64 // bytes in use after collecting garbage
	goroutines, files int
}

func used(s *server.Server) (u usage) {
	http.DefaultClient.CloseIdleConnections()
	server.Sweep(s)
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold goes with the second
	runtime.ReadMemStats(&m)
	files, _ := os.ReadDir("/proc/self/fd")
	return usage{m.HeapAlloc, runtime.NumGoroutine(), len(files)}
}

// After runs of all kinds, with clients that leave and threads that are removed, a
// server holds what it held before.
func TestAServerHoldsNothingAfterItsRuns(t *testing.T) {
	for _, data := range []string{"memory", "sqlite:" + filepath.Join(t.TempDir(), "threads.db")} {
		t.Run(data[:6], func(t *testing.T) {
			s := calm(t, server.Graph(bulky(t, 10, 20_000)), server.Data(data), server.WithLimits(server.Limits{Logs: 2 << 20}))
			c := client{t, "http://" + serveOn(t, s, func(*http.Server) {})}
			round := func() {
				var all sync.WaitGroup
				for i := range 8 {
					all.Go(func() { c.visit(i) })
				}
				all.Wait()
			}
			length, err := time.ParseDuration(os.Getenv(soak))
			for range 5 {
				round() // what is made once
			}
			before := used(s)
			end := time.Now().Add(length)
			for n := 0; n < 8 || err == nil && time.Now().Before(end); n++ {
				round()
			}
			var after usage
			defer func() { t.Logf("before %+v, after %+v", before, after) }()
			waitFor(t, fmt.Sprintf("what is held is what was: %+v", before), func() bool {
				after = used(s)
				// Databases may have opened the rest of the connections that they may have.
				return after.heap < before.heap+8<<20 && after.goroutines <= before.goroutines+30 && after.files <= before.files+30
			})
		})
	}
}

// visit is a client that runs something and removes what it made.
func (c client) visit(kind int) {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	send := func(method, path, body string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		return http.DefaultClient.Do(r)
	}
	all := func(method, path, body string) {
		if answer, err := send(method, path, body); err != nil {
			c.t.Error(err)
		} else {
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
	}
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	at, run := "/threads/"+thread, `{"assistant_id":"bulky","input":{},"stream_mode":["values","updates","tasks"]}`
	switch kind {
	case 0, 1: // cut off in the middle
		answer, err := send("POST", at+"/runs/stream", run)
		if err != nil {
			c.t.Error(err)
			return
		}
		_, _ = bufio.NewReader(answer.Body).ReadString('\n')
		answer.Body.Close()
	case 2:
		all("POST", at+"/runs/stream", run)
	case 3:
		all("POST", at+"/runs/wait", run)
		all("POST", "/threads/prune", `{"strategy":"keep_latest","thread_ids":["`+thread+`"]}`)
	case 4, 5: // in the background, and joined or not
		id := call[object](c, "POST", at+"/runs", object{"assistant_id": "bulky", "input": object{}, "stream_resumable": kind == 5})["run_id"].(string)
		if kind == 5 {
			all("GET", at+"/runs/"+id+"/stream", "")
		}
	case 6: // without a thread
		all("POST", "/runs/wait", run)
	case 7:
		all("POST", at+"/commands", `{"id":1,"method":"run.start","params":{"assistant_id":"bulky","input":{}}}`)
		all("GET", at+"/history", "")
	}
	all("DELETE", at, "")
}
