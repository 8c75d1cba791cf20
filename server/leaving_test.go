package server_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/server"
)

// leaving is a client that goes away. The server finds out by its context, or when
// it writes or flushes, whichever comes first.
type leaving struct {
	*httptest.ResponseRecorder
	write, flush error
}

func (l *leaving) Write(p []byte) (int, error) {
	if l.write != nil {
		return 0, l.write
	}
	return l.ResponseRecorder.Write(p)
}

func (l *leaving) FlushError() error { return l.flush }

func TestARunIsCancelledHoweverItIsNoticedThatItsClientLeft(t *testing.T) {
	gone := errors.New("connection reset by peer")
	for _, path := range []string{"/runs/stream", "/runs/wait"} {
		for name, w := range map[string]*leaving{
			"by writing":     {httptest.NewRecorder(), gone, nil},
			"by flushing":    {httptest.NewRecorder(), nil, gone},
			"by its context": {httptest.NewRecorder(), nil, nil},
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				t.Parallel()
				s, h, c := begun(t, server.Graph(slow(t)), quiet())
				defer h.Close()
				defer s.Close(context.Background())
				thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if w.write == nil && w.flush == nil {
					go func() {
						defer leave()
						for len(call[[]object](c, "GET", "/threads/"+thread+"/runs", nil)) == 0 && !t.Failed() {
							time.Sleep(time.Millisecond)
						}
					}()
				}
				r := httptest.NewRequestWithContext(ctx, "POST", "/threads/"+thread+path, strings.NewReader(`{"assistant_id":"slow","input":{"todo":4000},"on_disconnect":"cancel"}`))
				r.Header.Set("Content-Type", "application/json")
				r.Host = strings.TrimPrefix(h.URL, "http://")
				s.ServeHTTP(w, r)
				run := call[[]object](c, "GET", "/threads/"+thread+"/runs", nil)[0]["run_id"].(string)
				call[any](c, "GET", "/threads/"+thread+"/runs/"+run+"/join", nil)
				if got := call[object](c, "GET", "/threads/"+thread+"/runs/"+run, nil)["status"]; got != "interrupted" {
					t.Errorf("the run is %v (the client got %d)", got, w.Code)
				}
			})
		}
	}
}
