package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/superstep-dev/superstep/server"
)

func TestAnAnswerThatNobodyReadsIsCutOff(t *testing.T) {
	const size = 2 << 20 // more than sockets hold
	s := calm(t, server.Graph(bulky(t, 1, size)), server.WithLimits(server.Limits{ReaderTimeout: 50 * time.Millisecond}))
	var made struct {
		ID string `json:"thread_id"`
	}
	if err := json.Unmarshal([]byte(okay(t, s, "POST", "/threads", "{}")), &made); err != nil {
		t.Fatal(err)
	}
	thread := made.ID
	if w := quick(t.Context(), s, "POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"bulky","input":{}}`); w.Body.Len() < size {
		t.Fatalf("%d bytes: %.300s", w.Body.Len(), w.Body)
	}
	var open sync.WaitGroup
	at := serveOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer open.Done()
		s.ServeHTTP(w, r)
	}), func(h *http.Server) {
		h.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
			return ctx
		}
	})
	run := `{"assistant_id":"bulky","input":{},"stream_mode":"values"}`
	for _, request := range []string{
		"GET /threads/" + thread + "/state", "GET /threads/" + thread, "POST /threads/search",
		"POST /runs/wait " + run, "POST /runs/stream " + run, "POST /threads/" + thread + `/stream/events {"channels":["values"]}`,
	} {
		method, rest, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(rest, " ")
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		open.Add(1)
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
	}
	quick(t.Context(), s, "POST", "/threads/"+thread+"/runs/wait", run) // which the last one is told of
	done := make(chan struct{})
	go func() { open.Wait(); close(done) }()
	within(t, "all handlers have ended", done)
}

func TestAMessageHasToArrive(t *testing.T) {
	s := calm(t, server.WithLimits(server.Limits{BodyTimeout: 50 * time.Millisecond}))
	c := client{t, "http://" + serveOn(t, s, func(*http.Server) {})}
	p := c.dial(made(t, s)["thread"])
	half(t, p, 10_000)
	if _, _, err := p.conn.Read(t.Context()); err == nil {
		t.Error("the connection is kept")
	}
}

// half sends the beginning of a message.
func half(t *testing.T, p *page, n int) {
	t.Helper()
	w, err := p.conn.Writer(t.Context(), websocket.MessageText)
	if err == nil {
		_, err = io.WriteString(w, strings.Repeat(" ", n))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestOnlySoMuchIsOnItsWay(t *testing.T) {
	s := calm(t, server.WithLimits(server.Limits{BodiesPerClient: 100_000}))
	at := serveOn(t, s, func(*http.Server) {})
	c := client{t, "http://" + at}
	thread := made(t, s)["thread"]
	post := func(n int) (status int) {
		r, err := http.Post("http://"+at+"/threads", "application/json", strings.NewReader("{}"+strings.Repeat(" ", n)))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		return r.StatusCode
	}
	// Of a message and a body that arrive at once either may be the one too much: then
	// the message is sent again.
	var sent []*page
	for refused := 0; refused < 3; {
		if len(sent) == 0 || refused == 0 {
			sent = append(sent, c.dial(thread))
			half(t, sent[len(sent)-1], 95_000)
		}
		waitFor(t, "the message is there, or refused", func() bool {
			if post(50_000) != 429 {
				refused = 0
				return true
			}
			refused++
			return refused == 3
		})
	}
	if got := post(10); got != 200 {
		t.Errorf("a small body: %d", got)
	}
	q := c.dial(thread)
	half(t, q, 60_000)
	_, _, err := q.conn.Read(t.Context())
	if e := (websocket.CloseError{}); !errors.As(err, &e) || e.Code != websocket.StatusTryAgainLater || !strings.Contains(e.Reason, "100000") {
		t.Errorf("a message too many: %v", err)
	}
	for _, p := range sent {
		_ = p.conn.CloseNow()
	}
	waitFor(t, "what was held is free", func() bool { return post(50_000) == 200 })
}

func TestClientsCanOnlyLowerTheLimitOfSteps(t *testing.T) {
	s := calm(t, server.Graph(bulky(t, 20, 1))) // compiled with 30
	for limit, want := range map[int]int{100_000: 30, 5: 5} {
		body := fmt.Sprintf(`{"assistant_id":"bulky","input":{"n":-100},"config":{"recursion_limit":%d}}`, limit)
		w := quick(context.Background(), s, "POST", "/runs/wait", body)
		if got := w.Body.String(); !strings.Contains(got, fmt.Sprintf("GraphRecursionError\",\"message\":\"max iterations (%d) exceeded", want)) {
			t.Errorf("recursion_limit %d: %s", limit, got)
		}
	}
}
