package serve_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/sdk/worker"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
	"github.com/superstep-dev/superstep/temporal"
	"github.com/superstep-dev/superstep/temporal/serve"
)

// quiet forgets what the environment of whoever runs the tests says of Temporal.
func quiet(t *testing.T) {
	t.Helper()
	for _, name := range []string{"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_API_KEY", "TEMPORAL_TLS", "TEMPORAL_PROFILE", "TASK_QUEUE"} {
		t.Setenv(name, "") // which is put back
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
}

func nothing(t *testing.T) *graph.Graph[Report] {
	t.Helper()
	b := graph.New[Report]("nothing")
	b.AddNode("do", func(context.Context, *Report) error { return nil })
	g, err := b.AddEdge(graph.Start, "do").Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestWhatIsWrongWithTheFlagsIsSaidWithTheFix(t *testing.T) {
	local := cli.Server(server.Dispatch(func(w *fleet.Worker) (fleet.Dispatcher, error) { return fleet.NewLocal(w, fleet.LocalOptions{}) }))
	on := serve.OnTemporal(temporal.Options{}, worker.Options{})
	for name, tt := range map[string]struct {
		args []string
		env  map[string]string
		more []cli.Option
		code int
		says []string
	}{
		"no port":                  {[]string{"--temporal", "localhost"}, nil, nil, cli.ExitUsage, []string{`--temporal is "localhost", which is no HOST:PORT`, "--temporal localhost:7233"}},
		"a URL":                    {[]string{"--temporal", "http://localhost:7233"}, nil, nil, cli.ExitUsage, []string{"which is no HOST:PORT"}},
		"no number":                {[]string{"--temporal", "localhost:temporal"}, nil, nil, cli.ExitUsage, []string{"which is no HOST:PORT"}},
		"too large a port":         {[]string{"--temporal", "localhost:72330"}, nil, nil, cli.ExitUsage, []string{"which is no HOST:PORT"}},
		"no address":               {[]string{"--temporal", ""}, nil, nil, cli.ExitUsage, []string{"--temporal is empty", "leave the flag out"}},
		"a wrong variable":         {nil, map[string]string{"TEMPORAL_ADDRESS": "localhost"}, nil, cli.ExitUsage, []string{`TEMPORAL_ADDRESS is "localhost"`}},
		"no queue":                 {[]string{"--temporal", "localhost:7233", "--task-queue", ""}, nil, nil, cli.ExitUsage, []string{"--task-queue is empty"}},
		"a queue alone":            {[]string{"--task-queue", "q"}, nil, nil, cli.ExitUsage, []string{"--task-queue is for --temporal, which is missing", "TEMPORAL_ADDRESS"}},
		"a namespace alone":        {[]string{"--temporal-namespace", "n"}, nil, nil, cli.ExitUsage, []string{"--temporal-namespace is for --temporal"}},
		"no such profile":          {[]string{"--temporal", "localhost:7233"}, map[string]string{"TEMPORAL_PROFILE": "cloud"}, nil, cli.ExitUsage, []string{"profile cloud", "TEMPORAL_CONFIG_FILE"}},
		"no certificate":           {[]string{"--temporal", "localhost:7233"}, map[string]string{"TEMPORAL_TLS_CLIENT_CERT_PATH": "none.pem"}, nil, cli.ExitUsage, []string{"TLS", "TEMPORAL_…"}},
		"two dispatchers":          {[]string{"--temporal", "localhost:7233"}, nil, []cli.Option{local}, cli.ExitUsage, []string{"--temporal has Temporal do the runs, and they have a dispatcher already", "leave out"}},
		"two, by the environment":  {nil, map[string]string{"TEMPORAL_ADDRESS": "localhost:7233"}, []cli.Option{local}, cli.ExitUsage, []string{"TEMPORAL_ADDRESS has Temporal do the runs"}},
		"the option twice":         {nil, nil, []cli.Option{on}, cli.ExitError, []string{"cli.ServeFlags defines --temporal", "given twice"}},
		"nobody there":             {[]string{"--temporal", "127.0.0.1:1"}, nil, nil, cli.ExitError, []string{"dialling Temporal at 127.0.0.1:1", "does it run there?"}},
		"nobody there, with a key": {[]string{"--temporal", "127.0.0.1:1"}, map[string]string{"TEMPORAL_API_KEY": "the-secret"}, nil, cli.ExitError, []string{"dialling Temporal at 127.0.0.1:1"}},
		"nobody, by a resolver":    {[]string{"--temporal", "dns:///127.0.0.1:1"}, nil, nil, cli.ExitError, []string{"dialling Temporal at dns:///127.0.0.1:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			quiet(t)
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			args := append([]string{"serve", "--port", "0", "--store", "sqlite:" + filepath.Join(t.TempDir(), "a.db")}, tt.args...)
			var out, notes bytes.Buffer
			code := cli.Run(t.Context(), args, strings.NewReader(""), &out, &notes, append(tt.more, cli.Graph(nothing(t)), on)...)
			if code != tt.code || strings.Contains(notes.String(), "the-secret") {
				t.Errorf("%d, want %d: %s", code, tt.code, notes.String())
			}
			for _, want := range tt.says {
				if !strings.Contains(notes.String(), want) {
					t.Errorf("it doesn't say %q: %s", want, notes.String())
				}
			}
		})
	}
}

// Who has a key of Temporal's API, or says so, speaks TLS, as with all of Temporal's programs.
func TestTheEnvironmentSaysHowTemporalIsReached(t *testing.T) {
	const handshake, plain = 0x16, 'P' // the first byte of TLS, and of HTTP/2 without
	for name, tt := range map[string]struct {
		env  map[string]string
		want byte
	}{
		"nothing":    {nil, plain},
		"a key":      {map[string]string{"TEMPORAL_API_KEY": "the-secret"}, handshake},
		"TLS":        {map[string]string{"TEMPORAL_TLS": "true"}, handshake},
		"a profile":  {map[string]string{"TEMPORAL_PROFILE": "cloud"}, handshake},
		"not at all": {map[string]string{"TEMPORAL_PROFILE": "cloud", "TEMPORAL_TLS": "false"}, plain},
	} {
		t.Run(name, func(t *testing.T) {
			quiet(t)
			file := filepath.Join(t.TempDir(), "temporal.toml")
			if err := os.WriteFile(file, []byte("[profile.cloud]\napi_key = \"the-secret\"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("TEMPORAL_CONFIG_FILE", file)
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			first := make(chan byte, 1)
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					var b [1]byte
					_, _ = io.ReadFull(c, b[:])
					c.Close()
					select {
					case first <- b[0]:
					default:
					}
				}
			}()
			var out, notes bytes.Buffer
			args := []string{"serve", "--port", "0", "--store", "memory", "--temporal", l.Addr().String()}
			code := cli.Run(t.Context(), args, strings.NewReader(""), &out, &notes, cli.Graph(nothing(t)), serve.OnTemporal(temporal.Options{}, worker.Options{}))
			if got := <-first; code != cli.ExitError || got != tt.want || strings.Contains(notes.String(), "the-secret") {
				t.Errorf("%d, the first byte is %#x, want %#x: %s", code, got, tt.want, notes.String())
			}
		})
	}
}
