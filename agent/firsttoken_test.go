package agent_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
)

// BenchmarkFirstToken measures the time from the moment at which a server sends
// the first token to the one at which the program has it: read off the
// connection, from the model, and from the stream of an agent with and without
// a checkpointer. It reports the median.
func BenchmarkFirstToken(b *testing.B) {
	sent := make(chan time.Time, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		time.Sleep(2 * time.Millisecond) // the model thinks
		sent <- time.Now()
		fmt.Fprint(w, `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"}}]}`+"\n\n")
		w.(http.Flusher).Flush()
		fmt.Fprint(w, `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	defer server.Close()
	m := openai.New("m", openai.BaseURL(server.URL))
	request := &model.Request{Messages: []chat.Message{chat.User("hi")}}
	store, err := sqlite.Open(filepath.Join(b.TempDir(), "b.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	streamed := func(opts ...graph.Option) func(i int) (time.Time, error) {
		a, err := agent.New(agent.ReAct[agent.State]{Model: m}, opts...)
		if err != nil {
			b.Fatal(err)
		}
		return func(i int) (first time.Time, err error) {
			for _, err := range a.Thread(fmt.Sprint(i)).Stream(b.Context(), a.Input(agent.Ask[agent.State]("hi")), graph.Modes(graph.ModeMessages)) {
				if err != nil {
					return first, err
				}
				if first.IsZero() {
					first = time.Now()
				}
			}
			return first, nil
		}
	}
	for _, c := range []struct {
		name string
		run  func(i int) (time.Time, error)
	}{
		{"the connection", func(int) (first time.Time, err error) {
			resp, err := http.Post(server.URL, "application/json", nil)
			if err != nil {
				return first, err
			}
			defer resp.Body.Close()
			if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
				return first, err
			}
			first = time.Now()
			_, err = io.Copy(io.Discard, resp.Body)
			return first, err
		}},
		{"the model", func(int) (first time.Time, err error) {
			for _, err := range m.Stream(b.Context(), request) {
				if err != nil {
					return first, err
				}
				if first.IsZero() {
					first = time.Now()
				}
			}
			return first, nil
		}},
		{"an agent", streamed()},
		{"an agent on SQLite", streamed(graph.WithCheckpointer(store))},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				first, err := c.run(i)
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, first.Sub(<-sent))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs/first-token")
		})
	}
}
