package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/tool/mcp"
)

type fullDisk struct{ n atomic.Int32 }

func (d *fullDisk) Write([]byte) (int, error) {
	d.n.Add(1)
	return 0, errors.New("no space left on device")
}

// Who keeps the log fails, and not the server.
func TestAServerOutlivesALogThatCanNotBeWritten(t *testing.T) {
	cmd := command("noisy")
	disk := &fullDisk{}
	cmd.Stderr = disk
	c := connect(t, mcp.Config{Transport: cmd})
	pid := text(t, get(t, c, "pid"), "")
	for range 3 {
		if got := text(t, get(t, c, "shout"), ""); got != "done" {
			t.Error(got)
		}
	}
	if again := text(t, get(t, c, "pid"), ""); again != pid || disk.n.Load() == 0 {
		t.Errorf("the process was %s and is %s, after %d writes", pid, again, disk.n.Load())
	}
}

// raw answers the older protocol by hand.
func raw(t *testing.T, result string) mcp.HTTP {
	return web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(405)
			return
		}
		body, _ := io.ReadAll(r.Body)
		var req struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &req)
		if req.ID == nil {
			w.WriteHeader(202)
			return
		}
		res := result
		switch req.Method {
		case "initialize":
			res = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
		case "tools/list":
			res = `{"tools":[{"name":"f","inputSchema":{"type":"object"}}]}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, res)
	}))
}

// spoken answers the older protocol by hand: each request's method and parameters
// with what a function returns.
func spoken(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, id, method string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(405)
			return
		}
		var req struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&req)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case req.ID == nil:
			w.WriteHeader(202)
		case req.Method == "initialize":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`, req.ID)
		default:
			answer(w, r, string(req.ID), req.Method)
		}
	})
}

func TestAListOfEmptyPagesIsNotFollowedForEver(t *testing.T) {
	pages := 0
	h := web(t, spoken(t, func(w http.ResponseWriter, _ *http.Request, id, _ string) {
		pages++
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[],"nextCursor":"%d"}}`, id, pages)
	}))
	c := connect(t, mcp.Config{Transport: h, Protocol: "2025-06-18"})
	if _, err := c.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "doesn't end: 0 so far, on 1000 pages") || pages != 1000 {
		t.Errorf("after %d pages: %v", pages, err)
	}
}

func TestAnAnswerWithoutEndIsNotReadToIt(t *testing.T) {
	var sent atomic.Int64
	h := web(t, spoken(t, func(w http.ResponseWriter, _ *http.Request, id, _ string) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"`, id)
		more := []byte(strings.Repeat("a", 1<<20))
		for ; sent.Load() < 200; sent.Add(1) {
			if _, err := w.Write(more); err != nil {
				return
			}
		}
	}))
	c := connect(t, mcp.Config{Transport: h, Protocol: "2025-06-18"})
	if _, err := c.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "its answer is larger than 16777216 bytes") || sent.Load() >= 200 {
		t.Errorf("after %d MB: %v", sent.Load(), err)
	}
}

// What the model is told says something.
func TestAFailureWithABlankTextIsExplained(t *testing.T) {
	for _, result := range []string{`{"content":[{"type":"text","text":" "}],"isError":true}`, `{"isError":true}`} {
		c := connect(t, mcp.Config{Transport: raw(t, result), Protocol: "2025-06-18"})
		_, err := get(t, c, "f").Call(t.Context(), nil)
		if want := `tool "f": the server says that it failed, and not why`; err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", result, err, want)
		}
	}
}
