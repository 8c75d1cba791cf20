package snippets_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/server"
)

func TestDeploySnippets(t *testing.T) {
	g := noteGraph()

	//snippet:program
	program := []cli.Option{
		cli.Graph(g),
		cli.Server(
			server.Authorize(server.OwnedByUser()),
			server.AllowOrigins("https://chat.example.com"),
			server.WithLimits(server.Limits{OpenRunsPerUser: 20}),
		),
	}
	//snippet:end

	anna, ben := strings.Repeat("a", 64), strings.Repeat("b", 64)
	t.Setenv("SUPERSTEP_API_KEYS", "anna="+anna+",ben="+ben)
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, []string{"serve", "--port", "0", "--json", "--store", "memory"}, strings.NewReader(""), in, io.Discard, program...)
		in.Close()
	}()
	defer func() { stop(); <-ended }()
	var said struct{ URL string }
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	send := func(key, method, path, body string) int {
		r, err := http.NewRequestWithContext(ctx, method, said.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	const thread = "5f9e1f0e-94d8-4a5e-8a2e-3f2f0c6f2b12"
	if got := send(anna, "POST", "/threads", `{"thread_id":"`+thread+`"}`); got != 200 {
		t.Error("anna's thread:", got)
	}
	for key, want := range map[string]int{anna: 200, ben: 404, "guess": 401} {
		if got := send(key, "GET", "/threads/"+thread, ""); got != want {
			t.Errorf("%.4s gets %d, want %d", key, got, want)
		}
	}
}
